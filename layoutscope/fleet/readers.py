"""Processes that read sources, as who asks sees them: each reads on as long as nothing went wrong in it.

What a source ends in must not depend on another. So a process that read anything but a complete source reads no other
one, nor one that has read :data:`MOST_SOURCES`, or took much memory; and what failed in a process that had read others
is for :mod:`layoutscope.fleet.attempt` to try again in a new one.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import tempfile
import threading
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

from layoutscope import system

if TYPE_CHECKING:
    from layoutscope.fleet.jobs import FleetJob, FleetLimits

FEW_THREADS: Final = {"POLARS_MAX_THREADS": "2", "OPENBLAS_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2"}
"""There is a process for each core already, and every thread takes address space."""

NOT_TOLD: Final = "MALLOC_TRIM_THRESHOLD_"
"""Dask has its workers give back each large buffer at once; a reader would ask for its pages anew each time."""

MOST_SOURCES: Final = 25
"""So many sources are read by one process: what it takes to start it is shared by them."""

MEMORY_PART: Final = 4
"""A process that took one part in so many of its memory is not used again."""

SAID_BYTES: Final = 4096
"""So much of what a process that broke off said is looked at."""

KILL_WAIT_S: Final = 10.0
"""So long the end of a process that was ended is waited for: where the system holds it, nobody can end it."""

START_WAIT_S: Final = 600.0
"""A process that has not begun by then is lost."""

LOST: Final = "the process that starts others broke off"


class Reader:
    """A process that reads one source after the other."""

    def __init__(self, limits: FleetLimits) -> None:
        self.limits, self.done, self.is_killed, self._is_begun = limits, 0, False, False
        self._jobs, self._its_jobs = socket.socketpair()
        self._watch, self._its_watch = socket.socketpair()
        self._said = tempfile.TemporaryFile()  # noqa: SIM115  (closed with the process)

    def begin(self, control: socket.socket) -> None:
        """Have the process made."""
        its = (self._its_jobs, self._its_watch)
        with suppress(OSError):
            socket.send_fds(control, [b"+"], [*(each.fileno() for each in its), self._said.fileno()])
            self._jobs.sendall(json.dumps(asdict(self.limits)).encode() + b"\n")
        for each in its:
            each.close()

    def read(self, job: FleetJob, work: Path) -> tuple[int | None, str]:
        """Have a source read.

        0 where it is done; else as of `returncode`; None where time was over.
        """
        begin = os.fstat(self._said.fileno()).st_size
        try:
            if self._is_ready() and self._has_done(job, work):
                return 0, ""
        except TimeoutError:
            self.kill()
            self._status()
            return None, ""
        except OSError:
            # It is over: how, is told next.
            pass
        code = self._status()
        if code is None:
            raise ConnectionError(LOST)
        end = os.fstat(self._said.fileno()).st_size
        words = os.pread(self._said.fileno(), SAID_BYTES, max(begin, end - SAID_BYTES))
        return code, words.decode("utf-8", "replace")

    def _is_ready(self) -> bool:
        """Wait until the process has begun, which is not counted as time of a source."""
        if self._is_begun:
            return True
        self._jobs.settimeout(START_WAIT_S)
        try:
            self._is_begun = bool(self._jobs.recv(1))
        except TimeoutError:
            raise ConnectionError(LOST) from None
        return self._is_begun

    def _has_done(self, job: FleetJob, work: Path) -> bool:
        self.done += 1
        self._jobs.settimeout(job.limits.seconds)
        self._jobs.sendall(json.dumps({**asdict(job), "work": str(work)}).encode() + b"\n")
        return bool(self._jobs.recv(1))

    def _status(self) -> int | None:
        """Wait for the end of the process; None where nobody tells of it."""
        with suppress(OSError, ValueError):
            self._watch.settimeout(KILL_WAIT_S)
            return int(self._watch.recv(64))
        return None

    def kill(self) -> None:
        """End the process, and those that it started."""
        self.is_killed = True
        with suppress(OSError):
            self._watch.sendall(b"-")

    def close(self) -> None:
        """End the process, which does nothing any more."""
        for each in (self._jobs, self._watch, self._said):
            each.close()


class Readers:
    """The processes that read sources now, so that all can be ended at once."""

    def __init__(self) -> None:
        self._working: set[Reader] = set()
        self._idle: list[Reader] = []
        self._lock, self._is_over = threading.Lock(), False
        self._control: socket.socket | None = None
        self._nursery: subprocess.Popen[bytes] | None = None

    def take(self, limits: FleetLimits) -> Reader:
        """Return a process that has these limits: one that waits for work, or a new one."""
        with self._lock:
            if self._is_over:
                raise InterruptedError("the batch was ended")
            fitting = next((each for each in self._idle if each.limits == limits), None)
            if fitting is not None:
                self._idle.remove(fitting)
            reader = fitting or Reader(limits)
            if fitting is None:
                reader.begin(self._controlled())
            self._working.add(reader)
            return reader

    def give(self, reader: Reader, *, is_sound: bool) -> None:
        """Take a process back."""
        with self._lock:
            self._working.discard(reader)
            if is_sound and not self._is_over and reader.done < MOST_SOURCES:
                self._idle.append(reader)
            else:
                reader.close()

    def end(self) -> None:
        """End all of them, and let no other one begin."""
        with self._lock:
            self._is_over = True
            for reader in self._working:
                reader.kill()
            for reader in self._idle:
                reader.close()
            self._idle.clear()
            self._leave()

    def _controlled(self) -> socket.socket:
        """Return the way to the process that makes the others, which is started where there is none."""
        system.need_copies()
        if self._nursery is None or self._control is None or self._nursery.poll() is not None:
            self._leave()
            nursery, place = f"{__package__}.nursery", str(Path(__file__).parents[2])
            paths = os.pathsep.join(filter(None, (place, os.environ.get("PYTHONPATH"))))
            around = {name: value for name, value in os.environ.items() if name != NOT_TOLD}
            its, self._control = socket.socketpair()
            self._nursery = subprocess.Popen(  # noqa: S603  (this interpreter, and a program of our own)
                system.part(nursery, "-P", "-m", nursery),
                stdin=its.fileno(),
                env={**around, **FEW_THREADS, "PYTHONPATH": paths},
                start_new_session=True,
            )
            its.close()
        return self._control

    def _leave(self) -> None:
        if self._control is not None:
            self._control.close()
        if self._nursery is not None:
            self._nursery.wait()
        self._control = self._nursery = None

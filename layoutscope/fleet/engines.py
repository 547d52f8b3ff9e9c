"""The processes that read the sources of a batch, and the engines that have :func:`attempt` called for each job.

What becomes of a source must not depend on another. A worker that read anything but a complete source reads no other
one, nor does one that has read :data:`MAX_SOURCES` or took much memory. A source that failed in a worker that had read
others is tried again in a new one. An engine yields documents in the order in which they are ready; a source that ends
its process is a row of the batch, as any other.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import tempfile
import threading
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, Protocol

from msgspec import to_builtins

from layoutscope import ownfiles, system
from layoutscope.bounded import OOM_WORDS
from layoutscope.errors import EXIT_FAILED, LayoutscopeError
from layoutscope.fleet.store import FleetFolder
from layoutscope.fleet.worker import CAPTURE, LACKS_MEMORY, RESULT, UNWRITTEN, outcome
from layoutscope.system import machine_memory_bytes
from layoutscope.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from layoutscope.fleet.jobs import FleetJob, FleetLimits


FEW_THREADS: Final = {"POLARS_MAX_THREADS": "2", "OPENBLAS_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2"}
"""There is a worker per core already, and every thread takes address space."""

NOT_PASSED_ON: Final = "MALLOC_TRIM_THRESHOLD_"
"""Dask sets this to have its workers return each large buffer at once; a reader would map its pages again each time."""

MAX_SOURCES: Final = 25
"""Sources that one worker reads: they share the time that it takes to start."""

MEMORY_PART: Final = 4
"""A worker that took more than one part in four of its memory limit is not used again."""

MAX_WORDS_BYTES: Final = 4096
"""The end of what a worker wrote before it broke off, in which the reason is looked for."""

KILL_WAIT_S: Final = 10.0
"""How long to wait for a killed worker: one that the system holds, in a read that never returns, cannot be ended."""

START_WAIT_S: Final = 600.0
"""How long a worker may take to load its modules. A source is not charged with it."""


class Worker:
    """A process that reads one source after the other."""

    def __init__(self, limits: FleetLimits) -> None:
        system.need_unix()
        self.limits, self.num_sources, self.is_killed, self._has_begun = limits, 0, False, False
        module, place = f"{__package__}.worker", str(Path(__file__).parents[2])
        paths = os.pathsep.join(filter(None, (place, os.environ.get("PYTHONPATH"))))
        environment = {name: value for name, value in os.environ.items() if name != NOT_PASSED_ON}
        self._words = tempfile.TemporaryFile()  # noqa: SIM115  (closed with the process)
        self._jobs, its = socket.socketpair()
        self.process = subprocess.Popen(  # noqa: S603  (this interpreter, and a program of our own)
            system.part(module, "-P", "-m", module),
            stdin=its.fileno(),
            stdout=its.fileno(),
            stderr=self._words,
            env={**environment, **FEW_THREADS, "PYTHONPATH": paths},
            start_new_session=True,
        )
        its.close()
        with suppress(OSError):  # one that ended at once is noticed when it is to read
            self._send(to_builtins(limits))

    def read(self, job: FleetJob, work: Path) -> tuple[int | None, str]:
        """Read a source; return 0, or the code and last words of a worker that ended; None if time was over."""
        begin = os.fstat(self._words.fileno()).st_size
        try:
            self._has_begun = self._has_begun or self._is_answered(START_WAIT_S)
            if self._has_begun:
                self.num_sources += 1
                self._send({**to_builtins(job), "work": str(work)})
                if self._is_answered(job.limits.seconds):
                    return 0, ""
        except TimeoutError:
            self.kill()
            if not self._has_begun:
                raise LayoutscopeError(f"its process has not started within {START_WAIT_S:g} s") from None
            return None, ""
        except OSError:
            pass  # the worker has ended: its code says how
        code = self._wait()
        end = os.fstat(self._words.fileno()).st_size
        words = os.pread(self._words.fileno(), MAX_WORDS_BYTES, max(begin, end - MAX_WORDS_BYTES))
        return code, words.decode("utf-8", "replace")

    def _send(self, document: dict[str, Any]) -> None:
        self._jobs.sendall(json.dumps(document).encode() + b"\n")

    def _is_answered(self, seconds: float) -> bool:
        """Wait for the byte that says that the worker is ready for another source; False where it has ended."""
        self._jobs.settimeout(seconds)
        return bool(self._jobs.recv(1))

    def _wait(self) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            return self.process.wait(KILL_WAIT_S)
        return None

    def kill(self) -> None:
        """End the process and those that it started, whatever it does; another thread may wait for it in `read`."""
        self.is_killed = True
        self._end_group()

    def close(self) -> None:
        """End the process, which has nothing to do any more."""
        self._end_group()
        self._wait()
        self._jobs.close()
        self._words.close()

    def _end_group(self) -> None:
        # Once the process is gone its number may be another's. What it left behind ends with the socket.
        with suppress(OSError):
            if self.process.poll() is None:
                os.killpg(self.process.pid, signal.SIGKILL)


class WorkerPool:
    """The workers of this process: those that read now, and those that wait for a source."""

    def __init__(self) -> None:
        self._working: set[Worker] = set()
        self.idle: list[Worker] = []
        self._lock, self._is_over = threading.Lock(), False

    def take(self, limits: FleetLimits) -> Worker:
        """Return a worker that has these limits: one that waits, or a new one."""
        with self._lock:
            if self._is_over:
                raise InterruptedError("the batch was ended")
            worker = next((each for each in self.idle if each.limits == limits), None)
            if worker is not None:
                self.idle.remove(worker)
            else:
                worker = Worker(limits)
            self._working.add(worker)
            return worker

    def give(self, worker: Worker, *, is_sound: bool) -> None:
        """Take a worker back."""
        with self._lock:
            self._working.discard(worker)
            is_kept = is_sound and not self._is_over and worker.num_sources < MAX_SOURCES
            if is_kept:
                self.idle.append(worker)
        if not is_kept:
            worker.close()

    def end(self) -> None:
        """End all workers, and start no other one."""
        with self._lock:
            self._is_over = True
            for worker in self._working:
                worker.kill()
            for worker in self.idle:
                worker.close()
            self.idle.clear()


def attempt(job: FleetJob, workers: WorkerPool | None = None) -> dict[str, Any]:
    """Read a source, and put its capture and its row into the batch's folder."""
    folder, began = FleetFolder(Path(job.folder)), monotonic()
    source, key = job.source, job.key()  # as it was before it was read
    try:
        work = folder.new_work(source.identifier)
    except OSError as error:
        return row_document(job, outcome("failed", EXIT_FAILED, _describe_unwritten(error)), key)
    try:
        if source.refused or source.failed:
            status = "refused" if source.refused else "failed"
            found = outcome(status, EXIT_FAILED, f"{source.shown}: {source.refused or source.failed}")
        else:
            found = _read_by_worker(job, work, workers)
        document = row_document(job, {**found, "seconds": monotonic() - began}, key)
        folder.commit(document, work / CAPTURE)
    except OSError as error:
        document = row_document(job, outcome("failed", EXIT_FAILED, _describe_unwritten(error)), key)
    except LayoutscopeError as error:
        document = row_document(job, outcome("failed", EXIT_FAILED, str(error)), key)
    finally:
        ownfiles.remove_folder(work)
    return document


def row_document(job: FleetJob, found: dict[str, Any], key: dict[str, Any] | None = None) -> dict[str, Any]:
    """Make the document of a row."""
    return {"source": job.source.identifier, "path": job.source.path, "key": key or job.key(), **found}


def _describe_unwritten(error: OSError) -> str:
    return f"{UNWRITTEN}: {(error.strerror or str(error)).lower()}"


def _read_by_worker(job: FleetJob, work: Path, workers: WorkerPool | None) -> dict[str, Any]:
    """Have a worker read the source; return what it wrote, or what became of it."""
    pool = workers or WorkerPool()
    try:
        while True:
            worker = pool.take(job.limits)
            has_read, found = worker.num_sources > 0, None
            try:
                found = _outcome_of(job, work, *worker.read(job, work))
            finally:
                pool.give(worker, is_sound=_is_sound(found, job))
            if found["status"] != "failed" or not has_read or worker.is_killed:
                return found
            ownfiles.empty_folder(work)
    except InterruptedError as error:
        return outcome("failed", EXIT_FAILED, str(error))
    finally:
        if workers is None:
            pool.end()


def _is_sound(found: dict[str, Any] | None, job: FleetJob) -> bool:
    """Whether a process may read another source after this one."""
    if found is None or found["status"] != "complete":
        return False
    return (found.get("peak_memory_bytes") or 0) * MEMORY_PART < job.limits.memory_bytes


def _outcome_of(job: FleetJob, work: Path, code: int | None, words: str) -> dict[str, Any]:
    """Return what a worker made of a source."""
    limit = format_bytes(job.limits.memory_bytes)
    if code is None:
        ownfiles.empty_folder(work)
        return outcome("failed", EXIT_FAILED, f"took longer than {job.limits.seconds:g} s, and was ended")
    try:
        found: dict[str, Any] = json.loads((work / RESULT).read_text("utf-8"))
    except (OSError, ValueError):
        if any(word in words.lower() for word in OOM_WORDS) or "MemoryError" in words:
            return outcome("failed", EXIT_FAILED, f"{LACKS_MEMORY}: limited to {limit}")
        return outcome("failed", EXIT_FAILED, f"its process broke off: {_how(code, words)}")
    if found["message"] == LACKS_MEMORY:
        found["message"] = f"{LACKS_MEMORY}: limited to {limit}"
    return found


def _how(code: int, words: str) -> str:
    """Say how a process ended, with the last line that it said."""
    last = next((line.strip() for line in reversed(words.splitlines()) if line.strip()), "")
    try:
        ended = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    except ValueError:
        ended = f"signal {-code}"
    return f"{ended}, {last}" if last else ended


USUAL_MEMORY_BYTES: Final = 2 * 1024**3
"""A process may have this much at least, or there are fewer of them."""

MEMORY_SHARE: Final = 0.8
"""So much of this machine's memory is shared out."""


class FleetEngine(Protocol):
    """Has jobs done."""

    def run(self, jobs: Sequence[FleetJob]) -> Iterator[dict[str, Any]]:
        """Yield the document of each job when it is done; ends all of them where nobody wants more."""


class LocalEngine:
    """So many processes on this machine; a thread here waits for each."""

    def __init__(self, workers: int) -> None:
        self._workers = workers

    def run(self, jobs: Sequence[FleetJob]) -> Iterator[dict[str, Any]]:
        """Yield the document of each job when it is done."""
        pool = WorkerPool()
        with ThreadPoolExecutor(self._workers, thread_name_prefix="layoutscope batch") as threads:
            # A few at a time: what is done and was handed on is not kept.
            left = iter(jobs)
            begin = partial(threads.submit, partial(attempt, workers=pool))
            waiting = {begin(job) for job in islice(left, 2 * self._workers)}
            try:
                while waiting:
                    done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                    waiting |= {begin(job) for job in islice(left, len(done))}
                    for each in done:
                        yield each.result()
            finally:
                for each in waiting:
                    each.cancel()
                pool.end()


def usual_workers() -> int:
    """Return how many sources are read at a time unless told otherwise: one a core, as far as memory goes."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, int(machine_memory_bytes() * MEMORY_SHARE) // USUAL_MEMORY_BYTES))


def usual_memory_bytes(workers: int) -> int:
    """Return what each of so many processes may take unless told otherwise."""
    return max(USUAL_MEMORY_BYTES, int(machine_memory_bytes() * MEMORY_SHARE) // workers)

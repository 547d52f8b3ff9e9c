"""One source read in a process of its own, watched from here: whatever it ends in becomes a row.

An engine calls :func:`attempt` wherever it likes: it needs the batch's folder and nothing that another process has.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from layoutscope.bounded import LACKING_WORDS
from layoutscope.errors import EXIT_FAILED
from layoutscope.fleet import child
from layoutscope.fleet.store import FleetFolder
from layoutscope.units import format_bytes

if TYPE_CHECKING:
    from layoutscope.fleet.jobs import FleetJob

FEW_THREADS: Final = {"POLARS_MAX_THREADS": "2", "OPENBLAS_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2"}
"""There is a process for each core already, and every thread takes address space."""

SAID_BYTES: Final = 4096
"""So much of what a process that broke off said is looked at."""


class Children:
    """The processes that read sources now, so that all can be ended at once."""

    def __init__(self) -> None:
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock, self._is_over = threading.Lock(), False

    def run(self, job: FleetJob, work: Path, said: Any) -> int | None:
        """Run a process until it ends or its time is over.

        Parameters
        ----------
        job : FleetJob
            What it does.
        work : Path
            Where it writes.
        said : file
            Takes what it says.

        Returns
        -------
        int or None
            As of :attr:`subprocess.Popen.returncode`; None where it was ended for its time.
        """
        place = str(Path(__file__).parents[2])
        paths = os.pathsep.join(filter(None, (place, os.environ.get("PYTHONPATH"))))
        around = {**os.environ, **FEW_THREADS, "TMPDIR": str(work), "PYTHONPATH": paths}
        command = [sys.executable, "-P", "-m", child.__name__]
        with self._lock:
            if self._is_over:
                return None
            process = subprocess.Popen(  # noqa: S603  (this interpreter, and a program of our own)
                command, stdin=subprocess.PIPE, stdout=said, stderr=said, env=around, start_new_session=True
            )
            self._running.add(process)
        try:
            asked = {**asdict(job), "work": str(work)}
            with suppress(BrokenPipeError):
                os.write(process.stdin.fileno(), json.dumps(asked).encode() + b"\n")  # type: ignore[union-attr]
            return process.wait(job.limits.seconds)
        except subprocess.TimeoutExpired:
            return None
        finally:
            _end(process)
            with self._lock:
                self._running.discard(process)

    def end(self) -> None:
        """End all of them, and let no other one begin."""
        with self._lock:
            self._is_over = True
            for process in self._running:
                _kill(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and those that it started: they are one group."""
    with suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        _kill(process)
    process.wait()
    if process.stdin is not None:
        with suppress(OSError):
            process.stdin.close()


def attempt(job: FleetJob, children: Children | None = None) -> dict[str, Any]:
    """Read a source, and put its capture and its row into the batch's folder.

    Parameters
    ----------
    job : FleetJob
        What is read.
    children : Children, optional
        Who knows the process while it runs.

    Returns
    -------
    dict
        The row's document, as it was written; where it could not be written, it says so.
    """
    folder, began = FleetFolder(Path(job.folder)), monotonic()
    key = job.key()
    source = job.source
    try:
        work = folder.new_work(source.identifier)
    except OSError as error:
        return _document(job, key, child.outcome("failed", EXIT_FAILED, _unwritten(error)))
    try:
        if source.refused or source.failed:
            status = "refused" if source.refused else "failed"
            found = child.outcome(status, EXIT_FAILED, f"{source.shown}: {source.refused or source.failed}")
        else:
            found = _read(job, work, children or Children())
        document = _document(job, key, {**found, "seconds": monotonic() - began})
        folder.commit(document, work / child.CAPTURE)
    except OSError as error:
        document = _document(job, key, child.outcome("failed", EXIT_FAILED, _unwritten(error)))
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return document


def _document(job: FleetJob, key: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    return {"source": job.source.identifier, "path": job.source.path, "key": key, **found}


def _unwritten(error: OSError) -> str:
    return f"its results cannot be written: {(error.strerror or str(error)).lower()}"


def _read(job: FleetJob, work: Path, children: Children) -> dict[str, Any]:
    """Have a process read the source; what it wrote, or what became of it."""
    with tempfile.TemporaryFile(dir=work) as said:
        code = children.run(job, work, said)
        said.seek(max(0, said.seek(0, os.SEEK_END) - SAID_BYTES))
        words = said.read().decode("utf-8", "replace")
    limit = format_bytes(job.limits.memory_bytes)
    if code is None:
        return child.outcome("failed", EXIT_FAILED, f"took longer than {job.limits.seconds:g} s, and was ended")
    try:
        found: dict[str, Any] = json.loads((work / child.RESULT).read_text("utf-8"))
    except (OSError, ValueError):
        if any(word in words.lower() for word in LACKING_WORDS) or "MemoryError" in words:
            return child.outcome("failed", EXIT_FAILED, f"{child.LACKS_MEMORY}: limited to {limit}")
        return child.outcome("failed", EXIT_FAILED, f"its process broke off: {_how(code, words)}")
    if found["message"] == child.LACKS_MEMORY:
        found["message"] = f"{child.LACKS_MEMORY}: limited to {limit}"
    return found


def _how(code: int, words: str) -> str:
    """Say how a process ended, with the last line that it said."""
    last = next((line.strip() for line in reversed(words.splitlines()) if line.strip()), "")
    try:
        ended = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    except ValueError:
        ended = f"signal {-code}"
    return f"{ended}, {last}" if last else ended

"""Who has the sources of a batch read: anything that calls :func:`~layoutscope.fleet.engines.attempt` for each job.

An engine gives documents in the order in which they are ready. What it loses, such as a worker, it tries again itself;
a source that ends its process is no loss but a row. So a cluster of other machines has the same place as the processes
here.
"""

from __future__ import annotations

import json
import os
import signal
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from functools import partial
from itertools import islice
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, Protocol

from layoutscope import ownfiles
from layoutscope.bounded import LACKING_WORDS
from layoutscope.errors import EXIT_FAILED, LayoutscopeError
from layoutscope.fleet.readers import CAPTURE, LACKS_MEMORY, MEMORY_PART, RESULT, UNWRITTEN, Readers, outcome
from layoutscope.fleet.store import FleetFolder
from layoutscope.system import machine_memory_bytes
from layoutscope.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from layoutscope.fleet.jobs import FleetJob


TRIES: Final = 3
"""So often a source is tried where its process was lost without a fault of its own."""


def attempt(job: FleetJob, readers: Readers | None = None) -> dict[str, Any]:
    """Read a source, and put its capture and its row into the batch's folder."""
    folder, began = FleetFolder(Path(job.folder)), monotonic()
    source, key = job.source, job.key()  # as it was before it was read
    try:
        work = folder.new_work(source.identifier)
    except OSError as error:
        return row_document(job, outcome("failed", EXIT_FAILED, _unwritten(error)), key)
    try:
        if source.refused or source.failed:
            status = "refused" if source.refused else "failed"
            found = outcome(status, EXIT_FAILED, f"{source.shown}: {source.refused or source.failed}")
        else:
            found = _read(job, work, readers)
        document = row_document(job, {**found, "seconds": monotonic() - began}, key)
        folder.commit(document, work / CAPTURE)
    except OSError as error:
        document = row_document(job, outcome("failed", EXIT_FAILED, _unwritten(error)), key)
    except LayoutscopeError as error:
        document = row_document(job, outcome("failed", EXIT_FAILED, str(error)), key)
    finally:
        ownfiles.remove_folder(work)
    return document


def row_document(job: FleetJob, found: dict[str, Any], key: dict[str, Any] | None = None) -> dict[str, Any]:
    """Make the document of a row."""
    return {"source": job.source.identifier, "path": job.source.path, "key": key or job.key(), **found}


def _unwritten(error: OSError) -> str:
    return f"{UNWRITTEN}: {(error.strerror or str(error)).lower()}"


def _read(job: FleetJob, work: Path, readers: Readers | None) -> dict[str, Any]:
    """Have a process read the source; what it wrote, or what became of it."""
    known, lost = readers or Readers(), 0
    try:
        while True:
            reader = known.take(job.limits)
            is_used, found = reader.done > 0, None
            try:
                found = _ended(job, work, *reader.read(job, work))
            except ConnectionError as error:
                lost += 1
                if lost == TRIES or reader.is_killed:
                    return outcome("failed", EXIT_FAILED, str(error))
            finally:
                known.give(reader, is_sound=_is_sound(found, job))
            if found is not None and (found["status"] != "failed" or not is_used or reader.is_killed):
                return found
            ownfiles.empty_folder(work)
    except InterruptedError as error:
        return outcome("failed", EXIT_FAILED, str(error))
    finally:
        if readers is None:
            known.end()


def _is_sound(found: dict[str, Any] | None, job: FleetJob) -> bool:
    """Whether a process may read another source after this one."""
    if found is None or found["status"] != "complete":
        return False
    return (found.get("peak_memory_bytes") or 0) * MEMORY_PART < job.limits.memory_bytes


def _ended(job: FleetJob, work: Path, code: int | None, words: str) -> dict[str, Any]:
    """Say what a process made of a source."""
    limit = format_bytes(job.limits.memory_bytes)
    if code is None:
        ownfiles.empty_folder(work)
        return outcome("failed", EXIT_FAILED, f"took longer than {job.limits.seconds:g} s, and was ended")
    try:
        found: dict[str, Any] = json.loads((work / RESULT).read_text("utf-8"))
    except (OSError, ValueError):
        if any(word in words.lower() for word in LACKING_WORDS) or "MemoryError" in words:
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
        readers = Readers()
        with ThreadPoolExecutor(self._workers, thread_name_prefix="layoutscope batch") as pool:
            # A few at a time: what is done and was handed on is not kept.
            left = iter(jobs)
            begin = partial(pool.submit, partial(attempt, readers=readers))
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
                readers.end()


def usual_workers() -> int:
    """Return how many sources are read at a time unless told otherwise: one a core, as far as memory goes."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, int(machine_memory_bytes() * MEMORY_SHARE) // USUAL_MEMORY_BYTES))


def usual_memory_bytes(workers: int) -> int:
    """Return what each of so many processes may take unless told otherwise."""
    return max(USUAL_MEMORY_BYTES, int(machine_memory_bytes() * MEMORY_SHARE) // workers)

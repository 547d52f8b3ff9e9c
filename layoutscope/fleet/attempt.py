"""One source read in a process of its own, watched from here: whatever it ends in becomes a row.

An engine calls :func:`attempt` wherever it likes: it needs the batch's folder and nothing that another process has.
"""

from __future__ import annotations

import json
import signal
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from layoutscope import ownfiles
from layoutscope.bounded import LACKING_WORDS
from layoutscope.errors import EXIT_FAILED, LayoutscopeError
from layoutscope.fleet import child
from layoutscope.fleet.readers import MEMORY_PART, Readers
from layoutscope.fleet.store import FleetFolder
from layoutscope.units import format_bytes

if TYPE_CHECKING:
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
        return row_document(job, child.outcome("failed", EXIT_FAILED, _unwritten(error)), key)
    try:
        if source.refused or source.failed:
            status = "refused" if source.refused else "failed"
            found = child.outcome(status, EXIT_FAILED, f"{source.shown}: {source.refused or source.failed}")
        else:
            found = _read(job, work, readers)
        document = row_document(job, {**found, "seconds": monotonic() - began}, key)
        folder.commit(document, work / child.CAPTURE)
    except OSError as error:
        document = row_document(job, child.outcome("failed", EXIT_FAILED, _unwritten(error)), key)
    except LayoutscopeError as error:
        document = row_document(job, child.outcome("failed", EXIT_FAILED, str(error)), key)
    finally:
        ownfiles.remove_folder(work)
    return document


def row_document(job: FleetJob, found: dict[str, Any], key: dict[str, Any] | None = None) -> dict[str, Any]:
    """Make the document of a row."""
    return {"source": job.source.identifier, "path": job.source.path, "key": key or job.key(), **found}


def _unwritten(error: OSError) -> str:
    return f"{child.UNWRITTEN}: {(error.strerror or str(error)).lower()}"


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
                    return child.outcome("failed", EXIT_FAILED, str(error))
            finally:
                known.give(reader, is_sound=_is_sound(found, job))
            if found is not None and (found["status"] != "failed" or not is_used or reader.is_killed):
                return found
            ownfiles.empty_folder(work)
    except InterruptedError as error:
        return child.outcome("failed", EXIT_FAILED, str(error))
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

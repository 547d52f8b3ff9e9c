"""The process that reads the sources of a batch one by one: ``python -m layoutscope.fleet.worker``.

:class:`~layoutscope.fleet.engines.Worker` starts it and sends a line per source to its standard input. A byte on
standard output reports that the worker is ready for a source. The process ends when standard input ends.
"""

from __future__ import annotations

import gc
import json
import os
import queue
import signal
import sys
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from layoutscope import memory, ownfiles
from layoutscope.errors import (
    EXIT_COMPLETE,
    EXIT_DAMAGED,
    EXIT_FAILED,
    EXIT_USAGE,
    FormatError,
    ImageError,
    LayoutscopeError,
    LockedError,
    OutputError,
    UnsupportedError,
    UsageError,
    reason_of,
)
from layoutscope.fleet.limits import limit_process, peak_memory_bytes, reset_peak_memory
from layoutscope.inputs import is_address

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from layoutscope.findings import Finding
    from layoutscope.results.scan import ScanResult, VolumeScan


RESULT: Final = "result.json"
CAPTURE: Final = "capture.lscope"
LACKS_MEMORY: Final = "not enough memory"
UNWRITTEN: Final = "its results cannot be written"

ERROR_OUTCOMES: Final[tuple[tuple[Any, tuple[str, int]], ...]] = (
    (LockedError, ("locked", EXIT_DAMAGED)),
    (FormatError, ("damaged", EXIT_FAILED)),
    (UsageError, ("refused", EXIT_USAGE)),
    ((UnsupportedError, ImageError), ("refused", EXIT_FAILED)),
    (LayoutscopeError, ("failed", EXIT_FAILED)),
)
"""Status of a source and exit code of its scan, by error; an `ImageError` means that the source is not an image."""


def read_source(path: str, options: Mapping[str, Any], work: Path) -> dict[str, Any]:
    """Scan a source, save a capture into an empty folder, and return the result of the source."""
    try:
        # Opening an unreadable file raises the system's reason; the scan would say that it is not an image.
        if not is_address(path) and not os.path.isdir(path):  # noqa: PTH112  (names may be no UTF-8)
            os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
        return _scan_and_save(path, dict(options), work)
    except MemoryError:
        return outcome("failed", EXIT_FAILED, LACKS_MEMORY)
    except LayoutscopeError as error:
        status, code = next(ends for kinds, ends in ERROR_OUTCOMES if isinstance(error, kinds))
        # A refusal of the system, such as a full disk or a missing permission, says nothing about the image.
        cause = error.__cause__
        if isinstance(cause, OSError) and not isinstance(error, FormatError):
            status = "failed"
            if isinstance(error, OutputError):
                return outcome(status, code, f"{UNWRITTEN}: {reason_of(cause)}")
        return outcome(status, code, error.typed)
    except OSError as error:
        return outcome("failed", EXIT_FAILED, f"{path}: {reason_of(error)}")


def outcome(status: str, exit_code: int, message: str = "") -> dict[str, Any]:
    """Return the result of a source about which nothing else is known."""
    return {"status": status, "exit_code": exit_code, "message": message}


def _scan_and_save(path: str, options: dict[str, Any], work: Path) -> dict[str, Any]:
    from layoutscope.api.save import save
    from layoutscope.api.scan import scan

    locked: list[str] = []
    orders, hash_names = options.pop("orders"), options.pop("hash_names")
    result = scan(path, identify=True, on_locked=locked.append, **options)
    save(result, work / CAPTURE, hash_names=hash_names)
    tables = _make_tables(result, orders, options)
    return {**_describe_outcome(result, locked), **tables}


def _describe_outcome(result: ScanResult, locked: list[str]) -> dict[str, Any]:
    """Describe how a scan ended: its status, a message and the figures of the image."""
    from layoutscope.results.locked import is_locked

    # A locked volume has a warning that is not damage.
    findings = [item for item in result.findings if item.level != "info"]
    for volume in result.parts:
        levels = ("error",) if is_locked(volume.layout) else ("error", "warning")
        findings += [item for item in volume.findings if item.level in levels]
    worst = [item for item in findings if item.level == "error"] or findings
    is_damaged = result.exit_code != EXIT_COMPLETE and bool(worst)
    if locked and not is_damaged:
        ending = outcome("locked", EXIT_DAMAGED, locked[0])
    elif result.exit_code == EXIT_COMPLETE:
        ending = outcome("complete", EXIT_COMPLETE)
    else:
        ending = outcome("damaged", result.exit_code, worst[0].message if worst else "not all metadata was read")
    image = result.image
    figures = {"coverage": result.coverage, "image_bytes": image.size_bytes, "read_bytes": image.read_bytes}
    return {**ending, **figures, "metadata_sha256": image.metadata_sha256}


def _make_tables(result: ScanResult, orders: list[str], options: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    from layoutscope.results.scan import volume_names
    from layoutscope.tables.frames import FRAMES

    names = volume_names([volume.layout for volume in result.parts])
    metrics = result.rows("metrics").part(slice(None))
    findings: list[tuple[str, Finding]] = [("", item) for item in result.findings]
    rows: dict[str, list[dict[str, Any]]] = {"volumes": [], "predictions": []}
    for name, volume in zip(names, result.parts, strict=True):
        facts = volume.layout.facts
        plain = ("filesystem", "variant", "name", "uuid", "view", "image_offset", "size_bytes", "block_size_bytes")
        counts = ("num_files", "num_directories", "metadata_known_bytes", "metadata_read_bytes", "case_sensitive")
        attributes = {item: getattr(facts, item) for item in (*plain, *counts)}
        rows["volumes"].append(
            {"volume": name, "number": facts.volume, "features": ", ".join(facts.features), **attributes}
        )
        rows["predictions"] += [{"volume": name, **row} for row in _predict_orders(volume, orders, options)]
        findings += [(name, item) for item in volume.findings]
    fields = [column.name for column in FRAMES["faults"][1:-1]]
    rows["metrics"] = [dict(zip(metrics, values, strict=True)) for values in zip(*metrics.values(), strict=True)]
    rows["findings"] = [{"volume": name, **{each: getattr(item, each) for each in fields}} for name, item in findings]
    return rows


def _predict_orders(volume: VolumeScan, orders: list[str], options: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Predict each order on each drive that is large enough; the scan's own walk is one of the orders."""
    from layoutscope.api.keywords import profiles_of
    from layoutscope.api.workloads import check_workload, fits, prediction, unknowns_of, walk

    if volume.walk is None:
        return
    profiles = profiles_of(options.get("drives"))
    for order in orders:
        request = check_workload({"host": volume.walk.host, "order": order})
        reads = volume.walk.trace if order == volume.walk.order else walk(volume.layout, request).reads
        unknowns = unknowns_of(request)
        known = {item.drive: item for item in volume.predictions if order == volume.walk.order}
        for profile in (each for each in profiles if fits(each, reads)):
            time = known.get(profile.name) or prediction(volume.layout, reads, profile, unknowns)
            yield {
                "order": order,
                "host": volume.walk.host,
                "drive": profile.name,
                "seconds": time.seconds,
                "seconds_low": time.seconds_low,
                "seconds_high": time.seconds_high,
                "reads": len(reads),
                "read_bytes": int(reads.length_bytes.sum()),
            }


def main() -> None:
    """Read a line with limits, then a line per job, and run the jobs one by one."""
    requests, replies = os.fdopen(os.dup(0), "rb"), os.dup(1)
    # Libraries may print to standard output, where only the ready byte belongs.
    os.dup2(2, 1)
    with open(os.devnull, "rb") as nothing:  # noqa: PTH123
        os.dup2(nothing.fileno(), 0)
    if not (limits := requests.readline()):
        return
    gc.set_threshold(memory.GARBAGE_AFTER_OBJECTS)
    limit_process(**json.loads(limits))
    jobs: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def receive() -> None:
        try:
            for line in requests:
                jobs.put(line)
        finally:
            # Standard input has ended, or was reset because its owner ended before it read the ready byte. The worker
            # leads its process group, so this ends its children as well.
            os.killpg(0, signal.SIGKILL)

    threading.Thread(target=receive, daemon=True).start()
    while True:
        os.write(replies, b".")
        job = json.loads(jobs.get())
        work = Path(job["work"])
        tempfile.tempdir = os.environ["TMPDIR"] = str(work)
        reset_peak_memory()
        try:
            os.chdir(job["at"])
            document = read_source(job["path"], job["options"], work)
        except OSError as error:
            document = outcome("failed", EXIT_FAILED, f"{job['at']}: {reason_of(error)}")
        document["peak_memory_bytes"] = peak_memory_bytes()
        with ownfiles.new_file(work / RESULT, {}) as file:
            file.write(json.dumps(document).encode())
        sys.stdout.flush()


if __name__ == "__main__":
    main()

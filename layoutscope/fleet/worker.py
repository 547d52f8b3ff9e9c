"""The process that reads the sources of a batch, one after the other: ``python -m layoutscope.fleet.worker``.

:class:`~layoutscope.fleet.engines.Worker` starts it and asks for each source in a line on standard input; a byte on
standard output says that the source is done. The process ends when standard input ends.
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
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from layoutscope import bounded, ownfiles
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
from layoutscope.inputs import is_address

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import BinaryIO

    from layoutscope.findings import Finding
    from layoutscope.results.scan import ScanResult, VolumeScan


RESULT: Final = "result.json"
CAPTURE: Final = "capture.lscope"
FORGET_PEAK: Final = "5"
"""The value that Linux expects for that, see proc(5)."""

LACKS_MEMORY: Final = "not enough memory"
UNWRITTEN: Final = "its results cannot be written"

ENDS: Final[tuple[tuple[Any, tuple[str, int]], ...]] = (
    (LockedError, ("locked", EXIT_DAMAGED)),
    (FormatError, ("damaged", EXIT_FAILED)),
    (UsageError, ("refused", EXIT_USAGE)),
    ((UnsupportedError, ImageError), ("refused", EXIT_FAILED)),
    (LayoutscopeError, ("failed", EXIT_FAILED)),
)
"""What errors make of a source, and the exit code of its scan: an `ImageError` says that something is not an image
here."""


def read_source(
    path: str,
    options: Mapping[str, Any],
    work: Path,  # an empty folder, which takes the capture
) -> dict[str, Any]:
    """Scan a source, save a capture, and say what was found."""
    try:
        # What cannot be read says so itself; what follows would call it no image.
        if not is_address(path) and not os.path.isdir(path):  # noqa: PTH112  (names may be no UTF-8)
            os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
        return _scan_and_save(path, dict(options), work)
    except MemoryError:
        return outcome("failed", EXIT_FAILED, LACKS_MEMORY)
    except LayoutscopeError as error:
        status, code = next(ends for kinds, ends in ENDS if isinstance(error, kinds))
        # What the system refuses, such as room on a disk or the right to read, says nothing of the image.
        cause = error.__cause__
        if isinstance(cause, OSError) and not isinstance(error, FormatError):
            status = "failed"
            if isinstance(error, OutputError):
                return outcome(status, code, f"{UNWRITTEN}: {reason_of(cause)}")
        return outcome(status, code, error.typed)
    except OSError as error:
        return outcome("failed", EXIT_FAILED, f"{path}: {reason_of(error)}")


def outcome(status: str, exit_code: int, message: str = "") -> dict[str, Any]:
    """Describe how reading a source ended, where nothing else is known of it."""
    return {"status": status, "exit_code": exit_code, "message": message}


def _scan_and_save(path: str, options: dict[str, Any], work: Path) -> dict[str, Any]:
    from layoutscope.api.save import save
    from layoutscope.api.scan import scan

    locked: list[str] = []
    orders, hash_names = options.pop("orders"), options.pop("hash_names")
    result = scan(path, identify=True, on_locked=locked.append, **options)
    save(result, work / CAPTURE, hash_names=hash_names)
    tables = _tables(result, orders, options)
    return {**_describe_end(result, locked), **tables}


def _describe_end(result: ScanResult, locked: list[str]) -> dict[str, Any]:
    """Describe how a scan ended, in a word and in a line."""
    from layoutscope.results.locked import is_locked

    # That a volume is locked is a warning of it, and no damage.
    findings = [item for item in result.findings if item.level != "info"]
    for volume in result.parts:
        levels = ("error",) if is_locked(volume.layout) else ("error", "warning")
        findings += [item for item in volume.findings if item.level in levels]
    worst = [item for item in findings if item.level == "error"] or findings
    is_damaged = result.exit_code != EXIT_COMPLETE and bool(worst)
    if locked and not is_damaged:
        said = outcome("locked", EXIT_DAMAGED, locked[0])
    elif result.exit_code == EXIT_COMPLETE:
        said = outcome("complete", EXIT_COMPLETE)
    else:
        said = outcome("damaged", result.exit_code, worst[0].message if worst else "not all metadata was read")
    about = result.image
    counted = {"coverage": result.coverage, "image_bytes": about.size_bytes, "read_bytes": about.read_bytes}
    return {**said, **counted, "metadata_sha256": about.metadata_sha256}


def _tables(result: ScanResult, orders: list[str], options: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    from layoutscope.results.scan import volume_names
    from layoutscope.tables.frames import FRAMES

    names = volume_names([volume.layout for volume in result.parts])
    metrics = result.rows("metrics").part(slice(None))
    found: list[tuple[str, Finding]] = [("", item) for item in result.findings]
    rows: dict[str, list[dict[str, Any]]] = {"volumes": [], "predictions": []}
    for name, volume in zip(names, result.parts, strict=True):
        facts = volume.layout.facts
        plain = ("filesystem", "variant", "name", "uuid", "view", "image_offset", "size_bytes", "block_size_bytes")
        counts = ("num_files", "num_directories", "metadata_known_bytes", "metadata_read_bytes", "case_sensitive")
        told = {item: getattr(facts, item) for item in (*plain, *counts)}
        rows["volumes"].append({"volume": name, "number": facts.volume, "features": ", ".join(facts.features), **told})
        rows["predictions"] += [{"volume": name, **row} for row in _predict_each(volume, orders, options)]
        found += [(name, item) for item in volume.findings]
    fields = [column.name for column in FRAMES["faults"][1:-1]]
    rows["metrics"] = [dict(zip(metrics, values, strict=True)) for values in zip(*metrics.values(), strict=True)]
    rows["findings"] = [{"volume": name, **{each: getattr(item, each) for each in fields}} for name, item in found]
    return rows


def _predict_each(volume: VolumeScan, orders: list[str], options: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Serve each order on each drive that the volume fits on; the scan's own walk is one of them."""
    from layoutscope.api.keywords import profiles_of
    from layoutscope.api.predict import DEFAULT_DRIVES, fits
    from layoutscope.api.workloads import checked, host_of, prediction, walk
    from layoutscope.drive.uncertain import Host

    if volume.walk is None:
        return []
    profiles = profiles_of(options.get("drives"), DEFAULT_DRIVES)
    made = []
    for order in orders:
        work = checked({"host": volume.walk.host, "order": order})
        reads = volume.walk.trace if order == volume.walk.order else walk(volume.layout, work).reads
        said = Host.of(host_of(work))
        for profile in (each for each in profiles if fits(each, reads)):
            time = prediction(volume.layout, reads, profile, said)
            made.append(
                {
                    "order": order,
                    "host": volume.walk.host,
                    "drive": profile.name,
                    "seconds": time.seconds,
                    "seconds_low": time.seconds_low,
                    "seconds_high": time.seconds_high,
                    "reads": len(reads),
                    "read_bytes": int(reads.length_bytes.sum()),
                }
            )
    return made


def machine_memory_bytes() -> int:
    """Return the memory of this machine, which is a Unix."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def resident_bytes() -> int:
    """Return the memory of this machine that this process has now; its most so far where the system says no more."""
    try:
        with open("/proc/self/statm", "rb") as file:  # noqa: PTH123
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        import resource

        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def peak_memory_bytes() -> int | None:
    """Return the most memory that this process ever had in use; None if the system does not report it."""
    with suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/self/status").read_text("utf-8").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return None


def forget_peak_memory() -> None:
    """Reset the measurement, where the system can; otherwise the peak includes all earlier reads."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text(FORGET_PEAK, "utf-8")


def bound_process(limits: Mapping[str, Any]) -> None:
    """Bound what this process may take; what a system does not know is left."""
    try:
        import resource
    except ImportError:
        return
    wanted = {"AS": limits["memory_bytes"], "CORE": 0, "FSIZE": limits["written_bytes"]}
    for name, most in wanted.items():
        with suppress(AttributeError, ValueError, OSError):
            kind = getattr(resource, f"RLIMIT_{name}")
            if most is not None:
                resource.setrlimit(kind, (most, most))


def main() -> None:
    """Read one source after the other: a line with limits, then one with each job."""
    asked, answers = os.fdopen(os.dup(0), "rb"), os.dup(1)
    # Libraries print where they like: on standard output, too. Only the byte after each source belongs there.
    os.dup2(2, 1)
    with open(os.devnull, "rb") as nothing:  # noqa: PTH123
        os.dup2(nothing.fileno(), 0)
    if not (limits := asked.readline()):
        return
    gc.set_threshold(bounded.GARBAGE_AFTER_OBJECTS)
    bound_process(json.loads(limits))
    with bounded.own_process():
        _serve(asked, answers)


def _serve(asked: BinaryIO, answers: int) -> None:
    jobs: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(asked, jobs), daemon=True).start()
    while True:
        os.write(answers, b".")
        _work(json.loads(jobs.get()))


def _receive(asked: BinaryIO, jobs: queue.SimpleQueue[bytes]) -> None:
    """Queue the jobs, and end this process and those that it started when nobody asks any more."""
    for line in asked:
        jobs.put(line)
    # The worker leads its process group, which nobody waits for.
    os.killpg(0, signal.SIGKILL)


def _work(job: dict[str, Any]) -> None:
    work = Path(job["work"])
    tempfile.tempdir = os.environ["TMPDIR"] = str(work)
    forget_peak_memory()
    try:
        os.chdir(job["at"])
        document = read_source(job["source"]["path"], job["options"], work)
    except OSError as error:
        document = outcome("failed", EXIT_FAILED, f"{job['at']}: {reason_of(error)}")
    document["peak_memory_bytes"] = peak_memory_bytes()
    with ownfiles.new_file(work / RESULT, {}) as file:
        file.write(json.dumps(document).encode())
    sys.stdout.flush()


if __name__ == "__main__":
    main()

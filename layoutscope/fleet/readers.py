"""Processes that read sources, as who asks sees them: each reads on as long as nothing went wrong in it.

What a source ends in must not depend on another. So a process that read anything but a complete source reads no other
one, nor one that has read :data:`MOST_SOURCES`, or took much memory; and what failed in a process that had read others
is for :mod:`layoutscope.fleet.engines` to try again in a new one.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec import to_builtins

from layoutscope import bounded, ownfiles, system
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
)
from layoutscope.image.remote import is_address

if TYPE_CHECKING:
    from collections.abc import Mapping
    from io import BufferedIOBase

    from layoutscope.fleet.jobs import FleetJob, FleetLimits
    from layoutscope.results.scan import ScanResult, VolumeScan


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
            self._jobs.sendall(json.dumps(to_builtins(self.limits)).encode() + b"\n")
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
        self._jobs.sendall(json.dumps({**to_builtins(job), "work": str(work)}).encode() + b"\n")
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


RESULT: Final = "result.json"
CAPTURE: Final = "capture.lscope"
FORGET_PEAK: Final = "5"
"""What Linux is told for that, see proc(5)."""

LACKS_MEMORY: Final = "not enough memory"
UNWRITTEN: Final = "its results cannot be written"

ENDS: Final[tuple[tuple[Any, tuple[str, int]], ...]] = (
    (LockedError, ("locked", EXIT_DAMAGED)),
    (FormatError, ("damaged", EXIT_FAILED)),
    (UsageError, ("refused", EXIT_USAGE)),
    ((UnsupportedError, ImageError), ("refused", EXIT_FAILED)),
    (LayoutscopeError, ("failed", EXIT_FAILED)),
)
"""What errors make of a source, and the exit code of its scan: an `ImageError` says that something is no image here."""


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
        return _scanned(path, dict(options), work)
    except MemoryError:
        return outcome("failed", EXIT_FAILED, LACKS_MEMORY)
    except LayoutscopeError as error:
        status, code = next(ends for kinds, ends in ENDS if isinstance(error, kinds))
        # What the system refuses, such as room on a disk or the right to read, says nothing of the image.
        cause = error.__cause__
        if isinstance(cause, OSError) and not isinstance(error, FormatError):
            status = "failed"
            if isinstance(error, OutputError):
                return outcome(status, code, f"{UNWRITTEN}: {(cause.strerror or str(cause)).lower()}")
        return outcome(status, code, error.typed)
    except OSError as error:
        return outcome("failed", EXIT_FAILED, f"{path}: {(error.strerror or str(error)).lower()}")


def outcome(status: str, exit_code: int, message: str = "") -> dict[str, Any]:
    """Say how reading a source ended, where nothing else is known of it."""
    return {"status": status, "exit_code": exit_code, "message": message}


def _scanned(path: str, options: dict[str, Any], work: Path) -> dict[str, Any]:
    from layoutscope.api.save import save
    from layoutscope.api.scan import scan

    locked: list[str] = []
    orders, hash_names = options.pop("orders"), options.pop("hash_names")
    result = scan(path, identify=True, on_locked=locked.append, **options)
    save(result, work / CAPTURE, hash_names=hash_names)
    tables = _tables(result, orders, options)
    return {**_said(result, locked), **tables}


def _said(result: ScanResult, locked: list[str]) -> dict[str, Any]:
    """Say how a scan ended, in a word and in a line."""
    from layoutscope.results.locked import is_locked

    # That a volume is locked is a warning of it, and no damage.
    findings = [item for item in result.findings if item.level != "info"]
    for volume in result.volumes:
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
    from layoutscope.analysis.frames import volume_names

    rows: dict[str, list[dict[str, Any]]] = {"volumes": [], "metrics": [], "predictions": [], "findings": []}
    rows["findings"] += [{"volume": "", **_finding(item)} for item in result.findings]
    names = volume_names([volume.layout for volume in result.volumes])
    for name, volume in zip(names, result.volumes, strict=True):
        facts = volume.layout.facts
        plain = ("filesystem", "variant", "name", "uuid", "view", "image_offset", "size_bytes", "block_size_bytes")
        counts = ("num_files", "num_directories", "metadata_known_bytes", "metadata_read_bytes", "case_sensitive")
        told = {item: getattr(facts, item) for item in (*plain, *counts)}
        rows["volumes"].append({"volume": name, "number": facts.volume, "features": ", ".join(facts.features), **told})
        walked = volume.walk.metrics if volume.walk is not None else ()
        named = ("subject", "value", "unit", "denominator")
        rows["metrics"] += [
            {
                "volume": name,
                "metric": item.name,
                "title": item.definition.title,
                **{each: getattr(item, each) for each in named},
            }
            for item in (*volume.metrics, *walked)
        ]
        rows["predictions"] += [{"volume": name, **row} for row in _predicted(volume, orders, options)]
        rows["findings"] += [{"volume": name, **_finding(item)} for item in volume.findings]
    return rows


def _finding(item: Any) -> dict[str, Any]:
    names = ("level", "code", "structure", "field", "device", "image_offset", "message", "expected", "found")
    return {name: getattr(item, name) for name in names}


def _predicted(volume: VolumeScan, orders: list[str], options: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Serve each order on each drive that the volume fits on; the scan's own walk is one of them."""
    from layoutscope.api.keywords import profiles_of
    from layoutscope.api.predict import DEFAULT_DRIVES, fits
    from layoutscope.api.workloads import checked, host_of, quick_prediction, said_of, walk

    if volume.walk is None:
        return []
    profiles = profiles_of(options.get("drives"), DEFAULT_DRIVES)
    made = []
    for order in orders:
        work = checked({"host": options.get("host", "linux"), "order": order})
        reads = volume.walk.trace if order == volume.walk.order else walk(volume.layout, work).reads
        said = said_of(host_of(work))
        for profile in (each for each in profiles if fits(each, reads)):
            time = quick_prediction(volume.layout, reads, profile, said)
            made.append(
                {
                    "order": order,
                    "host": work.host,
                    "drive": profile.name,
                    "seconds": time.seconds,
                    "seconds_low": time.seconds_low,
                    "seconds_high": time.seconds_high,
                    "reads": len(reads),
                    "read_bytes": int(reads.length_bytes.sum()),
                }
            )
    return made


def peak_memory_bytes() -> int | None:
    """Return the most memory that this process ever had in use; None where the system does not tell."""
    with suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/self/status").read_text("utf-8").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return None


def forget_peak_memory() -> None:
    """Begin to measure anew, where the system does that; else the peak is that of all that was read so far."""
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


def serve_jobs(jobs: socket.socket) -> None:
    """Read one source after the other, as a socket asks: a line with limits, then one with each job."""
    lines = jobs.makefile("rb")
    limits = lines.readline()
    if limits:
        bound_process(json.loads(limits))
        bounded.run(partial(_serve, lines, jobs))


def _serve(lines: BufferedIOBase, jobs: socket.socket) -> None:
    jobs.sendall(b".")
    for line in lines:
        _work(json.loads(line))
        jobs.sendall(b".")
    # Threads of libraries are not waited for: everything is written.
    os._exit(EXIT_COMPLETE)


def _work(job: dict[str, Any]) -> None:
    work = Path(job["work"])
    tempfile.tempdir = os.environ["TMPDIR"] = str(work)
    forget_peak_memory()
    try:
        os.chdir(job["at"])
        document = read_source(job["source"]["path"], job["options"], work)
    except OSError as error:
        document = outcome("failed", EXIT_FAILED, f"{job['at']}: {(error.strerror or str(error)).lower()}")
    document["peak_memory_bytes"] = peak_memory_bytes()
    with ownfiles.new_file(work / RESULT, {}) as file:
        file.write(json.dumps(document).encode())
    sys.stdout.flush()

"""``drives measure``: the profile of a drive from timed reads of it; nothing is ever written to it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec.structs import replace

from layoutscope import inputs
from layoutscope.api.keywords import takes
from layoutscope.drive.calibration.fitting import HELD_BACK_ERROR, Calibrated, calibrate, describe, judge_log
from layoutscope.drive.calibration.plan import MAX_LOG_BYTES, SMALL, Calibration, read_log
from layoutscope.errors import UsageError, reason_of
from layoutscope.options import MeasureOptions
from layoutscope.units import format_seconds

if TYPE_CHECKING:
    import os
    from collections.abc import Callable
    from typing import Unpack

    from layoutscope.drive.calibration.plan import Readable, ReadLog

WALK_READS: Final = 300
LEAST_US: Final = 5
"""Quicker reads of 4 KiB come from no drive: the quickest there were, of Optane, took about twice as long."""


OF_A_FILE: Final = "The target was a file: the figures include the file system and all other layers above the drive."


@takes(MeasureOptions)
def measure(
    # the whole disk, such as `/dev/sdb`, on macOS `/dev/rdisk4`; opened for reading alone. For a file, the title, the
    # note and the log of the profile say that it is not a drive.
    device: Path | str,
    *,
    name: str = "measured",
    logged_to: Callable[[ReadLog], None] | None = None,
    **options: Unpack[MeasureOptions],
) -> Calibrated:
    """Measure a drive within a minute; with `quick`, its main figures in about five seconds."""
    from layoutscope.image.raw import DirectDrive

    reads = _walk(options.get("image"), options.get("start_offset_bytes", 0))
    drive = DirectDrive(Path(device))
    try:
        return measure_drive(drive, name, reads, logged_to, is_short=options.get("quick", False))
    finally:
        drive.close()


def measure_drive(
    drive: Readable,
    name: str,
    walk: list[tuple[int, int]],
    logged_to: Callable[[ReadLog], None] | None = None,
    *,
    is_short: bool = False,
) -> Calibrated:
    """Time reads of an open device."""
    if any(offset + length > drive.capacity_bytes for offset, length in walk):
        raise UsageError("the image is larger than the drive that it should be on")
    plan = Calibration(drive)
    try:
        found = calibrate(plan, name, walk, is_short=is_short)
    finally:
        if logged_to is not None and plan.rows:
            logged_to(plan.log)
    return add_note(found)


def fit_log(path: Path, name: str) -> Calibrated:
    """Make a profile of the log of a measurement, such as the kit for Macs makes."""
    try:
        text = inputs.read_text(path, max_bytes=MAX_LOG_BYTES)
    except OSError as error:
        reason = reason_of(error)
        raise UsageError(f"{path}: cannot be read as a log of a calibration: {reason}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: cannot be read as a log of a calibration") from error
    return fit_log_text(text, str(path), name)


def fit_log_text(text: str, source: str, name: str) -> Calibrated:
    """Make a profile of the text of such a log."""
    return add_note(judge_log(read_log(text, source), name))


def add_note(found: Calibrated) -> Calibrated:
    """Describe in the profile how it was measured, and how well it predicts the reads that were held back."""
    seconds = float(found.log.ns.sum()) / 1e9
    said = [OF_A_FILE] if found.log.is_file else []
    said += [f"Measured with {len(found.log):,} reads in {format_seconds(seconds)}."]
    said += describe(found.log, found.profile)
    of_walk = any(held.step == "walk" for held in found.held_back)
    what = "The predicted walk of the image is" if of_walk else "Reads all over the drive are"
    said.append(f"{what} known within {found.known:.1%}.")
    shortest_us = float(np.median(found.log.ns)) / 1000
    if shortest_us < LEAST_US:
        said.append(f"Half of them took under {shortest_us:.1f} us, as no drive does: memory answered, or holes did.")
    for held in found.held_back:
        what = "Reads anywhere" if held.step == "uniform" else "Reads of the image's walk"
        allowed = HELD_BACK_ERROR[held.step]
        verdict = "" if abs(held.ratio - 1) <= allowed else f", which is off by more than {allowed:.0%}: measure again"
        said.append(f"{what} that were held back took {held.ratio:.3f} times what was predicted{verdict}.")
    title = f"{found.profile.title} (a file, no drive)" if found.log.is_file else found.profile.title
    return replace(found, profile=replace(found.profile, title=title, note=" ".join(said)))


def list_mounted_parts(device: Path | str) -> list[str]:
    """Return the mounted parts of a device, as far as the system reports them."""
    from layoutscope.image.raw import list_mounted

    try:
        if sys.platform == "darwin":
            table = subprocess.run(["/sbin/mount"], capture_output=True, text=True, check=False).stdout
        else:
            table = Path("/proc/mounts").read_text()
    except OSError:
        return []
    return list_mounted(Path(device), table)


def _walk(image: str | os.PathLike[str] | None, start_offset_bytes: int) -> list[tuple[int, int]]:
    """Return the reads of an image's listing that are timed, from its middle, widened to whole units."""
    if image is None:
        return []
    from layoutscope.api.trace import trace

    reads = trace(image)
    first = max((len(reads) - WALK_READS) // 2, 0)
    offsets = reads.image_offset[first : first + WALK_READS] + start_offset_bytes
    stops = offsets + reads.length_bytes[first : first + WALK_READS]
    starts = offsets // SMALL * SMALL
    return list(zip(starts.tolist(), (-(-(stops - starts) // SMALL) * SMALL).tolist(), strict=True))

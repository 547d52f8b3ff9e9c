"""``drives``: the profiles, what is known of each, how they compare, and new ones from measurements.

Nothing is ever written to a drive that is measured.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec.structs import replace

from layoutscope import inputs
from layoutscope.access.trace import AccessTrace
from layoutscope.api.keywords import profiles_of, takes
from layoutscope.api.outputs import open_output, write_page
from layoutscope.drive import list_profiles, load_profile, service
from layoutscope.drive.calibration.fitting import HELD_BACK_ERROR, Calibrated, calibrate, describe, judge_log
from layoutscope.drive.calibration.plan import MAX_LOG_BYTES, SMALL, Calibration, read_log
from layoutscope.drive.profile import fit_latency, fit_rate, from_datasheet, from_fio, profile_text
from layoutscope.errors import UsageError, reason_of
from layoutscope.options import FitOptions, MeasureOptions, fill, flags_of, options_of
from layoutscope.results.predict import DriveFacts
from layoutscope.units import format_seconds

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping, Sequence
    from typing import Unpack

    from layoutscope.drive.calibration.plan import Readable, ReadLog
    from layoutscope.options import Drives

RANDOM_READS: Final = 2_000
"""Reads of the sample that latencies are taken from."""

SAMPLE_BYTES: Final = 4096
SEQUENTIAL_BYTES: Final = 64 << 20
LARGE_READ_BYTES: Final = 1 << 20


def drives(names: Drives = ()) -> tuple[DriveFacts, ...]:
    """Describe drive profiles.

    Parameters
    ----------
    names : str or sequence of str, default ()
        Profiles or TOML files, one or several; all that come with the package without any.

    Returns
    -------
    tuple of DriveFacts
        What is known of each, and what it makes of random and of sequential reads.

    Raises
    ------
    UsageError
        If there is no such profile.

    Examples
    --------
    >>> import layoutscope
    >>> (facts,) = layoutscope.drives("generic-7200")
    >>> 10 < facts.random_ms[0] < 15
    True
    """
    starts = np.arange(0, SEQUENTIAL_BYTES, LARGE_READ_BYTES)
    large_reads = AccessTrace.from_reads(starts, np.full(len(starts), LARGE_READ_BYTES))
    found = []
    for profile in profiles_of(names or list_profiles()):
        # Uniform random reads of 4 KiB over the whole drive, the same every time.
        blocks = np.random.default_rng(0).integers(0, profile.capacity_bytes // SAMPLE_BYTES, RANDOM_READS)
        random_reads = AccessTrace.from_reads(blocks * SAMPLE_BYTES, np.full(RANDOM_READS, SAMPLE_BYTES))
        latencies = service(random_reads, profile).reads_ms.service_ms
        found.append(
            DriveFacts(
                profile=profile,
                random_ms=tuple(float(np.percentile(latencies, p)) for p in (50, 90, 99)),
                sequential_mb_s=SEQUENTIAL_BYTES / 1e6 / service(large_reads, profile).seconds,
                latencies_ms=latencies,
            )
        )
    return tuple(found)


@takes(FitOptions)
def fit(name: str, **options: Unpack[FitOptions]) -> str:
    """Make a profile from a datasheet, from fio, or from a latency and a rate.

    Parameters
    ----------
    name : str
        Of the new profile.

    Returns
    -------
    str
        The profile's TOML text.

    Raises
    ------
    UsageError
        If no figure is given, or the figures do not describe a drive.

    Examples
    --------
    >>> import layoutscope
    >>> text = layoutscope.fit("mine", random_ms=14.0, rate_mb_s=180.0)
    >>> "measured by the user" in text
    True
    """
    asked = fill(FitOptions, options)
    base, source, fio, reads = asked["base"], asked["source"], asked["fio"], asked["reads"]
    random_ms, rate_mb_s = asked["random_ms"], asked["rate_mb_s"]
    if asked["datasheet"]:
        return profile_text(from_datasheet(name, title=name, source=source, **asked["datasheet"]))
    if reads is not None:
        return profile_text(fit_log(Path(reads), name).profile)
    profile = replace(load_profile(base), name=name)
    if fio is not None:
        try:
            profile = from_fio(_report(Path(fio)), profile, name=name)
        except (TypeError, ValueError, AttributeError, ArithmeticError) as error:
            raise UsageError(f"{fio}: is not a JSON report of fio: {error}") from error
    if random_ms is not None:
        profile = fit_latency(profile, random_ms, range_bytes=asked["random_range_bytes"], source=source)
    if rate_mb_s is not None:
        profile = fit_rate(profile, rate_mb_s, source=source)
    if fio is None and random_ms is None and rate_mb_s is None:
        known = options_of(FitOptions)
        flags = {each: flags_of(each, known[each])[0] for each in ("fio", "reads", "random_ms", "rate_mb_s")}
        named = ", ".join([*flags][:-1])
        raise UsageError(f"nothing to fit to. Give datasheet, {named} or rate_mb_s.", options=flags)
    # The note of the base does not apply to a drive that was fitted to other figures.
    note = f"Fitted to measured figures; all other figures are those of {base}."
    return profile_text(replace(profile, title=f"{name}, fitted", take_for="", note=note))


def _report(path: Path) -> Mapping[str, Any]:
    try:
        report = json.loads(inputs.read_text(path, max_bytes=inputs.MAX_PARSED_BYTES))
    except OSError as error:
        raise UsageError(f"{path}: is not a JSON report of fio: {reason_of(error)}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: is not a JSON report of fio") from error
    if not isinstance(report, dict):
        raise UsageError(f"{path}: is not a JSON report of fio")
    return report


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
    what = "The predicted walk of the image is" if "walk" in found.held_back else "Reads all over the drive are"
    said.append(f"{what} known within {found.known:.1%}.")
    shortest_us = float(np.median(found.log.ns)) / 1000
    if shortest_us < LEAST_US:
        said.append(f"Half of them took under {shortest_us:.1f} us, as no drive does: memory answered, or holes did.")
    for step, ratio in found.held_back.items():
        what = "Reads anywhere" if step == "uniform" else "Reads of the image's walk"
        allowed = HELD_BACK_ERROR[step]
        verdict = "" if abs(ratio - 1) <= allowed else f", which is off by more than {allowed:.0%}: measure again"
        said.append(f"{what} that were held back took {ratio:.3f} times what was predicted{verdict}.")
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


def write_text(text: str, path: Path, *, force: bool = False) -> None:
    """Write a profile, a log of reads or a page."""
    with open_output(path, force=force) as file:
        file.write(text.encode())


def write_drive_plot(drives: Sequence[DriveFacts], path: Path, *, force: bool = False) -> None:
    """Write the seek curves and latencies of drives as one page that needs no network."""
    from layoutscope.report.plots import drive_page

    write_page(path, lambda: drive_page(drives), force=force)

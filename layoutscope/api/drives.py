"""``drives``: the profiles, what is known of each, how they compare, and new ones from measurements."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec.structs import replace

from layoutscope import inputs
from layoutscope.access.trace import AccessTrace
from layoutscope.api.keywords import profiles_of, takes
from layoutscope.api.outputs import open_output, write_page
from layoutscope.drive import DriveProfile, list_profiles, load_profile, service
from layoutscope.drive.profile import fit_latency, fit_rate, from_datasheet, from_fio, profile_text
from layoutscope.errors import UsageError, reason_of
from layoutscope.options import FitOptions, fill
from layoutscope.results.predict import DriveFacts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Unpack

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
    return tuple(describe(profile) for profile in profiles_of(names or list_profiles()))


def describe(profile: DriveProfile) -> DriveFacts:
    """Describe one profile; latencies are those of its own simulation."""
    latencies = service(random_reads(profile), profile).reads_ms.service_ms
    starts = np.arange(0, SEQUENTIAL_BYTES, LARGE_READ_BYTES)
    sequential = service(AccessTrace.from_reads(starts, np.full(len(starts), LARGE_READ_BYTES)), profile)
    return DriveFacts(
        profile=profile,
        random_ms=tuple(float(np.percentile(latencies, p)) for p in (50, 90, 99)),
        sequential_mb_s=SEQUENTIAL_BYTES / 1e6 / sequential.seconds,
        latencies_ms=latencies,
    )


def random_reads(profile: DriveProfile) -> AccessTrace:
    """Make uniform random reads of 4 KiB over the whole drive, the same every time."""
    blocks = np.random.default_rng(0).integers(0, profile.capacity_bytes // SAMPLE_BYTES, RANDOM_READS)
    return AccessTrace.from_reads(blocks * SAMPLE_BYTES, np.full(RANDOM_READS, SAMPLE_BYTES))


@takes(FitOptions)
def fit(name: str, **options: Unpack[FitOptions]) -> str:
    """Make a profile from a datasheet, from fio, or from a latency and a rate.

    Parameters
    ----------
    name : str
        Of the new profile.
    **options
        See :class:`~layoutscope.options.FitOptions`. With a datasheet, by the names of
        :data:`layoutscope.drive.FIGURES`, or a log of reads the base is left aside.

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
        from layoutscope.api.measure import fit_log

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
        flags = {name: f"--{name.replace('_', '-')}" for name in ("fio", "reads", "random_ms", "rate_mb_s")}
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


def write_text(text: str, path: Path, *, force: bool = False) -> None:
    """Write a profile, a log of reads or a page."""
    with open_output(path, force=force) as file:
        file.write(text.encode())


def write_drive_plot(drives: Sequence[DriveFacts], path: Path, *, force: bool = False) -> None:
    """Write the seek curves and latencies of drives as one page that needs no network."""
    from layoutscope.report.plots import drive_page

    write_page(path, lambda: drive_page(drives), force=force)

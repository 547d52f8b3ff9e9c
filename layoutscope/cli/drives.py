"""What is measured of drives: ``layoutscope drives``, with ``fit`` and ``measure``, and ``kit`` for a whole Mac."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from layoutscope.cli.options import OUTPUT, AsJson, Force, StartOffset, byte_count
from layoutscope.cli.running import STANDARD_OUTPUT, Group, warn
from layoutscope.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from layoutscope.results.predict import DriveFacts


class FitOptions(Group):
    """What a new profile is made of."""

    panel = "Fitting a new profile"

    datasheet: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=NUMBER", show_default="none", help="A number of a datasheet, such as rpm=7200."),
    ] = None
    fio: Annotated[
        Path | None, typer.Option(metavar="FILE", show_default="none", help="Output of fio --output-format=json.")
    ] = None
    reads: Annotated[
        Path | None,
        typer.Option(metavar="FILE.csv", show_default="none", help="Log of timed reads, of 'measure' or of the kit."),
    ] = None
    random_ms: Annotated[
        float | None,
        typer.Option(metavar="MS", show_default="the base's", help="Median random 4 KiB read, as of ioping."),
    ] = None
    random_range: Annotated[
        str | None,
        typer.Option(metavar="BYTES", show_default="the whole drive", help="What part those random reads covered."),
    ] = None
    rate_mb_s: Annotated[
        float | None, typer.Option(metavar="MB/S", show_default="the base's", help="Sequential rate, as of dd.")
    ] = None
    base: Annotated[str, typer.Option(metavar="NAME", help="Profile that gives the rest.")] = "generic-7200"


class MeasureOptions(Group):
    """What goes with the measurement of a drive."""

    panel = "Measuring a drive"

    image: Annotated[
        str | None,
        typer.Option(
            metavar="IMAGE",
            show_default="none",
            help="measure: also time reads of its listing, and fit nothing to them.",
        ),
    ] = None
    start_offset: StartOffset = "0"
    log: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.csv", show_default="beside the profile", help="measure: where every read and its time goes."
        ),
    ] = None


class DriveFiles(Group):
    """Where plots of drives and new profiles go."""

    panel = OUTPUT

    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE.html", show_default="not drawn", help="Plot seek curves and latencies."),
    ] = None
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", metavar="FILE.toml", show_default=STANDARD_OUTPUT, help="fit, measure: where it goes."
        ),
    ] = None
    force: Force = False


def drives(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]...",
            show_default="all profiles",
            help="Profiles, model numbers or TOML files; 'fit NAME' and 'measure DEVICE' make one.",
        ),
    ] = None,
    *,
    as_json: AsJson = False,
    measured: FitOptions,
    measuring: MeasureOptions,
    files: DriveFiles,
) -> None:
    """List drive profiles, show one with its sources, compare several, or make one: fitted, or measured by reads."""
    from layoutscope.api.drives import drives as describe

    if names and names[0] == "measure":
        if len(names) != 2:
            raise UsageError("write: layoutscope drives measure DEVICE, with -o for the profile")
        _measure(names[1], measuring, files)
        return
    if names and names[0] == "fit":
        if len(names) != 2:
            raise UsageError("write: layoutscope drives fit NAME, with what it is fitted to")
        _write(_fitted(names[1], measured), files)
        return
    found = describe(names or ())
    if files.plot is not None:
        from layoutscope.api.drives import write_drive_plot

        write_drive_plot(found, files.plot, force=files.force)
    _show_drives(found, as_json=as_json)


def _fitted(name: str, measured: FitOptions) -> str:
    from layoutscope.api.drives import fit

    return fit(
        name,
        base=measured.base,
        datasheet=numbers(measured.datasheet),
        fio=measured.fio,
        reads=measured.reads,
        random_ms=measured.random_ms,
        random_range_bytes=byte_count(measured.random_range),
        rate_mb_s=measured.rate_mb_s,
    )


def _measure(device: str, asked: MeasureOptions, files: DriveFiles) -> None:
    """Measure a drive: its profile, the log of the reads, perhaps the plot."""
    from layoutscope.api.drives import write_text
    from layoutscope.api.measure import measure, mounted_parts
    from layoutscope.api.outputs import check_output
    from layoutscope.drive.fit import profile_text

    log = asked.log
    if files.output is not None:
        check_output(files.output, force=files.force, reads=[device])
        log = log or files.output.with_suffix(".reads.csv")
    for path in filter(None, (log, files.plot)):
        check_output(path, force=files.force, reads=[device])
    if Path(device).is_file():
        warn(f"{device} is a file: no drive is measured, but all that lies between")
    for part in mounted_parts(device):
        sys.stderr.write(f"layoutscope: {part} is mounted; what others read meanwhile disturbs the measurement\n")
    found = measure(
        device,
        name=files.output.stem if files.output else "measured",
        image=asked.image,
        start_offset_bytes=byte_count(asked.start_offset) or 0,
        logged_to=None if log is None else lambda reads: write_text(reads.text(), log, force=files.force),
    )
    _write(profile_text(found.profile), files)
    if files.plot is not None:
        from layoutscope.report.plots import calibration_page

        write_text(calibration_page(found), files.plot, force=files.force)
    sys.stderr.write(f"{found.profile.note}\n")


def numbers(figures: list[str] | None) -> dict[str, float]:
    """Read figures such as ``rpm=7200``."""
    found = {}
    for figure in figures or ():
        name, _, value = figure.partition("=")
        try:
            found[name] = float(value)
        except ValueError as error:
            raise UsageError(f"{figure!r} is no figure; write NAME=NUMBER, such as rpm=7200") from error
    return found


def _write(text: str, files: DriveFiles) -> None:
    """Write a profile to a file or to standard output."""
    if files.output is None:
        sys.stdout.write(text)
        return
    from layoutscope.api.drives import write_text

    write_text(text, files.output, force=files.force)


def _show_drives(found: Sequence[DriveFacts], *, as_json: bool) -> None:
    """Print profiles as JSON or as text."""
    if as_json:
        from layoutscope.report.json import list_json

        sys.stdout.write(list_json("layoutscope.drives/1", "drives", found) + "\n")
        return
    from layoutscope.report.text.console import make_console
    from layoutscope.report.text.predict import print_drives

    print_drives(found, make_console(sys.stdout))


class KitFile(Group):
    """Where the script goes."""

    panel = OUTPUT

    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE.sh", show_default=STANDARD_OUTPUT, help="Where the script goes."),
    ] = None
    force: Force = False


def kit(*, written: KitFile) -> None:
    """Write a shell script that measures on a Mac what its drive and its listings take (docs/kit.md)."""
    from layoutscope.api.kit import kit as script

    if written.output is None:
        sys.stdout.write(script())
        return
    from layoutscope.api.drives import write_text

    write_text(script(), written.output, force=written.force)

"""Drives: ``layoutscope drives``, its parts ``fit`` and ``measure``, and ``kit``, which measures a whole Mac."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from layoutscope.cli.parameters import PLOT, TO_FILE, AsJson
from layoutscope.cli.running import warn
from layoutscope.options import OUTPUT, FitOptions, Force, MeasureOptions, Option, fill

Profile = Annotated[Path | None, TO_FILE._replace(metavar="FILE.toml")]
DrivePlot = Annotated[Path | None, PLOT._replace(help="Plot seek curves and latencies.")]


def drives(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", show_default="all profiles", help="Profiles, model numbers or TOML files."),
    ] = None,
    *,
    as_json: AsJson = False,
    plot: DrivePlot = None,
    force: Force = False,
) -> None:
    """List, show or compare drive profiles."""
    from layoutscope.api.drives import drives as describe
    from layoutscope.api.drives import write_drive_plot

    found = describe(names or ())
    if plot is not None:
        write_drive_plot(found, plot, force=force)
    if as_json:
        from layoutscope.report.json import list_json

        sys.stdout.write(list_json("layoutscope.drives/1", "drives", found) + "\n")
    else:
        from layoutscope.report.text.console import make_console
        from layoutscope.report.text.predict import print_drives

        print_drives(found, make_console(sys.stdout))


def fit(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the new profile.")],
    *,
    output: Profile = None,
    force: Force = False,
    options: FitOptions,
) -> None:
    """Fit a drive profile to a data sheet, to fio, or to a random latency and a rate."""
    from layoutscope.api.drives import fit as run

    _write(run(name, **options), output, force=force)


def measure(
    device: Annotated[
        str, typer.Argument(metavar="DEVICE", help="Device, such as /dev/sdb or /dev/rdisk4. It is only read.")
    ],
    *,
    log: Annotated[
        Path | None,
        Option(
            "Output file for all reads and their times.",
            panel=OUTPUT,
            metavar="FILE.csv",
            absence="next to the profile",
        ),
    ] = None,
    plot: DrivePlot = None,
    output: Profile = None,
    force: Force = False,
    options: MeasureOptions,
) -> None:
    """Measure a drive in about a minute, and write its profile."""
    from layoutscope.api.drives import list_mounted_parts, write_text
    from layoutscope.api.drives import measure as run
    from layoutscope.api.outputs import check_output
    from layoutscope.drive.profile import profile_text

    if output is not None:
        check_output(output, force=force, reads=[device])
        log = log or output.with_suffix(".reads.csv")
    for path in filter(None, (log, plot)):
        check_output(path, force=force, reads=[device])
    if Path(device).is_file():
        warn(f"{device} is a file: the figures include the file system above the drive")
    for part in list_mounted_parts(device):
        sys.stderr.write(f"layoutscope: {part} is mounted; reads by other programs disturb the measurement\n")
    found = run(
        device,
        name=output.stem if output else "measured",
        logged_to=None if log is None else lambda reads: write_text(reads.text(), log, force=force),
        **fill(MeasureOptions, options),
    )
    _write(profile_text(found.profile), output, force=force)
    if plot is not None:
        from layoutscope.report.plots import calibration_page

        write_text(calibration_page(found), plot, force=force)
    sys.stderr.write(f"{found.profile.note}\n")


def _write(text: str, output: Path | None, *, force: bool) -> None:
    """Write a text to a file or to standard output."""
    if output is None:
        sys.stdout.write(text)
        return
    from layoutscope.api.drives import write_text

    write_text(text, output, force=force)


def kit(
    *,
    output: Annotated[Path | None, TO_FILE._replace(metavar="FILE.sh")] = None,
    warm: Annotated[
        bool,
        Option(
            "Write the short script: it times a listing on the computer in ten seconds, without sudo.", panel=OUTPUT
        ),
    ] = False,
    force: Force = False,
) -> None:
    """Write a shell script that measures drive and listings on a Mac (docs/drives.md)."""
    from layoutscope.api.validate import kit as script

    _write(script(warm=warm), output, force=force)

"""Measurements of drives: ``layoutscope drives``, with ``fit`` and ``measure``, and ``kit`` for a whole Mac."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from layoutscope.cli.options import AsJson
from layoutscope.cli.running import STANDARD_OUTPUT, warn
from layoutscope.errors import UsageError
from layoutscope.options import MEASURE, OUTPUT, DriveOptions, FitOptions, Force, MeasureOptions, Option, fill


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
    log: Annotated[
        Path | None,
        Option(
            "measure: output file for all reads and their times.",
            panel=MEASURE,
            metavar="FILE.csv",
            absence="next to the profile",
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        Option("Plot seek curves and latencies.", panel=OUTPUT, metavar="FILE.html", absence="not drawn"),
    ] = None,
    output: Annotated[
        Path | None,
        Option(
            "fit, measure: output file.",
            panel=OUTPUT,
            flag="-o --output",
            metavar="FILE.toml",
            absence=STANDARD_OUTPUT,
        ),
    ] = None,
    force: Force = False,
    options: DriveOptions,
) -> None:
    """List, show or compare drive profiles, or make one by fitting or measuring."""
    from layoutscope.api.drives import drives as describe
    from layoutscope.api.drives import fit, write_drive_plot

    if names and names[0] == "measure":
        if len(names) != 2:
            raise UsageError("write: layoutscope drives measure DEVICE, with -o for the profile")
        _measure(names[1], fill(MeasureOptions, options), log, output, plot, force=force)
    elif names and names[0] == "fit":
        if len(names) != 2:
            raise UsageError("write: layoutscope drives fit NAME, with what it is fitted to")
        if plot is not None:
            raise UsageError("--plot: fit draws nothing. Write the profile with -o FILE.toml, and plot that")
        _write(fit(names[1], **fill(FitOptions, options)), output, force=force)
    else:
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


def _measure(
    device: str, walk: MeasureOptions, log: Path | None, output: Path | None, plot: Path | None, *, force: bool
) -> None:
    """Measure a drive: its profile, the log of the reads, perhaps the plot."""
    from layoutscope.api.drives import write_text
    from layoutscope.api.measure import measure, mounted_parts
    from layoutscope.api.outputs import check_output
    from layoutscope.drive.fit import profile_text

    if output is not None:
        check_output(output, force=force, reads=[device])
        log = log or output.with_suffix(".reads.csv")
    for path in filter(None, (log, plot)):
        check_output(path, force=force, reads=[device])
    if Path(device).is_file():
        warn(f"{device} is a file: the figures include the file system above the drive")
    for part in mounted_parts(device):
        sys.stderr.write(f"layoutscope: {part} is mounted; what others read meanwhile disturbs the measurement\n")
    found = measure(
        device,
        name=output.stem if output else "measured",
        logged_to=None if log is None else lambda reads: write_text(reads.text(), log, force=force),
        **walk,
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
    output: Annotated[
        Path | None,
        Option("Output file.", panel=OUTPUT, flag="-o --output", metavar="FILE.sh", absence=STANDARD_OUTPUT),
    ] = None,
    warm: Annotated[
        bool,
        Option(
            "Write the short script: it times a listing on the computer in ten seconds, without sudo.", panel=OUTPUT
        ),
    ] = False,
    force: Force = False,
) -> None:
    """Write a shell script that measures drive and listings on a Mac (docs/kit.md)."""
    from layoutscope.api.validate import kit as script

    _write(script(warm=warm), output, force=force)

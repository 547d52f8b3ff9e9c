"""``layoutscope drives`` and ``layoutscope drives fit``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from layoutscope.cli.options import AsJson, Force
from layoutscope.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from layoutscope.results.predict import DriveFacts

Names = Annotated[
    list[str] | None,
    typer.Argument(metavar="[NAME]...", help="Profiles or TOML files; 'fit NAME' makes a new one."),
]
Figure = Annotated[
    list[str] | None, typer.Option("--figure", metavar="NAME=NUMBER", help="fit: a number of a datasheet; repeatable.")
]
Fio = Annotated[Path | None, typer.Option("--fio", metavar="FILE", help="fit: output of fio --output-format=json.")]
RandomMs = Annotated[float | None, typer.Option(metavar="MS", help="fit: median random 4 KiB read, as of ioping.")]
RateMbS = Annotated[float | None, typer.Option(metavar="MB/S", help="fit: sequential rate, as of dd.")]
Base = Annotated[str, typer.Option(metavar="NAME", help="fit: profile that gives the rest.")]
Plot = Annotated[Path | None, typer.Option("--plot", metavar="FILE.html", help="Plot seek curves and latencies.")]
Output = Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE.toml", help="fit: where to.")]


def drives(
    names: Names = None,
    *,
    as_json: AsJson = False,
    plot: Plot = None,
    figure: Figure = None,
    fio: Fio = None,
    random_ms: RandomMs = None,
    rate_mb_s: RateMbS = None,
    base: Base = "generic-7200",
    output: Output = None,
    force: Force = False,
) -> None:
    """List drive profiles, show one with its sources, compare several, or fit a new one to measurements."""
    from layoutscope.api.drives import drives as describe
    from layoutscope.api.drives import fit, write_drive_plot

    if names and names[0] == "fit":
        if len(names) != 2:
            raise UsageError("write: layoutscope drives fit NAME, with what it is fitted to")
        text = fit(names[1], base=base, figures=numbers(figure), fio=fio, random_ms=random_ms, rate_mb_s=rate_mb_s)
        _write(text, output, force=force)
        return
    found = describe(names or ())
    if plot is not None:
        write_drive_plot(found, plot, force=force)
    _show(found, as_json=as_json)


def numbers(figures: list[str] | None) -> dict[str, float]:
    """Read figures such as ``rpm=7200``.

    Raises
    ------
    UsageError
        If one is not of that form.
    """
    found = {}
    for figure in figures or ():
        name, _, value = figure.partition("=")
        try:
            found[name] = float(value)
        except ValueError as error:
            raise UsageError(f"{figure!r} is no figure; write NAME=NUMBER, such as rpm=7200") from error
    return found


def _write(text: str, target: Path | None, *, force: bool) -> None:
    """Write a profile to a file or to standard output."""
    if target is None:
        sys.stdout.write(text)
        return
    from layoutscope.api.outputs import output

    with output(target, force=force) as file:
        file.write(text.encode())


def _show(found: Sequence[DriveFacts], *, as_json: bool) -> None:
    """Print profiles as JSON or as text."""
    from layoutscope.report.json.predict import drives_json
    from layoutscope.report.text.console import make_console
    from layoutscope.report.text.predict import print_drives

    if as_json:
        sys.stdout.write(drives_json(found) + "\n")
    else:
        print_drives(found, make_console(sys.stdout))

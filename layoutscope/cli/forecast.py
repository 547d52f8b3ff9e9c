"""What will become of a volume: ``layoutscope forecast``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from layoutscope.cli.options import OUTPUT, WORKLOAD, AsJson, Drives, Force, HostOption, ReadingSeveral
from layoutscope.cli.running import Group, show

if TYPE_CHECKING:
    from layoutscope.options import Forecast


class Happening(Group):
    """What happens to a volume, and where the curves of it go."""

    panel = WORKLOAD

    cycles: Annotated[int, typer.Option(metavar="N", min=0, max=10_000, help="How many cycles are followed.")] = 20
    workload: Annotated[
        str,
        typer.Option(metavar="NAME", help="What a cycle does: replace, replace-directories, add, delete or mixed."),
    ] = "replace"
    share: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE", show_default="0.05, or what several images tell", help="Share of the files of a cycle."
        ),
    ] = None
    seeds: Annotated[int, typer.Option(metavar="N", min=1, help="How often what happens is drawn.")] = 4
    keep_snapshots: Annotated[
        int, typer.Option(metavar="N", min=0, help="How many cycles back snapshots hold what was replaced.")
    ] = 0
    drive: Drives = None
    host: HostOption = "linux"
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE.html", rich_help_panel=OUTPUT, show_default="not drawn", help="Draw the curves."),
    ] = None
    force: Force = False

    def asked(self) -> Forecast:
        """Return what was asked for, in the library's words."""
        return {
            "workload": self.workload,
            "share": self.share,
            "seeds": self.seeds,
            "keep_snapshots": self.keep_snapshots,
            "host": self.host,
        }


def forecast(
    images: Annotated[
        list[Path],
        typer.Argument(
            metavar="IMAGE...", help="Image or capture, or IMAGE:VOLUME; several of one volume, oldest first."
        ),
    ],
    *,
    happening: Happening,
    reading: ReadingSeveral,
    as_json: AsJson = False,
) -> None:
    """Say what a volume's layout and its enumeration will be like after some more cycles of work."""
    from layoutscope.api.forecast import forecast as run
    from layoutscope.api.forecast import write_forecast_plot
    from layoutscope.api.outputs import check_output

    if happening.plot is not None:
        check_output(happening.plot, force=happening.force, reads=images)
    found = run(images, cycles=happening.cycles, drives=happening.drive, **happening.asked(), **reading.asked())
    if happening.plot is not None:
        write_forecast_plot(found, happening.plot, force=happening.force)
    show(found, as_json=as_json)

"""Pages of plots, written as every output is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from layoutscope.api.outputs import output
from layoutscope.report.plots.drives import drive_page

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from layoutscope.results.drives import DriveFacts


def write_drive_plot(drives: Sequence[DriveFacts], path: Path, *, force: bool = False) -> None:
    """Write the seek curves and latencies of drives as one page that needs no network.

    Raises
    ------
    UsageError
        If the file exists and `force` is not given.
    """
    with output(path, force=force) as file:
        file.write(drive_page(drives).encode())

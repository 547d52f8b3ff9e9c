"""``map``: one offline page that shows where everything lies and what a walk does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import layoutscope
from layoutscope.api.outputs import output
from layoutscope.report.map import render
from layoutscope.report.map.scans import disks

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from layoutscope.report.result import ScanResult


def map_page(results: Sequence[ScanResult], *, names: bool = True) -> str:
    """Render scans as one HTML page, side by side on one scale.

    Parameters
    ----------
    results : sequence of ScanResult
        What :func:`layoutscope.api.scanning.scan` returned.
    names : bool
        Whether names from the images may appear.
    """
    return render(disks(results), made=f"Made by layoutscope {layoutscope.__version__}.", names=names)


def write_map(
    result: ScanResult | Sequence[ScanResult], path: str | os.PathLike[str], *, names: bool = True, force: bool = False
) -> None:
    """Write the page of one or more scans.

    Raises
    ------
    UsageError
        If the file exists and `force` is not given.
    OutputError
        If it cannot be written.
    """
    results = result if isinstance(result, list | tuple) else (result,)
    page = map_page(results, names=names)
    with output(path, force=force) as file:
        file.write(page.encode("utf-8", "replace"))

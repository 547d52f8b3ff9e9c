"""``map``: one offline page that shows where everything lies and what a walk does."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from layoutscope.api.outputs import check_output, output
from layoutscope.api.scanning import scan
from layoutscope.report.map import render
from layoutscope.report.map.scans import disks, made

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence
    from typing import Unpack

    from layoutscope.api.options import ReadOptions
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
    return render(disks(results, names=names), made=made(results, names=names), names=names)


def write_map(
    result: ScanResult | Sequence[ScanResult], path: str | os.PathLike[str], *, names: bool = True, force: bool = False
) -> None:
    """Write the page of one or more scans.

    Parameters
    ----------
    result : ScanResult or sequence of ScanResult
        What is shown, side by side.
    path : path
        Where to.
    names : bool
        Whether names from the images may appear.
    force : bool
        Whether an existing file is overwritten.

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


def map_images(
    paths: Sequence[str | os.PathLike[str]],
    target: str | os.PathLike[str],
    *,
    drives: Sequence[str] | None = None,
    host: str = "linux",
    force: bool = False,
    **options: Unpack[ReadOptions],
) -> tuple[ScanResult, ...]:
    """Scan images and write their map as one page, side by side on one scale.

    Parameters
    ----------
    paths : sequence of path
        One or more images.
    target : path
        Where to.
    drives : sequence of str, optional
        Profiles or TOML files.
    host : {'linux', 'macos'}
        Whose drivers enumerate.
    force : bool
        Whether an existing file is overwritten.
    **options
        See :class:`~layoutscope.api.options.ReadOptions`.

    Raises
    ------
    UsageError
        If the file exists and `force` is not given.
    LayoutscopeError
        If an image cannot be read.
    """
    check_output(Path(target), force=force)
    results = tuple(scan(path, drives=drives, host=host, **options) for path in paths)
    write_map(results, target, names=options.get("names", True), force=force)
    return results

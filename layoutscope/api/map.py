"""``map``: one offline page that shows where everything is stored and what a walk does."""

from __future__ import annotations

import os
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from layoutscope.api.keywords import several, takes
from layoutscope.api.outputs import check_output, file_form, open_output
from layoutscope.api.reading import OpenImage
from layoutscope.api.scan import scan_alike
from layoutscope.errors import UnsupportedError, UsageError, install_command
from layoutscope.options import MapOptions, PageOptions, fill, leave_out
from layoutscope.progress import phase, reporting
from layoutscope.results.scan import ScanResult
from layoutscope.version import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import IO, Unpack

    from layoutscope.options import EnumerationOptions
    from layoutscope.report.map.notebook import LayoutMap
STATES: Final = 2
"""So many are set against each other."""

BROWSERS: Final = ("chromium", "google-chrome", "google-chrome-stable", "chrome")


def map_page(
    results: Sequence[ScanResult], *, names: bool = True, difference: bool = False, all_paths: bool = False
) -> str:
    """Render scans as one HTML page, all on the same scale."""
    from layoutscope.report.map import render
    from layoutscope.report.map.scans import disks, made, state_names

    if difference:
        from layoutscope.report.map import difference as states

        if len(results) != STATES:
            raise UsageError(f"a difference takes two states: {len(results)} were given")
        earlier, later = (disks([result], names=names) for result in results)
        drawn = states.difference(earlier, later, state_names(*results, names=names))
    else:
        drawn = disks(results, names=names)
    return render(drawn, made=made(results, version=__version__, names=names), names=names, all_paths=all_paths)


def layout_map(result: ScanResult | Sequence[ScanResult], *, names: bool = True) -> LayoutMap:
    """Draw scans as one figure, on the same scale: what fills each stretch of each disk, beside where the head goes."""
    from layoutscope.report.map.notebook import layout_figure
    from layoutscope.report.map.page import shares_of
    from layoutscope.report.map.scans import disks

    results = _several(result)
    drawn = disks(results, names=names)
    if not drawn:
        raise UsageError("no volume to draw")
    return layout_figure(drawn, shares_of(drawn), lambda: map_page(results, names=names))


def write_picture(
    result: ScanResult | Sequence[ScanResult], path: str | os.PathLike[str], *, names: bool = True, force: bool = False
) -> None:
    """Write the figure as PNG or SVG, by the ending of the path, through Plotly's own export.

    There, kaleido draws; it needs Chromium, under whatever name it is installed.
    """
    form = _picture_form(path)
    check_output(Path(path), force=force)
    browser = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if browser is None or find_spec("kaleido") is None:
        raise UnsupportedError(
            "pictures are drawn by kaleido in Chromium, and one of them is missing",
            code="picture-export",
            advice=f"{install_command('png')} and install Chromium (Debian: apt install chromium)",
        )
    os.environ.setdefault("BROWSER_PATH", browser)
    with phase(f"drawing {Path(path).name}"):
        figure = layout_map(result, names=names)
        picture = bytes(figure.to_image(format=form, scale=2 if form == "png" else 1))
    with open_output(path, force=force) as file:
        file.write(picture)


def _picture_form(path: str | os.PathLike[str]) -> str:
    form = Path(path).suffix.lower().removeprefix(".")
    if form not in ("png", "svg"):
        raise UsageError(f"{path}: a picture ends with .png or .svg")
    return form


def _several(result: ScanResult | Sequence[ScanResult]) -> Sequence[ScanResult]:
    return result if isinstance(result, list | tuple) else (result,)


@takes(PageOptions)
def write_map(
    result: ScanResult | Sequence[ScanResult],
    path: str | os.PathLike[str] | IO[bytes],
    *,
    names: bool = True,
    force: bool = False,
    **shown: Unpack[PageOptions],
) -> None:
    """Write the page of one or more scans, on the same scale; names from the images may be left out.

    Parameters
    ----------
    result : scan, or sequence of these
        What the page shows.
    path : path or binary file
        The page.
    """
    file_form(path, "html", ("html",), "html")
    with phase("drawing the map"):
        page = map_page(_several(result), names=names, **shown).encode("utf-8", "replace")
    with open_output(path, force=force) as file:
        file.write(page)


@takes(MapOptions, "map")
def map_images(
    paths: str | os.PathLike[str] | ScanResult | Sequence[str | os.PathLike[str] | ScanResult],
    target: str | os.PathLike[str] | IO[bytes],
    **options: Unpack[MapOptions],
) -> tuple[ScanResult, ...]:
    """Scan images and write their map as one page, all on the same scale.

    Parameters
    ----------
    paths : path, scan, or sequence of these
        One or more images, or scans of them, which are not read again.
    target : path or binary file
        The file to write.

    Raises
    ------
    UsageError
        If the file exists and ``force`` is not given, or if a difference is requested for two different volumes.
    LayoutscopeError
        If an image cannot be read.

    Examples
    --------
    >>> import layoutscope
    >>> results = layoutscope.map(["fixtures/images/hfsplus-scattered.img.zst"], "disks.html")
    >>> len(results)
    1
    """
    given = paths if isinstance(paths, list | tuple) else (paths,)
    scans = tuple(item for item in given if isinstance(item, ScanResult))
    if scans and len(scans) < len(given):
        raise UsageError("images and scans were given together. Scan the images first.")
    images = [] if scans else several(cast("str | Sequence[str]", paths))
    asked, shown = fill(MapOptions, options), fill(PageOptions, options)
    difference, picture, force = asked["difference"], asked["picture"], asked["force"]
    scanning: EnumerationOptions = leave_out(options, (*shown, "picture", "force"))
    if difference and len(scans or images) != STATES:
        raise UsageError(f"a difference takes two states: {len(scans or images)} were given")
    if difference and picture is not None:
        raise UsageError("a difference is drawn only on the page. Leave the picture out.")
    file_form(target, "html", ("html",), "html")
    page = Path(target) if isinstance(target, str | os.PathLike) else None
    if page is not None:
        check_output(page, force=force, reads=images)
    if picture is not None:
        _picture_form(picture)
        check_output(Path(picture), force=force, reads=images)
        if page is not None and Path(picture).absolute() == page.absolute():
            raise UsageError(f"{picture}: would be both the page and the picture. Name two files.")
    names = asked["names"] and all(image.request["names"] for image in images if isinstance(image, OpenImage))
    with reporting(asked["progress"]):
        results = scans or tuple(scan_alike(images, scanning))
        write_map(results, target, names=names, force=force, **shown)
        if picture is not None:
            write_picture(results, picture, names=names, force=force)
    return results

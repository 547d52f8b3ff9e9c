"""``compare`` and ``series``: compare volumes, ages or disks, and one volume over several images."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from layoutscope.api.keywords import several, takes
from layoutscope.api.outputs import open_output, write_page
from layoutscope.api.scan import scan_alike
from layoutscope.errors import UsageError
from layoutscope.inputs import split_volume
from layoutscope.options import EnumerationOptions, SeriesOptions, fill, leave_out, options_of
from layoutscope.report.plots import compare_page, series_page
from layoutscope.report.tables import FORMATS, write_table
from layoutscope.results.compare import Series, compare_scans, list_changed_nodes
from layoutscope.tables.columns import to_datetime

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Unpack

    from layoutscope.results.compare import Comparison
    from layoutscope.results.scan import ScanResult


@takes(EnumerationOptions)
def compare(
    *images: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], **options: Unpack[EnumerationOptions]
) -> Comparison:
    """Compare the one volume that can be walked on each image.

    Parameters
    ----------
    *images : path or sequence of path
        At least two images, one by one or as a sequence.

    Raises
    ------
    UsageError
        If there are fewer than two images, or one has no or several volumes that can be walked.
    LayoutscopeError
        If an image cannot be read.

    Examples
    --------
    >>> import layoutscope
    >>> images = ["fixtures/images/hfsplus-scattered.img.zst", "fixtures/images/apfs-scattered.img.zst"]
    >>> found = layoutscope.compare(*images, drives="generic-7200")
    >>> first, second = found.times[0].seconds
    >>> second > 5 * first
    True
    >>> found.frame.filter(metric="seconds", side="B")["ratio"].round(1).to_list() == [round(second / first, 1)]
    True
    """
    paths = [path for given in images for path in several(given)]
    if len(paths) < 2:
        raise UsageError("compare needs at least two images")
    return compare_scans(scan_alike(paths, options), _inputs(paths))


def write_changed_nodes(found: Comparison, path: str | os.PathLike[str], *, force: bool = False) -> None:
    """Write the nodes that did not stay, in the format of the file's ending."""
    ending = Path(path).suffix.removeprefix(".")
    if ending not in FORMATS:
        raise UsageError(f"{path}: ends in none of {', '.join('.' + name for name in FORMATS)}")
    table = list_changed_nodes(found)
    with open_output(path, force=force, holds=f"{len(table):,} rows") as file:
        write_table(table, file, ending)


ORDERINGS: Final = options_of(SeriesOptions)["by"].choices
"""What a sequence can be ordered by."""


@takes(SeriesOptions)
def series(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], **options: Unpack[SeriesOptions]
) -> Series:
    """Follow a volume over several images or captures; several volumes make a curve each.

    Parameters
    ----------
    paths : path or sequence of path
        Images or captures, one volume that can be walked on each.

    Raises
    ------
    UsageError
        If there is nothing to follow, or ``by`` is unknown.
    LayoutscopeError
        If an image cannot be read.

    Examples
    --------
    >>> import layoutscope
    >>> image = "fixtures/images/hfsplus-scattered.img.zst"
    >>> layoutscope.scan(image, drives=()).save("monday.lscope")
    >>> found = layoutscope.series(["monday.lscope", image], drives=())
    >>> found.places, list(found.curves.values())
    (('1', '2'), [[0, 1]])
    >>> found.frame.filter(metric="clump-count")["value"].to_list()
    [17.0, 17.0]
    """
    by = fill(SeriesOptions, options)["by"]
    scanning: EnumerationOptions = leave_out(options, ["by"])
    if by not in ORDERINGS:
        raise UsageError(f"unknown ordering {by!r}. Choose from: {', '.join(ORDERINGS)}")
    images = several(paths)
    if not images:
        raise UsageError("series needs images or captures")
    results = scan_alike(images, scanning)
    keys = [_volume_key(result) for result in results]
    first = {key: keys.index(key) for key in keys}
    sorted_by = [
        (first[key], _place(result, by, n), n) for n, (key, result) in enumerate(zip(keys, results, strict=True))
    ]
    order = [number for _, _, number in sorted(sorted_by)]
    places = tuple(str(sorted_by[number][1]) for number in order)
    inputs = _inputs(images)
    found = compare_scans([results[n] for n in order], [inputs[n] for n in order])
    return Series(by, places, _volume_names([results[n] for n in order]), found)


def _inputs(paths: Iterable[str | os.PathLike[str]]) -> list[str]:
    """Return the files of inputs, without the volumes that are chosen on them."""
    return [split_volume(os.fspath(path))[0] for path in paths]


def _volume_key(result: ScanResult) -> tuple[str, str]:
    """Return the key that identifies a volume: its identifier, or its file system if it has none."""
    facts = result.volume.layout.facts
    return facts.filesystem, facts.uuid


def _place(result: ScanResult, by: str, number: int) -> int | str:
    layout = result.volume.layout
    if by == "xid":
        return layout.facts.stamp
    if by == "time":
        known = layout.columns("entries")["modify_time"].present()
        last = to_datetime(int(known.max())) if len(known) else None
        return "" if last is None else last.strftime("%Y-%m-%d %H:%M:%S")
    return number + 1


def _volume_names(results: Sequence[ScanResult]) -> tuple[str, ...]:
    """Name the volume of each layout: by its variant, with its name or identifier where that would not do."""
    facts = [result.volume.layout.facts for result in results]
    keys = [_volume_key(result) for result in results]
    for names in (
        [item.variant for item in facts],
        [f"{item.variant} {item.name}" for item in facts],
        [f"{item.variant} {item.uuid}" for item in facts],
    ):
        if len(set(names)) == len(set(keys)) == len(set(zip(names, keys, strict=True))):
            break
    return tuple(names)


def write_plot(found: Comparison | Series, path: str | os.PathLike[str], *, force: bool = False) -> None:
    """Write the figure of what is compared, and the curves of a series, as one page that needs no network."""
    write_page(path, lambda: series_page(found) if isinstance(found, Series) else compare_page(found), force=force)

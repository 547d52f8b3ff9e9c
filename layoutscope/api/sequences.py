"""``series``: every metric and the predicted time over a sequence of layouts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from layoutscope.api.comparing import compare_scans, walked_volume
from layoutscope.api.outputs import output
from layoutscope.api.scanning import scan
from layoutscope.errors import UsageError
from layoutscope.report.series import Series, series_page

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence
    from typing import Unpack

    from layoutscope.api.options import ReadOptions
    from layoutscope.report.result import ScanResult

ORDERINGS: Final = ("order", "xid", "time")
"""What a sequence can be ordered by."""


def series(
    paths: Sequence[str | os.PathLike[str]],
    *,
    by: str = "order",
    drives: Sequence[str] | None = None,
    host: str = "linux",
    **options: Unpack[ReadOptions],
) -> Series:
    """Follow a volume over several images or captures.

    Parameters
    ----------
    paths : sequence of path
        Images or captures, one volume that can be walked on each.
    by : {'order', 'xid', 'time'}
        As they are given; by transaction or write count; by the last change of any entry.
    drives : sequence of str, optional
        Profiles or TOML files.
    host : {'linux', 'macos'}
        Whose drivers enumerate.
    **options
        See :class:`~layoutscope.api.options.ReadOptions`.

    Raises
    ------
    UsageError
        If there is nothing to follow, or `by` is unknown.
    LayoutscopeError
        If an image cannot be read.
    """
    if by not in ORDERINGS:
        raise UsageError(f"no ordering {by!r}; there are {', '.join(ORDERINGS)}")
    if not paths:
        raise UsageError("series needs images or captures")
    results = [scan(path, drives=drives, host=host, **options) for path in paths]
    places = [(_place(result, by, number), number) for number, result in enumerate(results)]
    ordered = [results[number] for _, number in sorted(places)]
    return Series(by, tuple(place for place, _ in sorted(places)), compare_scans(ordered))


def _place(result: ScanResult, by: str, number: int) -> str:
    """Return a text that sorts as what it stands for."""
    layout = walked_volume(result).layout
    if by == "xid":
        return f"{layout.facts.stamp:>20}"
    if by == "time":
        return str(layout.entries["modify_time"].max() or "")
    return f"{number + 1:>6}"


def write_series_plot(found: Series, path: str | os.PathLike[str], *, force: bool = False) -> None:
    """Write the chart of a series as one page that needs no network.

    Parameters
    ----------
    found : Series
        From :func:`series`.
    path : path
        Where to.
    force : bool
        Whether an existing file is overwritten.

    Raises
    ------
    UsageError
        If the file exists and `force` is not given.
    """
    with output(path, force=force) as file:
        file.write(series_page(found).encode())

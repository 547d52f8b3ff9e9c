"""``compare``: two or more volumes, ages or disks side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from layoutscope.analysis.comparison import changed_nodes, compare_scans
from layoutscope.api.outputs import output
from layoutscope.api.scan import scan
from layoutscope.errors import UsageError
from layoutscope.report.tables import FORMATS, write_table

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence
    from typing import Unpack

    from layoutscope.options import EnumerationOptions
    from layoutscope.results.compare import Comparison


def compare(
    paths: Sequence[str | os.PathLike[str]],
    **options: Unpack[EnumerationOptions],
) -> Comparison:
    """Compare the one volume that can be walked on each image.

    Parameters
    ----------
    paths : sequence of path
        At least two images.
    **options
        See :class:`~layoutscope.options.EnumerationOptions`: drives, host, and how images are read.

    Raises
    ------
    UsageError
        If there are fewer than two images, or one has no or several volumes that can be walked.
    LayoutscopeError
        If an image cannot be read.
    """
    if len(paths) < 2:
        raise UsageError("compare needs at least two images")
    return compare_scans([scan(path, **options) for path in paths])


def write_changed_nodes(found: Comparison, path: str | os.PathLike[str], *, force: bool = False) -> None:
    """Write the nodes that did not stay, as the ending of the file says.

    Parameters
    ----------
    found : Comparison
        From :func:`layoutscope.compare`.
    path : path
        Where to: ``.csv``, ``.parquet`` or ``.jsonl``.
    force : bool
        Whether an existing file is overwritten.

    Raises
    ------
    UsageError
        If the ending is another one, the file exists, or no two sides are states of one volume.
    """
    ending = Path(path).suffix.removeprefix(".")
    if ending not in FORMATS:
        raise UsageError(f"{path}: ends in none of {', '.join('.' + name for name in FORMATS)}")
    table = changed_nodes(found)
    with output(path, force=force) as file:
        write_table(table, file, ending)

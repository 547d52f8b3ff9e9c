"""``export``: one table of the layouts on an image, as CSV, Parquet or JSON lines."""

from __future__ import annotations

import os
from typing import IO, TYPE_CHECKING

from layoutscope.api.outputs import output
from layoutscope.api.reading import opened, request_of
from layoutscope.errors import UsageError
from layoutscope.report.tables import FORMATS, joined_table, write_table
from layoutscope.tables import TABLES

if TYPE_CHECKING:
    from typing import Unpack

    from layoutscope.options import ReadOptions


def export(
    path: str | os.PathLike[str],
    table: str,
    target: str | os.PathLike[str] | IO[bytes],
    *,
    file_format: str = "csv",
    force: bool = False,
    **options: Unpack[ReadOptions],
) -> None:
    """Write one table of all chosen volumes.

    Parameters
    ----------
    path : path
        The image.
    table : str
        One of the names in :data:`layoutscope.tables.TABLES`.
    target : path or binary file
        Where to.
    file_format : {'csv', 'parquet', 'jsonl'}
        How.
    force : bool
        Whether an existing file is overwritten.
    **options
        See :class:`~layoutscope.options.ReadOptions`.

    Raises
    ------
    UsageError
        If there is no such table or format, or the target exists.
    LayoutscopeError
        If the image cannot be read.
    """
    if table not in TABLES:
        raise UsageError(f"no table {table!r}; there are {', '.join(TABLES)}")
    if file_format not in FORMATS:
        raise UsageError(f"no format {file_format!r}; there are {', '.join(FORMATS)}")
    with opened(path, request_of(options)) as image:
        frame = joined_table(image.layouts, table)
    if isinstance(target, str | os.PathLike):
        with output(target, force=force) as file:
            write_table(frame, file, file_format)
    else:
        write_table(frame, target, file_format)

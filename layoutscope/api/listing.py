"""``list``: every file of a volume with its path, from the passes that read its metadata; no listing of the driver."""

from __future__ import annotations

from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope.access.entries import Paths, volume_folders
from layoutscope.api.keywords import takes
from layoutscope.api.outputs import check_output, file_form, open_output
from layoutscope.api.reading import make_request, open_volumes, walkable
from layoutscope.errors import UsageError
from layoutscope.options import LIST_FORMATS, ListOptions, fill
from layoutscope.progress import phase, reporting
from layoutscope.report import escape_text
from layoutscope.report.tables import FORMATS
from layoutscope.tables import TABLES
from layoutscope.tables.columns import Rows, stack_tables
from layoutscope.tables.schema import FLAG_PRIVATE, Column

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence
    from typing import Unpack

    from layoutscope.tables import VolumeLayout

_OF_ENTRIES: Final = ("kind", "size_bytes", "create_time", "modify_time", "file_id")
LISTED: Final = (
    Column("volume", "UInt32", "", "number of the volume on the image, from 1"),
    Column("path", "String", "", "path from the root of the volume, of several volumes after its name"),
    *(column for column in TABLES["entries"] if column.name in _OF_ENTRIES),
)
"""Columns of a list of files."""


@takes(ListOptions, "list")
def list_files(
    path: str | os.PathLike[str],
    target: str | os.PathLike[str] | IO[bytes] | None = None,
    **options: Unpack[ListOptions],
) -> Rows:
    """List every file and folder of all chosen volumes, one row per name, in the order of their paths.

    Parameters
    ----------
    target : path or binary file, optional
        Where to write the list; it is returned in any case.

    Returns
    -------
    Rows
        The columns in :data:`LISTED`; ``frame`` is the same as a frame of polars. Hard links have a row for each
        name. Directories that the file system keeps for itself are left out.

    Raises
    ------
    UsageError
        If the folder or the format does not exist, or the target does.
    LayoutscopeError
        If the image cannot be read, or has no volume that can be listed.

    Examples
    --------
    >>> import layoutscope
    >>> found = layoutscope.list("fixtures/images/hfsplus-scattered.img.zst", folder="/Users")
    >>> len(found), found.part(slice(0, 2))["path"]
    (4200, ['/Users', '/Users/jo'])
    """
    asked = fill(ListOptions, options)
    form = file_form("" if target is None else target, asked["file_format"], LIST_FORMATS, "text")
    if asked["zero"]:
        if asked["file_format"] not in (None, "text"):
            raise UsageError(f"{asked['file_format']} cannot end names with zero bytes: only text can")
        form = "text"
    if isinstance(target, str) or hasattr(target, "__fspath__"):
        check_output(Path(str(target)), force=asked["force"], reads=[path])
    request = make_request(options, path)
    with open_volumes(path, request) as image, reporting(request["progress"]):
        held = walkable(image.layouts, image.about.name)
        rows, paths = _list_rows(held, asked["folder"])
        if target is not None:
            with (
                phase("writing the list"),
                open_output(target, force=asked["force"], holds=f"{len(rows):,} files") as file,
            ):
                if form == "text":
                    _write_paths(paths, file, ends_in_zero=asked["zero"])
                else:
                    FORMATS[form](rows, file)
    return rows


def _list_rows(layouts: Sequence[VolumeLayout], folder: str | None) -> tuple[Rows, list[str]]:
    """Spell all paths, and put the rows in their order; the rows, and their paths alone."""
    inside = "/" + (folder or "").strip("/")
    parts, paths = [], list[str]()
    for layout, top in zip(layouts, volume_folders(layouts), strict=True):
        entries = layout.columns("entries")
        entries = entries.take(np.flatnonzero(entries["flags"].data & FLAG_PRIVATE == 0))
        spelled = Paths(layout)
        own = [
            spelled.entry(*named).text
            for named in zip(*(entries.listed(name) for name in ("file_id", "parent_id", "name")), strict=True)
        ]
        if inside != "/":
            below = f"{inside}/"
            chosen = [k for k, text in enumerate(own) if text == inside or text.startswith(below)]
        else:
            chosen = list(range(len(own)))
        # The content of a folder follows it: a slash comes before every other character.
        chosen.sort(key=lambda k: own[k].replace("/", "\0"))
        paths += [top + own[k] if own[k] != "/" else top or "/" for k in chosen]
        parts.append(entries.take(np.array(chosen, np.int64)))
    if not paths:
        raise UsageError(f"no folder {inside} on {'this volume' if len(layouts) == 1 else 'these volumes'}")
    table = stack_tables(parts)
    volume = np.repeat([layout.facts.volume for layout in layouts], [*map(len, parts)])

    def columns_of(chosen: slice) -> dict[str, Any]:
        taken = table.take(chosen)
        columns = {name: taken.column(name) for name in _OF_ENTRIES}
        return {"volume": volume[chosen], "path": paths[chosen], **columns}

    rows = Rows(LISTED, len(paths), columns_of, lambda: Rows.under(LISTED, rows.part(slice(None))).frame)
    return rows, paths


def _write_paths(paths: Sequence[str], file: IO[bytes], *, ends_in_zero: bool) -> None:
    """Write one path per line with unsafe characters made visible, or each as it is before a zero byte."""
    for first in range(0, len(paths), PART_ROWS):
        part = paths[first : first + PART_ROWS]
        lines = (f"{path}\0" if ends_in_zero else f"{escape_text(path)}\n" for path in part)
        file.write("".join(lines).encode())


PART_ROWS: Final = 1 << 16
"""Rows that are written at once."""

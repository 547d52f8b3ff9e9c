"""``inspect``: what stands at a place of an image, field by field, and who owns it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from layoutscope.analysis.owners import file_owner, owners_at, row_owner
from layoutscope.analysis.paths import needed_id
from layoutscope.api.reading import opened, with_options
from layoutscope.api.structures import node_structures, region_structures
from layoutscope.errors import UsageError
from layoutscope.filesystems.contract import VolumeRequest
from layoutscope.filesystems.registry import filesystem_of
from layoutscope.options import ReadRequest
from layoutscope.results.inspect import Inspection

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence
    from typing import Unpack

    from layoutscope.api.reading import Opened
    from layoutscope.filesystems.contract import View
    from layoutscope.options import ReadOptions
    from layoutscope.results.inspect import Owner, StructureLines
    from layoutscope.tables import VolumeLayout

    ViewOf = Callable[[VolumeLayout], View]

Found = tuple["list[Owner]", "list[StructureLines]"]


def inspect(
    path: str | os.PathLike[str],
    *,
    node: str | None = None,
    at: int | None = None,
    lba: int | None = None,
    cnid: int | None = None,
    file_path: str | None = None,
    **options: Unpack[ReadOptions],
) -> Inspection:
    """Show the structure at a place, and who owns that place.

    Parameters
    ----------
    path : path
        The image.
    node : str, optional
        ``TREE:NUMBER``; the number is the node number (HFS+) or the oid (APFS).
    at : int, optional
        Byte of the image.
    lba : int, optional
        Sector of the image.
    cnid : int, optional
        CNID or inode number of a file.
    file_path : str, optional
        Path of a file from the root of its volume.
    **options
        See :class:`~layoutscope.options.ReadOptions`.

    Raises
    ------
    UsageError
        If not exactly one place is given, or there is nothing of that name.
    LayoutscopeError
        If the image cannot be read.
    """
    chosen = {"node": node, "at": at, "lba": lba, "cnid": cnid, "path": file_path}
    given = [f"{name} {value}" for name, value in chosen.items() if value is not None]
    if len(given) != 1:
        raise UsageError("say one place: --node TREE:NUMBER, --at BYTES, --lba N, --cnid N or --path P")
    request = ReadRequest(**options)
    with opened(path, request) as image:
        view = _views(image, request)
        if lba is not None:
            at = lba * image.bytes().main.sector_size_bytes
        if at is not None:
            owners, structures = _place(image, at, view=view)
        elif node is not None:
            owners, structures = _node(image, node, view=view)
        elif file_path is not None:
            owners, structures = _files(needed_id(image.layouts, file_path), view=view)
        else:
            owners, structures = _files(_with_id(image.layouts, cnid or 0), view=view)
        return Inspection(image.about.name, given[0], tuple(owners), tuple(structures))


def _views(image: Opened, request: ReadRequest) -> ViewOf:
    """Return what gives the bytes of a volume; each volume is unlocked once."""
    known: dict[tuple[int, int | None], View] = {}

    def view(layout: VolumeLayout) -> View:
        key = (layout.facts.image_offset, layout.facts.volume)
        if key not in known:
            chosen, where = filesystem_of(layout), layout.facts.image_offset
            place = VolumeRequest(image.bytes().main, where, image.spaces.get(where))
            known[key] = chosen.view(with_options(place, image.bytes(), chosen, request), layout)
        return known[key]

    return view


def _place(image: Opened, at: int, *, view: ViewOf) -> Found:
    """Show whatever lies at a byte: of a node its head and the record there."""
    if not 0 <= at < image.bytes().main.size_bytes:
        raise UsageError(f"byte {at:,} lies outside the image of {image.bytes().main.size_bytes:,} bytes")
    owners, structures = [], []
    for layout in image.layouts:
        for table, row in owners_at(layout, at):
            owners.append(row_owner(layout, table, row, at))
            if table == "nodes":
                structures += node_structures(view(layout), layout, row, at=at)
            elif table == "regions":
                structures += region_structures(view(layout), row)
    return owners, structures


def _node(image: Opened, wanted: str, *, view: ViewOf) -> Found:
    """Show whole nodes by tree and number."""
    tree, _, number = wanted.rpartition(":")
    if not tree or not number.isdecimal():
        raise UsageError(f"{wanted!r} is no node; write TREE:NUMBER, such as catalog:3")
    chosen = (pl.col("tree") == tree) & (pl.col("node_id") == int(number))
    found = [(layout, row) for layout in image.layouts for row in layout.nodes.filter(chosen).iter_rows(named=True)]
    if not found:
        trees = sorted({str(name) for layout in image.layouts for name in layout.nodes["tree"].unique()})
        raise UsageError(f"no node {wanted}; there are the trees {', '.join(trees)}")
    owners = [row_owner(layout, "nodes", row, None) for layout, row in found]
    structures = [part for layout, row in found for part in node_structures(view(layout), layout, row)]
    return owners, structures


def _with_id(layouts: Sequence[VolumeLayout], file_id: int) -> list[tuple[VolumeLayout, int]]:
    holds = (pl.col("file_id") == file_id).any()
    known = [
        layout for layout in layouts if any(frame.select(holds).item() for frame in (layout.entries, layout.extents))
    ]
    found = [(layout, file_id) for layout in known]
    if not found:
        raise UsageError(f"no file with the number {file_id}")
    return found


def _files(found: Sequence[tuple[VolumeLayout, int]], *, view: ViewOf) -> Found:
    """Show the records of files, wherever they stand."""
    owners, structures = [], []
    for layout, file_id in found:
        owners.append(file_owner(layout, file_id))
        for row in _leaves(layout, file_id):
            structures += node_structures(view(layout), layout, row, file_id=file_id)
    return owners, structures


def _leaves(layout: VolumeLayout, file_id: int) -> list[dict[str, object]]:
    """List the leaves that hold records of a file."""
    columns = ["entry_node_row", "inode_node_row", "thread_node_row", "xattr_node_row"]
    entries = layout.entries.filter(pl.col("file_id") == file_id).select(columns)
    rows = sorted({value for column in entries for value in column.drop_nulls()})
    return list(layout.nodes.filter(pl.col("row").is_in(rows)).iter_rows(named=True))

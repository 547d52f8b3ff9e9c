"""``inspect``: the structure at a place of an image, and its owner; ``checkpoints``: the older states of it."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec.structs import asdict

from layoutscope.api.keywords import takes
from layoutscope.api.reading import (
    keep_chosen,
    make_request,
    make_volume_request,
    open_volumes,
    parts_of_node,
    read_images,
    split_request,
    views_of,
)
from layoutscope.errors import UsageError
from layoutscope.filesystems.contract import VolumeRequest
from layoutscope.filesystems.registry import filesystem, filesystems
from layoutscope.image.failing import around_failures
from layoutscope.image.opening import open_images
from layoutscope.options import InspectOptions, ReadOptions, own_options
from layoutscope.partition import choose, find_volumes
from layoutscope.results.inspect import (
    FieldLine,
    Inspection,
    StateLine,
    StructureLines,
    file_owner,
    find_on_volumes,
    owners_at,
    row_owner,
)
from layoutscope.tables.capture import is_capture

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence
    from typing import Unpack

    from layoutscope.api.reading import Opened, ViewOf
    from layoutscope.filesystems.contract import Piece, Row, View
    from layoutscope.image.source import Source
    from layoutscope.results.inspect import Owner
    from layoutscope.structs.grammar import Described
    from layoutscope.tables import VolumeLayout

Found = tuple["list[Owner]", "list[StructureLines]"]

LONGEST_REGION_BYTES: Final = 1 << 20
"""Only the beginning of a longer region is shown."""

LONGEST_VALUE: Final = 64
"""Bytes of a value that are shown."""


@takes(InspectOptions)
def inspect(path: str | os.PathLike[str], **options: Unpack[InspectOptions]) -> Inspection:
    """Show the structure at a place, and who owns that place.

    Raises
    ------
    UsageError
        If not exactly one place is given, or there is nothing of that name.

    Examples
    --------
    >>> import layoutscope
    >>> found = layoutscope.inspect("fixtures/images/hfsplus-scattered.img.zst", file_path="/Users")
    >>> found.owners[0].what, dict(found.owners[0].facts)["kind"]
    ('directory', 'directory')
    >>> found.structures[0].fields[0].path
    'key.len_key'
    """
    place: dict[str, Any] = {name: options.get(name) for name in own_options(InspectOptions)}
    node, at, lba, cnid, file_path = place.values()
    given = [f"{name.removeprefix('file_')} {value}" for name, value in place.items() if value is not None]
    if len(given) != 1:
        told = {"node, at, lba, cnid or file_path": "--node TREE:NUMBER, --at BYTES, --lba N, --cnid N or --path P"}
        raise UsageError(f"give exactly one place: {next(iter(told))}", options=told)
    request = make_request(options, path)
    with open_volumes(path, request) as image:

        def found() -> Found:
            view = views_of(image, request)
            if node is not None:
                return _node(image, node, view=view)
            if lba is not None:
                return _place(image, lba * image.bytes()[0].sector_size_bytes, view=view)
            if at is not None:
                return _place(image, at, view=view)
            if file_path is not None:
                return _files(find_on_volumes(image.layouts, file_path), view=view)
            numbered = [
                (layout, cnid or 0)
                for layout in image.layouts
                if any((layout.columns(name)["file_id"].data == cnid).any() for name in ("entries", "extents"))
            ]
            if not numbered:
                raise UsageError(f"no file with the number {cnid}")
            return _files(numbered, view=view)

        owners, structures = around_failures(() if image.images is None else image.images, found)
        return Inspection(image.about.name, given[0], tuple(owners), tuple(structures))


def _place(image: Opened, at: int, *, view: ViewOf) -> Found:
    """Show the structure at a byte: for a node, its header and the record there."""
    size_bytes = max(source.size_bytes for source in image.bytes())
    if not 0 <= at < size_bytes:
        raise UsageError(f"byte {at:,} is outside the image of {size_bytes:,} bytes")
    owners, structures = [], []
    for layout in image.layouts:
        for table, row in owners_at(layout, at):
            owners.append(row_owner(layout, table, row, at))
            if table == "nodes":
                structures += _node_structures(view(layout), layout, row, at=at)
            elif table == "regions":
                piece = (row["image_offset"], min(row["length_bytes"], LONGEST_REGION_BYTES))
                bytes_of = view(layout)
                found = bytes_of.describe_region(bytes_of.read(row, piece), str(row["type"]))
                structures += [_lines(bytes_of, part, [piece], "") for part in found]
    return owners, structures


def _node(image: Opened, wanted: str, *, view: ViewOf) -> Found:
    """Show whole nodes by tree and number."""
    tree, _, number = wanted.rpartition(":")
    if not tree or not number.isdecimal():
        raise UsageError(f"{wanted!r} is not a node. Write TREE:NUMBER, such as catalog:3.")
    found = []
    for layout in image.layouts:
        nodes = layout.columns("nodes")
        rows = nodes.take(nodes["tree"].equals(tree) & (nodes["node_id"].data == int(number))).rows()
        found += [(layout, row) for row in rows]
    if not found:
        trees = sorted({name for layout in image.layouts for name in layout.columns("nodes")["tree"].numbered()[1]})
        raise UsageError(f"no node {wanted}. The trees are {', '.join(trees)}")
    owners = [row_owner(layout, "nodes", row, None) for layout, row in found]
    structures = [part for layout, row in found for part in _node_structures(view(layout), layout, row)]
    return owners, structures


def _files(found: Sequence[tuple[VolumeLayout, int]], *, view: ViewOf) -> Found:
    """Show the records of files, in whichever node they are."""
    owners, structures = [], []
    for layout, file_id in found:
        owners.append(file_owner(layout, file_id))
        for row in _leaves(layout, file_id):
            structures += _node_structures(view(layout), layout, row, file_id=file_id)
    return owners, structures


def _leaves(layout: VolumeLayout, file_id: int) -> list[Row]:
    """List the leaves that hold records of a file."""
    columns = ("entry_node_row", "inode_node_row", "thread_node_row", "xattr_node_row")
    entries, nodes = layout.columns("entries"), layout.columns("nodes")
    own = entries.take(entries["file_id"].data == file_id)
    return nodes.take(np.isin(nodes["row"].data, np.concatenate([own[name].present() for name in columns]))).rows()


def _node_structures(
    view: View, layout: VolumeLayout, row: Row, *, at: int | None = None, file_id: int | None = None
) -> list[StructureLines]:
    """Parse a node."""
    prefix, pieces = f"{row['tree']}:{row['node_id']} ", parts_of_node(layout, row)
    if row["kind"] == "locked":
        return [StructureLines(prefix + "node", pieces[0][0], (), "it is encrypted; the password shows what it holds")]
    data = b"".join(view.read(row, piece) for piece in pieces)
    found = view.describe_node(data, str(row["tree"]))
    if at is not None:
        place = _node_offset(pieces, at)
        found = [part for number, part in enumerate(found) if number == 0 or part.start <= place < part.stop]
    if file_id is not None:
        found = [part for part in found[1:] if view.is_about(part, file_id)]
    return [_lines(view, part, pieces, prefix) for part in found]


def _node_offset(pieces: Sequence[Piece], at: int) -> int:
    """Turn an address on the image into one from the start of a node in pieces."""
    before = 0
    for start, length in pieces:
        if start <= at < start + length:
            return before + at - start
        before += length
    return -1


def _image_offset(pieces: Sequence[Piece], offset: int) -> int:
    """Turn an address from the start of a node in pieces into one on the image."""
    for start, length in pieces:
        if offset < length:
            return start + offset
        offset -= length
    return pieces[-1][0] + pieces[-1][1] + offset


def _lines(view: View, part: Described, pieces: Sequence[Piece], prefix: str) -> StructureLines:
    """Turn a described structure into lines with addresses on the image."""
    fields = tuple(
        FieldLine(
            field.path,
            None if field.image_offset is None else _image_offset(pieces, field.image_offset),
            field.length_bytes,
            _shown(field.value),
            view.decode_field(part, field),
        )
        for field in part.fields
    )
    return StructureLines(prefix + part.title, _image_offset(pieces, part.start), fields, part.error)


def _shown(value: object) -> str:
    """Write a value for people: enums by name, bytes as hexadecimal, long ones cut."""
    if isinstance(value, Enum):
        return f"{value.value} ({value.name})"
    if isinstance(value, bytes):
        more = f"… ({len(value):,} bytes)" if len(value) > LONGEST_VALUE else ""
        return value[:LONGEST_VALUE].hex() + more
    return str(value)


@takes(ReadOptions)
def checkpoints(path: str | os.PathLike[str], **options: Unpack[ReadOptions]) -> tuple[StateLine, ...]:
    """List checkpoints and snapshots, with how many of their nodes still exist.

    Raises
    ------
    UsageError
        If no container keeps older states, or this is a capture, which keeps one.

    Examples
    --------
    >>> import layoutscope
    >>> states = layoutscope.checkpoints("fixtures/images/apfs-scattered.img.zst")
    >>> states[0].kind, states[0].is_complete
    ('checkpoint', True)
    """
    path, request = split_request(path, make_request(options, path))
    if is_capture(Path(path)):
        raise UsageError(f"{path}: is a capture; this needs the image itself")
    with open_images(path, request) as images:
        return around_failures(images, lambda: _states_of(images, request))


def _states_of(images: tuple[Source, ...], request: ReadOptions) -> tuple[StateLine, ...]:
    """List the states of the containers on images."""
    source = images[0]
    search = find_volumes(source, depth="everywhere" if request["sweep"] else "usual")
    wanted = choose(source, search, partition=request["partition"], volume_at=request["volume_at"])
    kinds = [(candidate, filesystem(candidate.kind)) for candidate in wanted]
    containers = [(candidate, chosen) for candidate, chosen in kinds if chosen.traits.keeps_states]
    if not containers:
        keeping = " or ".join(item.traits.label for item in filesystems() if item.traits.keeps_states)
        kept_by = " and ".join(item.traits.label for item in filesystems() if not item.traits.keeps_states)
        raise UsageError(f"{source.name}: no {keeping} container; {kept_by} keeps no older states")
    found = tuple(
        StateLine(" > ".join(candidate.stack), **asdict(state))
        for candidate, chosen in containers
        for state in chosen.states(
            make_volume_request(VolumeRequest(source, candidate.image_offset), images, chosen, request)
        )
    )
    if request["volume"] is None:
        return found
    (layout,) = keep_chosen(read_images(images, request), request).layouts
    # A checkpoint names all of its volumes.
    return tuple(state for state in found if f", {layout.facts.name}, " in f", {state.volume}, ")

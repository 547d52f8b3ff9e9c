"""Encryption rolling: a volume that is being encrypted, decrypted, or gets other keys.

Apple File System Reference, Encryption Rolling. The state leads to a bitmap of blocks that were handled and to a list
of blocks for recovery. Apple says neither how they are stored nor what the records of the bitmap's tree hold: these
are taken for addresses of bitmap blocks where such blocks lie there, and are findings elsewhere.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.errors import FormatError
from layoutscope.filesystems.apfs.container.objects import ObjectKind, Objects, objects_of
from layoutscope.filesystems.apfs.container.regions import Details, Region
from layoutscope.filesystems.apfs.store.source import TreeSource
from layoutscope.filesystems.apfs.store.walk import read_nodes
from layoutscope.frozen import frozen
from layoutscope.ondisk import grammar
from layoutscope.ondisk.records import ER_STATE_HEAD, GBITMAP_VAL

if TYPE_CHECKING:
    from layoutscope.filesystems.apfs.container.container import Container
    from layoutscope.filesystems.apfs.container.objects import ObjectPlace
    from layoutscope.filesystems.apfs.store.btree import ReadNodes
    from layoutscope.filesystems.apfs.store.nodes import NodeRows
    from layoutscope.filesystems.apfs.volume.volume import Volume

    State = grammar.ApfsEncryption.ErStateV1 | grammar.ApfsEncryption.ErState

KINDS: Final = grammar.ApfsObject.ObjectType
OWNER: Final = "encryption rolling"
VALUE: Final = GBITMAP_VAL


@frozen
class Rolling:
    """What an encryption under way holds: regions, trees, and facts for a report."""

    regions: list[Region] = field(default_factory=list)
    trees: list[NodeRows] = field(default_factory=list)
    details: Details = field(default_factory=dict)


def read_rolling(container: Container, volume: Volume) -> Rolling:
    """Read the state of an encryption under way; nothing where there is none."""
    oid, rolling = volume.superblock.er_state_oid, Rolling()
    if not oid:
        return rolling
    objects = Objects(container, volume.view, volume.log)
    try:
        state, place = _read_state(objects, oid)
    except FormatError as error:
        volume.log.survive(error)
        return rolling
    rolling.regions.extend(_region("er-state", place))
    rolling.details["encryption under way"] = ", ".join(_flags(state.flags))
    rolling.details["encryption progress"] = f"{state.progress:,} of {state.num_blocks_to_encrypt:,} blocks"
    if state.blockmap_oid:
        _read_bitmap(objects, volume, state.blockmap_oid, rolling)
    # The list came with the second version of the state.
    if isinstance(state, grammar.ApfsEncryption.ErState) and state.recovery_list_oid:
        rolling.regions.extend(_recovery_list(objects, state.recovery_list_oid))
    return rolling


def _read_state(objects: Objects, oid: int) -> tuple[State, ObjectPlace]:
    """Parse the state by its version."""
    types, name = grammar.ApfsEncryption, "encryption rolling state"
    kind = ObjectKind(types.ErStateHead, int(KINDS.er_state), name)
    head, place = objects.read(kind, oid)
    # The reference numbers one version (ER_VERSION, p. 171) and has two structures, of which one is called the first.
    version = types.ErVersion
    by_version: dict[int, type[State]] = {int(version.first): types.ErStateV1, int(version.second): types.ErState}
    cls = by_version.get(int(head.version))
    if cls is None:
        where = objects.container.blocks.at(place.paddr) + ER_STATE_HEAD.version.offset
        raise FormatError("of an unknown version", structure=name, image_offset=where, found=str(head.version))
    return objects.read(ObjectKind(cls, kind.type, name), oid)


def _flags(value: int) -> list[str]:
    flags = grammar.ApfsEncryption.ErFlag
    return [flag.name.replace("_", " ") for flag in flags if value & flag] or ["state unknown"]


def _region(kind: str, place: ObjectPlace) -> list[Region]:
    """Make a region of an object, unless the checkpoint area's regions show it."""
    return [] if place.is_ephemeral else [Region(kind, OWNER, place.paddr)]


def _recovery_list(objects: Objects, oid: int) -> list[Region]:
    """Follow the list of recovery blocks."""
    regions, seen = list[Region](), set[int]()
    kind = ObjectKind(grammar.ApfsEncryption.ErRecoveryBlock, int(KINDS.er_recovery_block), "recovery block")
    # Recovery blocks form a chain, which damage may close to a ring.
    while oid and oid not in seen:
        seen.add(oid)
        found = objects.try_read(kind, oid)
        if found is None:
            break
        block, place = found
        regions += _region("er-recovery-block", place)
        oid = block.next_oid
    return regions


def _read_bitmap(objects: Objects, volume: Volume, oid: int, rolling: Rolling) -> None:
    """Read the head of the bitmap of handled blocks, its tree, and locate its blocks."""
    kind = ObjectKind(grammar.ApfsEncryption.Gbitmap, int(KINDS.gbitmap), "bitmap of encrypted blocks")
    found = objects.try_read(kind, oid)
    if found is None:
        return
    head, place = found
    rolling.regions.extend(_region("gbitmap", place))
    if not head.tree_oid:
        return
    view = None if volume.view.find(np.array([head.tree_oid], np.uint64)).is_missing[0] else volume.view
    nodes, leaves = read_nodes(TreeSource(volume.store, "gbitmap", head.tree_oid, volume.xid, view=view))
    rolling.trees.append(nodes)
    for batch in leaves:
        rolling.regions.extend(_bitmap_blocks(objects.container, batch))


def _bitmap_blocks(container: Container, batch: ReadNodes) -> list[Region]:
    """Locate the blocks that a batch of leaves leads to."""
    slots, regions = batch.slots, list[Region]()
    kind = ObjectKind(grammar.ApfsEncryption.GbitmapBlock, int(KINDS.gbitmap_block), "bitmap block")
    rows = np.flatnonzero(slots.val_len == VALUE.width)
    found = container.decoder.column(VALUE, batch.buffer, slots.val_start[rows], VALUE.paddr)
    by_row = dict(zip(rows.tolist(), found.tolist(), strict=True))
    for row in range(len(slots)):
        try:
            _, place = objects_of(container).read(kind, by_row.get(row, 0))
        except FormatError:
            log = batch.at(int(slots.node[row]), int(slots.key_start[row]))
            log.add("record-invalid", "info", "record of a kind that is not documented")
            continue
        regions += _region("gbitmap-block", place)
    return regions

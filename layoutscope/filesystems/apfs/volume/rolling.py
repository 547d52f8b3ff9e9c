"""Encryption rolling: a volume that is being encrypted, decrypted, or gets other keys.

Apple File System Reference, Encryption Rolling. The state leads to a bitmap of blocks that were handled and to a list
of blocks for recovery. Apple says neither how they are stored nor what the records of the bitmap's tree hold: these
are taken for addresses of bitmap blocks where such blocks lie there, and are findings elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope.errors import FormatError
from layoutscope.filesystems.apfs.container.objects import read_kind, try_kind
from layoutscope.filesystems.apfs.container.regions import Region
from layoutscope.filesystems.apfs.store.source import TreeSource, lead_type
from layoutscope.filesystems.apfs.store.walk import read_nodes
from layoutscope.findings import Finding, from_error
from layoutscope.ondisk import grammar
from layoutscope.ondisk.records import ER_STATE_HEAD, GBITMAP_VAL

if TYPE_CHECKING:
    from layoutscope.filesystems.apfs.container.container import Container
    from layoutscope.filesystems.apfs.container.objects import Place
    from layoutscope.filesystems.apfs.store.btree import NodeBatch
    from layoutscope.filesystems.apfs.store.nodes import TreeNodes
    from layoutscope.filesystems.apfs.volume.volume import Volume

KINDS: Final = grammar.ApfsObject.ObjectType
OWNER: Final = "encryption rolling"
VALUE: Final = GBITMAP_VAL


@dataclass(frozen=True, slots=True)
class Rolling:
    """What an encryption under way holds: regions, trees, and facts for a report."""

    regions: list[Region] = field(default_factory=list)
    trees: list[TreeNodes] = field(default_factory=list)
    details: dict[str, str | int | float | bool] = field(default_factory=dict)


def read_rolling(container: Container, volume: Volume, findings: list[Finding]) -> Rolling:
    """Read the state of an encryption under way; nothing where there is none.

    Parameters
    ----------
    container : Container
        The container.
    volume : Volume
        A volume, in its live state.
    findings : list of Finding
        Collects what is damaged or not understood, with its address.
    """
    oid, rolling = volume.superblock.er_state_oid, Rolling()
    if not oid:
        return rolling
    try:
        state, place = _read_state(container, volume, oid)
    except FormatError as error:
        findings.append(from_error(error))
        return rolling
    rolling.regions.extend(_region("er-state", place))
    rolling.details["encryption under way"] = ", ".join(_flags(state.flags))
    rolling.details["encryption progress"] = f"{state.progress:,} of {state.total_blocks_to_encrypt:,} blocks"
    if state.blockmap_oid:
        _read_bitmap(container, volume, state.blockmap_oid, rolling, findings)
    if getattr(state, "recovery_list_oid", 0):
        rolling.regions.extend(_recovery_list(container, volume, state.recovery_list_oid, findings))
    return rolling


def _read_state(container: Container, volume: Volume, oid: int) -> tuple[Any, Place]:
    """Parse the state by its version.

    Raises
    ------
    FormatError
        If it cannot be used, or is of an unknown version.
    """
    types, kind, name = grammar.ApfsEncryption, int(KINDS.er_state), "encryption rolling state"
    head, place = read_kind(container, types.ErStateHead, oid, kind, name, volume.view)
    version = types.ErVersion
    by_version: dict[int, Any] = {int(version.first): types.ErStateV1, int(version.second): types.ErState}
    cls = by_version.get(head.version)
    if cls is None:
        where = container.blocks.at(place.paddr) + ER_STATE_HEAD.version.offset
        raise FormatError("of an unknown version", structure=name, image_offset=where, found=str(head.version))
    return read_kind(container, cls, oid, kind, name, volume.view)


def _flags(value: int) -> list[str]:
    flags = grammar.ApfsEncryption.ErFlag
    return [flag.name.replace("_", " ") for flag in flags if value & flag] or ["state unknown"]


def _region(kind: str, place: Place) -> list[Region]:
    """Make a region of an object, unless the checkpoint area's regions show it."""
    return [] if place.is_ephemeral else [Region(kind, OWNER, place.paddr)]


def _recovery_list(container: Container, volume: Volume, oid: int, findings: list[Finding]) -> list[Region]:
    """Follow the list of recovery blocks."""
    regions, seen = list[Region](), set[int]()
    cls, kind, name = grammar.ApfsEncryption.ErRecoveryBlock, int(KINDS.er_recovery_block), "recovery block"
    while oid and oid not in seen:
        seen.add(oid)
        found = try_kind(container, cls, oid, kind, name, findings, volume.view)
        if found is None:
            break
        block, place = found
        regions += _region("er-recovery-block", place)
        oid = block.next_oid
    return regions


def _read_bitmap(container: Container, volume: Volume, oid: int, rolling: Rolling, findings: list[Finding]) -> None:
    """Read the head of the bitmap of handled blocks, its tree, and locate its blocks."""
    cls, kind = grammar.ApfsEncryption.Gbitmap, int(KINDS.gbitmap)
    found = try_kind(container, cls, oid, kind, "bitmap of encrypted blocks", findings, volume.view)
    if found is None:
        return
    head, place = found
    rolling.regions.extend(_region("gbitmap", place))
    if not head.tree_oid:
        return
    view = None if volume.view.find(np.array([head.tree_oid], np.uint64)).is_missing[0] else volume.view
    source = TreeSource(
        "gbitmap", container.blocks, container.decoder, head.tree_oid, view, *lead_type("gbitmap"), volume.xid
    )
    nodes, leaves = read_nodes(source, findings)
    rolling.trees.append(nodes)
    for batch in leaves:
        rolling.regions.extend(_bitmap_blocks(container, batch, findings))


def _bitmap_blocks(container: Container, batch: NodeBatch, findings: list[Finding]) -> list[Region]:
    """Locate the blocks that a batch of leaves leads to."""
    slots, regions = batch.slots, list[Region]()
    kind, cls = int(KINDS.gbitmap_block), grammar.ApfsEncryption.GbitmapBlock
    rows = np.flatnonzero(slots.val_len == VALUE.width)
    found = container.decoder.column(VALUE, batch.buffer, slots.val_start[rows], VALUE.paddr)
    by_row = dict(zip(rows.tolist(), found.tolist(), strict=True))
    for row in range(len(slots)):
        try:
            _, place = read_kind(container, cls, by_row.get(row, 0), kind, "bitmap block")
        except FormatError:
            findings.append(_not_understood(container, batch, row))
            continue
        regions += _region("gbitmap-block", place)
    return regions


def _not_understood(container: Container, batch: NodeBatch, row: int) -> Finding:
    node = int(batch.slots.node[row])
    where, device = container.blocks.place(int(batch.places.paddr[node]))
    where += int(batch.slots.key_start[row]) - node * batch.size_bytes
    name = f"gbitmap tree, node {batch.places.node_id[node]}"
    return Finding("record-invalid", "info", name, where, "record of a kind that is not documented", device=device)

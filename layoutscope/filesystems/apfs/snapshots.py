"""Readable states: checkpoints that are still in the ring, and snapshots with their nodes and data.

Apple File System Reference, Snapshot Metadata. A snapshot's file-system tree is located through the volume's object map
as of the snapshot's transaction. Data that only the snapshot keeps is in a separate extent-reference tree.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec.structs import replace

from layoutscope.display import Struct
from layoutscope.errors import FormatError
from layoutscope.filesystems.apfs import checkpoint as checkpoints
from layoutscope.filesystems.apfs import omap as omaps
from layoutscope.filesystems.apfs.btree import open_omap
from layoutscope.filesystems.apfs.container import newest_xid
from layoutscope.filesystems.apfs.fsrecords import to_text, walk_record_tree
from layoutscope.filesystems.apfs.source import TreeSource
from layoutscope.filesystems.apfs.verify import decode_objects, read_object, read_virtual
from layoutscope.filesystems.apfs.volume import (
    decode_stored_name,
    list_volumes,
    open_volume,
    read_seal,
)
from layoutscope.filesystems.contract import ReadableState
from layoutscope.image.passes import read_alone
from layoutscope.structs import grammar
from layoutscope.structs.checksum import fletcher64
from layoutscope.structs.records import OBJ_PHYS

if TYPE_CHECKING:
    from layoutscope.filesystems.apfs.container import Container
    from layoutscope.filesystems.apfs.fsrecords import RecordTree
    from layoutscope.filesystems.apfs.nodes import NodeRows
    from layoutscope.filesystems.apfs.spaceman import Details
    from layoutscope.filesystems.apfs.volume import Volume
    from layoutscope.structs.grammar import ApfsContainer, ApfsVolume


LIVE: Final = "live"
"""Name of the view of the newest checkpoint."""


def describe_state(container: Container, wanted_xid: int | None) -> str:
    """Name the state that was opened: the live one, or an older one by request or because newer ones are damaged."""
    is_older = wanted_xid == container.xid and newest_xid(container.area) > container.xid
    return f"xid {container.xid}" if is_older or container.younger else LIVE


def count_dropped_nodes(
    newest: Container | None,  # the container in its newest state; None if that is the state that was read
    state: Volume,
    nodes: NodeRows,
) -> Details:
    """Count the nodes of an older state's file-system tree that are not in the newest state any more."""
    if newest is None:
        return {}
    held = np.empty(0, np.uint64)
    # For a deleted volume, this means all nodes.
    with suppress(FormatError):
        held = open_volume(newest, newest.store.apart(), state.superblock.hdr.oid, state.number).omap.paddr
    return {"nodes given up since": int((~np.isin(nodes.paddr, held)).sum())}


def read_snapshots(container: Container, volume: Volume) -> list[Snapshot]:
    """List the snapshots of a volume, oldest first."""
    root = volume.superblock.snap_meta_tree_oid
    tree = read_alone(walk_record_tree(TreeSource(container.store.apart(), "snapmeta", root, container.xid)))
    return list_snapshots(tree)


def states_of(container: Container) -> list[ReadableState]:
    """List checkpoints, newest first, then snapshots."""
    rows = [
        _checkpoint_state(container, paddr, superblock)
        for paddr, superblock in checkpoints.superblocks(container.store.apart(), container.area)
    ]
    return rows + _snapshot_states(container)


def _snapshot_states(container: Container) -> list[ReadableState]:
    rows = []
    for number, (_, oid) in enumerate(list_volumes(container), 1):
        try:
            volume = open_volume(container, container.store.apart(), oid, number)
        except FormatError:
            rows.append(ReadableState("snapshot", "unknown", 0, f"volume {number}", 0, False, 0, 0))
            continue
        listed = read_snapshots(container, volume)
        for item in listed:
            found = _count_mapped_nodes(container, volume.omap, item.xid)
            is_complete = _is_whole(volume.omap) and bool(open_all(volume, [item]))
            rows.append(
                ReadableState("snapshot", item.name, item.xid, volume.name, item.create_time, is_complete, *found)
            )
        # If the list of snapshots is lost, it is not empty.
        lost = int(volume.superblock.num_snapshots) - len(listed)
        if lost > 0:
            rows.append(ReadableState("snapshot", f"{lost:,} lost", 0, volume.name, 0, False, 0, 0))
    return rows


def _is_whole(omap: omaps.ObjectMap | None) -> bool:
    """Return whether all nodes that a map's index nodes name exist and are sound."""
    if omap is None or not omap.nodes.valid.all():
        return False
    return int(omap.nodes.num_records[omap.nodes.level > 0].sum()) == len(omap.nodes) - 1


def _checkpoint_state(container: Container, paddr: int, superblock: ApfsContainer.NxSuperblock) -> ReadableState:
    xid = superblock.hdr.xid
    is_complete = not checkpoints.open_checkpoint(container.store, container.area, paddr, superblock)[1]
    names, times, nodes = [], [0], np.zeros(2, np.int64)
    volumes = volumes_at(container, superblock)
    # Later transactions overwrite a state's object map and superblocks once its checkpoint maps are discarded.
    is_complete &= len(volumes) == sum(oid > 0 for oid in superblock.fs_oid)
    for volume, _ in volumes:
        names.append(decode_stored_name(volume))
        times.append(volume.last_mod_time)
        omap = read_map_at(container, volume, xid)
        nodes += (0, 0) if omap is None else _count_mapped_nodes(container, omap, xid)
        is_complete &= _is_whole(omap)
    return ReadableState(
        "checkpoint", str(xid), xid, ", ".join(names), max(times), is_complete, int(nodes[0]), int(nodes[1])
    )


def volumes_at(
    container: Container, superblock: ApfsContainer.NxSuperblock
) -> list[tuple[ApfsVolume.ApfsSuperblock, int]]:
    """Parse the volume superblocks of an older state that still exist; return each with its address."""
    blocks, xid = container.blocks, superblock.hdr.xid
    oids = [oid for oid in superblock.fs_oid if oid]
    try:
        _, omap = open_omap(container.store.apart(), "container-omap", superblock.omap_oid, xid)
    except FormatError:
        return []
    view, cls = omaps.view_at(omap, xid), grammar.ApfsVolume.ApfsSuperblock
    parsed = []
    for oid in oids:
        with suppress(FormatError):
            parsed.append(read_virtual(blocks, cls, view, oid, "volume superblock"))
    return parsed


def read_map_at(container: Container, superblock: ApfsVolume.ApfsSuperblock, xid: int) -> omaps.ObjectMap | None:
    """Read a volume's object map in an older state; None if its header no longer exists."""
    with suppress(FormatError):
        return open_omap(container.store.apart(), "omap", superblock.omap_oid, xid)[1]
    return None


def _count_mapped_nodes(container: Container, omap: omaps.ObjectMap, xid: int) -> tuple[int, int]:
    """Count the objects in a map at a transaction, and those with a valid checksum and identity."""
    blocks, row = container.blocks, omaps.view_at(omap, xid).row
    # Objects that are encrypted or have no header cannot be verified here, so they count as valid.
    plain = row[~omap.is_encrypted[row] & ~omap.is_noheader[row]]
    near = plain[blocks.readable(omap.paddr[plain], blocks.block_size) & (omap.size_bytes[plain] == blocks.block_size)]
    data = blocks.read(omap.paddr[near], blocks.block_size)
    head = decode_objects(OBJ_PHYS, data, (OBJ_PHYS.cksum, OBJ_PHYS.oid, OBJ_PHYS.xid))
    sound = (fletcher64(data) == head["cksum"]) & (head["oid"] == omap.oid[near]) & (head["xid"] == omap.xid[near])
    return len(row), int(sound.sum()) + len(row) - len(plain)


class Snapshot(Struct, frozen=True):
    """One snapshot, as described by the metadata tree."""

    name: str
    xid: int  # its transaction
    create_time: int  # nanoseconds since 1970
    sblock_paddr: int  # address of the copy of the volume superblock; 0 if it has none
    extentref_paddr: int  # address of its extent-reference tree's root; 0 if it has none

    @property
    def view(self) -> str:
        """Name of the view."""
        return f"snapshot {self.name}"


def list_snapshots(records: RecordTree) -> list[Snapshot]:
    """List the snapshots in the metadata tree, oldest first."""
    table = records.get("snap_metadata")
    if not len(table["obj_id"]):
        return []
    names: list[Any] = to_text(table["name"]).to_list()
    columns = ("obj_id", "create_time", "sblock_oid", "extentref_tree_oid")
    rows = zip(*(table[name].tolist() for name in columns), strict=True)
    return [Snapshot(name, *row) for name, row in zip(names, rows, strict=True)]


def open_snapshot(volume: Volume, snapshot: Snapshot) -> Volume:
    """Open the state of a volume in a snapshot."""
    superblock, paddr = volume.superblock, snapshot.sblock_paddr
    if paddr:
        # The transaction in its header is not the snapshot's: in an image of macOS (offsite_source_2snaps) both copies
        # were rewritten in transaction 26, while the snapshots are of transactions 10 and 22.
        name, cls = f"superblock of {snapshot.view}", grammar.ApfsVolume.ApfsSuperblock
        superblock = read_object(volume.store.blocks, cls, paddr, name)
    view = omaps.view_at(volume.omap, snapshot.xid)
    seal = read_seal(volume.store, view, superblock, snapshot.view)
    return replace(volume, superblock=superblock, paddr=paddr, xid=snapshot.xid, view=view, seal=seal)


def open_all(volume: Volume, snapshots: list[Snapshot]) -> list[tuple[Snapshot, Volume]]:
    """Open every snapshot that can be opened."""
    opened = []
    for snapshot in snapshots:
        try:
            opened.append((snapshot, open_snapshot(volume, snapshot)))
        except FormatError as error:
            volume.log.survive(error)
    return opened


def snapshot_view(container: Container, volume: Volume, name: str | None, xid: int | None) -> str | None:
    """Return the view name of the requested snapshot; None if this volume does not have it."""
    for snapshot in read_snapshots(container, volume):
        if name in (None, snapshot.name) and xid in (None, container.xid, snapshot.xid):
            return snapshot.view
    return None


def no_such_state(
    container: Container,
    name: str | None,  # the requested snapshot; None if a transaction was requested
    xid: int | None,
) -> str:
    """Return a message that a snapshot or transaction does not exist, with those that exist."""
    wanted = f"snapshot {name!r}" if name is not None else f"state of transaction {xid}"
    known = ", ".join(f"{row.kind} {row.label}" for row in states_of(container)) or "none"
    return f"no {wanted}. Choose from: {known}"

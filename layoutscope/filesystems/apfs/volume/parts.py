"""Everything of one volume, read: the trees of one state, and the nodes of all others."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from layoutscope.arrays import intervals
from layoutscope.arrays.lookup import Index, index_of, is_strictly_ascending
from layoutscope.errors import FormatError
from layoutscope.filesystems.apfs.container.regions import Region, as_runs, node_runs
from layoutscope.filesystems.apfs.store.fsrecords import RecordTree
from layoutscope.filesystems.apfs.store.walk import Pool
from layoutscope.filesystems.apfs.volume import states as snapshots
from layoutscope.filesystems.apfs.volume.regions import volume_regions
from layoutscope.filesystems.apfs.volume.rolling import Rolling, read_rolling
from layoutscope.filesystems.apfs.volume.trees import (
    is_encrypted,
    locked_nodes,
    read_fext_tree,
    read_fs_nodes,
    read_fs_tree,
    read_physical_tree,
)
from layoutscope.findings import FindingLog
from layoutscope.frozen import frozen
from layoutscope.tables.schema import fork_of_attribute

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from layoutscope.filesystems.apfs.container.container import Container
    from layoutscope.filesystems.apfs.container.parts import ContainerParts
    from layoutscope.filesystems.apfs.store.crypto import Cipher
    from layoutscope.filesystems.apfs.store.fsrecords import Columns, RecordTables
    from layoutscope.filesystems.apfs.store.nodes import NodeRows
    from layoutscope.filesystems.apfs.store.sweep import Swept
    from layoutscope.filesystems.apfs.volume.states import Snapshot
    from layoutscope.filesystems.apfs.volume.volume import Volume
    from layoutscope.findings import FindingLog


@frozen
class VolumeParts:
    """All that was read of a volume."""

    state: Volume  # the state that the layout shows
    view: str  # its name
    # fs, extentref, snapmeta, fext: its trees; the last one only of sealed volumes
    fs: RecordTree
    extentref: RecordTree
    snapmeta: RecordTree
    fext: RecordTree
    snapshots: list[Snapshot]  # all that the volume has
    # nodes of the file-system trees of all states by their names, the live one first; parents are positions in it
    views: dict[str, NodeRows]
    snapshot_extents: list[RecordTree]  # extent-reference trees of the snapshots
    regions: list[Region]  # metadata that is no tree node
    is_locked: bool  # whether the file-system tree could not be read for want of a key
    cipher: Cipher | None = None  # of an encrypted volume that was unlocked
    rolling: Rolling = field(default_factory=Rolling)  # of an encryption under way
    # blocks of those nodes of the file-system tree that no object map names any more
    inferred: NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, np.uint64))
    # lost, lost_of_snapshots: nodes that a tree led to and that are among none of its nodes: roots that cannot be used,
    # and leaves that others took the place of
    lost: list[NodeRows] = field(default_factory=list)
    lost_of_snapshots: list[NodeRows] = field(default_factory=list)
    _known: dict[str, NDArray[np.int64]] = field(default_factory=dict, init=False, repr=False)

    @property
    def log(self) -> FindingLog:
        """What is wrong with this volume."""
        return self.state.log

    def claimed(self, block_size: int) -> NDArray[np.int64]:
        """Blocks that the volume uses."""
        return self._remembered("claimed", lambda: intervals.union(self.claims(block_size)))

    def claims(self, block_size: int) -> list[NDArray[np.int64]]:
        """Sets of blocks that the volume uses: for nodes, for regions, for data that is counted, for data of files."""
        nodes = self._remembered("nodes", lambda: node_runs(self._trees(), block_size))
        return [nodes, as_runs(self.regions), self.data_runs(), self.file_runs(block_size)]

    def _trees(self) -> list[NodeRows]:
        """All trees of all states, each once."""
        trees = [*self.own_trees(), *(tree.nodes for tree in self.snapshot_extents)]
        trees += [*self.lost, *self.lost_of_snapshots]
        return trees + [nodes for nodes in self.views.values() if not any(nodes is other for other in trees)]

    def own_trees(self) -> list[NodeRows]:
        """Nodes of the trees of this state; the object map comes first, the file-system tree second."""
        state = self.state
        trees = [self.fs, self.extentref, self.snapmeta, self.fext]
        return [state.omap.nodes, *(tree.nodes for tree in trees), state.omap_snapshots, *self.rolling.trees]

    def file_extents(self) -> Columns:
        """Extents of files: from the file-system tree, or from the fext tree of a sealed volume."""
        return self.fext.records.get("file_extent") if len(self.fext.nodes) else self.fs.records.get("file_extent")

    def data_runs(self) -> NDArray[np.int64]:
        """Blocks of data that the live volume or a snapshot refers to."""
        return self._remembered("data", self._data_runs)

    def file_runs(self, block_size: int) -> NDArray[np.int64]:
        """Blocks of data that files of this state hold."""
        return self._remembered("files", lambda: self._file_runs(block_size))

    def _remembered(self, key: str, make: Callable[[], NDArray[np.int64]]) -> NDArray[np.int64]:
        if key not in self._known:
            self._known[key] = make()
        return self._known[key]

    def _data_runs(self) -> NDArray[np.int64]:
        tables = [tree.records.get("extent") for tree in (self.extentref, *self.snapshot_extents)]
        return intervals.union(
            [intervals.runs_of(table["obj_id"], table["num_blocks"]) for table in tables if len(table["obj_id"])]
        )

    def _file_runs(self, block_size: int) -> NDArray[np.int64]:
        table = self.file_extents()
        if not len(table["obj_id"]):
            return np.empty((0, 2), np.int64)
        return intervals.runs_of(*stretches(table, block_size))


def stretches(extents: Columns, block_size: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """First block and number of blocks of extents, holes left out."""
    if "paddr" not in extents:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    # As numbers with a sign they are the same bytes.
    first, length = extents["paddr"].view(np.int64), extents["len_extent"].view(np.int64)
    # An extent at block 0 is a hole: the superblock lies there, so that no file can.
    is_hole = first == 0
    if is_hole.any():
        first, length = first[~is_hole], length[~is_hole]
    return first, _in_blocks(length, block_size)


def _in_blocks(length: NDArray[np.int64], block_size: int) -> NDArray[np.int64]:
    """Round lengths up to whole blocks; a power of two needs no division."""
    if block_size & (block_size - 1):
        return -(-length // block_size)
    blocks: NDArray[np.int64] = length >> (block_size.bit_length() - 1)
    blocks += (length & (block_size - 1)) != 0
    return blocks


def read_volume_parts(
    container: Container, volume: Volume, *, cipher: Cipher | None = None, chosen: str = "live"
) -> VolumeParts:
    """Read all trees of one state of a volume, and the nodes of its other states."""
    opened, physical = _read_physical(container, volume)
    states = {"live": volume} | {snapshot.view: state for snapshot, state in opened}
    if chosen not in states:
        where = volume.store.blocks.at(int(volume.superblock.snap_meta_tree_oid))
        raise FormatError("cannot be opened", structure=chosen, image_offset=where)
    fs, views = _read_states(states, chosen, cipher)
    shown, xid = states[chosen], container.xid
    references = [snapshots.read_extent_references(volume.store, snapshot, xid) for snapshot, _ in opened]
    fext = read_fext_tree(shown)
    rolling = read_rolling(container, volume)
    claimed = [*views.values(), fext.nodes, *rolling.trees]
    regions = volume_regions(container, list(states.values()), claimed, rolling.regions)
    lost = [_is_live(nodes, volume) for nodes in volume.store.lost]
    return VolumeParts(
        state=shown,
        view=chosen,
        fs=fs,
        extentref=physical.extentref,
        snapmeta=physical.snapmeta,
        fext=fext,
        snapshots=physical.snapshots,
        views=views,
        snapshot_extents=references,
        regions=regions,
        is_locked=_is_locked(volume, cipher),
        cipher=cipher,
        rolling=rolling,
        lost=[nodes for nodes, is_live in zip(volume.store.lost, lost, strict=True) if is_live],
        lost_of_snapshots=[nodes for nodes, is_live in zip(volume.store.lost, lost, strict=True) if not is_live],
    )


def _is_live(root: NodeRows, volume: Volume) -> bool:
    """Whether a lost root is one that the live state of its volume leads to, and not a snapshot alone."""
    superblock = volume.superblock
    if root.tree == "extentref":
        return int(root.node_id[0]) == superblock.extentref_tree_oid
    if root.tree != "fs":
        return True
    found = volume.view.find(np.array([superblock.root_tree_oid], np.uint64))
    # The root of a tree that is physical is named by its address.
    return int(root.paddr[0]) in (int(found.paddr[0]), superblock.root_tree_oid)


class _Physical(NamedTuple):
    """Trees of a volume that need no object map, and the snapshots that they list."""

    extentref: RecordTree
    snapmeta: RecordTree
    snapshots: list[Snapshot]


def _read_physical(container: Container, volume: Volume) -> tuple[list[tuple[Snapshot, Volume]], _Physical]:
    """Read extent references and snapshot metadata, and open the snapshots."""
    superblock, store, xid = volume.superblock, volume.store, container.xid
    extentref = read_physical_tree(store, "extentref", superblock.extentref_tree_oid, xid)
    snapmeta = read_physical_tree(store, "snapmeta", superblock.snap_meta_tree_oid, xid)
    listed = snapshots.list_snapshots(snapmeta.records)
    return snapshots.open_all(volume, listed), _Physical(extentref, snapmeta, listed)


def _read_states(
    states: dict[str, Volume], chosen: str, cipher: Cipher | None
) -> tuple[RecordTree, dict[str, NodeRows]]:
    """Read the file-system tree of the chosen state, and the nodes that only others have."""
    if _is_locked(states["live"], cipher):
        nodes = {name: locked_nodes(state) for name, state in states.items()}
        return RecordTree(nodes[chosen]), nodes
    # States that are sealed read their nodes otherwise than those that are not, even where they share them.
    pools = {_hash_type(state): Pool() for state in states.values()}
    shown = states[chosen]
    fs = read_fs_tree(shown, cipher, pools[_hash_type(shown)] if len(states) > 1 else None)
    views = {
        name: fs.nodes if name == chosen else read_fs_nodes(state, cipher, pools[_hash_type(state)])
        for name, state in states.items()
    }
    return fs, views


def _hash_type(state: Volume) -> int:
    """How the nodes of a state are hashed; 0 where they are not, or nothing says how."""
    return state.seal.hash_type if state.seal else 0


def _is_locked(volume: Volume, cipher: Cipher | None) -> bool:
    """Tell whether the file-system tree cannot be read for want of a key."""
    return is_encrypted(volume) and cipher is None


RESOURCE_FORK = "com.apple.ResourceFork"


DATA, ORPHAN = 0, 1
"""Places in the list of forks."""


@frozen
class Streams:
    """Owners of data streams, in ascending order of the stream's identifier, by which the index finds them.

    `are_files` tells that every stream is a file's of its own number.
    """

    index: Index
    file_id: NDArray[np.uint64]
    size_bytes: NDArray[np.int64]
    fork: NDArray[np.uint32]
    forks: tuple[str, ...]
    are_files: bool = False


def streams(records: RecordTables) -> Streams:
    """List who owns each data stream: inodes, and extended attributes that are too long to be embedded."""
    return records.remembered(("streams",), lambda: _streams(records))


def _streams(records: RecordTables) -> Streams:
    inodes, xattrs = records.get("inode"), records.get("xattr")
    forks = ["data", "orphan"]
    parts: list[tuple[Any, ...]] = []
    if records.count("inode"):
        size = inodes["data_size"].view(np.int64)
        parts.append((inodes["private_id"], inodes["obj_id"], size, np.broadcast_to(np.uint32(DATA), len(size))))
    if records.count("xattr"):
        parts.append(_attribute_streams(xattrs, forks))
    if not parts:
        nothing = np.empty(0, np.uint64)
        return Streams(index_of(nothing), nothing, np.empty(0, np.int64), np.empty(0, np.uint32), tuple(forks))
    stream_id, file_id, size, fork = parts[0] if len(parts) == 1 else _joined(parts)
    if not is_strictly_ascending(stream_id):
        order = np.argsort(stream_id, kind="stable")
        stream_id, file_id, size, fork = stream_id[order], file_id[order], size[order], fork[order]
    # Streams of files that are no clones have the number of their inode.
    is_plain = np.array_equal(stream_id, file_id) and len(parts) == 1
    index = records.index("inode") if is_plain else index_of(stream_id)
    return Streams(index, file_id, size, fork, tuple(forks), is_plain)


def _joined(parts: list[tuple[Any, ...]]) -> tuple[Any, ...]:
    return tuple(np.concatenate(columns) for columns in zip(*parts, strict=True))


def _attribute_streams(xattrs: Columns, forks: list[str]) -> tuple[Any, ...]:
    rows = np.flatnonzero(xattrs["stream_id"] != 0)
    names = xattrs["name"].text().take(rows).to_list() if len(rows) else []
    shown = ["resource" if name == RESOURCE_FORK else fork_of_attribute(name) for name in names]
    forks += sorted(set(shown) - set(forks))
    codes = np.array([forks.index(name) for name in shown], np.uint32)
    return xattrs["stream_id"][rows], xattrs["obj_id"][rows], xattrs["stream_size"][rows].astype(np.int64), codes


@frozen
class ContainerContents:
    """A container as it was read, before its parts are compared."""

    container: Container
    parts: ContainerParts  # what belongs to no volume, and the findings outside of volumes
    volumes: list[VolumeParts]  # every volume that could be opened
    slots: dict[int, int]  # each volume's place in the container's list, by its number
    num_volumes: int  # how many the container names
    swept: Swept | None = None  # what a sweep found, if it was asked for

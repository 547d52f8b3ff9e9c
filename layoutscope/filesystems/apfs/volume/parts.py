"""Everything of one volume, read: the trees of one state, and the nodes of all others."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from layoutscope.arrays import intervals
from layoutscope.errors import FormatError, UnsupportedError
from layoutscope.filesystems.apfs.container.keybag import container_keybag, volume_keybag_run
from layoutscope.filesystems.apfs.container.regions import Region, as_runs, inside, node_runs
from layoutscope.filesystems.apfs.store.sharing import Pool
from layoutscope.filesystems.apfs.store.trees import Tree
from layoutscope.filesystems.apfs.volume import snapshots
from layoutscope.filesystems.apfs.volume.fext import read_fext_tree
from layoutscope.filesystems.apfs.volume.rolling import Rolling, read_rolling
from layoutscope.filesystems.apfs.volume.virtual import virtual_regions
from layoutscope.filesystems.apfs.volume.volume import locked_nodes, read_fs_nodes, read_fs_tree, read_physical_tree

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from layoutscope.filesystems.apfs.container.container import Container
    from layoutscope.filesystems.apfs.store.crypto import Cipher
    from layoutscope.filesystems.apfs.store.fsrecords import Columns
    from layoutscope.filesystems.apfs.store.nodes import TreeNodes
    from layoutscope.filesystems.apfs.volume.snapshots import Snapshot, View
    from layoutscope.filesystems.apfs.volume.volume import Volume
    from layoutscope.findings import FindingLog


@dataclass(frozen=True, slots=True)
class VolumeParts:
    """All that was read of a volume.

    Attributes
    ----------
    state : Volume
        The state that the layout shows.
    view : str
        Its name.
    fs, extentref, snapmeta, fext : Tree
        Its trees; the last one only of sealed volumes.
    snapshots : list of Snapshot
        All that the volume has.
    views : list of View
        File-system trees of all states, the live one first.
    snapshot_extents : list of Tree
        Extent-reference trees of the snapshots.
    regions : list of Region
        Metadata that is no tree node.
    is_locked : bool
        Whether the file-system tree could not be read for want of a key.
    cipher : Cipher or None
        Of an encrypted volume that was unlocked.
    rolling : Rolling
        Of an encryption under way.
    """

    state: Volume
    view: str
    fs: Tree
    extentref: Tree
    snapmeta: Tree
    fext: Tree
    snapshots: list[Snapshot]
    views: list[View]
    snapshot_extents: list[Tree]
    regions: list[Region]
    is_locked: bool
    cipher: Cipher | None = None
    rolling: Rolling = field(default_factory=Rolling)
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

    def _trees(self) -> list[TreeNodes]:
        """All trees of all states, each once."""
        trees = [*self.own_trees(), *(tree.nodes for tree in self.snapshot_extents)]
        return trees + [view.nodes for view in self.views if not any(view.nodes is nodes for nodes in trees)]

    def own_trees(self) -> list[TreeNodes]:
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
    first, length = extents["paddr"].astype(np.int64), extents["length_bytes"].astype(np.int64)
    is_hole = first == 0
    if is_hole.any():
        first, length = first[~is_hole], length[~is_hole]
    return first, -(-length // block_size)


def read_parts(
    container: Container, volume: Volume, *, cipher: Cipher | None = None, chosen: str = "live"
) -> VolumeParts:
    """Read all trees of one state of a volume, and the nodes of its other states.

    Parameters
    ----------
    container : Container
        The container.
    volume : Volume
        Its live state; its log is told what is wrong.
    cipher : Cipher, optional
        Decrypts the file-system tree.
    chosen : str
        Name of the view to show.

    Raises
    ------
    KeyError
        If there is no such view.
    """
    opened, physical = _read_physical(container, volume)
    states = {"live": volume} | {snapshot.view: state for snapshot, state in opened}
    fs, views = _read_states(states, chosen, cipher)
    shown, xid = states[chosen], container.xid
    references = [snapshots.read_extent_references(volume.store, snapshot, xid) for snapshot, _ in opened]
    fext = read_fext_tree(shown)
    rolling = read_rolling(container, volume)
    claimed = [*(view.nodes for view in views), fext.nodes, *rolling.trees]
    regions = volume_regions(container, list(states.values()), claimed, rolling.regions)
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
    )


class _Physical(NamedTuple):
    """Trees of a volume that need no object map, and the snapshots that they list."""

    extentref: Tree
    snapmeta: Tree
    snapshots: list[Snapshot]


def _read_physical(container: Container, volume: Volume) -> tuple[list[tuple[Snapshot, Volume]], _Physical]:
    """Read extent references and snapshot metadata, and open the snapshots."""
    superblock, store, xid = volume.superblock, volume.store, container.xid
    extentref = read_physical_tree(store, "extentref", superblock.extentref_tree_oid, xid)
    snapmeta = read_physical_tree(store, "snapmeta", superblock.snap_meta_tree_oid, xid)
    listed = snapshots.list_snapshots(snapmeta.records)
    return snapshots.open_all(volume, listed), _Physical(extentref, snapmeta, listed)


def _read_states(states: dict[str, Volume], chosen: str, cipher: Cipher | None) -> tuple[Tree, list[View]]:
    """Read the file-system tree of the chosen state, and the nodes that only others have."""
    if _is_locked(states["live"], cipher):
        nodes = {name: locked_nodes(state) for name, state in states.items()}
        return Tree(nodes[chosen]), [snapshots.View(name, nodes[name]) for name in states]
    pool = Pool() if len(states) > 1 else None
    fs = read_fs_tree(states[chosen], cipher, pool)
    views = []
    for name, state in states.items():
        own = fs.nodes
        if pool is not None and name != chosen:
            own = read_fs_nodes(state, cipher, pool)
        views.append(snapshots.View(name, own))
    return fs, views


def _is_locked(volume: Volume, cipher: Cipher | None) -> bool:
    """Tell whether the file-system tree cannot be read for want of a key."""
    return is_encrypted(volume) and cipher is None


def is_encrypted(volume: Volume) -> bool:
    """Tell whether the nodes of the file-system tree are encrypted."""
    found = volume.view.find(np.array([volume.superblock.root_tree_oid], np.uint64))
    return bool(found.is_encrypted[0] and not found.is_missing[0])


def volume_regions(
    container: Container, states: list[Volume], claimed: list[TreeNodes], others: list[Region]
) -> list[Region]:
    """List metadata of a volume and its snapshots outside their trees, each block once.

    Parameters
    ----------
    container : Container
        The container.
    states : list of Volume
        The live state, then those of the snapshots.
    claimed : list of TreeNodes
        All virtual trees of all states.
    others : list of Region
        What is known already.
    """
    volume = states[0]
    regions = [*others, Region("object-map", "volume object map", volume.superblock.omap_oid)]
    for state in states:
        owner = "live" if state is volume else f"snapshot of xid {state.xid}"
        regions.append(Region("volume-superblock", owner, state.paddr))
    regions += virtual_regions(volume, claimed)
    regions += keybag_regions(container, volume) if is_encrypted(volume) else []
    first = {region.paddr: region for region in reversed(regions)}
    return inside(list(first.values()), volume.store)


def keybag_regions(container: Container, volume: Volume) -> list[Region]:
    """Where the key bag of an encrypted volume lies; the container's, which says so, needs no password."""
    try:
        run = volume_keybag_run(container_keybag(container), bytes(volume.superblock.vol_uuid))
    except FormatError as error:
        if not container.superblock.is_crypto_sw:
            message = f"the key bag was not located, whose own key the hardware may hold: {error.reason}"
            log = volume.log.at_byte("container key bag", error.image_offset)
            log.add("volume-hardware-locked", "info", message)
            return []
        volume.log.survive(error)
        return []
    except UnsupportedError as error:
        message = f"the key bag was not located: {error}"
        volume.log.at("volume key bag").add("volume-locked", "info", message)
        return []
    return [Region("volume-keybag", "container key bag", *run)] if run else []

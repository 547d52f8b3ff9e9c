"""Everything of one volume, read: the trees of one state, and the nodes of all others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from layoutscope.apfs import intervals, snapshots
from layoutscope.apfs.accounting import node_runs
from layoutscope.apfs.keybag import container_keybag, volume_keybag_run
from layoutscope.apfs.locked import locked_nodes
from layoutscope.apfs.regions import Region, as_runs, inside, type_name
from layoutscope.apfs.sealed import read_fext_tree
from layoutscope.apfs.trees import Tree
from layoutscope.apfs.volume import read_fs_nodes, read_fs_tree, read_physical_tree
from layoutscope.errors import FormatError, UnsupportedError
from layoutscope.findings import Finding, from_error

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.apfs.container import Container
    from layoutscope.apfs.crypto import Cipher
    from layoutscope.apfs.fsrecords import Columns
    from layoutscope.apfs.nodes import TreeNodes
    from layoutscope.apfs.snapshots import Snapshot, View
    from layoutscope.apfs.volume import Volume


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
    findings : list of Finding
        What is wrong with this volume.
    cipher : Cipher or None
        Of an encrypted volume that was unlocked.
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
    findings: list[Finding]
    cipher: Cipher | None = None

    def claims(self, block_size: int) -> list[NDArray[np.int64]]:
        """Sets of blocks that the volume uses."""
        trees = [*self.own_trees(), *(tree.nodes for tree in self.snapshot_extents)]
        trees += [view.nodes for view in self.views]
        return [node_runs(trees, block_size), as_runs(self.regions), self.data_runs(), self.file_runs(block_size)]

    def own_trees(self) -> list[TreeNodes]:
        """Nodes of the trees of this state; the object map comes first, the file-system tree second."""
        state = self.state
        trees = [self.fs, self.extentref, self.snapmeta, self.fext]
        return [state.omap.nodes, *(tree.nodes for tree in trees), state.omap_snapshots]

    def file_extents(self) -> Columns:
        """Extents of files: from the file-system tree, or from the fext tree of a sealed volume."""
        return self.fext.records.get("file_extent") if len(self.fext.nodes) else self.fs.records.get("file_extent")

    def data_runs(self) -> NDArray[np.int64]:
        """Blocks of data that the live volume or a snapshot refers to."""
        tables = [tree.records.get("extent") for tree in (self.extentref, *self.snapshot_extents)]
        return intervals.union(
            [intervals.runs_of(table["obj_id"], table["num_blocks"]) for table in tables if len(table["obj_id"])]
        )

    def file_runs(self, block_size: int) -> NDArray[np.int64]:
        """Blocks of data that files of this state hold."""
        table = self.file_extents()
        if not len(table["obj_id"]):
            return np.empty((0, 2), np.int64)
        real = table["paddr"] != 0
        return intervals.runs_of(table["paddr"][real], -(-table["length_bytes"][real].astype(np.int64) // block_size))


def read_parts(
    container: Container,
    volume: Volume,
    findings: list[Finding],
    *,
    cipher: Cipher | None = None,
    chosen: str = "live",
) -> VolumeParts:
    """Read all trees of one state of a volume, and the nodes of its other states.

    Parameters
    ----------
    container : Container
        The container.
    volume : Volume
        Its live state.
    findings : list of Finding
        What was already found about this volume; more is added.
    cipher : Cipher, optional
        Decrypts the file-system tree.
    chosen : str
        Name of the view to show.

    Raises
    ------
    KeyError
        If there is no such view.
    """
    blocks, decoder, superblock = container.blocks, container.decoder, volume.superblock
    newest = container.xid
    extentref = read_physical_tree(blocks, decoder, "extentref", superblock.extentref_tree_oid, newest, findings)
    snapmeta = read_physical_tree(blocks, decoder, "snapmeta", superblock.snap_meta_tree_oid, newest, findings)
    listed = snapshots.list_snapshots(snapmeta.records)
    opened = snapshots.open_all(blocks, volume, listed, findings)
    states = {"live": volume} | {snapshot.view: state for snapshot, state in opened}
    shown = states[chosen]
    is_locked = is_encrypted(volume) and cipher is None
    fs = Tree(locked_nodes(shown)) if is_locked else read_fs_tree(blocks, decoder, shown, findings, cipher)
    views = [snapshots.View(chosen, fs.nodes)]
    for name, state in states.items():
        if name != chosen:
            nodes = locked_nodes(state) if is_locked else read_fs_nodes(blocks, decoder, state, findings, cipher)
            views.append(snapshots.View(name, nodes))
    views.sort(key=lambda view: list(states).index(view.name))
    references = [
        snapshots.read_extent_references(blocks, decoder, snapshot, newest, findings) for snapshot, _ in opened
    ]
    fext = read_fext_tree(blocks, decoder, shown, findings)
    regions = volume_regions(
        container, volume, list(states.values()), [*(view.nodes for view in views), fext.nodes], findings
    )
    trees = (fs, extentref, snapmeta, fext)
    return VolumeParts(shown, chosen, *trees, listed, views, references, regions, is_locked, findings, cipher)


def is_encrypted(volume: Volume) -> bool:
    """Tell whether the nodes of the file-system tree are encrypted."""
    found = volume.view.find(np.array([volume.superblock.root_tree_oid], np.uint64))
    return bool(found.is_encrypted[0] and not found.is_missing[0])


def volume_regions(
    container: Container, volume: Volume, states: list[Volume], claimed: list[TreeNodes], findings: list[Finding]
) -> list[Region]:
    """Metadata of a volume and its snapshots outside their trees, each block once."""
    regions = [Region("object-map", "volume object map", volume.superblock.omap_oid)]
    for state in states:
        owner = "live" if state is volume else f"snapshot of xid {state.xid}"
        regions.append(Region("volume-superblock", owner, state.paddr))
    regions += virtual_regions(container, volume, claimed)
    regions += keybag_regions(container, volume, findings) if is_encrypted(volume) else []
    first = {region.paddr: region for region in reversed(regions)}
    return inside(list(first.values()), container.blocks, findings)


def keybag_regions(container: Container, volume: Volume, findings: list[Finding]) -> list[Region]:
    """Where the key bag of an encrypted volume lies; the container's, which says so, needs no password."""
    try:
        run = volume_keybag_run(container_keybag(container), bytes(volume.superblock.vol_uuid))
    except FormatError as error:
        findings.append(from_error(error))
        return []
    except UnsupportedError as error:
        message = f"the key bag was not located: {error}"
        findings.append(Finding("volume-locked", "info", "volume key bag", None, message))
        return []
    return [Region("volume-keybag", "container key bag", *run)] if run else []


def virtual_regions(container: Container, volume: Volume, claimed: list[TreeNodes]) -> list[Region]:
    """Objects of the object map that are no nodes of a tree that was read, by the type in their header.

    Such are the state of an encryption, facts about a snapshot, the seal.
    """
    blocks, omap = container.blocks, volume.omap
    known = np.concatenate([nodes.paddr for nodes in claimed])
    rows = np.flatnonzero(~omap.is_deleted & ~np.isin(omap.paddr, known))
    rows = rows[blocks.readable(omap.paddr[rows], blocks.block_size)]
    if not len(rows):
        return []
    heads = blocks.read(omap.paddr[rows], blocks.block_size)
    starts = np.arange(len(rows), dtype=np.int64) * blocks.block_size
    kinds = container.decoder.columns("apfs_object.obj_phys", heads.reshape(-1), starts, ("type",))["type"]
    names = [
        "locked" if encrypted else type_name(kind)
        for kind, encrypted in zip(kinds.tolist(), omap.is_encrypted[rows].tolist(), strict=True)
    ]
    columns = (omap.oid[rows], omap.xid[rows], omap.paddr[rows], omap.size_bytes[rows] // blocks.block_size)
    items = zip(names, *(column.tolist() for column in columns), strict=True)
    return [Region(name, f"object {oid}, xid {xid}", paddr, count) for name, oid, xid, paddr, count in items]

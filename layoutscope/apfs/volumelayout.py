"""Everything of one volume read, then put into tables."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from layoutscope.apfs import intervals, snapshots
from layoutscope.apfs.accounting import node_runs
from layoutscope.apfs.entries import entries_table
from layoutscope.apfs.extents import extents_table, streams
from layoutscope.apfs.facts import volume_facts
from layoutscope.apfs.nodetable import nodes_table, place
from layoutscope.apfs.regions import Region, as_runs, regions_table, rest, type_name
from layoutscope.apfs.volume import Tree, read_fs_tree, read_physical_tree
from layoutscope.tables import VolumeLayout, build_table, findings_table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.apfs.container import Container
    from layoutscope.apfs.crypto import Cipher
    from layoutscope.apfs.nodes import TreeNodes
    from layoutscope.apfs.snapshots import Snapshot
    from layoutscope.apfs.volume import Volume
    from layoutscope.findings import Finding

FS: Final = 1
PHYSICAL: Final = -1


@dataclass(frozen=True, slots=True)
class VolumeParts:
    """All that was read of a volume.

    Attributes
    ----------
    volume : Volume
        The state.
    fs, extentref, snapmeta : Tree
        Its trees.
    snapshots : list of Snapshot
        All that the volume has.
    views : list of View
        File-system trees of the snapshots.
    snapshot_extents : list of Tree
        Extent-reference trees of the snapshots.
    regions : list of Region
        Metadata that is no tree node.
    findings : list of Finding
        What is wrong with this volume.
    """

    volume: Volume
    fs: Tree
    extentref: Tree
    snapmeta: Tree
    snapshots: list[Snapshot]
    views: list[snapshots.View]
    snapshot_extents: list[Tree]
    regions: list[Region]
    findings: list[Finding]

    def claims(self, block_size: int) -> list[NDArray[np.int64]]:
        """Sets of blocks that the volume uses."""
        trees = [*self.live_trees(), *(tree.nodes for tree in self.snapshot_extents)]
        trees += [view.nodes for view in self.views]
        return [node_runs(trees, block_size), as_runs(self.regions), self.data_runs(), self.file_runs(block_size)]

    def live_trees(self) -> list[TreeNodes]:
        """Nodes of the trees of this state; the object map comes first."""
        volume = self.volume
        return [volume.omap.nodes, self.fs.nodes, self.extentref.nodes, self.snapmeta.nodes, volume.omap_snapshots]

    def data_runs(self) -> NDArray[np.int64]:
        """Blocks of data that the live volume or a snapshot refers to."""
        tables = [tree.records.get("extent") for tree in (self.extentref, *self.snapshot_extents)]
        return intervals.union(
            [intervals.runs_of(table["obj_id"], table["num_blocks"]) for table in tables if len(table["obj_id"])]
        )

    def file_runs(self, block_size: int) -> NDArray[np.int64]:
        """Blocks of data that files of this state hold."""
        table = self.fs.records.get("file_extent")
        if not len(table["obj_id"]):
            return np.empty((0, 2), np.int64)
        real = table["paddr"] != 0
        return intervals.runs_of(table["paddr"][real], -(-table["length_bytes"][real].astype(np.int64) // block_size))


def read_parts(
    container: Container, volume: Volume, findings: list[Finding], cipher: Cipher | None = None
) -> VolumeParts:
    """Read all trees of a volume and of its snapshots.

    Parameters
    ----------
    container : Container
        The container.
    volume : Volume
        The state to read.
    findings : list of Finding
        What was already found about this volume; more is added.
    cipher : Cipher, optional
        Decrypts the file-system tree.
    """
    blocks, decoder, superblock = container.blocks, container.decoder, volume.superblock
    fs = read_fs_tree(blocks, decoder, volume, findings, cipher)
    newest = container.xid
    extentref = read_physical_tree(blocks, decoder, "extentref", superblock.extentref_tree_oid, newest, findings)
    snapmeta = read_physical_tree(blocks, decoder, "snapmeta", superblock.snap_meta_tree_oid, newest, findings)
    listed = snapshots.list_snapshots(snapmeta.records)
    opened = snapshots.open_all(blocks, volume, listed, findings)
    views = [
        snapshots.View(snapshot.view, read_fs_tree(blocks, decoder, state, findings, cipher).nodes)
        for snapshot, state in opened
    ]
    references = [
        snapshots.read_extent_references(blocks, decoder, snapshot, newest, findings) for snapshot, _ in opened
    ]
    claimed = [fs.nodes, *(view.nodes for view in views)]
    regions = volume_regions(container, volume, [state for _, state in opened], claimed)
    return VolumeParts(volume, fs, extentref, snapmeta, listed, views, references, regions, findings)


def volume_regions(
    container: Container, volume: Volume, states: list[Volume], claimed: list[TreeNodes]
) -> list[Region]:
    """Metadata of a volume and its snapshots outside their trees, each block once."""
    regions = [Region("object-map", "volume object map", volume.superblock.omap_oid)]
    for state in (volume, *states):
        owner = "live" if state is volume else f"snapshot of xid {state.xid}"
        regions.append(Region("volume-superblock", owner, state.paddr))
    regions += virtual_regions(container, volume, claimed)
    first = {region.paddr: region for region in reversed(regions)}
    return list(first.values())


def virtual_regions(container: Container, volume: Volume, claimed: list[TreeNodes]) -> list[Region]:
    """Objects of the object map that are no nodes of a tree that was read, by the type in their header.

    Such are the state of an encryption, facts about a snapshot, the seal; and, on a locked volume, all nodes.
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


def build_layout(container: Container, parts: VolumeParts, stack: tuple[str, ...], view: str) -> VolumeLayout:
    """Put what was read of a volume into tables."""
    blocks, volume = container.blocks, parts.volume
    trees = parts.live_trees()
    maps = [0 if nodes.tree == "fs" else PHYSICAL for nodes in trees]
    placed = place([*zip(trees, maps, strict=True), *_extra_trees(parts, trees)])
    first_row = placed[FS].first_row
    records = parts.fs.records
    extents = extents_table(
        records.get("file_extent"),
        streams(records),
        parts.extentref.records.get("extent"),
        blocks,
        volume.number,
        first_row,
        is_encrypted=not volume.superblock.is_unencrypted,
    )
    entries = entries_table(records, parts.fs.nodes, first_row, volume.number, parts.findings)
    nodes = nodes_table(placed, blocks, volume.number, num_live=len(trees))
    held = rest("snapshot-data", "extent references", parts.data_runs(), parts.file_runs(blocks.block_size))
    return VolumeLayout(
        facts=volume_facts(container, volume, stack, trees, view, _details(parts), _coverage(parts, nodes)),
        nodes=nodes,
        node_fragments=build_table("node_fragments", {}),
        regions=regions_table([*parts.regions, *held], blocks, volume.number),
        extents=extents,
        entries=entries,
        free=build_table("free", {}),
        findings=findings_table(parts.findings),
        node_views=_views(container, parts, nodes, view),
    )


def _extra_trees(parts: VolumeParts, live: list[TreeNodes]) -> list[tuple[TreeNodes, int]]:
    """Nodes that only snapshots hold, each physical node once."""
    known = np.concatenate([nodes.paddr for nodes in live])
    extra: list[tuple[TreeNodes, int]] = []
    for view in parts.views:
        fresh = snapshots.new_nodes(known, view.nodes)
        extra.append((take_nodes(view.nodes, fresh), 0))
        known = np.concatenate([known, view.nodes.paddr[fresh]])
    return extra + [(tree.nodes, PHYSICAL) for tree in parts.snapshot_extents]


def take_nodes(nodes: TreeNodes, chosen: NDArray[np.int64]) -> TreeNodes:
    """Return some nodes of a tree; a parent that is not among them becomes unknown."""
    position = np.full(len(nodes) + 1, -1, np.int64)
    position[chosen] = np.arange(len(chosen))
    columns: dict[str, Any] = {name: getattr(nodes, name)[chosen] for name in nodes.__slots__ if name != "tree"}
    columns["parent"] = position[columns["parent"]]
    return replace(nodes, **columns)


def _views(container: Container, parts: VolumeParts, nodes: pl.DataFrame, view: str) -> pl.DataFrame:
    """Membership of the file-system tree's nodes in each view; nothing where there is but one."""
    if not parts.views:
        return build_table("node_views", {})
    own = snapshots.View(view, parts.fs.nodes)
    fs = nodes.filter(pl.col("tree") == "fs")
    paddr = (fs["image_offset"].to_numpy() - container.blocks.image_offsets[0]) // container.blocks.block_size
    return snapshots.views_table([own, *parts.views], paddr.astype(np.uint64), fs["row"].to_numpy())


def _details(parts: VolumeParts) -> dict[str, str | int | float | bool]:
    trees = (parts.fs, parts.extentref, parts.snapmeta)
    seen = sum(tree.records.num_records for tree in trees)
    decoded = sum(tree.records.num_decoded for tree in trees)
    details: dict[str, str | int | float | bool] = {
        "object map entries": len(parts.volume.omap),
        "records": seen,
        "records decoded": decoded,
    }
    for name in sorted(parts.fs.records.tables):
        details[f"{name} records"] = parts.fs.records.count(name)
    return details


def _coverage(parts: VolumeParts, nodes: pl.DataFrame) -> tuple[int, int]:
    """Metadata that is known to exist, and what of it could be read, in bytes."""
    missing = sum(item.code == "node-missing" for item in parts.findings)
    unit = int(parts.fs.nodes.size_bytes[0]) if len(parts.fs.nodes) else 0
    read = int(nodes.filter(pl.col("valid") != "no")["size_bytes"].sum())
    known = int(nodes["size_bytes"].sum()) + missing * unit
    return known, read

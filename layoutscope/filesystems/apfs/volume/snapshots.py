"""Snapshots of a volume: which there are, and which nodes and data each of them holds.

Apple File System Reference, Snapshot Metadata. A snapshot's file-system tree is found through the volume's object map
as of the snapshot's transaction; data that left the live volume stand in an extent-reference tree of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from layoutscope.errors import FormatError
from layoutscope.filesystems.apfs.container.container import read_object
from layoutscope.filesystems.apfs.store import omap as omaps
from layoutscope.filesystems.apfs.volume.volume import Volume, read_physical_tree
from layoutscope.ondisk import grammar
from layoutscope.tables import NULL_ROW, build_table

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

    from layoutscope.filesystems.apfs.store.fsrecords import RecordTables
    from layoutscope.filesystems.apfs.store.nodes import TreeNodes
    from layoutscope.filesystems.apfs.store.source import Store
    from layoutscope.filesystems.apfs.store.trees import Tree


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One snapshot as the metadata tree describes it.

    Attributes
    ----------
    name : str
        Its name.
    xid : int
        Its transaction.
    create_time : int
        Nanoseconds since 1970.
    sblock_paddr : int
        Copy of the volume superblock; 0 if it has none.
    extentref_paddr : int
        Root of its extent-reference tree; 0 if it has none.
    """

    name: str
    xid: int
    create_time: int
    sblock_paddr: int
    extentref_paddr: int

    @property
    def view(self) -> str:
        """Name of the view."""
        return f"snapshot {self.name}"


def list_snapshots(records: RecordTables) -> list[Snapshot]:
    """List the snapshots in the metadata tree, oldest first."""
    table = records.get("snap_metadata")
    if not len(table["obj_id"]):
        return []
    names = table["name"].text().to_list()
    columns = ("obj_id", "create_time", "sblock_oid", "extentref_tree_oid")
    rows = zip(*(table[name].tolist() for name in columns), strict=True)
    return [Snapshot(name, *row) for name, row in zip(names, rows, strict=True)]


def open_snapshot(volume: Volume, snapshot: Snapshot) -> Volume:
    """Open the state of a volume that a snapshot keeps.

    Raises
    ------
    FormatError
        If the snapshot's superblock cannot be used.
    """
    superblock, paddr = volume.superblock, snapshot.sblock_paddr
    if paddr:
        name, cls = f"superblock of {snapshot.view}", grammar.ApfsVolume.ApfsSuperblock
        superblock = read_object(volume.store.blocks, cls, paddr, name)
    view = omaps.view_at(volume.omap, snapshot.xid)
    return replace(volume, superblock=superblock, paddr=paddr, xid=snapshot.xid, view=view)


def read_extent_references(store: Store, snapshot: Snapshot, max_xid: int) -> Tree:
    """Read the extents that left the live volume with a snapshot.

    Parameters
    ----------
    store : Store
        Where they are read; findings go to its log.
    snapshot : Snapshot
        Names the root of its extent-reference tree.
    max_xid : int
        No node of a sound tree is younger.

    Returns
    -------
    Tree
        References to runs of blocks, in the table ``extent``; empty if the snapshot has no such tree.
    """
    return read_physical_tree(store, "extentref", snapshot.extentref_paddr, max_xid)


def open_all(volume: Volume, snapshots: list[Snapshot]) -> list[tuple[Snapshot, Volume]]:
    """Open every snapshot that can be opened."""
    opened = []
    for snapshot in snapshots:
        try:
            opened.append((snapshot, open_snapshot(volume, snapshot)))
        except FormatError as error:
            volume.log.survive(error)
    return opened


@dataclass(frozen=True, slots=True)
class View:
    """Membership of one view: its nodes by address, parents as positions among them."""

    name: str
    nodes: TreeNodes


def views_table(views: list[View], paddr: NDArray[np.uint64], rows: NDArray[np.uint32]) -> pl.DataFrame:
    """Make the table of memberships.

    Parameters
    ----------
    views : list of View
        All views, the live one first.
    paddr : (n,) uint64 array
        Addresses of the nodes in the table of nodes.
    rows : (n,) uint32 array
        Their rows.
    """
    order = np.argsort(paddr, kind="stable")
    parts = [_membership(view, paddr[order], rows[order]) for view in views]
    lengths = [len(part[0]) for part in parts]
    codes = np.repeat(np.arange(len(views)), lengths)
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    return build_table(
        "node_views",
        {
            "node_row": columns[0],
            "view": (codes, [view.name for view in views]),
            "parent_row": columns[1],
            "key_rank": columns[2],
        },
    )


def _membership(view: View, paddr: NDArray[np.uint64], rows: NDArray[np.uint32]) -> tuple[NDArray[Any], ...]:
    own = rows[np.searchsorted(paddr, view.nodes.paddr)]
    parent = np.where(view.nodes.parent < 0, NULL_ROW, own[np.maximum(view.nodes.parent, 0)])
    return own, parent.astype(np.uint32), view.nodes.key_rank

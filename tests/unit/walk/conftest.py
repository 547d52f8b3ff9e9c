"""Small hand-made layouts whose reads can be worked out on paper."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from layoutscope.tables import NULL_ROW, VolumeFacts, VolumeLayout, build_table, findings_table

BLOCK = 4096


@dataclass
class Plan:
    """Collects nodes, entries and extents; `layout` makes the tables. Node rows are numbered in order."""

    filesystem: str
    nodes: list[dict] = field(default_factory=list)
    entries: list[dict] = field(default_factory=list)
    extents: list[dict] = field(default_factory=list)
    case_sensitive: bool = False
    features: tuple[str, ...] = ()

    def node(self, tree, level, offset, *, parent=None, mapper=None, size=BLOCK, kind=None, rank=0, state="live"):
        """Add a node; return its row."""
        self.nodes.append(
            {
                "tree": tree,
                "level": level,
                "kind": kind or ("leaf" if level == 0 else "index"),
                "image_offset": offset,
                "size_bytes": size,
                "parent_row": parent,
                "locator_row": mapper,
                "key_rank": rank,
                "first_key_id": 0,
                "state": state,
            }
        )
        return len(self.nodes) - 1

    def entry(self, parent_id, file_id, name, *, leaf, inode=None, thread=None, kind="file", **more):
        """Add an entry; a directory's entries are listed in the order in which they are added."""
        inode = leaf if inode is None else inode
        record = {"parent_id": parent_id, "file_id": file_id, "name": name, "entry_node_row": leaf}
        record |= {"inode_node_row": inode, "thread_node_row": thread, "kind": kind}
        self.entries.append(record | more)

    def extent(self, file_id, logical, offset, length, *, node=None):
        """Add an extent; an offset of None is a hole."""
        self.extents.append(
            {
                "file_id": file_id,
                "logical_offset": logical,
                "image_offset": offset,
                "length_bytes": length,
                "node": node,
            }
        )

    def layout(self) -> VolumeLayout:
        """Make the tables."""
        return VolumeLayout(
            facts=self._facts(),
            nodes=self._nodes(),
            node_fragments=build_table("node_fragments", {}),
            regions=build_table("regions", {}),
            extents=self._extents(),
            entries=self._entries(),
            free=build_table("free", {}),
            findings=findings_table([]),
        )

    def _facts(self):
        return VolumeFacts(
            filesystem=self.filesystem, variant=self.filesystem, volume=0, name="plan", uuid="",
            stack=(), image_offset=0, size_bytes=2**30, block_size_bytes=BLOCK,
            case_sensitive=self.case_sensitive, stamp=1, num_files=0,
            num_directories=0, features=self.features,
        )  # fmt: skip

    def _nodes(self):
        plain = ("tree", "kind", "image_offset", "size_bytes", "first_key_id", "state")
        return build_table(
            "nodes",
            {
                **{key: [node[key] for node in self.nodes] for key in plain},
                "level": [None if node["kind"] in ("header", "free") else node["level"] for node in self.nodes],
                "parent_row": _rows([node["parent_row"] for node in self.nodes]),
                "locator_row": _rows([node["locator_row"] for node in self.nodes]),
                "key_rank": [node["key_rank"] for node in self.nodes],
                "node_id": [node.get("node_id", row) for row, node in enumerate(self.nodes)],
                "device": 0, "volume": 0, "num_records": 8, "used_bytes": 0,
                "free_bytes": 0, "last_key_id": 0, "valid": "structure",
            },
        )  # fmt: skip

    def _entries(self):
        def column(name, default=None):
            return [entry.get(name, default) for entry in self.entries]

        rows = ("entry_node_row", "inode_node_row", "thread_node_row", "dstream_node_row", "listing_node_row")
        rows = (*rows, "listing_end_node_row")
        return build_table(
            "entries",
            {
                **{name: column(name) for name in ("parent_id", "file_id", "name", "kind")},
                **{name: _rows(column(name)) for name in (*rows, "xattr_node_row")},
                "size_bytes": column("size_bytes", 0),
                "flags": column("flags", 0),
                "valence": column("valence"),
                "entry_rank": list(range(len(self.entries))),
                "name_raw": [entry["name"].encode() for entry in self.entries],
                "volume": 0, "link_count": 1, "create_time": None, "modify_time": None,
            },
        )  # fmt: skip

    def _extents(self):
        if not self.extents:
            return build_table("extents", {})
        columns = {
            key: [extent[key] for extent in self.extents] for key in ("file_id", "logical_offset", "length_bytes")
        }
        offsets = [-1 if extent["image_offset"] is None else extent["image_offset"] for extent in self.extents]
        rows = _rows([extent["node"] for extent in self.extents])
        common = {"device": 0, "volume": 0, "flags": 0, "fork": [extent.get("fork", "data") for extent in self.extents]}
        return build_table("extents", {**columns, "image_offset": np.array(offsets), "node_row": rows, **common})


def _rows(values):
    return np.array([NULL_ROW if value is None else value for value in values], np.uint32)


@pytest.fixture
def plan():
    """Return the class that collects a hand-made layout."""
    return Plan


@pytest.fixture
def hfs_plan():
    """An HFS+ volume with 8 KiB nodes: root / {a/ {x}, b}, each record on a leaf of its own.

    Rows: 0 header, 1 root node, 2 root's records, 3 folder a and its thread with x, 4 file b's thread, 5 x's thread.
    Offsets are 0x10000 times the row, so no two nodes touch.
    """
    plan = Plan("hfsplus")
    plan.node("catalog", 0, 0, size=8192, kind="header")
    plan.node("catalog", 1, 0x10000, size=8192)
    for row in range(2, 6):
        plan.node("catalog", 0, row * 0x10000, parent=1, size=8192, rank=row - 2)
    plan.entry(1, 2, "plan", leaf=2, thread=2, kind="directory", valence=2, listing_node_row=2)
    plan.entry(2, 16, "a", leaf=2, thread=3, kind="directory", valence=1, listing_node_row=3)
    plan.entry(2, 17, "b", leaf=2, thread=4)
    plan.entry(16, 18, "x", leaf=3, thread=5)
    return plan


@pytest.fixture
def apfs_plan():
    """An APFS volume: root / {a/ {x}, b}; fs tree and object map of two levels.

    Rows: 0 omap root, 1 and 2 omap leaves, 3 fs root, 4 root's and a's entries, 5 inodes of a and b, 6 inode of x,
    7 data-stream records. Leaf 1 maps rows 3 to 5, leaf 2 rows 6 and 7.
    """
    plan = Plan("apfs")
    plan.node("omap", 1, 0)
    plan.node("omap", 0, 0x10000, parent=0)
    plan.node("omap", 0, 0x20000, parent=0)
    plan.node("fs", 1, 0x30000, mapper=1)
    for row in range(4, 8):
        plan.node("fs", 0, row * 0x10000, parent=3, mapper=1 if row < 6 else 2, rank=row - 4)
    plan.entry(1, 2, "root", leaf=4, inode=4, kind="directory", listing_node_row=4)
    plan.entry(2, 16, "a", leaf=4, inode=5, kind="directory", listing_node_row=4)
    plan.entry(2, 17, "b", leaf=4, inode=5, dstream_node_row=7)
    plan.entry(16, 18, "x", leaf=4, inode=6, dstream_node_row=7)
    return plan


def rows_read(result) -> list[int]:
    """Return the rows of the plan that were read: its nodes are 0x10000 apart."""
    rows = (result.image_offset // 0x10000).tolist()
    return [row for place, row in enumerate(rows) if place == 0 or rows[place - 1] != row]

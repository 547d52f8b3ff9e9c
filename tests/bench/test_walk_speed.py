"""How many entries a second a walk works out; printed, not asserted (run with -s)."""

from __future__ import annotations

import time

import numpy as np
import pytest

from layoutscope.tables import NULL_ROW, VolumeFacts, VolumeLayout, build_table, findings_table
from layoutscope.walk import trace

N_DIRECTORIES = 100_000
FILES_EACH = 9
BLOCK = 4096


def _plan(filesystem: str) -> VolumeLayout:
    """A volume of a million entries: every directory but the first is one of ten in another, and has nine files."""
    n = N_DIRECTORIES * (FILES_EACH + 1)
    number = np.arange(n)
    directory = number[:N_DIRECTORIES]
    parent = np.concatenate([np.maximum(directory - 1, 0) // 10, np.repeat(directory, FILES_EACH)]) + 2
    parent[0] = 1
    order = np.lexsort((number, parent))
    leaf = np.arange(n) // 40
    n_leaves = int(leaf[-1]) + 1
    inode = np.random.default_rng(1).permutation(n) // 12 if filesystem == "apfs" else leaf
    n_nodes = 1 + max(n_leaves, int(inode.max()) + 1)
    offset = np.random.default_rng(2).permutation(n_nodes) * BLOCK
    nodes = build_table(
        "nodes",
        {
            "device": 0, "volume": 0, "node_id": np.arange(n_nodes), "image_offset": offset, "size_bytes": BLOCK,
            "tree": "catalog" if filesystem == "hfsplus" else "fs", "level": np.r_[1, np.zeros(n_nodes - 1, int)],
            "kind": (np.r_[0, np.ones(n_nodes - 1, int)], ["index", "leaf"]), "num_records": 1, "used_bytes": 0,
            "free_bytes": 0, "parent_row": np.r_[NULL_ROW, np.zeros(n_nodes - 1, np.uint32)].astype(np.uint32),
            "key_rank": np.r_[0, np.arange(n_nodes - 1)], "first_key_id": 0, "last_key_id": 0, "state": "live",
            "valid": "structure",
        },
    )  # fmt: skip
    entries = build_table(
        "entries",
        {
            "volume": 0, "parent_id": parent[order],
            "file_id": (number + 2)[order], "name": "file", "name_raw": b"file",
            "kind": ((order >= N_DIRECTORIES).astype(int), ["directory", "file"]), "size_bytes": 0,
            "link_count": 1,
            "create_time": None, "modify_time": None, "flags": 0, "entry_rank": number,
            "entry_node_row": leaf + 1,
            "inode_node_row": inode + 1, "thread_node_row": leaf[::-1] + 1,
        },
    )  # fmt: skip
    empty = {name: build_table(name, {}) for name in ("node_fragments", "regions", "extents", "free")}
    variant = filesystem.upper()
    facts = VolumeFacts(filesystem, variant, 0, "", "", (), 0, 0, BLOCK, True, 0, 0, 0)  # type: ignore[arg-type]
    return VolumeLayout(facts, nodes, entries=entries, findings=findings_table([]), **empty)


@pytest.mark.slow
@pytest.mark.parametrize("filesystem", ["hfsplus", "apfs"])
def test_walk_of_a_million_entries(filesystem):
    """Every entry is visited; the rate is printed."""
    layout = _plan(filesystem)
    best = min(_timed(layout) for _ in range(3))
    print(f"\n{filesystem}: {len(layout.entries) / best / 1e6:.2f} million entries a second")  # noqa: T201  # a benchmark prints
    assert len(trace(layout)) <= len(layout.nodes)


def _timed(layout: VolumeLayout) -> float:
    start = time.perf_counter()
    trace(layout)
    return time.perf_counter() - start

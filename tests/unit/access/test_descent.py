from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from layoutscope.access.descent import descend, turns_of
from layoutscope.tables import NULL_ROW, VolumeFacts, VolumeLayout, build_table, findings_table
from layoutscope.walk.host import LINUX
from layoutscope.walk.orders import model_of


def entries_of(parents: list[int], kinds: list[bool]) -> VolumeLayout:
    """File number 16 + i has the parent ``parents[i]`` and is a directory if ``kinds[i]``."""
    n = len(parents)
    empty = {name: build_table(name, {}) for name in ("nodes", "node_fragments", "regions", "extents", "free")}
    null = np.full(n, NULL_ROW, np.uint32)
    entries = build_table(
        "entries",
        {
            "volume": 0, "parent_id": parents, "file_id": list(range(16, 16 + n)), "name": list(map(str, range(n))),
            "name_raw": None, "kind": ["directory" if kind else "file" for kind in kinds], "size_bytes": 0,
            "link_count": 1, "create_time": None, "modify_time": None, "flags": 0, "entry_rank": list(range(n)),
            "entry_node_row": null, "inode_node_row": null,
        } if n else {},
    )  # fmt: skip
    facts = VolumeFacts("apfs", "APFS", 0, "", "", (), 0, 0, 4096, True, 0, 0, 0)
    return VolumeLayout(facts, **empty, entries=entries, findings=findings_table([]))


@given(st.data())
def test_descent_is_depth_first_in_listing_order(data):
    """Directories and entries appear in the order of a recursive walk of the same tree."""
    kinds, parents = [], []
    for i in range(data.draw(st.integers(0, 25))):
        directories = [2] + [16 + j for j in range(i) if kinds[j]]
        parents.append(data.draw(st.sampled_from(directories)))
        kinds.append(data.draw(st.booleans()))
    table = model_of(entries_of(parents, kinds), LINUX).entries
    order, turns = [], {}

    def walk(directory, turn):
        order.append(directory)
        for i in reversed([i for i in range(len(parents)) if parents[i] == directory]):
            turn += 1
            turns[16 + i] = turn
            if kinds[i]:
                turn = walk(16 + i, turn)
        return turn

    walk(2, 0)
    descent = descend(table, 2)
    assert descent.directory_id.tolist() == order
    entry, turn = turns_of(descent, len(table))
    assert dict(zip(table.file_id[entry].tolist(), turn.tolist(), strict=True)) == turns

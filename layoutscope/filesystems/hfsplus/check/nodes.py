"""Checks of B-tree nodes: descriptors, record offsets, keys, links, pointers.

TN1150, "B-Trees".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.arrays.ragged import heads
from layoutscope.filesystems.hfsplus.check.located import COUNT_FLAW, KEY_FLAW, NAME_FLAW, OFFSET_FLAW
from layoutscope.filesystems.hfsplus.tree.btree import BATCH_BYTES, pieces_of
from layoutscope.filesystems.hfsplus.tree.keys import FORMS
from layoutscope.filesystems.hfsplus.tree.nodes import DESCRIPTOR, HEADER, INDEX, LEAF, MAP, UNKNOWN_KIND
from layoutscope.filesystems.hfsplus.volume.fork import read_parts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from layoutscope.arrays.columns import I64
    from layoutscope.filesystems.hfsplus.check.located import TreeRecords
    from layoutscope.filesystems.hfsplus.check.subject import Subject
    from layoutscope.findings import Level

_FLAWS: Final = {
    OFFSET_FLAW: "a record offset contradicts the one before, or leaves the node",
    COUNT_FLAW: "the node counts other records than its offsets tell",
    KEY_FLAW: "a key has an impossible length",
    NAME_FLAW: "a name is not as long as its key",
}


def check_descriptors(subject: Subject) -> None:
    """Kinds exist, and heights fit them; header and map nodes are compared while a tree is read."""
    for located in subject.trees.values():
        _check_descriptors(subject, located)


def _check_descriptors(subject: Subject, located: TreeRecords) -> None:
    table, file = located.tree.nodes, located.tree.file
    wanted = _wanted_heights(located)
    # On the disk leaves have the height 1, index nodes one more than their children, header and map nodes 0.
    lowest = np.select([table.kind == LEAF, table.kind == INDEX], [1, 2], 0)
    highest = np.select([table.kind == LEAF, table.kind == INDEX], [1, np.iinfo(np.uint8).max], 0)
    is_known = np.isin(table.kind, (LEAF, INDEX, HEADER, MAP))
    fits = is_known & (table.height >= lowest) & (table.height <= highest)
    # The root has no pointer, but children, and the header's word for it.
    root, depth = int(file.header.root_node), int(file.header.tree_depth)
    if 0 < root < len(wanted) and table.kind[root] == INDEX and table.height[root] != depth:
        child = located.rows["child"][located.rows["node"] == root]
        child = child[(child > 0) & (child < len(wanted))]
        if (table.height[child] == depth - 1).any():
            wanted[root], fits[root] = depth, False
    # A node that no pointer leads to and that holds nothing is free, whatever the map says.
    is_empty = (wanted < 0) & (table.num_records == 0)
    compared = file.used & (table.kind != UNKNOWN_KIND)
    compared[[0, *file.map_nodes.tolist()]] = False
    wrong = np.flatnonzero(compared & ~fits & ~is_empty)
    for number in subject.cases("node-invalid", wrong, f"{located.name} nodes"):
        height, kind, expected = int(table.height[number]), int(table.kind[number]), int(wanted[number])
        # A leaf of height 0 is no header or map node: these are known by their place.
        by_height = not is_known[number] or height == expected or (height == 1 and kind == INDEX)
        field = "kind" if by_height else "height"
        located.at(number * file.node_size_bytes + DESCRIPTOR.offset_of(field)).within(f"descriptor.{field}").add(
            "node-invalid",
            "error",
            "the node's kind and height contradict each other, or its place in the tree",
            expected=_kind_at(height) if by_height else max(expected, int(lowest[number])),
            found=kind if by_height else height,
        )


def _kind_at(height: int) -> int:
    return {0: MAP, 1: LEAF}.get(height, INDEX)


def _wanted_heights(located: TreeRecords) -> I64:
    """Height of every node as the nodes that point to it have it; -1 where none does."""
    wanted = np.full(located.tree.file.num_nodes, -1, np.int64)
    rows = np.flatnonzero(located.rows["level"] > 0)
    child = located.rows["child"][rows]
    inside = (child > 0) & (child < len(wanted))
    wanted[child[inside]] = located.rows["level"][rows[inside]]
    return wanted


def check_record_offsets(subject: Subject) -> None:
    """Offsets ascend, from behind the descriptor to before the table, and are as many as the node counts."""
    _report_flaws(subject, (OFFSET_FLAW, COUNT_FLAW))


def check_keys(subject: Subject) -> None:
    """Keys are as long as their format allows and as their names are."""
    _report_flaws(subject, (KEY_FLAW, NAME_FLAW))


def _report_flaws(subject: Subject, kinds: tuple[int, ...]) -> None:
    for located in subject.trees.values():
        wrong = np.flatnonzero(np.isin(located.flaws["kind"], kinds))
        for row in subject.cases("records-invalid", wrong, f"{located.name} nodes"):
            located.at(int(located.flaws["at"][row])).add(
                "records-invalid", "error", _FLAWS[int(located.flaws["kind"][row])]
            )


def check_index_links(subject: Subject) -> None:
    """Index nodes of a level are linked in the order of their keys; leaves are compared while a tree is read."""
    for located in subject.trees.values():
        for numbers in _index_levels(located):
            _check_links(subject, located, numbers, "f_link", np.append(numbers[1:], 0))
            _check_links(subject, located, numbers, "b_link", np.append(0, numbers[:-1]))


def _index_levels(located: TreeRecords) -> Iterator[I64]:
    table = located.tree.nodes
    reached = np.flatnonzero((table.key_rank >= 0) & (table.kind == INDEX))
    for height in sorted(set(table.height[reached].tolist())):
        numbers = reached[table.height[reached] == height]
        yield numbers[np.argsort(table.key_rank[numbers], kind="stable")]


def _check_links(subject: Subject, located: TreeRecords, numbers: I64, field: str, neighbours: I64) -> None:
    links = getattr(located.tree.nodes, field)[numbers]
    for place in subject.cases("node-links-differ", np.flatnonzero(links != neighbours), f"{located.name} nodes"):
        at = int(numbers[place]) * located.tree.file.node_size_bytes + DESCRIPTOR.offset_of(field)
        located.at(at).add(
            "node-links-differ",
            "error",
            "an index node's neighbour by link is not its neighbour by key",
            expected=int(neighbours[place]),
            found=int(links[place]),
        )


def check_pointers(subject: Subject) -> None:
    """Each pointer leads to a node one level below that no other one leads to."""
    for located in subject.trees.values():
        rows = np.flatnonzero(located.rows["level"] > 0)
        wrong = rows[_is_wrong_pointer(located, rows)]
        for row in subject.cases("pointer-invalid", wrong, f"{located.name} nodes"):
            located.at(int(located.rows["data"][row])).add(
                "pointer-invalid",
                "error",
                "a pointer leads to no node of the level below, or to one that another pointer leads to",
                found=int(located.rows["child"][row]),
                expected="a node of its own",
            )


def _is_wrong_pointer(located: TreeRecords, rows: I64) -> I64:
    """Find pointers that lie; where a node contradicts itself, its descriptor is to blame and not the pointer."""
    table = located.tree.nodes
    child, level = located.rows["child"][rows], located.rows["level"][rows]
    inside = (child > 0) & (child < located.tree.file.num_nodes)
    place = np.where(inside, child, 0)
    kind, height = table.kind[place], table.height[place]
    is_leaf, is_index = (kind == LEAF) & (height == 1), (kind == INDEX) & (height > 1)
    is_special = np.isin(place, [0, *located.tree.file.map_nodes.tolist()])
    elsewhere = (is_leaf | is_index | is_special) & (height != level)
    order = np.argsort(place, kind="stable")
    is_repeated = np.zeros(len(rows), np.bool_)
    same = np.flatnonzero(place[order[1:]] == place[order[:-1]])
    # Of two pointers to one node that one is right whose key is the node's first.
    first, second = order[same], order[same + 1]
    heads_of = _first_rows(located)[place[second]]
    known = heads_of >= 0
    is_second_right = np.zeros(len(same), np.bool_)
    is_second_right[known] = located.keys.not_after(rows[second[known]], heads_of[known]) & located.keys.not_after(
        heads_of[known], rows[second[known]]
    )
    is_repeated[np.where(is_second_right, first, second)] = True
    return np.flatnonzero(~inside | elsewhere | (inside & is_repeated))


def check_index_keys(subject: Subject) -> None:
    """The key of a pointer is the first key of the node that it leads to."""
    for located in subject.trees.values():
        index, first = _pairs(located)
        above = index[~located.keys.not_after(first, index)]
        below = index[~located.keys.not_after(index, first)]
        sides: tuple[tuple[I64, Level, str], ...] = (above, "error", "above"), (below, "warning", "below")
        # A search follows the last pointer whose key is not behind what it looks for. One above its node's first key
        # hides what lies between; one below it leads there all the same.
        for rows, level, side in sides:
            for row in subject.cases("index-key-differs", rows, f"{located.name} nodes"):
                form = FORMS[located.name]
                at = int(located.rows["key"][row]) + form.key_type.offset_of(form.ident)
                located.at(at).add(
                    "index-key-differs",
                    level,
                    f"the key of a pointer lies {side} the first key of node {located.rows['child'][row]}",
                )


def _pairs(located: TreeRecords) -> tuple[I64, I64]:
    """Rows of pointers whose node was read, and of the first record of that node."""
    rows, first = located.rows, _first_rows(located)
    index = np.flatnonzero(rows["level"] > 0)
    child = rows["child"][index]
    inside = (child > 0) & (child < len(first))
    target = np.where(inside, first[np.where(inside, child, 0)], -1)
    is_below = (target >= 0) & (rows["level"][target] == rows["level"][index] - 1)
    return index[is_below], target[is_below]


def _first_rows(located: TreeRecords) -> I64:
    """Row of the first record of each node, -1 where none was read."""
    first = np.full(located.tree.file.num_nodes, -1, np.int64)
    node = located.rows["node"]
    head = heads(node)
    first[node[head]] = head
    return first


def check_key_order(subject: Subject) -> None:
    """Keys of a level ascend, within nodes and from node to node."""
    for located in subject.trees.values():
        level, keys = located.rows["level"], located.keys
        rows = np.flatnonzero(level[1:] == level[:-1]) + 1
        wrong = rows[keys.not_after(rows - 1, rows)]
        for row in subject.cases("keys-unordered", _culprits(located, wrong), f"{located.name} nodes"):
            form = FORMS[located.name]
            at = int(located.rows["key"][row]) + form.key_type.offset_of(form.ident)
            located.at(at).add("keys-unordered", "error", "a key does not come between its neighbours")


def _culprits(located: TreeRecords, wrong: I64) -> I64:
    """Of two keys in the wrong order, blame the first one if the second one fits behind what comes before both."""
    level = located.rows["level"]
    has_other = (wrong >= 2) & (level[np.maximum(wrong - 2, 0)] == level[wrong])
    fits = ~located.keys.not_after(np.maximum(wrong - 2, 0), wrong)
    return np.where(has_other & fits, wrong - 1, wrong)


def check_unused_nodes(subject: Subject) -> None:
    """Unused nodes hold nothing but zeros (fsck_hfs: E_UnusedNodeNotZeroed)."""
    # A bit of the volume header says that it keeps this rule (hfs_format.h, kHFSUnusedNodeFixBit). fsck_hfs makes it so
    # on others too, and sets the bit, but no driver minds remains there.
    level: Level = "error" if subject.volume.header.is_unused_node_fix else "warning"
    for located in subject.trees.values():
        file = located.tree.file
        if file.num_mapped < file.num_nodes:
            continue
        free = np.flatnonzero(~file.used & file.readable & (located.tree.nodes.key_rank < 0))
        remains = _first_remains(located, free)
        for case in subject.cases("node-not-zeroed", np.flatnonzero(remains >= 0), f"{located.name} nodes"):
            located.at(int(free[case]) * file.node_size_bytes + int(remains[case])).add(
                "node-not-zeroed", level, "an unused node is not all zeros", expected=0
            )


def _first_remains(located: TreeRecords, numbers: I64) -> I64:
    """Return the first byte of each node that is not zero, -1 where all of them are."""
    file = located.tree.file
    size = file.node_size_bytes
    found = np.full(len(numbers), -1, np.int64)
    step = max(1, BATCH_BYTES // size)
    for start in range(0, len(numbers), step):
        chosen = numbers[start : start + step]
        data = read_parts(located.volume, pieces_of(located.volume, file.fork, size, chosen)).reshape(-1, size)
        rows = np.flatnonzero(data.any(axis=1))
        found[start + rows] = (data[rows] != 0).argmax(axis=1)
    return found

"""Checks of B-tree nodes: descriptors, record offsets, keys, links, pointers.

TN1150, "B-Trees".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.checks.engine import Table
from layoutscope.checks.fieldrules import ZERO, Want, bits_set, check_fields, equals, rules
from layoutscope.checks.hfsplus.records import COUNT_FLAW, KEY_FLAW, NAME_FLAW, OFFSET_FLAW, list_levels
from layoutscope.checks.hfsplus.scan import check_leaf_count, check_tree_header
from layoutscope.filesystems.hfsplus.btree import pieces_of, read_batches
from layoutscope.filesystems.hfsplus.forks import read_parts
from layoutscope.filesystems.hfsplus.nodes import DESCRIPTOR, FORMS, HEADER, INDEX, LEAF, MAP, UNKNOWN_KIND
from layoutscope.structs import grammar, records
from layoutscope.structs.arrays import heads

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.checks.fieldrules import FieldRule
    from layoutscope.checks.hfsplus.records import CatalogRecords, Subject, TreeRecords
    from layoutscope.findings import Level
    from layoutscope.structs.arrays import I64, U8, Mask
    from layoutscope.structs.recordtypes import RecordType


OFFSET_FLAWS: Final = {
    OFFSET_FLAW: "a record offset contradicts the one before, or leaves the node",
    COUNT_FLAW: "the node's record count differs from its offsets",
}
KEY_FLAWS: Final = {
    KEY_FLAW: "a key has an impossible length",
    NAME_FLAW: "a name is not as long as its key",
}


def check_descriptors(subject: Subject, located: TreeRecords) -> None:
    """Check the kinds of nodes and their heights; header and map nodes are compared while a tree is read."""
    table, file = located.tree.nodes, located.tree.file
    expected_heights = _find_expected_heights(located)
    # On the disk, leaves have height 1, index nodes one more than their children, and header and map nodes 0.
    lowest = np.select([table.kind == LEAF, table.kind == INDEX], [1, 2], 0)
    highest = np.select([table.kind == LEAF, table.kind == INDEX], [1, np.iinfo(np.uint8).max], 0)
    is_known = np.isin(table.kind, (LEAF, INDEX, HEADER, MAP))
    fits = is_known & (table.height >= lowest) & (table.height <= highest)
    # No pointer leads to the root, but its height follows from its children and the tree header.
    root, depth = int(file.header.root_node), int(file.header.tree_depth)
    if 0 < root < len(expected_heights) and table.kind[root] == INDEX and table.height[root] != depth:
        child = located.rows["child"][located.rows["node"] == root]
        child = child[(child > 0) & (child < len(expected_heights))]
        if (table.height[child] == depth - 1).any():
            expected_heights[root], fits[root] = depth, False
    # An empty node without a pointer to it is free, whatever the map says.
    is_empty = (expected_heights < 0) & (table.num_records == 0)
    compared = file.used & (table.kind != UNKNOWN_KIND)
    compared[[0, *file.map_nodes.tolist()]] = False
    wrong = np.flatnonzero(compared & ~fits & ~is_empty)
    at = lambda number, _: located.at(number * file.node_size_bytes)  # noqa: E731
    for number in subject.table("node-invalid", f"{located.name} nodes", at).cases(wrong):
        height, kind, expected = int(table.height[number]), int(table.kind[number]), int(expected_heights[number])
        # A leaf of height 0 is not a header or map node, because their places are known.
        by_height = not is_known[number] or height == expected or (height == 1 and kind == INDEX)
        field = "kind" if by_height else "height"
        located.at(number * file.node_size_bytes + DESCRIPTOR.offset_of(field)).within(f"descriptor.{field}").add(
            "node-invalid",
            "error",
            "the node's kind and height contradict each other, or its place in the tree",
            expected={0: MAP, 1: LEAF}.get(height, INDEX) if by_height else max(expected, int(lowest[number])),
            found=kind if by_height else height,
        )


def _find_expected_heights(located: TreeRecords) -> I64:
    """Return the height of each node according to the pointer to it, -1 without one."""
    heights = np.full(located.tree.file.num_nodes, -1, np.int64)
    rows = np.flatnonzero(located.rows["level"] > 0)
    child = located.rows["child"][rows]
    inside = (child > 0) & (child < len(heights))
    heights[child[inside]] = located.rows["level"][rows[inside]]
    return heights


def report_flaws(flaws: dict[int, str], subject: Subject, located: TreeRecords) -> None:
    """Report the records that could not be located, because their offset, their count or their key is impossible."""
    at, kind = located.flaws["at"], located.flaws["kind"]
    table = subject.table("records-invalid", f"{located.name} nodes", lambda row, _: located.at(int(at[row])))
    table.report(np.isin(kind, [*flaws]), lambda row: flaws[int(kind[row])])


def check_index_links(subject: Subject, located: TreeRecords) -> None:
    """Check that the index nodes of a level are linked in key order; leaves are compared while a tree is read."""
    for level, numbers in list_levels(located.tree):
        if level:
            _check_links(subject, located, numbers, "f_link", np.append(numbers[1:], 0))
            _check_links(subject, located, numbers, "b_link", np.append(0, numbers[:-1]))


def _check_links(subject: Subject, located: TreeRecords, numbers: I64, field: str, neighbours: I64) -> None:
    links, size = getattr(located.tree.nodes, field)[numbers], located.tree.file.node_size_bytes
    at = lambda place, _: located.at(int(numbers[place]) * size + DESCRIPTOR.offset_of(field))  # noqa: E731
    table = subject.table("node-links-differ", f"{located.name} nodes", at)
    message = "an index node's neighbour by link is not its neighbour by key"
    table.report(links != neighbours, message, expected=neighbours, found=links)


def check_pointers(subject: Subject, located: TreeRecords) -> None:
    """Check that each pointer leads to a node of the next lower level, and no two lead to the same."""
    table, rows = located.tree.nodes, np.flatnonzero(located.rows["level"] > 0)
    child, level = located.rows["child"][rows], located.rows["level"][rows]
    inside = (child > 0) & (child < located.tree.file.num_nodes)
    place = np.where(inside, child, 0)
    kind, height = table.kind[place], table.height[place]
    is_leaf, is_index = (kind == LEAF) & (height == 1), (kind == INDEX) & (height > 1)
    is_special = np.isin(place, [0, *located.tree.file.map_nodes.tolist()])
    # If a node contradicts itself, its descriptor is wrong, not the pointer.
    elsewhere = (is_leaf | is_index | is_special) & (height != level)
    order = np.argsort(place, kind="stable")
    is_repeated = np.zeros(len(rows), np.bool_)
    same = np.flatnonzero(place[order[1:]] == place[order[:-1]])
    # If two pointers lead to one node, the one with the first key of the node is right.
    first, second = order[same], order[same + 1]
    heads_of = _find_first_rows(located)[place[second]]
    known = heads_of >= 0
    is_second_right = np.zeros(len(same), np.bool_)
    is_second_right[known] = located.keys.not_after(rows[second[known]], heads_of[known]) & located.keys.not_after(
        heads_of[known], rows[second[known]]
    )
    is_repeated[np.where(is_second_right, first, second)] = True
    wrong = rows[~inside | elsewhere | is_repeated]
    message = "a pointer leads to no node of the level below, or to one that another pointer leads to"
    pointers = subject.table("pointer-invalid", f"{located.name} nodes", located.locate("data"))
    pointers.report(wrong, message, expected="a node of its own", found=located.rows["child"])


def check_index_keys(subject: Subject, located: TreeRecords) -> None:
    """Check that the key of a pointer is the first key of its node."""
    rows, firsts = located.rows, _find_first_rows(located)
    index = np.flatnonzero(rows["level"] > 0)
    child = rows["child"][index]
    inside = (child > 0) & (child < len(firsts))
    target = np.where(inside, firsts[np.where(inside, child, 0)], -1)
    # Pointers whose node was read, and the first record of that node.
    is_below = (target >= 0) & (rows["level"][target] == rows["level"][index] - 1)
    index, first = index[is_below], target[is_below]
    above = index[~located.keys.not_after(first, index)]
    below = index[~located.keys.not_after(index, first)]
    # A search follows the last pointer whose key is not above the searched key. A pointer key above the first key of
    # its node hides the keys in between; one below it has no effect on a search.
    table = _table_of_keys(subject, located, "index-key-differs")
    words = "the key of a pointer is {} the first key of node {}"
    table.report(above, lambda row: words.format("above", rows["child"][row]))
    table.report(below, lambda row: words.format("below", rows["child"][row]), level="warning")


def _table_of_keys(subject: Subject, located: TreeRecords, code: str) -> Table:
    """Make a table of the rows of a tree, reported at the first field of their keys."""
    form = FORMS[located.name]
    at = located.locate("key", form.key_type.offset_of(form.ident))
    return subject.table(code, f"{located.name} nodes", at)


def _find_first_rows(located: TreeRecords) -> I64:
    """Return the row of the first record of each node, -1 if none was read."""
    first = np.full(located.tree.file.num_nodes, -1, np.int64)
    node = located.rows["node"]
    head = heads(node)
    first[node[head]] = head
    return first


def check_key_order(subject: Subject, located: TreeRecords) -> None:
    """Check that the keys of a level ascend, within nodes and between nodes."""
    level = located.rows["level"]
    rows = np.flatnonzero(level[1:] == level[:-1]) + 1
    wrong = rows[located.keys.not_after(rows - 1, rows)]
    # The first key of a pair is wrong if the second one fits after the key before both.
    before = np.maximum(wrong - 2, 0)
    is_first = (wrong >= 2) & (level[before] == level[wrong]) & ~located.keys.not_after(before, wrong)
    table = _table_of_keys(subject, located, "keys-unordered")
    table.report(np.where(is_first, wrong - 1, wrong), "a key does not come between its neighbours")


def check_unused_nodes(subject: Subject, located: TreeRecords) -> None:
    """Check that unused nodes are zero (fsck_hfs: E_UnusedNodeNotZeroed)."""
    file = located.tree.file
    if file.num_mapped < file.num_nodes:
        return
    # A bit of the volume header states that the volume follows this rule (hfs_format.h, kHFSUnusedNodeFixBit). On other
    # volumes, fsck_hfs clears the nodes and sets the bit, but drivers do not need it.
    level: Level = "error" if subject.volume.header.is_unused_node_fix else "warning"
    free = np.flatnonzero(~file.used & file.readable & (located.tree.nodes.key_rank < 0))
    # The first byte of each node that is not zero, -1 if all are zero.
    remains = np.full(len(free), -1, np.int64)
    done = 0
    for nodes in read_batches(located.volume, file, free):
        is_set = nodes.buffer.reshape(len(nodes.number), -1) != 0
        remains[done : done + len(is_set)] = np.where(is_set.any(axis=1), is_set.argmax(axis=1), -1)
        done += len(is_set)
    at = lambda case, _: located.at(int(free[case] * file.node_size_bytes + remains[case]))  # noqa: E731
    table = subject.table("node-not-zeroed", f"{located.name} nodes", at, level)
    table.report(remains >= 0, "an unused node is not all zeros", expected=0)


NODE, HEADER_RECORDS = records.HEADER_NODE, records.HEADER_NODE.header
BIT = grammar.HfsplusBtree.BtreeAttribute
KIND = grammar.HfsplusBtree.BtreeType
HOT_FILES: Final = "hot-files"
_BIG_KEYS, _VARIABLE = int(BIT.big_keys), int(BIT.variable_index_keys)
_KEY_ATTRIBUTES: Final = {
    "catalog": equals(_BIG_KEYS | _VARIABLE),
    "attributes": equals(_BIG_KEYS | _VARIABLE),
    "extents-overflow": equals(_BIG_KEYS),
}
"""Keys of index nodes have variable lengths in the catalog, and a fixed length in the extents-overflow tree."""


def make_header_node_rules(tree: str) -> tuple[FieldRule, ...]:
    """Declare the rules of a header node (TN1150, Header Nodes, Header Record; fsck_hfs: E_BadHdrN, E_NHeight)."""
    kind = equals(int(KIND.user if tree == HOT_FILES else KIND.hfs))
    attributes = _KEY_ATTRIBUTES.get(tree, bits_set(_BIG_KEYS))
    return (
        *rules(
            "node-invalid",
            (NODE.descriptor.b_link, ZERO, "no node comes before the header node"),
            (NODE.descriptor.height, ZERO, "header nodes are of no level"),
            (NODE.descriptor.num_records, equals(3), "a header node has three records"),
            (NODE.descriptor.reserved, ZERO, "a reserved field is not zero"),
            level="error",
        ),
        *rules(
            "tree-header-differs",
            (HEADER_RECORDS.reserved1, ZERO, "a reserved field is not zero"),
            (HEADER_RECORDS.btree_type, kind, "the tree is of another type than its file"),
            (HEADER_RECORDS.attributes, attributes, "attributes that the keys of this tree do not have"),
            (HEADER_RECORDS.reserved3, ZERO, "a reserved field is not zero"),
            level="error",
        ),
    )


MAP_NODE_RULES: Final = rules(
    "node-invalid",
    (DESCRIPTOR.height, ZERO, "map nodes are of no level"),
    (DESCRIPTOR.num_records, equals(1), "a map node has one record"),
    (DESCRIPTOR.reserved, ZERO, "a reserved field is not zero"),
    level="error",
)
"""Rules of map nodes (TN1150, Map Nodes; fsck_hfs: E_BadMapN, E_NHeight)."""


def make_chain_rules(following: int) -> tuple[FieldRule, ...]:
    """Declare the rule of a link to the next map node (TN1150, Map Nodes; fsck_hfs: E_MapLk)."""
    message = "the chain of map nodes goes on where every node has its bit"
    return rules("node-invalid", (DESCRIPTOR.f_link, equals(following), message), level="error")


def check_tree_headers(subject: Subject) -> None:
    """Compare the header record of each tree with its nodes."""
    for tree in subject.contents.trees.values():
        check_leaf_count(subject.volume, tree)
        check_tree_header(subject.volume, tree)


def _table_of_header(located: TreeRecords) -> Table:
    at = lambda _, field: located.at(NODE.offset_of(f"header.{field}"))  # noqa: E731
    return Table(at, "tree-header-differs")


def check_key_compare(subject: Subject, catalog: CatalogRecords) -> None:
    """Check the kind of name comparison in the catalog of HFSX volumes; on others, the field has no meaning."""
    found, known = int(catalog.tree.file.header.key_compare_type), grammar.HfsplusBtree.KeyCompareType
    is_wrong, expected = subject.volume.is_hfsx and found not in {*known}, " or ".join(str(int(kind)) for kind in known)
    table, message = _table_of_header(catalog), "names compare in no known way"
    table.report(is_wrong, message, "key_compare_type", expected=expected, found=found)


def check_key_lengths(_: Subject, located: TreeRecords) -> None:
    """Check that the longest key in each tree header is that of the format."""
    # In index nodes with fixed-length keys, each key takes the space of the longest, so a wrong length here moves all
    # pointers.
    expected, found = FORMS[located.name].max_length, int(located.tree.file.header.len_key_max)
    is_wrong, message = expected not in (None, found), "the header allows other keys than the format"
    _table_of_header(located).report(is_wrong, message, "len_key_max", expected=expected, found=found)


def check_header_nodes(_: Subject, located: TreeRecords) -> None:
    """Check the fields and record offsets of header nodes."""
    # Only the tree of hot files uses the user data record (TN1150).
    zero = None if located.name == HOT_FILES else ZERO
    reserved = rules("tree-header-differs", (NODE.user_data, zero, "a reserved record is not zero"), level="info")
    _check_node(located, 0, NODE, make_header_node_rules(located.name) + reserved)
    end = located.tree.file.node_size_bytes - 4 * records.RECORD_OFFSET.width
    _check_offsets(located, 0, [DESCRIPTOR.width, NODE.user_data.offset, NODE.width], (end, end))


def check_map_nodes(_: Subject, located: TreeRecords) -> None:
    """Check the fields and record offsets of map nodes, and that no bit is set for a node that does not exist."""
    file = located.tree.file
    # The reader follows the chain of map nodes until each node has its bit, and reports an earlier break.
    if file.num_mapped == file.num_nodes:
        numbers = file.map_nodes.tolist()
        _check_node(located, 0, DESCRIPTOR, make_chain_rules([*numbers, 0][0]))
        end = file.node_size_bytes - 2 * records.RECORD_OFFSET.width
        for number, following in zip(numbers, [*numbers[1:], 0], strict=False):
            _check_node(located, number, DESCRIPTOR, make_chain_rules(following) + MAP_NODE_RULES)
            # newfs_hfs makes the records of map nodes a multiple of four bytes long, which leaves two bytes unused.
            _check_offsets(located, number, [DESCRIPTOR.width], (end - 4, end))
    _check_map_end(located)


def _check_map_end(located: TreeRecords) -> None:
    """Check that map bits after the last node are zero; otherwise, new nodes would be in use already (E_BadMapN)."""
    file, first = located.tree.file, 0
    for start, length in file.map_parts:
        bits = np.unpackbits(_read_bytes(located, start, length))
        beyond = np.flatnonzero(bits[max(0, file.num_nodes - first) :])
        if len(beyond):
            place = max(0, file.num_nodes - first) + int(beyond[0])
            located.at(start + place // 8).add(
                "node-map-differs",
                "error",
                f"the map calls {len(beyond):,} nodes used that the file does not have; the first is {first + place}",
                expected="free",
                found="used",
            )
        first += len(bits)


def _read_bytes(located: TreeRecords, start: int, length: int) -> U8:
    """Read bytes of a tree's file within one node."""
    size = located.tree.file.node_size_bytes
    pieces = pieces_of(located.volume, located.tree.file.fork, size, np.array([start // size]))
    node = read_parts(located.volume, pieces)
    return node[start % size :][:length]


def _check_node(
    located: TreeRecords, number: int, kind: RecordType, declared: tuple[FieldRule, ...], starts: I64 | None = None
) -> None:
    """Check structures of one node of a tree, by their offsets in the node; without these, one at its start."""
    size, places = located.tree.file.node_size_bytes, np.zeros(1, np.int64) if starts is None else starts
    at = lambda _, byte: located.at(number * size + byte)  # noqa: E731
    check_fields(kind, _read_bytes(located, number * size, size), places, declared, at)


def _check_offsets(located: TreeRecords, number: int, starts: list[int], ends: tuple[int, int]) -> None:
    """Check the offset table at the end of a node, entry by entry (TN1150, Node Structure; fsck_hfs: E_BadNode).

    The records must start at `starts`, and the last one must end between the two `ends`.
    """

    def are_right(offsets: NDArray[np.uint16]) -> Mask:
        signed = offsets.astype(np.int64)
        is_end = (signed >= ends[0]) & (signed <= ends[1]) & (signed % 2 == 0)
        return np.append(signed[:-1] == starts, is_end[-1])

    want = Want(are_right, np.append(starts, ends[1]))
    field = records.RECORD_OFFSET.ofs_record
    declared = rules("records-invalid", (field, want, "the records of such a node have fixed places"), level="error")
    slots = np.arange(1, len(starts) + 2)
    places = located.tree.file.node_size_bytes - records.RECORD_OFFSET.width * slots
    _check_node(located, number, records.RECORD_OFFSET, declared, places)

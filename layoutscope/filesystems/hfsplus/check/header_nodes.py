"""Rules of header nodes and map nodes: what a reader passes over and a writer must keep right.

TN1150, "Header Nodes" and "Map Nodes". What contradicts other nodes is told in :mod:`.headers`; here every field of the
nodes themselves has its rule. Fields without one are free: clump size (the volume header's counts), key compare type
outside of HFSX catalogs (reserved, often 0xCF), and user data of the hot-file tree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope.filesystems.hfsplus.contents.rebuild import InferredHeader
from layoutscope.filesystems.hfsplus.tree.btree import pieces_of
from layoutscope.filesystems.hfsplus.tree.nodes import DESCRIPTOR, DESCRIPTOR_BYTES, OFFSET_BYTES
from layoutscope.filesystems.hfsplus.volume.fork import read_parts
from layoutscope.frozen import frozen
from layoutscope.ondisk import grammar
from layoutscope.ondisk.fieldrules import ZERO, FieldRule, Structures, Want, bits_set, check_fields, equals, rules
from layoutscope.ondisk.records import HEADER_NODE, RECORD_OFFSET

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.arrays.columns import I64, U8, Mask
    from layoutscope.filesystems.hfsplus.check.located import TreeRecords
    from layoutscope.filesystems.hfsplus.check.subject import Subject
    from layoutscope.recordtypes import RecordType

NODE, HEADER = HEADER_NODE, HEADER_NODE.header
BIT = grammar.HfsplusBtree.BtreeAttribute
KIND = grammar.HfsplusBtree.BtreeType
FIXED_INDEX_KEYS: Final = "extents-overflow"
HOT_FILES: Final = "hot-files"
_BIG_KEYS, _VARIABLE, _BAD_CLOSE = int(BIT.big_keys), int(BIT.variable_index_keys), int(BIT.bad_close)


def _tree_type(tree: str) -> Want:
    return equals(int(KIND.user if tree == HOT_FILES else KIND.hfs))


def _key_attributes(tree: str) -> Want | None:
    """Keys of index nodes have their own lengths in the catalog, and one length in the extents-overflow tree."""
    wanted = {"catalog": _BIG_KEYS | _VARIABLE, "attributes": _BIG_KEYS | _VARIABLE, FIXED_INDEX_KEYS: _BIG_KEYS}
    return equals(wanted[tree]) if tree in wanted else bits_set(_BIG_KEYS)


HEADER_NODE_RULES: Final[tuple[FieldRule[str], ...]] = (
    *rules(
        "node-invalid",
        "TN1150, Header Nodes; fsck_hfs: E_BadHdrN, E_NHeight",
        (NODE.descriptor.b_link, ZERO, "no node comes before the header node"),
        (NODE.descriptor.height, ZERO, "header nodes are of no level"),
        (NODE.descriptor.num_records, equals(3), "a header node has three records"),
        (NODE.descriptor.reserved, ZERO, "a reserved field is not zero"),
    ),
    *rules(
        "tree-header-differs",
        "TN1150, Header Record",
        (HEADER.reserved1, ZERO, "a reserved field is not zero"),
        (HEADER.btree_type, _tree_type, "the tree is of another type than its file"),
        (HEADER.attributes, _key_attributes, "attributes that the keys of this tree do not have"),
        (HEADER.reserved3, ZERO, "a reserved field is not zero"),
    ),
)
"""Rules of a header node; the tree's name is what is known otherwise."""

MAP_CHAIN_RULES: Final[tuple[FieldRule[object], ...]] = rules(
    "node-invalid",
    "TN1150, Map Nodes; fsck_hfs: E_MapLk",
    (DESCRIPTOR.f_link, equals, "the chain of map nodes goes on where every node has its bit"),
)
"""Rules of the header node and the map nodes; the number of the map node behind each is what is known otherwise."""

MAP_NODE_RULES: Final[tuple[FieldRule[object], ...]] = rules(
    "node-invalid",
    "TN1150, Map Nodes; fsck_hfs: E_BadMapN, E_NHeight",
    (DESCRIPTOR.height, ZERO, "map nodes are of no level"),
    (DESCRIPTOR.num_records, equals(1), "a map node has one record"),
    (DESCRIPTOR.reserved, ZERO, "a reserved field is not zero"),
)
"""Rules of map nodes."""


@frozen
class _Offsets:
    """Where the records of a node must start, by slot, and where the last one must end at the earliest and latest."""

    starts: I64
    ends: tuple[int, int]

    def are_right(self, found: NDArray[Any]) -> Mask:
        wide = found.astype(np.int64)
        low, high = self.ends
        is_end = (wide >= low) & (wide <= high) & (wide % 2 == 0)
        return np.append(wide[:-1] == self.starts, is_end[-1])

    def wanted(self) -> Want:
        return Want(self.are_right, np.append(self.starts, self.ends[1]))


OFFSET_RULES: Final[tuple[FieldRule[_Offsets], ...]] = rules(
    "records-invalid",
    "TN1150, Node Structure; fsck_hfs: E_BadNode, E_LenBTH",
    (RECORD_OFFSET.ofs_record, _Offsets.wanted, "the records of such a node have fixed places"),
)
"""Rules of the offset tables of header and map nodes; entry by entry, from the node's end."""

_MAP_SLACK: Final = 4
"""newfs_hfs keeps the records of map nodes a multiple of four bytes long, and so leaves two of them unused."""


def check_header_nodes(subject: Subject) -> None:
    """Header nodes have the form that the format gives them, whatever their tree holds."""
    for located in _whole(subject):
        node = _Node(located, 0)
        node.check(NODE, HEADER_NODE_RULES, located.name)
        if located.name != HOT_FILES:
            node.check(NODE, _RESERVED_RECORD, located.name)
        end = located.tree.file.node_size_bytes - 4 * OFFSET_BYTES
        first = [DESCRIPTOR_BYTES, NODE.user_data.offset, NODE.width]
        node.check_offsets(_Offsets(np.array(first), (end, end)))


_RESERVED_RECORD: Final[tuple[FieldRule[str], ...]] = rules(
    "tree-header-differs",
    "TN1150, User Data Record",
    (NODE.user_data, ZERO, "a reserved record is not zero"),
    level="info",
)


def check_map_nodes(subject: Subject) -> None:
    """Map nodes have the form that the format gives them, and no bit stands for a node that does not exist."""
    for located in _whole(subject):
        file = located.tree.file
        # Reading follows the chain of map nodes until every node has its bit, and tells where it breaks before that.
        if file.num_mapped == file.num_nodes:
            numbers = file.map_nodes.tolist()
            _Node(located, 0).check(DESCRIPTOR, MAP_CHAIN_RULES, [*numbers, 0][0])
            end = file.node_size_bytes - 2 * OFFSET_BYTES
            for number, following in zip(numbers, [*numbers[1:], 0], strict=False):
                node = _Node(located, number)
                node.check(DESCRIPTOR, MAP_CHAIN_RULES + MAP_NODE_RULES, following)
                node.check_offsets(_Offsets(np.array([DESCRIPTOR_BYTES]), (end - _MAP_SLACK, end)))
        _check_behind_last(located)


def _whole(subject: Subject) -> list[TreeRecords]:
    """Trees whose header node was found; what is wrong with others is told of their headers."""
    lost = {item.structure for item in subject.volume.log.findings if item.code == "tree-header-invalid"}
    trees = subject.trees.items()
    found = [each for name, each in trees if f"{name} B-tree header node" not in lost and each.tree.file.readable[0]]
    # The file of a tree that a sweep found is made up of its leaves: whatever its node 0 is, it is no header.
    return [each for each in found if not isinstance(each.tree.file.header, InferredHeader)]


def _check_behind_last(located: TreeRecords) -> None:
    """Bits behind the last node are zero: a node that the file grows by would be in use from the start (E_BadMapN)."""
    file, first = located.tree.file, 0
    for start, length in file.map_parts:
        bits = np.unpackbits(_bytes(located, start, length))
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


def _bytes(located: TreeRecords, start: int, length: int) -> U8:
    """Bytes of a tree's file that lie in one node."""
    size = located.tree.file.node_size_bytes
    node = read_parts(
        located.volume, pieces_of(located.volume, located.tree.file.fork, size, np.array([start // size]))
    )
    return node[start % size :][:length]


@frozen
class _Node:
    """One node of a tree, held against rules."""

    located: TreeRecords
    number: int

    def check(self, record_type: RecordType, declared: tuple[FieldRule[Any], ...], facts: object) -> None:
        """Check the node's start."""
        self._check(record_type, np.zeros(1, np.int64), declared, facts)

    def check_offsets(self, offsets: _Offsets) -> None:
        """Check the table at the node's end."""
        slots = np.arange(1, len(offsets.starts) + 2)
        starts = self.located.tree.file.node_size_bytes - OFFSET_BYTES * slots
        self._check(RECORD_OFFSET, starts, OFFSET_RULES, offsets)

    def _check(self, record_type: RecordType, starts: I64, declared: tuple[FieldRule[Any], ...], facts: object) -> None:
        size = self.located.tree.file.node_size_bytes
        at = self.number * size
        structures = Structures(record_type, _bytes(self.located, at, size), starts, self.located.volume.decoder)
        check_fields(structures, declared, facts, lambda row, plus: self.located.at(at + int(starts[row]) + plus))

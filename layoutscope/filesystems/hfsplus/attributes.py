"""The attributes file: extended attributes, their extents, and the headers of compressed files.

TN1150, "Attributes File"; records of values in the tree follow the system's hfs_format.h.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.display import Struct
from layoutscope.filesystems.hfsplus import names
from layoutscope.filesystems.hfsplus.forks import flatten
from layoutscope.filesystems.hfsplus.nodes import FORMS
from layoutscope.structs import grammar, records
from layoutscope.structs.arrays import I64, Columns, GrowingTable, Mask, find, signed
from layoutscope.structs.bulk import decode_column, decode_columns
from layoutscope.tables import NULL_ROW

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.filesystems.hfsplus.btree import LeafDecoder
    from layoutscope.filesystems.hfsplus.names import Units
    from layoutscope.filesystems.hfsplus.nodes import RecordBatch
    from layoutscope.filesystems.hfsplus.tree import Tree
    from layoutscope.structs.recordtypes import RecordColumn, RecordType


KEY: Final = records.ATTRIBUTE_KEY
INLINE: Final = records.ATTRIBUTE_INLINE_DATA
FORK: Final = records.ATTRIBUTE_FORK_DATA
EXTENTS: Final = records.ATTRIBUTE_EXTENTS
DECMPFS: Final = records.DECMPFS_HEADER

COMPRESSION_ATTRIBUTE: Final = "com.apple.decmpfs"

_TYPES = grammar.HfsplusAttributes.RecordType

EXTENT_FIELDS: Final[dict[int, tuple[RecordType, tuple[RecordColumn, RecordColumn]]]] = {
    int(_TYPES.fork_data): (FORK, (FORK.the_fork.extents.start_block, FORK.the_fork.extents.num_blocks)),
    int(_TYPES.extents): (EXTENTS, (EXTENTS.extents.start_block, EXTENTS.extents.num_blocks)),
}
"""Starts and lengths of extents, by record type."""

_MAGIC: Final = int(grammar.HfsplusAttributes.DecmpfsMagic.cmpf)

_SIZE_COLUMNS: Final = dict.fromkeys(("file_id", "node", "size"), np.int64)
"""Columns of owners of extents, and of compressed files."""


class AttributeLeaves:
    """Leaf records of the attributes file; extents are kept in decoding order."""

    def __init__(self) -> None:
        self.owners, self.compressed = GrowingTable(_SIZE_COLUMNS), GrowingTable(_SIZE_COLUMNS)
        self.names: list[Units] = []
        self.forks = GrowingTable(dict.fromkeys(("owner", "fork_block", "start_block", "block_count"), np.int64))

    def decode(self, batch: RecordBatch, leaf: Mask) -> tuple[Columns, I64]:
        """Decode the leaf records of a batch; keep extents and compression headers."""
        node, key, data, stop = batch.of(leaf)
        buffer = batch.nodes.buffer
        keys = decode_columns(KEY, buffer, key, (KEY.file_id, KEY.start_block, KEY.num_name_units))
        file_id, first_block, length = (values.astype(np.int64) for values in keys.values())
        start = key + KEY.width
        kind = FORMS["attributes"].types_of(buffer, data, stop)
        is_sound = (kind != 0) & (start + length * names.UNIT_BYTES <= data)
        for number, (record_type, fields) in EXTENT_FIELDS.items():
            rows = np.flatnonzero(is_sound & (kind == number))
            found = decode_columns(record_type, buffer, data[rows], fields)
            starts, counts = (found[name].astype(np.int64) for name in fields)
            extents = flatten(starts, counts, first_block[rows])
            extents["owner"] = len(self.owners) + extents.pop("record")
            self.forks.add(extents)
            # Extents after the eighth are in separate records with the same name, which contain only extents: only the
            # first record of an attribute has its size.
            size = np.full(len(rows), -1, np.int64)
            if number == _TYPES.fork_data:
                size = signed(decode_column(FORK, buffer, data[rows], FORK.the_fork.len_logical))
            self.owners.add({"file_id": file_id[rows], "node": node[rows], "size": size})
            # Few attributes have extents, so their names are stored one by one.
            units = names.gather(buffer, start[rows], length[rows])
            self.names += np.split(units, np.cumsum(length[rows])[:-1]) if len(rows) else []
        is_inline = is_sound & (kind == _TYPES.inline_data) & (data + INLINE.width + DECMPFS.width <= stop)
        rows = np.flatnonzero(is_inline & names.names_equal(buffer, start, length, COMPRESSION_ATTRIBUTE))
        # This header is little-endian, although the volume is big-endian.
        fields = (DECMPFS.compression_magic, DECMPFS.len_uncompressed)
        magic, size = decode_columns(DECMPFS, buffer, data[rows] + INLINE.width, fields).values()
        is_header = magic == _MAGIC
        headed = rows[is_header]
        sizes = signed(size[is_header])
        self.compressed.add({"file_id": file_id[headed], "node": node[headed], "size": sizes})
        columns: Columns = {"node": node[is_sound], "file_id": file_id[is_sound], "record_type": kind[is_sound]}
        return columns, node[~is_sound]


def start_attributes() -> tuple[AttributeLeaves, LeafDecoder]:
    """Return an empty store of leaf records, and the decoder that fills it."""
    leaves = AttributeLeaves()
    return leaves, leaves.decode


class Attributes(Struct, frozen=True):
    """The content of the attributes file."""

    first_row: int  # row of its node 0 in the nodes table
    # file_id, node: columns of all leaf records, in key order
    file_id: I64
    node: I64
    # compressed_id, compressed_node, uncompressed_size: columns of all compression headers
    compressed_id: I64
    compressed_node: I64
    uncompressed_size: I64
    owners: Columns  # `file_id, node, size` of each record with extents
    owner_name: list[str]  # names of these attributes
    forks: Columns  # one row per extent; `owner` is a row of `owners`; `fork_block, start_block, block_count`

    def rows_of(self, file_id: I64, is_compressed: Mask) -> NDArray[np.uint32]:
        """Return the leaf rows of files' first attributes; for compressed files, of their compression headers."""
        if not len(self.file_id) and not len(self.compressed_id):
            return np.full(len(file_id), NULL_ROW)
        place = find(self.file_id, file_id)
        nodes = np.append(self.node, 0)[place]
        header = find(self.compressed_id, file_id)
        use_header = is_compressed & (header >= 0)
        nodes = np.where(use_header, np.append(self.compressed_node, 0)[header], nodes)
        found = (place >= 0) | use_header
        return np.where(found, nodes + self.first_row, int(NULL_ROW)).astype(np.uint32)


def collect_attributes(
    tree: Tree | None,  # the attributes file; None if there is none
    leaves: AttributeLeaves,
    first_row: int,
) -> Attributes:
    """Combine the content of the leaves."""
    none = np.empty(0, np.int64)
    columns = tree.records if tree is not None else {"file_id": none, "node": none}
    compressed = leaves.compressed.values
    order = np.argsort(compressed["file_id"], kind="stable")
    owner_names = [names.shown(units).replace("/", ":") for units in leaves.names]
    return Attributes(
        first_row,
        columns["file_id"],
        columns["node"],
        compressed["file_id"][order],
        compressed["node"][order],
        compressed["size"][order],
        leaves.owners.values,
        owner_names,
        leaves.forks.values,
    )

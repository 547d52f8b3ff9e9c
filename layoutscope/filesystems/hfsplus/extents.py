"""The extents-overflow file: extents beyond the eighth.

TN1150, "Extents Overflow File".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope.filesystems.hfsplus.forks import Fork, append_extents
from layoutscope.structs.arrays import heads, lengths_of, starts_of
from layoutscope.structs.bulk import decode_columns
from layoutscope.structs.records import EXTENT_LEAF_RECORD

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.filesystems.hfsplus.nodes import RecordBatch
    from layoutscope.filesystems.hfsplus.tree import Tree
    from layoutscope.structs.arrays import I64, Columns, Mask
    from layoutscope.structs.recordtypes import RecordColumn, RecordType


LEAF_RECORD: Final = EXTENT_LEAF_RECORD


class FixedLeaves:
    """Leaf records with a single type and length, such as those of extents and of hot files."""

    def __init__(self, record_type: RecordType, fields: tuple[RecordColumn, ...]) -> None:
        self.record_type, self.fields = record_type, fields
        self.bad: list[I64] = []

    def decode(self, records: RecordBatch, leaf: Mask) -> Columns:
        """Decode leaf records."""
        whole = leaf & (records.stop - records.key >= self.record_type.width)
        self.bad.append(records.of(leaf & ~whole)[0])
        node, key, _, _ = records.of(whole)
        found = decode_columns(self.record_type, records.nodes.buffer, key, self.fields)
        return {"node": node, **{name: values.astype(np.int64) for name, values in found.items()}}


OVERFLOW_FIELDS: Final = (
    LEAF_RECORD.key.fork_type,
    LEAF_RECORD.key.file_id,
    LEAF_RECORD.key.start_block,
    LEAF_RECORD.data.extents.start_block,
    LEAF_RECORD.data.extents.num_blocks,
)


def overflow_leaves() -> FixedLeaves:
    """Return the decoder of the extents-overflow file: owner, position in the fork, and eight extents."""
    return FixedLeaves(LEAF_RECORD, OVERFLOW_FIELDS)


def extend_fork(fork: Fork, overflow: Tree | None, file_id: int, fork_type: int) -> Fork:
    """Add a file's overflow extents, in the order of the fork."""
    if overflow is None:
        return fork
    records = overflow.records
    mine = np.flatnonzero((records["key.file_id"] == file_id) & (records["key.fork_type"] == fork_type))
    if not len(mine):
        return fork
    mine = mine[np.argsort(records["key.start_block"][mine], kind="stable")]
    starts, counts = records["data.extents.start_block"][mine], records["data.extents.num_blocks"][mine]
    used = counts > 0
    nodes = np.broadcast_to(records["node"][mine][:, None], counts.shape)
    return append_extents(fork, starts[used], counts[used], nodes[used])


def flatten(starts: NDArray[Any], counts: NDArray[Any], first_block: I64) -> Columns:
    """Convert records of eight extents into one row per used extent."""
    record, slot = np.nonzero(counts)
    count = counts[record, slot].astype(np.int64)
    before = starts_of(count)
    first = heads(record)
    before -= np.repeat(before[first], lengths_of(first, len(record)))
    return {
        "record": record,
        "fork_block": first_block[record] + before,
        "start_block": starts[record, slot].astype(np.int64),
        "block_count": count,
    }

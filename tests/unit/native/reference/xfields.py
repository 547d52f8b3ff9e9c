"""Extended fields of APFS records, located in numpy: the reference for the kernel that decodes leaves."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from layoutscope.structs.bulk import decode_column, decode_columns
from layoutscope.structs.records import X_FIELD, XF_BLOB_HEAD

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(slots=True)
class ExtendedFields:
    """One row per field."""

    record: NDArray[np.int64]  # index of its value among those given
    type: NDArray[np.uint8]  # as in the grammar's `inode_field` or `drec_field`
    # start, size_bytes of its data, from the start of the buffer
    start: NDArray[np.int64]
    size_bytes: NDArray[np.int64]
    damaged: NDArray[np.int64]  # values with fields that do not fit; none of their fields is listed

    def without(self, torn: NDArray[np.int64]) -> ExtendedFields:
        """Remove the fields of values found to be damaged, and list these values."""
        damaged = np.array(sorted({*self.damaged.tolist(), *torn.tolist()}), np.int64)
        if not len(torn):
            return replace(self, damaged=damaged)
        keep = ~np.isin(self.record, torn)
        return ExtendedFields(self.record[keep], self.type[keep], self.start[keep], self.size_bytes[keep], damaged)


def extended_fields(
    buffer: NDArray[np.uint8],
    # starts, lengths_bytes: the part of each value after its fixed fields; length 0 if there is none
    starts: NDArray[np.int64],
    lengths_bytes: NDArray[np.int64],
) -> ExtendedFields:
    """Locate every extended field of many values."""
    head_size, entry_size = XF_BLOB_HEAD.width, X_FIELD.width
    record = np.flatnonzero(lengths_bytes >= head_size)
    start, length = starts[record], lengths_bytes[record]
    counts = decode_column(XF_BLOB_HEAD, buffer, start, XF_BLOB_HEAD.num_exts).astype(np.int64)
    fits = head_size + counts * entry_size <= length
    damaged = np.concatenate([np.flatnonzero((lengths_bytes > 0) & (lengths_bytes < head_size)), record[~fits]])
    if not fits.all():
        record, start, length, counts = record[fits], start[fits], length[fits], counts[fits]
    before = np.cumsum(counts) - counts
    slot = np.arange(int(counts.sum()))
    spots = np.repeat(start + head_size - before * entry_size, counts) + slot * entry_size
    found = decode_columns(X_FIELD, buffer, spots, (X_FIELD.type, X_FIELD.len_data, X_FIELD.len_padded))
    # All descriptions come first, then the data in the same order, each padded to eight bytes (xf_blob_t, x_field_t).
    sizes = found["len_data"].astype(np.int64)
    # All headers stand before all data, and no header says where its data are: they follow from the lengths of the
    # fields before it, each rounded up to eight bytes (reference, p. 108).
    ends = np.append(0, np.cumsum(found["len_padded"], dtype=np.int64))
    data_start = np.repeat(start + head_size + counts * entry_size - ends[before], counts) + ends[:-1]
    fields = ExtendedFields(np.repeat(record, counts), found["type"], data_start, sizes, damaged)
    # The last field's padding may be cut off, its data may not.
    return fields.without(fields.record[data_start + sizes > np.repeat(start + length, counts)])

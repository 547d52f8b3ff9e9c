"""Extended fields of inodes and directory records, as columns.

Apple File System Reference, Extended Fields: a head, descriptions, then the data of each field, padded to eight bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.errors import FormatError
from layoutscope.ondisk import grammar
from layoutscope.ondisk.decoder import Grammar
from layoutscope.ondisk.leafplan import Items
from layoutscope.ondisk.records import X_FIELD, XF_BLOB_HEAD

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from layoutscope.ondisk.decoder import Decoder


@dataclass(slots=True)
class ExtendedFields:
    """One row a field."""

    record: NDArray[np.int64]  # which value it belongs to, as position among those given
    type: NDArray[np.uint8]  # as in the grammar's `inode_field` or `drec_field`
    # start, size_bytes: its data, in bytes from the start of the buffer
    start: NDArray[np.int64]
    size_bytes: NDArray[np.int64]
    damaged: NDArray[np.int64]  # values whose fields do not fit into them; none of their fields is listed

    def without(self, torn: NDArray[np.int64]) -> ExtendedFields:
        """Leave out the fields of values that turn out to be damaged, and list these."""
        damaged = np.array(sorted({*self.damaged.tolist(), *torn.tolist()}), np.int64)
        if not len(torn):
            return replace(self, damaged=damaged)
        keep = ~np.isin(self.record, torn)
        return ExtendedFields(self.record[keep], self.type[keep], self.start[keep], self.size_bytes[keep], damaged)


def extended_fields(
    decoder: Decoder,
    buffer: NDArray[np.uint8],
    # starts, lengths_bytes: the part of each value behind its fixed fields; of length 0 where there is none
    starts: NDArray[np.int64],
    lengths_bytes: NDArray[np.int64],
) -> ExtendedFields:
    """Locate every extended field of many values."""
    if isinstance(decoder, Grammar):
        return _parsed(buffer, starts, lengths_bytes)
    return _in_bulk(decoder, buffer, starts, lengths_bytes)


ITEMS: Final = Items(
    extended_fields,
    XF_BLOB_HEAD,
    XF_BLOB_HEAD.num_exts,
    X_FIELD,
    X_FIELD.type,
    X_FIELD.len_data,
    X_FIELD.len_padded,
)
"""How extended fields lie behind the fixed part of a value."""


def _in_bulk(
    decoder: Decoder, buffer: NDArray[np.uint8], starts: NDArray[np.int64], lengths_bytes: NDArray[np.int64]
) -> ExtendedFields:
    head_size, entry_size = XF_BLOB_HEAD.width, X_FIELD.width
    record = np.flatnonzero(lengths_bytes >= head_size)
    start, length = starts[record], lengths_bytes[record]
    counts = decoder.column(XF_BLOB_HEAD, buffer, start, XF_BLOB_HEAD.num_exts).astype(np.int64)
    fits = head_size + counts * entry_size <= length
    damaged = np.concatenate([np.flatnonzero((lengths_bytes > 0) & (lengths_bytes < head_size)), record[~fits]])
    if not fits.all():
        record, start, length, counts = record[fits], start[fits], length[fits], counts[fits]
    before = np.cumsum(counts) - counts
    slot = np.arange(int(counts.sum()))
    spots = np.repeat(start + head_size - before * entry_size, counts) + slot * entry_size
    found = decoder.columns(X_FIELD, buffer, spots, (X_FIELD.type, X_FIELD.len_data, X_FIELD.len_padded))
    # All descriptions come first, then the data in the same order, each padded to eight bytes (xf_blob_t, x_field_t).
    sizes = found["len_data"].astype(np.int64)
    # All headers stand before all data, and no header says where its data are: they follow from the lengths of the
    # fields before it, each rounded up to eight bytes (reference, p. 108).
    ends = np.append(0, np.cumsum(found["len_padded"], dtype=np.int64))
    data_start = np.repeat(start + head_size + counts * entry_size - ends[before], counts) + ends[:-1]
    fields = ExtendedFields(np.repeat(record, counts), found["type"], data_start, sizes, damaged)
    # The last field's padding may be cut off, its data may not.
    return fields.without(fields.record[data_start + sizes > np.repeat(start + length, counts)])


def _parsed(buffer: NDArray[np.uint8], starts: NDArray[np.int64], lengths_bytes: NDArray[np.int64]) -> ExtendedFields:
    rows: list[tuple[int, int, int, int]] = []
    damaged = []
    for number, (start, length) in enumerate(zip(starts.tolist(), lengths_bytes.tolist(), strict=True)):
        if not length:
            continue
        data = buffer[start : start + length].tobytes()
        try:
            blob = grammar.parse(grammar.ApfsXfields.XfBlob, data, structure="extended fields", image_offset=start)
        except FormatError:
            damaged.append(number)
            continue
        rows += [(number, *field) for field in _fields(blob, start)]
    table = np.array(rows, np.int64).reshape(-1, 4)
    return ExtendedFields(
        record=table[:, 0],
        type=table[:, 1].astype(np.uint8),
        start=table[:, 2],
        size_bytes=table[:, 3],
        damaged=np.array(damaged, np.int64),
    )


def _fields(blob: grammar.ApfsXfields.XfBlob, start: int) -> Iterator[tuple[int, int, int]]:
    """Type, start and size of each field of one parsed collection."""
    for description, data in zip(blob.fields, blob.data, strict=True):
        yield description.type, start + data._debug["data"]["start"], description.len_data  # noqa: SLF001

"""Many structures at many addresses, as columns.

The record types are generated from the grammars; this module only gathers, through an overlapping view with stride 1:
one field touches nothing but that field, and of several fields whole records are copied first, which takes a third of
the time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope.display import Struct
from layoutscope.errors import FormatError
from layoutscope.structs.recordtypes import Field

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from layoutscope.structs.recordtypes import RecordColumn, RecordType


class _Fields:
    """Access to fields and instances by their names, the same for every way in which records may lie."""

    __slots__ = ()
    record_type: RecordType

    def __getitem__(self, path: str) -> NDArray[Any]:
        """Gather one field or compute one ``value:`` instance."""
        column = self.record_type.column(path)
        if isinstance(column, Field):
            return self._gather(column)
        return np.asarray(column.formula(_Wide(self, column.prefix)))

    def _gather(self, field: Field) -> NDArray[Any]:
        raise NotImplementedError


class Records(_Fields, Struct, frozen=True):
    """Records of one type at many places of one buffer."""

    record_type: RecordType  # what they are
    buffer: NDArray[np.uint8]  # where they lie
    positions: NDArray[np.int64]  # their starts, in bytes from the start of the buffer

    def __len__(self) -> int:
        return len(self.positions)

    def rows(self) -> _Rows:
        """Copy the fixed prefix of every record, one after the other: it pays where several fields are wanted."""
        width = self.record_type.width
        spots = max(0, len(self.buffer) - width + 1)
        # Structures on disks are packed, and begin at any byte: numpy's views may, as they say of themselves that they
        # are not aligned.
        view: NDArray[Any] = np.ndarray((spots,), f"V{width}", self.buffer, strides=(1,))
        return _Rows(self.record_type, view[self.positions])

    def _gather(self, field: Field) -> NDArray[Any]:
        spots = len(self.buffer) - field.offset - field.width + 1
        if spots <= 0:
            return np.empty((0, *field.counts), field.native)
        view: NDArray[Any] = np.ndarray(
            (spots, *field.counts), field.scalar, self.buffer, field.offset, (1, *field.strides)
        )
        return view[self.positions].astype(field.native, copy=False)


class _Rows(_Fields, Struct, frozen=True):
    """Records of one type that lie one after the other."""

    record_type: RecordType  # what they are
    data: NDArray[Any]  # each item holds one record

    def _gather(self, field: Field) -> NDArray[Any]:
        shape, strides = (len(self.data), *field.counts), (self.data.itemsize, *field.strides)
        if not len(self.data):
            return np.empty(shape, field.native)
        view: NDArray[Any] = np.ndarray(shape, field.scalar, self.data, field.offset, strides)
        return view.astype(field.native)


class _Wide:
    """Fields in 64 bits, so that shifts and sums of instances cannot overflow their field's width."""

    __slots__ = ("_prefix", "_records")

    def __init__(self, records: _Fields, prefix: str) -> None:
        self._records = records
        self._prefix = prefix

    def __getitem__(self, path: str) -> NDArray[Any]:
        values = self._records[self._prefix + path]
        if values.dtype.kind == "b":
            return values
        return values.astype(np.int64 if values.dtype.kind == "i" else np.uint64, copy=False)


ROWS_FROM: Final = 2
"""Fields from which on it is quicker to copy the records than to gather field by field."""


def decode_columns(
    record_type: RecordType,
    buffer: NDArray[np.uint8],
    starts: NDArray[Any],  # where they start, in bytes from the start of the buffer
    fields: Sequence[RecordColumn],
) -> dict[str, NDArray[Any]]:
    """Decode some fields of many records."""
    found = records(record_type, buffer, starts)
    source = found.rows() if len(fields) >= ROWS_FROM else found
    return {field: source[field] for field in fields}


def decode_column(
    record_type: RecordType, buffer: NDArray[np.uint8], starts: NDArray[Any], field: RecordColumn
) -> NDArray[Any]:
    """Decode one field of many records."""
    return records(record_type, buffer, starts)[field]


def records(
    record_type: RecordType,
    buffer: NDArray[np.uint8],
    positions: NDArray[Any],  # where the records start, in bytes from the start of the buffer
) -> Records:
    """Name records of one type at many places."""
    starts = np.asarray(positions, np.int64)
    last = len(buffer) - record_type.width
    if len(starts) and (int(starts.min()) < 0 or int(starts.max()) > last):
        first = int(starts[(starts < 0) | (starts > last)][0])
        raise FormatError(
            "record does not fit into its buffer",
            structure=record_type.type_name,
            image_offset=first,
            expected=f"a start of at most {last}",
            found=str(first),
        )
    return Records(record_type, np.ascontiguousarray(buffer).reshape(-1), starts)

"""Many structures at many addresses, as columns.

The record types are generated from the grammars; this module only gathers, through an overlapping view with stride 1.
For one field, it touches only that field. For several fields, it first copies whole records, which takes a third of the
time. Leaf records with names or lists are decoded by :mod:`layoutscope.structs.leaves`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from layoutscope.structs.arrays import I64, U8
    from layoutscope.structs.recordtypes import Field, RecordColumn, RecordType

    Gather = Callable[[Field], NDArray[Any]]

ROWS_FROM: Final = 2
"""Number of fields from which it is faster to copy the records than to gather field by field."""


def decode_columns(
    record_type: RecordType,
    buffer: U8,
    starts: NDArray[Any],  # starts of the records, in bytes from the start of the buffer
    fields: Sequence[RecordColumn],
) -> dict[str, NDArray[Any]]:
    """Decode some fields and instances of many records."""
    positions = np.asarray(starts, np.int64)
    last = len(buffer) - record_type.width
    if len(positions) and (int(positions.min()) < 0 or int(positions.max()) > last):
        first = int(positions[(positions < 0) | (positions > last)][0])
        raise FormatError(
            "record does not fit into its buffer",
            structure=record_type.type_name,
            image_offset=first,
            expected=f"a start of at most {last}",
            found=str(first),
        )
    gather = _gather_from(record_type, np.ascontiguousarray(buffer).reshape(-1), positions, len(fields))
    return {field: np.asarray(record_type.evaluate(field, gather, _widen)) for field in fields}


def decode_column(record_type: RecordType, buffer: U8, starts: NDArray[Any], field: RecordColumn) -> NDArray[Any]:
    """Decode one field or instance of many records."""
    return decode_columns(record_type, buffer, starts, (field,))[field]


def _gather_from(record_type: RecordType, buffer: U8, positions: I64, num_fields: int) -> Gather:
    """Return the function that gathers a field of the records at the given positions."""
    is_copied = num_fields >= ROWS_FROM
    count, distance = max(0, len(buffer) - record_type.width + 1), 1
    if is_copied:
        # On-disk structures are packed and begin at any byte; numpy's views may, too: they are flagged as unaligned.
        whole: NDArray[Any] = np.ndarray((count,), f"V{record_type.width}", buffer, strides=(1,))
        buffer, count, distance = whole[positions].view(np.uint8), len(positions), record_type.width

    def gather(field: Field) -> NDArray[Any]:
        if not len(positions):
            return np.empty((0, *field.counts), field.native)
        strides = (distance, *field.strides)
        view: NDArray[Any] = np.ndarray((count, *field.counts), field.scalar, buffer, field.offset, strides)
        return (view if is_copied else view[positions]).astype(field.native, copy=is_copied)

    return gather


def _widen(values: NDArray[Any]) -> NDArray[Any]:
    """Convert numbers to 64 bits, so that shifts and sums in instances cannot overflow a field's width."""
    kind = np.asarray(values).dtype.kind
    return values if kind == "b" else np.asarray(values).astype(np.int64 if kind == "i" else np.uint64, copy=False)

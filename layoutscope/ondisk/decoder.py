"""The only door to structures in bulk: fields of many records, by one of two decoders.

Bulk gathers them through the record types, grammar parses them one by one through the compiled grammars. The second is
slow, and therefore only for proof: what both agree on was described once and read twice.

A structure of which there is one, such as a header, is parsed through its grammar whichever decoder is chosen, as the
grammar checks its magic; that its record type tells the same is proven on random bytes (``tests/differential``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

import numpy as np

from layoutscope.ondisk import bulk, grammar
from layoutscope.recordtypes import Field

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from layoutscope.recordtypes import RecordColumn, RecordType

DecoderName = Literal["bulk", "grammar"]

ROWS_FROM: Final = 2
"""Fields from which on it is quicker to copy the records than to gather field by field."""


class Decoder(Protocol):
    """What both decoders offer."""

    def columns(
        self,
        record_type: RecordType,
        buffer: NDArray[np.uint8],
        starts: NDArray[Any],  # where they start, in bytes from the start of the buffer
        fields: Sequence[RecordColumn],
        lengths_bytes: NDArray[np.integer] | None = None,
    ) -> dict[str, NDArray[Any]]:
        """Decode some fields of many records."""
        ...

    def column(
        self, record_type: RecordType, buffer: NDArray[np.uint8], starts: NDArray[Any], field: RecordColumn
    ) -> NDArray[Any]:
        """Decode one field of many records."""
        return self.columns(record_type, buffer, starts, (field,))[field]


class Bulk(Decoder):
    """Fields of many records, gathered at once."""

    def columns(
        self,
        record_type: RecordType,
        buffer: NDArray[np.uint8],
        starts: NDArray[Any],
        fields: Sequence[RecordColumn],
        lengths_bytes: NDArray[np.integer] | None = None,  # noqa: ARG002  (only its twin reads past the prefix)
    ) -> dict[str, NDArray[Any]]:
        """Decode some fields of many records."""
        found = bulk.records(record_type, buffer, starts)
        source = found.rows() if len(fields) >= ROWS_FROM else found
        return {field: source[field] for field in fields}


class Grammar(Decoder):
    """Fields of many records, parsed one record after the other."""

    def columns(
        self,
        record_type: RecordType,
        buffer: NDArray[np.uint8],
        starts: NDArray[Any],
        fields: Sequence[RecordColumn],
        lengths_bytes: NDArray[np.integer] | None = None,
    ) -> dict[str, NDArray[Any]]:
        """Decode some fields of many records."""
        bulk.records(record_type, buffer, starts)
        data, first = np.ascontiguousarray(buffer).reshape(-1).data, [int(start) for start in starts]
        if lengths_bytes is None:
            # An instance may be made of any field, so that all must be there.
            needed = {field.split(".")[0] if isinstance(field, Field) else record_type.last_placed for field in fields}
            parsed = [
                grammar.parse_prefix(record_type, data[start:][: record_type.width], start, needed) for start in first
            ]
        else:
            cls = grammar.parser(record_type)
            spans = zip(first, lengths_bytes.tolist(), strict=True)
            parsed = [
                grammar.parse(cls, data[start:][:length], structure=record_type.type_name, image_offset=start)
                for start, length in spans
            ]
        return {field: _column(parsed, record_type.column(field), record_type) for field in fields}


def _column(parsed: list[Any], column: RecordColumn, record_type: RecordType) -> NDArray[Any]:
    """One field of parsed records, of the width and shape that it has on disk."""
    path = column.split(".")
    values = [_value(item, path) for item in parsed]
    if isinstance(column, Field):
        return np.array(values, column.native).reshape(len(parsed), *column.counts)
    none = bulk.records(record_type, np.zeros(record_type.width, np.uint8), np.empty(0, np.int64))[column]
    return np.array(values, none.dtype).reshape(len(parsed), *none.shape[1:])


def _value(item: Any, path: list[str]) -> Any:
    """Follow a dotted path, through lists too."""
    for number, name in enumerate(path):
        if isinstance(item, list):
            return [_value(member, path[number:]) for member in item]
        item = getattr(item, name)
    if isinstance(item, list):
        return [int(member) for member in item]
    return item if isinstance(item, bool | bytes) else int(item)


BULK: Final = Bulk()
GRAMMAR: Final = Grammar()


def decoder_named(name: DecoderName) -> Decoder:
    """Return a decoder by its name."""
    return BULK if name == "bulk" else GRAMMAR

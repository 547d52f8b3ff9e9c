"""Fields of many structures, parsed one by one through the compiled grammars.

One of two twins: :mod:`.decode_bulk` returns the same arrays through the generated dtypes. Slow, and
therefore only for proof: what both agree on was described once and read twice.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np
from kaitaistruct import KaitaiStream, KaitaiStructError

from layoutscope.errors import FormatError
from layoutscope.ondisk import bulk, grammar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from layoutscope.arrays.columns import I64, U8, Columns

LONGEST_BYTES = 65536 * 2
"""No structure of varying size is longer: its length is a 16-bit number of 16-bit units."""


def columns(type_name: str, buffer: U8, starts: I64, fields: Sequence[str]) -> Columns:
    """Decode some fields of many structures; see :func:`layoutscope.filesystems.hfsplus.decode_bulk.columns`."""
    prefix = bulk.size(type_name)
    none = bulk.records(type_name, np.zeros(prefix, np.uint8), np.empty(0, np.int64))
    data = np.ascontiguousarray(buffer).data
    parsed = [_parse(type_name, data[max(start, 0) :][:LONGEST_BYTES], start, prefix) for start in starts.tolist()]
    columns: Columns = {}
    for field in fields:
        values = none[field]
        columns[field] = np.array([_value(item, field.split(".")) for item in parsed], values.dtype).reshape(
            len(parsed), *values.shape[1:]
        )
    return columns


def _parse(type_name: str, data: memoryview, start: int, prefix_bytes: int) -> Any:
    """Parse one structure; what follows the fixed prefix may be cut off, as its twin does not look at it."""
    if start < 0 or len(data) < prefix_bytes:
        raise FormatError("record does not fit into its buffer", structure=type_name, image_offset=start)
    grammar_id, _, type_id = type_name.partition(".")
    cls = getattr(getattr(grammar, _class_name(grammar_id)), _class_name(type_id))
    parsed = cls(KaitaiStream(io.BytesIO(data)))
    try:
        parsed._read()
    except KaitaiStructError:
        return parsed
    return parsed


def _class_name(identifier: str) -> str:
    return "".join(part.capitalize() for part in identifier.split("_"))


def _value(item: Any, path: list[str]) -> Any:
    """Follow a dotted path, through lists too."""
    for number, name in enumerate(path):
        if isinstance(item, list):
            return [_value(member, path[number:]) for member in item]
        item = getattr(item, name)
    return [int(member) for member in item] if isinstance(item, list) else _plain(item)


def _plain(value: Any) -> int | bool:
    return value if isinstance(value, bool) else int(value)

"""Fields of many structures, parsed one by one through the compiled grammars.

One of two twins: :mod:`.decode_bulk` returns the same arrays through the generated dtypes. Slow, and
therefore only for proof: what both agree on was described once and read twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from layoutscope.errors import FormatError
from layoutscope.filesystems.apfs.store.xfields import ExtendedFields
from layoutscope.ondisk import bulk, grammar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


def columns(
    type_name: str,
    buffer: NDArray[np.uint8],
    starts: NDArray[np.int64],
    fields: Sequence[str],
    lengths_bytes: NDArray[np.integer] | None = None,
) -> dict[str, NDArray[Any]]:
    """Decode some fields of many structures; see :func:`layoutscope.filesystems.apfs.store.decode_bulk.columns`."""
    size = bulk.size(type_name)
    lengths = np.full(len(starts), size) if lengths_bytes is None else lengths_bytes
    parsed = [
        _parse(type_name, buffer, start, length)
        for start, length in zip(starts.tolist(), lengths.tolist(), strict=True)
    ]
    none = bulk.records(type_name, np.zeros(size, np.uint8), np.empty(0, np.int64))
    return {field: np.array([_value(item, field) for item in parsed], none[field].dtype) for field in fields}


def _parse(type_name: str, buffer: NDArray[np.uint8], start: int, length_bytes: int) -> Any:
    grammar_id, _, type_id = type_name.partition(".")
    owner = getattr(grammar, _class_name(grammar_id))
    data = buffer[start : start + length_bytes].tobytes()
    return grammar.parse(getattr(owner, _class_name(type_id)), data, structure=type_name, image_offset=start)


def _class_name(identifier: str) -> str:
    return "".join(part.capitalize() for part in identifier.split("_"))


def _value(item: Any, path: str) -> int | bool:
    for name in path.split("."):
        item = getattr(item, name)
    return item if isinstance(item, bool) else int(item)


def extended_fields(
    buffer: NDArray[np.uint8], starts: NDArray[np.int64], lengths_bytes: NDArray[np.integer]
) -> ExtendedFields:
    """Locate every extended field; see :func:`layoutscope.filesystems.apfs.store.decode_bulk.extended_fields`."""
    rows: list[tuple[int, int, int, int]] = []
    damaged = []
    for number, (start, length) in enumerate(zip(starts.tolist(), lengths_bytes.tolist(), strict=True)):
        if not length:
            continue
        try:
            blob = _parse("apfs_fsrecords.xf_blob", buffer, start, length)
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


def _fields(blob: Any, start: int) -> list[tuple[int, int, int]]:
    """Type, start and size of each field of one parsed collection."""
    return [
        (description.type, start + data._debug["data"]["start"], description.size_bytes)  # noqa: SLF001
        for description, data in zip(blob.fields, blob.data, strict=True)
    ]

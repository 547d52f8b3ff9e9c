"""Differences between bulk decoding and the grammars on the same bytes, for ``verify``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from layoutscope.errors import FormatError
from layoutscope.structs import grammar
from layoutscope.structs.arrays import I64, U8, signed
from layoutscope.structs.bulk import decode_columns
from layoutscope.structs.leaves import NO_LEAF, Leaf, LeafBatch, LeafPlan, LeafTables, Texts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from layoutscope.structs.recordtypes import RecordType

    ItemsOf = Callable[[bytes], Iterator[tuple[int, int, int]]]
    """Parses a collection of items: type, start and size of each, in bytes from the start of the collection."""


def compare_fields(record_type: RecordType, buffer: U8, starts: I64, titles: Sequence[str]) -> Iterator[str]:
    """Yield the differences in every field and instance of records of one type; each record has a title."""
    columns = (*record_type.fields(), *record_type.instances())
    found = decode_columns(record_type, buffer, starts, columns)
    for number, start in enumerate(starts.tolist()):
        try:
            parsed = grammar.parse_fixed(record_type, buffer, start)
        except FormatError as error:
            yield f"{titles[number]}: decoded in bulk, and the grammar says {error}"
            continue
        for column in columns:
            values = found[column][number]
            expected = np.array(grammar.value_at(parsed, column), values.dtype)
            if not np.array_equal(values, expected):
                yield difference(f"{titles[number]}, {column}", values.tolist(), expected.tolist())


def compare_leaves(
    plan: LeafPlan, batch: LeafBatch, titles: Sequence[str], items_of: ItemsOf | None = None
) -> Iterator[str]:
    """Yield the differences between the kernel's rows of leaf records and those that a plan makes of parsed records."""
    tables = LeafTables(plan)
    leaves, rows, _ = tables.add(batch)
    known = {name: tables.table(name) for name in plan.tables}
    for number in np.flatnonzero(leaves != NO_LEAF).tolist():
        leaf, row = plan.leaves[leaves[number]], int(rows[number])
        try:
            expected = _expected_row(plan, leaf, batch, number, items_of)
        except FormatError as error:
            yield f"{titles[number]}: decoded in bulk, and the grammar says {error}"
            continue
        for name, value in expected.items():
            column = known[leaf.table][name]
            if isinstance(column, Texts):
                first = int(column.length[:row].sum())
                got: object = column.data[first : first + int(column.length[row])].tobytes()
            else:
                got = column[row].item()
            if got != value:
                yield difference(f"{titles[number]}, column {name}", got, value)
        for table in dict.fromkeys(each.table for each in leaf.lists):
            own = np.flatnonzero(known[table]["owner"] == row)
            got_lists = {name: known[table][name][own].tolist() for name in plan.tables[table] if name != "owner"}
            for name, values in _expected_lists(plan, leaf, table, batch, number).items():
                if got_lists[name] != values:
                    yield difference(f"{titles[number]}, column {name} of {table}", got_lists[name], values)


def _expected_row(
    plan: LeafPlan, leaf: Leaf, batch: LeafBatch, number: int, items_of: ItemsOf | None
) -> dict[str, object]:
    """Return the expected values in the columns of a record's row; texts as bytes."""
    types = {"key": leaf.key_type, "val": leaf.val_type}
    starts = {"key": int(batch.key_start[number]), "val": int(batch.val_start[number])}
    parsed = {part: grammar.parse_fixed(types[part], batch.buffer, starts[part]) for part in types}
    expected: dict[str, object] = {}
    for part, columns in (("key", leaf.key_columns), ("val", leaf.columns)):
        for name, column in columns.items():
            value = column if isinstance(column, int) else grammar.value_at(parsed[part], column)
            expected[name] = _as_stored(value, plan.dtype(leaf.table, name))
    for name, text in leaf.texts.items():
        first = starts[text.part] + types[text.part].width
        size = int(grammar.value_at(parsed[text.part], text.length)) * text.unit_bytes
        raw = batch.buffer[first : first + size].tobytes()
        expected[name] = recode_text(raw, str(plan.tables[leaf.table][name]))
    if leaf.cases and items_of is not None:
        start, stop = starts["val"] + leaf.val_type.width, starts["val"] + int(batch.val_length[number])
        for kind, at, size in items_of(batch.buffer[start:stop].tobytes()) if start < stop else ():
            case = leaf.cases.get(kind)
            if case is None or size < case[0].width:
                continue
            item = grammar.parse_fixed(case[0], batch.buffer, start + at)
            for name, column in case[1].items():
                value = column if isinstance(column, int) else grammar.value_at(item, column)
                expected[name] = _as_stored(value, plan.dtype(leaf.table, name))
    return expected


def _expected_lists(plan: LeafPlan, leaf: Leaf, table: str, batch: LeafBatch, number: int) -> dict[str, list[object]]:
    """Return the expected columns of the rows that come from a record's repeated fields."""
    parsed = grammar.parse_fixed(leaf.val_type, batch.buffer, int(batch.val_start[number]))
    rows: dict[str, list[object]] = {}
    for each in (each for each in leaf.lists if each.table == table):
        used = grammar.value_at(parsed, each.used)
        places = [place for place, value in enumerate(used) if value]
        for name, column in each.columns.items():
            values = [column] * len(used) if isinstance(column, int) else grammar.value_at(parsed, column)
            dtype = plan.dtype(table, name)
            rows.setdefault(name, []).extend(_as_stored(values[place], dtype) for place in places)
    return rows


def _as_stored(value: Any, dtype: np.dtype[Any]) -> object:
    """Convert a number as columns do: 64-bit sizes beyond the signed range become the largest signed number."""
    values: NDArray[Any] = np.array([value])
    return (signed(values) if dtype == np.int64 else values).astype(dtype)[0].item()


def recode_text(raw: bytes, coding: str) -> bytes:
    """Return a text in the form of its column."""
    if coding == "utf-16":
        # TN1150 forbids no unit: half of a surrogate pair becomes U+FFFD here, and the stored name keeps it.
        return raw.decode("utf-16-be", "replace").encode()
    if coding == "utf-16-others":
        return b"" if raw.decode("utf-16-be", "replace").isascii() else raw
    # Lengths of names include the terminating zero byte (Apple File System Reference, j_drec_key_t).
    return raw.split(b"\0", 1)[0] if coding == "utf-8" else raw


def difference(place: str, bulk: object, parsed: object) -> str:
    """Describe one difference."""
    return f"{place}: {bulk} in bulk, {parsed} through the grammar"

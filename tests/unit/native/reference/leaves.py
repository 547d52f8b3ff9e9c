"""Reference for the kernel that decodes leaves, in numpy: the oracle of its tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import numpy as np

from layoutscope.structs.arrays import ranges, signed
from layoutscope.structs.bulk import decode_column, decode_columns
from layoutscope.structs.leaves import NO_LEAF, TEXT_DTYPE, LeafTables, _Traced
from layoutscope.structs.recordtypes import Field

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from layoutscope.structs.arrays import I64, U8, Columns
    from layoutscope.structs.leaves import Leaf, LeafBatch, LeafPlan, Part, Repeated, Text
    from layoutscope.structs.recordtypes import RecordColumn, RecordType

    Locate = Callable[[NDArray[np.uint8], I64, I64], "LocatedItems"]
    """Function from a buffer and the starts and lengths of collections to their items."""


class LocatedItems(Protocol):
    """Items of many collections: collection number, type and place of each, and the damaged collections."""

    record: NDArray[np.int64]
    type: NDArray[np.uint8]
    start: NDArray[np.int64]
    size_bytes: NDArray[np.int64]
    damaged: NDArray[np.int64]


class PlainTables(LeafTables):
    """Tables that are filled column by column in numpy."""

    def __init__(self, plan: LeafPlan, locate: Locate | None = None) -> None:
        super().__init__(plan)
        self._locate = locate

    def add(self, batch: LeafBatch, to_come: float = 0.0) -> tuple[U8, I64, NDArray[np.bool_]]:  # noqa: ARG002  (columns grow as needed)
        """Decode column by column."""
        twin = LeafTwin(self.plan, batch, self._counts, self._locate)
        values, before = twin.values(), self._counts.copy()
        for output, (dtype, counter) in self.plan.outputs.items():
            added, used = values[output], int(before[counter])
            self._counts[counter] = used + len(added)
            self._columns[output] = np.concatenate([self._columns[output][:used], added.astype(dtype)])
        return twin.leaf, twin.row, twin.is_damaged


_ASCII_LAST: Final = 0x7F


class LeafTwin:
    """The kernel in numpy: one batch, all records of a leaf at once."""

    def __init__(self, plan: LeafPlan, batch: LeafBatch, counts: I64, locate: Locate | None) -> None:
        self._plan, self._batch, self._locate = plan, batch, locate
        leaf = self._leaves()
        row = np.full(len(leaf), -1, np.int64)
        self._records: dict[str, I64] = {}
        for number, table in enumerate(plan.tables):
            members = [k for k, each in enumerate(plan.leaves) if each.table == table]
            self._records[table] = np.flatnonzero(np.isin(leaf, members))
            row[self._records[table]] = counts[number] + np.arange(len(self._records[table]))
        self.leaf, self.row, self.is_damaged = leaf, row, np.zeros(len(leaf), np.bool_)

    def values(self) -> dict[tuple[str, str, bool], NDArray[Any]]:
        """Return the values added to each output."""
        made: dict[tuple[str, str, bool], NDArray[Any]] = {}
        lists = {each.table for leaf in self._plan.leaves for each in leaf.lists}
        for table, columns in self._plan.tables.items():
            for name, coding in columns.items():
                if isinstance(coding, str):
                    made[table, name, True], made[table, name, False] = self._texts(table, name, coding)
            numbers = self._repetitions(table) if table in lists else self._numbers(table)
            made.update({(table, name, False): values for name, values in numbers.items()})
        return made

    def _leaves(self) -> U8:
        """Return the leaf of each record."""
        batch, leaf = self._batch, np.full(len(self._batch.node), NO_LEAF, np.uint8)
        # Starts and lengths come from the image, so their sums may overflow.
        inside = (batch.node >= 0) & (batch.node < len(batch.numbers))
        for start, length in ((batch.key_start, batch.key_length), (batch.val_start, batch.val_length)):
            inside &= (length >= 0) & (length <= len(batch.buffer)) & (start >= 0)
            inside &= start <= len(batch.buffer) - length.astype(np.int64)
        rows = np.flatnonzero(inside)
        kinds = np.zeros(len(rows), np.int64)
        if self._plan.kind is not None:
            part, record_type, field = self._plan.kind
            rows = rows[batch.part(part, rows)[1] >= _end_of(record_type, field)]
            kinds = self._column(part, record_type, rows, field).astype(np.int64)
        for number, form in enumerate(self._plan.leaves):
            leaf[self._fitting(form, rows[kinds == form.kind])] = number
        return leaf

    def _fitting(self, leaf: Leaf, rows: I64) -> I64:
        """Keep the records that have all required bytes."""
        whole = (self._batch.key_length[rows] >= leaf.key_type.width) & (
            self._batch.val_length[rows] >= leaf.val_type.width
        )
        rows = rows[whole]
        for text in (*leaf.texts.values(), *leaf.checked):
            start, units = self._placed(leaf, text, rows)
            slices, lengths = self._batch.part(text.part, rows)
            rows = rows[(units >= 0) & (units <= (slices + lengths - start) // text.unit_bytes)]
        return rows

    def _placed(self, leaf: Leaf, text: Text, rows: I64) -> tuple[I64, I64]:
        """Return the starts of texts, and their lengths in units."""
        record_type = leaf.key_type if text.part == "key" else leaf.val_type
        units = self._column(text.part, record_type, rows, text.length)
        return self._batch.part(text.part, rows)[0] + record_type.width, units.astype(np.int64)

    def _column(self, part: Part, record_type: RecordType, rows: I64, column: RecordColumn) -> NDArray[Any]:
        return decode_column(record_type, self._batch.buffer, self._batch.part(part, rows)[0], column)

    def _numbers(self, table: str) -> Columns:
        """Decode the columns of a table of records."""
        records, batch = self._records[table], self._batch
        names = [name for name, coding in self._plan.tables[table].items() if not isinstance(coding, str)]
        node = batch.node[records]
        origin = node * batch.node_bytes
        known = {
            "node": batch.numbers[node],
            "key_at": batch.key_start[records] - origin,
            "val_at": batch.val_start[records] - origin,
        }
        made = {name: self._cast(table, name, known.get(name, np.zeros(len(records)))) for name in names}
        for number, leaf in enumerate(self._plan.leaves):
            if leaf.table == table:
                rows = np.flatnonzero(self.leaf[records] == number)
                parts: tuple[tuple[Part, RecordType, Mapping[str, RecordColumn | int]], ...]
                parts = (("key", leaf.key_type, leaf.key_columns), ("val", leaf.val_type, leaf.columns))
                for part, record_type, columns in parts:
                    self._fill(_Target(table, made, rows), record_type, batch.part(part, records[rows])[0], columns)
                self._fill_items(_Target(table, made, rows), leaf)
        return made

    def _fill(
        self,
        target: _Target,
        record_type: RecordType,
        starts: I64,
        columns: Mapping[str, RecordColumn | int],
    ) -> None:
        """Put fields and constants into rows of columns."""
        wanted = tuple(column for column in columns.values() if not isinstance(column, int))
        found = decode_columns(record_type, self._batch.buffer, starts, wanted) if wanted else {}
        for name, column in columns.items():
            values = np.full(len(starts), column) if isinstance(column, int) else found[column]
            target.columns[name][target.rows] = self._cast(target.table, name, values)

    def _fill_items(self, target: _Target, leaf: Leaf) -> None:
        if not leaf.cases or self._locate is None:
            return
        records = self._records[target.table][target.rows]
        width = leaf.val_type.width
        start, length = self._batch.val_start[records] + width, self._batch.val_length[records] - width
        located = self._locate(self._batch.buffer, start, length.astype(np.int64))
        self.is_damaged[records[located.damaged]] = True
        for kind, case in leaf.cases.items():
            chosen = np.flatnonzero((located.type == kind) & (located.size_bytes >= case[0].width))
            rows = target.rows[located.record[chosen]]
            self._fill(target._replace(rows=rows), case[0], located.start[chosen], case[1])

    def _repetitions(self, table: str) -> Columns:
        """Decode the columns of a table of repetitions, in the order of records and of each record's lists."""
        parts, places = [], []
        for number, leaf in enumerate(self._plan.leaves):
            records = np.flatnonzero(self.leaf == number)
            for turn, each in enumerate(leaf.lists):
                if each.table == table:
                    record, slot, columns = self._list(leaf, each, records)
                    parts.append(columns)
                    places.append((slot, np.full(len(slot), turn), record))
        order = np.lexsort([np.concatenate(keys) for keys in zip(*places, strict=True)])
        return {name: np.concatenate([part[name] for part in parts])[order] for name in parts[0]}

    def _list(self, leaf: Leaf, each: Repeated, records: I64) -> tuple[I64, I64, Columns]:
        """Decode the used repetitions of one list: their records, their indices, their columns."""
        fields = (each.used, *(column for column in each.columns.values() if isinstance(column, Field)))
        starts = self._batch.val_start[records]
        found = decode_columns(leaf.val_type, self._batch.buffer, starts, fields)
        used = found[each.used]
        record, slot = np.nonzero(used)
        sums = np.cumsum(used.astype(np.uint64), axis=1, dtype=np.uint64)
        made: Columns = {}
        for name in self._plan.tables[each.table]:
            column = each.columns.get(name, 0)
            if isinstance(column, Field):
                values = found[column][record, slot]
            elif name in each.columns or name not in {"owner", "before", "node"}:
                values = np.full(len(record), column)
            elif name == "before":
                values = (sums - used)[record, slot]
            else:
                source = self.row[records] if name == "owner" else self._batch.numbers[self._batch.node[records]]
                values = source[record]
            made[name] = self._cast(each.table, name, values)
        return records[record], slot, made

    def _cast(self, table: str, name: str, values: NDArray[Any]) -> NDArray[Any]:
        dtype = self._plan.dtype(table, name)
        return (signed(values) if dtype == np.int64 else values).astype(dtype)

    def _texts(self, table: str, name: str, coding: str) -> tuple[U8, NDArray[np.uint32]]:
        """Collect texts: all bytes, and the length of each."""
        records = self._records[table]
        start, length = np.zeros((2, len(records)), np.int64)
        for number, leaf in enumerate(self._plan.leaves):
            if leaf.table == table and name in leaf.texts:
                rows = np.flatnonzero(self.leaf[records] == number)
                start[rows], units = self._placed(leaf, leaf.texts[name], records[rows])
                length[rows] = units * leaf.texts[name].unit_bytes
        data = self._batch.buffer[ranges(start, length)]
        # Names are ASCII on most volumes; then the lower bytes are the text.
        if coding in {"utf-16", "utf-16-others"} and not data[::2].any() and int(data.max(initial=0)) <= _ASCII_LAST:
            told = (data[1::2], length // 2) if coding == "utf-16" else (data[:0], np.zeros_like(length))
            return told[0], told[1].astype(TEXT_DTYPE)
        if coding == "bytes" or (coding == "utf-8" and data.all()):
            return data, length.astype(TEXT_DTYPE)
        stops = np.cumsum(length)
        pieces = [
            _recoded(data[first:stop].tobytes(), coding)
            for first, stop in zip((stops - length).tolist(), stops.tolist(), strict=True)
        ]
        return np.frombuffer(b"".join(pieces), np.uint8), np.array([len(piece) for piece in pieces], TEXT_DTYPE)


class _Target(NamedTuple):
    """Rows of a table to be filled."""

    table: str
    columns: Columns
    rows: I64


def _recoded(raw: bytes, coding: str) -> bytes:
    """Return one text in its kept encoding."""
    if coding == "utf-16":
        # TN1150 forbids no unit: an unpaired surrogate becomes U+FFFD here; the stored name keeps it.
        return raw.decode("utf-16-be", "replace").encode()
    if coding == "utf-16-others":
        return b"" if raw.decode("utf-16-be", "replace").isascii() else raw
    # Name lengths include the terminating zero byte (Apple File System Reference, j_drec_key_t).
    return raw.split(b"\0", 1)[0]


def _end_of(record_type: RecordType, column: RecordColumn) -> int:
    """Return the distance from a record's start to the end of a column's field."""
    field = record_type.evaluate(column, _Traced).field
    return field.offset + field.width

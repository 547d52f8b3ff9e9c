r"""Records of leaves, decoded straight into columns that grow: the kernel, and its twin in numpy.

A reader writes a :class:`~layoutscope.ondisk.leafplan.Plan` once, and adds batches of records, of which it knows where
keys and values lie. Each record becomes a row of the table of its kind, in the order given. One that does not fit (it
leaves the buffer, its kind is unknown, it is shorter than what it must have) has no row, and the reader says so. With
the bulk decoder the kernel runs; with the grammar, or without a library, the twin asks the decoder for each column.
Plans for records of real formats are in ``tests/unit/native/test_leaves.py``.

Examples
--------
Records with a key of a number and a name, and a value of a kind and two extents, as any format might have them:

>>> from layoutscope.ondisk.decoder import BULK
>>> from layoutscope.ondisk.leafplan import Kind, Leaf, Plan, Repeated, Text
>>> from layoutscope.recordtypes import RecordType
>>> key = RecordType("toy.key", parent=">u4", name_len="u1")
>>> extent = RecordType("toy.extent", start=">u2", count=">u2")
>>> value = RecordType("toy.file", kind="u1", flags="u1", extents=(extent, 2), is_old=lambda r: r["flags"] & 2 != 0)
>>> plan = Plan(
...     {
...         "files": {"node": np.int32, "parent": np.int64, "is_old": np.bool_, "name": "utf-8"},
...         "extents": {"owner": np.int64, "before": np.int64, "start": np.uint32, "count": np.uint32},
...     },
...     [
...         Leaf(7, "files", key, value, {"is_old": value.is_old}, {"parent": key.parent},
...              texts={"name": Text("key", key.name_len)},
...              lists=(Repeated("extents", value.extents.count,
...                              {"start": value.extents.start, "count": value.extents.count}),)),
...     ],
...     Kind("val", value, value.kind),
... )
>>> records = b"\0\0\0\2" b"\3one" b"\7\2" b"\0\11\0\4\0\40\0\1" + b"\0\0\0\2" b"\3two" b"\6\0"
>>> starts = np.array([0, 18])
>>> batch = LeafBatch(np.frombuffer(records, np.uint8), 4096, np.array([5]), np.array([0, 0]),
...                   starts, np.array([8, 8]), starts + 8, np.array([10, 2]))
>>> leaves = LeafTables(plan)
>>> found = leaves.add(BULK, batch)
>>> found.row.tolist()  # the second record is of an unknown kind
[0, -1]
>>> files = leaves.table("files")
>>> files["node"].tolist(), files["parent"].tolist(), files["is_old"].tolist(), files["name"].data.tobytes()
([5], [2], [True], b'one')
>>> {name: column.tolist() for name, column in leaves.table("extents").items()}
{'owner': [0, 0], 'before': [0, 4], 'start': [9, 32], 'count': [4, 1]}
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from layoutscope.arrays.columns import signed
from layoutscope.arrays.growing import GrowingColumn
from layoutscope.arrays.ragged import ranges
from layoutscope.native import Kernel
from layoutscope.ondisk.decoder import Bulk
from layoutscope.ondisk.leafplan import TEXT_DTYPE, source_of
from layoutscope.recordtypes import Field

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from layoutscope.arrays.columns import I64, U8, Columns, Mask
    from layoutscope.ondisk.decoder import Decoder
    from layoutscope.ondisk.leafplan import Leaf, Output, Part, Plan, Repeated, Text
    from layoutscope.recordtypes import Column, RecordType

DECODE_LEAVES: Final = Kernel("decode_leaves", "bnlllililillllllCLnLBB")

NO_LEAF: Final = 255
_FIRST_ROOM: Final = 4096
_MARGIN: Final = 1.1
_ENOUGH: Final = 1 << 17
"""Elements by which a column grows at least: more than one record can need."""
_ASCII_LAST: Final = 0x7F


class LeafBatch(NamedTuple):
    """Records, and the nodes that they lie in.

    Attributes
    ----------
    buffer : (n_bytes,) uint8 array
        Whole nodes.
    node_bytes : int
        Size of a node, which is how far apart nodes start in the buffer.
    numbers : (n_nodes,) int64 array
        What the column ``node`` shall say of each.
    node : (n,) int64 array
        Place of each record's node in the batch.
    key_start, key_length, val_start, val_length : (n,) integer arrays
        Where keys and values lie, in bytes from the start of the buffer; none of it is trusted.
    """

    buffer: U8
    node_bytes: int
    numbers: I64
    node: I64
    key_start: I64
    key_length: NDArray[np.integer[Any]]
    val_start: I64
    val_length: NDArray[np.integer[Any]]

    def part(self, part: Part, rows: I64) -> tuple[I64, NDArray[np.integer[Any]]]:
        """Starts and lengths of the keys or values of some records."""
        if part == "key":
            return self.key_start[rows], self.key_length[rows]
        return self.val_start[rows], self.val_length[rows]


class Texts(NamedTuple):
    """A column of texts: the bytes of all, and the length of each in bytes."""

    data: U8
    length: NDArray[np.uint32]


class RecordRows(NamedTuple):
    """What became of each record of a batch.

    Attributes
    ----------
    leaf : (n,) uint8 array
        Which of the plan's leaves it is; ``NO_LEAF`` where it was left out.
    row : (n,) int64 array
        Its row in the table of that leaf, counted over all batches; -1 where it was left out.
    is_damaged : (n,) bool array
        Whether the collection behind its value is damaged; then no item of it was decoded.
    """

    leaf: U8
    row: I64
    is_damaged: Mask


class LeafTables:
    """Tables of what leaves hold.

    Parameters
    ----------
    plan : Plan
        What the records become.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._columns = [GrowingColumn(output.dtype) for output in plan.outputs]
        self._counts = np.zeros(plan.num_counters + 1, np.int64)

    def add(self, decoder: Decoder, batch: LeafBatch, to_come: float = 0.0) -> RecordRows:
        """Decode the records of a batch.

        Parameters
        ----------
        decoder : Decoder
            How structures are decoded.
        batch : LeafBatch
            The records.
        to_come : float
            How many times as many are likely to follow; room for them is reserved.
        """
        found = self._natively(batch, to_come) if isinstance(decoder, Bulk) else None
        return found or self._plainly(decoder, batch)

    def table(self, name: str) -> dict[str, Any]:
        """Return the columns of a table so far, views that the next batch may leave behind; texts as `Texts`."""
        values = {(each.column, each.is_data): self._values(k) for k, each in self._outputs_of(name)}
        coded = self.plan.tables[name]
        return {
            column: Texts(values[column, True], values[column, False]) if isinstance(coded[column], str) else array
            for (column, is_data), array in values.items()
            if not is_data
        }

    def count(self, name: str) -> int:
        """Return how many rows a table has."""
        return int(self._counts[list(self.plan.tables).index(name)])

    def give_up(self, name: str, rows: I64) -> Columns:
        """Return rows of a table's numbers; each column is let go as it has been copied: no two tables are held.

        Parameters
        ----------
        name : str
            Of the table.
        rows : (n,) int64 array
            Which rows, in which order.
        """
        found: Columns = {}
        for k, output in self._outputs_of(name):
            if not isinstance(self.plan.tables[name][output.column], str):
                found[output.column] = self._values(k)[rows]
                self._columns[k] = GrowingColumn(output.dtype)
        return found

    def _outputs_of(self, name: str) -> Iterable[tuple[int, Output]]:
        return ((k, output) for k, output in enumerate(self.plan.outputs) if output.table == name)

    def _values(self, number: int) -> NDArray[Any]:
        return self._columns[number].room()[: self._counts[self.plan.outputs[number].counter]]

    def _natively(self, batch: LeafBatch, to_come: float) -> RecordRows | None:
        """Run the kernel until it has passed all records, with more room each time; None if it does not run."""
        total = len(batch.node)
        found = RecordRows(np.empty(total, np.uint8), np.empty(total, np.int64), np.empty(total, np.bool_))
        for column, output in zip(self._columns, self.plan.outputs, strict=True):
            column.room(min(total, _FIRST_ROOM), int(self._counts[output.counter]))
        before, done = self._counts.copy(), 0
        lengths = (np.ascontiguousarray(each, np.int32) for each in (batch.key_length, batch.val_length))
        key_length, val_length = lengths
        while True:
            rooms = [column.room() for column in self._columns]
            passed = DECODE_LEAVES(
                batch.buffer, batch.node_bytes, batch.numbers, batch.node, batch.key_start, key_length,
                batch.val_start, val_length, *self.plan.program, rooms, self._counts, done,
                found.row, found.leaf, found.is_damaged.view(np.uint8),
            )  # fmt: skip
            if passed is None or passed == total:
                return None if passed is None else found
            done, full = passed, int(self._counts[-1])
            share = (self._counts[full] - before[full]) / max(done, 1)
            # What the first records of all are says little of those to come.
            further = total * (1 + to_come) - done if done * 8 > total else total - done
            more = max(int(share * further * _MARGIN), _ENOUGH)
            for number, output in enumerate(self.plan.outputs):
                if output.counter == full:
                    # More than there is: a single text may be longer than what is still free.
                    used, present = int(self._counts[full]), len(self._columns[number].room())
                    self._room(number, used, max(more, present - used + 1))

    def _plainly(self, decoder: Decoder, batch: LeafBatch) -> RecordRows:
        """Decode column by column."""
        twin = _Twin(self.plan, decoder, batch, self._counts)
        values, before = twin.values(), self._counts.copy()
        for number, output in enumerate(self.plan.outputs):
            added, used = values[output.table, output.column, output.is_data], int(before[output.counter])
            self._counts[output.counter] = used + len(added)
            self._room(number, used, len(added))[used : used + len(added)] = added
        return twin.found

    def _room(self, number: int, used: int, more: int) -> NDArray[Any]:
        """Return the room of a column, which grows by half at least where there is not enough."""
        column = self._columns[number]
        present = len(column.room())
        return column.room(0 if used + more <= present else max(used + more, present + present // 2), used)


class _Twin:
    """What the kernel does, in numpy and through a decoder: one batch, all records of a leaf at once."""

    def __init__(self, plan: Plan, decoder: Decoder, batch: LeafBatch, counts: I64) -> None:
        self._plan, self._decoder, self._batch = plan, decoder, batch
        leaf = self._leaves()
        row = np.full(len(leaf), -1, np.int64)
        self._records: dict[str, I64] = {}
        for number, table in enumerate(plan.tables):
            members = [k for k, each in enumerate(plan.leaves) if each.table == table]
            self._records[table] = np.flatnonzero(np.isin(leaf, members))
            row[self._records[table]] = counts[number] + np.arange(len(self._records[table]))
        self.found = RecordRows(leaf, row, np.zeros(len(leaf), np.bool_))

    def values(self) -> dict[tuple[str, str, bool], NDArray[Any]]:
        """Return what is added to each output."""
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
        """Tell which leaf each record is."""
        batch, leaf = self._batch, np.full(len(self._batch.node), NO_LEAF, np.uint8)
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
        """Keep the records that have what must be there."""
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
        """Where texts start, and their lengths in units."""
        record_type = leaf.key_type if text.part == "key" else leaf.val_type
        units = self._column(text.part, record_type, rows, text.length)
        return self._batch.part(text.part, rows)[0] + record_type.width, units.astype(np.int64)

    def _column(self, part: Part, record_type: RecordType, rows: I64, column: Column) -> NDArray[Any]:
        return self._decoder.column(record_type, self._batch.buffer, self._batch.part(part, rows)[0], column)

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
                rows = np.flatnonzero(self.found.leaf[records] == number)
                parts: tuple[tuple[Part, RecordType, Mapping[str, Column | int]], ...]
                parts = (("key", leaf.key_type, leaf.key_columns), ("val", leaf.val_type, leaf.columns))
                for part, record_type, columns in parts:
                    starts, lengths = batch.part(part, records[rows])
                    whole = lengths if leaf.is_parsed_whole else None
                    self._fill(_Target(table, made, rows), record_type, starts, columns, whole)
                self._fill_items(_Target(table, made, rows), leaf)
        return made

    def _fill(
        self,
        target: _Target,
        record_type: RecordType,
        starts: I64,
        columns: Mapping[str, Column | int],
        lengths: NDArray[np.integer[Any]] | None = None,
    ) -> None:
        """Put fields, and what is the same for all, into rows of columns."""
        wanted = tuple(column for column in columns.values() if not isinstance(column, int))
        found = self._decoder.columns(record_type, self._batch.buffer, starts, wanted, lengths) if wanted else {}
        for name, column in columns.items():
            values = np.full(len(starts), column) if isinstance(column, int) else found[column]
            target.columns[name][target.rows] = self._cast(target.table, name, values)

    def _fill_items(self, target: _Target, leaf: Leaf) -> None:
        if not leaf.cases or self._plan.items is None:
            return
        records = self._records[target.table][target.rows]
        width = leaf.val_type.width
        start, length = self._batch.val_start[records] + width, self._batch.val_length[records] - width
        located = self._plan.items.locate(self._decoder, self._batch.buffer, start, length.astype(np.int64))
        self.found.is_damaged[records[located.damaged]] = True
        for kind, case in leaf.cases.items():
            chosen = np.flatnonzero((located.type == kind) & (located.size_bytes >= case.record_type.width))
            rows = target.rows[located.record[chosen]]
            self._fill(target._replace(rows=rows), case.record_type, located.start[chosen], case.columns)

    def _repetitions(self, table: str) -> Columns:
        """Decode the columns of a table of repetitions, in the order of the records and of the lists of each."""
        parts, places = [], []
        for number, leaf in enumerate(self._plan.leaves):
            records = np.flatnonzero(self.found.leaf == number)
            for turn, each in enumerate(leaf.lists):
                if each.table == table:
                    record, slot, columns = self._list(leaf, each, records)
                    parts.append(columns)
                    places.append((slot, np.full(len(slot), turn), record))
        order = np.lexsort([np.concatenate(keys) for keys in zip(*places, strict=True)])
        return {name: np.concatenate([part[name] for part in parts])[order] for name in parts[0]}

    def _list(self, leaf: Leaf, each: Repeated, records: I64) -> tuple[I64, I64, Columns]:
        """Decode the used repetitions of one list: their records, their numbers in these, their columns."""
        fields = (each.used, *(column for column in each.columns.values() if isinstance(column, Field)))
        starts = self._batch.val_start[records]
        found = self._decoder.columns(leaf.val_type, self._batch.buffer, starts, fields)
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
                source = self.found.row[records] if name == "owner" else self._batch.numbers[self._batch.node[records]]
                values = source[record]
            made[name] = self._cast(each.table, name, values)
        return records[record], slot, made

    def _cast(self, table: str, name: str, values: NDArray[Any]) -> NDArray[Any]:
        dtype = self._plan.dtype(table, name)
        return (signed(values) if dtype == np.int64 else values).astype(dtype)

    def _texts(self, table: str, name: str, coding: str) -> tuple[U8, NDArray[np.uint32]]:
        """Gather texts: the bytes of all, and the length of each."""
        records = self._records[table]
        start, length = np.zeros((2, len(records)), np.int64)
        for number, leaf in enumerate(self._plan.leaves):
            if leaf.table == table and name in leaf.texts:
                rows = np.flatnonzero(self.found.leaf[records] == number)
                start[rows], units = self._placed(leaf, leaf.texts[name], records[rows])
                length[rows] = units * leaf.texts[name].unit_bytes
        data = self._batch.buffer[ranges(start, length)]
        if coding == "utf-16" and not data[::2].any() and int(data.max(initial=0)) <= _ASCII_LAST:
            return data[1::2], (length // 2).astype(TEXT_DTYPE)
        if coding == "bytes" or (coding == "utf-8" and data.all()):
            return data, length.astype(TEXT_DTYPE)
        stops = np.cumsum(length)
        pieces = [
            _recoded(data[first:stop].tobytes(), coding)
            for first, stop in zip((stops - length).tolist(), stops.tolist(), strict=True)
        ]
        return np.frombuffer(b"".join(pieces), np.uint8), np.array([len(piece) for piece in pieces], TEXT_DTYPE)


class _Target(NamedTuple):
    """Rows of a table that are filled."""

    table: str
    columns: Columns
    rows: I64


def _recoded(raw: bytes, coding: str) -> bytes:
    """One text as it is kept."""
    if coding == "utf-16":
        return raw.decode("utf-16-be", "replace").encode()
    return raw.split(b"\0", 1)[0]


def _end_of(record_type: RecordType, column: Column) -> int:
    """Bytes from the start of a record to the end of the field that a column is made of."""
    field = source_of(record_type, column)
    return field.offset + field.width

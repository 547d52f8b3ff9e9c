"""Records of leaves, decoded by a kernel straight into columns that grow.

A reader writes a :class:`~layoutscope.structs.leaves.LeafPlan` once, and adds batches of records, with the places of
keys and values. Each record becomes a row of the table of its kind, in the order given. One that does not fit
(outside the buffer, of unknown kind, too short) has no row, and the reader reports it. The plan of HFS+ is
:data:`layoutscope.filesystems.hfsplus.catalog.PLAN`.
"""

from __future__ import annotations

from functools import cache, cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np

from layoutscope.structs.arrays import I64, U8, Mask, take_ranges
from layoutscope.structs.native import Columns as KernelColumns
from layoutscope.structs.native import Kernel, prepare_columns
from layoutscope.structs.recordtypes import Field, RecordColumn, RecordType

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray


Part = Literal["key", "val"]
Coding = Literal["bytes", "utf-8", "utf-16", "utf-16-others"]
"""Kinds of texts: unchanged; up to the first zero byte; big-endian UTF-16 converted to UTF-8; UTF-16 unchanged, but
empty if it is all ASCII."""

ItemCase: TypeAlias = "tuple[RecordType, Mapping[str, RecordColumn | int]]"
"""Type of an item of a collection, and the columns of the record that the item sets."""

Kind: TypeAlias = "tuple[Part, RecordType, RecordColumn]"
"""Where the kind of a record is stored."""

Items: TypeAlias = "tuple[RecordType, RecordColumn, RecordType, tuple[RecordColumn, RecordColumn, RecordColumn]]"
"""Collections after the fixed part of values: a head, descriptions of all items, then their data.

The type of the head and its field with the number of items; the type of a description, and its fields with the type and
size of an item and the distance to the next one in bytes.
"""

Output: TypeAlias = "tuple[str, str, bool]"
"""A buffer that is filled, by table and column: a column, the lengths of its texts, or (if true) their bytes."""

NO_LEAF: Final = 255
TEXT_DTYPE: Final = np.uint32
"""Type of the lengths of texts."""
_NONE: Final[Mapping[Any, Any]] = MappingProxyType({})


class Text(NamedTuple):
    """Bytes after the fixed part of a key or value, and the field of that part with their length in units."""

    part: Part
    length: RecordColumn
    unit_bytes: int = 1


class Repeated(NamedTuple):
    """Repeated fields in a value that become rows of a separate table, if a given one of them is not 0.

    A column ``owner`` of that table is the row of the record in its table; ``before`` is the sum of the used fields of
    the record's previous repetitions.
    """

    table: str
    used: Field
    columns: Mapping[str, Field | int]


class Leaf(NamedTuple):
    """Records of one kind."""

    kind: int  # their kind; 0 in trees without kinds
    table: str  # the table that gets a row for each
    # key_type, val_type: required fixed parts of key and value
    key_type: RecordType
    val_type: RecordType
    # columns, key_columns: maps a column of the table to a field or instance of the value or key, or to a constant
    columns: Mapping[str, RecordColumn | int] = _NONE
    key_columns: Mapping[str, RecordColumn] = _NONE
    texts: Mapping[str, Text] = _NONE  # columns with texts
    checked: tuple[Text, ...] = ()  # further bytes that must be present
    lists: tuple[Repeated, ...] = ()  # repeated fields that become rows of other tables
    cases: Mapping[int, ItemCase] = _NONE  # items of the collection after the value, by their type


class LeafPlan:
    """How the records of a tree are converted to tables."""

    def __init__(
        self,
        tables: Mapping[str, Mapping[str, type[np.generic] | Coding]],
        leaves: Sequence[Leaf],
        kind: Kind | None = None,
        items: Items | None = None,
    ) -> None:
        self.tables = tables
        self.leaves = tuple(leaves)
        self.kind = kind
        self.items = items

    @cached_property
    def outputs(self) -> dict[Output, tuple[np.dtype[Any], int]]:
        """The type and the counter of each buffer that is filled; those with the same counter grow together."""
        found: dict[Output, tuple[np.dtype[Any], int]] = {}
        counter = len(self.tables)
        for number, (table, columns) in enumerate(self.tables.items()):
            for name, kind in columns.items():
                found[table, name, False] = self.dtype(table, name), number
                if isinstance(kind, str):
                    found[table, name, True] = np.dtype(np.uint8), counter
                    counter += 1
        return found

    @property
    def num_counters(self) -> int:
        """Number of counters: one per table and per column with texts."""
        return 1 + max(counter for _, counter in self.outputs.values())

    def dtype(self, table: str, column: str) -> np.dtype[Any]:
        """Return the type of a column."""
        kind = self.tables[table][column]
        return np.dtype(TEXT_DTYPE if isinstance(kind, str) else kind)


class LeafBatch(NamedTuple):
    """Records, and their nodes."""

    buffer: U8  # whole nodes
    node_bytes: int  # size of a node, and the distance between nodes in the buffer
    numbers: I64  # the value of the column `node` for each node
    node: I64  # place of each record's node in the batch
    # key_start, key_length, val_start, val_length: places of keys and values, in bytes from the start of the buffer;
    # none of them is trusted
    key_start: I64
    key_length: NDArray[np.integer[Any]]
    val_start: I64
    val_length: NDArray[np.integer[Any]]

    def part(self, part: Part, rows: I64) -> tuple[I64, NDArray[np.integer[Any]]]:
        """Return the starts and lengths of the keys or values of some records."""
        if part == "key":
            return self.key_start[rows], self.key_length[rows]
        return self.val_start[rows], self.val_length[rows]


_CODINGS: Final = ("checked", "bytes", "utf-8", "utf-16", "utf-16-others")
_PLACES: Final = ("key", "val", "item", "constant", "node", "key_at", "val_at", "owner", "before")
_BIG, _SIGNED, _CLIPPED = 1, 2, 4
_NO_TEST, _EQUAL, _DIFFERS = 0, 1, 2
_ALL: Final = 2**64 - 1
_WIDEST_LENGTH: Final = 4
_WIDTHS: Final = (1, 2, 4, 8)


class _Traced:  # noqa: PLW1641  (compared by formulas alone)
    """The operations of a formula on a field: ``((field >> shift) + add) & mask``, and the value for a comparison."""

    def __init__(self, field: Field) -> None:
        self.field = field
        self.shift, self.add, self.mask = 0, 0, _ALL
        self.test, self.operand = _NO_TEST, 0

    def __rshift__(self, bits: int) -> _Traced:
        self._allow(not self.add)
        self.shift, self.mask = self.shift + bits, self.mask >> bits
        return self

    def __add__(self, number: int) -> _Traced:
        self._allow(self.mask == _ALL >> self.shift)
        self.add, self.mask = self.add + number, _ALL
        return self

    def __and__(self, mask: int) -> _Traced:
        self._allow()
        self.mask &= mask
        return self

    def __eq__(self, number: object) -> _Traced:  # type: ignore[override]
        return self._compared(_EQUAL, number)

    def __ne__(self, number: object) -> _Traced:  # type: ignore[override]
        return self._compared(_DIFFERS, number)

    def _compared(self, test: int, number: object) -> _Traced:
        self._allow(isinstance(number, int))
        self.test, self.operand = test, int(str(number))
        return self

    def _allow(self, *conditions: bool) -> None:
        if self.test != _NO_TEST or self.field.scalar.kind == "i" or not all(conditions):
            raise TypeError(f"the kernel cannot compute what is made of {self.field}")


@cache
def compile_plan(plan: LeafPlan) -> tuple[NDArray[Any], ...]:
    """Return a plan as the tables that the kernel takes, in its order; the rows of each are concatenated."""
    return _Compiler(plan).program()


class _Compiler:
    """Converts a plan to tables, row by row."""

    def __init__(self, plan: LeafPlan) -> None:
        self._plan = plan
        self._columns = {name: k for k, name in enumerate(plan.outputs)}
        self._counters = {table: number for number, table in enumerate(plan.tables)}
        self._fields: list[list[int]] = []
        self._lengths: dict[tuple[str, int, RecordColumn], int] = {}
        self._texts: list[list[int]] = []
        self._lists: list[list[int]] = []
        self._cases: list[list[int]] = []

    def program(self) -> tuple[NDArray[Any], ...]:
        plan, items = self._plan, self._plan.items
        if plan.kind is None:
            form = [self._add(None, "constant", 0)]
        else:
            part, record_type, field = plan.kind
            form = [self._add(None, part, _trace(record_type, field))]
        if items is None:
            form += [0] * 6
        else:
            head, num_items, entry, fields = items
            described = [self._number("item", entry, each) for each in fields]
            form += [head.width, self._number("item", head, num_items), entry.width, *described]
        leaves = [self._leaf(leaf) for leaf in plan.leaves]
        # Kinds are small numbers in every format, so the kernel finds a leaf by an index.
        leaf_of_kind = np.full(1 + max(leaf.kind for leaf in plan.leaves), -1, np.int32)
        for number, leaf in enumerate(plan.leaves):
            leaf_of_kind[leaf.kind] = number
        outputs = [[counter, dtype.itemsize] for dtype, counter in plan.outputs.values()]
        tables = (leaves, self._fields, self._texts, self._lists, self._cases, outputs)
        return _flat([form]), leaf_of_kind, *map(_flat, tables)

    def _leaf(self, leaf: Leaf) -> list[int]:
        first = len(self._fields)
        for name in self._plan.tables[leaf.table]:
            target = (leaf.table, name)
            if name in leaf.texts:
                continue
            if name in leaf.columns:
                self._value("val", leaf.val_type, leaf.columns[name], target)
            elif name in leaf.key_columns:
                self._value("key", leaf.key_type, leaf.key_columns[name], target)
            else:
                self._add(target, name if name in {"node", "key_at", "val_at"} else "constant")
        bounds = [first, len(self._fields)]
        texts = [self._text(leaf, name) for name in (*leaf.texts, *range(len(leaf.checked)))]
        lists = [self._list(leaf, each) for each in leaf.lists]
        cases = []
        for kind, (record_type, columns) in leaf.cases.items():
            first = len(self._fields)
            for name, column in columns.items():
                self._value("item", record_type, column, (leaf.table, name))
            cases.append([kind, record_type.width, first, len(self._fields)])
        for table, rows in ((self._texts, texts), (self._lists, lists), (self._cases, cases)):
            table.extend(rows)
            bounds += [len(table) - len(rows), len(table)]
        return [self._counters[leaf.table], leaf.key_type.width, leaf.val_type.width, *bounds]

    def _text(self, leaf: Leaf, name: str | int) -> list[int]:
        text = leaf.texts[name] if isinstance(name, str) else leaf.checked[name]
        record_type = leaf.key_type if text.part == "key" else leaf.val_type
        # Columns of one text share one field, so the kernel sees that they belong together.
        place = (text.part, id(record_type), text.length)
        if place not in self._lengths:
            self._lengths[place] = self._number(text.part, record_type, text.length)
        length = self._lengths[place]
        if isinstance(name, int):
            return [length, text.unit_bytes, 0, 0, 0]
        coding = _CODINGS.index(str(self._plan.tables[leaf.table][name]))
        columns = [self._columns[leaf.table, name, is_data] for is_data in (False, True)]
        return [length, text.unit_bytes, coding, *columns]

    def _list(self, leaf: Leaf, each: Repeated) -> list[int]:
        if len(each.used.counts) != 1:
            raise ValueError(f"{each.used} is not repeated")
        used = self._add(None, "val", _Traced(each.used))
        first = len(self._fields)
        for name in self._plan.tables[each.table]:
            column = each.columns.get(name)
            if isinstance(column, Field):
                if (column.counts, column.strides) != (each.used.counts, each.used.strides):
                    raise ValueError(f"{column} is not repeated as {each.used} is")
                self._add((each.table, name), "val", _Traced(column))
            elif column is not None:
                self._value("val", leaf.val_type, column, (each.table, name))
            else:
                self._add((each.table, name), name if name in {"owner", "before", "node"} else "constant")
        times, stride = each.used.counts[0], each.used.strides[0]
        return [self._counters[each.table], used, times, stride, first, len(self._fields)]

    def _number(self, place: str, record_type: RecordType, column: RecordColumn) -> int:
        """Add a field that is used only in calculations."""
        traced = _trace(record_type, column)
        if traced.field.width > _WIDEST_LENGTH and traced.mask > 2**32:
            raise ValueError(f"{column} is too wide")
        return self._add(None, place, traced)

    def _value(self, place: str, record_type: RecordType, column: RecordColumn | int, target: tuple[str, str]) -> None:
        if isinstance(column, int):
            self._add(target, "constant", column)
        else:
            self._add(target, place, _trace(record_type, column))

    def _add(self, target: tuple[str, str] | None, place: str, traced: _Traced | int = 0) -> int:
        column, dtype = -1, np.dtype(np.uint64)
        if target is not None:
            column, dtype = self._columns[*target, False], self._plan.dtype(*target)
        row = [column, _PLACES.index(place), 0, 0, 0, 0, 0, _ALL, _NO_TEST, 0]
        if isinstance(traced, int):
            row[6] = traced
        else:
            field, scalar, test = traced.field, traced.field.scalar, traced.test
            if scalar.kind not in "ui" or scalar.itemsize not in _WIDTHS or dtype.kind not in "uib":
                raise ValueError(f"{field} is not a number, or its column has none")
            # A flag that is stored as a number is set by any nonzero value, as numpy converts it.
            if dtype.kind == "b" and test == _NO_TEST:
                test = _DIFFERS
            flags = _BIG * (scalar.str[0] == ">") + _SIGNED * (scalar.kind == "i")
            # 64-bit sizes beyond the signed range become the largest signed number: they are impossible anyway.
            flags += _CLIPPED * (dtype == np.int64 and scalar.kind == "u")
            operations = traced.shift, traced.add, traced.mask, test, traced.operand
            row[2:] = [field.offset, scalar.itemsize, flags, *operations]
        self._fields.append(row)
        return len(self._fields) - 1


def _trace(record_type: RecordType, column: RecordColumn) -> _Traced:
    traced: _Traced = record_type.evaluate(column, _Traced)
    if traced.field.counts:
        raise ValueError(f"{traced.field} is repeated")
    return traced


def _flat(rows: list[list[int]]) -> I64:
    """Concatenate rows of numbers; masks are patterns of 64 bits."""
    patterns: I64 = np.array([number & _ALL for row in rows for number in row], np.uint64).view(np.int64)
    return patterns


DECODE_LEAVES: Final = Kernel("decode_leaves", "bnlllililillllllCLnLBB")

_FIRST_ROOM: Final = 4096
_MARGIN: Final = 1.6
"""Factor by which more is reserved than the records so far suggest: untouched memory costs nothing."""
_ENOUGH: Final = 1 << 17
"""Least growth of a column in elements: more than one record can need."""


class Texts(NamedTuple):
    """A column of texts: all bytes, and the length of each text in bytes."""

    data: U8
    length: NDArray[np.uint32]


class LeafTables:
    """Tables of the contents of leaves."""

    def __init__(self, plan: LeafPlan) -> None:
        self.plan = plan
        self._columns: dict[Output, NDArray[Any]] = {
            output: np.empty(0, dtype) for output, (dtype, _) in plan.outputs.items()
        }
        self._counts = np.zeros(plan.num_counters + 1, np.int64)
        self._handed: KernelColumns | None = None

    def add(self, batch: LeafBatch, to_come: float = 0.0) -> tuple[U8, I64, Mask]:
        """Decode the records of a batch; if a column is full, the kernel continues with more space.

        Returns for each record its leaf in the plan (`NO_LEAF` if it was left out), its row in the table of that leaf,
        counted over all batches (-1 if it was left out), and whether the collection after its value is damaged; then
        none of its items was decoded.
        """
        total = len(batch.node)
        leaf, row, is_damaged = np.empty(total, np.uint8), np.empty(total, np.int64), np.empty(total, np.bool_)
        before, done = self._counts.copy(), 0
        lengths = (np.ascontiguousarray(each, np.int32) for each in (batch.key_length, batch.val_length))
        key_length, val_length = lengths
        while True:
            rooms = self._handed or self._hand_over()
            passed = DECODE_LEAVES(
                batch.buffer, batch.node_bytes, batch.numbers, batch.node, batch.key_start, key_length,
                batch.val_start, val_length, *compile_plan(self.plan), rooms, self._counts, done,
                row, leaf, is_damaged.view(np.uint8),
            )  # fmt: skip
            if passed == total:
                return leaf, row, is_damaged
            done, full = passed, int(self._counts[-1])
            share = (self._counts[full] - before[full]) / max(done, 1)
            # The very first records say little about those to come.
            further = total * (1 + to_come) - done if done * 8 > total else total - done
            more = max(int(share * further * _MARGIN), _ENOUGH)
            for output, (_, counter) in self.plan.outputs.items():
                if counter == full:
                    # Request more than is free: a single text may be longer than the remaining space.
                    used, present = int(self._counts[full]), len(self._columns[output])
                    self._grow(output, max(used + more, present + 1, present + present // 2))

    def table(self, name: str) -> dict[str, Any]:
        """Return the columns of a table so far as views, which the next batch may invalidate; texts as `Texts`."""
        found: dict[str, Any] = {}
        for column, coding in self.plan.tables[name].items():
            found[column] = self._values((name, column, False))
            if isinstance(coding, str):
                found[column] = Texts(self._values((name, column, True)), found[column])
        return found

    def count(self, name: str) -> int:
        """Return the number of rows of a table."""
        return int(self._counts[list(self.plan.tables).index(name)])

    def give_up(self, name: str, starts: I64, counts: I64, *, with_texts: bool = False) -> dict[str, Any]:
        """Return rows of a table, without texts unless they are requested."""
        # Each column is freed once it is copied, so two tables never exist at once.
        found: dict[str, Any] = {}
        for column, coding in self.plan.tables[name].items():
            output = (name, column, False)
            if not isinstance(coding, str):
                found[column] = self._let_go(output, starts, counts)
            elif with_texts:
                # The lengths of texts locate those of a row among all bytes.
                ends = np.append(0, np.cumsum(self._values(output), dtype=np.int64))
                first = ends[starts]
                data = self._let_go((name, column, True), first, ends[starts + counts] - first)
                found[column] = Texts(data, self._let_go(output, starts, counts))
        return found

    def _let_go(self, output: Output, starts: I64, counts: I64) -> NDArray[Any]:
        """Copy ranges of an output, and free the rest of it."""
        found = take_ranges(self._values(output), starts, counts)
        self._columns[output] = np.empty(0, found.dtype)
        self._handed = None
        return found

    def _values(self, output: Output) -> NDArray[Any]:
        _, counter = self.plan.outputs[output]
        return self._columns[output][: self._counts[counter]]

    def _hand_over(self) -> KernelColumns:
        """Prepare all columns for the kernel; the result is valid until one of them grows."""
        for output, column in self._columns.items():
            if len(column) < _FIRST_ROOM:
                self._grow(output, _FIRST_ROOM)
        self._handed = prepare_columns(list(self._columns.values()))
        return self._handed

    def _grow(self, output: Output, length: int) -> None:
        """Reserve more memory for a column; what is not written to takes none."""
        values = self._values(output)
        self._columns[output] = np.zeros(length, values.dtype)
        self._columns[output][: len(values)] = values
        self._handed = None

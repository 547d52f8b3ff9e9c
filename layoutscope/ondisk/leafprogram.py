"""Plans of leaf records as tables for the kernel, which knows no types.

It gets rows of numbers that say where a value stands and what is done with it. Their columns are those of
``native/source/leafplan.h``.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from layoutscope.recordtypes import Field

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.arrays.columns import I64
    from layoutscope.ondisk.leafplan import ItemCase, Leaf, LeafPlan, Repeated
    from layoutscope.recordtypes import RecordColumn, RecordType

_CODINGS: Final = ("checked", "bytes", "utf-8", "utf-16", "utf-16-others")
_PLACES: Final = ("key", "val", "item", "constant", "node", "key_at", "val_at", "owner", "before")
_BIG, _SIGNED, _CLIPPED = 1, 2, 4
_NO_TEST, _EQUAL, _DIFFERS = 0, 1, 2
_ALL: Final = 2**64 - 1
_WIDEST_LENGTH: Final = 4
_WIDTHS: Final = (1, 2, 4, 8)


class LeafProgram(NamedTuple):
    """The tables that the kernel takes, in its order; each array has the rows one after the other."""

    form: I64
    leaf_of_kind: NDArray[np.int32]
    leaves: I64
    fields: I64
    texts: I64
    lists: I64
    cases: I64
    outputs: I64


class _Traced:  # noqa: PLW1641  (compared by formulas alone)
    """What a formula does to a field: ``((field >> shift) + add) & mask``, and what that is compared with."""

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


class _Formulas:
    """Gives formulas the fields of their record, to be traced."""

    def __init__(self, record_type: RecordType, prefix: str = "") -> None:
        self._record_type, self._prefix = record_type, prefix

    def __getitem__(self, path: str) -> _Traced:
        return self.traced(self._prefix + path)

    def traced(self, path: str) -> _Traced:
        column = self._record_type.column(path)
        if isinstance(column, Field):
            return _Traced(column)
        found: _Traced = column.formula(_Formulas(self._record_type, column.prefix))
        return found


def source_of(record_type: RecordType, column: RecordColumn) -> Field:
    """Return the field that a column is made of."""
    return _Formulas(record_type).traced(column).field


@cache
def compiled(plan: LeafPlan) -> LeafProgram:
    """Return a plan as tables for the kernel; made once."""
    return _Compiler(plan).program()


class _Compiler:
    """Turns a plan into tables, row by row."""

    def __init__(self, plan: LeafPlan) -> None:
        self._plan = plan
        self._columns = {(each.table, each.column, each.is_data): k for k, each in enumerate(plan.outputs)}
        self._counters = {table: number for number, table in enumerate(plan.tables)}
        self._fields: list[list[int]] = []
        self._lengths: dict[tuple[str, int, RecordColumn], int] = {}
        self._texts: list[list[int]] = []
        self._lists: list[list[int]] = []
        self._cases: list[list[int]] = []

    def program(self) -> LeafProgram:
        plan = self._plan
        form = [self._kind(), *self._items()]
        leaves = [self._leaf(leaf) for leaf in plan.leaves]
        # Kinds are small numbers in every format, so that the kernel finds a leaf by an index.
        leaf_of_kind = np.full(1 + max(leaf.kind for leaf in plan.leaves), -1, np.int32)
        for number, leaf in enumerate(plan.leaves):
            leaf_of_kind[leaf.kind] = number
        outputs = [[output.counter, output.dtype.itemsize] for output in plan.outputs]
        tables = (leaves, self._fields, self._texts, self._lists, self._cases, outputs)
        return LeafProgram(_flat([form]), leaf_of_kind, *map(_flat, tables))

    def _kind(self) -> int:
        if self._plan.kind is None:
            return self._constant(0)
        part, record_type, field = self._plan.kind
        return self._add(None, part, _single(_Formulas(record_type).traced(field)))

    def _items(self) -> list[int]:
        items = self._plan.items
        if items is None:
            return [0] * 6
        described = [self._number("item", items.entry, each) for each in (items.kind, items.size, items.pace)]
        count = self._number("item", items.head, items.num_items)
        return [items.head.width, count, items.entry.width, *described]

    def _leaf(self, leaf: Leaf) -> list[int]:
        first = len(self._fields)
        for name in self._plan.tables[leaf.table]:
            if name not in leaf.texts:
                self._column(leaf, name)
        fields = [first, len(self._fields)]
        texts = self._ranged(self._texts, [self._text(leaf, name) for name in (*leaf.texts, *range(len(leaf.checked)))])
        lists = self._ranged(self._lists, [self._list(leaf, each) for each in leaf.lists])
        cases = self._ranged(self._cases, [self._case(leaf, kind, each) for kind, each in leaf.cases.items()])
        counter = self._counters[leaf.table]
        return [counter, leaf.key_type.width, leaf.val_type.width, *fields, *texts, *lists, *cases]

    @staticmethod
    def _ranged(table: list[list[int]], rows: list[list[int]]) -> list[int]:
        table += rows
        return [len(table) - len(rows), len(table)]

    def _column(self, leaf: Leaf, name: str) -> None:
        target = (leaf.table, name)
        if name in leaf.columns:
            self._value("val", leaf.val_type, leaf.columns[name], target)
        elif name in leaf.key_columns:
            self._value("key", leaf.key_type, leaf.key_columns[name], target)
        else:
            place = name if name in {"node", "key_at", "val_at"} else "constant"
            self._add(target, place, None)

    def _text(self, leaf: Leaf, name: str | int) -> list[int]:
        text = leaf.texts[name] if isinstance(name, str) else leaf.checked[name]
        record_type = leaf.key_type if text.part == "key" else leaf.val_type
        # Columns of one text have one field, so that the kernel sees that they are of one text.
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
                self._add((each.table, name), name if name in {"owner", "before", "node"} else "constant", None)
        times, stride = each.used.counts[0], each.used.strides[0]
        return [self._counters[each.table], used, times, stride, first, len(self._fields)]

    def _case(self, leaf: Leaf, kind: int, case: ItemCase) -> list[int]:
        first = len(self._fields)
        for name, column in case.columns.items():
            self._value("item", case.record_type, column, (leaf.table, name))
        return [kind, case.record_type.width, first, len(self._fields)]

    def _number(self, place: str, record_type: RecordType, column: RecordColumn) -> int:
        """Add a field that is only counted with."""
        traced = _Formulas(record_type).traced(column)
        if traced.field.width > _WIDEST_LENGTH and traced.mask > 2**32:
            raise ValueError(f"{column} is too wide")
        return self._add(None, place, _single(traced))

    def _constant(self, number: int) -> int:
        self._fields.append([-1, _PLACES.index("constant"), 0, 0, 0, 0, number, _ALL, 0, 0])
        return len(self._fields) - 1

    def _value(self, place: str, record_type: RecordType, column: RecordColumn | int, target: tuple[str, str]) -> None:
        if isinstance(column, int):
            row = self._constant(column)
            self._fields[row][0] = self._columns[*target, False]
        else:
            self._add(target, place, _single(_Formulas(record_type).traced(column)))

    def _add(self, target: tuple[str, str] | None, place: str, traced: _Traced | None) -> int:
        column, dtype = -1, np.dtype(np.uint64)
        if target is not None:
            column, dtype = self._columns[*target, False], self._plan.dtype(*target)
        row = [column, _PLACES.index(place), 0, 0, 0, 0, 0, _ALL, _NO_TEST, 0]
        if traced is not None:
            row[2:] = _reading(traced, dtype)
        self._fields.append(row)
        return len(self._fields) - 1


def _single(traced: _Traced) -> _Traced:
    if traced.field.counts:
        raise ValueError(f"{traced.field} is repeated")
    return traced


def _reading(traced: _Traced, dtype: np.dtype[Any]) -> list[int]:
    """Where a field stands and what is done with it, for a column of a type."""
    field, scalar = traced.field, traced.field.scalar
    if scalar.kind not in "ui" or scalar.itemsize not in _WIDTHS or dtype.kind not in "uib":
        raise ValueError(f"{field} is no number, or its column has none")
    test = traced.test
    # A flag that is stored as a number is set by any value, as numpy converts it.
    if dtype.kind == "b" and test == _NO_TEST:
        test = _DIFFERS
    flags = _BIG * (scalar.str[0] == ">") + _SIGNED * (scalar.kind == "i")
    # Sizes of 64 bits that no signed number holds become the largest one: they are impossible anyhow.
    flags += _CLIPPED * (dtype == np.int64 and scalar.kind == "u")
    return [field.offset, scalar.itemsize, flags, traced.shift, traced.add, traced.mask, test, traced.operand]


def _flat(rows: list[list[int]]) -> I64:
    """Rows of numbers one after the other; masks are patterns of 64 bits."""
    patterns: I64 = np.array([number & _ALL for row in rows for number in row], np.uint64).view(np.int64)
    return patterns

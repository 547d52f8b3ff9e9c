"""Tables: columns by their names, checked against the schema, as arrays or as a frame."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from layoutscope.frames import pl
from layoutscope.tables.columns import TextColumn, Values
from layoutscope.tables.schema import DEFAULTS, NUMBERS, OPTIONAL, REFERENCE, TABLES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from layoutscope.tables.schema import Column

AnyColumn: TypeAlias = "Values | TextColumn"

NULL_ROW: Final = np.uint32(2**32 - 1)
"""Marks "no row" in arrays of rows; :func:`build_table` turns it into null."""

NULL_OFFSET: Final = np.int64(-1)
"""Marks "no address" in arrays of offsets; :func:`build_table` turns it into null."""

_FEW_WORDS: Final = 256
"""So many codes fit into a byte."""


class Later:
    """A column that is made when somebody asks for it: many columns of a table nobody does."""

    def __init__(self, length: int, make: Callable[[], Any]) -> None:
        self._length = length
        self.make = make

    def __len__(self) -> int:
        return self._length


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def time_of(microseconds: int) -> datetime | None:
    """Return a time that is counted from 1970 on; None where no calendar of Python's reaches."""
    try:
        return _EPOCH + timedelta(microseconds=microseconds)
    except OverflowError:
        return None


class Table:
    """One of the public tables."""

    def __init__(self, name: str, height: int, column: Callable[[str], AnyColumn]) -> None:
        self.name = name
        self._height = height
        self._column = column
        self._columns: dict[str, AnyColumn] = {}

    def __len__(self) -> int:
        return self._height

    def __getitem__(self, name: str) -> Values:
        """Return a column of numbers or words."""
        column = self._of(name)
        if isinstance(column, TextColumn):
            raise TypeError(f"{name} is a column of texts")
        return column

    def texts(self, name: str) -> TextColumn:
        """Return a column of texts."""
        column = self._of(name)
        if isinstance(column, Values):
            raise TypeError(f"{name} is no column of texts")
        return column

    def _of(self, name: str) -> AnyColumn:
        if name not in self._columns:
            self._columns[name] = self._column(name)
        return self._columns[name]

    def take(self, rows: Any) -> Table:
        """Return some rows, given by their places or by a mask; each column is taken when it is asked for."""
        chosen = np.arange(self._height)[rows] if not _is_mask(rows) else _chosen(rows)
        height = chosen.stop - chosen.start if isinstance(chosen, slice) else len(chosen)
        return Table(self.name, height, lambda name: self._of(name).take(chosen))

    def changed(self, name: str, column: AnyColumn) -> Table:
        """Return a table with another column in place of one."""
        return Table(self.name, self._height, lambda wanted: column if wanted == name else self._of(wanted))

    def listed(self, name: str) -> list[Any]:
        """Return a column as Python's own values, None where unknown: words and texts, bytes, times, numbers."""
        column, kind = self._of(name), next(each.kind for each in TABLES[self.name] if each.name == name)
        if isinstance(column, TextColumn):
            if kind == "String":
                return column.to_list()
            known = column.is_known.tolist()
            return [raw if there else None for raw, there in zip(column.raw(), known, strict=True)]
        found = column.to_list()
        if kind == "Categorical":
            return [None if code is None else column.words[code] for code in found]
        return [None if us is None else time_of(us) for us in found] if kind == "time" else found

    def rows(self) -> list[dict[str, Any]]:
        """Return rows by the names of their columns, for a few that were taken."""
        columns = {each.name: self.listed(each.name) for each in TABLES[self.name]}
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    @cached_property
    def frame(self) -> pl.DataFrame:
        """The same as a frame; made when it is asked for the first time."""
        return pl.DataFrame([self._of(each.name).series(each.name, each.dtype) for each in TABLES[self.name]])

    @classmethod
    def of(cls, name: str, frame: pl.DataFrame) -> Table:
        """Make a table of a frame, which has its columns, and may have others."""

        def column(column: str) -> AnyColumn:
            found = frame[column]
            return TextColumn.of(found.to_list()) if found.dtype in (pl.String, pl.Binary) else Values.of(found)

        table = cls(name, frame.height, column)
        table.__dict__["frame"] = frame
        return table


def _is_mask(rows: Any) -> bool:
    return isinstance(rows, np.ndarray) and rows.dtype == np.bool_


def _chosen(mask: NDArray[np.bool_]) -> NDArray[np.int64] | slice:
    """Places of the rows of a mask; those that follow one another are not copied."""
    first, count = int(mask.argmax()) if len(mask) else 0, int(np.count_nonzero(mask))
    return slice(first, first + count) if mask[first : first + count].all() else np.flatnonzero(mask)


def stacked(tables: Sequence[Table]) -> Table:
    """Put tables one below the other; there is at least one."""

    def column(name: str) -> AnyColumn:
        if isinstance(tables[0]._of(name), TextColumn):  # noqa: SLF001  (which kind it is)
            return TextColumn.stacked([table.texts(name) for table in tables])
        parts = [table[name] for table in tables]
        known = np.concatenate([part.is_known for part in parts])
        words = list(dict.fromkeys(word for part in parts for word in part.words))
        data = [_renamed(part, words) if words else part.data for part in parts]
        return Values(np.concatenate(data), known, words)

    return Table(tables[0].name, sum(map(len, tables)), column)


def _renamed(column: Values, words: Sequence[str]) -> NDArray[Any]:
    """Codes of a column by their places among the words of several."""
    places = np.array([words.index(word) for word in column.words] or [0], _code_type(words))
    found: NDArray[Any] = places[column.data]
    return found


def _code_type(words: Sequence[str]) -> type[np.unsignedinteger[Any]]:
    return np.uint8 if len(words) <= _FEW_WORDS else np.uint32


def are_walked(nodes: Table) -> NDArray[np.bool_]:
    """Tell which nodes have a place in the order of their tree and are read for it, damaged ones too.

    A listing that is led to a damaged node reads it, and fails. Nothing reads what no image holds, and a node whose
    rank nobody knows comes up in no order.
    """
    is_led_to = nodes["condition"].equals("damaged") & nodes["key_rank"].is_known
    walked: NDArray[np.bool_] = nodes["condition"].is_in(("sound", "locked")) | is_led_to
    return walked


def condition_details(nodes: Table) -> dict[str, int]:
    """Count the nodes that are damaged, and those that could not be read; nothing where there are none."""
    counts = {word: int(nodes["condition"].equals(word).sum()) for word in ("damaged", "unread")}
    return {f"{word} nodes": count for word, count in counts.items() if count}


def build_table(name: str, columns: Mapping[str, Any]) -> Table:
    """Make one public table from columns."""
    schema = TABLES[name]
    unknown = set(columns) - {column.name for column in schema}
    if unknown:
        raise ValueError(f"table {name} has no column {sorted(unknown)}")
    height = _height(name, columns) if columns else 0
    made = {column.name: _column(column, columns, height) for column in schema}

    def column(name: str) -> AnyColumn:
        found = made[name]
        return found.make() if isinstance(found, Later) else found

    return Table(name, height, column)


def _height(name: str, columns: Mapping[str, Any]) -> int:
    lengths = {
        key: len(value[0] if isinstance(value, tuple) else value)
        for key, value in columns.items()
        if _has_length(value)
    }
    if len(set(lengths.values())) != 1:
        raise ValueError(f"table {name}: columns of different lengths: {lengths}")
    return next(iter(lengths.values()))


def _has_length(value: Any) -> bool:
    return hasattr(value, "__len__") and not isinstance(value, str | bytes)


def _column(column: Column, columns: Mapping[str, Any], height: int) -> AnyColumn | Later:
    if column.name not in columns:
        if column.name == "row":
            return Later(height, lambda: Values(np.arange(height, dtype=np.uint32)))
        if columns and column.name not in OPTIONAL and column.name not in DEFAULTS:
            raise ValueError(f"a table misses column {column.name!r}")
    value = columns.get(column.name, DEFAULTS.get(column.name) if columns else None)
    if isinstance(value, Later):
        return Later(height, lambda: _made(column, value.make(), height))
    return _made(column, value, height)


def _made(column: Column, value: Any, height: int) -> AnyColumn:
    if not _has_length(value):
        return _filled(column, value, height)
    if isinstance(value, tuple):
        return _categories(np.asarray(value[0]), value[1])
    if not isinstance(value, Values | TextColumn | np.ndarray):
        value = _listed(column, value)
    if isinstance(value, TextColumn):
        return value
    found = value if isinstance(value, Values) else _with_nulls(column, value)
    return found if column.kind == "Categorical" else _cast(column, found)


def _filled(column: Column, value: Any, height: int) -> AnyColumn:
    """Make a column of one value, which takes no memory; the value may be unknown."""
    known = None if value is not None else np.broadcast_to(np.False_, height)
    if column.kind in NUMBERS:
        one = np.array(0 if value is None else value, NUMBERS[column.kind])
        return Values(np.broadcast_to(one, height), known)
    words = [] if value is None else [value]
    if column.kind == "Categorical":
        return Values(np.broadcast_to(np.uint8(0), height), known, words)
    one_text = TextColumn.of(words or [""])
    return TextColumn(one_text.data, one_text.length, np.broadcast_to(np.int64(0), height), known)


def _listed(column: Column, value: Any) -> AnyColumn:
    """Make a column of a list, or of a series."""
    listed = list(value)
    if column.kind in ("String", "Binary"):
        return TextColumn.of(listed)
    if column.kind == "Categorical":
        words = list(dict.fromkeys(word for word in listed if word is not None))
        codes = {word: code for code, word in enumerate(words)}
        known = np.array([word is not None for word in listed], np.bool_)
        return Values(np.array([codes.get(word, 0) for word in listed], _code_type(words)), known, words)
    if column.kind == "time":
        return Values.of(pl.Series(listed, dtype=column.dtype))
    known = np.array([number is not None for number in listed], np.bool_)
    numbers = np.array([number or 0 for number in listed], NUMBERS[column.kind])
    return _with_nulls(column, numbers, known)


def _categories(codes: NDArray[Any], names: Sequence[str]) -> Values:
    """Words from codes; two names that are the same are one word."""
    words = list(dict.fromkeys(names))
    if len(words) < len(names):
        codes = np.array([words.index(name) for name in names])[codes.astype(np.int64)]
    return Values(codes.astype(_code_type(words), copy=False), None, words)


def _with_nulls(column: Column, data: NDArray[Any], known: NDArray[np.bool_] | None = None) -> Values:
    if column.unit == REFERENCE and data.dtype == np.uint32:
        present = data != NULL_ROW
    elif column.name == "image_offset":
        present = data >= 0
    else:
        return Values(data, known)
    return Values(data, present if known is None else present & known)


def _cast(column: Column, values: Values) -> Values:
    """Bring numbers to the type of their column."""
    dtype, data = NUMBERS[column.kind], values.data
    if data.dtype == dtype:
        return values
    if not np.can_cast(data.dtype, dtype) and len(data):
        data = values.filled(0)
        limits = np.iinfo(dtype)
        if int(data.min()) < limits.min or int(data.max()) > limits.max:
            raise ValueError(f"the column {column.name} cannot hold numbers from {data.min()} to {data.max()}")
    # With a sign or without one, a number that both can hold is the same bytes.
    is_same = data.dtype.kind in "iu" and data.dtype.itemsize == np.dtype(dtype).itemsize
    return Values(data.view(dtype) if is_same else data.astype(dtype), values.known)

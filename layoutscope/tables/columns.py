"""Columns of tables as arrays, which readers fill, and metrics and walks use.

They are converted to columns of a frame on demand, and can be made from such columns.
"""

from __future__ import annotations

import unicodedata
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from layoutscope.display import Displayed
from layoutscope.frames import pl
from layoutscope.structs.arrays import I64, U8, Mask, copy_pieces, ranges, starts_of
from layoutscope.tables.schema import DEFAULTS, NUMBERS, OPTIONAL, REFERENCE, TABLES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from layoutscope.tables.schema import Column


_ASCII_LAST: Final = 0x7F
_FEW_TEXTS: Final = 4

COMPARED_BYTES: Final = 24
"""Names are ordered by this many bytes; those that agree in them keep their order."""


class Values(Displayed):
    """A column of numbers, or of words that are stored as numbers."""

    __slots__ = ("data", "known", "words")

    def __init__(
        self,
        data: NDArray[Any],
        known: Mask | None = None,
        words: Sequence[str] = (),  # different words; none in a column of numbers
    ) -> None:
        self.data = data
        self.known = known if known is None or not known.all() else None
        self.words = tuple(words)

    def __len__(self) -> int:
        return len(self.data)

    def __repr__(self) -> str:
        return f"Values({len(self):,} {'words' if self.words else 'numbers'}, {int(self.is_known.sum()):,} known)"

    @property
    def is_known(self) -> Mask:
        """Which values are known, shape (n,)."""
        return np.ones(len(self.data), np.bool_) if self.known is None else self.known

    def filled(self, otherwise: int) -> NDArray[Any]:
        """Return the numbers, with a replacement for unknown ones."""
        if self.known is None:
            return self.data
        return np.where(self.known, self.data, np.asarray(otherwise, self.data.dtype))

    def signed(self) -> I64:
        """Return the numbers as int64, -1 for unknown ones; numbers from 2**63 on wrap, so they stay distinct."""
        values: I64 = self.data.astype(np.int64)
        if self.known is not None:
            values[~self.known] = -1
        return values

    def present(self) -> NDArray[Any]:
        """Return the known numbers."""
        return self.data if self.known is None else self.data[self.known]

    def to_list(self) -> list[int | None]:
        """Return the numbers, None for unknown ones."""
        numbers: list[int | None] = self.data.tolist()
        return numbers if self.known is None else [n if k else None for n, k in zip(numbers, self.known, strict=True)]

    def equals(self, word: str) -> Mask:
        """Mark the rows with a word; unknown rows have none."""
        if word not in self.words:
            return np.zeros(len(self.data), np.bool_)
        is_equal: Mask = self.data == self.words.index(word)
        return is_equal if self.known is None else is_equal & self.known

    def is_in(self, words: Iterable[str]) -> Mask:
        """Mark the rows with one of some words."""
        is_equal = np.zeros(len(self.data), np.bool_)
        for word in words:
            is_equal |= self.equals(word)
        return is_equal

    def numbered(self) -> tuple[NDArray[np.uint32], tuple[str, ...]]:
        """Number the words in the order of their first rows."""
        words = (*self.words, "")
        codes = self.data if self.known is None else np.where(self.known, self.data, len(self.words))
        numbers, first = _number_codes(codes, len(words))
        return numbers, tuple(words[code] for code in codes[first].tolist())

    def series(self, name: str, dtype: pl.DataType | type[pl.DataType]) -> pl.Series:
        """Make a column of a frame."""
        if self.words or dtype == pl.Categorical:
            # One gather makes categories from codes, without a string per row.
            codes = pl.Series(self.data.astype(np.uint32))
            known = codes if self.known is None else codes.set(pl.Series(~self.known), None)
            return pl.Series(name, self.words, dtype=pl.Categorical).gather(known)
        column = pl.Series(name, np.ascontiguousarray(self.data))
        return (column if self.known is None else column.set(pl.Series(~self.known), None)).cast(dtype)

    @classmethod
    def of(cls, column: pl.Series) -> Values:
        """Make a column from a series."""
        known = None if not column.null_count() else column.is_not_null().to_numpy()
        if column.dtype == pl.Categorical:
            codes, words = _category_numbers(column)
            return cls(codes, known, words)
        return cls(column.to_physical().fill_null(0).to_numpy(), known)

    def take(self, rows: Any) -> Values:
        """Return rows given by positions, a mask or a slice; a slice gives a read-only view."""
        data = self.data[rows]
        if isinstance(rows, slice):
            data.flags.writeable = False
        return Values(data, None if self.known is None else self.known[rows], self.words)


class TextColumn:
    """A column of texts or bytes, which may be stored in a different order than the rows."""

    def __init__(
        self,
        data: U8,  # the contiguous texts, in UTF-8 if they are text; the caller must not change them
        length: NDArray[np.integer[Any]],
        # the number of the text of each row; None if rows and texts have the same order
        rows: NDArray[np.integer[Any]] | None = None,
        known: Mask | None = None,
    ) -> None:
        self.data = data
        self.length = length
        self.rows = rows
        self.known = known
        self._known_start: list[I64] = []  # start of each text, once computed; shared with selections of rows

    @classmethod
    def of(cls, texts: Sequence[str | bytes | None]) -> TextColumn:
        """Make a column from texts or bytes."""
        raw = [b"" if text is None else text if isinstance(text, bytes) else text.encode() for text in texts]
        known = np.array([text is not None for text in texts], np.bool_)
        lengths = np.fromiter(map(len, raw), np.int64, len(raw))
        return cls(np.frombuffer(b"".join(raw), np.uint8), lengths, None, None if known.all() else known)

    @classmethod
    def stacked(cls, parts: Sequence[TextColumn]) -> TextColumn:
        """Concatenate columns; their texts stay in stored order."""
        first = starts_of(np.array([len(part.length) for part in parts], np.int64))
        orders = [np.arange(len(part.length)) if part.rows is None else part.rows.astype(np.int64) for part in parts]
        return cls(
            np.concatenate([part.data for part in parts]),
            np.concatenate([part.length.astype(np.int64) for part in parts]),
            np.concatenate([order + start for order, start in zip(orders, first.tolist(), strict=True)]),
            None if all(part.known is None for part in parts) else np.concatenate([part.is_known for part in parts]),
        )

    @property
    def is_known(self) -> Mask:
        """The rows with a text."""
        return np.ones(len(self), np.bool_) if self.known is None else self.known

    def __len__(self) -> int:
        return len(self.length if self.rows is None else self.rows)

    def _by_row(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the values of the text of each row, from those of all texts."""
        return values if self.rows is None else values[self.rows]

    @property
    def _start(self) -> I64:
        if not self._known_start:
            self._known_start.append(starts_of(self.length))
        return self._known_start[0]

    def _starts(self, texts: NDArray[np.integer[Any]]) -> I64:
        """Return the starts of some texts; for a few, the starts of all others are not computed."""
        starts: I64
        if len(texts) > _FEW_TEXTS:
            starts = self._start[texts]
        else:
            starts = np.array([int(self.length[:text].sum(dtype=np.int64)) for text in texts.tolist()], np.int64)
        return starts

    def is_ascii(self) -> bool:
        """Whether the texts of all rows are ASCII."""
        rows = self.rows
        data = self.data if rows is None else self.data[ranges(self._start[rows], self.length[rows])]
        return int(data.max(initial=0)) <= _ASCII_LAST

    def lengths(self, otherwise: int = 0) -> I64:
        """Return the length of the text of each row in bytes, or a replacement without a text."""
        lengths = self._by_row(self.length).astype(np.int64)
        if self.known is not None:
            lengths[~self.known] = otherwise
        return lengths

    def heads(self, width: int) -> U8:
        """Return the first bytes of the text of each row, shape (n, width), padded with zeros."""
        length = np.minimum(self.lengths(), width)
        out = np.zeros((len(self), width), np.uint8)
        places = np.arange(len(self)) * width
        copy_pieces(np.ascontiguousarray(self.data), self._by_row(self._start), length, places, out.reshape(-1))
        return out

    def order_by_text(self, group: NDArray[Any], *, ignores_case: bool = False) -> I64:
        """Order the rows by group, and within a group by the first `COMPARED_BYTES` of their text."""
        heads = self.heads(COMPARED_BYTES)
        if ignores_case:
            heads[(heads >= ord("A")) & (heads <= ord("Z"))] += ord("a") - ord("A")
        # Eight bytes as one big-endian number compare like the bytes.
        words = heads.view(np.dtype(np.uint64).newbyteorder("big"))
        return np.lexsort((*words.T[::-1], group))

    def num_chars(self) -> I64:
        """Count the characters of the text of each row; 0 without a text."""
        if int(self.data.max(initial=0)) <= _ASCII_LAST:
            return self.lengths()
        # In UTF-8, a byte 0b10xxxxxx continues a character, and all others begin one.
        begun = np.concatenate([[0], np.cumsum((self.data & 0xC0) != 0x80)])
        start = self._by_row(self._start)
        return np.asarray(begun[start + self.lengths()] - begun[start], np.int64)

    @cached_property
    def _composed(self) -> I64:
        """Lengths of composed texts, -1 if not computed yet."""
        return np.full(len(self), -1, np.int64)

    def composed_lengths(self, places: I64) -> I64:
        """Return the lengths of the texts of some rows in normal form C, in bytes.

        Each text is composed only once: Python sorts combining characters in quadratic time, which takes 0.2 ms for a
        name of 255.
        """
        missing = places[self._composed[places] < 0]
        texts = self.take(missing).to_list()
        self._composed[missing] = [len(unicodedata.normalize("NFC", text or "").encode()) for text in texts]
        return self._composed[places]

    def take(self, rows: Any) -> TextColumn:
        """Return rows given by positions, a mask or a slice."""
        if self.rows is not None:
            order = self.rows[rows]
        else:
            is_places = isinstance(rows, np.ndarray) and rows.dtype.kind in "iu"
            order = rows if is_places else _places(rows, len(self.length))
        taken = TextColumn(self.data, self.length, order, None if self.known is None else self.known[rows])
        taken._known_start = self._known_start
        return taken

    def pieces(self) -> tuple[U8, I64, I64]:
        """Return the texts in the order of the rows, contiguous, with their starts and lengths in bytes."""
        length = self._by_row(self.length).astype(np.int64)
        starts = starts_of(length)  # the caller's own, while stored starts are shared
        if self.rows is None:
            return self.data, starts, length
        data = np.empty(int(length.sum()), np.uint8)
        copy_pieces(self.data, self._by_row(self._start), length, starts, data)
        return data, starts, length

    def raw(self) -> list[bytes]:
        """Return the texts as bytes, which is slow for many rows."""
        start, length = (
            (self._start, self.length) if self.rows is None else (self._starts(self.rows), self.length[self.rows])
        )
        pairs = zip(start.tolist(), length.tolist(), strict=True)
        return [self.data[first : first + size].tobytes() for first, size in pairs]

    def to_list(self) -> list[str | None]:
        """Return the texts, None for rows without one, which is slow for many rows."""
        return [
            text.decode() if is_known else None
            for text, is_known in zip(self.raw(), self.is_known.tolist(), strict=True)
        ]

    def equal_to(self, text: bytes) -> Mask:
        """Mark the rows that have the given text."""
        searched = np.frombuffer(text, np.uint8)
        is_equal: Mask = self.lengths(-1) == len(searched)
        rows = np.flatnonzero(is_equal)
        starts = self._starts(rows if self.rows is None else self.rows[rows])
        candidates = self.data[ranges(starts, np.full(len(rows), len(searched)))].reshape(len(rows), len(searched))
        is_equal[rows] = (candidates == searched).all(axis=1)
        return is_equal

    def series(self, name: str, dtype: pl.DataType | type[pl.DataType]) -> pl.Series:
        """Make a column of a frame."""
        import nanoarrow

        ends = np.zeros(len(self.length) + 1, np.int64)
        np.cumsum(self.length, dtype=np.int64, out=ends[1:])
        # The large types have 64-bit offsets: the names of a volume may exceed 2 GiB. Texts are valid UTF-8.
        schema = nanoarrow.large_binary() if dtype == pl.Binary else nanoarrow.large_string()
        parts: list[Any] = [None, ends, np.ascontiguousarray(self.data)]
        column = pl.Series(nanoarrow.c_array_from_buffers(schema, len(self.length), parts)).alias(name)
        if self.rows is None and self.known is None:
            return column
        rows = pl.Series(np.arange(len(self.length)) if self.rows is None else self.rows)
        return column.gather(rows if self.known is None else rows.set(pl.Series(~self.known), None))


def _places(rows: Any, height: int) -> I64:
    """Return the positions that a slice or an index selects."""
    return np.arange(*rows.indices(height)) if isinstance(rows, slice) else np.arange(height)[rows]


def _category_numbers(column: pl.Series) -> tuple[NDArray[np.uint32], tuple[str, ...]]:
    """Number the categories of a column by their first rows, independently of other columns in the process.

    >>> codes, words = _category_numbers(pl.Series(["b", "a", None, "b"], dtype=pl.Categorical))
    >>> codes.tolist(), words
    ([0, 1, 2, 0], ('b', 'a', ''))
    """
    codes = column.to_physical().cast(pl.Int64).fill_null(-1).to_numpy() + 1
    numbers, first = _number_codes(codes, int(codes.max(initial=0)) + 1)
    return numbers, tuple(column[row] or "" for row in first.tolist())


def _number_codes(codes: NDArray[Any], num_codes: int) -> tuple[NDArray[np.uint32], I64]:
    """Number codes by their first rows; return the number of each row, and the first row of each number."""
    first = np.full(num_codes, -1)
    # The last of several assignments to one place wins, so the reversed order keeps the first row.
    first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)
    present = np.flatnonzero(first >= 0)
    order = present[np.argsort(first[present])]
    number = np.zeros(num_codes, np.uint32)
    number[order] = np.arange(len(order))
    return number[codes], first[order]


class Rows:
    """Rows of documented columns, which are computed in parts."""

    def __init__(
        self,
        columns: Sequence[Column],
        height: int,
        # returns the columns of a slice of the rows, as lists with None for unknown values, or as arrays
        columns_of: Callable[[slice], Mapping[str, AnyColumn | Sequence[Any]]],
        frame: Callable[[], pl.DataFrame],
    ) -> None:
        self.columns = tuple(columns)
        self._height = height
        self.columns_of = columns_of
        self._frame = frame

    def __len__(self) -> int:
        return self._height

    def part(self, rows: slice) -> dict[str, list[Any]]:
        """Return some rows: the values of each column as Python objects, None for unknown ones."""
        columns = self.columns_of(rows)
        return {column.name: listed(columns[column.name], column.kind) for column in self.columns}

    @cached_property
    def frame(self) -> pl.DataFrame:
        """The same as a frame, made at the first access."""
        return self._frame()

    @classmethod
    def of(cls, table: Table) -> Rows:
        """Return the rows of a public table."""
        columns = TABLES[table.name]

        def columns_of(chosen: slice) -> dict[str, AnyColumn]:
            taken = table.take(chosen)
            return {column.name: taken.column(column.name) for column in columns}

        return cls(columns, len(table), columns_of, lambda: table.frame)

    @classmethod
    def under(cls, columns: Sequence[Column], data: Mapping[str, Any]) -> Rows:
        """Make rows from arrays or lists of one length, by column name."""
        names = [column.name for column in columns]
        if set(data) != set(names):
            raise ValueError(f"these rows have other columns: {sorted(set(data) ^ set(names))}")

        def frame() -> pl.DataFrame:
            series = []
            for column in columns:
                values = data[column.name]
                if isinstance(values, np.ndarray):
                    series.append(pl.Series(column.name, values).cast(column.dtype))
                else:
                    series.append(pl.Series(column.name, values, dtype=column.dtype))
            return pl.DataFrame(series)

        return cls(columns, len(data[names[0]]), lambda chosen: {name: data[name][chosen] for name in names}, frame)

    @classmethod
    def listed(cls, columns: Sequence[Column], rows: Iterable[Sequence[Any]]) -> Rows:
        """Make rows from tuples, whose values are in the order of the columns."""
        values = list(zip(*rows, strict=True)) or [()] * len(columns)
        data = {column.name: list(own) for column, own in zip(columns, values, strict=True)}
        return cls.under(columns, data)


AnyColumn: TypeAlias = "Values | TextColumn"

NULL_ROW: Final = np.uint32(2**32 - 1)
"""Marks "no row" in arrays of rows; :func:`build_table` turns it into null."""

NULL_OFFSET: Final = np.int64(-1)
"""Marks "no address" in arrays of offsets; :func:`build_table` turns it into null."""

_FEW_WORDS: Final = 256
"""Number of codes that fit into a byte."""


class LazyColumn:
    """A column that is made at the first access, because many columns of a table are never used."""

    def __init__(self, length: int, make: Callable[[], Any]) -> None:
        self._length = length
        self.make = make

    def __len__(self) -> int:
        return self._length


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def to_datetime(microseconds: int) -> datetime | None:
    """Convert microseconds since 1970 to a time; None beyond the range of `datetime`."""
    try:
        return _EPOCH + timedelta(microseconds=microseconds)
    except OverflowError:
        return None


def listed(column: AnyColumn | Sequence[Any] | NDArray[Any], kind: str) -> list[Any]:
    """Return a column as Python objects: words and texts, bytes, times or numbers, None for unknown values."""
    if isinstance(column, TextColumn):
        if kind == "String":
            return column.to_list()
        return [raw if is_known else None for raw, is_known in zip(column.raw(), column.is_known.tolist(), strict=True)]
    if not isinstance(column, Values):
        return np.ndarray.tolist(column) if isinstance(column, np.ndarray) else list(column)
    values = column.to_list()
    if kind == "Categorical":
        return [None if code is None else column.words[code] for code in values]
    return [None if us is None else to_datetime(us) for us in values] if kind == "time" else values


class Table:
    """One of the public tables."""

    def __init__(self, name: str, height: int, column: Callable[[str], AnyColumn]) -> None:
        self.name = name
        self._height = height
        self._make = column
        self._columns: dict[str, AnyColumn] = {}

    def __len__(self) -> int:
        return self._height

    def __getitem__(self, name: str) -> Values:
        """Return a column of numbers or words."""
        column = self.column(name)
        if isinstance(column, TextColumn):
            raise TypeError(f"{name} is a column of texts")
        return column

    def texts(self, name: str) -> TextColumn:
        """Return a column of texts."""
        column = self.column(name)
        if isinstance(column, Values):
            raise TypeError(f"{name} is not a column of texts")
        return column

    def column(self, name: str) -> AnyColumn:
        """Return a column of either kind."""
        if name not in self._columns:
            self._columns[name] = self._make(name)
        return self._columns[name]

    def take(self, rows: Any) -> Table:
        """Return rows given by positions or a mask; a column is taken at its first access."""
        if isinstance(rows, np.ndarray) and rows.dtype == np.bool_:
            first, count = int(rows.argmax()) if len(rows) else 0, int(np.count_nonzero(rows))
            # Contiguous rows are a view.
            rows = slice(first, first + count) if rows[first : first + count].all() else np.flatnonzero(rows)
            chosen: I64 | slice = rows
        else:
            chosen = _places(rows, self._height)
        height = chosen.stop - chosen.start if isinstance(chosen, slice) else len(chosen)
        return Table(self.name, height, lambda name: self.column(name).take(chosen))

    def changed(self, name: str, column: AnyColumn) -> Table:
        """Return a table with one column replaced."""
        return Table(self.name, self._height, lambda requested: column if requested == name else self.column(requested))

    def listed(self, name: str) -> list[Any]:
        """Return a column as Python objects: words and texts, bytes, times or numbers, None for unknown values."""
        return listed(self.column(name), next(each.kind for each in TABLES[self.name] if each.name == name))

    def rows(self) -> list[dict[str, Any]]:
        """Return rows by column name, which is slow for many rows."""
        columns = {each.name: self.listed(each.name) for each in TABLES[self.name]}
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    @cached_property
    def frame(self) -> pl.DataFrame:
        """The same as a frame, made at the first access."""
        return pl.DataFrame([self.column(each.name).series(each.name, each.dtype) for each in TABLES[self.name]])

    @classmethod
    def of(cls, name: str, frame: pl.DataFrame) -> Table:
        """Make a table from a frame, which has its columns, and may have others."""

        def column(column: str) -> AnyColumn:
            series = frame[column]
            return TextColumn.of(series.to_list()) if series.dtype in (pl.String, pl.Binary) else Values.of(series)

        table = cls(name, frame.height, column)
        table.__dict__["frame"] = frame
        return table


def stack_tables(tables: Sequence[Table], *, is_renumbered: bool = False) -> Table:
    """Concatenate at least one table; on request, number their rows from 0."""
    height = sum(map(len, tables))

    def column(name: str) -> AnyColumn:
        if name == "row" and is_renumbered:
            return Values(np.arange(height, dtype=np.uint32))
        if isinstance(tables[0].column(name), TextColumn):
            return TextColumn.stacked([table.texts(name) for table in tables])
        parts = [table[name] for table in tables]
        known = np.concatenate([part.is_known for part in parts])
        words = list(dict.fromkeys(word for part in parts for word in part.words))
        data = [part.data for part in parts]
        if words:
            # Each column has a list of words of its own.
            places = [np.array([words.index(each) for each in part.words] or [0], _code_type(words)) for part in parts]
            data = [place[codes] for place, codes in zip(places, data, strict=True)]
        return Values(np.concatenate(data), known, words)

    return Table(tables[0].name, height, column)


def _code_type(words: Sequence[str]) -> type[np.unsignedinteger[Any]]:
    return np.uint8 if len(words) <= _FEW_WORDS else np.uint32


def are_walked(nodes: Table) -> Mask:
    """Mark the nodes that have a place in the order of their tree and are read, including damaged ones.

    A listing reads a damaged node that an index leads to, and fails there. Nodes outside the image cannot be read, and
    nodes with an unknown rank are in no order.
    """
    is_reached = nodes["condition"].equals("damaged") & nodes["key_rank"].is_known
    is_walked: Mask = nodes["condition"].is_in(("sound", "locked")) | is_reached
    return is_walked


def condition_details(nodes: Table) -> dict[str, int]:
    """Count the damaged and the unread nodes, if there are any."""
    counts = {word: int(nodes["condition"].equals(word).sum()) for word in ("damaged", "unread")}
    return {f"{word} nodes": count for word, count in counts.items() if count}


def build_table(name: str, columns: Mapping[str, Any]) -> Table:
    """Make one public table from columns."""
    schema = TABLES[name]
    unknown = set(columns) - {column.name for column in schema}
    if unknown:
        raise ValueError(f"table {name} has no column {sorted(unknown)}")
    lengths = {
        key: len(value[0] if isinstance(value, tuple) else value)
        for key, value in columns.items()
        if _has_length(value)
    }
    if columns and len(set(lengths.values())) != 1:
        raise ValueError(f"table {name}: columns of different lengths: {lengths}")
    height = next(iter(lengths.values()), 0)
    made_columns = {column.name: _get_column(column, columns, height) for column in schema}

    def column(name: str) -> AnyColumn:
        value = made_columns[name]
        return value.make() if isinstance(value, LazyColumn) else value

    return Table(name, height, column)


def _has_length(value: Any) -> bool:
    return hasattr(value, "__len__") and not isinstance(value, str | bytes)


def _get_column(column: Column, columns: Mapping[str, Any], height: int) -> AnyColumn | LazyColumn:
    if column.name not in columns:
        if column.name == "row":
            return LazyColumn(height, lambda: Values(np.arange(height, dtype=np.uint32)))
        if columns and column.name not in OPTIONAL and column.name not in DEFAULTS:
            raise ValueError(f"a table misses column {column.name!r}")
    value = columns.get(column.name, DEFAULTS.get(column.name) if columns else None)
    if isinstance(value, LazyColumn):
        return LazyColumn(height, lambda: _make_column(column, value.make(), height))
    return _make_column(column, value, height)


def _make_column(column: Column, value: Any, height: int) -> AnyColumn:
    if not _has_length(value):
        return _make_constant_column(column, value, height)
    if isinstance(value, tuple):
        codes, names = np.asarray(value[0]), value[1]
        words = list(dict.fromkeys(names))
        if len(words) < len(names):  # equal names become one word
            codes = np.array([words.index(name) for name in names])[codes.astype(np.int64)]
        return Values(codes.astype(_code_type(words), copy=False), None, words)
    if not isinstance(value, Values | TextColumn | np.ndarray):
        value = _make_listed_column(column, list(value))
    if isinstance(value, TextColumn):
        return value
    values = value if isinstance(value, Values) else _attach_nulls(column, value)
    return values if column.kind == "Categorical" else _cast(column, values)


def _make_constant_column(column: Column, value: Any, height: int) -> AnyColumn:
    """Make a column of one value or of unknown ones, which takes no memory."""
    known = None if value is not None else np.broadcast_to(np.False_, height)
    if column.kind in NUMBERS:
        one = np.array(0 if value is None else value, NUMBERS[column.kind])
        return Values(np.broadcast_to(one, height), known)
    words = [] if value is None else [value]
    if column.kind == "Categorical":
        return Values(np.broadcast_to(np.uint8(0), height), known, words)
    text = TextColumn.of(words or [""])
    return TextColumn(text.data, text.length, np.broadcast_to(np.int64(0), height), known)


def _make_listed_column(column: Column, values: list[Any]) -> AnyColumn:
    if column.kind in ("String", "Binary"):
        return TextColumn.of(values)
    if column.kind == "time":
        return Values.of(pl.Series(values, dtype=column.dtype))
    known = np.array([value is not None for value in values], np.bool_)
    if column.kind != "Categorical":
        return _attach_nulls(column, np.array([number or 0 for number in values], NUMBERS[column.kind]), known)
    words = list(dict.fromkeys(word for word in values if word is not None))
    codes = {word: code for code, word in enumerate(words)}
    return Values(np.array([codes.get(word, 0) for word in values], _code_type(words)), known, words)


def _attach_nulls(column: Column, data: NDArray[Any], known: Mask | None = None) -> Values:
    if column.unit == REFERENCE and data.dtype == np.uint32:
        present = data != NULL_ROW
    elif column.name == "image_offset":
        present = data >= 0
    else:
        return Values(data, known)
    return Values(data, present if known is None else present & known)


def _cast(column: Column, values: Values) -> Values:
    """Convert numbers to the type of their column."""
    dtype, data = NUMBERS[column.kind], values.data
    if data.dtype == dtype:
        return values
    if not np.can_cast(data.dtype, dtype) and len(data):
        data = values.filled(0)
        limits = np.iinfo(dtype)
        if int(data.min()) < limits.min or int(data.max()) > limits.max:
            raise ValueError(f"the column {column.name} cannot hold numbers from {data.min()} to {data.max()}")
    # A number that both the signed and the unsigned type can hold has the same bytes in both.
    is_same = data.dtype.kind in "iu" and data.dtype.itemsize == np.dtype(dtype).itemsize
    return Values(data.view(dtype) if is_same else data.astype(dtype), values.known)

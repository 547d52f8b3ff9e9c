"""Columns of tables as arrays: what readers fill, and metrics and walks take.

They become columns of a frame where somebody asks for one, and are made from such columns.
"""

from __future__ import annotations

import unicodedata
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from layoutscope.arrays.ragged import ranges, starts_of
from layoutscope.display import Displayed
from layoutscope.frames import pl

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from layoutscope.arrays.columns import I64, U8, Mask

_ASCII_LAST: Final = 0x7F
_FEW_TEXTS: Final = 4


class Values(Displayed):
    """A column of numbers, or of words as numbers."""

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
        """Return the numbers, with another one in place of what is unknown."""
        if self.known is None:
            return self.data
        return np.where(self.known, self.data, np.asarray(otherwise, self.data.dtype))

    def signed(self) -> I64:
        """Return the numbers in 64 bits, -1 where unknown; numbers of 2**63 and more wrap, which keeps them apart."""
        values: I64 = self.data.astype(np.int64)
        if self.known is not None:
            values[~self.known] = -1
        return values

    def present(self) -> NDArray[Any]:
        """Return the numbers that are known."""
        return self.data if self.known is None else self.data[self.known]

    def to_list(self) -> list[int | None]:
        """Return the numbers, None where unknown."""
        found: list[int | None] = self.data.tolist()
        return found if self.known is None else [n if k else None for n, k in zip(found, self.known, strict=True)]

    def equals(self, word: str) -> Mask:
        """Tell which rows have a word; what is unknown has none."""
        if word not in self.words:
            return np.zeros(len(self.data), np.bool_)
        found: Mask = self.data == self.words.index(word)
        return found if self.known is None else found & self.known

    def is_in(self, words: Iterable[str]) -> Mask:
        """Tell which rows have one of some words."""
        found = np.zeros(len(self.data), np.bool_)
        for word in words:
            found |= self.equals(word)
        return found

    def numbered(self) -> tuple[NDArray[np.uint32], tuple[str, ...]]:
        """Number the words in the order of their first rows."""
        words = (*self.words, "")
        codes = self.data if self.known is None else np.where(self.known, self.data, len(self.words))
        numbers, first = _numbered(codes, len(words))
        return numbers, tuple(words[code] for code in codes[first].tolist())

    def series(self, name: str, dtype: pl.DataType | type[pl.DataType]) -> pl.Series:
        """Make a column of a frame."""
        if self.words or dtype == pl.Categorical:
            # Categories from codes: one gather, no string a row.
            codes = pl.Series(self.data.astype(np.uint32))
            known = codes if self.known is None else codes.set(pl.Series(~self.known), None)
            return pl.Series(name, self.words, dtype=pl.Categorical).gather(known)
        found = pl.Series(name, np.ascontiguousarray(self.data))
        return (found if self.known is None else found.set(pl.Series(~self.known), None)).cast(dtype)

    @classmethod
    def of(cls, column: pl.Series) -> Values:
        """Make a column of one of a frame."""
        known = None if not column.null_count() else column.is_not_null().to_numpy()
        if column.dtype == pl.Categorical:
            codes, words = _category_numbers(column)
            return cls(codes, known, words)
        return cls(column.to_physical().fill_null(0).to_numpy(), known)

    def take(self, rows: Any) -> Values:
        """Return some rows, given by their places, by a mask, or as a slice, which is no copy and cannot be changed."""
        data = self.data[rows]
        if isinstance(rows, slice):
            data.flags.writeable = False
        return Values(data, None if self.known is None else self.known[rows], self.words)


class TextColumn:
    """A column of texts or bytes, which may lie in another order than the rows."""

    def __init__(
        self,
        data: U8,  # the texts, one after the other; UTF-8 if they are text. They must not change any more.
        length: NDArray[np.integer[Any]],
        # the text of each row, by its place; in their own order without it
        rows: NDArray[np.integer[Any]] | None = None,
        known: Mask | None = None,
    ) -> None:
        self.data = data
        self.length = length
        self.rows = rows
        self.known = known

    @classmethod
    def of(cls, texts: Sequence[str | bytes | None]) -> TextColumn:
        """Make a column of texts, or of bytes."""
        raw = [b"" if text is None else text if isinstance(text, bytes) else text.encode() for text in texts]
        known = np.array([text is not None for text in texts], np.bool_)
        lengths = np.fromiter(map(len, raw), np.int64, len(raw))
        return cls(np.frombuffer(b"".join(raw), np.uint8), lengths, None, None if known.all() else known)

    @classmethod
    def stacked(cls, parts: Sequence[TextColumn]) -> TextColumn:
        """Put columns one below the other; their texts are not brought into the order of the rows."""
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
        """Which rows have a text."""
        return np.ones(len(self), np.bool_) if self.known is None else self.known

    def __len__(self) -> int:
        return len(self.length if self.rows is None else self.rows)

    @cached_property
    def _start(self) -> I64:
        return starts_of(self.length)

    def _starts(self, texts: NDArray[np.integer[Any]]) -> I64:
        """Where some texts start; of a few it is counted for them alone."""
        found: I64
        if len(texts) > _FEW_TEXTS:
            found = self._start[texts]
        else:
            found = np.array([int(self.length[:text].sum(dtype=np.int64)) for text in texts.tolist()], np.int64)
        return found

    def is_ascii(self) -> bool:
        """Tell whether no row's text has a byte beyond ASCII."""
        if self.rows is None:
            return int(self.data.max(initial=0)) <= _ASCII_LAST
        return int(self.data[ranges(self._start[self.rows], self.length[self.rows])].max(initial=0)) <= _ASCII_LAST

    def lengths(self, otherwise: int = 0) -> I64:
        """Bytes of the text of each row; another number where there is none."""
        found = (self.length if self.rows is None else self.length[self.rows]).astype(np.int64)
        if self.known is not None:
            found[~self.known] = otherwise
        return found

    def heads(self, width: int) -> U8:
        """Return the first bytes of the text of each row, (n, width), behind shorter ones zeros."""
        length = np.minimum(self.lengths(), width)
        out = np.zeros((len(self), width), np.uint8)
        start = self._start if self.rows is None else self._start[self.rows]
        out.reshape(-1)[ranges(np.arange(len(self)) * width, length)] = self.data[ranges(start, length)]
        return out

    def num_chars(self) -> I64:
        """Characters of the text of each row; 0 where there is none."""
        if int(self.data.max(initial=0)) <= _ASCII_LAST:
            return self.lengths()
        # In UTF-8 a byte of 0b10xxxxxx goes on with a character, all others begin one.
        begun = np.concatenate([[0], np.cumsum((self.data & 0xC0) != 0x80)])
        start = self._start if self.rows is None else self._start[self.rows]
        return np.asarray(begun[start + self.lengths()] - begun[start], np.int64)

    @cached_property
    def _composed(self) -> I64:
        """Lengths of composed texts, -1 where that was not asked yet."""
        return np.full(len(self), -1, np.int64)

    def composed_lengths(self, places: I64) -> I64:
        """Bytes of the texts of some rows in normal form C.

        Each is composed once, whoever asks: Python sorts combining characters in the square of their number, which
        takes 0.2 ms for a name of 255.
        """
        missing = places[self._composed[places] < 0]
        texts = self.take(missing).to_list()
        self._composed[missing] = [len(unicodedata.normalize("NFC", text or "").encode()) for text in texts]
        return self._composed[places]

    def take(self, rows: Any) -> TextColumn:
        """Return some rows, given by their places, by a mask or as a slice."""
        if self.rows is not None:
            order = self.rows[rows]
        else:
            is_places = isinstance(rows, np.ndarray) and rows.dtype.kind in "iu"
            order = rows if is_places else np.arange(len(self.length))[rows]
        return TextColumn(self.data, self.length, order, None if self.known is None else self.known[rows])

    def raw(self) -> list[bytes]:
        """Return the texts as bytes; for some rows that were taken."""
        start, length = (
            (self._start, self.length) if self.rows is None else (self._starts(self.rows), self.length[self.rows])
        )
        pairs = zip(start.tolist(), length.tolist(), strict=True)
        return [self.data[first : first + size].tobytes() for first, size in pairs]

    def to_list(self) -> list[str | None]:
        """Return the texts, None where there is none; for some rows that were taken."""
        return [text.decode() if there else None for text, there in zip(self.raw(), self._there(), strict=True)]

    def _there(self) -> list[bool]:
        return [True] * len(self) if self.known is None else self.known.tolist()

    def equal_to(self, text: bytes) -> Mask:
        """Tell which rows have a text."""
        wanted = np.frombuffer(text, np.uint8)
        same: Mask = self.lengths(-1) == len(wanted)
        rows = np.flatnonzero(same)
        spots = self._starts(rows if self.rows is None else self.rows[rows])
        found = self.data[ranges(spots, np.full(len(rows), len(wanted)))].reshape(len(rows), len(wanted))
        same[rows] = (found == wanted).all(axis=1)
        return same

    def series(self, name: str, dtype: pl.DataType | type[pl.DataType]) -> pl.Series:
        """Make a column of a frame."""
        kind: Literal["text", "binary"] = "binary" if dtype == pl.Binary else "text"
        found = cut(name, self.data, self.length.astype(np.int64), kind)
        if self.rows is None and self.known is None:
            return found
        rows = pl.Series(np.arange(len(self.length)) if self.rows is None else self.rows)
        return found.gather(rows if self.known is None else rows.set(pl.Series(~self.known), None))


def cut(
    name: str,
    data: NDArray[np.uint8],  # the values, one after the other; must not change any more
    lengths_bytes: NDArray[np.int64],
    kind: Literal["text", "binary"],  # what they are; text must be valid UTF-8 that no value's end cuts in two
) -> pl.Series:
    """Cut bytes into the values of a column."""
    import nanoarrow

    ends = np.zeros(len(lengths_bytes) + 1, np.int64)
    np.cumsum(lengths_bytes, out=ends[1:])
    # Large ones have offsets of 64 bits: the names of a volume may be more than 2 GiB.
    schema = nanoarrow.large_string() if kind == "text" else nanoarrow.large_binary()
    parts: list[Any] = [None, ends, np.ascontiguousarray(data)]
    return pl.Series(nanoarrow.c_array_from_buffers(schema, len(lengths_bytes), parts)).alias(name)


def _category_numbers(column: pl.Series) -> tuple[NDArray[np.uint32], tuple[str, ...]]:
    """Number the categories of a column in the order of their first rows, whatever else the process has read.

    >>> codes, words = _category_numbers(pl.Series(["b", "a", None, "b"], dtype=pl.Categorical))
    >>> codes.tolist(), words
    ([0, 1, 2, 0], ('b', 'a', ''))
    """
    found = column.to_physical().cast(pl.Int64).fill_null(-1).to_numpy() + 1
    numbers, first = _numbered(found, int(found.max(initial=0)) + 1)
    return numbers, tuple(column[row] or "" for row in first.tolist())


def _numbered(codes: NDArray[Any], num_codes: int) -> tuple[NDArray[np.uint32], I64]:
    """Number codes in the order of their first rows; return each row's number, and the first row of each number."""
    first = np.full(num_codes, -1)
    # Of several values for one place the last one stays: backwards, that is the first.
    first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)
    present = np.flatnonzero(first >= 0)
    order = present[np.argsort(first[present])]
    number = np.zeros(num_codes, np.uint32)
    number[order] = np.arange(len(order))
    return number[codes], first[order]

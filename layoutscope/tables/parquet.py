"""What a Parquet file claims, looked at before anything is unpacked.

Polars believes the header of a file: it takes memory for as many values as a header names, and a request that the
system refuses ends the whole process. So footer and page headers of a capture's tables, which a stranger may have made,
are read here first; they are structures of Thrift's compact protocol. Apache Parquet format 2.10, "File format" and
``parquet.thrift``; Apache Thrift, "Thrift Compact protocol encoding".
"""

from __future__ import annotations

import mmap
from typing import TYPE_CHECKING, Any, Final

from layoutscope import inputs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MAGIC: Final = b"PAR1"
LENGTH_BYTES: Final = 4
MAX_NESTED: Final = 16
"""Structures within structures; those of Parquet go five deep."""

_MOST_VARINT_BYTES: Final = 10
"""Seven bits a byte, for numbers of 64 bits."""

TRUE, FALSE, BYTE, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = 1, 2, 3, 7, 8, 9, 10, 11, 12
INTEGERS: Final = (4, 5, 6)
DOUBLE_BYTES: Final = 8


def read_claims(path: Path) -> tuple[int, int]:
    """Read the footer and every page header of a file, each checked against the others and against the file's length.

    The rows in all groups, and the sum of the bytes of all pages, as they are before values are made of them.
    """
    with inputs.open_file(path) as file:
        if file.seek(0, 2) < 2 * len(MAGIC) + LENGTH_BYTES:
            raise ValueError("is too short for a table")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _claims(data)


def _claims(data: mmap.mmap) -> tuple[int, int]:
    stop = len(data) - len(MAGIC) - LENGTH_BYTES
    # The length is stored with its lowest byte first.
    length = sum(byte << 8 * place for place, byte in enumerate(data[stop : stop + LENGTH_BYTES]))
    if data[: len(MAGIC)] != MAGIC or data[-len(MAGIC) :] != MAGIC or length > stop - len(MAGIC):
        raise ValueError("is not a Parquet file")
    footer = _Reader(data, stop - length, stop).struct()
    rows, unpacked = 0, 0
    for group in _members(footer, 4):
        count = _number(group, 3)
        chunks = [_member(chunk, 3) for chunk in _members(group, 1) if 1 not in chunk]
        if len(chunks) != len(_members(group, 1)):
            raise ValueError("has columns in other files")
        if any(_number(chunk, 5) != count for chunk in chunks):
            raise ValueError("has columns of unequal lengths")
        rows += count
        unpacked += sum(_sum_page_bytes(data, chunk, stop - length) for chunk in chunks)
    if rows != _number(footer, 3):
        raise ValueError("counts its rows in two ways")
    return rows, unpacked


def _sum_page_bytes(data: mmap.mmap, chunk: dict[int, Any], end: int) -> int:
    """Sum the lengths of a column's pages, whose values must be those that it claims."""
    start = min(_number(chunk, field) for field in (9, 11) if chunk.get(field))
    stop = start + _number(chunk, 7)
    if start < len(MAGIC) or stop > end:
        raise ValueError("has a column outside of its data")
    values = unpacked = 0
    for header in _pages(data, start, stop):
        size = _number(header, 2)
        kind = next((field for field in (5, 7, 8) if field in header), None)
        number = _number(_member(header, kind), 1) if kind else 0
        if kind == 7 and number > size:  # a dictionary, in which each word takes a byte or more
            raise ValueError("has a dictionary of more words than bytes")
        values += number if kind != 7 else 0
        unpacked += size
    if values != _number(chunk, 5):
        raise ValueError("has pages with other values than their column")
    return unpacked


def _pages(data: mmap.mmap, start: int, stop: int) -> Iterator[dict[int, Any]]:
    """Yield the headers of the pages in a range."""
    while start < stop:
        reader = _Reader(data, start, stop)
        header = reader.struct()
        start = reader.at + _number(header, 3)
        if start > stop:
            raise ValueError("has a page that ends outside of its column")
        yield header


def _number(members: dict[int, Any], field: int) -> int:
    value = members.get(field)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError("lacks a number in its headers")
    return value


def _member(members: dict[int, Any], field: int) -> dict[int, Any]:
    value = members.get(field)
    if isinstance(value, dict):
        return value
    raise ValueError("lacks a structure in its headers")


def _members(members: dict[int, Any], field: int) -> list[dict[int, Any]]:
    values = members.get(field)
    if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
        raise ValueError("lacks a list in its headers")
    return values


class _Reader:
    """Reads structures from a range of a file; a structure becomes a dictionary by the numbers of its fields."""

    def __init__(self, data: mmap.mmap, at: int, stop: int) -> None:
        self._data, self.at, self._stop = data, at, stop

    def struct(self, depth: int = 0) -> dict[int, Any]:
        """Read a structure, its fields' numbers as differences to the one before."""
        if depth > MAX_NESTED:
            raise ValueError("nests its headers too deeply")
        found: dict[int, Any] = {}
        field = 0
        while head := self._byte():
            field = field + (head >> 4) if head >> 4 else self._signed()
            found[field] = self._value(head & 15, depth, in_list=False)
        return found

    def _value(self, kind: int, depth: int, *, in_list: bool) -> Any:
        if kind in (TRUE, FALSE):
            # A field's type says its value; in a list each has a byte.
            return (self._byte() if in_list else kind) == TRUE
        if kind in INTEGERS:
            return self._signed()
        if kind in (BYTE, DOUBLE, BINARY):
            return self._bytes({BYTE: 1, DOUBLE: DOUBLE_BYTES}.get(kind) or self._varint())
        if kind in (LIST, SET):
            return self._list(depth)
        if kind == STRUCT:
            return self.struct(depth + 1)
        raise ValueError("has headers of an unknown kind")

    def _list(self, depth: int) -> list[Any]:
        head = self._byte()
        # Four bits have no place for larger counts than 14.
        count = self._varint() if head >> 4 == 15 else head >> 4
        # Every value takes a byte or more, so that no more of them are made than the file is long.
        if count > self._stop - self.at or depth > MAX_NESTED:
            raise ValueError("has a list that is longer than its headers")
        return [self._value(head & 15, depth + 1, in_list=True) for _ in range(count)]

    def _signed(self) -> int:
        number = self._varint()
        return number >> 1 if number % 2 == 0 else -(number >> 1) - 1

    def _varint(self) -> int:
        number = 0
        for place in range(_MOST_VARINT_BYTES):
            byte = self._byte()
            number |= (byte & 127) << 7 * place
            if byte < 128:
                return number
        raise ValueError("has a number of more than 64 bits in its headers")

    def _byte(self) -> int:
        if self.at >= self._stop:
            raise ValueError("has headers that end early")
        self.at += 1
        return self._data[self.at - 1]

    def _bytes(self, length: int) -> bytes:
        if length > self._stop - self.at:
            raise ValueError("has headers that end early")
        self.at += length
        return self._data[self.at - length : self.at]

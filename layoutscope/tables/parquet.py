"""Checks of the sizes that a Parquet file claims, before it is unpacked.

Polars trusts the headers of a file: it allocates memory for as many values as they claim, and a failed allocation ends
the whole process. Therefore, the footer and the page headers of untrusted captures are read here first. They are
structures of Thrift's compact protocol. Apache Parquet format 2.10, "File format" and ``parquet.thrift``; Apache
Thrift, "Thrift Compact protocol encoding".
"""

from __future__ import annotations

import mmap
from typing import TYPE_CHECKING, Any, Final

from layoutscope import inputs

if TYPE_CHECKING:
    from pathlib import Path

MAGIC: Final = b"PAR1"
LENGTH_BYTES: Final = 4
MAX_NESTED: Final = 16
"""Nesting depth of structures; Parquet's own has five levels."""

_MAX_VARINT_BYTES: Final = 10
"""Seven bits per byte, for 64-bit numbers."""

TRUE, FALSE, BYTE, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = 1, 2, 3, 7, 8, 9, 10, 11, 12
INTEGERS: Final = (4, 5, 6)
DOUBLE_BYTES: Final = 8


def read_claims(path: Path) -> tuple[int, int]:
    """Read the footer and all page headers, checked against each other and against the length of the file.

    Returns the number of rows in all groups, and the sum of the unpacked bytes of all pages.
    """
    with inputs.open_file(path) as file:
        if file.seek(0, 2) < 2 * len(MAGIC) + LENGTH_BYTES:
            raise ValueError("is too short for a table")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            stop = len(data) - len(MAGIC) - LENGTH_BYTES
            # The length is stored with its lowest byte first.
            length = sum(byte << 8 * place for place, byte in enumerate(data[stop : stop + LENGTH_BYTES]))
            if data[: len(MAGIC)] != MAGIC or data[-len(MAGIC) :] != MAGIC or length > stop - len(MAGIC):
                raise ValueError("is not a Parquet file")
            footer = _Reader(data, stop - length, stop).read_struct()
            rows, unpacked = 0, 0
            for group in _get_structs(footer, 4):
                count = _get_number(group, 3)
                chunks = _get_structs(group, 1)
                if any(1 in chunk for chunk in chunks):
                    raise ValueError("has columns in other files")
                columns = [_get_struct(chunk, 3) for chunk in chunks]
                if any(_get_number(column, 5) != count for column in columns):
                    raise ValueError("has columns of unequal lengths")
                rows += count
                unpacked += sum(_sum_page_bytes(data, column, stop - length) for column in columns)
            if rows != _get_number(footer, 3):
                raise ValueError("counts its rows in two ways")
            return rows, unpacked


def _sum_page_bytes(data: mmap.mmap, chunk: dict[int, Any], end: int) -> int:
    """Sum the unpacked lengths of the pages of a column, which must hold as many values as the column claims."""
    start = min(_get_number(chunk, field) for field in (9, 11) if chunk.get(field))
    stop = start + _get_number(chunk, 7)
    if start < len(MAGIC) or stop > end:
        raise ValueError("has a column outside of its data")
    values = unpacked = 0
    while start < stop:
        reader = _Reader(data, start, stop)
        header = reader.read_struct()
        start = reader.at + _get_number(header, 3)
        if start > stop:
            raise ValueError("has a page that ends outside of its column")
        size = _get_number(header, 2)
        kind = next((field for field in (5, 7, 8) if field in header), None)
        number = _get_number(_get_struct(header, kind), 1) if kind else 0
        if kind == 7 and number > size:  # in a dictionary, each word takes a byte or more
            raise ValueError("has a dictionary of more words than bytes")
        values += number if kind != 7 else 0
        unpacked += size
    if values != _get_number(chunk, 5):
        raise ValueError("has pages with other values than their column")
    return unpacked


def _get_number(members: dict[int, Any], field: int) -> int:
    value = members.get(field)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError("lacks a number in its headers")
    return value


def _get_struct(members: dict[int, Any], field: int) -> dict[int, Any]:
    value = members.get(field)
    if isinstance(value, dict):
        return value
    raise ValueError("lacks a structure in its headers")


def _get_structs(members: dict[int, Any], field: int) -> list[dict[int, Any]]:
    values = members.get(field)
    if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
        raise ValueError("lacks a list in its headers")
    return values


class _Reader:
    """Reader of Thrift structures in a range of a file, as dictionaries by field number."""

    def __init__(self, data: mmap.mmap, at: int, stop: int) -> None:
        self._data, self.at, self._stop = data, at, stop

    def read_struct(self, depth: int = 0) -> dict[int, Any]:
        """Read a structure; each field number is stored as the difference from the previous one."""
        if depth > MAX_NESTED:
            raise ValueError("nests its headers too deeply")
        members: dict[int, Any] = {}
        field = 0
        while head := self._read_byte():
            field = field + (head >> 4) if head >> 4 else self._read_signed()
            members[field] = self._read_value(head & 15, depth, in_list=False)
        return members

    def _read_value(self, kind: int, depth: int, *, in_list: bool) -> Any:
        if kind in (TRUE, FALSE):
            # The type of a field includes its value; in a list, each value has a byte.
            return (self._read_byte() if in_list else kind) == TRUE
        if kind in INTEGERS:
            return self._read_signed()
        if kind in (BYTE, DOUBLE, BINARY):
            length = {BYTE: 1, DOUBLE: DOUBLE_BYTES}.get(kind) or self._read_varint()
            if length > self._stop - self.at:
                raise ValueError("has headers that end early")
            self.at += length
            return self._data[self.at - length : self.at]
        if kind in (LIST, SET):
            head = self._read_byte()
            # Four bits hold counts up to 14.
            count = self._read_varint() if head >> 4 == 15 else head >> 4
            # Each value takes a byte or more, so the length of the file bounds the number of values.
            if count > self._stop - self.at or depth > MAX_NESTED:
                raise ValueError("has a list that is longer than its headers")
            return [self._read_value(head & 15, depth + 1, in_list=True) for _ in range(count)]
        if kind == STRUCT:
            return self.read_struct(depth + 1)
        raise ValueError("has headers of an unknown kind")

    def _read_signed(self) -> int:
        number = self._read_varint()
        return number >> 1 if number % 2 == 0 else -(number >> 1) - 1

    def _read_varint(self) -> int:
        number = 0
        for place in range(_MAX_VARINT_BYTES):
            byte = self._read_byte()
            number |= (byte & 127) << 7 * place
            if byte < 128:
                return number
        raise ValueError("has a number of more than 64 bits in its headers")

    def _read_byte(self) -> int:
        if self.at >= self._stop:
            raise ValueError("has headers that end early")
        self.at += 1
        return self._data[self.at - 1]

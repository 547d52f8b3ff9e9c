"""Many structures at many addresses, as columns.

The dtypes are generated from the grammars; this module only gathers, through an overlapping view with stride 1: one
field touches nothing but that field, and of several fields whole records are copied first, which takes a third of the
time.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from layoutscope._generated import dtypes
from layoutscope.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray


ROWS_FROM: Final = 2
"""Fields from which on it is quicker to copy the records than to gather field by field."""


class _Place(NamedTuple):
    """Where a field lies in its record: offset, repeat counts with their strides, the scalar's dtype there and here."""

    field_offset: int
    counts: tuple[int, ...]
    strides: tuple[int, ...]
    scalar: np.dtype[Any]
    native: np.dtype[Any]


class _Fields:
    """Access to fields and instances by their names, the same for every way in which records may lie."""

    __slots__ = ()
    type_name: str

    def __getitem__(self, path: str) -> NDArray[Any]:
        """Gather one field or compute one ``value:`` instance.

        Parameters
        ----------
        path : str
            Dotted names; a repeated field adds an axis.

        Returns
        -------
        (n,) or (n, k) array
            In native byte order.

        Raises
        ------
        KeyError
            If the type has no such fixed field or instance.
        """
        column = dtypes.COLUMNS.get(self.type_name, {}).get(path)
        if column is not None:
            return np.asarray(column(_Wide(self)))
        place = _place(self.type_name, path)
        if place is None:
            owner, _, instance = path.rpartition(".")
            return self.nested(owner)[instance]
        return self._gather(place)

    def nested(self, path: str) -> _Fields:
        """Return the records of a nested type, one a record, so that its own instances can be named.

        Raises
        ------
        KeyError
            If there is no such nested record.
        """
        offset, name = _nested(self.type_name, path)
        return self._moved(name, offset)

    def _moved(self, type_name: str, offset: int) -> _Fields:
        raise NotImplementedError

    def _gather(self, place: _Place) -> NDArray[Any]:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Records(_Fields):
    """Records of one type at many places of one buffer.

    Attributes
    ----------
    type_name : str
        Full name of the type, ``grammar_id.type_id``.
    buffer : (n_bytes,) uint8 array
        Where they lie.
    positions : (n,) int64 array
        Their starts, in bytes from the start of the buffer.
    """

    type_name: str
    buffer: NDArray[np.uint8]
    positions: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.positions)

    def rows(self) -> Rows:
        """Copy the fixed prefix of every record, one after the other: it pays where several fields are wanted."""
        width = size(self.type_name)
        spots = max(0, len(self.buffer) - width + 1)
        view: NDArray[Any] = np.ndarray((spots,), f"V{width}", self.buffer, strides=(1,))
        return Rows(self.type_name, view[self.positions], 0)

    def _moved(self, type_name: str, offset: int) -> Records:
        return Records(type_name, self.buffer, self.positions + offset)

    def _gather(self, place: _Place) -> NDArray[Any]:
        width = place.scalar.itemsize + sum((n - 1) * s for n, s in zip(place.counts, place.strides, strict=True))
        spots = len(self.buffer) - place.field_offset - width + 1
        if spots <= 0:
            return np.empty((0, *place.counts), place.native)
        view: NDArray[Any] = np.ndarray(
            (spots, *place.counts), place.scalar, self.buffer, place.field_offset, (1, *place.strides)
        )
        return view[self.positions].astype(place.native, copy=False)


@dataclass(frozen=True, slots=True)
class Rows(_Fields):
    """Records of one type that lie one after the other.

    Attributes
    ----------
    type_name : str
        Full name of the type.
    data : (n,) void array
        Each item holds one record.
    first : int
        Where the record starts in its item, in bytes.
    """

    type_name: str
    data: NDArray[Any]
    first: int

    def _moved(self, type_name: str, offset: int) -> Rows:
        return Rows(type_name, self.data, self.first + offset)

    def _gather(self, place: _Place) -> NDArray[Any]:
        shape, strides = (len(self.data), *place.counts), (self.data.itemsize, *place.strides)
        if not len(self.data):
            return np.empty(shape, place.native)
        view: NDArray[Any] = np.ndarray(shape, place.scalar, self.data, self.first + place.field_offset, strides)
        return view.astype(place.native)


class _Wide:
    """Fields in 64 bits, so that shifts and sums of instances cannot overflow their field's width."""

    __slots__ = ("_records",)

    def __init__(self, records: _Fields) -> None:
        self._records = records

    def __getitem__(self, path: str) -> NDArray[Any]:
        values = self._records[path]
        if values.dtype.kind == "b":
            return values
        return values.astype(np.int64 if values.dtype.kind == "i" else np.uint64, copy=False)


def records(type_name: str, buffer: NDArray[np.uint8], positions: NDArray[Any]) -> Records:
    """Name records of one type at many places.

    Parameters
    ----------
    type_name : str
        Full name of the type, such as ``hfsplus_btree.node_descriptor``.
    buffer : (n_bytes,) uint8 array
        Contiguous bytes.
    positions : (n,) integer array
        Where the records start, in bytes from the start of the buffer.

    Raises
    ------
    FormatError
        If a record's fixed prefix does not fit into the buffer; ``image_offset`` is the position in the buffer.
    """
    starts = np.asarray(positions, np.int64)
    last = len(buffer) - size(type_name)
    if len(starts) and (int(starts.min()) < 0 or int(starts.max()) > last):
        first = int(starts[(starts < 0) | (starts > last)][0])
        raise FormatError(
            "record does not fit into its buffer",
            structure=type_name,
            image_offset=first,
            expected=f"a start of at most {last}",
            found=str(first),
        )
    return Records(type_name, np.ascontiguousarray(buffer).reshape(-1), starts)


def columns(
    type_name: str, buffer: NDArray[np.uint8], positions: NDArray[Any], fields: Sequence[str]
) -> dict[str, NDArray[Any]]:
    """Decode some fields of many records.

    Parameters
    ----------
    type_name, buffer, positions
        As for :func:`records`.
    fields : sequence of str
        Dotted names of fields of the fixed prefix, or of instances; a repeated field adds an axis.

    Returns
    -------
    dict of str to (n,) or (n, k) array
        In native byte order.

    Raises
    ------
    FormatError
        If a record's fixed prefix does not fit into the buffer.
    """
    found = records(type_name, buffer, positions)
    source = found.rows() if len(fields) >= ROWS_FROM else found
    return {field: source[field] for field in fields}


def size(type_name: str) -> int:
    """Return the size of a type's fixed prefix, in bytes."""
    return int(dtypes.DTYPES[type_name].itemsize)


def blank(type_name: str, values: Mapping[str, Any]) -> bytes:
    """Return a structure of zeros with some of its fields set, to stand for one that is lost.

    Parameters
    ----------
    type_name : str
        Full name of a type.
    values : mapping of str to int or sequence of int
        By the fields' dotted paths; a sequence fills the first items of a repeated field.
    """
    record = np.zeros(1, dtypes.DTYPES[type_name])
    for path, value in values.items():
        place: Any = record
        *above, last = path.split(".")
        for name in above:
            place = place[name]
        if isinstance(value, int):
            place[last] = value
        else:
            place[last][0, : len(value)] = value
    return record.tobytes()


def offset(type_name: str, path: str) -> int:
    """Return where a field starts, in bytes from the start of its record."""
    place = _place(type_name, path)
    if place is None:
        return _nested(type_name, path)[0]
    return place.field_offset


@cache
def _place(type_name: str, path: str) -> _Place | None:
    """Resolve a dotted path; None if it is not a field."""
    dtype: np.dtype[Any] = dtypes.DTYPES[type_name]
    field_offset = 0
    counts: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    for name in path.split("."):
        if dtype.fields is None or name not in dtype.fields:
            return None
        entry = dtype.fields[name]
        dtype, field_offset = entry[0], field_offset + entry[1]
        if dtype.subdtype is not None:
            dtype, shape = dtype.subdtype
            counts, strides = (*counts, *shape), (*strides, dtype.itemsize)
    return _Place(field_offset, counts, strides, dtype, dtype.newbyteorder("="))


@cache
def _nested(type_name: str, path: str) -> tuple[int, str]:
    """Offset and type of a nested record, found by its dtype."""
    place = _place(type_name, path) if path else None
    if place is None or place.counts:
        raise KeyError(f"{type_name} has no fixed field or instance {path!r}")
    grammar_id = type_name.split(".", maxsplit=1)[0]
    same = [name for name, dtype in dtypes.DTYPES.items() if dtype == place.scalar]
    if not same:
        raise KeyError(f"{type_name}.{path} is no record type")
    own = [name for name in same if name.startswith(f"{grammar_id}.")]
    return place.field_offset, (own or same)[0]

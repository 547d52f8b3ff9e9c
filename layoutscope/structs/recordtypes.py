"""Record types: the fields of an on-disk structure and their places, under names that type checkers know.

``ksy/build.py`` generates descriptors that are made of these. A record type describes the fixed prefix of a structure:
``BTREE_NODE.level`` is a field, ``BTREE_NODE.level.offset`` its place, ``BTREE_NODE.hdr.xid`` a field of a nested
record, with its place in the outer one. Fields and instances are also strings, equal to their dotted names, so decoded
columns can be accessed by field or by name.
"""

from __future__ import annotations

from functools import cache, cached_property, reduce
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import TypeAlias

    from numpy.typing import NDArray

    Formula: TypeAlias = Callable[[Any], Any]
    Kind: TypeAlias = "str | RecordType"
    Member: TypeAlias = Kind | tuple[Kind, int] | tuple[Kind, int | None, int] | Formula


class RecordColumn(str):
    """A value that can be decoded from many records: a field or a ``value:`` instance, by its dotted name."""

    __slots__ = ()


class Field(RecordColumn):
    """A field at a fixed place."""

    __slots__ = ("counts", "offset", "scalar", "strides")
    # where it starts, in bytes from the start of its record; for a repeated field, where the first item starts
    offset: int
    # counts, strides: numbers of repetitions of the field and the nested records around it, and their distances in
    # bytes, outermost first
    counts: tuple[int, ...]
    strides: tuple[int, ...]
    scalar: np.dtype[Any]  # of one item, in the byte order of the disk

    @property
    def width(self) -> int:
        """Bytes from its start to the end of its last item."""
        return self.scalar.itemsize + sum((n - 1) * s for n, s in zip(self.counts, self.strides, strict=True))

    @property
    def native(self) -> np.dtype[Any]:
        """The dtype of one item in memory."""
        return self.scalar.newbyteorder("=")


class Instance(RecordColumn):
    """A value that is computed from fields of its record."""

    __slots__ = ("formula", "prefix")
    formula: Formula  # computes the value from the fields, by their names
    prefix: str  # prefix of the names of those fields in a nested record


class RecordType:
    """The fixed prefix of one type of a grammar, or such a record nested in another."""

    def __init__(self, type_name: str, /, **members: Member) -> None:
        """Declare the members in disk order, followed by the instances."""
        self.type_name = type_name
        self.path = ""
        self.offset = 0
        self._members = members
        self._counts: tuple[int, ...] = ()
        self._strides: tuple[int, ...] = ()

    @cached_property
    def width(self) -> int:
        """Length of the fixed prefix in bytes."""
        return sum(room * (count or 1) for _, count, room in map(_placed, self._members.values()))

    @cached_property
    def _offsets(self) -> dict[str, int]:
        rooms = [room * (count or 1) for _, count, room in map(_placed, self._members.values())]
        return dict(zip(self._members, accumulate(rooms, initial=self.offset), strict=False))

    if not TYPE_CHECKING:  # the generated stub knows each type's members

        def __getattr__(self, name: str) -> Field | Instance | RecordType:
            """Return a field, an instance or a nested record, cached so that Python finds it directly next time."""
            member = vars(self).get("_members", {}).get(name)
            if member is None:
                raise AttributeError(name)
            if callable(member):
                found: Field | Instance | RecordType = Instance(self._named(name))
                found.formula, found.prefix = member, self._named("")
            else:
                found = self._field(name, *_placed(member))
            vars(self)[name] = found
            return found

    def within(
        self,
        path: str,
        offset: int,  # where it starts, in bytes from the start of the outer record
        counts: tuple[int, ...],
        strides: tuple[int, ...],
    ) -> RecordType:
        """Return this type as nested in another record."""
        nested = RecordType(self.type_name, **self._members)
        nested.path, nested.offset = path, offset
        nested._counts, nested._strides = counts, strides
        return nested

    def _field(self, name: str, kind: str | RecordType, count: int | None, room: int) -> Field | RecordType:
        counts = self._counts if count is None else (*self._counts, count)
        strides = self._strides if count is None else (*self._strides, room)
        if isinstance(kind, RecordType):
            return kind.within(self._named(name), self._offsets[name], counts, strides)
        field = Field(self._named(name))
        field.offset, field.counts, field.strides, field.scalar = self._offsets[name], counts, strides, np.dtype(kind)
        return field

    def _named(self, name: str) -> str:
        return f"{self.path}.{name}" if self.path else name

    @cache  # noqa: B019  (record types live as long as the program)
    def column(self, path: str) -> Field | Instance:
        """Return a field or an instance by its dotted name."""
        try:
            found = reduce(getattr, path.split("."), self)
        except AttributeError:
            found = self
        if not isinstance(found, Field | Instance):
            raise KeyError(f"{self.type_name} has no fixed field or instance {path!r}")
        return found

    def evaluate(
        self,
        path: str,
        read: Callable[[Field], Any],  # returns the value of a field
        convert: Callable[[Any], Any] = lambda value: value,  # applied to each operand of a formula
    ) -> Any:
        """Return the value of a field or instance by its dotted name."""
        column = self.column(path)
        return read(column) if isinstance(column, Field) else column.formula(_Operands(self, column, read, convert))

    def offset_of(self, path: str) -> int:
        """Return the start of a field or nested record by its dotted name, in bytes from the start of the record."""
        return int(reduce(getattr, path.split("."), self).offset)

    def members(self) -> Iterator[Field | Instance | RecordType]:
        """Yield fields, nested records and instances in disk order."""
        return (getattr(self, name) for name in self._members)

    @property
    def last_placed(self) -> str:
        """Name of the last member that has a place."""
        return [name for name, member in self._members.items() if not callable(member)][-1]

    def blank(self, values: Mapping[str, int | Sequence[int]]) -> bytes:
        """Return a record of zeros with some of its fields set, as a substitute for a lost one."""
        data = np.zeros(self.width, np.uint8)
        for path, value in values.items():
            field = self.column(path)
            if not isinstance(field, Field):
                raise KeyError(f"{self.type_name}.{path} has no place")
            place: NDArray[Any] = np.ndarray(field.counts, field.scalar, data, field.offset, field.strides)
            place[... if isinstance(value, int) else slice(len(value))] = value
        return data.tobytes()

    def fields(self) -> list[Field]:
        """List all fields, including those of nested records, in disk order."""
        found: list[Field] = []
        for member in self.members():
            if isinstance(member, RecordType):
                found += member.fields()
            elif isinstance(member, Field):
                found.append(member)
        return found

    def instances(self) -> list[Instance]:
        """List the instances of this type itself."""
        return [member for member in self.members() if isinstance(member, Instance)]


class _Operands:
    """The values that the formula of an instance uses, by name."""

    __slots__ = ("_convert", "_instance", "_read", "_record_type")

    def __init__(
        self, record_type: RecordType, instance: Instance, read: Callable[[Field], Any], convert: Callable[[Any], Any]
    ) -> None:
        self._record_type, self._instance, self._read, self._convert = record_type, instance, read, convert

    def __getitem__(self, path: str) -> Any:
        value = self._record_type.evaluate(self._instance.prefix + path, self._read, self._convert)
        return self._convert(value)


def _placed(member: Member) -> tuple[str | RecordType, int | None, int]:
    """Return the type of a member, its count and the size of one item in bytes, which is 0 for an instance."""
    if isinstance(member, RecordType):
        return member, None, member.width
    if isinstance(member, str):
        return member, None, np.dtype(member).itemsize
    if callable(member):
        return "", None, 0
    kind, count, *room = member
    return kind, count, room[0] if room else _placed(kind)[2]

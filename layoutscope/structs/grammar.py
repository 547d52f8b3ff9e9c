"""Parses one structure at one address with its compiled grammar.

The generated classes are reached by name here (``grammar.Gpt.Header``) and imported when first used.
Parse errors become :class:`~layoutscope.errors.FormatError` with the address on the image; Kaitai's own positions are
relative to the buffer.
"""

from __future__ import annotations

import io
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar, cast

from kaitaistruct import EndOfStreamError, KaitaiStream, KaitaiStructError, ValidationFailedError
from msgspec.structs import replace

from layoutscope import _generated, display
from layoutscope.errors import FormatError, TruncatedError
from layoutscope.structs import records
from layoutscope.structs.recordtypes import RecordType

if TYPE_CHECKING:
    from collections.abc import Iterator
    from enum import IntEnum

    from layoutscope._generated import *  # noqa: F403
    from layoutscope._generated.base import Struct as Struct  # noqa: PLC0414  (others name it from here)
    from layoutscope.structs.arrays import U8

    T = TypeVar("T", bound=Struct)
else:

    def __getattr__(name: str) -> Any:
        """Return a generated class by name, and cache it."""
        globals()[name] = found = getattr(_generated, name)
        return found


class FieldValue(display.Struct, frozen=True):
    """One parsed field, for display."""

    path: str  # names from the structure down, such as `data_fork.extents[0].start_block`
    image_offset: int | None  # where it starts, in bytes from the start of the image; None for a computed value
    length_bytes: int  # its width; 0 for a computed value
    value: object  # number, enum member, bytes or bool


def parse(
    cls: type[T],
    data: bytes | memoryview,
    *,
    structure: str,
    image_offset: int = 0,  # place of the buffer, in bytes from the start of the image
) -> T:
    """Parse one structure from the start of a buffer."""
    # Classes compiled for debugging record the place of each field, which findings need, and read only on request.
    parsed = cls(KaitaiStream(io.BytesIO(data)))
    try:
        parsed._read()
    except KaitaiStructError as error:
        raise _explain_error(error, parsed, structure, image_offset) from error
    return parsed


def member_name(kinds: type[IntEnum], value: Any) -> str:
    """Return the name of the enumeration member with a value; empty if there is none."""
    try:
        return kinds(value).name
    except ValueError:
        return ""


@cache
def parser(record_type: RecordType) -> type[Struct]:
    """Return the generated class of a record type."""
    found: Any = _generated
    for name in record_type.type_name.split("."):
        found = getattr(found, "".join(part.capitalize() for part in name.split("_")))
    return cast("type[Struct]", found)


def width_of(cls: type[Struct]) -> int:
    """Return the length of the fixed prefix of a generated class in bytes."""
    return _record_types()[cls.__qualname__.lower()].width


@cache
def _record_types() -> dict[str, RecordType]:
    # The names of types differ from those of classes only in form: `gpt.partition_entry` is `Gpt.PartitionEntry`.
    found = (item for item in vars(records).values() if isinstance(item, RecordType))
    return {item.type_name.replace("_", ""): item for item in found}


def parse_fixed(record_type: RecordType, buffer: U8, start: int) -> Struct:
    """Parse the fixed prefix of a record that starts somewhere in a buffer; anything may follow it."""
    data = buffer[start : start + record_type.width].tobytes()
    parsed = parser(record_type)(KaitaiStream(io.BytesIO(data)))
    try:
        parsed._read()  # noqa: SLF001
    except KaitaiStructError as error:
        # An instance may use any field, so all of them must be present.
        if "end" not in parsed._debug.get(record_type.last_placed, {}):  # noqa: SLF001
            raise _explain_error(error, parsed, record_type.type_name, start) from error
    return parsed


def value_at(parsed: Any, path: str) -> Any:
    """Return a field or instance of a parsed structure by its dotted name; a list if it is repeated."""
    first, _, rest = path.partition(".")
    value = getattr(parsed, first)
    if rest:
        return [value_at(member, rest) for member in value] if isinstance(value, list) else value_at(value, rest)
    if isinstance(value, list):
        return [int(member) for member in value]
    return value if isinstance(value, bool | bytes) else int(value)


def _explain_error(error: KaitaiStructError, parsed: Struct, structure: str, image_offset: int) -> FormatError:
    """Describe a parser's error, with the address of the field at which it stopped."""
    # The field that was being read is the one that starts last.
    starts = (spot["start"] for spot in parsed._debug.values() if "start" in spot)  # noqa: SLF001
    at = image_offset + max(starts, default=0)
    if isinstance(error, EndOfStreamError):
        return TruncatedError("ends past its buffer", structure=structure, image_offset=at)
    if not isinstance(error, ValidationFailedError):
        return FormatError(str(error), structure=structure, image_offset=at)
    # Name the field that was begun last, down through nested structures.
    names: list[str] = []
    item: Any = parsed
    while item is not None and getattr(item, "_debug", None):
        names.append(list(item._debug)[-1])  # noqa: SLF001
        item = getattr(item, names[-1], None)
    return FormatError(
        f"unexpected value of {'.'.join(names)}" if names else "unexpected value",
        structure=structure,
        image_offset=at,
        expected=_format_field(getattr(error, "expected", "")),
        found=_format_field(getattr(error, "actual", "")),
    )


def _format_field(value: object) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)


def field_values(
    parsed: Any,
    base: int,  # place of its buffer, in bytes from the start of the image
    prefix: str = "",
) -> Iterator[FieldValue]:
    """Yield every field of a parsed structure with its address, length and value."""
    for name, spot in parsed._debug.items():  # noqa: SLF001
        if name.startswith("_") or "end" not in spot:
            continue
        value = getattr(parsed, name, None)
        items = spot.get("arr")
        if items is None:
            yield from _field(value, spot, base, prefix + name)
        else:
            for number, (item, place) in enumerate(zip(value or [], items, strict=False)):
                yield from _field(item, place, base, f"{prefix}{name}[{number}]")
    # Computed values are instances that are properties of the generated class.
    for name, member in vars(type(parsed)).items():
        if isinstance(member, property) and name not in parsed._debug:  # noqa: SLF001
            value = getattr(parsed, name)
            if isinstance(value, int | str | bytes) or value is None:
                yield FieldValue(prefix + name, None, 0, value)


def _field(value: Any, spot: dict[str, Any], base: int, path: str) -> Iterator[FieldValue]:
    if hasattr(value, "_debug"):
        # A field with its own size is parsed from a substream, whose positions start at 0 again.
        own_stream = spot.get("start") is not None and value._debug and _starts_at_zero(value, spot)  # noqa: SLF001
        yield from field_values(value, base + (spot["start"] if own_stream else 0), f"{path}.")
        return
    yield FieldValue(path, base + spot["start"], spot["end"] - spot["start"], value)


def _starts_at_zero(value: Any, spot: dict[str, Any]) -> bool:
    first = min((place["start"] for place in value._debug.values() if "start" in place), default=spot["start"])  # noqa: SLF001
    return bool(first < spot["start"])


# Display of the structure at one place of a disk


class Described(display.Struct, frozen=True):
    """One structure, field by field."""

    title: str  # what it is, in technical terms
    # start, stop: its place in its buffer, in bytes
    start: int
    stop: int
    fields: tuple[FieldValue, ...]  # its fields; addresses count from the start of the buffer
    error: str = ""  # why fields are missing

    def value(self, *names: str) -> object:
        """Return the value of the first field whose path ends with one of the names; None if there is none."""
        for name in names:
            for field in self.fields:
                if field.path.rpartition(".")[2] == name:
                    return field.value
        return None


def describe_structure(
    cls: type[Struct],
    data: bytes,
    start: int,  # start, stop: place of the structure in it, in bytes
    stop: int,
    title: str,
) -> Described:
    """Parse one structure of a buffer; damage is reported in its place."""
    try:
        parsed = parse(cls, data[start:stop], structure=title, image_offset=start)
        return Described(title, start, stop, tuple(field_values(parsed, start)))
    except FormatError as error:
        return Described(title, start, stop, (), str(error))


def combined(title: str, *parts: Described) -> Described:
    """Combine the parts of a record, such as key and value; each part's title becomes the prefix of its fields."""
    fields = tuple(replace(field, path=f"{part.title}.{field.path}") for part in parts for field in part.fields)
    error = "; ".join(part.error for part in parts if part.error)
    return Described(title, min(part.start for part in parts), max(part.stop for part in parts), fields, error)

"""A parsed structure with its title, for people who look at one place of a disk."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from layoutscope.errors import FormatError
from layoutscope.ondisk import grammar

if TYPE_CHECKING:
    from layoutscope._generated.base import Struct
    from layoutscope.ondisk.grammar import FieldValue


@dataclass(frozen=True, slots=True)
class Described:
    """One structure, field by field.

    Attributes
    ----------
    title : str
        What it is, in the field's words.
    start, stop : int
        Where it lies in its buffer, in bytes.
    fields : tuple of FieldValue
        Its fields; addresses count from the start of the buffer.
    error : str
        Why fields are missing.
    """

    title: str
    start: int
    stop: int
    fields: tuple[FieldValue, ...]
    error: str = ""

    def value(self, *names: str) -> object:
        """Return the value of the first field whose path ends with one of the names; None without one."""
        for name in names:
            for field in self.fields:
                if field.path.rpartition(".")[2] == name:
                    return field.value
        return None


def describe_structure(cls: type[Struct], data: bytes, start: int, stop: int, title: str) -> Described:
    """Parse one structure of a buffer; damage is told in its place.

    Parameters
    ----------
    cls : type
        Generated class.
    data : bytes
        The buffer.
    start, stop : int
        Where the structure lies in it, in bytes.
    title : str
        What it is.
    """
    try:
        parsed = grammar.parse(cls, data[start:stop], structure=title, image_offset=start)
        return Described(title, start, stop, tuple(grammar.field_values(parsed, start)))
    except FormatError as error:
        return Described(title, start, stop, (), str(error))


def combined(title: str, *parts: Described) -> Described:
    """Put the parts of a record, such as key and value, into one; each part's title is the prefix of its fields."""
    fields = tuple(replace(field, path=f"{part.title}.{field.path}") for part in parts for field in part.fields)
    error = "; ".join(part.error for part in parts if part.error)
    return Described(title, min(part.start for part in parts), max(part.stop for part in parts), fields, error)

"""The documents that describe the formats, as their sections list structures and constants."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent
FORMATS = ("hfsplus", "apfs")


@dataclass(frozen=True)
class DocField:
    """A field as the document has it.

    A size of 0 varies. ``grammar`` leads to it where its name does not; ``also`` to where the same bytes are read
    through another type.
    """

    name: str
    offset: int
    size: int
    grammar: tuple[str, ...]
    also: tuple[str, ...]
    because: str


@dataclass(frozen=True)
class Structure:
    """A structure of the document."""

    name: str
    size: int
    fields: tuple[DocField, ...]


@dataclass(frozen=True)
class Constant:
    """A constant of the document: a number, or text where it is not a number."""

    name: str
    value: int | str
    grammar: tuple[str, ...]
    because: str


@dataclass(frozen=True)
class Section:
    """A section of the document; ``about``, ``see`` and ``because`` are of those that are words alone."""

    title: str
    anchor: str
    page: int
    about: str
    see: tuple[str, ...]
    because: str
    structures: tuple[Structure, ...]
    constants: tuple[Constant, ...]


@dataclass(frozen=True)
class Document:
    """A document, and what of the grammars is beyond it, with the source of that."""

    name: str
    edition: str
    url: str
    sections: tuple[Section, ...]
    beyond: dict[str, str]

    def structures(self) -> Iterator[tuple[Section, Structure]]:
        """Yield every structure with its section."""
        return ((section, each) for section in self.sections for each in section.structures)

    def constants(self) -> Iterator[tuple[Section, Constant]]:
        """Yield every constant with its section."""
        return ((section, each) for section in self.sections for each in section.constants)


@cache
def document(name: str) -> Document:
    """Read the document of a format.

    Parameters
    ----------
    name : str
        One of `FORMATS`.
    """
    data = tomllib.loads((HERE / f"{name}.toml").read_text(encoding="utf-8"))
    sections = tuple(_section(each) for each in data["section"])
    return Document(data["document"], data["edition"], data["url"], sections, data.get("beyond", {}))


def _section(data: dict[str, Any]) -> Section:
    return Section(
        data["title"],
        data.get("anchor", ""),
        data.get("page", 0),
        data.get("about", ""),
        tuple(data.get("see", ())),
        data.get("because", ""),
        tuple(_structure(each) for each in data.get("structure", ())),
        tuple(each for group in data.get("constants", ()) for each in _constants(group)),
    )


def _structure(data: dict[str, Any]) -> Structure:
    grammar, also, because = data.get("grammar", {}), data.get("also", {}), data.get("because", {})
    reason = because if isinstance(because, str) else ""
    reasons = {} if isinstance(because, str) else because
    fields = tuple(
        DocField(
            name,
            offset,
            size,
            _addresses(grammar.get(name, ())),
            _addresses(also.get(name, ())),
            reasons.get(name, reason),
        )
        for name, offset, size in data["fields"]
    )
    return Structure(data["name"], data["size"], fields)


def _constants(data: dict[str, Any]) -> Iterator[Constant]:
    grammar, because = data.get("grammar", {}), data.get("because", {})
    reason = because if isinstance(because, str) else ""
    reasons = {} if isinstance(because, str) else because
    for name, value in data["values"]:
        number = int(value, 16) if isinstance(value, str) and value.startswith("0x") else value
        yield Constant(name, number, _addresses(grammar.get(name, ())), reasons.get(name, reason))


def _addresses(value: str | list[str]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)

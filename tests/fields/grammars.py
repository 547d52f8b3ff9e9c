"""The grammars as the documents see them: types and fields by the documents' names, with their places.

Places of the fixed prefix are those of the generated record types, by which readers gather; a place after it, which
only the parser reaches, is counted from the grammar's text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from layoutscope._generated import records
from layoutscope.structs.recordtypes import Field, RecordType

KSY = Path(__file__).resolve().parents[2] / "ksy"
NUMBERS = re.compile(r"[us](\d)(?:le|be)?")


@dataclass(frozen=True)
class GrammarField:
    """A field of a grammar's type: its address ``grammar.type.field``, its place and size in bytes where fixed."""

    address: str
    original: str
    offset: int | None
    size: int | None
    member: str

    @property
    def type_name(self) -> str:
        """Full name of its type."""
        return self.address.rpartition(".")[0]


@cache
def grammars() -> dict[str, dict[str, Any]]:
    """Return the text of each grammar."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times as quick, where libyaml is there
    return {path.stem: yaml.load(path.read_text(encoding="utf-8"), loader) for path in sorted(KSY.glob("*.ksy"))}  # noqa: S506


@cache
def types() -> dict[str, dict[str, Any]]:
    """Return each type by its full name."""
    return {f"{name}.{key}": body for name, spec in grammars().items() for key, body in spec["types"].items()}


@cache
def record_types() -> dict[str, RecordType]:
    """Return the generated record types by the full names of their types."""
    found = (value for value in vars(records).values() if isinstance(value, RecordType))
    return {each.type_name: each for each in found}


def _full_name(grammar: str, name: str) -> str:
    return name.replace("::", ".") if "::" in name else f"{grammar}.{name}"


@cache
def width(type_name: str) -> int | None:
    """Return the size of a type, None if it varies."""
    fields = fields_of(type_name)
    if not all(field.offset is not None and field.size is not None for field in fields):
        return None
    return sum(field.size or 0 for field in fields)


@cache
def fields_of(type_name: str) -> tuple[GrammarField, ...]:
    """Return the fields of a type in the order of the disk."""
    grammar = type_name.split(".", maxsplit=1)[0]
    found, offset = [], 0
    for item in types()[type_name].get("seq", []):
        size = _size(grammar, item)
        kind = item.get("type")
        member = _full_name(grammar, kind) if isinstance(kind, str) and not NUMBERS.fullmatch(kind) else ""
        address = f"{type_name}.{item['id']}"
        found.append(GrammarField(address, item.get("-orig-id", ""), offset, size, member))
        offset = offset + size if offset is not None and size is not None else None
    return tuple(_as_generated(field) for field in found)


def _as_generated(field: GrammarField) -> GrammarField:
    """Return a field with the place that the generated record type has for it, if it has it."""
    record = record_types().get(field.type_name)
    own = getattr(record, field.address.rpartition(".")[2], None)
    if isinstance(own, Field):
        return GrammarField(field.address, field.original, own.offset, own.width, field.member)
    if isinstance(own, RecordType):
        return GrammarField(field.address, field.original, own.offset, field.size, field.member)
    return field


def _size(grammar: str, item: dict[str, Any]) -> int | None:
    """Count the bytes of a field from the grammar's text; None if they vary."""
    if item.get("repeat") in ("eos", "until"):
        return None
    times = item.get("repeat-expr", 1)
    one = _one(grammar, item)
    return one * times if isinstance(times, int) and one is not None else None


def _one(grammar: str, item: dict[str, Any]) -> int | None:
    if "contents" in item:
        return len(item["contents"])
    kind = item.get("type")
    if "size" in item or kind is None:
        return item["size"] if isinstance(item.get("size"), int) else None
    if not isinstance(kind, str):
        return None
    number = NUMBERS.fullmatch(kind)
    return int(number[1]) if number else width(_full_name(grammar, kind).split("(")[0])


@cache
def _by_original() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, body in types().items():
        found.setdefault(body.get("-orig-id", ""), []).append(name)
    return found


def named(structure: str) -> list[str]:
    """Return the types that say that they are a structure of the document, the parts before the whole."""
    return _by_original().get(structure, [])


def place(address: str) -> GrammarField:
    """Return a field by its address; of a type's address, the type as a whole.

    Raises KeyError if the address names no field.
    """
    if address in types():
        return GrammarField(address, "", 0, width(address), address)
    found = [field for field in fields_of(address.rpartition(".")[0]) if field.address == address]
    if not found:
        raise KeyError(address)
    return found[0]


def instances_of(type_name: str) -> dict[str, dict[str, Any]]:
    """Return the instances of a type."""
    return dict(types()[type_name].get("instances", {}))


@cache
def constants() -> dict[str, tuple[tuple[str, int | None], ...]]:
    """Return, by the documents' names, the enums' values and the instances that are a constant, with the number."""
    found: dict[str, list[tuple[str, int | None]]] = {}
    for grammar, spec in grammars().items():
        for enum, values in spec.get("enums", {}).items():
            for number, body in values.items():
                if "-orig-id" in body:
                    found.setdefault(body["-orig-id"], []).append((f"{grammar}.{enum}.{body['id']}", int(number)))
    for name in types():
        for key, body in instances_of(name).items():
            if "-orig-id" in body:
                found.setdefault(body["-orig-id"], []).append((f"{name}.{key}", None))
    return {name: tuple(each) for name, each in found.items()}


def held(address: str, value: int | str) -> bool:
    """Return whether the grammar of a field or an instance has a constant in it, as a number or by a name."""
    type_name, _, name = address.rpartition(".")
    body = types()[type_name]
    text = [each for each in body.get("seq", []) if each["id"] == name] or [body.get("instances", {})[name]]
    numbers = re.findall(r"0x[0-9a-fA-F]+|\d+", yaml.safe_dump(text))
    return isinstance(value, int) and value in {
        int(number, 0) for number in numbers if not re.fullmatch(r"0\d+", number)
    }

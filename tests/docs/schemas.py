"""JSON Schemas of what each verb prints with ``--json``: ``python -m tests.docs.schemas FOLDER`` writes them.

Types, members and descriptions come from the types of results and from :data:`layoutscope.report.json.SHAPES`. A field
has its annotation and its entry in the docstring of its class; a property has the type that it returns and its own
docstring; what is computed says both. A test compares many documents with them.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import sys
from collections.abc import Mapping
from enum import Enum
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin

from msgspec import Struct, UnsetType

import layoutscope
from layoutscope.report.json import IDS, SCHEMAS, SHAPES, Member, shape_of
from layoutscope.results.inspect import StateLine
from layoutscope.results.predict import DriveFacts
from tests.docs.imports import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

DIALECT = "https://json-schema.org/draft/2020-12/schema"
TYPES = {bool: "boolean", int: "integer", float: "number", str: "string", NoneType: "null"}
READ_AS = {
    "object": dict,
    "array": list,
    "string": str,
    "number": (int, float),
    "integer": int,
    "boolean": bool,
    "null": type(None),
}
LISTS = {"layoutscope.checkpoints/1": ("states", StateLine), "layoutscope.drives/1": ("drives", DriveFacts)}
"""Documents that hold results of one kind under a name."""

CACHE = {
    "folder": str | None,
    "limit_bytes": int,
    "freed_bytes": int | None,
    "images": [{"name": str, "size_bytes": int, "stored_bytes": int, "used": str}],
}
"""What ``cache --json`` prints, which is not a result of the library."""


def schemas() -> dict[str, dict[str, Any]]:
    """Make the schema of each kind of document, by the verb."""
    found = {name: object_schema(kind, shape_of(kind)) for kind, name in SCHEMAS.items()}
    found |= {name: members_schema({key: list[kind]}) for name, (key, kind) in LISTS.items()}
    found["layoutscope.cache/1"] = members_schema(CACHE)
    for name, schema in found.items():
        head = {"schema": {"const": name, "description": "name and version of this document"}}
        schema["properties"] = {**head, **schema["properties"], **head}
        schema["required"] = list(dict.fromkeys(["schema", *schema["required"]]))
    return {re.split(r"[./]", name)[1]: {"$schema": DIALECT, "title": name, **each} for name, each in found.items()}


def members_schema(members: dict[str, Any]) -> dict[str, Any]:
    """Describe an object by the types of its members."""
    properties = {name: value_schema(kind) for name, kind in members.items()}
    return {"type": ["object"], "properties": properties, "required": list(members)}


def object_schema(kind: Any, shape: Any) -> dict[str, Any]:
    """Describe the object that a type becomes."""
    properties, required = dict[str, Any](), list[str]()
    if kind in SCHEMAS:
        properties["schema"] = {"const": SCHEMAS[kind]}
        required.append("schema")
    for name, source in shape.items():
        annotation, text, inner = described(kind, source)
        schema = summary_schema() if source == "summary" else value_schema(annotation, inner)
        if name == "*":
            properties |= schema["properties"]
            required += schema["required"]
            continue
        if name in IDS:
            schema["type"] = ["string"]
        properties[name] = schema | {"description": text} if text else schema
        if UnsetType not in get_args(annotation):
            required.append(name)
    return {"type": ["object"], "properties": properties, "required": list(dict.fromkeys(required))}


@cache
def summary_schema() -> dict[str, Any]:
    """Describe the totals of a service, whose names are those of any result."""
    reads = layoutscope.trace(ROOT / "fixtures" / "images" / "hfsplus-scattered.img.zst")
    found = layoutscope.service(reads, layoutscope.load_profile("generic-7200")).summary()
    return members_schema({name: type(value) for name, value in found.items()})


def described(kind: Any, source: Any) -> tuple[Any, str, Any]:
    """Return the type of a member, what it is, and the shape of what it holds."""
    path, inner = (source, None) if isinstance(source, str | Member) else source
    if isinstance(path, Member):
        return path.kind, path.about, inner
    text = ""
    for step in path.split("."):
        if step.isdigit():
            (kind, *_), text = get_args(kind), ""
            continue
        owner = next(each for each in (*get_args(kind), kind) if step in {*dir(each), *each.__annotations__})
        member = inspect.getattr_static(owner, step, None)
        code = member.fget if isinstance(member, property) else member
        if inspect.isfunction(code):
            kind, text = resolved(code.__annotations__["return"], code), summary(code)
        else:
            kind, text = resolved(owner.__annotations__[step], owner), field_text(owner, step)
    return kind, text, inner


def value_schema(kind: Any, shape: Any = None) -> dict[str, Any]:
    """Describe the values of a type."""
    if get_origin(kind) in (Union, UnionType):
        return joined([value_schema(each, shape) for each in get_args(kind) if each is not UnsetType])
    if isinstance(kind, list):
        return {"type": ["array"], "items": members_schema(kind[0])}
    arguments = get_args(kind)
    origin = get_origin(kind) or kind
    if isinstance(kind, type) and (issubclass(kind, Struct) or kind in SHAPES):
        return object_schema(kind, shape or shape_of(kind))
    if origin in (dict, Mapping) and get_origin(arguments[0]) is Literal:
        return members_schema(dict.fromkeys(get_args(arguments[0]), arguments[1]))
    if origin in (dict, Mapping):
        return {"type": ["object"], "additionalProperties": value_schema(arguments[1], shape)}
    if origin in (tuple, list):
        item = get_args(arguments[0])
        if get_origin(arguments[0]) is tuple and arguments[-1] is ... and item[0] is str:
            if shape:
                members = members_schema(dict(zip(shape, item, strict=True)))
                return {"type": ["array"], "items": members}
            return {"type": ["object"], "additionalProperties": value_schema(item[1])}
        kinds = [value_schema(each, shape) for each in dict.fromkeys(arguments) if each is not ...]
        return {"type": ["array"], "items": joined(kinds)}
    if isinstance(kind, type) and issubclass(kind, Enum):
        return {"type": ["string"], "enum": [each.value for each in kind]}
    if origin is Literal:
        return {"type": ["string"], "enum": list(arguments)}
    return {} if kind is Any else {"type": [TYPES[kind]]}


def joined(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Make one schema of those of the types that a value may have."""
    types = {kind for each in found for kind in each.get("type", ())}
    if not all(found) or not types:
        return {}
    types -= {"integer"} if "number" in types else set()
    return {key: value for each in found for key, value in each.items()} | {"type": sorted(types)}


def summary(code: Any) -> str:
    """Return the first paragraph of a docstring as a description."""
    return description(inspect.getdoc(code) or "")


def description(text: str) -> str:
    """Return the first paragraph of a text in one line, in the words of JSON."""
    line = " ".join(text.split("\n\n", maxsplit=1)[0].split()).replace("`", "")
    return re.sub(r"\bNone\b", "null", line[:1].lower() + line[1:].rstrip("."))


def field_text(kind: Any, name: str) -> str:
    """Return the description of a field from the docstring of its class; structs have comments at their fields."""
    return field_texts(kind).get(name, "")


@cache
def field_texts(kind: Any) -> dict[str, str]:
    """Return the description of each field from the docstring of a class."""
    parts = re.split(r"^(\w+(?:, \w+)*) :.*\n", inspect.getdoc(kind) or "", flags=re.MULTILINE)
    found = zip(parts[1::2], parts[2::2], strict=True)
    return {name: description(text) for listed, text in found for name in listed.split(", ")}


def resolved(annotation: Any, of: Any) -> Any:
    """Evaluate an annotation with all that its module imports, for type checkers alone, too."""
    text = getattr(annotation, "__forward_arg__", annotation)  # as a named tuple has it
    return eval(text, names_of(of.__module__)) if isinstance(text, str) else text  # noqa: S307


@cache
def names_of(module: str) -> dict[str, Any]:
    """Return the names of a module, those that only type checkers import among them."""
    names = dict(vars(sys.modules[module]))
    for node in ast.parse(inspect.getsource(sys.modules[module])).body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            exec(ast.unparse(node.body), names)  # noqa: S102  (imports of our own)
    return names


def described_members(schema: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield the path of each member of a document with what it is."""
    for name, each in schema.get("properties", {}).items():
        path = f"{prefix}{name}"
        inner = each.get("items", each) if "array" in each.get("type", ()) else each
        yield path, each.get("description", "")
        yield from described_members(inner, f"{path}[]." if inner is not each else f"{path}.")


def faults(value: Any, schema: dict[str, Any], place: str = "$") -> list[str]:
    """List where a value contradicts a schema, as far as our schemas go."""
    if "const" in schema:
        return [] if value == schema["const"] else [f"{place}: {value!r}"]
    kinds = schema.get("type")
    if kinds and not any(
        isinstance(value, READ_AS[kind]) and (not isinstance(value, bool) or kind == "boolean") for kind in kinds
    ):
        return [f"{place}: {value!r} is none of {kinds}"]
    found = []
    if isinstance(value, dict):
        known = schema.get("properties", {})
        found += [f"{place}.{name} is missing" for name in schema.get("required", ()) if name not in value]
        others = schema.get("additionalProperties")
        for name, each in value.items():
            if name not in known and others is None:
                found.append(f"{place}.{name} is unknown")
            found += faults(each, known.get(name, others or {}), f"{place}.{name}")
    if isinstance(value, list):
        for number, each in enumerate(value):
            found += faults(each, schema.get("items", {}), f"{place}[{number}]")
    return found


def files() -> dict[str, str]:
    """Return the text of each schema by the name of its file."""
    return {f"{verb}.json": json.dumps(schema, indent=1) + "\n" for verb, schema in schemas().items()}


def listed() -> str:
    """Return links to the schemas."""
    return "\n".join(f"- [{name}]({name})" for name in sorted(files()))


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(exist_ok=True)
    for name, text in files().items():
        (folder / name).write_text(text, encoding="utf-8")

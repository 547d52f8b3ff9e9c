"""Type stubs of the compiled grammars, and the package file that reaches them lazily."""

from __future__ import annotations

import re
from typing import Any

import records

INTEGER = re.compile(r"^([us][1248](le|be)?|b\d+)$")
BASE = '''from typing import Any

class Struct:
    """What every compiled type has."""

    _io: Any
    _debug: dict[str, dict[str, Any]]
    SEQ_FIELDS: list[str]
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    def _read(self) -> None: ...
'''


def render(grammar_id: str, spec: dict[str, Any], grammars: dict[str, dict[str, Any]]) -> str:
    """Return the text of one grammar's ``.pyi``."""
    imports = sorted({name for name in spec["meta"].get("imports", []) if name in grammars})
    lines = ["from enum import IntEnum\nfrom typing import Any\n\nfrom .base import Struct\n"]
    lines += [f"from . import {name}\n" for name in imports]
    lines.append(f"\nclass {records.camel(grammar_id)}(Struct):\n")
    for enum, values in spec.get("enums", {}).items():
        lines.append(f"    class {records.camel(enum)}(IntEnum):\n")
        lines += [f"        {_label(body)} = {int(number, 0)}\n" for number, body in values.items()]
    for name, body in spec.get("types", {}).items():
        lines.append(f"    class {records.camel(name)}(Struct):\n")
        lines += _members(body or {}, grammar_id, grammars, "        ")
    lines += _members(spec, grammar_id, grammars, "    ")
    return "".join(lines)


def _label(body: Any) -> str:
    return body["id"] if isinstance(body, dict) else str(body)


def _members(spec: dict[str, Any], grammar_id: str, grammars: dict[str, dict[str, Any]], indent: str) -> list[str]:
    lines = [f"{indent}{param['id']}: Any\n" for param in spec.get("params", [])]
    lines += [
        f"{indent}{field['id']}: {_annotation(field, grammar_id, grammars)}\n"
        for field in spec.get("seq", [])
        if "id" in field
    ]
    for name, body in spec.get("instances", {}).items():
        kind = _value_type(body, grammar_id) if "value" in body else _annotation(body, grammar_id, grammars)
        lines += [f"{indent}@property\n", f"{indent}def {name}(self) -> {kind}: ...\n"]
    return lines or [f"{indent}...\n"]


def _value_type(body: dict[str, Any], grammar_id: str) -> str:
    if "enum" in body:
        return f"{records.camel(grammar_id)}.{records.camel(body['enum'])}"
    text = str(body["value"])
    return (
        "bool"
        if re.search(r"==|!=|<(?!<)|>(?!>)|\bnot\b|\band\b|\bor\b", text.replace("<<", "").replace(">>", ""))
        else "Any"
        if "?" in text
        else "int"
    )


def _annotation(field: dict[str, Any], grammar_id: str, grammars: dict[str, dict[str, Any]]) -> str:
    kind = _scalar(field, grammar_id, grammars)
    return f"list[{kind}]" if "repeat" in field else kind


def _scalar(field: dict[str, Any], grammar_id: str, grammars: dict[str, dict[str, Any]]) -> str:
    kind = field.get("type")
    if kind is None:
        return "bytes"
    if not isinstance(kind, str):
        return "Any"
    if INTEGER.match(kind):
        if kind == "b1":
            return "bool"
        return _enum(field["enum"], grammar_id) if "enum" in field else "int"
    if kind in ("f4", "f8"):
        return "float"
    name = records.qualify(kind, grammar_id, grammars)
    return "Any" if name is None else _type_path(name, grammar_id)


def _enum(reference: str, grammar_id: str) -> str:
    if "::" in reference:
        module, enum = reference.split("::")
        return f"{module}.{records.camel(module)}.{records.camel(enum)}"
    return f"{records.camel(grammar_id)}.{records.camel(reference)}"


def _type_path(name: str, grammar_id: str) -> str:
    owner, _, type_id = name.partition(".")
    path = records.camel(owner) + (f".{records.camel(type_id)}" if type_id else "")
    return path if owner == grammar_id else f"{owner}.{path}"


def render_package(grammars: dict[str, dict[str, Any]]) -> str:
    """Return the text of ``__init__.py``: classes are imported when they are first named."""
    names = {records.camel(grammar_id): grammar_id for grammar_id in grammars}
    rows = "".join(f"    {name!r}: {module!r},\n" for name, module in names.items())
    return (
        '"""Parsers compiled from the grammars in ksy/."""\n\nfrom importlib import import_module\n\n'
        f"_MODULES = {{\n{rows}}}\n__all__ = list(_MODULES)\n\n\n"
        "def __getattr__(name):\n"
        "    if name not in _MODULES:\n        raise AttributeError(name)\n"
        '    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)\n'
    )


def render_package_stub(grammars: dict[str, dict[str, Any]]) -> str:
    """Return the text of ``__init__.pyi``."""
    names = [(records.camel(grammar_id), grammar_id) for grammar_id in grammars]
    lines = [f"from .{module} import {name} as {name}\n" for name, module in names]
    rows = "".join(f"    {name!r},\n" for name, _ in names)
    return "".join(lines) + f"\n__all__ = [\n{rows}]\n"

"""Numpy dtypes and column expressions from grammars.

A type's dtype covers its fields up to the first one whose place or size is not fixed. Its ``value:`` instances become
functions over arrays where they use only fields of that prefix and the operators of the style sheet.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import Any

PRIMITIVE = re.compile(r"^([usf])([1248])(le|be)?$")
DOC = '''"""Numpy dtypes of the fixed prefix of every type, and its value instances as columns."""

# ruff: noqa
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

'''


@dataclass(frozen=True)
class Layout:
    """A type's fixed prefix: dtype fields as (name, format[, shape]), its size, and whether that is all of it."""

    fields: list[tuple[Any, ...]]
    size: int
    is_complete: bool


def render(grammars: dict[str, dict[str, Any]]) -> str:
    """Return the text of ``dtypes.py``."""
    lines = [DOC, "DTYPES: dict[str, np.dtype[np.void]] = {\n"]
    columns = ["COLUMNS: dict[str, dict[str, Callable[[Any], Any]]] = {\n"]
    complete = []
    for grammar_id, spec in grammars.items():
        for name, type_spec in named_types(grammar_id, spec):
            layout = fixed_layout(name, grammars)
            if not layout.fields:
                continue
            lines.append(f"    {name!r}: np.dtype({layout.fields!r}),\n")
            complete += [name] if layout.is_complete else []
            columns += _columns(name, type_spec, layout, spec)
    rest = f"COMPLETE: frozenset[str] = frozenset({sorted(complete)!r})\n"
    return "".join([*lines, "}\n\n", *columns, "}\n\n", rest])


def named_types(grammar_id: str, spec: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """List a grammar's types with their full names, the top-level sequence first."""
    top = [(grammar_id, spec)] if spec.get("seq") else []
    return top + [(f"{grammar_id}.{name}", body or {}) for name, body in spec.get("types", {}).items()]


def find_type(name: str, grammars: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the specification of a type by its full name."""
    grammar_id, _, type_id = name.partition(".")
    spec = grammars[grammar_id]
    return spec["types"][type_id] if type_id else spec


def qualify(reference: str, grammar_id: str, grammars: dict[str, dict[str, Any]]) -> str | None:
    """Turn a type reference of a grammar into a full name; None for what is no user type."""
    reference = reference.split("(", maxsplit=1)[0]
    if "::" in reference:
        return reference.replace("::", ".")
    if reference in grammars[grammar_id].get("types", {}):
        return f"{grammar_id}.{reference}"
    return reference if reference in grammars else None


def fixed_layout(name: str, grammars: dict[str, dict[str, Any]]) -> Layout:
    """Lay out a type's fields until one is not fixed."""
    grammar_id = name.split(".", maxsplit=1)[0]
    spec = find_type(name, grammars)
    endian = spec.get("meta", {}).get("endian") or grammars[grammar_id]["meta"].get("endian")
    fields: list[tuple[Any, ...]] = []
    size = 0
    for number, field in enumerate(spec.get("seq", [])):
        placed = _place(field, number, endian, grammar_id, grammars)
        if placed is None:
            return Layout(fields, size, is_complete=False)
        entries, length = placed
        fields += entries
        size += length
    return Layout(fields, size, is_complete=True)


def _place(
    field: dict[str, Any], number: int, endian: Any, grammar_id: str, grammars: dict[str, dict[str, Any]]
) -> tuple[list[tuple[Any, ...]], int] | None:
    """Return a field's dtype entries and length in bytes, or None where it is not fixed."""
    item = _item(field, endian, grammar_id, grammars)
    if item is None or "if" in field:
        return None
    form, length = item
    name = field.get("id", f"_unnamed{number}")
    if "repeat" not in field:
        return [(name, form)], length
    count = field.get("repeat-expr")
    if field["repeat"] != "expr" or not isinstance(count, int):
        return None
    return [(name, form, (count,))], length * count


def _item(
    field: dict[str, Any], endian: Any, grammar_id: str, grammars: dict[str, dict[str, Any]]
) -> tuple[Any, int] | None:
    kind, size = field.get("type"), field.get("size")
    if isinstance(kind, str):
        return _typed(kind, size, endian, grammar_id, grammars)
    if kind is not None:
        return None
    if "contents" in field:
        contents = field["contents"]
        length = len(contents.encode()) if isinstance(contents, str) else len(contents)
        return f"V{length}", length
    return (f"V{size}", size) if isinstance(size, int) else None


def _typed(
    kind: str, size: Any, endian: Any, grammar_id: str, grammars: dict[str, dict[str, Any]]
) -> tuple[Any, int] | None:
    primitive = PRIMITIVE.match(kind)
    if primitive:
        return _primitive(primitive, endian)
    name = qualify(kind, grammar_id, grammars)
    if name is None:
        return None
    nested = fixed_layout(name, grammars)
    if not nested.is_complete or not nested.fields:
        return None
    if size is None or size == nested.size:
        return nested.fields, nested.size
    if not isinstance(size, int) or size < nested.size:
        return None
    return [*nested.fields, ("_rest", f"V{size - nested.size}")], size


def _primitive(match: re.Match[str], endian: Any) -> tuple[str, int] | None:
    sign, width, order = match.groups()
    order = order or endian
    if width == "1":
        return f"{sign}1".replace("s", "i"), 1
    if order not in ("le", "be"):
        return None
    return f"{'<' if order == 'le' else '>'}{sign.replace('s', 'i')}{width}", int(width)


def _columns(name: str, type_spec: dict[str, Any], layout: Layout, spec: dict[str, Any]) -> list[str]:
    known = {entry[0] for entry in layout.fields}
    lines = []
    for instance, body in type_spec.get("instances", {}).items():
        text = column_expression(body.get("value"), known, spec)
        if text is not None:
            lines.append(f"        {instance!r}: lambda r: {text},\n")
            known.add(instance)
    return [f"    {name!r}: {{\n", *lines, "    },\n"] if lines else []


def column_expression(value: Any, known: set[str], spec: dict[str, Any]) -> str | None:
    """Translate a Kaitai expression to one over arrays; None where it uses more than the style sheet allows."""
    if not isinstance(value, str):
        return None
    text = re.sub(r"(\w+)::(\w+)", lambda m: str(_enum_value(m[1], m[2], spec)), value).replace(".to_i", "")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except SyntaxError:
        return None
    try:
        return ast.unparse(_Columns(known).visit(tree))
    except _NotAColumnError:
        return None


def _enum_value(enum: str, label: str, spec: dict[str, Any]) -> int:
    for number, body in spec["enums"][enum].items():
        if (body["id"] if isinstance(body, dict) else body) == label:
            return int(number, 0)
    raise SystemExit(f"no {enum}::{label}")


class _NotAColumnError(Exception):
    """The expression is no column."""


class _Columns(ast.NodeTransformer):
    """Field names become look-ups; ``and``, ``or``, ``not`` become their bitwise twins over arrays of booleans."""

    def __init__(self, known: set[str]) -> None:
        self._known = known

    def generic_visit(self, node: ast.AST) -> ast.AST:
        allowed = (ast.BinOp, ast.Compare, ast.Constant, ast.operator, ast.cmpop)
        if not isinstance(node, allowed):
            raise _NotAColumnError
        return super().generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id in ("true", "false"):
            return ast.Constant(node.id == "true")
        return self._look_up(node.id)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        return self._look_up(ast.unparse(node))

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        operator = ast.BitAnd() if isinstance(node.op, ast.And) else ast.BitOr()
        result = self.visit(node.values[0])
        for value in node.values[1:]:
            result = ast.BinOp(result, operator, self.visit(value))
        return result

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        if not isinstance(node.op, ast.Not):
            raise _NotAColumnError
        return ast.BinOp(self.visit(node.operand), ast.BitXor(), ast.Constant(value=True))

    def _look_up(self, path: str) -> ast.AST:
        if path.split(".", maxsplit=1)[0] not in self._known:
            raise _NotAColumnError
        return ast.Subscript(ast.Name("r"), ast.Constant(path))

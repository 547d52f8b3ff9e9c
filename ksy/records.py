"""Record types from grammars.

A record type covers a type's fields up to the first one whose place or size is not fixed. Its ``value:`` instances
become functions over arrays where they use only fields of that prefix and the operators of the style sheet.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

PRIMITIVE = re.compile(r"^([usf])([1248])(le|be)?$")
DOC = '''"""The fixed prefix of every type and its value instances, by name."""

from layoutscope.structs.recordtypes import RecordType

'''
STUB = """from layoutscope.structs.recordtypes import Field, Instance, RecordType
"""
RESERVED = frozenset(
    {
        "blank",
        "column",
        "fields",
        "instances",
        "last_placed",
        "offset",
        "offset_of",
        "path",
        "type_name",
        "width",
        "within",
    }
)
"""What every record type has: no field may take one of these names."""


@dataclass(frozen=True)
class Member:
    """A fixed field.

    Attributes
    ----------
    name : str
    form : str
        Full name of a type, or a number or bytes in the notation of numpy's dtypes.
    is_nested : bool
        Whether it is a type.
    size : int
        Of one item, in bytes.
    padding : int
        Bytes of each item that its type does not fill.
    count : int or None
        Number of items; None if it is not repeated.
    """

    name: str
    form: str
    is_nested: bool
    size: int
    padding: int = 0
    count: int | None = None


@dataclass(frozen=True)
class Layout:
    """A type's fixed prefix: its members and its size; whether that is all of it."""

    members: list[Member]
    is_complete: bool

    @property
    def size(self) -> int:
        """In bytes."""
        return sum(member.size * (1 if member.count is None else member.count) for member in self.members)


def render(grammars: dict[str, dict[str, Any]]) -> tuple[str, str]:
    """Return the texts of ``records.py`` and of its stub."""
    types = _record_types(grammars)
    code = "".join(_declaration(record) for record in types)
    stub = "".join(_annotations(record) for record in types)
    names = "".join(f"    {record.name!r}: {record.constant},\n" for record in types)
    constants = [record.constant for record in types]
    exported = "".join(f"    {name!r},\n" for name in ("RECORD_TYPES", *sorted(constants)))
    table = "\nRECORD_TYPES = {\n" + names + "}\n"
    rest = "\nRECORD_TYPES: dict[str, RecordType]\n\n__all__ = [\n" + exported + "]\n"
    return DOC + code + table, STUB + stub + rest


@dataclass(frozen=True)
class RecordType:
    """A type with a fixed prefix, its name in Python, and the columns that its instances are."""

    name: str
    identifier: str
    members: list[Member]
    instances: dict[str, str]
    spoken: dict[str, str]

    @property
    def constant(self) -> str:
        """Name of its descriptor."""
        return self.identifier.upper()


def _record_types(grammars: dict[str, dict[str, Any]]) -> list[RecordType]:
    """Lay out every type that has a fixed prefix, nested ones first."""
    bodies = {
        name: (body, spec) for grammar_id, spec in grammars.items() for name, body in named_types(grammar_id, spec)
    }
    layouts = {name: fixed_layout(name, grammars) for name in bodies}
    layouts = {name: layout for name, layout in layouts.items() if layout.members}
    spoken = identifiers(list(layouts))
    found = []
    for name in _nested_first(layouts):
        body, spec = bodies[name]
        members = layouts[name].members
        record = RecordType(name, spoken[name], members, _instances(body, members, spec, grammars), spoken)
        clash = RESERVED & {*(member.name for member in members), *record.instances}
        if clash:
            raise SystemExit(f"{name}: {', '.join(sorted(clash))} is a name of every record type")
        found.append(record)
    return found


def _declaration(record: RecordType) -> str:
    rows = [f"    {member.name}={_member(member, record.spoken)},\n" for member in record.members]
    rows += [f"    {name}=lambda r: {text},\n" for name, text in record.instances.items()]
    return f"\n{record.constant} = RecordType(\n    {record.name!r},\n{''.join(rows)})\n"


def _member(member: Member, spoken: dict[str, str]) -> str:
    kind = spoken[member.form].upper() if member.is_nested else repr(member.form)
    if member.padding:
        return f"({kind}, {member.count}, {member.size})"
    return kind if member.count is None else f"({kind}, {member.count})"


def _annotations(record: RecordType) -> str:
    rows = [
        f"    {member.name}: {camel(record.spoken[member.form]) if member.is_nested else 'Field'}\n"
        for member in record.members
    ]
    rows += [f"    {name}: Instance\n" for name in record.instances]
    title = camel(record.identifier)
    return f"\nclass {title}(RecordType):\n{''.join(rows)}\n{record.constant}: {title}\n"


def identifiers(names: list[str]) -> dict[str, str]:
    """Name each type; one whose name occurs in several grammars has the grammar's in front."""
    often = Counter(name.rpartition(".")[2] for name in names)
    return {
        name: name.replace(".", "_") if often[name.rpartition(".")[2]] > 1 else name.rpartition(".")[2]
        for name in names
    }


def _nested_first(layouts: dict[str, Layout]) -> list[str]:
    """Order types so that each stands after those that it holds."""
    ordered: dict[str, None] = {}

    def add(name: str) -> None:
        for member in layouts[name].members:
            if member.is_nested:
                add(member.form)
        ordered.setdefault(name)

    for name in layouts:
        add(name)
    return list(ordered)


def camel(identifier: str) -> str:
    """Kaitai's Python class name of an id."""
    return "".join(part.capitalize() for part in identifier.split("_"))


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
    members: list[Member] = []
    for number, field in enumerate(spec.get("seq", [])):
        member = _repeated(field, number, endian, grammar_id, grammars)
        if member is None:
            return Layout(members, is_complete=False)
        members.append(member)
    return Layout(members, is_complete=True)


def _repeated(
    field: dict[str, Any], number: int, endian: Any, grammar_id: str, grammars: dict[str, dict[str, Any]]
) -> Member | None:
    """Return a field with its repetitions, or None where it is not fixed."""
    item = _item(field, field.get("id", f"_unnamed{number}"), endian, grammar_id, grammars)
    if item is None or "if" in field or "repeat" not in field:
        return None if "if" in field else item
    count = field.get("repeat-expr")
    return replace(item, count=count) if field["repeat"] == "expr" and isinstance(count, int) else None


def _item(
    field: dict[str, Any], name: str, endian: Any, grammar_id: str, grammars: dict[str, dict[str, Any]]
) -> Member | None:
    kind, size = field.get("type"), field.get("size")
    if isinstance(kind, str):
        primitive = PRIMITIVE.match(kind)
        return _number(name, primitive, endian) if primitive else _nested(name, kind, size, grammar_id, grammars)
    if kind is not None:
        return None
    if "contents" in field:
        contents = field["contents"]
        size = len(contents.encode()) if isinstance(contents, str) else len(contents)
    return Member(name, f"V{size}", is_nested=False, size=size) if isinstance(size, int) else None


def _nested(name: str, kind: str, size: Any, grammar_id: str, grammars: dict[str, dict[str, Any]]) -> Member | None:
    type_name = qualify(kind, grammar_id, grammars)
    if type_name is None:
        return None
    layout = fixed_layout(type_name, grammars)
    if not layout.is_complete or not layout.members:
        return None
    room = layout.size if size is None else size
    if not isinstance(room, int) or room < layout.size:
        return None
    return Member(name, type_name, is_nested=True, size=room, padding=room - layout.size)


def _number(name: str, match: re.Match[str], endian: Any) -> Member | None:
    sign, width, order = match.groups()
    order = order or endian
    form = f"{sign.replace('s', 'i')}{width}"
    if width == "1":
        return Member(name, form, is_nested=False, size=1)
    if order not in ("le", "be"):
        return None
    return Member(name, f"{'<' if order == 'le' else '>'}{form}", is_nested=False, size=int(width))


def _instances(
    body: dict[str, Any], members: list[Member], spec: dict[str, Any], grammars: dict[str, dict[str, Any]]
) -> dict[str, str]:
    known = {member.name for member in members}
    found = {}
    for name, instance in body.get("instances", {}).items():
        text = column_expression(instance.get("value"), known | set(found), spec, grammars)
        if text is not None:
            found[name] = text
    return found


def column_expression(
    value: Any, known: set[str], spec: dict[str, Any], grammars: dict[str, dict[str, Any]]
) -> str | None:
    """Translate a Kaitai expression to one over arrays; None where it uses more than the style sheet allows."""
    if not isinstance(value, str):
        return None
    number = partial(_enum_value, spec=spec, grammars=grammars)
    text = re.sub(r"(?:(\w+)::)?(\w+)::(\w+)", number, value).replace(".to_i", "")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except SyntaxError:
        return None
    try:
        return ast.unparse(_Columns(known).visit(tree))
    except _NotAColumnError:
        return None


def _enum_value(match: re.Match[str], spec: dict[str, Any], grammars: dict[str, dict[str, Any]]) -> str:
    owner, enum, label = match.groups()
    for number, body in (grammars[owner] if owner else spec)["enums"][enum].items():
        if (body["id"] if isinstance(body, dict) else body) == label:
            return str(int(number, 0))
    raise SystemExit(f"no {match[0]}")


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

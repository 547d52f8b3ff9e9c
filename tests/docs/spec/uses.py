"""Who in the package uses which field: the type checker says so, as parsers and record types have stubs."""

from __future__ import annotations

import ast
import json
import re
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.docs.imports import read_modules
from tests.docs.spec.grammars import behind_instances, constants, fields_of, follow, instances_of, types

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[3]
GENERATED = "layoutscope._generated."
UNTYPED = f"{GENERATED}base.Struct"
FOREIGN = ("numpy", "polars", "typer", "rich", "click", "scipy", "duckdb", "matplotlib", "PIL", "cryptography")
"""Packages that fields do not come from; to leave them out takes three quarters of the time away."""


@cache
def uses() -> dict[str, frozenset[str]]:
    """Return, by the address of a field, an instance or an enum's value, the modules that use it.

    Who uses an instance uses the fields that it is computed from, and the constant that it stands for.
    """
    found: dict[str, set[str]] = defaultdict(set)
    for module, address in _accesses():
        found[address].add(module)
        for source in behind_instances().get(address, ()):
            found[source].add(module)
    for addresses in constants().values():
        together = set().union(*(found.get(address, set()) for address, _ in addresses))
        for address, _ in addresses:
            if "_enum" not in address:
                found[address] |= together
    return {address: frozenset(modules) for address, modules in found.items() if modules}


def _accesses() -> Iterator[tuple[str, str]]:
    from mypy import build, main
    from mypy.traverser import NameAndMemberCollector

    sources, options = main.process_options(["-p", "layoutscope", "--config-file", str(ROOT / "pyproject.toml")])
    options.export_types = options.preserve_asts = True
    options.incremental, options.cache_dir = False, "/dev/null"
    for name in FOREIGN:
        for pattern in (name, f"{name}.*"):
            options.per_module_options.setdefault(pattern, {}).update(
                follow_imports="skip", ignore_missing_imports=True
            )
    result = build.build(sources, options)
    names, modules = _classes(), {module.name: module for module in read_modules().values()}
    for module, state in result.graph.items():
        if module.startswith(GENERATED) or module not in modules or state.tree is None:
            continue
        collector = NameAndMemberCollector()
        state.tree.accept(collector)
        kinds = [(each, list(_kinds(result.types.get(each.expr)))) for each in collector.member_exprs]
        named = [
            kind for each in (*collector.name_exprs, *collector.member_exprs) for kind in _kinds(result.types.get(each))
        ]
        mentioned = {names[kind] for kind in (*named, *(kind for _, found in kinds for kind in found)) if kind in names}
        for expression, found in kinds:
            # What is parsed by a type that is chosen at run time has the type of all parsers, or none.
            typed = [names[kind] for kind in found if kind in names]
            guessed = [] if typed or (found and UNTYPED not in found) else mentioned & types().keys()
            yield from ((module, f"{name}.{expression.name}") for name in typed if _has(name, expression.name))
            yield from ((module, f"{name}.{expression.name}") for name in guessed if _has(name, expression.name))
        texts = {
            node.value
            for node in ast.walk(modules[module].tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        }
        asked = {
            node.args[1].value
            for node in ast.walk(modules[module].tree)
            if isinstance(node, ast.Call)
            and len(node.args) > 1
            and isinstance(node.func, ast.Name)
            and node.func.id == "getattr"
            and isinstance(node.args[1], ast.Constant)
        }
        for text in texts:
            if ("_" in text or text in asked) and text.replace("_", "").replace(".", "").isalnum():
                yield from ((module, address) for name in mentioned & types().keys() if (address := follow(name, text)))


def _has(type_name: str, name: str) -> bool:
    if type_name not in types():
        return f"{type_name}.{name}" in _values()
    return name in instances_of(type_name) or f"{type_name}.{name}" in {each.address for each in fields_of(type_name)}


@cache
def _values() -> frozenset[str]:
    return frozenset(
        address for addresses in constants().values() for address, number in addresses if number is not None
    )


def _kinds(found: Any) -> Iterator[str]:
    """Yield the full names of the classes that a type may be, the class itself too."""
    from mypy.types import CallableType, Instance, TypeType, UnionType, get_proper_type

    found = get_proper_type(found) if found is not None else None
    if isinstance(found, UnionType):
        for item in found.items:
            yield from _kinds(item)
    elif isinstance(found, Instance):
        yield found.type.fullname
    elif isinstance(found, TypeType):
        yield from _kinds(found.item)
    elif isinstance(found, CallableType) and found.is_type_obj():
        yield from _kinds(found.ret_type)


@cache
def _classes() -> dict[str, str]:
    """Return the type or enum of the grammars by the full names of their classes, of parsers and of record types."""
    found = {}
    for name in types():
        grammar, _, key = name.partition(".")
        found[f"{GENERATED}{grammar}.{_camel(grammar)}.{_camel(key)}"] = name
    stub = (ROOT / "layoutscope/_generated/records.pyi").read_text(encoding="utf-8")
    table = (ROOT / "layoutscope/_generated/records.py").read_text(encoding="utf-8")
    of_constant = dict(re.findall(r"^(\w+) = RecordType\(\n    '([\w.]+)'", table, re.MULTILINE))
    for constant, cls in re.findall(r"^([A-Z]\w*): (\w+)$", stub, re.MULTILINE):
        found[f"{GENERATED}records.{cls}"] = of_constant[constant]
    for addresses in constants().values():
        for address, number in addresses:
            if number is not None:
                grammar, enum, _ = address.split(".")
                found[f"{GENERATED}{grammar}.{_camel(grammar)}.{_camel(enum)}"] = f"{grammar}.{enum}"
    return found


def _camel(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


def write() -> None:
    """Look up who uses what, and write it down."""
    rows = [f"{json.dumps(address)} = {json.dumps(sorted(modules))}" for address, modules in sorted(uses().items())]
    head = "# Written by python -m tests.docs.spec --uses; see uses.py."
    Path(__file__).with_suffix(".toml").write_text("\n".join([head, *rows]) + "\n", encoding="utf-8")

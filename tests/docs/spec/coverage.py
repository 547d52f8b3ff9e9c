"""What is known of each field and each constant of a document, joined from grammars, package and images."""

from __future__ import annotations

import ast
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from tests.docs.imports import read_modules
from tests.docs.spec import grammars
from tests.docs.spec.documents import document
from tests.docs.spec.measure import KINDS, measured

if TYPE_CHECKING:
    from tests.docs.spec.documents import Constant, DocField, Structure
    from tests.docs.spec.grammars import GrammarField

USES = Path(__file__).with_name("uses.toml")


@cache
def uses() -> dict[str, list[str]]:
    """Return the modules that use a field, an instance or an enum's value, by its address, as last looked up."""
    return dict(tomllib.loads(USES.read_text(encoding="utf-8")))


@dataclass(frozen=True)
class Line:
    """What is known of a field.

    Attributes
    ----------
    field : DocField
        The field.
    found : tuple of GrammarField
        What it is in the grammars.
    within : str
        The structure of the document that the field is, if it is one.
    readers, checkers : tuple of str
        Modules that use it.
    is_held : bool
        Whether parsing fails where it is not as it must be.
    is_shown : bool
        Whether ``inspect`` shows it.
    findings, tables, seen : tuple of str
        Of a changed value: findings, tables that change; kinds of images on which it holds something.
    """

    field: DocField
    found: tuple[GrammarField, ...]
    within: str
    readers: tuple[str, ...]
    checkers: tuple[str, ...]
    is_held: bool
    is_shown: bool
    findings: tuple[str, ...]
    tables: tuple[str, ...]
    seen: tuple[str, ...]

    @property
    def is_used(self) -> bool:
        """Whether anything but showing is done with it."""
        return bool(self.readers or self.checkers or self.is_held)

    @property
    def is_read(self) -> bool:
        """Whether it is read at all."""
        return self.is_used or self.is_shown or bool(self.within)


def line(structure: Structure, field: DocField) -> Line:
    """Join what is known of a field.

    Parameters
    ----------
    structure, field : Structure, DocField
        Of the document.
    """
    found = tuple(grammars.fields_for(structure, field))
    known = [each.address for each in found] + list(field.also)
    modules = {module for address in known for source in _with_size(address) for module in uses().get(source, ())}
    checkers = {module for module in modules if ".check" in module}
    collect = lambda table: tuple(sorted({each for address in known for each in table.get(address, ())}))  # noqa: E731
    seen = {kind for address in known for kind in measured().seen.get(address, ())}
    return Line(
        field,
        found,
        next((inner for each in found if (inner := _structure_of(each)) and inner != structure.name), ""),
        tuple(sorted(modules - checkers)),
        tuple(sorted(checkers)),
        any(grammars.is_held(address) for address in known),
        any(address.rpartition(".")[0] in measured().shown or address in measured().shown for address in known),
        collect(measured().guards),
        collect(measured().tables),
        tuple(kind for kind in KINDS if kind in seen),
    )


def _with_size(address: str) -> tuple[str, ...]:
    """Return a field's address and those of the fields that say how long it is: who uses them, uses it."""
    return (address, *grammars.sizes_of(address))


def _structure_of(field: GrammarField) -> str:
    """Return the structure of a document that a field's type is."""
    name = grammars.types().get(field.member.split("(")[0], {}).get("-orig-id", "")
    return name if name in structure_names() else ""


@cache
def structure_names() -> frozenset[str]:
    """Return the names of all structures of both documents."""
    return frozenset(each.name for name in ("hfsplus", "apfs") for _, each in document(name).structures())


@dataclass(frozen=True)
class ConstantLine:
    """What is known of a constant: where the grammars or the package have it, and who uses it."""

    constant: Constant
    addresses: tuple[str, ...]
    modules: tuple[str, ...]


def constant_line(constant: Constant) -> ConstantLine:
    """Join what is known of a constant.

    Parameters
    ----------
    constant : Constant
        Of the document.
    """
    if isinstance(constant.value, str):
        modules = tuple(module for module, texts in _texts().items() if constant.value.lower() in texts)
        return ConstantLine(constant, (), modules)
    addresses = (*(address for address, _ in grammars.constants_for(constant)), *constant.grammar)
    return ConstantLine(constant, addresses, tuple(sorted({m for a in addresses for m in uses().get(a, ())})))


@cache
def _texts() -> dict[str, frozenset[str]]:
    """Return the texts that are in each module of the package, in small letters."""
    return {
        module.name: frozenset(
            (node.value if isinstance(node.value, str) else node.value.decode("latin-1")).lower()
            for node in ast.walk(module.tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)
        )
        for module in read_modules().values()
    }

"""The hand-written modules of the package and their imports, also those for type checkers and inside functions."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "layoutscope"
GENERATED = "_generated"
BUILT = "_version"
"""What an editable install writes into the checkout."""


@dataclass(frozen=True)
class Module:
    """A hand-written module with its dotted name."""

    name: str
    path: Path

    @cached_property
    def text(self) -> str:
        """Its source."""
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def tree(self) -> ast.Module:
        """Its syntax."""
        return ast.parse(self.text)


@cache
def read_modules(package: Path = PACKAGE) -> dict[str, Module]:
    """Return the hand-written modules of a package by name; a folder's ``__init__`` has the folder's name."""
    found = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package.parent).with_suffix("").parts
        if not {GENERATED, BUILT} & {*parts}:
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            found[name] = Module(name, path)
    return found


def imports(modules: dict[str, Module]) -> dict[str, set[str]]:
    """Return which modules each module imports: ``from a import b`` is ``a.b`` if that is a module, else ``a``."""
    found = {}
    for name, module in modules.items():
        names: set[str] = set()
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                inside = {f"{node.module}.{alias.name}" for alias in node.names}
                names |= {each if each in modules or GENERATED in each else node.module for each in inside}
        found[name] = names & modules.keys() - {name}
    return found

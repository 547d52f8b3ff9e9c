"""The imports of the package as a graph, those for type checkers and those inside functions included.

A room is a module or a folder of modules, an arrow leads from a room to one that it imports, and a room's floor is the
length of the longest way down from it.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "layoutscope"
GENERATED = "_generated"
BUILT = "_version"
"""What an editable install writes into the checkout."""

Graph = dict[str, set[str]]


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


def read_modules(package: Path = PACKAGE) -> dict[str, Module]:
    """Return the hand-written modules of a package by name; a folder's ``__init__`` has the folder's name."""
    found = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package.parent).with_suffix("").parts
        if not {GENERATED, BUILT} & {*parts}:
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            found[name] = Module(name, path)
    return found


def imports(modules: dict[str, Module]) -> Graph:
    """Return which modules each module imports, wherever the import stands."""
    return {name: _imported(module, modules) - {name} for name, module in modules.items()}


def _imported(module: Module, modules: dict[str, Module]) -> set[str]:
    """Return the modules that one names: ``from a import b`` names ``a.b`` where that is a module, else ``a``."""
    names: set[str] = set()
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            inside = {f"{node.module}.{alias.name}" for alias in node.names}
            names |= {name if name in modules or GENERATED in name else node.module for name in inside}
    return names & modules.keys()


def rooms(graph: Graph, package: str) -> Graph:
    """Return the arrows between the rooms directly inside a package; the package's own ``__init__`` is not a room."""

    def room(name: str) -> str | None:
        return name.removeprefix(f"{package}.").split(".")[0] if name.startswith(f"{package}.") else None

    between: Graph = {}
    for name, targets in graph.items():
        if (own := room(name)) is not None:
            between.setdefault(own, set()).update(other for target in targets if (other := room(target)) is not None)
    return {own: targets - {own} for own, targets in between.items()}


def circles(graph: Graph) -> list[list[str]]:
    """Return the groups of modules that can each be reached from every other of the group."""
    below = {name: reachable(graph, name) for name in graph}
    groups = {
        frozenset(other for other in below[name] if name in below[other]) for name in graph if name in below[name]
    }
    return sorted(sorted(group) for group in groups)


def reachable(graph: Graph, start: str) -> set[str]:
    """Return everything below a room; the room itself only where a circle leads back to it."""
    seen: set[str] = set()
    waiting = list(graph[start])
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += graph.get(name, ())
    return seen


def floors(graph: Graph) -> dict[str, int]:
    """Return the floor of each room, 0 at the bottom; the rooms of a circle share one."""
    below = {name: reachable(graph, name) for name in graph}
    circle = {name: {name} | {other for other in below[name] if name in below[other]} for name in graph}
    found: dict[str, int] = {}

    def floor(name: str) -> int:
        if name not in found:
            lower = {target for room in circle[name] for target in graph[room]} - circle[name]
            found[name] = max((floor(other) + 1 for other in lower), default=0)
        return found[name]

    return {name: floor(name) for name in graph}

"""Measurements of the code's structure: ``python -m tests.docs.house`` prints the table, with the limit of each number.

The limits are in ``house.toml``. Each is the last number, so none gets worse unseen; ``--tighten`` lowers the limits
of better ones. ``--show WORDS`` lists what a row counts.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from tests.docs.imports import Graph, Module, circles, imports, read_modules

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LIMITS = Path(__file__).with_name("house.toml")

FILE_SYSTEMS = ("hfsplus", "apfs")
WORDS = re.compile(r"(?<!searc)(?<!squas)hfs|apfs", re.IGNORECASE)  # searchfs is a system call, squashfs another one
IMAGES = re.compile(r"fixtures/images/[\w.-]+")  # examples open images, which bear the names of their file systems
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)

Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def modules() -> dict[str, Module]:
    """Return the package's modules."""
    return read_modules()


@cache
def graph() -> Graph:
    """Return the package's imports."""
    return imports(modules())


# Functions


@dataclass(frozen=True)
class Defined:
    """A function with its place."""

    module: str
    node: Function
    is_public: bool
    is_method: bool

    @property
    def place(self) -> str:
        """Where it stands."""
        return f"{self.module}:{self.node.lineno} {self.node.name}"

    @property
    def parameters(self) -> list[ast.arg]:
        """Every named parameter except the object itself."""
        arguments = self.node.args
        given = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        static = any(isinstance(each, ast.Name) and each.id == "staticmethod" for each in self.node.decorator_list)
        return given[1:] if self.is_method and not static else given


@cache
def functions() -> list[Defined]:
    """Return every function and method, those inside functions included."""
    return [found for module in modules().values() for found in _functions(module.name, module.tree)]


def _functions(module: str, parent: ast.AST, *, public: bool = True) -> Iterator[Defined]:
    for node in ast.iter_child_nodes(parent):
        if isinstance(node, DEFINITIONS):
            open_ = public and not node.name.startswith("_")
            inside_class = isinstance(parent, ast.ClassDef)
            if not isinstance(node, ast.ClassDef):
                yield Defined(module, node, open_, inside_class)
            yield from _functions(module, node, public=open_ and isinstance(node, ast.ClassDef))
        else:
            yield from _functions(module, node, public=public)


def findings_handed_in() -> list[str]:
    """Functions that get a list to write findings to."""
    handed = lambda each: any(  # noqa: E731
        argument.annotation and "list[Finding]" in ast.unparse(argument.annotation) for argument in each.parameters
    )
    return [each.place for each in functions() if handed(each)]


# Names


def _outside() -> list[Module]:
    """Return the modules outside the packages of the file systems, and outside the modules of their names."""
    return [
        module for module in modules().values() if module.name.split(".")[2:3] not in [[each] for each in FILE_SYSTEMS]
    ]


def literals() -> list[str]:
    """Modules outside the readers in which the name of a file system stands as a value."""
    values = lambda module: (node.value for node in ast.walk(module.tree) if isinstance(node, ast.Constant))  # noqa: E731
    return [module.name for module in _outside() if any(value in FILE_SYSTEMS for value in values(module))]


def mentions() -> list[str]:
    """Modules outside the readers that name a file system at all."""
    return [module.name for module in _outside() if WORDS.search(IMAGES.sub("", module.text))]


# Rooms


def import_circles() -> list[str]:
    """Groups of modules that import one another."""
    return [" > ".join(group) for group in circles(graph())]


# The table


@dataclass(frozen=True)
class Measure:
    """A row of the table."""

    what: str
    aim: float
    found: Callable[[], list[str] | float]

    @property
    def value(self) -> float:
        """The number as it is."""
        found = self.found()
        return len(found) if isinstance(found, list) else found

    @property
    def limit(self) -> float:
        """The number when its limit was set."""
        return limits()[self.what]

    @property
    def holds(self) -> bool:
        """Whether the number is at most its limit."""
        return self.value <= self.limit


MEASURES = [
    Measure("import circles", 0, import_circles),
    Measure("functions that are handed a list of findings", 0, findings_handed_in),
    Measure("modules outside the readers with the name of a file system as a value", 0, literals),
    Measure("modules outside the readers that name a file system", 10, mentions),
]


@cache
def limits() -> dict[str, float]:
    """Return the limit of each row."""
    return tomllib.loads(LIMITS.read_text(encoding="utf-8"))


def tighten() -> None:
    """Set the limits of the rows that hold to the numbers as they are."""
    best = {each.what: each.value if each.holds else each.limit for each in MEASURES}
    LIMITS.write_text("".join(f'"{what}" = {number}\n' for what, number in best.items()), encoding="utf-8")


def table() -> str:
    """Return the rows with the number, its limit and the aim."""
    rows = [f"| {each.what} | {each.value:,} | {each.limit:,} | {each.aim:,} |" for each in MEASURES]
    return "\n".join(["| what | now | limit | aim |", "|---|---|---|---|", *rows])


def main() -> int:
    """Print the table, or the items of a row; return 1 if a number is worse than its limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tighten", action="store_true", help="lower each limit to the number as it is")
    parser.add_argument("--show", metavar="WORDS", help="list what the rows with these words count")
    options = parser.parse_args()
    if options.tighten:
        tighten()
        limits.cache_clear()
    if options.show is None:
        print(table())  # noqa: T201
    for each in MEASURES:
        if options.show is not None and options.show in each.what and isinstance(found := each.found(), list):
            print(each.what, *found, sep="\n  ")  # noqa: T201
    return 0 if all(each.holds for each in MEASURES) else 1


if __name__ == "__main__":
    sys.exit(main())

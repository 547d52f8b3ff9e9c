"""Change a module one operator at a time and count the changes that tests notice.

``python -m tests.mutations layoutscope/partition/maps.py tests/unit/partition --sample 20`` draws twenty changes: a
comparison moved by one, an operator exchanged, a constant raised by one, a condition negated. The tests run once for
each, in a process of their own, and notice it if one of them fails or if they take far longer than before. Changes
that change nothing cannot be noticed, so the aim is 90 %.
"""

from __future__ import annotations

import argparse
import ast
import importlib.machinery
import importlib.util
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT: Final = Path(__file__).resolve().parents[1]
GRACE_SECONDS: Final = 10
OPERATORS: Final = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.And: ast.Or, ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.LShift: ast.RShift, ast.RShift: ast.LShift,
}  # fmt: skip
MESSAGES: Final = ("Finding", "phase", "getLogger", "TypeVar", "NewType")
"""Calls that pass words on."""


class Change(ast.NodeTransformer):
    """Make the change with a number, and list all: the line and the words of each.

    Docstrings, annotations, messages and limits are not changed: they decide no result.
    """

    def __init__(self, number: int = -1) -> None:
        self.number = number
        self.found: list[tuple[int, str]] = []

    def _is_chosen(self, line: int, what: str) -> bool:
        self.found.append((line, what))
        return len(self.found) - 1 == self.number

    def _exchanged(self, operator: ast.AST, line: int) -> ast.AST:
        new = OPERATORS.get(type(operator))
        if new is None or not self._is_chosen(line, f"{type(operator).__name__} to {new.__name__}"):
            return operator
        return new()

    def visit(self, node: ast.AST) -> ast.AST:
        """Change a node, or what is in it."""
        if isinstance(node, ast.Raise | ast.JoinedStr | ast.Assert | ast.arg | ast.Import | ast.ImportFrom):
            return node
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in MESSAGES:
            return node
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            return node
        if isinstance(node, ast.AnnAssign):
            if node.value is not None and not ast.unparse(node.target).lstrip("_").startswith(("MAX_", "MOST_")):
                node.value = self.visit(node.value)
            return node
        if isinstance(node, ast.Compare | ast.BinOp | ast.BoolOp):
            operators = node.ops if isinstance(node, ast.Compare) else [node.op]
            changed = [self._exchanged(each, node.lineno) for each in operators]
            if isinstance(node, ast.Compare):
                node.ops = changed
            else:
                node.op = changed[0]
        elif isinstance(node, ast.Constant) and type(node.value) is int:
            if self._is_chosen(node.lineno, f"{node.value} to {node.value + 1}"):
                node.value += 1
        elif isinstance(node, ast.If | ast.IfExp | ast.While) and self._is_chosen(node.lineno, "condition negated"):
            node.test = ast.UnaryOp(ast.Not(), node.test)
        return self.generic_visit(node)


def changes_of(path: Path) -> list[tuple[int, str]]:
    """List the changes of a module: the line and the words of each, in the order of their numbers."""
    change = Change()
    change.visit(ast.parse(path.read_text("utf-8")))
    return change.found


class Overlay(importlib.machinery.SourceFileLoader):
    """Import one module with a change, without a compiled file."""

    number = -1

    def get_code(self, fullname: str) -> object:  # noqa: ARG002  (importlib passes it)
        """Compile the module with the change."""
        tree = Change(self.number).visit(ast.parse(self.get_data(self.path)))
        return compile(ast.fix_missing_locations(tree), self.path, "exec", dont_inherit=True)


def run_changed(path: Path, number: int, tests: Sequence[str]) -> int:
    """Run tests in this process with one change of a module; return the exit code of pytest."""
    import pytest

    changed = path.relative_to(ROOT).with_suffix("").as_posix().removesuffix("/__init__").replace("/", ".")

    class Finder:
        @staticmethod
        def find_spec(name: str, _places: object = None, _target: object = None) -> object:
            if name != changed:
                return None
            loader = Overlay(name, str(path))
            loader.number = number
            return importlib.util.spec_from_file_location(name, path, loader=loader)

    sys.meta_path.insert(0, Finder)  # type: ignore[arg-type]
    return pytest.main(["-x", "-q", "-n", "0", "-p", "no:cacheprovider", "-m", "not full and not slow", *tests])


def is_noticed(path: Path, number: int, tests: Sequence[str], seconds: float) -> bool:
    """Whether tests fail with one change of a module, or do not end in the given time."""
    command = [sys.executable, "-m", "tests.mutations", str(path), *tests, "--number", str(number)]
    try:
        return bool(subprocess.run(command, cwd=ROOT, capture_output=True, check=False, timeout=seconds).returncode)
    except subprocess.TimeoutExpired:
        return True


def main() -> int:
    """Draw changes, and print those that no test notices."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutations", description=__doc__)
    parser.add_argument("module", type=lambda name: Path(name).resolve())
    parser.add_argument("tests", nargs="+")
    parser.add_argument("--sample", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--number", type=int, help="run the tests with this change alone; -1 for none")
    given = parser.parse_args()
    if given.number is not None:
        return run_changed(given.module, given.number, given.tests)
    start = time.monotonic()
    if is_noticed(given.module, -1, given.tests, 3600):
        sys.exit("the tests fail with nothing changed")
    seconds = GRACE_SECONDS + 10 * (time.monotonic() - start)
    every = list(enumerate(changes_of(given.module)))
    drawn = sorted(random.Random(given.seed).sample(every, min(given.sample, len(every))))  # noqa: S311
    missed = [what for number, what in drawn if not is_noticed(given.module, number, given.tests, seconds)]
    for line, what in missed:
        print(f"{given.module}:{line} {what}: missed")  # noqa: T201
    print(f"{len(drawn) - len(missed)} of {len(drawn)} noticed")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())

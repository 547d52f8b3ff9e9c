"""Change the readers one operator at a time and count what the tests notice: ``python -m tests.mutations``.

A mutant is one change of one module: a comparison moved by one, an operator exchanged, a constant raised by one, a
condition negated, a branch of ``and`` or ``or`` exchanged, a statement left out. It is noticed when one of the tests
of that part fails, or when they take too long. Only tests that run in every clone count: the reference images are
hidden from them. Changes that change nothing cannot be noticed, so the aim is 90 %.
"""

from __future__ import annotations

import argparse
import ast
import importlib.abc
import importlib.util
import os
import random
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).resolve().parents[2]
READERS = (
    *(f"layoutscope/filesystems/apfs/{room}" for room in ("store", "container", "volume")),
    *(f"layoutscope/filesystems/hfsplus/{room}" for room in ("tree", "volume")),
    "layoutscope/partition",
)
_PARTITIONS = ("tests/unit/partition", "tests/images/test_partitions.py", "tests/images/test_bases.py")
_HFSPLUS = (
    "tests/unit/hfsplus",
    *(
        f"tests/images/test_{name}.py"
        for name in (
            "fixture_hfsplus",
            "hfsplus_check",
            "hfsplus_damage",
            "hfsplus_sweep",
            "hfsplus_journal_copies",
            "damaged_nodes",
            "bases",
            "features",
            "fixture_hfsplus_random",
        )
    ),
)
_APFS = (
    "tests/unit/apfs",
    *(
        f"tests/images/test_{name}.py"
        for name in (
            "fixture_apfs",
            "check_apfs_nodes",
            "check_apfs_volumes",
            "apfs_scenarios",
            "apfs_rare",
            "apfs_snapshots",
            "fusion",
            "sealed_states",
            "sweep_apfs",
            "damaged_nodes",
            "check_apfs_fields",
            "bases",
            "features",
        )
    ),
)
TESTS = {
    "layoutscope/filesystems/apfs": _APFS,
    "layoutscope/filesystems/hfsplus": _HFSPLUS,
    "layoutscope/partition": _PARTITIONS,
}
"""The tests of each part, the quickest first."""
MAX_SECONDS = 900.0

COMPARISONS = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
OPERATORS = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}


@dataclass(frozen=True)
class Mutant:
    """One change of one module."""

    path: str
    line: int
    what: str
    source: str


def mutants_of(path: str, text: str) -> Iterator[Mutant]:
    """Yield every change of a module; docstrings, annotations and messages are not code."""
    tree = ast.parse(text)
    for node in [node for node in _code(tree) if hasattr(node, "lineno")]:
        for what, undo in _changes(node):
            yield Mutant(path, node.lineno, what, ast.unparse(tree))
            undo()


def _code(node: ast.AST) -> Iterator[ast.AST]:
    """Walk over what runs when functions run."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "type_comment"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or isinstance(child, (ast.Raise, ast.JoinedStr, ast.Assert)):
                continue
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                continue
            if isinstance(child, ast.Call) and _is_finding(child):
                continue
            yield child
            yield from _code(child)


def _is_finding(call: ast.Call) -> bool:
    """Whether words are handed over: a finding or a progress message."""
    return isinstance(call.func, (ast.Name, ast.Attribute)) and ast.unparse(call.func).rpartition(".")[2] in (
        "Finding",
        "phase",
        "Field",
        "getLogger",
        "TypeVar",
        "NewType",
    )


def _changes(node: ast.AST) -> Iterator[tuple[str, object]]:
    """Make each change of a node and yield its name with the function that takes it back."""
    if isinstance(node, ast.Compare):
        for place, operator in enumerate(node.ops):
            new = COMPARISONS[type(operator)]()
            node.ops[place] = new
            yield f"{_name(operator)} to {_name(new)}", _setter(node.ops, place, operator)
    elif isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        old, node.op = node.op, OPERATORS[type(node.op)]()
        yield f"{_name(old)} to {_name(node.op)}", lambda: setattr(node, "op", old)
    elif isinstance(node, ast.BoolOp):
        old = node.op
        node.op = ast.Or() if isinstance(old, ast.And) else ast.And()
        yield f"{_name(old)} to {_name(node.op)}", lambda: setattr(node, "op", old)
    elif isinstance(node, ast.Constant) and type(node.value) is int:
        node.value += 1
        yield f"{node.value - 1} to {node.value}", lambda: setattr(node, "value", node.value - 1)
    elif isinstance(node, (ast.If, ast.IfExp, ast.While)):
        test, node.test = node.test, ast.UnaryOp(ast.Not(), node.test)
        yield "condition negated", lambda: setattr(node, "test", test)
    elif isinstance(node, ast.FunctionDef):
        for place, statement in enumerate(node.body):
            if isinstance(statement, (ast.Expr, ast.AugAssign)) and not isinstance(
                getattr(statement, "value", None), (ast.Constant, ast.Yield, ast.YieldFrom)
            ):
                node.body[place] = ast.copy_location(ast.Pass(), statement)
                yield f"line {statement.lineno} left out", _setter(node.body, place, statement)


def _setter(values: list, place: int, old: ast.AST):
    return lambda: values.__setitem__(place, old)


def _name(operator: ast.AST) -> str:
    return type(operator).__name__.lower()


class Overlay(importlib.abc.MetaPathFinder, importlib.abc.SourceLoader):
    """Import one module from the text of a mutant."""

    def __init__(self, mutant: Mutant) -> None:
        self.name = mutant.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        self.path = str(ROOT / mutant.path)
        self.text = mutant.source

    def find_spec(self, name, path=None, target=None):  # noqa: ARG002  (importlib calls it so)
        """Find the module that is changed and no other."""
        if name != self.name:
            return None
        is_package = self.path.endswith("__init__.py")
        places = [str(Path(self.path).parent)] if is_package else None
        return importlib.util.spec_from_file_location(name, self.path, loader=self, submodule_search_locations=places)

    def get_filename(self, fullname):  # noqa: ARG002
        """Return where the module is."""
        return self.path

    def get_data(self, path):  # noqa: ARG002
        """Return the changed text."""
        return self.text.encode()

    def path_stats(self, path):  # noqa: ARG002
        """Keep Python from using or writing a compiled file."""
        raise OSError


def _environment() -> dict[str, str]:
    return {**os.environ, "LAYOUTSCOPE_SHARED": str(ROOT / "no-such-folder"), "PYTHONPATH": str(ROOT)}


def is_noticed(mutant: Mutant, tests: Sequence[str]) -> bool:
    """Run tests against a mutant in a process of its own until one fails."""
    child = os.fork()
    if child == 0:
        os.setsid()
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nowhere, stream)
        sys.meta_path.insert(0, Overlay(mutant))
        import pytest

        status = 1
        try:
            status = pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-p", "no:cov", *tests])
        finally:
            os._exit(int(status) != 0)
    end = time.monotonic() + MAX_SECONDS
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status != 0
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return True


def _part_of(mutant: Mutant) -> str:
    return next(part for part in TESTS if mutant.path.startswith(part))


def main() -> None:
    """Run the mutants that were asked for and print those that no test noticed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("paths", nargs="*", default=READERS, help="modules or folders")
    parser.add_argument("--sample", type=int, default=100, help="how many mutants are drawn from all; 0 for all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--line", type=int, help="only those of one line")
    options = parser.parse_args()
    os.chdir(ROOT)
    os.environ.update(_environment())
    paths = [
        each for path in map(Path, options.paths) for each in ([path] if path.suffix else sorted(path.rglob("*.py")))
    ]
    mutants = [mutant for path in paths for mutant in mutants_of(path.as_posix(), path.read_text())]
    if options.line:
        mutants = [each for each in mutants if each.line == options.line]
    elif 0 < options.sample < len(mutants):
        mutants = random.Random(options.seed).sample(mutants, options.sample)  # noqa: S311
    for name in ("pytest", "numpy", "polars", "hypothesis", "zstandard", "construct", "kaitaistruct", "typer", "rich"):
        importlib.import_module(name)  # every child needs them, and the package itself must not be there before
    for part in {_part_of(mutant) for mutant in mutants}:
        first = next(mutant for mutant in mutants if _part_of(mutant) == part)
        same = Mutant(first.path, 0, "nothing", Path(first.path).read_text())
        if is_noticed(same, TESTS[part]):
            sys.exit(f"the tests of {part} fail without a change: {' '.join(TESTS[part])}")
    noticed = 0
    for mutant in mutants:
        is_seen = is_noticed(mutant, TESTS[_part_of(mutant)])
        noticed += is_seen
        if not is_seen:
            print(f"{mutant.path}:{mutant.line} {mutant.what}: missed", flush=True)  # noqa: T201
    print(f"{noticed} of {len(mutants)} noticed ({noticed / max(len(mutants), 1):.1%})")  # noqa: T201


if __name__ == "__main__":
    main()

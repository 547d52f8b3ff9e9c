"""Change the readers one operator at a time and count what the tests notice: ``python -m tests.mutations``.

A mutant is one change of one module: a comparison moved by one, an operator exchanged, a constant raised by one, a
condition negated, a branch of ``and`` or ``or`` exchanged, a statement left out. It is noticed when one of the tests
that execute the changed line fails, or takes too long. Only tests that run in every clone count: the reference images
are hidden from them. ``--record`` finds out which test executes which line; this is kept in ``build/mutations``.
"""

from __future__ import annotations

import argparse
import ast
import importlib.abc
import importlib.util
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
RECORDED = ROOT / "build" / "mutations"
READERS = (
    *(f"layoutscope/filesystems/{name}" for name in ("apfs/store", "apfs/container", "apfs/volume")),
    *(f"layoutscope/filesystems/{name}" for name in ("hfsplus/tree", "hfsplus/volume")),
    "layoutscope/partition",
)
TESTS = ("tests/unit", "tests/images", "tests/toyfs", "tests/hfsplus.py")
MAX_TESTS = 300
"""So many of the tests that execute a line are tried, the quickest first."""
MAX_SECONDS = 120.0

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
    statement: int
    """The line in which the statement begins: what stands on the others may never be seen by a tracer."""
    what: str
    source: str


def mutants_of(path: str, text: str) -> Iterator[Mutant]:
    """Yield every change of a module; docstrings, annotations and messages are not code."""
    tree = ast.parse(text)
    for node, statement in [(node, statement) for node, statement in _code(tree, 0) if hasattr(node, "lineno")]:
        for what, undo in _changes(node):
            yield Mutant(path, node.lineno, statement, what, ast.unparse(tree))
            undo()


def _code(node: ast.AST, statement: int) -> Iterator[tuple[ast.AST, int]]:
    """Walk over what runs when functions run, each node with the line of its statement; 0 outside functions."""
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
            inside = statement or isinstance(node, ast.FunctionDef)
            begins = child.lineno if isinstance(child, ast.stmt) and inside else statement
            yield child, begins
            yield from _code(child, begins)


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


def record() -> None:
    """Run the tests once, watched, and keep which of them executes which line, and how long each takes."""
    RECORDED.mkdir(parents=True, exist_ok=True)
    config = RECORDED / "coveragerc"
    sources = "\n  ".join(str(ROOT / each) for each in READERS)
    config.write_text(f"[run]\nsource =\n  {sources}\ndata_file = {RECORDED / 'data'}\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--cov", f"--cov-config={config}"]
    command += ["--cov-context=test", "--cov-report=", "--durations=0", "--durations-min=0.0", "-n", "2", *TESTS[:3]]
    done = subprocess.run(command, cwd=ROOT, env=_environment(), check=False, capture_output=True, text=True)
    (RECORDED / "log").write_text(done.stdout + done.stderr)
    seconds: dict[str, float] = defaultdict(float)
    for line in done.stdout.splitlines():
        words = line.split(None, 2)
        if len(words) == 3 and words[1] in ("call", "setup", "teardown") and words[0].endswith("s"):
            seconds[words[2]] += float(words[0][:-1])
    from coverage import CoverageData

    data = CoverageData(str(RECORDED / "data"))
    data.read()
    lines: dict[str, dict[int, list[str]]] = {}
    for file in data.measured_files():
        name = Path(file).relative_to(ROOT).as_posix()
        found = {
            line: sorted({context.rpartition("|")[0] for context in contexts if "|" in context})
            for line, contexts in data.contexts_by_lineno(file).items()
        }
        lines[name] = {line: sorted(tests, key=lambda test: seconds.get(test, 0.0)) for line, tests in found.items()}
    (RECORDED / "lines.json").write_text(json.dumps({"lines": lines, "seconds": seconds}))
    print(done.stdout.splitlines()[-1])  # noqa: T201


def _environment() -> dict[str, str]:
    return {**os.environ, "LAYOUTSCOPE_SHARED": str(ROOT / "no-such-folder"), "PYTHONPATH": str(ROOT)}


def is_noticed(mutant: Mutant, tests: list[str], limit_s: float) -> bool:
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
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status != 0
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return True


def main() -> None:
    """Run the mutants that were asked for and print those that no test noticed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("paths", nargs="*", default=READERS, help="modules or folders")
    parser.add_argument("--record", action="store_true", help="find out first which test executes which line")
    parser.add_argument("--sample", type=int, default=300, help="how many mutants are drawn from all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--all", action="store_true", help="every mutant")
    parser.add_argument("--line", type=int, help="only those of one line")
    options = parser.parse_args()
    os.chdir(ROOT)
    os.environ.update(_environment())
    if options.record or not (RECORDED / "lines.json").exists():
        record()
    recorded = json.loads((RECORDED / "lines.json").read_text())
    files = [
        each.as_posix()
        for path in map(Path, options.paths)
        for each in ([path] if path.suffix else sorted(path.rglob("*.py")))
    ]
    mutants = [mutant for path in files for mutant in mutants_of(path, Path(path).read_text())]
    if options.line:
        mutants = [each for each in mutants if each.line == options.line]
    elif not options.all and options.sample < len(mutants):
        mutants = random.Random(options.seed).sample(mutants, options.sample)  # noqa: S311
    _load()
    noticed = unreached = 0
    for mutant in mutants:
        tests = _tests_of(mutant, recorded["lines"].get(mutant.path, {}))
        usual = sum(recorded["seconds"].get(test, 0.1) for test in tests)
        if tests and is_noticed(mutant, tests, min(MAX_SECONDS, 20 + 5 * usual)):
            noticed += 1
            continue
        unreached += not tests
        state = f"missed by {len(tests)} tests" if tests else "reached by no test"
        print(f"{mutant.path}:{mutant.line} {mutant.what}: {state}", flush=True)  # noqa: T201
    share = f"{noticed / max(len(mutants), 1):.1%}"
    print(f"{noticed} of {len(mutants)} noticed ({share}); {unreached} in lines that no test reaches")  # noqa: T201


def _tests_of(mutant: Mutant, lines: dict[str, list[str]]) -> list[str]:
    """Return the tests that execute a line, the quickest first; of a line outside functions those of its module."""
    if mutant.statement:
        return (lines.get(str(mutant.line)) or lines.get(str(mutant.statement)) or [])[:MAX_TESTS]
    every = sorted({test for tests in lines.values() for test in tests})
    return every[:: -(-len(every) // MAX_TESTS) or 1]


def _load() -> None:
    """Import what every child needs, and nothing of the package itself."""
    for name in ("pytest", "numpy", "hypothesis", "zstandard", "construct", "kaitaistruct", "typer", "rich"):
        importlib.import_module(name)


if __name__ == "__main__":
    main()

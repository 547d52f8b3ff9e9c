"""Change the readers one operator at a time and count what the tests notice: ``python -m tests.mutations``.

A mutant is one change of one module: a comparison moved by one, an operator exchanged, a constant raised by one, a
condition negated, a branch of ``and`` or ``or`` exchanged, a statement left out. It is noticed when one of the tests
of that part fails, or when one takes far longer than before. Only tests that run in every clone count: the reference
images are hidden from them. Changes that change nothing cannot be noticed, so the aim is 90 %.

First every file of tests is run once, to see that it passes and which test executes which line. A mutant is then given
to the tests that execute its line, the quickest first, and to the others of their files, with which they share images;
what takes them longer than some seconds in all is left out, which makes the share that is noticed smaller, if anything.
"""

from __future__ import annotations

import argparse
import ast
import gc
import hashlib
import importlib.abc
import importlib.util
import json
import math
import os
import random
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from pathlib import Path
from types import CodeType, FunctionType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pytest

    Tests = Sequence[tuple[str, float]]
    """Tests with the seconds that each takes."""

ROOT = Path(__file__).resolve().parents[2]
_FILE_SYSTEMS = "layoutscope/filesystems"
READERS = {
    f"{_FILE_SYSTEMS}/{part}": [f"{_FILE_SYSTEMS}/{part.partition('/')[0]}/{name}.py" for name in names.split()]
    for part, names in {
        "apfs/store": "blocks source omap nodes verify btree sweep fsrecords",
        "apfs/container": "checkpoint container objects spaceman fusion keybag",
        "apfs/volume": "volume mapped snapshots contents",
        "hfsplus/tree": "btree nodes names tree",
        "hfsplus/volume": "volume probe forks journal",
    }.items()
} | {
    "layoutscope/partition": sorted(
        path.relative_to(ROOT).as_posix() for path in (ROOT / "layoutscope/partition").glob("*.py")
    )
}
"""The modules of each part."""
_PARTITIONS = ("tests/unit/partition", "tests/images/test_partitions.py", "tests/images/test_bases.py")
_HFSPLUS = (
    "tests/unit/hfsplus",
    *(
        f"tests/images/test_{name}.py"
        for name in ("fixture_hfsplus", "hfsplus_damage", "hfsplus_sweep", "hfsplus_journal_copies", "bases")
    ),
)
_APFS = (
    "tests/unit/apfs",
    *(f"tests/images/test_{name}.py" for name in ("apfs_rare", "fusion_cache", "sealed_states", "bases")),
)
# Tests of checks, of whole verbs and of all scenarios notice changes of readers as well, after minutes: they do not
# count.
TESTS = {
    "layoutscope/filesystems/apfs": _APFS,
    "layoutscope/filesystems/hfsplus": _HFSPLUS,
    "layoutscope/partition": _PARTITIONS,
}
MOST_SECONDS = 5.0
"""What the tests of a mutant took together when nothing was changed, in seconds of the processor."""
GRACE_SECONDS = 10.0
"""A test that takes this and ten times what it took before is one that does not end."""
MAX_SECONDS = 600.0
"""A mutant that keeps its tests waiting for so long is noticed, too."""
MAX_MEMORY = 8 * 1024**3
NO_CHANGE = -1
"""The number of a mutant that is none."""
NO_TESTS = 5
"""What pytest returns where it runs nothing."""

BATCHES = re.compile("_?(BATCH|CHUNK|STRETCH)_|.*_AT_ONCE$")
LIMITS = re.compile(f"_?(MAX|MOST)_|{BATCHES.pattern}")
MAX_OF_TABLE = 10
"""Numbers of one statement of a module that are changed: those of a long table would outnumber the code around it."""

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
    """One change of one module: the number of the change, the lines of its statement, and whether functions have it."""

    path: str
    number: int
    lines: range
    what: str
    is_in_function: bool

    def code(self) -> CodeType:
        """Compile the module with the change; lines are numbered as they are without it."""
        tree = ast.parse(Path(self.path).read_text())
        changes = _all_changes(tree)
        for _ in range(self.number + 1):
            next(changes)
        return compile(tree, str(ROOT / self.path), "exec", dont_inherit=True)


def mutants_of(path: str) -> Iterator[Mutant]:
    """Yield every change of a module; docstrings, annotations and messages are no code, nor are limits."""
    outside: Counter[range] = Counter()
    for number, (lines, what, is_inside) in enumerate(_all_changes(ast.parse(Path(path).read_text()))):
        outside[lines] += not is_inside
        if is_inside or outside[lines] <= MAX_OF_TABLE:
            yield Mutant(path, number, lines, what, is_inside)


def _all_changes(tree: ast.Module) -> Iterator[tuple[range, str, bool]]:
    """Make each change of a tree, and take it back when the next one is asked for."""
    for node, statement, is_inside in [*_code(tree, tree, is_inside=False)]:
        for what, undo, place in _changes(node):
            yield _lines(place or statement), what, is_inside or place is not None
            undo()


def _lines(statement: ast.AST) -> range:
    """Return the lines of a statement without those of the statements in it."""
    body = getattr(statement, "body", None)
    last = max(statement.lineno, body[0].lineno - 1) if isinstance(body, list) else statement.end_lineno
    return range(statement.lineno, last + 1)


def _code(node: ast.AST, statement: ast.AST, *, is_inside: bool) -> Iterator[tuple[ast.AST, ast.AST, bool]]:
    """Walk over what runs when functions run: each node, its statement, and whether it is in a function's body."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "type_comment"):
            continue
        is_body = is_inside or (isinstance(node, ast.FunctionDef) and name == "body")
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or isinstance(child, (ast.Raise, ast.JoinedStr, ast.Assert)):
                continue
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                continue
            if (isinstance(child, ast.Call) and _is_finding(child)) or (
                isinstance(node, ast.Module) and _is_limit(child)
            ):
                continue
            if isinstance(child, ast.BinOp) and BATCHES.match(ast.unparse(child.left)):
                continue  # how much is read at once changes no result
            if isinstance(child, ast.UnaryOp) and _is_reshape(node):
                continue  # numpy takes any negative length for the one that is left open
            if isinstance(child, ast.keyword) and child.arg == "image_offset" and isinstance(child.value, ast.Constant):
                continue  # what is parsed there was decrypted or unpacked, and has no address on the image
            if isinstance(child, ast.keyword) and child.arg == "initial":
                continue  # the least of what may be nothing is compared with what is there
            if (
                isinstance(child, ast.Constant)
                and isinstance(node, ast.Call)
                and ast.unparse(node.func).endswith("split")
            ):
                continue  # what follows the first piece is not looked at
            inner = child if isinstance(child, ast.stmt) else statement
            yield child, inner, is_body
            yield from _code(child, inner, is_inside=is_body)


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


def _is_reshape(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "reshape"


def _is_limit(statement: ast.AST) -> bool:
    """Whether a constant says how much is done at once, or at most: one more is as good."""
    return isinstance(statement, ast.AnnAssign) and LIMITS.match(ast.unparse(statement.target)) is not None


def _changes(node: ast.AST) -> Iterator[tuple[str, Callable[[], object], ast.AST | None]]:
    """Make each change of a node; yield its name, what takes it back, and the statement if it is not the node's."""
    if isinstance(node, ast.Compare):
        for place, operator in enumerate(node.ops):
            new = COMPARISONS[type(operator)]()
            node.ops[place] = new
            yield f"{_name(operator)} to {_name(new)}", _setter(node.ops, place, operator), None
    elif isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        old, node.op = node.op, OPERATORS[type(node.op)]()
        yield f"{_name(old)} to {_name(node.op)}", lambda: setattr(node, "op", old), None
    elif isinstance(node, ast.BoolOp):
        old = node.op
        node.op = ast.Or() if isinstance(old, ast.And) else ast.And()
        yield f"{_name(old)} to {_name(node.op)}", lambda: setattr(node, "op", old), None
    elif isinstance(node, ast.Constant) and type(node.value) is int:
        node.value += 1
        yield f"{node.value - 1} to {node.value}", lambda: setattr(node, "value", node.value - 1), None
    elif isinstance(node, (ast.If, ast.IfExp, ast.While)):
        test, node.test = node.test, ast.copy_location(ast.UnaryOp(ast.Not(), node.test), node.test)
        yield "condition negated", lambda: setattr(node, "test", test), None
    elif isinstance(node, ast.FunctionDef):
        for place, statement in enumerate(node.body):
            if isinstance(statement, (ast.Expr, ast.AugAssign)) and not isinstance(
                getattr(statement, "value", None), (ast.Constant, ast.Yield, ast.YieldFrom)
            ):
                node.body[place] = ast.copy_location(ast.Pass(), statement)
                yield "left out", _setter(node.body, place, statement), statement


def _setter(values: list, place: int, old: ast.AST):
    return lambda: values.__setitem__(place, old)


def _name(operator: ast.AST) -> str:
    return type(operator).__name__.lower()


class Overlay(importlib.abc.MetaPathFinder, importlib.abc.SourceLoader):
    """Import one module with the change of a mutant."""

    def __init__(self, mutant: Mutant) -> None:
        self.name = mutant.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        self.path = str(ROOT / mutant.path)
        self.mutant = mutant

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

    def get_data(self, path):
        """Return the text without the change."""
        return Path(path).read_bytes()

    def source_to_code(self, data, path, *, _optimize=-1):  # noqa: ARG002
        """Return the code with the change."""
        return self.mutant.code()

    def path_stats(self, path):  # noqa: ARG002
        """Keep Python from using or writing a compiled file."""
        raise OSError


def change_functions(mutant: Mutant) -> None:
    """Give the functions of a module that was imported the code of a mutant."""
    codes: dict[tuple[str, int], CodeType] = {}
    left = [mutant.code()]
    while left:
        code = left.pop()
        codes[code.co_qualname, code.co_firstlineno] = code
        left += [each for each in code.co_consts if isinstance(each, CodeType) and each.co_name != "<lambda>"]
    for item in gc.get_objects():
        if isinstance(item, FunctionType) and item.__code__.co_filename == str(ROOT / mutant.path):
            old = item.__code__
            item.__code__ = codes.get((old.co_qualname, old.co_firstlineno), old)


@dataclass
class Reach:
    """What a file of tests reached when nothing was changed: how long each test took, and who executed a line."""

    seconds: dict[str, float]
    tests: dict[str, dict[int, list[str]]]
    at_import: dict[str, list[int]]

    @classmethod
    def of_json(cls, values: dict) -> Reach:
        """Read what was kept."""
        tests = {path: {int(line): names for line, names in lines.items()} for path, lines in values["tests"].items()}
        return cls(values["seconds"], tests, values["at_import"])


class Recorder:
    """A plugin of pytest that keeps which test executes which line of the readers."""

    def __init__(self) -> None:
        import coverage

        self.seconds: Counter[str] = Counter()
        self.coverage = coverage.Coverage(
            data_file=None, config_file=False, include=[f"{ROOT}/{path}" for path in _sources()]
        )
        self.coverage.start()

    def pytest_runtest_logstart(self, nodeid, location):  # noqa: ARG002
        """Begin with a test."""
        self.coverage.switch_context(nodeid)
        self.seconds[nodeid] -= time.process_time()

    def pytest_runtest_logfinish(self, nodeid, location):  # noqa: ARG002
        """End with it."""
        self.seconds[nodeid] += time.process_time()

    def result(self) -> Reach:
        """Return what was kept."""
        self.coverage.stop()
        data = self.coverage.get_data()
        tests, at_import = {}, {}
        for file in data.measured_files():
            contexts = data.contexts_by_lineno(file)
            path = Path(file).relative_to(ROOT).as_posix()
            tests[path] = {line: [name for name in names if name] for line, names in contexts.items()}
            at_import[path] = [line for line, names in contexts.items() if "" in names]
        return Reach(dict(self.seconds), tests, at_import)


class Judge:
    """A plugin of pytest that gives mutants of functions to collected tests, each in a process of its own."""

    def __init__(self, work: Sequence[tuple[Mutant, Tests]], jobs: int, folder: Path) -> None:
        self.work, self.processes, self.folder = work, Processes(jobs, MAX_SECONDS), folder

    def pytest_runtestloop(self, session):
        """Try the mutants in place of the tests; write down how each ended."""
        items = {item.nodeid: item for item in session.items}
        ends: dict[int, int] = {}
        # What fails with nothing changed would notice every mutant.
        same = replace(self.work[0][0], number=NO_CHANGE)
        every = dict(test for _, tests in self.work for test in tests)
        self.processes.run(partial(_try, items, same, within_time(every.items())), _end_unless_passed)
        for place, (mutant, tests) in enumerate(self.work):
            self.processes.run(partial(_try, items, mutant, tests), partial(_keep_end, ends, place))
        self.processes.wait()
        (self.folder / "ends.json").write_text(json.dumps([ends[place] for place in range(len(self.work))]))
        return True


def _end_unless_passed(status: int, folder: Path) -> None:
    if status:
        sys.exit(f"tests fail with nothing changed:\n{(folder / 'output').read_text()}")


def _keep_end(ends: dict[int, int], place: int, status: int, folder: Path) -> None:  # noqa: ARG001
    ends[place] = os.waitstatus_to_exitcode(status)


def _try(items: dict[str, pytest.Item], mutant: Mutant, tests: Tests, folder: Path) -> int:
    """Run tests with a mutant in a process of its own until one fails; return its number."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        _begin(folder)
        change_functions(mutant)
        chosen = [items[name] for name, _ in tests]
        # Whoever begins with a folder of temporary files empties it: each process has its own.
        chosen[0].config._tmp_path_factory._given_basetemp = folder / "tests"
        for item, following, (_, seconds) in zip(chosen, [*chosen[1:], None], tests, strict=True):
            _limit(seconds)
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if item.session.testsfailed:
                told = item.config.pluginmanager.get_plugin("terminalreporter").stats
                for report in (*told.get("failed", ()), *told.get("error", ())):
                    os.write(1, f"\n{report.nodeid}\n{report.longreprtext}\n".encode())
                break
        else:
            status = 0
    finally:
        os._exit(status)


class Order:
    """A plugin of pytest that runs some tests in some order, each for a bounded time."""

    def __init__(self, wanted: Tests) -> None:
        self.seconds = dict(wanted)
        self.place = {name: place for place, (name, _) in enumerate(wanted)}

    def pytest_collection_modifyitems(self, items):
        """Keep those that are wanted."""
        items[:] = sorted(
            (each for each in items if each.nodeid in self.place), key=lambda each: self.place[each.nodeid]
        )

    def pytest_runtest_logstart(self, nodeid, location):  # noqa: ARG002
        """Set the clock of a test."""
        _limit(self.seconds[nodeid])


def _limit(seconds: float) -> None:
    """End the process, by a signal, if a test does not end that took some seconds before."""
    signal.setitimer(signal.ITIMER_PROF, GRACE_SECONDS + 10 * seconds)


def _begin(folder: Path) -> None:
    """Make a new process one that says nothing, and takes no more memory than it may."""
    os.setsid()
    output = os.open(folder / "output", os.O_RDWR | os.O_CREAT)
    for stream in (1, 2):
        os.dup2(output, stream)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))


def start(arguments: Sequence[str], plugin: Callable[[], object], folder: Path, mutant: Mutant | None = None) -> int:
    """Run pytest in a process of its own, which writes into a folder; return its number."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        _begin(folder)
        if mutant is not None:
            sys.meta_path.insert(0, Overlay(mutant))
        import pytest

        own = plugin()
        # Warnings are errors in the tests, but that pytest cannot rewrite what is imported here is no matter of theirs.
        options = ["-q", "-p", "no:cacheprovider", "-p", "no:cov", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
        status = int(pytest.main([*options, f"--basetemp={folder / 'tests'}", *arguments], plugins=[own]))
        if isinstance(own, Recorder) and status == 0:
            (folder / "reach.json").write_text(json.dumps(vars(own.result())))
    finally:
        os._exit(status)


class Processes:
    """Some processes at a time, each with a folder of its own."""

    def __init__(self, most: int, max_seconds: float = math.inf) -> None:
        self.most, self.max_seconds = most, max_seconds
        self.running: dict[int, tuple[Path, float, Callable[[int, Path], None]]] = {}

    def run(self, begin: Callable[[Path], int], end: Callable[[int, Path], None]) -> None:
        """Begin a process when there is room for one; its status and folder are handed over at its end."""
        self.wait(self.most - 1)
        folder = Path(tempfile.mkdtemp(prefix="mutations-"))
        self.running[begin(folder)] = folder, time.monotonic(), end

    def wait(self, most: int = 0) -> None:
        """Wait until no more than some are left; one that waits for something itself is ended."""
        while len(self.running) > most:
            child, status = os.waitpid(-1, os.WNOHANG)
            if child:
                folder, _, end = self.running.pop(child)
                try:
                    end(status, folder)
                finally:
                    shutil.rmtree(folder, ignore_errors=True)
                continue
            for number, (_, began, _) in self.running.items():
                if time.monotonic() - began > self.max_seconds:
                    os.kill(number, signal.SIGKILL)
            time.sleep(0.01)


def record(files: Sequence[str], kept: Path | None, jobs: int) -> dict[str, Reach]:
    """Run files of tests, each for itself, with nothing changed; ends if one fails. What was kept is not run anew."""
    found = json.loads(kept.read_text()) if kept is not None and kept.exists() else {}
    failed: list[str] = []
    processes = Processes(jobs)

    def begin(file: str) -> None:
        digest = hashlib.sha256(b"".join(Path(each).read_bytes() for each in [file, *map(str, _sources())])).hexdigest()

        def end(status: int, folder: Path) -> None:
            if status:
                failed.append(f"{file} fails with nothing changed:\n{(folder / 'output').read_text()[-3000:]}")
            else:
                found[file] = {"digest": digest, **json.loads((folder / "reach.json").read_text())}
                if kept is not None:
                    kept.write_text(json.dumps(found))

        if found.get(file, {}).get("digest") != digest:
            processes.run(partial(start, [file], Recorder), end)

    for file in files:
        begin(file)
    processes.wait()
    if failed:
        sys.exit("\n".join(failed))
    return {file: Reach.of_json(found[file]) for file in files}


def _sources() -> list[Path]:
    return [Path(path) for paths in READERS.values() for path in paths]


def choose(mutant: Mutant, reached: dict[str, Reach]) -> Tests:
    """List the tests that are given a mutant, with the seconds that each took."""
    first: dict[str, float] = {}
    then: dict[str, float] = {}
    for reach in reached.values():
        lines = reach.tests.get(mutant.path, {})
        # What runs when a module is imported may matter to each test of a file that imports it.
        is_imported = not set(mutant.lines).isdisjoint(reach.at_import.get(mutant.path, []))
        # A test may look at a constant alone, and execute no line of the module.
        names = set(reach.seconds) if is_imported else {name for line in mutant.lines for name in lines.get(line, [])}
        first |= {name: reach.seconds[name] for name in names}
        then |= {name: seconds for name, seconds in reach.seconds.items() if names and name not in names}
    return [*within_time(first.items()), *within_time(then.items(), MOST_SECONDS - sum(first.values()))]


def within_time(tests: Iterable[tuple[str, float]], left: float = MOST_SECONDS) -> Tests:
    """Take tests, the quickest first, as long as they take no more than some seconds together."""
    ends = accumulate(sorted(seconds for _, seconds in tests))
    return [test for test, end in zip(sorted(tests, key=lambda test: test[1]), ends, strict=True) if end <= left]


def judge(work: Sequence[tuple[Mutant, Tests]], jobs: int) -> list[int]:
    """Give mutants to their tests; return the exit code of each, which is 0 where no test noticed anything.

    Mutants of functions are made in processes in which everything was imported and collected before; others change what
    is made when a module is imported, so that all of this is done anew. Ends if the tests cannot be run.
    """
    ends = dict.fromkeys(range(len(work)), 0)
    inside = [place for place, (mutant, tests) in enumerate(work) if mutant.is_in_function and tests]
    processes = Processes(jobs, MAX_SECONDS)

    def end(place: int, status: int, folder: Path) -> None:
        _keep_end(ends, place, status, folder)
        if ends[place] == NO_TESTS:
            mutant = work[place][0]
            sys.exit(f"{mutant.path}:{mutant.lines.start} was given no tests:\n{(folder / 'output').read_text()}")

    for place, (mutant, tests) in enumerate(work):
        if tests and not mutant.is_in_function:
            begin = partial(start, ["-x", *_files(tests)], partial(Order, tests), mutant=mutant)
            processes.run(begin, partial(end, place))
    processes.wait()

    def end_all(status: int, folder: Path) -> None:
        if status:
            sys.exit(f"tests cannot be collected:\n{(folder / 'output').read_text()}")
        ends.update(zip(inside, json.loads((folder / "ends.json").read_text()), strict=True))

    if inside:
        chosen = [work[place] for place in inside]
        files = _files([test for _, tests in chosen for test in tests])
        whole = Processes(1)
        whole.run(lambda folder: start(["-s", *files], lambda: Judge(chosen, jobs, folder), folder), end_all)
        whole.wait()
    return [*ends.values()]


def _files(tests: Tests) -> list[str]:
    return list(dict.fromkeys(name.partition("::")[0] for name, _ in tests))


def _group(path: str, groups: Iterable[str]) -> str:
    return next(group for group in groups if path.startswith(group))


def main() -> None:
    """Run the mutants that were asked for and print those that no test noticed."""
    parser = argparse.ArgumentParser(description=__doc__)
    every = [path for paths in READERS.values() for path in paths]
    parser.add_argument("paths", nargs="*", default=every, metavar="MODULE", help="modules of the readers; all without")
    parser.add_argument("--sample", type=int, default=60, help="how many mutants are drawn of each part; 0 for all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--line", type=int, help="only those of one line")
    parser.add_argument(
        "--unit", action="store_true", help="ask unit tests alone: they take less time, and notice less"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="how many processes run at a time")
    parser.add_argument("--kept", type=Path, help="a file that keeps which test executes which line, for the next run")
    options = parser.parse_args()
    os.chdir(ROOT)
    os.environ.update(LAYOUTSCOPE_SHARED=str(ROOT / "no-such-folder"), PYTHONPATH=str(ROOT))
    by_part: dict[str, list[Mutant]] = defaultdict(list)
    for path in options.paths:
        part = next(part for part, paths in READERS.items() if path in paths)
        by_part[part] += mutants_of(path)
    for part, mutants in by_part.items():
        if options.line:
            by_part[part] = [each for each in mutants if options.line in each.lines]
        elif 0 < options.sample < len(mutants):
            by_part[part] = random.Random(options.seed).sample(mutants, options.sample)  # noqa: S311
    for name in ("pytest", "numpy", "polars", "hypothesis", "construct", "kaitaistruct", "typer", "rich"):
        importlib.import_module(name)  # every child needs them, and the package itself must not be there before
    folders = {
        part: [
            file
            for file in _test_files(TESTS[_group(part, TESTS)])
            if not options.unit or file.startswith("tests/unit/")
        ]
        for part in by_part
    }
    reached = record(sorted({file for files in folders.values() for file in files}), options.kept, options.jobs)
    for part, mutants in by_part.items():
        began, known = time.monotonic(), {file: reached[file] for file in folders[part]}
        ends = judge([(mutant, choose(mutant, known)) for mutant in mutants], jobs=options.jobs)
        for mutant, code in sorted(zip(mutants, ends, strict=True), key=lambda item: (item[0].path, item[0].number)):
            if code <= 0:
                # A change that makes a test take for ever is one, but only who reads it can say that load is not.
                how = f"ended by {signal.Signals(-code).name}" if code else "missed"
                print(f"{mutant.path}:{mutant.lines.start} {mutant.what}: {how}")  # noqa: T201
        count, seconds = len(mutants) - ends.count(0), time.monotonic() - began
        told = f"{count} of {len(mutants)} noticed ({count / max(len(mutants), 1):.1%})"
        print(f"{part}: {told}, seed {options.seed}, {seconds:,.0f} s", flush=True)  # noqa: T201


def _test_files(places: Sequence[str]) -> list[str]:
    return [
        file.as_posix()
        for place in map(Path, places)
        for file in ([place] if place.suffix else sorted(place.rglob("test_*.py")))
    ]


if __name__ == "__main__":
    main()

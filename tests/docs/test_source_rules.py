"""Rules of the code base that no linter knows."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from tests.docs.imports import Module, imports, read_modules

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "layoutscope"
FORMAT_NUMBERS = re.compile(r"\bstruct\.|int\.from_bytes|np\.dtype\(\[|[\"'][<>][uif][1248][\"']")
ALLOWED = {
    "structs/checksum.py",  # a checksum is defined over little-endian words
    "image/containers/wrappers.py",  # lengths of DER have as many bytes as they say
    "drive/recordings.py",  # the trace format is pairs of little-endian numbers, no disk structure
    "drive/trace_files.py",  # the same
}


CATCHES_ALL = {
    "filesystems/registry.py",  # a stranger's package is loaded
    "fleet/query.py",  # what a thread ends in is raised in the one that waits for it
}

CLOCK = re.compile(r"\b(process_time|perf_counter|monotonic)(_ns)?\(|\bdeadline=\d")
FILE_SYSTEM = re.compile(r"\b(hfsplus|apfs|HFSX|APFS)\b|HFS\+")
FILE_SYSTEMS_NAMED = {
    "filesystems/registry.py",  # where the built-in ones are
    "tables/schema.py",  # what a column holds on each of them
    "walk/host.py",  # sources name the drivers that were read
}


def place_of(module: Module) -> str:
    return module.path.relative_to(PACKAGE).as_posix()


def test_format_numbers_stand_only_in_grammars():
    """No hand-written module knows byte orders and widths."""
    found = [
        f"{place_of(module)}:{number}"
        for module in read_modules().values()
        if place_of(module) not in ALLOWED
        for number, line in enumerate(module.text.splitlines(), 1)
        if FORMAT_NUMBERS.search(line)
    ]
    assert found == []


def test_file_systems_are_named_in_their_packages_alone():
    """Outside, no text of the code is the name of a file system, but where a reason is given, and never as a value."""
    names = {path.stem for path in PACKAGE.glob("plugins/[a-z]*.py")}
    # Each room that knows formats has a package or module of a file system's name.
    outside = [module for module in read_modules().values() if not names & {*module.name.split(".")[2:3]}]
    assert len(names) == 2
    texts = {place_of(module): _texts(module.tree) for module in outside}
    assert {place for place, found in texts.items() if any(map(FILE_SYSTEM.search, found))} == FILE_SYSTEMS_NAMED
    assert [place for place, found in texts.items() if {"hfsplus", "apfs"} & {*found}] == []


def test_no_function_is_given_a_list_of_findings():
    """Who finds something has a log of findings; no list goes round that anybody appends to."""
    given = [
        f"{module.name}.{node.name}"
        for module in read_modules().values()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.FunctionDef) and "list[Finding]" in ast.unparse(node.args)
    ]
    assert given == []


def test_no_imports_make_a_circle():
    """Imports for type checkers and inside functions count, too."""
    graph = imports(read_modules())
    assert len(graph) > 100
    TopologicalSorter(graph).prepare()  # raises CycleError


def _texts(tree: ast.Module) -> list[str]:
    """Texts of the code: strings that are not docstrings."""
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    constants = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in docs]
    return [node.value for node in constants if isinstance(node.value, str)]


def test_nothing_is_swallowed():
    """Code that catches every exception raises it again, except at two edges, which report it in one line."""
    found = {
        place_of(module)
        for module in read_modules().values()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ExceptHandler) and _takes_all(node) and not _raises(node)
    }
    assert found == CATCHES_ALL


@pytest.mark.parametrize(
    ("caught", "takes_all"),
    [("", True), ("Exception", True), ("BaseException as e", True), ("(OSError, Exception)", True), ("OSError", False)],
)
def test_what_takes_all_is_found(caught, takes_all):
    """Without a name, by a base, in a tuple."""
    (handler,) = ast.parse(f"try:\n    pass\nexcept {caught}:\n    pass\n").body[0].handlers
    assert _takes_all(handler) is takes_all
    assert not _raises(handler)


def _takes_all(handler: ast.ExceptHandler) -> bool:
    """Whether it catches every exception."""
    names = (
        {node.id for node in ast.walk(handler.type) if isinstance(node, ast.Name)} if handler.type else {"Exception"}
    )
    return bool(names & {"Exception", "BaseException"})


def _raises(handler: ast.ExceptHandler) -> bool:
    """Whether what it catches, or what it makes of it, is raised."""
    return any(isinstance(node, ast.Raise) for node in ast.walk(handler))


def test_no_test_reads_a_clock():
    """Outside of benchmarks, what must be quick is counted, so that a busy machine fails nothing."""
    tests = {*(ROOT / "tests").rglob("test_*.py")} - {*(ROOT / "tests/bench").iterdir(), Path(__file__)}
    assert [path.name for path in tests if CLOCK.search(path.read_text())] == []
    assert CLOCK.search("time.process_time() < 5")
    assert CLOCK.search("@settings(deadline=200)")


def test_layers_hold():
    """Imports follow the layers of the design."""
    lint = Path(sys.executable).with_name("lint-imports")
    result = subprocess.run([lint], cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout


def test_fixtures_and_package_are_strangers():
    """The writers know nothing of the readers, nor the readers of the writers."""
    imports = re.compile(r"^\s*(from|import) (\w+)", re.MULTILINE)
    names = lambda folder: {match[1] for path in folder.rglob("*.py") for match in imports.findall(path.read_text())}  # noqa: E731
    assert "layoutscope" not in names(ROOT / "fixtures")
    assert "fixtures" not in names(PACKAGE)

"""What the docs name is there: files, modules, tests, rooms; what they quote is in the code; their examples run."""

from __future__ import annotations

import ast
import doctest
import re
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

from tests.docs.imports import ROOT, imports, read_modules, rooms

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PAGES = [ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
WITH_EXAMPLES = [page for page in PAGES if ">>>" in page.read_text(encoding="utf-8")]
TOP = ("layoutscope", "tests", "fixtures", "ksy", "docs", ".ci")
QUOTED = re.compile(r"<!-- from (\S+) -->\n *```\w*\n(.*?)```", re.DOTALL)
WRITTEN = re.compile(r"<!-- write (\S+) -->\n```\w*\n(.*?)```", re.DOTALL)


@pytest.fixture(params=PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def page(request) -> Path:
    return request.param


def test_links_lead_somewhere(page):
    """Each relative link and picture is of a file that is there."""
    links = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_paths_are_there(page):
    """Each path in code style that begins in the repository exists, and so does the test after its colons."""
    names = re.findall(rf"`((?:{'|'.join(map(re.escape, TOP))})/[^`\s]*)`", page.read_text())
    assert [name for name in names if not _is_there(name)] == []


def _is_there(name: str) -> bool:
    path, _, test = name.partition("::")
    return (ROOT / path).exists() and (not test or f"def {test}(" in (ROOT / path).read_text())


def test_names_are_defined(page):
    """Each dotted name of the package or the tests is a module, or defined in one."""
    names = re.findall(r"`((?:layoutscope|tests|fixtures)(?:\.\w+)+)`", page.read_text())
    assert [name for name in names if not _is_defined(name)] == []


def _is_defined(name: str) -> bool:
    parent, _, last = name.rpartition(".")
    if find_spec(parent) is None:
        return False
    return hasattr(import_module(parent), last) or find_spec(name) is not None


def test_every_room_is_explained():
    """The table of the architecture has the rooms of the house, each once."""
    page = (ROOT / "docs" / "dev" / "architecture.md").read_text()
    table = page.split("| room | knows |")[1].split("\n\n")[0]
    named = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
    assert sorted(named) == sorted(rooms(imports(read_modules()), "layoutscope"))


def test_every_decision_is_listed():
    """The list of decisions leads to each page once."""
    folder = ROOT / "docs" / "dev" / "decisions"
    pages = sorted(path.name for path in folder.glob("0*.md"))
    assert re.findall(r"\]\((0[^)]+)\)", (folder / "README.md").read_text()) == pages


def test_quotations_stand_in_the_code(page):
    """The lines of each quotation stand one after the other in the file that it names, however far indented."""
    for name, text in QUOTED.findall(page.read_text()):
        stripped = [line.strip() for line in (ROOT / name).read_text().splitlines()]
        quoted = [line.strip() for line in text.strip().splitlines()]
        places = range(len(stripped) - len(quoted) + 1)
        assert any(stripped[place : place + len(quoted)] == quoted for place in places), f"{name}: {text}"


@pytest.mark.parametrize("page", WITH_EXAMPLES, ids=lambda page: page.name)
def test_examples_hold(page, tmp_path, monkeypatch):
    """The examples of a page run, beside the files that it writes and the committed images."""
    if page.name in ("fleets.md", "library.md"):
        pytest.importorskip("duckdb", reason="duckdb is not installed (pip install 'layoutscope[query]')")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fixtures").symlink_to(ROOT / "fixtures")
    for name, text in WRITTEN.findall(page.read_text()):
        (tmp_path / name).write_text(text)
    outcome = doctest.testfile(str(page), module_relative=False, encoding="utf-8")
    assert outcome.failed == 0
    assert outcome.attempted > 0


def test_words_that_the_glossary_rejects_do_not_come_back():
    """No function, class, parameter or variable of the package has one of them in its name."""
    page = (ROOT / "docs" / "glossary.md").read_text()
    rejected = set(re.findall(r"`(\w+)`", page.split("Never part of a name")[1]))
    assert len(rejected) > 20
    found = {
        f"{module.name}: {name}"
        for module in read_modules().values()
        for name in _names(module.tree)
        if rejected & {word.lower() for word in re.findall(r"[a-z]+|[A-Z][a-z]*", name)}
    }
    assert found == set()


def _names(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


NAMED_TESTS = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", "".join(page.read_text() for page in PAGES))


@pytest.mark.parametrize(("module", "test"), NAMED_TESTS, ids=[test for _, test in NAMED_TESTS])
def test_a_test_that_is_named_is_there(module, test):
    """Whatever a page says holds something."""
    tree = ast.parse((ROOT / module).read_text(encoding="utf-8"))
    assert test in {item.name for item in ast.walk(tree) if isinstance(item, ast.FunctionDef)}

"""What the pages name is there: links, files, tests, rooms, commands; what they quote is in the code; examples run."""

from __future__ import annotations

import ast
import doctest
import re
import shlex
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np
import pytest
import typer.main

from layoutscope.cli import app
from layoutscope.cli.help import command_of_form
from tests.cases import for_each
from tests.docs import pages
from tests.docs.imports import ROOT, read_modules

if TYPE_CHECKING:
    from collections.abc import Iterator

DOCS = pages.DOCS
PAGES = {
    page.relative_to(ROOT).as_posix(): page
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md")))
    if page.parent.name != "grammars" or page.name == "README.md"
}
"""Committed pages by their places; those of the grammars are built."""

TOP = ("layoutscope", "tests", "fixtures", "ksy", "docs", ".ci")
QUOTED = re.compile(r"<!-- from (\S+) -->\n *```\w*\n(.*?)```", re.DOTALL)
WRITTEN = re.compile(r"<!-- write (\S+) -->\n```\w*\n(.*?)```", re.DOTALL)
BLOCK = re.compile(r"^ *```(?:sh|console|text)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`((?:sudo )?layoutscope [^`]+)`")
NEEDS_DUCKDB = ("docs/fleets.md", "layoutscope.fleet.query", "layoutscope.fleet.report")


@for_each("name, page", PAGES.items())
def test_links_lead_somewhere(name, page):
    """Each relative link and picture of a page is of a committed file, so none is dead in a repository's browser."""
    text = page.read_text(encoding="utf-8")
    links = {*re.findall(r"\]\((?!https?:)([^)#]+)", text), *re.findall(r'(?:src|srcset)="([^"]+)"', text)}
    built = {(DOCS / place).resolve() for place in pages.built()}
    missing = [link for link in links if not (page.parent / link).exists() or (page.parent / link).resolve() in built]
    assert missing == [], name


@for_each("name", PAGES)
def test_addresses_are_well_formed(name):
    """All are https and of hosts that others know; ``nox -s links`` follows them."""
    found = re.findall(r"(https?://[\w.-]+)(?:\.(?=\s|$))?([^\s)>\"'`]*)", pages.read(PAGES[name]))
    names = {"http://www.forensicswiki.org", "https://host"}  # of a namespace, and an example
    wrong = [host + path for host, path in found if not re.match(r"https://[\w-]+\.[\w.-]*[a-z]", host) or "//" in path]
    assert [each for each in wrong if not each.startswith(tuple(names))] == []


@for_each("name", PAGES)
def test_names_are_there(name):
    """Paths of the repository, functions of tests after two colons, and dotted names of the package and the tests."""
    text = pages.read(PAGES[name])
    places = re.findall(rf"`((?:{'|'.join(map(re.escape, TOP))})/[^`\s]*)`", text)
    dotted = re.findall(r"`((?:layoutscope|tests|fixtures)(?:\.\w+)+)`", text)
    commands = re.findall(r"python -m (tests(?:\.\w+)+)", text)
    assert [each for each in places if not _is_there(each)] == []
    assert [each for each in [*dotted, *commands] if not _is_defined(each)] == []


def _is_there(name: str) -> bool:
    path, _, test = name.partition("::")
    return (ROOT / path).exists() and (not test or f"def {test}(" in (ROOT / path).read_text())


def _is_defined(name: str) -> bool:
    parent, _, last = name.rpartition(".")
    if find_spec(parent) is None:
        return False
    return hasattr(import_module(parent), last) or find_spec(name) is not None


def test_every_room_is_explained():
    """The table of the architecture has the rooms of the package, each once."""
    table = (DOCS / "dev" / "architecture.md").read_text().split("| room | knows |")[1].split("\n\n")[0]
    rooms = {name.split(".")[1] for name in read_modules() if "." in name}
    assert sorted(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == sorted(rooms)


@for_each("folder, first", [(".", "index.md"), ("reference", "README.md"), ("dev", "README.md")])
def test_every_page_is_listed_once(folder, first):
    """The first page of a folder lists each other page, and the first pages of its folders."""
    listed = re.findall(r"\]\(([^)#]+)\)", (DOCS / folder / first).read_text(encoding="utf-8").split("\n## ", 1)[-1])
    assert sorted(listed) == _names(folder, first)


def _names(folder: str, first: str) -> list[str]:
    place = DOCS / folder
    found = [path.name for path in place.iterdir() if path.suffix in (".md", ".ipynb") and path.name != first]
    return sorted([*found, *(str(path.relative_to(place)) for path in place.glob("*/README.md"))])


def test_every_decision_is_listed():
    """The list of decisions leads to each page once."""
    folder = DOCS / "dev" / "decisions"
    found = sorted(path.name for path in folder.glob("0*.md"))
    assert re.findall(r"\]\((0[^)]+)\)", (folder / "README.md").read_text()) == found


def test_there_are_few_pages_to_read():
    """About 25 pages for users in four groups; everything else is in the reference or for developers."""
    groups = re.findall(r"(?m)^## (.+)$", (DOCS / "index.md").read_text(encoding="utf-8"))
    assert groups == ["Start", "Tasks", "Concepts", "Evidence", "Apart"]
    assert len(_names(".", "index.md")) <= 25
    assert len([path for path in (DOCS / "dev").glob("*.md") if path.name != "README.md"]) <= 10


@for_each("name, page", PAGES.items())
def test_quotations_are_in_the_code(name, page):
    """The lines of each quotation follow each other in the file that it names, however far indented."""
    for file, text in QUOTED.findall(page.read_text()):
        stripped = [line.strip() for line in (ROOT / file).read_text().splitlines()]
        quoted = [line.strip() for line in text.strip().splitlines()]
        places = range(len(stripped) - len(quoted) + 1)
        assert any(stripped[place : place + len(quoted)] == quoted for place in places), f"{name}, {file}: {text}"


def test_words_that_the_glossary_rejects_do_not_come_back():
    """No function, class, parameter or variable of the package has one of them in its name."""
    rejected = set(re.findall(r"`(\w+)`", (DOCS / "glossary.md").read_text().split("Never part of a name")[1]))
    assert len(rejected) > 20
    found = {
        f"{module.name}: {name}"
        for module in read_modules().values()
        for name in _names_in(module.tree)
        if rejected & {word.lower() for word in re.findall(r"[a-z]+|[A-Z][a-z]*", name)}
    }
    assert found == set()


def _names_in(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


# Examples


@for_each("name", [name for name, page in PAGES.items() if ">>>" in page.read_text(encoding="utf-8")])
def test_examples_of_a_page_hold(name, tmp_path, monkeypatch):
    """They run beside the files that the page writes and the committed images."""
    if name in NEEDS_DUCKDB and find_spec("duckdb") is None:
        return
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fixtures").symlink_to(ROOT / "fixtures")
    for file, text in WRITTEN.findall(PAGES[name].read_text()):
        (tmp_path / file).write_text(text)
    outcome = doctest.testfile(str(PAGES[name]), module_relative=False, encoding="utf-8")
    assert outcome.failed == 0
    assert outcome.attempted > 0


@for_each("name", [name for name, module in read_modules().items() if ">>>" in module.text])
def test_examples_of_docstrings_hold(name, tmp_path, monkeypatch):
    """Each example of a module gives what it shows, in a folder of its own beside the committed images."""
    if name in NEEDS_DUCKDB and find_spec("duckdb") is None:
        return
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fixtures").symlink_to(ROOT / "fixtures")
    outcome = doctest.testmod(import_module(name), extraglobs={"np": np})
    assert outcome.attempted > 0
    assert outcome.failed == 0


# Commands


def commands(text: str) -> list[str]:
    """Return the command lines of the program in a page, comments and prompts taken off."""
    lines = [line for block in BLOCK.findall(text) for line in block.replace("\\\n", " ").splitlines()]
    typed = [line.strip().removeprefix("$ ").partition("  #")[0] for line in lines]
    shown = [each for each in typed if re.match(r"(?:\w+=\S+ )?(?:sudo )?layoutscope [a-z-]", each)]
    return shown + [" ".join(each.split()) for each in INLINE.findall(text)]


def unknown(line: str) -> list[str]:
    """Return what of a command line the program does not know: the verb, or options of it."""
    words = shlex.split(line.split(" | ", maxsplit=1)[0].replace("…", ""), posix=True)
    words = words[words.index("layoutscope") + 1 :]
    if words[0].startswith("-"):
        return [word for word in words if word not in {"--version", "--help", "--show-completion"}]
    if words[0].isupper():
        return []
    part, rest = command_of_form(words)
    words = [part, *rest] if part else words
    verb = typer.main.get_command(app).commands.get(words[0])
    if verb is None:
        return [words[0]]
    known = {name for each in verb.params for name in (*each.opts, *each.secondary_opts)}
    known |= {"--help", "-h", "--help-all"}
    return [word for word in words[1:] if re.match(r"--?[a-z]", word) and word.partition("=")[0] not in known]


def test_commands_of_the_pages_are_there():
    """No page shows a verb or an option that the program does not have; in blocks and in sentences."""
    seen = [
        (name, line)
        for name, page in PAGES.items()
        if page.name not in ("commands.md", "changelog.md")
        for line in commands(page.read_text(encoding="utf-8"))
    ]
    assert len(seen) > 80
    assert any(line.startswith("sudo ") for _, line in seen)
    assert [(name, line, unknown(line)) for name, line in seen if unknown(line)] == []


@pytest.mark.parametrize(
    ("line", "missing"),
    [
        ("layoutscope scann disk.img", ["scann"]),
        ("sudo layoutscope scan /dev/rdisk4 --drvie x --json", ["--drvie"]),
        ("LAYOUTSCOPE_PASSWORD=a layoutscope scan x --password-file=y", []),
        ("layoutscope map disk.img -o a.html | head --bytes 3", []),
        ("layoutscope map disk.img -q a.html", ["-q"]),
    ],
)
def test_what_is_not_there_is_found(line, missing):
    """A misspelt verb, a misspelt option, and an option of another program after a pipe, which is none of ours."""
    assert unknown(line) == missing

"""The reference has everything that the code has, with description, unit, default, and a place of its own."""

from __future__ import annotations

import inspect
import os
import re
import shutil
import subprocess
from typing import get_args

import pytest

import layoutscope
from layoutscope.api.session import Session
from layoutscope.cli.application import COMMANDS
from layoutscope.cli.help import EXIT_CODES, FORMS
from layoutscope.drive import list_profiles
from layoutscope.filesystems.registry import finding_codes, refusals
from layoutscope.metrics import DEFINITIONS
from layoutscope.options import Unit
from layoutscope.remedies.case import words_of
from layoutscope.remedies.planning import list_remedies
from layoutscope.results.scan import ScanResult
from layoutscope.tables import TABLES, VolumeLayout
from layoutscope.walk.host import LINUX, property_values
from layoutscope.walk.orders import ORDERS
from tests.cases import for_each
from tests.docs import grammar_pages, pages
from tests.docs.manual import MANUAL, VARIABLES, manual, options_of, reference
from tests.fields.grammars import grammars
from tests.toyfs.toyfs import TOY

REFERENCE = pages.DOCS / "reference"
CODES = sorted(finding_codes().keys() - TOY.traits.finding_codes.keys())  # the tests bring a file system along

# Commands


@for_each("name", COMMANDS)
def test_every_option_has_a_description_a_unit_and_a_default(name):
    """A row of the reference without one of them is not enough for a user."""
    section = reference().split(f"### {name}\n")[1].split("\n### ")[0].split("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| `")]
    assert len(rows) == len(options_of(name))
    for row in rows:
        cells = [cell.strip() for cell in row.replace("\\|", "/").strip("|").split("|")]
        assert len(cells) == 4
        assert all(cells), row


def test_the_manual_is_fresh_and_shown_without_a_complaint():
    """``python -m tests.docs.manual`` writes it; man and groff take it, with every verb and no warning."""
    assert MANUAL.read_text(encoding="utf-8") == manual()
    groff = shutil.which("groff")
    if groff is None:
        pytest.skip("groff is not installed")
    command = [groff, "-man", "-Tutf8", "-ww", str(MANUAL)]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, "LC_ALL": "C.UTF-8"})
    assert shown.stderr == ""
    # Bold letters are struck twice, as on paper.
    text = re.sub(".\x08", "", shown.stdout)
    assert all(f"\n   {FORMS.get(name, name)}\n" in text for name in COMMANDS)


# The library

VERBS = {f"layoutscope.{name}": getattr(layoutscope, name) for name in sorted({*layoutscope.__all__} - {"__version__"})}
METHODS = {f"Session.{name}": method for name, method in vars(Session).items() if not name.startswith("_")}
METHODS |= {f"ScanResult.{name}": getattr(ScanResult, name) for name in ("map", "figure", "save")}
METHODS |= {"VolumeLayout.costs": VolumeLayout.costs}
KEYWORD = re.compile(r"^\*{0,2}(\w+(?:, \w+)*) : (.+)\n((?:    .*\n?|\n)*)", re.MULTILINE)


def keywords(doc: str) -> dict[str, tuple[str, str]]:
    """Return the type and the text of each parameter in a docstring."""
    _, _, rest = inspect.cleandoc(doc).partition("Parameters\n----------\n")
    body = re.split(r"\n\n\w[\w ]*\n-{3,}\n", rest)[0] + "\n"
    return {name: (kind, text) for names, kind, text in KEYWORD.findall(body) for name in names.split(", ")}


def faults_of_keyword(item: inspect.Parameter, doc: str) -> list[str]:
    """List what the description of a parameter lacks: type, text, the unit of a number, the default."""
    kind, text = keywords(doc).get(item.name, ("", ""))
    parts = kind.split(", ")
    faults = [] if kind and len(text.split()) > 1 else ["not described"]
    if parts[0].split(" ")[0] in ("int", "float") and not {*parts} & {*get_args(Unit)}:
        faults.append("a number without a unit")
    if item.default is not item.empty:
        if "optional" not in parts and not re.search(r"\b(?:default|optional)\b", kind) and item.default is None:
            faults.append("may be left out and does not say so")
        stated = kind.partition("default ")[2]
        if stated and stated != repr(item.default):
            faults.append("another default")
    return faults


@for_each("name, function", (VERBS | METHODS).items())
def test_no_keyword_lacks_description_unit_or_default(name, function):
    """Every parameter is described; numbers have a unit, and optional ones a default."""
    given = [item for item in inspect.signature(function).parameters.values() if item.kind is not item.VAR_KEYWORD]
    faults = {item.name: faults_of_keyword(item, function.__doc__) for item in given if item.name != "self"}
    assert {keyword: found for keyword, found in faults.items() if found} == {}, name


def test_a_keyword_without_unit_or_text_would_be_found():
    """The test above fails if one of these is missing."""

    def verb(size=1, rate=2.0, *, other=None, last=3):
        """Do.

        Parameters
        ----------
        size : int
            The size of it.
        rate : float, bytes, default 3.0
            The rate.
        last : {'x, y'}, optional
            The last.
        """

    found = [faults_of_keyword(item, verb.__doc__) for item in inspect.signature(verb).parameters.values()]
    unit, default, text = "a number without a unit", "another default", "not described"
    assert found == [[unit], [default], [text, "may be left out and does not say so"], []]


@for_each("name, function", VERBS.items())
def test_every_verb_says_what_it_raises_and_shows_an_example(name, function):
    """Functions without parameters raise nothing; the page has each verb once."""
    doc = inspect.cleandoc(function.__doc__)
    assert "Examples\n---" in doc
    assert ">>>" in doc
    if inspect.signature(function).parameters:
        assert "Parameters\n---" in doc
        assert "Raises\n---" in doc
    page = (REFERENCE / "library.md").read_text(encoding="utf-8")
    assert page.count(f".. autofunction:: {name.removeprefix('layoutscope.')}\n") == 1


def test_every_module_of_results_is_on_their_page():
    """All results are described, in whichever module they are."""
    listed = re.findall(r"(?m)^\.\. automodule:: (\S+)$", (REFERENCE / "results.md").read_text(encoding="utf-8"))
    modules = (pages.ROOT / "layoutscope" / "results").glob("[!_]*.py")
    assert listed == sorted(f"layoutscope.results.{path.stem}" for path in modules)


# Codes

PLACES = {
    "reference/findings": [*CODES, *refusals()],
    "reference/metrics": list(DEFINITIONS),
    "reference/tables": [f"{name}.{column.name}" for name, columns in TABLES.items() for column in columns],
    "workloads": list(ORDERS),
    "drives": list(list_profiles()),
    "reference/hosts": ["linux", "macos", *property_values(LINUX)],
    "reference/commands": [
        *(f"exit-code-{code}" for code, _ in EXIT_CODES), *(name.lower() for name, _ in VARIABLES)
    ],
}  # fmt: skip
"""By page, what each row can be led to by."""


@for_each("page, wanted", PLACES.items())
def test_every_code_has_a_place_of_its_own(page, wanted):
    """An address can be made from a code alone, in small letters; no place is named twice, nor as a heading is."""
    text = pages.read(pages.DOCS / f"{page}.md")
    found = [each for each in re.findall(r'<a id="([^"]+)"></a>', text) if each not in TOY.traits.finding_codes]
    assert sorted(found) == sorted(wanted)
    assert all(re.fullmatch(r"[a-z0-9][a-z0-9_.-]*", each) for each in found)
    assert len(set(found)) == len(found)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    assert not set(found) & {re.sub(r"[^a-z0-9]+", "-", each.lower()).strip("-") for each in headings}


def test_everything_is_named():
    """Each command, metric, finding code and table occurs on a page."""
    text = "".join(map(pages.read, [pages.ROOT / "README.md", *sorted(pages.DOCS.rglob("*.md"))]))
    names = [*COMMANDS, *DEFINITIONS, *CODES, *TABLES]
    assert [name for name in names if f"`{name}`" not in text and f"\n### {name}\n" not in text] == []


def test_every_remedy_has_its_section():
    """Each section that a plan names exists, each is about a remedy of a plan, and the text by people comes first."""
    page = pages.read(pages.DOCS / "remedies.md")
    named = {words_of(name).page.removeprefix("docs/remedies.md#") for name in list_remedies()}
    assert named == set(re.findall(r"(?m)^### ([a-z][a-z-]+)$", page))
    assert page.index("# Remedies") < page.index("1. **") < page.index("## All remedies") < page.index("### In ")


# Grammars


@for_each("name, spec", grammars().items())
def test_every_field_of_a_grammar_has_a_row(name, spec):
    """Each field of each structure is on the page of its grammar once a structure, and so is each value."""
    rows = grammar_pages.page(name, spec).splitlines()
    parts = spec.get("types", {}).values()
    fields, instances = (sum(len(body.get(part, ())) for body in parts) for part in ("seq", "instances"))
    values = sum(map(len, spec.get("enums", {}).values()))
    heads = sum(1 for row in rows if row.startswith(("| at |", "| value |", "| worked out |")))
    assert sum(1 for row in rows if row.startswith("|")) - 2 * heads == fields + values + instances


def test_places_end_where_a_field_varies():
    """Fields after a text of any length have no place; stars and brackets of a grammar are escaped."""
    rows = grammar_pages.page("hfsplus_catalog", grammars()["hfsplus_catalog"]).splitlines()
    key = rows[rows.index("## `catalog_key`") :]
    cells = [row.split("|")[1:4] for row in key if row.startswith("| ") and "`" in row][:5]
    places = {name.strip(" `"): place.strip() for place, _, name in cells}
    assert places["parent_id"] == "2"
    assert grammar_pages.escape("a*b [c] <d>") == r"a\*b \[c\] \<d\>"

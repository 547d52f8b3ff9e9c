"""First screens are the texts in ``screens``; ``layoutscope explain`` knows what screens print."""

from __future__ import annotations

import ast
import re
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple

import pytest
from rich.table import Table
from typer.testing import CliRunner

import layoutscope
from layoutscope.cli import app
from layoutscope.cli.application import COMMANDS
from layoutscope.errors import UsageError
from layoutscope.metrics import DEFINITIONS
from layoutscope.remedies.case import all_words
from layoutscope.tables import TABLES
from layoutscope.tables.frames import FLEET_TABLES, FRAMES
from tests.docs.imports import ROOT
from tests.docs.screens import COMMITTED, FOLDER, MADE, REFERENCE, made, screen

if TYPE_CHECKING:
    from collections.abc import Iterator

APFS, HFS = (str(COMMITTED / f"{name}-scattered.img.zst") for name in ("apfs", "hfsplus"))

COMMAND_LINES = {
    "scan": ("scan {apfs} --details", "scan {hfs} --details", "scan damaged.img --details", "scan locked.img"),
    "list": ("list {apfs} --format csv",),
    "plan": ("plan {apfs} --all", "plan {hfs}"),
    "map": ("map {apfs} -o map.html",),
    "compare": ("compare {hfs} {apfs}",),
    "series": ("compare --over-time {apfs} {apfs}",),
    "check": ("check damaged.img", "check {hfs}"),
    "predict": ("predict {apfs} --placement unknown --what-if packed", "predict {apfs} --order all"),
    "trace": ("trace {apfs} -o walk.csv",),
    "replay": ("trace replay walk.csv --against {apfs} --order names",),
    "drives": ("drives", "drives generic-7200", "drives generic-7200 sata-ssd"),
    "fit": ("drives fit mine --random-ms 12.5 --rate-mb-s 140 -o mine.toml",),
    "kit": ("drives kit -o kit.sh",),
    "forecast": ("forecast {apfs} --cycles 1 --seeds 2",),
    "export": ("export {apfs} --table metrics --format csv",),
    "extract": ("export {apfs} --metadata-image small.img",),
    "query": ("query {apfs} --list", "query {apfs} 'SELECT * FROM volumes'"),
    "batch": ("batch {apfs} {hfs} -o folder",),
    "report": ("batch report folder -o report.html",),
    "inspect": ("inspect {apfs} --at 40960", "inspect {hfs} --path /Users"),
    "checkpoints": ("inspect {apfs} --states",),
    "explain": ("explain node",),
    "verify": ("verify tiny.img",),
    "cache": ("cache",),
}
"""What is typed, by verb."""

NOT_RUN = {"measure": "needs a drive", "validate": "needs an archive from a Mac"}
"""Verbs that do not run here; the heads of their tables are read from the code."""

WITH_DUCKDB = {"query", "report"}
"""Verbs that are left out without the extra `query`."""

NO_LABELS = {"list", "export", "query", "explain"}
"""Verbs that print what is on the disk, or texts of others, without labels of their own."""

SENTENCES = {
    "The cache is off": "a sentence",
    "Under a second": "a sentence",
    "make larger requests": "the first half of the title of a remedy",
    "flight": "the end of a wrapped title",
}
"""Words before a colon that are not labels, each with the reason."""

LABEL = re.compile(r"^ *([A-Z]?[a-z]+(?: [a-z]+){0,3}): ", re.MULTILINE)
VERDICT = re.compile(r"^ *([A-Z]{2,})(?::| on )", re.MULTILINE)
PRIVATE = re.compile(r"\b(strewn|headroom|dearest|dearer|told|upper bound|lower bound|\bbound \d)", re.IGNORECASE)


class Screens(NamedTuple):
    """What the commands printed: heads of tables, and texts by verb."""

    heads: set[str]
    texts: dict[str, str]


@pytest.fixture(scope="module")
def screens(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Screens]:
    """Run the commands, and collect the heads of the tables that they print."""
    heads, texts, add_column = set[str](), dict[str, str](), Table.add_column

    def collect(table: Table, header: object = "", *words: object, **options: object) -> None:
        heads.add(str(header))
        add_column(table, header, *words, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("screens"))
        patch.setattr(Table, "add_column", collect)
        for name in ("damaged", "locked", "tiny"):
            MADE[name](tmp_path_factory.getbasetemp() / f"{name}.img")
            (tmp_path_factory.getbasetemp() / f"{name}.img").rename(f"{name}.img")
        left_out = WITH_DUCKDB if find_spec("duckdb") is None else set[str]()
        for verb, lines in COMMAND_LINES.items():
            for line in lines if verb not in left_out else ():
                words = [word.strip("'") for word in re.findall(r"'[^']*'|\S+", line.format(apfs=APFS, hfs=HFS))]
                done = CliRunner().invoke(app, words, env={"COLUMNS": "200"})
                assert done.exit_code in (0, 3), (line, done.output)
                texts[verb] = texts.get(verb, "") + done.stdout
        yield Screens(heads - {""}, texts)


def find_text(word: str) -> str:
    """Return what ``layoutscope explain`` prints; empty if it does not know a word."""
    try:
        return layoutscope.explain(word)
    except UsageError:
        return ""


def plain(word: str) -> str:
    """Return a word in the singular, in lower case and without hyphens."""
    return re.sub("[-_]", " ", word.casefold()).removesuffix("s")


def is_explained(word: str) -> bool:
    """Whether a definition has this name, or a metric this title; a definition that only contains it does not count."""
    text = find_text(word)
    names = re.findall(r"^(\S.*) \([\w -]+\)$", text, re.MULTILINE)
    return plain(word) in map(plain, names) or f"\n  {word}.".casefold() in text.casefold()


def test_every_verb_is_run():
    """A new verb is added above, or has a reason."""
    assert {*COMMAND_LINES} | {*NOT_RUN} == {*COMMANDS}


def test_heads_of_tables_are_explained(screens):
    """Each head that the commands print."""
    assert len(screens.heads) > 50
    assert sorted(head for head in screens.heads if not is_explained(head)) == []


def test_screens_are_in_plain_words_and_lines(screens):
    """Without private terms of the project, as are the pages about them; lines end without blanks and control codes."""
    pages = {name: (ROOT / name).read_text("utf-8") for name in ("README.md", "docs/concepts.md", "docs/glossary.md")}
    pages |= {name: definition.text for name, definition in DEFINITIONS.items()}
    assert [(name, found) for name, text in (pages | screens.texts).items() if (found := PRIVATE.findall(text))] == []
    assert [verb for verb, text in screens.texts.items() if re.search(r" \n|\x1b", text)] == []


def test_heads_in_the_code_are_explained():
    """Each head that the code of the screens names, for tables that no command here prints."""
    found = set[str]()
    for path in (ROOT / "layoutscope" / "report" / "text").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("heads", "item_table"):
                columns = [item.elts[0] if isinstance(item, ast.Tuple) else item for item in node.args]
                first = 0 if getattr(node.func, "id", "") == "heads" else len(("title", "items"))
                found |= {str(item.value).lstrip(">") for item in columns[first:] if isinstance(item, ast.Constant)}
    assert len(found) > 50
    assert sorted(head for head in found - {""} if not is_explained(head)) == []


def test_labels_and_verdicts_are_explained(screens):
    """Words before a colon at the start of a line."""
    labels = {word for verb, text in screens.texts.items() if verb not in NO_LABELS for word in LABEL.findall(text)}
    verdicts = set(VERDICT.findall("".join(path.read_text("utf-8") for path in FOLDER.glob("*.txt"))))
    assert {"SLOW", "OK", "LOCKED", "DAMAGED", "INCOMPLETE"} <= verdicts
    systems = {system for about in all_words().values() for system, _ in about["ways"]}
    assert {word for word in (labels | verdicts) - systems if not is_explained(word)} == {*SENTENCES}


def test_columns_of_tables_are_explained():
    """Each column that is exported, queried or returned."""
    columns = {item.name for tables in (TABLES, FRAMES, FLEET_TABLES) for table in tables.values() for item in table}
    assert len(columns) > 100
    assert sorted(name for name in columns if not is_explained(name)) == []


# First screens


NAMES = [pytest.param(name, marks=[pytest.mark.full] * (name == "million-files")) for name in MADE]


@pytest.mark.parametrize("name", NAMES)
def test_screens_of_made_images_are_as_written(name, tmp_path):
    """Fine, locked, damaged, half of a Fusion Drive, three volumes, tiny, and a million files."""
    if name == "locked":
        pytest.importorskip("cryptography", reason="the screen without it names the extra crypto")
    assert made(name, tmp_path) == (FOLDER / f"{name}.txt").read_text("utf-8")


@pytest.mark.parametrize("name", REFERENCE)
def test_screens_of_real_images_are_as_written(name, reference_image):
    """Aged, fresh, and made by macOS."""
    assert screen(reference_image(REFERENCE[name])) == (FOLDER / f"{name}.txt").read_text("utf-8")


EVERYDAY = frozenset(
    re.findall(
        r"\S+",
        """
        about above already also apart are be because below can cannot dates empty every everything full given
        has improve inch included intact least loaded main may mounting move needs new now o partly rescan rest
        see so software stored takes that this under unlocks was were whether which whole with within without
        worst
        check html inspect layoutscope measure password-file plan scan
        """,
    )
)
"""Words of everyday English, and of commands."""


def words_of(text):
    """Return the words of a screen, without names and paths in quotation marks."""
    return {word.lower().strip("-") for word in re.findall(r"[A-Za-z][A-Za-z0-9+-]*", re.sub(r'"[^"]*"', "", text))}


def test_explain_knows_every_word_of_the_first_screens():
    """Each word that is not an everyday one; heads, labels and columns have a test of their own."""
    text = "".join(re.sub(r"\S+\.(?:img|raw)\S*", "", path.read_text("utf-8")) for path in FOLDER.glob("*.txt"))
    assert sorted(word for word in words_of(text) - EVERYDAY if not find_text(word)) == []


def test_there_are_ten_screens():
    """Each of ten kinds of images fits on a screen of 24 lines with 80 columns."""
    texts = {path.stem: path.read_text("utf-8").splitlines() for path in FOLDER.glob("*.txt")}
    assert sorted(texts) == sorted({**MADE, **REFERENCE})
    assert len(texts) == 10
    assert all(4 <= len(lines) <= 24 and max(map(len, lines)) <= 80 for lines in texts.values())

"""Finds the claims of README and docs and their proofs: ``python -m tests.docs.claims`` prints claims without one.

A claim is a sentence with a figure (a number with its unit, or of counted things) or a promise (*never*, *every*,
*exact* …) in prose: paragraphs, list items, rows of tables. It is shown by one of these:

- a test, a command that measures it, a notebook, a generated page or a public source, named in the same paragraph, item
  or row, or in the paragraph that introduces the list or table;
- the same in a line of its section that begins with ``Tests:``, ``Sources:`` or ``Measured by``;
- a line of its page that begins so and names a test in ``tests/docs`` that reads this page;
- a sentence in ``held.py``, made of the constants of the code, which a test looks for in the page;
- an example or a quotation of the code right below it, which tests run;
- an exception in ``claims.toml``: a definition, a constant of a format, the value of an option, each with its reason.

Text that cog or a program writes has its own test, and is not prose. ``--count`` counts the claims by kind.
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from collections import Counter
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from tests.docs.held import HELD
from tests.docs.imports import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

REVIEWED = Path(__file__).with_name("claims.toml")
UNITS = (
    "%|per cent|times|x|us|ms|s|seconds?|minutes?|hours?|days?|rpm|pages?|in ten|of"
    "|[KMGT]i?B|[KMGT]B/s|k/s|bytes?|bits?|(?:(?!the |and |to |or |is )[a-z-]+ )?(?!says|is|as|was|means)[a-z][a-z-]*s"
)
WORDS = (
    "two|three|four|five|six|seven|eight|nine|ten|twelve|twenty|half an?|a quarter of an|a (?:hundred|thousand|million)"
)
FIGURE = re.compile(
    rf"(?<![\w.])(?<!code )(?<!code \d)[\d,.]*\d ?(?:{UNITS})(?!\w)"
    rf"|\b(?:{WORDS}) (?:times|seconds?|minutes?|hours?|per cent|in ten)\b"
    r"|\b(?:a|two|three|four) (?:third|quarter|fifth|tenth|twentieth|hundredth)s?\b|\bhalf (?:of|as|its)\b"
)
PROMISE = re.compile(
    r"\b(?:never|always|every|all|nothing(?: \w+)? (?:is|are)|exact(?:ly)?|no (?:\w+ ){1,2}(?:is|are))\b", re.IGNORECASE
)
IDIOMS = re.compile(
    r"\[all |\bper [\d,]+ \w+|\b(?:at all|all the same|above all|all over|in all|all other|not (?:all|every|always))\b",
    re.IGNORECASE,
)
CELL = re.compile(r"(?<=\|) *[+-]?\d[\d,.]* *(?=\|)")
CODE, TARGET = re.compile(r"`[^`]*`"), re.compile(r"\]\([^)]*\)")
QUOTED = re.compile(r'"[^"]*"|“[^”]*”|(?<![*\w])\*(?!\*)[^*]+\*(?!\*)')  # what is emphasised is a word of a screen
SHOWN_BY = re.compile(r"\btests/[\w./-]*\w|\bpython -m tests\.[\w.]+|\bnox -s \w+|[\w/.-]+\.ipynb|https?://[^)\s]+")
OF_A_SECTION = re.compile(r"(?:Tests?|Sources?):|Measured by ")
TESTED_CODE = re.compile(r"^\s*(?:>>> |<!-- (?:from|write) )")
ITEM = re.compile(r"\s*(?:[-*]|\d+\.) ")


@dataclass
class Block:
    """A paragraph, an item of a list or a row of a table, with the section that it is in."""

    page: str
    line: int
    section: str
    text: str
    is_part: bool = False
    introduction: Block | None = None
    is_tested: bool = False


@dataclass(frozen=True)
class Claim:
    """A block with a claim, and the kind of its proof."""

    block: Block
    words: str
    shown: str

    def __str__(self) -> str:
        return f"{self.block.page}:{self.block.line}: {self.words!r} in: {self.block.text}"


@cache
def reviewed() -> dict:
    """Return the decisions of people: pages that programs write, exceptions with their reasons."""
    return tomllib.loads(REVIEWED.read_text(encoding="utf-8"))


def pages() -> list[str]:
    """Name the pages that people write, relative to the repository."""
    named = ["README.md", "CONTRIBUTING.md", ".github/SECURITY.md"]
    found = [*named, *(path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "docs").rglob("*.md")))]
    return [page for page in found if not is_generated(page)]


def is_generated(page: str) -> bool:
    """Return whether a program writes all of a page; its test is next to it in ``claims.toml``."""
    return any(fnmatch(page, pattern) for pattern in reviewed()["generated"])


def prose(text: str) -> Iterator[tuple[int, str]]:
    """Give lines with their numbers; what is generated, code or a quotation becomes an empty line or its first words.

    Yields
    ------
    number
        Counted from 1.
    line
        Without its end.
    """
    closes = ""
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("<!-- Everything below is written by "):
            return
        if closes:
            yield number, line if TESTED_CODE.match(line) else ""
            closes = "" if closes in line else closes
        elif "[[[cog" in line:
            closes = "[[[end]]]"
            yield number, ""
        elif line.strip().startswith("```"):
            closes = "```"
            yield number, ""
        elif line.startswith((">", "    ")) and not ITEM.match(line):
            yield number, line if line.startswith("    ") else ""
        else:
            yield number, line


def blocks(page: str, text: str) -> list[Block]:
    """Split a page into blocks.

    Parameters
    ----------
    page : str
        Its name.
    text : str
        In Markdown.

    Returns
    -------
    list of Block
        In the order of the page, headings and code left out.
    """
    found: list[Block] = []
    section, introduction, is_open = "", None, False
    for number, line in prose(text):
        heading = re.match(r"#+ (.*)", line)
        if heading:
            section, introduction, is_open = heading[1], None, False
        elif TESTED_CODE.match(line):
            if found and found[-1].section == section:
                found[-1].is_tested = True
            is_open = False
        elif not line.strip() or line.lstrip().startswith("<!--"):
            is_open = False
        elif line.startswith("    ") and not is_open and not (found and found[-1].is_part):
            continue
        elif ITEM.match(line) or line.startswith("|"):
            found.append(Block(page, number, section, line.strip(), is_part=True, introduction=introduction))
            is_open = True
        elif is_open or (line.startswith("  ") and found and found[-1].is_part):
            found[-1].text += f" {line.strip()}"
            is_open = True
        else:
            introduction = Block(page, number, section, line.strip())
            found.append(introduction)
            is_open = True
    return found


def words(text: str, page: str = "") -> str:
    """Return the figures and promises of a block, empty where it has none but such as are held to the code.

    Parameters
    ----------
    text : str
        In Markdown; what is code, a quotation or an address in it says nothing.
    page : str
        Whose held sentences say nothing either.

    Returns
    -------
    str
        As they stand there, with commas between.
    """
    for sentence in HELD.get(page, ()):
        text = text.replace(sentence, "")
    alternative = re.search(r'alt="([^"]*)"', text)
    plain = alternative[1] if alternative else QUOTED.sub("", TARGET.sub("]", CODE.sub("_", text)))
    plain = IDIOMS.sub("", plain)
    return ", ".join(found[0] for pattern in (FIGURE, CELL, PROMISE) for found in pattern.finditer(plain))


def shown_by(block: Block) -> str:
    """Return the kind of a block's proof: ``test``, ``command``, ``notebook``, ``source``, ``page``, or nothing."""
    for found in SHOWN_BY.finditer(block.text):
        name = found[0]
        if name.startswith("tests/"):
            return "test"
        if name.startswith(("python", "nox")):
            return "command"
        return "source" if name.startswith("http") else "notebook"
    folder = (ROOT / block.page).parent
    targets = [folder / target for target in re.findall(r"\]\((?!https?:)([^)#]+\.md)", block.text)]
    inside = [path.resolve().relative_to(ROOT).as_posix() for path in targets if path.resolve().is_relative_to(ROOT)]
    return "page" if any(map(is_generated, inside)) else ""


def reads_its_page(block: Block) -> str:
    """Return whether a block names a test beside this module that reads its page: then it is of the whole page."""
    names = re.findall(r"\btests/docs/test_\w+\.py", block.text)
    texts = [(ROOT / name).read_text(encoding="utf-8") for name in names if (ROOT / name).exists()]
    return "test" if any(Path(block.page).name in text for text in texts) else ""


def exception(block: Block) -> str:
    """Return the kind of the exception that covers a block: of its words, or of its section."""
    for each in reviewed()["exception"]:
        is_section = "section" in each and each["section"] == block.section
        if each["page"] == block.page and (is_section or ("text" in each and each["text"] in block.text)):
            return str(each["kind"])
    return ""


def claims(page: str, text: str) -> list[Claim]:
    """List the claims of a page, with the kind of proof of each, ``""`` without one.

    Parameters
    ----------
    page : str
        Its name relative to the repository.
    text : str
        In Markdown.

    Returns
    -------
    list of Claim
        One for each block that has figures or promises.
    """
    parts = blocks(page, text)
    lines = [block for block in parts if OF_A_SECTION.match(block.text)]
    of_section = {block.section: kind for block in lines if (kind := shown_by(block))}
    of_page = next(filter(None, map(reads_its_page, lines)), "")
    found = []
    for block in parts:
        said = words(block.text, page)
        if not said or block in lines:
            continue
        kinds = [
            shown_by(block),
            "test" if block.is_tested else "",
            shown_by(block.introduction) if block.introduction else "",
            of_section.get(block.section, ""),
            of_page,
            exception(block),
        ]
        found.append(Claim(block, said, next(filter(None, kinds), "")))
    return found


def all_claims() -> list[Claim]:
    """List the claims of all pages that people write."""
    return [claim for page in pages() for claim in claims(page, (ROOT / page).read_text(encoding="utf-8"))]


def unshown() -> list[Claim]:
    """List the claims without a proof."""
    return [claim for claim in all_claims() if not claim.shown]


def main(arguments: list[str] | None = None) -> int:
    """Print the claims without a proof, of the given pages or of all; end with 1 if there is one."""
    parser = argparse.ArgumentParser(prog="python -m tests.docs.claims", description=__doc__.splitlines()[0])
    parser.add_argument("--count", action="store_true", help="claims of each kind, page by page")
    parser.add_argument("pages", nargs="*", help="these alone")
    options = parser.parse_args(arguments)
    found = [claim for claim in all_claims() if not options.pages or claim.block.page in options.pages]
    missing = [claim for claim in found if not claim.shown]
    lines = counted(found) if options.count else map(str, missing)
    print(*lines, sep="\n")  # noqa: T201
    return int(bool(missing))


def counted(found: list[Claim]) -> list[str]:
    """Print the number of claims of each kind, one line per page and one for all."""
    kinds = Counter((each, claim.shown or "NOTHING") for claim in found for each in (claim.block.page, "all"))
    rows = [*dict.fromkeys(claim.block.page for claim in found), "all"]
    most = kinds.most_common()
    return [" ".join([row, *(f" {kind} {count}" for (page, kind), count in most if page == row)]) for row in rows]


if __name__ == "__main__":
    sys.exit(main())

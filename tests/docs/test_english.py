"""Pages, messages, docstrings and comments are plain English; the patterns come from a newcomer's review."""

from __future__ import annotations

import ast
import io
import re
import tokenize
import tomllib
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import pytest
import yaml

from tests.docs.imports import PACKAGE, ROOT, read_modules

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


NOUNS: Final = (
    "block|case|column|core|device|disk|drive|entry|field|file|folder|host|image|key|limit|line|month|name|node|page|path"
    "|place|read|record|request|row|second|source|step|table|test|thread|verb|volume|week"
)
PATTERNS: Final = {
    r"\banew\b": "again, or re-",
    r"\b(?:is|are|was|were|be|been) (?:told|said)\b": "report, show, state",
    r"\btold of\b|\btells?\b(?! \| None)": "report, show, record",
    r"\b(?:held|holds?) (?:[\w`.,-]+ ){0,10}against\b": "compare with, check against",
    r"(?<!there )\b(?:is|are) no (?!longer\b|more\b|less\b|earlier\b|later\b|larger\b|slower\b|quicker\b)": "is not a",
    r"\bmended\b": "fixed",
    r"\bnonetheless\b": "even so",
    r"\blikewise\b": "also",
    r"\bone behind the other\b": "contiguous",
    r"\bside by side\b": "contiguous, next to each other",
    r"\bstands? (?:in|beside|below|behind|above)\b": "is in, appears next to",
    r"\b(?:lie|lies)\b|\blay\b(?! (?:[\w`']+ ){0,5}(?:out\b|end to end\b))": "is, is stored",
    r"\bat hand\b": "available",
    r"(?:^|(?<=[.:;!?] ))(?-i:Of [a-z])": "For, or put the object after the verb",
    r"\bsays? of\b": "declare, report",
    (
        r"(?!^behind$)(?<![-`\w])(?<!nothing )(?<!left )(?<!leaves )(?<!one )behind\b(?![-`])"
        r"(?! a link)(?! the (?:contract|user's back)| USB)"
    ): "after, followed by",
    rf"\b(?:an?|one) (?:row|line|page|test|number|profile|task|file|jump|path|process) an? (?:{NOUNS})\b": "one per",
    rf"(?<!\bor )\bone an? (?:{NOUNS})\b": "one per",
    r"\bwhoever\b": "anyone who, or name the actor",
    r"\bknows? of (?:no|nothing)\b": "does not know",
}
"""Patterns of sentences that read as translated, with what to write in their place."""

LONGEST: Final = 40
"""Words of a sentence, without code, addresses and text in brackets."""

MAY_BE_LONG: Final = {
    "docs/reference/": "lists and tables, most of them generated",
    "layoutscope/drive/priors.toml": "the saved results of docs/intervals.md name the hash of the file",
    "layoutscope/metrics/definitions.toml": "definitions are printed with results, whose words stay the same",
}
"""Texts whose sentences may be longer, each with the reason."""


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a text, each in one line."""
    for paragraph in re.split(r"\n\s*\n|\n\s*(?=[-*|#] |\d+\. |\|)", text):
        yield from re.split(r"(?<=[.!?]) (?=[A-Z`*\"'])", " ".join(paragraph.split()))


def failures(texts: Iterable[tuple[str, str]]) -> list[str]:
    """List the sentences with a pattern, each with its place and what to write."""
    return [
        f"{place}: {sentence} [{advice}]"
        for place, text in texts
        for sentence in sentences(text)
        for advice in advices(sentence)
    ]


@cache
def advices(sentence: str) -> list[str]:
    """Return what to write in place of each pattern in a sentence; many texts of the code are the same word."""
    return [advice for pattern, advice in PATTERNS.items() for _ in re.finditer(pattern, sentence, re.IGNORECASE)]


def long_sentences(texts: Iterable[tuple[str, str]]) -> list[str]:
    """List the sentences that are too long; tables and the texts of `MAY_BE_LONG` are left out."""
    found = []
    for place, text in texts:
        for sentence in sentences(text) if not place.startswith(tuple(MAY_BE_LONG)) else ():
            plain = re.sub(r"`[^`]*`|\]\([^)]*\)|https?://\S+|\([^()]*\)", " ", sentence)
            if "|" not in sentence and len(re.findall(r"[A-Za-z][\w'-]*", plain)) > LONGEST:
                found.append(f"{place}: {sentence}")
    return found


def pages() -> Iterator[tuple[str, str]]:
    """Yield the texts of the pages; of the changelog, those of changes that are not released."""
    for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))):
        place = path.relative_to(ROOT).as_posix()
        yield place, re.sub(r"(?ms)^```.*?^```$", "\n\n", path.read_text())
    changelog = (ROOT / "CHANGELOG.md").read_text()
    yield "CHANGELOG.md", "".join(re.split(r"(?m)^(?=## )", changelog)[:2])


def trees() -> Iterator[tuple[str, str, ast.AST]]:
    """Yield the modules of the package: their places, texts and syntax."""
    for module in read_modules().values():
        yield module.path.relative_to(ROOT).as_posix(), module.text, module.tree


def code() -> Iterator[tuple[str, str]]:
    """Yield the strings and comments of the package; comments on consecutive lines are one text."""
    for place, text, tree in trees():
        yield from ((f"{place}:{line}", found) for line, found in (*strings(tree), *comments(text)))


def strings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the strings of a module; the values of an f-string are left out."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.JoinedStr):
            parts = (part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
            yield node.lineno, "".join(parts)
            for part in node.values:
                if isinstance(part, ast.FormattedValue):
                    yield from strings(part)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value
        else:
            yield from strings(node)


def comments(text: str) -> Iterator[tuple[int, str]]:
    """Yield the comments of a module."""
    found: dict[int, str] = {
        token.start[0]: token.string.lstrip("#: ")
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type == tokenize.COMMENT
    }
    start = 0
    for last, line in pairwise([-1, *found]):
        if line != last + 1:
            start = line
        else:
            found[start] += "\n" + found.pop(line)
    yield from found.items()


def developers() -> Iterator[tuple[str, str]]:
    """Yield the docstrings and comments of the writers of test images, and of the tests of pages."""
    for path in sorted([*(ROOT / "fixtures").rglob("*.py"), *(ROOT / "tests" / "docs").rglob("*.py")]):
        place, text = str(path.relative_to(ROOT)), path.read_text()
        for node in ast.walk(ast.parse(text)):
            value = node.value.value if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) else None
            if isinstance(value, str):
                yield f"{place}:{node.lineno}", value
        yield from ((f"{place}:{line}", found) for line, found in comments(text))


def words() -> Iterator[tuple[str, str]]:
    """Yield the strings of the TOML files."""
    for path in sorted(PACKAGE.rglob("*.toml")):
        yield from ((str(path.relative_to(ROOT)), text) for text in leaves(tomllib.loads(path.read_text())))


def grammars() -> Iterator[tuple[str, str]]:
    """Yield the descriptions in the grammars."""
    for path in sorted((ROOT / "ksy").glob("*.ksy")):
        yield from ((str(path.relative_to(ROOT)), text) for text in leaves(yaml.safe_load(path.read_text())))


def leaves(value: object) -> Iterator[str]:
    """Yield the strings of a tree."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for child in value.values() if isinstance(value, dict) else value:
            yield from leaves(child)


@pytest.mark.parametrize("texts", [pages, code, developers, words, grammars])
def test_sentences_are_plain_english(texts):
    """No sentence has one of the patterns."""
    assert failures(texts()) == []


ERRORS: Final = ("ImageError", "LockedError", "OutputError", "UnsupportedError", "UsageError")
ADVICE: Final = "begin|choose|give|leave|name|open|put|quote|remove|save|scan|send|use|write"
MESSAGE_PATTERNS: Final = {
    r"\?$": "a statement; the user did not ask",
    rf"; (?:{ADVICE})\b": "what to do is a sentence of its own",
    r"; there are\b": "Choose from: …",
    r"^(?:which|say)\b": "what happened comes first",
    r"(?<!\.)\.\.$": "one full stop",
}
"""Patterns of messages that are not of the form ``what happened: why. What to do.``"""


def messages() -> Iterator[tuple[str, str]]:
    """Yield the messages of errors as they are written at their ``raise``."""
    for place, _, tree in trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ERRORS and node.args:
                yield from ((f"{place}:{line}", text) for line, text in strings(ast.Module([node.args[0]], [])))


def badly_formed(texts: Iterable[tuple[str, str]]) -> list[str]:
    """List the messages with a pattern, each with its place and what to write."""
    return [
        f"{place}: {text} [{advice}]"
        for place, text in texts
        for pattern, advice in MESSAGE_PATTERNS.items()
        if re.search(pattern, text)
    ]


def test_messages_have_one_form():
    """What happened: why. What to do."""
    found = [*messages()]
    assert len(found) > 300
    assert badly_formed(found) == []


def test_a_bad_message_is_found():
    """Each pattern finds a message that it was made for."""
    bad = ["no table?", "is not a size; write 4GiB", "no host; there are two", "say one place", "Remove it.."]
    assert [len(badly_formed([("here", text)])) for text in bad] == [1] * len(MESSAGE_PATTERNS)
    assert badly_formed([("here", "disk.img: is compressed twice. Decompress it once first.")]) == []


@pytest.mark.parametrize("texts", [pages, words])
def test_sentences_are_short(texts):
    """No sentence of the pages, and none of the remedies, has more than 40 words."""
    assert long_sentences(texts()) == []


def test_a_bad_sentence_is_found():
    """Each pattern finds the sentence of the review that it was made for, and none finds its correction."""
    bad = (
        "The page is made anew. Nothing is said of the rest. It tells of each read. Rules are held against everything. "
        "It is no map file. Defects that were mended. It fails nonetheless. They are likewise compressed. "
        "Nodes are stored one behind the other. They are stored side by side. Its address stands in the header. "
        "Nodes lie close together. The key is at hand. Of short work nothing is shown. "
        "The header says of it what it is. The table is behind the header. It prints a row a volume. "
        "Files are read, one a thread. It matters to whoever writes. It knows of no map."
    )
    found = [failures([("here", sentence)]) for sentence in sentences(bad)]
    assert [len(each) for each in found] == [1] * len(PATTERNS)
    assert failures([("here", "It leaves nothing behind. One or a file. It is not behind a link.")]) == []
    assert failures([("here", "It is no longer read. Nodes are contiguous.\n\n- The list is not a map.")]) == []
    # Words in code and brackets do not count.
    assert long_sentences([("here", "A word " * 21)]) != []
    assert long_sentences([("here", "A word " * 20 + "(as is said here) `a b c d`.")]) == []

"""Output is plain English, without the project's private terms."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

WORDS = re.compile(r"\b(strewn|headroom|dearest|dearer|told|upper bound|lower bound|\bbound \d)", re.IGNORECASE)
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "words",
    [
        ("scan",),
        ("scan", "--details"),
        ("scan", "--explain"),
        ("scan", "--json"),
        ("predict", "--what-if", "packed", "--what-if", "ssd", "--what-if", "double-cache"),
        ("predict", "--order", "all"),
        ("predict", "--json"),
        ("check",),
        ("inspect", "--at", "1024"),
    ],
    ids=" ".join,
)
def test_results_are_in_plain_words(run, image, apfs_image, words):
    """One volume of each file system, as text and as JSON."""
    for each in (image, apfs_image):
        result = run(words[0], each, *words[1:])
        assert result.stdout
        assert not WORDS.search(result.stdout), WORDS.search(result.stdout)


def test_comparisons_are_in_plain_words(run, image, apfs_image):
    """A difference is explained by slower reads or more of them."""
    for more in ((), ("--json",)):
        text = run("compare", image, apfs_image, "--drive", "generic-7200", *more).stdout
        assert "reads" in text
        assert not WORDS.search(text), WORDS.search(text)


def test_help_is_in_plain_words(run):
    """The help of every command."""
    verbs = ("scan", "map", "inspect", "check", "predict", "compare", "series", "replay", "trace", "drives", "export")
    for verb in verbs:
        assert not WORDS.search(run(verb, "--help").stdout), verb


@pytest.mark.parametrize("page", ["README.md", "docs/concepts.md", "docs/glossary.md"])
def test_pages_for_users_are_in_plain_words(page):
    """The README and the pages about the first screen; a glossary may name an unused term."""
    text = (ROOT / page).read_text()
    found = [match[0] for match in WORDS.finditer(text)]
    assert not found

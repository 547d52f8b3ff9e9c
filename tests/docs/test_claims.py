"""Every figure and promise of README and docs is shown by something, and the finder of claims finds them."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from tests.docs import claims
from tests.docs.claims import REVIEWED, ROOT, all_claims, blocks, is_generated, pages, reviewed, words
from tests.docs.held import HELD

PAGE = "docs/page.md"
KINDS = {"definition", "format", "option", "count", "advice", "history"}
MAX_EXCEPTIONS = 10


def found(text):
    """Return the claims of a page as pairs of words and what shows them."""
    return [(claim.words, claim.shown) for claim in claims.claims(PAGE, text)]


def test_the_generated_end_of_a_page_is_left_out():
    """A program's own test covers what it writes below its mark."""
    text = "Every one.\n\n<!-- Everything below is written by python -m x. -->\n\nEvery other.\n"
    assert [claim.block.text for claim in claims.claims("docs/page.md", text)] == ["Every one."]


def test_every_claim_is_shown():
    """``python -m tests.docs.claims`` prints nothing: each claim has a test, a command, a source, or a reason."""
    assert [str(claim) for claim in claims.unshown()] == []


def test_exceptions_are_few_and_each_is_used():
    """Each exception covers a claim that nothing else shows, has a reason, and is of a kind that needs no proof."""
    exceptions = reviewed()["exception"]
    assert len(exceptions) <= MAX_EXCEPTIONS
    assert {each["kind"] for each in exceptions} <= KINDS
    assert all(len(each["reason"].split()) >= 3 for each in exceptions)
    excepted = [claim.block for claim in all_claims() if claim.shown in KINDS]
    unused = [
        each
        for each in exceptions
        if not any(
            block.page == each["page"]
            and (block.section == each.get("section") or each.get("text", "\0") in block.text)
            for block in excepted
        )
    ]
    assert unused == []


def test_generated_pages_are_there():
    """Each pattern is of pages that are there, each test is; README and what people write are none of them."""
    for pattern, test in reviewed()["generated"].items():
        assert list(ROOT.glob(pattern)) != [], pattern
        assert is_there(test), test
    assert "README.md" in pages()
    assert not is_generated("docs/tutorial.md")


def test_what_a_page_names_is_there():
    """A test that a page leads to exists: its file, and the function where one is named."""
    named = re.compile(r"\btests/[\w./-]*\w(?:::\w+)?")
    texts = {page: (ROOT / page).read_text(encoding="utf-8") for page in pages()}
    missing = [(page, name) for page, text in texts.items() for name in named.findall(text) if not is_there(name)]
    assert missing == []
    assert not is_there("tests/docs/test_claims.py::test_that_nobody_wrote")


def is_there(name):
    """Return whether a file is there, and the function after its colons."""
    path, _, function = name.partition("::")
    return (ROOT / path).exists() and (not function or f"def {function}(" in (ROOT / path).read_text(encoding="utf-8"))


def test_figures_and_promises_are_found():
    """A number with a unit, of counted things, in words; never, every, nothing is, no … is."""
    assert words("Takes 12.5 ms for 3,000 files, a third of it twice.") == "12.5 ms, 3,000 files, a third"
    assert words("It is 3 to 20 times as long, nine in ten times.") == "20 times, nine in ten"
    assert words("Never. Every one, and nothing is written; no file is.") == "Never, Every, nothing is, no file is"
    assert words("| disk | 628 | 4.49 | x |") == " 628 ,  4.49 "


@pytest.mark.parametrize(
    "text",
    [
        "Python 3.11 or later, TN1150, exit code 3 says so.",
        "Not all of them, and none at all, but `every 3 files`.",
        '"Never 100 %", said the manual of *every disk*.',
        "Seen [here](all/3-times.md).",
    ],
)
def test_what_claims_nothing_is_not_found(text):
    """Versions, names, idioms, code, quotations and addresses are not claims."""
    assert words(text) == ""


def test_code_and_generated_parts_are_no_prose():
    """Only the paragraph around them is."""
    generated = "<!-- [[[cog x() ]]] -->\n50 %\n<!-- [[[end]]] -->\n"
    text = f"```text\nevery 3 %\n```\n{generated}\nEvery one.\n\n    all of it\n> never\n"
    assert found(text) == [("Every", "")]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Never (`tests/cli/test_evidence.py`).", "test"),
        ("5 % by `python -m tests.losses`.", "command"),
        ("5 %: [see](walks.ipynb).", "notebook"),
        ("5 %, says [Apple](https://example.org).", "source"),
        ("Every verb: [commands](reference/commands.md).", "page"),
        ("Every verb: [tutorial](tutorial.md).", ""),
        ("Every leaf:\n\n```python\n>>> 1\n1\n```", "test"),
        ("Every leaf.\n\nMore.\n\n```python\n>>> 1\n1\n```", ""),
    ],
)
def test_what_shows_a_claim(text, kind):
    """A test, a command, a notebook, a source, a generated page; a page that people wrote does not."""
    assert [shown for _, shown in found(text)] == [kind]


def test_an_introduction_shows_what_it_introduces():
    """It does so for its list and table, and for no paragraph after them."""
    text = "By `tests/cli`:\n\n- never\n  so\n- 5 %\n\n| a | 7 |\n\nAlways.\n"
    assert Counter(kind for _, kind in found(text)) == {"test": 3, "": 1}


def test_a_line_of_tests_is_of_its_section():
    """It shows what stands under the same heading, and nothing under another one."""
    text = "# A\nNever.\n\nTests: `tests/cli`.\n\n## B\nAlways.\n"
    assert [kind for _, kind in found(text)] == ["test", ""]


def test_a_test_that_reads_a_page_shows_all_of_it():
    """The test of the tutorial does so for the tutorial, and for no other page."""
    text = "# A\nNever.\n\n## B\nTests: `tests/docs/test_tutorial.py`.\n"
    assert [claim.shown for claim in claims.claims("docs/tutorial.md", text)] == ["test"]
    assert [claim.shown for claim in claims.claims("docs/concepts.md", text)] == [""]


@pytest.mark.parametrize(("page", "sentence"), [(page, each) for page, all_ in HELD.items() for each in all_])
def test_a_held_sentence_stands_in_its_page(page, sentence):
    """What the code has for a number is what its page says."""
    assert sentence in " ".join((ROOT / page).read_text(encoding="utf-8").split())


def test_a_held_sentence_claims_nothing_on_its_page_alone():
    """The figure beside it does, and so does the same sentence elsewhere."""
    page, sentence = next((page, each) for page, all_ in HELD.items() for each in all_ if words(each))
    assert words(f"{sentence}, and 7 %", page) == "7 %"
    assert words(sentence, "docs/other.md") == words(sentence) != ""


def test_places_are_told():
    """A block knows its line and its section."""
    first, second = blocks(PAGE, "# A\n\nText\nmore\n## B\n- item\n  more\n")
    assert (first.line, first.section, first.text) == (3, "A", "Text more")
    assert (second.line, second.section, second.text) == (6, "B", "- item more")


def test_the_command_counts(capsys):
    """It prints one line per page and one for all, and names what is missing on a given page."""
    assert claims.main(["--count", "README.md"]) == 0
    assert capsys.readouterr().out.startswith("README.md  ")
    assert REVIEWED.exists()

"""Addresses outside: each is listed once with what it is cited for, well formed, and the same wherever it is named."""

from __future__ import annotations

from tests.docs import links


def test_table_is_fresh():
    """It is what ``python -m tests.docs.links`` writes."""
    assert links.TABLE.read_text(encoding="utf-8") == links.current()


def test_addresses_are_well_formed():
    """All are https, of hosts that others know, and no place has two addresses."""
    rows = links.TABLE.read_text(encoding="utf-8").splitlines()[1:]
    assert len(rows) > 100
    assert list(links.faults(row.split("\t")[0] for row in rows)) == []


def test_exceptions_are_used():
    """What is left out of the table stands somewhere."""
    text = "".join(path.read_text(encoding="utf-8") for path in links.sources())
    assert {address for address in links.NO_PAGES if address not in text} <= {"http://www.w3.org/2000/svg"}


def test_words_are_those_of_the_link():
    """Citations of a page, of a grammar, and of an address by itself; brackets within an address stay."""
    text = "[a (b)](https://a.org/x_(y).txt), https://b.org/. doc-ref: 'https://c.org/#d Book, p. 1'"
    assert list(links.cited(text)) == [
        ("https://a.org/x_(y).txt", "a (b)"),
        ("https://b.org/", ""),
        ("https://c.org/#d", "Book, p. 1"),
    ]


def test_what_is_malformed_or_twice_there_is_found():
    """Without s, without host, with a user or two slashes; with and without a last slash or www."""
    wrong = ["http://a.org/", "https://localhost/x", "https://a.org//x", "https://b.org/x", "https://www.b.org/x/"]
    assert [each.partition(": ")[2] for each in links.faults(wrong)] == [
        "not https",
        "no host that others know",
        "malformed",
        "the same place as https://b.org/x",
    ]


def test_a_file_that_names_an_address_again_is_counted():
    """The first is named, and how many there are."""
    made = links.table([("a.md", "https://x.org/1"), ("b.md", "[one](https://x.org/1) https://x.org/1")])
    assert made.splitlines()[1] == "https://x.org/1\ta.md\t2\tone"

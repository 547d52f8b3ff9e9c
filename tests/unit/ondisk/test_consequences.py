"""What follows from what: told once, at the cause, and nothing left out."""

from __future__ import annotations

import re

import layoutscope.filesystems.hfsplus  # noqa: F401  (declares the codes)
from layoutscope.findings import Finding
from layoutscope.ondisk.consequences import Follows, told_once, with_causes

BROKEN = Finding("records-invalid", "error", "catalog node 3", 300, "a key has an impossible length")
OTHER = Finding("records-invalid", "error", "attributes node 3", 900, "a key has an impossible length")
CHAIN = Finding("leaf-chain-broken", "warning", "catalog node 2", 200, "a link leads elsewhere")
COUNT = Finding("valence-differs", "error", "catalog node 1", 100, "a folder counts others", "2", "3")
NOTE = Finding("not-unmounted", "info", "volume header", 1028, "was not cleanly unmounted")
ROWS = (
    Follows(frozenset({"records-invalid"}), frozenset({"leaf-chain-broken"}), is_of_one_tree=True),
    Follows(frozenset({"leaf-chain-broken"}), frozenset({"valence-differs"}), "catalog"),
    Follows(frozenset({"not-unmounted"}), frozenset({"valence-differs"})),
)

TREE_NAME = re.compile(r"(\w+) node")


def causes(*findings):
    return [item.cause for item in with_causes(findings, ROWS, TREE_NAME)]


def test_a_chain_of_causes_ends_at_the_first():
    """The count follows from the chain, which follows from the record: both name the record."""
    told = with_causes((COUNT, CHAIN, BROKEN), ROWS, TREE_NAME)
    assert [item.cause for item in told] == [BROKEN, BROKEN, None]
    assert [item.code for item in told] == ["valence-differs", "leaf-chain-broken", "records-invalid"]


def test_what_is_of_another_tree_or_a_note_is_no_cause():
    """A record of the attributes explains no chain of the catalog, and a note explains nothing."""
    assert causes(CHAIN, OTHER) == [None, None]
    assert causes(COUNT, NOTE) == [None, None]
    assert causes(COUNT) == [None]


def test_a_byte_is_told_of_once_at_the_highest_level():
    """A warning at the place of an error of the same code goes, one elsewhere stays, and so does what has no place."""
    low = Finding("records-invalid", "warning", "another name of it", 300, "seen in reading")
    aside = Finding("records-invalid", "warning", "catalog node 3", 308, "seen in reading")
    nowhere = Finding("records-invalid", "warning", "catalog", None, "3 further cases of the same kind")
    assert told_once([low, BROKEN, BROKEN, aside, nowhere]) == [BROKEN, aside, nowhere]

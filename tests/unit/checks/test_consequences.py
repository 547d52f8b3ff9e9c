"""Findings and their causes: each is reported once, at the cause, and none is left out."""

from __future__ import annotations

import re
from itertools import pairwise

from msgspec.structs import replace

import layoutscope.filesystems.hfsplus  # noqa: F401  (declares the codes)
from layoutscope.checks.causes import About, Causes, Follows, deduplicate, name_causes
from layoutscope.findings import CODES, Finding

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


def about(item):
    """Name the node of ``TREE node N``; a chain names the node that it leads to."""
    found = re.match(r"(\w+) node (\d+)", item.structure)
    if found is None:
        return About()
    return About(
        found[1],
        int(found[2]),
        ((found[1], int(item.found)),) if item.code == "leaf-chain-broken" and item.found else (),
    )


CAUSES = Causes(ROWS, ("records-invalid",), (), ("pointer-invalid",), about)


def causes(*findings, volumes=()):
    return [item.causes for item in name_causes(findings, CAUSES, volumes)]


def test_findings_name_the_first_cause_of_their_chain():
    """Each byte is reported once, and an unrelated or uncertain cause is not named."""
    # The count follows from the chain, which follows from the record; both name the record.
    told = name_causes((COUNT, CHAIN, BROKEN), CAUSES)
    assert [item.cause for item in told] == [BROKEN, BROKEN, None]
    assert [item.code for item in told] == ["valence-differs", "leaf-chain-broken", "records-invalid"]
    # A record of the attributes tree explains no chain of the catalog, and a note explains nothing.
    assert causes(CHAIN, OTHER) == [(), ()]
    assert causes(COUNT, NOTE) == [(), ()]
    assert causes(COUNT) == [()]
    # A warning at the place of an error with the same code is dropped; one elsewhere, or without a place, stays.
    low = Finding("records-invalid", "warning", "another name of it", 300, "seen in reading")
    aside = Finding("records-invalid", "warning", "catalog node 3", 308, "seen in reading")
    nowhere = Finding("records-invalid", "warning", "catalog", None, "3 further cases of the same kind")
    assert deduplicate([low, BROKEN, BROKEN, aside, nowhere]) == [BROKEN, aside, nowhere]
    # A chain that either of two broken nodes of the catalog may have broken is assigned to neither alone.
    assert causes(BROKEN, SECOND, CHAIN) == [(), (), (BROKEN, SECOND)]
    assert name_causes((BROKEN, SECOND, CHAIN), CAUSES)[2].cause is None
    assert name_causes((BROKEN, CHAIN), CAUSES)[1].cause == BROKEN


SECOND = Finding("records-invalid", "error", "catalog node 5", 500, "a key has an impossible length")


def test_objects_nodes_and_fields_explain_their_own_findings():
    # The chain says which node it leads to; the other broken node is unrelated.
    named = replace(CHAIN, found="5")
    assert causes(BROKEN, SECOND, named) == [(), (), (SECOND,)]
    # Three bad records of a node, and the same block seen as a node of another tree, all follow from the first.
    more = [replace(BROKEN, image_offset=at) for at in (308, 316)]
    shared = replace(OTHER, image_offset=300)
    assert causes(BROKEN, *more, shared) == [(), (BROKEN,), (BROKEN,), (BROKEN,)]
    # As an error, the field is the cause; as a warning, it follows from the object, whose own bytes are damaged.
    field = Finding("pointer-invalid", "error", "catalog node 1", 90, "leads elsewhere")
    leads = Causes(ROWS, ("records-invalid",), (), ("pointer-invalid",), lambda item: (
        About(names=(("catalog", 3),)) if item.code == "pointer-invalid" else about(item)))  # fmt: skip
    assert [item.causes for item in name_causes((field, BROKEN), leads)] == [(), (field,)]
    weak = replace(field, level="warning")
    assert [item.causes for item in name_causes((weak, BROKEN), leads)] == [(BROKEN,), ()]
    # A broken node in one volume does not explain a chain of the same tree in another; a container explains both.
    assert causes(BROKEN, CHAIN, volumes=("one", "two")) == [(), ()]
    assert causes(BROKEN, CHAIN, volumes=("one", "one")) == [(), (BROKEN,)]
    assert causes(BROKEN, CHAIN, volumes=("", "two")) == [(), (BROKEN,)]
    # A warning alone can explain a warning; if an error explains it too, the error is the cause.
    weak = replace(BROKEN, level="warning")
    assert causes(weak, replace(CHAIN, level="error")) == [(), ()]
    assert causes(weak, CHAIN) == [(), (weak,)]
    assert causes(weak, SECOND, CHAIN) == [(), (), (SECOND,)]
    # Each of 60 levels follows from two of the level below: 2 ** 60 paths, but only 2 * 60 links to follow.
    codes = sorted(CODES)[:60]
    findings = [Finding(code, "error", f"catalog node {at}", at, "wrong") for code in codes for at in (1, 2)]
    rows = tuple(Follows(frozenset({low}), frozenset({high})) for low, high in pairwise(codes))
    # An earlier link follows from a later one: the highest row comes first.
    told = name_causes(findings, replace(CAUSES, rows=rows[::-1], damage=()))
    assert [len(item.causes) for item in told[:2]] == [0, 0]
    assert {item.causes for item in told[2:]} == {tuple(findings[:2])}

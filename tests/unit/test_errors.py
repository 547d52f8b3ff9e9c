from __future__ import annotations

import ast

import pytest

import layoutscope
from layoutscope.errors import UsageError, did_you_mean
from layoutscope.filesystems.registry import refusals
from layoutscope.partition.choice import select_name
from tests.docs.imports import read_modules

IMAGE = "fixtures/images/hfsplus-scattered.img.zst"


@pytest.mark.parametrize(
    ("word", "meant"), [("fst", "fts"), ("nams", "names"), ("NAMES", "names"), ("catalogue", "catalog")]
)
def test_a_word_like_another_is_suggested(word, meant):
    """What was mistyped is told from what is known."""
    assert did_you_mean(word, ("fts", "names", "catalog")) == f" (did you mean {meant!r}?)"


def test_nothing_is_suggested_for_what_is_like_nothing():
    """A word that is like none of them has no suggestion."""
    assert did_you_mean("xyzzy", ("fts", "names", "catalog")) == ""


@pytest.mark.parametrize(
    ("ask", "meant"),
    [
        (lambda: layoutscope.drives(["generic-720"]), "generic-7200"),
        (lambda: layoutscope.export(IMAGE, "nods", "nodes.csv"), "nodes"),
        (lambda: layoutscope.predict(IMAGE, workload={"order": "fst"}), "fts"),
        (lambda: layoutscope.predict(IMAGE, workload={"what_ifs": ["packd"]}), "packed"),
        (lambda: select_name(["System", "Data"], "Dat"), "Data"),
    ],
    ids=["drive", "table", "order", "what-if", "volume"],
)
def test_drives_tables_orders_what_ifs_and_volumes_are_suggested(ask, meant):
    """What is chosen by its name is suggested where the name is misspelt."""
    with pytest.raises(UsageError, match=rf"did you mean '{meant}'\?"):
        ask()


def test_every_refusal_has_a_code_that_is_known():
    """A code that is no refusal's would end, where a package is missing, in a trace of calls instead of a line."""
    calls = [
        node
        for module in read_modules().values()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "UnsupportedError"
    ]
    given = [word.value for call in calls for word in call.keywords if word.arg == "code"]
    codes = {value.value for value in given if isinstance(value, ast.Constant)}
    assert len(codes) > 5
    assert codes - set(refusals()) == set()

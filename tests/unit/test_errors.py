from __future__ import annotations

import pytest

import layoutscope
from layoutscope.errors import UsageError, did_you_mean
from layoutscope.partition.choice import select_name

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

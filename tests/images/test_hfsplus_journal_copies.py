"""Two HFS+ leaves with the same keys, both written by the journal, which shows the one that belongs to the tree."""

from __future__ import annotations

from dataclasses import replace

import pytest

import layoutscope
from fixtures.hfsplus.journal import checksum, render
from fixtures.hfsplus.plan import File, Journal, Tree, VolumePlan
from fixtures.hfsplus.writer import write

NAMES = ("keep", "stay")
JOURNALED = VolumePlan(
    root=tuple(File(name) for name in NAMES), journal=Journal(), catalog=Tree(4096, total_nodes=8), total_blocks=4096
)


def flushed(journal, runs):
    """Build a journal with all transactions flushed: the first pending one would start at the end."""
    data = bytearray(render(journal, runs))
    data[8:16] = data[16:24]
    data[36:40] = bytes(4)
    data[36:40] = checksum(bytes(data[:44])).to_bytes(4, journal.byte_order)
    return data


@pytest.fixture
def contradicting(tmp_path):
    """Return a function that makes a volume with two versions of a catalog leaf, and no header that selects one.

    The first version has one file more, which was deleted. The argument lists the journal's writes, by place and
    content.
    """
    layouts, leaves = {}, {}
    for name, root in (("now", JOURNALED.root), ("before", (*JOURNALED.root, File("gone")))):
        path = tmp_path / f"{name}.img"
        write(replace(JOURNALED, root=root), path)
        layouts[name] = layoutscope.read_layouts(path)[0]
        at = layouts[name].nodes.filter(tree="catalog", node_id=1)["image_offset"].item()
        leaves[name] = path.read_bytes()[at : at + 4096]
    where = layouts["now"].regions.filter(type="journal")["image_offset"].item()

    def make(*order):
        data = bytearray((tmp_path / "now.img").read_bytes())
        places = {"before": at, "now": at + 4096}
        # The header node is lost.
        data[at - 4096 : at] = bytes(4096)
        for name, place in places.items():
            data[place : place + 4096] = leaves[name]
        runs = [(places[name], leaves[name]) for name in order]
        journal = flushed(replace(JOURNALED.journal, transactions=2), runs)
        data[where : where + len(journal)] = journal
        path = tmp_path / "made.img"
        path.write_bytes(data)
        return layoutscope.scan(path, drives=())

    return make


@pytest.mark.parametrize(
    ("order", "is_back"), [(("before", "now"), False), (("now", "before"), True), ((), True)], ids=str
)
def test_of_two_leaves_the_one_is_taken_that_the_journal_wrote_last(contradicting, order, is_back):
    """The journal wrote both to their places earlier; if it does not decide, the one with more records is used."""
    result = contradicting(*order)
    names = result.volumes[0].layout.entries["name"].to_list()
    assert set(NAMES) <= set(names)
    assert ("gone" in names) == is_back
    assert result.exit_code == 3
    assert result.coverage != 1

"""Subtrees that cannot be read: which ones, what references them, and what they held."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from layoutscope.filesystems.apfs.btree import read_levels
from layoutscope.filesystems.apfs.fsrecords import (
    NO_LIMIT,
    RecordTree,
    find_losses,
    report_losses,
)
from layoutscope.filesystems.apfs.source import TreeSource
from layoutscope.findings import FindingLog
from layoutscope.structs.records import J_KEY, OMAP_KEY
from tests.unit.apfs.toys import BLOCK, INFO, child, mapping, node, store_of

ROOT = node(1, [child(10, 3, 2), child(20, 4, 3)], level=1, root=(2, 3))
LEFT, RIGHT = node(2, [mapping(10, 3, 90)]), node(3, [mapping(20, 4, 92)])


def losses_of(blocks: dict[int, bytes], oid: int = 1) -> tuple[list[tuple[int, int, int, int, int]], bool]:
    found, is_root = find_losses(read_levels(TreeSource(store_of(blocks), "omap", oid, 7)))
    assert not found["device"].any()
    columns = (found[name].tolist() for name in ("node_id", "level", "low", "high", "at"))
    return [*zip(*columns, strict=True)], is_root


def test_a_missing_node_loses_its_range_of_keys():
    """The range begins with the key that leads to the node and ends at the next key."""
    assert losses_of({1: ROOT, 2: LEFT, 3: RIGHT}) == ([], True)
    assert losses_of({1: node(1, [mapping(10, 3, 90)], root=(1, 1))}) == ([], True)
    # Values of 8 bytes grow down from the 40 bytes of the root information, so the first value is stored last.
    first, second = BLOCK + BLOCK - INFO - 8, BLOCK + BLOCK - INFO - 16
    assert losses_of({1: ROOT, 2: LEFT[:-1] + b"\1", 3: RIGHT}) == ([(2, 0, 10, 20, first)], True)
    assert losses_of({1: ROOT, 2: LEFT, 3: RIGHT[:-1] + b"\1"}) == ([(3, 0, 20, NO_LIMIT, second)], True)
    # If neither leaf can be read, or both are outside the container, the walk ends with the root.
    found, is_root = losses_of({1: ROOT, 2: bytes(BLOCK), 3: bytes(BLOCK)})
    assert ([item[:4] for item in found], is_root) == ([(2, 0, 10, 20), (3, 0, 20, NO_LIMIT)], True)
    for level in (1, 2):
        found, is_root = losses_of({1: node(1, [child(10, 3, 50), child(20, 4, 60)], level=level, root=(2, 3))})
        assert ([item[:4] for item in found], is_root) == (
            [(50, level - 1, 10, 20), (60, level - 1, 20, NO_LIMIT)],
            True,
        )
    assert losses_of({1: ROOT[:-1] + b"\1", 2: LEFT, 3: RIGHT}) == ([], False)
    assert losses_of({1: bytes(BLOCK)}) == ([], False)


def test_subtrees_of_an_index_node():
    """The second index node of a tree of three levels is damaged: the loss is that node, not its leaves."""
    blocks = {
        1: node(1, [child(10, 3, 4), child(20, 4, 5)], level=2, root=(2, 5)),
        4: node(4, [child(10, 3, 2)], level=1),
        5: node(5, [child(20, 4, 3)], level=1)[:-1] + b"\1",
        2: LEFT,
        3: RIGHT,
    }
    found, _ = losses_of(blocks)
    assert [item[:4] for item in found] == [(5, 1, 20, NO_LIMIT)]
    # With that node whole, its leaf is lost; the leaf's number ends the node in block 5.
    blocks |= {5: node(5, [child(20, 4, 3)], level=1), 3: RIGHT[:-1] + b"\1"}
    assert losses_of(blocks) == ([(3, 0, 20, NO_LIMIT, 6 * BLOCK - 8)], True)
    store = store_of({1: ROOT, 2: LEFT, 3: RIGHT[:-1] + b"\1"})
    log = FindingLog()
    source = TreeSource(store, "omap", 1, 7)
    report_losses(find_losses(read_levels(source))[0], source, None, log)
    (finding,) = log.findings
    assert (finding.structure, finding.image_offset) == ("omap tree, node 3", 2 * BLOCK - INFO - 16)


def entries(*rows: tuple[int, int]) -> RecordTree:
    """Return directory entries: the target's number and its type."""
    file_id, kind = zip(*rows, strict=True)
    return RecordTree({"dir_rec": {"file_id": np.array(file_id, np.uint64), "entry_type": np.array(kind, np.uint8)}})


def make_losses(*ranges: tuple[int, int]):
    """Make columns of leaves that are missing, by their ranges of keys."""
    low, high = (np.array(side, np.uint64) for side in zip(*ranges, strict=True))
    number = np.arange(len(low))
    return {
        "node_id": 5 + number,
        "low": low,
        "high": high,
        "level": 0 * number,
        "at": 100 + number,
        "device": 0 * number,
    }


def messages_of(key_type, losses, records) -> list[str]:
    """Return the messages about losses of a tree."""
    log = FindingLog()
    source = SimpleNamespace(tree="some", key_type=key_type)
    report_losses(losses, source, records, log)
    assert {(item.code, item.level) for item in log.findings} == {("subtree-missing", "error")}
    return [item.message.partition("missing: ")[2] or item.message for item in log.findings]


@pytest.mark.parametrize(
    ("low", "high", "records", "words"),
    [
        (16 << 4, 30 << 4, None, "objects from 16 to 30"),
        (16 << 4, NO_LIMIT, None, "objects from 16"),
        (16 << 4, 30 << 4, RecordTree(), "objects from 16 to 30"),
        (
            16 << 4,
            30 << 4,
            entries((15, 8), (16, 8), (30, 4), (31, 4), (17, 4), (17, 4), (18, 10)),
            "objects from 16 to 30; entries elsewhere name 2 directories (17, 30) and 3 other files there",
        ),
        (
            16 << 4,
            30 << 4,
            entries((16, 8)),
            "objects from 16 to 30; entries elsewhere name 0 directories and 1 other files there",
        ),
    ],
)
def test_what_a_subtree_of_records_held(low, high, records, words):
    """Numbers are 16 times the object's; hard links to one directory count once, files count by their entries."""
    assert messages_of(J_KEY, make_losses((low, high)), records) == [words]


def test_a_loss_names_its_directories_or_its_keys():
    """It names up to ten directories, and in other trees the range of keys."""
    for count, more in ((11, " and more"), (10, "")):
        (words,) = messages_of(J_KEY, make_losses((0, 1000 << 4)), entries(*((20 + n, 4) for n in range(count))))
        assert f"name {count} directories (20, 21, 22, 23, 24, 25, 26, 27, 28, 29{more})" in words
    assert messages_of(OMAP_KEY, make_losses((16, 30), (30, NO_LIMIT)), None) == [
        "keys from 16 to 30",
        "keys from 30",
    ]


@pytest.mark.parametrize(("count", "further"), [(100, []), (101, ["1 further subtrees are missing"])])
def test_a_hundred_losses_are_told(count, further):
    losses = make_losses(*((n, n + 1) for n in range(count)))
    found = messages_of(OMAP_KEY, losses, None)
    assert (len(found), found[100:]) == (count, further)

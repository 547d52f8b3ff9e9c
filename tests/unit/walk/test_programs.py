"""Orders of programs on hand-made volumes: the differences between them."""

from __future__ import annotations

import numpy as np
import pytest

from layoutscope.walk import Work, trace
from layoutscope.walk.readahead import FileMap, growing_windows, sequential_windows
from tests.unit.walk.conftest import rows_read


@pytest.fixture
def tree(plan):
    """An HFS+ volume with {a/ {f}, a-b/ {g}, .git/ {h}}, each thread on a leaf of its own.

    Rows: 0 header, 1 root node, 2 root's records, 3 a and its thread, 4 a-b and its, 5 .git and its, 6 f, 7 g, 8 h.
    """
    made = plan("hfsplus")
    made.node("catalog", 0, 0, size=8192, kind="header")
    made.node("catalog", 1, 0x10000, size=8192)
    for row in range(2, 9):
        made.node("catalog", 0, row * 0x10000, parent=1, size=8192, rank=row - 2)
    made.entry(1, 2, "plan", leaf=2, thread=2, kind="directory", valence=3, listing_node_row=2)
    for number, (name, row) in enumerate((("a", 3), ("a-b", 4), (".git", 5)), 16):
        made.entry(2, number, name, leaf=2, thread=row, kind="directory", valence=1, listing_node_row=row, rank=number)
    for number, (name, row) in enumerate((("f", 6), ("g", 7), ("h", 8)), 32):
        made.entry(number - 16, number, name, leaf=row, thread=row)
    return made.layout()


def test_find_asks_for_directories_alone(hfs_plan, tree):
    """Leaves 4 and 5 hold the threads of files, which du looks up and find does not."""
    assert rows_read(trace(hfs_plan.layout(), order="find")) == [3]
    assert rows_read(trace(hfs_plan.layout(), order="du")) == [3, 5, 4]
    # Apple's fts requests it with any options (Libc fts.c), so find and FTS_NOSTAT read inodes, like du.
    added = trace(tree, order="du", host="macos")
    for found in (
        trace(tree, order="find", host="macos"),
        trace(tree, order="fts", host="macos", work=Work(stat=False)),
    ):
        assert found.image_offset.tolist() == added.image_offset.tolist()
        assert found.host_us == added.host_us


def test_programs_list_in_their_orders(tree):
    """Programs sort and descend by their own rules."""
    # In byte order .git (5, 8) comes before a (3, 6) and a-b (4, 7); attributes of all directories are read before.
    assert rows_read(trace(tree, order="ls")) == [3, 4, 5, 8, 6, 7]
    assert rows_read(trace(tree, order="ls-folder")) == [3, 4, 5]
    assert rows_read(trace(tree, order="ls-folder", work=Work(start_directory_id=16))) == [3, 6]
    # a-b comes before a/, but after a.
    assert rows_read(trace(tree, order="backup")) == [3, 4, 5, 8, 7, 6]
    # a-b/g comes before a/f; .git (5) and its contents (8) are not looked up, and .git is not listed.
    assert rows_read(trace(tree, order="git-status")) == [4, 7, 3, 6]
    # MacOS reads the catalog's nodes by number; Linux has no such call and uses find.
    for host, other in (("macos", "searchfs"), ("linux", "find")):
        made, same = trace(tree, order="search", host=host), trace(tree, order=other, host=host)
        assert made.image_offset.tolist() == same.image_offset.tolist()


def test_folders_that_changed_are_looked_up_and_listed(tree):
    """a-b (its own leaf 4, with g on 7), then .git (5, 8), in list order; a (3, 6) is not read."""
    read = trace(tree, order="backup-events", host="macos", work=Work(paths=["a-b", "/.git/"]))
    assert rows_read(read) == [4, 7, 5, 8]
    assert rows_read(trace(tree, order="backup-events", host="macos", work=Work(paths=["nowhere", "a/f"]))) == [6]
    # If every folder is named, the root first, the leaves are those of a walk without a record.
    read = trace(tree, order="backup-events", host="macos", work=Work(paths=["/", "a", "a-b", ".git"]))
    assert set(rows_read(read)) == set(rows_read(trace(tree, order="backup", host="macos")))
    # On macOS a backup uses getattrlistbulk on every folder; on Linux rsync stats entry by entry.
    made, bulk = trace(tree, order="backup", host="macos"), trace(tree, order="bulk", host="macos")
    assert made.image_offset.tolist() == bulk.image_offset.tolist()
    assert made.host_us == bulk.host_us
    assert trace(tree, order="backup").image_offset.tolist() != made.image_offset.tolist()


def map_of(sizes, packed=()):
    """Make a map of files with one extent each."""
    base = np.cumsum([0, *sizes[:-1]])
    number, ends = np.arange(len(sizes)), base + np.array(sizes)
    is_packed = np.isin(number, packed)
    return FileMap(base, is_packed, number, base, ends, base, np.zeros(len(sizes), np.uint8), np.full(len(sizes), -1))


def test_windows_grow_from_what_the_first_read_asks_for():
    """On Linux, up to two pages start with a window of 4 pages, three with one of 8; each next one doubles."""
    page = 4096
    grown = {1: [0, 4, 12, 28, 60, 92], 2 * page: [0, 4, 12, 28, 60, 92], 3 * page: [0, 8, 24, 56, 88]}
    for asked, edges in grown.items():
        file, begin, end = growing_windows(map_of([100 * page]), 32 * page, np.array([asked]))
        assert (begin // page).tolist() == edges
        assert np.minimum(end // page, 100).tolist() == [*edges[1:], 100]
        assert not file.any()
    # A small file, a compressed one that is read at once, and one that starts with a larger window.
    page = 4096
    files = map_of([3 * page, 50 * page, 10 * page], packed=[1])
    file, begin, end = growing_windows(files, 32 * page, np.array([1, 1, 3 * page]))
    found = list(zip(file.tolist(), (begin // page).tolist(), np.minimum(end // page, 63).tolist(), strict=True))
    assert found == [(0, 0, 3), (1, 3, 53), (2, 53, 61), (2, 61, 63)]
    # They are aligned to the start of the file, and the last one ends with the file.
    page = 4096
    file, begin, end = sequential_windows(map_of([page, 70 * page]), 32 * page)
    assert file.tolist() == [0, 1, 1, 1]
    assert (np.minimum(end // page, 71) - begin // page).tolist() == [1, 32, 32, 6]

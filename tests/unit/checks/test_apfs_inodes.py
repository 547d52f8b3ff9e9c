"""Comparison of inodes with other records of an APFS volume, some of which may not have been read."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from layoutscope.checks.apfs.inodes import FLAG, check_inode_notes, check_streams
from layoutscope.filesystems.apfs.fsrecords import RecordTree, no_records

FILE, PURGEABLE_DIR = 0o100000, 7
HOLE = "it counts other sparse bytes than its holes have"
PURGEABLE = "its flags and the directory of what may be purged disagree"


def table_of(kind, **values):
    """Return a table with one record, whose other columns are 0."""
    texts = {"name": no_records(kind)["name"].of(["a"])} if "name" in no_records(kind) else {}
    zeros = {name: np.zeros(1, column.dtype) for name, column in no_records(kind).items() if name not in texts}
    return zeros | texts | {name: np.array([value], zeros[name].dtype) for name, value in values.items()}


def messages_of(check, tree, **parts):
    """Return the messages of a check of a volume with these records."""
    found = []

    def report(*_):
        return lambda wrong, message, *_, **__: found.extend([message] * bool(np.any(wrong)))

    flags = int(FLAG.is_purgeable | FLAG.is_sparse)
    columns = {"obj_id": 20, "flags": flags, "name": 0, "kinds": 0, "sparse": 4096}
    notes = {name: [np.array([value], np.uint64)] for name, value in columns.items()}
    subject = SimpleNamespace(inodes={(0, "live"): notes | {"kinds": [np.zeros(1, np.uint32)]}})
    state = SimpleNamespace(number=0, superblock=SimpleNamespace(features=0, next_obj_id=100))
    subject.reporter = lambda _: report
    check(subject, SimpleNamespace(state=state, view="live", fs=tree, **parts))
    return found


@pytest.mark.parametrize(
    ("more", "extents", "expected"),
    [
        # Directory 7 names an inode that is not this one; its extent is not a hole.
        ({"dir_rec": table_of("dir_rec", obj_id=PURGEABLE_DIR, file_id=30)}, {"paddr": 9}, [PURGEABLE, HOLE]),
        ({"dir_rec": table_of("dir_rec", obj_id=PURGEABLE_DIR, file_id=20)}, {"paddr": 0, "len_extent": 4096}, []),
        ({}, None, []),
    ],
)
def test_inodes_are_compared_only_with_what_was_read(more, extents, expected):
    """A snapshot may have lost its tree of extents: that is a finding of its own, not one for each sparse file."""
    tree = RecordTree(
        {"inode": table_of("inode", obj_id=20, private_id=20, format=FILE, num_children_or_links=1), **more}
    )
    read = no_records("file_extent") if extents is None else table_of("file_extent", obj_id=20, **extents)
    assert messages_of(check_inode_notes, tree, file_extents=lambda: read) == expected


@pytest.mark.parametrize(("has_inodes", "expected"), [(True, ["it counts other users than it has"]), (False, [])])
def test_streams_are_compared_only_with_inodes_that_were_read(has_inodes, expected):
    """Without any inode, all of them are lost, and no stream has a wrong count."""
    inodes = {"inode": table_of("inode", obj_id=20, format=FILE)} if has_inodes else {}
    tree = RecordTree({"dstream_id": table_of("dstream_id", obj_id=30, refcnt=1), **inodes})
    assert messages_of(check_streams, tree) == expected

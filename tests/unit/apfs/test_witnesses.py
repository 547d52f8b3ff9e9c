"""How many entries a volume must have according to its own metadata."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from layoutscope.filesystems.apfs.contents import inodes_by_kind, num_missing_entries
from layoutscope.filesystems.apfs.fsrecords import no_records

FILE, DIRECTORY, SYMLINK, FIFO = 0o100000, 0o040000, 0o120000, 0o010000


def volume(inodes, drecs, *, formatted_by=b"newfs_apfs", is_locked=False, **declared):
    """Make the records of a volume from inodes ``(number, format, children or links)`` and parents of entries."""
    columns = [np.array(column) for column in zip(*inodes, strict=True)] if inodes else [np.empty(0, np.int64)] * 3
    tables = {
        "inode": {
            "obj_id": columns[0].astype(np.uint64),
            "format": columns[1].astype(np.uint16),
            "num_children_or_links": columns[2].astype(np.int32),
        },
        "dir_rec": {"obj_id": np.array(drecs, np.uint64), "file_id": np.empty(0, np.uint64)},
    }
    counts = {"num_files": 0, "num_directories": 0, "num_symlinks": 0, "num_other_fsobjects": 0, "next_obj_id": 1000}
    superblock = SimpleNamespace(**counts | declared, formatted_by=SimpleNamespace(id=formatted_by))
    return SimpleNamespace(
        is_locked=is_locked,
        fs=SimpleNamespace(get=tables.__getitem__),
        state=SimpleNamespace(superblock=superblock),
        log=SimpleNamespace(has_errors=True),
    )


ROOT = (2, DIRECTORY, 2)
WHOLE = [ROOT, (16, FILE, 1), (17, DIRECTORY, 1), (18, SYMLINK, 1)]
COUNTS = {"num_files": 1, "num_directories": 1, "num_symlinks": 1}


@pytest.mark.parametrize(
    ("inodes", "drecs", "more", "missing"),
    [
        (WHOLE, [2, 2, 17], COUNTS, 0),
        (WHOLE, [2, 2, 17, 17], COUNTS, 0),
        (WHOLE, [2, 2, 17], COUNTS | {"num_files": 5}, 4),
        (WHOLE, [2], COUNTS, 2),
        (WHOLE, [2], COUNTS | {"num_symlinks": 4}, 3),
        ([], [], COUNTS, 3),
        ([(2, DIRECTORY, 10**6), *WHOLE[1:]], [2, 2, 17], COUNTS, 0),
        (WHOLE, [2], COUNTS | {"formatted_by": b"hfs_convert (1)"}, 0),
        (WHOLE, [2], COUNTS | {"is_locked": True}, 0),
        ([*WHOLE, (19, FILE, 0)], [2, 2, 17], COUNTS | {"num_files": 2}, 1),
    ],
)
def test_the_witness_that_knows_of_most_losses_counts(inodes, drecs, more, missing):
    """Superblock and directories count; directories of a converted volume do not, and a locked volume has no count."""
    assert num_missing_entries(volume(inodes, drecs, **more)) == missing


def test_inodes_are_counted_as_superblocks_do():
    """Neither the root and the private directory nor files that wait to be deleted count."""
    inodes = volume([ROOT, (3, DIRECTORY, 0), *WHOLE[1:], (19, FIFO, 1), (20, FILE, 0)], []).fs.get("inode")
    assert inodes_by_kind(inodes) == {"files": 1, "directories": 1, "symbolic links": 1, "other objects": 1}
    assert set(inodes_by_kind(no_records("inode")).values()) == {0}

"""Catalog records in leaves of a few records: which become rows, and which are left out."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from layoutscope.filesystems.hfsplus.catalog import FILE, FOLDER, KEY, THREAD, collect_catalog, start_catalog
from tests.unit.hfsplus.written import decoded, named, node

FOLDER_RECORD = FOLDER.blank({"record_type": 1, "folder_id": 16, "valence": 3, "create_date": 7})
FILE_RECORD = FILE.blank(
    {
        "record_type": 2,
        "file_id": 17,
        "data_fork.len_logical": 5000,
        "data_fork.num_blocks": 6,
        "data_fork.extents.start_block": [100, 200],
        "data_fork.extents.num_blocks": [4, 2],
        "resource_fork.len_logical": 2**64 - 1,
        "resource_fork.extents.start_block": [300],
        "resource_fork.extents.num_blocks": [1],
    }
)
FOLDER_THREAD = THREAD.blank({"record_type": 3, "parent_id": 2, "num_name_units": 0})

FOLDER_LEAF = node([named(KEY, "a/b", FOLDER_RECORD, parent_id=2), named(KEY, "", FOLDER_THREAD, parent_id=16)])
FILE_LEAF = node([named(KEY, "na\u00efve", FILE_RECORD, parent_id=16)])


def collected(*leaves):
    """Decode leaves and join them in their stored order."""
    tables, decode = start_catalog()
    records, bad = decoded(decode, *leaves)
    return collect_catalog(SimpleNamespace(records=records), tables), bad


def test_files_and_folders_become_entries():
    """One of each, with the number of its leaf; a size too large for a signed number becomes the largest one."""
    catalog, bad = collected(FOLDER_LEAF, FILE_LEAF)
    entries = {name: values.tolist() for name, values in catalog.entries.items()}
    expected = {
        "is_folder": [True, False],
        "parent_id": [2, 16],
        "file_id": [16, 17],
        "valence": [3, 0],
        "create_date": [7, 0],
        "data_size": [0, 5000],
        "data_blocks": [0, 6],
        "resource_size": [0, 2**63 - 1],
        "node": [1, 2],
    }
    assert {name: entries[name] for name in expected} == expected
    assert len(bad) == 0


@pytest.mark.parametrize(
    "record",
    [
        named(KEY, "x", b"\0\x09" + bytes(300), parent_id=2),
        named(KEY, "x", FILE_RECORD[:-2], parent_id=2),
        named(KEY, "x", FILE_RECORD, parent_id=2, num_name_units=99),
    ],
    ids=["of no known type", "too short", "with a name longer than its key"],
)
def test_what_is_no_record_is_left_out(record):
    """Its leaf is marked as bad, and the next record is read."""
    catalog, bad = collected(node([record, named(KEY, "y", FOLDER_RECORD, parent_id=2)]))
    assert bad.tolist() == [1]
    assert catalog.entries["file_id"].tolist() == [16]


def test_entries_are_told_their_threads_and_whether_these_call_them_otherwise():
    """Folder 16 has a thread with its name, 17 has none, and the thread of 18 has another name."""

    def folder(number):
        return named(KEY, f"f{number}", FOLDER.blank({"record_type": 1, "folder_id": number}), parent_id=2)

    def thread(number, name):
        start = THREAD.blank({"record_type": 3, "parent_id": 2, "num_name_units": len(name)})
        return named(KEY, "", start + name.encode("utf-16-be"), parent_id=number)

    leaf = node([folder(16), folder(17), folder(18), thread(16, "f16"), thread(18, "f19")])
    catalog, _ = collected(leaf)
    assert catalog.thread_of.tolist() == [0, -1, 1]
    assert catalog.is_renamed.tolist() == [False, False, True]
    catalog, _ = collected(node([folder(16), thread(16, "f16")]))
    assert catalog.is_renamed.tolist() == [False]

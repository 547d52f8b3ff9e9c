"""Checks of the hot-file B-tree: each hot file has a record by its temperature and a thread that leads to it.

TN1150, "Hot Files". The order of the keys is checked as that of all trees.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from layoutscope.arrays.lookup import find
from layoutscope.filesystems.hfsplus.check.hotfilerecords import CODE

if TYPE_CHECKING:
    from layoutscope.filesystems.hfsplus.check.hotfilerecords import HotFileRecords
    from layoutscope.filesystems.hfsplus.check.subject import Subject


def check_hot_files(subject: Subject) -> None:
    """Records and threads belong together one by one, with one temperature, and their files exist."""
    hot = subject.hot_files
    if hot is None:
        return
    _check_pairs(subject, hot)
    _check_twice(subject, hot)
    if subject.catalog is not None:
        ids = subject.catalog.files["file_id"].astype(np.int64)
        lost = np.flatnonzero(find(ids, hot.files["key.file_id"]) < 0)
        for row in subject.cases(CODE, lost, "hot files"):
            message, found = "a hot file does not exist", int(hot.files["key.file_id"][row])
            hot.field(int(hot.files["at"][row]), "key.file_id").add(
                CODE, "warning", message, expected="the CNID of a file", found=found
            )


def _check_pairs(subject: Subject, hot: HotFileRecords) -> None:
    """Compare both kinds of records, file by file."""
    files, threads = hot.files, hot.threads
    thread, file = find(threads["fork"], files["fork"]), find(files["fork"], threads["fork"])
    for row in subject.cases(CODE, np.flatnonzero(thread < 0), "hot files"):
        number = int(files["key.file_id"][row])
        hot.field(int(files["at"][row]), "key.file_id").add(
            CODE, "warning", "a hot file has no thread record", found=number
        )
    for row in subject.cases(CODE, np.flatnonzero(file < 0), "hot files"):
        message, number = "a thread record leads to no hot file", int(threads["key.file_id"][row])
        hot.field(int(threads["at"][row]), "key.file_id").add(CODE, "warning", message, found=number)
    known = np.flatnonzero(file >= 0)
    expected = files["key.temperature"][file[known]]
    for case in subject.cases(CODE, np.flatnonzero(threads["data"][known] != expected), "hot files"):
        hot.field(int(threads["at"][known[case]]), "data").add(
            CODE,
            "warning",
            "a thread record has another temperature than the file",
            expected=int(expected[case]),
            found=int(threads["data"][known[case]]),
        )


def _check_twice(subject: Subject, hot: HotFileRecords) -> None:
    """No file has two temperatures."""
    order = np.argsort(hot.files["fork"], kind="stable")
    again = order[1:][np.diff(hot.files["fork"][order]) == 0]
    for row in subject.cases(CODE, again, "hot files"):
        number = int(hot.files["key.file_id"][row])
        hot.field(int(hot.files["at"][row]), "key.file_id").add(
            CODE, "warning", "a hot file has a second temperature", found=number
        )

"""Checks of the hot-file B-tree: each hot file has a record by its temperature and a thread that leads to it.

TN1150, "Hot Files". The order of the keys is checked as that of all trees.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.filesystems.hfsplus.arrays import Columns, Mask, concatenate, find
from layoutscope.filesystems.hfsplus.records.hotfiles import LEAF_RECORD
from layoutscope.filesystems.hfsplus.survey.survey import Batch, Survey, survey_tree
from layoutscope.ondisk import bulk

if TYPE_CHECKING:
    from layoutscope.filesystems.hfsplus.survey.subject import Subject
    from layoutscope.filesystems.hfsplus.tree.tree import Tree
    from layoutscope.filesystems.hfsplus.volume.volume import Volume

FIELDS: Final = ("key.file_id", "key.fork_type", "key.temperature", "key.is_thread", "data")
_COLUMNS: Final = (*FIELDS, "at")
_FORK_BITS: Final = 8
CODE: Final = "hot-file-differs"


@dataclass(frozen=True, slots=True)
class HotFileRecords:
    """Leaf records of the hot-file B-tree.

    Attributes
    ----------
    survey : Survey
        Of the whole tree.
    files, threads : Columns
        Records by temperature, and thread records: the fields of the grammar's record, ``at`` in bytes from the start
        of the tree's file, and ``fork``, one number for a file's fork.
    """

    survey: Survey
    files: Columns
    threads: Columns

    def report(self, record_at: int, path: str, message: str, *, expected: object = "", found: object = "") -> None:
        """Report a field of a record."""
        at = record_at + bulk.offset(LEAF_RECORD, path)
        self.survey.report(CODE, "warning", at, message, expected=expected, found=found)


@dataclass(slots=True)
class _Collector:
    volume: Volume
    parts: list[Columns] = field(default_factory=list)

    def read(self, batch: Batch) -> None:
        """Read a batch of leaves; records that are too short are told while the tree is read."""
        whole = batch.rows["stop"] - batch.rows["key"] >= bulk.size(LEAF_RECORD)
        found = self.volume.decoder.columns(LEAF_RECORD, batch.buffer, batch.at("key", whole), FIELDS)
        columns = {name: values.astype(np.int64) for name, values in found.items()}
        self.parts.append({**columns, "at": batch.rows["key"][whole]})


def read_hot_file_records(volume: Volume, tree: Tree) -> HotFileRecords:
    """Read all records of the tree."""
    collector = _Collector(volume)
    survey = survey_tree(volume, tree, collector.read)
    rows = concatenate(collector.parts, dict.fromkeys(_COLUMNS, np.empty(0, np.int64)))
    rows["fork"] = rows["key.file_id"] << _FORK_BITS | rows["key.fork_type"]
    is_thread = rows["key.is_thread"] != 0
    return HotFileRecords(survey, _of(rows, ~is_thread), _of(rows, is_thread))


def _of(rows: Columns, chosen: Mask) -> Columns:
    return {name: values[chosen] for name, values in rows.items()}


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
            hot.report(int(hot.files["at"][row]), "key.file_id", message, expected="the CNID of a file", found=found)


def _check_pairs(subject: Subject, hot: HotFileRecords) -> None:
    """Compare both kinds of records, file by file."""
    files, threads = hot.files, hot.threads
    thread, file = find(threads["fork"], files["fork"]), find(files["fork"], threads["fork"])
    for row in subject.cases(CODE, np.flatnonzero(thread < 0), "hot files"):
        number = int(files["key.file_id"][row])
        hot.report(int(files["at"][row]), "key.file_id", "a hot file has no thread record", found=number)
    for row in subject.cases(CODE, np.flatnonzero(file < 0), "hot files"):
        message, number = "a thread record leads to no hot file", int(threads["key.file_id"][row])
        hot.report(int(threads["at"][row]), "key.file_id", message, found=number)
    known = np.flatnonzero(file >= 0)
    expected = files["key.temperature"][file[known]]
    for case in subject.cases(CODE, np.flatnonzero(threads["data"][known] != expected), "hot files"):
        hot.report(
            int(threads["at"][known[case]]), "data", "a thread record has another temperature than the file",
            expected=int(expected[case]), found=int(threads["data"][known[case]]),
        )  # fmt: skip


def _check_twice(subject: Subject, hot: HotFileRecords) -> None:
    """No file has two temperatures."""
    order = np.argsort(hot.files["fork"], kind="stable")
    again = order[1:][np.diff(hot.files["fork"][order]) == 0]
    for row in subject.cases(CODE, again, "hot files"):
        number = int(hot.files["key.file_id"][row])
        hot.report(int(hot.files["at"][row]), "key.file_id", "a hot file has a second temperature", found=number)

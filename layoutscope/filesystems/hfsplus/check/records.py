"""Checks of records: types, IDs, threads, folders, hot files.

TN1150, "Catalog File" and "Hot Files"; numbers of subfolders follow hfs_format.h.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from layoutscope.arrays.lookup import find
from layoutscope.arrays.pieces import take_ranges
from layoutscope.filesystems.hfsplus.check.catalog import TYPES
from layoutscope.filesystems.hfsplus.check.links import links_by_kind
from layoutscope.filesystems.hfsplus.contents.rules import counted_entries, without_thread
from layoutscope.filesystems.hfsplus.records.catalog import KEY, THREAD
from layoutscope.ondisk import grammar

if TYPE_CHECKING:
    from layoutscope.arrays.columns import I64, Mask
    from layoutscope.filesystems.hfsplus.check.catalog import CatalogRecords
    from layoutscope.filesystems.hfsplus.check.subject import HotFileRecords, Subject


CNID = grammar.HfsplusVolume.Cnid


def check_record_types(subject: Subject) -> None:
    """Catalog and attribute records are of types that exist, and as long as these."""
    catalog, attributes, overflow = subject.catalog, subject.attributes, subject.overflow
    if catalog is not None:
        for row in subject.cases("records-invalid", np.flatnonzero(catalog.kind == 0), "catalog records"):
            at = int(catalog.located.rows["data"][row])
            catalog.located.at(at).add("records-invalid", "error", "a record is of no known type, or shorter than it")
        for row in subject.cases("records-invalid", np.flatnonzero(catalog.excess), "catalog records"):
            at = int(catalog.located.rows["data"][row])
            catalog.located.at(at).add("records-invalid", "error", "a record is longer than its type")
        rows, _, _ = catalog.entries()
        # A thread's key has an empty name (TN1150, "Catalog File Key"), and no other.
        for row in subject.cases("records-invalid", rows[catalog.count[rows] == 0], "catalog records"):
            at = int(catalog.located.rows["key"][row]) + KEY.num_name_units.offset
            catalog.located.at(at).add("records-invalid", "error", "a file or folder has a name without letters")
    if attributes is not None:
        for row in subject.cases("records-invalid", np.flatnonzero(attributes.kind == 0), "attribute records"):
            message = "a record is of no known type, or shorter than it"
            attributes.located.at(int(attributes.data[row])).add("records-invalid", "error", message)
    if overflow is not None:
        leaf = np.flatnonzero(overflow.located.rows["level"] == 0)
        for row in subject.cases("records-invalid", leaf[~overflow.is_whole], "extents-overflow records"):
            at = int(overflow.located.rows["key"][row])
            overflow.located.at(at).add("records-invalid", "error", "a record is shorter than eight extents")


def _id_field(is_folder: bool) -> str:
    return "folder_id" if is_folder else "file_id"


def check_ids(subject: Subject) -> None:
    """CNIDs of files and folders are not reserved, and no two are the same."""
    catalog = subject.catalog
    if catalog is None:
        return
    rows, ids, is_folder = catalog.entries()
    is_root = is_folder & (ids == CNID.root_folder)
    # Below 16 there are only the root folder and special files, which stand in no catalog.
    reserved = np.flatnonzero((ids < CNID.first_user) & ~is_root)
    for place in subject.cases("cnid-reserved", reserved, "catalog records"):
        catalog.field(int(rows[place]), _id_field(bool(is_folder[place]))).add(
            "cnid-reserved",
            "error",
            "a file or folder has a reserved CNID",
            expected=f"at least {int(CNID.first_user)}",
            found=int(ids[place]),
        )
    order = np.argsort(ids, kind="stable")
    same = np.zeros(len(ids), np.bool_)
    same[order[1:]] |= ids[order[1:]] == ids[order[:-1]]
    same[order[:-1]] |= ids[order[1:]] == ids[order[:-1]]
    for place in subject.cases("cnid-duplicate", np.flatnonzero(same), "catalog records"):
        catalog.field(int(rows[place]), _id_field(bool(is_folder[place]))).add(
            "cnid-duplicate",
            "error",
            "two files or folders have the same CNID",
            found=int(ids[place]),
            expected="a CNID of its own",
        )


def check_parents(subject: Subject) -> None:
    """Every file and folder lies in a folder that exists."""
    catalog = subject.catalog
    if catalog is None:
        return
    rows, ids, is_folder = catalog.entries()
    parent = catalog.parent_id[rows]
    lost = np.flatnonzero((find(ids[is_folder], parent) < 0) & (parent != CNID.root_parent))
    for place in subject.cases("parent-missing", lost, "catalog records"):
        row = int(rows[place])
        at = int(catalog.located.rows["key"][row]) + KEY.parent_id.offset
        catalog.located.at(at).add(
            "parent-missing", "error", f"the folder of CNID {ids[place]} does not exist", found=int(parent[place])
        )


def check_threads(subject: Subject) -> None:
    """Folders have threads, and files that say so; each thread knows type, parent and name of its own."""
    catalog = subject.catalog
    if catalog is None:
        return
    rows, _, is_folder = catalog.entries()
    threads = catalog.threads
    owner = catalog.parent_id[threads["row"]]
    _check_missing_threads(subject, catalog, owner)
    # Where two entries share a CNID, the thread is that of the one in the folder that it names.
    place = _matching_entry(catalog, owner)
    for row in subject.cases("thread-orphaned", np.flatnonzero(place < 0), "catalog threads"):
        at = int(catalog.located.rows["key"][threads["row"][row]]) + KEY.parent_id.offset
        message = "a thread belongs to no file or folder"
        catalog.located.at(at).add("thread-orphaned", "error", message, found=int(owner[row]))
    known = np.flatnonzero(place >= 0)
    _compare_threads(subject, catalog, known, rows[place[known]], is_folder[place[known]])


def _matching_entry(catalog: CatalogRecords, owner: I64) -> I64:
    """Place of each thread's entry among the entries, -1 where there is none."""
    rows, ids, _ = catalog.entries()
    place = find(ids, owner)
    if not len(ids):
        return place
    parent = catalog.threads["parent_id"].astype(np.int64)
    several = np.flatnonzero((place >= 0) & (catalog.parent_id[rows[np.maximum(place, 0)]] != parent))
    for row in several.tolist()[:1000]:
        same = np.flatnonzero((ids == owner[row]) & (catalog.parent_id[rows] == parent[row]))
        if len(same):
            place[row] = same[0]
    return place


def _check_missing_threads(subject: Subject, catalog: CatalogRecords, owner: I64) -> None:
    rows, ids, is_folder = catalog.entries()
    # HFS kept threads of files only where somebody had asked for one. HFS+ demands one of each file, and the flag that
    # says so (TN1150, "Catalog File"); what is missing here is one that the flag promises.
    claims = is_folder.copy()
    claims[~is_folder] = catalog.files["has_thread"]
    for lost in subject.cases("thread-differs", np.flatnonzero(without_thread(ids, claims, owner)), "catalog records"):
        catalog.field(int(rows[lost]), _id_field(bool(is_folder[lost]))).add(
            "thread-differs",
            "error",
            "a file or folder has no thread",
            found=int(ids[lost]),
            expected="the CNID of a thread",
        )


def _compare_threads(subject: Subject, catalog: CatalogRecords, known: I64, entry: I64, is_folder: Mask) -> None:
    """Compare threads with the entries of their CNIDs."""
    threads = catalog.threads
    row = threads["row"][known]
    kind = catalog.kind[row]
    expected = np.where(is_folder, int(TYPES.folder_thread), int(TYPES.file_thread))
    for case in subject.cases("thread-differs", np.flatnonzero(kind != expected), "catalog threads"):
        catalog.field(int(row[case]), "record_type").add(
            "thread-differs",
            "error",
            "a thread has the type of another kind",
            expected=int(expected[case]),
            found=int(kind[case]),
        )
    parent, real = threads["parent_id"][known].astype(np.int64), catalog.parent_id[entry]
    for case in subject.cases("thread-differs", np.flatnonzero(parent != real), "catalog threads"):
        catalog.field(int(row[case]), "parent_id").add(
            "thread-differs",
            "error",
            "a thread names another folder",
            expected=int(real[case]),
            found=int(parent[case]),
        )
    for case in subject.cases("thread-differs", _other_names(catalog, known, entry), "catalog threads"):
        at = int(catalog.located.rows["data"][row[case]]) + THREAD.width
        if threads["num_name_units"][known[case]] != catalog.count[entry[case]]:
            at += THREAD.num_name_units.offset - THREAD.width
        catalog.located.at(at).add("thread-differs", "error", "a thread has another name")


def _other_names(catalog: CatalogRecords, known: I64, entry: I64) -> I64:
    """Places of threads whose name is not that of the entry."""
    lengths, wanted = catalog.threads["num_name_units"][known], catalog.count[entry]
    # Letter by letter, though keys compare without case: whoever comes by CNID gets the name of the thread.
    same = np.flatnonzero(lengths == wanted)
    own = take_ranges(catalog.thread_units, catalog.thread_start[known[same]], lengths[same])
    real = take_ranges(catalog.units, catalog.start[entry[same]], wanted[same])
    differs = lengths != wanted
    differs[same[np.searchsorted(np.cumsum(lengths[same]), np.flatnonzero(own != real), side="right")]] = True
    return np.flatnonzero(differs)


def check_valence(subject: Subject) -> None:
    """Folders count their entries."""
    catalog = subject.catalog
    if catalog is None:
        return
    rows, _, _ = catalog.entries()
    # Hidden ones count like all others: the journal's files and the private directories in the root folder.
    counted = counted_entries(catalog.parent_id[rows], catalog.folders["folder_id"].astype(np.int64))
    declared = catalog.folders["valence"].astype(np.int64)
    for place in subject.cases("valence-differs", np.flatnonzero(counted != declared), "catalog folders"):
        catalog.field(int(catalog.folders["row"][place]), "valence").add(
            "valence-differs",
            "error",
            "a folder counts other entries than it has",
            expected=int(counted[place]),
            found=int(declared[place]),
        )


def check_subfolders(subject: Subject) -> None:
    """Folders of HFSX volumes that say so count their subfolders, links to folders among them."""
    catalog = subject.catalog
    if catalog is None:
        return
    links = catalog.files["row"][links_by_kind(catalog)[1]]
    inside = catalog.parent_id[np.concatenate([catalog.folders["row"], links])]
    counted = counted_entries(inside, catalog.folders["folder_id"].astype(np.int64))
    declared = catalog.folders["num_folders"].astype(np.int64)
    wrong = np.flatnonzero(catalog.folders["has_folder_count"] & (counted != declared))
    for place in subject.cases("folder-count-differs", wrong, "catalog folders"):
        catalog.field(int(catalog.folders["row"][place]), "num_folders").add(
            "folder-count-differs",
            "error",
            "a folder counts other subfolders than it has",
            expected=int(counted[place]),
            found=int(declared[place]),
        )


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
        for row in subject.cases("hot-file-differs", lost, "hot files"):
            message, found = "a hot file does not exist", int(hot.files["key.file_id"][row])
            hot.field(int(hot.files["at"][row]), "key.file_id").add(
                "hot-file-differs", "warning", message, expected="the CNID of a file", found=found
            )


def _check_pairs(subject: Subject, hot: HotFileRecords) -> None:
    """Compare both kinds of records, file by file."""
    files, threads = hot.files, hot.threads
    thread, file = find(threads["fork"], files["fork"]), find(files["fork"], threads["fork"])
    for row in subject.cases("hot-file-differs", np.flatnonzero(thread < 0), "hot files"):
        number = int(files["key.file_id"][row])
        hot.field(int(files["at"][row]), "key.file_id").add(
            "hot-file-differs", "warning", "a hot file has no thread record", found=number
        )
    for row in subject.cases("hot-file-differs", np.flatnonzero(file < 0), "hot files"):
        message, number = "a thread record leads to no hot file", int(threads["key.file_id"][row])
        hot.field(int(threads["at"][row]), "key.file_id").add("hot-file-differs", "warning", message, found=number)
    known = np.flatnonzero(file >= 0)
    expected = files["key.temperature"][file[known]]
    for case in subject.cases("hot-file-differs", np.flatnonzero(threads["data"][known] != expected), "hot files"):
        hot.field(int(threads["at"][known[case]]), "data").add(
            "hot-file-differs",
            "warning",
            "a thread record has another temperature than the file",
            expected=int(expected[case]),
            found=int(threads["data"][known[case]]),
        )


def _check_twice(subject: Subject, hot: HotFileRecords) -> None:
    """No file has two temperatures."""
    order = np.argsort(hot.files["fork"], kind="stable")
    again = order[1:][np.diff(hot.files["fork"][order]) == 0]
    for row in subject.cases("hot-file-differs", again, "hot files"):
        number = int(hot.files["key.file_id"][row])
        hot.field(int(hot.files["at"][row]), "key.file_id").add(
            "hot-file-differs", "warning", "a hot file has a second temperature", found=number
        )

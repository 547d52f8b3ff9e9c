"""Records of a volume against each other, beyond what a scan compares: hard links, streams, directories.

Apple File System Reference, File-System Objects, Sibling Map Keys and Data Streams.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.arrays.lookup import match
from layoutscope.findings import Contradiction
from layoutscope.ondisk import grammar

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.filesystems.apfs.check.subject import Subject
    from layoutscope.filesystems.apfs.store.fsrecords import Columns
    from layoutscope.filesystems.apfs.volume.parts import VolumeParts
    from layoutscope.findings import Level

MAX_DEPTH: Final = 64
"""Steps of doubling length: more than any chain of directories needs."""


def check_entries(subject: Subject) -> None:
    """Every directory entry leads to an inode."""
    for parts in subject.whole:
        inodes, drecs = parts.fs.records.get("inode"), parts.fs.records.get("dir_rec")
        if "file_id" in drecs:
            wrong = ~match(inodes["obj_id"], drecs["file_id"])[1]
            report, field, sides = subject.records(parts), "val.drec_val_fixed.file_id", (None, drecs["file_id"])
            message, what = "its inode does not exist", "entry of directory"
            report.cases(wrong, drecs, what, Contradiction("inode-missing", message, "error", *sides), field)


def check_sibling_links(subject: Subject) -> None:
    """Every hard link's record has its counterpart by its own number, and directory entries name links that exist."""
    for parts in subject.whole:
        records, report = parts.fs.records, subject.records(parts)
        links, maps, drecs = records.get("sibling_link"), records.get("sibling_map"), records.get("dir_rec")
        known = np.sort(links["sibling_id"]) if "sibling_id" in links else np.empty(0, np.uint64)
        code = "record-differs"
        if "sibling_id" in links:
            wrong = ~match(maps["obj_id"], links["sibling_id"])[1]
            field, message = "key.sibling_key.sibling_id", "no record leads from its number to its inode"
            # Pre-releases of macOS 10.13 wrote none of these records.
            level: Level = "warning" if len(maps["obj_id"]) else "info"
            report.cases(wrong, links, "hard link of inode", Contradiction(code, message, level), field)
        if "sibling_id" in drecs:
            wrong = (drecs["sibling_id"] != 0) & ~match(known, drecs["sibling_id"])[1]
            message, sides = "it names a hard link that does not exist", (None, drecs["sibling_id"])
            report.cases(
                wrong,
                drecs,
                "entry of directory",
                Contradiction(code, message, "warning", *sides),
                "val.drec_val_fixed.file_id",
            )


def check_stream_sizes(subject: Subject) -> None:
    """Streams are no longer than their extents, and as long as those say that they are allocated."""
    for parts in subject.whole:
        inodes, extents = parts.fs.records.get("inode"), parts.file_extents()
        if "has_dstream" not in inodes or parts.state.superblock.is_sealed:
            continue
        # Extents are filed under the number of their stream, which need not be that of the inode (reference,
        # private_id).
        numbers, ends = _ends(extents)
        spot, found = match(numbers, inodes["private_id"])
        allocated = np.where(found, ends[spot], 0) if len(ends) else np.zeros(len(found), np.uint64)
        has = inodes["has_dstream"]
        report, field = subject.records(parts), "val.inode_val_fixed.private_id"
        message, sides = "its extents hold other bytes than its stream allocates", (inodes["alloced_size"], allocated)
        wrong = has & (inodes["alloced_size"] != allocated)
        report.cases(wrong, inodes, "inode", Contradiction("count-differs", message, "warning", *sides), field)
        message, sides = "its stream is longer than what it allocates", (inodes["alloced_size"], inodes["data_size"])
        # A file whose contents a file provider took away keeps its size, and allocates nothing.
        wrong = has & (inodes["data_size"] > inodes["alloced_size"]) & ~inodes["is_dataless"]
        report.cases(wrong, inodes, "inode", Contradiction("count-differs", message, "warning", *sides), field)


def _ends(extents: Columns) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Where the last extent of each stream ends, in bytes."""
    if not len(extents["obj_id"]):
        return np.empty(0, np.uint64), np.empty(0, np.uint64)
    last = np.flatnonzero(extents["obj_id"] != np.append(extents["obj_id"][1:], np.uint64(0)))
    ends = extents["logical_addr"] + extents["len_extent"]
    return extents["obj_id"][last], ends[last]


def check_directories(subject: Subject) -> None:
    """Every directory leads up to the root: none is its own ancestor."""
    numbers = grammar.ApfsInode.InodeNumber
    for parts in subject.whole:
        inodes = parts.fs.records.get("inode")
        if "format" not in inodes:
            continue
        rows = np.flatnonzero(inodes["format"] == int(grammar.ApfsInode.ModeFormat.directory))
        own, parent = inodes["obj_id"][rows], inodes["parent_id"][rows]
        up, known = match(own, parent)
        top = len(own)
        step = np.append(np.where(known, up, top), top)
        for _ in range(MAX_DEPTH):
            if (step == top).all():
                break
            step = step[step]
        wrong = np.zeros(len(inodes["obj_id"]), bool)
        wrong[rows[step[:-1] != top]] = True
        field, message = "val.inode_val_fixed.parent_id", "it lies in a directory that lies in it"
        report = subject.records(parts)
        report.cases(wrong, inodes, "directory", Contradiction("record-differs", message), field)
        _check_root(subject, parts, int(numbers.root_dir))


def _check_root(subject: Subject, parts: VolumeParts, root: int) -> None:
    inodes = parts.fs.records.get("inode")
    if not match(inodes["obj_id"], np.array([root], np.uint64))[1][0]:
        log = subject.log.at(f"inode {root}", parts.state.paddr)
        log.add("record-differs", "error", "there is no root directory")


def check_lost_inodes(subject: Subject) -> None:
    """Records belong to an inode: none is left of a file that is gone."""
    for parts in subject.whole:
        records, report = parts.fs.records, subject.records(parts)
        inodes = records.get("inode")["obj_id"]
        for kind, key in (("xattr", "xattr_key"), ("dir_rec", "drec_key"), ("sibling_link", "sibling_key")):
            table = records.get(kind)
            # Directory 1 has the entries of the root and of the private directory, but no inode of its own.
            wrong = ~match(inodes, table["obj_id"])[1] & (
                table["obj_id"] != int(grammar.ApfsInode.InodeNumber.root_dir_parent)
            )
            message = "the inode that it belongs to does not exist"
            report.cases(wrong, table, f"{kind} of inode", Contradiction("record-differs", message), f"key.{key}.hdr")
        attributes = records.get("xattr")
        streams = records.get("dstream_id")["obj_id"]
        if "stream_id" in attributes:
            streams = np.sort(np.concatenate([streams, attributes["stream_id"]]))
        extents = parts.file_extents()
        wrong = ~match(streams, extents["obj_id"])[1]
        message, field = "the stream that it belongs to does not exist", "key.file_extent_key.hdr"
        # On a sealed volume they lie in a tree of their own.
        subject.extents(parts).cases(
            wrong, extents, "extent of data stream", Contradiction("record-differs", message), field
        )

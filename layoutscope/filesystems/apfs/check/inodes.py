"""Inodes against the records of others: names, holes, attributes, clones, statistics of directories, numbers.

Apple File System Reference, File-System Objects; what only apfsck says was seen to hold of volumes that macOS makes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope.arrays.lookup import index_of, match
from layoutscope.filesystems.apfs.check.extended_fields import FIELD
from layoutscope.filesystems.apfs.check.inode_fields import FLAG, text_sums
from layoutscope.filesystems.apfs.volume.witnesses import is_deleted
from layoutscope.findings import Contradiction
from layoutscope.ondisk import grammar

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.filesystems.apfs.check.subject import Report, Subject
    from layoutscope.filesystems.apfs.store.fsrecords import Columns
    from layoutscope.filesystems.apfs.volume.parts import VolumeParts
    from layoutscope.findings import Level

DIFFERS: Final = "record-differs"
_NUMBER: Final = grammar.ApfsInode.InodeNumber
_FORMAT: Final = grammar.ApfsInode.ModeFormat
_FEATURE: Final = grammar.ApfsVolume.VolumeFeature
_FLAGS: Final = "val.inode_val_fixed.internal_flags"
_OF_ATTRIBUTES: Final = (
    (int(FLAG.has_rsrc_fork), b"com.apple.ResourceFork", "a resource fork"),
    (int(FLAG.has_security_ea), b"com.apple.system.Security", "a list of access rights"),
)
"""Flags that say that an inode has an attribute."""


def check_inode_notes(subject: Subject) -> None:
    """Compare what was noted of inodes with entries, attributes, extents and streams."""
    for parts in subject.whole:
        noted = subject.inodes.get((parts.state.number, parts.view))
        notes = {} if noted is None else noted.joined()
        inodes = parts.fs.records.get("inode")
        if not notes or "format" not in inodes:
            continue
        spot, known = match(inodes["obj_id"], notes["obj_id"])
        rows, notes = spot[known], {name: values[known] for name, values in notes.items()}
        one = _Inodes(parts, inodes, rows, notes, subject.records(parts))
        one.check_names()
        one.check_attributes()
        one.check_purgeable()
        one.check_holes()
        one.check_clones()
        _check_numbers(parts, subject.records(parts))


class _Inodes:
    """Inodes of a state, and what was noted of them, row by row."""

    def __init__(
        self, parts: VolumeParts, inodes: Columns, rows: NDArray[np.int64], notes: dict[str, Any], report: Report
    ) -> None:
        self.parts, self.inodes, self.rows, self.notes, self.report = parts, inodes, rows, notes, report
        self.is_waiting = is_deleted(inodes)[rows]

    def cases(self, wrong: NDArray[np.bool_], message: str, field: str, level: Level = "warning") -> None:
        """Report noted inodes."""
        chosen = np.zeros(len(self.inodes["obj_id"]), bool)
        chosen[self.rows[wrong]] = True
        self.report.cases(chosen, self.inodes, "inode", Contradiction(DIFFERS, message, level), field)

    def check_names(self) -> None:
        """The name in an inode is that of an entry in the directory that it calls its parent."""
        drecs, sums = self.parts.fs.records.get("dir_rec"), self.notes["name"]
        if "name" not in drecs:
            return
        spot, found = self.parts.fs.records.find("dir_rec", "inode", "file_id")
        place = np.full(len(self.inodes["obj_id"]), -1, np.int64)
        place[self.rows] = np.arange(len(self.rows))
        entries = np.flatnonzero(found & (self.inodes["parent_id"][spot] == drecs["obj_id"]) & (place[spot] >= 0))
        names = drecs["name"]
        own = text_sums(names.data, names.start[entries], names.length[entries].astype(np.int64))
        here = place[spot[entries]]
        same, listed = np.zeros(len(sums), bool), np.zeros(len(sums), bool)
        same[here[own == sums[here]]] = True
        listed[here] = True
        wrong = listed & ~same & ~self.is_waiting
        self.cases(wrong & (sums != 0), "the name in it is not that of its entry", "val.inode_val_fixed.parent_id")
        self.cases(wrong & (sums == 0), "it does not have the name of its entry", "val.inode_val_fixed.parent_id")

    def _with(self, name: bytes) -> NDArray[np.bool_]:
        """Which inodes have an attribute."""
        xattrs = self.parts.fs.records.get("xattr")
        if "name" not in xattrs:
            return np.zeros(len(self.rows), bool)
        owners = xattrs["obj_id"][xattrs["name"].equal_to(name)]
        return index_of(owners).find(self.inodes["obj_id"][self.rows])[1]

    def check_attributes(self) -> None:
        """Flags, compression and kind of an inode fit the attributes that it has."""
        flags, kinds = self.notes["flags"], self.notes["kinds"]
        # Pre-releases of macOS 10.13, which made volumes without maps of hard links, did not set these flags.
        is_early = not int(self.parts.state.superblock.features) & int(_FEATURE.hardlink_map_records)
        for flag, name, what in _OF_ATTRIBUTES:
            wrong = (flags & flag != 0) != self._with(name)
            message = f"its flags and its attributes disagree about {what}"
            self.cases(wrong, message, _FLAGS, "info" if is_early else "warning")
        has_info = kinds >> np.uint32(FIELD.finder_info) & np.uint32(1) != 0
        wrong = (flags & int(FLAG.has_finder_info) != 0) != (has_info | self._with(b"com.apple.FinderInfo"))
        self.cases(wrong, "its flags and its attributes disagree about information of the Finder", _FLAGS)
        is_compressed = self.inodes["is_compressed"][self.rows].astype(bool)
        wrong = is_compressed != self._with(b"com.apple.decmpfs")
        message = "it is called compressed and has no header of compression, or the other way round"
        self.cases(wrong, message, "val.inode_val_fixed.bsd_flags")
        is_link = self.inodes["format"][self.rows] == int(_FORMAT.symlink)
        wrong = is_link != self._with(b"com.apple.fs.symlink")
        self.cases(wrong, "it is a symbolic link without a target, or has one and is none", "val.inode_val_fixed.mode")

    def check_purgeable(self) -> None:
        """What may be purged has a second entry in the directory for that."""
        drecs = self.parts.fs.records.get("dir_rec")
        if "file_id" not in drecs:
            return
        listed = drecs["file_id"][drecs["obj_id"] == np.uint64(_NUMBER.purgeable_dir)]
        has_entry = index_of(listed).find(self.inodes["obj_id"][self.rows])[1]
        wrong = (self.notes["flags"] & int(FLAG.is_purgeable) != 0) != has_entry
        self.cases(wrong, "its flags and the directory of what may be purged disagree", _FLAGS)

    def check_holes(self) -> None:
        """An inode counts the bytes of its stream that lie in holes."""
        extents = self.parts.file_extents()
        if "paddr" not in extents:
            return
        empty = np.flatnonzero(extents["paddr"] == 0)
        streams = index_of(self.inodes["private_id"][self.rows])
        found = np.zeros(len(self.rows), np.uint64)
        spot, known = streams.find(extents["obj_id"][empty])
        np.add.at(found, spot[known], extents["len_extent"][empty][known].astype(np.uint64))
        # Of clones, which share a stream, the first one is found.
        found = found[streams.find(self.inodes["private_id"][self.rows])[0]]
        wrong = (found != self.notes["sparse"]) & ~self.is_waiting
        self.cases(wrong, "it counts other sparse bytes than its holes have", "val.inode_val_fixed.private_id")

    def check_clones(self) -> None:
        """An inode whose stream has other users says that it was cloned."""
        streams = self.parts.fs.records.get("dstream_id")
        if "refcnt" not in streams:
            return
        spot, known = self.parts.fs.records.find("inode", "dstream_id", "private_id")
        shared = known & (streams["refcnt"][spot] > 1) if len(streams["refcnt"]) else known
        cloned = self.notes["flags"] & int(FLAG.was_cloned | FLAG.was_ever_cloned) != 0
        self.cases(shared[self.rows] & ~cloned, "its stream has other users, but it was never cloned", _FLAGS)


def _check_numbers(parts: VolumeParts, report: Report) -> None:
    """Inodes and hard links are numbered in one sequence, whose first numbers are reserved."""
    records, stop = parts.fs.records, np.uint64(parts.state.superblock.next_obj_id)
    inodes, links = records.get("inode"), records.get("sibling_link")
    first = np.uint64(_NUMBER.min_user)
    known = np.array([int(_NUMBER.root_dir), int(_NUMBER.private_dir), int(_NUMBER.snap_dir)], np.uint64)
    wrong = (inodes["obj_id"] < first) & ~np.isin(inodes["obj_id"], known)
    what = Contradiction(DIFFERS, "its number is reserved", "warning")
    report.cases(wrong, inodes, "inode", what, "key.j_key.obj_id_and_type")
    if "sibling_id" in links:
        number = links["sibling_id"]
        wrong = (number < first) | (number >= stop) | records.index("inode").find(number)[1]
        what = Contradiction(DIFFERS, "its number is reserved, free, or that of an inode", "warning", None, number)
        report.cases(wrong, links, "hard link of inode", what, "key.sibling_key.sibling_id")

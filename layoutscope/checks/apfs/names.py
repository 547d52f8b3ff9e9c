"""Hashes of names in directory records.

Apple File System Reference, File-System Objects, j_drec_hashed_key_t: CRC-32C of the name, decomposed and, where case
does not count, folded, as 32-bit characters; 22 bits of it are in the key. Plain names are hashed in whole arrays.
"""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.filesystems.apfs import compared_form
from layoutscope.filesystems.apfs.fsrecords import Names
from layoutscope.structs import grammar, records
from layoutscope.structs.checksum import crc32c_of_words
from layoutscope.structs.native import Kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.checks.apfs.subject import CheckedRows, Report, Subject
    from layoutscope.filesystems.apfs.contents import VolumeParts
    from layoutscope.filesystems.apfs.fsrecords import Columns
    from layoutscope.findings import FindingLog, Level
    from layoutscope.structs.grammar import ApfsVolume
    from layoutscope.structs.recordtypes import RecordType


MASK: Final = (1 << 22) - 1
"""The bits of a hash that a key stores."""
MAX_SLOW_HASHES: Final = 1000
HASH_PLAIN_NAMES: Final = Kernel("hash_plain_names", "blnnIB")
_HASH_FIELD: Final = "key.drec_hashed_key.len_name_and_hash"
MAX_WRONG_SHARE: Final = 0.5
"""Above this share of wrong hashes, the rule for case is wrong and not the names."""


def hash_names(names: Names, *, folded: bool) -> tuple[NDArray[np.uint32], NDArray[np.bool_]]:
    """Hash names, and mark those that have a hash."""
    hashes, known = _hash_plain(names, folded=folded)
    _hash_others(names, hashes, known, folded=folded)
    return hashes, known


def _hash_plain(names: Names, *, folded: bool) -> tuple[NDArray[np.uint32], NDArray[np.bool_]]:
    """Hash the ASCII names, and mark them; empty names have no hash."""
    hashes, known = np.empty(len(names), np.uint32), np.empty(len(names), bool)
    lengths, data = names.length.astype(np.int64), np.ascontiguousarray(names.data)
    HASH_PLAIN_NAMES(data, lengths, folded, MASK, hashes.view(np.int32), known.view(np.uint8))
    return hashes, known


def _hash_others(names: Names, hashes: NDArray[np.uint32], known: NDArray[np.bool_], *, folded: bool) -> None:
    """Hash the names without a hash, one by one."""
    others = np.flatnonzero(~known & (names.length > 0))
    raw = names.raw() if len(others) else []
    for row in others.tolist():
        characters = _normalize_name(raw[row], folded=folded)
        if characters is not None:
            hashes[row] = crc32c_of_words(characters[None, :])[0] & MASK
            known[row] = True


def _normalize_name(raw: bytes, *, folded: bool) -> NDArray[np.uint32] | None:
    try:
        text = compared_form(raw.decode(), folded=folded)
    except UnicodeDecodeError:
        return None
    # Later versions of Unicode define characters that were unassigned when the volume hashed them.
    if any(unicodedata.category(character) == "Cn" for character in text):
        return None
    return np.array([ord(character) for character in text], np.uint32)


def compare_names(subject: Subject, parts: VolumeParts, *, plain_alone: bool = False) -> None:
    """Compare the hashes of directory entries with their names."""
    report = subject.records(parts)
    drecs = parts.fs.records.get("dir_rec")
    if not len(drecs["obj_id"]):
        return
    names, is_folded = drecs["name"], bool(parts.state.superblock.is_case_insensitive)
    hashes, known = _hash_plain(names, folded=is_folded)
    is_plain = known | (names.length == 0)
    _report_bytes(drecs, is_plain, report)
    if "name_hash" not in drecs:
        # The first APFS volumes store names without hashes.
        return
    if not plain_alone or (~is_plain).sum() <= MAX_SLOW_HASHES:
        _hash_others(names, hashes, known, folded=is_folded)
    wrong = known & (hashes != drecs["name_hash"])
    if not wrong.any():
        return
    if wrong.sum() > MAX_WRONG_SHARE * _count_case_dependent(drecs, known):
        _report_rule(report.log, parts)
        return
    # Case folding of newer characters depends on the Unicode version; for old ones the name or the hash is damaged.
    is_settled = is_plain.copy()
    others = wrong & ~is_plain
    is_settled[others] = [_is_settled(name) for name in names.take(others).raw()]
    add = report.for_table(drecs, "entry of directory", "name-hash-differs")
    sides: tuple[tuple[NDArray[np.bool_], Level], ...] = (is_settled, "error"), (~is_settled, "warning")
    for chosen, level in sides:
        message, stored = "its hash is not that of its name", drecs["name_hash"]
        add(wrong & chosen, message, _HASH_FIELD, level=level, expected=hashes, found=stored)


def _is_settled(raw: bytes) -> bool:
    """Return whether all characters of a name are in Unicode 3.2, whose folding has not changed since."""
    old = unicodedata.ucd_3_2_0
    return all(old.category(character) != "Cn" for character in raw.decode(errors="replace"))


def _report_bytes(drecs: Columns, is_plain: NDArray[np.bool_], report: Report) -> None:
    """Report names that are not text: drivers refuse to store them."""
    names: Names = drecs["name"]
    if is_plain.all() or names.is_text():
        return
    wrong = np.zeros(len(names), bool)
    for row, raw in enumerate(names.raw()):
        wrong[row] = not is_plain[row] and not is_utf8(raw)
    add = report.for_table(drecs, "entry of directory", "record-invalid")
    add(wrong, "its name is not UTF-8", _HASH_FIELD, level="error")


def is_utf8(raw: bytes) -> bool:
    """Return whether a name is UTF-8."""
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


def _count_case_dependent(drecs: Columns, known: NDArray[np.bool_]) -> int:
    """Count the names whose hash depends on the rule for case, at least one."""
    folded, _ = hash_names(drecs["name"], folded=True)
    exact, _ = hash_names(drecs["name"], folded=False)
    return max(int((known & (folded != exact)).sum()), 1)


def _report_rule(log: FindingLog, parts: VolumeParts) -> None:
    superblock = parts.state.superblock
    plus = records.APFS_SUPERBLOCK.incompatible_features.offset
    rule = "case does not count" if superblock.is_case_insensitive else "case counts"
    message = f"says that {rule} in names, but their hashes say otherwise"
    log.at("volume superblock", parts.state.paddr, plus=plus).add("superblock-differs", "error", message)


VALUE_NAMES: Final = {"sibling_link": records.SIBLING_VAL_FIXED, "snap_metadata": records.SNAP_METADATA_VAL}
"""Records whose values end with a name."""
KEY_NAMES: Final = ("dir_rec", "xattr", "snap_name")
"""Records whose keys end with a name."""
_FLAG: Final = grammar.ApfsXattr.XattrFlag
_MAX_EMBEDDED_BYTES: Final = 3804
_MAX_NAME_BYTES: Final = 256
_FINDER_BYTES: Final = 32
_IS_SYSTEM_OWNED: Final = {
    b"com.apple.fs.symlink": True,
    b"com.apple.ResourceFork": False,
    b"com.apple.system.Security": False,
    b"com.apple.FinderInfo": False,
    b"com.apple.decmpfs": False,
}
"""Whether attributes with these names belong to the file system."""


def check_names(rows: CheckedRows, name: str, kind: RecordType, volume: ApfsVolume.ApfsSuperblock | None) -> None:
    """Check the names in keys of one kind."""
    start, stop = rows.starts("key") + kind.width, rows.starts("key") + rows.lengths("key")
    _check_ends(rows, "key", name, start, stop)
    if name == "xattr":
        rows.report(stop - start > _MAX_NAME_BYTES, "key", "xattr: its name is longer than any may be")
    elif name == "dir_rec" and volume is not None and volume.has_hashed_names and rows.batch.level:
        # Keys of leaves are compared with all names of the volume.
        _check_hashes(rows, start, stop, folded=bool(volume.is_case_insensitive))


def check_texts(rows: CheckedRows, name: str) -> None:
    """Check the names in values of one kind."""
    if name in VALUE_NAMES:
        start = rows.starts("val") + VALUE_NAMES[name].width
        _check_ends(rows, "val", name, start, rows.starts("val") + rows.lengths("val"))
    elif name == "xattr":
        _check_attributes(rows)


def _check_ends(rows: CheckedRows, part: str, name: str, start: NDArray[np.int64], stop: NDArray[np.int64]) -> None:
    """Check that each name ends with its first zero byte."""
    zeros = np.flatnonzero(rows.batch.buffer == 0)
    spot = np.minimum(np.searchsorted(zeros, start), max(len(zeros) - 1, 0))
    wrong = (stop <= start) | (zeros[spot] != stop - 1 if len(zeros) else np.ones(len(start), bool))
    rows.report(wrong, part, f"{name}: its name does not end with its first zero byte")


def _check_hashes(rows: CheckedRows, start: NDArray[np.int64], stop: NDArray[np.int64], *, folded: bool) -> None:
    buffer, length = rows.batch.buffer, np.maximum(stop - start - 1, 0)
    data = [buffer[first : first + size] for first, size in zip(start.tolist(), length.tolist(), strict=True)]
    names = Names(np.concatenate(data), length)
    found, known = hash_names(names, folded=folded)
    stored = rows.column("key", records.DREC_HASHED_KEY, records.DREC_HASHED_KEY.name_hash)
    message = "dir_rec: the hash in an index is not that of its name"
    rows.report(known & (found != stored), "key", message, (found, stored))
    if not names.is_text():
        wrong = np.array([not is_utf8(raw) for raw in names.raw()])
        rows.report(wrong, "key", "dir_rec: a name in an index is not UTF-8")


def _check_attributes(rows: CheckedRows) -> None:
    fixed = records.XATTR_VAL.fixed
    flags, size = (rows.column("val", records.XATTR_VAL, field) for field in (fixed.flags, fixed.len_xdata))
    is_stream = flags & np.uint16(_FLAG.data_stream) != 0
    wrong = is_stream & (size != records.XATTR_DSTREAM.width) | ~is_stream & (size > _MAX_EMBEDDED_BYTES)
    rows.report(wrong, "val", "xattr: more data than it may embed, or no stream", field=fixed.len_xdata)
    head = records.XATTR_KEY.width
    start, length = rows.starts("key") + head, rows.lengths("key") - head - 1
    for name, is_system in _IS_SYSTEM_OWNED.items():
        here = np.flatnonzero(length == len(name))
        here = here[(rows.batch.buffer[start[here][:, None] + np.arange(len(name))] == list(name)).all(axis=1)]
        is_owned = flags & np.uint16(_FLAG.file_system_owned) != 0
        wrong = rows.mark(here) & (is_owned != is_system)
        rows.report(wrong, "val", "xattr: it belongs to the file system or not, against its name", field=fixed.flags)
        if name == b"com.apple.FinderInfo":
            wrong = rows.mark(here) & ~is_stream & (size != _FINDER_BYTES)
            rows.report(wrong, "val", "xattr: information of the Finder has 32 bytes", field=fixed.len_xdata)

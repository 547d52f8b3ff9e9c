"""Hashes of names in directory records.

Apple File System Reference, File-System Objects, j_drec_hashed_key_t. The hash is the CRC-32C of the name as 32-bit
characters, decomposed and, on case-insensitive volumes, folded. A key contains 22 bits of it. Plain names are hashed in
whole arrays.
"""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.filesystems.apfs import compared_form
from layoutscope.filesystems.apfs.fsrecords import is_text, is_utf8
from layoutscope.structs.arrays import ordinals
from layoutscope.structs.checksum import crc32c_of_words
from layoutscope.structs.native import Kernel
from layoutscope.structs.records import APFS_SUPERBLOCK

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.checks.apfs.subject import Subject
    from layoutscope.filesystems.apfs.contents import VolumeParts
    from layoutscope.findings import Level
    from layoutscope.structs.arrays import I64, U8, Mask
    from layoutscope.tables import TextColumn


MASK: Final = (1 << 22) - 1
"""The bits of a hash that a key stores."""
MAX_SLOW_HASHES: Final = 1000
HASH_PLAIN_NAMES: Final = Kernel("hash_plain_names", "blnnIB")
_HASH_FIELD: Final = "key.drec_hashed_key.len_name_and_hash"
_MULTIPLIER: Final = np.uint64(0x9E37_79B9_7F4A_7C15)
_ROUNDS: Final = 1 << 16
"""Number of names hashed at once."""


def hash_texts(data: U8, start: I64, length: I64) -> NDArray[np.uint64]:
    """Return a number for each text that is equal for equal bytes, and 0 for empty texts.

    >>> one, two, other = hash_texts(np.frombuffer(b"abcabcabd", np.uint8), np.array([0, 3, 6]), np.array([3, 3, 3]))
    >>> bool(one == two), bool(one == other)
    (True, False)
    """
    sums = np.zeros(len(start), np.uint64)
    powers = np.multiply.accumulate(np.full(int(length.max(initial=0)) + 1, _MULTIPLIER, np.uint64))
    for first in range(0, len(start), _ROUNDS):
        rows = slice(first, first + _ROUNDS)
        counts, step = length[rows], ordinals(length[rows])
        values = data[np.repeat(start[rows], counts) + step].astype(np.uint64) + np.uint64(1)
        values *= powers[step]
        some = np.flatnonzero(counts > 0)
        begins = np.cumsum(counts)[some] - counts[some]
        if len(some):
            sums[first + some] = np.add.reduceat(values, begins)
    return sums


def hash_names(names: TextColumn, *, folded: bool) -> tuple[NDArray[np.uint32], Mask]:
    """Hash names, and mark those that could be hashed."""
    hashes, known = _hash_plain(names, folded=folded)
    _hash_others(names, hashes, known, folded=folded)
    return hashes, known


def _hash_plain(names: TextColumn, *, folded: bool) -> tuple[NDArray[np.uint32], Mask]:
    """Hash the ASCII names, and mark them; empty names have no hash."""
    hashes, known = np.empty(len(names), np.uint32), np.empty(len(names), bool)
    lengths, data = names.length.astype(np.int64), np.ascontiguousarray(names.data)
    HASH_PLAIN_NAMES(data, lengths, folded, MASK, hashes.view(np.int32), known.view(np.uint8))
    return hashes, known


def _hash_others(names: TextColumn, hashes: NDArray[np.uint32], known: Mask, *, folded: bool) -> None:
    """Hash the names without a hash, one by one."""
    others = np.flatnonzero(~known & (names.length > 0))
    for row, raw in zip(others.tolist(), names.take(others).raw(), strict=True):
        characters = _normalize_name(raw, folded=folded)
        if characters is not None:
            hashes[row] = crc32c_of_words(characters[None, :])[0] & MASK
            known[row] = True


def _normalize_name(raw: bytes, *, folded: bool) -> NDArray[np.uint32] | None:
    try:
        text = compared_form(raw.decode(), folded=folded)
    except UnicodeDecodeError:
        return None
    # Characters that newer Unicode versions define may have been unassigned when the volume hashed them.
    if any(unicodedata.category(character) == "Cn" for character in text):
        return None
    return np.array([ord(character) for character in text], np.uint32)


def compare_names(subject: Subject, parts: VolumeParts, *, plain_alone: bool = False) -> None:
    """Compare the hashes of directory entries with their names."""
    report = subject.reporter(parts.fs.nodes)
    drecs = parts.fs.get("dir_rec")
    names, is_folded = drecs["name"], bool(parts.state.superblock.is_case_insensitive)
    hashes, known = _hash_plain(names, folded=is_folded)
    is_plain = known | (names.length == 0)
    if not is_plain.all() and not is_text(names):
        # Drivers refuse to store names that are not text.
        is_broken = np.zeros(len(names), bool)
        for row, raw in enumerate(names.raw()):
            is_broken[row] = not is_plain[row] and not is_utf8(raw)
        add = report(drecs, "entry of directory", "record-invalid")
        add(is_broken, "its name is not UTF-8", _HASH_FIELD, level="error")
    if "name_hash" not in drecs:
        # The first APFS volumes store names without hashes.
        return
    if not plain_alone or (~is_plain).sum() <= MAX_SLOW_HASHES:
        _hash_others(names, hashes, known, folded=is_folded)
    wrong = known & (hashes != drecs["name_hash"])
    if not wrong.any():
        return
    # If more than half of the names whose hash depends on the rule for case (one at least) have a wrong hash, then the
    # rule is wrong, not the names.
    (either, _), (exact, _) = (hash_names(names, folded=folded) for folded in (True, False))
    if wrong.sum() > 0.5 * max(int((known & (either != exact)).sum()), 1):
        rule = "case does not count" if is_folded else "case counts"
        message = f"says that {rule} in names, but their hashes say otherwise"
        log = subject.log.at("volume superblock", parts.state.paddr, plus=APFS_SUPERBLOCK.incompatible_features.offset)
        log.add("superblock-differs", "error", message)
        return
    # Case folding of newer characters depends on the Unicode version. For old characters, the name or the hash is
    # damaged.
    is_settled = is_plain.copy()
    others = wrong & ~is_plain
    # All of their characters are in Unicode 3.2, whose folding has not changed since.
    category, texts = unicodedata.ucd_3_2_0.category, [raw.decode(errors="replace") for raw in names.take(others).raw()]
    is_settled[others] = [all(category(character) != "Cn" for character in text) for text in texts]
    add = report(drecs, "entry of directory", "name-hash-differs")
    sides: tuple[tuple[Mask, Level], ...] = (is_settled, "error"), (~is_settled, "warning")
    for chosen, level in sides:
        message, stored = "its hash is not that of its name", drecs["name_hash"]
        add(wrong & chosen, message, _HASH_FIELD, level=level, expected=hashes, found=stored)

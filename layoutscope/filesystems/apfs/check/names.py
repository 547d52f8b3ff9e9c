"""Hashes of names in directory records.

Apple File System Reference, File-System Objects, j_drec_hashed_key_t: CRC-32C of the name, decomposed and, where case
does not count, folded, as 32-bit characters; 22 bits of it stand in the key. Plain names are hashed in whole arrays.
"""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.findings import Contradiction
from layoutscope.ondisk.records import APFS_SUPERBLOCK

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from layoutscope.filesystems.apfs.check.subject import Subject
    from layoutscope.filesystems.apfs.store.fsrecords import Columns
    from layoutscope.filesystems.apfs.store.names import Names
    from layoutscope.filesystems.apfs.volume.parts import VolumeParts

CASTAGNOLI: Final = 0x82F63B78
"""CRC-32C (RFC 3720), its bits reversed."""
START: Final = 0xFFFFFFFF
HASH_BITS: Final = 22
MOST_OF_THEM: Final = 0.5
"""If more names than this share have another hash, the rule is wrong and not the names."""


def _crc_table() -> NDArray[np.uint32]:
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = (table >> np.uint32(1)) ^ np.where(table & 1, np.uint32(CASTAGNOLI), np.uint32(0))
    return table


TABLE: Final = _crc_table()


def crc32c_of_characters(characters: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """CRC-32C without its last inversion, of rows of 32-bit characters, low byte first.

    Parameters
    ----------
    characters : (n, length) uint32 array
        One text a row, all of one length.

    Returns
    -------
    (n,) uint32 array

    Examples
    --------
    RFC 3720, B.4, gives ``8a9136aa`` for 32 bytes of zeros.

    >>> hex(~crc32c_of_characters(np.zeros((1, 8), np.uint32))[0])
    '0x8a9136aa'
    """
    register = np.full(len(characters), START, np.uint32)
    for column in characters.T:
        for shift in (0, 8, 16, 24):
            byte = (column >> np.uint32(shift)) & np.uint32(0xFF)
            register = (register >> np.uint32(8)) ^ TABLE[(register ^ byte) & np.uint32(0xFF)]
    return register


def hash_names(names: Names, *, folded: bool) -> tuple[NDArray[np.uint32], NDArray[np.bool_]]:
    """Hash many names.

    Parameters
    ----------
    names : Names
        As stored.
    folded : bool
        Whether case does not count.

    Returns
    -------
    (n,) uint32 array
        Their hashes.
    (n,) bool array
        Which could be hashed: not those that are no UTF-8, or hold characters that Unicode knew later than the volume.
    """
    hashes, known = np.zeros(len(names), np.uint32), np.zeros(len(names), bool)
    for rows, characters in _by_length(names, folded=folded):
        hashes[rows] = crc32c_of_characters(characters) & np.uint32((1 << HASH_BITS) - 1)
        known[rows] = True
    return hashes, known


def _by_length(names: Names, *, folded: bool) -> Iterator[tuple[NDArray[np.int64], NDArray[np.uint32]]]:
    """Group names by their length in characters, as rows of normalized characters."""
    length, start = names.length, names.start
    high = np.concatenate([np.zeros(1, np.int64), np.cumsum(names.data >= 128)])
    is_plain = (length > 0) & (high[start + length] == high[start])
    lower = np.arange(128, dtype=np.uint32)
    if folded:
        lower[ord("A") : ord("Z") + 1] += 32
    for size in np.unique(length[is_plain]).tolist():
        rows = np.flatnonzero(is_plain & (length == size))
        yield rows, lower[names.data[start[rows][:, None] + np.arange(size)]]
    others = np.flatnonzero(~is_plain & (length > 0))
    raw = names.raw() if len(others) else []
    for row in others.tolist():
        characters = _normalized(raw[row], folded=folded)
        if characters is not None:
            yield np.array([row]), characters[None, :]


def _normalized(raw: bytes, *, folded: bool) -> NDArray[np.uint32] | None:
    try:
        text = unicodedata.normalize("NFD", raw.decode())
    except UnicodeDecodeError:
        return None
    if folded:
        text = unicodedata.normalize("NFD", text.casefold())
    # Unicode gives new characters their cases and decompositions later; the volume hashed what was known then.
    if any(unicodedata.category(character) == "Cn" for character in text):
        return None
    return np.array([ord(character) for character in text], np.uint32)


def check_name_hashes(subject: Subject) -> None:
    """Every directory record's hash is that of its name."""
    for parts in subject.volumes:
        drecs = parts.fs.records.get("dir_rec")
        if "name_hash" not in drecs or not len(drecs["obj_id"]):
            continue
        superblock = parts.state.superblock
        hashes, known = hash_names(drecs["name"], folded=bool(superblock.is_case_insensitive))
        wrong = known & (hashes != drecs["name_hash"])
        if wrong.sum() > MOST_OF_THEM * _telling(drecs, known):
            _report_rule(subject, parts)
            continue
        message, field = "its hash is not that of its name", "key.drec_hashed_key.len_name_and_hash"
        sides = (hashes, drecs["name_hash"])
        report = subject.records(parts)
        report.cases(
            wrong, drecs, "entry of directory", Contradiction("name-hash-differs", message, "warning", *sides), field
        )


def _telling(drecs: Columns, known: NDArray[np.bool_]) -> int:
    """How many names have another hash under the other rule of case, at least one."""
    one, _ = hash_names(drecs["name"], folded=True)
    other, _ = hash_names(drecs["name"], folded=False)
    return max(int((known & (one != other)).sum()), 1)


def _report_rule(subject: Subject, parts: VolumeParts) -> None:
    superblock = parts.state.superblock
    plus = APFS_SUPERBLOCK.incompatible_features.offset
    log = subject.log.at("volume superblock", parts.state.paddr, plus=plus)
    says = "case does not count" if superblock.is_case_insensitive else "case counts"
    message = f"says that {says} in names, but their hashes say otherwise"
    log.add("superblock-differs", "error", message)

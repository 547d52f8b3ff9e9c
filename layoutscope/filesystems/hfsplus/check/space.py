"""Checks of space: every block in use is claimed once, and the allocation file knows it.

TN1150, "Allocation File".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from layoutscope.arrays import intervals
from layoutscope.filesystems.hfsplus.check.forks import FORKS, fork_arrays
from layoutscope.filesystems.hfsplus.check.headers import SPECIAL_FILES
from layoutscope.filesystems.hfsplus.records.attributes import EXTENT_FIELDS
from layoutscope.filesystems.hfsplus.volume.fork import locate
from layoutscope.filesystems.hfsplus.volume.volume import END_BYTES, HEADER_BYTES, HEADER_OFFSET
from layoutscope.frozen import frozen
from layoutscope.ondisk import grammar

if TYPE_CHECKING:
    from collections.abc import Callable

    from layoutscope.arrays.columns import I64
    from layoutscope.filesystems.hfsplus.check.subject import Subject
    from layoutscope.findings import FindingLog

    Tell = Callable[[int, int], FindingLog]

CNID = grammar.HfsplusVolume.Cnid


@frozen
class Claims:
    """Runs of blocks that somebody says are his."""

    # start, stop: in allocation blocks, within the volume
    start: I64
    stop: I64
    # part, row, slot: which list of claims, which record of it, and which extent of the record
    part: I64
    row: I64
    slot: I64
    owners: tuple[Callable[[int], str], ...]  # for each list: name of the owner of a row
    # for each list: binds the log to an extent of a row; None where the volume itself is the claimant
    tellers: tuple[Tell | None, ...]

    def owner(self, claim: int) -> str:
        """Name of who claims."""
        return self.owners[int(self.part[claim])](int(self.row[claim]))


_Part = tuple["I64", "I64", "Callable[[int], str]", "Tell | None"]


def gather_claims(subject: Subject) -> Claims:
    """List every claim of the volume: fixed structures, special files, journal, files, attributes; once."""
    if "claims" not in subject.known:
        subject.known["claims"] = _gathered(subject)
    found: Claims = subject.known["claims"]
    return found


def _gathered(subject: Subject) -> Claims:
    parts = [*_fixed(subject), *_special(subject), *_files(subject), *_others(subject)]
    total = int(subject.volume.header.num_blocks)
    columns: list[list[I64]] = [[], [], [], [], []]
    for number, (starts, counts, _, _) in enumerate(parts):
        row, slot = np.nonzero((counts > 0) & (starts < total))
        start = starts[row, slot]
        found = (start, np.minimum(start + counts[row, slot], total), np.full(len(row), number, np.int64), row, slot)
        for column, values in zip(columns, found, strict=True):
            column.append(values)
    joined = [np.concatenate(column) for column in columns]
    joined = _without_files_of_journal(joined, len(_fixed(subject)))
    order = np.lexsort((joined[1], joined[0]))
    start, stop, part, row, slot = (column[order] for column in joined)
    return Claims(start, stop, part, row, slot, tuple(part[2] for part in parts), tuple(part[3] for part in parts))


def _without_files_of_journal(columns: list[I64], num_fixed: int) -> list[I64]:
    """Leave out claims of the journal that hidden files of the root folder make too."""
    start, stop, part = columns[:3]
    # The journal and its info block belong to the files .journal and .journal_info_block of the root folder (TN1150,
    # "Journal"), so that what drivers know by address has an owner in the catalog as well.
    kept = np.ones(len(start), np.bool_)
    for claim in np.flatnonzero((part >= 2) & (part < num_fixed)).tolist():
        kept[claim] = not ((part >= num_fixed) & (start == start[claim]) & (stop == stop[claim])).any()
    return [column[kept] for column in columns]


def _pair(start: int, stop: int) -> tuple[I64, I64]:
    return np.array([[start]], np.int64), np.array([[stop - start]], np.int64)


def _fixed(subject: Subject) -> list[_Part]:
    """Boot blocks with the volume header, its copy, and the journal."""
    volume, block, total = subject.volume, subject.volume.block_size_bytes, int(subject.volume.header.num_blocks)
    parts: list[_Part] = [(*_pair(0, -(-(HEADER_OFFSET + HEADER_BYTES) // block)), lambda _: "the volume header", None)]
    # The copy lies 1024 bytes before the end of the partition, which may be behind the last whole block: that one is in
    # use all the same, as newfs_hfs writes it and fsck_hfs wants it.
    last = max(0, total - max(1, END_BYTES // block))
    copy = volume.end_offset // block if volume.end_offset is not None else last
    name = "the alternate volume header" if copy < total else "the end of the volume, which is always in use"
    parts.append((*_pair(min(copy, last), total), lambda _: name, None))
    journal = subject.contents.journal
    if journal is not None:
        at = journal.info_offset // block
        parts.append((*_pair(at, at + 1), lambda _: "the journal info block", None))
        if journal.size_bytes:
            start = journal.journal_offset // block
            stop = -(-(journal.journal_offset + journal.size_bytes) // block)
            parts.append((*_pair(start, stop), lambda _: "the journal", None))
    return parts


def _special(subject: Subject) -> list[_Part]:
    """First eight extents of the special files; others are overflow records."""
    parts: list[_Part] = []
    for cnid, field in SPECIAL_FILES.items():
        fork = subject.contents.special[cnid]
        inline = fork.record_nodes < 0
        name = f"the {field.replace('_', ' ')}"
        parts.append(
            (fork.start_blocks[inline][:, None], fork.block_counts[inline][:, None], lambda _, name=name: name, None)  # type: ignore[misc]
        )
    return parts


def _files(subject: Subject) -> list[_Part]:
    catalog = subject.catalog
    if catalog is None:
        return []
    parts: list[_Part] = []
    for name in FORKS.values():

        def owner(row: int, name: str = name) -> str:
            return f"the {name.replace('_', ' ')} of file {catalog.files['file_id'][row]}"

        def tell(row: int, slot: int, name: str = name) -> FindingLog:
            return catalog.field(int(catalog.files["row"][row]), f"{name}.extents.start_block#{slot}")

        parts.append((*fork_arrays(catalog, name), owner, tell))
    return parts


def _others(subject: Subject) -> list[_Part]:
    """Overflow extents of files and special files, bad blocks, and attributes."""
    overflow, attributes = subject.overflow, subject.attributes
    parts: list[_Part] = []
    if overflow is not None:

        def tell(row: int, slot: int) -> FindingLog:
            return overflow.field(row, f"data.extents.start_block#{slot}")

        parts.append((overflow.starts, overflow.counts, lambda row: f"file {overflow.file_id[row]}", tell))
    if attributes is not None:

        def tell_attribute(row: int, slot: int) -> FindingLog:
            _, (start_block, _) = EXTENT_FIELDS[int(attributes.kind[row])]
            return attributes.field(row, f"{start_block}#{slot}")

        parts.append(
            (
                attributes.starts,
                attributes.counts,
                lambda row: f"an attribute of file {attributes.file_id[row]}",
                tell_attribute,
            )
        )
    return parts


def check_double_claims(subject: Subject) -> None:
    """No block is claimed twice; both claimants are named, each at its extent."""
    claims = gather_claims(subject)
    if not len(claims.start):
        return
    reach = np.maximum.accumulate(claims.stop)
    later = np.flatnonzero(claims.start[1:] < reach[:-1]) + 1
    for claim in subject.cases("block-claimed-twice", later, "extents"):
        before = np.flatnonzero(claims.stop[:claim] > claims.start[claim])
        other = int(before[-1])
        start, stop = int(claims.start[claim]), int(min(claims.stop[claim], claims.stop[other]))
        for mine, his in ((claim, other), (other, claim)):
            message = f"blocks {start} to {stop - 1} belong to {claims.owner(mine)} and to {claims.owner(his)}"
            _at_claim(subject, claims, mine).add("block-claimed-twice", "error", message)


def _at_claim(subject: Subject, claims: Claims, claim: int) -> FindingLog:
    teller = claims.tellers[int(claims.part[claim])]
    if teller is not None:
        return teller(int(claims.row[claim]), int(claims.slot[claim]))
    at = int(claims.start[claim]) * subject.volume.block_size_bytes
    return subject.volume.log.at(claims.owner(claim), at)


def check_allocation(subject: Subject) -> None:
    """Claimed blocks are in use in the allocation file, and blocks in use are claimed."""
    if any(finding.code == "allocation-file-unreadable" for finding in subject.volume.log.findings):
        return
    claims = gather_claims(subject)
    total = int(subject.volume.header.num_blocks)
    # The next write goes to blocks that are called free, whoever has them; blocks in use that nobody has are only lost.
    claimed = intervals.runs_of(claims.start, claims.stop - claims.start)
    free = intervals.runs_of(subject.contents.free_starts, subject.contents.free_counts)
    used = intervals.subtract(_first_blocks(min(total, _known_blocks(subject))), free)
    unclaimed = intervals.intersect(used, intervals.subtract(_first_blocks(total), claimed))
    lost = set(unclaimed[:, 1].tolist())
    for start, stop in _cases(subject, "block-claimed-free", intervals.intersect(claimed, free)):
        claim = int(np.flatnonzero((claims.start <= start) & (claims.stop > start))[0])
        log, blocks = _bits(subject, start, stop)
        # Where as many blocks are in use that nobody has, it is the extent that was moved, and not the bits.
        if stop - start in lost and claims.tellers[int(claims.part[claim])] is not None:
            log = _at_claim(subject, claims, claim)
        verb = "belongs" if stop - start == 1 else "belong"
        others = "is" if stop - start == 1 else "are"
        log.add("block-claimed-free", "error", f"{blocks}, {verb} to {claims.owner(claim)} but {others} free")
    for start, stop in _cases(subject, "block-unclaimed", unclaimed):
        log, blocks = _bits(subject, start, stop)
        verb = "is in use but belongs" if stop - start == 1 else "are in use but belong"
        log.add("block-unclaimed", "warning", f"{blocks}, {verb} to nothing that was read")


def _known_blocks(subject: Subject) -> int:
    """Blocks for which the allocation file has bits."""
    fork = subject.contents.special[int(CNID.allocation_file)]
    return 8 * min(fork.logical_size_bytes, fork.num_blocks * subject.volume.block_size_bytes)


def _first_blocks(count: int) -> I64:
    return np.array([[0, count]], np.int64)


def _cases(subject: Subject, code: str, runs: I64) -> list[tuple[int, int]]:
    """First block and end of the first runs of a kind."""
    rows = list(subject.cases(code, np.arange(len(runs)), "allocation file"))
    return [(int(runs[row, 0]), int(runs[row].sum())) for row in rows]


def _bits(subject: Subject, start: int, stop: int) -> tuple[FindingLog, str]:
    """Bind the log to the bits of blocks in the allocation file; also the blocks and their address in words."""
    volume = subject.volume
    fork = subject.contents.special[int(CNID.allocation_file)]
    pieces = locate(volume, fork, np.array([start // 8], np.int64), np.ones(1, np.int64))
    at = int(pieces.volume_offset[0]) if len(pieces.part) else None
    byte = volume.image_offset + start * volume.block_size_bytes
    which = f"block {start}" if stop - start == 1 else f"blocks {start} to {stop - 1}"
    return volume.log.at("allocation file", at), f"{which}, from byte {byte:,} of the image"

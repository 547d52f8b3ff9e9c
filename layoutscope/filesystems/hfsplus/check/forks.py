"""Checks of forks: sizes, extents, and the records that carry them on.

TN1150, "Fork Data Structure", "Extents Overflow File".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.arrays.lookup import find
from layoutscope.arrays.ragged import is_head, starts_of
from layoutscope.filesystems.hfsplus.check.attributes import TYPES
from layoutscope.filesystems.hfsplus.check.headers import SPECIAL_FILES
from layoutscope.filesystems.hfsplus.contents.rules import are_outside, overflow_blocks
from layoutscope.filesystems.hfsplus.records.attributes import EXTENT_FIELDS, INLINE
from layoutscope.filesystems.hfsplus.records.catalog import DATA_FORK, RESOURCE_FORK
from layoutscope.filesystems.hfsplus.tree.tree import is_whole
from layoutscope.ondisk import grammar

if TYPE_CHECKING:
    from layoutscope.arrays.columns import I64
    from layoutscope.filesystems.hfsplus.check.catalog import CatalogRecords
    from layoutscope.filesystems.hfsplus.check.subject import Subject

CNID = grammar.HfsplusVolume.Cnid
FORKS: Final = {DATA_FORK: "data_fork", RESOURCE_FORK: "resource_fork"}
_RECORD_EXTENTS: Final = 8
_LARGEST: Final = np.iinfo(np.int64).max


def fork_arrays(catalog: CatalogRecords, fork: str) -> tuple[I64, I64]:
    """Start blocks and block counts of a fork of all files, (n, 8)."""
    files = catalog.files
    return (
        files[f"{fork}.extents.start_block"].astype(np.int64),
        files[f"{fork}.extents.num_blocks"].astype(np.int64),
    )


def check_fork_sizes(subject: Subject) -> None:
    """A fork counts the blocks of its extents, and is not longer than they are."""
    catalog = subject.catalog
    if catalog is None:
        return
    block = np.uint64(subject.volume.block_size_bytes)
    for fork_type, name in FORKS.items():
        total = catalog.files[f"{name}.num_blocks"].astype(np.int64)
        counted = fork_arrays(catalog, name)[1].sum(axis=1) + _overflow_blocks(subject, catalog, fork_type)
        size = catalog.files[f"{name}.len_logical"]
        needed = np.minimum(-(-size.astype(np.float64) // float(block)), _LARGEST).astype(np.int64)
        for place in subject.cases("fork-size-differs", np.flatnonzero(total != counted), "catalog files"):
            sums, row = (int(total[place]), int(counted[place])), int(catalog.files["row"][place])
            slot = _wrong_extent(fork_arrays(catalog, name)[1][place], *sums, int(needed[place]))
            if slot is None:
                message = "a fork counts other blocks than its extents hold"
                log, (found, expected) = catalog.field(row, f"{name}.num_blocks"), sums
            else:
                message = "an extent has other blocks than its fork counts, and needs for its size"
                found = int(fork_arrays(catalog, name)[1][place, slot])
                log, expected = catalog.field(row, f"{name}.extents.num_blocks#{slot}"), found + sums[0] - sums[1]
            log.add("fork-size-differs", "error", message, expected=expected, found=found)
        # Blocks beyond the size are no contradiction: files are extended by clumps, of which the last may be empty yet.
        longer = np.flatnonzero(size > total.astype(np.uint64) * block)
        for place in subject.cases("fork-size-differs", longer, "catalog files"):
            catalog.field(int(catalog.files["row"][place]), f"{name}.len_logical").add(
                "fork-size-differs",
                "error",
                "a fork is longer than its blocks",
                expected=f"at most {int(total[place]) * int(block)}",
                found=int(size[place]),
            )


def _wrong_extent(counts: I64, total: int, counted: int, needed: int) -> int | None:
    """Which extent is to blame where a fork counts other blocks than its extents hold; None where it is the count.

    The size in bytes is the third witness: what it agrees with is right. Of several extents none can be told.
    """
    used = np.flatnonzero(counts)
    is_sum_wrong = counted < needed <= total if total > counted else needed <= total
    if not is_sum_wrong or len(used) > 1 or (len(used) == 1 and counts[used[0]] != counted):
        return None
    return int(used[0]) if len(used) else 0


def _overflow_blocks(subject: Subject, catalog: CatalogRecords, fork_type: int) -> I64:
    """Blocks that the extents-overflow file adds to a fork of each file."""
    ids = catalog.files["file_id"].astype(np.int64)
    records = subject.overflow
    if records is None or not len(records.at):
        return np.zeros(len(ids), np.int64)
    mine = records.fork_type == fork_type
    return overflow_blocks(ids, records.file_id[mine], records.counts[mine])


def check_extents(subject: Subject) -> None:
    """Extents lie on the volume."""
    total = int(subject.volume.header.num_blocks)
    catalog, overflow, attributes = subject.catalog, subject.overflow, subject.attributes
    for cnid, field in SPECIAL_FILES.items():
        fork = subject.contents.special[cnid]
        # Extents with a record node come from the overflow tree, where they are checked below.
        wrong = np.flatnonzero(are_outside(fork.start_blocks, fork.block_counts, total) & (fork.record_nodes < 0))
        for slot in wrong.tolist():
            subject.volume.header_field(f"{field}.extents").add(
                "extent-outside", "error", f"extent {slot} leaves the volume"
            )
    for name in FORKS.values() if catalog is not None else ():
        _check_extents_of(subject, catalog, name, total)
    if overflow is not None:
        rows, slots = np.nonzero(are_outside(overflow.starts, overflow.counts, total))
        for case in subject.cases("extent-outside", np.arange(len(rows)), "extents-overflow records"):
            row, slot = int(rows[case]), int(slots[case])
            field = _wrong_field(int(overflow.starts[row, slot]), total)
            message = f"an extent of file {overflow.file_id[row]} leaves the volume"
            overflow.field(row, f"data.extents.{field}#{slot}").add("extent-outside", "error", message)
    if attributes is not None:
        rows, slots = np.nonzero(are_outside(attributes.starts, attributes.counts, total))
        for case in subject.cases("extent-outside", np.arange(len(rows)), "attribute records"):
            row, slot = int(rows[case]), int(slots[case])
            _, paths = EXTENT_FIELDS[int(attributes.kind[row])]
            path = paths[int(attributes.starts[row, slot]) < total]
            message = f"an extent of an attribute of file {attributes.file_id[row]} leaves the volume"
            attributes.field(row, f"{path}#{slot}").add("extent-outside", "error", message)


def _check_extents_of(subject: Subject, catalog: CatalogRecords | None, name: str, total: int) -> None:
    if catalog is None:
        return
    starts, counts = fork_arrays(catalog, name)
    rows, slots = np.nonzero(are_outside(starts, counts, total))
    for case in subject.cases("extent-outside", np.arange(len(rows)), "catalog files"):
        row, slot = int(rows[case]), int(slots[case])
        catalog.field(
            int(catalog.files["row"][row]), f"{name}.extents.{_wrong_field(int(starts[row, slot]), total)}#{slot}"
        ).add(
            "extent-outside",
            "error",
            f"an extent of file {catalog.files['file_id'][row]} leaves the volume",
            expected=f"an end at or before block {total}",
            found=int(starts[row, slot] + counts[row, slot]),
        )


def _wrong_field(start: int, total: int) -> str:
    return "start_block" if start >= total else "num_blocks"


def check_overflow_records(subject: Subject) -> None:
    """Overflow records name a fork that exists, hold no gaps, and belong to a file."""
    records = subject.overflow
    if records is None:
        return
    unknown = np.flatnonzero(~np.isin(records.fork_type, list(FORKS)))
    for row in subject.cases("extents-invalid", unknown, "extents-overflow records"):
        records.field(row, "key.fork_type").add(
            "extents-invalid",
            "error",
            "a record names neither fork",
            expected=" or ".join(map(str, FORKS)),
            found=int(records.fork_type[row]),
        )
    # Unused descriptors are zeros and stand behind all others (TN1150, "Fork Data Structure").
    used = records.counts > 0
    gap = ~used[:, :-1] & np.maximum.accumulate(used[:, ::-1], axis=1)[:, ::-1][:, 1:]
    rows, slots = np.nonzero(gap)
    for case in subject.cases("extents-invalid", np.arange(len(rows)), "extents-overflow records"):
        records.field(int(rows[case]), f"data.extents.num_blocks#{slots[case]}").add(
            "extents-invalid", "error", "an unused extent stands before a used one", expected="at least 1", found=0
        )
    if subject.catalog is None:
        return
    # Bad blocks have a CNID and overflow extents, but neither a catalog record nor a fork in the volume header (TN1150,
    # "Bad Block File").
    owners = np.concatenate(
        [subject.catalog.files["file_id"].astype(np.int64), [*SPECIAL_FILES, int(CNID.bad_block_file)]]
    )
    for row in subject.cases("extents-orphaned", np.flatnonzero(find(owners, records.file_id) < 0), "extents"):
        message = "overflow extents belong to no file"
        records.field(row, "key.file_id").add("extents-orphaned", "warning", message, found=int(records.file_id[row]))


def check_overflow_starts(subject: Subject) -> None:
    """Each record goes on where the extents before it ended."""
    records, catalog = subject.overflow, subject.catalog
    if records is None or catalog is None or not len(records.at):
        return
    # The block in a key counts from the start of the fork: it is the sum of the extents before, not a place on the
    # volume.
    order = np.lexsort((records.start_block, records.fork_type, records.file_id))
    file_id, fork_type = records.file_id[order], records.fork_type[order]
    blocks = records.counts[order].sum(axis=1)
    is_first = is_head(file_id, fork_type)
    ends = records.start_block[order] + blocks
    expected = np.where(is_first, _inline_blocks(subject, catalog, file_id, fork_type), np.append(-1, ends[:-1]))
    wrong = np.flatnonzero((expected >= 0) & (expected != records.start_block[order]))
    for case in subject.cases("extents-gap", wrong, "extents-overflow records"):
        records.field(int(order[case]), "key.start_block").add(
            "extents-gap",
            "error",
            "extents do not go on where those before them end",
            expected=int(expected[case]),
            found=int(records.start_block[order[case]]),
        )


def _inline_blocks(subject: Subject, catalog: CatalogRecords, file_id: I64, fork_type: I64) -> I64:
    """Blocks in the first eight extents of forks; -1 where the file is unknown."""
    place = find(catalog.files["file_id"].astype(np.int64), file_id)
    found = np.full(len(file_id), -1, np.int64)
    for number, name in FORKS.items():
        mine = (place >= 0) & (fork_type == number)
        found[mine] = fork_arrays(catalog, name)[1].sum(axis=1)[place[mine]]
    for cnid in SPECIAL_FILES:
        fork = subject.contents.special[cnid]
        found[(file_id == cnid) & (fork_type == DATA_FORK)] = int(fork.block_counts[fork.record_nodes < 0].sum())
    # All its extents stand in the overflow tree, from the first on.
    found[file_id == CNID.bad_block_file] = 0
    return found


def check_attribute_values(subject: Subject) -> None:
    """Values in the tree fit into their records; those in forks have the blocks that they count."""
    records = subject.attributes
    if records is None:
        return
    inline = records.kind == TYPES.inline_data
    room = records.stop - records.data - INLINE.width
    for row in subject.cases("attribute-invalid", np.flatnonzero(inline & (records.size > room)), "attributes"):
        records.field(row, "len_attribute").add(
            "attribute-invalid",
            "error",
            "a value is longer than its record",
            expected=f"at most {room[row]}",
            found=int(records.size[row]),
        )
    # Only the records that carry a fork's extents on begin behind its start (TN1150, "Attributes File").
    heads = inline | (records.kind == TYPES.fork_data)
    for row in subject.cases("attribute-invalid", np.flatnonzero(heads & (records.start_block != 0)), "attributes"):
        records.field(row, "key.start_block").add(
            "attribute-invalid",
            "error",
            "the first record of an attribute says that it carries one on",
            expected=0,
            found=int(records.start_block[row]),
        )
    most = records.blocks * subject.volume.block_size_bytes
    longer = (records.kind == TYPES.fork_data) & (records.size > most)
    for row in subject.cases("attribute-invalid", np.flatnonzero(longer), "attributes"):
        records.field(row, "the_fork.len_logical").add(
            "attribute-invalid",
            "error",
            "the fork of an attribute is longer than its blocks",
            expected=f"at most {most[row]}",
            found=int(records.size[row]),
        )
    _check_attribute_groups(subject)


def _check_attribute_groups(subject: Subject) -> None:
    """Groups of extents of one attribute follow one another; the first group counts the blocks of all."""
    records = subject.attributes
    if records is None or not len(records.kind):
        return
    # The tail of a key is the block that its extents go on with; of a value or a fork it is 0, which sorts a head
    # before its groups.
    keys = records.located.keys
    is_fork, is_extents = records.kind == TYPES.fork_data, records.kind == TYPES.extents
    head = np.maximum.accumulate(np.where(is_extents, -1, np.arange(len(is_fork))))
    rows = np.flatnonzero(is_extents & (head >= 0))
    same = (records.file_id[rows] == records.file_id[head[rows]]) & (keys.count[rows] == keys.count[head[rows]])
    rows = rows[same & is_fork[head[rows]]]
    blocks = records.counts.sum(axis=1)
    before = starts_of(blocks)
    expected = before[rows] - before[head[rows]]
    lost = np.setdiff1d(np.flatnonzero(is_extents), rows)
    for row in subject.cases("attribute-invalid", lost, "attributes"):
        records.field(row, "record_type").add("attribute-invalid", "error", "extents follow no attribute with a fork")
    for case in subject.cases("attribute-invalid", np.flatnonzero(expected != records.start_block[rows]), "attributes"):
        records.field(int(rows[case]), "key.start_block").add(
            "attribute-invalid",
            "error",
            "extents of an attribute do not go on where those before them end",
            expected=int(expected[case]),
            found=int(records.start_block[rows[case]]),
        )
    counted = np.bincount(
        np.append(head[rows], np.flatnonzero(is_fork)), np.append(blocks[rows], blocks[is_fork]), minlength=len(blocks)
    )
    wrong = np.flatnonzero(is_fork & (counted != records.blocks))
    for row in subject.cases("attribute-invalid", wrong, "attributes"):
        records.field(row, "the_fork.num_blocks").add(
            "attribute-invalid",
            "error",
            "the fork of an attribute counts other blocks than its extents hold",
            expected=int(counted[row]),
            found=int(records.blocks[row]),
        )


def check_attribute_owners(subject: Subject) -> None:
    """Attributes belong to files and folders that exist."""
    records, catalog = subject.attributes, subject.catalog
    if records is None or catalog is None:
        return
    _, ids, _ = catalog.entries()
    for row in subject.cases("attribute-orphaned", np.flatnonzero(find(ids, records.file_id) < 0), "attributes"):
        message = "an attribute belongs to no file or folder"
        records.field(row, "key.file_id").add("attribute-orphaned", "error", message, found=int(records.file_id[row]))


def check_attribute_flags(subject: Subject) -> None:
    """Files and folders say whether they have attributes, and whether one of them is an access list."""
    records, catalog = subject.attributes, subject.catalog
    if catalog is None or records is None:
        return
    with_any, with_list = np.unique(records.file_id), np.unique(records.file_id[records.is_access_list])
    # What lies in leaves that were not reached is not lacking.
    may_lack = is_whole(records.located.tree)
    for holders, field in ((catalog.files, "file_id"), (catalog.folders, "folder_id")):
        ids = holders[field].astype(np.int64)
        for name, noun, owners in (
            ("has_attributes", "attributes", with_any),
            ("has_security", "an access list", with_list),
        ):
            has, says = find(owners, ids) >= 0, holders[name]
            wrong = (has & ~says) | (says & ~has & may_lack)
            for place in subject.cases("attribute-flag-differs", np.flatnonzero(wrong), "catalog records"):
                says_no = bool(has[place])
                what = f"denies {noun} that it has" if says_no else f"claims {noun} that it lacks"
                catalog.field(int(holders["row"][place]), "flags").add(
                    "attribute-flag-differs",
                    "error",
                    f"a file or folder {what}",
                    expected=f"{'has' if says_no else 'does not have'} {noun}",
                    found=f"{int(holders['flags'][place]):#06x}",
                )

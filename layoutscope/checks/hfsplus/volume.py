"""Checks of space: each used block is claimed once, and is in use in the allocation file.

TN1150, "Allocation File".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.checks.hfsplus.records import TYPES
from layoutscope.filesystems.hfsplus.attributes import EXTENT_FIELDS, INLINE
from layoutscope.filesystems.hfsplus.catalog import DATA_FORK, RESOURCE_FORK
from layoutscope.filesystems.hfsplus.contents import (
    are_outside,
    check_counts,
    check_leaf_count,
    check_tree_header,
    overflow_blocks,
)
from layoutscope.filesystems.hfsplus.forks import locate
from layoutscope.filesystems.hfsplus.nodes import FORMS
from layoutscope.filesystems.hfsplus.tree import is_whole
from layoutscope.filesystems.hfsplus.volume import END_BYTES, HEADER_BYTES, HEADER_OFFSET
from layoutscope.structs import arrays, grammar
from layoutscope.structs.arrays import concatenate, find, is_head, starts_of
from layoutscope.structs.records import HEADER_NODE

if TYPE_CHECKING:
    from collections.abc import Callable

    from layoutscope.checks.hfsplus.records import CatalogRecords, LeafRecords, Subject
    from layoutscope.findings import FindingLog
    from layoutscope.structs.arrays import I64, U32, Columns, Mask

    LocateExtent = Callable[[int, int], FindingLog]

CNID = grammar.HfsplusVolume.Cnid
COMPARE = grammar.HfsplusBtree.KeyCompareType

SPECIAL_FILES: Final = {
    int(CNID.allocation_file): "allocation_file",
    int(CNID.extents_file): "extents_file",
    int(CNID.catalog_file): "catalog_file",
    int(CNID.attributes_file): "attributes_file",
    int(CNID.startup_file): "startup_file",
}
"""Fields of the volume header by the CNID of the file."""


def check_unmounted(subject: Subject) -> None:
    """Report a volume that was not unmounted, which is not damage if its journal was replayed."""
    header = subject.volume.header
    # A clean unmount sets one bit and clears another (TN1150, "Volume Attributes").
    if not header.is_unmounted or header.is_boot_inconsistent:
        subject.volume.header_field("attributes").add(
            "not-unmounted", "info", "the volume was not cleanly unmounted, or is mounted now"
        )


def check_volume_counts(subject: Subject, _: CatalogRecords) -> None:
    """Compare files, folders and the next CNID with the catalog."""
    check_counts(subject.volume, subject.contents.catalog)


def check_special_sizes(subject: Subject) -> None:
    """Check that each special file is as long as its extents."""
    for cnid, name in SPECIAL_FILES.items():
        fork, blocks = getattr(subject.volume.header, name), subject.contents.special[cnid].num_blocks
        max_bytes = blocks * subject.volume.block_size_bytes
        words = name.replace("_", " ")
        for is_wrong, field, message, expected in (
            (int(fork.num_blocks) != blocks, "num_blocks", "counts other blocks than its extents hold", blocks),
            (int(fork.len_logical) > max_bytes, "len_logical", "is longer than its extents", f"at most {max_bytes}"),
        ):
            if is_wrong:
                log, found = subject.volume.header_field(f"{name}.{field}"), getattr(fork, field)
                log.add("fork-size-differs", "error", f"the {words} {message}", expected=expected, found=found)


def check_allocation_size(subject: Subject) -> None:
    """Check that the allocation file has a bit for each block."""
    header = subject.volume.header
    needed, found = -(-int(header.num_blocks) // 8), int(header.allocation_file.len_logical)
    # It may have more bits, which are unused (TN1150, "Allocation File").
    if found < needed:
        subject.volume.header_field("allocation_file.len_logical").add(
            "allocation-file-short",
            "error",
            "the allocation file has fewer bits than the volume has blocks",
            expected=f"at least {needed}",
            found=found,
        )


def check_tree_headers(subject: Subject) -> None:
    """Compare the header record of each tree with its nodes."""
    for tree in subject.contents.trees.values():
        check_leaf_count(subject.volume, tree)
        check_tree_header(subject.volume, tree)


def check_key_compare(subject: Subject, catalog: CatalogRecords) -> None:
    """Check the kind of name comparison in the catalog of HFSX volumes; on others, the field has no meaning."""
    if not subject.volume.is_hfsx:
        return
    found = int(catalog.located.tree.file.header.key_compare_type)
    if found not in {int(kind) for kind in COMPARE}:
        expected, message = " or ".join(str(int(kind)) for kind in COMPARE), "names compare in no known way"
        log = _locate_tree_header(subject, "catalog", "key_compare_type")
        log.add("tree-header-differs", "error", message, expected=expected, found=found)


def check_key_lengths(subject: Subject) -> None:
    """Check that the longest key in each tree header is that of the format."""
    for name, located in subject.trees.items():
        # In index nodes with fixed-length keys, each key takes the space of the longest, so a wrong length here moves
        # all pointers.
        expected, found = FORMS[name].max_length, int(located.tree.file.header.len_key_max)
        if expected is not None and found != expected:
            message = "the header allows other keys than the format"
            _locate_tree_header(subject, name, "len_key_max").add(
                "tree-header-differs", "error", message, expected=expected, found=found
            )


def _locate_tree_header(subject: Subject, tree: str, field: str) -> FindingLog:
    return subject.trees[tree].at(HEADER_NODE.offset_of(f"header.{field}"))


FORKS: Final = {DATA_FORK: "data_fork", RESOURCE_FORK: "resource_fork"}
_MAX_INT64: Final = np.iinfo(np.int64).max


def get_extents(catalog: CatalogRecords, fork: str) -> tuple[U32, U32]:
    """Return the start blocks and block counts of a fork of all files, shape (n, 8), in 32 bits as stored."""
    return catalog.files[f"{fork}.extents.start_block"], catalog.files[f"{fork}.extents.num_blocks"]


def check_fork_sizes(subject: Subject, catalog: CatalogRecords) -> None:
    """Check that a fork counts the blocks of its extents, and is not longer than they are."""
    block = np.uint64(subject.volume.block_size_bytes)
    for fork_type, name in FORKS.items():
        total = catalog.files[f"{name}.num_blocks"].astype(np.int64)
        counts = get_extents(catalog, name)[1]
        counted = counts.sum(axis=1, dtype=np.int64) + _sum_overflow_blocks(subject, catalog, fork_type)
        size = catalog.files[f"{name}.len_logical"]
        needed = np.minimum(-(-size.astype(np.float64) // float(block)), _MAX_INT64).astype(np.int64)
        for place in subject.cases("fork-size-differs", np.flatnonzero(total != counted), "catalog files"):
            found, expected = int(total[place]), int(counted[place])
            slot = _find_wrong_extent(counts[place].astype(np.int64), found, expected, int(needed[place]))
            field, message = "num_blocks", "a fork counts other blocks than its extents hold"
            if slot is not None:
                message = "an extent has other blocks than its fork counts, and needs for its size"
                has = int(counts[place, slot])
                field, found, expected = f"extents.num_blocks#{slot}", has, has + found - expected
            log = catalog.field(catalog.files["row"][place], f"{name}.{field}")
            log.add("fork-size-differs", "error", message, expected=expected, found=found)
        # Blocks beyond the size do not contradict it: files grow by clumps, and the last may still be empty.
        subject.report(
            "fork-size-differs",
            "a fork is longer than its blocks",
            np.flatnonzero(size > total.astype(np.uint64) * block),
            "catalog files",
            catalog.at("files", f"{name}.len_logical"),
            expected=lambda place, total=total: f"at most {int(total[place]) * int(block)}",
            found=size,
        )


def _find_wrong_extent(counts: I64, total: int, counted: int, needed: int) -> int | None:
    """Find the wrong extent of a fork whose block count differs from its extents; None if the count is wrong.

    The size in bytes decides: the number that agrees with it is right. Among several extents, the wrong one is unknown.
    """
    used = np.flatnonzero(counts)
    is_sum_wrong = counted < needed <= total if total > counted else needed <= total
    if not is_sum_wrong or len(used) > 1 or (len(used) == 1 and counts[used[0]] != counted):
        return None
    return int(used[0]) if len(used) else 0


def _sum_overflow_blocks(subject: Subject, catalog: CatalogRecords, fork_type: int) -> I64:
    """Sum the blocks that the extents-overflow file adds to a fork of each file."""
    ids = catalog.files["file_id"].astype(np.int64)
    records = subject.overflow
    if records is None or not len(records):
        return np.zeros(len(ids), np.int64)
    mine = records["key.fork_type"] == fork_type
    return overflow_blocks(ids, records["key.file_id"][mine], records["data.extents.num_blocks"][mine])


def check_extents(subject: Subject) -> None:
    """Check that extents are within the volume."""
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
    if catalog is not None:
        for name in FORKS.values():
            _check_extents_of(subject, catalog, name, total)
    if overflow is not None:
        rows, slots = np.nonzero(
            are_outside(overflow["data.extents.start_block"], overflow["data.extents.num_blocks"], total)
        )
        for case in subject.cases("extent-outside", np.arange(len(rows)), "extents-overflow records"):
            row, slot = int(rows[case]), int(slots[case])
            field = _choose_field(int(overflow["data.extents.start_block"][row, slot]), total)
            message = f"an extent of file {overflow['key.file_id'][row]} leaves the volume"
            overflow.field(row, f"data.extents.{field}#{slot}").add("extent-outside", "error", message)
    if attributes is not None:
        rows, slots = np.nonzero(are_outside(attributes["starts"], attributes["counts"], total))
        for case in subject.cases("extent-outside", np.arange(len(rows)), "attribute records"):
            row, slot = int(rows[case]), int(slots[case])
            _, paths = EXTENT_FIELDS[int(attributes["kind"][row])]
            path = paths[int(attributes["starts"][row, slot]) < total]
            message = f"an extent of an attribute of file {attributes['file_id'][row]} leaves the volume"
            attributes.field(row, f"{path}#{slot}").add("extent-outside", "error", message)


def _check_extents_of(subject: Subject, catalog: CatalogRecords, name: str, total: int) -> None:
    starts, counts = get_extents(catalog, name)
    rows, slots = np.nonzero(are_outside(starts, counts, total))
    for case in subject.cases("extent-outside", np.arange(len(rows)), "catalog files"):
        row, slot = int(rows[case]), int(slots[case])
        field = f"{name}.extents.{_choose_field(int(starts[row, slot]), total)}#{slot}"
        message = f"an extent of file {catalog.files['file_id'][row]} leaves the volume"
        expected, found = f"an end at or before block {total}", int(starts[row, slot]) + int(counts[row, slot])
        log = catalog.field(catalog.files["row"][row], field)
        log.add("extent-outside", "error", message, expected=expected, found=found)


def _choose_field(start: int, total: int) -> str:
    return "start_block" if start >= total else "num_blocks"


def check_overflow_records(subject: Subject, records: LeafRecords) -> None:
    """Check that overflow records name an existing fork, have no gaps, and belong to a file."""
    noun = "extents-overflow records"
    subject.report(
        "extents-invalid",
        "a record names neither fork",
        np.flatnonzero(~np.isin(records["key.fork_type"], list(FORKS))),
        noun,
        lambda row: records.field(row, "key.fork_type"),
        expected=" or ".join(map(str, FORKS)),
        found=records["key.fork_type"],
    )
    # Unused descriptors are zeros and follow all others (TN1150, "Fork Data Structure").
    used = records["data.extents.num_blocks"] > 0
    gap = ~used[:, :-1] & np.maximum.accumulate(used[:, ::-1], axis=1)[:, ::-1][:, 1:]
    rows, slots = np.nonzero(gap)
    subject.report(
        "extents-invalid",
        "an unused extent stands before a used one",
        np.arange(len(rows)),
        noun,
        lambda case: records.field(int(rows[case]), f"data.extents.num_blocks#{slots[case]}"),
        expected="at least 1",
        found=0,
    )
    if subject.catalog is None:
        return
    # Bad blocks have a CNID and overflow extents, but neither a catalog record nor a fork in the volume header (TN1150,
    # "Bad Block File").
    owners = np.concatenate(
        [subject.catalog.files["file_id"].astype(np.int64), [*SPECIAL_FILES, int(CNID.bad_block_file)]]
    )
    subject.report(
        "extents-orphaned",
        "overflow extents belong to no file",
        np.flatnonzero(find(owners, records["key.file_id"]) < 0),
        "extents",
        lambda row: records.field(row, "key.file_id"),
        found=records["key.file_id"],
        level="warning",
    )


def check_overflow_starts(subject: Subject, catalog: CatalogRecords, records: LeafRecords) -> None:
    """Check that each overflow record continues where the previous extents end."""
    if not len(records):
        return
    # The block in a key counts from the start of the fork: it is the sum of the previous extents, not an address.
    order = np.lexsort((records["key.start_block"], records["key.fork_type"], records["key.file_id"]))
    file_id, fork_type, start = (
        records["key.file_id"][order],
        records["key.fork_type"][order],
        records["key.start_block"][order],
    )
    ends = start + records["data.extents.num_blocks"][order].sum(axis=1)
    inline = _sum_inline_blocks(subject, catalog, file_id, fork_type)
    expected = np.where(is_head(file_id, fork_type), inline, np.append(-1, ends[:-1]))
    subject.report(
        "extents-gap",
        "extents do not go on where those before them end",
        np.flatnonzero((expected >= 0) & (expected != start)),
        "extents-overflow records",
        lambda case: records.field(int(order[case]), "key.start_block"),
        expected=expected,
        found=start,
    )


def _sum_inline_blocks(subject: Subject, catalog: CatalogRecords, file_id: I64, fork_type: I64) -> I64:
    """Sum the blocks in the first eight extents of forks, -1 if the file is unknown."""
    place = find(catalog.files["file_id"].astype(np.int64), file_id)
    num_blocks = np.full(len(file_id), -1, np.int64)
    for number, name in FORKS.items():
        mine = (place >= 0) & (fork_type == number)
        num_blocks[mine] = get_extents(catalog, name)[1][place[mine]].sum(axis=1, dtype=np.int64)
    for cnid in SPECIAL_FILES:
        fork = subject.contents.special[cnid]
        num_blocks[(file_id == cnid) & (fork_type == DATA_FORK)] = int(fork.block_counts[fork.record_nodes < 0].sum())
    # All extents of the bad block file are in the overflow tree.
    num_blocks[file_id == CNID.bad_block_file] = 0
    return num_blocks


def check_attribute_values(subject: Subject, records: LeafRecords) -> None:
    """Check that attribute values fit into their records, and that those in forks have the blocks that they count."""

    def report(wrong: Mask, field: str, message: str, expected: object = "", found: object = "") -> None:
        rows, at = np.flatnonzero(wrong), lambda row: records.field(row, field)
        subject.report("attribute-invalid", message, rows, "attributes", at, expected=expected, found=found)

    size, is_fork = records["size"], records["kind"] == TYPES.fork_data
    is_inline, is_extents = records["kind"] == TYPES.inline_data, records["kind"] == TYPES.extents
    room = records["stop"] - records["data"] - INLINE.width
    wrong, message = is_inline & (size > room), "a value is longer than its record"
    report(wrong, "len_attribute", message, lambda row: f"at most {room[row]}", size)
    # Only records that continue the extents of a fork have a start block (TN1150, "Attributes File").
    wrong = (is_inline | is_fork) & (records["start_block"] != 0)
    message = "the first record of an attribute says that it carries one on"
    report(wrong, "key.start_block", message, 0, records["start_block"])
    most = records["blocks"] * subject.volume.block_size_bytes
    wrong, message = is_fork & (size > most), "the fork of an attribute is longer than its blocks"
    report(wrong, "the_fork.len_logical", message, lambda row: f"at most {most[row]}", size)
    # The groups of extents of one attribute are contiguous records; the first record counts the blocks of all. The last
    # part of a key is the block at which its extents continue. It is 0 for a value or a fork, which sorts the head
    # before its groups.
    if not len(records):
        return
    keys = records.located.keys
    head = np.maximum.accumulate(np.where(is_extents, -1, np.arange(len(is_fork))))
    rows = np.flatnonzero(is_extents & (head >= 0))
    same = (records["file_id"][rows] == records["file_id"][head[rows]]) & (keys.count[rows] == keys.count[head[rows]])
    rows = rows[same & is_fork[head[rows]]]
    blocks = records["counts"].sum(axis=1)
    lost = is_extents.copy()
    lost[rows] = False
    report(lost, "record_type", "extents follow no attribute with a fork")
    before, expected = starts_of(blocks), records["start_block"].copy()
    expected[rows] = before[rows] - before[head[rows]]
    message = "extents of an attribute do not go on where those before them end"
    report(expected != records["start_block"], "key.start_block", message, expected, records["start_block"])
    counted = np.bincount(
        np.append(head[rows], np.flatnonzero(is_fork)), np.append(blocks[rows], blocks[is_fork]), minlength=len(blocks)
    ).astype(np.int64)
    message = "the fork of an attribute counts other blocks than its extents hold"
    report(is_fork & (counted != records["blocks"]), "the_fork.num_blocks", message, counted, records["blocks"])


def check_attribute_owners(subject: Subject, catalog: CatalogRecords, records: LeafRecords) -> None:
    """Check that attributes belong to existing files and folders."""
    _, ids, _ = catalog.entries()
    wrong, message = find(ids, records["file_id"]) < 0, "an attribute belongs to no file or folder"
    at = lambda row: records.field(row, "key.file_id")  # noqa: E731
    rows = np.flatnonzero(wrong)
    subject.report("attribute-orphaned", message, rows, "attributes", at, found=records["file_id"])


def check_attribute_flags(subject: Subject, catalog: CatalogRecords, records: LeafRecords) -> None:
    """Check the flags of files and folders for attributes and for access lists."""
    with_any, with_list = np.unique(records["file_id"]), np.unique(records["file_id"][records["is_access_list"]])
    # Attributes may be in leaves that were not reached.
    may_lack = is_whole(records.located.tree)
    for holders, field in ((catalog.files, "file_id"), (catalog.folders, "folder_id")):
        ids = holders[field].astype(np.int64)
        for name, noun, owners in (
            ("has_attributes", "attributes", with_any),
            ("has_security", "an access list", with_list),
        ):
            has, claims_it = find(owners, ids) >= 0, holders[name]
            wrong = (has & ~claims_it) | (claims_it & ~has & may_lack)
            for place in subject.cases("attribute-flag-differs", np.flatnonzero(wrong), "catalog records"):
                is_denied = bool(has[place])
                what = f"denies {noun} that it has" if is_denied else f"claims {noun} that it lacks"
                expected = f"{'has' if is_denied else 'does not have'} {noun}"
                log, found = catalog.field(holders["row"][place], "flags"), f"{int(holders['flags'][place]):#06x}"
                message = f"a file or folder {what}"
                log.add("attribute-flag-differs", "error", message, expected=expected, found=found)


_ClaimList = tuple["I64 | U32", "I64 | U32", "Callable[[int], str]", "LocateExtent | None"]
"""A list of claims: starts and counts of blocks per record, a function to the name of the owner of a record, and one
that binds the log to an extent of it, None for claims of the volume itself."""

Claims = tuple["Columns", list[_ClaimList]]
"""Claimed runs of blocks in order, and the lists that they come from.

``start, stop`` are in allocation blocks, within the volume; ``part, row, slot`` identify the list, its record, and the
extent of the record.
"""


def list_claims(subject: Subject) -> Claims:
    """List all claims of the volume: fixed structures, special files, journal, files, attributes; cached."""
    if "claims" not in subject.known:
        subject.known["claims"] = _collect_claims(subject)
    claims: Claims = subject.known["claims"]
    return claims


def _collect_claims(subject: Subject) -> Claims:
    fixed = _list_fixed_parts(subject)
    parts = [*fixed, *_list_special_files(subject), *_list_files(subject), *_list_others(subject)]
    total, tables = int(subject.volume.header.num_blocks), []
    for number, (starts, counts, _, _) in enumerate(parts):
        row, slot = np.nonzero((counts > 0) & (starts < total))
        start = starts[row, slot].astype(np.int64)
        stop = np.minimum(start + counts[row, slot], total)
        part = np.full(len(row), number, np.int32)
        tables.append({"start": start, "stop": stop, "part": part, "row": row, "slot": slot.astype(np.uint8)})
    claims = concatenate(tables, {})
    tables.clear()
    kept = _drop_journal_files(claims, len(fixed))
    order = kept[np.lexsort((claims["stop"][kept], claims["start"][kept]))]
    # Each column is let go as it has been put into order.
    return {name: claims.pop(name)[order] for name in list(claims)}, parts


def _drop_journal_files(claims: Columns, num_fixed: int) -> I64:
    """Positions of all claims but those of the journal that hidden files of the root folder make too."""
    start, stop, part = (claims[name] for name in ("start", "stop", "part"))
    # The journal and its info block, which drivers find by address, also belong to the files .journal and
    # .journal_info_block of the root folder (TN1150, "Journal").
    is_kept = np.ones(len(start), np.bool_)
    for claim in np.flatnonzero((part >= 2) & (part < num_fixed)).tolist():
        is_kept[claim] = not ((part >= num_fixed) & (start == start[claim]) & (stop == stop[claim])).any()
    return np.flatnonzero(is_kept)


def _make_run(start: int, stop: int) -> tuple[I64, I64]:
    return np.array([[start]], np.int64), np.array([[stop - start]], np.int64)


def _list_fixed_parts(subject: Subject) -> list[_ClaimList]:
    """List the claims of the boot blocks with the volume header, of its copy, and of the journal."""
    volume, block, total = subject.volume, subject.volume.block_size_bytes, int(subject.volume.header.num_blocks)
    parts: list[_ClaimList] = [
        (*_make_run(0, -(-(HEADER_OFFSET + HEADER_BYTES) // block)), lambda _: "the volume header", None)
    ]
    # The copy is 1024 bytes before the end of the partition, which may be after the last whole block. That block is in
    # use anyway: newfs_hfs marks it, and fsck_hfs requires it.
    last = max(0, total - max(1, END_BYTES // block))
    copy = volume.end_offset // block if volume.end_offset is not None else last
    name = "the alternate volume header" if copy < total else "the end of the volume, which is always in use"
    parts.append((*_make_run(min(copy, last), total), lambda _: name, None))
    journal = subject.contents.journal
    if journal is not None:
        at = journal.info_offset // block
        parts.append((*_make_run(at, at + 1), lambda _: "the journal info block", None))
        if journal.size_bytes:
            start = journal.journal_offset // block
            stop = -(-(journal.journal_offset + journal.size_bytes) // block)
            parts.append((*_make_run(start, stop), lambda _: "the journal", None))
    return parts


def _list_special_files(subject: Subject) -> list[_ClaimList]:
    """List the claims of the first eight extents of the special files; others are overflow records."""
    parts: list[_ClaimList] = []
    for cnid, field in SPECIAL_FILES.items():
        fork = subject.contents.special[cnid]
        inline = fork.record_nodes < 0
        name = f"the {field.replace('_', ' ')}"
        parts.append(
            (fork.start_blocks[inline][:, None], fork.block_counts[inline][:, None], lambda _, name=name: name, None)  # type: ignore[misc]
        )
    return parts


def _list_files(subject: Subject) -> list[_ClaimList]:
    catalog = subject.catalog
    if catalog is None:
        return []
    parts: list[_ClaimList] = []
    for name in FORKS.values():

        def owner(row: int, name: str = name) -> str:
            return f"the {name.replace('_', ' ')} of file {catalog.files['file_id'][row]}"

        def locate_extent(row: int, slot: int, name: str = name) -> FindingLog:
            return catalog.field(int(catalog.files["row"][row]), f"{name}.extents.start_block#{slot}")

        parts.append((*get_extents(catalog, name), owner, locate_extent))
    return parts


def _list_others(subject: Subject) -> list[_ClaimList]:
    """List the claims of overflow extents of files and special files, bad blocks, and attributes."""
    overflow, attributes = subject.overflow, subject.attributes
    parts: list[_ClaimList] = []
    if overflow is not None:

        def locate_extent(row: int, slot: int) -> FindingLog:
            return overflow.field(row, f"data.extents.start_block#{slot}")

        parts.append(
            (
                overflow["data.extents.start_block"],
                overflow["data.extents.num_blocks"],
                lambda row: f"file {overflow['key.file_id'][row]}",
                locate_extent,
            )
        )
    if attributes is not None:

        def locate_attribute(row: int, slot: int) -> FindingLog:
            _, (start_block, _) = EXTENT_FIELDS[int(attributes["kind"][row])]
            return attributes.field(row, f"{start_block}#{slot}")

        parts.append(
            (
                attributes["starts"],
                attributes["counts"],
                lambda row: f"an attribute of file {attributes['file_id'][row]}",
                locate_attribute,
            )
        )
    return parts


def check_double_claims(subject: Subject) -> None:
    """Check that no block is claimed twice; both owners are reported, each at its extent."""
    claims, _ = list_claims(subject)
    starts, stops = claims["start"], claims["stop"]
    if not len(starts):
        return
    later = np.flatnonzero(starts[1:] < np.maximum.accumulate(stops)[:-1]) + 1
    for claim in subject.cases("block-claimed-twice", later, "extents"):
        other = int(np.flatnonzero(stops[:claim] > starts[claim])[-1])
        start, stop = int(starts[claim]), int(min(stops[claim], stops[other]))
        for mine, his in ((claim, other), (other, claim)):
            owners = f"{_name_owner(subject, mine)[0]} and to {_name_owner(subject, his)[0]}"
            log = _locate_claim(subject, mine)
            log.add("block-claimed-twice", "error", f"blocks {start} to {stop - 1} belong to {owners}")


def _name_owner(subject: Subject, claim: int) -> tuple[str, FindingLog | None]:
    """Name the owner of a claim, and bind the log to its extent; None for claims of the volume itself."""
    claims, parts = list_claims(subject)
    number, row, slot = (int(claims[name][claim]) for name in ("part", "row", "slot"))
    _, _, owner, locate_extent = parts[number]
    return owner(row), None if locate_extent is None else locate_extent(row, slot)


def _locate_claim(subject: Subject, claim: int) -> FindingLog:
    owner, log = _name_owner(subject, claim)
    if log is not None:
        return log
    start = int(list_claims(subject)[0]["start"][claim])
    return subject.volume.log.at(owner, start * subject.volume.block_size_bytes)


def check_allocation(subject: Subject) -> None:
    """Check that claimed blocks are in use in the allocation file, and that blocks in use are claimed."""
    if any(finding.code == "allocation-file-unreadable" for finding in subject.volume.log.findings):
        return
    claims, _ = list_claims(subject)
    starts, stops, total = claims["start"], claims["stop"], int(subject.volume.header.num_blocks)
    # The next write may overwrite claimed blocks that are marked free; unclaimed blocks in use are only wasted.
    claimed = arrays.runs_of(starts, stops - starts)
    free = arrays.runs_of(subject.contents.free_starts, subject.contents.free_counts)
    used = arrays.subtract(_make_first_blocks(min(total, _count_mapped_blocks(subject))), free)
    unclaimed = arrays.intersect(used, arrays.subtract(_make_first_blocks(total), claimed))
    lost = set(unclaimed[:, 1].tolist())
    for start, stop in _list_cases(subject, "block-claimed-free", arrays.intersect(claimed, free)):
        claim = int(np.flatnonzero((starts <= start) & (stops > start))[0])
        owner, own = _name_owner(subject, claim)
        log, blocks = _locate_bits(subject, start, stop)
        # If as many unclaimed blocks are in use, the extent is wrong, not the bits.
        if stop - start in lost and own is not None:
            log = own
        verb = "belongs" if stop - start == 1 else "belong"
        others = "is" if stop - start == 1 else "are"
        log.add("block-claimed-free", "error", f"{blocks}, {verb} to {owner} but {others} free")
    for start, stop in _list_cases(subject, "block-unclaimed", unclaimed):
        log, blocks = _locate_bits(subject, start, stop)
        verb = "is in use but belongs" if stop - start == 1 else "are in use but belong"
        log.add("block-unclaimed", "warning", f"{blocks}, {verb} to nothing that was read")


def _count_mapped_blocks(subject: Subject) -> int:
    """Count the blocks for which the allocation file has bits."""
    fork = subject.contents.special[int(CNID.allocation_file)]
    return 8 * min(fork.logical_size_bytes, fork.num_blocks * subject.volume.block_size_bytes)


def _make_first_blocks(count: int) -> I64:
    return np.array([[0, count]], np.int64)


def _list_cases(subject: Subject, code: str, runs: I64) -> list[tuple[int, int]]:
    """Return the first block and the end of the first runs of a kind."""
    rows = list(subject.cases(code, np.arange(len(runs)), "allocation file"))
    return [(int(runs[row, 0]), int(runs[row].sum())) for row in rows]


def _locate_bits(subject: Subject, start: int, stop: int) -> tuple[FindingLog, str]:
    """Bind the log to the bits of blocks in the allocation file, and describe the blocks with their address."""
    volume = subject.volume
    fork = subject.contents.special[int(CNID.allocation_file)]
    pieces = locate(volume, fork, np.array([start // 8], np.int64), np.ones(1, np.int64))
    at = int(pieces.volume_offset[0]) if len(pieces.part) else None
    byte = volume.image_offset + start * volume.block_size_bytes
    which = f"block {start}" if stop - start == 1 else f"blocks {start} to {stop - 1}"
    return volume.log.at("allocation file", at), f"{which}, from byte {byte:,} of the image"

"""Checks of the volume header, forks and space: each used block is claimed once, and is in use in the allocation file.

TN1150, "Volume Header", "Fork Data Structure" and "Allocation File". Not checked are dates except that of creation,
hints (next allocation), the write count, and the data of the Finder, because nothing on the volume determines them.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope.checks.fieldrules import NOT_ZERO, Want, at_most, bits_set, check_fields, equals, rules
from layoutscope.checks.hfsplus.records import TYPES
from layoutscope.checks.hfsplus.scan import are_outside, check_counts, overflow_blocks
from layoutscope.display import Struct
from layoutscope.filesystems.hfsplus.attributes import EXTENT_FIELDS, INLINE
from layoutscope.filesystems.hfsplus.catalog import DATA_FORK, RESOURCE_FORK
from layoutscope.filesystems.hfsplus.contents import SPECIAL_FILES
from layoutscope.filesystems.hfsplus.forks import locate_byte
from layoutscope.filesystems.hfsplus.tree import is_whole
from layoutscope.filesystems.hfsplus.volume import END_BYTES, HEADER_BYTES, HEADER_OFFSET, alternate_header, read_at
from layoutscope.structs import arrays, grammar, records
from layoutscope.structs.arrays import concatenate, find, is_head, starts_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from layoutscope.checks.engine import Table
    from layoutscope.checks.fieldrules import FieldRule
    from layoutscope.checks.hfsplus.records import CatalogRecords, Kind, Subject, TreeRecords
    from layoutscope.findings import FindingLog
    from layoutscope.structs.arrays import I64, U32, Columns, Mask


CNID = grammar.HfsplusVolume.Cnid


def check_unmounted(subject: Subject) -> None:
    """Report a volume that was not unmounted, which is not damage if its journal was replayed."""
    header = subject.volume.header
    # A clean unmount sets one bit and clears another (TN1150, "Volume Attributes").
    is_mounted = not header.is_unmounted or header.is_boot_inconsistent
    message = "the volume was not cleanly unmounted, or is mounted now"
    subject.header("not-unmounted", "info").report(is_mounted, message, "attributes")


def check_volume_counts(subject: Subject, _: CatalogRecords) -> None:
    """Compare files, folders and the next CNID with the catalog."""
    check_counts(subject.volume, subject.contents.catalog)


def check_special_sizes(subject: Subject) -> None:
    """Check that each special file is as long as its extents."""
    report = subject.header("fork-size-differs").report
    for cnid, name in SPECIAL_FILES.items():
        fork, blocks = getattr(subject.volume.header, name), subject.contents.special[cnid].num_blocks
        found, length, file = int(fork.num_blocks), int(fork.len_logical), f"the {name.replace('_', ' ')}"
        message = f"{file} counts other blocks than its extents hold"
        report(found != blocks, message, f"{name}.num_blocks", expected=blocks, found=found)
        limit, message = blocks * subject.volume.block_size_bytes, f"{file} is longer than its extents"
        report(length > limit, message, f"{name}.len_logical", expected=f"at most {limit}", found=length)


def check_allocation_size(subject: Subject) -> None:
    """Check that the allocation file has a bit for each block."""
    header = subject.volume.header
    # It may have more bits, which are unused (TN1150, "Allocation File").
    least, found = -(-int(header.num_blocks) // 8), int(header.allocation_file.len_logical)
    message, field = "the allocation file has fewer bits than the volume has blocks", "allocation_file.len_logical"
    table = subject.header("allocation-file-short")
    table.report(found < least, message, field, expected=f"at least {least}", found=found)


FORKS: Final = {DATA_FORK: "data_fork", RESOURCE_FORK: "resource_fork"}


def check_fork_sizes(subject: Subject, catalog: CatalogRecords) -> None:
    """Check that a fork counts the blocks of its extents, and is not longer than they are."""
    block = np.uint64(subject.volume.block_size_bytes)
    table = subject.table("fork-size-differs", "catalog files", catalog.locate_kind("files"))
    for fork_type, name in FORKS.items():
        total = catalog.files[f"{name}.num_blocks"].astype(np.int64)
        counts = catalog.files[f"{name}.extents.num_blocks"]
        counted = counts.sum(axis=1, dtype=np.int64) + _sum_overflow_blocks(subject, catalog, fork_type)
        size = catalog.files[f"{name}.len_logical"]
        needed = np.minimum(-(-size.astype(np.float64) // float(block)), np.iinfo(np.int64).max).astype(np.int64)
        for place in table.cases(np.flatnonzero(total != counted)):
            found, expected = int(total[place]), int(counted[place])
            slot = _find_wrong_extent(counts[place].astype(np.int64), found, expected, int(needed[place]))
            field, message = "num_blocks", "a fork counts other blocks than its extents hold"
            if slot is not None:
                message = "an extent has other blocks than its fork counts, and needs for its size"
                has = int(counts[place, slot])
                field, found, expected = f"extents.num_blocks#{slot}", has, has + found - expected
            table.at(place, f"{name}.{field}").add(table.code, "error", message, expected=expected, found=found)
        # Blocks beyond the size do not contradict it: files grow by clumps, and the last may still be empty.
        wrong, message = size > total.astype(np.uint64) * block, "a fork is longer than its blocks"
        most = lambda place, total=total: f"at most {int(total[place]) * int(block)}"  # noqa: E731
        table.report(wrong, message, f"{name}.len_logical", expected=most, found=size)


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
    for cnid, field in SPECIAL_FILES.items():
        fork = subject.contents.special[cnid]
        # Extents with a record node come from the overflow tree, where they are checked below.
        wrong = np.flatnonzero(are_outside(fork.start_blocks, fork.block_counts, total) & (fork.record_nodes < 0))
        for slot in wrong.tolist():
            log = subject.volume.header_field(f"{field}.extents")
            log.add("extent-outside", "error", f"extent {slot} leaves the volume")
    for extents in list_extents(subject):
        rows, slots = np.nonzero(are_outside(extents.starts, extents.counts, total))
        for case in extents.table(subject, "extent-outside").cases(np.arange(len(rows))):
            row, slot = int(rows[case]), int(slots[case])
            start, message = int(extents.starts[row, slot]), f"an extent of {extents.name(row)} leaves the volume"
            stop, expected = start + int(extents.counts[row, slot]), f"an end at or before block {total}"
            sides = {} if extents.num_blocks is None else {"expected": expected, "found": stop}
            log = extents.at(row, slot, "start_block" if start >= total else "num_blocks")
            log.add("extent-outside", "error", message, **sides)


def check_overflow_records(subject: Subject, records: TreeRecords) -> None:
    """Check that overflow records name an existing fork, have no gaps, and belong to a file."""
    table = subject.table("extents-invalid", "extents-overflow records", records.leaf_field)
    types, expected = records["key.fork_type"], " or ".join(map(str, FORKS))
    wrong = ~np.isin(types, list(FORKS))
    table.report(wrong, "a record names neither fork", "key.fork_type", expected=expected, found=types)
    # Unused descriptors are zeros and follow all others (TN1150, "Fork Data Structure").
    used = records["data.extents.num_blocks"] > 0
    gap = ~used[:, :-1] & np.maximum.accumulate(used[:, ::-1], axis=1)[:, ::-1][:, 1:]
    rows, slots = np.nonzero(gap)
    at = lambda case, _: records.leaf_field(int(rows[case]), f"data.extents.num_blocks#{slots[case]}")  # noqa: E731
    table = subject.table("extents-invalid", "extents-overflow records", at)
    table.report(np.arange(len(rows)), "an unused extent stands before a used one", expected="at least 1", found=0)
    if subject.catalog is None:
        return
    # Bad blocks have a CNID and overflow extents, but neither a catalog record nor a fork in the volume header (TN1150,
    # "Bad Block File").
    own = [*SPECIAL_FILES, int(CNID.bad_block_file)]
    owners = np.concatenate([subject.catalog.files["file_id"].astype(np.int64), own])
    ids, table = records["key.file_id"], subject.table("extents-orphaned", "extents", records.leaf_field, "warning")
    table.report(find(owners, ids) < 0, "overflow extents belong to no file", "key.file_id", found=ids)


def check_overflow_starts(subject: Subject, catalog: CatalogRecords, records: TreeRecords) -> None:
    """Check that each overflow record continues where the previous extents end."""
    if not len(records):
        return
    # The block in a key counts from the start of the fork: it is the sum of the previous extents, not an address.
    order = np.lexsort((records["key.start_block"], records["key.fork_type"], records["key.file_id"]))
    file_id, fork_type, start = (records[f"key.{name}"][order] for name in ("file_id", "fork_type", "start_block"))
    ends = start + records["data.extents.num_blocks"][order].sum(axis=1)
    inline = _sum_inline_blocks(subject, catalog, file_id, fork_type)
    expected = np.where(is_head(file_id, fork_type), inline, np.append(-1, ends[:-1]))
    at = lambda case, field: records.leaf_field(int(order[case]), field)  # noqa: E731
    table = subject.table("extents-gap", "extents-overflow records", at)
    wrong, message = (expected >= 0) & (expected != start), "extents do not go on where those before them end"
    table.report(wrong, message, "key.start_block", expected=expected, found=start)


def _sum_inline_blocks(subject: Subject, catalog: CatalogRecords, file_id: I64, fork_type: I64) -> I64:
    """Sum the blocks in the first eight extents of forks, -1 if the file is unknown."""
    place = find(catalog.files["file_id"].astype(np.int64), file_id)
    num_blocks = np.full(len(file_id), -1, np.int64)
    for number, name in FORKS.items():
        mine = (place >= 0) & (fork_type == number)
        num_blocks[mine] = catalog.files[f"{name}.extents.num_blocks"][place[mine]].sum(axis=1, dtype=np.int64)
    for cnid in SPECIAL_FILES:
        fork = subject.contents.special[cnid]
        num_blocks[(file_id == cnid) & (fork_type == DATA_FORK)] = int(fork.block_counts[fork.record_nodes < 0].sum())
    # All extents of the bad block file are in the overflow tree.
    num_blocks[file_id == CNID.bad_block_file] = 0
    return num_blocks


def check_attribute_values(subject: Subject, records: TreeRecords) -> None:
    """Check that attribute values fit into their records, and that those in forks have the blocks that they count."""
    report = subject.table("attribute-invalid", "attributes", records.leaf_field).report
    size, is_fork = records["size"], records["kind"] == TYPES.fork_data
    is_inline, is_extents = records["kind"] == TYPES.inline_data, records["kind"] == TYPES.extents
    room = records["stop"] - records["data"] - INLINE.width
    wrong, message = is_inline & (size > room), "a value is longer than its record"
    report(wrong, message, "len_attribute", expected=lambda row: f"at most {room[row]}", found=size)
    # Only records that continue the extents of a fork have a start block (TN1150, "Attributes File").
    wrong = (is_inline | is_fork) & (records["start_block"] != 0)
    message = "the first record of an attribute says that it carries one on"
    report(wrong, message, "key.start_block", expected=0, found=records["start_block"])
    most = records["blocks"] * subject.volume.block_size_bytes
    wrong, message = is_fork & (size > most), "the fork of an attribute is longer than its blocks"
    report(wrong, message, "the_fork.len_logical", expected=lambda row: f"at most {most[row]}", found=size)
    # The groups of extents of one attribute are contiguous records; the first record counts the blocks of all. The last
    # part of a key is the block at which its extents continue. It is 0 for a value or a fork, which sorts the head
    # before its groups.
    if not len(records):
        return
    keys = records.keys
    head = np.maximum.accumulate(np.where(is_extents, -1, np.arange(len(is_fork))))
    rows = np.flatnonzero(is_extents & (head >= 0))
    same = (records["file_id"][rows] == records["file_id"][head[rows]]) & (keys.count[rows] == keys.count[head[rows]])
    rows = rows[same & is_fork[head[rows]]]
    blocks = records["counts"].sum(axis=1)
    lost = is_extents.copy()
    lost[rows] = False
    report(lost, "extents follow no attribute with a fork", "record_type")
    before, expected = starts_of(blocks), records["start_block"].copy()
    expected[rows] = before[rows] - before[head[rows]]
    found, message = records["start_block"], "extents of an attribute do not go on where those before them end"
    report(expected != found, message, "key.start_block", expected=expected, found=found)
    heads, weights = np.append(head[rows], np.flatnonzero(is_fork)), np.append(blocks[rows], blocks[is_fork])
    counted = np.bincount(heads, weights, minlength=len(blocks)).astype(np.int64)
    found, message = records["blocks"], "the fork of an attribute counts other blocks than its extents hold"
    report(is_fork & (counted != found), message, "the_fork.num_blocks", expected=counted, found=found)


def check_attribute_owners(subject: Subject, catalog: CatalogRecords, records: TreeRecords) -> None:
    """Check that attributes belong to existing files and folders."""
    _, ids, _ = catalog.entries()
    table, owners = subject.table("attribute-orphaned", "attributes", records.leaf_field), records["file_id"]
    table.report(find(ids, owners) < 0, "an attribute belongs to no file or folder", "key.file_id", found=owners)


def check_attribute_flags(subject: Subject, catalog: CatalogRecords, records: TreeRecords) -> None:
    """Check the flags of files and folders for attributes and for access lists."""
    with_any, with_list = np.unique(records["file_id"]), np.unique(records["file_id"][records["is_access_list"]])
    # Attributes may be in leaves that were not reached.
    may_lack = is_whole(records.tree)
    kinds: tuple[tuple[Kind, str], ...] = ("files", "file_id"), ("folders", "folder_id")
    for kind, field in kinds:
        holders = getattr(catalog, kind)
        ids = holders[field].astype(np.int64)
        table = subject.table("attribute-flag-differs", "catalog records", catalog.locate_kind(kind))
        for name, noun, owners in (
            ("has_attributes", "attributes", with_any),
            ("has_security", "an access list", with_list),
        ):
            has, claims_it = find(owners, ids) >= 0, holders[name]
            for place in table.cases(np.flatnonzero((has & ~claims_it) | (claims_it & ~has & may_lack))):
                what = f"denies {noun} that it has" if has[place] else f"claims {noun} that it lacks"
                expected = f"has {noun}" if has[place] else f"does not have {noun}"
                log, found = table.at(place, "flags"), f"{int(holders['flags'][place]):#06x}"
                log.add(table.code, "error", f"a file or folder {what}", expected=expected, found=found)


OVERFLOW_RECORDS: Final = "extents-overflow records"


class Extents(Struct, frozen=True):
    """Extents of the records of one kind, shape (n, number of extents)."""

    starts: I64 | U32
    counts: I64 | U32
    # binds the log to the start or the length of an extent of a record
    at: Callable[[int, int, str], FindingLog]
    owner: str  # description of the owner, followed by the number of the file
    file_id: NDArray[Any] | None = None
    noun: str = ""  # the records in words
    fork: str = ""  # the fork in words
    num_blocks: NDArray[Any] | None = None  # block count of each fork, if its other extents are elsewhere

    def name(self, row: int) -> str:
        """Name the owner of a record's extents."""
        return self.owner if self.file_id is None else f"{self.owner} {self.file_id[row]}"

    def table(self, subject: Subject, code: str) -> Table:
        """Make a table of the records."""
        return subject.table(code, self.noun, lambda row, field: self.at(row, 0, field))


def _locate_extent(locate: Callable[[int, str], FindingLog], fork: str, row: int, slot: int, field: str) -> FindingLog:
    return locate(row, f"{fork}.{field}#{slot}")


def list_extents(subject: Subject) -> list[Extents]:
    """List the extents of files in the catalog, of those and others in the overflow file, and of attributes."""
    catalog, overflow, attributes = subject.catalog, subject.overflow, subject.attributes
    lists: list[Extents] = []
    if catalog is not None:
        for name in FORKS.values():
            starts, counts = (catalog.files[f"{name}.extents.{each}"] for each in ("start_block", "num_blocks"))
            at = partial(_locate_extent, catalog.locate_kind("files"), f"{name}.extents")
            fork, num_blocks = f"the {name.replace('_', ' ')} of ", catalog.files[f"{name}.num_blocks"]
            ids = catalog.files["file_id"]
            lists.append(Extents(starts, counts, at, "file", ids, "catalog files", fork, num_blocks))
    if overflow is not None:
        starts, counts = (overflow[f"data.extents.{name}"] for name in ("start_block", "num_blocks"))
        at = partial(_locate_extent, overflow.leaf_field, "data.extents")
        lists.append(Extents(starts, counts, at, "file", overflow["key.file_id"], OVERFLOW_RECORDS))
    if attributes is not None:

        def locate_attribute(row: int, slot: int, field: str) -> FindingLog:
            _, paths = EXTENT_FIELDS[int(attributes["kind"][row])]
            return attributes.leaf_field(row, f"{paths[field == 'num_blocks']}#{slot}")

        starts, counts, ids = (attributes[name] for name in ("starts", "counts", "file_id"))
        lists.append(Extents(starts, counts, locate_attribute, "an attribute of file", ids, "attribute records"))
    return lists


Claims = tuple["Columns", list[Extents]]
"""Claimed runs of blocks in order, and the lists that they come from.

``start, stop`` are in allocation blocks, within the volume; ``part, row, slot`` identify the list, its record, and the
extent of the record.
"""


def list_claims(subject: Subject) -> Claims:
    """List all claims of the volume: fixed structures, special files, journal, files, attributes; cached."""
    claims: Claims = subject.known.get("claims") or _collect_claims(subject)
    subject.known["claims"] = claims
    return claims


def _collect_claims(subject: Subject) -> Claims:
    fixed = _list_fixed_parts(subject)
    parts = [*fixed, *_list_special_files(subject), *list_extents(subject)]
    total, tables = int(subject.volume.header.num_blocks), []
    for number, part_extents in enumerate(parts):
        starts, counts = part_extents.starts, part_extents.counts
        row, slot = np.nonzero((counts > 0) & (starts < total))
        start = starts[row, slot].astype(np.int64)
        stop = np.minimum(start + counts[row, slot], total)
        part = np.full(len(row), number, np.int32)
        tables.append({"start": start, "stop": stop, "part": part, "row": row, "slot": slot.astype(np.uint8)})
    claims = concatenate(tables, {})
    tables.clear()
    kept = _drop_journal_files(claims, len(fixed))
    order = kept[np.lexsort((claims["stop"][kept], claims["start"][kept]))]
    # Each column is released once it is sorted.
    return {name: claims.pop(name)[order] for name in list(claims)}, parts


def _drop_journal_files(claims: Columns, num_fixed: int) -> I64:
    """Return the indexes of all claims except journal claims that hidden files of the root folder also make."""
    start, stop, part = (claims[name] for name in ("start", "stop", "part"))
    # The journal and its info block, which drivers find by address, also belong to the files .journal and
    # .journal_info_block of the root folder (TN1150, "Journal").
    is_kept = np.ones(len(start), np.bool_)
    for claim in np.flatnonzero((part >= 2) & (part < num_fixed)).tolist():
        is_kept[claim] = not ((part >= num_fixed) & (start == start[claim]) & (stop == stop[claim])).any()
    return np.flatnonzero(is_kept)


def _list_own_extents(subject: Subject, name: str, starts: I64, counts: I64) -> Extents:
    """List extents of one of the volume's own structures; a finding is at the first block of its extent."""
    size, rows = subject.volume.block_size_bytes, starts[:, None]
    at = lambda row, slot, _: subject.volume.log.at(name, int(rows[row, slot]) * size)  # noqa: E731
    return Extents(rows, counts[:, None], at, name)


def _list_fixed_parts(subject: Subject) -> list[Extents]:
    """List the claims of the boot blocks with the volume header, of its copy, and of the journal."""
    volume, block, total = subject.volume, subject.volume.block_size_bytes, int(subject.volume.header.num_blocks)
    runs = [(0, -(-(HEADER_OFFSET + HEADER_BYTES) // block), "the volume header")]
    # The copy is 1024 bytes before the end of the partition, which may be after the last whole block. That block is in
    # use anyway: newfs_hfs marks it, and fsck_hfs requires it.
    last = max(0, total - max(1, END_BYTES // block))
    copy = volume.end_offset // block if volume.end_offset is not None else last
    name = "the alternate volume header" if copy < total else "the end of the volume, which is always in use"
    runs.append((min(copy, last), total, name))
    journal = subject.contents.journal
    if journal is not None:
        at = journal.info_offset // block
        runs.append((at, at + 1, "the journal info block"))
        if journal.size_bytes:
            start = journal.journal_offset // block
            stop = -(-(journal.journal_offset + journal.size_bytes) // block)
            runs.append((start, stop, "the journal"))
    return [_list_own_extents(subject, name, np.array([start]), np.array([stop - start])) for start, stop, name in runs]


def _list_special_files(subject: Subject) -> Iterator[Extents]:
    """List the claims of the first eight extents of the special files; others are overflow records."""
    for cnid, field in SPECIAL_FILES.items():
        fork = subject.contents.special[cnid]
        inline, name = fork.record_nodes < 0, f"the {field.replace('_', ' ')}"
        yield _list_own_extents(subject, name, fork.start_blocks[inline], fork.block_counts[inline])


def check_double_claims(subject: Subject) -> None:
    """Check that no block is claimed twice; both owners are reported, each at its extent."""
    claims, _ = list_claims(subject)
    starts, stops = claims["start"], claims["stop"]
    if not len(starts):
        return
    later = np.flatnonzero(starts[1:] < np.maximum.accumulate(stops)[:-1]) + 1
    table = subject.table("block-claimed-twice", "extents", lambda claim, _: _locate_claim(subject, claim)[1])
    for claim in table.cases(later):
        other = int(np.flatnonzero(stops[:claim] > starts[claim])[-1])
        start, stop = int(starts[claim]), int(min(stops[claim], stops[other]))
        for mine, his in ((claim, other), (other, claim)):
            (name, log, _), (other_name, _, _) = _locate_claim(subject, mine), _locate_claim(subject, his)
            log.add(table.code, "error", f"blocks {start} to {stop - 1} belong to {name} and to {other_name}")


def _locate_claim(subject: Subject, claim: int) -> tuple[str, FindingLog, bool]:
    """Return the owner of a claim, the log at its extent, and whether a record makes the claim, not the volume."""
    claims, parts = list_claims(subject)
    number, row, slot = (int(claims[name][claim]) for name in ("part", "row", "slot"))
    extents = parts[number]
    return extents.fork + extents.name(row), extents.at(row, slot, "start_block"), extents.file_id is not None


def check_allocation(subject: Subject) -> None:
    """Check that claimed blocks are in use in the allocation file, and that blocks in use are claimed."""
    claims, _ = list_claims(subject)
    starts, stops, total = claims["start"], claims["stop"], int(subject.volume.header.num_blocks)
    # The next write may overwrite claimed blocks that are marked free; unclaimed blocks in use are only wasted.
    claimed = arrays.runs_of(starts, stops - starts)
    free = arrays.runs_of(subject.contents.free_starts, subject.contents.free_counts)
    # The allocation file may have no bits for the last blocks.
    fork = subject.contents.special[int(CNID.allocation_file)]
    num_mapped = 8 * min(fork.logical_size_bytes, fork.num_blocks * subject.volume.block_size_bytes)
    used = arrays.subtract(np.array([[0, min(total, num_mapped)]], np.int64), free)
    unclaimed = arrays.subtract(used, claimed)
    lost = set(unclaimed[:, 1].tolist())
    for start, stop in _list_cases(subject, "block-claimed-free", arrays.intersect(claimed, free)):
        claim = int(np.flatnonzero((starts <= start) & (stops > start))[0])
        owner, own, is_of_record = _locate_claim(subject, claim)
        log, blocks = _locate_bits(subject, start, stop)
        # If as many unclaimed blocks are in use, the extent is wrong, not the bits.
        if stop - start in lost and is_of_record:
            log = own
        verb = "belongs" if stop - start == 1 else "belong"
        others = "is" if stop - start == 1 else "are"
        log.add("block-claimed-free", "error", f"{blocks}, {verb} to {owner} but {others} free")
    for start, stop in _list_cases(subject, "block-unclaimed", unclaimed):
        log, blocks = _locate_bits(subject, start, stop)
        verb = "is in use but belongs" if stop - start == 1 else "are in use but belong"
        log.add("block-unclaimed", "warning", f"{blocks}, {verb} to nothing that was read")


def _list_cases(subject: Subject, code: str, runs: I64) -> list[tuple[int, int]]:
    """Return the start and end of the first runs of a kind."""
    table = subject.table(code, "allocation file", lambda row, _: _locate_bits(subject, int(runs[row, 0]), 0)[0])
    return [(int(runs[row, 0]), int(runs[row].sum())) for row in table.cases(np.arange(len(runs)))]


def _locate_bits(subject: Subject, start: int, stop: int) -> tuple[FindingLog, str]:
    """Bind the log to the bits of blocks in the allocation file, and describe the blocks with their address."""
    volume = subject.volume
    fork = subject.contents.special[int(CNID.allocation_file)]
    at = locate_byte(volume, fork, start // 8)
    byte = volume.image_offset + start * volume.block_size_bytes
    which = f"block {start}" if stop - start == 1 else f"blocks {start} to {stop - 1}"
    return volume.log.at("allocation file", at), f"{which}, from byte {byte:,} of the image"


FAR_ENCODINGS: Final = {140: 49, 152: 48, 126: 0}
"""Bits of text encodings whose numbers are too large to be bits (TN1150, "Volume Header", encodingsBitmap).

126 is Unicode, which macOS uses for names that fit no other encoding; it shares the bit of Roman.
"""

ENCODINGS: Final = frozenset({*range(39), *FAR_ENCODINGS})
"""Numbers of the Mac's text encodings (fsck_hfs: ValidMacEncoding)."""

HEADER: Final = records.VOLUME_HEADER
_HALF: Final = "is half empty, or follows an empty one"
_CLUMPS: Final = (HEADER.len_rsrc_clump, HEADER.len_data_clump)
_SPECIAL_CLUMPS: Final = (
    HEADER.allocation_file.len_clump,
    HEADER.extents_file.len_clump,
    HEADER.catalog_file.len_clump,
    HEADER.attributes_file.len_clump,
)


def make_volume_header_rules(subject: Subject) -> tuple[FieldRule, ...]:
    """Declare the rules of the volume header (TN1150, Volume Header; fsck_hfs).

    Which errors of fsck_hfs: E_InvalidClumpSize of clumps, else E_VolumeHeaderDamaged.
    """
    volume, overflow, header = subject.volume, subject.overflow, subject.volume.header
    size, num_blocks, copy = volume.block_size_bytes, int(header.num_blocks), alternate_header(volume)
    has_bad_blocks = overflow is not None and bool((overflow["key.file_id"] == CNID.bad_block_file).any())
    encodings = 0 if subject.catalog is None else _collect_encodings(subject.catalog)
    whole = Want(lambda found: found % found.dtype.type(size) == 0, f"a multiple of {size}")
    # On a volume of few blocks, a quarter is less than one block, the smallest clump.
    quarter = at_most(max(num_blocks // 4, 1) * size)
    grows = NOT_ZERO if header.attributes_file.num_blocks else None
    inside = Want(lambda found: found < num_blocks, f"less than {num_blocks}")
    date = None if copy is None else equals(int(copy.create_date))
    spared = bits_set(int(grammar.HfsplusVolume.VolumeAttribute.spared_blocks)) if has_bad_blocks else None
    version = None
    if not any(item.code == "version-unknown" for item in volume.log.findings):
        version = equals(5 if volume.is_hfsx else 4)
    return (
        # fsck_hfs uses the copy if the dates differ.
        *rules(
            "alternate-header-differs",
            (HEADER.create_date, date, "the date that identifies the volume differs from its copy's"),
            level="error",
        ),
        *rules(
            "clump-size-invalid",
            *((field, whole, "a clump is not a whole number of blocks") for field in (*_CLUMPS, *_SPECIAL_CLUMPS)),
            *((field, NOT_ZERO, "files would not grow") for field in _CLUMPS),
            # For the other special files, a clump of zero is ignored.
            (HEADER.attributes_file.len_clump, grows, "the attributes file would not grow"),
            *((field, at_most(1 << 20), "a clump is larger than drivers make them") for field in _CLUMPS),
            *((field, quarter, "a clump is more than a quarter of the volume") for field in _SPECIAL_CLUMPS),
            level="error",
        ),
        *rules(
            "volume-field-invalid",
            # fsck_hfs looks for extents of that file only if this bit is set (SVerify1.c, BadBlockFileExtentCheck), and
            # would otherwise give their blocks to files.
            (HEADER.attributes, spared, "there are bad blocks that the header denies"),
            (HEADER.version, version, "the version is not that of the signature"),
            (HEADER.next_allocation, inside, "a block that the volume does not have"),
            level="error",
        ),
        *rules(
            "encodings-differ",
            (HEADER.encodings_bitmap, bits_set(encodings), "a name is in an encoding without bit"),
            level="error",
        ),
    )


def check_volume_fields(subject: Subject) -> None:
    """Check the fields of the volume header against its copy, its blocks and the names."""
    volume = subject.volume
    declared = make_volume_header_rules(subject)
    if any(item.code == "volume-header-invalid" for item in volume.log.findings):
        return
    data = np.frombuffer(read_at(volume.source, HEADER_OFFSET, HEADER.width, "volume header"), np.uint8)
    at = lambda _, plus: volume.log.at("volume header", HEADER_OFFSET + plus)  # noqa: E731
    check_fields(HEADER, data, np.zeros(1, np.int64), declared, at)


def _collect_encodings(catalog: CatalogRecords) -> int:
    encodings = np.unique(np.concatenate([catalog.files["text_encoding"], catalog.folders["text_encoding"]])).tolist()
    # A number without an encoding has no bit, and is reported at its place.
    return sum(1 << bit for bit in {FAR_ENCODINGS.get(number, number) for number in encodings if number in ENCODINGS})


def check_unused_extents(subject: Subject) -> None:
    """Check that unused extents are zero and follow all others (fsck_hfs: E_ExtEnt)."""
    for cnid, name in SPECIAL_FILES.items():
        fork = getattr(subject.volume.header, name)
        starts = np.array([[int(extent.start_block) for extent in fork.extents]])
        counts = np.array([[int(extent.num_blocks) for extent in fork.extents]])
        for _, slot, field in _find_odd_extents(starts, counts):
            plus = slot * records.HFSPLUS_VOLUME_EXTENT_DESCRIPTOR.width
            at = HEADER_OFFSET + HEADER.offset_of(f"{name}.extents.{field}") + plus
            message = f"extent {slot} of the file of CNID {cnid} {_HALF}"
            subject.volume.log.at("volume header", at).add("extents-invalid", "error", message)
    for extents in list_extents(subject):
        counts = extents.counts
        if extents.num_blocks is not None:
            odd = _find_odd_extents(extents.starts, counts, extents.num_blocks > counts.sum(axis=1, dtype=np.int64))
        elif extents.noun == OVERFLOW_RECORDS:
            # The check of overflow records reports unused extents before a used one.
            odd = [each for each in _find_odd_extents(extents.starts, counts) if not counts[each[0], each[1] :].any()]
        else:
            continue
        for case in extents.table(subject, "extents-invalid").cases(np.arange(len(odd))):
            row, slot, field = odd[case]
            log = extents.at(row, slot, field)
            if extents.num_blocks is not None:
                log.add("extents-invalid", "error", f"extent {slot} of {extents.name(row)} {_HALF}")
            else:
                log.add("extents-invalid", "error", f"extent {slot} has a start but no blocks", expected=0)


def _find_odd_extents(
    starts: I64 | U32, counts: I64 | U32, is_lacking: Mask | None = None
) -> list[tuple[int, int, str]]:
    """Find the first extent of each row with a start but no blocks, or after an empty one: row, slot and field.

    If the fork counts more blocks than its extents hold, an extent with a start lacks its blocks.
    """
    half = (starts != 0) & (counts == 0)
    behind = np.zeros(counts.shape, np.bool_)
    behind[:, 1:] = (counts[:, 1:] > 0) & (counts[:, :-1] == 0)
    odd = half | behind
    rows = np.flatnonzero(odd.any(axis=1))
    slots = odd.argmax(axis=1)[rows]
    has_start = half[rows, slots] if is_lacking is None else half[rows, slots] & ~is_lacking[rows]
    fields = np.where(has_start, "start_block", "num_blocks")
    return list(zip(rows.tolist(), slots.tolist(), fields.tolist(), strict=True))

"""Contradictions that a scan looks for: in a container, and between the records of a volume.

Apple File System Reference, Container, Space Manager, Volumes, File-System Objects and Data Streams. Whole columns at
once; a check gives one finding with the number of cases and the place of the first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from layoutscope.arrays import intervals
from layoutscope.arrays.lookup import is_strictly_ascending, match
from layoutscope.filesystems.apfs.check.names import compare_names
from layoutscope.filesystems.apfs.check.subject import Report
from layoutscope.filesystems.apfs.container.regions import as_runs
from layoutscope.filesystems.apfs.store.verify import object_header, report_damaged
from layoutscope.filesystems.apfs.volume.witnesses import (
    DECLARED,
    inodes_by_kind,
    is_converted,
    is_deleted,
    times_listed,
)
from layoutscope.findings import Contradiction
from layoutscope.ondisk import grammar
from layoutscope.ondisk.records import CHECKPOINT_MAP_HEAD

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.filesystems.apfs.container.container import Container
    from layoutscope.filesystems.apfs.container.parts import ContainerParts
    from layoutscope.filesystems.apfs.container.spaceman import Space
    from layoutscope.filesystems.apfs.store.fsrecords import Columns
    from layoutscope.filesystems.apfs.volume.parts import VolumeParts
    from layoutscope.findings import Level

NUM_CHILDREN = "val.inode_val_fixed.num_children_or_links"
ENTRY_TYPE_SHIFT = 12
"""A directory record's type is the format bits of a mode, shifted as in ``IFTODT`` of POSIX."""


def compare_volume(parts: VolumeParts, slot: int) -> None:
    """Run all checks of a volume; findings go to its own list.

    Nothing is checked where records are missing: everything that follows from that would be found again.
    """
    check_identity(parts, slot)
    report = Report(parts.log, parts.fs.nodes)
    # What a hash says of a name stands in the same record: it holds whatever else is lost.
    compare_names(parts, report, plain_alone=not parts.log.has_errors)
    if parts.is_locked or parts.log.has_errors:
        return
    check_counts(parts)
    check_links(parts, report)
    check_streams(parts, report)
    check_attributes(parts, report)


def check_counts(parts: VolumeParts) -> None:
    """Compare the superblock's counts with the inodes and with the blocks that the volume uses."""
    superblock, inodes = parts.state.superblock, parts.fs.records.get("inode")
    if "format" not in inodes:
        return
    for what, found in inodes_by_kind(inodes).items():
        _compare(parts, f"counts other {what} than the volume holds", found, DECLARED[what], tells_losses=True)
    if parts.view == "live":
        # Only the live superblock counts what is there now: the copy that a snapshot keeps is of the snapshot's time.
        snapshots = len(parts.snapshots)
        _compare(parts, "counts other snapshots than the volume holds", snapshots, "num_snapshots", tells_losses=True)
    if parts.view == "live":
        # Superblocks and key bag belong to the container.
        foreign = as_runs([item for item in parts.regions if item.type in ("volume-superblock", "volume-keybag")])
        used = intervals.total(intervals.subtract(parts.claimed(parts.state.store.blocks.block_size), foreign))
        _compare(parts, "counts other blocks than the volume uses", used, "num_alloced_blocks")
    last = int(inodes["obj_id"].max(initial=0))
    if last >= superblock.next_obj_id:
        _compare(parts, "gives a next object number that is taken", last + 1, "next_obj_id")


def _compare(parts: VolumeParts, message: str, found: int, field: str, *, tells_losses: bool = False) -> None:
    """Compare a count of the superblock; one that says that something is missing is an error."""
    declared = getattr(parts.state.superblock, field)
    if found != declared:
        is_lost = tells_losses and declared > found
        message = f"{message}: {declared - found:,} are missing" if is_lost else message
        log = parts.state.at_superblock(field)
        log.add("count-differs", "error" if is_lost else "warning", message, expected=found, found=declared)


def check_links(parts: VolumeParts, report: Report) -> None:
    """Compare inodes with the directory records and sibling records that name them."""
    records = parts.fs.records
    inodes, drecs = records.get("inode"), records.get("dir_rec")
    if "format" not in inodes or "file_id" not in drecs:
        return
    kinds = grammar.ApfsInode.ModeFormat
    known = np.isin(inodes["format"], np.array([int(kind) for kind in kinds], np.uint16))
    report.cases(
        ~known, inodes, "inode", Contradiction("record-differs", "its mode is of no kind"), "val.inode_val_fixed.mode"
    )
    _check_children(parts, report, inodes, drecs)
    spot, found = records.find("dir_rec", "inode", "file_id")
    named = spot if found.all() else spot[found]
    _check_link_counts(report, inodes, np.bincount(named, minlength=len(inodes["obj_id"])))
    parents = drecs["obj_id"] if named is spot else drecs["obj_id"][found]
    wrong = ~_is_listed(named, parents, inodes["parent_id"]) & ~is_deleted(inodes)
    # The root and the private directory lie in directory 1, which has entries but no inode that could count them
    # (reference, ROOT_DIR_PARENT).
    is_top = inodes["parent_id"] == int(grammar.ApfsInode.InodeNumber.root_dir_parent)
    unlisted: tuple[tuple[NDArray[np.bool_], Level, str], ...] = (
        (wrong & ~is_top, "warning", "the directory that it names does not list it"),
        (wrong & is_top, "error", "the entry that names it is missing"),
    )
    for where, level, message in unlisted:
        found_there = Contradiction("record-differs", message, level, found=inodes["parent_id"])
        report.cases(where, inodes, "inode", found_there, "val.inode_val_fixed.parent_id")
    wrong = found & (drecs["entry_type"] != inodes["format"][spot] >> ENTRY_TYPE_SHIFT)
    message, field = "entry and inode are of different kinds", "val.drec_val_fixed.flags"
    report.cases(wrong, drecs, "entry of directory", Contradiction("record-differs", message), field)
    _check_siblings(parts, report, inodes, drecs)


def _check_children(parts: VolumeParts, report: Report, inodes: Columns, drecs: Columns) -> None:
    """Directories count their entries; those that count more have lost some."""
    is_directory = inodes["format"] == int(grammar.ApfsInode.ModeFormat.directory)
    entries, counts = times_listed(inodes["obj_id"], drecs["obj_id"]), inodes["num_children_or_links"]
    # hfs_convert leaves numbers that no later change puts right.
    is_moot = is_converted(parts)
    levels: tuple[Level, Level] = ("info", "info") if is_moot else ("error", "warning")
    for wrong, level, message in (
        (entries < counts, levels[0], f"{'' if is_moot else 'entries of it are missing: '}it counts more than it has"),
        (entries > counts, levels[1], "it counts fewer entries than it has"),
    ):
        found = Contradiction("count-differs", message, level, entries, counts)
        report.cases(is_directory & wrong, inodes, "directory", found, NUM_CHILDREN)


def _check_link_counts(report: Report, inodes: Columns, links: NDArray[np.int64]) -> None:
    """Other inodes count the entries that name them, `links`; those that count more have lost some."""
    is_other, counts = inodes["format"] != int(grammar.ApfsInode.ModeFormat.directory), inodes["num_children_or_links"]
    message = "entries that name it are missing: it counts more links than lead to it"
    found = Contradiction("count-differs", message, "error", links, counts)
    report.cases(is_other & (links < counts), inodes, "inode", found, NUM_CHILDREN)
    wrong = is_other & (links > counts) & ~is_deleted(inodes)
    found = Contradiction("count-differs", "it counts fewer links than lead to it", "warning", links, counts)
    report.cases(wrong, inodes, "inode", found, NUM_CHILDREN)


def _is_listed(place: NDArray[np.int64], parent: NDArray[np.uint64], parents: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Which inodes are named by an entry of the directory that they call their parent.

    `place` and `parent` are the inode and the directory of each entry, `parents` what each inode says.
    """
    listed = np.zeros(len(parents), bool)
    listed[place[parent == parents[place]]] = True
    return listed


def _times_named(numbers: NDArray[np.uint64], names: NDArray[np.uint64]) -> NDArray[np.int64]:
    """How many of some references name each of some ascending numbers."""
    spot, found = match(numbers, names)
    return np.bincount(spot[found], minlength=len(numbers))


def _pairs(numbers: NDArray[np.uint64], first: NDArray[Any], second: NDArray[Any]) -> NDArray[np.int64]:
    """One number for each pair of inode numbers; negative where one of them does not exist."""
    one, has_one = match(numbers, first)
    two, has_two = match(numbers, second)
    return np.where(has_one & has_two, one * len(numbers) + two, -1)


def _naming_linked(parts: VolumeParts) -> NDArray[np.int64]:
    """Rows of the entries that name an inode with records of hard links."""
    records = parts.fs.records
    own, known = records.find("sibling_link", "inode", "obj_id")
    spot, found = records.find("dir_rec", "inode", "file_id")
    is_linked = np.zeros(records.count("inode"), bool)
    is_linked[own[known]] = True
    return np.flatnonzero(found & is_linked[spot])


def _check_siblings(parts: VolumeParts, report: Report, inodes: Columns, drecs: Columns) -> None:
    """Each hard link has a record at its inode and one by its own number, which agree."""
    records = parts.fs.records
    links, maps = records.get("sibling_link"), records.get("sibling_map")
    if "parent_id" in links:
        rows = _naming_linked(parts)
        pairs = _pairs(inodes["obj_id"], drecs["file_id"][rows], drecs["obj_id"][rows])
        wrong = ~match(np.sort(pairs[pairs >= 0]), _pairs(inodes["obj_id"], links["obj_id"], links["parent_id"]))[1]
        message, field = "its directory does not list it", "val.sibling_val.fixed.parent_id"
        report.cases(wrong, links, "hard link of inode", Contradiction("record-differs", message), field)
        _check_linked_names(report, links, drecs)
    if "file_id" not in maps or "sibling_id" not in links:
        return
    order = np.argsort(links["sibling_id"], kind="stable")
    spot, found = match(links["sibling_id"][order], maps["obj_id"])
    wrong = ~found | (links["obj_id"][order][spot] != maps["file_id"])
    message, field = "its inode does not know it", "val.sibling_map_val.file_id"
    report.cases(wrong, maps, "hard link", Contradiction("record-differs", message, found=maps["file_id"]), field)


def _check_linked_names(report: Report, links: Columns, drecs: Columns) -> None:
    """The name of a hard link stands in its directory and at its inode."""
    rows = np.flatnonzero(drecs["sibling_id"]) if "sibling_id" in drecs else np.empty(0, np.int64)
    if not len(rows) or "name" not in links:
        return
    order = np.argsort(links["sibling_id"], kind="stable")
    spot, found = match(links["sibling_id"][order], drecs["sibling_id"][rows])
    rows, link = rows[found], order[spot[found]]
    here, there = drecs["name"].text().take(rows).raw(), links["name"].text().take(link).raw()
    wrong = np.zeros(len(drecs["obj_id"]), bool)
    wrong[rows] = [one != other for one, other in zip(here, there, strict=True)]
    message, field = "its hard link has another name", "key.drec_key.hdr"
    report.cases(wrong, drecs, "entry of directory", Contradiction("record-differs", message, "error"), field)


def check_attributes(parts: VolumeParts, report: Report) -> None:
    """An attribute is embedded or has a stream."""
    xattrs = parts.fs.records.get("xattr")
    if "is_embedded" in xattrs:
        wrong = xattrs["is_embedded"] == xattrs["is_stream"]
        message, field = "it is not either embedded or streamed", "val.xattr_val.fixed.flags"
        report.cases(wrong, xattrs, "attribute of", Contradiction("record-differs", message), field)


def check_identity(parts: VolumeParts, slot: int) -> None:
    """Compare the superblock with its place in the container and with its own flags."""
    state = parts.state
    superblock, blocks = state.superblock, state.store.blocks
    roles = [int(role) for role in grammar.ApfsVolume.VolumeRole]
    encrypted = int(state.omap.is_encrypted.sum()) if superblock.is_unencrypted else 0
    odd = int((state.omap.size_bytes[~state.omap.is_deleted] % blocks.block_size != 0).sum())
    empty = int((state.omap.size_bytes[~state.omap.is_deleted] == 0).sum())
    role = superblock.role if superblock.role in roles else "a known role"
    for message, expected, found, field in (
        ("stands in another slot", slot, superblock.fs_index, "fs_index"),
        ("is younger than its container", state.xid, max(superblock.hdr.xid, state.xid), "hdr.xid"),
        ("has an unknown role", role, superblock.role, "role"),
        ("is not encrypted, but its object map says encrypted", 0, encrypted, "fs_flags"),
        ("has an object map with impossible sizes", 0, odd + empty, "omap_oid"),
    ):
        if expected != found:
            state.at_superblock(field).add("superblock-differs", "warning", message, expected=expected, found=found)


def check_streams(parts: VolumeParts, report: Report) -> None:
    """Compare data streams with the inodes and attributes that own them."""
    records = parts.fs.records
    inodes, xattrs, streams = records.get("inode"), records.get("xattr"), records.get("dstream_id")
    if "has_dstream" not in inodes:
        return
    owners = inodes["private_id"][inodes["has_dstream"]]
    others = xattrs["stream_id"][xattrs["stream_id"] != 0] if "stream_id" in xattrs else owners[:0]
    if not len(others) and _is_one_to_one(owners, streams):
        return
    owners = np.concatenate([owners, others])
    if "refcnt" in streams:
        users = _times_named(streams["obj_id"], owners)
        wrong = users != streams["refcnt"].astype(np.int64)
        message, field, found = "it counts other users than it has", "val.dstream_id_val.refcnt", streams["refcnt"]
        report.cases(
            wrong, streams, "data stream", Contradiction("count-differs", message, expected=users, found=found), field
        )
    lacking = inodes["has_dstream"] & ~records.find("inode", "dstream_id", "private_id")[1]
    message, field = "its data stream does not exist", "val.inode_val_fixed.private_id"
    report.cases(lacking, inodes, "inode", Contradiction("record-differs", message, found=inodes["private_id"]), field)


def _is_one_to_one(owners: NDArray[np.uint64], streams: Columns) -> bool:
    """Tell whether each stream has one owner and says so, and each owner its stream."""
    is_same = is_strictly_ascending(owners) and np.array_equal(owners, streams["obj_id"])
    return bool(is_same and "refcnt" in streams and (streams["refcnt"] == 1).all())


def compare_container(container: Container, parts: ContainerParts) -> None:
    """Run all checks of a container; findings go to its own log."""
    check_numbers(container)
    check_maps(container)
    check_newer(container)
    if parts.space is not None:
        check_queue_counts(container, parts.space)
        check_space_blocks(container, parts)


def check_numbers(container: Container) -> None:
    """The next transaction and object number are not taken."""
    superblock, code = container.superblock, "superblock-differs"
    if superblock.next_xid <= container.xid:
        log, expected = container.at_superblock("next_xid"), f"more than {container.xid}"
        message = "the next transaction is not younger than this one"
        log.add(code, "warning", message, expected=expected, found=superblock.next_xid)
    # Ephemeral and virtual objects are numbered in one sequence; physical ones have their addresses for numbers.
    highest = max([*container.checkpoint.ephemerals, int(container.omap.oid.max(initial=0))])
    if superblock.next_oid <= highest:
        log, expected = container.at_superblock("next_oid"), f"more than {highest}"
        log.add(code, "warning", "the next object number is taken", expected=expected, found=superblock.next_oid)


def check_maps(container: Container) -> None:
    """Mappings say what lies where they lead, and the last map of a checkpoint, and no other, says that it is."""
    blocks, paddrs = container.blocks, np.array(container.checkpoint.map_paddrs, np.uint64)
    if len(paddrs):
        data = blocks.read(paddrs, blocks.block_size).reshape(-1)
        starts = np.arange(len(paddrs), dtype=np.int64) * blocks.block_size
        heads = container.decoder.columns(CHECKPOINT_MAP_HEAD, data, starts, (CHECKPOINT_MAP_HEAD.is_last,))
        if heads["is_last"].tolist() != [0] * (len(paddrs) - 1) + [1]:
            message = "the checkpoint's last map, and no other, must be marked as the last"
            container.log.at("checkpoint map", int(paddrs[-1])).add("checkpoint-invalid", "warning", message)
    for item in container.checkpoint.ephemerals.values():
        head = object_header(blocks.read_object(item.paddr, blocks.block_size), blocks.at(item.paddr))
        wanted, found = (item.type, item.subtype), (int(head.type), int(head.subtype))
        if found != wanted:
            log = container.log.at(f"ephemeral object {item.oid}", item.paddr)
            message = "the checkpoint map says another type"
            log.add("checkpoint-invalid", "warning", message, expected=wanted, found=found)


def check_newer(container: Container) -> None:
    """An older checkpoint than the last one committed is read only where that one is lost."""
    lost = container.younger
    if lost is not None:
        message = f"transaction {lost.xid} cannot be read: {lost.why}; {container.xid} is shown"
        log = container.log.at("checkpoint", lost.paddr)
        log.add("checkpoint-invalid", "error", message, expected=lost.xid, found=container.xid)


def check_queue_counts(container: Container, space: Space) -> None:
    """Each free queue holds as many blocks as it counts, all of them inside the container."""
    log, code = container.log.at("space manager"), "spaceman-invalid"
    for number, queue in enumerate(space.header.free_queues):
        found = space.queued.get(number, 0)
        if found != queue.num_blocks:
            message = f"free queue {number} counts other blocks than it holds"
            log.add(code, "warning", message, expected=found, found=queue.num_blocks)
    limit = container.device_blocks[0]
    for item in space.pending:
        if item.paddr < container.blocks.tier2_mark and item.paddr + item.num_blocks > limit:
            log.add(code, "warning", f"block {item.paddr} waits to become free, but lies outside")


def check_space_blocks(container: Container, parts: ContainerParts) -> None:
    """Checksums of chunk-info blocks and of blocks with their addresses."""
    wanted = [item for item in parts.regions if item.type in ("spaceman-cib", "spaceman-cab")]
    paddrs = np.array([item.paddr for item in wanted], np.uint64)
    readable = container.blocks.readable(paddrs, container.blocks.block_size)
    report_damaged(container.store, paddrs[readable], ["chunk information"] * int(readable.sum()))

"""Comparison of a volume's records with each other: inodes, entries, hard links, attributes, streams, directories.

Apple File System Reference, File-System Objects, Sibling Map Keys and Data Streams. Rules that only apfsck has were
confirmed on volumes made by macOS.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope.checks.apfs.namehashes import hash_texts
from layoutscope.checks.apfs.subject import get_extent_nodes
from layoutscope.filesystems.apfs.contents import FORMAT_SHIFT, is_converted, is_deleted, times_listed
from layoutscope.filesystems.apfs.fsrecords import to_text
from layoutscope.structs import grammar
from layoutscope.structs.arrays import index_of, is_strictly_ascending, match

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.checks.apfs.subject import Reporter, Subject
    from layoutscope.filesystems.apfs.contents import VolumeParts
    from layoutscope.filesystems.apfs.fsrecords import Columns
    from layoutscope.findings import Level
    from layoutscope.structs.arrays import I64, Mask


FIELD: Final = grammar.ApfsXfields.InodeField
FLAG: Final = grammar.ApfsInode.InodeFlag
FORMAT: Final = grammar.ApfsInode.ModeFormat
HAS_PURGEABLE_FLAGS: Final = 0x0200_0000
"""A flag that is not in the reference; apfsck knows it, and macOS sets it together with purgeable flags."""


_NUMBER: Final = grammar.ApfsInode.InodeNumber
_FLAGS: Final = "val.inode_val_fixed.internal_flags"
_PARENT: Final = "val.inode_val_fixed.parent_id"
_STREAM: Final = "val.inode_val_fixed.private_id"


def check_inode_notes(subject: Subject, parts: VolumeParts) -> None:
    """Compare the noted properties of inodes with entries, attributes, extents and streams."""
    batches, inodes = subject.inodes.get((parts.state.number, parts.view)), parts.fs.get("inode")
    if not batches:
        return
    notes = {name: np.concatenate(values) for name, values in batches.items()}
    spot, known = match(inodes["obj_id"], notes["obj_id"])
    rows, notes = spot[known], {name: values[known] for name, values in notes.items()}
    records, report = parts.fs, subject.reporter(parts.fs.nodes)
    drecs, streams, xattrs = records.get("dir_rec"), records.get("dstream_id"), records.get("xattr")
    numbers, flags, gone = inodes["obj_id"][rows], notes["flags"], is_deleted(inodes)[rows]

    def add(wrong: Mask, message: str, field: str, level: Level = "warning") -> None:
        """Report noted inodes."""
        chosen = np.zeros(len(inodes["obj_id"]), bool)
        chosen[rows[wrong]] = True
        report(inodes, "inode")(chosen, message, field, level=level)

    def have_attribute(name: bytes) -> Mask:
        """Mark the inodes that have an attribute."""
        return index_of(xattrs["obj_id"][xattrs["name"].equal_to(name)]).find(numbers)[1]

    is_same, is_listed = _compare_entry_names(parts, inodes, rows, notes["name"])
    wrong = is_listed & ~is_same & ~gone
    add(wrong & (notes["name"] != 0), "the name in it is not that of its entry", _PARENT)
    add(wrong & (notes["name"] == 0), "it does not have the name of its entry", _PARENT)
    # Pre-releases of macOS 10.13 did not set these flags; their volumes have no maps of hard links.
    is_early = not int(parts.state.superblock.features) & int(grammar.ApfsVolume.VolumeFeature.hardlink_map_records)
    for flag, name, what in (
        (int(FLAG.has_rsrc_fork), b"com.apple.ResourceFork", "a resource fork"),
        (int(FLAG.has_security_ea), b"com.apple.system.Security", "a list of access rights"),
    ):
        message = f"its flags and its attributes disagree about {what}"
        add((flags & flag != 0) != have_attribute(name), message, _FLAGS, "info" if is_early else "warning")
    has_info = notes["kinds"] >> np.uint32(FIELD.finder_info) & np.uint32(1) != 0
    wrong = (flags & int(FLAG.has_finder_info) != 0) != (has_info | have_attribute(b"com.apple.FinderInfo"))
    add(wrong, "its flags and its attributes disagree about information of the Finder", _FLAGS)
    wrong = inodes["is_compressed"][rows].astype(bool) != have_attribute(b"com.apple.decmpfs")
    message = "it is called compressed and has no header of compression, or the other way round"
    add(wrong, message, "val.inode_val_fixed.bsd_flags")
    wrong = (inodes["format"][rows] == int(FORMAT.symlink)) != have_attribute(b"com.apple.fs.symlink")
    add(wrong, "it is a symbolic link without a target, or has one and is none", "val.inode_val_fixed.mode")
    # A volume without any entries or extents has lost them: the tree of a snapshot's extents may be unreadable.
    if len(drecs["obj_id"]):
        listed = drecs["file_id"][drecs["obj_id"] == np.uint64(_NUMBER.purgeable_dir)]
        wrong = (flags & int(FLAG.is_purgeable) != 0) != index_of(listed).find(numbers)[1]
        add(wrong, "its flags and the directory of what may be purged disagree", _FLAGS)
    extents = parts.file_extents()
    if len(extents["obj_id"]):
        wrong = _sum_holes(extents, inodes["private_id"][rows]) != notes["sparse"]
        add(wrong & ~gone, "it counts other sparse bytes than its holes have", _STREAM)
    spot, known = records.find("inode", "dstream_id", "private_id")
    shared = known & (streams["refcnt"][spot] > 1) if len(streams["refcnt"]) else known
    wrong = shared[rows] & (flags & int(FLAG.was_cloned | FLAG.was_ever_cloned) == 0)
    add(wrong, "its stream has other users, but it was never cloned", _FLAGS)
    _check_numbers(parts, report, inodes)


def _sum_holes(extents: Columns, streams: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Sum the bytes in the holes of each stream."""
    holes, index = np.flatnonzero(extents["paddr"] == 0), index_of(streams)
    sparse = np.zeros(len(streams), np.uint64)
    spot, known = index.find(extents["obj_id"][holes])
    np.add.at(sparse, spot[known], extents["len_extent"][holes][known].astype(np.uint64))
    # Clones share a stream; the first one is found.
    return sparse[index.find(streams)[0]]


def _check_numbers(parts: VolumeParts, report: Reporter, inodes: Columns) -> None:
    """Check the numbers of inodes and hard links: both come from one sequence, whose first numbers are reserved."""
    records, first, stop = parts.fs, np.uint64(_NUMBER.min_user), parts.state.superblock.next_obj_id
    special = np.array([int(_NUMBER.root_dir), int(_NUMBER.private_dir), int(_NUMBER.snap_dir)], np.uint64)
    wrong = (inodes["obj_id"] < first) & ~np.isin(inodes["obj_id"], special)
    report(inodes, "inode")(wrong, "its number is reserved", "key.j_key.obj_id_and_type")
    links = records.get("sibling_link")
    number = links["sibling_id"]
    wrong = (number < first) | (number >= np.uint64(stop)) | records.index("inode").find(number)[1]
    message, field = "its number is reserved, free, or that of an inode", "key.sibling_key.sibling_id"
    report(links, "hard link of inode")(wrong, message, field, found=number)


def _compare_entry_names(parts: VolumeParts, inodes: Columns, rows: I64, sums: NDArray[np.uint64]) -> tuple[Mask, Mask]:
    """Mark the noted inodes with the name of an entry in their parent directory, and those with such an entry."""
    spot, found = parts.fs.find("dir_rec", "inode", "file_id")
    drecs = parts.fs.get("dir_rec")
    place = np.full(len(inodes["obj_id"]), -1, np.int64)
    place[rows] = np.arange(len(rows))
    entries = np.flatnonzero(found & (inodes["parent_id"][spot] == drecs["obj_id"]) & (place[spot] >= 0))
    data, start, length = drecs["name"].pieces()
    own, here = hash_texts(data, start[entries], length[entries]), place[spot[entries]]
    is_same, is_listed = np.zeros(len(sums), bool), np.zeros(len(sums), bool)
    is_same[here[own == sums[here]]] = True
    is_listed[here] = True
    return is_same, is_listed


NUM_CHILDREN = "val.inode_val_fixed.num_children_or_links"


def check_links(subject: Subject, parts: VolumeParts) -> None:
    """Compare inodes with the directory records and sibling records that lead to them."""
    records, report = parts.fs, subject.reporter(parts.fs.nodes)
    inodes, drecs = records.get("inode"), records.get("dir_rec")
    if not (len(inodes["obj_id"]) and len(drecs["obj_id"])):
        return
    add, known = report(inodes, "inode"), np.isin(inodes["format"], np.array([int(kind) for kind in FORMAT], np.uint16))
    add(~known, "its mode is of no kind", "val.inode_val_fixed.mode")
    spot, found = records.find("dir_rec", "inode", "file_id")
    target = spot if found.all() else spot[found]
    _check_link_counts(parts, report, inodes, drecs, np.bincount(target, minlength=len(inodes["obj_id"])))
    parents = drecs["obj_id"] if target is spot else drecs["obj_id"][found]
    # An inode is listed if one of its entries is in the directory that it names.
    is_listed = np.zeros(len(inodes["obj_id"]), bool)
    is_listed[target[parents == inodes["parent_id"][target]]] = True
    wrong = ~is_listed & ~is_deleted(inodes)
    # The root and the private directory are in directory 1, which has entries but no inode (reference,
    # ROOT_DIR_PARENT).
    is_top, parents = inodes["parent_id"] == int(_NUMBER.root_dir_parent), inodes["parent_id"]
    add(wrong & ~is_top, "the directory that it names does not list it", _PARENT, found=parents)
    add(wrong & is_top, "the entry that names it is missing", _PARENT, level="error", found=parents)
    wrong = found & (drecs["entry_type"] != inodes["format"][spot] >> FORMAT_SHIFT)
    message, field = "entry and inode are of different kinds", "val.drec_val_fixed.flags"
    report(drecs, "entry of directory")(wrong, message, field)
    _check_siblings(parts, report, inodes, drecs)


def _check_link_counts(parts: VolumeParts, report: Reporter, inodes: Columns, drecs: Columns, links: I64) -> None:
    """Check that directories count their entries, and other inodes the entries that name them (`links`)."""
    # A higher count means lost entries.
    is_directory = inodes["format"] == int(grammar.ApfsInode.ModeFormat.directory)
    entries, counts = times_listed(inodes["obj_id"], drecs["obj_id"]), inodes["num_children_or_links"]
    # hfs_convert leaves wrong counts, which no later change corrects.
    is_moot = is_converted(parts)
    lost, odd = ("info", "info") if is_moot else ("error", "warning")
    missing = "" if is_moot else "entries of it are missing: "
    add = partial(report(inodes, "directory", "count-differs"), expected=entries, found=counts)
    add(is_directory & (entries < counts), f"{missing}it counts more than it has", NUM_CHILDREN, level=lost)
    add(is_directory & (entries > counts), "it counts fewer entries than it has", NUM_CHILDREN, level=odd)
    add = partial(report(inodes, "inode", "count-differs"), expected=links, found=counts)
    message = "entries that name it are missing: it counts more links than lead to it"
    add(~is_directory & (links < counts), message, NUM_CHILDREN, level="error")
    wrong = ~is_directory & (links > counts) & ~is_deleted(inodes)
    add(wrong, "it counts fewer links than lead to it", NUM_CHILDREN)


def _number_pairs(numbers: NDArray[np.uint64], first: NDArray[Any], second: NDArray[Any]) -> I64:
    """Return one number for each pair of inode numbers; negative if one of them does not exist."""
    first_row, has_first = match(numbers, first)
    second_row, has_second = match(numbers, second)
    return np.where(has_first & has_second, first_row * len(numbers) + second_row, -1)


def _check_siblings(parts: VolumeParts, report: Reporter, inodes: Columns, drecs: Columns) -> None:
    """Check that the two records of each hard link, by inode and by link number, agree."""
    records = parts.fs
    links, maps = records.get("sibling_link"), records.get("sibling_map")
    if not len(links["obj_id"]):
        return
    own, known = records.find("sibling_link", "inode", "obj_id")
    spot, found = records.find("dir_rec", "inode", "file_id")
    is_linked = np.zeros(records.count("inode"), bool)
    is_linked[own[known]] = True
    # The entries that lead to an inode with hard links.
    rows = np.flatnonzero(found & is_linked[spot])
    pairs = _number_pairs(inodes["obj_id"], drecs["file_id"][rows], drecs["obj_id"][rows])
    wanted = _number_pairs(inodes["obj_id"], links["obj_id"], links["parent_id"])
    wrong = ~match(np.sort(pairs[pairs >= 0]), wanted)[1]
    message, field = "its directory does not list it", "val.sibling_val.fixed.parent_id"
    report(links, "hard link of inode")(wrong, message, field)
    _check_linked_names(report, links, drecs)
    order = np.argsort(links["sibling_id"], kind="stable")
    spot, found = match(links["sibling_id"][order], maps["obj_id"])
    wrong = ~found | (links["obj_id"][order][spot] != maps["file_id"])
    message, field = "its inode does not know it", "val.sibling_map_val.file_id"
    report(maps, "hard link")(wrong, message, field, found=maps["file_id"])


def _check_linked_names(report: Reporter, links: Columns, drecs: Columns) -> None:
    """Check that each hard link has the same name in its directory and in its sibling record."""
    rows = np.flatnonzero(drecs["sibling_id"])
    if not len(rows):
        return
    order = np.argsort(links["sibling_id"], kind="stable")
    spot, found = match(links["sibling_id"][order], drecs["sibling_id"][rows])
    rows, link = rows[found], order[spot[found]]
    names, link_names = to_text(drecs["name"]).take(rows).raw(), to_text(links["name"]).take(link).raw()
    wrong = np.zeros(len(drecs["obj_id"]), bool)
    wrong[rows] = [name != link_name for name, link_name in zip(names, link_names, strict=True)]
    add = report(drecs, "entry of directory")
    add(wrong, "its hard link has another name", "key.drec_key.hdr", level="error")


def check_attributes(subject: Subject, parts: VolumeParts) -> None:
    """Check that each attribute is either embedded or has a stream."""
    xattrs = parts.fs.get("xattr")
    wrong = xattrs["is_embedded"] == xattrs["is_stream"]
    message, field = "it is not either embedded or streamed", "val.xattr_val.fixed.flags"
    subject.reporter(parts.fs.nodes)(xattrs, "attribute of")(wrong, message, field)


def check_streams(subject: Subject, parts: VolumeParts) -> None:
    """Compare data streams with the inodes and attributes that own them."""
    records, report = parts.fs, subject.reporter(parts.fs.nodes)
    inodes, xattrs, streams = records.get("inode"), records.get("xattr"), records.get("dstream_id")
    if not len(inodes["obj_id"]):
        # All users of the streams are lost.
        return
    owners, others = inodes["private_id"][inodes["has_dstream"]], xattrs["stream_id"][xattrs["stream_id"] != 0]
    # Mostly each stream has exactly one owner and a reference count of 1, and each owner a stream.
    is_same = not len(others) and is_strictly_ascending(owners) and np.array_equal(owners, streams["obj_id"])
    if is_same and (streams["refcnt"] == 1).all():
        return
    spot, found = match(streams["obj_id"], np.concatenate([owners, others]))
    users = np.bincount(spot[found], minlength=len(streams["obj_id"]))
    wrong = users != streams["refcnt"].astype(np.int64)
    add, field = report(streams, "data stream", "count-differs"), "val.dstream_id_val.refcnt"
    add(wrong, "it counts other users than it has", field, expected=users, found=streams["refcnt"])
    lacking = inodes["has_dstream"] & ~records.find("inode", "dstream_id", "private_id")[1]
    report(inodes, "inode")(lacking, "its data stream does not exist", _STREAM, found=inodes["private_id"])


def check_entries(subject: Subject, parts: VolumeParts) -> None:
    """Check that every directory entry leads to an inode."""
    inodes, drecs = parts.fs.get("inode"), parts.fs.get("dir_rec")
    add, found = subject.reporter(parts.fs.nodes)(drecs, "entry of directory", "inode-missing"), drecs["file_id"]
    wrong, field = ~match(inodes["obj_id"], found)[1], "val.drec_val_fixed.file_id"
    add(wrong, "its inode does not exist", field, level="error", found=found)


def check_sibling_links(subject: Subject, parts: VolumeParts) -> None:
    """Check that each hard link has both of its records, and that directory entries name existing links."""
    records, report = parts.fs, subject.reporter(parts.fs.nodes)
    links, maps, drecs = records.get("sibling_link"), records.get("sibling_map"), records.get("dir_rec")
    wrong = ~match(maps["obj_id"], links["sibling_id"])[1]
    message = "no record leads from its number to its inode"
    # Pre-releases of macOS 10.13 wrote none of these records.
    level: Level = "warning" if len(maps["obj_id"]) else "info"
    report(links, "hard link of inode")(wrong, message, "key.sibling_key.sibling_id", level=level)
    found = drecs["sibling_id"]
    wrong = (found != 0) & ~match(np.sort(links["sibling_id"]), found)[1]
    message, field = "it names a hard link that does not exist", "val.drec_val_fixed.file_id"
    report(drecs, "entry of directory")(wrong, message, field, found=found)


def check_stream_sizes(subject: Subject, parts: VolumeParts) -> None:
    """Check that streams are not longer than their extents, and that the allocated sizes match."""
    inodes, extents = parts.fs.get("inode"), parts.file_extents()
    if parts.state.superblock.is_sealed:
        return
    # The keys of extents contain the number of their stream, which may differ from the inode's (reference, private_id).
    last = np.flatnonzero(extents["obj_id"] != np.append(extents["obj_id"][1:], np.uint64(0)))
    ends = (extents["logical_addr"] + extents["len_extent"])[last]
    spot, found = match(extents["obj_id"][last], inodes["private_id"])
    allocated = np.where(found, ends[spot], 0) if len(ends) else np.zeros(len(found), np.uint64)
    has, room, size = inodes["has_dstream"], inodes["alloced_size"], inodes["data_size"]
    add, field = subject.reporter(parts.fs.nodes)(inodes, "inode", "count-differs"), "val.inode_val_fixed.private_id"
    message = "its extents hold other bytes than its stream allocates"
    add(has & (room != allocated), message, field, expected=room, found=allocated)
    # A file whose contents a file provider evicted keeps its size, but allocates nothing.
    wrong = has & (size > room) & ~inodes["is_dataless"]
    add(wrong, "its stream is longer than what it allocates", field, expected=room, found=size)


def check_directories(subject: Subject, parts: VolumeParts) -> None:
    """Check that there is a root directory, and that no directory is its own ancestor."""
    inodes = parts.fs.get("inode")
    if not len(inodes["obj_id"]):
        return
    rows = np.flatnonzero(inodes["format"] == int(grammar.ApfsInode.ModeFormat.directory))
    up, known = match(inodes["obj_id"][rows], inodes["parent_id"][rows])
    top = len(rows)
    step = np.append(np.where(known, up, top), top)
    # More steps of pointer doubling than any chain of directories needs.
    for _ in range(64):
        if (step == top).all():
            break
        step = step[step]
    wrong = np.zeros(len(inodes["obj_id"]), bool)
    wrong[rows[step[:-1] != top]] = True
    subject.reporter(parts.fs.nodes)(inodes, "directory")(wrong, "it is in a directory that is in it", _PARENT)
    if not (inodes["obj_id"] == np.uint64(_NUMBER.root_dir)).any():
        log = subject.log.at(f"inode {int(_NUMBER.root_dir)}", parts.state.paddr)
        log.add("record-differs", "error", "there is no root directory")


def check_lost_inodes(subject: Subject, parts: VolumeParts) -> None:
    """Check that records belong to an existing inode: none may remain of a deleted file."""
    records, report = parts.fs, subject.reporter(parts.fs.nodes)
    inodes = records.get("inode")["obj_id"]
    for kind, key in (("xattr", "xattr_key"), ("dir_rec", "drec_key"), ("sibling_link", "sibling_key")):
        table = records.get(kind)
        # Directory 1 has entries for the root and the private directory, but no inode.
        is_top = table["obj_id"] == int(grammar.ApfsInode.InodeNumber.root_dir_parent)
        wrong = ~match(inodes, table["obj_id"])[1] & ~is_top
        message = "the inode that it belongs to does not exist"
        report(table, f"{kind} of inode")(wrong, message, f"key.{key}.hdr")
    attributes, extents = records.get("xattr"), parts.file_extents()
    streams = np.sort(np.concatenate([records.get("dstream_id")["obj_id"], attributes["stream_id"]]))
    wrong, message = ~match(streams, extents["obj_id"])[1], "the stream that it belongs to does not exist"
    add = subject.reporter(get_extent_nodes(parts))(extents, "extent of data stream")
    add(wrong, message, "key.file_extent_key.hdr")

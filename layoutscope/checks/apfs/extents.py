"""Contradictions between extents, streams and extent references.

Apple File System Reference, Data Streams.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec.structs import replace

from layoutscope.checks.apfs.subject import (
    Report,
    get_extent_nodes,
    list_snapshots_with_logs,
    list_volume_sources,
)
from layoutscope.errors import FormatError
from layoutscope.filesystems.apfs.btree import read_levels
from layoutscope.filesystems.apfs.contents import streams, stretches
from layoutscope.filesystems.apfs.fsrecords import no_records
from layoutscope.filesystems.apfs.snapshots import LIVE, open_snapshot
from layoutscope.filesystems.apfs.verify import hash_objects, read_object
from layoutscope.filesystems.apfs.volume import fs_source, walk_fext_tree, walk_fs_tree
from layoutscope.image.passes import read_together
from layoutscope.structs import arrays, grammar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from layoutscope.checks.apfs.subject import Subject
    from layoutscope.filesystems.apfs.blocks import Blocks
    from layoutscope.filesystems.apfs.btree import ReadNodes
    from layoutscope.filesystems.apfs.contents import VolumeParts
    from layoutscope.filesystems.apfs.fsrecords import Columns
    from layoutscope.filesystems.apfs.source import TreeSource
    from layoutscope.filesystems.apfs.volume import Volume
    from layoutscope.findings import FindingLog


_NO_OBJECT: Final = np.uint64(2**60 - 1)
"""The value in keys of names in place of an object's number (reference, j_snap_name_key_t)."""


def check_snapshot_records(subject: Subject, parts: VolumeParts) -> None:
    """Check that snapshot names, the object map's list and the superblocks agree with the snapshot metadata."""
    _check_superblocks(subject, parts)
    xids = np.array([item.xid for item in parts.snapshots], np.uint64)
    names = parts.snapmeta.records.get("snap_name")
    if "snap_xid" in names:
        report = Report(subject.log, parts.snapmeta.nodes)
        add, found = report.for_table(names, "snapshot name", "snapshot-differs"), names["snap_xid"]
        add(~np.isin(found, xids), "a name leads to no snapshot", "val.snap_name_val.snap_xid", found=found)
        _check_names(parts, report)
    for source in list_volume_sources(subject, parts):
        for batch in read_levels(source) if source.tree == "omap-snapshots" else ():
            _check_listed(subject, batch, xids)


def _check_names(parts: VolumeParts, report: Report) -> None:
    """Check that the key of each name has no object number, and that the name is that of the snapshot's metadata."""
    names, metadata = parts.snapmeta.records.get("snap_name"), parts.snapmeta.records.get("snap_metadata")
    known = dict(zip(metadata["obj_id"].tolist(), metadata["name"].raw(), strict=True)) if "name" in metadata else {}
    pairs = zip(names["snap_xid"].tolist(), names["name"].raw(), strict=True)
    renamed = np.array([known.get(xid, name) != name for xid, name in pairs], bool)
    add = report.for_table(names, "snapshot name", "snapshot-differs")
    add(renamed, "a name is not that in the metadata of its snapshot", "key.snap_name_key.len_name")
    add(names["obj_id"] != _NO_OBJECT, "its key has the number of an object", "key.snap_name_key.hdr")


def _check_listed(subject: Subject, batch: ReadNodes, xids: NDArray[np.uint64]) -> None:
    """Check that each snapshot that the object map lists exists."""
    kind = batch.tree.source.kind
    found = batch.column("key", kind.key_type, kind.key_field)
    for row in np.flatnonzero(~np.isin(found, xids)).tolist() if not batch.level else ():
        node = int(batch.slots.node[row])
        plus = int(batch.slots.key_start[row]) - node * batch.size_bytes
        log = subject.log.at("object map", int(batch.places.paddr[node]), plus=plus)
        message = "the object map lists a snapshot that there is not"
        log.add("snapshot-differs", "warning", message, found=found[row])


def _check_superblocks(subject: Subject, parts: VolumeParts) -> None:
    for snapshot, log in list_snapshots_with_logs(subject, parts, "sblock_oid"):
        if not snapshot.sblock_paddr:
            continue
        try:
            read_object(
                subject.container.blocks, grammar.ApfsVolume.ApfsSuperblock, snapshot.sblock_paddr, snapshot.view
            )
        except FormatError as error:
            message = f"its superblock cannot be used: {error.reason}"
            log.add("snapshot-differs", "error", message, found=snapshot.sblock_paddr)


def check_seals(subject: Subject, parts: VolumeParts) -> None:
    """Check that the hash of a sealed volume's root node matches its integrity metadata."""
    blocks, seal, nodes = subject.container.blocks, parts.state.seal, parts.fs.nodes
    if seal is None or not seal.hash_type or not len(nodes):
        return
    # A node's hash is in its parent; the root has no parent, so its hash is stored outside the tree.
    data = blocks.read(nodes.paddr[:1], int(nodes.size_bytes[0]))
    found = hash_objects(seal.hash_type, data).tobytes()
    if found != seal.root_hash:
        cls, oid = grammar.ApfsSealed.IntegrityMeta, parts.state.superblock.integrity_meta_oid
        meta = read_object(blocks, cls, seal.paddr, "integrity metadata", oid=oid)
        log = subject.log.at("integrity metadata", seal.paddr, plus=int(meta.ofs_root_hash))
        message, stored = "the hash of the root is another", seal.root_hash.hex()
        log.add("seal-broken", "error", message, expected=found.hex(), found=stored)


def check_snapshots(_: Subject, parts: VolumeParts) -> None:
    """Check that snapshot metadata, snapshot names and the object map list the same snapshots."""
    if parts.view != "live":
        return
    xids = sorted(item.xid for item in parts.snapshots)
    names, header = parts.snapmeta.records.get("snap_name"), parts.state.omap_header
    known = parts.state.omap_snapshots
    listed = int(known.num_records[known.level == 0].sum())
    leaves = np.flatnonzero((known.level == 0) & (known.num_records > 0))
    ends = [int(known.first_key_id[leaves[0]]), int(known.last_key_id[leaves[-1]])] if len(leaves) else []
    newest = xids[-1] if xids else 0
    named = sorted(names["snap_xid"].tolist()) if "snap_xid" in names else []
    log = parts.log.at("snapshots", parts.state.superblock.omap_oid)
    for message, expected, found in (
        ("names lead to other transactions than the metadata", str(xids), str(named)),
        ("the object map counts other snapshots", str(len(xids)), str(header.num_snapshots)),
        ("the object map's newest snapshot is another", str(newest), str(header.most_recent_snap)),
        ("the object map lists other snapshots", str(len(xids)), str(listed)),
        ("the object map lists snapshots of other transactions", str(xids[:1] + xids[-1:]), str(ends)),
    ):
        if expected != found:
            log.add("snapshot-differs", "warning", message, expected=expected, found=found)


LENGTH: Final = "val.file_extent_val.len_and_flags"
_REFERENCE: Final = ("extent at block", "reference-differs")
"""Structure name and finding code for extent references."""


def check_shape(subject: Subject, parts: VolumeParts) -> None:
    """Check that extents are whole blocks, follow each other without gaps, and end inside the container."""
    blocks, extents = subject.container.blocks, parts.file_extents()
    if not len(extents["obj_id"]):
        return
    # The view as signed integers changes no bytes.
    length, logical = (extents[name].view(np.int64) for name in ("len_extent", "logical_addr"))
    add = subject.extents(parts).for_table(extents, "extent of data stream", "extent-invalid")
    add(length == 0, "it is empty", LENGTH)
    odd = _are_not_multiples(length, blocks.block_size) | _are_not_multiples(logical, blocks.block_size)
    add(odd, "it is not a whole number of blocks", LENGTH, found=length)
    # Holes have records of their own, so that nothing is left out between two extents of a stream.
    expected = np.zeros(len(length), np.int64)
    np.add(logical[:-1], length[:-1], out=expected[1:])
    expected[1:] *= extents["obj_id"][1:] == extents["obj_id"][:-1]
    message, field = "it does not start where the one before it ends", "key.file_extent_key.logical_addr"
    add((logical != expected) & ~odd, message, field, expected=expected, found=logical)
    # An extent at block 0 is a hole: it has a length, but no blocks.
    device, position = blocks.split(extents["paddr"])
    position += length
    sizes = _get_device_sizes(blocks)
    outside = position > (sizes[device] if device.any() else sizes[0])
    outside |= ~blocks.present(extents["paddr"], 0)
    outside &= extents["paddr"] != 0
    add(outside, "it is outside the image", "val.file_extent_val.paddr", found=extents["paddr"])


def _are_not_multiples(values: NDArray[np.int64], block_size: int) -> NDArray[np.bool_]:
    """Mark the values that are not multiples of the block size; a power of two needs no division."""
    is_power = block_size & (block_size - 1) == 0
    odd: NDArray[np.bool_] = (values & (block_size - 1) if is_power else values % block_size) != 0
    return odd


def _get_device_sizes(blocks: Blocks) -> NDArray[np.int64]:
    """Return the size of each device in bytes; a device without an image has no limit."""
    sizes = [source.size_bytes if source else 2**62 for source in blocks.sources]
    return np.array([*sizes, 2**62], np.int64)


def check_references(subject: Subject, parts: VolumeParts) -> None:
    """Check that blocks have as many extents as their references count; a snapshot's references are in its own tree."""
    physical = _list_references(parts)
    if physical is not None and not parts.snapshots:
        _check_own_references(parts, physical, subject.references(parts))
    elif physical is not None and len(parts.snapshots) == len(parts.snapshot_extents):
        _check_shared_references(parts, subject.log, subject.most)


def _list_references(parts: VolumeParts) -> Columns | None:
    """Return the references of a live state; the table may be empty if all of them are in snapshots."""
    physical = parts.extentref.records.get("extent")
    return None if parts.view != "live" else physical if "refcnt" in physical else no_records("extent")


def _check_own_references(parts: VolumeParts, physical: Columns, report: Report) -> None:
    """Check that each run of blocks has as many extents as its reference count says (volumes without snapshots)."""
    kinds = [int(kind) for kind in grammar.ApfsExtents.PhysExtKind]
    add = report.for_table(physical, *_REFERENCE)
    add(~np.isin(physical["kind"], kinds), "unknown kind", "val.phys_ext_val.len_and_kind")
    start, count = physical["obj_id"].astype(np.int64), physical["num_blocks"].astype(np.int64)
    extents = parts.file_extents()
    first, length = stretches(extents, parts.state.store.blocks.block_size)
    if (physical["refcnt"] == 1).all() and _is_used_once(parts, count, length):
        return
    weights = physical["refcnt"].astype(np.int64)
    wrong = _find_unbalanced_runs((start, count, weights), (first, length, np.full(len(first), -1)))
    message = "it counts other references than extents refer to it"
    add(mark_overlapping(wrong, start, count), message, "val.phys_ext_val.refcnt", found=physical["refcnt"])
    _report_uncounted(parts, report, wrong, arrays.runs_of(start, count))


def _report_uncounted(parts: VolumeParts, report: Report, wrong: NDArray[np.int64], counted: NDArray[np.int64]) -> None:
    """Report file extents on blocks that no reference counts; `wrong` has the runs whose sums differ."""
    extents, lacking = parts.file_extents(), arrays.subtract(wrong, arrays.union([counted]))
    if not len(lacking):
        return
    first, length = stretches(extents, parts.state.store.blocks.block_size)
    chosen = np.zeros(len(extents["obj_id"]), bool)
    chosen[np.flatnonzero(extents["paddr"] != 0)[mark_overlapping(lacking, first, length)]] = True
    own = Report(report.log, get_extent_nodes(parts), report.most)
    own.for_table(extents, "extent of data stream", "reference-differs")(
        chosen, "no reference counts its blocks", LENGTH
    )


def _is_used_once(parts: VolumeParts, count: NDArray[np.int64], length: NDArray[np.int64]) -> bool:
    """Return whether references and extents cover the same blocks, each exactly once (no clones)."""
    in_files, referenced = parts.file_runs(parts.state.store.blocks.block_size), parts.data_runs()
    is_once = arrays.total(in_files) == length.sum() and arrays.total(referenced) == count.sum()
    return bool(is_once and np.array_equal(in_files, referenced))


def _check_shared_references(parts: VolumeParts, log: FindingLog, most: int) -> None:
    """Check that each block has as many extents of the live state as the references of all states add up to.

    Each snapshot keeps the references of its time; later states record only changes to them.
    """
    extents = parts.file_extents()
    trees = [parts.extentref, *parts.snapshot_extents]
    tables = [tree.records.get("extent") for tree in trees]
    start = np.concatenate([table["obj_id"] for table in tables]).astype(np.int64)
    counted = [table.get("refcnt", np.empty(0)).astype(np.int64) for table in tables]
    length = np.concatenate([table.get("num_blocks", np.empty(0)).astype(np.int64) for table in tables])
    first, size = stretches(extents, parts.state.store.blocks.block_size)
    wrong = _find_unbalanced_runs((start, length, np.concatenate(counted)), (first, size, np.full(len(first), -1)))
    _report_uncounted(parts, Report(log, parts.fs.nodes, most), wrong, arrays.runs_of(start, length))
    begin = 0
    for tree, table in zip(trees, tables, strict=True):
        rows = slice(begin, begin + len(table["obj_id"]))
        begin += len(table["obj_id"])
        odd = mark_overlapping(wrong, start[rows], length[rows])
        message = "the references of all states add up to others than the files of the live state have"
        Report(log, tree.nodes, most).for_table(table, *_REFERENCE)(odd, message, "val.phys_ext_val.refcnt")


def _find_unbalanced_runs(
    *weighted: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]],
) -> NDArray[np.int64]:
    """Return runs of blocks on which weights (start, length, weight of each stretch) do not add up to zero.

    >>> two = np.array([2])
    >>> _find_unbalanced_runs((np.array([10]), np.array([4]), two), (np.array([10]), np.array([3]), -two)).tolist()
    [[13, 1]]
    """
    start, length, weight = (np.concatenate(parts) for parts in zip(*weighted, strict=True))
    edges = np.concatenate([start, start + length])
    order = np.argsort(edges, kind="stable")
    total = np.cumsum(np.concatenate([weight, -weight])[order])
    edges = edges[order]
    odd = np.flatnonzero((total[:-1] != 0) & (np.diff(edges) > 0))
    return arrays.runs_of(edges[odd], np.diff(edges)[odd])


def mark_overlapping(
    runs: NDArray[np.int64],  # start and length of each; disjoint and ascending
    start: NDArray[np.int64],
    length: NDArray[np.int64],
) -> NDArray[np.bool_]:
    """Mark the stretches that overlap any of a set of runs.

    >>> mark_overlapping(np.array([[5, 2], [9, 1]]), np.array([3, 4, 7, 8]), np.array([2, 2, 2, 2])).tolist()
    [False, True, False, True]
    """
    if not len(runs):
        return np.zeros(len(start), bool)
    spot = np.searchsorted(runs.sum(axis=1), start, side="right")
    near = np.minimum(spot, len(runs) - 1)
    result: NDArray[np.bool_] = (spot < len(runs)) & (runs[near, 0] < start + length)
    return result


def check_owners(subject: Subject, parts: VolumeParts) -> None:
    """Check that each run of blocks names an existing data stream, or says that it has no owner."""
    physical = _list_references(parts)
    if physical is None:
        return
    known = streams(parts.fs.records).index.find(physical["owning_obj_id"])[1] | ~physical["has_owner"]
    # The first owner of blocks that clones share may be deleted.
    is_new = physical["kind"] == int(grammar.ApfsExtents.PhysExtKind.new)
    is_future = physical["owning_obj_id"] >= np.uint64(parts.state.superblock.next_obj_id)
    lost = ~known & (((physical["refcnt"] == 1) & is_new) | is_future)
    add, owner = subject.references(parts).for_table(physical, *_REFERENCE), physical["owning_obj_id"]
    add(lost, "its owner does not exist", "val.phys_ext_val.owning_obj_id", found=owner)


def open_snapshots(subject: Subject, parts: VolumeParts) -> Iterator[tuple[str, Volume]]:
    """Open each readable snapshot, newest first, with its view; findings go to separate logs."""
    if parts.view != LIVE or parts.is_locked:
        return
    live = replace(parts.state, store=subject.silent_store)
    for snapshot in reversed(parts.snapshots):
        # Snapshots that cannot be opened are reported where snapshots are listed.
        with suppress(FormatError):
            if snapshot.view in parts.views:
                yield snapshot.view, open_snapshot(live, snapshot)


def list_snapshot_sources(subject: Subject, parts: VolumeParts) -> Iterator[tuple[str, Volume, TreeSource]]:
    """Describe the file-system tree of each snapshot."""
    for view, state in open_snapshots(subject, parts):
        yield view, state, fs_source(state.store, state, parts.cipher)


def _read_snapshots(subject: Subject, parts: VolumeParts) -> Iterator[VolumeParts]:
    """Read the records of each snapshot; states with the same nodes share one reading."""
    known = parts
    for view, state in open_snapshots(subject, parts):
        own = replace(state, store=subject.silent_store)
        fs, fext = known.fs, known.fext
        if not np.array_equal(parts.views[view].paddr, fs.nodes.paddr):
            fs, fext = read_together([walk_fs_tree(own, parts.cipher), walk_fext_tree(own)])
        known = replace(parts, state=own, view=view, fs=fs, fext=fext)
        yield known


def check_states(subject: Subject, live: VolumeParts, checks: Sequence[Callable[[Subject, VolumeParts], None]]) -> None:
    """Run checks on the records of each snapshot; findings of other states are not repeated."""
    known = {*subject.log.findings, *live.log.findings}
    for parts in _read_snapshots(subject, live):
        snapshot = subject.branch()
        for check in checks:
            check(snapshot, parts)
        new = [item for item in (*parts.log.findings, *snapshot.log.findings) if item not in known]
        known.update(new)
        subject.log.extend(replace(item, structure=f"{parts.view}, {item.structure}") for item in new)

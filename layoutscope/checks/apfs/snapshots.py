"""Snapshots: comparison of names, metadata and superblocks, and checks of each older state's records.

Apple File System Reference, Snapshot Metadata and Object Maps.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec.structs import replace

from layoutscope.checks.apfs.subject import list_snapshots_with_logs, list_volume_roots
from layoutscope.errors import FormatError
from layoutscope.filesystems.apfs.btree import read_levels
from layoutscope.filesystems.apfs.snapshots import LIVE, open_snapshot
from layoutscope.filesystems.apfs.verify import read_object
from layoutscope.filesystems.apfs.volume import walk_fext_tree, walk_fs_tree
from layoutscope.image.passes import read_together
from layoutscope.structs import grammar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from layoutscope.checks.apfs.subject import Subject
    from layoutscope.filesystems.apfs.btree import ReadNodes
    from layoutscope.filesystems.apfs.contents import VolumeParts
    from layoutscope.filesystems.apfs.volume import Volume


_NO_OBJECT: Final = np.uint64(2**60 - 1)
"""The value in place of an object number in the keys of names (reference, j_snap_name_key_t)."""


def check_snapshot_records(subject: Subject, parts: VolumeParts) -> None:
    """Check that snapshot names, the object map's list and the superblocks agree with the snapshot metadata."""
    for snapshot, log in list_snapshots_with_logs(subject, parts, "sblock_oid"):
        try:
            if snapshot.sblock_paddr:
                cls, blocks = grammar.ApfsVolume.ApfsSuperblock, subject.container.blocks
                read_object(blocks, cls, snapshot.sblock_paddr, snapshot.view)
        except FormatError as error:
            message = f"its superblock cannot be used: {error.reason}"
            log.add("snapshot-differs", "error", message, found=snapshot.sblock_paddr)
    xids = np.array([item.xid for item in parts.snapshots], np.uint64)
    names = parts.snapmeta.get("snap_name")
    if "snap_xid" in names:
        report = subject.reporter(parts.snapmeta.nodes, most=1)
        metadata = parts.snapmeta.get("snap_metadata")
        add, found = report(names, "snapshot name", "snapshot-differs"), names["snap_xid"]
        add(~np.isin(found, xids), "a name leads to no snapshot", "val.snap_name_val.snap_xid", found=found)
        has_names = "name" in metadata
        known = dict(zip(metadata["obj_id"].tolist(), metadata["name"].raw(), strict=True)) if has_names else {}
        pairs = zip(found.tolist(), names["name"].raw(), strict=True)
        renamed = np.array([known.get(xid, name) != name for xid, name in pairs], bool)
        add(renamed, "a name is not that in the metadata of its snapshot", "key.snap_name_key.len_name")
        add(names["obj_id"] != _NO_OBJECT, "its key has the number of an object", "key.snap_name_key.hdr")
    for source, _ in list_volume_roots(subject, parts):
        for batch in read_levels(source) if source.tree == "omap-snapshots" else ():
            _check_listed(subject, batch, xids)


def _check_listed(subject: Subject, batch: ReadNodes, xids: NDArray[np.uint64]) -> None:
    """Check that each snapshot that the object map lists exists."""
    key_type = batch.tree.source.key_type
    found = batch.column("key", key_type, key_type.fields()[0])
    for row in np.flatnonzero(~np.isin(found, xids)).tolist() if not batch.level else ():
        node = int(batch.slots.node[row])
        plus = int(batch.slots.key_start[row]) - node * batch.size_bytes
        log = subject.log.at("object map", int(batch.rows.paddr[node]), plus=plus)
        message = "the object map lists a snapshot that there is not"
        log.add("snapshot-differs", "warning", message, found=found[row])


def check_snapshots(_: Subject, parts: VolumeParts) -> None:
    """Check that snapshot metadata, snapshot names and the object map list the same snapshots."""
    if parts.view != "live":
        return
    xids = sorted(item.xid for item in parts.snapshots)
    names, header = parts.snapmeta.get("snap_name"), parts.state.omap_header
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


def check_states(subject: Subject, live: VolumeParts, checks: Sequence[Callable[[Subject, VolumeParts], None]]) -> None:
    """Run checks on the records of each snapshot; findings of other states are not repeated."""
    known, parts = {*subject.log.findings, *live.log.findings}, live
    for view, state in open_snapshots(subject, live):
        own = replace(state, store=subject.silent_store)
        # States with the same nodes share one reading.
        fs, fext = parts.fs, parts.fext
        if not np.array_equal(live.views[view].paddr, fs.nodes.paddr):
            fs, fext = read_together([walk_fs_tree(own, live.key), walk_fext_tree(own)])
        parts = replace(live, state=own, view=view, fs=fs, fext=fext)
        snapshot = subject.branch()
        for check in checks:
            check(snapshot, parts)
        new = [item for item in (*parts.log.findings, *snapshot.log.findings) if item not in known]
        known.update(new)
        subject.log.extend(replace(item, structure=f"{parts.view}, {item.structure}") for item in new)

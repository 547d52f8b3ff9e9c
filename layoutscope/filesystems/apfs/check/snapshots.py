"""Snapshots and seals: the records that tell of a snapshot, and the hash at the top of a sealed volume.

Apple File System Reference, Snapshot Metadata and Sealed Volumes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.errors import FormatError
from layoutscope.filesystems.apfs.check.subject import Report, snapshot_places, volume_sources
from layoutscope.filesystems.apfs.store.verify import hash_objects, read_object
from layoutscope.filesystems.apfs.store.walk import read_levels
from layoutscope.findings import Contradiction
from layoutscope.ondisk import grammar

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.filesystems.apfs.check.subject import Subject
    from layoutscope.filesystems.apfs.store.btree import ReadNodes
    from layoutscope.filesystems.apfs.volume.parts import VolumeParts

_NO_OBJECT: Final = np.uint64(2**60 - 1)
"""What stands in keys of names in place of an object's number (reference, j_snap_name_key_t)."""


def check_snapshot_records(subject: Subject) -> None:
    """Names, the object map's list and the superblocks of snapshots fit the snapshots' metadata."""
    for parts in subject.volumes:
        _check_superblocks(subject, parts)
        xids = np.array([item.xid for item in parts.snapshots], np.uint64)
        names = parts.snapmeta.records.get("snap_name")
        if "snap_xid" in names:
            report = Report(subject.log, parts.snapmeta.nodes)
            field, sides = "val.snap_name_val.snap_xid", (None, names["snap_xid"])
            wrong = ~np.isin(names["snap_xid"], xids)
            message = "a name leads to no snapshot"
            report.cases(
                wrong, names, "snapshot name", Contradiction("snapshot-differs", message, "warning", *sides), field
            )
            _check_names(parts, report)
        for source in volume_sources(subject, parts):
            if source.tree != "omap-snapshots":
                continue
            for batch in read_levels(source):
                _check_listed(subject, batch, xids)


def _check_names(parts: VolumeParts, report: Report) -> None:
    """The key of a name has no number of an object, and the name of the snapshot that it leads to."""
    names, metadata = parts.snapmeta.records.get("snap_name"), parts.snapmeta.records.get("snap_metadata")
    known = dict(zip(metadata["obj_id"].tolist(), metadata["name"].raw(), strict=True)) if "name" in metadata else {}
    pairs = zip(names["snap_xid"].tolist(), names["name"].raw(), strict=True)
    renamed = np.array([known.get(xid, name) != name for xid, name in pairs], bool)
    for wrong, message, field in (
        (renamed, "a name is not that in the metadata of its snapshot", "key.snap_name_key.len_name"),
        (names["obj_id"] != _NO_OBJECT, "its key has the number of an object", "key.snap_name_key.hdr"),
    ):
        report.cases(wrong, names, "snapshot name", Contradiction("snapshot-differs", message, "warning"), field)


def _check_listed(subject: Subject, batch: ReadNodes, xids: NDArray[np.uint64]) -> None:
    """Compare what the object map lists with the snapshots that there are."""
    kind = batch.tree.source.kind
    found = batch.column("key", kind.key_type, kind.key_field)
    for row in np.flatnonzero(~np.isin(found, xids)).tolist() if not batch.level else ():
        node = int(batch.slots.node[row])
        plus = int(batch.slots.key_start[row]) - node * batch.size_bytes
        log = subject.log.at("object map", int(batch.places.paddr[node]), plus=plus)
        message = "the object map lists a snapshot that there is not"
        log.add("snapshot-differs", "warning", message, found=found[row])


def _check_superblocks(subject: Subject, parts: VolumeParts) -> None:
    for snapshot, log in snapshot_places(subject, parts, "sblock_oid"):
        if not snapshot.sblock_paddr:
            continue
        try:
            read_object(
                subject.container.blocks, grammar.ApfsVolume.ApfsSuperblock, snapshot.sblock_paddr, snapshot.view
            )
        except FormatError as error:
            message = f"its superblock cannot be used: {error.reason}"
            log.add("snapshot-differs", "error", message, found=snapshot.sblock_paddr)


def check_seals(subject: Subject) -> None:
    """The hash of a sealed volume's root is that in its integrity metadata."""
    blocks = subject.container.blocks
    for parts in subject.volumes:
        seal, nodes = parts.state.seal, parts.fs.nodes
        if seal is None or not seal.hash_type or not len(nodes):
            continue
        # Each hash of a child stands in its parent; the root has none, and so its hash stands apart from the tree.
        data = blocks.read(nodes.paddr[:1], int(nodes.size_bytes[0]))
        found = hash_objects(seal.hash_type, data).tobytes()
        if found != seal.root_hash:
            meta = read_object(
                blocks, grammar.ApfsSealed.IntegrityMeta, seal.paddr, "integrity metadata",
                oid=parts.state.superblock.integrity_meta_oid,
            )  # fmt: skip
            log = subject.log.at("integrity metadata", seal.paddr, plus=int(meta.ofs_root_hash))
            message, stored = "the hash of the root is another", seal.root_hash.hex()
            log.add("seal-broken", "error", message, expected=found.hex(), found=stored)


def check_snapshots(parts: VolumeParts) -> None:
    """Snapshot metadata, names and the object map's list name the same snapshots."""
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

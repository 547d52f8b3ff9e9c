"""Object maps against the objects they lead to.

Apple File System Reference, Object Maps. Each entry is (object, transaction) -> address, size and flags; the object's
own header repeats number and transaction, unless it has none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope.filesystems.apfs.check.subject import MOST_CASES
from layoutscope.filesystems.apfs.store.source import TreeSource
from layoutscope.filesystems.apfs.store.walk import read_levels
from layoutscope.ondisk.records import OBJ_PHYS, OMAP_KEY, OMAP_VAL

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.filesystems.apfs.check.subject import Subject
    from layoutscope.filesystems.apfs.store.btree import NodeBatch

KEY: Final = OMAP_KEY
VALUE: Final = OMAP_VAL
FIELDS: Final = (VALUE.paddr, VALUE.size_bytes, VALUE.is_deleted, VALUE.is_encrypted, VALUE.is_noheader)


def check_container_map(subject: Subject) -> None:
    """Compare every entry of the container's object map with its object."""
    if len(subject.container.omap.nodes):
        _check_map(subject, "container-omap", subject.container.omap_header.tree_oid, may_encrypt=False)


def check_object_maps(subject: Subject) -> None:
    """Compare every entry of volumes' object maps with its object."""
    for parts in subject.volumes:
        may_encrypt = not parts.state.superblock.is_unencrypted
        _check_map(subject, "omap", parts.state.omap_header.tree_oid, may_encrypt=may_encrypt)


def _check_map(subject: Subject, tree: str, root: int, *, may_encrypt: bool) -> None:
    container = subject.container
    for batch in read_levels(TreeSource(subject.apart, tree, root, container.xid)):
        if not batch.level and len(batch.slots):
            _check_entries(subject, batch, may_encrypt=may_encrypt)


def _check_entries(subject: Subject, batch: NodeBatch, *, may_encrypt: bool) -> None:
    source = batch.tree.source
    blocks = source.blocks
    entry = batch.columns("key", KEY, (KEY.oid, KEY.xid)) | batch.columns("val", VALUE, FIELDS)
    deleted, size = entry["is_deleted"], entry["size_bytes"].astype(np.int64)
    future = entry["xid"] > np.uint64(source.max_xid)
    odd = ~deleted & ((size == 0) | (size % blocks.block_size != 0))
    outside = ~deleted & ~blocks.present(entry["paddr"], blocks.block_size)
    alone = deleted & ~_has_older(entry["oid"])
    strange = ~deleted & entry["is_encrypted"] & (not may_encrypt)
    report = _Entries(subject, batch, entry)
    report.cases(future, "key", "xid", "its transaction is younger than the container", None, entry["xid"])
    report.cases(odd, "val", "size_bytes", "its size is no whole number of blocks", None, entry["size_bytes"])
    report.cases(outside, "val", "paddr", "it leads out of the image", None, entry["paddr"])
    report.cases(alone, "val", "flags", "it says deleted, but no older entry is there to delete")
    report.cases(strange, "val", "flags", "it says encrypted on a volume that is not")
    plain = ~(deleted | outside | future | odd | entry["is_encrypted"] | entry["is_noheader"])
    plain &= blocks.readable(entry["paddr"], blocks.block_size)
    _check_objects(report, np.flatnonzero(plain))


def _has_older(oid: NDArray[np.uint64]) -> NDArray[np.bool_]:
    result = np.ones(len(oid), bool)
    result[1:] = oid[1:] == oid[:-1]
    return result


def _check_objects(report: _Entries, rows: NDArray[np.int64]) -> None:
    """Compare number and transaction with those in the objects' headers."""
    source, entry = report.batch.tree.source, report.entry
    blocks = source.blocks
    if not len(rows):
        return
    data = blocks.read(entry["paddr"][rows], blocks.block_size).reshape(-1)
    starts = np.arange(len(rows), dtype=np.int64) * blocks.block_size
    head = source.decoder.columns(OBJ_PHYS, data, starts, (OBJ_PHYS.oid, OBJ_PHYS.xid))
    found = {name: entry[name].copy() for name in head}
    for name, values in head.items():
        found[name][rows] = values
    other = found["oid"] != entry["oid"]
    report.cases(other, "key", "oid", "the object there has another number", entry["oid"], found["oid"])
    later = (found["xid"] != entry["xid"]) & ~other
    report.cases(later, "key", "xid", "the object there is of another transaction", entry["xid"], found["xid"])


@dataclass(frozen=True, slots=True)
class _Entries:
    """Reports entries of a batch of leaves."""

    subject: Subject
    batch: NodeBatch
    entry: dict[str, NDArray[Any]]

    def cases(
        self,
        wrong: NDArray[np.bool_],
        part: str,
        field: str,
        message: str,
        expected: NDArray[Any] | None = None,
        found: NDArray[Any] | None = None,
    ) -> None:
        """Report entries at a field of their key or value."""
        slots = self.batch.slots
        starts, type_name = (slots.key_start, KEY) if part == "key" else (slots.val_start, VALUE)
        plus = type_name.offset_of(field)
        for row in np.flatnonzero(wrong)[:MOST_CASES].tolist():
            sides = ["" if side is None else side[row] for side in (expected, found)]
            name, at = f"entry of object {self.entry['oid'][row]}", int(starts[row]) + plus
            log = self.batch.at(int(slots.node[row]), at, name=name, log=self.subject.log)
            log.add("object-map-differs", "warning", message, expected=sides[0], found=sides[1])

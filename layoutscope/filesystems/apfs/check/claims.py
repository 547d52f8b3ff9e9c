"""Who uses each block: nobody twice, nobody a free one, and somebody every used one.

Apple File System Reference, Space Manager and Data Streams.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope.arrays import intervals
from layoutscope.filesystems.apfs.check.extents import is_touched
from layoutscope.filesystems.apfs.check.space import INVALID, chunk_table, differs, spaceman_field
from layoutscope.filesystems.apfs.check.subject import MOST_CASES, queue_sources
from layoutscope.filesystems.apfs.container.regions import as_runs, node_runs
from layoutscope.filesystems.apfs.container.spaceman import QUEUE_NAMES, queued_lengths
from layoutscope.filesystems.apfs.store.walk import read_levels
from layoutscope.filesystems.apfs.volume.accounting import account
from layoutscope.findings import Contradiction
from layoutscope.ondisk.records import FREE_QUEUE_KEY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from layoutscope.filesystems.apfs.check.subject import Subject
    from layoutscope.filesystems.apfs.store.btree import ReadNodes
    from layoutscope.filesystems.apfs.volume.parts import VolumeParts

Owner = tuple[str, "NDArray[np.int64]"]
SPARE: Final = ("internal-pool", "pending-free")
"""Regions that hold nothing current."""


def claims_by_owner(subject: Subject) -> Iterator[Owner]:
    """Name every structure with its blocks; nodes that several states of a volume share stand once."""
    block_size = subject.container.blocks.block_size
    for nodes in subject.parts.trees:
        yield f"{nodes.tree} tree of the container", node_runs([nodes], block_size)
    for kind in dict.fromkeys(item.type for item in subject.parts.regions if item.type not in SPARE):
        yield kind, as_runs([item for item in subject.parts.regions if item.type == kind])
    for parts in subject.volumes:
        yield from _volume_owners(parts, block_size)


def _volume_owners(parts: VolumeParts, block_size: int) -> Iterator[Owner]:
    volume = f"of volume {parts.state.number}"
    trees = [*parts.own_trees(), *parts.views.values()]
    for name in dict.fromkeys(nodes.tree for nodes in trees):
        yield f"{name} tree {volume}", node_runs([nodes for nodes in trees if nodes.tree == name], block_size)
    for number, tree in enumerate(parts.snapshot_extents):
        yield f"extent references of snapshot {number} {volume}", node_runs([tree.nodes], block_size)
    for kind in dict.fromkeys(item.type for item in parts.regions):
        yield f"{kind} {volume}", as_runs([item for item in parts.regions if item.type == kind])
    yield f"data {volume}", intervals.union([parts.data_runs(), parts.file_runs(block_size)])


def current_claims(subject: Subject) -> NDArray[np.int64]:
    """Blocks that something current uses."""
    return intervals.union([runs for _, runs in claims_by_owner(subject)])


def check_double_claims(subject: Subject) -> None:
    """No block belongs to two structures."""
    named = [(name, runs) for name, runs in claims_by_owner(subject) if len(runs)]
    table = np.concatenate([np.empty((0, 2), np.int64), *(runs for _, runs in named)])
    owner = np.repeat(np.arange(len(named)), [len(runs) for _, runs in named])
    order = np.argsort(table[:, 0], kind="stable")
    table, owner = table[order], owner[order]
    ends = table.sum(axis=1)
    furthest = np.maximum.accumulate(ends)
    wrong = np.flatnonzero(table[1:, 0] < furthest[:-1]) + 1
    for row in wrong[:MOST_CASES].tolist():
        start = int(table[row, 0])
        other = int(np.flatnonzero(ends[:row] > start)[-1])
        blocks = min(int(ends[row]), int(ends[other])) - start
        message = f"{blocks} blocks from block {start} belong to this and to: {named[owner[other]][0]}"
        subject.log.at(named[owner[row]][0], start).add("block-claimed-twice", "error", message)


def check_file_claims(subject: Subject) -> None:
    """No file has a block of metadata, or one of another file that does not count that it is shared."""
    block_size = subject.container.blocks.block_size
    metadata = intervals.union([runs for name, runs in claims_by_owner(subject) if not name.startswith("data ")])
    for parts in subject.volumes:
        extents = parts.file_extents()
        if not len(extents["obj_id"]) or parts.is_locked:
            continue
        report = subject.extents(parts)
        # Block 0 is the superblock's and no file's: as an address it stands for a hole.
        real = extents["paddr"] != 0
        start = np.minimum(extents["paddr"], np.uint64(2**62)).astype(np.int64)
        length = -(-extents["len_extent"].astype(np.int64) // block_size)
        field, what = "val.file_extent_val.paddr", "extent of data stream"
        sides = (None, extents["paddr"])
        wrong = real & is_touched(metadata, start, length)
        message, code = "it has blocks that metadata use", "block-claimed-twice"
        if "key_at" in extents:
            report.cases(wrong, extents, what, Contradiction(code, message, "error", *sides), field)
            wrong = real & _unshared_twice(parts, start, length, real)
            message = "it has blocks of another extent, and no reference says that they are shared"
            report.cases(wrong, extents, what, Contradiction(code, message, "error", *sides), field)


def _unshared_twice(
    parts: VolumeParts, start: NDArray[np.int64], length: NDArray[np.int64], real: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Extents that begin inside another one, in blocks that count one reference."""
    rows = np.flatnonzero(real)
    rows = rows[np.argsort(start[rows], kind="stable")]
    furthest = np.maximum.accumulate(start[rows] + length[rows]) if len(rows) else rows
    twice = np.zeros(len(start), bool)
    later = np.flatnonzero(start[rows][1:] < furthest[:-1]) + 1
    twice[rows[later]] = True
    twice[rows[later - 1]] = True
    return twice & ~is_touched(_shared_runs(parts), start, length)


def _shared_runs(parts: VolumeParts) -> NDArray[np.int64]:
    """Blocks that count more than one reference, be it in one record or in those of several states."""
    shared = np.empty((0, 2), np.int64)
    known = shared
    for tree in (parts.extentref, *parts.snapshot_extents):
        physical = tree.records.get("extent")
        if "refcnt" not in physical:
            continue
        several = physical["refcnt"] > 1
        runs = intervals.runs_of(physical["obj_id"], physical["num_blocks"])
        again = intervals.intersect(known, runs)
        shared = intervals.union(
            [shared, again, intervals.runs_of(physical["obj_id"][several], physical["num_blocks"][several])]
        )
        known = intervals.union([known, runs])
    return shared


def check_bitmaps(subject: Subject) -> None:
    """Blocks in use are called used, and blocks that are called used belong to something."""
    if subject.parts.space is None:
        return
    found = account(subject.container, subject.parts, subject.volumes)
    _report_bits(subject, found.disputed, "block-claimed-free", "used, but free in the bitmap")
    if subject.is_whole:
        _report_bits(subject, found.unclaimed, "block-unclaimed", "used in the bitmap, but belong to nothing")


def _report_bits(subject: Subject, runs: NDArray[np.int64], code: str, message: str) -> None:
    """Report runs of blocks at the byte of the bitmap that speaks of the first of them."""
    tables = [chunk_table(subject, number)[0].columns for number in range(2)] if len(runs) else []
    for start, length in runs[:MOST_CASES].tolist():
        paddr, byte = next((at for at in (_bit_place(table, start) for table in tables) if at is not None), (None, 0))
        log = subject.log.at(f"bitmap of block {start}", paddr, plus=byte)
        log.add(code, "warning", f"{length} blocks from block {start} are {message}")
    if len(runs) > MOST_CASES:
        more = f"{len(runs) - MOST_CASES} more runs of blocks are {message}"
        subject.log.at("bitmaps").add(code, "warning", more)


def _bit_place(chunks: dict[str, NDArray[Any]], paddr: int) -> tuple[int, int] | None:
    """Block of the bitmap and byte in it with a block's bit; None where the chunk has no bitmap."""
    if not chunks:
        return None
    first = np.minimum(chunks["paddr"], np.uint64(2**62)).astype(np.int64)
    inside = (first <= paddr) & (paddr < first + chunks["num_blocks"].astype(np.int64)) & (chunks["bitmap_paddr"] != 0)
    rows = np.flatnonzero(inside)
    if not len(rows):
        return None
    row = int(rows[0])
    return int(chunks["bitmap_paddr"][row]), (paddr - int(first[row])) // 8


def check_queues(subject: Subject) -> None:
    """Free queues count what they hold; what waits in them lies in the container and is used by nothing current."""
    space = subject.parts.space
    if space is None:
        return
    claims = current_claims(subject)
    for number, source in queue_sources(subject):
        queue = space.header.free_queues[number]
        if space.queued.get(number, 0) != queue.num_blocks:
            at = spaceman_field(subject, "num_blocks", queue=number)
            what = f"number of blocks in free queue {number}"
            differs(at, what, space.queued.get(number, 0), queue.num_blocks)
        for batch in read_levels(source):
            if not batch.level and len(batch.slots):
                _check_queued(subject, batch, claims, QUEUE_NAMES[number])


def _check_queued(subject: Subject, batch: ReadNodes, claims: NDArray[np.int64], owner: str) -> None:
    """Compare the entries of a free queue with what is used."""
    blocks = subject.container.blocks
    paddr = batch.column("key", FREE_QUEUE_KEY, FREE_QUEUE_KEY.paddr)
    length = np.minimum(queued_lengths(batch), 2**40).astype(np.int64)
    outside = ~blocks.present(paddr, blocks.block_size)
    start = np.minimum(paddr, np.uint64(2**62)).astype(np.int64)
    used = ~outside & is_touched(claims, start, length)
    for wrong, message in ((outside, "lies outside"), (used, "is in use")):
        for row in np.flatnonzero(wrong)[:MOST_CASES].tolist():
            node = int(batch.slots.node[row])
            plus = int(batch.slots.key_start[row]) - node * batch.size_bytes + FREE_QUEUE_KEY.paddr.offset
            log = subject.log.at(f"free queue of the {owner}", int(batch.places.paddr[node]), plus=plus)
            log.add(INVALID, "warning", f"a block that waits to become free {message}", found=paddr[row])

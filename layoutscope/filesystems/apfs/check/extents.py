"""Contradictions between extents, streams and extent references.

Apple File System Reference, Data Streams.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from layoutscope.arrays import intervals
from layoutscope.filesystems.apfs.check.snapshots import check_snapshots
from layoutscope.filesystems.apfs.check.subject import Report
from layoutscope.filesystems.apfs.volume.parts import streams, stretches
from layoutscope.findings import Contradiction
from layoutscope.ondisk import grammar

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.filesystems.apfs.store.blocks import Blocks
    from layoutscope.filesystems.apfs.store.fsrecords import Columns
    from layoutscope.filesystems.apfs.volume.parts import VolumeParts
    from layoutscope.findings import FindingLog

LENGTH = "val.file_extent_val.len_and_flags"


def compare_extents(parts: VolumeParts) -> None:
    """Run all checks of a volume's extents and snapshots; nothing where records are missing."""
    if parts.is_locked or parts.log.has_errors:
        return
    extents, blocks = parts.file_extents(), parts.state.store.blocks
    nodes = parts.fext.nodes if len(parts.fext.nodes) else parts.fs.nodes
    if len(extents["obj_id"]):
        check_shape(blocks, extents, Report(parts.log, nodes))
    physical = parts.extentref.records.get("extent")
    if "refcnt" in physical and parts.view == "live":
        own = Report(parts.log, parts.extentref.nodes)
        check_owners(parts, physical, own)
        if not parts.snapshots:
            check_extent_references(parts, physical, own)
        elif len(parts.snapshots) == len(parts.snapshot_extents):
            check_shared_references(parts, parts.log)
    check_snapshots(parts)


def check_shape(
    blocks: Blocks,
    # extents of files, one row each, in key order: `obj_id` is the data stream, `logical_addr` where the extent starts
    # in it and `length_bytes` its length, both in bytes, `paddr` its first block
    extents: Columns,
    report: Report,
) -> None:
    """Extents are whole blocks, follow each other without gap, and lie inside the container."""
    # As numbers with a sign they are the same bytes.
    length, logical = (extents[name].view(np.int64) for name in ("len_extent", "logical_addr"))
    code, what = "extent-invalid", "extent of data stream"
    report.cases(length == 0, extents, what, Contradiction(code, "it is empty"), LENGTH)
    odd = _is_odd(length, blocks.block_size) | _is_odd(logical, blocks.block_size)
    report.cases(odd, extents, what, Contradiction(code, "it is no whole number of blocks", found=length), LENGTH)
    # Holes have records of their own, so that nothing is left out between two extents of a stream.
    expected = np.zeros(len(length), np.int64)
    np.add(logical[:-1], length[:-1], out=expected[1:])
    expected[1:] *= extents["obj_id"][1:] == extents["obj_id"][:-1]
    message, field = "it does not start where the one before it ends", "key.file_extent_key.logical_addr"
    report.cases(
        (logical != expected) & ~odd,
        extents,
        what,
        Contradiction(code, message, expected=expected, found=logical),
        field,
    )
    # An extent at block 0 is a hole: it has a length, but no blocks.
    device, position = blocks.split(extents["paddr"])
    position += length
    sizes = _device_sizes(blocks)
    outside = position > (sizes[device] if device.any() else sizes[0])
    outside |= ~blocks.present(extents["paddr"], 0)
    outside &= extents["paddr"] != 0
    field = "val.file_extent_val.paddr"
    report.cases(
        outside, extents, what, Contradiction(code, "it lies outside the image", found=extents["paddr"]), field
    )


def _is_odd(values: NDArray[np.int64], block_size: int) -> NDArray[np.bool_]:
    """Tell which are no multiple of the block size; a power of two needs no division."""
    is_power = block_size & (block_size - 1) == 0
    odd: NDArray[np.bool_] = (values & (block_size - 1) if is_power else values % block_size) != 0
    return odd


def _device_sizes(blocks: Blocks) -> NDArray[np.int64]:
    """Size of each device in bytes; without limit where its image was not given."""
    sizes = [source.size_bytes if source else 2**62 for source in blocks.sources]
    return np.array([*sizes, 2**62], np.int64)


def check_extent_references(parts: VolumeParts, physical: Columns, report: Report) -> None:
    """Each run of blocks is used by as many extents as its reference counts; without snapshots only."""
    kinds = [int(kind) for kind in grammar.ApfsExtents.PhysExtKind]
    code, what, field = "reference-differs", "extent at block", "val.phys_ext_val.len_and_kind"
    report.cases(~np.isin(physical["kind"], kinds), physical, what, Contradiction(code, "unknown kind"), field)
    start, count = physical["obj_id"].astype(np.int64), physical["num_blocks"].astype(np.int64)
    extents = parts.file_extents()
    first, length = stretches(extents, parts.state.store.blocks.block_size)
    if (physical["refcnt"] == 1).all() and _match_once(parts, count, length):
        return
    weights = physical["refcnt"].astype(np.int64)
    wrong = _unbalanced((start, count, weights), (first, length, np.full(len(first), -1)))
    message = "it counts other references than extents refer to it"
    found = Contradiction(code, message, found=physical["refcnt"])
    report.cases(is_touched(wrong, start, count), physical, what, found, "val.phys_ext_val.refcnt")
    _report_uncounted(parts, report, wrong, intervals.runs_of(start, count))


def _report_uncounted(parts: VolumeParts, report: Report, wrong: NDArray[np.int64], counted: NDArray[np.int64]) -> None:
    """Report extents of files on blocks that no reference counts: `wrong` are those on which sums differ."""
    extents, lacking = parts.file_extents(), intervals.subtract(wrong, intervals.union([counted]))
    if not len(lacking):
        return
    first, length = stretches(extents, parts.state.store.blocks.block_size)
    chosen = np.zeros(len(extents["obj_id"]), bool)
    chosen[np.flatnonzero(extents["paddr"] != 0)[is_touched(lacking, first, length)]] = True
    nodes = parts.fext.nodes if len(parts.fext.nodes) else parts.fs.nodes
    what = Contradiction("reference-differs", "no reference counts its blocks")
    Report(report.log, nodes, report.most).cases(chosen, extents, "extent of data stream", what, LENGTH)


def _match_once(parts: VolumeParts, count: NDArray[np.int64], length: NDArray[np.int64]) -> bool:
    """Tell whether references and extents are the same blocks, each of them once: as it is where nothing is cloned."""
    held, referred = parts.file_runs(parts.state.store.blocks.block_size), parts.data_runs()
    is_once = intervals.total(held) == length.sum() and intervals.total(referred) == count.sum()
    return bool(is_once and np.array_equal(held, referred))


def check_shared_references(parts: VolumeParts, log: FindingLog, most: int = 1) -> None:
    """Each block is used by as many extents of the live state as the references of all states add up to.

    A snapshot keeps the references of its time; later ones change them by what came and went since.
    """
    extents = parts.file_extents()
    trees = [parts.extentref, *parts.snapshot_extents]
    tables = [tree.records.get("extent") for tree in trees]
    start = np.concatenate([table["obj_id"] for table in tables]).astype(np.int64)
    counted = [table.get("refcnt", np.empty(0)).astype(np.int64) for table in tables]
    length = np.concatenate([table.get("num_blocks", np.empty(0)).astype(np.int64) for table in tables])
    first, size = stretches(extents, parts.state.store.blocks.block_size)
    wrong = _unbalanced((start, length, np.concatenate(counted)), (first, size, np.full(len(first), -1)))
    _report_uncounted(parts, Report(log, parts.fs.nodes, most), wrong, intervals.runs_of(start, length))
    begin = 0
    for tree, table in zip(trees, tables, strict=True):
        rows = slice(begin, begin + len(table["obj_id"]))
        begin += len(table["obj_id"])
        odd = is_touched(wrong, start[rows], length[rows])
        message = "the references of all states add up to others than the files of the live state have"
        report, field = Report(log, tree.nodes, most), "val.phys_ext_val.refcnt"
        report.cases(odd, table, "extent at block", Contradiction("reference-differs", message), field)


def _unbalanced(*weighted: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]) -> NDArray[np.int64]:
    """Runs of blocks on which weights (start, length, weight of each stretch) do not add up to zero.

    >>> two = np.array([2])
    >>> _unbalanced((np.array([10]), np.array([4]), two), (np.array([10]), np.array([3]), -two)).tolist()
    [[13, 1]]
    """
    start, length, weight = (np.concatenate(parts) for parts in zip(*weighted, strict=True))
    edges = np.concatenate([start, start + length])
    order = np.argsort(edges, kind="stable")
    total = np.cumsum(np.concatenate([weight, -weight])[order])
    edges = edges[order]
    odd = np.flatnonzero((total[:-1] != 0) & (np.diff(edges) > 0))
    return intervals.runs_of(edges[odd], np.diff(edges)[odd])


def is_touched(
    runs: NDArray[np.int64],  # start and length of each; disjoint and ascending
    start: NDArray[np.int64],
    length: NDArray[np.int64],
) -> NDArray[np.bool_]:
    """Tell which stretches touch a set of runs.

    >>> is_touched(np.array([[5, 2], [9, 1]]), np.array([3, 4, 7, 8]), np.array([2, 2, 2, 2])).tolist()
    [False, True, False, True]
    """
    if not len(runs):
        return np.zeros(len(start), bool)
    spot = np.searchsorted(runs.sum(axis=1), start, side="right")
    near = np.minimum(spot, len(runs) - 1)
    result: NDArray[np.bool_] = (spot < len(runs)) & (runs[near, 0] < start + length)
    return result


def check_owners(
    parts: VolumeParts,
    # its extent references, one row a run of blocks: `owning_obj_id` is the data stream, unless `has_owner` is false
    physical: Columns,
    report: Report,
) -> None:
    """Each run of blocks names a data stream that exists, or says that it knows none."""
    known = streams(parts.fs.records).index.find(physical["owning_obj_id"])[1] | ~physical["has_owner"]
    # The owner of blocks that clones share may be gone; the others have them still.
    is_new = physical["kind"] == int(grammar.ApfsExtents.PhysExtKind.new)
    is_future = physical["owning_obj_id"] >= np.uint64(parts.state.superblock.next_obj_id)
    lost = ~known & (((physical["refcnt"] == 1) & is_new) | is_future)
    code, what, field = "reference-differs", "extent at block", "val.phys_ext_val.owning_obj_id"
    message, sides = "its owner does not exist", (None, physical["owning_obj_id"])
    report.cases(lost, physical, what, Contradiction(code, message, "warning", *sides), field)

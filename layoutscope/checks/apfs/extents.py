"""Contradictions between extents, streams and extent references.

Apple File System Reference, Data Streams.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.checks.apfs.subject import get_extent_nodes
from layoutscope.filesystems.apfs.contents import streams, stretches
from layoutscope.structs import arrays, grammar

if TYPE_CHECKING:
    from layoutscope.checks.apfs.subject import Subject
    from layoutscope.filesystems.apfs.contents import VolumeParts
    from layoutscope.filesystems.apfs.fsrecords import Columns
    from layoutscope.structs.arrays import I64, Mask


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
    add = subject.reporter(get_extent_nodes(parts))(extents, "extent of data stream", "extent-invalid")
    add(length == 0, "it is empty", LENGTH)
    # The block size is a power of two, so no division is needed.
    odd = ((length | logical) & (blocks.block_size - 1)) != 0
    add(odd, "it is not a whole number of blocks", LENGTH, found=length)
    # Holes have their own records, so each extent of a stream begins where the previous one ends.
    expected = np.zeros(len(length), np.int64)
    np.add(logical[:-1], length[:-1], out=expected[1:])
    expected[1:] *= extents["obj_id"][1:] == extents["obj_id"][:-1]
    message, field = "it does not start where the one before it ends", "key.file_extent_key.logical_addr"
    add((logical != expected) & ~odd, message, field, expected=expected, found=logical)
    # An extent at block 0 is a hole: it has a length, but no blocks.
    device, position = blocks.split(extents["paddr"])
    position += length
    # A device without an image has no limit.
    sizes = np.array([source.size_bytes if source else 2**62 for source in (*blocks.sources, None)], np.int64)
    outside = position > (sizes[device] if device.any() else sizes[0])
    outside |= ~blocks.present(extents["paddr"], 0)
    outside &= extents["paddr"] != 0
    add(outside, "it is outside the image", "val.file_extent_val.paddr", found=extents["paddr"])


def check_references(subject: Subject, parts: VolumeParts) -> None:
    """Check that each block has as many extents of the live state as the references of all states add up to.

    Each snapshot keeps the references of its time in its own tree; later states record only changes to them.
    """
    if parts.view != "live" or len(parts.snapshots) != len(parts.snapshot_extents):
        return
    trees, is_alone = [parts.extentref, *parts.snapshot_extents], not parts.snapshots
    tables = [tree.get("extent") for tree in trees]
    if is_alone:
        add, kinds = subject.reporter(parts.extentref.nodes)(tables[0], *_REFERENCE), grammar.ApfsExtents.PhysExtKind
        wrong = ~np.isin(tables[0]["kind"], [int(kind) for kind in kinds])
        add(wrong, "unknown kind", "val.phys_ext_val.len_and_kind")
    start, count = (_join(tables, name) for name in ("obj_id", "num_blocks"))
    first, length = stretches(parts.file_extents(), parts.block_size)
    # Without clones, references and extents cover the same blocks, each exactly once.
    in_files, referenced = parts.file_runs, parts.data_runs
    is_once = arrays.total(in_files) == length.sum() and arrays.total(referenced) == count.sum()
    if is_once and all((table["refcnt"] == 1).all() for table in tables) and np.array_equal(in_files, referenced):
        return
    weights = _join(tables, "refcnt")
    unbalanced = _find_unbalanced_runs((start, count, weights), (first, length, np.full(len(first), -1)))
    message = "the references of all states add up to others than the files of the live state have"
    if is_alone:
        message = "it counts other references than extents refer to it"
    else:
        _report_uncounted(subject, parts, unbalanced, arrays.runs_of(start, count))
    for tree, table in zip(trees, tables, strict=True):
        wrong = mark_overlapping(unbalanced, _join([table], "obj_id"), _join([table], "num_blocks"))
        add, found = subject.reporter(tree.nodes)(table, *_REFERENCE), table["refcnt"] if is_alone else ""
        add(wrong, message, "val.phys_ext_val.refcnt", found=found)
    if is_alone:
        _report_uncounted(subject, parts, unbalanced, arrays.runs_of(start, count))


def _join(tables: list[Columns], name: str) -> I64:
    return np.concatenate([table[name] for table in tables], dtype=np.int64, casting="unsafe")


def _report_uncounted(subject: Subject, parts: VolumeParts, wrong: I64, counted: I64) -> None:
    """Report file extents on blocks that no reference counts; `wrong` contains the runs with different sums."""
    extents, lacking = parts.file_extents(), arrays.subtract(wrong, arrays.union([counted]))
    if not len(lacking):
        return
    first, length = stretches(extents, parts.block_size)
    chosen = np.zeros(len(extents["obj_id"]), bool)
    chosen[np.flatnonzero(extents["paddr"] != 0)[mark_overlapping(lacking, first, length)]] = True
    add = subject.reporter(get_extent_nodes(parts))(extents, "extent of data stream", "reference-differs")
    add(chosen, "no reference counts its blocks", LENGTH)


def _find_unbalanced_runs(*weighted: tuple[I64, I64, I64]) -> I64:
    """Return the runs of blocks on which weights (start, length and weight per stretch) do not add up to zero.

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


def mark_overlapping(runs: I64, start: I64, length: I64) -> Mask:
    """Mark the stretches that overlap any of some disjoint and ascending runs, each a start and a length.

    >>> mark_overlapping(np.array([[5, 2], [9, 1]]), np.array([3, 4, 7, 8]), np.array([2, 2, 2, 2])).tolist()
    [False, True, False, True]
    """
    if not len(runs):
        return np.zeros(len(start), bool)
    spot = np.searchsorted(runs.sum(axis=1), start, side="right")
    near = np.minimum(spot, len(runs) - 1)
    result: Mask = (spot < len(runs)) & (runs[near, 0] < start + length)
    return result


def check_owners(subject: Subject, parts: VolumeParts) -> None:
    """Check that each run of blocks names an existing data stream, or is marked as having no owner."""
    if parts.view != "live":
        return
    physical = parts.extentref.get("extent")
    known = streams(parts.fs).index.find(physical["owning_obj_id"])[1] | ~physical["has_owner"]
    # The first owner of blocks that clones share may be deleted.
    is_new = physical["kind"] == int(grammar.ApfsExtents.PhysExtKind.new)
    is_future = physical["owning_obj_id"] >= np.uint64(parts.state.superblock.next_obj_id)
    lost = ~known & (((physical["refcnt"] == 1) & is_new) | is_future)
    add, owner = subject.reporter(parts.extentref.nodes)(physical, *_REFERENCE), physical["owning_obj_id"]
    add(lost, "its owner does not exist", "val.phys_ext_val.owning_obj_id", found=owner)

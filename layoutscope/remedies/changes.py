"""The registry of changes: what each makes of the work, or why it does not apply; and the list of files by place.

A cause is a change shown as a share of the time, a what-if one that was asked for, a remedy one with cost and
instructions. All are served alike, so that their times agree. A changed layout has nodes in other places: addresses
change and contents do not. A layout that would not change is returned as it is.
"""

from __future__ import annotations

from collections import Counter
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec.structs import replace

from layoutscope.access.entries import LENGTH, LOST, MAX_PATH_BYTES, NAME, Paths
from layoutscope.access.trace import AccessTrace, device_and_offset, nothing, place_of
from layoutscope.drive import load_profile, service
from layoutscope.drive.profile import DriveProfile, Figure
from layoutscope.drive.simulation import Part
from layoutscope.filesystems.registry import filesystem, filesystem_of
from layoutscope.remedies.case import (
    EMPTIER,
    LISTINGS,
    Case,
    Change,
    Changed,
    Effort,
    change_layout,
    change_reads,
    copying_s,
    data_bytes,
    entries_by_name,
    entries_in_walk_order,
    fills_in_order,
    leaves_as_full_as_now,
    level_by_level,
    make_changed,
    metadata_bytes,
    number_entries,
    rewriting_s,
    space_nodes,
    split_leaves,
    stream_rate,
)
from layoutscope.results.explanation import list_node_pieces, merge_partial_leaves, merge_reads_of_nodes
from layoutscope.results.frames import BATCH_ROWS, NAMED
from layoutscope.results.plan import EmittedOrder, MissingFiles
from layoutscope.structs.arrays import GAP_BYTES, distinct, find, is_head, order_of, ranges, request_bounds, starts_of
from layoutscope.tables import LIVE_STATES, Values
from layoutscope.tables.columns import are_walked
from layoutscope.units import GIB, MIB, format_count
from layoutscope.walk.data import data_trace, files_in_turn, merge_by_turn, read_in_turn
from layoutscope.walk.directories import drop_unlisted_entries, lookups, names_alone, names_and_folders, stat_walk
from layoutscope.walk.host import host_profile, host_time
from layoutscope.walk.orders import Work
from layoutscope.walk.visits import metadata_reads

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from layoutscope.access.trace import Touches
    from layoutscope.filesystems.contract import FileSystem
    from layoutscope.tables import Table, VolumeLayout

    I64 = NDArray[np.int64]

UNKNOWN_NAMES: Final = "the order in the new tree depends on names, which were left out"
WITH_CONTENTS: Final = "the placement of file contents in a copy is not modelled"

FILLED_ERROR: Final = 0.13
"""Largest relative error of the time predicted for a volume that is filled by a driver's rule: 10,000 files, with
another seed than those of docs/reference/remedies-proven.md (`tests.validation.remedies --files 10000 --seed 7`)."""
DAMAGED: Final = "part of the volume could not be read, so a copy cannot be modelled"

OF_ATTRIBUTES: Final = ("du", "backup", "git-status")
"""Orders that names alone are of no use to."""
NO_LISTING: Final = "the work reads more than names"
ALREADY: Final = "the drive is one already"
NO_DATA: Final = "a listing reads no contents of files"
CHANGES: Final[dict[str, Change]] = {}
"""Every change by name."""

REMEDIES: Final[list[str]] = []
"""Those that somebody can make on every volume: of the program, of the volume, of the drive."""


def change(apply: Change) -> Change:
    """Register a change, whose name is that of its function."""
    CHANGES[apply.__name__.replace("_", "-")] = apply
    return apply


def remedy(apply: Change) -> Change:
    """Register a change that is a remedy."""
    REMEDIES.append(apply.__name__.replace("_", "-"))
    return change(apply)


def of_listings(apply: Change) -> Change:
    """Refuse work that lists no attributes."""

    @wraps(apply)
    def apply_to_listing(case: Case, /) -> Changed | str:
        return apply(case) if case.order in LISTINGS else NO_LISTING

    return apply_to_listing


def with_effort(changed: Changed | str, effort: Effort | None) -> Changed | str:
    """Add the cost of making a change, if it applies."""
    return changed if isinstance(changed, str) else replace(changed, effort=effort)


def _lay_out(case: Case, name: str, lay_out: Callable[[VolumeLayout], VolumeLayout], unless: str) -> Changed | str:
    then = case.lay_out(name, lay_out)
    return unless if then is None else make_changed(then, None)


@change
def packed(case: Case) -> Changed | str:
    """Place the nodes end to end in key order."""
    return _lay_out(case, "packed", pack_nodes, "the nodes are contiguous and in key order already")


@change
def walk_order(case: Case) -> Changed | str:
    """Place the nodes end to end in the order in which they are read."""
    lay_out = partial(lay_in_read_order, reads=case.reads)
    return _lay_out(case, "walk-order", lay_out, "the nodes are in that order already")


@change
def clumped_like_hfs(case: Case) -> Changed | str:
    """Place the nodes end to end in their present order."""
    return _lay_out(case, "clumped", clump_nodes, "no data is between the nodes")


@change
def no_snapshots(case: Case) -> Changed | str:
    """Leave out what only snapshots hold."""
    return _lay_out(case, "no-snapshots", drop_snapshot_nodes, "no node is held by snapshots only")


@change
def outer_zone(case: Case) -> Changed | str:
    """Let the volume begin with the drive."""
    start = -case.layout.facts.image_offset
    if case.start_offset_bytes == start:
        return "the volume starts there already"
    return Changed((Part(case.reads, case.drive, start_offset_bytes=start),))


@change
def double_cache(case: Case) -> Changed | str:
    """Keep twice as much metadata."""
    held = case.host.cache_bytes
    if held is None:
        return "the memory for metadata is unlimited"
    return make_changed(case.with_layout(case.layout, host_profile(case.host, cache_bytes=2 * held)), None)


@change
def ssd(case: Case) -> Changed | str:
    """Serve the reads on flash."""
    flash = load_profile(FLASH)
    if case.drive.geometry == flash.geometry:
        return ALREADY
    return Changed((case.part(case.reads, flash),))


WHAT_IFS: Final = {
    "packed": "the same nodes, contiguous and in key order",
    "walk-order": "the same nodes, contiguous and in the order of reading",
    "clumped-like-hfs": "the same nodes in their order on disk, with no data between them",
    "outer-zone": "the volume starts at the outer edge of the drive",
    "no-snapshots": "without the nodes that only snapshots hold, and with a merged object map",
    "double-cache": "twice the memory for metadata",
    "ssd": "a solid-state drive (SATA)",
}
"""Changes that can be asked for as what-ifs, and what is different then, as a sentence's end."""

LAYOUTS: Final = ("packed", "walk-order", "clumped-like-hfs")
"""Changes that move nodes: the best of these layouts and the present one is the nearest known to a bound."""


@change
def without_maps(case: Case) -> Changed | str:
    """Leave out the reads that look up node addresses."""
    nodes = case.by_node
    trees = (nodes.nodes.tree_code(tree.name) for tree in case.traits.trees if tree.role == "map")
    is_map = np.isin(nodes.of_node(nodes.nodes.tree, -1), [code for code in trees if code >= 0])
    return change_reads(case, case.reads[~is_map]) if is_map.any() else "no map is read to look up nodes"


@change
def full_leaves(case: Case) -> Changed:
    """Merge neighbouring leaves as far as their records fit into one."""
    return change_reads(case, merge_partial_leaves(case.by_node))


@remedy
@of_listings
def names_only(case: Case) -> Changed | str:
    """Walk with FTS_NOSTAT, or with readdir where fts asks for inodes all the same, as Apple's does."""
    if case.order in OF_ATTRIBUTES:
        return "the work is about sizes or dates"
    if case.host.listing_carries_attributes:
        return change_reads(case, case.walk("names"))
    return change_reads(case, case.walk("fts", Work(stat=False)))


@remedy
@of_listings
def attributes_at_once(case: Case) -> Changed | str:
    """Walk as getattrlistbulk does, where the system has it."""
    if not case.host.listing_carries_attributes:
        return f"{case.host.name} has no such call"
    return change_reads(case, case.walk("bulk"))


@remedy
@of_listings
def stat_by_inode(case: Case) -> Changed | str:
    """Walk with the stats of a directory sorted."""
    return change_reads(case, stat_by_number(case, is_whole=False))


@remedy
@of_listings
def stat_all_by_inode(case: Case) -> Changed | str:
    """Walk the names, then stat by number."""
    return change_reads(case, stat_by_number(case, is_whole=True))


@remedy
@of_listings
def tree_in_key_order(case: Case) -> Changed | str:
    """Walk the leaves, as searchfs does where the system has it."""
    return change_reads(case, case.walk("searchfs" if case.host.listing_carries_attributes else "catalog"))


@change
@of_listings
def one_sweep(case: Case) -> Changed | str:
    """Read what leads to leaves as a walk does, level by level, then the leaves by address."""
    nodes = case.by_node
    level = nodes.of_node(nodes.nodes.level, 0)
    place = np.empty(len(nodes.trace), np.int64)
    place[nodes.by_place] = np.arange(len(place))
    turn = order_of(((int(level.max(initial=0)) - level) << 40) + place)
    return change_reads(case, nodes.trace[turn])


@remedy
@of_listings
def list_from_disk(case: Case) -> Changed | str:
    """Read all nodes as `layoutscope list` does: maps by address, then the nodes that they name."""
    nodes = case.by_node.nodes
    place, length, owner, _ = list_node_pieces(case.layout, nodes)
    maps = [nodes.tree_code(tree.name) for tree in case.traits.trees if tree.role == "map"]
    is_map = np.isin(nodes.tree[owner], maps)
    starts, lengths = [], []
    # Nodes of snapshots are also read; stale nodes are found only by a full pass.
    is_read = ~case.layout.columns("nodes")["state"].equals("stale")[owner]
    for chosen in (is_read & is_map, is_read & ~is_map):
        first, end = place[chosen], place[chosen] + length[chosen]
        heads = request_bounds(first, length[chosen], GAP_BYTES)[:-1]
        starts.append(first[heads])
        lengths.append(np.maximum.reduceat(end, heads) - first[heads] if len(heads) else first)
    device, offset = device_and_offset(np.concatenate(starts))
    # The program decodes a part of 8 MiB while nothing is read; most requests follow the previous one immediately.
    reads = replace(AccessTrace.from_reads(offset, np.concatenate(lengths)), device=device, after_us=case.reads.host_us)
    return change_reads(case, reads)


@remedy
def files_by_place(case: Case) -> Changed | str:
    """Walk, then read the files in disk order."""
    if not case.reads_data:
        return NO_DATA
    model = case.model
    descent = drop_unlisted_entries(model, case.descent)
    walked, per_buffer = stat_walk(model, descent).lay_out()
    files, _ = files_in_turn(model, descent, model.entries.is_file)
    place = first_places_on_disk(case.layout, model.entries.file_id[files])
    files = files[np.argsort(place, kind="stable")]
    before = walked, np.zeros(len(per_buffer), np.int64), per_buffer
    reads = data_trace(model, read_in_turn(model, [before], (files, np.arange(1, len(files) + 1)), nothing()))
    return change_reads(case, reads)


READ_AHEAD: Final = 8 * MIB


@remedy
def larger_requests(case: Case) -> Changed | str:
    """Join the pages of nodes; of work with contents, walk with more read-ahead."""
    if case.reads_data:
        host = host_profile(case.host, read_ahead_bytes=READ_AHEAD, optimal_read_bytes=READ_AHEAD)
        return change_reads(case, case.with_layout(case.layout, host).reads)
    joined = merge_reads_of_nodes(case.by_node)
    return "every node is one request already" if joined is case.reads else change_reads(case, joined)


THREADS: Final = 8
"""Reads in flight, one per thread; the threads of a host property share its processor time alone."""


@remedy
def more_in_flight(case: Case) -> Changed | str:
    """Cut the reads into as many parts, and serve one of each in turn, as many at once as there are parts."""
    if case.drive.members:
        return "parallel reads are modelled for single drives only"
    reads = case.reads
    part = -(-len(reads) // THREADS) or 1
    turn = np.lexsort((np.arange(len(reads)) // part, np.arange(len(reads)) % part))
    wall = host_time(reads.host_us, replace(case.host, threads=THREADS)).wall_s
    return Changed((case.part(reads[turn], queue_depth=THREADS),), least_s=wall)


CHANGED_SHARE: Final = 20
"""One directory of so many has changed since the last walk: 5 %."""


@remedy
@of_listings
def remembered_walk(case: Case) -> Changed | str:
    """Go down to every twentieth directory, and look at its content."""
    if case.layout.facts.view != "live":
        return "an older state does not change"
    descent = case.descent
    if len(descent) < CHANGED_SHARE:
        return f"with {format_count(len(descent), 'directory')} there is little to leave out"
    chosen = np.zeros(len(descent), bool)
    chosen[::CHANGED_SHARE] = True
    return change_reads(case, walk_folders(case, chosen))


@remedy
def rewritten_in_key_order(case: Case) -> Changed | str:
    """Place the nodes at new addresses."""
    return with_effort(packed(case), rewriting_s)


@remedy
def copied_in_walk_order(case: Case) -> Changed | str:
    """Fill a volume in the order of the walk."""
    return _new(case, filesystem_of(case.layout), entries_in_walk_order)


@remedy
def copied_by_name(case: Case) -> Changed | str:
    """Fill a volume in alphabetical order."""
    return _new(case, filesystem_of(case.layout), entries_by_name)


@remedy
def copied_by_level(case: Case) -> Changed | str:
    """Fill a volume from the root down, a level at a time."""
    return _new(case, filesystem_of(case.layout), level_by_level)


def _new(case: Case, target: FileSystem, order: Callable[[Case], NDArray[np.int64]]) -> Changed | str:
    """Say that the work is done on a new volume that was filled in an order: by the driver's rule, if that is known."""
    if case.reads_data:
        return WITH_CONTENTS
    if case.layout.coverage != 1:
        return DAMAGED
    source = number_entries(case, order(case))
    found = target.copied(source, case.host)
    if not found:
        return _keep_density(case, target.remade(source), is_by_folder=order is not level_by_level)
    changed = change_layout(case, found[0], copying_s)
    alternatives = tuple(change_layout(case, other, None).parts for other in found[1:])
    return replace(changed, alternatives=alternatives, error_share=FILLED_ERROR)


def _keep_density(case: Case, made: VolumeLayout | None, *, is_by_folder: bool) -> Changed | str:
    """Place the nodes as densely as now; whether they are as full and in order is not known.

    Leaves of a new copy are at least as full as those of a volume that the same system wrote.
    """
    if made is None:
        return UNKNOWN_NAMES
    leaves = min(EMPTIER, leaves_as_full_as_now(case, made))
    made = space_nodes(case, made)
    (part,) = change_layout(case, split_leaves(made), None).parts
    changed = change_layout(case, made, copying_s)
    (own,) = changed.parts
    others = (
        () if is_by_folder and leaves <= 1 and fills_in_order(case) else ((replace(part, times=max(leaves, 1.0)),),)
    )
    return replace(changed, parts=(replace(own, times=min(leaves, 1.0)),), alternatives=others)


@remedy
def block_copy(case: Case) -> Changed | str:
    """Leave every read where it is."""
    return change_reads(
        case, case.reads, lambda case: (data_bytes(case) + metadata_bytes(case)) / stream_rate(case.drive)
    )


@remedy
def condensed(case: Case) -> Changed | str:
    """Fill a tree with the same numbers."""
    if not case.traits.maps_every_node:
        return "there is such a tool for trees alone whose nodes each have a place of their own"
    return _refill_tree(case)


@remedy
def snapshots_removed(case: Case) -> Changed | str:
    """Leave out what only snapshots hold."""
    return no_snapshots(case)


@remedy
def catalog_rebuilt(case: Case) -> Changed | str:
    """Fill a catalog with the same numbers."""
    if case.traits.maps_every_node:
        return f"{case.traits.label} has no catalog file"
    return _refill_tree(case)


def _refill_tree(case: Case) -> Changed | str:
    """Fill the tree with names in the order of its keys; numbers stay."""
    if case.reads_data:
        return WITH_CONTENTS
    if case.layout.coverage != 1:
        return DAMAGED
    made = filesystem_of(case.layout).remade(case.layout)
    return UNKNOWN_NAMES if made is None else change_layout(case, space_nodes(case, made), rewriting_s)


ZONED_FROM: Final = 10 * GIB
"""Smaller volumes, and those without a journal, have no metadata zone on macOS."""


@remedy
def metadata_zone_free(case: Case) -> Changed | str:
    """Place the nodes end to end in their present order."""
    if case.traits.maps_every_node:
        return f"{case.traits.label} has no such zone"
    if case.layout.facts.size_bytes < ZONED_FROM or "journaled" not in case.layout.facts.features:
        return "macOS keeps such a zone on journaled volumes of 10 GiB and more alone"
    return clumped_like_hfs(case)


@remedy
def outer_half(case: Case) -> Changed | str:
    """Move the volume to the start."""
    if case.drive.geometry == "none":
        return "on flash every place is as quick as any other"
    begins = case.layout.facts.image_offset + case.start_offset_bytes
    if case.layout.facts.size_bytes > case.drive.capacity_bytes // 2:
        return "the volume is larger than half of the drive"
    if begins + case.layout.facts.size_bytes <= case.drive.capacity_bytes // 2:
        return "the volume is already in the outer half, as far as is known (--start-offset sets its place)"
    return with_effort(outer_zone(case), copying_s)


@remedy
def files_defragmented(case: Case) -> Changed | str:
    """Put the extents of each file after the first."""
    if not case.reads_data:
        return "it moves the contents of files, and a listing reads none"
    extents = case.layout.columns("extents")
    offset, logical = extents["image_offset"], extents["logical_offset"].data
    number, fork = extents["file_id"].data, extents["fork"].numbered()[0]
    order = np.lexsort((logical, fork, number))
    begins = is_head(number[order], fork[order])
    first = np.empty(len(order), np.int64)
    first[order] = order[begins][np.cumsum(begins) - 1]
    # Holes stay holes.
    known = offset.is_known & offset.is_known[first]
    made = Values(np.where(known, offset.signed()[first] + logical, 0), known)
    if np.array_equal(made.signed(), offset.signed()):
        return "every file is already in one piece"
    return change_layout(case, case.layout.changed(extents=extents.changed("image_offset", made)), None)


DISK: Final = "generic-7200"
FLASH: Final = "sata-ssd"
CHUNK_BYTES: Final = 65_536


@remedy
def other_disk(case: Case) -> Changed | str:
    """Serve the reads on it."""
    if case.drive.geometry == "none":
        return "the drive has no arm, and is quicker"
    return _on(case, load_profile(DISK))


@remedy
def solid_state(case: Case) -> Changed | str:
    """Serve the reads on it."""
    if case.drive.geometry == "none":
        return ALREADY
    return _on(case, load_profile(FLASH))


def _on(case: Case, drive: DriveProfile) -> Changed | str:
    if drive.geometry == case.drive.geometry and drive.name == case.drive.name:
        return ALREADY
    end = int((case.reads.image_offset + case.reads.length_bytes).max(initial=0))
    if end > drive.capacity_bytes:
        return "the volume does not fit on it"
    return Changed((replace(case.part(case.reads, drive), start_offset_bytes=0),), copying_s)


@remedy
def metadata_on_flash(case: Case) -> Changed | str:
    """Serve nodes on flash, and the rest where it is."""
    if case.drive.geometry == "none" or case.drive.kind == "fusion":
        return "the metadata is on flash already, or may be"
    is_node = case.by_node.node >= 0
    flash = replace(case.reads[is_node], after_us=0.0)
    rest = case.part(case.reads[~is_node])
    drive = load_profile(FLASH)
    if int((flash.image_offset + flash.length_bytes).max(initial=0)) > drive.capacity_bytes:
        # The flash drive stores only the nodes, and their place on it makes no difference.
        flash = replace(flash, image_offset=flash.image_offset % (drive.capacity_bytes // 2))
    return Changed((Part(flash, drive), rest), copying_s)


@remedy
def striped(case: Case) -> Changed | str:
    """Serve the reads on two of the drive."""
    if case.drive.members:
        return "the drive is a set already"
    chunk = {"chunk_bytes": Figure(CHUNK_BYTES, "datasheet", "as this remedy says")}
    made = DriveProfile(
        f"two {case.drive.name}",
        f"two of {case.drive.title}",
        "stripe",
        chunk,
        case.drive.folder,
        (case.drive,) * 2,
    )
    return Changed((case.part(case.reads, made),), copying_s)


def on_other_file_system(name: str) -> Change:
    """Return the remedy of a copy to another file system."""

    def copy_over(case: Case) -> Changed | str:
        """Let the other file system place the entries, in the order of the walk."""
        if filesystem_of(case.layout).name == name:
            return "the volume has that file system already"
        return _new(case, filesystem(name), entries_in_walk_order)

    return copy_over


def stat_by_number(case: Case, *, is_whole: bool) -> AccessTrace:
    """List, then stat in the order of inode numbers: directory by directory, or everything after all listings."""
    needed = _touches_by_number(case, is_whole=is_whole)
    return metadata_reads(case.model, [(needed, np.zeros(len(needed), np.uint16))])


def _touches_by_number(case: Case, *, is_whole: bool) -> Touches:
    """Lay out the touches; the memory that this takes is free again when the nodes are read."""
    model = case.model
    descent = drop_unlisted_entries(model, case.descent)
    # A folder that was not stat'ed is looked up when it is opened.
    walk = names_and_folders(model, descent) if is_whole else names_alone(model, descent)
    listed, per_buffer = walk.lay_out()
    shown = ranges(descent.first, descent.count)
    turn = np.repeat(np.arange(len(descent)), descent.count)
    seen = ~model.entries.is_hidden[shown]
    shown, turn = shown[seen], np.zeros(int(seen.sum()), np.int64) if is_whole else turn[seen]
    order = np.lexsort((model.entries.file_id[shown], turn))
    found, each = lookups(model, shown[order])
    when = walk.directory - len(descent) if is_whole else walk.directory
    return merge_by_turn([(listed, when, per_buffer), (found, turn[order], each)])


def walk_folders(case: Case, chosen: NDArray[np.bool_]) -> AccessTrace:
    """Go down to some folders of the walk, each by its path, and list and stat their content."""
    model, descent = case.model, case.descent.take(np.flatnonzero(chosen))
    is_below = np.flatnonzero(descent.entry >= 0)
    needed, owner = find_needed_entries(case, descent.entry[is_below])
    found, each = lookups(model, needed)
    walk = stat_walk(model, drop_unlisted_entries(model, descent))
    listed, per_buffer = walk.lay_out()
    touches = merge_by_turn([(found, 2 * is_below[owner], each), (listed, 2 * walk.directory + 1, per_buffer)])
    return metadata_reads(model, [(touches, np.zeros(len(touches), np.uint16))])


def find_needed_entries(case: Case, files: I64) -> tuple[I64, I64]:
    """Find what each file or folder is the first to need: entries on the way to it from the root down, itself last.

    Entries, each once, and the place in `files` of what is the first to need it, ascending.
    """
    entries = case.model.entries
    folders = np.flatnonzero(entries.is_directory)
    above = find(entries.file_id[folders], entries.parent_id)
    parent = np.where(above >= 0, folders[np.maximum(above, 0)] if len(folders) else -1, -1)
    owner, height = np.full(len(entries), len(files)), np.zeros(len(entries), np.int64)
    at, places, step = files, np.arange(len(files)), 0
    while len(at):
        # One level up per round. If an earlier file needs a folder, a later one needs nothing at or above it.
        np.minimum.at(owner, at, places)
        is_first = owner[at] == places
        at, places = at[is_first], places[is_first]
        height[at] = step
        upper = parent[at]
        is_new = (upper >= 0) & (places < owner[np.maximum(upper, 0)])
        at, places, step = upper[is_new], places[is_new], step + 1
    needed = np.flatnonzero(owner < len(files))
    needed = needed[np.lexsort((-height[needed], owner[needed]))]
    return needed, owner[needed]


def first_places_on_disk(layout: VolumeLayout, file_id: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return where the data of files begin, by device and address; after everything else if that is not known."""
    table = layout.columns("extents")
    known = np.flatnonzero(table["image_offset"].is_known & table["fork"].equals("data"))
    owner, logical = table["file_id"].data[known], table["logical_offset"].signed()[known]
    at = place_of(table["device"].filled(0)[known], table["image_offset"].signed()[known])
    order = np.lexsort((logical, owner))
    owner, at = owner[order], at[order]
    place = find(owner, file_id)
    result = np.full(len(file_id), NOWHERE)
    result[place >= 0] = at[place[place >= 0]]
    return result


NOWHERE = np.iinfo(np.int64).max

ENTRY_BYTES: Final = 64
"""What a name in memory takes besides its path: number, place, and what points to them."""

PLACE, WALK, NAMES, INODES = "by place", "walk", "names", "inodes"
"""Orders that are timed: that of the list, the walk's, sorted by name, sorted by number."""

LINE_END: Final = "line end"
"""A flaw of a path in a list whose names end with line ends, besides those of :mod:`layoutscope.access.entries`."""
REASONS: Final = {
    NAME: "their names cannot be part of a path",
    LENGTH: f"their paths have more than {MAX_PATH_BYTES:,} bytes",
    LOST: "no path leads to them from the root",
    LINE_END: "line ends in their paths; -0 lists them",
}


def file_list(
    case: Case, memory_bytes: int | None = None, *, is_null_separated: bool = False, path: str = ""
) -> tuple[tuple[bytes, ...], EmittedOrder]:
    """List all files in the order in which they are best read, by paths from the root that begin with `./`.

    The result has the contents of the list, and what it leaves out.
    """
    entries = case.model.entries
    files = entries_in_walk_order(case)
    files = files[~entries.is_directory[files]]
    rows = np.arange(len(entries))[entries.order][files]
    paths, flaws, shown = _spell_paths(case.layout, rows, is_null_separated=is_null_separated)
    # The pieces of the walk that memory holds at once.
    windows = np.zeros(len(paths), np.int64)
    if memory_bytes is not None:
        windows = (np.cumsum([ENTRY_BYTES + len(each) for each in paths]) - 1) // max(memory_bytes, 1)
    at = first_places_on_disk(case.layout, entries.file_id[files])
    order = np.lexsort((entries.file_id[files], at, windows))
    by_name = entries_by_name(case)
    orders = {PLACE: files[order], WALK: files, NAMES: by_name[~entries.is_directory[by_name]]}
    orders[INODES] = files[np.argsort(entries.file_id[files], kind="stable")]
    seconds = tuple((name, _seconds(case, chosen)) for name, chosen in orders.items())
    counts = Counter(filter(None, flaws))
    missing = [MissingFiles(REASONS[flaw], counts[flaw], shown[flaw]) for flaw in REASONS if counts[flaw]]
    left = int((~entries.is_directory).sum()) - len(files)
    missing += [MissingFiles("no walk from the root comes to them", left)] if left else []
    listed = tuple(paths[place] for place in order.tolist() if not flaws[place])
    return listed, EmittedOrder(path, len(listed), tuple(missing), int(windows.max(initial=0)) + 1, seconds)


def _spell_paths(
    layout: VolumeLayout, rows: I64, *, is_null_separated: bool
) -> tuple[list[bytes], list[str], dict[str, str]]:
    """Spell the path of each row of the entries: as a list has it, its flaw if any, and the first path of each flaw."""
    spelling, entries = Paths(layout), layout.columns("entries")
    paths: list[bytes] = []
    flaws: list[str] = []
    shown: dict[str, str] = {}
    for first in range(0, len(rows), BATCH_ROWS):
        part = entries.take(rows[first : first + BATCH_ROWS])
        for row in zip(*map(part.listed, NAMED), strict=True):
            text, flaw = path = spelling.entry(*row)
            flaw = flaw or ("" if is_null_separated or "\n" not in text else LINE_END)
            if flaw:
                shown.setdefault(flaw, text)
            paths.append(b"." + path.to_bytes())
            flaws.append(flaw)
    return paths, flaws, shown


def _seconds(case: Case, files: I64) -> float:
    """Look each file up by its path, and read it when its turn comes."""
    model = case.model
    needed, owner = find_needed_entries(case, files)
    found, each = lookups(model, needed)
    step = found, owner, each
    _, first = np.unique(model.entries.file_id[files], return_index=True)
    has_data = model.entries.is_file[files] & (model.entries.size_bytes[files] > 0)
    wanted = np.sort(first)
    wanted = wanted[has_data[wanted]]
    reads = data_trace(model, read_in_turn(model, [step], (files[wanted], wanted), nothing()))
    return service(reads, case.drive, start_offset_bytes=case.start_offset_bytes).seconds


def _list_walked_maps(layout: VolumeLayout) -> list[str]:
    """Return the walked trees that map the addresses of the others."""
    return [tree.name for tree in filesystem_of(layout).traits.trees if tree.is_walked and tree.role == "map"]


def pack_nodes(layout: VolumeLayout) -> VolumeLayout:
    """Place index nodes from the root down, then maps, then leaves in key order, end to end."""
    places = _walked_rows(layout)
    moved = layout.columns("nodes").take(places)
    tree, level = moved["tree"], moved["level"].signed()
    is_leaf = (level == 0) & tree.equals(filesystem_of(layout).traits.main_tree)
    codes, words = tree.numbered()
    spelled = np.argsort(np.argsort(np.array(words, np.str_)))[codes] if words else codes
    keys = (moved["key_rank"].signed(), -level, spelled, tree.is_in(_list_walked_maps(layout)), is_leaf)
    return _lay_end_to_end(layout, places[np.lexsort(keys)])


def clump_nodes(layout: VolumeLayout) -> VolumeLayout:
    """Place the same nodes in the same order without the data between them, separately on each device of a set."""
    places = _walked_rows(layout)
    ordered = places[_order_by_address(layout.columns("nodes").take(places))]
    return _lay_end_to_end(layout, ordered, keeps_device=True)


def lay_in_read_order(layout: VolumeLayout, reads: AccessTrace) -> VolumeLayout:
    """Lay nodes end to end in the order of their first reads; nodes that are not read follow."""
    places = _walked_rows(layout)
    moved = layout.columns("nodes").take(places)
    offset = moved["image_offset"].signed()
    turn = first_reads(reads, moved["device"].filled(0), offset)
    return _lay_end_to_end(layout, places[np.lexsort((offset, turn))])


def first_reads(reads: AccessTrace, device: NDArray[np.uint8], image_offset: NDArray[Any]) -> I64:
    """Return the number of the read that first touches each node, or the number of reads if none does."""
    place = place_of(device, image_offset)
    order = np.argsort(place, kind="stable")
    begin = place_of(reads.device, reads.image_offset)
    # A read may begin within a node (the previous one in order) and extend over several nodes.
    first = np.maximum(np.searchsorted(place[order], begin, side="right") - 1, 0)
    stop = np.maximum(np.searchsorted(place[order], begin + reads.length_bytes, side="left"), first + 1)
    turn = np.full(len(place), len(reads), np.int64)
    for step in range(int((stop - first).max(initial=0))):
        going_on = np.flatnonzero(first + step < np.minimum(stop, len(place)))
        np.minimum.at(turn, order[first[going_on] + step], going_on)
    return turn


def _walked_rows(layout: VolumeLayout) -> I64:
    """Return the places, in the table of nodes, of the nodes that enumerations read."""
    nodes = layout.columns("nodes")
    trees = filesystem_of(layout).traits.walked_trees
    is_walked = nodes["state"].is_in(LIVE_STATES) & nodes["tree"].is_in(trees)
    return np.flatnonzero(nodes["level"].is_known & is_walked & are_walked(nodes))


def _order_by_address(nodes: Table) -> I64:
    return np.lexsort((nodes["image_offset"].signed(), nodes["device"].filled(0)))


def _lay_end_to_end(
    layout: VolumeLayout,
    places: I64,  # places of the nodes in the table
    *,
    keeps_device: bool = False,  # whether each node stays on its device; if not, all are on that of the first
) -> VolumeLayout:
    """Lay nodes end to end from the current address of the first of them."""
    nodes, fragments = layout.columns("nodes"), layout.columns("node_fragments")
    maps_every_node = filesystem_of(layout).traits.maps_every_node
    before, device = nodes["image_offset"].signed(), nodes["device"].filled(0).copy()
    offset = before.copy()
    if len(places) and not keeps_device:
        device[places] = device[places[_order_by_address(nodes.take(places))[0]]]
    own_device = nodes["device"].filled(0)
    for each in distinct(device[places]):
        mine = places[device[places] == each]
        first = before[mine][own_device[mine] == each].min()
        offset[mine] = first + starts_of(nodes["size_bytes"].data[mine])
    are_located = nodes["locator_row"].is_known.any() and not maps_every_node
    if np.array_equal(offset, before) and not len(fragments) and not are_located:
        return layout
    moved = nodes.changed("image_offset", Values(offset, offset >= 0)).changed("device", Values(device))
    if not maps_every_node:
        # Laid end to end, a tree is within the first extents of its file.
        moved = moved.changed("locator_row", Values(np.zeros(len(nodes), np.uint32), np.zeros(len(nodes), np.bool_)))
    kept = fragments.take(~np.isin(fragments["node_row"].data, nodes["row"].data[places]))
    return layout.changed(nodes=moved, node_fragments=kept)


def drop_snapshot_nodes(layout: VolumeLayout) -> VolumeLayout:
    """Drop nodes that only snapshots use; neighbouring map leaves merge up to the capacity of the fullest one."""
    nodes = layout.columns("nodes")
    live = nodes.take(nodes["state"].is_in(LIVE_STATES))
    if len(live) == len(nodes):
        return layout
    if not filesystem_of(layout).traits.maps_every_node:
        return layout.changed(nodes=live)
    leaves = live.take(live["tree"].is_in(_list_walked_maps(layout)) & (live["level"].signed() == 0))
    leaves = leaves.take(np.argsort(leaves["key_rank"].signed(), kind="stable"))
    rows, locator = leaves["row"].data, live["locator_row"]
    needed = np.bincount(locator.present(), minlength=int(rows.max(initial=0)) + 1)
    target = _merge_leaves(needed[rows], int(leaves["num_records"].filled(0).max(initial=0)) or 1)
    merged = np.arange(max(len(needed), int(locator.filled(0).max(initial=0)) + 1), dtype=np.uint32)
    merged[rows] = rows[target]
    replaced = live.changed("locator_row", Values(merged[locator.filled(0)], locator.known))
    return layout.changed(nodes=replaced)


def _merge_leaves(counts: I64, capacity: int) -> I64:
    """Return the leaf that gets each leaf's records when neighbours are merged up to a capacity."""
    target = np.zeros(len(counts), np.int64)
    head, size = 0, 0
    for place, count in enumerate(counts.tolist()):
        if size + count > capacity:
            head, size = place, 0
        size += count
        target[place] = head
    return target

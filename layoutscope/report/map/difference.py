"""What changed on a disk between two states of it, byte by byte: what moved, came, went and stayed.

A disk of this kind holds the layouts of both states, the later one's first. Nodes are followed as the comparison of two
images follows them, by tree and number; what is held by a snapshot alone stays where the other state has the same node
at the same place. Each byte is of one class: what is there now goes before what was there, metadata before data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec.structs import replace

from layoutscope.errors import UsageError
from layoutscope.report.map import pyramid as classes
from layoutscope.report.map.pyramid import CHANGES, MapClass, Share, from_layouts, partition
from layoutscope.report.map.scans import DEVICES, MapDisk, first_walks
from layoutscope.results import compare
from layoutscope.results.compare import NODE_APPEARED, NODE_MOVED, NODE_STAYED, NODE_WENT
from layoutscope.results.explanation import drive_words
from layoutscope.structs.arrays import dense_codes, intersect, runs_of, subtract, union
from layoutscope.units import format_bytes, format_count, format_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from layoutscope.tables import Table, VolumeLayout

    Runs = NDArray[np.int64]
    Tally = dict[str, NDArray[np.int64]]
    """How many nodes of each tree stayed, moved, appeared and went."""

PLACE: Final = ("image_offset", "block_size_bytes", "device")
"""What two states of a disk have in common."""

STAYED, MOVED, ALONE = 0, 1, 2
"""What happened to a node: it is at the same place in the other state, at another one, or only in its own."""


def difference(earlier: Sequence[MapDisk], later: Sequence[MapDisk], labels: tuple[str, str]) -> list[MapDisk]:
    """Set the disks of one state against those of another."""
    pairs = [(before, now) for now in later for before in earlier if _same(before, now)]
    if not pairs:
        raise UsageError(
            f"{labels[0]} and {labels[1]} are not two states of one volume: none of one has the identifier of one of "
            "the other, at the same byte of its image"
        )
    alone = len(earlier) + len(later) - 2 * len(pairs)
    return [_between(before, now, labels, alone) for before, now in pairs]


def _same(before: MapDisk, now: MapDisk) -> bool:
    ids = [{_identity(layout) for layout in disk.layouts if layout.facts.uuid} for disk in (before, now)]
    is_placed_alike = all(getattr(before, name) == getattr(now, name) for name in PLACE)
    return bool(ids[0] & ids[1]) and is_placed_alike


def _identity(layout: VolumeLayout) -> tuple[str, str]:
    return layout.facts.filesystem, layout.facts.uuid


def _between(before: MapDisk, now: MapDisk, labels: tuple[str, str], alone: int) -> MapDisk:
    table = _tally(before.layouts, now.layouts)
    rows = tuple((tree, *(f"{count:,}" for count in counts.tolist())) for tree, counts in table.items())
    coverages = [disk.coverage for disk in (before, now) if disk.coverage is not None]
    made = MapDisk(
        title=f"{labels[0]} to {labels[1]}{f', {DEVICES[now.device]}' if now.device else ''}",
        subtitle=now.subtitle,
        layouts=[*now.layouts, *before.layouts],
        image_offset=now.image_offset,
        size_bytes=max(before.size_bytes, now.size_bytes),
        block_size_bytes=now.block_size_bytes,
        facts=[("nodes by tree", ("tree", "stayed", "moved", "came", "went"), rows)],
        kind=now.kind,
        coverage=min(coverages) if len(coverages) == len((before, now)) else None,
        warnings=tuple(_warnings(before, now, alone)),
        device=now.device,
        num_earlier=len(before.layouts),
    )
    if now.device:
        return replace(made, facts=[])  # shown for the set's main device
    held = {share.item.key: share.size_bytes for share in share_by_change(made)}
    return replace(made, story=tuple(_story(table, held, labels, (before, now))))


def _warnings(before: MapDisk, now: MapDisk, alone: int) -> Iterator[str]:
    for name, disk in (("Earlier", before), ("Later", now)):
        yield from (f"{name}: {warning}" for warning in disk.warnings)
    if alone:
        yield "Volumes that only one of the two images has are not shown."


def _tally(before: Sequence[VolumeLayout], now: Sequence[VolumeLayout]) -> Tally:
    """Count the nodes of each tree by what happened to them; a volume that one state lacks came or went as a whole."""
    found: Tally = {}
    for earlier, later in _twins(before, now):
        one, other = earlier or later, later or earlier
        nodes = compare.join_nodes(one, other)  # type: ignore[arg-type]  # one of the two is there
        change = nodes.change if earlier and later else np.full(len(nodes), NODE_WENT if earlier else NODE_APPEARED)
        for tree in nodes.tree.words:
            counts = np.bincount(change[nodes.tree.equals(tree)], minlength=4)
            if counts.any():
                found[tree] = found.get(tree, np.zeros(4, np.int64)) + counts
    return dict(sorted(found.items()))


def _twins(
    before: Sequence[VolumeLayout], now: Sequence[VolumeLayout]
) -> list[tuple[VolumeLayout | None, VolumeLayout | None]]:
    """Pair the layouts of two states by what their volumes are."""
    old, new = ({_identity(layout): layout for layout in layouts} for layouts in (before, now))
    return [(old.get(key), new.get(key)) for key in {**new, **old}]


def _story(
    table: Tally, held: dict[str, int], labels: tuple[str, str], disks: tuple[MapDisk, MapDisk]
) -> Iterator[str]:
    stayed, moved, came, went = sum(table.values(), np.zeros(4, np.int64)).tolist()
    if not any(held.get(item.key, 0) for item in (*CHANGES, classes.NOT_TOLD)):
        yield (
            f"Nothing moved, came or went between {labels[0]} and {labels[1]}: {_nodes(stayed)} and all file data are "
            f"where they were."
        )
    else:
        yield (
            f"From {labels[0]} to {labels[1]}, {_nodes(moved)} moved, {came:,} came and {went:,} went; "
            f"{stayed:,} stayed where they were."
        )
        data = [format_bytes(held[item.key]) for item in (classes.NEW_DATA, classes.OLD_DATA)]
        yield f"{data[0]} hold file data that was not there before; from {data[1]} file data is gone."
    if held.get(classes.NOT_TOLD.key):
        hidden = format_bytes(held[classes.NOT_TOLD.key])
        yield f"Unknown for {hidden}: one of the two states was not read there."
    walks = [first_walks(disk) for disk in disks]
    if len({(walk.order, walk.drive) for own in walks for walk in own}) == 1 and all(walks):
        before, now = (format_seconds(sum(walk.seconds for walk in own)) for own in walks)
        yield f"Listing all files takes {now} on a {drive_words(walks[0][0].drive)}, before it took {before}."


def _nodes(count: int) -> str:
    return f"{format_count(count, 'node')} of metadata"


def _state(disk: MapDisk, own: list[VolumeLayout], others: list[VolumeLayout], *, is_later: bool) -> dict[str, Runs]:
    """Return what one of the two states holds where, by group, and where its nodes moved or are alone."""
    segments = from_layouts(own, disk.device)
    size = min(disk.size_bytes, max(layout.facts.size_bytes for layout in own))  # of a set, that of all its drives
    shares = partition(segments, disk.image_offset, size, disk.block_size_bytes)
    hidden = (classes.DAMAGED, classes.LOCKED)
    found = {
        group: union([share.runs for share in shares if share.item.group == group and share.item not in hidden])
        for group in (classes.METADATA, classes.UNKNOWN)
    }
    found["data"] = union([share.runs for share in shares if share.item == classes.FILE_DATA])
    found["hidden"] = union([share.runs for share in shares if share.item in hidden])
    change, _ = _all_followed(own, others, is_later=is_later)
    nodes = segments.take(np.flatnonzero(segments.owner > 0))
    for name, code in (("moved", MOVED), ("alone", ALONE)):
        chosen = change[nodes.owner - 1] == code
        found[name] = runs_of(nodes.start[chosen] - disk.image_offset, nodes.length[chosen])
    return found


def disk_changes(disk: MapDisk) -> dict[str, NDArray[Any]]:
    """Return what happened to each node of a disk of two states, in the order of its layouts.

    `change` (0 stayed, 1 moved here, 2 came, 3 moved away, 4 went), and `other`, the node's address in the other state
    or -1.
    """
    later, earlier = _cut(disk)
    now, where_before = _all_followed(later, earlier, is_later=True)
    then, where_now = _all_followed(earlier, later, is_later=False)
    gone = np.where(then == STAYED, STAYED, then + ALONE)
    return {"change": np.concatenate([now, gone]), "other": np.concatenate([where_before, where_now])}


def _cut(disk: MapDisk) -> tuple[list[VolumeLayout], list[VolumeLayout]]:
    cut = len(disk.layouts) - disk.num_earlier
    return disk.layouts[:cut], disk.layouts[cut:]


def _all_followed(
    own: list[VolumeLayout], others: list[VolumeLayout], *, is_later: bool
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    twins = {_identity(layout): layout for layout in reversed(others)}
    followed = [_followed(layout, twins.get(_identity(layout)), is_later=is_later) for layout in own]
    return np.concatenate([change for change, _ in followed]), np.concatenate([other for _, other in followed])


def _followed(
    layout: VolumeLayout, twin: VolumeLayout | None, *, is_later: bool
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return what happened to each node of a layout, and its address in the other state, or -1."""
    start = layout.facts.image_offset
    nodes = layout.columns("nodes")
    if twin is None:
        return np.full(len(nodes), ALONE, np.uint8), np.full(len(nodes), -1, np.int64)
    followed = compare.join_nodes(twin, layout) if is_later else compare.join_nodes(layout, twin)
    here, there = followed.earlier_offset, followed.later_offset
    if is_later:
        here, there = there, here
    twins = twin.columns("nodes")
    words = sorted({*nodes["tree"].words, *twins["tree"].words})
    own, placed = (_keys(table, words, start) for table in (nodes, twins))
    is_placed = nodes["image_offset"].is_known
    live = np.flatnonzero(here.is_known)
    keys = (compare.map_codes(followed.tree, words)[live], followed.node_id[live], here.data[live])
    row = np.where(is_placed, compare.match_rows(own, keys), compare.NONE)
    change, other = (np.append(values, -1)[row] for values in (followed.change[live].astype(np.int8), there.data[live]))
    has_other = np.append(there.is_known[live], values=False)[row]
    # A node that no live state has is known by its place.
    is_there = is_placed & (compare.match_rows(own, placed) != compare.NONE)
    code = np.where((change == NODE_STAYED) | is_there, STAYED, np.where(change == NODE_MOVED, MOVED, ALONE))
    return code.astype(np.uint8), np.where(has_other, other + start, -1)


def _keys(nodes: Table, words: list[str], start: int) -> tuple[NDArray[Any], ...]:
    return compare.map_codes(nodes["tree"], words), nodes["node_id"].data, nodes["image_offset"].signed() - start


def share_by_change(disk: MapDisk) -> tuple[Share, ...]:
    """Share out a disk of two states among the classes of change."""
    later, earlier = _cut(disk)
    before, now = _state(disk, earlier, later, is_later=False), _state(disk, later, earlier, is_later=True)
    left = np.array([[0, disk.size_bytes]], np.int64)
    taken: dict[str, Runs] = {}

    def take(item: MapClass, runs: Runs) -> None:
        nonlocal left
        taken[item.key] = union([taken.get(item.key, runs[:0]), intersect(runs, left)])
        left = subtract(left, runs)

    metadata, was_metadata = now[classes.METADATA], before[classes.METADATA]
    unknown, was_unknown = now[classes.UNKNOWN], before[classes.UNKNOWN]
    take(classes.NOT_TOLD, union([before["hidden"], now["hidden"]]))
    take(classes.MOVED_HERE, intersect(now["moved"], metadata))
    came = intersect(now["alone"], metadata)
    take(classes.STILL_THERE, subtract(intersect(metadata, was_metadata), came))
    take(classes.NOT_TOLD, intersect(metadata, was_unknown))
    take(classes.CAME, metadata)
    take(classes.MOVED_AWAY, intersect(before["moved"], was_metadata))
    take(classes.NOT_TOLD, intersect(was_metadata, unknown))
    take(classes.WENT, was_metadata)
    take(classes.STILL_THERE, _same_files(disk, before["data"], now["data"]))
    take(classes.NOT_TOLD, union([unknown, was_unknown]))
    take(classes.NEW_DATA, now["data"])
    take(classes.OLD_DATA, before["data"])
    order = (*CHANGES, classes.STILL_THERE, classes.NOT_TOLD)
    return (*(Share(item, taken[item.key]) for item in order), Share(classes.FREE_NOW, left))


def _same_files(disk: MapDisk, was_data: Runs, data: Runs) -> Runs:
    """Return where data of one file is in both states; for data of unknown files, where both states have data."""
    kept, owned, was_owned = [], [], []
    layouts, were_layouts = _cut(disk)
    for earlier, later in _twins(were_layouts, layouts):
        old, new = (_extents(disk, layout) for layout in (earlier, later))
        (old_file, new_file), _ = dense_codes(old[0], new[0])
        # Each file has a stretch of numbers of its own, one longer than the disk so that no two touch.
        span = disk.size_bytes // disk.block_size_bytes + 2
        sets = [
            runs_of(file * span + start // disk.block_size_bytes, -(-length // disk.block_size_bytes))
            for file, (_, start, length) in ((old_file, old), (new_file, new))
        ]
        same = intersect(*sets)
        kept.append(runs_of(same[:, 0] % span, same[:, 1]) * disk.block_size_bytes)
        was_owned.append(runs_of(*old[1:]))
        owned.append(runs_of(*new[1:]))
    nameless = intersect(subtract(data, union(owned)), subtract(was_data, union(was_owned)))
    return union([intersect(intersect(union(kept), data), was_data), nameless])


def _extents(disk: MapDisk, layout: VolumeLayout | None) -> tuple[NDArray[np.uint64], Runs, Runs]:
    """Return file, first byte from the start of the range, and length of each extent on this drive."""
    if layout is None:
        return np.empty(0, np.uint64), np.empty(0, np.int64), np.empty(0, np.int64)
    extents = layout.columns("extents")
    start, length = extents["image_offset"].signed() - disk.image_offset, extents["length_bytes"].signed()
    is_inside = (start >= 0) & (length > 0) & (start + length <= disk.size_bytes)
    held = extents.take(extents["image_offset"].is_known & is_inside & (extents["device"].data == disk.device))
    return (
        held["file_id"].filled(0).astype(np.uint64),
        held["image_offset"].data.astype(np.int64) - disk.image_offset,
        held["length_bytes"].data.astype(np.int64),
    )

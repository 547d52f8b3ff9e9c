"""A layout of a volume that has aged: its tables as a reader would have made them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec.structs import replace

from layoutscope.aging import trees as rec
from layoutscope.aging.trees import NOWHERE, loads
from layoutscope.frames import pl
from layoutscope.structs.arrays import is_among
from layoutscope.tables.columns import are_walked
from layoutscope.tables.schema import FLAG_HARD_LINK, FLAG_PRIVATE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.aging.model import AgingVolume
    from layoutscope.aging.trees import AgingTree, TreeLevel
    from layoutscope.tables import VolumeLayout

    I64 = NDArray[np.int64]


def build_aged_layout(layout: VolumeLayout, volume: AgingVolume) -> VolumeLayout:
    """Make the layout of a volume that has aged."""
    first_row = int(layout.nodes["row"].max() or 0) + 1  # type: ignore[arg-type]
    rows, at = {}, first_row
    for name, tree in volume.trees.items():
        starts = at + np.cumsum([0] + [len(level) for level in tree.levels])
        rows[name], at = starts, int(starts[-1])
    frames = [_nodes(layout, volume, name, rows) for name in volume.trees]
    moved = pl.concat(frames)
    kept = layout.nodes.filter(~_select_remade_nodes(layout, volume))
    nodes = pl.concat([kept, moved.select(kept.columns).cast(kept.schema)])
    entries = _entries(layout, volume, int(rows[volume.main][0]))
    num_files = layout.facts.num_files + int(volume.entries.is_file.sum()) - num_movable(layout)
    stamp = max(layout.facts.stamp, volume.trees[volume.main].newest)
    made = layout.changed(
        facts=replace(layout.facts, stamp=stamp, num_files=num_files),
        nodes=nodes,
        entries=entries,
        extents=_extents(layout, volume),
    )
    free = _free(layout, volume)
    if layout.container is not None and not len(layout.columns("free")):
        return made.inside(layout.container.changed(free=free))
    return made.changed(free=free).inside(layout.container)


def _select_remade_nodes(layout: VolumeLayout, volume: AgingVolume) -> pl.Expr:
    """Tell which nodes are made anew: live ones of the trees that age, and free ones whose numbers are taken."""
    mine = pl.col("tree").cast(pl.String).is_in(list(volume.trees)) & (pl.col("state").cast(pl.String) == "live")
    taken = np.concatenate([level.ident for level in volume.trees[volume.main].levels])
    is_used = pl.col("node_id").is_in(pl.Series(taken.view(np.uint64)).implode())
    is_read = pl.col("level").is_not_null() & pl.lit(pl.Series(are_walked(layout.columns("nodes"))))
    return mine & (is_read | (is_used & (pl.col("kind").cast(pl.String) == "free")))


def num_movable(layout: VolumeLayout) -> int:
    """Count the files of a layout that a cycle may replace."""
    table = layout.columns("entries")
    plain = (table["flags"].filled(0) & (FLAG_HARD_LINK | FLAG_PRIVATE)) == 0
    return int((table["kind"].equals("file") & plain & (table["link_count"].filled(1) <= 1)).sum())


def _nodes(layout: VolumeLayout, volume: AgingVolume, name: str, rows: dict[str, I64]) -> pl.DataFrame:
    """Make the rows of a tree's nodes."""
    tree, starts = volume.trees[name], rows[name]
    nodes = layout.nodes.filter((pl.col("tree").cast(pl.String) == name) & pl.col("level").is_not_null())
    # What is made anew is sound, like the first node that was.
    old = nodes.sort(pl.col("condition").cast(pl.String) != "sound", maintain_order=True).row(0, named=True)
    capacity = tree.leaf.capacity_bytes
    parts = []
    for number, level in enumerate(tree.levels):
        load, count = _fill_level(tree, number)
        n = len(level)
        part: dict[str, Any] = {
            "row": starts[number] + np.arange(n),
            "device": np.zeros(n, np.int64),
            "node_id": (level.ident if name == volume.main else level.block).view(np.uint64),
            "image_offset": volume.place_of(name, level) + layout.facts.image_offset,
            "size_bytes": np.full(n, old["size_bytes"]),
            "level": np.full(n, number),
            "num_records": count,
            "used_bytes": np.clip(load - count * volume.entry_bytes[name], 0, capacity),
            "free_bytes": np.maximum(capacity - load - volume.unused_table(name, count), 0),
            "key_rank": np.arange(n),
            "first_key_id": _ids(volume, level, name).view(np.uint64),
            "xid": level.xid,
            "parent_row": _parents(tree, number, starts),
            "locator_row": _locators(volume, level, rows) if name == volume.main else np.full(n, NOWHERE),
        }
        parts.append(pl.DataFrame(part).with_columns(kind=pl.lit("index" if number else "leaf")))
    frame = pl.concat(parts).with_columns(
        pl.when(pl.col(column) >= 0).then(pl.col(column)).alias(column)
        for column in ("xid", "parent_row", "locator_row")
    )
    frame = frame.with_columns(last_key_id=pl.col("first_key_id"), tree=pl.lit(name), state=pl.lit("live"))
    sound = {"valid": pl.lit(old["valid"]), "condition": pl.lit("sound")}
    return frame.with_columns(volume=pl.lit(old["volume"], pl.UInt32), **sound)


def _fill_level(tree: AgingTree, number: int) -> tuple[I64, I64]:
    """Return the bytes and the records of the nodes of a level."""
    level = tree.levels[number]
    if not number:
        return tree.loads(), tree.counts()
    below = tree.levels[number - 1].bound
    count = np.diff(np.searchsorted(below, level.bound), append=len(below))
    return loads(level.bound, below, tree.index_sizes(below)), count


def _ids(volume: AgingVolume, level: TreeLevel, name: str) -> I64:
    """Return the leading ids of first keys."""
    if name != volume.main:
        return np.maximum(level.bound, 0)
    return real_ids(volume, np.maximum(level.bound, 0) >> rec.ID_SHIFT)


def real_ids(volume: AgingVolume, ident: I64) -> I64:
    """Turn numbers of files into their ids: those of before, and such as follow the greatest of them."""
    numbers = volume.numbers
    if not len(numbers):
        return ident
    known = np.minimum(ident, len(numbers) - 1)
    return np.where(ident < len(numbers), numbers[known], numbers[-1:] + (1 + ident - len(numbers)))


def _parents(tree: AgingTree, number: int, starts: I64) -> I64:
    level = tree.levels[number]
    if number + 1 == len(tree.levels):
        return np.full(len(level), NOWHERE)
    above = np.searchsorted(tree.levels[number + 1].bound, level.bound, side="right") - 1
    return np.asarray(starts[number + 1] + above, np.int64)


def _locators(volume: AgingVolume, level: TreeLevel, rows: dict[str, I64]) -> I64:
    if volume.maps not in volume.trees:
        return np.full(len(level), NOWHERE)
    return np.asarray(rows[volume.maps][0] + volume.trees[volume.maps].leaf_of(level.ident), np.int64)


def _entries(layout: VolumeLayout, volume: AgingVolume, first_row: int) -> pl.DataFrame:
    """Make the table of entries: rows of before, or copies of them, with their leaves."""
    entries, tree = volume.entries, volume.trees[volume.main]
    order = np.lexsort((np.arange(len(entries)), entries.place, entries.parent))
    entries = entries.taken(order)
    frame = layout.entries.select(pl.all().gather(pl.Series(entries.source)))
    start = np.flatnonzero(np.diff(entries.parent, prepend=-1))
    rank = np.arange(len(entries)) - np.repeat(start, np.diff(start, append=len(entries)))
    valence = np.bincount(entries.parent, minlength=int(entries.ident.max(initial=0)) + 1)
    values = {
        "row": np.arange(len(entries)),
        "file_id": real_ids(volume, entries.ident).view(np.uint64),
        "size_bytes": entries.size_bytes,
        "entry_rank": rank,
    }
    columns = [pl.Series(name, value) for name, value in values.items()]
    frame = frame.with_columns(column.cast(frame.schema[column.name]) for column in columns)
    is_new = entries.ident >= len(volume.numbers)
    leaves = {}
    for name, key in entries.keys.items():
        leaves[f"{name}_node_row"] = np.where(key != NOWHERE, first_row + tree.leaf_of(key), NOWHERE)
    if not (entries.keys["xattr"] != NOWHERE).any():
        # Extended attributes lie in a tree of their own, which is not followed, or there are none.
        leaves.pop("xattr_node_row")
    for name, key in volume.begins(entries.ident).items():
        leaves[name] = np.where(entries.is_directory, first_row + tree.leaf_of(key), NOWHERE)
    made = [
        pl.when(pl.Series(value) >= 0).then(pl.Series(value)).cast(pl.UInt32).alias(name)
        for name, value in leaves.items()
    ]
    counted = pl.Series(valence[np.minimum(entries.ident, len(valence) - 1)])
    held = pl.when(pl.col("kind").cast(pl.String) == "directory").then(counted).cast(pl.UInt32)
    kept = pl.when(pl.col("valence").is_not_null()).then(held).alias("valence")
    link = pl.when(~pl.Series(is_new)).then(pl.col("link_id")).alias("link_id")
    return frame.with_columns(*made, kept, link)


def _extents(layout: VolumeLayout, volume: AgingVolume) -> pl.DataFrame:
    """Make the table of extents: what was there and stays, and what new files have."""
    table = layout.extents
    data = volume.data
    mine = data.ident >= len(volume.numbers)
    held = layout.columns("extents")["file_id"].signed()
    stays = is_among(held, volume.numbers)
    left = real_ids(volume, data.ident[~mine & (data.ident >= 0)])
    gone = stays & ~is_among(held, left) & table["image_offset"].is_not_null().to_numpy()
    kept = table.filter(pl.Series(~gone))
    ident, start, count = data.ident[mine], data.start[mine], data.count[mine]
    first = np.flatnonzero(np.diff(ident, prepend=-1))
    before = np.cumsum(count) - count
    bytes_ = volume.block_bytes
    made = pl.DataFrame(
        {
            "file_id": real_ids(volume, ident).view(np.uint64),
            "logical_offset": (before - np.repeat(before[first], np.diff(first, append=len(ident)))) * bytes_,
            "image_offset": start * bytes_ + layout.facts.image_offset,
            "length_bytes": count * bytes_,
        }
    )
    base = {"device": 0, "volume": layout.facts.volume, "fork": "data", "node_row": None, "flags": 0, "row": 0}
    made = made.with_columns(pl.lit(value).alias(name) for name, value in base.items())
    whole = pl.concat([kept, made.select(kept.columns).cast(kept.schema)])
    return whole.with_columns(row=pl.int_range(len(whole), dtype=pl.UInt32), node_row=pl.lit(None, pl.UInt32))


def _free(layout: VolumeLayout, volume: AgingVolume) -> pl.DataFrame:
    """Make the table of free space."""
    start, count = volume.space.runs()
    owner = layout.container if layout.container is not None and not len(layout.columns("free")) else layout
    made = pl.DataFrame(
        {
            "row": np.arange(len(start)),
            "device": np.zeros(len(start), np.int64),
            "image_offset": start * volume.block_bytes + layout.facts.image_offset,
            "length_bytes": count * volume.block_bytes,
        }
    ).with_columns(volume=pl.lit(owner.facts.volume, pl.UInt32))
    return made.select(owner.free.columns).cast(owner.free.schema)

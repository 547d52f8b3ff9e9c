"""The charts below the figure, and what the page carries of nodes, reads and entries.

A chart is a figure of Plotly as plain dictionaries, with the same numbers as rows of text. Its traces name
a role instead of a color: the page gives them the color of its theme.
"""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope.access.entries import ROOT_ID, path_component
from layoutscope.filesystems.registry import filesystem_of
from layoutscope.report import escape_text
from layoutscope.report.map import pyramid
from layoutscope.report.map.pyramid import tree_class, verified_xids
from layoutscope.results.explanation import drive_words
from layoutscope.structs.arrays import dense_codes, find, first_places, match, owners, ranges
from layoutscope.tables.columns import stack_tables
from layoutscope.tables.schema import CONDITIONS, LIVE_STATES
from layoutscope.units import MIB, format_bytes, format_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from layoutscope.access.trace import AccessTrace
    from layoutscope.filesystems.traits import Traits, TreeTraits
    from layoutscope.report.map.pyramid import Segments
    from layoutscope.report.map.scans import MapDisk, MapWalk
    from layoutscope.tables import VolumeLayout
    from layoutscope.tables.columns import Table, TextColumn, Values

    Distances = tuple[NDArray[np.int64], str, str]
    """Distances in bytes, between what they are, and what there is one of for each."""


KINDS: Final = ("leaf", "index", "header", "map", "free", "locked", "unreadable")

NODE_BUDGET: Final = 250_000
"""Nodes whose records, keys and xid the page can show."""

NOT_KNOWN: Final = 255
"""In place of a level, or of how full a node is in per cent."""

DIGITS: Final = 3
"""Digits of a cost that are kept: more are never shown, and would not compress."""


def pack_nodes_table(nodes: Table, item: MapDisk, segments: Segments, classes: list[str]) -> dict[str, Any]:
    """Pack the nodes of all layouts, in the order in which the segments number them."""
    kept = nodes.take(slice(None, NODE_BUDGET))
    codes, trees = kept["tree"].numbered()
    # What has no place on this disk ends before it begins.
    is_here = nodes["device"].data == item.device
    place = np.where(is_here, nodes["image_offset"].signed(), -1)
    seconds = node_seconds(place, segments, item.walks, item.device)[: len(kept)]
    size, offset = kept["size_bytes"].data, place[: len(kept)]
    # Whole microseconds, of few digits; what costs anything is never 0.
    micro = np.maximum(seconds * 1e6, (seconds > 0).astype(float))
    unit = 10.0 ** np.maximum(0, np.floor(np.log10(np.maximum(micro, 1))) - DIGITS + 1)
    changes: dict[str, NDArray[Any]] = {}
    if item.num_earlier:
        from layoutscope.report.map.difference import disk_changes

        changes = disk_changes(item)
    return {
        "trees": list(trees),
        "classes": [classes.index(tree) if tree in classes else -1 for tree in trees],
        "kinds": list(KINDS),
        "conditions": list(CONDITIONS),
        "tree": pyramid.array(codes),
        "kind": pyramid.array(_codes(kept["kind"], KINDS)),
        "condition": pyramid.array(_codes(kept["condition"], CONDITIONS)),
        "level": pyramid.array(kept["level"].filled(NOT_KNOWN)),
        "offset": pyramid.array(np.where(offset < 0, -1 - size, offset), delta=True),
        "size": pyramid.array(size),
        "records": pyramid.array(kept["num_records"].filled(0)),
        "xid": pyramid.array(verified_xids(kept)),
        "fill": pyramid.array(_fill(kept)),
        "cost": pyramid.array(np.round(micro / unit) * unit),
        "id": identifiers(ids_of(kept["node_id"])),
        "first": identifiers(ids_of(kept["first_key_id"])),
        "last": identifiers(ids_of(kept["last_key_id"])),
        "total": len(nodes),
        **{name: pyramid.array(values[: len(kept)]) for name, values in changes.items()},
    }


def _codes(column: Values, known: Sequence[str]) -> NDArray[np.uint8]:
    """Return the place of each row's word among those that the page knows."""
    number, words = column.numbered()
    return np.array([known.index(word) for word in words], np.uint8)[number]


def _fill(nodes: Table) -> NDArray[np.uint8]:
    """Return how full nodes are, in per cent of what their records could take."""
    used, room = (nodes[name].filled(0).astype(np.float64) for name in ("used_bytes", "free_bytes"))
    known = nodes["used_bytes"].is_known & nodes["free_bytes"].is_known & (used + room > 0)
    return np.where(known, np.round(100 * used / np.maximum(used + room, 1)), NOT_KNOWN).astype(np.uint8)


def node_seconds(
    place: NDArray[np.int64],  # where each node begins, -1 where that is not known
    segments: Segments,
    walks: Sequence[MapWalk],
    device: int = 0,
) -> NDArray[np.float64]:
    """Charge each node with the service time of the reads that bring it in.

    Seconds; 0 of nodes that no read touches. A read of several nodes is charged to each by its bytes in the read.
    """
    seconds = np.zeros(len(place))
    if not walks:
        return seconds
    nodes = segments.take(np.flatnonzero(segments.owner > 0))
    for walk in walks:
        if (walk.order, walk.drive) == (walks[0].order, walks[0].drive):
            seconds += _charge_nodes(nodes, walk, device, len(place))
    # The tables of several volumes, or states, have the same node in a row each; the map has it once.
    first, same = np.unique(place, return_inverse=True)
    shared = np.zeros(len(first))
    np.maximum.at(shared, same, seconds)
    return np.where(place >= 0, shared[same], 0.0)


def _charge_nodes(nodes: Segments, walk: MapWalk, device: int, num_nodes: int) -> NDArray[np.float64]:
    begin, end = nodes.start, np.maximum.accumulate(nodes.start + nodes.length)
    on_this = walk.trace.device == device
    start = walk.trace.image_offset[on_this]
    stop = start + walk.trace.length_bytes[on_this]
    low = np.searchsorted(end, start, side="right")
    many = np.maximum(np.searchsorted(begin, stop, side="left") - low, 0)
    piece, read = ranges(low, many), owners(many)
    held = np.minimum(end[piece], stop[read]) - np.maximum(begin[piece], start[read])
    whole = np.bincount(read, held, minlength=len(start))
    share = walk.service_s[on_this][read] * held / whole[read]
    return np.bincount(nodes.owner[piece] - 1, share, minlength=num_nodes).astype(np.float64)


def identifiers(ids: NDArray[np.uint64]) -> dict[str, Any]:
    """Pack identifiers of 64 bits in two halves, which doubles cannot hold whole."""
    return {
        "low": pyramid.array(ids & np.uint64(0xFFFFFFFF), delta=True),
        "high": pyramid.array(ids >> np.uint64(32), delta=True),
    }


def ids_of(column: Values) -> NDArray[np.uint64]:
    """Return a column of identifiers as whole numbers, 0 where there is none."""
    return column.filled(0).astype(np.uint64)


SPOTS: Final = (160, 60)
"""Columns and rows of a chart of points: of several points in one spot of a few pixels one is drawn."""

MOST_POINTS: Final = 4_000
"""So many points are drawn one by one."""

PARTS: Final = 16
"""Rows of text that sum up a chart of points, each for an equal part of its points."""

TREES: Final = 3
"""So many trees are drawn in key order."""

POINTS: Final = 40_000
"""Reads that are drawn one by one; of a longer walk every n-th."""

Chart = dict[str, Any]
"""A figure with its title, a note, its height in pixels, and the same as rows of text."""


def make_chart(
    title: str,
    traces: Sequence[dict[str, Any]],
    layout: dict[str, Any],
    *,
    height: int = 260,
    note: str = "",
    columns: Sequence[str] = (),
    rows: Sequence[Sequence[str]] = (),
) -> Chart:
    """Return a figure that the page draws when it is seen."""
    table = {"columns": columns, "rows": rows} if rows else None
    return {"title": title, "note": note, "height": height, "data": traces, "layout": layout, "table": table}


def charts_of(disks: Sequence[MapDisk], *, names: bool) -> list[dict[str, list[Chart]]]:
    """Return the charts of each disk by the parts of the page; two states of a disk have none."""
    apart = [values[values > 0] for disk in disks for values, *_ in _distances(disk)]
    every = np.concatenate([np.empty(0, np.int64), *apart])
    # From the least power of two of any distance to the one after the largest: one axis for all disks.
    powers = (int(every.min()).bit_length() - 1, int(every.max()).bit_length()) if len(every) else (0, 0)
    return [
        {
            "directories": [] if disk.device else directory_charts(disk, names=names),
            "history": history_charts(disk),
            "distances": [_histogram(*found, powers) for found in _distances(disk)],
            "order": order_charts(disk),
        }
        if not disk.num_earlier
        else {}
        for disk in disks
    ]


def _points(x: NDArray[Any], y: NDArray[Any], role: str, hover: str) -> dict[str, Any]:
    """Draw points, of many in one spot one."""
    if len(x) > MOST_POINTS:
        column, row = (_spots(values, count) for values, count in zip((x, y), SPOTS, strict=True))
        chosen = np.sort(np.unique(column * SPOTS[1] + row, return_index=True)[1])
        x, y = x[chosen], y[chosen]
    return {
        "type": "scatter",
        "mode": "markers",
        "x": x.tolist(),
        "y": y.tolist(),
        "marker": {"size": 4},
        "meta": {"role": role},
        "hovertemplate": f"{hover}<extra></extra>",
    }


def _spots(values: NDArray[Any], count: int) -> NDArray[np.int64]:
    low, high = float(values.min()), float(values.max())
    place: NDArray[np.int64] = ((values - low) * (count / max(high - low, 1e-9))).astype(np.int64)
    return np.minimum(place, count - 1)


def _parts(
    x: NDArray[Any], y: NDArray[Any], x_text: Callable[[float], str], y_text: Callable[[float], str]
) -> list[list[str]]:
    """Sum up points in equal parts by rising x: where each is, how many points it has, and their least and most y."""
    order = np.argsort(x, kind="stable")
    parts = np.array_split(order, min(PARTS, len(order)))
    return [
        [
            " to ".join(dict.fromkeys((x_text(x[part[0]]), x_text(x[part[-1]])))),
            f"{len(part):,}",
            y_text(y[part].min()),
            y_text(y[part].max()),
        ]
        for part in parts
    ]


def _to_mib(place: NDArray[Any]) -> NDArray[np.float64]:
    return np.round(place / MIB, 3)


def _mib_text(mib: float) -> str:
    return format_bytes(round(mib * MIB))


def order_charts(item: MapDisk) -> list[Chart]:
    """Draw the leaves of the largest trees of each volume in the order of their keys."""
    found = [
        (tree, rank, place, f"{item.called[volume]}: " if volume in item.called else "")
        for volume, layout in enumerate(item.layouts)
        for tree, rank, place in _orders(layout, item)
    ]
    return [
        make_chart(
            f"{before}{tree.label}: {len(rank):,} leaves",
            [_points(rank, _to_mib(place), tree_class(tree).role, "leaf %{x:,.0f} in key order<br>%{y:,.1f} MiB")],
            {
                "xaxis": {"title": {"text": "order of keys"}},
                "yaxis": {"title": {"text": "position, MiB"}, "rangemode": "tozero"},
            },
            columns=("order of keys", "leaves", "lowest position", "highest position"),
            rows=_parts(rank, _to_mib(place), "{:,.0f}".format, _mib_text),
        )
        for tree, rank, place, before in found
    ]


def _orders(layout: VolumeLayout, item: MapDisk) -> Iterator[tuple[TreeTraits, NDArray[np.int64], NDArray[np.int64]]]:
    """Yield the trees whose leaves have an order, the largest first, with ranks and places of their leaves."""
    nodes, traits = layout.columns("nodes"), filesystem_of(layout).traits
    is_here = nodes["image_offset"].is_known & (nodes["device"].data == item.device)
    # Ranks of what snapshots alone hold are of other trees.
    is_leaf = nodes["kind"].equals("leaf") & nodes["key_rank"].is_known & is_here
    leaves = nodes.take(is_leaf & nodes["state"].is_in(LIVE_STATES))
    tree, names = leaves["tree"].numbered()
    sizes = np.bincount(tree, minlength=len(names)).tolist()
    ordered = [number for number, name in enumerate(names) if sizes[number] > 1 and not traits.tree(name).holds_several]
    for number in sorted(ordered, key=lambda number: (-sizes[number], names[number]))[:TREES]:
        own = leaves.take(tree == number)
        yield traits.tree(names[number]), own["key_rank"].signed(), own["image_offset"].signed() - item.image_offset


def history_charts(item: MapDisk) -> list[Chart]:
    """Draw when each node was written; nothing where no node says so, or all say the same."""
    tables = [layout.columns("nodes") for layout in item.layouts]
    nodes = stack_tables(tables)
    dated = nodes.take(
        (verified_xids(nodes) > 0) & nodes["image_offset"].is_known & (nodes["device"].data == item.device)
    )
    xid, place = dated["xid"].data.astype(np.int64), _to_mib(dated["image_offset"].signed() - item.image_offset)
    if not len(xid) or xid.min() == xid.max():
        return []
    states = ", ".join(f"{label} ({newest:,})" for label, newest in item.states)
    return [
        make_chart(
            item.title,
            [_points(place, xid, "main", "%{x:,.1f} MiB<br>transaction %{y:,.0f}")],
            {"xaxis": {"title": {"text": "position, MiB"}}, "yaxis": {"title": {"text": "transaction"}}},
            note=f"States that can be read: {states}." if states else "",
            columns=("positions", "blocks", "oldest transaction", "youngest transaction"),
            rows=_parts(place, xid, _mib_text, "{:,.0f}".format),
        )
    ]


def _distances(item: MapDisk) -> Iterator[Distances]:
    """Yield how far apart related data of a disk is."""
    if item.walks:
        trace, name = own_reads(item.walks[0].trace, item.device), item.walks[0].name
        jump = np.abs(trace.image_offset[1:] - (trace.image_offset[:-1] + trace.length_bytes[:-1]))
        if len(jump):
            yield jump, f"From the end of one read to the start of the next{f': {name}' if name else ''}", "reads"
    to_data = np.concatenate([_to_first_extents(layout, item.device) for layout in item.layouts])
    if len(to_data):
        yield to_data, "From a file's inode to its first data", "files"


def _histogram(values: NDArray[np.int64], title: str, unit: str, powers: tuple[int, int]) -> Chart:
    """Count distances by powers of two; what touches is counted apart."""
    low, high = powers
    apart = values[values > 0]
    counts = np.histogram(apart, 2.0 ** np.arange(low, high + 1))[0].tolist() if high > low else []
    counts = [len(values) - len(apart), *counts]
    # None of the names is a number: of few bars with one Plotly would make a scale of numbers.
    names = ["0 B", *(format_bytes(2**power) for power in range(low, high))]
    bars = {"type": "bar", "x": names, "y": counts, "meta": {"role": "main"}, "marker": {}}
    bars["hovertemplate"] = f"%{{x}} and up to twice as much: %{{y:,}} {unit}<extra></extra>"
    axis = {"type": "category", "nticks": 9, "tickangle": 0, "title": {"text": "distance, powers of two"}}
    return make_chart(
        title,
        [bars],
        {"xaxis": axis, "yaxis": {"title": {"text": unit}}},
        height=220,
        columns=("distance from, up to twice as much", unit),
        rows=[[name, f"{count:,}"] for name, count in zip(names, counts, strict=True) if count],
    )


def own_reads(trace: AccessTrace, device: int) -> AccessTrace:
    """Return the reads of one device of a set; all where there is one."""
    return trace[trace.device == device] if trace.device.any() or device else trace


def sample_step(reads: int) -> int:
    """Every how many of so many reads is drawn."""
    return max(1, -(-reads // POINTS))


def _to_first_extents(layout: VolumeLayout, device: int) -> NDArray[np.int64]:
    """Return the distance from each file's inode to its first extent; a file is where its first entry says.

    In a set, an inode on one device and its data on another have no distance.
    """
    extents, entries, nodes = (layout.columns(name) for name in ("extents", "entries", "nodes"))
    is_here = extents["device"].data == device
    starts = extents.take(extents["image_offset"].is_known & (extents["logical_offset"].data == 0) & is_here)
    (of_extent, of_entry), bound = dense_codes(starts["file_id"].data, entries["file_id"].data)
    first, entry = first_places(of_extent, bound), first_places(of_entry, bound)
    start = np.full(bound, -1, np.int64)
    start[of_extent[first]] = starts["image_offset"].data[first]
    data = start[of_entry[entry]]
    node = find(nodes["row"].data.astype(np.int64), entries["inode_node_row"].take(entry).signed())
    places = np.where(nodes["device"].data == device, nodes["image_offset"].signed(), -1)
    place = np.append(places, -1)[node]
    chosen = (data >= 0) & (place >= 0)
    found: NDArray[np.int64] = np.abs(data[chosen] - place[chosen])
    return found


TICKS_PER_SECOND: Final = 100_000
"""Resolution of the times of reads: the drawing is far coarser."""


def first_of(trace: AccessTrace, walks: Sequence[MapWalk]) -> int:
    """Return which walk is the first that makes these very reads; others do so on other drives."""
    return next(place for place, walk in enumerate(walks) if walk.trace is trace)


def walk_panel(item: MapWalk, disk: MapDisk, first: int) -> dict[str, Any]:
    """Return where the head of one disk is over time."""
    trace, traits = item.trace, filesystem_of(disk.layouts[item.volume]).traits
    begin = item.begin_s
    if trace.device.any() or disk.device:
        begin = begin[trace.device == disk.device]
    trace = own_reads(trace, disk.device)
    step = sample_step(len(trace))
    shown = slice(None, None, step)
    reads = {
        "offset": pyramid.array(trace.image_offset[shown], delta=True),
        "length": pyramid.array(trace.length_bytes[shown]),
        "tree": pyramid.array(trace.tree[shown]),
    }
    return {
        "name": item.name,
        "drive": drive_words(item.drive),
        "order": item.order,
        "total_s": item.seconds,  # with the host's work after the last read
        "reads": len(trace),
        "step": step,
        "roles": [read_role(traits, tree) for tree in trace.trees],
        "trees": [traits.tree(tree).label for tree in trace.trees],
        "ticks": TICKS_PER_SECOND,
        "time": pyramid.array(np.floor(begin[shown] * TICKS_PER_SECOND).astype(np.int64), delta=True),
        "reads_of": first,
        **(reads if disk.walks[first] is item else {}),
    }


def read_role(traits: Traits, tree: str) -> str:
    """Return the role of what a read is of: a tree, or data."""
    return pyramid.FILE_DATA.role if tree == "data" else tree_class(traits.tree(tree)).role


ALL: Final = "all"
"""The box around all others."""

ALONE: Final = 0.9
"""A box of which one inside has at least so much is not worth a look: the chart begins at the one inside."""

LISTED: Final = 20
"""Directories that have a row of text."""


def directory_charts(item: MapDisk, *, names: bool) -> list[Chart]:
    """Draw the costliest directories as boxes in each other, by the time of a walk that each caused."""
    shown, whole_s, total = directories(item, names=names)
    if not total:
        return []
    boxes = [(ALL, "", "all", 0.0), *shown]
    others = whole_s - math.fsum(seconds for *_, seconds in shown)
    if len(shown) < total and others > 0:
        boxes.append(("others", ALL, f"{total - len(shown):,} other directories", others))
    above = {box: parent for box, parent, *_ in boxes}
    called = {box: name for box, _, name, _ in boxes}
    totals = dict.fromkeys(above, 0.0)
    for box, _, _, own in boxes:
        at = box
        while at:
            totals[at] += own
            at = above[at]
    ranked = sorted((box for box, *_ in boxes), key=lambda box: -totals[box])
    own_s = {box: own for box, _, _, own in boxes}
    return [
        make_chart(
            item.title,
            [
                {
                    "type": "treemap",
                    "ids": list(above),
                    "parents": list(above.values()),
                    "labels": [escape(name, quote=False) for name in called.values()],
                    "values": list(own_s.values()),
                    "branchvalues": "remainder",
                    "level": _topmost(above, totals),
                    "text": [format_seconds(seconds) for seconds in totals.values()],
                    "textinfo": "label+text",
                    "hovertemplate": "%{label}<br>%{text} in all, %{color:.3s}s in itself<extra></extra>",
                    "maxdepth": 4,
                    "tiling": {"pad": 2},
                    "root": {"color": "rgba(0,0,0,0)"},
                    "marker": {"colors": list(own_s.values()), "line": {"width": 1}},
                    "meta": {"role": "main"},
                }
            ],
            {"margin": {"l": 4, "r": 4, "t": 4, "b": 4}},
            height=420,
            note=f"{total:,} directories; the {len(shown):,} that cost most have boxes of their own."
            if len(shown) < total
            else "",
            columns=("directory", "in", "time in all", "time in itself"),
            rows=[
                [called[box], called.get(above[box], ""), format_seconds(totals[box]), format_seconds(own_s[box])]
                for box in ranked[:LISTED]
            ],
        )
    ]


def _topmost(above: Mapping[str, str], totals: Mapping[str, float]) -> str:
    """Return the first box from the outside in which none has nearly everything."""
    inside: dict[str, list[str]] = {}
    for box, parent in above.items():
        inside.setdefault(parent, []).append(box)
    at = ALL
    while at in inside:
        best = max(inside[at], key=lambda box: totals[box])
        if totals[best] < ALONE * totals[at]:
            break
        at = best
    return at


MOST: Final = 800
"""The costliest directories of a disk that have a box each; their ancestors have one, too."""

NO_DIRECTORY: Final = 0
"""Reads that no directory caused, such as those of a mount, are charged to this number."""


def directories(item: MapDisk, *, names: bool) -> tuple[list[tuple[str, str, str, float]], float, int]:
    """Return the costliest directories of a disk with their ancestors, and time and number of all directories.

    Each has an identifier, that of its parent, a name, and the time that it caused in the first walk of its volume.
    """
    walks = {walk.volume: walk for walk in reversed(item.walks)}
    if not walks:
        return [], 0.0, 0
    found, base = [], 0
    for number in sorted(walks):
        ids, parent, name_row, seconds = _of_volume(item.layouts[number], walks[number])
        found.append((np.full(len(ids), number), ids, np.where(parent >= 0, parent + base, -1), name_row, seconds))
        base += len(ids)
    volume, ids, parent, name_row, seconds = map(np.concatenate, zip(*found, strict=True))
    # Lower numbers come first where directories cost the same.
    rows = np.argsort(-seconds, kind="stable")[:MOST]
    is_shown = np.zeros(base, np.bool_)
    while len(rows):  # cycles in a damaged tree end where they began
        is_shown[rows] = True
        above = parent[rows][parent[rows] >= 0]
        rows = np.unique(above[~is_shown[above]])
    shown = np.flatnonzero(is_shown)
    # Directories are named across volumes, as the page's files are.
    keys = {row: f"{volume[row]}:{ids[row]}" for row in shown.tolist()}
    words: list[str] = []
    for number in sorted(walks):
        own = shown[volume[shown] == number]
        words += _name_directories(item, number, ids[own], name_row[own], names=names)
    parents = [keys.get(row, ALL) for row in parent[shown].tolist()]
    own_s = [float(f"{value:.6g}") for value in seconds[shown].tolist()]
    # The exact sum is the same in whatever order.
    return [*zip(keys.values(), parents, words, own_s, strict=True)], math.fsum(seconds), base


def _name_directories(
    item: MapDisk, number: int, ids: NDArray[np.uint64], name_row: NDArray[np.int64], *, names: bool
) -> Iterator[str]:
    """Yield a name for each of some directories of a volume."""
    texts = item.layouts[number].columns("entries").texts("name").take(np.maximum(name_row, 0)).to_list()
    for directory, row, text in zip(ids.tolist(), name_row.tolist(), texts, strict=True):
        if directory == NO_DIRECTORY:
            yield "no directory"
        elif directory == ROOT_ID:
            yield f"{item.called.get(number, '')} /".lstrip()
        elif row >= 0 and names:
            yield escape_text(path_component(text or ""))
        else:
            yield f"directory {directory}"


def _of_volume(layout: VolumeLayout, walk: MapWalk) -> tuple[NDArray[Any], ...]:
    """Return the directories of a volume by rising number, and the seconds of a walk that each of them caused.

    Numbers, places of the parents and rows of entries that name them, -1 where there is none, seconds.
    """
    entries = layout.columns("entries")
    folder_rows = np.flatnonzero(entries["kind"].equals("directory"))
    folders = entries["file_id"].data[folder_rows]
    parents = entries["parent_id"].data
    # The root's parent is not a directory unless damage made it one, and no walk lists it.
    above = parents[folder_rows[folders == ROOT_ID]]
    inside = ~np.isin(parents, above[~np.isin(above, folders)])
    (listing, folder, caused), bound = dense_codes(parents, folders, walk.trace.directory_id)
    codes = np.concatenate([listing[inside], folder, caused])
    there = np.zeros(bound, np.bool_)
    there[codes] = True
    place = np.where(there, np.cumsum(there) - 1, -1)
    numbers = np.concatenate([parents[inside], folders, walk.trace.directory_id])
    ids = np.sort(numbers[first_places(codes, bound)])
    name_row, parent = np.full(len(ids), -1), np.full(len(ids), -1)
    # If several entries name a directory (damage, links to directories), the first one counts.
    own = place[folder][::-1]
    name_row[own] = folder_rows[::-1]
    parent[own] = place[listing[folder_rows]][::-1]
    # Directories without a topmost one, as damage made an ancestor its own descendant, have no parent.
    topmost = np.append(parent, -1)  # -1 indexes the last place: directories without a parent stay there
    for _ in range(len(parent).bit_length()):
        topmost = topmost[topmost]
    parent[topmost[:-1] >= 0] = -1
    seconds = np.bincount(place[caused], walk.read_seconds, minlength=len(ids)).astype(np.float64)
    return ids, parent, name_row, seconds


NAME_BUDGET: Final = 3_800_000
"""Characters of the page that entries may take; of a disk whose entries take more, only if all are asked for."""

BLOCK: Final = 16_384
"""Names that are compressed together: the page unpacks and searches them in slices between two pictures."""

_ZERO: Final = b"\0"
"""The prefix of each name; paths spell a zero of a name, as private directories of old volumes have it."""


def entries(item: MapDisk, *, names: bool, all_paths: bool) -> dict[str, Any]:
    """Pack the entries of all volumes of a disk by their numbers: these and their nodes rise then, and take a fifth.

    `total` entries, whether they are `withheld`, and `packed`, None where the page has none of them.
    """
    tables = [layout.columns("entries") for layout in item.layouts]
    total = sum(map(len, tables))
    packed = _packed(item, None if all_paths else NAME_BUDGET) if names and total else None
    return {"total": total, "withheld": not names, "packed": packed}


def _packed(item: MapDisk, budget: int | None) -> dict[str, Any] | None:
    """Pack names and places of entries; None where they take more than a budget."""
    tables = [layout.columns("entries") for layout in item.layouts]
    base = np.cumsum([0, *(len(layout.columns("nodes")) for layout in item.layouts)])
    rows = [table["inode_node_row"].signed() for table in tables]
    nodes = np.concatenate([np.where(row >= 0, row + first, -1) for row, first in zip(rows, base, strict=False)])
    volume = np.repeat(np.arange(len(tables)), list(map(len, tables)))
    stack = stack_tables(tables)
    order = np.lexsort((ids_of(stack["file_id"]), volume))
    found, volume = stack.take(order), volume[order]
    ids, parents = ids_of(found["file_id"]), ids_of(found["parent_id"])
    above = _above(volume, ids, parents, len(tables))
    columns = {
        "volume": pyramid.array(volume),
        "node": pyramid.array(nodes[order], delta=True),
        "id": identifiers(ids),
        "above": pyramid.array(above, delta=True),
        "orphan": identifiers(parents[above < 0]),
    }
    spent = len(pyramid.script_json(columns))
    packed_names = pack_names(found.texts("name"), None if budget is None else budget - spent)
    return None if packed_names is None else {**columns, "block": BLOCK, "names": packed_names}


def _above(
    volume: NDArray[np.int64], ids: NDArray[np.uint64], parents: NDArray[np.uint64], num_volumes: int
) -> NDArray[np.int64]:
    """Return the first entry of each directory, or -1 if no entry names it; all by volume and number."""
    above = np.full(len(ids), -1, np.int64)
    for number, first in enumerate(np.searchsorted(volume, np.arange(num_volumes)).tolist()):
        own = slice(first, int(np.searchsorted(volume, number, side="right")))
        place, is_there = match(ids[own], parents[own])
        above[own] = np.where(is_there, place + first, -1)
    return above


def pack_names(names: TextColumn, budget: int | None = None) -> list[str] | None:
    """Compress names, spelled as components of paths, block by block, each with a zero before it.

    None where they take more characters than a budget.
    """
    packed: list[str] = []
    size = 0
    spelled = names.to_list()
    for first in range(0, len(spelled), BLOCK):
        block = (path_component(name or "").encode("utf-8", "surrogatepass") for name in spelled[first : first + BLOCK])
        packed.append(pyramid.packed_bytes(b"".join(_ZERO + name for name in block)))
        size += len(packed[-1])
        if budget is not None and size > budget:
            return None
    return packed

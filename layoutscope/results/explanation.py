"""What explains a prediction: the shares of its causes, the placement of the nodes, and the sentences about both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

import numpy as np
from msgspec.structs import replace

from layoutscope.access.entries import node_table
from layoutscope.access.trace import place_of
from layoutscope.display import Struct
from layoutscope.drive.uncertain import HOST, OFFSET
from layoutscope.filesystems.registry import filesystem_of
from layoutscope.metrics.history import (
    AS_LISTED,
    BEHIND,
    BY_NAME,
    FILES_A_TRANSACTION,
    FOLDERS_FIRST,
    REUSED_BELOW,
    STREAMS,
    order_of_creation,
)
from layoutscope.results.verdict import (
    HELPS_FROM,
    NAMED_FROM,
    WORTH_S,
    Cause,
    Placement,
    Remedy,
    Verdict,
    Why,
    Yardstick,
)
from layoutscope.structs.arrays import first_places, heads, order_of
from layoutscope.tables.schema import FLAG_PRIVATE
from layoutscope.units import format_bytes, format_count, format_seconds, format_share

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from layoutscope.access.entries import NodeTable
    from layoutscope.access.trace import AccessTrace
    from layoutscope.results.scan import Prediction, VolumeScan
    from layoutscope.tables import VolumeLayout

    I64 = NDArray[np.int64]
    Mask = NDArray[np.bool_]


SMALLEST_READ: Final = 4096

PAGES: Final = 16
"""Pages of the largest nodes, of 64 KiB."""


class ReadsOfNodes(Struct, frozen=True):
    """The reads of a walk, and the node that each of them reads."""

    layout: VolumeLayout  # the volume
    trace: AccessTrace  # the reads
    nodes: NodeTable  # the nodes of the volume
    node: I64  # node that each read lies in, -1 where it lies in none
    within: I64  # byte of that node at which the read starts
    used: I64  # nodes that are read, in the order in which they lie on the disk
    by_place: I64  # reads in the order in which they lie there

    def of_node(self, values: NDArray[np.generic], missing: int) -> I64:
        """Return a value of the node of each read, and another one where there is no node."""
        found = values[np.maximum(self.node, 0)].astype(np.int64)
        return np.where(self.node >= 0, found, missing)

    def moved(self, offset: I64) -> AccessTrace:
        """Return the reads of the same nodes at other places, shape (n_nodes,)."""
        to = np.where(self.node >= 0, self.of_node(offset, 0) + self.within, self.trace.image_offset)
        return replace(self.trace, image_offset=to)


def walked(layout: VolumeLayout, trace: AccessTrace) -> ReadsOfNodes:
    """Find the node of each read."""
    nodes = node_table(layout)
    key, length, owner, before = node_pieces(layout, nodes)
    at = place_of(trace.device, trace.image_offset)
    by_place = order_of(at)
    node, within = np.full(len(trace), -1), np.zeros(len(trace), np.int64)
    if len(key):
        # Sorted keys are found many times quicker than those that jump about.
        at = at[by_place]
        found = np.maximum(np.searchsorted(key, at, side="right") - 1, 0)
        into = at - key[found]
        node[by_place] = np.where((into >= 0) & (into < length[found]), owner[found], -1)
        within[by_place] = before[found] + into
    is_used = np.zeros(len(nodes) + 1, bool)
    is_used[node] = True
    order = order_of(place_of(nodes.device, nodes.image_offset))
    return ReadsOfNodes(layout, trace, nodes, node, within, order[is_used[order]], by_place)


def node_pieces(layout: VolumeLayout, nodes: NodeTable) -> tuple[I64, I64, I64, I64]:
    """Return where nodes are, in one piece or several: keys, ascending, lengths, nodes, bytes in earlier pieces."""
    own, fragments = np.flatnonzero(nodes.level >= 0), layout.columns("node_fragments")
    key, length = place_of(nodes.device, nodes.image_offset)[own], nodes.size_bytes[own]
    before = np.zeros(len(own), np.int64)
    if len(fragments):
        # Pieces of a node stand together, in its order.
        owner = nodes.nodes_of(fragments["node_row"]).astype(np.int64)
        held = fragments["length_bytes"].data.astype(np.int64)
        head = heads(owner)
        ahead = np.cumsum(held) - held
        ahead -= np.repeat(ahead[head], np.diff(head, append=len(owner)))
        place = place_of(fragments["device"].filled(0), fragments["image_offset"].signed())
        whole, of_tree = ~np.isin(own, owner), np.isin(owner, own)
        columns = ((key, place), (length, held), (own, owner), (before, ahead))
        key, length, own, before = (np.concatenate([one[whole], other[of_tree]]) for one, other in columns)
    order = order_of(key)
    return key[order], length[order], own[order], before[order]


def _main(reads: ReadsOfNodes) -> int:
    return reads.nodes.tree_code(filesystem_of(reads.layout).traits.main_tree)


def in_whole_nodes(reads: ReadsOfNodes) -> AccessTrace:
    """The same bytes, each node in one request instead of page by page."""
    # Linux reads a node of 8 KiB as two pages of 4 KiB, one request after the other; Apple's drivers read it whole.
    trace, node = reads.trace, reads.node
    goes_on = np.zeros(len(trace), bool)
    end = trace.image_offset + trace.length_bytes
    goes_on[1:] = (node[1:] == node[:-1]) & (node[1:] >= 0) & (trace.image_offset[1:] == end[:-1])
    first = np.flatnonzero(~goes_on)
    if len(first) in (0, len(trace)):
        return trace
    joined = trace[first]
    return replace(
        joined,
        length_bytes=np.add.reduceat(trace.length_bytes, first),
        think_us=np.add.reduceat(trace.think_us, first),
    )


def in_full_leaves(reads: ReadsOfNodes) -> AccessTrace:
    """The reads that are left if neighbouring leaves were merged as far as their records fit into one."""
    nodes = reads.nodes
    main = nodes.leaves(_main(reads))
    table = reads.layout.columns("nodes")
    used, free = (table[name].filled(0)[main].astype(np.int64) for name in ("used_bytes", "free_bytes"))
    room = int((used + free).max(initial=0))
    if not room:
        return reads.trace
    merged = np.arange(len(nodes), dtype=np.int64)
    # As if every leaf were filled to the last byte: whole records leave gaps, so no real tree gets as far.
    group = (np.cumsum(used) - 1) // room
    # The leaf that is kept of each group is its first.
    merged[main] = main[np.searchsorted(group, group)]
    after = np.where(reads.node >= 0, merged[np.maximum(reads.node, 0)], -1)
    # A node of several pages is read page by page, and each page is read once.
    page = reads.within // SMALLEST_READ % PAGES
    first = first_places(np.where(after >= 0, after * PAGES + page, len(nodes) * PAGES), len(nodes) * PAGES + 1)
    kept = after < 0
    kept[first] = True
    return reads.trace[kept]


CAUSES: Final = {
    Why.STAT: "names-only",
    Why.ORDER: "one-sweep",
    Why.DISTANCE: "clumped-like-hfs",
    Why.MAPS: "without-maps",
    Why.FILL: "full-leaves",
    Why.REQUESTS: "larger-requests",
}
"""What a walk may take long for, and the change after which it is not so."""

WHY: Final = {
    Why.STAT: "each file is looked up once more for its attributes (stat)",
    Why.ORDER: "nodes are visited in another order than they lie in",
    Why.DISTANCE: "other data lie between the nodes",
    Why.MAPS: "maps are read to learn where nodes lie",
    Why.FILL: "leaves are partly empty: full ones would be fewer",
    Why.REQUESTS: "nodes are read page by page, not whole",
}
"""Causes as a table tells them, behind the share of the time that each of them alone would save."""

SHORT: Final = {
    Why.STAT: "stat of each file",
    Why.ORDER: "nodes out of order",
    Why.DISTANCE: "data between nodes",
    Why.MAPS: "reading maps",
    Why.FILL: "half-empty leaves",
    Why.REQUESTS: "reading by pages",
}
"""Causes where several volumes share the screen."""

DRIVES: Final = {
    "generic-5400-2.5": "notebook disk (5400 rpm)",
    "generic-7200": "desktop disk (7200 rpm)",
    "sata-ssd": "SATA SSD",
}
"""The usual drives in words; others by their names."""


def besides(layout: VolumeLayout) -> str:
    """Count what a volume has besides what it counts as files and folders: snapshots, and other names of any kind."""
    facts = layout.facts
    names = int(((layout.columns("entries")["flags"].filled(0) & FLAG_PRIVATE) == 0).sum())
    # The root directory is an entry, and no folder in it.
    others = names - 1 - facts.num_files - facts.num_directories if layout.coverage == 1 else 0
    told = [f"{format_count(others, 'other name')} (hard links, symbolic links, devices)"] if others > 0 else []
    kept = facts.details.get("snapshots", 0) if facts.view == "live" else 0
    return " and ".join([*told, *([format_count(kept, "snapshot")] if isinstance(kept, int) and kept else [])])


def drive_words(name: str) -> str:
    """Say what a drive is."""
    return DRIVES.get(name, name)


def interval(item: Prediction) -> str:
    """Say between which times a prediction lies; nothing where it is exact."""
    low, high = format_seconds(item.seconds_low), format_seconds(item.seconds_high)
    return "" if low == high else f"{low} to {high}"


UNKNOWNS: Final[Mapping[str, str]] = {
    "on_arrival": "if the drive buffers whole tracks",
    "join": "if reads wait for the look-ahead",
    "look_ahead": "how far the drive reads ahead",
    "buffer": "the size of the drive's buffer",
    "rpm": "the speed of rotation",
    "mirror": "if the set is a stripe or a mirror",
    "chunk_bytes": "the stripe unit of the set",
    "track_to_track": "the seek time to the next track",
    "seek": "the seek times of the drive",
    "rate": "the sequential rate of the drive",
    "overhead": "the command overhead of the drive",
    "interface": "the rate of the bus",
    "flash_latency": "the latency of the drive",
    "flash_sequential": "the latency of sequential reads",
    "flash_rate": "the sequential rate of the drive",
    OFFSET: "the place of the volume on the drive",
    HOST: "the speed of the computer",
}
"""What is drawn, in words that fit a line of the screen; the error of a measured figure has the figure's name."""

SETTLED_BY: Final[Mapping[str, str]] = {OFFSET: "--start-offset", HOST: "--host-property"}
"""What settles an unknown that is none of the drive's."""

UNKNOWN_FROM: Final = 0.3
"""Share of the range from which the largest unknown is named."""


def unsettled(item: Prediction) -> str:
    """Name the unknown that moves a time most, and what settles it; nothing where none stands out."""
    name = item.largest_unknown
    if item.largest_unknown_share < UNKNOWN_FROM or not interval(item):
        return ""
    settled_by = SETTLED_BY.get(name, "'drives measure'")
    return f"Largest unknown: {UNKNOWNS.get(name, name)}; {settled_by} tells"


def quick(item: Prediction) -> str:
    """Say of a short time whether it is short on most drives like that."""
    likely = "" if item.seconds_high < WORTH_S else ", most likely"
    return f"Under a second{likely}: there is little to be gained."


CREATION: Final[Mapping[str, str]] = {
    AS_LISTED: "in the order in which folders are listed",
    BY_NAME: "in the order of their names",
    FOLDERS_FIRST: "after all folders",
}
"""Orders of creation in words."""


def history(volume: VolumeScan) -> str:
    """Say how a volume was written, as far as its numbers and transactions show; empty if they show nothing."""
    values = {metric.name: metric.value for metric in volume.metrics}
    order = order_of_creation(volume.layout)
    streams, files, behind = (values.get(each.name) for each in (STREAMS, FILES_A_TRANSACTION, BEHIND))
    told = [f"its files were created {CREATION[order]}"] if order else []
    told += [f"its leaves were written in {format_count(round(streams), 'stream')}"] if streams else []
    told += [f"the last transactions wrote about {files:,.0f} files each"] if files else []
    told += ["freed blocks are used again"] if behind is not None and behind < REUSED_BELOW else []
    text = "; ".join(told)
    return f"{text[:1].upper()}{text[1:]}." if told else ""


def story(volume: VolumeScan) -> tuple[str, ...]:
    """Tell the verdict of a volume in sentences: time, causes, how nodes lie, what would help and what would not."""
    return tuple(_sentences(volume))


def _sentences(volume: VolumeScan) -> Iterator[str]:
    verdict = volume.verdict
    if verdict is None or volume.walk is None:
        return
    yield _cost(verdict, volume)
    if verdict.yardsticks:
        yield f"{elsewhere(verdict)}."
    if verdict.named_causes:
        told = "; ".join(f"{format_share(cause.share)}: {WHY[cause.name]}" for cause in verdict.named_causes)
        yield f"Why, and what each alone would save: {told}."
    if verdict.placement is not None:
        yield lie(verdict.placement)
    if verdict.helpful:
        yield f"What would help: {_listed(verdict.helpful)}."
    if verdict.unsure:
        yield f"What would help on some such drives: {_listed(verdict.unsure)}."
    if verdict.useless:
        how = little(verdict).lower().replace("under", "would save under")
        yield f"What {how}: {_listed(verdict.useless)}."


def _cost(verdict: Verdict, volume: VolumeScan) -> str:
    reads, first = volume.walk.reads if volume.walk else 0, volume.predictions[0]
    what = f"Listing {'every file' if is_all_read(volume.layout) else 'what was read of it'}"
    if not reads:
        if not is_all_read(volume.layout):
            return "No time can be given: the metadata that lists the files was not read."
        return f"{what} reads nothing more: mounting has read it all."
    between = f" ({interval(first)})" if interval(first) else ""
    return (
        f"{what} takes about {format_seconds(verdict.seconds)}{between} on a {drive_words(verdict.drive)}, "
        f"with {format_count(reads, 'read')}{'; ' + yardstick(verdict) if verdict.is_worth_a_word else ''}."
    )


def is_all_read(layout: VolumeLayout) -> bool:
    """Tell whether all of a volume was read, as far as anything tells, and nothing of it or its container is wrong."""
    return layout.coverage == 1 and not (layout.container or layout).num_errors


def yardstick(verdict: Verdict) -> str:
    """Say what a time is to be held against: 1,000 entries, and the same nodes packed.

    Of a walk of a few reads neither means anything: where its first read finds the disk turned, decides.
    """
    packed = format_seconds(verdict.packed_seconds)
    return f"{format_seconds(verdict.seconds_per_1000)} per 1,000 entries; packed in key order {packed}"


def elsewhere(verdict: Verdict) -> str:
    """Say what the same files would take on other file systems; nothing where that is not modelled."""
    return "; ".join(
        f"The same files copied to {item.filesystem} in listing order: {format_seconds(item.seconds)} "
        f"({format_seconds(item.seconds_low)} to {format_seconds(item.seconds_high)})"
        for item in verdict.yardsticks
    )


def why(verdict: Verdict) -> str:
    """Head the causes that are named, or say that none is, and whether only for nodes that lie close already."""
    if verdict.named_causes:
        return "Why: the share of that time that would be saved if it were not so, each alone"
    if any(cause.share >= NAMED_FROM for cause in verdict.causes):
        return "Why: of what was tried, nodes without any gap alone would save a tenth of it"
    return "Why: no single cause that was tried carries a tenth of it"


def little(verdict: Verdict) -> str:
    """Say of the remedies that do not help whether some save a little all the same."""
    now = format_seconds(verdict.seconds)
    is_none = all(item.share <= 0 or format_seconds(item.seconds) == now for item in verdict.useless)
    return "Would not" if is_none else f"Under {HELPS_FROM * 100:.0f} %"


def _listed(chosen: Sequence[Remedy]) -> str:
    return "; ".join(f"{item.title}, {format_seconds(item.seconds)}" for item in chosen)


def lie(found: Placement) -> str:
    """Say how the nodes of a walk lie."""
    span, share = format_bytes(found.span_bytes), format_share(found.volume_share)
    numbers = f"the middle 98 % of them fill {format_share(found.density)} of {span}, {share} of the volume"
    if found.is_close:
        return f"Its nodes lie close together: {numbers}."
    if found.is_near:
        return f"Its nodes lie with gaps between them, which cost little: {numbers}."
    where = "all over the volume" if found.is_all_over else "apart"
    return f"Its nodes lie {where}: {numbers}."


def most(items: Sequence[str], room: int, noun: str = "") -> str:
    """Join as many items as there is room for, and count the others.

    >>> most(["one", "two", "three"], 12)
    'one, 2 more'
    >>> most(["one", "twenty-seven", "three"], 18, "drive")
    'one, 2 more drives'
    """
    for count in range(len(items), 0, -1):
        left = len(items) - count
        others = f" {noun}{'s' * (left > 1)}" if noun else ""
        text = ", ".join([*items[:count], *([f"{left} more{others}"] if left else [])])
        if len(text) <= room:
            return text
    return f"{len(items)} of them"


SPAN_ENDS: Final = (0.01, 0.99)
"""Shares of the bytes before which a span begins and ends: a single stray node makes no span."""

PACKED: Final = "packed"
"""The what-if that a volume is compared with; `predict` prints the same number."""


class Trials(Protocol):
    """What changes of a walk come to."""

    def seconds(self, name: str) -> float:
        """Say what the walk takes with a change, by its name; as long as without it where that does not apply."""

    def quick_remedies(self) -> tuple[Remedy, ...]:
        """Try remedies."""

    def yardsticks(self) -> tuple[Yardstick, ...]:
        """Say what the walk takes elsewhere."""


def judge(reads: ReadsOfNodes, first: Prediction, trials: Trials) -> Verdict:
    """Draw the conclusions from a walk."""
    entries = len(reads.layout.columns("entries"))
    plain = Verdict(first.drive, first.seconds, first.seconds, 1000 * first.seconds / max(entries, 1), (), (), None)
    if not len(reads.trace):
        return plain
    seconds = {why: trials.seconds(change) for why, change in CAUSES.items()}
    causes = [Cause(why, each, _saved(first.seconds, each)) for why, each in seconds.items()]
    return replace(
        plain,
        packed_seconds=trials.seconds(PACKED),
        causes=tuple(sorted(causes, key=lambda cause: -cause.share)),
        remedies=trials.quick_remedies(),
        placement=placement(reads, _saved(first.seconds, seconds[Why.DISTANCE])) if first.rotates else None,
        yardsticks=trials.yardsticks() if plain.is_worth_a_word else (),
    )


def _saved(before: float, after: float) -> float:
    return 1 - after / before if before else 0.0


def placement(reads: ReadsOfNodes, saved_by_nearness: float) -> Placement | None:
    """Say how far apart the nodes of a walk lie, by their span and by what the drive's arm makes of it."""
    nodes = reads.nodes
    order = reads.used[nodes.device[reads.used] == 0]
    if len(order) < 2:
        return None
    start, size = nodes.image_offset[order], nodes.size_bytes[order]
    low, high = np.searchsorted(np.cumsum(size), np.array(SPAN_ENDS) * size.sum())
    span = int(start[high] + size[high] - start[low])
    return Placement(
        span_bytes=span,
        volume_share=min(span / max(reads.layout.facts.size_bytes, 1), 1.0),
        density=min(int(size[low : high + 1].sum()) / span, 1.0),
        saved_by_nearness=saved_by_nearness,
    )

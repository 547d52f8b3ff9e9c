"""What explains a prediction: the shares of its causes, the placement of the nodes, and the sentences about both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

import numpy as np
from msgspec.structs import replace

from layoutscope.access.entries import ROOT_ID, node_table
from layoutscope.access.trace import place_of
from layoutscope.display import Struct
from layoutscope.drive.uncertain import HOST, OFFSET
from layoutscope.filesystems.registry import filesystem_of
from layoutscope.findings import ABSENT
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
from layoutscope.structs.arrays import distinct, first_places, heads, order_of
from layoutscope.tables.schema import FLAG_HARD_LINK, FLAG_PRIVATE
from layoutscope.units import (
    brief_bytes,
    brief_seconds,
    brief_share,
    format_count,
    format_range,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from layoutscope.access.entries import NodeTable
    from layoutscope.access.trace import AccessTrace
    from layoutscope.findings import Finding
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
    node: I64  # node of each read, -1 if there is none
    within: I64  # byte of that node at which the read starts
    used: I64  # nodes that are read, in disk order
    by_place: I64  # reads in disk order

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

SHORT: Final = {
    Why.STAT: "separate attributes",
    Why.ORDER: "metadata out of order",
    Why.DISTANCE: "data in between",
    Why.MAPS: "address look-ups",
    Why.FILL: "partly empty blocks",
    Why.REQUESTS: "reads page by page",
}
"""Causes where several volumes share the screen."""

DRIVES: Final = {
    "generic-5400-2.5": "2.5-inch disk (5400 rpm)",
    "generic-7200": "3.5-inch disk (7200 rpm)",
    "sata-ssd": "SATA SSD",
}
"""The usual drives in words; others by their names."""


def counted(layout: VolumeLayout) -> tuple[int, int, int]:
    """Count files, folders and other names by one rule on each file system, or as the volume does where it lacks any.

    A file counts once, however many names it has. Further names of it, symbolic links and devices are other names. The
    root, private folders and what is in them, such as deleted files, are not counted.
    """
    facts, entries = layout.facts, layout.columns("entries")
    if layout.coverage != 1 or not len(entries):
        return facts.num_files, facts.num_directories, 0
    flags = entries["flags"].filled(0)
    is_public = _is_listed(layout)
    is_file = is_public & entries["kind"].equals("file")
    linked = is_file & ((flags & FLAG_HARD_LINK) != 0)
    files = int(is_file.sum() - linked.sum()) + len(distinct(entries["file_id"].filled(0)[linked]))
    folders = int((is_public & entries["kind"].equals("directory")).sum())
    return files, folders, int(is_public.sum()) - files - folders


def _is_listed(layout: VolumeLayout) -> NDArray[np.bool_]:
    """Find the entries that a listing shows: neither the root nor private ones."""
    entries = layout.columns("entries")
    flags, file_id = entries["flags"].filled(0), entries["file_id"].filled(0)
    is_listed: NDArray[np.bool_] = ((flags & FLAG_PRIVATE) == 0) & (file_id != ROOT_ID)
    return is_listed


def count_listed(layout: VolumeLayout) -> int:
    """Count the names that a listing of a whole volume shows, of what was read."""
    return int(_is_listed(layout).sum())


def drive_words(name: str) -> str:
    """Describe what a drive is."""
    return DRIVES.get(name, name)


def interval(item: Prediction) -> str:
    """Return the 90 % range of a prediction; nothing where it is exact."""
    return "" if item.seconds_low == item.seconds_high else format_range(item.seconds_low, item.seconds_high)


UNKNOWNS: Final[Mapping[str, str]] = {
    "on_arrival": "whether the drive buffers whole tracks",
    "join": "whether reads wait for the look-ahead",
    "look_ahead": "how far the drive reads ahead",
    "buffer": "the size of the drive's buffer",
    "rpm": "the speed of rotation",
    "mirror": "whether the set is a stripe or a mirror",
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
    return f"Unknown: {UNKNOWNS.get(name, name)} ({SETTLED_BY.get(name, 'layoutscope drives measure')})"


CREATION: Final[Mapping[str, str]] = {
    AS_LISTED: "in the order in which folders are listed",
    BY_NAME: "in the order of their names",
    FOLDERS_FIRST: "after all folders",
}
"""Orders of creation in words."""


def history(volume: VolumeScan) -> str:
    """Describe how a volume was written, as far as its numbers and transactions show; empty if they show nothing."""
    values = {metric.name: metric.value for metric in volume.metrics}
    order = order_of_creation(volume.layout)
    streams, files, behind = (values.get(each.name) for each in (STREAMS, FILES_A_TRANSACTION, BEHIND))
    told = [f"its files were created {CREATION[order]}"] if order else []
    told += [f"its leaves were written in {format_count(round(streams), 'stream')}"] if streams else []
    told += [f"the last transactions wrote about {files:,.0f} files each"] if files else []
    told += ["freed blocks are used again"] if behind is not None and behind < REUSED_BELOW else []
    text = "; ".join(told)
    return f"{text[:1].upper()}{text[1:]}." if told else ""


DAMAGED, INCOMPLETE, LOCKED, SLOW, OK = "DAMAGED", "INCOMPLETE", "LOCKED", "SLOW", "OK"
"""What a volume is called first of all."""


def state_word(findings: Sequence[Finding]) -> str:
    """Name the state that findings put a volume in; one of which only a part was given is not damaged by that."""
    errors = {item.origin.code for item in findings if item.level == "error"}
    if not errors:
        return ""
    return INCOMPLETE if errors <= ABSENT else DAMAGED


def conclusion(volume: VolumeScan, name: str = "") -> tuple[str, ...]:
    """Conclude whether listing a volume is slow, in a sentence or two; empty if there is no time to judge by.

    A name distinguishes the volume from others.
    """
    of = f" of {name}" if name else ""
    verdict, walk = volume.verdict, volume.walk
    if verdict is None or walk is None:
        return ()
    is_whole = is_all_read(volume.layout)
    if not walk.reads:
        return (
            (f"{OK}: listing all files{of} needs no disk reads, because mounting has already loaded everything.",)
            if is_whole
            else (f"No listing time: the metadata that lists the files{of} was not read.",)
        )
    if not is_whole:  # Part of a listing is neither slow nor fine.
        first = volume.predictions[0]
        return (f"Listing what was read{of} takes about {brief_seconds(first.seconds)} on {a_drive(first.drive)}.",)
    word, time, more = _judge_time(volume, verdict)
    others = [f"{elsewhere(verdict)}."] if verdict.yardsticks else []
    return (f"{word}: listing all files{of} takes {time}.{more}", *others)


def _judge_time(volume: VolumeScan, verdict: Verdict) -> tuple[str, str, str]:
    """Return the word for a time, the time with its drive, and a sentence about it, if there is something to add."""
    first = volume.predictions[0]
    seconds = brief_seconds(first.seconds)
    on_first = f"about {seconds} on {a_drive(first.drive)}"
    if not verdict.is_noticeable:
        if first.seconds_high < WORTH_S:
            return OK, on_first, " Nothing to improve."
        return OK, f"{on_first}, and up to {brief_seconds(first.seconds_high)} on some of them", ""
    if not verdict.is_slow:
        return OK, on_first, " No single cause accounts for half of it."
    flash = next((item for item in volume.predictions if not item.rotates), None)
    if first.rotates and flash is not None:
        disks = [item.seconds for item in volume.predictions if item.rotates]
        on_flash = f"on {a_drive(flash.drive)} {brief_seconds(flash.seconds)}"
        return f"{SLOW} on hard disks", f"{format_range(min(disks), max(disks))}, {on_flash}", ""
    return SLOW, on_first, ""


def a_drive(name: str) -> str:
    """Name a drive in a sentence: its kind with an article, or its profile."""
    return f"a {DRIVES[name]}" if name in DRIVES else name


def story(volume: VolumeScan, name: str = "") -> tuple[str, ...]:
    """Explain the verdict of a volume in sentences: time, causes, where its metadata is, and what helps."""
    return tuple(_sentences(volume, name))


def _sentences(volume: VolumeScan, name: str) -> Iterator[str]:
    verdict = volume.verdict
    if verdict is None or volume.walk is None:
        return
    yield from conclusion(volume, name)
    if verdict.named_causes:
        shares = (f"{cause.title} ({brief_share(cause.share)})" for cause in verdict.named_causes)
        yield f"Why, with the time saved if only this cause were removed: {'; '.join(shares)}."
    if verdict.placement is not None:
        fills = brief_share(verdict.placement.density)
        yield f"The metadata is {where(verdict.placement)}. It fills {fills} of that stretch."
    for items, words in (
        (verdict.helpful, "What helps"),
        (verdict.unsure, "What helps on some such drives"),
        (verdict.useless, LITTLE),
    ):
        if items:
            yield f"{words}: {'; '.join(f'{item.title} ({brief_seconds(item.seconds)})' for item in items)}."


def is_all_read(layout: VolumeLayout) -> bool:
    """Return whether all of a volume was read, as far as known, and nothing in it or its container is wrong."""
    return layout.coverage == 1 and not (layout.container or layout).num_errors


def elsewhere(verdict: Verdict) -> str:
    """Estimate what the same files take on other file systems; empty where that is not modelled."""
    return "; ".join(
        f"Copied in listing order to a new {item.filesystem} volume: {brief_seconds(item.seconds)} "
        f"({format_range(item.seconds_low, item.seconds_high)})"
        for item in verdict.yardsticks
    )


def why(verdict: Verdict) -> str:
    """Head the causes that are named, or report that none is, and whether only because the nodes are close already."""
    if verdict.named_causes:
        return "Why (time saved if only this cause were removed; causes overlap)"
    if any(cause.share >= NAMED_FROM for cause in verdict.causes):
        return "Why: the only cause found is gaps between metadata blocks (10 % or more)"
    return "Why: no single cause accounts for 10 % of the time"


LITTLE: Final = f"Saves under {HELPS_FROM * 100:.0f} %"
"""Heads the remedies that do not help."""


def where(found: Placement) -> str:
    """Describe where the nodes are that a walk reads."""
    how = (
        "close together"
        if found.is_close
        else "loosely packed, at little cost"
        if found.is_near
        else "spread over the volume"
        if found.is_all_over
        else "scattered"
    )
    return f"{how}: {within(found)}"


def within(found: Placement) -> str:
    """Give the stretch that holds most nodes of a walk."""
    return f"90 % of it within {brief_bytes(found.span_bytes)} ({brief_share(found.volume_share)} of the volume)"


def most(items: Sequence[str], room: int) -> str:
    """Join as many items as there is room for, and count the others.

    >>> most(["one", "two", "three"], 12)
    'one, 2 more'
    """
    for count in range(len(items), 0, -1):
        left = len(items) - count
        text = ", ".join([*items[:count], *([f"{left} more"] if left else [])])
        if len(text) <= room:
            return text
    return f"{len(items)} of them"


SPAN_SHARE: Final = 0.9
"""Share of the bytes that a span holds: a few stray nodes do not widen it."""

PACKED: Final = "packed"
"""The what-if that a volume is compared with; `predict` prints the same number."""


class Trials(Protocol):
    """What changes of a walk come to."""

    def seconds(self, name: str) -> float:
        """Describe what the walk takes with a change, by its name; as long as without it where that does not apply."""

    def quick_remedies(self) -> tuple[Remedy, ...]:
        """Try remedies."""

    def yardsticks(self) -> tuple[Yardstick, ...]:
        """Describe what the walk takes elsewhere."""


def judge(reads: ReadsOfNodes, first: Prediction, trials: Trials) -> Verdict:
    """Draw the conclusions from a walk."""
    entries = count_listed(reads.layout)
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
        yardsticks=trials.yardsticks() if plain.is_noticeable else (),
    )


def _saved(before: float, after: float) -> float:
    return 1 - after / before if before else 0.0


def placement(reads: ReadsOfNodes, saved_by_nearness: float) -> Placement | None:
    """Describe how far apart the nodes of a walk are, by their span and by the arm movement it costs."""
    nodes = reads.nodes
    order = reads.used[nodes.device[reads.used] == 0]
    if len(order) < 2:
        return None
    start, size = nodes.image_offset[order], nodes.size_bytes[order]
    before = np.cumsum(size) - size
    low = np.flatnonzero(before + SPAN_SHARE * size.sum() <= before[-1] + size[-1])
    high = np.searchsorted(before + size, before[low] + SPAN_SHARE * size.sum())
    spans = start[high] + size[high] - start[low]
    least = int(spans.argmin())
    span, held = int(spans[least]), int(before[high[least]] + size[high[least]] - before[low[least]])
    return Placement(
        span_bytes=span,
        volume_share=min(span / max(reads.layout.facts.size_bytes, 1), 1.0),
        density=min(held / span, 1.0),
        saved_by_nearness=saved_by_nearness,
    )

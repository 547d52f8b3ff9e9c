"""The explanation of a prediction: shares of causes, the placement of the nodes, and sentences about both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

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
    FILES_PER_TRANSACTION,
    FOLDERS_FIRST,
    REUSED_BELOW,
    STREAMS,
    infer_creation_order,
)
from layoutscope.results.verdict import HELPS_FROM, NAMED_FROM, WORTH_S, Placement
from layoutscope.structs.arrays import distinct, first_places, heads, order_of
from layoutscope.tables.schema import FLAG_HARD_LINK, FLAG_PRIVATE
from layoutscope.units import brief_bytes, brief_seconds, brief_share, format_count, format_range

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from layoutscope.access.entries import NodeTable
    from layoutscope.access.trace import AccessTrace
    from layoutscope.findings import Finding
    from layoutscope.results.scan import Prediction, VolumeScan
    from layoutscope.results.verdict import Verdict
    from layoutscope.tables import VolumeLayout

    I64 = NDArray[np.int64]
    Mask = NDArray[np.bool_]


SMALLEST_READ: Final = 4096

PAGES: Final = 16
"""Number of pages in the largest nodes, of 64 KiB."""


class ReadsOfNodes(Struct, frozen=True):
    """The reads of a walk, and the node of each read."""

    layout: VolumeLayout
    trace: AccessTrace
    nodes: NodeTable
    node: I64  # node of each read, -1 if there is none
    within: I64  # offset of the read in the node, in bytes
    used: I64  # nodes that are read, in disk order
    by_place: I64  # reads in disk order

    def of_node(self, values: NDArray[np.generic], missing: int) -> I64:
        """Return a value of the node of each read, or a replacement without a node."""
        node_values = values[np.maximum(self.node, 0)].astype(np.int64)
        return np.where(self.node >= 0, node_values, missing)

    def moved(self, offset: I64) -> AccessTrace:
        """Return the reads with the nodes moved to other offsets, shape (n_nodes,)."""
        to = np.where(self.node >= 0, self.of_node(offset, 0) + self.within, self.trace.image_offset)
        return replace(self.trace, image_offset=to)


def locate_reads(layout: VolumeLayout, trace: AccessTrace) -> ReadsOfNodes:
    """Find the node of each read."""
    nodes = node_table(layout)
    key, length, owner, before = list_node_pieces(layout, nodes)
    at = place_of(trace.device, trace.image_offset)
    by_place = order_of(at)
    node, within = np.full(len(trace), -1), np.zeros(len(trace), np.int64)
    if len(key):
        # Searching sorted keys is many times faster than searching them in any order.
        at = at[by_place]
        piece = np.maximum(np.searchsorted(key, at, side="right") - 1, 0)
        offset = at - key[piece]
        node[by_place] = np.where((offset >= 0) & (offset < length[piece]), owner[piece], -1)
        within[by_place] = before[piece] + offset
    is_used = np.zeros(len(nodes) + 1, bool)
    is_used[node] = True
    order = order_of(place_of(nodes.device, nodes.image_offset))
    return ReadsOfNodes(layout, trace, nodes, node, within, order[is_used[order]], by_place)


def list_node_pieces(layout: VolumeLayout, nodes: NodeTable) -> tuple[I64, I64, I64, I64]:
    """Return the pieces of nodes: keys, ascending, lengths, nodes, and bytes in earlier pieces of the node."""
    own, fragments = np.flatnonzero(nodes.level >= 0), layout.columns("node_fragments")
    key, length = place_of(nodes.device, nodes.image_offset)[own], nodes.size_bytes[own]
    before = np.zeros(len(own), np.int64)
    if len(fragments):
        # The pieces of a node are contiguous rows, in order.
        owner = nodes.nodes_of(fragments["node_row"]).astype(np.int64)
        fragment_bytes = fragments["length_bytes"].data.astype(np.int64)
        head = heads(owner)
        earlier_bytes = np.cumsum(fragment_bytes) - fragment_bytes
        earlier_bytes -= np.repeat(earlier_bytes[head], np.diff(head, append=len(owner)))
        place = place_of(fragments["device"].filled(0), fragments["image_offset"].signed())
        whole, of_tree = ~np.isin(own, owner), np.isin(owner, own)
        columns = ((key, place), (length, fragment_bytes), (own, owner), (before, earlier_bytes))
        key, length, own, before = (np.concatenate([one[whole], other[of_tree]]) for one, other in columns)
    order = order_of(key)
    return key[order], length[order], own[order], before[order]


def merge_reads_of_nodes(reads: ReadsOfNodes) -> AccessTrace:
    """Merge the reads of each node into one request."""
    # Linux reads a node of 8 KiB as two consecutive pages of 4 KiB; Apple's drivers read it in one request.
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


def merge_partial_leaves(reads: ReadsOfNodes) -> AccessTrace:
    """Return the reads that remain if neighbouring leaves are merged as long as their records fit into one."""
    nodes = reads.nodes
    main = nodes.leaves(nodes.tree_code(filesystem_of(reads.layout).traits.main_tree))
    table = reads.layout.columns("nodes")
    used, free = (table[name].filled(0)[main].astype(np.int64) for name in ("used_bytes", "free_bytes"))
    room = int((used + free).max(initial=0))
    if not room:
        return reads.trace
    merged = np.arange(len(nodes), dtype=np.int64)
    # This fills leaves to the last byte, which no real tree reaches, because whole records leave gaps.
    group = (np.cumsum(used) - 1) // room
    # The first leaf of each group remains.
    merged[main] = main[np.searchsorted(group, group)]
    merged_node = np.where(reads.node >= 0, merged[np.maximum(reads.node, 0)], -1)
    # A node with several pages is read page by page, and each page is read once.
    page = reads.within // SMALLEST_READ % PAGES
    first = first_places(
        np.where(merged_node >= 0, merged_node * PAGES + page, len(nodes) * PAGES), len(nodes) * PAGES + 1
    )
    is_kept = merged_node < 0
    is_kept[first] = True
    return reads.trace[is_kept]


DRIVES: Final = {
    "generic-5400-2.5": "2.5-inch disk (5400 rpm)",
    "generic-7200": "3.5-inch disk (7200 rpm)",
    "sata-ssd": "SATA SSD",
}
"""The built-in drives in words; other drives are shown by name."""


def count_files(layout: VolumeLayout) -> tuple[int, int, int]:
    """Count files, folders and other names by the same rule for all file systems, or as the volume declares if damaged.

    A file counts once, independent of its number of names. Its further names, symbolic links and devices count as other
    names. The root, private folders and their contents, such as deleted files, are not counted.
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
    """Describe a drive by its kind."""
    return DRIVES.get(name, name)


def interval(item: Prediction) -> str:
    """Format the 90 % range of a prediction; empty if the prediction is exact."""
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
"""Sampled inputs, in words that fit a line of the screen; the error of a measured parameter has its name."""

SETTLED_BY: Final[Mapping[str, str]] = {OFFSET: "--start-offset", HOST: "--host-property"}
"""Options that settle unknowns other than those of the drive."""

UNKNOWN_FROM: Final = 0.3
"""Least share of the range at which the largest unknown is named."""


def describe_unknown(item: Prediction) -> str:
    """Name the unknown with the largest effect on a time, and what settles it; empty if none stands out."""
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


def describe_history(volume: VolumeScan) -> str:
    """Describe how a volume was written, by its numbers and transactions; empty if they show nothing."""
    values = {metric.name: metric.value for metric in volume.metrics}
    order = infer_creation_order(volume.layout)
    streams, files, behind = (values.get(each.name) for each in (STREAMS, FILES_PER_TRANSACTION, BEHIND))
    facts = [f"its files were created {CREATION[order]}"] if order else []
    facts += [f"its leaves were written in {format_count(round(streams), 'stream')}"] if streams else []
    facts += [f"the last transactions wrote about {files:,.0f} files each"] if files else []
    facts += ["freed blocks are used again"] if behind is not None and behind < REUSED_BELOW else []
    text = "; ".join(facts)
    return f"{text[:1].upper()}{text[1:]}." if facts else ""


DAMAGED, INCOMPLETE, LOCKED, SLOW, OK = "DAMAGED", "INCOMPLETE", "LOCKED", "SLOW", "OK"
"""Verdict words for a volume."""


def state_word(findings: Sequence[Finding]) -> str:
    """Name the state of a volume with some findings; a volume with missing parts is incomplete, not damaged."""
    errors = {item.origin.code for item in findings if item.level == "error"}
    if not errors:
        return ""
    return INCOMPLETE if errors <= ABSENT else DAMAGED


def conclusion(volume: VolumeScan, name: str = "") -> tuple[str, ...]:
    """State in a sentence or two whether listing a volume is slow; empty without a predicted time.

    `name` distinguishes the volume from others.
    """
    of = f" of {name}" if name else ""
    verdict, walk = volume.verdict, volume.walk
    if verdict is None or walk is None:
        return ()
    is_whole = volume.layout.coverage == 1 and not (volume.layout.container or volume.layout).num_errors
    if not walk.reads:
        return (
            (f"{OK}: listing all files{of} needs no disk reads, because mounting has already loaded everything.",)
            if is_whole
            else (f"No listing time: the metadata that lists the files{of} was not read.",)
        )
    if not is_whole:  # Part of a listing cannot be judged.
        first = volume.predictions[0]
        drive = name_with_article(first.drive)
        return (f"Listing what was read{of} takes about {brief_seconds(first.seconds)} on {drive}.",)
    word, time, more = _judge_time(volume, verdict)
    others = "; ".join(
        f"After a copy in listing order to a new {item.filesystem} volume: {brief_seconds(item.seconds)} "
        f"({format_range(item.seconds_low, item.seconds_high)})"
        for item in verdict.yardsticks
    )
    return (f"{word}: listing all files{of} takes {time}.{more}", *([f"{others}."] if others else []))


def _judge_time(volume: VolumeScan, verdict: Verdict) -> tuple[str, str, str]:
    """Return the verdict word for a time, the time with its drive, and a further sentence, if any."""
    first = volume.predictions[0]
    seconds = brief_seconds(first.seconds)
    on_first = f"about {seconds} on {name_with_article(first.drive)}"
    if not verdict.is_noticeable:
        if first.seconds_high < WORTH_S:
            return OK, on_first, " Nothing to improve."
        return OK, f"{on_first}, and up to {brief_seconds(first.seconds_high)} on some of them", ""
    if not verdict.is_slow:
        return OK, on_first, " No single cause accounts for half of it."
    flash = next((item for item in volume.predictions if not item.rotates), None)
    if first.rotates and flash is not None:
        disks = [item.seconds for item in volume.predictions if item.rotates]
        on_flash = f"on {name_with_article(flash.drive)} {brief_seconds(flash.seconds)}"
        return f"{SLOW} on hard disks", f"{format_range(min(disks), max(disks))}, {on_flash}", ""
    return SLOW, on_first, ""


def name_with_article(name: str) -> str:
    """Name a drive in a sentence: its kind with an article, or its profile."""
    return f"a {DRIVES[name]}" if name in DRIVES else name


def story(volume: VolumeScan, name: str = "") -> tuple[str, ...]:
    """Explain the verdict of a volume in sentences: time, causes, placement of the metadata, and remedies."""
    verdict = volume.verdict
    if verdict is None or volume.walk is None:
        return ()
    sentences = [*conclusion(volume, name)]
    if verdict.named_causes:
        shares = "; ".join(f"{cause.title} ({brief_share(cause.share)})" for cause in verdict.named_causes)
        sentences.append(f"Why, with the time saved if only this cause were removed: {shares}.")
    if verdict.placement is not None:
        fills = brief_share(verdict.placement.density)
        placement = describe_placement(verdict.placement)
        sentences.append(f"The metadata of a listing is {placement}. It fills {fills} of that stretch.")
    # What helps is in the order of who can do it, which the advice says.
    for words, named in (
        ("What helps", [(item.advice, item.seconds) for item in verdict.helpful]),
        ("What helps on some such drives", [(item.title, item.seconds) for item in verdict.unsure]),
        (LITTLE, [(item.title, item.seconds) for item in verdict.useless]),
    ):
        if named:
            helps = "; ".join(f"{name} ({brief_seconds(seconds)})" for name, seconds in named)
            sentences.append(f"{words}: {helps}.")
    return tuple(sentences)


def head_causes(verdict: Verdict) -> str:
    """Return the heading of the causes, or the reason why none is named."""
    if verdict.named_causes:
        return "Why (time saved if only this cause were removed; causes overlap)"
    if any(cause.share >= NAMED_FROM for cause in verdict.causes):
        return "Why: the only cause found is gaps between metadata blocks (10 % or more)"
    return "Why: no single cause accounts for 10 % of the time"


LITTLE: Final = f"Saves under {HELPS_FROM * 100:.0f} %"
"""Heading of the remedies that do not help."""


def describe_placement(placement: Placement) -> str:
    """Describe the placement of the nodes of a walk."""
    description = (
        "close together"
        if placement.is_close
        else "loosely packed, at little cost"
        if placement.is_near
        else "spread over the volume"
        if placement.is_all_over
        else "scattered"
    )
    return f"{description}: {describe_span(placement, 'it')}"


def describe_span(placement: Placement, whole: str) -> str:
    """Describe the stretch with most of the nodes that a walk reads; `whole` names them all."""
    share = f"{brief_share(placement.volume_share)} of the volume"
    return f"90 % of {whole} within {brief_bytes(placement.span_bytes)} ({share})"


def join_most(items: Sequence[str], room: int) -> str:
    """Join as many items as fit into `room` characters, and count the others.

    >>> join_most(["one", "two", "three"], 12)
    'one, 2 more'
    """
    for count in range(len(items), 0, -1):
        num_remaining = len(items) - count
        text = ", ".join([*items[:count], *([f"{num_remaining} more"] if num_remaining else [])])
        if len(text) <= room:
            return text
    return f"{len(items)} of them"


SPAN_SHARE: Final = 0.9
"""Share of the bytes in a span, so a few stray nodes do not widen it."""


def measure_placement(reads: ReadsOfNodes, saved_by_nearness: float) -> Placement | None:
    """Measure the distances between the nodes of a walk, by their span and the cost of the gaps."""
    nodes = reads.nodes
    order = reads.used[nodes.device[reads.used] == 0]
    if len(order) < 2:
        return None
    start, size = nodes.image_offset[order], nodes.size_bytes[order]
    before = np.cumsum(size) - size
    low = np.flatnonzero(before + SPAN_SHARE * size.sum() <= before[-1] + size[-1])
    high = np.searchsorted(before + size, before[low] + SPAN_SHARE * size.sum())
    spans = start[high] + size[high] - start[low]
    narrowest = int(spans.argmin())
    span, filled_bytes = (
        int(spans[narrowest]),
        int(before[high[narrowest]] + size[high[narrowest]] - before[low[narrowest]]),
    )
    return Placement(
        span_bytes=span,
        volume_share=min(span / max(reads.layout.facts.size_bytes, 1), 1.0),
        density=min(filled_bytes / span, 1.0),
        saved_by_nearness=saved_by_nearness,
    )

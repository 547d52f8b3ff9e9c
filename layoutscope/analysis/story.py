"""What a scan concludes, in words. The rules stand in docs/verdict.md; the numbers beside the words are from the model.

Input: one volume's result. Nothing is said that a :class:`~layoutscope.results.verdict.Verdict` does not carry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from layoutscope.results.verdict import HELPS_FROM, NAMED_FROM, WORTH_S, Why
from layoutscope.tables.schema import FLAG_PRIVATE
from layoutscope.units import format_bytes, format_count, format_seconds, format_share

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from layoutscope.results.scan import Prediction, VolumeScan
    from layoutscope.results.verdict import Placement, Remedy, Verdict
    from layoutscope.tables import VolumeLayout

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


def quick(item: Prediction) -> str:
    """Say of a short time whether it is short on most drives like that."""
    if item.seconds_high < WORTH_S:
        return "Under a second: there is little to be gained."
    if not item.is_mostly_from(WORTH_S):
        return "Under a second, most likely: there is little to be gained."
    return "Under a second on the first drive, but more on most drives like it: see plan."


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
        f"{item.filesystem} with the same files: about {format_seconds(item.seconds)} "
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

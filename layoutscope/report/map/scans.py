"""From scans to disks of the map: one disk a container or volume range, with the report's own tables."""

from __future__ import annotations

from itertools import groupby
from operator import attrgetter
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec import field
from msgspec.structs import replace

from layoutscope.display import Struct
from layoutscope.filesystems.registry import filesystem_of
from layoutscope.findings import ABSENT
from layoutscope.report import escape_text
from layoutscope.report.map.pyramid import verified_xids
from layoutscope.results.explanation import count_listed, drive_words, story
from layoutscope.results.frames import read_seconds
from layoutscope.structs.arrays import match
from layoutscope.tables import coverage_of
from layoutscope.units import format_bytes, format_list, format_seconds, format_share, format_value

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from layoutscope.access.trace import AccessTrace
    from layoutscope.findings import Finding
    from layoutscope.results.scan import ScanResult, VolumeScan
    from layoutscope.tables import VolumeLayout

    FactTable = tuple[str, tuple[str, ...], tuple[tuple[str, ...], ...]]
    """A title, heads of columns, and rows of text."""


class MapWalk(Struct, frozen=True):
    """One predicted walk on one drive."""

    # order, drive: workload and profile
    order: str
    drive: str
    trace: AccessTrace  # its reads
    service_s: NDArray[np.float64]  # service time of each read, in seconds, host time not included
    causes_s: Mapping[str, float]  # seconds by cause: seek, rotation, transfer, overhead, host
    # time with the remedy that the report names first, and that remedy in a few words; None and empty where none helps
    best_s: float | None = None
    best: str = ""
    host_factor: float = 1.0  # how many times as long the computer takes as the trace says
    draws_s: tuple[float, ...] = ()  # seconds of each simulation, which belong to those of other walks one by one
    entries: int = 0  # files and directories that it lists
    volume: int = 0  # place of the volume that it goes through among its disk's layouts
    name: str = ""  # unique name of that volume on its disk; empty if there is one

    @property
    def seconds(self) -> float:
        """How long it takes."""
        return sum(self.causes_s.values())

    @property
    def read_seconds(self) -> NDArray[np.float64]:
        """What each read takes with the host's work before it, (n_reads,); the last one with what follows, too."""
        return read_seconds(self.trace, self.service_s, self.host_factor)

    @property
    def begin_s(self) -> NDArray[np.float64]:
        """When the drive begins with each read, (n_reads,)."""
        return np.cumsum(self.service_s + self.trace.think_us * 1e-6 * self.host_factor) - self.service_s


class MapDisk(Struct, frozen=True):
    """One image on the page."""

    # title, subtitle: name of the image or volume, and its layer stack
    title: str
    subtitle: str
    layouts: list[VolumeLayout]  # all views that share the disk, the container's own among them
    # image_offset, size_bytes: the range that is drawn
    image_offset: int
    size_bytes: int
    block_size_bytes: int  # smallest cell
    walks: list[MapWalk] = field(default_factory=list)  # predictions, the first one is shown first
    facts: list[FactTable] = field(default_factory=list)  # tables of the text report
    story: tuple[str, ...] = ()  # sentences that say what the disk shows, the most important first
    kind: str = ""  # variant of its file system, as sentences name it
    coverage: float | None = 1.0  # share of the known metadata that was read; None where that is unknown
    warnings: tuple[str, ...] = ()  # sentences that must be read before any number: what is locked, damaged, missing
    # checkpoints and snapshots with their transactions, where the file system has them
    states: list[tuple[str, int]] = field(default_factory=list)
    device: int = 0  # which image of a set it is; 0 for all others
    # what distinguishes its volumes, by the places of their layouts; empty where there is one
    called: Mapping[int, str] = field(default_factory=dict)
    # so many of the last layouts are an earlier state of the disk, which the others are set against
    num_earlier: int = 0


def walks_on(disk: MapDisk, drive: str) -> list[MapWalk]:
    """Return the walk of each volume of a disk on a drive, in the order that is shown."""
    return [walk for walk in disk.walks if (walk.order, walk.drive) == (disk.walks[0].order, drive)]


def first_walks(disk: MapDisk) -> list[MapWalk]:
    """Return the walk of each volume of a disk that is shown first: in one order, on one drive."""
    return walks_on(disk, disk.walks[0].drive) if disk.walks else []


def images_of(disks: Sequence[MapDisk]) -> list[MapDisk]:
    """Return the disks without the further devices of sets, for facts that are shown once per volume."""
    return [disk for disk in disks if not disk.device]


DEVICES: Final = ("main device", "second device")
"""What the images of a set are called, by the number of the device."""


def disks(results: Sequence[ScanResult], *, names: bool = True) -> list[MapDisk]:
    """Make a disk of each range of addresses that volumes share, with or without the volumes' names."""
    extent = attrgetter("layout.facts.image_offset", "layout.facts.size_bytes")
    ranges = ((result, list(volumes)) for result in results for _, volumes in groupby(result.parts, extent))
    made = (_disk(result, volumes, names=names) for result, volumes in ranges)
    return [disk for one in made for disk in _devices(one)]


def _devices(disk: MapDisk) -> Iterator[MapDisk]:
    """Take the devices of a Fusion set apart: each has addresses of its own."""
    sizes = [disk.layouts[0].facts.details.get(f"bytes of device {number}") for number in range(len(DEVICES))]
    ends = [size for size in sizes if isinstance(size, int)]
    if len(ends) < len(DEVICES):
        yield disk
        return
    for number, (name, size) in enumerate(zip(DEVICES, ends, strict=True)):
        further: dict[str, Any] = {"image_offset": 0, "facts": [], "story": (), "warnings": (), "coverage": 1.0}
        yield replace(
            disk,
            title=f"{disk.title}, {name}",
            subtitle=f"{disk.subtitle.rpartition(', ')[0]}, {format_bytes(size)}",
            size_bytes=size,
            device=number,
            **(further if number else {}),
        )


def made(results: Sequence[ScanResult], *, version: str, names: bool = True) -> str:
    """Say how a page was made."""
    parts = [f"Made by layoutscope {version}."]
    for result in results:
        name = f"{escape_text(PurePath(result.image.name).name)}: " if names else ""
        volumes = "; ".join(_identity(volume) for volume in result.parts)
        parts.append(f"{name}{result.image.size_bytes:,} bytes; {volumes}.")
    walks = {f"{v.walk.order} as on {v.walk.host}" for result in results for v in result.parts if v.walk is not None}
    return " ".join([*parts, *(f"Walk: {walk}, cold." for walk in sorted(walks))])


def state_names(earlier: ScanResult, later: ScanResult, *, names: bool) -> tuple[str, str]:
    """Name two states: by their files where these differ, with what of it was read."""
    told = tuple(_state_name(result) for result in (earlier, later))
    return (told[0], told[1]) if names and told[0] != told[1] else ("the earlier state", "the later state")


def _state_name(result: ScanResult) -> str:
    views = dict.fromkeys(volume.layout.facts.view for volume in result.parts)
    told = ", ".join(escape_text(view) for view in views if view != "live")
    return escape_text(PurePath(result.image.name).name) + (f" ({told})" if told else "")


def _identity(volume: VolumeScan) -> str:
    facts = volume.layout.facts
    stamp = f"{filesystem_of(volume.layout).traits.stamp_word} {facts.stamp}"
    return f"{facts.variant} {facts.uuid or 'without UUID'}, {stamp}, {facts.view}"


def _disk(result: ScanResult, volumes: list[VolumeScan], *, names: bool) -> MapDisk:
    named = [volume for volume in volumes if volume.layout.facts.volume is not None] or volumes
    facts = named[0].layout.facts
    called = _called(volumes, names=names)
    # The volume whose listing takes longest on the first drive is shown first.
    slowest = sorted(enumerate(volumes), key=lambda item: -next((each.seconds for each in item[1].predictions), 0.0))
    # Problems of the image itself are shown once, before all else.
    outside = _errors("The image", result.findings) if volumes[0] is result.parts[0] else ()
    return MapDisk(
        title=_title(result, named) if names else "volume",
        subtitle=f"{' > '.join(dict.fromkeys((*facts.stack, facts.variant)))}, {format_bytes(facts.size_bytes)}",
        layouts=[volume.layout for volume in volumes],
        image_offset=facts.image_offset,
        size_bytes=facts.size_bytes,
        block_size_bytes=facts.block_size_bytes,
        walks=[
            walk
            for place, volume in slowest
            if volume in named
            for walk in _walks(place, volume, called.get(place, ""))
        ],
        facts=[fact for volume in volumes for fact in _facts(volume, names=names)],
        story=tuple(
            sentence
            for place, volume in slowest
            if volume in named
            for sentence in story(volume, f"“{called[place]}”" if place in called else "")
        ),
        kind=facts.variant,
        coverage=coverage_of([volume.layout for volume in volumes]),
        warnings=(*outside, *(warning for volume in volumes for warning in _warnings(volume, names=names))),
        states=[state for volume in named for state in _states(volume, names=names)],
        called=called,
    )


def _called(volumes: Sequence[VolumeScan], *, names: bool) -> dict[int, str]:
    """Name the volumes by their places if there are several, so that the names differ."""
    facts = [volume.layout.facts for volume in volumes]
    own = {place: escape_text(one.name) if names else "" for place, one in enumerate(facts) if one.volume is not None}
    if len(own) < 2:
        return {}
    told = {}
    for number, (place, name) in enumerate(own.items(), 1):
        again = f" (volume {number})" if [*own.values()].count(name) > 1 else ""
        told[place] = f"{name}{again}" if name else f"volume {number}"
    return told


def _warnings(volume: VolumeScan, *, names: bool) -> Iterator[str]:
    """Say what a reader must know before any number."""
    facts = volume.layout.facts
    who = f"“{escape_text(facts.name)}”" if names and facts.name else facts.variant
    if facts.details.get("locked"):
        reason = next((f": {item.message}" for item in volume.findings if item.code.endswith("locked")), "")
        yield f"{who} is locked{escape_text(reason)}. Names, sizes and times of files were not read."
    yield from _errors(who, filesystem_of(volume.layout).explained(volume.findings))
    if facts.num_missing_entries:
        yield f"At least {facts.num_missing_entries:,} entries of {who} are missing here."


def _errors(who: str, findings: Sequence[Finding]) -> Iterator[str]:
    """Count errors, and quote the first, or what it follows from."""
    errors = [item for item in findings if item.level == "error"]
    if not errors:
        return
    count = "one error" if len(errors) == 1 else f"{len(errors):,} errors, the first"
    first = errors[0].origin
    place = first.image_offset
    where = "" if place is None else f" at byte {place:,}"
    state = "incomplete" if {item.origin.code for item in errors} <= ABSENT else "damaged"
    yield f"{who} is {state}: {count}{where}: {escape_text(first.message)}."


def _states(volume: VolumeScan, *, names: bool) -> Iterator[tuple[str, int]]:
    """Name the snapshots that the layout holds, each with the newest transaction among its nodes."""
    layout = volume.layout
    views, nodes = layout.columns("node_views"), layout.columns("nodes")
    row, is_there = match(nodes["row"].data.astype(np.int64), views["node_row"].signed())
    view, words = views["view"].numbered()
    newest = np.zeros(len(words), np.int64)
    if is_there.any():
        np.maximum.at(newest, view[is_there], verified_xids(nodes).astype(np.int64)[row[is_there]])
    found = sorted(
        (xid, word)
        for word, xid in zip(words, newest.tolist(), strict=True)
        if xid > 0 and word not in ("", layout.facts.view)
    )
    for number, (xid, word) in enumerate(found, 1):
        yield (escape_text(word) if names else f"snapshot {number}"), xid


MAX_NAMED: Final = 4
"""Volumes of a title that are named; more are counted."""


def _title(result: ScanResult, volumes: list[VolumeScan]) -> str:
    names = [escape_text(volume.layout.facts.name) for volume in volumes]
    told = format_list(names) if len(names) <= MAX_NAMED else f"{len(names)} volumes"
    return f"{escape_text(PurePath(result.image.name).name)}: {told}"


def _walks(place: int, volume: VolumeScan, name: str) -> Iterator[MapWalk]:
    # Where mounting has read everything, there is nothing to draw and no time to report.
    walk, verdict = volume.walk, volume.verdict
    if walk is None or not len(walk.trace):
        return
    for prediction in volume.predictions:
        best = next(iter(verdict.helpful), None) if verdict is not None and verdict.drive == prediction.drive else None
        yield MapWalk(
            order=walk.order,
            drive=prediction.drive,
            trace=walk.trace,
            service_s=prediction.service_s,
            causes_s=dict(prediction.causes_s),
            best_s=None if best is None else best.seconds,
            best="" if best is None else best.advice,
            host_factor=prediction.host_factor,
            draws_s=prediction.draws_s,
            entries=count_listed(volume.layout),
            volume=place,
            name=name,
        )


def _facts(volume: VolumeScan, *, names: bool) -> Iterator[FactTable]:
    facts = volume.layout.facts
    label = (escape_text(facts.name) if names else "") or facts.variant
    shown = [
        ("UUID", facts.uuid),
        ("block", format_bytes(facts.block_size_bytes)),
        ("features", escape_text(", ".join(facts.features))),
    ]
    details = [(escape_text(key), escape_text(str(value))) for key, value in facts.details.items()]
    yield (f"{label}: volume", ("fact", "value"), tuple(shown + details))
    if volume.trees:
        rows = tuple(
            (
                tree.tree,
                " + ".join(f"{count:,}" for count in reversed(tree.nodes_by_level)),
                format_bytes(tree.size_bytes),
                f"{tree.pieces:,}",
                format_share(tree.clumped_share),
            )
            for tree in volume.trees
        )
        heads = ("tree", "nodes, root to leaves", "bytes", "pieces", "largest clump")
        yield f"{label}: metadata by tree", heads, rows
    if volume.metrics:
        metrics = tuple(
            (metric.definition.title, metric.subject, format_value(metric.value, metric.unit), metric.definition.text)
            for metric in (*volume.metrics, *(volume.walk.metrics if volume.walk else ()))
        )
        yield f"{label}: metrics", ("metric", "of", "value", "definition"), metrics
    if volume.predictions:
        times = tuple(
            (
                drive_words(item.drive),
                format_seconds(item.seconds),
                f"{format_seconds(item.seconds_low)} to {format_seconds(item.seconds_high)}",
                ", ".join(f"{name} {format_seconds(seconds)}" for name, seconds in item.causes_s),
                item.note,
            )
            for item in volume.predictions
        )
        yield f"{label}: predicted enumeration", ("drive", "time", "interval", "causes", "note"), times
    if volume.findings:
        findings = tuple(
            (
                item.level,
                item.code,
                f"{item.image_offset:,}" if item.image_offset is not None else "",
                escape_text(item.message),
            )
            for item in volume.findings[:200]
        )
        count = "one finding" if len(volume.findings) == 1 else f"{len(volume.findings):,} findings"
        yield f"{label}: {count}", ("level", "code", "address", "what"), findings

"""Layouts without the names of what is on the volume, or with hashes in their place."""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from dataclasses import field, replace
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope.analysis.comparison import PLACEMENT
from layoutscope.api.workloads import host_of, said_of, walk
from layoutscope.arrays.lookup import runs_of
from layoutscope.drive import service
from layoutscope.drive.simulation import ALIGNED_BYTES, drawn_seconds
from layoutscope.drive.uncertain import START, VOLUME, interval_of, num_draws, uncertain
from layoutscope.errors import UnreadError, UsageError, did_you_mean
from layoutscope.filesystems.registry import filesystem_of
from layoutscope.findings import Finding, first_cause
from layoutscope.frozen import frozen
from layoutscope.partition import select_name
from layoutscope.progress import phase
from layoutscope.results.locked import locked_error, several_volumes
from layoutscope.tables import TextColumn, Values, VolumeLayout
from layoutscope.tables.layout import layout_findings
from layoutscope.tables.schema import DATA_REGIONS, FORKS
from layoutscope.units import format_bytes
from layoutscope.walk.orders import ORDERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from layoutscope.access.trace import AccessTrace
    from layoutscope.drive import DriveProfile
    from layoutscope.drive.uncertain import Interval
    from layoutscope.errors import LayoutscopeError
    from layoutscope.image import Source
    from layoutscope.image.opening import ImageSet
    from layoutscope.options import ReadRequest, WorkRequest
    from layoutscope.partition import VolumeCandidate, VolumeSearch
    from layoutscope.results.predict import DriveCase
    from layoutscope.results.scan import ImageFacts
    from layoutscope.tables import Table
    from layoutscope.tables.frames import WalkCosts

    Change = Callable[[str], str]

HASH_DIGITS: Final = 20
"""Hexadecimal digits of a hashed name: as long as walks take a name to be that was left out."""


def without_names(layout: VolumeLayout) -> VolumeLayout:
    """Return the layout without names of files, attributes, snapshots and the volume."""
    known: dict[str, str] = {}

    def numbered(name: str) -> str:
        return known.setdefault(name, str(len(known) + 1))

    entries = layout.columns("entries")
    rows = np.zeros(len(entries), np.int64)
    nothing = TextColumn(np.empty(0, np.uint8), np.zeros(1, np.int64), rows, np.zeros(len(entries), np.bool_))
    changed = _with_snapshots(layout, numbered)
    return changed.changed(
        facts=replace(changed.facts, name=""),
        entries=entries.changed("name", nothing).changed("name_raw", nothing),
        extents=_with_forks(layout.columns("extents"), lambda _: "attribute"),
    )


def with_hashed_names(
    layout: VolumeLayout,
    salt: bytes,  # the key, 1 to 64 bytes; without it nobody can try names out
) -> VolumeLayout:
    """Return the layout with a keyed hash in place of every name; equal names have equal hashes."""
    import hashlib

    def hashed(name: str) -> str:
        return hashlib.blake2b(name.encode("utf-8", "surrogatepass"), key=salt).hexdigest()[:HASH_DIGITS]

    entries, changed = layout.columns("entries"), _with_snapshots(layout, hashed)
    names = _mapped(entries, "name", hashed)
    return changed.changed(
        facts=replace(changed.facts, name=hashed(layout.facts.name) if layout.facts.name else ""),
        entries=entries.changed("name", names).changed("name_raw", names),
        extents=_with_forks(layout.columns("extents"), hashed),
    )


def _with_forks(extents: Table, change: Change) -> Table:
    return extents.changed("fork", _renamed(extents["fork"], lambda name: name if name in FORKS else change(name)))


def _renamed(column: Values, change: Change) -> Values:
    """Change the words that some row has; what were two words may be one then."""
    codes, words = column.numbered()
    told = [change(word) if word else "" for word in words]
    kept = list(dict.fromkeys(told))
    places = np.array([kept.index(word) for word in told] or [0], np.uint32)
    return Values(places[codes], column.known, kept)


def _mapped(table: Table, name: str, change: Change) -> TextColumn:
    """Change each different text once."""
    texts = table.listed(name)
    known = {text: change(text) for text in dict.fromkeys(texts) if text is not None}
    return TextColumn.of([None if text is None else known[text] for text in texts])


def _with_snapshots(layout: VolumeLayout, change: Change) -> VolumeLayout:
    """Change the names of snapshots and of the volume wherever texts quote them."""
    node_views, findings = layout.columns("node_views"), layout.columns("findings")
    views = {layout.facts.view, *node_views["view"].numbered()[1], *layout.facts.details}
    quoted = [f"volume {layout.facts.name}"] if layout.facts.name else []
    quoted += sorted({str(view).removesuffix(" nodes") for view in views if str(view).startswith("snapshot ")})
    if not quoted:
        return layout
    pattern = re.compile("|".join(rf"{re.escape(text)}(?!\w)" for text in sorted(quoted, key=len, reverse=True)))

    def told(text: str) -> str:
        return pattern.sub(lambda found: " ".join((found[0].split(" ")[0], change(found[0].partition(" ")[2]))), text)

    for name in ("structure", "expected", "found", "message"):
        findings = findings.changed(name, _mapped(findings, name, told))
    facts = layout.facts
    details = {told(key): told(value) if isinstance(value, str) else value for key, value in facts.details.items()}
    return layout.changed(
        facts=replace(facts, view=told(facts.view), details=details),
        node_views=node_views.changed("view", _renamed(node_views["view"], told)),
        findings=findings,
    )


CHUNK_BYTES: Final = 8 * 1024**2
NO_METADATA: Final = (*DATA_REGIONS, "reserved", "pending-free")
"""Types of regions that hold nothing that a scan reads."""


def metadata_sha256(images: ImageSet, layouts: Sequence[VolumeLayout]) -> str:
    """Hash the nodes and regions of layouts, each byte once, in address order."""
    digest = hashlib.sha256()
    for device, source in enumerate(images.devices):
        ranges = metadata_ranges(layouts, device, source.size_bytes)
        with phase("hashing the metadata", int((ranges[:, 1] - ranges[:, 0]).sum())) as hashed:
            for start, stop in ranges.tolist():
                digest.update(f"{device}:{start}:{stop}\n".encode())
                for data in _chunks(source, start, stop):
                    digest.update(data)
                hashed.advance(stop - start)
    return digest.hexdigest()


def metadata_ranges(
    layouts: Sequence[VolumeLayout],
    device: int,  # 0, or 1 for the second one of a Fusion set
    size_bytes: int,
) -> NDArray[np.int64]:
    """Where the metadata of layouts lie on a device.

    Start and stop in bytes, in address order, neither overlapping nor touching.
    """
    pieces = np.concatenate([_pieces(layout, device) for layout in layouts]) if layouts else np.empty((0, 2), np.int64)
    start, stop = np.clip(pieces, 0, size_bytes).T
    runs = runs_of(start, stop - start)
    return np.stack([runs[:, 0], runs.sum(axis=1)], axis=1)


def _pieces(layout: VolumeLayout, device: int) -> NDArray[np.int64]:
    """Start and stop of every node, in one piece or several, and of every region."""
    nodes, parts, regions = map(layout.columns, ("nodes", "node_fragments", "regions"))
    used = nodes.take(~nodes["kind"].equals("free"))
    whole = used.take(~np.isin(used["row"].data, parts["node_row"].data)) if len(parts) else used
    split = parts.take(np.isin(parts["node_row"].data, used["row"].data)) if len(parts) else parts
    regions = regions.take(~regions["type"].is_in(NO_METADATA))
    tables = [(whole, "size_bytes"), (split, "length_bytes"), (regions, "length_bytes")]
    return np.concatenate([_edges(table.take(table["device"].data == device), length) for table, length in tables])


def _edges(table: Table, length: str) -> NDArray[np.int64]:
    start = table["image_offset"].data
    return np.stack([start, start + table[length].data], axis=1).astype(np.int64)


def _chunks(source: Source, start: int, stop: int) -> Iterator[bytearray]:
    for at in range(start, stop, CHUNK_BYTES):
        data = bytearray(min(CHUNK_BYTES, stop - at))
        try:
            source.read_into(at, memoryview(data))
        except UnreadError:
            data = bytearray(len(data))
        yield data


@frozen
class Opened:
    """An open image or capture and what was read of it."""

    about: ImageFacts  # the image and what reading it took
    layouts: tuple[VolumeLayout, ...]  # the volumes that were asked for
    findings: tuple[Finding, ...]  # what is wrong outside of them, candidates that could not be read among it
    # the image, or both of a set in the order of their devices, open as long as the context; None of a capture
    images: ImageSet | None = None
    # bytes that each volume or container has at most, by where it starts in the image
    spaces: Mapping[int, int] = field(default_factory=dict)
    # what lies where on the image, whether it was asked for or not; None of a capture
    search: VolumeSearch | None = None
    capture: str = ""  # where the capture lies; empty of an image

    def bytes(self) -> ImageSet:
        """Return what holds the bytes."""
        if self.images is None:
            raise UsageError(f"{self.capture}: is a capture; this needs the image itself")
        return self.images


def nothing_to_walk(layouts: Sequence[VolumeLayout], name: str = "") -> LayoutscopeError:
    """Say why there is no volume that can be walked: it is locked, or the first error tells, or there is none."""
    locked = locked_error(layouts, name)
    if locked is not None:
        return locked
    before = f"{name}: " if name else ""
    errors = [item for found in findings_of(layouts) for item in found if item.level == "error"]
    why = f": {first_cause(errors).message}" if errors else ""
    return UsageError(f"{before}no volume that can be walked{why}")


def findings_of(layouts: Sequence[VolumeLayout]) -> list[tuple[Finding, ...]]:
    """Return the findings of each layout with their causes, which may be in the container that a volume is in."""
    found: list[tuple[Finding, ...]] = []
    for _, same in groupby(layouts, lambda layout: (layout.facts.filesystem, layout.facts.image_offset)):
        parts = [(layout, layout_findings(layout)) for layout in same]
        names = [str(layout.facts.volume or "") for layout, own in parts for _ in own]
        every = iter(filesystem_of(parts[0][0]).explained([item for _, own in parts for item in own], names))
        found += [tuple(islice(every, len(own))) for _, own in parts]
    return found


def only_volume(layouts: Sequence[VolumeLayout]) -> VolumeLayout:
    """Return the one volume that can be walked."""
    walked = [layout for layout in layouts if len(layout.columns("entries"))]
    if not walked:
        raise nothing_to_walk(layouts)
    if len(walked) > 1:
        raise several_volumes(walked)
    return walked[0]


class Volumes:
    """The volumes of an image, in order; one of them by its name, or by its number from 1, as ``volume=`` takes them.

    What is read of a container itself is no volume and not among them.
    """

    def __init__(self, layouts: Sequence[VolumeLayout]) -> None:
        self._layouts = [layout for layout in layouts if layout.facts.volume is not None]

    def __len__(self) -> int:
        return len(self._layouts)

    def __iter__(self) -> Iterator[VolumeLayout]:
        return iter(self._layouts)

    def __getitem__(self, wanted: str | int) -> VolumeLayout:
        """Return a volume."""
        return self._layouts[select_name(self.names, str(wanted))]

    @property
    def names(self) -> list[str]:
        """The names of the volumes, in order; two may have the same."""
        return [layout.facts.name for layout in self._layouts]

    def __repr__(self) -> str:
        listed = ", ".join(f"{number}: {name!r:.40}" for number, name in enumerate(self.names[:5], 1))
        return f"Volumes({listed}{', …' if len(self) > 5 else ''})"

    def _repr_html_(self) -> str:
        """Show the volumes as a table in a notebook."""
        from layoutscope.report.notebook import STYLE, table

        facts = [layout.facts for layout in self]
        rows = [(n, each.name, each.variant, each.size_bytes, each.view) for n, each in enumerate(facts, 1)]
        return STYLE + table(("number", "name", "variant", "size in bytes", "view"), rows)


class OpenImage:
    """An image that was read once and is open: every verb takes it in place of a path."""

    def __init__(self, path: str | os.PathLike[str], request: ReadRequest, opened: Opened) -> None:
        self.path = os.fspath(path)
        self.request = request
        self._opened: Opened | None = opened

    def __fspath__(self) -> str:
        return self.path

    def __str__(self) -> str:
        return self.path

    @property
    def opened(self) -> Opened:
        """What was read."""
        if self._opened is None:
            raise UsageError(f"{self.path}: was closed")
        return self._opened

    @property
    def layouts(self) -> tuple[VolumeLayout, ...]:
        """The tables of all that was read: volumes, and containers before their volumes."""
        return self.opened.layouts

    @property
    def volumes(self) -> Volumes:
        """The volumes, by name or by number from 1."""
        return Volumes(self.layouts)

    @property
    def volume(self) -> VolumeLayout:
        """The one volume that can be walked."""
        return only_volume(self.layouts)


def walked_costs(layout: VolumeLayout, drive: Any, work: dict[str, Any]) -> WalkCosts:
    """Charge what a walk costs to nodes, files and directories."""
    from layoutscope.api.workloads import checked, walk_costs

    # Slips of the pen are told before what the volume lacks.
    request = checked(work)
    return walk_costs(only_volume([layout]), drive, request)


# Tables know nothing of walks and drives, which work on them; whoever gets a layout from a verb can ask it for costs.
VolumeLayout.cost_with(walked_costs)


UNKNOWN: Final = "unknown"
"""The placement of a volume like that."""

PLACEMENTS: Final = ("known", UNKNOWN)


def check_placement(placement: str, work: WorkRequest, *, is_one_order: bool) -> None:
    """Hold what is asked of the placement to what can be said."""
    if placement not in PLACEMENTS:
        hint = did_you_mean(placement, PLACEMENTS)
        raise UsageError(f"no placement {placement!r}{hint}; there are {', '.join(PLACEMENTS)}")
    if placement == UNKNOWN and (not is_one_order or ORDERS[work.order].needs or work.start is not None):
        raise UsageError("a volume like that is predicted for one order that goes over the whole volume")


class VolumesAlike:
    """Volumes like one that is known, walked."""

    def __init__(self, layout: VolumeLayout, work: WorkRequest) -> None:
        from layoutscope.analysis.aged import volumes_alike

        self._layout, self._host = layout, said_of(host_of(work))
        self._volumes = volumes_alike(layout, work.host)
        self._walks = [walk(volume.layout, work).reads for volume in self._volumes]

    def added(self, case: DriveCase, reads: AccessTrace, profile: DriveProfile) -> DriveCase:
        """Add to a prediction what a volume like that takes."""
        return replace(case, volume=self._interval(profile), halves_s=self._halves(reads, profile))

    def _interval(self, profile: DriveProfile) -> Interval:
        """Draw drives like that, and in turn the volumes, each anywhere on its drive."""
        unknown = uncertain(profile, self._host, knows_offset=False)
        number = np.arange(num_draws())
        taken = number % len(self._walks)
        seconds = np.zeros(num_draws())
        for volume, reads in enumerate(self._walks):
            mine = number[taken == volume]
            seconds[mine] = drawn_seconds(reads, profile, unknown, numbers=mine)
        placed = {
            "creation": (PLACEMENT, np.array([volume.creation for volume in self._volumes])[taken]),
            "age": (PLACEMENT, np.array([volume.age for volume in self._volumes])[taken]),
        }
        return interval_of(seconds, {**unknown.columns(), **placed, START: (START, unknown.angle)}, VOLUME)

    def _halves(self, reads: AccessTrace, profile: DriveProfile) -> tuple[float, ...]:
        """Serve reads with the volume at the start of the drive and in the middle; empty where it does not fit."""
        half = profile.capacity_bytes // 2 // ALIGNED_BYTES * ALIGNED_BYTES
        if profile.geometry == "none" or self._layout.facts.size_bytes > half:
            return ()
        begins = -self._layout.facts.image_offset
        return tuple(service(reads, profile, start_offset_bytes=begins + at, phases=1).seconds for at in (0, half))


FREE_BYTES: Final = 16 * 1024**2
"""Volumes that overlap others may always have so much metadata together."""


class SharedSpace:
    """What of an image was read for which volumes.

    Volumes that overlap others are read until they have as much metadata together as the others, and at least
    :data:`FREE_BYTES`. They are swept until as many bytes as the image has were swept for their file system.
    """

    def __init__(self, size_bytes: int) -> None:
        self.findings: list[Finding] = []
        self._size_bytes = size_bytes
        self._stretches: list[tuple[int, int]] = []
        self._swept: Counter[str] = Counter()
        self._alone_bytes = self._overlapping_bytes = 0

    def may_read(self, candidate: VolumeCandidate) -> bool:
        """Whether a volume is read: if it overlaps others, only as long as the bound is not reached."""
        stop = candidate.image_offset + candidate.size_bytes
        other = self._other(candidate.image_offset, stop)
        bound = max(self._alone_bytes, FREE_BYTES)
        if other is None or self._overlapping_bytes < bound:
            return True
        reason = f"it was not read, since others that overlap had {format_bytes(bound)} of metadata before it"
        self._report(candidate, other, reason, is_read=False)
        return False

    def may_sweep(self, candidate: VolumeCandidate) -> bool:
        """Whether a volume is swept, if that was asked for."""
        start, size = candidate.image_offset, candidate.size_bytes
        return self._other(start, start + size) is None or self._swept[candidate.kind] + size <= self._size_bytes

    def add(
        self,
        candidate: VolumeCandidate,
        layouts: Sequence[VolumeLayout],  # what was read; none where that failed
        read_bytes: int,
        *,
        is_swept: bool,
        is_left_out: bool,
    ) -> None:
        """Take account of a volume that was read, or tried."""
        start, stop = candidate.image_offset, candidate.image_offset + candidate.size_bytes
        if is_swept:
            self._swept[candidate.kind] += max(candidate.size_bytes, read_bytes)
        else:
            # What is swept has a bound of its own, and is no measure of what there is.
            metadata = sum(layout.facts.metadata_read_bytes for layout in layouts)
            if self._other(start, stop) is None:
                self._alone_bytes += metadata
            else:
                self._overlapping_bytes += max(metadata, read_bytes)
        ends = [
            layout.facts.image_offset + layout.facts.size_bytes
            for layout in layouts
            if "fusion" not in layout.facts.features
        ]
        stop = max(ends, default=stop)
        other = self._other(start, stop)
        if other is not None and (layouts or is_left_out):
            what = "it was not swept, since as many bytes as the image has were swept before it" if is_left_out else ""
            self._report(candidate, other, what, is_read=True)
        self._stretches.append((start, stop))

    def _other(self, start: int, stop: int) -> tuple[int, int] | None:
        """Find a volume that was read or tried before and overlaps this one."""
        # What starts at the same byte is the same volume, tried as one of several kinds.
        return next((each for each in self._stretches if each[0] < stop and start < each[1] and each[0] != start), None)

    def _report(self, candidate: VolumeCandidate, other: tuple[int, int], what: str, *, is_read: bool) -> None:
        message = f"overlaps the volume at byte {other[0]:,}, which ends at {other[1]:,}"
        self.findings.append(
            Finding(
                "volumes-overlap",
                "warning" if is_read else "error",
                f"{candidate.label} volume",
                candidate.image_offset,
                f"{message}; {what}" if what else message,
            )
        )

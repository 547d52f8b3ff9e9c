"""Images that are open: what was read of one, and one that stays open, which verbs take in place of its path."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec import field
from msgspec.structs import replace

from layoutscope.display import Struct
from layoutscope.errors import ImageError, UnreadError, UsageError
from layoutscope.filesystems.registry import filesystem_names, filesystem_of, read_options
from layoutscope.findings import Finding, first_cause
from layoutscope.partition import select_name
from layoutscope.progress import phase
from layoutscope.results.locked import is_locked, make_locked_error, make_several_volumes_error
from layoutscope.results.scan import ImageFacts, PartitionFacts
from layoutscope.structs.arrays import runs_of
from layoutscope.tables import VolumeLayout
from layoutscope.tables.capture import check_values, field_types, read_capture
from layoutscope.tables.layout import layout_findings
from layoutscope.tables.schema import DATA_REGIONS
from layoutscope.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from layoutscope.errors import LayoutscopeError
    from layoutscope.image import Source
    from layoutscope.options import ReadOptions
    from layoutscope.partition import VolumeCandidate
    from layoutscope.tables import Table
    from layoutscope.tables.frames import WalkCosts


class Opened(Struct, frozen=True):
    """An open image or capture and what was read of it."""

    about: ImageFacts  # the image and what reading it took
    layouts: tuple[VolumeLayout, ...]  # the volumes that were asked for
    findings: tuple[Finding, ...]  # what is wrong outside of them, candidates that could not be read among it
    # the image, or both of a set in the order of their devices, open as long as the context; None of a capture
    images: tuple[Source, ...] | None = None
    # bytes that each volume or container has at most, by where it starts in the image
    spaces: Mapping[int, int] = field(default_factory=dict)
    capture: str = ""  # path of the capture; empty for an image

    def bytes(self) -> tuple[Source, ...]:
        """Return what holds the bytes."""
        if self.images is None:
            raise UsageError(f"{self.capture}: is a capture; this needs the image itself")
        return self.images


def nothing_to_walk(layouts: Sequence[VolumeLayout], name: str = "") -> LayoutscopeError:
    """Explain why no volume can be walked: it is locked, an error was found, or the image has none."""
    locked = make_locked_error(layouts, name)
    if locked is not None:
        return locked
    before = f"{name}: " if name else ""
    errors = [item for found in findings_of(layouts) for item in found if item.level == "error"]
    why = f": {first_cause(errors).message}" if errors else ""
    return UsageError(f"{before}no volume that can be walked{why}")


def walkable(layouts: Sequence[VolumeLayout], name: str = "") -> list[VolumeLayout]:
    """Return the volumes that can be walked, at least one."""
    walked = [layout for layout in layouts if len(layout.columns("entries"))]
    if not walked:
        raise nothing_to_walk(layouts, name)
    return walked


def findings_of(layouts: Sequence[VolumeLayout]) -> list[tuple[Finding, ...]]:
    """Return the findings of each layout with their causes, which may be in the container that a volume is in."""
    found: list[tuple[Finding, ...]] = []
    for _, same in groupby(layouts, lambda layout: (layout.facts.filesystem, layout.facts.image_offset)):
        parts = [(layout, layout_findings(layout)) for layout in same]
        names = [str(layout.facts.volume or "") for layout, own in parts for _ in own]
        every = tuple(item for _, own in parts for item in own)
        if len(every) > 1:  # one alone has no cause, and the rules of a check take time to load
            every = filesystem_of(parts[0][0]).explained(every, names)
        following = iter(every)
        found += [tuple(islice(following, len(own))) for _, own in parts]
    return found


def only_volume(layouts: Sequence[VolumeLayout]) -> VolumeLayout:
    """Return the one volume that can be walked."""
    walked = walkable(layouts)
    if len(walked) > 1:
        raise make_several_volumes_error(walked)
    return walked[0]


class Volumes:
    """The volumes of an image, in order; one of them by its name, or by its number from 1, as ``volume=`` takes them.

    The container itself is not a volume and not among them.
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

    def __init__(self, path: str | os.PathLike[str], request: ReadOptions, opened: Opened) -> None:
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


def charge_walk(layout: VolumeLayout, drive: Any, work: dict[str, Any]) -> WalkCosts:
    """Charge what a walk costs to nodes, files and directories."""
    from layoutscope.api.keywords import profiles_of
    from layoutscope.api.workloads import check_workload, prediction, unknowns_of, walk
    from layoutscope.results.frames import costs_of

    # Typing errors are reported before anything that the volume lacks.
    request = check_workload(work)
    only_volume([layout])
    (profile,) = profiles_of(drive)
    reads = walk(layout, request).reads
    found = prediction(layout, reads, profile, unknowns_of(request, layout))
    return costs_of(layout, reads, found, request["order"])


# Tables do not know walks and drives, which use them. So a layout from a verb learns here how to compute costs.
VolumeLayout.set_cost_function(charge_walk)


IMAGE_ONLY: Final = ("partition", "volume_at", "ddrescue_map")
"""Options that choose among what only an image holds, besides those that single file systems have."""


def load_capture(path: Path, request: ReadOptions) -> Opened:
    """Open a capture."""
    layouts, manifest = read_capture(path)
    # Passwords may be given for many images at once; a capture without locked volumes ignores them.
    own, is_open = own_options(request), not any(map(is_locked, layouts))
    own = [name for name in own if not (is_open and read_options()[name][0].kind == "secret")]
    given: Mapping[str, Any] = request
    asked = [name for name in IMAGE_ONLY if given[name] is not None] + own
    if asked:
        raise UsageError(f"{path}: is a capture; {asked[0].replace('_', '-')} needs the image itself")
    unknown = [layout.facts.filesystem for layout in layouts if layout.facts.filesystem not in filesystem_names()]
    if unknown:
        raise ImageError(f"{path}: is a capture of the file system {unknown[0]!r:.40}, which is not known here")
    try:
        about = _parse_facts(manifest["image"])
        findings = tuple(map(_parse_finding, manifest["findings"]))
        return Opened(replace(about, name=about.name or str(path)), layouts, findings, capture=str(path))
    except ValueError as error:
        raise ImageError(f"{path}: is a damaged capture: {error}") from error


def _parse_facts(saved: dict[str, Any]) -> ImageFacts:
    # Captures of earlier versions have no list of partitions.
    saved = {"partitions": [], **saved}
    check_values("image", saved, field_types(ImageFacts))
    words = {name: tuple(map(str, saved[name])) for name in ("partition_maps", "other_contents")}
    partitions = []
    for partition in saved["partitions"]:
        check_values("partition", partition, field_types(PartitionFacts))
        partitions.append(PartitionFacts(**{**partition, "roles": tuple(map(str, partition["roles"]))}))
    return ImageFacts(**{**saved, **words, "partitions": tuple(partitions)})


def _parse_finding(saved: dict[str, Any]) -> Finding:
    # Causes are found by a check, which a capture is not enough for.
    kinds = {name: kind for name, kind in field_types(Finding).items() if name != "causes"} | {"cause": type(None)}
    check_values("finding", saved, kinds)
    if saved["level"] not in ("info", "warning", "error"):
        raise ValueError("a finding has an unknown level")
    return Finding(**{name: value for name, value in saved.items() if name != "cause"})


def own_options(request: ReadOptions) -> list[str]:
    """Name the options of single file systems that ask for something else than they do by default."""
    given: Mapping[str, Any] = request
    return [name for name, (option, _) in read_options().items() if given.get(name, option.default) != option.default]


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
            # A sweep has a limit of its own, and does not measure how much there is.
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


CHUNK_BYTES: Final = 8 * 1024**2
NO_METADATA: Final = (*DATA_REGIONS, "reserved", "pending-free")
"""Types of regions that hold nothing that a scan reads."""


def metadata_sha256(images: tuple[Source, ...], layouts: Sequence[VolumeLayout]) -> str:
    """Hash the nodes and regions of layouts, each byte once, in address order."""
    digest = hashlib.sha256()
    for device, source in enumerate(images):
        ranges = metadata_ranges(layouts, device, source.size_bytes)
        with phase("hashing the metadata", int((ranges[:, 1] - ranges[:, 0]).sum())) as hashed:
            for start, stop in ranges.tolist():
                digest.update(f"{device}:{start}:{stop}\n".encode())
                for _, data in read_chunks(source, start, stop):
                    digest.update(data)
                hashed.advance(stop - start)
    return digest.hexdigest()


def metadata_ranges(
    layouts: Sequence[VolumeLayout],
    device: int,  # 0, or 1 for the second one of a Fusion set
    size_bytes: int,
) -> NDArray[np.int64]:
    """Where the metadata of layouts is on a device.

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
    return np.concatenate([edges(table.take(table["device"].data == device), length) for table, length in tables])


def edges(table: Table, length: str) -> NDArray[np.int64]:
    """Return start and stop of each row in bytes, shape (n, 2)."""
    start = table["image_offset"].data
    return np.stack([start, start + table[length].data], axis=1).astype(np.int64)


def read_chunks(source: Source, start: int, stop: int) -> Iterator[tuple[int, bytearray]]:
    """Read a range chunk by chunk, each with its place; what cannot be read is zeros."""
    for at in range(start, stop, CHUNK_BYTES):
        data = bytearray(min(CHUNK_BYTES, stop - at))
        try:
            source.read_into(at, memoryview(data))
        except UnreadError:
            data = bytearray(len(data))
        yield at, data

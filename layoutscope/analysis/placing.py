"""Where on an image the blocks of a recorded device are, and which of its reads belong to the walk: found by trial.

A recording names a block of a device in units of that device: 512 bytes on most disks, 4,096 in a container that
volumes share, counted from the start of a partition, a container, or the disk. So every unit and every start of a
volume is tried, and that pair is taken which puts most reads of metadata on nodes; a wrong one puts hardly any there.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec.structs import replace

from layoutscope.access.trace import place_of
from layoutscope.drive.recordings import BELOW, CHUNK, FILE_SYSTEM, Place, Recorded
from layoutscope.filesystems.registry import filesystem_of
from layoutscope.results.recorded import PlacedDevice, Recording, Wanted
from layoutscope.units import format_share

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from layoutscope.tables import VolumeLayout

UNITS: Final = (512, 4096, 2048, 1024)
"""Blocks of disks, the likeliest first."""

USUAL_UNIT: Final = 512

ENOUGH: Final = 0.5
"""Share of a device's reads that lie on nodes, from which the device is taken to be that of the image."""

SURE: Final = 0.95
"""Share of the reads of metadata on nodes below which the unit, the start or the image must be wrong."""


class Spans:
    """What lies where on the images of a volume."""

    def __init__(self, device: NDArray[np.uint8], start: NDArray[np.int64], length_bytes: NDArray[np.int64]) -> None:
        known = (start >= 0) & (length_bytes > 0)
        first = place_of(device[known], start[known])
        order = np.argsort(first, kind="stable")
        self._start = first[order]
        # The end of what reaches furthest so far: a short piece may lie within a long one.
        self._end = np.maximum.accumulate((first + length_bytes[known])[order]) if len(order) else first

    def hold(self, offset: NDArray[np.int64], image: NDArray[np.uint8] | int) -> NDArray[np.bool_]:
        """Mark the places that lie within one."""
        if not len(self._start):
            return np.zeros(len(offset), bool)
        key = place_of(image, offset)
        place = np.searchsorted(self._start, key, side="right") - 1
        inside: NDArray[np.bool_] = (offset >= 0) & (place >= 0) & (key < self._end[np.maximum(place, 0)])
        return inside


def walked_nodes(layout: VolumeLayout) -> Spans:
    """Return where the nodes of the trees are that enumerations read."""
    nodes = layout.columns("nodes")
    codes, trees = nodes["tree"].numbered()
    walked = np.isin(trees, filesystem_of(layout).traits.walked_trees)[codes]
    start, size = nodes["image_offset"].signed(), nodes["size_bytes"].signed()
    pieces = layout.columns("node_fragments")
    return Spans(
        np.concatenate([nodes["device"].filled(0)[walked], pieces["device"].filled(0)]),
        np.concatenate([start[walked], pieces["image_offset"].signed()]),
        np.concatenate([size[walked], pieces["length_bytes"].signed()]),
    )


def anything(layout: VolumeLayout) -> Spans:
    """Return where anything of a volume is: nodes, other metadata, files."""
    tables = [(layout.columns("nodes"), "size_bytes")]
    tables += [(layout.columns(name), "length_bytes") for name in ("node_fragments", "regions", "extents")]
    return Spans(
        np.concatenate([table["device"].filled(0) for table, _ in tables]),
        np.concatenate([table["image_offset"].signed() for table, _ in tables]),
        np.concatenate([table[length].signed() for table, length in tables]),
    )


class _Trial:
    """Tries where the blocks of devices may be."""

    def __init__(self, layout: VolumeLayout, wanted: Wanted, unit_bytes: int | None) -> None:
        facts = layout.facts
        unit = wanted.unit_bytes or unit_bytes
        self._nodes, self._anything = walked_nodes(layout), anything(layout)
        self._units = (unit,) if unit else tuple(dict.fromkeys((*UNITS, facts.block_size_bytes)))
        self._starts = (wanted.at,) if wanted.at is not None else tuple(dict.fromkeys((0, facts.image_offset)))
        self._images = tuple(int(code) for code in np.unique(layout.columns("nodes")["device"].filled(0))) or (0,)

    def best(self, reads: Recorded, device: str) -> PlacedDevice:
        """Place a device by its reads of metadata, or by all where the recording tells none apart."""
        rows = reads.select_devices([device])
        told = rows & reads.is_metadata
        tried = reads.block[told if told.any() else rows]
        found = [
            PlacedDevice(place, int(rows.sum()), len(tried), int(self._nodes.hold(_at(tried, place), image).sum()))
            for image in self._images
            for place in self._places(device, image)
        ]
        # Among equals the first is taken: a disk's blocks are more likely 512 bytes, counted from the image's start.
        return max(found, key=lambda item: item.on_nodes)

    def _places(self, device: str, image: int) -> Iterator[Place]:
        for unit in self._units:
            for start in self._starts:
                yield Place(device, unit, start, image)

    def alike(self, reads: Recorded, device: str, other: PlacedDevice) -> PlacedDevice:
        """Place a device as another one of the same disk: volumes of one container share its blocks."""
        place = replace(other.place, device=device)
        blocks = reads.block[reads.select_devices([device])]
        held = int(self._anything.hold(_at(blocks, place), place.image_device).sum())
        return PlacedDevice(place, len(blocks), len(blocks), held, is_alike=True)


def _at(block: NDArray[np.int64], place: Place) -> NDArray[np.int64]:
    return block * place.unit_bytes + place.image_offset


def disk_of(device: str) -> str:
    """Return the disk that a device of macOS is a part of: ``disk3`` of ``disk3s1s1``."""
    found = re.match(r"disk\d+", device)
    return found[0] if found else device


def place(
    reads: Recorded,
    wanted: Wanted,
    # the volume that was read; without it the device with most reads is taken, and nothing is tried
    layout: VolumeLayout | None = None,
) -> tuple[Recorded, Recording]:
    """Find out where the reads of a recording are, and which of them are held against a prediction."""
    own = reads[reads.select_devices(wanted.devices)] if wanted.devices else reads
    layer = FILE_SYSTEM if (own.layer == FILE_SYSTEM).any() else CHUNK
    told = reads[reads.layer == layer]
    placed = _placed(own[own.layer == layer], wanted, layout)
    known = told.select_devices([item.place.device for item in placed])
    mine, processes = _processes(told[known], wanted, layout, placed)
    used, others = told[known][mine], told[known][~mine]
    recording = Recording(
        form=reads.form,
        lines=reads.lines,
        placed=placed,
        used=len(used),
        foreign=_counts(told[~known].device, told.devices),
        twice=int((reads.layer == (CHUNK if layer == FILE_SYSTEM else FILE_SYSTEM)).sum()),
        background=int((reads.layer == BELOW).sum()),
        others=_counts(others.process, others.processes),
        processes=processes,
        overlapping=int(used.overlaps().sum()),
        is_timed=used.is_timed,
        problem=_problem(told, placed, layout),
        is_tried=layout is not None,
    )
    return used, recording


def _placed(reads: Recorded, wanted: Wanted, layout: VolumeLayout | None) -> tuple[PlacedDevice, ...]:
    """Place the devices of the image."""
    counts = np.bincount(reads.device, minlength=len(reads.devices))
    names = [reads.devices[code] for code in np.argsort(-counts, kind="stable") if counts[code]]
    if not names:
        return ()
    if layout is None:
        there = Place(names[0], wanted.unit_bytes or reads.unit_bytes or USUAL_UNIT, wanted.at or 0)
        chosen = [replace(there, device=name) for name in names] if wanted.devices else [there]
        return tuple(PlacedDevice(each, int(reads.select_devices([each.device]).sum()), 0, 0) for each in chosen)
    trial = _Trial(layout, wanted, reads.unit_bytes)
    tells = reads.is_metadata.any()
    found = [trial.best(reads, name) for name in names if not tells or _has_metadata(reads, name)]
    best = max(found, key=lambda item: item.on_nodes)
    kept = [item for item in found if item is best or wanted.devices or item.share >= ENOUGH]
    rest = [name for name in names if name not in {item.place.device for item in found}]
    alike = [
        trial.alike(reads, name, item) for name in rest for item in kept if disk_of(name) == disk_of(item.place.device)
    ]
    return (*kept, *(item for item in alike if item.share >= ENOUGH))


def _has_metadata(reads: Recorded, device: str) -> bool:
    return bool((reads.is_metadata & reads.select_devices([device])).any())


def _processes(
    reads: Recorded, wanted: Wanted, layout: VolumeLayout | None, placed: Sequence[PlacedDevice]
) -> tuple[NDArray[np.bool_], tuple[str, ...]]:
    """Mark the reads of the program that walks: the one named, else that with most reads of nodes."""
    if wanted.processes:
        return reads.select_processes(wanted.processes), wanted.processes
    if layout is None or len(np.unique(reads.process)) < 2:
        return np.ones(len(reads), bool), tuple(reads.processes[code] for code in np.unique(reads.process))
    offset, image, _ = reads.offsets([item.place for item in placed])
    on_nodes = walked_nodes(layout).hold(offset, image)
    counts = np.bincount(reads.process[on_nodes], minlength=len(reads.processes))
    walker = int(counts.argmax())
    return reads.process == walker, (reads.processes[walker],)


def _counts(codes: NDArray[np.uint32], names: Sequence[str]) -> tuple[tuple[str, int], ...]:
    """Count reads by a name, most first."""
    counts = np.bincount(codes, minlength=len(names))
    return tuple((names[code], int(counts[code])) for code in np.argsort(-counts, kind="stable") if counts[code])


def _problem(reads: Recorded, placed: Sequence[PlacedDevice], layout: VolumeLayout | None) -> str:
    """Say what must be wrong where too few reads of metadata lie on nodes."""
    if layout is None or not placed:
        return ""
    tried, on_nodes = (
        sum(getattr(item, name) for item in placed if not item.is_alike) for name in ("tried", "on_nodes")
    )
    if on_nodes >= SURE * tried:
        return ""
    share = f"only {format_share(on_nodes / tried)} of {tried:,} reads lie on nodes of the walked trees"
    free = _Trial(layout, Wanted(), reads.unit_bytes).best(reads, placed[0].place.device)
    if free.on_nodes > placed[0].on_nodes:
        there = free.place
        return (
            f"{share}: blocks of {there.unit_bytes:,} bytes from byte {there.image_offset:,} of the image put "
            f"{format_share(free.share)} there, so that the unit or the start that was given is wrong"
        )
    return (
        f"{share}, whatever the unit and the start among those tried: the image is of another disk, begins elsewhere "
        "on it (--trace-at), or has changed since"
    )

"""What identifies an image besides the volume's own identifier: a hash of the metadata, wherever a scan finds it."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.arrays.intervals import runs_of
from layoutscope.errors import UnreadError
from layoutscope.progress import phase
from layoutscope.tables.schema import DATA_REGIONS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from layoutscope.image import Source
    from layoutscope.image.opening import ImageSet
    from layoutscope.tables import Table, VolumeLayout

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

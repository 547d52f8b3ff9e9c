"""``extract``: the metadata of an image alone, as another image, which scans the same."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

import numpy as np
from msgspec.structs import astuple

from layoutscope.api.keywords import takes
from layoutscope.api.outputs import check_output, open_output
from layoutscope.api.reading import keep_chosen, make_request, read_images, report_damage, split_request
from layoutscope.errors import UnreadError, UsageError
from layoutscope.image.crypto import UnlockedSource
from layoutscope.image.opening import open_images
from layoutscope.image.source import RecordingSource
from layoutscope.metrics.scatter import split_nodes
from layoutscope.options import ExtractOptions, fill
from layoutscope.progress import phase
from layoutscope.results.inspect import Extract
from layoutscope.structs.arrays import runs_of, subtract, union
from layoutscope.tables.capture import is_capture
from layoutscope.tables.schema import DATA_REGIONS
from layoutscope.units import format_bytes

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Sequence
    from typing import Unpack

    from numpy.typing import NDArray

    from layoutscope.image import Source
    from layoutscope.options import ReadOptions
    from layoutscope.tables import Table, VolumeLayout


ZERO_FRAMES: Final = (1 << 30, 1 << 24, 1 << 20)
"""Sizes of runs of zeros that are compressed once and written as often as they are needed."""

COMPRESSION_LEVEL: Final = 9
SECTOR_BYTES: Final = 512


@takes(ExtractOptions)
def extract(path: str | os.PathLike[str], target: str | os.PathLike[str], **options: Unpack[ExtractOptions]) -> Extract:
    """Write an image with the metadata alone and holes for the rest; it holds the names of files.

    If a volume is chosen (``IMAGE:VOLUME``, ``volume``), the trees of the others are left out.

    Parameters
    ----------
    target : path
        Where to: compressed with zstd if it ends in ``.zst``, otherwise a sparse file.

    Raises
    ------
    UsageError
        If a target exists, or is missing for an image, names are to be left out, or it is a capture.

    Examples
    --------
    >>> import layoutscope
    >>> kept = layoutscope.extract("fixtures/images/hfsplus-scattered.img.zst", "metadata.img.zst")
    >>> kept.metadata_bytes < kept.size_bytes / 20
    True
    """
    path, request = split_request(path, make_request(options, path))
    asked = fill(ExtractOptions, options)
    force, second_target = asked["force"], asked["second_target"]
    goals = [Path(goal) for goal in (target, second_target) if goal is not None]
    _check_request(Path(path), goals, request, force=force)
    with open_images(path, request, keeps_all=True) as images:
        parts = zip(images, find_wanted_ranges(images, request), goals, strict=True)
        written = [_write_extract(source, ranges, goal, force=force) for source, ranges, goal in parts]
        return Extract(*(sum(numbers) for numbers in zip(*map(astuple, written), strict=True)))


def _write_extract(source: Source, ranges: NDArray[np.int64], goal: Path, *, force: bool) -> Extract:
    """Write what an image has in some ranges, and holes for the rest."""
    kept = int((ranges[:, 1] - ranges[:, 0]).sum())
    holds = f"{format_bytes(kept)} of metadata of {format_bytes(source.size_bytes)}"
    with open_output(goal, force=force, holds=holds) as file:
        write = _Compressed(file) if goal.suffix == ".zst" else _Sparse(file)
        with phase(f"writing {goal.name}", kept) as copied:
            for start, stop in ranges.tolist():
                for at, data in read_chunks(source, start, stop):
                    if data.count(0) != len(data):  # zeros read the same from a hole
                        write.data(at, bytes(data))
                copied.advance(stop - start)
            write.end(source.size_bytes)
    written = goal.stat()
    # st_blocks counts 512 bytes each, whatever the blocks of the file system (stat(2)); Windows has none.
    stored = min(written.st_size, getattr(written, "st_blocks", written.st_size) * 512)
    return Extract(source.size_bytes, kept, stored)


def _check_request(path: Path, targets: list[Path], request: ReadOptions, *, force: bool) -> None:
    if is_capture(path):
        raise UsageError(f"{path}: is a capture; this needs the image itself")
    if not request["names"]:
        told = {"scan(names=False), save": "scan --save NAME.lscope --no-names"}
        raise UsageError(
            f"names are part of an extract, since they are metadata. A capture can leave them out: {next(iter(told))}",
            options=told,
        )
    if (request["second"] is not None) != (len(targets) > 1):
        why = "a Fusion set is extracted into two images" if request["second"] is not None else "there is one image"
        options = {"second and second_target": "--second IMAGE and --second-output FILE"}
        raise UsageError(f"{why}: second and second_target belong together", options=options)
    if len(set(targets)) != len(targets):
        raise UsageError(f"{targets[0]}: each image goes into a file of its own")
    for target in targets:
        check_output(target, force=force, reads=(path,) if request["second"] is None else (path, request["second"]))


HEADERS: Final = ("volume-header", "alternate-volume-header", "volume-superblock")
"""Regions without which a volume would not be counted: they stay where another one was chosen."""


def find_wanted_ranges(images: tuple[Source, ...], request: ReadOptions) -> list[NDArray[np.int64]]:
    """Return what a scan reads, and what else the tables call metadata; other programs read that too.

    Start and stop in bytes per image: whole sectors, in address order, without overlap.
    """
    recorders = tuple(map(RecordingSource, images))
    read = read_images(recorders, request)
    found = report_damage(keep_chosen(read, request), request)
    wanted = {layout.facts.volume for layout in found.layouts} | {None}
    kept = [layout for layout in read.layouts if layout.facts.volume in wanted]
    others = []
    for layout in read.layouts:
        if layout.facts.volume not in wanted:
            regions = layout.columns("regions")
            others.append(layout.changed(regions=regions.take(~regions["type"].is_in(HEADERS))))
    # Bytes are kept as they are on the image, also encrypted ones.
    order = [source.around if isinstance(source, UnlockedSource) else source for source in read.bytes()]
    return [_sectors(recorder, order.index(recorder), kept, others) for recorder in recorders]


def _sectors(
    recorder: RecordingSource, device: int, kept: Sequence[VolumeLayout], others: Sequence[VolumeLayout]
) -> NDArray[np.int64]:
    """The sectors of an image to keep: those that were read, and all metadata, except that of other volumes."""
    wanted, other = (_runs(metadata_ranges(layouts, device, recorder.size_bytes)) for layouts in (kept, others))
    # Whatever is in the last blocks of a disk is read, for it may be a trailer or the header of a RAID member.
    contents = []
    for layout in (*kept, *others):
        extents = layout.columns("extents")
        is_listed = np.isin(extents["file_id"].data, layout.columns("entries")["file_id"].data)
        held = extents.take(is_listed & extents["image_offset"].is_known & (extents["device"].data == device))
        contents.append(_runs(edges(held, "length_bytes")))
    runs = union([wanted, subtract(_runs(recorder.recorded()), union([other, *contents]))]) * SECTOR_BYTES
    ends: NDArray[np.int64] = np.stack([runs[:, 0], runs.sum(axis=1)], axis=1)
    return np.minimum(ends, recorder.size_bytes)


def _runs(pieces: NDArray[np.int64]) -> NDArray[np.int64]:
    """Turn starts and stops in bytes into starts and lengths in sectors."""
    first, last = pieces[:, 0] // SECTOR_BYTES, -(-pieces[:, 1] // SECTOR_BYTES)
    return runs_of(first, last - first)


class _Sparse:
    """A raw file with holes."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def data(self, at: int, data: bytes) -> None:
        self._file.seek(at)
        self._file.write(data)

    def end(self, size_bytes: int) -> None:
        self._file.truncate(size_bytes)


class _Compressed:
    """Frames of zstd, one after the other; long runs of zeros are frames of their own."""

    # Contiguous frames are one stream for every reader (RFC 8878, 3.1).

    def __init__(self, file: IO[bytes]) -> None:
        from layoutscope.zstd import zstd

        self._file = file
        self._position = 0
        self._compressor = zstd.ZstdCompressor(level=COMPRESSION_LEVEL)

    def data(self, at: int, data: bytes) -> None:
        self._skip(at)
        self._file.write(self._compressor.compress(data))
        self._position = at + len(data)

    def end(self, size_bytes: int) -> None:
        self._skip(size_bytes)
        self._file.write(self._compressor.flush())

    def _skip(self, at: int) -> None:
        """Write zeros up to an address."""
        left = at - self._position
        if left >= ZERO_FRAMES[-1]:
            self._file.write(self._compressor.flush())
            for size in ZERO_FRAMES:
                for _ in range(left // size):
                    self._file.write(zero_frame(size))
                left %= size
        self._file.write(self._compressor.compress(bytes(left)))
        self._position = at


@cache
def zero_frame(size_bytes: int) -> bytes:
    """Compress zeros to a frame of their own."""
    from layoutscope.zstd import zstd

    compressor = zstd.ZstdCompressor(level=1)
    piece = bytes(ZERO_FRAMES[-1])
    return b"".join(compressor.compress(piece) for _ in range(size_bytes // len(piece))) + compressor.flush()


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
    nodes, regions = layout.columns("nodes"), layout.columns("regions")
    whole, split = split_nodes(layout, nodes.take(~nodes["kind"].equals("free")))
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

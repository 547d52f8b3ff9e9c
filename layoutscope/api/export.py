"""``export`` and ``extract``: what leaves an image: one table of it, or its metadata alone as another image."""

from __future__ import annotations

import os
from dataclasses import astuple, dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from layoutscope.api.documents import Walked, document_form, export_document
from layoutscope.api.identity import metadata_ranges
from layoutscope.api.images import OpenImage
from layoutscope.api.keywords import takes
from layoutscope.api.outputs import check_output, file_form, output
from layoutscope.api.predict import predict
from layoutscope.api.reading import one_volume, opened, read_images, request_of, told, with_chosen
from layoutscope.api.scan import scan
from layoutscope.api.workloads import checked, parted
from layoutscope.arrays.intervals import runs_of, subtract, union
from layoutscope.errors import UnreadError, UsageError, did_you_mean
from layoutscope.image.opening import ImageSet, open_images
from layoutscope.image.source import RecordingSource
from layoutscope.options import ReadOptions, Workload
from layoutscope.progress import phase, reporting
from layoutscope.report.tables import FORMATS, joined_table, write_table
from layoutscope.results.inspect import Extract
from layoutscope.tables import TABLES
from layoutscope.tables.capture import is_capture
from layoutscope.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Unpack

    from numpy.typing import NDArray

    from layoutscope.api.documents import DocumentOptions
    from layoutscope.frames import pl
    from layoutscope.image import Source
    from layoutscope.options import ReadRequest
    from layoutscope.results.predict import PredictResult
    from layoutscope.results.scan import ScanResult
    from layoutscope.tables import VolumeLayout


ALL: Final = "all"
"""In place of a table's name: every one of them, a file each."""

RESULTS: Final = ("metrics", "times", "directories", "reads")
"""Tables of results: of a scan the metrics, of a prediction its times, and what each directory and read takes."""

EXPORTED: Final = (*TABLES, *RESULTS)
"""Every table; the columns of results are those of :data:`layoutscope.tables.frames.FRAMES`."""


@takes(Walked, Workload, ReadOptions)
def export(
    path: str | os.PathLike[str],
    table: str | None,
    target: str | os.PathLike[str] | IO[bytes],
    *,
    file_format: str | None = None,
    force: bool = False,
    **options: Unpack[DocumentOptions],
) -> None:
    """Write a table of all chosen volumes, every table, or a document for another program.

    Parameters
    ----------
    path : path
        The image.
    table : str or None
        One of the names in :data:`EXPORTED`, or ``all`` for a file each, those of walks only where there is something
        to walk; None for a document.
    target : path or binary file
        Where to; of all tables a folder, which is made.
    file_format : str, optional
        Of a table ``csv``, ``parquet`` or ``jsonl``; a document is ``bodyfile``, ``dfxml``, ``speedscope``,
        ``perfetto`` or ``folded`` (:func:`~layoutscope.api.documents.export_document`). As the target ends without it,
        and CSV where that tells nothing.
    force : bool
        Whether existing files are overwritten.
    **options
        Of documents of a walk, what is done: see :class:`~layoutscope.api.documents.Walked` and
        :class:`~layoutscope.options.Workload`; and how the image is read: :class:`~layoutscope.options.ReadOptions`.

    Raises
    ------
    TypeError
        If there is no such keyword.
    UsageError
        If there is no such table or format, the target ends as another format does, or it exists; if what is to be
        done is said beside a table of no walk.
    LayoutscopeError
        If the image cannot be read.

    Examples
    --------
    >>> import layoutscope
    >>> layoutscope.export("fixtures/images/hfsplus-scattered.img.zst", "nodes", "nodes.csv")
    >>> from pathlib import Path
    >>> Path("nodes.csv").read_text()[:22]
    'row,device,volume,tree'
    """
    document = document_form(target, file_format)
    if document is not None:
        if table is not None:
            raise UsageError(f"{document} is a whole document; it is written without a table")
        export_document(path, target, file_format=document, force=force, **options)
        return
    if table is None:
        raise UsageError(f"which table? there are {', '.join(EXPORTED)}, and {ALL}")
    if table not in (ALL, *EXPORTED):
        hint = did_you_mean(table, (ALL, *EXPORTED))
        raise UsageError(f"no table {table!r}{hint}; there are {', '.join(EXPORTED)}, and {ALL}")
    goals = _goals(path, table, target, file_format, force=force)
    drives = options.pop("drives", None)
    work, reading = parted(options, None)
    if table in TABLES and (drives is not None or checked(work) != checked({})):
        raise UsageError(f"the table {table} is of no walk, whatever its order, host or drive; leave these out")
    request = request_of(reading, path)
    with opened(path, request) as image, reporting(request.progress):
        known = _Known(OpenImage(path, request, image), work, drives)
        if table == ALL:
            Path(str(target)).mkdir(exist_ok=True)
        for name, (goal, form) in goals.items():
            if table != ALL or name in TABLES or known.can_be_walked:
                _write_frame(known.frame(name), name, goal, form, force=force)


Goal = tuple["str | os.PathLike[str] | IO[bytes]", str]


def _goals(
    path: str | os.PathLike[str],
    table: str,
    target: str | os.PathLike[str] | IO[bytes],
    file_format: str | None,
    *,
    force: bool,
) -> dict[str, Goal]:
    """Say where each table goes and in which format, and refuse what could not be written there."""
    if table != ALL:
        return {table: (target, file_form(target, file_format, FORMATS, "csv"))}
    if not isinstance(target, str | os.PathLike):
        raise UsageError("all tables are several files: name the folder that they are written to")
    form, folder = file_form("", file_format, FORMATS, "csv"), Path(target)
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder}: is no folder")
    files = {name: folder / f"{name}.{form}" for name in EXPORTED}
    if folder.is_dir():
        for file in files.values():
            check_output(file, force=force, reads=[path])
    return {name: (file, form) for name, file in files.items()}


@dataclass
class _Known:
    """What tables are made of: an image, and results that are worked out when the first table needs them."""

    image: OpenImage
    work: dict[str, Any]
    drives: Any

    @property
    def can_be_walked(self) -> bool:
        return any(len(layout.columns("entries")) for layout in self.image.opened.layouts)

    def frame(self, name: str) -> pl.DataFrame:
        if name in TABLES:
            return joined_table(self.image.opened.layouts, name)
        result = self._scanned if name == "metrics" else self._predicted
        frame: pl.DataFrame = getattr(result, name)
        return frame

    @cached_property
    def _scanned(self) -> ScanResult:
        return scan(self.image, drives=(), host=self.work.get("host", "linux"))

    @cached_property
    def _predicted(self) -> PredictResult:
        return predict(self.image, drives=self.drives, **self.work)


def _write_frame(
    frame: pl.DataFrame, name: str, target: str | os.PathLike[str] | IO[bytes], form: str, *, force: bool
) -> None:
    with phase(f"writing the table {name}"):
        if isinstance(target, str | os.PathLike):
            with output(target, force=force, holds=f"{frame.height:,} rows") as file:
                write_table(frame, file, form)
        else:
            write_table(frame, target, form)


CHUNK_BYTES: Final = 4 * 1024**2
ZERO_FRAMES: Final = (1 << 30, 1 << 24, 1 << 20)
"""Sizes of runs of zeros that are compressed once and written as often as they are needed."""

COMPRESSION_LEVEL: Final = 9
SECTOR_BYTES: Final = 512


@takes(ReadOptions)
def extract(
    path: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    second_target: str | os.PathLike[str] | None = None,
    force: bool = False,
    **options: Unpack[ReadOptions],
) -> Extract:
    """Write an image with the metadata alone and holes for the rest; it holds the names of files.

    Of a volume that is chosen (``IMAGE:VOLUME``, ``volume``) the other ones' trees are left out.

    Parameters
    ----------
    path : path
        The image.
    target : path
        Where to: compressed with zstd if it ends in ``.zst``, otherwise a sparse file.
    second_target : path, optional
        Where the other image of a Fusion set goes.
    force : bool
        Whether an existing file is overwritten.
    **options
        See :class:`~layoutscope.options.ReadOptions`.

    Raises
    ------
    UsageError
        If a target exists, or is missing for an image, names are to be left out, or it is a capture.
    LayoutscopeError
        If the image cannot be read.

    Examples
    --------
    >>> import layoutscope
    >>> kept = layoutscope.extract("fixtures/images/hfsplus-scattered.img.zst", "metadata.img.zst")
    >>> kept.metadata_bytes < kept.size_bytes / 20
    True
    """
    path, request = one_volume(path, request_of(options, path))
    goals = [Path(goal) for goal in (target, second_target) if goal is not None]
    _check_request(Path(path), goals, request, force=force)
    with open_images(path, request) as images:
        parts = zip(images.devices, wanted_ranges(images, request), goals, strict=True)
        written = [_extracted(source, ranges, goal, force=force) for source, ranges, goal in parts]
        return Extract(*(sum(numbers) for numbers in zip(*map(astuple, written), strict=True)))


def _extracted(source: Source, ranges: NDArray[np.int64], goal: Path, *, force: bool) -> Extract:
    """Write what an image has in some ranges, and holes for the rest."""
    kept = int((ranges[:, 1] - ranges[:, 0]).sum())
    with output(goal, force=force, holds=_held(kept, source.size_bytes)) as file:
        write: _Writer = _Compressed(file) if goal.suffix == ".zst" else _Sparse(file)
        with phase(f"writing {goal.name}", kept) as copied:
            for start, stop in ranges.tolist():
                for at, data in _chunks(source, start, stop):
                    write.data(at, data)
                copied.advance(stop - start)
            write.end(source.size_bytes)
    written = goal.stat()
    # st_blocks counts 512 bytes each, whatever the blocks of the file system (stat(2)); Windows has none.
    stored = min(written.st_size, getattr(written, "st_blocks", written.st_size) * 512)
    return Extract(source.size_bytes, kept, stored)


def _held(kept: int, size_bytes: int) -> str:
    return f"{format_bytes(kept)} of metadata of {format_bytes(size_bytes)}"


def _check_request(path: Path, targets: list[Path], request: ReadRequest, *, force: bool) -> None:
    if is_capture(path):
        raise UsageError(f"{path}: is a capture; this needs the image itself")
    if not request.names:
        raise UsageError(
            "names are part of the metadata; a capture can leave them out: scan --save NAME.lscope --no-names"
        )
    if (request.second is not None) != (len(targets) > 1):
        why = "a Fusion set is extracted into two images" if request.second is not None else "there is one image"
        raise UsageError(f"{why}: --second IMAGE and --second-output FILE belong together")
    if len(set(targets)) != len(targets):
        raise UsageError(f"{targets[0]}: each image goes into a file of its own")
    for target in targets:
        check_output(target, force=force, reads=(path,) if request.second is None else (path, request.second))


HEADERS: Final = ("volume-header", "alternate-volume-header", "volume-superblock")
"""Regions without which a volume would not be counted: they stay where another one was chosen."""


def wanted_ranges(images: ImageSet, request: ReadRequest) -> list[NDArray[np.int64]]:
    """Tell what a scan reads, and what else the tables call metadata; other programs read that too.

    Parameters
    ----------
    images : ImageSet
        The image, or both of a set.
    request : ReadRequest
        How they are read; of a volume that is chosen the other ones' trees are left out.

    Returns
    -------
    list of (n, 2) int64 array
        Of each image start and stop in bytes, whole sectors, in address order, without overlap.
    """
    recorders = [RecordingSource(source) for source in images.devices]
    read = read_images(ImageSet(*recorders), request)
    found = told(with_chosen(read, request), request)
    wanted = {layout.facts.volume for layout in found.layouts} | {None}
    kept = [layout for layout in read.layouts if layout.facts.volume in wanted]
    others = [_without_headers(layout) for layout in read.layouts if layout.facts.volume not in wanted]
    return [_sectors(recorder, read.bytes().devices.index(recorder), kept, others) for recorder in recorders]


def _without_headers(layout: VolumeLayout) -> VolumeLayout:
    return layout.changed(regions=layout.regions.filter(~layout.regions["type"].cast(str).is_in(HEADERS)))


def _sectors(
    recorder: RecordingSource, device: int, kept: Sequence[VolumeLayout], others: Sequence[VolumeLayout]
) -> NDArray[np.int64]:
    """Where what is kept of an image lies, in sectors: what was read, and all metadata, but not those of others."""
    wanted, other = (_runs(metadata_ranges(layouts, device, recorder.size_bytes)) for layouts in (kept, others))
    runs = union([wanted, subtract(_runs(recorder.recorded()), other)]) * SECTOR_BYTES
    ends: NDArray[np.int64] = np.stack([runs[:, 0], runs.sum(axis=1)], axis=1)
    return np.minimum(ends, recorder.size_bytes)


def _runs(pieces: NDArray[np.int64]) -> NDArray[np.int64]:
    """Turn starts and stops in bytes into starts and lengths in sectors."""
    first, last = pieces[:, 0] // SECTOR_BYTES, -(-pieces[:, 1] // SECTOR_BYTES)
    return runs_of(first, last - first)


def _chunks(source: Source, start: int, stop: int) -> Iterator[tuple[int, bytes]]:
    for at in range(start, stop, CHUNK_BYTES):
        data = bytearray(min(CHUNK_BYTES, stop - at))
        try:
            source.read_into(at, memoryview(data))
        except UnreadError:
            continue
        # Zeros read the same from a hole.
        if data.count(0) != len(data):
            yield at, bytes(data)


class _Writer(Protocol):
    def data(self, at: int, data: bytes) -> None:
        """Write what stands at an address; addresses ascend."""

    def end(self, size_bytes: int) -> None:
        """Fill up to the end of the image."""


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

    # Frames one behind the other are one stream for every reader (RFC 8878, 3.1).

    def __init__(self, file: IO[bytes]) -> None:
        import zstandard

        self._file = file
        self._position = 0
        self._compressor = zstandard.ZstdCompressor(level=COMPRESSION_LEVEL)
        self._frame = self._compressor.compressobj()

    def data(self, at: int, data: bytes) -> None:
        self._skip(at)
        self._file.write(self._frame.compress(data))
        self._position = at + len(data)

    def end(self, size_bytes: int) -> None:
        self._skip(size_bytes)
        self._file.write(self._frame.flush())

    def _skip(self, at: int) -> None:
        """Write zeros up to an address."""
        left = at - self._position
        if left >= ZERO_FRAMES[-1]:
            self._file.write(self._frame.flush())
            for size in ZERO_FRAMES:
                for _ in range(left // size):
                    self._file.write(zero_frame(size))
                left %= size
            self._frame = self._compressor.compressobj()
        self._file.write(self._frame.compress(bytes(left)))
        self._position = at


@cache
def zero_frame(size_bytes: int) -> bytes:
    """Compress zeros to a frame of their own."""
    import zstandard

    stream = zstandard.ZstdCompressor(level=1).compressobj()
    piece = bytes(ZERO_FRAMES[-1])
    return b"".join(stream.compress(piece) for _ in range(size_bytes // len(piece))) + stream.flush()

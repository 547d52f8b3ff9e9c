"""Decompressing an image into a sparse file, temporary or kept in a cache.

Zero blocks become holes, so that an image of a large and mostly empty disk takes little space. What a small file can
grow to is bounded: by the space on the disk, by a largest size, and by refusing what starts with nothing but zeros.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from layoutscope import ownfiles
from layoutscope.errors import ImageError, OutputError
from layoutscope.image import cache
from layoutscope.image.cache import disk_bytes
from layoutscope.image.compressed import CHUNK_BYTES, SourceReader, in_blocks
from layoutscope.image.raw import RawFile
from layoutscope.progress import phase
from layoutscope.units import format_bytes

if TYPE_CHECKING:
    from typing import BinaryIO

    from layoutscope.image.compressed import Compression
    from layoutscope.image.source import Source

RESERVE_BYTES: Final = 256 * 1024**2
"""Space on the disk that is left alone."""

MAX_LEADING_ZEROS_BYTES: Final = 1024**3
"""Every disk that is in use has something in its first GiB."""

MAX_IMAGE_BYTES: Final = 32 * 1024**4
"""Larger images should be decompressed by hand: whoever does so means it."""

_CHECK_EVERY_BYTES: Final = 64 * 1024**2


@dataclass(slots=True)
class _Written:
    """How far the decompressed image goes, how much of it is stored, and the digest of that."""

    size_bytes: int = 0
    stored_bytes: int = 0
    checked_bytes: int = 0
    digest: cache.Digest = field(default_factory=cache.Digest)


def unpack(
    source: Source,
    way: Compression,
    *,
    # folder where the result is kept, see `cache`; None for a temporary file that goes when it is closed. What is no
    # file by itself, such as an image in an image, is not kept.
    cache_dir: Path | None,
) -> RawFile:
    """Decompress an image."""
    if cache_dir is None or not isinstance(source, RawFile):
        return _to_temporary(source, way)
    cache.is_cache(cache_dir)
    kept = cache_dir / cache.kept_name(Path(source.name).name, source.status())
    with contextlib.suppress(ImageError):
        image = cache.open_kept(kept)
        digest, is_untouched = cache.sealed_digest(kept)
        if is_untouched or (digest and cache.digest_of(image) == digest):
            cache.touch(kept, digest)
            return _named(image, source)
        image.close()
    return _named(_to_cache(source, way, kept), source)


def _named(image: RawFile, source: Source) -> RawFile:
    image.name = source.name
    return image


def _to_temporary(source: Source, way: Compression) -> RawFile:
    try:
        folder = Path(tempfile.gettempdir())
    except FileNotFoundError as error:
        raise ImageError(
            "is compressed, and no folder to decompress it into may be written to; name one with cache_dir or TMPDIR",
            options=cache.CACHE_DIR,
        ) from error
    # The name is gone at once: whatever ends this process, nothing is left behind.
    with tempfile.TemporaryFile(dir=folder, prefix="layoutscope-") as target:
        _decompress(source, way, cast("BinaryIO", target), folder)
        return _named(RawFile(Path(source.name), os.dup(target.fileno())), source)


def _to_cache(source: RawFile, way: Compression, kept: Path) -> RawFile:
    """Decompress into the cache; what does not belong there is served all the same, and has no name any more."""
    with contextlib.ExitStack() as stack:
        try:
            cache.claim(kept.parent)
            target, partial = stack.enter_context(ownfiles.part_file(kept.parent, cache.PARTIAL))
        except (OSError, OutputError) as error:
            cause = error.__cause__ if isinstance(error, OutputError) else error
            reason = getattr(cause, "strerror", None) or str(error)
            raise ImageError(f"{kept.parent}: cannot be used as a cache: {reason.lower()}") from error
        digest = _decompress(source, way, cast("BinaryIO", target), kept.parent)
        # A name that a crash leaves must not lead to a file that it has emptied.
        os.fsync(target.fileno())
        target.close()
        image = RawFile(partial)
        is_same = kept.name == cache.kept_name(Path(source.name).name, source.status())
        # What has the name by now, and is not as it was sealed, is not replaced.
        is_kept = is_same and not os.path.lexists(kept) and cache.make_room(kept.parent, disk_bytes(image.status()))
        # Only a whole image that is sealed gets the name by which the next run finds it.
        return _moved(image, partial, kept, digest) if is_kept and cache.seal(kept, digest, partial) else image


def _moved(image: RawFile, partial: Path, kept: Path, digest: str) -> RawFile:
    """Give an image its name, unless another process was first."""
    with contextlib.suppress(FileExistsError):
        try:
            ownfiles.place_new(partial, kept)
        except PermissionError:
            image.close()  # Windows gives no other name to what is open
            ownfiles.place_new(partial, kept)
            image = RawFile(kept)
        cache.touch(kept, digest)
    return image


def _decompress(source: Source, way: Compression, target: BinaryIO, folder: Path) -> str:
    """Write what comes to a sparse file; the digest of its contents."""
    packed = SourceReader(source)
    written = _Written()
    try:
        with phase("decompressing", source.size_bytes) as unpacked:
            for chunk in in_blocks(way.chunks(cast("BinaryIO", packed)), CHUNK_BYTES):
                _write_sparse(target, chunk, written)
                _check_bounds(source, written, folder)
                unpacked.at(packed.tell())
        # Zeros at the end were not written, so the file is shorter than the image until now.
        target.truncate(written.size_bytes)
        target.flush()
    except ImageError as error:
        raise ImageError(
            f"{source.name}: {error}".replace(f"{source.name}: {source.name}: ", f"{source.name}: "),
            options=cache.CACHE_DIR if error.typed != str(error) else None,
        ) from error
    except OSError as error:
        raise ImageError(
            f"{folder}: cannot hold the decompressed image: {(error.strerror or str(error)).lower()}"
        ) from error
    return written.digest.of(written.size_bytes)


def _write_sparse(target: BinaryIO, chunk: bytes, written: _Written) -> None:
    """Write what is not zero, at its place."""
    for start, stop in cache.data_runs(chunk):
        target.seek(written.size_bytes + start)
        target.write(memoryview(chunk)[start:stop])
        written.digest.add(written.size_bytes + start, memoryview(chunk)[start:stop])
        written.stored_bytes += stop - start
    written.size_bytes += len(chunk)


def _check_bounds(source: Source, written: _Written, folder: Path) -> None:
    if written.size_bytes > MAX_IMAGE_BYTES:
        raise ImageError(
            f"decompresses to more than {format_bytes(MAX_IMAGE_BYTES)}; decompress it by hand if that is right"
        )
    if not written.stored_bytes and written.size_bytes >= MAX_LEADING_ZEROS_BYTES:
        raise ImageError(f"decompresses to nothing but zeros for {format_bytes(written.size_bytes)}: no disk image")
    if written.stored_bytes - written.checked_bytes >= _CHECK_EVERY_BYTES:
        written.checked_bytes = written.stored_bytes
        _check_space(folder, source)


def _check_space(folder: Path, source: Source) -> None:
    free = shutil.disk_usage(folder).free
    if free < RESERVE_BYTES:
        raise ImageError(
            f"does not fit decompressed into {folder} ({format_bytes(free)} left); "
            f"choose another disk with cache_dir or TMPDIR, {format_bytes(source.size_bytes)} were compressed",
            options=cache.CACHE_DIR,
        )

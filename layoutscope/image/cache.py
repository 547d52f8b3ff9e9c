"""The cache of decompressed images, and its size limit.

An image is identified by attributes that no other file shares: device, inode, size, and both times; the later one (of
the inode) cannot be set back. So another image of the same name, or a rewritten file, is never mistaken for it. An
image gets its name only when all of it is on the disk. Next to it is a seal: the state of the file at that time. An
image that was touched since is made again. If space runs short, the cache deletes the least recently used images, by
the times of their seals.

Only a file that matches its seal is an image of the cache, whatever its name: evidence is often named by its MD5, too.
A folder is a cache only if the cache itself wrote a tag into it when the folder was empty.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import re
import shutil
import stat
import tempfile
import time
import zlib
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, cast

import numpy as np

from layoutscope import inputs, ownfiles
from layoutscope.errors import ImageError, OutputError, UsageError, reason_of
from layoutscope.image.raw import RawFile, disk_bytes
from layoutscope.image.split import refuse_part
from layoutscope.progress import phase
from layoutscope.units import format_bytes, parse_size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import BinaryIO

    from layoutscope.image.source import Source
    from layoutscope.zstd import zstd

    _Decoder = lzma.LZMADecompressor | bz2.BZ2Decompressor | zstd.ZstdDecompressor

CHUNK_BYTES: Final = 1024**2
"""Amount of decompressed data that is handled at once."""

MAX_WINDOW_BYTES: Final = 1 << 31
"""The longest match distance that ``zstd --long=31`` uses."""

# A header can ask for a dictionary of up to 4 GiB before any data arrives; xz -9 uses one of 64 MiB.
_MAX_XZ_MEMORY_BYTES: Final = 1 << 30
_INPUT_BYTES: Final = 1 << 18


class SourceReader(io.RawIOBase):
    """A source as a readable file with a position."""

    def __init__(self, source: Source) -> None:
        super().__init__()
        self._source = source
        self._position = 0

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Fill a buffer; return the number of bytes read."""
        target = memoryview(buffer).cast("B")
        length = min(len(target), self._source.size_bytes - self._position)
        self._source.read_into(self._position, target[:length])
        self._position += length
        return length

    def tell(self) -> int:
        """Return the position in bytes."""
        return self._position


def _unpack_chunks(packed: BinaryIO, way: str) -> Iterator[bytes]:
    """Decompress a file in chunks."""
    from layoutscope.zstd import zstd

    window: dict[int, int] = {zstd.DecompressionParameter.window_log_max: MAX_WINDOW_BYTES.bit_length() - 1}
    decoders: dict[str, Callable[[], _Decoder]] = {
        "zstd": lambda: zstd.ZstdDecompressor(options=window),
        "xz": lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, _MAX_XZ_MEMORY_BYTES),
        "bzip2": bz2.BZ2Decompressor,
    }
    # Streams of xz are padded to multiples of four bytes, and files copied in whole blocks end in zeros.
    padding = b"" if way == "zstd" else b"\0"
    try:
        if way == "gzip":
            with gzip.GzipFile(fileobj=packed) as reader:
                while chunk := reader.read(CHUNK_BYTES):
                    yield chunk
        else:
            yield from _decode_streams(packed, decoders[way], padding)
    except EOFError as error:
        raise ImageError(f"damaged {way} data: the file ends early, at byte {packed.tell():,}") from error
    except (OSError, ValueError, lzma.LZMAError, zlib.error, zstd.ZstdError) as error:
        # The library's own message is not useful.
        reason = "they ask for too much memory" if "memory" in str(error).lower() else "they do not decompress"
        raise ImageError(f"damaged {way} data: {reason}; byte {packed.tell():,} of the file was reached") from error


def _decode_streams(packed: BinaryIO, new_decoder: Callable[[], _Decoder], padding: bytes) -> Iterator[bytes]:
    """Decompress stream after stream, skipping the padding between them and after the last."""
    data = packed.read(_INPUT_BYTES)
    while data:
        decoder = new_decoder()
        while not decoder.eof:
            if decoder.needs_input and not data and not (data := packed.read(_INPUT_BYTES)):
                raise EOFError  # as gzip does
            yield decoder.decompress(data, CHUNK_BYTES)
            data = b""
        data = decoder.unused_data.lstrip(padding)
        while not data and (more := packed.read(_INPUT_BYTES)):
            data = more.lstrip(padding)


COMPRESSIONS: Final = {
    # Skippable frames may precede zstd frames, as pzstd writes them.
    "zstd": (b"\x28\xb5\x2f\xfd", *(bytes([0x50 + n]) + b"\x2a\x4d\x18" for n in range(16))),
    "gzip": (b"\x1f\x8b\x08",),
    "xz": (b"\xfd7zXZ\x00",),
    "bzip2": tuple(b"BZh%d" % level for level in range(1, 10)),
}
"""Compressions, and the bytes that identify them."""


def compression_of(head: bytes) -> str | None:
    """Identify the compression of a file by its first bytes; None if it is not compressed."""
    return next((way for way, magics in COMPRESSIONS.items() if head.startswith(magics)), None)


def cut_into_blocks(chunks: Iterator[bytes], block_bytes: int) -> Iterator[bytes]:
    """Cut chunks of any length into blocks of equal length; the last block may be shorter."""
    waiting = bytearray()
    for chunk in chunks:
        if not waiting and len(chunk) == block_bytes:
            yield chunk
            continue
        waiting += chunk
        while len(waiting) >= block_bytes:
            yield bytes(waiting[:block_bytes])
            del waiting[:block_bytes]
    if waiting:
        yield bytes(waiting)


FOLDER_VARIABLE: Final = "LAYOUTSCOPE_CACHE"
LIMIT_VARIABLE: Final = "LAYOUTSCOPE_CACHE_LIMIT"
LIMIT_BYTES: Final = 10 * 1024**3
"""Size limit of the cache unless the environment sets another."""

PARTIAL: Final = ".partial-"
ABANDONED_AFTER_S: Final = 24 * 3600
"""Age at which the partial files of an interrupted command are removed: no decompression takes that long."""

TAG: Final = "CACHEDIR.TAG"
TAG_TEXT: Final = (
    "Signature: 8a477f597d28d172789f06886806bc55\n"
    "# This folder is a cache of layoutscope: images that it decompressed, and may remove at any time.\n"
    "# Backups leave such folders out: https://bford.info/cachedir/\n"
)
"""The text that marks a folder as a cache, also for other programs."""

HOLE_UNIT_BYTES: Final = 4096
"""Zero runs of this size and alignment become holes; the block size of the usual file systems."""

SEAL: Final = ".seal"
BROWSED: Final = frozenset({".DS_Store", "desktop.ini", "Thumbs.db", ".directory"})
"""Files that file managers leave in each folder that is viewed."""

_OWN: Final = re.compile(r"(?P<name>.*)-[0-9a-f]{32}\.raw", re.DOTALL)
_NAMES: Final = re.compile(rf".*-[0-9a-f]{{32}}(\.raw|{re.escape(SEAL)})|{re.escape(PARTIAL)}.*", re.DOTALL)
_MAX_SEAL_BYTES: Final = 512

CACHE_DIR: Final = {"cache_dir": "--cache-dir"}
NO_CACHE: Final = "Nothing is kept or removed there. Name an empty or new folder with cache_dir or LAYOUTSCOPE_CACHE."

_served: Final[set[str]] = set()
"""Images that this process opened from a cache and that no user named: these inputs may be removed."""


class KeptImage(NamedTuple):
    """An image in the cache."""

    name: str  # of the compressed file
    path: Path  # of the decompressed image
    # size_bytes, stored_bytes: its length, and its size on the disk: holes take nothing
    size_bytes: int
    stored_bytes: int
    used: float  # time of the last use, in seconds since 1970


def default_folder() -> Path | None:
    """Return the default cache folder: in the user's folder of caches, or as the environment specifies.

    None if the environment disables the cache with an empty name, or the user has no home.
    """
    told = os.environ.get(FOLDER_VARIABLE)
    if told is not None:
        return Path(told) if told else None
    from platformdirs import user_cache_path

    try:
        return user_cache_path("layoutscope", appauthor=False) / "images"
    except RuntimeError:
        return None


def limit_bytes() -> int:
    """Return the size limit of the cache in bytes."""
    told = os.environ.get(LIMIT_VARIABLE)
    try:
        limit = LIMIT_BYTES if not told else parse_size(told)
    except (ValueError, OverflowError) as error:
        raise UsageError(f"{LIMIT_VARIABLE}={told!r} is not a size. Write 4GiB.") from error
    if limit < 0:
        raise UsageError(f"{LIMIT_VARIABLE}={told!r} is negative. Write 4GiB, or 0 to keep nothing.")
    return limit


def make_cached_name(name: str, status: os.stat_result) -> str:
    """Name an image after its file and the file's identity."""
    import hashlib

    facts = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    digest = hashlib.blake2b(repr(facts).encode(), digest_size=16).hexdigest()
    return f"{ownfiles.truncate_name(name, 100)}-{digest}.raw"


def claim(folder: Path) -> None:
    """Mark a folder as a cache before anything is written to it."""
    refuse_part(folder / TAG)
    ownfiles.refuse_special(folder / TAG)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if is_cache(folder):
        return
    try:
        with ownfiles.new_file(folder / TAG, {}, prefix=PARTIAL) as file:
            file.write(TAG_TEXT.encode())
    except OutputError:
        # Another process may have been first.
        if not is_cache(folder):
            raise


def is_cache(folder: Path) -> bool:
    """Whether a folder is a cache; False if it does not exist or is empty, so that it may become one.

    A folder without a tag in which each image matches its seal is a cache of an earlier version.
    """
    if not folder.is_dir():
        if folder.exists() or folder.is_symlink():
            raise UsageError(f"{folder}: is not a folder. {NO_CACHE}", options=CACHE_DIR)
        return False
    names = sorted(set(os.listdir(folder)) - BROWSED)  # noqa: PTH208  (names may be no UTF-8)
    strangers = [name for name in names if name != TAG and not _NAMES.fullmatch(name)]
    is_tagged = False
    with suppress(OSError, ValueError):
        is_tagged = stat.S_ISREG(os.lstat(folder / TAG).st_mode) and (folder / TAG).read_text("utf-8") == TAG_TEXT
    if not is_tagged:
        strangers += [TAG] if TAG in names else []
        images = [name for name in names if _OWN.fullmatch(name)]
        strangers += [name for name in images if not strangers and not is_sealed(folder / name)]
    if strangers:
        why = f"{folder}: holds {strangers[0]}, which is not of a cache"
        raise UsageError(f"{why}. {NO_CACHE}", options=CACHE_DIR)
    return is_tagged


def list_cached_images(folder: Path) -> list[KeptImage]:
    """List the images in a cache folder, most recently used first; other files are ignored."""
    is_cache(folder)
    found = []
    for path in folder.iterdir() if folder.is_dir() else ():
        match = _OWN.fullmatch(path.name)
        with suppress(OSError):
            if match is not None and is_sealed(path):
                status, used = path.stat(), _seal_of(path).stat().st_mtime
                found.append(KeptImage(match["name"], path, status.st_size, disk_bytes(status), used))
    return sorted(found, key=lambda item: item.used, reverse=True)


def seal(path: Path, image: Path | None = None) -> bool:
    """Record the state of an image's file next to it; return whether that succeeded."""
    place = _seal_of(path)
    seen = ownfiles.take_snapshot(place)
    # A file with other contents is not a seal, and is left unchanged.
    if seen and not ownfiles.is_own(place) and not _read_seal(path):
        return False
    try:
        with ownfiles.new_file(place, seen, prefix=PARTIAL) as file:
            file.write(os.fsencode(f"{_state_of(image or path)}\n{path.name}\n"))
    except (OSError, OutputError):
        return False
    return True


def is_sealed(path: Path) -> bool:
    """Whether an image is in the state that its seal records."""
    with suppress(OSError):
        return _read_seal(path) == _state_of(path)
    return False


def _read_seal(path: Path) -> str:
    """Return the state in which an image was sealed; empty without a seal."""
    try:
        # The target of a link is not part of the cache.
        if not all(stat.S_ISREG(os.lstat(each).st_mode) for each in (path, _seal_of(path))):
            return ""
        with _seal_of(path).open("rb") as file:
            facts, _, name = os.fsdecode(file.read(_MAX_SEAL_BYTES)).partition("\n")
    except OSError:
        return ""
    match = _SEALED.fullmatch(facts)
    # Earlier versions wrote a digest first, and the earliest ones no name.
    return match["state"] if match and name.removesuffix("\n") in ("", path.name) else ""


_SEALED: Final = re.compile(r"([0-9a-f]{32} )?(?P<state>\d+ \d+ \d+ \d+)")


def _seal_of(path: Path) -> Path:
    return path.with_suffix(SEAL)


def _state_of(path: Path) -> str:
    """Return the identity of a file's state: each write changes the time of its inode."""
    status = path.stat()
    return f"{status.st_ino} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"


def make_room(folder: Path, new_bytes: int) -> bool:
    """Remove abandoned files and the least recently used images until something new fits; return whether it does."""
    limit = limit_bytes()
    for path in folder.glob(f"{PARTIAL}*"):
        seen = ownfiles.take_snapshot(path)
        if seen and ownfiles.is_unfinished(path) and time.time_ns() - seen[""].mtime_ns > ABANDONED_AFTER_S * 10**9:
            with suppress(OSError, OutputError):
                ownfiles.remove(path, seen)
    if new_bytes > limit:
        return False
    rest = list_cached_images(folder)
    while rest and sum(item.stored_bytes for item in rest) + new_bytes > limit:
        # A process that has it open can continue to read it: only a name is removed, not the file.
        remove([rest.pop()])
    return True


def remove(images: Iterable[KeptImage]) -> int:
    """Remove cached images except those that the user named as inputs; return the bytes freed."""
    freed = 0
    for item in images:
        is_named = inputs.is_input(item.path) and os.path.realpath(item.path) not in _served
        if is_named or not is_sealed(item.path):
            continue
        seen = {path: ownfiles.take_snapshot(path) for path in (item.path, _seal_of(item.path))}
        with suppress(OSError, OutputError):
            # Check the seal again, now that the file's state has been recorded.
            if is_sealed(item.path):
                ownfiles.remove(item.path, seen[item.path])
                freed += item.stored_bytes
                ownfiles.remove(_seal_of(item.path), seen[_seal_of(item.path)])
    return freed


def data_runs(chunk: bytes) -> Iterator[tuple[int, int]]:
    """Yield the runs of blocks that are not all zeros, as pairs of start and stop in bytes."""
    if chunk == bytes(len(chunk)):
        return
    whole = len(chunk) - len(chunk) % HOLE_UNIT_BYTES
    blocks = np.frombuffer(chunk, np.uint64, whole // 8).reshape(-1, HOLE_UNIT_BYTES // 8)
    is_data = np.concatenate([[False], blocks.any(axis=1), [whole < len(chunk)], [False]])
    edges = np.flatnonzero(np.diff(is_data)) * HOLE_UNIT_BYTES
    for start, stop in edges.reshape(-1, 2).tolist():
        yield start, min(stop, len(chunk))


RESERVE_BYTES: Final = 256 * 1024**2
"""Space on the disk that must remain free."""

MAX_LEADING_ZEROS_BYTES: Final = 1024**3
"""Every disk in use has data in its first GiB."""

MAX_IMAGE_BYTES: Final = 32 * 1024**4
"""Larger images must be decompressed by hand, which nobody does by mistake."""

_CHECK_EVERY_BYTES: Final = 64 * 1024**2


def unpack(
    source: Source,
    way: str,
    *,
    # folder that keeps the result, see `cache`; None for a temporary file that is deleted when it is closed. Only files
    # are kept, not for example an image in an image.
    cache_dir: Path | None,
) -> RawFile:
    """Decompress an image."""
    if cache_dir is not None and isinstance(source, RawFile):
        is_cache(cache_dir)
        kept = cache_dir / make_cached_name(Path(source.name).name, source.status())
        image = _open_from_cache(kept) or _decompress_to_cache(source, way, kept)
    else:
        try:
            folder = Path(tempfile.gettempdir())
        except FileNotFoundError as error:
            raise ImageError(
                "is compressed, and no folder to decompress it into may be written to. Name one with cache_dir or "
                "TMPDIR.",
                options=CACHE_DIR,
            ) from error
        # The name is removed at once, so the file goes away however this process ends.
        with tempfile.TemporaryFile(dir=folder, prefix="layoutscope-") as target:
            _decompress(source, way, cast("BinaryIO", target), folder)
            image = RawFile(Path(source.name), os.dup(target.fileno()))
    image.name = source.name
    return image


def _open_from_cache(kept: Path) -> RawFile | None:
    """Open a decompressed image in the cache; None if it is missing or was touched since."""
    with suppress(ImageError):
        if not inputs.is_input(kept):  # that it is opened does not make it an input that the user named
            _served.add(os.path.realpath(kept))
        image = RawFile(kept)
        if is_sealed(kept):
            with suppress(OSError):
                os.utime(_seal_of(kept))
            return image
        image.close()
        # An image that was touched since is removed if it is the same file and has no other name.
        with suppress(OSError, OutputError):
            seen, status = ownfiles.take_snapshot(kept), kept.stat()
            if _read_seal(kept).split(" ")[0] == str(status.st_ino) and status.st_nlink == 1:
                ownfiles.remove(kept, seen)
    return None


def _decompress_to_cache(source: RawFile, way: str, kept: Path) -> RawFile:
    """Decompress into the cache; an image that cannot be kept is still returned, without a name."""
    with ExitStack() as stack:
        try:
            claim(kept.parent)
            target, partial = stack.enter_context(ownfiles.part_file(kept.parent, PARTIAL))
        except (OSError, OutputError) as error:
            cause = error.__cause__ if isinstance(error, OutputError) else error
            reason = getattr(cause, "strerror", None) or str(error)
            raise ImageError(f"{kept.parent}: cannot be used as a cache: {reason.lower()}") from error
        _decompress(source, way, cast("BinaryIO", target), kept.parent)
        # A name that survives a crash must not belong to a file that the crash emptied.
        os.fsync(target.fileno())
        target.close()
        image = RawFile(partial)
        is_same = kept.name == make_cached_name(Path(source.name).name, source.status())
        # A file that has the name by now and does not match its seal is not replaced.
        is_kept = is_same and not os.path.lexists(kept) and make_room(kept.parent, disk_bytes(image.status()))
        # Only a complete, sealed image gets the name by which the next run finds it.
        return _move_into_cache(image, partial, kept) if is_kept and seal(kept, partial) else image


def _move_into_cache(image: RawFile, partial: Path, kept: Path) -> RawFile:
    """Give an image its name unless another process was faster."""
    with suppress(FileExistsError):
        try:
            ownfiles.rename_new(partial, kept)
        except PermissionError:
            image.close()  # Windows gives no other name to what is open
            ownfiles.rename_new(partial, kept)
            image = RawFile(kept)
        seal(kept)  # its name changed the state of the file
    return image


def _decompress(source: Source, way: str, target: BinaryIO, folder: Path) -> None:
    """Write the decompressed data to a sparse file."""
    try:
        _write_sparse(source, way, target, folder)
        target.flush()
    except ImageError as error:
        raise ImageError(
            f"{source.name}: {error}".replace(f"{source.name}: {source.name}: ", f"{source.name}: "),
            options=CACHE_DIR if error.typed != str(error) else None,
        ) from error
    except OSError as error:
        raise ImageError(f"{folder}: cannot hold the decompressed image: {reason_of(error)}") from error


def _write_sparse(source: Source, way: str, target: BinaryIO, folder: Path) -> None:
    """Write what is not zero; refuse data that cannot be an image or does not fit on the disk."""
    packed = cast("BinaryIO", SourceReader(source))
    size_bytes = stored_bytes = checked_bytes = 0
    with phase("decompressing", source.size_bytes) as unpacked:
        for chunk in cut_into_blocks(_unpack_chunks(packed, way), CHUNK_BYTES):
            for start, stop in data_runs(chunk):
                target.seek(size_bytes + start)
                target.write(memoryview(chunk)[start:stop])
                stored_bytes += stop - start
            size_bytes += len(chunk)
            if size_bytes > MAX_IMAGE_BYTES:
                limit = format_bytes(MAX_IMAGE_BYTES)
                raise ImageError(f"decompresses to more than {limit}. Decompress it by hand if that is right.")
            if not stored_bytes and size_bytes >= MAX_LEADING_ZEROS_BYTES:
                raise ImageError(f"decompresses to nothing but zeros for {format_bytes(size_bytes)}: no disk image")
            if stored_bytes - checked_bytes >= _CHECK_EVERY_BYTES:
                checked_bytes = stored_bytes
                free = shutil.disk_usage(folder).free
                if free < RESERVE_BYTES:
                    raise ImageError(
                        f"does not fit decompressed into {folder}: {format_bytes(free)} are left, and "
                        f"{format_bytes(source.size_bytes)} were compressed. Choose another disk with cache_dir or "
                        "TMPDIR.",
                        options=CACHE_DIR,
                    )
            unpacked.at(packed.tell())
    # Zeros at the end were not written, so the file is still shorter than the image.
    target.truncate(size_bytes)

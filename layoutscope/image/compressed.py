"""Streams of compressed raw images: zstd, gzip, xz and bzip2, told by content.

All of them may consist of several frames, members or streams, one after the other, as parallel compressors write them.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zlib
from typing import TYPE_CHECKING, Final, cast

from layoutscope.errors import ImageError
from layoutscope.frozen import frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import BinaryIO

    from layoutscope.image.source import Source

CHUNK_BYTES: Final = 1024**2
"""How much decompressed data is handled at once."""

MAX_WINDOW_BYTES: Final = 1 << 31
"""The longest match distance that ``zstd --long=31`` uses."""

# A header can ask for a dictionary of up to 4 GiB before any data came; xz -9 makes one of 64 MiB.
_MAX_XZ_MEMORY_BYTES: Final = 1 << 30
_INPUT_BYTES: Final = 1 << 18
_END_MARK: Final = b"layoutscope: end of the image; " * 8
"""Repeated, so that its compressed form does not contain it: a broken frame may swallow that form as plain bytes."""


@frozen
class Compression:
    """A way of compressing files: its name, the bytes that tell it, and how it is undone in chunks."""

    name: str
    magics: tuple[bytes, ...]
    chunks: Callable[[BinaryIO], Iterator[bytes]]


class SourceReader(io.RawIOBase):
    """A source as a readable file that knows how far it was read."""

    def __init__(self, source: Source) -> None:
        super().__init__()
        self._source = source
        self._position = 0

    def readable(self) -> bool:
        """Tell that it can be read."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Fill a buffer; how many bytes came."""
        target = memoryview(buffer).cast("B")
        length = min(len(target), self._source.size_bytes - self._position)
        self._source.read_into(self._position, target[:length])
        self._position += length
        return length

    def tell(self) -> int:
        """Return how far it was read, in bytes."""
        return self._position


class _Followed(io.RawIOBase):
    """A file with some bytes after its end."""

    def __init__(self, file: BinaryIO, last: bytes) -> None:
        super().__init__()
        self._file = file
        self._last = last

    def readable(self) -> bool:
        """Tell that it can be read."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Read the file, then what follows."""
        data = self._file.read(size)
        if not data:
            data, self._last = self._last, b""
        return data


def _damaged(name: str, packed: BinaryIO, error: Exception) -> ImageError:
    """Say why data do not decompress, and how far they were read; the words of a library would say nothing."""
    if isinstance(error, EOFError):
        return ImageError(f"damaged {name} data: the file ends early, at byte {packed.tell():,}")
    reason = "they ask for too much memory" if "memory" in str(error).lower() else "they do not decompress"
    return ImageError(f"damaged {name} data: {reason}; byte {packed.tell():,} of the file was reached")


def _zstd_chunks(packed: BinaryIO) -> Iterator[bytes]:
    import zstandard

    # The reader does not tell a frame that breaks off from the end, but then a frame of our own cannot follow.
    followed = cast("BinaryIO", _Followed(packed, zstandard.ZstdCompressor().compress(_END_MARK)))
    decompressor = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW_BYTES)
    held = b""
    try:
        with decompressor.stream_reader(followed, _INPUT_BYTES, read_across_frames=True, closefd=False) as reader:
            while chunk := reader.read(CHUNK_BYTES):
                if len(chunk) < len(_END_MARK):
                    held += chunk
                    continue
                yield held
                held = chunk
    except zstandard.ZstdError as error:
        raise _damaged("zstd", packed, error) from error
    if not held.endswith(_END_MARK):
        raise _damaged("zstd", packed, EOFError())
    yield held.removesuffix(_END_MARK)


def _gzip_chunks(packed: BinaryIO) -> Iterator[bytes]:
    try:
        with gzip.GzipFile(fileobj=packed) as reader:
            while chunk := reader.read(CHUNK_BYTES):
                yield chunk
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise _damaged("gzip", packed, error) from error


def _xz_chunks(packed: BinaryIO) -> Iterator[bytes]:
    return _stream_chunks(packed, "xz", lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, _MAX_XZ_MEMORY_BYTES))


def _bzip2_chunks(packed: BinaryIO) -> Iterator[bytes]:
    return _stream_chunks(packed, "bzip2", bz2.BZ2Decompressor)


def _stream_chunks(
    packed: BinaryIO, name: str, new_decoder: Callable[[], lzma.LZMADecompressor | bz2.BZ2Decompressor]
) -> Iterator[bytes]:
    """Decompress stream after stream; zeros between them and after the last are padding."""
    data = packed.read(_INPUT_BYTES)
    try:
        while data:
            decoder = new_decoder()
            yield from _one_stream(packed, decoder, data)
            # Streams of xz are padded to multiples of four bytes, and what was copied by whole blocks ends in zeros.
            data = decoder.unused_data.lstrip(b"\0")
            while not data and (more := packed.read(_INPUT_BYTES)):
                data = more.lstrip(b"\0")
    except (lzma.LZMAError, OSError, EOFError, ValueError) as error:
        raise _damaged(name, packed, error) from error


def _one_stream(packed: BinaryIO, decoder: lzma.LZMADecompressor | bz2.BZ2Decompressor, data: bytes) -> Iterator[bytes]:
    while not decoder.eof:
        if decoder.needs_input and not data:
            data = packed.read(_INPUT_BYTES)
            if not data:
                raise EOFError
        yield decoder.decompress(data, CHUNK_BYTES)
        data = b""


COMPRESSIONS: Final = (
    Compression("zstd", (b"\x28\xb5\x2f\xfd", *(bytes([0x50 + n]) + b"\x2a\x4d\x18" for n in range(16))), _zstd_chunks),
    Compression("gzip", (b"\x1f\x8b\x08",), _gzip_chunks),
    Compression("xz", (b"\xfd7zXZ\x00",), _xz_chunks),
    Compression(
        "bzip2", (b"BZh1", b"BZh2", b"BZh3", b"BZh4", b"BZh5", b"BZh6", b"BZh7", b"BZh8", b"BZh9"), _bzip2_chunks
    ),
)
"""Frames of zstd may be preceded by skippable ones, as pzstd writes them."""


def compression_of(head: bytes) -> Compression | None:
    """Tell by its first bytes how a file is compressed; None if it is not."""
    return next((way for way in COMPRESSIONS if head.startswith(way.magics)), None)


def in_blocks(chunks: Iterator[bytes], block_bytes: int) -> Iterator[bytes]:
    """Cut chunks of any length into blocks of one length; the last one may be shorter."""
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

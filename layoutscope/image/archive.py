"""The files of a packed folder, such as a Mac's kit: only plain files, only below the folder, and not without end.

Nothing of an archive chooses where it is written: names are looked at, and files are handed out by them.
"""

from __future__ import annotations

import gzip
import io
import re
import tarfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Final

from layoutscope import inputs
from layoutscope.errors import ImageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from io import BufferedReader

MOST_MEMBERS: Final = 10_000
MOST_MEMBER_BYTES: Final = 1 << 29
MOST_UNPACKED_BYTES: Final = 1 << 30
"""Of an archive of a few megabytes; what holds more was made to fill a memory."""

PIECE_BYTES: Final = 1 << 16
GZIP_MAGIC: Final = b"\x1f\x8b"

PART: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
"""A name of a file or a folder in such an archive."""


def packed_files(path: Path, folder: str) -> dict[str, bytes]:
    """Return the files of a folder that is packed, or that lies there as one, by their names in it."""
    if path.is_dir():
        inputs.note(path)
        return _lying(path)
    try:
        return _packed(path, folder)
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise ImageError(f"{path}: is no archive, or is cut: {str(error) or 'it ends in the middle'}") from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise ImageError(f"{path}: {reason[:1].lower()}{reason[1:]}") from error


def _packed(path: Path, folder: str) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    unpacked = 0
    inputs.note(path)
    # Read as a stream: a header says how long its file is before any of that is unpacked. Headers that are files of
    # their own are read whole, and bounded by the stream itself.
    with (
        inputs.open_file(path) as file,
        _Bounded(path, file) as stream,
        tarfile.open(fileobj=stream, mode="r|") as archive,
    ):
        for number, member in enumerate(archive, 1):
            unpacked += member.size
            if number > MOST_MEMBERS or member.size > MOST_MEMBER_BYTES or unpacked > MOST_UNPACKED_BYTES:
                raise ImageError(
                    f"{path}: member {number:,}, {_shown(member.name)}, has {member.size:,} bytes: too large"
                )
            if member.isdir():
                continue
            name = _inside(path, member, folder)
            content = archive.extractfile(member)
            if name in found or content is None:
                raise ImageError(f"{path}: {_shown(member.name)} is in the archive twice")
            found[name] = content.read()
        # Behind the end of the archive stands the packer's checksum.
        while stream.read(PIECE_BYTES):
            pass
    return found


class _Bounded(io.BufferedIOBase):
    """A stream that is unpacked where it is packed, and ends with an error where it does not end."""

    def __init__(self, path: Path, file: BufferedReader) -> None:
        packed = file.peek(2)[:2] == GZIP_MAGIC
        self._path, self._read = path, 0
        self._stream: BufferedReader | gzip.GzipFile = gzip.GzipFile(fileobj=file) if packed else file

    def read(self, size: int | None = -1, /) -> bytes:
        """Read so many bytes."""
        data = self._stream.read(-1 if size is None else size)
        self._read += len(data)
        if self._read > MOST_UNPACKED_BYTES:
            raise ImageError(f"{self._path}: unpacks to more than {MOST_UNPACKED_BYTES:,} bytes: too large")
        return data


def _inside(path: Path, member: tarfile.TarInfo, folder: str) -> str:
    """Return the name of a member in its folder."""
    if not member.isreg():
        raise ImageError(f"{path}: {_shown(member.name)} is a link or a device, which no such archive has")
    first, *rest = member.name.removeprefix("./").split("/")
    if first != folder or not rest or not all(PART.fullmatch(part) for part in rest):
        raise ImageError(f"{path}: {_shown(member.name)} does not lie in the folder {folder!r} of the archive")
    return "/".join(rest)


def _lying(folder: Path) -> dict[str, bytes]:
    """Read the files of a folder on this machine, which may be links of its owner's."""
    return {
        place.relative_to(folder).as_posix(): inputs.read_bytes(place, MOST_MEMBER_BYTES) for place in _plain(folder)
    }


def _plain(folder: Path) -> Iterator[Path]:
    yield from sorted(place for place in map(Path, inputs.walk_files(str(folder))) if place.is_file())


def _shown(name: str) -> str:
    return repr(name[:80])


def text_of(data: bytes) -> str:
    """Return a text of an archive; what is none stays visible."""
    return io.TextIOWrapper(io.BytesIO(data), "utf-8", "replace").read()

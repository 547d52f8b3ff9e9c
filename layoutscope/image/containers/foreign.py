"""Containers of other makers, read in place by libyal's libraries: E01, qcow2, vhd, vhdx, vmdk, Apple sparse images.

The libraries come with the extra ``containers``. They get a file object, never a name, so that what is compressed or
itself inside of a container can be read too; only the further files of a set are looked up, beside the first one.
"""

from __future__ import annotations

import io
import re
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from layoutscope import inputs
from layoutscope.errors import ImageError, LayoutscopeError, UnsupportedError
from layoutscope.image.raw import RawFile
from layoutscope.image.source import ReadCounter, Source

if TYPE_CHECKING:
    from collections.abc import Callable

    from layoutscope.image.signatures import Signature

INSTALL: Final = "pip install 'layoutscope[containers]'"
EWF_SEGMENT: Final = re.compile(r"\.([ELS])x?01$", re.IGNORECASE)
MAX_EXTENTS: Final = 4096


class Handle(Protocol):
    """What is asked of an open container; the libraries come without types of their own."""

    def get_media_size(self) -> int:
        """Return the length of the disk inside, in bytes."""

    def read_buffer_at_offset(self, size: int, offset: int, /) -> bytes:
        """Read at most so many bytes of the disk inside, from a place on."""

    def close(self) -> None:
        """Close it."""


def open_foreign(source: Source, found: Signature) -> Source:
    """Open the disk in a container.

    Parameters
    ----------
    source : Source
        The container's file.
    found : Signature
        What it is.

    Raises
    ------
    UnsupportedError
        If the library is not installed, or the container rests on another one.
    ImageError
        If the container is damaged.
    """
    try:
        library = import_module(found.reader)
    except ImportError as error:
        raise UnsupportedError(
            f"{source.name}: is no raw image but: {found.name}",
            code="container",
            advice=f"install what reads it with: {INSTALL}; or {found.advice}",
        ) from error
    try:
        handle = OPENERS[found.reader](library, source)
        _refuse_layers(source, handle)
        return ForeignSource(source, handle, found.name)
    except LayoutscopeError:
        raise
    except (OSError, ValueError, MemoryError, TypeError, OverflowError, RuntimeError) as error:
        raise _damaged(source, found.name, error) from error


def _damaged(source: Source, what: str, error: BaseException) -> ImageError:
    """Tell in one line what the library has against a container."""
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    return ImageError(f"{source.name}: {what} cannot be read: {reason}")


class SourceFile(io.RawIOBase):
    """A source as a file object, as libyal wants it."""

    def __init__(self, source: Source) -> None:
        super().__init__()
        self._source = source
        self._position = 0

    def read(self, size: int = -1) -> bytes:
        """Read from the current position."""
        left = max(0, self._source.size_bytes - self._position)
        length = left if size < 0 else min(size, left)
        data = self._source.read(self._position, length)
        self._position += length
        return data

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to a position."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._source.size_bytes}[whence]
        self._position = max(0, base + offset)
        return self._position

    def tell(self) -> int:
        """Return the position."""
        return self._position

    get_offset = tell

    def get_size(self) -> int:
        """Return the length in bytes."""
        return self._source.size_bytes

    def readable(self) -> bool:
        """Tell that it can be read."""
        return True

    def seekable(self) -> bool:
        """Tell that it has positions."""
        return True


class ForeignSource(Source):
    """The disk in a container.

    Parameters
    ----------
    source : Source
        The container's file; closed with this.
    handle : Handle
        The library's.
    kind : str
        What the container is, for messages.
    """

    def __init__(self, source: Source, handle: Handle, kind: str) -> None:
        self._source = source
        self._handle = handle
        self._kind = kind
        self.name = source.name
        self.size_bytes = handle.get_media_size()
        self.counter = ReadCounter()

    def _fetch(self, image_offset: int, length_bytes: int) -> bytes:
        parts: list[bytes] = []
        left = length_bytes
        while left:
            self.counter.reads += 1
            try:
                data = self._handle.read_buffer_at_offset(left, image_offset + length_bytes - left)
            except (OSError, MemoryError) as error:
                raise _damaged(self._source, self._kind, error) from error
            if not data:
                break
            self.counter.bytes += len(data)
            parts.append(data)
            left -= len(data)
        return b"".join(parts)

    def close(self) -> None:
        """Close the container and its file."""
        self._handle.close()
        self._source.close()


def _open_one(create: str) -> Callable[[Any, Source], Handle]:
    """Open a container that is one file."""

    def opener(library: Any, source: Source) -> Any:
        handle = getattr(library, create)()
        handle.open_file_object(SourceFile(source))
        return handle

    return opener


def _open_segments(library: Any, source: Source) -> Any:
    """Open an Expert Witness image with all segments that lie beside the first."""
    path = Path(source.name)
    handle = library.handle()
    if EWF_SEGMENT.search(path.name) and isinstance(source, RawFile) and path.is_file():
        segments = library.glob(str(path))
        for segment in segments:
            inputs.note(segment)
        handle.open(segments)
    else:
        handle.open_file_objects([SourceFile(source)])
    return handle


def _open_extents(library: Any, source: Source) -> Any:
    """Open a VMware disk with its extents: the file itself, or those that lie beside a description."""
    handle = library.handle()
    handle.open_file_object(SourceFile(source))
    if handle.get_number_of_extents() > MAX_EXTENTS:
        raise ImageError(f"{source.name}: claims {handle.get_number_of_extents():,} extents")
    names = [handle.get_extent_descriptor(number).get_filename() for number in range(handle.get_number_of_extents())]
    folder = Path(source.name).parent
    handle.open_extent_data_files_as_file_objects([_extent(folder, name, source) for name in names])
    return handle


def _extent(folder: Path, name: str | None, source: Source) -> SourceFile:
    """Open an extent; names with folders in them are taken for the file of that name beside the description."""
    beside = folder / Path((name or "").replace("\\", "/")).name
    # A disk in one file (KDMV) holds its extent itself, under whatever name its description had when it was made.
    is_own = not name or source.read(0, 4) == b"KDMV"
    return SourceFile(source if is_own else RawFile(beside))


OPENERS: Final[dict[str, Callable[[Any, Source], Handle]]] = {
    "pyewf": _open_segments,
    "pymodi": _open_one("handle"),
    "pyqcow": _open_one("file"),
    "pyvhdi": _open_one("file"),
    "pyvmdk": _open_extents,
}
"""How each library opens a container."""


def _refuse_layers(source: Source, handle: Any) -> None:
    """Refuse what holds differences to another file alone.

    Raises
    ------
    UnsupportedError
        If there is such a file.
    """
    for name in ("get_backing_filename", "get_parent_filename"):
        below = getattr(handle, name, lambda: None)()
        if below:
            raise UnsupportedError(
                f"{source.name}: holds the differences to {below!r:.200} alone",
                code="container",
                advice="join them with: qemu-img convert -O raw IMAGE RAW",
            )

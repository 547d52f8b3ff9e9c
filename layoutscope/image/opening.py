"""From a path to a source, for any kind of file and any container around the disk.

Two images are read together if a Fusion drive stores one volume on two devices. Its tables number them (column
``device``) as the file system does, regardless of the order in which the images are named.
"""

from __future__ import annotations

import gzip
import io
import os
import re
import stat
import tarfile
import zlib
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from layoutscope import inputs
from layoutscope.errors import FormatError, ImageError, LayoutscopeError, UnsupportedError, reason_of
from layoutscope.image import cache
from layoutscope.image.containers import encrypted, foreign, sparse, udif, witness, wrappers
from layoutscope.image.failing import FailingSource, RescuedSource, read_map
from layoutscope.image.raw import Device, RawFile
from layoutscope.image.remembered import RememberedSource
from layoutscope.image.signatures import refuse_containers, signature_of
from layoutscope.image.source import peek, trailer_of
from layoutscope.image.split import SplitFile, find_parts
from layoutscope.progress import reporting

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from io import BufferedReader

    from layoutscope.findings import Finding
    from layoutscope.image.source import Source
    from layoutscope.options import ReadOptions


def files_of(path: Path) -> list[Path]:
    """List the files of an image, each once, with the named file first if it is one of them."""
    if path.is_dir():
        inputs.note(path)
        return sorted(item for item in map(Path, inputs.walk_files(str(path))) if item.is_file())
    parts = find_parts(path)
    if parts:
        return parts
    with open_plain(path) as source:
        head = peek(source)
        if wrappers.is_cue(head):
            return [path, wrappers.data_track(source)[0]]
        found = signature_of(head, trailer_of(source))
        if found is not None and found.open == witness.open_witness:
            return list(witness.find_segments(path).values())
        if found is not None and found.open == foreign.open_description:
            extents = (extent for _, kind, extent, _ in foreign.list_extents(source) if kind != "ZERO")
            return [path, *dict.fromkeys(extents)]
        return [path]


def open_plain(path: Path) -> Source:
    """Open a file or device as its plain bytes, whatever they are."""
    mode = mode_of(path)
    if stat.S_ISBLK(mode) or stat.S_ISCHR(mode):
        return Device(path)
    if not stat.S_ISREG(mode):
        raise ImageError(f"{path}: is neither a file nor a disk")
    return RawFile(path)


def mode_of(path: Path) -> int:
    """Return the ``st_mode`` of a path."""
    try:
        return path.stat().st_mode
    except FileNotFoundError as error:
        raise ImageError(f"{path}: no such file") from error
    except (OSError, ValueError) as error:
        raise ImageError(f"{path}: {reason_of(error)}") from error


MAX_DEPTH: Final = 4
"""Limit of containers within containers; real disks have fewer."""


def open_image(
    path: str | os.PathLike[str],
    *,
    map_file: str | os.PathLike[str] | None = None,
    # where decompressed images are kept; None for a temporary file that lasts until they are closed
    cache_dir: str | os.PathLike[str] | None = None,
    password: str | None = None,
) -> Source:
    """Open an image, whatever container it is in."""
    is_remote = inputs.is_address(path)
    if is_remote:
        # Few images come from servers, and the code for servers takes long to load.
        from layoutscope.image.remote import RemoteSource

        source: Source = RemoteSource(os.fspath(path))
    else:
        source = _open(Path(path), password)
    try:
        if is_remote or type(source) in COMPRESSIBLE:
            _refuse_empty(source)
            way = cache.compression_of(peek(source))
            # A disk image may begin with a compressed piece.
            if way is not None and udif.udif_trailer_at(source) is None:
                source = _decompress(source, way, None if cache_dir is None else Path(cache_dir))
        if map_file is not None:
            source = RescuedSource(source, read_map(Path(map_file), source.size_bytes))
        source = encrypted.open_if_encrypted(source, password)
        source = unwrap(source)
        refuse_containers(source)
    except LayoutscopeError:
        source.close()
        raise
    return source


def unwrap(source: Source) -> Source:
    """Return the innermost disk of nested containers, or the source itself if it is not a container.

    The source is closed if that fails.
    """
    for _ in range(MAX_DEPTH):
        try:
            inside = _unwrap_once(source)
        except LayoutscopeError as error:
            source.close()
            if isinstance(error, FormatError):
                raise explain_refusal(error, source.name, source.findings) from error
            raise
        if inside is source:
            return source
        source = inside
    source.close()
    raise UnsupportedError(f"{source.name}: holds disk images within disk images", code="nested-containers")


def _unwrap_once(source: Source) -> Source:
    """Open the container that a source is, or return the source itself if it is not a container."""
    trailer_at = udif.udif_trailer_at(source)
    if trailer_at is not None:
        return udif.open_udif(source, trailer_at)
    head = peek(source)
    found = signature_of(head, trailer_of(source))
    if found is not None:
        return source if found.open is None else found.open(source)
    disk = wrappers.open_wrapped(source, head)
    if disk is not None:
        return disk
    # A cue sheet and the files it names are in the same folder, wherever that is.
    return wrappers.open_cue(source) if isinstance(source, RawFile) and wrappers.is_cue(head) else source


def explain_refusal(
    error: ImageError | FormatError, name: str, findings: Iterable[Finding]
) -> ImageError | FormatError:
    """Begin a refusal with its explanation: the files of the disk are incomplete or contradict each other."""
    reasons = [f"{item.message}{item.sides}" for item in findings if item.level != "info"]
    if not reasons:
        return error
    told = str(error).removeprefix(f"{name}: ")
    return ImageError(f"{name}: {reasons[0]}: {told}")


def _open(path: Path, password: str | None) -> Source:
    """Open a bundle, a device, or a file in one piece or several, whatever its contents."""
    if sparse.is_bundle(path):
        return sparse.SparseBundle(path, password)
    if sparse.is_parallels_folder(path):
        return sparse.open_parallels_folder(path)
    mode = mode_of(path)
    if stat.S_ISDIR(mode):
        raise ImageError(f"{path}: is a directory, not an image")
    parts = find_parts(path) if stat.S_ISREG(mode) else []
    return SplitFile(parts) if parts else open_plain(path)


COMPRESSIBLE: Final = (RawFile, SplitFile)
"""Sources that may be compressed as a whole, like those from a server; devices and bundles are not."""


def _refuse_empty(source: Source) -> None:
    if not source.size_bytes:
        raise ImageError(f"{source.name}: is empty")


def _decompress(source: Source, way: str, cache_dir: Path | None) -> Source:
    """Return the image inside a compressed file, and close the file."""
    image = cache.unpack(source, way, cache_dir=cache_dir)
    source.close()
    _refuse_empty(image)
    if cache.compression_of(peek(image)) is not None:
        image.close()
        raise ImageError(f"{source.name}: is compressed twice. Decompress it once first.")
    return image


@contextmanager
def open_images(
    path: str | os.PathLike[str], request: ReadOptions, *, keeps_all: bool = False
) -> Iterator[tuple[Source, ...]]:
    """Open an image, and the second one of a Fusion set, until the context ends.

    The first pieces read are kept in memory, or all of them in a file if everything will be read again.
    """
    with ExitStack() as stack:
        stack.enter_context(reporting(request["progress"]))
        cache_dir, password, second = request["cache_dir"], request["password"], request["second"]
        devices: list[Source] = []
        for place, map_file in ((path, request["ddrescue_map"]), (second, None)):
            if place is not None:
                device = open_image(place, map_file=map_file, cache_dir=cache_dir, password=password)
                kept = RememberedSource(device, keeps_all=keeps_all)
                devices.append(stack.enter_context(FailingSource(kept)))
        yield tuple(devices)


MAX_MEMBERS: Final = 10_000
MAX_MEMBER_BYTES: Final = 1 << 29
MAX_UNPACKED_BYTES: Final = 1 << 30
"""Limit for an archive of a few megabytes; a larger one was made to exhaust memory."""

PIECE_BYTES: Final = 1 << 16
GZIP_MAGIC: Final = b"\x1f\x8b"

PART: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
"""Name of a file or folder in such an archive."""


def list_files_in_archive(path: Path, folder: str) -> dict[str, bytes]:
    """Return the files of a packed or unpacked folder, by their names in it."""
    if path.is_dir():
        inputs.note(path)
        files = sorted(place for place in map(Path, inputs.walk_files(str(path))) if place.is_file())
        # The files may be links that the folder's owner made.
        return {place.relative_to(path).as_posix(): inputs.read_bytes(place, MAX_MEMBER_BYTES) for place in files}
    inputs.note(path)
    try:
        return _list_packed_files(path, folder)
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise ImageError(f"{path}: is not an archive, or is cut: {str(error) or 'it ends in the middle'}") from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise ImageError(f"{path}: {reason[:1].lower()}{reason[1:]}") from error


def _list_packed_files(path: Path, folder: str) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    unpacked = 0
    # The archive is read as a stream: a header gives the length of its file before any of the file is unpacked. Headers
    # stored as files of their own are read whole, and the stream itself bounds them.
    with (
        inputs.open_file(path) as file,
        _Bounded(path, file) as stream,
        tarfile.open(fileobj=stream, mode="r|") as archive,
    ):
        for number, member in enumerate(archive, 1):
            unpacked += member.size
            shown = repr(member.name[:80])
            if number > MAX_MEMBERS or member.size > MAX_MEMBER_BYTES or unpacked > MAX_UNPACKED_BYTES:
                raise ImageError(f"{path}: member {number:,}, {shown}, has {member.size:,} bytes: too large")
            if member.isdir():
                continue
            if not member.isreg():
                raise ImageError(f"{path}: {shown} is a link or a device, which no such archive has")
            first, *rest = member.name.removeprefix("./").split("/")
            if first != folder or not rest or not all(PART.fullmatch(part) for part in rest):
                raise ImageError(f"{path}: {shown} is not in the folder {folder!r} of the archive")
            name, content = "/".join(rest), archive.extractfile(member)
            if name in found or content is None:
                raise ImageError(f"{path}: {shown} is in the archive twice")
            found[name] = content.read()
        # The checksum of gzip follows the end of the archive.
        while stream.read(PIECE_BYTES):
            pass
    return found


class _Bounded(io.BufferedIOBase):
    """A stream, unpacked if it is packed, that raises an error beyond a maximum length."""

    def __init__(self, path: Path, file: BufferedReader) -> None:
        packed = file.peek(2)[:2] == GZIP_MAGIC
        self._path, self._read = path, 0
        self._stream: BufferedReader | gzip.GzipFile = gzip.GzipFile(fileobj=file) if packed else file

    def read(self, size: int | None = -1, /) -> bytes:
        """Read up to the given number of bytes."""
        data = self._stream.read(-1 if size is None else size)
        self._read += len(data)
        if self._read > MAX_UNPACKED_BYTES:
            raise ImageError(f"{self._path}: unpacks to more than {MAX_UNPACKED_BYTES:,} bytes: too large")
        return data


def text_of(data: bytes) -> str:
    """Return a text of an archive with newlines as in Python; invalid UTF-8 stays visible."""
    return io.TextIOWrapper(io.BytesIO(data), "utf-8", "replace").read()

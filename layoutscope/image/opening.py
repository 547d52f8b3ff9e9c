"""From a path to a source, whatever kind of thing lies there, and whatever the disk is wrapped into.

Two images are read together where a Fusion drive is one volume on two devices. Its tables number them (column
``device``) as the file system does, whichever image was named first.
"""

from __future__ import annotations

import os
import stat
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from layoutscope.errors import FormatError, ImageError, LayoutscopeError, UnsupportedError
from layoutscope.frozen import frozen
from layoutscope.image import compressed
from layoutscope.image.containers import asif, bundle, encrypted, foreign, sparse, udif, witness, wrappers
from layoutscope.image.failing import FailingSource
from layoutscope.image.files import mode_of, open_plain
from layoutscope.image.raw import RawFile
from layoutscope.image.remote import RemoteSource, is_address
from layoutscope.image.signatures import (
    encrypted_refusal,
    has_udif_trailer,
    head_of,
    header_of,
    refuse_containers,
    signature_of,
    trailer_of,
    trailer_parsed,
    udif_trailer_at,
)
from layoutscope.image.split import SplitFile, find_parts
from layoutscope.ondisk.decoder import BULK, decoder_named
from layoutscope.ondisk.records import ENCRYPTED_IMAGE_HEADER
from layoutscope.progress import reporting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from layoutscope.findings import Finding
    from layoutscope.image.source import Source
    from layoutscope.ondisk.decoder import Decoder
    from layoutscope.options import ReadRequest

OWN_READERS: Final[dict[str, Callable[[Source], Source]]] = {
    "sparse-image": sparse.open_sparse_image,
    "parallels": sparse.open_parallels,
    "vdi": sparse.open_vdi,
    "witness": witness.open_witness,
    "disc": wrappers.open_disc,
    "apple-single": wrappers.open_apple_single,
}
"""What opens containers that no library is needed for, by the readers of their signatures."""

MAX_DEPTH: Final = 4
"""Containers within containers; more is no disk that anyone made."""


def open_image(
    path: str | os.PathLike[str],
    *,
    map_file: str | os.PathLike[str] | None = None,
    # where decompressed images are kept; without it they go into a temporary file until they are closed
    cache_dir: str | os.PathLike[str] | None = None,
    decoder: Decoder = BULK,
    password: str | None = None,
) -> Source:
    """Open an image, whatever holds it."""
    kept = Path(cache_dir) if cache_dir is not None else None
    source = _open_remote(path, kept) if is_address(path) else _open(Path(path), kept, password)
    try:
        if map_file is not None:
            source = _with_map(source, Path(map_file))
        source = _decrypted(source, password)
        source = unwrap(source, decoder)
        refuse_containers(source)
    except LayoutscopeError:
        source.close()
        raise
    return source


def _decrypted(source: Source, password: str | None) -> Source:
    """Open an encrypted disk image with its password; the source itself where it is none."""
    try:
        header = header_of(source.read(0, min(ENCRYPTED_IMAGE_HEADER.width, source.size_bytes)))
        trailer = trailer_parsed(source) if header is None else None
    except FormatError:
        return source
    what = f"{source.name}: is an encrypted disk image"
    if header is not None:
        if password is None:
            raise encrypted_refusal(what, header.key_bits, header.len_data)
        return encrypted.open_encrypted(source, header, password)
    if trailer is None:
        return source
    if password is None:
        key_bits = encrypted.former_key_bits(trailer)
        raise encrypted_refusal(f"{what} before Mac OS X 10.5", key_bits, trailer.len_data)
    return encrypted.open_former(source, trailer, password)


def _with_map(source: Source, map_file: Path) -> Source:
    from layoutscope.image.ddrescue import RescuedSource, read_map

    return RescuedSource(source, read_map(map_file, source.size_bytes))


def unwrap(source: Source, decoder: Decoder = BULK) -> Source:
    """Return the innermost disk of nested containers; the source itself where there is none.

    The source is closed if that fails.
    """
    for _ in range(MAX_DEPTH):
        try:
            inside = _unwrap_once(source, decoder)
        except FormatError as error:
            source.close()
            raise with_reason(error, source.name, source.findings) from error
        except LayoutscopeError:
            source.close()
            raise
        if inside is source:
            return source
        source = inside
    source.close()
    raise UnsupportedError(f"{source.name}: holds disk images within disk images", code="nested-containers")


def with_reason(error: ImageError | FormatError, name: str, findings: Iterable[Finding]) -> ImageError | FormatError:
    """Begin a refusal with what explains it: the files that hold the disk are incomplete or contradict themselves."""
    reasons = [f"{item.message}{item.sides}" for item in findings if item.level != "info"]
    if not reasons:
        return error
    told = str(error).removeprefix(f"{name}: ")
    return ImageError(f"{name}: {reasons[0]}: {told}")


def _unwrap_once(source: Source, decoder: Decoder) -> Source:
    """Open the container that a source is; the source itself where it is none."""
    trailer_at = udif_trailer_at(source)
    if trailer_at is not None:
        return udif.open_udif(source, decoder, trailer_at)
    head = head_of(source)
    found = signature_of(head, trailer_of(source))
    if found is None:
        return _open_wrapped(source, head)
    if not found.reader:
        return source
    if found.reader == "asif":
        return asif.open_asif(source, decoder)
    return OWN_READERS[found.reader](source) if found.reader in OWN_READERS else foreign.open_foreign(source, found)


def _open_wrapped(source: Source, head: bytes) -> Source:
    """Open the disk in a file that is told by more than a signature; the source itself where it is none."""
    piece = wrappers.find_piece(source, head)
    if piece is not None:
        return wrappers.open_piece(source, piece)
    # What a list names lies beside it, wherever that is.
    return wrappers.open_cue(source) if isinstance(source, RawFile) and wrappers.is_cue(head) else source


def _open(path: Path, cache_dir: Path | None, password: str | None) -> Source:
    if bundle.is_bundle(path):
        return bundle.open_bundle(path, password)
    if sparse.is_parallels_folder(path):
        return sparse.open_parallels_folder(path)
    mode = mode_of(path)
    if stat.S_ISDIR(mode):
        raise ImageError(f"{path}: is a directory, not an image")
    return _open_file(path, cache_dir) if stat.S_ISREG(mode) else open_plain(path)


def _open_remote(address: str | os.PathLike[str], cache_dir: Path | None) -> Source:
    return _inside(RemoteSource(os.fspath(address)), cache_dir)


def _open_file(path: Path, cache_dir: Path | None) -> Source:
    parts = find_parts(path)
    return _inside(SplitFile(parts) if parts else RawFile(path), cache_dir)


def _inside(source: Source, cache_dir: Path | None) -> Source:
    """Return the image in a file that is open."""
    try:
        _refuse_empty(source)
        return _decompressed(source, cache_dir)
    except LayoutscopeError:
        source.close()
        raise


def _refuse_empty(source: Source) -> None:
    if not source.size_bytes:
        raise ImageError(f"{source.name}: is empty")


def _decompressed(source: Source, cache_dir: Path | None) -> Source:
    """Return the image inside if the file is compressed, otherwise the file."""
    way = compressed.compression_of(head_of(source))
    if way is None or has_udif_trailer(source):  # a disk image may begin with a compressed piece
        return source
    from layoutscope.image.unpack import unpack

    image = unpack(source, way, cache_dir=cache_dir)
    source.close()
    _refuse_empty(image)
    if compressed.compression_of(head_of(image)) is not None:
        image.close()
        raise ImageError(f"{source.name}: is compressed twice; decompress it once first")
    return image


@frozen
class ImageSet:
    """Open images: the one that was named, and the other one of a set."""

    main: Source
    second: Source | None = None

    @property
    def devices(self) -> tuple[Source, ...]:
        """The images by the number of their device."""
        return (self.main,) if self.second is None else (self.main, self.second)


@contextmanager
def open_images(path: str | os.PathLike[str], request: ReadRequest) -> Iterator[ImageSet]:
    """Open an image, and the other one of a Fusion set, until the context ends."""
    password = request.own.get("password")
    wanted = partial(
        open_image,
        cache_dir=request.cache_dir,
        decoder=decoder_named(request.decoder),
        password=password if isinstance(password, str) else None,
    )
    with ExitStack() as stack:
        stack.enter_context(reporting(request.progress))
        main = stack.enter_context(FailingSource(wanted(path, map_file=request.ddrescue_map)))
        yield ImageSet(
            main, None if request.second is None else stack.enter_context(FailingSource(wanted(request.second)))
        )

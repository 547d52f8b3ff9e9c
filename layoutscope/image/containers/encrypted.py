"""Encrypted disk images and sparse bundles, which are refused: FileVault 1 makes such of homes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from layoutscope.errors import FormatError, UnsupportedError
from layoutscope.ondisk import grammar
from layoutscope.ondisk.records import ENCRYPTED_IMAGE_HEADER
from layoutscope.units import format_bytes

if TYPE_CHECKING:
    from layoutscope.image.source import Source
    from layoutscope.ondisk.grammar import EncryptedImage

HEADER: Final = ENCRYPTED_IMAGE_HEADER
ADVICE: Final = "decrypt it on a Mac with: hdiutil convert IMAGE -format UDTO -o RAW"


def header_of(data: bytes) -> EncryptedImage.Header | None:
    """Parse the header of an encrypted image; None where there is none."""
    try:
        return grammar.parse(
            grammar.EncryptedImage.Header, data[: HEADER.width], structure="encrypted image", image_offset=0
        )
    except FormatError:
        return None


def refuse_encrypted(source: Source) -> None:
    """Refuse an encrypted image.

    Raises
    ------
    UnsupportedError
        If the source is one; its size is named.
    """
    try:
        header = header_of(source.read(0, min(HEADER.width, source.size_bytes)))
    except FormatError:
        return
    if header is not None:
        raise refusal(f"{source.name}: is an encrypted disk image", header, header.data_size_bytes)


def refusal(what: str, header: EncryptedImage.Header, size_bytes: int) -> UnsupportedError:
    """Say how large the disk inside is, how it is encrypted, and what to do.

    Parameters
    ----------
    what : str
        The image, and what it is.
    header : EncryptedImage.Header
        Its header.
    size_bytes : int
        Length of the disk inside.
    """
    message = f"{what} of {format_bytes(size_bytes)} (AES-{header.key_bits}), as FileVault 1 makes of homes"
    return UnsupportedError(message, code="encrypted-image", advice=ADVICE)

"""Files that are not raw images: containers, archives, texts, and encrypted images, which are refused.

They are identified by content, not by name, so that a renamed file still gets the right advice.
"""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING, Final, NamedTuple

from layoutscope.errors import ImageError, UnreadError, UnsupportedError
from layoutscope.image.source import read_by_sector

if TYPE_CHECKING:
    from layoutscope.image.source import Source

HEAD_BYTES: Final = 4096
"""Length of the start of a file that is examined."""

TRAILER_BYTES: Final = 512

UDIF_MAGIC: Final = b"koly"
UDIF_TRAILER: Final = UDIF_MAGIC + (4).to_bytes(4, "big") + TRAILER_BYTES.to_bytes(4, "big")
"""Start of the trailer of an Apple disk image: magic, version and its length."""

UDIF_SEARCH_BYTES: Final = 64 * 1024

DISK_MAGICS: Final = (
    (510, b"\x55\xaa"),
    (0, b"ER"),
    (512, b"PM"),
    (512, b"EFI PART"),
    (32, b"NXSB"),
    (1024, b"H+"),
    (1024, b"HX"),
    (1024, b"BD"),
)
"""Signatures at the starts of disks and volumes."""


class Signature(NamedTuple):
    """A container format, and the bytes that identify it at an offset of the head or of the last 512 bytes.

    `reader` names the function of :mod:`layoutscope.image.containers` that reads it.
    """

    name: str
    magic: bytes
    head_offset: int | None = 0
    trailer_offset: int | None = None
    advice: str = "convert it to a raw image first"
    reader: str = ""
    code: str = "container"


_DECRYPT: Final = "decrypt it on a Mac with: hdiutil convert IMAGE -format UDTO -o RAW"
PASSWORD_ADVICE: Final = f"open it with its password (--password - asks for it), or {_DECRYPT}"
_BCHUNK: Final = "convert it with: bchunk IMAGE.bin IMAGE.cue RAW"
_HDIUTIL: Final = "convert it on a Mac with: hdiutil convert IMAGE -format UDTO -o RAW"
_ASIF: Final = "convert it on a Mac with: diskutil image create from IMAGE RAW"
_QEMU: Final = "convert it with: qemu-img convert -O raw IMAGE RAW"
_EWF: Final = "convert it with: ewfexport -t RAW -f raw IMAGE"
_UNPACK: Final = "unpack it first"
_MAC_FILE: Final = "unpack it with: unar FILE"
_AFF4: Final = "export it as a raw image, as with pyaff4: aff4.py -x -f RAW IMAGE"

ZIP_MAGIC: Final = b"PK\x03\x04"
AFF4: Final = Signature("Advanced Forensic Format image (AFF4)", ZIP_MAGIC, advice=_AFF4)
AFF4_MEMBERS: Final = b"container.description", b"information.turtle"
"""Files of a zip archive that is an AFF4 image, at its start or end."""

SIGNATURES: Final = (
    # The second version has its header at the start of the file, the first version at the end.
    Signature("encrypted Apple disk image", b"encrcdsa", advice=PASSWORD_ADVICE, code="encrypted-image"),
    Signature(
        "encrypted Apple disk image before Mac OS X 10.5",
        b"cdsaencr",
        None,
        504,
        PASSWORD_ADVICE,
        code="encrypted-image",
    ),
    Signature("Apple sparse image of macOS 26 (ASIF)", b"shdw", advice=_ASIF, reader="asif"),
    Signature("Apple sparse image (.sparseimage)", b"sprs", advice=_HDIUTIL, reader="sparse-image"),
    Signature("Parallels disk (hdd)", b"WithoutFreeSpace", advice=_QEMU, reader="parallels"),
    Signature("Parallels disk (hdd)", b"WithouFreSpacExt", advice=_QEMU, reader="parallels"),
    Signature("QEMU image (qcow2)", b"QFI\xfb", advice=_QEMU, reader="qcow"),
    Signature("VMware disk (vmdk)", b"KDMV", advice=_QEMU, reader="vmdk"),
    Signature("VMware disk of ESX (COWD)", b"COWD", advice=_QEMU),
    Signature(
        "VMware disk description (vmdk)",
        b"# Disk DescriptorFile",
        advice="open the -flat.vmdk file that it names",
        reader="vmdk-description",
    ),
    Signature("Hyper-V disk (vhdx)", b"vhdxfile", advice=_QEMU, reader="vhdx"),
    # A fixed one is a raw image followed by this signature, and is read as a raw image.
    Signature("dynamic Virtual PC disk (vhd)", b"conectix", advice=_QEMU, reader="vhd"),
    Signature("VirtualBox disk (vdi)", b"\x7f\x10\xda\xbe", 64, advice=_QEMU, reader="vdi"),
    Signature("Expert Witness image (E01)", b"EVF\x09\x0d\x0a\xff\x00", advice=_EWF, reader="witness"),
    Signature("Expert Witness image (L01)", b"LVF\x09\x0d\x0a\xff\x00", advice=_EWF),
    Signature("Expert Witness image (Ex01)", b"EVF2\x0d\x0a\x81\x00", advice=_EWF),
    Signature(
        "Advanced Forensic Format image (AFF)", b"AFF10\x0d\x0a\x00", advice="convert it with: affconvert -r IMAGE"
    ),
    Signature("AccessData image (AD1)", b"ADSEGMENTEDFILE\0", advice="export it with FTK Imager as a raw image"),
    Signature("raw CD sectors (.bin)", b"\0" + b"\xff" * 10 + b"\0", advice=_BCHUNK, reader="disc"),
    Signature("compressed disk (chd)", b"MComprHD", advice="convert it with: chdman extractraw -i IMAGE -o RAW"),
    Signature("Media Descriptor (mds)", b"MEDIA DESCRIPTOR", advice="open the .mdf file beside it"),
    Signature("QEMU image (qed)", b"QED\0", advice=_QEMU),
    Signature("Windows image (wim)", b"MSWIM\0\0\0", advice="unpack it with: wimapply"),
    Signature("partclone image", b"partclone-image", advice="restore it with: partclone.restore -C -s IMAGE -o RAW"),
    Signature("Apple encrypted archive (.aea)", b"AEA1", advice="unpack it with: ipsw fw aea IMAGE"),
    Signature("AppleSingle file", b"\x00\x05\x16\x00", advice=_MAC_FILE, reader="apple-single"),
    Signature(
        "AppleDouble file", b"\x00\x05\x16\x07", advice="open the file of the same name that does not begin with ._"
    ),
    Signature("BinHex file", b"(This file must be converted with BinHex", advice=_MAC_FILE),
    Signature("StuffIt archive", b"SIT!", advice=_MAC_FILE),
    Signature("StuffIt archive", b"StuffIt (c)", advice=_MAC_FILE),
    Signature("cabinet archive", b"MSCF\0\0\0\0", advice=_UNPACK),
    Signature("PDF document", b"%PDF-", advice="it is not a disk image"),
    Signature("tar archive", b"ustar", 257, advice="unpack it first with: tar -xSf ARCHIVE"),
    Signature("zip archive", ZIP_MAGIC, advice=_UNPACK),
    Signature("7-Zip archive", b"7z\xbc\xaf\x27\x1c", advice=_UNPACK),
    Signature("RAR archive", b"Rar!\x1a\x07", advice=_UNPACK),
    Signature("xar archive (.pkg)", b"xar!", advice=_UNPACK),
    Signature("LZ4 compressed file", b"\x04\x22\x4d\x18", advice=_UNPACK),
    Signature("lzip compressed file", b"LZIP", advice=_UNPACK),
)


LFS_POINTER: Final = b"version https://git-lfs.github.com/spec/"


def refuse_containers(source: Source) -> None:
    """Refuse anything but a raw image."""
    head = peek(source)
    if head.startswith(LFS_POINTER):
        raise UnsupportedError(
            f"{source.name}: is a git LFS pointer", code="lfs-pointer", advice="fetch the file with: git lfs pull"
        )
    found = signature_of(head, trailer_of(source))
    if found is not None and found.magic == ZIP_MAGIC:
        length = min(UDIF_SEARCH_BYTES, source.size_bytes)
        ends = head + peek(source, source.size_bytes - length, length)
        found = AFF4 if any(name in ends for name in AFF4_MEMBERS) else found
    if found is not None:
        raise UnsupportedError(
            f"{source.name}: is not a raw image but: {found.name}", code=found.code, advice=found.advice
        )
    if is_text(head):
        raise ImageError(f"{source.name}: is a text file, not a disk image")


def trailer_of(source: Source) -> bytes:
    """Return the last 512 bytes, padded with zeros in front; areas that were never read are zeros."""
    length = min(TRAILER_BYTES, source.size_bytes)
    return peek(source, source.size_bytes - length, length).rjust(TRAILER_BYTES, b"\0")


def peek(source: Source, image_offset: int = 0, length_bytes: int = HEAD_BYTES) -> bytes:
    """Read data that may identify the kind of a file, up to its end; sectors that cannot be read are zeros."""
    length_bytes = min(length_bytes, source.size_bytes - image_offset)
    data = bytearray(length_bytes)
    try:
        source.read_into(image_offset, memoryview(data))
    except UnreadError:
        read_by_sector(source, image_offset, memoryview(data))
    return bytes(data)


def signature_of(head: bytes, trailer: bytes) -> Signature | None:
    """Identify the container format of a file by its first bytes and its last 512 bytes."""
    for signature in SIGNATURES:
        is_in_head = signature.head_offset is not None
        data, offset = (head, signature.head_offset) if is_in_head else (trailer, signature.trailer_offset)
        if data.startswith(signature.magic, offset):
            return signature
    return None


def is_text(head: bytes) -> bool:
    """Return whether the start of a file is text: UTF-8 without control characters except white space."""
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(head)  # a character may be cut off at the end
    except UnicodeDecodeError:
        return False
    return bool(text) and all(character.isprintable() or character.isspace() for character in text)


def udif_trailer_at(source: Source) -> int | None:
    """Find the trailer of an Apple disk image: at the end, at the start, or in the last 64 KiB.

    Copies that were padded to whole blocks, or joined with a fork of another file, have bytes after the trailer. A file
    that begins like a disk is treated as a disk, because the last file on a disk may be a disk image.
    """
    if trailer_of(source).startswith(UDIF_MAGIC):
        return source.size_bytes - TRAILER_BYTES
    head = peek(source)
    if head.startswith(UDIF_TRAILER):
        return 0
    if any(head.startswith(magic, offset) for offset, magic in DISK_MAGICS):
        return None
    start = max(0, source.size_bytes - UDIF_SEARCH_BYTES)
    found = peek(source, start, source.size_bytes - start).rfind(UDIF_TRAILER)
    return start + found if 0 <= found <= source.size_bytes - start - TRAILER_BYTES else None

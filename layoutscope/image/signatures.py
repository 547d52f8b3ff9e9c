"""Files that are not raw images: containers, archives, texts, and encrypted images, which are refused.

They are identified by content, not by name, so that a renamed file still gets the right advice.
"""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING, Final, NamedTuple

from layoutscope.errors import ImageError, UnsupportedError
from layoutscope.image.containers import asif, foreign, sparse, witness, wrappers
from layoutscope.image.containers.encrypted import PASSWORD_ADVICE
from layoutscope.image.containers.udif import SEARCH_BYTES
from layoutscope.image.source import peek, trailer_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from layoutscope.image.source import Source


class Signature(NamedTuple):
    """A container format, and the bytes that identify it."""

    name: str
    magic: bytes
    offset: int = 0  # of the magic; a negative one counts from the end of the file
    advice: str = "convert it to a raw image first"
    open: Callable[[Source], Source] | None = None  # opens the disk in it; None if it is not read
    code: str = "container"  # of the refusal


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
        "encrypted Apple disk image before Mac OS X 10.5", b"cdsaencr", -8, PASSWORD_ADVICE, code="encrypted-image"
    ),
    Signature("Apple sparse image of macOS 26 (ASIF)", b"shdw", open=asif.open_asif),
    Signature("Apple sparse image (.sparseimage)", b"sprs", open=sparse.open_sparse_image),
    Signature("Parallels disk (hdd)", b"WithoutFreeSpace", open=sparse.open_parallels),
    Signature("Parallels disk (hdd)", b"WithouFreSpacExt", open=sparse.open_parallels),
    Signature("QEMU image (qcow2)", b"QFI\xfb", open=foreign.open_qcow),
    Signature("VMware disk (vmdk)", b"KDMV", open=foreign.open_vmdk),
    Signature("VMware disk of ESX (COWD)", b"COWD", advice=_QEMU),
    Signature("VMware disk description (vmdk)", b"# Disk DescriptorFile", open=foreign.open_description),
    Signature("Hyper-V disk (vhdx)", b"vhdxfile", open=foreign.open_vhdx),
    # A fixed one is a raw image followed by this signature, and is read as a raw image.
    Signature("dynamic Virtual PC disk (vhd)", b"conectix", open=foreign.open_vhd),
    Signature("VirtualBox disk (vdi)", b"\x7f\x10\xda\xbe", 64, open=sparse.open_vdi),
    Signature("Expert Witness image (E01)", b"EVF\x09\x0d\x0a\xff\x00", open=witness.open_witness),
    Signature("Expert Witness image (L01)", b"LVF\x09\x0d\x0a\xff\x00", advice=_EWF),
    Signature("Expert Witness image (Ex01)", b"EVF2\x0d\x0a\x81\x00", advice=_EWF),
    Signature(
        "Advanced Forensic Format image (AFF)", b"AFF10\x0d\x0a\x00", advice="convert it with: affconvert -r IMAGE"
    ),
    Signature("AccessData image (AD1)", b"ADSEGMENTEDFILE\0", advice="export it with FTK Imager as a raw image"),
    Signature("raw CD sectors (.bin)", b"\0" + b"\xff" * 10 + b"\0", open=wrappers.open_disc),
    Signature("compressed disk (chd)", b"MComprHD", advice="convert it with: chdman extractraw -i IMAGE -o RAW"),
    Signature("Media Descriptor (mds)", b"MEDIA DESCRIPTOR", advice="open the .mdf file beside it"),
    Signature("QEMU image (qed)", b"QED\0", advice=_QEMU),
    Signature("Windows image (wim)", b"MSWIM\0\0\0", advice="unpack it with: wimapply"),
    Signature("partclone image", b"partclone-image", advice="restore it with: partclone.restore -C -s IMAGE -o RAW"),
    Signature("Apple encrypted archive (.aea)", b"AEA1", advice="unpack it with: ipsw fw aea IMAGE"),
    Signature("AppleSingle file", b"\x00\x05\x16\x00", open=wrappers.open_apple_single),
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
        length = min(SEARCH_BYTES, source.size_bytes)
        ends = head + peek(source, source.size_bytes - length, length)
        found = AFF4 if any(name in ends for name in AFF4_MEMBERS) else found
    if found is not None:
        raise UnsupportedError(
            f"{source.name}: is not a raw image but: {found.name}", code=found.code, advice=found.advice
        )
    if is_text(head):
        raise ImageError(f"{source.name}: is a text file, not a disk image")


def signature_of(head: bytes, trailer: bytes) -> Signature | None:
    """Identify the container format of a file by its first bytes and its last 512 bytes."""
    for signature in SIGNATURES:
        if (head if signature.offset >= 0 else trailer).startswith(signature.magic, signature.offset):
            return signature
    return None


def is_text(head: bytes) -> bool:
    """Return whether the start of a file is text: UTF-8 without control characters except white space."""
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(head)  # a character may be cut off at the end
    except UnicodeDecodeError:
        return False
    return bool(text) and all(character.isprintable() or character.isspace() for character in text)

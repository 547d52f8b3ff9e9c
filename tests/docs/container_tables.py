"""The table of docs/images.md: what a file may be, whether it is read, and what to do where it is not."""

from __future__ import annotations

from itertools import groupby

from layoutscope.image.signatures import AFF4, SIGNATURES

SPARSE_IMAGE = next(each for each in SIGNATURES if each.reader == "sparse-image")

FORMS = (
    ("raw image, device", "read", "a partition map or a volume", ""),
    ("raw image in parts", "read", "names with .001, .002 … or .aa, .ab …", ""),
    ("zstd, gzip, xz or bzip2 file", "read", "its first bytes; what it holds is looked at again", ""),
    ("Apple disk image (UDIF, .dmg)", "read", "its trailer: at the end, in the last 64 KiB, or at the start", ""),
    ("Apple disk image in segments (.dmgpart)", "named", "its trailer", SPARSE_IMAGE.advice),
    ("sparse bundle", "read", "a folder with bands/, Info.plist or Info.bckup", ""),
    ("encrypted Apple disk image", "read", "`encrcdsa` at byte 0; needs its password and the extra `crypto`", ""),
    (
        "encrypted Apple disk image before Mac OS X 10.5",
        "read",
        "`cdsaencr` at byte 504 of the last 512; needs its password and the extra `crypto`",
        "",
    ),
    ("encrypted sparse bundle", "read", "its file token; needs its password and the extra `crypto`", ""),
    ("Parallels disk (folder .hdd)", "read", "DiskDescriptor.xml; with snapshots or encrypted it is named", ""),
    ("fixed Virtual PC disk (vhd)", "read", "the disk in it: it is a raw image with a footer", ""),
    ("MacBinary file", "read", "its header and the checksum of that", ""),
    ("Disk Copy 4.2 image", "read", "its header and the length of the file", ""),
    ("IM4P file", "read", "a sequence in DER; a payload that is compressed or encrypted is named", ""),
    ("list of CD tracks (.cue)", "read", "the words FILE and TRACK; the file is in the same folder", ""),
    ("AFF4 image", "named", "container.description or information.turtle in a zip archive", AFF4.advice),
    ("GPT, Apple partition map, MBR", "read", "its entries", ""),
    ("member of an AppleRAID mirror", "read", "the header of a member, at its end or its start", ""),
    (
        "member of an AppleRAID stripe or concatenation",
        "named",
        "the header of a member; of the first member of a concatenation, what is there is read",
        "image the set's own device on a Mac that has all of its members",
    ),
    (
        "CoreStorage, FileVault 2",
        "read",
        (
            "the header of its physical volume; needs the extra `crypto`, and FileVault 2 its password; a logical "
            "volume in several pieces or on several disks is named"
        ),
        "",
    ),
    (
        "ext2 to ext4, XFS, btrfs, squashfs, NTFS, ReFS, exFAT, FAT, BitLocker, LUKS, Linux LVM, ISO 9660",
        "named",
        "its superblock or boot sector",
        "",
    ),
)
"""Other images, maps and volumes that are recognized, with what for and what to do where they are not read."""

CLASSIC = ("classic HFS", "named", "its master directory block", "read it with hfsutils")
STATES = ("read", "named", "refused")


def rows() -> list[tuple[str, str, str, str]]:
    """Return name, state, recognition and advice of each; signatures of one name are one row."""
    found = [*FORMS, CLASSIC]
    known = {name for name, *_ in FORMS}
    for name, same in groupby((each for each in SIGNATURES if each.name not in known), lambda each: each.name):
        each = list(same)
        where = " or ".join(map(_recognition, each))
        state = "read" if each[0].reader else "refused" if each[0].code == "encrypted-image" else "named"
        found.append((name, state, where, "" if state == "read" else each[0].advice))
    return sorted(found, key=lambda row: STATES.index(row[1]))


def _recognition(signature) -> str:
    text = signature.magic.rstrip(b"\0")
    shown = f"`{text.decode()}`" if text.isascii() and text.decode().isprintable() else f"`{signature.magic.hex(' ')}`"
    if signature.head_offset is None:
        return f"{shown} at byte {signature.trailer_offset} of the last 512"
    return f"{shown} at byte {signature.head_offset}"


def table() -> None:
    """Write the table."""
    print("| what | state | recognised by | advice |\n|---|---|---|---|")  # noqa: T201
    for name, state, recognition, advice in rows():
        # The search of the pages would lead "image" here.
        print(f"| {name.replace(' image', '')} | {state} | {recognition} | {advice} |")  # noqa: T201

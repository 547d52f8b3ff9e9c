"""CoreStorage and encrypted images: recognised, named with size and logical volume, and refused."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from layoutscope.errors import UnsupportedError
from layoutscope.image import MemorySource, open_image
from layoutscope.image.source import Window
from layoutscope.partition import choose, corestorage, find_volumes
from layoutscope.partition.corestorage import (
    LogicalVolume,
    PhysicalVolume,
    _parse_number,
    count_copies,
    read_physical_volume,
)

pytest.importorskip("cryptography")

from fixtures.apfs.checksum import crc32c
from fixtures.corestorage import (
    BLOCK_BYTES,
    CONTENT_BLOCK,
    FAMILY_OBJECT,
    LABEL_BLOCK,
    METADATA_BLOCK,
    UNIT_BYTES,
    PhysicalVolumePlan,
    physical_volume,
)
from fixtures.corestorage import _block as fixture_block
from fixtures.hfsplus.plan import VolumePlan
from fixtures.hfsplus.writer import render

GROUP = "ACC53457-40D1-417C-958A-DC6A04CFCBBB"


def refused(data):
    """Return the error of a scan of an image."""
    source = MemorySource(bytes(data), "disk.img")
    with pytest.raises(UnsupportedError) as caught:
        choose(source, find_volumes(source))
    assert "\n" not in str(caught.value)
    return caught.value


def test_volumes_are_named_as_they_are_encrypted():
    """Name, size and group come from the newest metadata block."""
    # Name, size and group come from the newest metadata block, which needs no password.
    error = refused(physical_volume(PhysicalVolumePlan()))
    assert error.code == "file-vault"
    assert f"FileVault 2 on CoreStorage of group {GROUP} (1.00 MiB)" in str(error)
    assert "group 'Group'; logical volume 'Macintosh HD' of 233 GiB, encrypted" in str(error)
    assert "unlockVolume" in error.advice
    # Keys that are not wrapped mean no FileVault, and other advice.
    error = refused(physical_volume(PhysicalVolumePlan(is_encrypted=False)))
    assert error.code == "core-storage"
    assert "'Macintosh HD' of 233 GiB, not encrypted" in str(error)
    assert "FileVault" not in str(error)
    assert "unlock" not in error.advice
    # Control characters in a volume's name are escaped.
    error = refused(physical_volume(PhysicalVolumePlan(name="a\x1b[31m\n\u202eb")))
    assert r"'a\x1b[31m\n\u202eb'" in str(error)


@pytest.mark.parametrize(("has_bitmap", "code"), [(True, "file-vault"), (False, "core-storage")])
def test_system_volumes_are_told_by_their_bitmap(has_bitmap, code):
    """If the key block is wiped, a block that only encrypted volumes have decides; otherwise it is unknown."""
    error = refused(physical_volume(PhysicalVolumePlan(is_encrypted=None, has_bitmap=has_bitmap)))
    assert error.code == code
    assert ("which may be encrypted" in str(error)) != has_bitmap


def test_what_cannot_be_read_is_said(monkeypatch):
    """Without AES, with lost metadata, with equal keys, or without a volume, the refusal gives only that reason."""
    lost = physical_volume(PhysicalVolumePlan())
    start = METADATA_BLOCK * 4096
    lost[start : start + (1 << 16)] = b"\x55" * (1 << 16)
    for data in (lost, physical_volume(PhysicalVolumePlan(equal_keys=True)), physical_volume(PhysicalVolumePlan(""))):
        error = refused(data)
        assert "name and size of its logical volume are unknown" in str(error) or data is not lost
        assert "group 'Group'" in str(error)
    # Two equal keys open the metadata as others do. Here it is not encrypted, so both copies decrypt to noise.
    equal = MemorySource(bytes(physical_volume(PhysicalVolumePlan(equal_keys=True))), "disk.img")
    messages = [finding.message for finding in find_volumes(equal).findings]
    assert messages == 2 * ["this copy of the metadata holds no block about a logical volume"]
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers", None)
    error = refused(physical_volume(PhysicalVolumePlan()))
    assert "need the package cryptography" in str(error)
    assert error.code == "core-storage"


def label_with(place: int, at: int, data: bytes) -> bytearray:
    """Return a volume with copies of its label at blocks 1 and 8; some bytes of one copy are replaced."""
    volume = physical_volume(PhysicalVolumePlan())
    label = bytes(volume[LABEL_BLOCK * BLOCK_BYTES :][: 4 * BLOCK_BYTES])
    volume[8 * BLOCK_BYTES : 8 * BLOCK_BYTES + len(label)] = label
    volume[place * BLOCK_BYTES + at : place * BLOCK_BYTES + at + len(data)] = data
    return volume


@pytest.mark.parametrize(
    ("at", "data"),
    [
        (10, b"\x12\0"),  # a block of another type
        (64, b"\xff\xff\xff\xff"),  # a label of 4 GiB
        (16, b"\xff" * 7),  # whole except for its transaction, which would be the newest
    ],
)
@pytest.mark.parametrize("place", [1, 8])
def test_a_damaged_label_is_passed_over_for_its_copy(place, at, data):
    """Type is at byte 10 of the label, transaction at 16, length at 64; group and volume are named all the same."""
    error = refused(label_with(place, at, data))
    assert "group 'Group'; logical volume 'Macintosh HD' of 233 GiB, encrypted" in str(error)


@pytest.mark.parametrize("place", [1, 8])
def test_a_whole_label_is_taken_before_a_newer_one(place):
    """The newer label has a wrong checksum and says that its property list (byte 224) begins with the label."""
    volume = label_with(place, 16, b"\xff" * 7)
    volume[place * BLOCK_BYTES + 224 : place * BLOCK_BYTES + 228] = bytes(4)
    assert "group 'Group'" in str(refused(volume))


def test_labels_and_copies_that_are_none():
    """Other blocks are not labels, and copies that were never written give a finding."""
    # Neither copy has a valid checksum; the one of another type is not used, although it seems newer.
    volume = label_with(8, 200, b"\1")
    volume[LABEL_BLOCK * BLOCK_BYTES + 10] = 0x12
    volume[LABEL_BLOCK * BLOCK_BYTES + 16 : LABEL_BLOCK * BLOCK_BYTES + 23] = b"\xff" * 7
    text_at = LABEL_BLOCK * BLOCK_BYTES + 8192
    volume[text_at : text_at + 8192] = bytes(8192)
    assert "group 'Group'" in str(refused(volume))
    data = physical_volume(PhysicalVolumePlan())
    data[FIRST : FIRST + COPY_BYTES] = bytes(COPY_BYTES)
    found, told = opened(data)
    assert [item.name for item in found.logical_volumes] == ["Macintosh HD"]
    assert told == [("structure-invalid", "warning", FIRST)]


@pytest.mark.parametrize(("length", "is_label"), [(8 << 20, True), ((8 << 20) + 1, False)])
def test_a_label_has_at_most_eight_mib(length, is_label):
    """Its length is in bytes 64 to 67; without a label, the group is unknown."""
    volume = physical_volume(PhysicalVolumePlan())
    at = LABEL_BLOCK * BLOCK_BYTES + 64
    volume[at : at + 4] = length.to_bytes(4, "little")
    assert ("group 'Group'" in str(refused(volume))) == is_label


def test_what_is_named_of_a_group():
    """Eight volumes are named, and whole copies counted."""
    # The ninth is left out, and a group without a name is not mentioned.
    volumes = tuple(LogicalVolume(f"v{number}", 1 << 20, is_encrypted=False) for number in range(9))
    assert PhysicalVolume("", logical_volumes=volumes).about == "; ".join(
        f"logical volume 'v{number}' of 1.00 MiB, not encrypted" for number in range(8)
    )
    # There are two headers and one of four possible labels; nothing counts without a whole first sector.
    sound = physical_volume(PhysicalVolumePlan())

    def count(data):
        return count_copies(Window(MemorySource(bytes(data)), 0, len(data)))

    assert count(sound) == 3
    assert count(changed(sound, -512 + 400)) == 2
    assert count(changed(sound, LABEL_BLOCK * BLOCK_BYTES + 100)) == 2
    assert count(label_with(8, 0, b"")) == 4
    assert count(changed(sound, 400)) == 0
    assert count(bytes(len(sound))) == 0


def test_damage_anywhere_is_no_other_error(monkeypatch):
    """If any number of the header, label or descriptor is extreme, the refusal is still the same kind of error."""
    # The same metadata are verified hundreds of times.
    real = corestorage.crc32c
    checksums = cache(lambda data, length: real(np.frombuffer(data, np.uint8).reshape(-1, length)))
    monkeypatch.setattr(corestorage, "crc32c", lambda blocks: checksums(blocks.tobytes(), blocks.shape[1]))
    sound = physical_volume(PhysicalVolumePlan(), 1 << 18)
    for at in (*range(88, 136, 2), *range(4096, 4096 + 240, 4), *range(4096 + 8192, 4096 + 8192 + 48, 4)):
        for value in (0, 0xFF):
            data = bytearray(sound)
            data[at : at + 4] = bytes([value]) * 4
            source = MemorySource(bytes(data), "disk.img")
            assert find_volumes(source).candidates


def encrypted_header(size_bytes):
    """Write the header of an encrypted image: dmg2john's cencrypted_v2_header, big-endian."""
    words = (2, 16, 5, 0x80000001, 256, 91, 160)
    data = b"encrcdsa" + b"".join(word.to_bytes(4, "big") for word in words) + bytes(16)
    return data + (512).to_bytes(4, "big") + size_bytes.to_bytes(8, "big") + (122880).to_bytes(8, "big")


def test_encrypted_images_and_bundles_are_named_with_their_size(tmp_path):
    """FileVault 1 encrypts homes so: the header has the size of the disk inside."""
    path = tmp_path / "jo.sparseimage"
    path.write_bytes(encrypted_header(40 * 2**30) + bytes(1 << 16))
    with pytest.raises(UnsupportedError, match=r"encrypted disk image of 40\.0 GiB \(AES-256\).*FileVault 1") as caught:
        open_image(path)
    assert caught.value.code == "encrypted-image"
    assert "hdiutil" in caught.value.advice
    import plistlib

    folder = tmp_path / "jo.sparsebundle"
    (folder / "bands").mkdir(parents=True)
    (folder / "Info.plist").write_bytes(plistlib.dumps({"size": 2**34, "band-size": 2**23}))
    (folder / "token").write_bytes(encrypted_header(0))
    with pytest.raises(UnsupportedError, match=r"encrypted sparse bundle of 16\.0 GiB \(AES-256\)") as caught:
        open_image(folder)
    assert caught.value.code == "encrypted-image"


def with_volume_header(data, *, has_copy):
    """Write an HFS+ volume that fills an image over it: only its header at byte 1,024, or its copy as well."""
    volume = bytes(render(VolumePlan(total_blocks=len(data) // 4096))[0].to_bytearray())
    places = (1024, len(data) - 1024) if has_copy else (1024,)
    for place in places:
        data[place : place + 512] = volume[place : place + 512]
    return data


@pytest.mark.parametrize("plan", [PhysicalVolumePlan(), PhysicalVolumePlan(is_encrypted=False)])
def test_a_header_that_was_left_from_before_does_not_win(plan):
    """The first sector of a physical volume does not overlap it, and no other structure of that volume is there."""
    before = refused(physical_volume(plan))
    after = refused(with_volume_header(physical_volume(plan), has_copy=False))
    assert (after.code, str(after)) == (before.code, str(before))


def test_leftovers_of_other_volumes():
    """A header and its copy together win."""
    # Its copy is not in the last sector, so the copy of the physical volume's header remains.
    data = with_volume_header(physical_volume(PhysicalVolumePlan()), has_copy=True)
    assert [item.kind for item in find_volumes(MemorySource(bytes(data))).candidates] == ["hfsplus"]
    # One leftover sector is weaker evidence than the volume's own header and what it leads to.
    volume = render(VolumePlan(total_blocks=256))[0].to_bytearray()
    volume[:512] = physical_volume(PhysicalVolumePlan())[:512]
    volume[-1024:-512] = bytes(512)
    assert [item.kind for item in find_volumes(MemorySource(bytes(volume))).candidates] == ["hfsplus"]


@pytest.mark.parametrize(
    ("text", "number"),
    [("0x10", 16), ("10", 10), ("0xfF", 255), ("ff", 0), ("", 0), ("0x", 0), ("1" * 17, 0), ("-1", 0)],
)
def test_numbers_of_property_lists(text, number):
    """A prefix marks hexadecimal numbers, others are decimal; they have up to 16 digits."""
    assert _parse_number(text) == number


BEFORE = 4096
"""Bytes of another partition in front of the physical volume."""


def opened(data, *, size=None, is_lost=False):
    """Read a physical volume after another partition; return its findings without messages, or None."""
    source = MemorySource(bytes(BEFORE) + bytes(data))
    found = read_physical_volume(Window(source, BEFORE, len(data) if size is None else size), is_lost=is_lost)
    told = [] if found is None else [(item.code, item.level, item.image_offset - BEFORE) for item in found.findings]
    return found, told


def changed(data, *places):
    """Return a copy with the lowest bit of some bytes inverted."""
    copy = bytearray(data)
    for place in places:
        copy[place] ^= 1
    return copy


def test_a_header_is_replaced_by_its_copy_in_the_last_sector():
    """Byte 400 is in its key; if both are damaged, the first is used, and its checksum is reported."""
    sound = physical_volume(PhysicalVolumePlan())
    for damaged, codes in (
        (sound, []),
        (changed(sound, -512 + 400), []),
        (changed(sound, 400), [("structure-invalid", "warning", 0)]),
        (changed(sound, 400, -512 + 400), [("checksum-mismatch", "warning", 0)]),
    ):
        found, told = opened(damaged)
        assert told == codes
        assert found.group == GROUP
        assert found.logical_volumes[0].name == "Macintosh HD"
    finding = found.findings[0]
    stored, computed = crc32c(bytes(sound[8:512])), crc32c(bytes(changed(sound, 400)[8:512]))
    assert (finding.found, finding.expected) == (f"{stored:#010x}", f"{computed:#010x}")
    sound = physical_volume(PhysicalVolumePlan())
    lost = bytes(512) + sound[512:]
    assert opened(lost) == (None, [])
    found, told = opened(lost, is_lost=True)
    assert (found.group, told) == (GROUP, [("structure-invalid", "warning", 0)])
    assert opened(changed(lost, -512 + 400), is_lost=True) == (None, [])


@pytest.mark.parametrize(
    ("size", "is_header", "is_copy"), [(511, False, False), (512, True, False), (1024, True, True)]
)
def test_header_and_copy_are_two_sectors(size, is_header, is_copy):
    """A single sector is the header, not a copy of itself."""
    header = physical_volume(PhysicalVolumePlan())[:512]
    data = bytes(header + header)[:size]
    found, told = opened(data)
    assert (found is not None, told) == (is_header, [])
    assert (opened(data, is_lost=True)[0] is not None) == is_copy
    damaged = changed(data, 400)
    assert opened(damaged)[1] == [("structure-invalid" if is_copy else "checksum-mismatch", "warning", 0)] * is_header


FIRST = METADATA_BLOCK * BLOCK_BYTES
"""First copy of the metadata: a block of zeros, the volume's older and newer block, the keys."""

COPY_BYTES = 4 * UNIT_BYTES


@pytest.mark.parametrize(
    ("places", "name", "told"),
    [
        ([], "Macintosh HD", []),
        ([FIRST + 2 * UNIT_BYTES + 99], "Macintosh HD", [("checksum-mismatch", FIRST + 2 * UNIT_BYTES)]),
        ([FIRST + COPY_BYTES + 2 * UNIT_BYTES + 99], "Macintosh HD", []),
        (
            [FIRST + UNIT_BYTES + 99, FIRST + 2 * UNIT_BYTES + 99, FIRST + COPY_BYTES + 3 * UNIT_BYTES + 99],
            "Macintosh HD",
            [("checksum-mismatch", FIRST + UNIT_BYTES), ("checksum-mismatch", FIRST + COPY_BYTES + 3 * UNIT_BYTES)],
        ),
        (
            [FIRST + 2 * UNIT_BYTES + 99, FIRST + COPY_BYTES + 2 * UNIT_BYTES + 99],
            "old Macintosh HD",
            [
                ("checksum-mismatch", FIRST + 2 * UNIT_BYTES),
                ("checksum-mismatch", FIRST + COPY_BYTES + 2 * UNIT_BYTES),
            ],
        ),
    ],
)
def test_blocks_of_both_copies_of_the_metadata_are_used(places, name, told):
    """A changed byte affects 16 bytes of its 8,192-byte block; a whole first copy is sufficient."""
    found, findings = opened(changed(physical_volume(PhysicalVolumePlan()), *places))
    assert [item.name for item in found.logical_volumes] == [name]
    assert [(code, place) for code, _, place in findings] == told
    counts = [item.message.partition(" ")[0] for item in found.findings]
    assert counts == (["2", "1"] if len(places) == 3 else ["1"] * len(told))


@pytest.mark.parametrize(("blocks", "is_inside"), [(CONTENT_BLOCK, False), (CONTENT_BLOCK + 1, True)])
def test_a_logical_volume_begins_inside_of_its_physical_volume(blocks, is_inside):
    """At block 256 the space ends, or one block later. Its size is that of the metadata."""
    plan = PhysicalVolumePlan(content=bytes(4 * BLOCK_BYTES), is_encrypted=False)
    found, _ = opened(physical_volume(plan), size=blocks * BLOCK_BYTES)
    (volume,) = found.logical_volumes
    assert volume.volume_offset == (CONTENT_BLOCK * BLOCK_BYTES if is_inside else None)
    assert (volume.reason == "which is outside of this physical volume") != is_inside
    assert (volume.size_bytes, volume.is_encrypted) == (4 * BLOCK_BYTES, False)


@pytest.mark.parametrize(
    ("extents", "place", "reason"),
    [
        (((0, 4, 300),), 300, ""),
        (((2, 2, 302), (0, 2, 300)), 300, ""),  # in any order
        (((0, 3, 300),), None, "of which only 12.0 KiB have a place"),
        (((0, 5, 300),), 300, ""),
        (((0, 2, 300), (3, 1, 303)), None, "which is in 2 pieces"),
        (((0, 2, 300), (2, 2, 303)), None, "which is in 2 pieces"),
        (((1, 3, 300),), None, "which is in 1 piece"),
    ],
)
def test_pieces_of_a_logical_volume(extents, place, reason):
    """It has four blocks of 4,096 bytes."""
    plan = PhysicalVolumePlan(content=bytes(4 * BLOCK_BYTES), is_encrypted=False)
    (volume,) = opened(physical_volume(replace(plan, extents=extents)))[0].logical_volumes
    assert (volume.volume_offset, volume.reason) == (None if place is None else place * BLOCK_BYTES, reason)


@pytest.mark.parametrize(("place", "name"), [(8, "old Macintosh HD"), (48, "old Macintosh HD"), (52, "Macintosh HD")])
def test_blocks_of_another_version_or_length_are_none(monkeypatch, place, name):
    """Version 1 is at byte 8, length at 48, flags at 52; with other values, the volume's newer block is invalid."""

    def write_block(block_type, object_id, body, transaction=1):
        block = fixture_block(block_type, object_id, body, transaction)
        if transaction == 9:
            block = block[:place] + bytes([block[place] ^ 2]) + block[place + 1 :]
        return crc32c(block[8:]).to_bytes(4, "little") + block[4:]

    monkeypatch.setattr("fixtures.corestorage._block", write_block)
    found, told = opened(physical_volume(PhysicalVolumePlan()))
    assert ([item.name for item in found.logical_volumes], told) == ([name], [])


@pytest.mark.parametrize("blocks", [[], [fixture_block(0x24, FAMILY_OBJECT, bytes(512))]])
def test_a_volume_without_its_family_may_be_encrypted(monkeypatch, blocks):
    """No block has its number, or only one of another type: 24 is a continued text."""
    monkeypatch.setattr("fixtures.corestorage._family", lambda _: blocks)
    found, told = opened(physical_volume(PhysicalVolumePlan()))
    (volume,) = found.logical_volumes
    assert (volume.name, volume.is_encrypted, volume.keys, told) == ("Macintosh HD", None, b"", [])

"""Logical volumes of CoreStorage: read in place if unencrypted, and with a password under FileVault 2.

What is written here follows the same description as the reader; tests/images/test_partitions.py holds it
against a volume that macOS made.
"""

from __future__ import annotations

import functools

import numpy as np
import pytest

pytest.importorskip("cryptography")

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from fixtures.apfs.checksum import crc32c
from fixtures.corestorage import (
    BLOCK_BYTES,
    CONTENT_BLOCK,
    METADATA_BLOCK,
    METADATA_KEY,
    OWN_ID,
    PASSWORD,
    RECOVERY,
    UNIT_BYTES,
    PhysicalVolumePlan,
    key_file,
    keys_text,
    physical_volume,
)
from fixtures.hfsplus.plan import File, Folder, Fork, Tree, VolumePlan
from fixtures.hfsplus.scenarios import folders
from fixtures.hfsplus.writer import render
from layoutscope import check, extract, read_layouts, scan, verify
from layoutscope.errors import FormatError, LayoutscopeError, LockedError, UnsupportedError
from layoutscope.image.crypto import UnlockedSource
from layoutscope.image.failing import RescuedSource
from layoutscope.image.source import MemorySource
from layoutscope.partition import find_volumes
from layoutscope.partition.filevault import unlock_volumes
from tests.cases import for_each
from tests.unit.partition.builders import CORE_STORAGE, HFS, gpt_disk, gpt_entry

MIB = 1 << 20
START = CONTENT_BLOCK * BLOCK_BYTES
WRONG = PASSWORD + "!"


@functools.cache
def hfsplus(*extra) -> bytes:
    """Write a small volume of whole CoreStorage blocks."""
    plan = VolumePlan(
        block_size=512, total_blocks=800, root=(*folders(3, 8, 300), *extra), catalog=Tree(512), attributes=None,
        extents_overflow=Tree(512),
    )  # fmt: skip
    return bytes(render(plan)[0].to_bytearray())


def plan_of(**changes) -> PhysicalVolumePlan:
    return PhysicalVolumePlan(**({"content": hfsplus()} | changes))


@pytest.fixture
def written(tmp_path):
    """Return a function that writes a physical volume that fills an image."""

    def write(data):
        path = tmp_path / "disk.img"
        path.write_bytes(bytes(data))
        return path

    return write


@pytest.fixture
def bare(tmp_path):
    """Return the layout of the volume alone."""
    path = tmp_path / "bare.img"
    path.write_bytes(hfsplus())
    (layout,) = read_layouts(path)
    return layout


def assert_same(layout, bare, start: int) -> None:
    """Every table equals that of the volume alone, with addresses shifted to the logical volume's place."""
    for name in ("nodes", "extents", "regions", "free", "entries"):
        ours, theirs = layout.table(name), bare.table(name)
        if "image_offset" in theirs.columns:
            theirs = theirs.with_columns(theirs["image_offset"] + start)
        assert ours.equals(theirs), name
    assert layout.facts.image_offset == start
    assert layout.num_errors == 0


@pytest.mark.parametrize("changes", [{}, {"base_block": 64}, {"text": "compressed"}, {"text": "continued"}])
@pytest.mark.parametrize("secret", ["", PASSWORD, RECOVERY])
def test_a_logical_volume_is_read_like_a_partition(written, bare, changes, secret):
    """Unencrypted, or with the password of a user or the recovery key, nodes are at their places."""
    path = written(physical_volume(plan_of(is_encrypted=bool(secret), **changes)))
    (layout,) = read_layouts(path, **({"password": secret} if secret else {}))
    assert_same(layout, bare, START)
    around = "FileVault 2 on CoreStorage" if secret else "CoreStorage"
    assert layout.facts.stack == (around, "logical volume 'Macintosh HD'", "HFS+")


def test_passwords_are_taken_and_asked_for(written):
    """The password reaches every verb, and no other partition."""
    # The password reaches every verb that opens the image again.
    path = written(physical_volume(plan_of()))
    assert check(path, password=PASSWORD).exit_code == 0
    assert verify(path, password=PASSWORD).exit_code == 0
    # The volume fills the image, so it is in no partition.
    source = MemorySource(bytes(physical_volume(plan_of())))
    candidates = find_volumes(source).candidates
    assert unlock_volumes(source, candidates, PASSWORD) is not None
    assert unlock_volumes(source, candidates, PASSWORD, partition=3) is None
    # The error has its name, size and what opens it; a wrong password is a different error.
    path = written(physical_volume(plan_of()))
    with pytest.raises(UnsupportedError, match="'Macintosh HD' of 400 KiB, encrypted") as caught:
        read_layouts(path)
    assert caught.value.code == "file-vault"
    assert "--password" in caught.value.advice
    with pytest.raises(LockedError, match="the password does not open"):
        read_layouts(path, password=WRONG)


NOT_READ = {
    "which is in 2 pieces": {"extents": ((0, 50, 256), (50, 50, 400))},
    "which is spread over 2 physical volumes": {"physical_volumes": 2},
    "which is encrypted or decrypted in part": {"status": "Converting"},
    "of which only 40.0 KiB have a place": {"extents": ((0, 10, 256),)},
}


@for_each("words", NOT_READ)
def test_what_is_not_read_is_said(written, words):
    """If nothing can be read correctly, the volume is refused with the reason, with and without a password."""
    path = written(physical_volume(plan_of(**NOT_READ[words])))
    for options in ({}, {"password": PASSWORD}):
        with pytest.raises(UnsupportedError, match=words):
            read_layouts(path, **options)


def changed(data: bytearray, kind: int, at: int, new: bytes) -> bytearray:
    """Change bytes in every metadata block of a type, in both copies, with a corrected checksum."""
    data = bytearray(data)
    descriptor = BLOCK_BYTES + UNIT_BYTES
    count = int.from_bytes(data[descriptor + 8 :][:8], "little") * BLOCK_BYTES // UNIT_BYTES
    for copy in range(2):
        for number in range(1, count):
            start = METADATA_BLOCK * BLOCK_BYTES + (copy * count + number) * UNIT_BYTES
            mode = modes.XTS(number.to_bytes(16, "little"))
            cipher = Cipher(algorithms.AES(METADATA_KEY + OWN_ID), mode)
            block = bytearray(cipher.decryptor().update(bytes(data[start : start + UNIT_BYTES])))
            if int.from_bytes(block[10:12], "little") == kind:
                block[at : at + len(new)] = new
                block[:4] = crc32c(bytes(block[8:])).to_bytes(4, "little")
                data[start : start + UNIT_BYTES] = cipher.encryptor().update(bytes(block))
    return data


DISK_START = 2048 * 512


def system_disk(*, with_keys: bool = True, password_file: bytes | None = None) -> bytes:
    """Write a Mac's startup disk: the keys of the first partition are in a file on the second one."""
    plan = plan_of(is_encrypted=None, has_bitmap=True)
    volume = physical_volume(plan)
    keys = File("EncryptedRoot.plist.wipekey", Fork(content=password_file or key_file(plan), pieces=2))
    recovery = hfsplus(Folder("com.apple.boot.S", (keys,))) if with_keys else hfsplus()
    sectors, second = len(volume) // 512, len(recovery) // 512
    entries = [
        gpt_entry(CORE_STORAGE, 2048, 2047 + sectors, "Macintosh HD"),
        gpt_entry(HFS, 2048 + sectors, 2047 + sectors + second, "Recovery HD"),
    ]
    disk = gpt_disk(DISK_START + len(volume) + len(recovery) + MIB, entries)
    disk.put(DISK_START, bytes(volume)).put(DISK_START + len(volume), recovery)
    return bytes(disk.data)


def test_keys_of_a_system_volume_are_found_on_recovery_hd(written, bare):
    """The partition list shows CoreStorage, its logical volume and the encryption, locked or not."""
    path = written(system_disk())
    first, second = read_layouts(path, password=PASSWORD)
    assert_same(first, bare, DISK_START + START)
    assert second.facts.name == "Fixture" or second.facts.stack[1] == "partition 2"
    opened, locked = scan(path, password=PASSWORD, drives=()), scan(path, drives=())
    told = [item.image.partitions[0] for item in (opened, locked)]
    assert told[0].content == "FileVault 2 on CoreStorage > logical volume 'Macintosh HD' > HFS+"
    assert "logical volume 'Macintosh HD' of 400 KiB, encrypted" in told[1].content
    assert [item.is_encrypted for item in told] == [True, True]
    assert len(locked.volumes) == 1
    with pytest.raises(LockedError):
        read_layouts(path, password=WRONG)
    assert len(read_layouts(path, password=WRONG, partition=2)) == 1
    # It need not start like a property list; it is encrypted as one unit with the metadata key and a zero key.
    text = keys_text(plan_of(is_encrypted=None)).encode()
    worker = Cipher(algorithms.AES(METADATA_KEY + bytes(16)), modes.XTS(bytes(16))).encryptor()
    first, _ = read_layouts(written(system_disk(password_file=worker.update(text))), password=PASSWORD)
    assert_same(first, bare, DISK_START + START)


@pytest.mark.parametrize(
    "options",
    [{"with_keys": False}, *({"password_file": data} for data in (b"no keys" * 100, b"a", b"15 bytes of keys"[:15]))],
)
def test_keys_that_are_nowhere_are_said_to_be_missing(written, options):
    """If no key was tried, no password is called wrong; the partition is named, with the place of keys."""
    result = scan(written(system_disk(**options)), password=PASSWORD, drives=())
    assert len(result.volumes) == 1
    assert "EncryptedRoot.plist.wipekey on Recovery HD" in result.image.partitions[0].content


def test_a_file_of_keys_is_not_read_with_two_keys_of_zeros(written, monkeypatch):
    """Its second key is zeros, and AES-XTS refuses equal keys; the header may have a zero first key."""
    monkeypatch.setattr("fixtures.corestorage.METADATA_KEY", bytes(16))
    disk = written(system_disk(password_file=b"no keys" * 100))
    assert len(scan(disk, password=PASSWORD, drives=()).volumes) == 1


def test_damage_is_survived_or_refused(written):
    """Copies are used; rounds, places and loops end."""
    # The copy at the end of the logical volume defines its end, as in a partition.
    content = bytearray(hfsplus())
    content[1024:1536] = bytes(512)
    path = written(physical_volume(plan_of(content=bytes(content))))
    (layout,) = read_layouts(path, password=PASSWORD)
    assert layout.facts.image_offset == START
    assert layout.facts.num_files == 24
    # A number of rounds that would take minutes is reported with the partition's address, not computed.
    path = written(physical_volume(plan_of(rounds=2**32 - 1)))
    with pytest.raises(FormatError, match=r"byte 0.*8,589,934,590 rounds"):
        read_layouts(path, password=PASSWORD)
    data = physical_volume(plan_of())
    with pytest.raises(UnsupportedError, match="is outside"):
        read_layouts(written(changed(data, 0x305, 64 + 8 + 32, (1 << 40).to_bytes(6, "little"))), password=PASSWORD)
    # The chain of blocks of a text is followed only once.
    data = physical_volume(plan_of(text="continued"))
    looped = changed(data, 0x24, 64, (0xE).to_bytes(8, "little"))
    assert find_volumes(MemorySource(bytes(looped))).candidates[0].kind == "filevault"


def refused(path) -> str:
    """Read with the password; return the error message, if any."""
    try:
        read_layouts(path, password=PASSWORD)
    except LayoutscopeError as error:
        return str(error)
    return ""


def test_a_text_that_unpacks_to_more_than_any_is_cut(written, monkeypatch):
    """Data beyond the limit is not decompressed, so keys there are not found."""
    path = written(physical_volume(plan_of(text="compressed")))
    monkeypatch.setattr("layoutscope.partition.corestorage.MAX_TEXT_BYTES", 64)
    with pytest.raises(UnsupportedError, match="may be encrypted"):
        read_layouts(path, password=PASSWORD)


def test_a_file_of_keys_larger_than_any_is_not_read(written, monkeypatch):
    """The volume stays locked, as without such a file."""
    path = written(system_disk())
    assert len(read_layouts(path, password=PASSWORD)) == 2
    monkeypatch.setattr("layoutscope.partition.filevault.MAX_KEY_FILE_BYTES", 100)
    assert len(read_layouts(path, password=PASSWORD)) == 1


def test_what_is_extracted_opens_with_the_same_password(written, bare, tmp_path):
    """Metadata is kept encrypted in place, and the structures that lead to it are kept too."""
    path = written(physical_volume(plan_of()))
    extract(path, tmp_path / "metadata.img", password=PASSWORD)
    (layout,) = read_layouts(tmp_path / "metadata.img", password=PASSWORD)
    assert_same(layout, bare, START)


HOSTILE = {0x19: range(64, 128, 4), 0x1A: range(64, 144, 4), 0x305: range(64, 112, 4), 0x24: range(64, 80, 4)}


@for_each("kind, value", [(kind, value) for kind in HOSTILE for value in (b"\xff\xff\xff\x7f", b"\x01\0\0\x80")])
def test_extreme_numbers_end_in_one_line(written, kind, value):
    """If any number of a block is extreme, with a corrected checksum, the volume is read or refused by name."""
    data = physical_volume(plan_of(text="continued", base_block=64))
    for at in list(HOSTILE[kind])[value[0] == 1 :: 2]:
        assert "\n" not in refused(written(changed(data, kind, at, value)))


STRETCH = 3 * 512, 20 * 512


@pytest.fixture
def plain():
    """Return 16 KiB, part of which is to be encrypted."""
    return np.random.default_rng(1).integers(0, 256, 1 << 14, np.uint8).tobytes()


def stored(plain: bytes) -> bytes:
    """Encrypt the part sector by sector with another program's XTS."""
    start, length = STRETCH
    sectors = [plain[start + number * 512 :][:512] for number in range(length // 512)]
    cipher = b"".join(
        Cipher(algorithms.AES(bytes(range(32))), modes.XTS(number.to_bytes(16, "little"))).encryptor().update(sector)
        for number, sector in enumerate(sectors)
    )
    return plain[:start] + cipher + plain[start + length :]


def test_ranges_read_as_the_plain_text(plain):
    """Any ranges and pieces are decrypted in their places."""
    # Ranges of every alignment are inside, across and around the encrypted part, in one read or in many.
    source = UnlockedSource(MemorySource(stored(plain)), [(*STRETCH, bytes(range(32)))])
    rng = np.random.default_rng(2)
    starts = rng.integers(0, len(plain), 300)
    lengths = np.array([rng.integers(0, len(plain) - start + 1) for start in starts.tolist()])
    for start, length in zip(starts.tolist(), lengths.tolist(), strict=True):
        assert source.read(start, length) == plain[start : start + length]
    want = b"".join(plain[s : s + n] for s, n in zip(starts.tolist(), lengths.tolist(), strict=True))
    assert source.read_extents(starts, lengths).tobytes() == want
    # Whole units are read at once, partial and crossing pieces one by one; each is in its place of the buffer.
    source = UnlockedSource(MemorySource(stored(plain)), [(*STRETCH, bytes(range(32)))])
    rng = np.random.default_rng(3)
    starts = np.concatenate([rng.integers(0, 30, 600) * 512, rng.integers(0, 1 << 13, 20)])
    lengths = np.concatenate([rng.integers(0, 3, 600) * 512, rng.integers(0, 1 << 13, 20)])
    order = rng.permutation(len(starts))
    places = np.empty(len(starts), np.int64)
    places[order] = np.cumsum(lengths[order]) - lengths[order]
    target = bytearray(int(lengths.sum()))
    source.read_pieces(starts, lengths, places, memoryview(target))
    for start, length, place in zip(starts.tolist(), lengths.tolist(), places.tolist(), strict=True):
        assert target[place : place + length] == plain[start : start + length]


def test_what_is_not_stored_is_not_decrypted(plain):
    """Unread areas stay zeros, and the encrypted part has no holes."""
    # Zeros of an unread area are not decrypted.
    unread = np.array([[5 * 512, 512]])
    below = RescuedSource(MemorySource(stored(plain)), unread)
    source = UnlockedSource(below, [(*STRETCH, bytes(range(32)))])
    target = bytearray(4 * 512)
    source.read_into(4 * 512, memoryview(target))
    assert bytes(target) == plain[4 * 512 : 5 * 512] + bytes(512) + plain[6 * 512 : 8 * 512]
    assert source.unread_ranges().tolist() == unread.tolist()

    # Holes of a sparse file read as zeros only outside the encrypted part.
    class Sparse(MemorySource):
        holes = np.array([[0, 4 * 512], [30 * 512, 512]])

    source = UnlockedSource(Sparse(stored(plain)), [(*STRETCH, bytes(range(32)))])
    assert source.holes.tolist() == [[0, 3 * 512], [30 * 512, 512]]

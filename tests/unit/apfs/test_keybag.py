"""Key bags: entries, the DER of wrapped keys, and the number of PBKDF2 rounds spent on them.

The bytes are written by hand after ``media_keybag_t`` and ITU-T X.690; iterations are counted in the test.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from types import SimpleNamespace

import pytest

from layoutscope.errors import FormatError
from layoutscope.filesystems.apfs import keybag
from layoutscope.filesystems.apfs.container import open_container
from layoutscope.findings import FindingLog
from layoutscope.image import open_image
from tests.unit.apfs.toys import BLOCK, store_of

OWN, OTHER = bytes(range(16)), bytes(range(16, 32))
VOLUME_KEY, UNLOCK_RECORDS = 2, 3
PREFIX = bytes.fromhex("011620171505")
SALT = b"saltsalt"


def der(tag: int, body: bytes) -> bytes:
    """Write a value of less than 128 bytes, or of less than 256."""
    return bytes([tag, len(body)] if len(body) < 128 else [tag, 0x81, len(body)]) + body


def record(iterations: bytes = b"\x01\x86\xa0", flags: int = 0) -> bytes:
    """Write a wrapped key with its digest; 0x0186A0 are 100,000 rounds."""
    body = der(0x80, b"\0") + der(0x81, OWN) + der(0x82, struct.pack("<II", flags, 1)) + der(0x83, bytes(40))
    inner = der(0xA3, body + der(0x84, iterations) + der(0x85, b"pepper"))
    digest = hmac.new(hashlib.sha256(PREFIX + SALT).digest(), inner, "sha256").digest()
    return der(0x30, der(0x80, b"\0") + der(0x81, digest) + der(0x82, SALT) + inner)


def test_values_and_entries_have_their_lengths():
    """Lengths of DER have one to three bytes, entries begin at multiples of 16."""
    # Lengths 1, 128 and 256 are encoded in one, two (81) and three (82) bytes; each value is returned whole.
    values = [b"\x02\x01\x05", b"\x80\x81\x80" + bytes(128), b"\x85\x82\x01\x00" + bytes(256)]
    assert keybag.split_der(b"".join(values)) == [
        (0x02, b"\x05", values[0]),
        (0x80, bytes(128), values[1]),
        (0x85, bytes(256), values[2]),
    ]
    assert keybag.split_der(b"") == []
    # Entries of 24 + 8, 24 + 9 and 24 + 0 bytes take 32, 48 and 32 bytes after the 32 + 16 bytes of the bag.
    bag = bytes(48) + entry(OWN, 4, b"8 bytes!") + entry(OTHER, 2, b"9 bytes !") + entry(OWN, 3, b"")
    found = list(keybag._entries(bag, 3, "key bag", 1000))
    assert found == [
        (OWN, 4, b"8 bytes!"),
        (OTHER, 2, b"9 bytes !"),
        (OWN, 3, b""),
    ]
    with pytest.raises(FormatError) as caught:
        list(keybag._entries(bag[:-16], 3, "key bag", 1000))
    assert caught.value.image_offset >= 1000 + 48 + 32 + 48
    locker = SimpleNamespace(start_paddr=0, num_blocks=0)
    assert keybag.container_keybag(SimpleNamespace(superblock=SimpleNamespace(keylocker=locker))) == []


@pytest.mark.parametrize(("flags", "is_short"), [(0, False), (1, False), (2, True), (3, True)])
def test_a_wrapped_key_is_taken_from_its_fields(flags, is_short):
    """The second bit of the flags says that the key has 16 bytes instead of 32."""
    found = keybag.parse_wrapped_key(record(flags=flags))
    assert found == keybag.WrappedKey(OWN, is_short, bytes(40), 100_000, b"pepper")
    assert found.key_bytes == (16 if is_short else 32)


def test_a_record_that_was_changed_is_none():
    """The digest covers the body with its header, from tag A3 on."""
    whole = record()
    start = whole.index(b"\xa3")
    for at in (start + 3, len(whole) - 1):
        data = bytearray(whole)
        data[at] ^= 1
        assert keybag.parse_wrapped_key(bytes(data)) is None
    assert keybag.parse_wrapped_key(record(iterations=b"")).iterations == 0
    # It is 16 bytes of SHA-256 over the key and the identifier in its record; a long key has both halves.
    short = keybag.WrappedKey(OWN, True, b"", 0, b"")
    key = bytes(range(50, 82))
    assert keybag._volume_key(short, key) == key[:16] + hashlib.sha256(key[:16] + OWN).digest()[:16]
    assert keybag._volume_key(keybag.WrappedKey(OWN, False, b"", 0, b""), key) == key


def entry(uuid: bytes, tag: int, data: bytes) -> bytes:
    whole = uuid + struct.pack("<HHI", tag, len(data), 0) + data
    return whole + bytes(-len(whole) % 16)


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ([(OWN, UNLOCK_RECORDS, struct.pack("<qQ", 70, 2))], (70, 2)),
        ([(OTHER, UNLOCK_RECORDS, struct.pack("<qQ", 70, 2))], None),
        ([(OWN, VOLUME_KEY, struct.pack("<qQ", 70, 2))], None),
        ([(OWN, UNLOCK_RECORDS, bytes(15))], None),
        (
            [
                (OWN, UNLOCK_RECORDS, bytes(15)),
                (OWN, UNLOCK_RECORDS, struct.pack("<qQ", 71, 1)),
                (OWN, UNLOCK_RECORDS, struct.pack("<qQ", 72, 1)),
            ],
            (71, 1),
        ),
    ],
)
def test_where_the_bag_of_a_volume_is(entries, expected):
    """It is in the first entry of the volume with the tag whose 16 bytes name a run of blocks."""
    assert keybag.volume_keybag_run(entries, OWN) == expected


@pytest.mark.parametrize(
    ("num_blocks", "words"),
    [(0, "impossible length"), (1, "outside"), (256, "outside"), (257, "impossible length"), (-1, "impossible length")],
)
def test_a_bag_has_at_most_256_blocks(num_blocks, words):
    """In a container of 2 blocks, only a bag of plausible size is searched for (in block 9)."""
    container = SimpleNamespace(blocks=store_of({1: bytes(BLOCK)}).blocks)
    with pytest.raises(FormatError, match=words) as caught:
        keybag.decrypt_bag(container, (9, num_blocks), OWN, "key bag")
    assert caught.value.image_offset == 9 * BLOCK


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory):
    """Return a container with one volume, whose bag has two records of 1,000 rounds: a user's, then a recovery key."""
    pytest.importorskip("cryptography")
    from fixtures.apfs.scenarios import PASSWORD, RECOVERY_KEY, SCENARIOS
    from fixtures.apfs.writer import write

    path = tmp_path_factory.mktemp("encrypted") / "disk.img"
    write(SCENARIOS["encrypted"], path)
    container = open_container((open_image(path), 0), FindingLog())
    (uuid,) = {uuid for uuid, _, _ in keybag.container_keybag(container)}
    return container, uuid, PASSWORD, RECOVERY_KEY


@pytest.mark.parametrize(("rounds", "num_tried"), [(2000, 2), (1999, 1), (1000, 1), (999, 0)])
def test_rounds_are_counted_over_all_records(encrypted, monkeypatch, rounds, num_tried):
    """Each record takes 1,000 rounds; if a record was not tried, no password is called wrong."""
    container, uuid, password, recovery = encrypted
    monkeypatch.setattr(keybag, "MAX_ITERATIONS", rounds)
    for number, secret in enumerate((password, recovery, "wrong")):
        if number < num_tried:
            assert len(keybag.unlock(container, uuid, secret)) == 32
        elif num_tried == 2:
            assert keybag.unlock(container, uuid, secret) is None
        else:
            with pytest.raises(FormatError, match="rounds of PBKDF2") as caught:
                keybag.unlock(container, uuid, secret)
            assert caught.value.found == "1,000"


def test_a_volume_that_no_bag_names_is_not_opened(encrypted):
    container, _, password, _ = encrypted
    assert keybag.unlock(container, OTHER, password) is None

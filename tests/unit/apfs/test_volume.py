"""A volume's seal, its encryption, and its file-system tree; objects of 512 bytes, laid out by hand."""

from __future__ import annotations

import struct
from types import SimpleNamespace

import numpy as np
import pytest

from fixtures.apfs.checksum import with_checksum
from layoutscope.filesystems.apfs.omap import view_at
from layoutscope.filesystems.apfs.volume import Seal, fs_source, is_encrypted, key_of, read_seal
from layoutscope.findings import FindingLog
from tests.unit.apfs.toys import BLOCK, object_map, store_of

INTEGRITY, SHA256, SHA384 = 0x1E, 1, 3
HASH = bytes(range(48))
HASH_AT = 200


def integrity(*, oid: int = 10, flags: int = 0, hash_type: int = SHA256, broken_xid: int = 0, xid: int = 7) -> bytes:
    """Lay out integrity metadata whose hash is at byte 200."""
    head = struct.pack("<QQQII", 0, oid, xid, INTEGRITY, 0) + struct.pack("<IIII", 1, flags, hash_type, HASH_AT)
    data = (head + struct.pack("<Q", broken_xid)).ljust(HASH_AT, b"\0") + HASH
    return with_checksum(data.ljust(BLOCK, b"\0"))


SEALED = SimpleNamespace(is_sealed=True, integrity_meta_oid=10)


def seal_of(block: bytes, superblock: SimpleNamespace = SEALED, state: str = ""):
    """Read the seal of a state whose map has object 10 in block 2; return the seal and the findings."""
    store = store_of({2: block})
    seal = read_seal(store, view_at(object_map((10, 7, 2)), 7), superblock, state)
    return seal, [(item.code, item.level, item.structure, item.image_offset) for item in store.log.findings]


@pytest.mark.parametrize(("hash_type", "size"), [(SHA256, 32), (SHA384, 48)])
def test_a_seal_has_a_hash_of_its_type(hash_type, size):
    """SHA-256 has 32 bytes, SHA-384 has 48."""
    assert seal_of(integrity(hash_type=hash_type)) == (Seal(2, hash_type, HASH[:size], is_broken=False), [])


@pytest.mark.parametrize("changed", [{"flags": 1}, {"broken_xid": 6}, {"flags": 1, "broken_xid": 6}])
def test_a_broken_seal_is_told(changed):
    """The flag says so, or the transaction that broke it."""
    seal, findings = seal_of(integrity(**changed), state="some")
    assert seal.is_broken
    assert findings == [("seal-broken", "warning", "integrity metadata of some", 2 * BLOCK)]


@pytest.mark.parametrize(
    ("block", "superblock", "findings"),
    [
        (integrity(), SimpleNamespace(is_sealed=False), []),
        (
            integrity(),
            SimpleNamespace(is_sealed=True, integrity_meta_oid=11),
            [("seal-broken", "warning", "integrity metadata", None)],
        ),
        (integrity(oid=9), SEALED, [("structure-invalid", "error", "integrity metadata", 2 * BLOCK)]),
        (integrity(xid=6), SEALED, [("structure-invalid", "error", "integrity metadata", 2 * BLOCK)]),
        (integrity(hash_type=99), SEALED, [("structure-invalid", "error", "integrity metadata", 2 * BLOCK)]),
    ],
)
def test_a_seal_that_cannot_be_used_is_none(block, superblock, findings):
    """A missing seal, one that the map lacks, another object, another version, and an unknown hash type."""
    assert seal_of(block, superblock) == (None, findings)


def volume_of(*, encrypted: bool, root: int = 10, **more):
    """Return a volume that has only the root object 10, encrypted or not."""
    omap = object_map((10, 7, 2), encrypted=[encrypted])
    superblock = SimpleNamespace(root_tree_oid=root, vol_uuid=bytes(16), root_tree_type=0)
    log = FindingLog(locate=lambda paddr: (paddr * BLOCK, 0))
    usual = {"view": view_at(omap, 7), "superblock": superblock, "log": log, "name": "Data", "paddr": 3, "xid": 7}
    return SimpleNamespace(**usual | more)


def test_a_volume_is_encrypted_as_the_mapping_of_its_root_is():
    """If the map does not have the root, the volume counts as not encrypted."""
    assert is_encrypted(volume_of(encrypted=True))
    assert not is_encrypted(volume_of(encrypted=False))
    assert not is_encrypted(volume_of(encrypted=True, root=11))
    assert not is_encrypted(volume_of(encrypted=True, root=9))


@pytest.mark.parametrize(("is_software", "code"), [(True, "volume-locked"), (False, "volume-hardware-locked")])
def test_a_volume_without_a_password_is_locked(is_software, code):
    """No password opens keys that are held in hardware."""
    container = SimpleNamespace(superblock=SimpleNamespace(is_crypto_sw=is_software))
    for password in (None, *["secret"] * (not is_software)):
        volume = volume_of(encrypted=True)
        assert key_of(container, volume, password) is None
        assert [(item.code, item.image_offset) for item in volume.log.findings] == [(code, 3 * BLOCK)]
    plain = volume_of(encrypted=False)
    assert (key_of(container, plain, None), plain.log.findings) == (None, [])


PHYSICAL = 0x40000000


@pytest.mark.parametrize(("kind", "is_virtual"), [(2, True), (PHYSICAL | 2, False)])
def test_the_nodes_of_files_are_named_as_the_type_of_their_root_says(kind, is_virtual):
    """Nodes are named by the object map or by their addresses; a seal says how they are hashed."""
    volume = volume_of(encrypted=False, seal=None)
    volume.superblock.root_tree_type = kind
    store = store_of({2: bytes(BLOCK)})
    source = fs_source(store, volume, None)
    assert (source.view is volume.view, source.root_oid, source.max_xid) == (is_virtual, 10, 7)
    assert (source.view is None) == (not is_virtual)
    assert (source.hash_type, source.root_hash) == (0, b"")
    volume.seal = Seal(2, SHA256, HASH[:32], is_broken=False)
    source = fs_source(store, volume, None)
    assert (source.hash_type, source.root_hash) == (SHA256, HASH[:32])
    assert np.array_equal(source.view.oid, volume.view.oid) if is_virtual else source.view is None


@pytest.mark.parametrize("key", ["a key", None])
def test_a_password_opens_a_volume_or_is_told_not_to(monkeypatch, key):
    monkeypatch.setattr("layoutscope.filesystems.apfs.volume.unlock", lambda *_: key)
    volume = volume_of(encrypted=True)
    container = SimpleNamespace(superblock=SimpleNamespace(is_crypto_sw=True))
    assert key_of(container, volume, "secret") == key
    words = ["wrong password: it opens none of the volume's keys"] * (key is None)
    assert [item.message for item in volume.log.findings] == words

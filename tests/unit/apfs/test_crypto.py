from __future__ import annotations

import numpy as np
import pytest

from layoutscope.filesystems.apfs.blocks import Blocks, is_authentic
from layoutscope.image.crypto import password_key, unwrap_key


@pytest.mark.parametrize("block_size", [4096, 16384])
def test_xts_is_that_of_an_independent_implementation(block_size):
    """Blocks at two addresses decrypt as OpenSSL's XTS does, unit by unit of 512 bytes."""
    ciphers = pytest.importorskip("cryptography.hazmat.primitives.ciphers")
    key = bytes(range(32))
    rng = np.random.default_rng(5)
    blocks = rng.integers(0, 256, (2, block_size), dtype=np.uint8)
    paddrs = np.array([7, 2**40], np.uint64)
    found = Blocks((), (), block_size).decrypt(key, blocks, paddrs, np.ones(2, np.bool_))
    for row, paddr in enumerate((7, 2**40)):
        for unit in range(block_size // 512):
            tweak = (paddr * block_size // 512 + unit).to_bytes(16, "little")
            cipher = ciphers.Cipher(ciphers.algorithms.AES(key), ciphers.modes.XTS(tweak)).decryptor()
            piece = slice(unit * 512, unit * 512 + 512)
            assert cipher.update(blocks[row, piece].tobytes()) == found[row, piece].tobytes()


def test_only_encrypted_objects_are_decrypted():
    """Objects without the flag stay as they are."""
    pytest.importorskip("cryptography")
    objects = np.zeros((2, 4096), np.uint8)
    chosen = np.array([False, True])
    plain = Blocks((), (), 4096).decrypt(bytes(range(32)), objects, np.array([1, 2], np.uint64), chosen)
    assert not plain[0].any()
    assert plain[1].any()
    none = np.zeros(2, np.bool_)
    assert not Blocks((), (), 4096).decrypt(bytes(range(32)), objects, np.array([1, 2], np.uint64), none).any()


def test_keys_are_those_of_the_standards():
    """The examples of RFC 3394 and RFC 7914, and an HMAC."""
    # The example of RFC 3394, section 4.6, unwraps with its key but not with another.
    pytest.importorskip("cryptography")
    wrapping = bytes.fromhex("000102030405060708090A0B0C0D0E0F101112131415161718191A1B1C1D1E1F")
    wrapped = bytes.fromhex("28C9F404C4B810F4CBCCB35CFB87F8263F5786E2D80ED326CBC7F0E71A99F43BFB988B9B7A02DD21")
    key = bytes.fromhex("00112233445566778899AABBCCDDEEFF000102030405060708090A0B0C0D0E0F")
    assert unwrap_key(wrapping, wrapped) == key
    assert unwrap_key(bytes(32), wrapped) is None
    # The PBKDF2-HMAC-SHA-256 example of RFC 7914, section 11.
    expected = bytes.fromhex("55ac046e56e3089fec1691c22544b605f94185216dde0465e68b9d57c20dacbc")
    assert password_key("passwd", b"salt", 1, 32) == expected
    # The key of the HMAC is a hash of prefix and salt, and its message is the body.
    import hashlib
    import hmac

    key = hashlib.sha256(b"prefix" + b"salt").digest()
    code = hmac.new(key, b"body", hashlib.sha256).digest()
    assert is_authentic(b"prefix", b"salt", b"body", code)
    assert not is_authentic(b"prefix", b"salt", b"bodY", code)

"""Encrypted disk images with their password."""

from __future__ import annotations

import plistlib
import struct

import numpy as np
import pytest

from fixtures.hfsplus.scenarios import SCENARIOS
from fixtures.hfsplus.writer import render
from fixtures.wrappers import encrypted, encrypted_chunks, former_encrypted, sparse_image
from layoutscope import scan
from layoutscope.errors import FormatError, LockedError, UnsupportedError
from layoutscope.image import open_image
from tests.cases import for_each
from tests.unit.image.containers.test_udif import ZLIB, udif

pytest.importorskip("cryptography", reason="the extra 'crypto' is not installed")

DISK = np.random.default_rng(11).integers(1, 256, 25 * 4096 + 512, np.uint8).tobytes()
WORD = "p\u00e4ssword"


def written(tmp_path, data):
    (tmp_path / "a.dmg").write_bytes(data)
    return tmp_path / "a.dmg"


def test_keys_of_an_image_that_was_made_by_macos():
    """A test vector of John the Ripper: testimage.AES-256.64k.header_v2.dmg, with the password vilefault.

    Of what is wrapped 48 bytes are published, which hold the key of AES. With it the second to the sixth block of a
    chunk near the end become zeros, whatever the initial vector is.
    """
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    from layoutscope.image.containers.encrypted import WRAP_KEY_BYTES, decrypt_cbc
    from layoutscope.image.crypto import password_key

    wrapped = bytes.fromhex(
        "68a32866b0e67515f35dc67c4d6747a8561a9f4f6a6718a894b0a77a47c452471e04ecef9bf56f0d83d1201a509a374e"
    )
    chunk = bytes.fromhex(
        "70ebe6f1d387e33e3d1093cca2e94c9a32e2c9ba47d461d737d49a7dc1b1f69407b7dbc16f7671689ea4a4641652b3f9"
        "76b6f1c73c551a0a407d5a335caa169db4a6a25bbd27fbbc38fc71b29ee9b1eae349b0d8a21d57959ecca6bf74bc26cc"
    )
    salt, iv = bytes.fromhex("fd70ac1e078f01fce55a2e56145a2494446db32a"), bytes.fromhex("9110b1778f09b1a7")

    def unwrap(word):
        return decrypt_cbc(password_key(word, salt, 1000, WRAP_KEY_BYTES, "sha1"), iv, wrapped)[:32]

    key = unwrap("vilefault")
    plain = Cipher(algorithms.AES(key), modes.CBC(bytes(16))).decryptor().update(chunk)
    assert plain[16:] == bytes(80)
    assert unwrap("vilefaulT") != key


@pytest.mark.parametrize("write", [encrypted, former_encrypted])
@pytest.mark.parametrize("key_bits", [128, 256])
@pytest.mark.parametrize("chunk", [512, 4096])
def test_the_disk_reads_back(tmp_path, write, key_bits, chunk):
    """Both versions, both key lengths, and reads across chunks."""
    path = written(tmp_path, write(DISK, WORD, key_bits=key_bits, chunk=chunk))
    with open_image(path, password=WORD) as source:
        assert source.size_bytes == len(DISK)
        assert source.read(0, len(DISK)) == DISK
        assert source.read(4090, 9000) == DISK[4090:13090]
        assert source.findings == ()


@pytest.mark.parametrize("write", [encrypted, former_encrypted])
@pytest.mark.parametrize("wrap", [lambda disk: udif([(ZLIB, disk)]), lambda disk: sparse_image(disk, 4096), bytes])
def test_a_scan_with_a_password(tmp_path, write, wrap):
    """The content may be a container, and is scanned as it would be without encryption."""
    disk = bytes(render(SCENARIOS["hard-links"])[0].to_bytearray())
    disk += bytes(-len(disk) % 4096)
    path = written(tmp_path, write(wrap(disk), WORD))
    (tmp_path / "raw").write_bytes(disk)
    found, known = (scan(each, drives=(), password=WORD).volumes[0].layout for each in (path, tmp_path / "raw"))
    assert found.facts.num_files == known.facts.num_files > 0
    with pytest.raises(UnsupportedError, match=r"encrypted disk image .*AES-128.*--password"):
        scan(path, drives=())
    with pytest.raises(LockedError, match="the password does not open the encrypted disk image"):
        scan(path, drives=(), password=WORD + "x")


def test_an_image_that_is_cut(tmp_path):
    """Whole chunks before the cut are read; the finding names the byte where the file ends."""
    data = encrypted(DISK, WORD)
    path = written(tmp_path, data[: 8192 + 10 * 4096 + 100])
    with open_image(path, password=WORD) as source:
        assert source.read(0, 10 * 4096) == DISK[: 10 * 4096]
        assert source.unread_ranges().tolist() == [[10 * 4096, len(DISK) - 10 * 4096]]
        (finding,) = source.findings
        assert finding.code == "image-incomplete"
        assert f"{8192 + 10 * 4096 + 100:,}" in finding.message


@for_each(
    "write, place, value, words",
    [
        (encrypted, 52, 0, "chunks of 0"),
        (encrypted, 52, 1 << 21, "chunks of 2,097,152"),
        (encrypted, 24, 192, "keys of 192 bits"),
        (encrypted, 4096 + 8, 20_000_000, "takes 20,000,000 rounds"),
        (encrypted, 4096 + 12, 33, "sizes of a wrapped key"),
        (encrypted, 4096 + 100, 8192, "sizes of a wrapped key"),
        # Version 1 has a trailer of 1,276 bytes.
        (former_encrypted, 0x10 - 1276, 0, "chunks of 0"),
        (former_encrypted, 0x30 - 1276, 20_000_000, "takes 20,000,000 rounds"),
        (former_encrypted, 0x34 - 1276, 33, "sizes of a wrapped key"),
        (former_encrypted, 0x88 - 1276, 264, "keys of 1920 bits"),
        (former_encrypted, 0x1B4 - 1276, 264, "sizes of a wrapped key"),
        (former_encrypted, 0x1B4 - 1276, 8, "sizes of a wrapped key"),
    ],
)
def test_headers_that_cannot_be(tmp_path, write, place, value, words):
    """One line names the impossible field; no password is tried."""
    data = bytearray(write(DISK, WORD))
    struct.pack_into(">I", data, place, value)
    with pytest.raises(FormatError, match=words):
        open_image(written(tmp_path, data), password=WORD)


def test_an_image_that_no_password_opens(tmp_path):
    """An image with certificates only is refused."""
    with pytest.raises(UnsupportedError, match="no password opens"):
        open_image(written(tmp_path, encrypted(DISK, WORD, kind=2)), password=WORD)


def encrypted_bundle(tmp_path, *, chunk=512, key_bits=128):
    """Write a bundle of the disk in bands of 8 KiB; the third is absent and the last is as long as needed."""
    folder = tmp_path / "disk.sparsebundle"
    (folder / "bands").mkdir(parents=True)
    facts = {"band-size": 8192, "size": len(DISK), "diskimage-bundle-type": "com.apple.diskimage.sparsebundle"}
    (folder / "Info.plist").write_bytes(plistlib.dumps(facts))
    (folder / "token").write_bytes(encrypted(b"", WORD, chunk=chunk, key_bits=key_bits))
    for number in range(-(-len(DISK) // 8192)):
        band = encrypted_chunks(DISK[number * 8192 :][:8192], chunk=chunk, key_bits=key_bits)
        if number != 2:
            (folder / "bands" / f"{number:x}").write_bytes(band)
    return folder


@pytest.mark.parametrize("key_bits", [128, 256])
@pytest.mark.parametrize("chunk", [512, 4096])
def test_an_encrypted_bundle(tmp_path, chunk, key_bits):
    """The token has the keys; chunks count from the start of each band, and an absent band reads as zeros."""
    path = encrypted_bundle(tmp_path, chunk=chunk, key_bits=key_bits)
    plain = DISK[: 2 * 8192] + bytes(8192) + DISK[3 * 8192 :]
    with open_image(path, password=WORD) as source:
        assert source.read(0, len(DISK)) == plain
        assert source.read(8000, 600) == plain[8000:8600]
        assert source.holes.tolist() == [[2 * 8192, 8192]]
        assert source.findings == ()
    with pytest.raises(LockedError, match="the password does not open"):
        open_image(path, password=WORD + "x")
    with pytest.raises(UnsupportedError, match=f"encrypted sparse bundle of .*AES-{key_bits}.*--password"):
        open_image(path)

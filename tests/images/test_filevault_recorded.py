"""A volume encrypted by macOS with FileVault 2: cryptsetup's tests hold a sample and its decrypted content.

The sample has the metadata of CoreStorage and the first block of the logical volume; the rest was wiped. So it proves
where the volume lies, its keys, the numbering of its sectors and its header; trees under FileVault 2 are proven by
volumes of the fixtures' own alone. It is cryptsetup's, not ours: ``fvault2-images.tar.xz`` of its folder ``tests``,
looked for at ``LAYOUTSCOPE_FVAULT2``, beside decompressed images (``~/.cache/layoutscope-tests``), and in
``images/corestorage`` of the folder of reference images.
"""

from __future__ import annotations

import hashlib
import os
import tarfile
from pathlib import Path

import pytest

pytest.importorskip("cryptography")

from layoutscope import scan
from layoutscope.errors import LockedError, UnsupportedError
from layoutscope.image import open_image
from layoutscope.partition import find_volumes
from layoutscope.partition.corestorage import read_physical_volume
from layoutscope.partition.filevault import unlock_volumes
from tests.conftest import cache_dir, shared_dir

ARCHIVE = "fvault2-images.tar.xz"
PASSWORD = "heslo123"  # noqa: S105  the sample's, as its tests name it
START, SIZE = 67_108_864, 167_772_160
KEY = "20734d3389212774d7610c29d732880916f3be14c4b12ac7aaf07e5ccc77b319"
PLAIN = "2c662e36c0f7e2f5583e6a939bbcbdc660805692d0fccaa45ad4052beb3b8e18"
"""SHA-256 of the whole logical volume."""


@pytest.fixture(scope="module")
def sample(tmp_path_factory) -> Path:
    """Return the image, sparse."""
    named = os.environ.get("LAYOUTSCOPE_FVAULT2")
    folders = [cache_dir(), *([shared_dir() / "images" / "corestorage"] if shared_dir() else [])]
    found = [
        path for path in (*([Path(named)] if named else []), *(each / ARCHIVE for each in folders)) if path.exists()
    ]
    if not found:
        pytest.skip(f"cryptsetup's {ARCHIVE} is absent (LAYOUTSCOPE_FVAULT2 names it)")
    path = tmp_path_factory.mktemp("fvault2") / "small.img"
    with tarfile.open(found[0]) as archive, path.open("wb") as target:
        member = archive.getmember("fvault2-images/small")
        data = archive.extractfile(member)
        while piece := data.read(1 << 20):
            target.seek(len(piece), os.SEEK_CUR) if not any(piece) else target.write(piece)
        target.truncate(member.size)
    return path


def test_what_the_metadata_tell(sample):
    """Place, size and identifiers without a password, as cryptsetup reports them."""
    with open_image(sample) as source:
        found = read_physical_volume(source)
    (volume,) = found.logical_volumes
    assert found.own_id.hex() == "fc52bfae5a1f4f9bb3a6f33303a0e401"
    assert volume.family.hex() == "33a76caa14814bc58d041ac1707c19c0"
    assert (volume.volume_offset, volume.size_bytes, volume.is_encrypted) == (START, SIZE, True)
    assert found.findings == ()


def test_the_whole_volume_is_decrypted_as_cryptsetup_does(sample):
    """Every sector: wiped ones decrypt to something, too, which depends on the sector number."""
    with open_image(sample) as source:
        plain = unlock_volumes(source, find_volumes(source).candidates, PASSWORD)
        total = hashlib.sha256()
        for at in range(START, START + SIZE, 1 << 22):
            total.update(plain.read(at, 1 << 22))
    assert total.hexdigest() == PLAIN


def test_keys_are_those_that_cryptsetup_finds(sample, monkeypatch):
    """Both halves of the volume key."""
    made = []
    monkeypatch.setattr("layoutscope.partition.filevault.UnlockedSource", lambda _, stretches: made.extend(stretches))
    with open_image(sample) as source:
        unlock_volumes(source, find_volumes(source).candidates, PASSWORD)
    assert [key.hex() for _, _, key in made] == [KEY]


def test_its_header_is_read_at_its_place(sample):
    """The UUID is the one that blkid shows for the opened volume; the trees are wiped, and that is reported."""
    result = scan(sample, password=PASSWORD, drives=())
    (volume,) = result.volumes
    assert volume.layout.facts.uuid == "DE124D8A-2164-394E-924F-8E28DB0A09CB"
    assert volume.layout.facts.image_offset == START
    assert volume.layout.facts.size_bytes == SIZE


def test_it_stays_locked_otherwise(sample):
    """Without the password the volume is reported as locked; a wrong password is reported as wrong."""
    with pytest.raises(UnsupportedError, match="logical volume 'Untitled' of 160 MiB, encrypted") as caught:
        scan(sample)
    assert caught.value.code == "file-vault"
    with pytest.raises(LockedError, match="does not open"):
        scan(sample, password=PASSWORD[:-1])

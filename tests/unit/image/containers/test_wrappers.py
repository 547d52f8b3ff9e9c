"""Files that contain a disk in one piece, and images of CDs."""

from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest

from fixtures.wrappers import apple_single, der, disc, disk_copy, im4p, mac_binary
from layoutscope.errors import ImageError, UnreadError, UnsupportedError
from layoutscope.image import MemorySource, open_image
from layoutscope.image.containers.wrappers import open_disc
from layoutscope.image.opening import files_of, unwrap
from tests.unit.image.containers.test_udif import ZLIB, udif

DISK = np.random.default_rng(9).integers(1, 256, 100 * 2048, np.uint8).tobytes()

WRITERS = {
    "MacBinary": mac_binary,
    "AppleSingle": apple_single,
    "Disk Copy": disk_copy,
    "Disk Copy with tags": lambda data: disk_copy(data, bytes(4800)),
    "IM4P": im4p,
    "CD, mode 1": disc,
    "CD, mode 2": lambda data: disc(data, mode=2),
    "CD with subchannels": lambda data: disc(data, subchannels=True),
}


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_the_disk_reads_back(write):
    """Addresses count from the start of the disk, wherever it is in the file."""
    source = unwrap(MemorySource(write(DISK)))
    assert source.size_bytes == len(DISK)
    assert source.read(0, len(DISK)) == DISK
    assert source.read(3000, 5000) == DISK[3000:8000]
    assert source.findings == ()


@pytest.mark.parametrize("write", [mac_binary, im4p])
def test_a_disk_image_in_a_file(write):
    """The content may be a container itself."""
    assert unwrap(MemorySource(write(udif([(ZLIB, DISK)])))).read(0, len(DISK)) == DISK


@pytest.mark.parametrize(
    ("write", "missing"), [(mac_binary, 10_000), (apple_single, 10_000), (im4p, 10_000), (disc, 304)]
)
def test_a_file_that_is_cut(write, missing):
    """The missing part is unread, and the finding says where the file ends.

    Nothing says how many sectors a CD has: of the last one, 592 of 2,352 bytes are missing, and 304 of its data.
    """
    image = write(DISK)
    cut = len(image) - 10_000
    source = unwrap(MemorySource(image[:cut]))
    (finding,) = source.findings
    assert (finding.code, finding.image_offset) == ("image-incomplete", cut)
    ((start, length),) = source.unread_ranges().tolist()
    assert source.read(0, start) == DISK[:start]
    assert missing - 127 <= length <= missing


@pytest.mark.parametrize(
    ("image", "words"),
    [
        (im4p(b"bvx2" + DISK), r"compressed \(LZFSE\); unpack it with: pyimg4"),
        (im4p(b"complzss" + DISK), r"compressed \(LZSS\)"),
        (im4p(DISK, more=der(4, b"a key bag")), "is encrypted"),
        (disc(DISK, mode=2, submode=0x28), "raw CD sectors of mode 2"),
        (disc(DISK, mode=0), "raw CD sectors of mode 0"),
        (apple_single(b""), "has no data fork"),
    ],
)
def test_what_holds_no_disk_that_can_be_read(image, words):
    """The file is refused by name, with instructions."""
    with pytest.raises(UnsupportedError, match=words):
        unwrap(MemorySource(image))


def test_what_is_only_like_a_wrapper():
    """A wrong checksum, a length that differs from the file's, and a text of another kind."""
    wrong = bytearray(mac_binary(DISK))
    wrong[100] ^= 1
    other = der(0x30, der(0x16, b"IMG4") + der(4, DISK))
    for data in (bytes(wrong), disk_copy(DISK) + bytes(4096), other, der(0x30, der(0x16, b"IM4P")), b"\x30"):
        assert unwrap(MemorySource(data)).size_bytes == len(data)


DAMAGE = {
    "mark": (5, 3, 0x55),
    "mode": (5, 15, 2),
    "first sector but one": (1, 0, 1),
    "form": (5, 18, 0x28),
}
"""The changed sector, byte and value: sectors have 2,352 bytes and start with a sync mark of 12."""


@pytest.mark.parametrize(("sector", "byte", "value"), DAMAGE.values(), ids=DAMAGE)
def test_a_sector_of_a_disc_without_its_mark_is_not_read(sector, byte, value):
    """The finding is at the sector's byte in the file, and the other sectors are read."""
    image = bytearray(disc(DISK, mode=2 if byte == 18 else 1))
    image[sector * 2352 + byte] = value
    source = unwrap(MemorySource(bytes(image)))
    assert source.unread_ranges().tolist() == [[sector * 2048, 2048]]
    (found,) = source.findings
    assert (found.code, found.level, found.image_offset) == ("container-invalid", "error", sector * 2352)
    assert source.read((sector + 1) * 2048, 4096) == DISK[(sector + 1) * 2048 :][:4096]
    with pytest.raises(UnreadError):
        source.read(sector * 2048, 16)


def test_tracks_behind_the_data_of_a_disc_are_not_read():
    """Without a list, the end of the first track is unknown: later sectors are neither damage nor data."""
    source = unwrap(MemorySource(disc(DISK) + b"\x77" * 2352 * 40))
    assert source.unread_ranges().tolist() == [[len(DISK), 40 * 2048]]
    assert [(item.level, item.image_offset) for item in source.findings] == [("warning", len(DISK) // 2048 * 2352)]


def test_more_sectors_than_a_disc_has_are_refused():
    """450,000 sectors are 100 minutes."""

    class Long(MemorySource):
        """A file of 451,000 sectors, of which only the first ones may be read."""

        def _fetch_into(self, image_offset, target):
            assert image_offset < 8192
            super()._fetch_into(image_offset, target)

    source = Long(disc(DISK))
    source.size_bytes = 451_000 * 2352
    with pytest.raises(ImageError, match="has 451,000 raw sectors of a CD, which has at most 450,000"):
        open_disc(source)


CUE = """REM made by hand
FILE "{}" BINARY
  TRACK 01 MODE1/{}
    INDEX 00 00:00:00
    INDEX 01 00:00:{:02}
  TRACK 02 AUDIO
    INDEX 00 00:01:27
    INDEX 01 00:03:27
"""


@pytest.mark.parametrize(("stride", "write"), [(2352, disc), (2048, bytes)])
@pytest.mark.parametrize("gap", [0, 2])
def test_a_list_of_tracks(tmp_path, stride, write, gap):
    """The first track begins after its pause and ends where the next begins: at 1 s and 27 frames, or 102."""
    data = bytes(gap * 2048) + DISK + bytes((102 - 100 - gap) * 2048)
    (tmp_path / "Disc (Mac).bin").write_bytes(write(data) + b"\x77" * 2352 * 40)
    cue = tmp_path / "a.cue"
    cue.write_text(CUE.format("C:\\x\\Disc (Mac).bin", stride, gap))
    with open_image(cue) as source:
        assert source.size_bytes == (102 - gap) * 2048
        assert source.read(0, len(DISK)) == DISK
    assert files_of(cue) == [cue, tmp_path / "Disc (Mac).bin"]
    (tmp_path / "Disc (Mac).bin").unlink()
    with pytest.raises(ImageError, match=r"Disc \(Mac\)\.bin: no such file"):
        open_image(cue)


def test_lists_without_a_track_that_is_read(tmp_path):
    """A music track is named as such; a track after the end of its file is an error."""
    (tmp_path / "a.bin").write_bytes(disc(DISK))
    cue = tmp_path / "a.cue"
    cue.write_text("FILE a.bin BINARY\n TRACK 01 AUDIO\n INDEX 01 00:00:00\n")
    with pytest.raises(UnsupportedError, match="names no track with data"):
        open_image(cue)
    cue.write_text("FILE a.bin BINARY\n TRACK 01 MODE1/2352\n INDEX 01 00:05:00\n")
    with pytest.raises(ImageError, match=r"begins at byte 882,000 of a\.bin, which has 235,200"):
        open_image(cue)


@pytest.mark.parametrize("first", ["container.description", "data/1"])
def test_an_advanced_forensic_image_is_not_unpacked(tmp_path, first):
    """A zip archive that has its members, at any position, is recognised and not decompressed."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name in (first, "version.txt", "information.turtle"):
            archive.writestr(name, "aff4://x" * 1000)
    (tmp_path / "a").write_bytes(out.getvalue())
    with pytest.raises(UnsupportedError, match=r"AFF4.*pyaff4"):
        open_image(tmp_path / "a")

"""Disk images: every storage method, compared with disks written in the test."""

from __future__ import annotations

import bz2
import lzma
import plistlib
import struct
import tracemalloc
import zlib

import numpy as np
import pytest

from layoutscope import scan
from layoutscope.errors import FormatError, UnreadError, UnsupportedError
from layoutscope.image import MemorySource
from layoutscope.image.containers import placed as placed_module
from layoutscope.image.containers.udif import adc, lzfse_length, open_udif, udif_trailer_at
from layoutscope.image.opening import unwrap

ZEROS, PLAIN, IGNORED, ADC, ZLIB, BZIP2, LZFSE, LZMA, COMMENT, END = (
    0, 1, 2, 0x80000004, 0x80000005, 0x80000006, 0x80000007, 0x80000008, 0x7FFFFFFE, 0xFFFFFFFF,
)  # fmt: skip


def adc_literals(data: bytes) -> bytes:
    """Literal runs of at most 128 bytes."""
    runs = [data[at : at + 128] for at in range(0, len(data), 128)]
    return b"".join(bytes([0x80 | len(run) - 1]) + run for run in runs)


def lzfse_compress(data: bytes) -> bytes:
    return pytest.importorskip("lzfse", reason="the extra 'containers' is not installed").compress(data)


PACK = {
    PLAIN: bytes,
    ADC: adc_literals,
    ZLIB: zlib.compress,
    BZIP2: bz2.compress,
    LZMA: lzma.compress,
    LZFSE: lzfse_compress,
}


def udif(pieces: list[tuple[int, bytes]], *, num_segments: int = 1, change=lambda entries: entries) -> bytes:
    """Write a disk image of contiguous pieces, after libyal's description."""
    body, entries, sector = b"", [], 0
    for storage, data in pieces:
        stored = PACK[storage](data) if storage in PACK else b""
        entries.append((storage, 0, sector, len(data) // 512, len(body), len(stored)))
        body += stored
        sector += len(data) // 512
    entries = change([*entries, (COMMENT, 0, 0, 0, 0, 0), (END, 0, sector, 0, len(body), 0)])
    table = b"".join(struct.pack(">IIQQQQ", *entry) for entry in entries)
    head = struct.pack(">4sIQQQII24x", b"mish", 1, 0, sector, 0, 1, 1)
    mish = head + struct.pack(">II128x", 2, 32) + struct.pack(">I", len(entries)) + table
    plist = plistlib.dumps({"resource-fork": {"blkx": [{"ID": "0", "Data": mish}]}})
    plist += b"\n" * (-len(body + plist) % 512)  # so that the image can be a disk itself
    trailer = struct.pack(">4sIIIQQQQQII16x", b"koly", 4, 512, 1, 0, 0, len(body), 0, 0, 1, num_segments)
    trailer += struct.pack(">II128x", 2, 32) + struct.pack(">QQ120x", len(body), len(plist))
    trailer += struct.pack(">II128x", 2, 32) + struct.pack(">IQ12x", 1, sector)
    assert len(trailer) == 512
    return body + plist + trailer


def noise(sectors: int, seed: int) -> bytes:
    return np.random.default_rng(seed).integers(0, 7, sectors * 512, dtype=np.uint8).tobytes()


@pytest.mark.parametrize("storage", PACK, ids=["plain", "adc", "zlib", "bzip2", "lzma", "lzfse"])
def test_every_way_of_storage_reads_back(storage):
    """A piece between zeros and unused sectors reads back, also across its edges."""
    data = noise(40, storage % 97)
    disk = bytes(8 * 512) + data + bytes(4 * 512) + data[:512]
    image = udif([(ZEROS, bytes(8 * 512)), (storage, data), (IGNORED, bytes(4 * 512)), (PLAIN, data[:512])])
    source = open_udif(MemorySource(image))
    assert source.size_bytes == len(disk)
    assert source.read(0, len(disk)) == disk
    assert source.read(8 * 512 - 100, 300) == disk[8 * 512 - 100 : 8 * 512 + 200]
    assert source.read(len(disk) - 1, 1) == disk[-1:]


def test_nesting_is_bounded():
    """A disk image whose disk is a disk image opens to the innermost disk; five are refused, and so are segments."""
    disk = inner = noise(4, 2)
    for depth in range(5):
        disk = udif([(LZMA if depth else PLAIN, disk)])
        if depth == 1:
            assert unwrap(MemorySource(disk)).read(0, len(inner)) == inner
    with pytest.raises(UnsupportedError):
        unwrap(MemorySource(disk))
    with pytest.raises(UnsupportedError, match="segments"):
        open_udif(MemorySource(udif([(PLAIN, noise(8, 4))], num_segments=3)))


def test_streams_are_decompressed_as_far_as_declared():
    """Copies repeat themselves, and bombs are refused."""
    # Literal 'ab', then a two-byte copy of 6 from 2 back, then a three-byte copy of 4 from 8 back.
    stream = bytes([0x81]) + b"ab" + bytes([(6 - 3) << 2, 2 - 1]) + bytes([0x40 | 0, 0, 8 - 1])
    assert adc(stream, 100) == b"ab" + b"ababab" + b"abab"
    # A piece that decompresses to more than its declared size is an error at its place in the file.
    image = udif([(ZLIB, noise(8, 3))], change=lambda rows: [(rows[0][0], 0, 0, 4, 0, rows[0][5]), *rows[1:]])
    data = open_udif(MemorySource(image)).read(0, 4 * 512)
    assert data == noise(8, 3)[: 4 * 512]
    image = udif([(ZLIB, noise(8, 3))], change=lambda rows: [(rows[0][0], 0, 0, 8, 0, rows[0][5] - 9), *rows[1:]])
    with pytest.raises(FormatError) as caught:
        open_udif(MemorySource(image)).read(0, 512)
    assert caught.value.image_offset == 0
    # A file shorter than a trailer is not a disk image.
    assert udif_trailer_at(MemorySource(b"koly")) is None


@pytest.mark.parametrize(
    "change",
    [
        lambda rows: [rows[0], (PLAIN, 0, 3, 2, 0, 1024), *rows[1:]],
        lambda rows: [(PLAIN, 0, 2**61, 8, 0, 4096), *rows[1:]],
        lambda rows: [(PLAIN, 0, 4, 8, 0, 4096), *rows[1:]],
        lambda rows: [(PLAIN, 0, 0, 8, 2**63, 4096), *rows[1:]],
    ],
    ids=["overlap", "far", "past the end", "far in the file"],
)
def test_impossible_pieces_are_refused(change):
    """Pieces that overlap or leave the disk or the file are errors of the block map."""
    with pytest.raises(FormatError):
        open_udif(MemorySource(udif([(PLAIN, noise(8, 4))], change=change)))


@pytest.mark.parametrize(("offset", "more"), [(0, 1 << 20), (1 << 20, 0), (0, 2**63), (2**64 - 1, 0)])
def test_a_data_fork_beyond_the_file_is_refused(offset, more):
    """The trailer gives the data fork's place; the same image with a data fork within the file reads."""
    image = bytearray(udif([(PLAIN, noise(8, 4))]))
    assert open_udif(MemorySource(bytes(image))).read(0, 4096) == noise(8, 4)
    at = len(image) - 512 + 24
    stored = struct.unpack_from(">Q", image, at + 8)[0]
    struct.pack_into(">QQ", image, at, offset, stored + more)
    with pytest.raises(FormatError, match="the data fork is longer than the file"):
        open_udif(MemorySource(bytes(image)))


@pytest.mark.parametrize(
    "data", [b"", bytes(1 << 20), noise(4096, 6), np.random.default_rng(7).bytes(3 << 18), b"abc" * 5], ids=len
)
def test_an_lzfse_stream_tells_its_length_before_it_is_decompressed(data):
    """Each block type of Apple's encoder: compressed, LZVN if short, uncompressed if nothing shrinks."""
    assert lzfse_length(lzfse_compress(data)) == len(data)


def test_an_lzfse_bomb_is_refused_before_it_is_made():
    """A piece of 4 KiB that would become 32 MiB is an error and takes no memory."""
    bomb = lzfse_compress(bytes(32 << 20))
    image = udif([(LZFSE, noise(8, 3))], change=lambda rows: [(LZFSE, 0, 0, 8, 0, len(bomb)), *rows[1:]])
    image = bomb + image[len(lzfse_compress(noise(8, 3))) :]
    tracemalloc.start()
    with pytest.raises(FormatError):
        open_udif(MemorySource(image)).read(0, 512)
    assert tracemalloc.get_traced_memory()[1] < 16 << 20
    tracemalloc.stop()


def test_what_is_not_stored_is_a_hole():
    """A disk of 8 PiB of zeros in 1.5 KB takes no more work to search than its stored data."""
    rows = [(ZEROS, 0, 0, 2**44, 0, 0), (PLAIN, 0, 2**44, 8, 0, 4096)]
    image = bytearray(udif([(PLAIN, noise(8, 4))], change=lambda old: [*rows, *old[1:]]))
    image[-512:] = image[-512:].replace(struct.pack(">IQ", 1, 8), struct.pack(">IQ", 1, 2**44 + 8))
    source = open_udif(MemorySource(bytes(image)))
    assert source.size_bytes == (2**44 + 8) * 512
    assert source.holes.tolist() == [[0, 2**53]]


LIST_FIELDS, TRAILER_BYTES = 216, 512
"""Offset of the property list's place and length in the trailer, and the trailer's size."""


def placed(image: bytes, where: int, length: int | None = None) -> bytes:
    """Change the trailer's place of the property list."""
    at = len(image) - TRAILER_BYTES + LIST_FIELDS
    _, known = struct.unpack_from(">QQ", image, at)
    return image[:at] + struct.pack(">QQ", where, known if length is None else length) + image[at + 16 :]


def list_at(image: bytes) -> int:
    return image.index(b"<?xml")


@pytest.mark.parametrize(
    "change",
    [
        lambda image: image + bytes(512),
        lambda image: image + bytes(65_000),
        lambda image: image[-512:] + image,
        lambda image: b"\0\x05disk".ljust(128, b"\0") + image + bytes(-len(image) % 128),
    ],
    ids=["512 bytes behind", "65,000 bytes behind", "a trailer at both ends", "MacBinary header"],
)
def test_a_trailer_that_is_not_the_last_sector(change):
    """Bytes before or after a disk image are ignored without a finding."""
    disk = noise(40, 5)
    source = unwrap(MemorySource(change(udif([(ZLIB, disk)]))))
    assert source.read(0, len(disk)) == disk
    assert source.findings == ()


def test_trailers_that_come_first_or_are_none():
    """Trailers come first, maps may be in resource forks, and disks are no disk images."""
    # Offsets count from the start of the file; the trailer is its first sector.
    disk, image = noise(40, 5), udif([(ZLIB, noise(40, 5))])
    body, trailer = image[:-512], bytearray(image[-512:])
    for field in (24, LIST_FIELDS):
        struct.pack_into(">Q", trailer, field, struct.unpack_from(">Q", trailer, field)[0] + 512)
    source = unwrap(MemorySource(bytes(trailer) + body))
    assert source.read(0, len(disk)) == disk
    # A file that begins with a partition map or a volume is not searched for a trailer.
    disk = bytearray(4096 + 1024)
    disk[510:512] = b"\x55\xaa"
    image = bytes(disk) + udif([(ZLIB, noise(4, 8))]) + bytes(512)
    assert unwrap(MemorySource(image)).size_bytes == len(image)
    # The oldest images have no property list; two maps of one disk are read from the fork.
    data = noise(40, 5)
    source = unwrap(MemorySource(with_resource_fork(udif([(ZLIB, data), (PLAIN, data)]))))
    assert source.read(0, 2 * len(data)) == data * 2
    assert source.findings == ()


@pytest.mark.parametrize("where", [7, 2**40])
@pytest.mark.parametrize("length", [None, 0, 2**27])
def test_a_property_list_that_is_not_where_the_trailer_says(where, length):
    """It is searched for between the data fork and the trailer; a warning says where it was found."""
    disk = noise(40, 6)
    image = udif([(ZLIB, disk)])
    source = unwrap(MemorySource(placed(image, where, length)))
    assert source.read(0, len(disk)) == disk
    (finding,) = source.findings
    assert (finding.code, finding.level, finding.image_offset) == ("container-invalid", "warning", len(image) - 512)
    assert f"{list_at(image):,}" in finding.expected
    assert finding.found == f"{where:,}"


def test_a_disk_image_whose_trailer_cannot_be_used_is_one(tmp_path):
    """Without any property list the file is still a damaged disk image, not a disk without volumes."""
    image = udif([(ZLIB, noise(40, 7))])
    lost = image.replace(b"<?xml", b"<!xml").replace(b"</plist>", b"<!plist>")
    for number, data in enumerate((lost, lost + bytes(512))):
        path = tmp_path / f"{number}.dmg"
        path.write_bytes(data)
        with pytest.raises(FormatError, match="disk image property list at byte"):
            scan(path)


def test_plain_pieces_have_their_place():
    """Pieces outside or of another length are not read."""
    # The second of three pieces of 8 sectors is a megabyte after the others; the pieces around it are read.
    parts = [noise(8, seed) for seed in (1, 2, 3)]
    image = udif(
        [(PLAIN, part) for part in parts],
        change=lambda rows: [rows[0], (*rows[1][:4], 1 << 20, rows[1][5]), *rows[2:]],
    )
    source = open_udif(MemorySource(image))
    assert source.unread_ranges().tolist() == [[4096, 4096]]
    (finding,) = source.findings
    assert (finding.code, finding.level, finding.image_offset) == ("container-invalid", "error", 4096)
    assert f"after the end of the file at byte {len(image):,}, or" in finding.message
    assert finding.message.endswith("; 4.00 KiB of the disk count as not read")
    assert source.read(0, 4096) + source.read(8192, 4096) == parts[0] + parts[2]
    with pytest.raises(UnreadError):
        source.read(4095, 2)
    # A compressed piece marked as plain would read on into the next: 8 sectors in 4,095 bytes.
    image = udif([(PLAIN, noise(8, 1)), (PLAIN, noise(8, 2))], change=lambda rows: [(*rows[0][:5], 4095), *rows[1:]])
    source = open_udif(MemorySource(image))
    assert source.unread_ranges().tolist() == [[0, 4096]]
    assert source.read(4096, 4096) == noise(8, 2)


@pytest.mark.parametrize("storage", [ZLIB, BZIP2, LZMA, 0x80000009])
def test_a_damaged_piece_counts_as_not_read(storage):
    """Noise in place of the stream, or an unknown storage method, is reported in our own words."""
    parts = [noise(8, seed) for seed in (1, 2)]
    image = udif([(PLAIN, parts[0]), (PLAIN, parts[1])], change=lambda rows: [(storage, *rows[0][1:]), *rows[1:]])
    source = open_udif(MemorySource(image))
    assert source.findings == ()
    with pytest.raises(UnreadError):
        source.read(0, 512)
    assert source.read(4096, 4096) == parts[1]
    assert source.unread_ranges().tolist() == [[0, 4096]]
    (finding,) = source.findings
    reason = "its data are damaged" if storage != 0x80000009 else "unknown way of storage 0x80000009"
    assert finding.message == (
        "4.00 KiB of pieces that were read count as not read, such as that at byte 0 of memory, which cannot be "
        f"decompressed: {reason}"
    )


@pytest.mark.parametrize("value", [2**62, 2**63 - 8, 2**64 - 8])
def test_offsets_that_overflow_are_refused(value):
    """The offsets of a block map and of a piece are added; a sum beyond 62 bits is in no file."""
    image = bytearray(udif([(PLAIN, noise(8, 4))]))
    plist = plistlib.loads(image[image.index(b"<?xml") : image.index(b"</plist>") + 8])
    mish = bytearray(plist["resource-fork"]["blkx"][0]["Data"])
    struct.pack_into(">Q", mish, 24, value)
    text = plistlib.dumps({"resource-fork": {"blkx": [{"Data": bytes(mish)}]}})
    trailer = image[-512:]
    struct.pack_into(">QQ", trailer, 216, 4096, len(text))
    with pytest.raises(FormatError, match="pieces leave the file"):
        open_udif(MemorySource(bytes(image[:4096] + text + trailer)))


def test_lists_and_disks_that_cannot_be():
    """Each is one line with its place."""
    # 2^54 sectors have 2^63 bytes.
    image = bytearray(udif([(PLAIN, noise(8, 4))]))
    struct.pack_into(">Q", image, len(image) - 512 + 492, 2**54)
    with pytest.raises(FormatError, match="a disk of 18,014,398,509,481,984 sectors is impossible"):
        open_udif(MemorySource(bytes(image)))
    # The user sees neither an error of the XML parser nor a KeyError.
    image = bytearray(udif([(PLAIN, noise(8, 4))]))
    at = image.index(b"<key>resource-fork")
    image[at : at + 5] = b"<<<<<"
    with pytest.raises(FormatError, match=r"property list at byte 4,096: is none that names block maps$"):
        open_udif(MemorySource(bytes(image)))
    # A property list whose block map is the number 2^40 gives one line and takes no memory.
    image = udif([(ZLIB, bytes(512))])
    at = image.index(b"<data>")
    stop = image.index(b"</data>") + len(b"</data>")
    number = b"<integer>1099511627776</integer>"
    with pytest.raises(FormatError, match="a block map is not data"):
        open_udif(MemorySource(image[:at] + number.ljust(stop - at) + image[stop:]))


@pytest.mark.parametrize("storage", [COMMENT, END])
def test_sectors_without_a_piece_are_told(storage):
    """The second of three pieces is marked as comment or end, so 4 KiB of zeros have no entry in the block map."""
    parts = [noise(8, seed) for seed in (1, 2, 3)]
    image = udif([(PLAIN, part) for part in parts], change=lambda rows: [rows[0], (storage, *rows[1][1:]), *rows[2:]])
    source = open_udif(MemorySource(image))
    assert source.read(0, 3 * 4096) == parts[0] + bytes(4096) + parts[2]
    (finding,) = source.findings
    assert (finding.code, finding.level) == ("container-invalid", "warning")
    assert "no piece for 4.00 KiB of what they cover" in finding.message
    assert finding.message.endswith("the first at byte 4,096 of the disk")


def resource_fork(maps: list[bytes], kind: bytes = b"blkx") -> bytes:
    """Write a resource fork (Inside Macintosh: More Macintosh Toolbox) with resources of two types."""
    data, places = b"", []
    for each in (*maps, b"other"):
        places.append(len(data))
        data += struct.pack(">I", len(each)) + each
    references = [struct.pack(">hHI4x", 128 + number, 0xFFFF, place) for number, place in enumerate(places)]
    types = struct.pack(">H4sHH4sHH", 1, b"plst", 0, 18 + 12 * len(maps), kind, len(maps) - 1, 18)
    listed = types + b"".join(references)
    head = struct.pack(">IIII", 256, 256 + len(data), len(data), 28 + len(listed))
    return head.ljust(256, b"\0") + data + head + struct.pack(">8xHH", 28, 28 + len(listed)) + listed


def with_resource_fork(image: bytes, fork_of=resource_fork) -> bytes:
    """Put the block maps of a disk image into a resource fork instead of its list, as before Mac OS X 10.2."""
    list_at, list_length = struct.unpack_from(">QQ", image, len(image) - 512 + 216)
    maps = [each["Data"] for each in plistlib.loads(image[list_at : list_at + list_length])["resource-fork"]["blkx"]]
    fork = fork_of(maps)
    trailer = bytearray(image[-512:])
    struct.pack_into(">QQ", trailer, 40, list_at, len(fork))
    struct.pack_into(">QQ", trailer, 216, 0, 0)
    return image[:list_at] + fork + bytes(trailer)


@pytest.mark.parametrize(
    ("fork_of", "reason"),
    [
        (lambda maps: resource_fork(maps, b"mish"), "has no block map"),
        (lambda maps: resource_fork(maps)[:300], "resource fork at byte"),
        (lambda maps: resource_fork(maps).replace(struct.pack(">I", len(maps[0])), b"\0\1\0\0", 1), "leaves the fork"),
        (lambda _: b"", "names neither a property list nor a resource fork"),
    ],
)
def test_resource_forks_that_cannot_be(fork_of, reason):
    """One line has the address of the error."""
    with pytest.raises(FormatError, match=reason):
        unwrap(MemorySource(with_resource_fork(udif([(ZLIB, noise(40, 5))]), fork_of)))


def test_maps_that_lie_over_one_another_take_no_memory():
    """65,536 references to one map of a MiB would take 64 GiB."""

    def fork_of(_):
        data = struct.pack(">I", 1 << 20) + bytes(1 << 20)
        listed = struct.pack(">H4sHH", 0, b"blkx", 0xFFFF, 10) + struct.pack(">hHI4x", 0, 0xFFFF, 0) * 65536
        head = struct.pack(">IIII", 16, 16 + len(data), len(data), 28 + len(listed))
        return head + data + head + struct.pack(">8xHH", 28, 28) + listed

    tracemalloc.start()
    with pytest.raises(FormatError, match="overlaps another"):
        unwrap(MemorySource(with_resource_fork(udif([(ZLIB, noise(40, 5))]), fork_of)))
    assert tracemalloc.get_traced_memory()[1] < 32 << 20
    tracemalloc.stop()


def test_pieces_that_two_passes_touch_are_unpacked_once_as_far_as_they_are_kept(monkeypatch):
    """Five of ten pieces are kept: the first pass leaves 0 to 3 and the last one, so the second decompresses five."""
    monkeypatch.setattr(placed_module, "KEPT_BYTES", 5 * 4096)
    disk = open_udif(MemorySource(udif([(ZLIB, bytes([number]) * 4096) for number in range(10)])))
    unpacked = []
    unpack = placed_module.StoredSource._unpack
    monkeypatch.setattr(
        placed_module.StoredSource, "_unpack", lambda self, number: unpacked.append(number) or unpack(self, number)
    )
    for _ in range(2):
        for number in range(10):
            assert disk.read(number * 4096, 512) == bytes([number]) * 512
    assert unpacked == [*range(10), *range(4, 9)]

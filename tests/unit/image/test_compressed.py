from __future__ import annotations

import bz2
import contextlib
import errno
import gzip
import lzma
import os
import re
import tempfile
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from layoutscope.errors import ImageError, LayoutscopeError
from layoutscope.image import cache as image_cache
from layoutscope.image import open_image
from layoutscope.image.cache import cut_into_blocks
from layoutscope.progress import reporting
from layoutscope.zstd import zstd
from tests.cases import for_each

pytestmark = pytest.mark.images

MIB = 1024**2
NOISE = np.random.default_rng(5).integers(0, 256, MIB + 777, np.uint8).tobytes()
IMAGE = bytes(MIB) + NOISE + bytes(2 * MIB) + b"end"
COMPRESS = {
    "zstd": zstd.compress,
    "gzip": lambda data: gzip.compress(data, 1),
    "xz": lambda data: lzma.compress(data, preset=0),
    "bzip2": bz2.compress,
}


@cache
def packed_image(way: str) -> bytes:
    """Compress the image, once for all tests."""
    return COMPRESS[way](IMAGE)


@pytest.fixture(params=list(COMPRESS))
def way(request):
    return request.param


def test_a_compressed_image_reads_as_the_image(tmp_path, way):
    """The content decides: a compressed image named .img is decompressed.

    Concatenated frames, members and streams, as parallel compressors write them, are joined.
    """
    path, pack = tmp_path / "disk.img", COMPRESS[way]
    for packed in (packed_image(way), b"".join(pack(IMAGE[at : at + MIB]) for at in range(0, len(IMAGE), MIB))):
        path.write_bytes(packed)
        with open_image(path) as source:
            assert source.size_bytes == len(IMAGE)
            assert source.read(0, len(IMAGE)) == IMAGE


def test_a_long_window_is_accepted(tmp_path):
    """The option --long=31 of zstd needs a window of 2 GiB, which the library refuses by default."""
    parameter = zstd.CompressionParameter
    compressor = zstd.ZstdCompressor(options={parameter.window_log: 31, parameter.enable_long_distance_matching: 1})
    path = tmp_path / "disk.zst"
    path.write_bytes(compressor.compress(IMAGE) + compressor.flush())
    with open_image(path) as source:
        assert source.read(MIB, 1000) == NOISE[:1000]


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_skippable_frame_may_come_anywhere(tmp_path, place):
    """A parallel compressor writes frames that hold no data."""
    path = tmp_path / "disk.zst"
    frames = [zstd.compress(IMAGE[:MIB]), zstd.compress(IMAGE[MIB:])]
    frames.insert(place, bytes.fromhex("502a4d18 04000000 01020304"))
    path.write_bytes(b"".join(frames))
    with open_image(path) as source:
        assert source.read(0, source.size_bytes) == IMAGE


@pytest.mark.parametrize("cut", [5, 100, 100_000, -1])
def test_a_file_that_breaks_off_is_an_error(tmp_path, way, cut):
    """A truncated file is not a smaller image: every compression format detects it."""
    path = tmp_path / "disk"
    packed = packed_image(way)
    path.write_bytes(packed[:cut] if cut < 0 or cut > 20 else packed[: len(packed) - cut])
    with pytest.raises(ImageError, match=f"damaged {way} data"):
        open_image(path)


def test_zeros_become_holes(tmp_path):
    """64 MiB with one block of data store no more than two MiB."""
    path = tmp_path / "disk.zst"
    path.write_bytes(COMPRESS["zstd"](bytes(32 * MIB) + b"x" * 4096 + bytes(32 * MIB - 4096)))
    with open_image(path) as source:
        stored = os.fstat(source._descriptor).st_blocks * 512
        assert source.size_bytes == 64 * MIB
        assert source.read(32 * MIB - 1, 3) == b"\0xx"
    assert stored <= 2 * MIB


def test_the_temporary_file_is_gone(tmp_path, monkeypatch):
    """No named file remains, even while the image is open."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    (tmp_path / "scratch").mkdir()
    path = tmp_path / "disk.zst"
    path.write_bytes(packed_image("zstd"))
    with open_image(path) as source:
        assert list((tmp_path / "scratch").iterdir()) == []
        assert source.read(MIB, 4) == NOISE[:4]


def test_the_cache_is_used_the_second_time(tmp_path):
    """With a cache folder, the image is decompressed once, and again only if the file changes."""
    path, calls = tmp_path / "disk.zst", []
    path.write_bytes(packed_image("zstd"))

    def size() -> int:
        with reporting(calls.append), open_image(path, cache_dir=tmp_path / "cache") as source:
            return source.size_bytes

    assert (size(), bool(calls)) == (len(IMAGE), True)
    calls.clear()
    assert (size(), calls) == (len(IMAGE), [])
    path.write_bytes(COMPRESS["zstd"](IMAGE + b"more"))
    assert size() == len(IMAGE) + 4


def test_a_failed_decompression_leaves_nothing_in_the_cache(tmp_path):
    """A damaged file leaves no partial image that a later run could mistake for a whole one."""
    path = tmp_path / "disk.zst"
    path.write_bytes(packed_image("zstd")[:-100])
    with pytest.raises(ImageError):
        open_image(path, cache_dir=tmp_path / "cache")
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["CACHEDIR.TAG"]


def test_progress_ends_at_the_size_of_the_file(tmp_path, way):
    """Progress counts compressed bytes, never falls, and ends at the file's size."""
    path, steps = tmp_path / "disk", []
    path.write_bytes(packed_image(way))
    with reporting(lambda step: steps.append((step.done, step.total)) if step.phase == "decompressing" else None):
        open_image(path).close()
    assert steps == sorted(steps)
    assert steps[-1] == (path.stat().st_size, path.stat().st_size)


@for_each(
    "packed, limits, words",
    [
        # A small file with nothing but a long run of zeros is not a disk image; no image is larger than a limit.
        (zstd.compress(bytes(64 * MIB)), {"MAX_LEADING_ZEROS_BYTES": 16 * MIB}, "nothing but zeros"),
        (gzip.compress(b"\x01" + bytes(32 * MIB)), {"MAX_IMAGE_BYTES": 16 * MIB}, r"to more than 16\.0 MiB"),
        # If free space falls below the reserve, decompression ends with advice.
        (zstd.compress(IMAGE), {"_CHECK_EVERY_BYTES": MIB, "RESERVE_BYTES": 2**62}, "with cache_dir or TMPDIR"),
        (zstd.compress(gzip.compress(IMAGE)), {}, "compressed twice"),
    ],
)  # fmt: skip
def test_what_is_not_decompressed(tmp_path, monkeypatch, packed, limits, words):
    for name, value in limits.items():
        monkeypatch.setattr(image_cache, name, value)
    (tmp_path / "disk").write_bytes(packed)
    with pytest.raises(ImageError, match=words):
        open_image(tmp_path / "disk")


def test_without_a_folder_to_decompress_into_the_way_out_is_named(tmp_path, monkeypatch):
    """In a container without writable folders, the message does not blame the output."""
    path = tmp_path / "disk.zst"
    path.write_bytes(packed_image("zstd"))
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_get_default_tempdir", no_folder)
    with pytest.raises(ImageError, match=r"is compressed, and no folder .* with cache_dir or TMPDIR"):
        open_image(path)


def no_folder(*_words) -> str:
    """Fail as ``tempfile`` does if no folder is writable."""
    raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/tmp']")


def test_a_compressed_split_image_is_joined_first(tmp_path):
    """Parts of a compressed image form one stream."""
    packed = packed_image("zstd")
    half = (len(packed) + 1) // 2
    (tmp_path / "disk.zst.001").write_bytes(packed[:half])
    (tmp_path / "disk.zst.002").write_bytes(packed[half:])
    with open_image(tmp_path / "disk.zst.001") as source:
        assert source.size_bytes == len(IMAGE)


@given(st.lists(st.binary(max_size=50), max_size=20), st.integers(1, 40))
def test_blocks_hold_what_the_chunks_held(chunks, length):
    """Cutting into blocks keeps every byte, and every block but the last has the given length."""
    blocks = list(cut_into_blocks(iter(chunks), length))
    assert b"".join(blocks) == b"".join(chunks)
    assert all(len(block) == length for block in blocks[:-1])


@settings(max_examples=60)
@given(st.data())
def test_damaged_files_end_in_one_error(tmp_path_factory, data):
    """Changing any byte gives an image or an error of this package."""
    way = data.draw(st.sampled_from(list(COMPRESS)))
    packed = bytearray(COMPRESS[way](IMAGE[: 2 * MIB : 16]))
    for _ in range(data.draw(st.integers(1, 4))):
        packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.mktemp("mutated") / "disk"
    path.write_bytes(packed)
    with contextlib.suppress(LayoutscopeError):
        open_image(path).close()


def test_damage_is_told_in_words_of_ours(tmp_path, way):
    """The message has the position in the file, but not the library's own words or numbers."""
    path = tmp_path / "disk"
    packed = bytearray(packed_image(way))
    del packed[len(packed) // 2 : len(packed) // 2 + 4096]
    path.write_bytes(packed)
    with pytest.raises(ImageError) as error:
        open_image(path)
    ends = r"they do not decompress; byte [\d,]+ of the file was reached", r"the file ends early, at byte [\d,]+"
    told = str(error.value).removeprefix(f"{path}: ")
    assert re.fullmatch(rf"damaged {way} data: (?:{'|'.join(ends)})", told)

"""Headers of compressed files compared with their files: no false findings."""

from __future__ import annotations

from functools import cache

import pytest

from fixtures.hfsplus import structures as s
from fixtures.hfsplus.compressed import DECMPFS, DECMPFS_HEADER, compressed_file
from fixtures.hfsplus.locate import payload, record_of
from fixtures.hfsplus.plan import File, VolumePlan, Xattr
from fixtures.hfsplus.writer import render
from layoutscope.image import MemorySource
from tests.hfsplus import check_volume

CONTENT = b"a" * 500
PLAIN_KIND = 1


@cache
def written():
    """Return a volume with a file compressed in its attribute, an empty one, and one with only the attribute."""
    head = DECMPFS_HEADER.build({"magic": b"fpmc", "type": 4, "uncompressed_size": 9})
    root = (
        compressed_file("packed", CONTENT),
        File("empty", xattrs=(Xattr(DECMPFS, head[:8] + bytes(8)),), owner_flags=0x20),
        File("not compressed", xattrs=(Xattr(DECMPFS, head),)),
    )
    canvas, expected = render(VolumePlan(root=root))
    return bytes(canvas.to_bytearray()), expected


def told(data):
    return {
        (item.code, item.field.rpartition("/")[2]) for item in check_volume(MemorySource(data)) if item.level != "info"
    }


def test_sound_ones_and_files_without_the_flag_are_silent():
    """An empty file needs no stored bytes, and without the flag the attribute does not make a file compressed."""
    assert told(written()[0]) == set()


@pytest.mark.parametrize("size", [0, 2**64 - 1])
def test_bytes_that_are_not_compressed_are_as_long_as_they_become(size):
    """Kind 1 stores the plain bytes after the header: another length is reported at its field."""
    data, expected = written()
    image = bytearray(data)
    at = payload(image, record_of(expected, "attributes", expected.entry("packed").cnid, DECMPFS, -1))
    at += s.ATTRIBUTE_INLINE_HEAD.sizeof()
    image[at + 4 : at + 8] = PLAIN_KIND.to_bytes(4, "little")
    image[at + 8 : at + 16] = size.to_bytes(8, "little")
    assert told(bytes(image)) == {("compression-differs", "attribute_data.len_uncompressed")}

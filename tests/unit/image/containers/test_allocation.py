"""What containers store: holes are what they say, whatever else they say, and what nobody stored is not read."""

from __future__ import annotations

import struct
import subprocess

import numpy as np
import pytest

from layoutscope import scan
from layoutscope.errors import ImageError, UnsupportedError
from layoutscope.image import open_image
from layoutscope.image.containers.placed import MAX_TABLE_BYTES, refuse_expansion, refuse_qcow, stored_runs
from layoutscope.image.source import MemorySource
from layoutscope.structs.arrays import total

MIB = 1024**2
READERS = {"qcow2": "pyqcow", "vhdx": "pyvhdi", "vpc": "pyvhdi", "vmdk": "pyvmdk"}
UNITS = {"qcow2": 64 << 10, "vhdx": 8 * MIB, "vpc": 2 * MIB, "vmdk": 64 << 10}
"""What QEMU stores at once, for a disk of this size."""


def needed(module: str) -> None:
    pytest.importorskip(module, reason="the extra 'containers' is not installed")


@pytest.fixture(scope="module")
def disk(tmp_path_factory):
    """Return 100 MiB, of which the first, a part in the middle and the last MiB are noise."""
    path = tmp_path_factory.mktemp("disk") / "disk.img"
    noise = np.random.default_rng(7).integers(1, 256, MIB, np.uint8).tobytes()
    with path.open("wb") as file:
        for place in (0, 49 * MIB + 4096, 99 * MIB):
            file.seek(place)
            file.write(noise)
    return path


def convert(peer, disk, target, form, *options):
    subprocess.run([peer("qemu-img"), "convert", "-f", "raw", "-O", form, *options, disk, target], check=True)
    return target


FORMS = [
    ("qcow2", ()),
    ("qcow2", ("-c",)),
    ("qcow2", ("-o", "cluster_size=4096,compat=0.10")),
    ("vhdx", ()),
    ("vhdx", ("-o", "block_size=1048576")),
    ("vpc", ()),
    ("vmdk", ()),
    ("vmdk", ("-o", "subformat=streamOptimized")),
    ("vmdk", ("-o", "subformat=monolithicFlat")),
    ("vmdk", ("-o", "subformat=twoGbMaxExtentSparse")),
]


@pytest.mark.parametrize(
    ("form", "options"), FORMS, ids=lambda item: "-".join(item) if isinstance(item, tuple) else item
)
def test_holes_are_what_was_not_stored(disk, tmp_path, peer, form, options):
    """Nothing but zeros lies in a hole, and no more than a unit around the noise is called stored."""
    needed(READERS[form])
    data = disk.read_bytes()
    with open_image(convert(peer, disk, tmp_path / "a.img", form, *options)) as source:
        holes = source.holes
        assert all(not any(data[start : start + length]) for start, length in holes.tolist())
        assert source.size_bytes - total(holes) <= 3 * MIB + 6 * UNITS[form]
        assert total(holes) >= 70 * MIB


def qcow(size: int, tables: int, *, ofs_tables: int = 65536) -> bytes:
    return struct.pack(">4sIQIIQIIQ", b"QFI\xfb", 2, 0, 0, 16, size, 0, tables, ofs_tables)


def test_tables_that_contradict_the_disk_hide_nothing():
    """A header that speaks of another disk than the library, or a table beyond the file: all counts as stored."""
    image = qcow(4 * MIB, 1).ljust(65536 + 8, b"\0")
    assert stored_runs([MemorySource(image)], 4 * MIB).tolist() == []
    assert stored_runs([MemorySource(image)], 5 * MIB).tolist() == [[0, 5 * MIB]]
    assert stored_runs([MemorySource(image[:65536])], 4 * MIB).tolist() == [[0, 4 * MIB]]
    assert stored_runs([MemorySource(b"EVF\x09\x0d\x0a\xff\x00")], MIB).tolist() == [[0, MIB]]


def test_a_table_named_twice_hides_nothing():
    """Both entries of the first table of a qcow2 name one second table: it is no statement of either."""
    entries = struct.pack(">2Q", 131072, 131072).ljust(65536, b"\0")
    image = qcow(2**30, 2).ljust(65536, b"\0") + entries + bytes(65536)
    assert stored_runs([MemorySource(image)], 2**30).tolist() == [[0, 2**30]]
    single = qcow(2**30, 2).ljust(65536, b"\0") + entries[:8].ljust(65536, b"\0") + bytes(65536)
    assert stored_runs([MemorySource(single)], 2**30).tolist() == []


def test_tables_without_end_are_not_read():
    """A first table of a disk of exbibytes is longer than what is read of it, and than the file."""
    image = qcow(2**62, MAX_TABLE_BYTES // 8 + 1).ljust(65536, b"\0")
    assert stored_runs([MemorySource(image)], 2**62).tolist() == [[0, 2**62]]


def test_more_than_a_file_can_hold_is_refused():
    """4,096 bytes for one are the most."""
    refuse_expansion("a", 4096 * 512, 512)
    with pytest.raises(ImageError, match=r"a: claims to store .* in 512"):
        refuse_expansion("a", 4096 * 512 + 1, 512)


@pytest.mark.parametrize("form", READERS)
def test_a_sweep_of_a_disk_that_nobody_wrote_ends(tmp_path, peer, form):
    """Up to 8 TiB in a few MB of tables, with a volume's header at the start: what is stored is looked at."""
    needed(READERS[form])
    from fixtures.hfsplus.plan import VolumePlan
    from fixtures.hfsplus.writer import render

    disk = tmp_path / "disk.img"
    data = bytearray(render(VolumePlan())[0].to_bytearray())
    data[1024:1026] = data[-1024:-1022] = b"xx"
    disk.write_bytes(data)
    with disk.open("r+b") as file:
        file.truncate({"vpc": 2 << 40, "vmdk": 2 << 40}.get(form, 8 << 40) - 2**34)
    image = convert(peer, disk, tmp_path / "a.img", form)
    found = scan(image, drives=(), sweep=True)
    assert found.image.read_bytes < 2**28
    assert found.image.hole_bytes > 2**40


@pytest.mark.parametrize("entry", [8, 0x1FE, 131072 + 512, 1 << 56, 1 << 63 | 196608 | 2])
def test_references_that_a_qcow_cannot_have_are_refused(entry):
    """Bits 1 to 8 and 56 to 61 are reserved, and a cluster of 64 KiB begins at a border of one."""
    image = qcow(2**20, 1).ljust(65536, b"\0") + struct.pack(">Q", 1 << 63 | 131072).ljust(65536, b"\0")
    odd = MemorySource(image + struct.pack(">3Q", 0, 1 << 63 | 196608, entry).ljust(131072, b"\0"), "a.qcow2")
    with pytest.raises(UnsupportedError, match=r"a\.qcow2: the qcow2 image refers to clusters where none can be"):
        refuse_qcow(odd)
    for sound in (0, 1, 196608, 1 << 63 | 196608):
        refuse_qcow(MemorySource(image + struct.pack(">2Q", 0, sound).ljust(131072, b"\0")))

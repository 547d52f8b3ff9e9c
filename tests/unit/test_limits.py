"""Limits on the cost of foreign files, each exceeded: beyond them, input is refused or skipped."""

from __future__ import annotations

import lzma
import plistlib
import struct

import pytest

from fixtures.apfs.scenarios import PASSWORD
from fixtures.asif import Plan, asif
from fixtures.hfsplus.scenarios import SCENARIOS
from fixtures.hfsplus.writer import render
from fixtures.wrappers import apple_single, encrypted, parallels, parallels_description
from layoutscope import scan
from layoutscope.access.trace import AccessTrace
from layoutscope.api.save import save
from layoutscope.drive import load_profile
from layoutscope.drive.simulation import service
from layoutscope.errors import ImageError, LayoutscopeError, UnsupportedError, UsageError
from layoutscope.image import MemorySource, open_image
from layoutscope.image.containers.asif import open_asif
from layoutscope.image.containers.sparse import open_parallels
from layoutscope.image.containers.udif import open_udif
from layoutscope.image.opening import unwrap
from tests.cases import for_each
from tests.unit.image.containers.test_udif import ZLIB, placed, udif

MIB = 1024**2


@pytest.fixture
def limit(monkeypatch):
    """Return a function that lowers a limit."""

    def lower(place: str, value: float) -> None:
        monkeypatch.setattr(f"layoutscope.{place}", value)

    return lower


@pytest.fixture
def victim(tmp_path):
    """Return an HFS+ volume without either header, and a sound one."""
    data = bytearray(render(SCENARIOS["victim"])[0].to_bytearray())
    (tmp_path / "sound.img").write_bytes(data)
    data[1024:1536] = data[-1024:-512] = b"\xa5" * 512
    (tmp_path / "lost.img").write_bytes(data)
    return tmp_path


def parts(*files: tuple[str, bytes]):
    """Return a function that writes files and opens the folder of the first one, or that file."""

    def make(folder):
        for name, data in files:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data)
        first = folder / files[0][0]
        return lambda **options: open_image(first.parent if first.suffix in (".plist", ".xml") else first, **options)

    return make


def of_bytes(open_source, data: bytes):
    """Return a function that opens bytes as a container."""
    return lambda _folder: lambda: open_source(MemorySource(data))


def with_map(folder):
    """Return a function that opens a disk with its ddrescue map."""
    (folder / "disk.img").write_bytes(bytes(4096))
    (folder / "a.map").write_text("0x0 ? 1\n0x0 0x1000 +\n")
    return lambda: open_image(folder / "disk.img", map_file=folder / "a.map")


ONES, ZIPPED = b"\1" * 4096, udif([(ZLIB, bytes(512))])
XZ = lzma.compress(b"\1" * MIB, filters=[{"id": lzma.FILTER_LZMA2, "dict_size": 64 * MIB}])
TRACK = b"FILE a.bin BINARY\nTRACK 01 MODE1/2048\nINDEX 01 00:00:00\n"
FACTS = plistlib.dumps({"size": MIB, "band-size": MIB})
DESCRIPTION = parallels_description([(0, 8, ["a.hds"])]).encode()


@for_each(
    "make, size, place, value, message",
    [
        (with_map, 4096, "failing._MAX_MAP_BYTES", 20, "too large for a ddrescue map file"),
        (parts(("a.img.xz", XZ)), MIB, "cache._MAX_XZ_MEMORY_BYTES", MIB, "damaged xz data"),
        (of_bytes(open_udif, ZIPPED), 512, "containers.udif.MAX_PLIST_BYTES", 100, "the property list is longer"),
        # A list further before the trailer is not found.
        (of_bytes(unwrap, placed(ZIPPED, 7)), 512, "containers.udif.MAX_SEARCHED_BYTES", 100,
         "disk image property list at byte 7"),
        (of_bytes(open_asif, asif(Plan(ONES))), 4096, "containers.asif.MAX_TABLE_BYTES", 8,
         "has more tables than any ASIF image"),
        # Data beyond the limit is not read, so the list is invalid, or no file is named.
        (parts(("Info.plist", FACTS), ("token", b""), ("bands/1", b"")), MIB, "containers.sparse.MAX_PLIST_BYTES", 64,
         "is not that of a sparse bundle"),
        (parts(("DiskDescriptor.xml", DESCRIPTION), ("a.hds", ONES)), 4096, "containers.sparse.MAX_DESCRIPTION_BYTES",
         64, "names no file of the disk"),
        (of_bytes(open_parallels, parallels(ONES, 512)), 4096, "containers.placed.MAX_TABLE_BYTES", 8 * 4 - 1,
         "the table of blocks is not within the file"),
        (parts(("a.cue", TRACK), ("a.bin", ONES)), 4096, "containers.wrappers.MAX_CUE_BYTES", 20,
         "names no track with data"),
        # The data fork is the second entry.
        (of_bytes(unwrap, apple_single(ONES)), 4096, "containers.wrappers.MAX_APPLE_SINGLE_ENTRIES", 1,
         "the AppleSingle file has no data fork"),
    ],
)  # fmt: skip
def test_each_container_is_refused_beyond_its_limits(tmp_path, monkeypatch, make, size, place, value, message):
    """Each file opens, and beyond the limit is refused in one line before more of it is read."""
    again = make(tmp_path)
    assert again().size_bytes == size
    monkeypatch.setattr(f"layoutscope.image.{place}", value)
    with pytest.raises(LayoutscopeError, match=message):
        again()


def test_keys_of_encrypted_images(tmp_path, limit):
    """The key of the password is the second one, which is beyond the limit."""
    pytest.importorskip("cryptography", reason="the extra 'crypto' is not installed")
    (tmp_path / "a").write_bytes(encrypted(ONES, PASSWORD))
    assert open_image(tmp_path / "a", password=PASSWORD).size_bytes == 4096
    limit("image.containers.encrypted.MAX_KEYS", 1)
    with pytest.raises(UnsupportedError, match="no password opens"):
        open_image(tmp_path / "a", password=PASSWORD)


def test_metadata_of_core_storage(limit):
    """Beyond the limit nothing is decrypted: the volume is named without the missing details."""
    pytest.importorskip("cryptography")
    from fixtures.corestorage import PhysicalVolumePlan, physical_volume
    from tests.unit.partition.test_corestorage import refused

    data = physical_volume(PhysicalVolumePlan())
    assert "'Macintosh HD'" in str(refused(data))
    limit("partition.corestorage.MAX_UNITS", 0)
    assert "'Macintosh HD'" not in str(refused(data))


def test_extents_of_descriptions(tmp_path, limit):
    """A descriptor that names more files than allowed is refused before any of them is opened."""
    text = "# Disk DescriptorFile\nRW 1 ZERO\nRW 8 ZERO\n"
    (tmp_path / "a.vmdk").write_text(text)
    with open_image(tmp_path / "a.vmdk") as source:
        assert source.read(0, source.size_bytes) == bytes(9 * 512)
    limit("image.containers.foreign.MAX_EXTENTS", 2)
    (tmp_path / "a.vmdk").write_text(text + 'RW 1 FLAT "missing" 0\n')
    with pytest.raises(ImageError, match="claims more than 2 extents"):
        open_image(tmp_path / "a.vmdk")


def test_logs_of_timed_reads(limit):
    """A log with too many reads, and one with impossible numbers, are refused."""
    from layoutscope.drive.calibration.plan import read_log
    from layoutscope.errors import UsageError

    head = "step,offset,length,at_ns,ns\ncapacity,0,8192,0,0\n"
    assert len(read_log(head + "pairs,0,4096,0,1\n" * 3, "a.csv")) == 3
    with pytest.raises(UsageError, match="line 3 has a number that no drive gives"):
        read_log(head + f"pairs,0,4096,0,{2**62 + 1}\n", "a.csv")
    limit("drive.calibration.plan.MAX_LINES", 3)
    with pytest.raises(UsageError, match="or there are too many lines"):
        read_log(head + "pairs,0,4096,0,1\n" * 3, "a.csv")


def test_manifests_of_captures(tmp_path, limit):
    """An overlong manifest is refused before it is parsed."""
    (tmp_path / "disk.img").write_bytes(render(SCENARIOS["populated"])[0].to_bytearray())
    save(scan(tmp_path / "disk.img", drives=()), tmp_path / "a.lscope")
    limit("tables.capture.MAX_MANIFEST_BYTES", 1000)
    with pytest.raises(ImageError, match="the manifest is too long"):
        scan(tmp_path / "a.lscope", drives=())


def test_heights_of_a_sweep(victim, limit):
    """HFS+ nodes above the limit are ignored, but the leaves are found."""
    whole = scan(victim / "lost.img", drives=(), sweep=True)
    limit("filesystems.hfsplus.tree.MAX_HEIGHT", 1)
    leaves = scan(victim / "lost.img", drives=(), sweep=True)
    counts = [len(each.volumes[0].layout.nodes) for each in (whole, leaves)]
    assert 0 < counts[1] <= counts[0]
    assert len(leaves.volumes[0].layout.entries) == len(whole.volumes[0].layout.entries)


def test_roots_that_are_tried(victim, limit):
    """With a lost root number and no tries, no root is found, but the leaves are read."""
    data = bytearray((victim / "sound.img").read_bytes())
    from layoutscope import read_layouts

    nodes = read_layouts(victim / "sound.img")[0].nodes
    header = nodes.filter((nodes["tree"] == "catalog") & (nodes["kind"] == "header"))["image_offset"][0]
    # TN1150, BTHeaderRec: the root's number follows the descriptor of 14 bytes and the depth of two.
    struct.pack_into(">I", data, header + 16, 2**31)
    (victim / "rootless.img").write_bytes(data)
    assert len(scan(victim / "rootless.img", drives=(), sweep=True).volumes[0].layout.entries)
    limit("filesystems.hfsplus.rescue.MAX_ROOTS", 0)
    result = scan(victim / "rootless.img", drives=(), sweep=True)
    assert result.exit_code == 3


def test_headers_that_are_tried(victim, limit):
    """A disk full of headers is searched up to the limit; a header after it is not found."""
    from layoutscope.filesystems.hfsplus import rescue

    tried = []
    read_header = rescue.read_header
    limit("filesystems.hfsplus.rescue.read_header", lambda *words: tried.append(1) or read_header(*words))
    data = bytearray((victim / "lost.img").read_bytes())
    free = len(data) // 512 * 512 - 4096
    for at in range(free - 64 * 512, free, 512):
        data[at : at + 4] = b"H+\0\4"
    (victim / "full.img").write_bytes(data)
    limit("filesystems.hfsplus.rescue.MAX_HEADERS", 10)
    scan(victim / "full.img", drives=(), sweep=True)
    assert len(tried) == 10


def test_blocks_of_a_made_up_header():
    """The blocks of a stretch of 2^50 bytes are large enough for 32-bit counts."""
    from layoutscope.filesystems.hfsplus.rescue import MAX_BLOCKS, _stand_in

    header = _stand_in(2**50)
    assert header.len_block * MAX_BLOCKS >= 2**50
    assert header.len_block < 2**50 / MAX_BLOCKS * 2 + 1


def test_nodes_that_are_compared_with_the_journal(tmp_path, limit):
    """For more nodes than allowed, ages stay unknown, and reading continues."""
    from tests.fuzz.of_hfsplus import PLANS

    (tmp_path / "a.img").write_bytes(render(PLANS["journal"])[0].to_bytearray())
    whole = scan(tmp_path / "a.img", drives=(), sweep=True)
    limit("filesystems.hfsplus.sweep.MAX_COMPARED", 0)
    without = scan(tmp_path / "a.img", drives=(), sweep=True)
    assert len(without.volumes[0].layout.entries) == len(whole.volumes[0].layout.entries) > 0


def test_reads_that_stretch_over_years():
    """A month of waiting is exact to the second; a longer trace is refused, as the clock would overflow."""
    trace = AccessTrace.from_reads([0, MIB], [4096, 4096])
    trace.think_us[1] = 29 * 86400e6
    drive = load_profile("generic-7200")
    assert service(trace, drive).seconds == pytest.approx(29 * 86400, abs=1)
    trace.think_us[1] = 200 * 365 * 86400e6
    with pytest.raises(UsageError, match=r"more than 30 days.*: read 2 comes 6\.31e\+09 s after"):
        service(trace, drive)

"""Limits on the cost of foreign files, each exceeded: beyond them, input is refused or skipped."""

from __future__ import annotations

import lzma
import struct

import pytest

from fixtures.apfs.plan import VolumePlan as ApfsVolume
from fixtures.apfs.scenarios import ENCRYPTED, PASSWORD, container
from fixtures.apfs.writer import write
from fixtures.asif import Plan, asif
from fixtures.hfsplus.scenarios import SCENARIOS
from fixtures.hfsplus.writer import render
from layoutscope import scan
from layoutscope.access.trace import AccessTrace
from layoutscope.api.save import save
from layoutscope.drive import load_profile
from layoutscope.drive.simulation import service
from layoutscope.errors import FormatError, ImageError, UnsupportedError, UsageError
from layoutscope.image import MemorySource, open_image
from layoutscope.image.opening import unwrap
from layoutscope.partition import find_volumes
from tests.apfs import read_layouts
from tests.unit.partition.builders import APFS, HFS, Disk, apm, gpt_disk, gpt_entry, hfs_plus, mbr

MIB = 1024**2


@pytest.fixture
def limit(monkeypatch):
    """Return a function that lowers a limit."""

    def lower(place: str, value: float) -> None:
        monkeypatch.setattr(f"layoutscope.{place}", value)

    return lower


@pytest.fixture(scope="module")
def apfs(tmp_path_factory):
    """Return a small container, and one with an encrypted volume."""
    folder = tmp_path_factory.mktemp("apfs")
    write(container(ApfsVolume("Plain"), block_count=4096), folder / "plain.img")
    write(container(ENCRYPTED, block_count=16384), folder / "locked.img")
    return folder


@pytest.fixture
def victim(tmp_path):
    """Return an HFS+ volume without either header, and a sound one."""
    data = bytearray(render(SCENARIOS["victim"])[0].to_bytearray())
    (tmp_path / "sound.img").write_bytes(data)
    data[1024:1536] = data[-1024:-512] = b"\xa5" * 512
    (tmp_path / "lost.img").write_bytes(data)
    return tmp_path


def messages(result) -> str:
    found = [finding.message for finding in result.findings]
    found += [text for volume in result.parts for text in volume.layout.findings["message"]]
    return "\n".join(found)


def test_maps_of_ddrescue(tmp_path, limit):
    """An overlong map is not read."""
    (tmp_path / "disk.img").write_bytes(bytes(4096))
    (tmp_path / "a.map").write_text("0x0 ? 1\n0x0 0x1000 +\n")
    open_image(tmp_path / "disk.img", map_file=tmp_path / "a.map").close()
    limit("image.failing._MAX_MAP_BYTES", 20)
    with pytest.raises(ImageError, match="too large for a ddrescue map file"):
        open_image(tmp_path / "disk.img", map_file=tmp_path / "a.map")


def test_dictionaries_of_xz(tmp_path, limit):
    """A header that requires more memory than allowed gives a one-line error."""
    filters = [{"id": lzma.FILTER_LZMA2, "dict_size": 64 * MIB}]
    (tmp_path / "a.img.xz").write_bytes(lzma.compress(b"\1" * MIB, filters=filters))
    assert open_image(tmp_path / "a.img.xz").size_bytes == MIB
    limit("image.cache._MAX_XZ_MEMORY_BYTES", MIB)
    with pytest.raises(ImageError, match="damaged xz data"):
        open_image(tmp_path / "a.img.xz")


def test_property_lists_of_disk_images(limit):
    """An overlong list is refused before it is read."""
    from layoutscope.image.containers.udif import open_udif
    from tests.unit.image.containers.test_udif import ZLIB, udif

    image = udif([(ZLIB, bytes(512))])
    assert open_udif(MemorySource(image)).size_bytes == 512
    limit("image.containers.udif.MAX_PLIST_BYTES", 100)
    with pytest.raises(FormatError, match="the property list is longer"):
        open_udif(MemorySource(image))


def test_tables_of_sparse_images(limit):
    """A macOS 26 image with too many tables is refused."""
    from layoutscope.image.containers.asif import open_asif

    image = asif(Plan(b"\1" * 4096))
    assert open_asif(MemorySource(image)).read(0, 2) == b"\1\1"
    limit("image.containers.asif.MAX_TABLE_BYTES", 8)
    with pytest.raises(UnsupportedError, match="has more tables than any ASIF image"):
        open_asif(MemorySource(image))


def test_property_lists_of_bundles(tmp_path, limit):
    """Data beyond the limit is not read, so the list is invalid."""
    import plistlib

    bundle = tmp_path / "a.sparsebundle"
    (bundle / "bands").mkdir(parents=True)
    (bundle / "Info.plist").write_bytes(plistlib.dumps({"size": MIB, "band-size": MIB}))
    (bundle / "token").touch()
    assert open_image(bundle).size_bytes == MIB
    limit("image.containers.sparse.MAX_PLIST_BYTES", 64)
    with pytest.raises(ImageError, match="is not that of a sparse bundle"):
        open_image(bundle)


def test_tables_of_blocks(limit):
    """An overlong table is refused before it is read."""
    from fixtures.wrappers import parallels
    from layoutscope.image.containers.sparse import open_parallels

    image = MemorySource(parallels(b"\1" * 4096, 512))
    assert open_parallels(image).size_bytes == 4096
    limit("image.containers.placed.MAX_TABLE_BYTES", 8 * 4 - 1)
    with pytest.raises(FormatError, match="the table of blocks is not within the file"):
        open_parallels(image)


def test_descriptions_of_parallels(tmp_path, limit):
    """Data beyond the limit is not read, so no file is named."""
    from fixtures.wrappers import parallels_description

    (tmp_path / "DiskDescriptor.xml").write_text(parallels_description([(0, 8, ["a.hds"])]))
    (tmp_path / "a.hds").write_bytes(b"\1" * 4096)
    assert open_image(tmp_path).size_bytes == 4096
    limit("image.containers.sparse.MAX_DESCRIPTION_BYTES", 64)
    with pytest.raises(ImageError, match="names no file of the disk"):
        open_image(tmp_path)


def test_how_far_a_property_list_is_looked_for(limit):
    """A list further before the trailer is not found."""
    from tests.unit.image.containers.test_udif import ZLIB, placed, udif

    image = MemorySource(placed(udif([(ZLIB, bytes(512))]), 7))
    assert unwrap(image).size_bytes == 512
    limit("image.containers.udif.MAX_SEARCHED_BYTES", 100)
    with pytest.raises(FormatError, match="disk image property list at byte 7"):
        unwrap(image)


def test_lists_of_tracks(tmp_path, limit):
    """Data beyond the limit is not read."""
    (tmp_path / "a.bin").write_bytes(b"\1" * 4096)
    (tmp_path / "a.cue").write_text("FILE a.bin BINARY\nTRACK 01 MODE1/2048\nINDEX 01 00:00:00\n")
    assert open_image(tmp_path / "a.cue").size_bytes == 4096
    limit("image.containers.wrappers.MAX_CUE_BYTES", 20)
    with pytest.raises(UnsupportedError, match="names no track with data"):
        open_image(tmp_path / "a.cue")


def test_entries_of_apple_single(limit):
    """The data fork is the second entry, which is beyond the limit."""
    from fixtures.wrappers import apple_single

    assert unwrap(MemorySource(apple_single(b"\1" * 4096))).size_bytes == 4096
    limit("image.containers.wrappers.MAX_APPLE_SINGLE_ENTRIES", 1)
    with pytest.raises(UnsupportedError, match="the AppleSingle file has no data fork"):
        unwrap(MemorySource(apple_single(b"\1" * 4096)))


def test_keys_of_encrypted_images(tmp_path, limit):
    """The key of the password is the second one, which is beyond the limit."""
    pytest.importorskip("cryptography", reason="the extra 'crypto' is not installed")
    from fixtures.wrappers import encrypted

    (tmp_path / "a").write_bytes(encrypted(b"\1" * 4096, PASSWORD))
    assert open_image(tmp_path / "a", password=PASSWORD).size_bytes == 4096
    limit("image.containers.encrypted.MAX_KEYS", 1)
    with pytest.raises(UnsupportedError, match="no password opens"):
        open_image(tmp_path / "a", password=PASSWORD)


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


def gpt(count: int) -> MemorySource:
    entries = [gpt_entry(HFS if number % 2 else APFS, 64 + number, 64 + number) for number in range(count)]
    return MemorySource(bytes(gpt_disk(MIB, entries).put(0, mbr((0xEE, 1, 2047))).data))


def test_entries_of_gpt(limit):
    """An oversized entry array is not read; of too many partitions the first ones count."""
    assert len(find_volumes(gpt(5)).candidates) == 5
    limit("partition.maps.MAX_PARTITIONS", 3)
    found = find_volumes(gpt(5))
    assert len(found.candidates) == 3
    assert "5 partitions; the first 3 are looked at" in [finding.message for finding in found.findings]
    limit("partition.maps.MAX_ENTRIES_BYTES", 128 * 128 - 1)
    found = find_volumes(gpt(5))
    assert any("the array of entries is too large" in finding.message for finding in found.findings)


def test_addresses_of_gpt():
    """Sectors go up to 2^64 - 1, of 512 bytes: addresses beyond 63 bits are cut off without overflow."""
    disk = gpt_disk(MIB, [gpt_entry(HFS, 64, 2**64 - 2)]).put(0, mbr((0xEE, 1, 2047)))
    found = find_volumes(MemorySource(bytes(disk.data)))
    assert all(0 <= item.image_offset + item.size_bytes <= MIB for item in found.candidates)
    assert all(0 <= (finding.image_offset or 0) < 2**63 for finding in found.findings)
    assert found.findings


def test_entries_of_apple_maps(limit):
    """If a map claims more entries than allowed, the first ones are read."""
    disk = Disk(MIB)
    apm(disk, [("Apple", "Apple_partition_map", 1, 3), *(("a", "Apple_HFS", 64 * n, 64) for n in range(1, 5))])
    source = MemorySource(bytes(disk.data))
    assert len(find_volumes(source).candidates) == 4
    limit("partition.maps.MAX_APM_ENTRIES", 3)
    found = find_volumes(source)
    assert len(found.candidates) == 2
    assert any("the map claims 5 entries; at most 3" in finding.message for finding in found.findings)


def chain(length: int) -> MemorySource:
    """Return a disk with an extended partition with a chain of records."""
    disk = Disk(4 * MIB).put(0, mbr((0x05, 1000, 6000)))
    for number in range(length):
        disk.put((1000 + 10 * number) * 512, mbr((0xAF, 4, 6), (0x05, 10 * (number + 1), 10)))
        hfs_plus(disk, (1004 + 10 * number) * 512, 6 * 512)
    disk.put((1000 + 10 * length) * 512, mbr((0xAF, 4, 6)))
    return MemorySource(bytes(disk.data))


def test_chains_of_logical_partitions(limit):
    """An overlong chain ends at the limit, with a finding."""
    assert len(find_volumes(chain(5)).candidates) == 6
    limit("partition.maps.MAX_LOGICAL", 3)
    found = find_volumes(chain(5))
    assert len(found.candidates) == 3
    assert found.findings


def test_metadata_of_core_storage(limit):
    """Beyond the limits nothing is decrypted or parsed: the volume is named without the missing details."""
    pytest.importorskip("cryptography")
    from fixtures.corestorage import PhysicalVolumePlan, physical_volume
    from tests.unit.partition.test_corestorage import refused

    data = physical_volume(PhysicalVolumePlan())
    assert "'Macintosh HD'" in str(refused(data))
    limit("partition.corestorage.MAX_UNITS", 0)
    assert "'Macintosh HD'" not in str(refused(data))
    limit("partition.corestorage.MAX_UNITS", 8192)
    limit("partition.corestorage.MAX_LABEL_BYTES", 0)
    assert "'Macintosh HD'" not in str(refused(data))


def test_bags_of_keys(apfs, limit):
    """A bag with too many blocks is not read, and the volume stays locked."""
    assert scan(apfs / "locked.img", drives=(), password=PASSWORD).exit_code == 0
    limit("filesystems.apfs.keybag.MAX_BAG_BLOCKS", 0)
    result = scan(apfs / "locked.img", drives=(), password=PASSWORD)
    assert result.exit_code == 3
    assert "impossible length" in messages(result)


def test_rings_of_checkpoints(apfs, limit):
    """An area with too many blocks is not read, and the error says so."""
    assert scan(apfs / "plain.img", drives=()).exit_code == 0
    limit("filesystems.apfs.checkpoint.MAX_RING_BLOCKS", 4)
    with pytest.raises(FormatError, match="impossibly large"):
        scan(apfs / "plain.img", drives=())


def test_ephemeral_objects(apfs, limit):
    """An object of excessive declared size is invalid, and its users report it."""
    limit("filesystems.apfs.checkpoint.MAX_OBJECT_BYTES", 1024)
    result = scan(apfs / "plain.img", drives=())
    assert result.exit_code == 3
    assert "impossible size" in messages(result)


def test_regions_beyond_every_device(apfs, limit):
    """A region that no device can hold is left out with a finding."""
    limit("filesystems.apfs.spaceman.MAX_BLOCKS", 8)
    result = scan(apfs / "plain.img", drives=())
    assert result.exit_code == 3
    assert "impossible address: block" in messages(result)


def test_levels_of_trees(apfs, limit):
    """A root that claims too many levels is invalid and not followed."""
    limit("filesystems.apfs.btree.MAX_LEVELS", 0)
    result = scan(apfs / "plain.img", drives=())
    assert result.exit_code == 3
    assert "tree of 1 levels" in messages(result)


def swept(path) -> list[int]:
    """Return the levels of the nodes that a sweep of a container finds."""
    found = []
    with open_image(path) as source, pytest.MonkeyPatch.context() as patch:
        from layoutscope.filesystems.apfs import sweep

        objects_in = sweep._objects_in
        patch.setattr(sweep, "_objects_in", lambda *words: found.append(objects_in(*words)) or found[-1])
        read_layouts(source, sweep=True)
    return [level for each in found for level in each.level[each.is_node].tolist()]


def test_levels_of_swept_nodes(tmp_path, limit):
    """A block with a level at or above the limit is not a node."""
    from tests.fuzz.of_apfs import PLANS

    write(PLANS["deep"], tmp_path / "a.img")
    data = bytearray((tmp_path / "a.img").read_bytes())
    # Without a superblock, a sweep searches for every kind of object.
    data[:4096] = bytes(4096)
    (tmp_path / "a.img").write_bytes(data)
    assert max(swept(tmp_path / "a.img")) >= 1
    limit("filesystems.apfs.sweep.MAX_LEVELS", 1)
    assert set(swept(tmp_path / "a.img")) == {0}


def test_sizes_of_swept_nodes(tmp_path, limit):
    """A block that is not sound is tried as a node of several blocks, up to the limit."""
    from layoutscope.filesystems.apfs import sweep
    from tests.fuzz.of_apfs import PLANS

    write(PLANS["deep"], tmp_path / "a.img")
    data = bytearray((tmp_path / "a.img").read_bytes())
    data[:4096] = bytes(4096)
    (tmp_path / "a.img").write_bytes(data)
    tried, try_size = [], sweep._try_size
    limit("filesystems.apfs.sweep._try_size", lambda *words: tried.append(words[-1]) or try_size(*words))
    swept(tmp_path / "a.img")
    assert set(tried) == {8192, 16384, 32768, 65536}
    tried.clear()
    limit("filesystems.apfs.sweep.LARGEST_NODE", 8192)
    swept(tmp_path / "a.img")
    assert set(tried) == {8192}


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

"""Rare structures: reaper, shrinking, encryption in progress, Fusion cache, jumpstart."""

from __future__ import annotations

from io import BytesIO
from uuid import UUID

import polars as pl
import pytest

from fixtures.apfs import locate, underway
from fixtures.apfs.scenarios import GROUP, SCENARIOS
from fixtures.apfs.structures import container as nx
from fixtures.apfs.structures import objects as disk
from fixtures.apfs.structures import space
from fixtures.apfs.structures import underway as work
from fixtures.apfs.writer import write
from layoutscope.image.raw import RawFile
from tests.apfs import read_layouts
from tests.sparse import write_sparse

HEADER = disk.OBJECT_HEADER_SIZE
ENTRIES = HEADER + disk.REAP_LIST.sizeof()
LIST_HEADER = HEADER + space.FUSION_WBC_LIST.sizeof()
UNKNOWN_TYPE = 0x7777


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Return images and planned layout of a scenario."""
    made = {}

    def get(name):
        if name not in made:
            folder = tmp_path_factory.mktemp(name)
            paths = [folder / "main.img"] + ([folder / "second.img"] if SCENARIOS[name].fusion else [])
            made[name] = paths, write(SCENARIOS[name], *paths)
        return made[name]

    return get


def read(paths):
    """Read a container of one or two images."""
    with RawFile(paths[0]) as source:
        second = (RawFile(paths[1]), 0) if len(paths) > 1 else None
        return read_layouts(source, second=second)


def changed(written, name, folder, change):
    """Change a copy of a scenario's first image; return the images and the result of the change."""
    paths, expected = written(name)
    data = bytearray(paths[0].read_bytes())
    where = change(data, expected)
    path = folder / "changed.img"
    write_sparse(path, BytesIO(data))
    return [path, *paths[1:]], where


def ephemerals(image, expected, kind):
    """Return addresses of the newest checkpoint's ephemeral objects of a type."""
    found = [item for _, item in locate.mappings(image, expected) if item.cpm_type & 0xFFFF == kind]
    return [item.cpm_paddr * expected.block_size for item in found]


def put(image, expected, start, structure, field, value, *, inside=HEADER):
    """Set a field of an object and correct its checksum; return the field's address."""
    where = locate.put_field(image, start + inside, structure, field, lambda _: value)
    locate.fix_checksum(image, start, expected.block_size)
    return where


def found(layouts):
    """Return code and address of every finding."""
    return [row for layout in layouts for row in layout.findings.select("code", "image_offset").rows()]


def test_work_under_way_is_told(written):
    """Objects to be reaped, blocks to be moved, and the progress of encryption are counted as planned."""
    container, volume = read(written("under-way")[0])
    details = container.facts.details
    assert details["objects to be reaped"] == len(underway.REAPED)
    assert details["being reaped"] == "fs 9000"
    assert details["reaping phase"] == "snapshots"
    assert details["blocks to be moved"] == 5 + 7
    assert details["blocked-out blocks"] == "2,000 from block 29,000"
    assert volume.facts.details["encryption under way"] == "encrypting"
    assert volume.facts.details["encryption progress"] == "40 of 100 blocks"
    assert found([container, volume]) == []
    assert volume.regions.filter(pl.col("type") == "er-recovery-block").height == underway.RECOVERY_BLOCKS


def test_volumes_of_a_group_are_shown_together(written):
    """The container names both members of the planned group with their roles, and each member names the group."""
    container, *volumes = read(written("volumes")[0])
    group = str(UUID(bytes=GROUP)).upper()
    assert container.facts.details[f"volume group {group}"] == "volume 1 (system) + volume 2 (data)"
    assert [item.facts.details.get("volume group") for item in volumes] == [group, group, None]


def test_the_write_back_cache_is_counted(written):
    """The blocks in the cache's list and in the middle tree are the planned ones, all of them dirty."""
    details = read(written("fusion")[0])[0].facts.details
    lengths = sum(length for _, _, length in SCENARIOS["fusion"].fusion.cached_runs)
    assert details["write-back cache blocks in use"] == lengths
    assert details["cached blocks"] == details["dirty cached blocks"] == lengths


def list_field(field, value, index=0):
    """Change a field of a reap list."""

    def apply(image, expected):
        start = ephemerals(image, expected, disk.ObjectType.NX_REAP_LIST)[index]
        return put(image, expected, start, disk.REAP_LIST, field, value)

    return apply


def reaper_field(field, value, at=None):
    """Change a field of the reaper; the finding is at `at`, in bytes from its start."""

    def apply(image, expected):
        start = ephemerals(image, expected, disk.ObjectType.NX_REAPER)[0]
        where = put(image, expected, start, disk.REAPER, field, value)
        return where if at is None else start + at

    return apply


def entry_field(field, value):
    """Change a field of the only entry of the first reap list, in slot 1; the finding is at the entry."""

    def apply(image, expected):
        start = ephemerals(image, expected, disk.ObjectType.NX_REAP_LIST)[0]
        entry = ENTRIES + disk.REAP_LIST_ENTRY_SIZE
        put(image, expected, start, work.REAP_LIST_ENTRY, field, value, inside=entry)
        return start + entry

    return apply


def region_field(kind, structure, field, value, *, at=None):
    """Change a field of an object of the volume."""

    def apply(image, expected):
        start = locate.region(kind)(image, expected)
        where = put(image, expected, start, structure, field, value)
        return where if at is None else start + at

    return apply


def move_target(image, expected):
    """Direct the first run of blocks to be moved to a place without blocks."""
    start = locate.root("evict-mapping", -1)(image, expected)
    place = locate.records(image, start, expected.block_size)[0]
    return put(image, expected, start, work.EVICT_MAPPING_VALUE, "dst_paddr", 1 << 40, inside=place.value - start)


def bitmap_record(image, expected):
    """Make the record of the bitmap's tree point to a block without a bitmap."""
    start = locate.root("gbitmap")(image, expected)
    place = locate.records(image, start, expected.block_size)[0]
    image[place.value : place.value + 8] = (3).to_bytes(8, "little")
    locate.fix_checksum(image, start, expected.block_size)
    return place.key


CONTRADICTIONS = {
    "number of entries": (list_field("nrl_count", 9), "count-differs"),
    "first entry": (list_field("nrl_first", 5000), "structure-invalid"),
    "number of lists": (reaper_field("nr_rlcount", 5), "count-differs"),
    "what is reaped": (reaper_field("nr_type", 0x2, HEADER + disk.REAPER.sizeof()), "record-invalid"),
    "type of an entry": (entry_field("nrle_type", UNKNOWN_TYPE), "record-invalid"),
    "flags of an entry": (entry_field("nrle_flags", 0), "record-invalid"),
    "version of the state": (
        region_field("er-state", work.ER_STATE, "ersb_version", 9),
        "structure-invalid",
    ),
    "magic of the state": (region_field("er-state", work.ER_STATE, "ersb_magic", 9), "structure-invalid"),
    "where blocks move": (move_target, "record-invalid"),
    "record of the bitmap": (bitmap_record, "record-invalid"),
}


@pytest.mark.full
@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_what_is_not_understood_is_found_at_its_address(written, tmp_path, name):
    """A field that contradicts others gives a finding at its byte."""
    change, code = CONTRADICTIONS[name]
    paths, where = changed(written, "under-way", tmp_path, change)
    assert (code, where) in found(read(paths))


@pytest.mark.full
def test_an_entry_that_leads_out_of_the_cache_is_found(written, tmp_path):
    """The second entry of the write-back cache's list gives a finding at its place if it names a block outside."""

    def change(image, expected):
        start = ephemerals(image, expected, disk.ObjectType.NX_FUSION_WBC_LIST)[0]
        entry = LIST_HEADER + space.FUSION_WBC_LIST_ENTRY.sizeof()
        put(image, expected, start, space.FUSION_WBC_LIST_ENTRY, "fwle_wbc_lba", 5, inside=entry)
        return start + entry

    paths, where = changed(written, "fusion", tmp_path, change)
    assert ("record-invalid", where) in found(read(paths))


def test_a_driver_longer_than_its_extents_is_found(written, tmp_path):
    """The boot record's driver length is compared with its blocks."""

    def change(image, expected):
        start = locate.region("efi-jumpstart", -1)(image, expected)
        return put(image, expected, start, nx.EFI_JUMPSTART, "nej_efi_file_len", 6 * 4096 + 1)

    paths, where = changed(written, "jumpstart", tmp_path, change)
    assert found(read(paths)) == [("structure-invalid", where)]


def test_an_ephemeral_object_of_an_unknown_type_is_found(written, tmp_path):
    """An object with an unknown type in the checkpoint maps gives a finding at the object."""

    def change(image, expected):
        place, mapping = next(item for item in locate.mappings(image, expected) if item[1].cpm_type & 0xFFFF == 0x12)
        field = locate.field_offset(disk.CHECKPOINT_MAPPING, "cpm_type")
        image[place + field : place + field + 2] = UNKNOWN_TYPE.to_bytes(2, "little")
        locate.fix_checksum(image, locate.checkpoint_map(image, expected), expected.block_size)
        return mapping.cpm_paddr * expected.block_size

    paths, where = changed(written, "under-way", tmp_path, change)
    assert ("record-invalid", where) in found(read(paths))


def test_damage_on_the_second_device_says_so(written, tmp_path):
    """A node of the second device with a wrong checksum is reported with that device and its address there."""
    paths, expected = written("fusion")
    node = next(n for n in expected.live.nodes if n.device == 1 and n.tree == "fs" and n.level == 0)
    data = bytearray(paths[1].read_bytes())
    data[node.paddr * expected.block_size + 100] ^= 1
    second = tmp_path / "second.img"
    write_sparse(second, BytesIO(data))
    layouts = read([paths[0], second])
    rows = layouts[2].findings.filter(pl.col("code") == "checksum-mismatch").select("device", "image_offset").rows()
    assert rows == [(1, node.paddr * expected.block_size)]


def test_nodes_on_a_missing_device_are_named_with_it(written):
    """Without the second image of a Fusion set, unreadable nodes are reported with device 1.

    Objects that are missing everywhere, such as another copy of a superblock, are reported at the container's start.
    """
    layouts = read(written("fusion")[0][:1])
    found = [row for layout in layouts for row in layout.findings.rows(named=True) if row["level"] == "error"]
    missing = [row for row in found if row["code"] != "fusion-half" and row["image_offset"]]
    assert missing
    assert {row["device"] for row in missing} == {1}


@pytest.mark.parametrize("sweeps", [False, True])
def test_the_second_device_alone_tells_what_lies_on_it(written, sweeps):
    """Its superblock names the set and counts its volumes; a sweep finds exactly the planned nodes on it."""
    paths, expected = written("fusion")
    with RawFile(paths[1]) as source:
        (layout,) = read_layouts(source, sweep=sweeps)
    details = layout.facts.details
    assert details["volumes"] == len(SCENARIOS["fusion"].volumes)
    assert details["blocks of both devices"] == sum(expected.block_counts)
    assert layout.facts.size_bytes == expected.block_counts[1] * expected.block_size
    assert "fusion-half" in layout.findings["code"].to_list()
    found = set(layout.nodes.select("image_offset", "node_id", "level").rows())
    planned = {(n.paddr * expected.block_size, n.oid, n.level) for n in expected.live.nodes if n.device == 1}
    assert planned <= found if sweeps else not found

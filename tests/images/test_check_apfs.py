"""The structure check of APFS containers: every planted fault is found, and sound images give no finding."""

from __future__ import annotations

import numpy as np
import pytest

from fixtures.apfs import locate as at
from fixtures.apfs.fault import in_record, swap_entries
from fixtures.apfs.plan import FilePlan, VolumePlan
from fixtures.apfs.scenarios import PASSWORD, SCENARIOS, container
from fixtures.apfs.structures import records as disk
from fixtures.apfs.structures.objects import KVLOC, OBJECT_HEADER
from fixtures.apfs.structures.records import RecordType
from fixtures.apfs.victims import VICTIMS
from fixtures.apfs.writer import write
from fixtures.fault import Fault, planted
from fixtures.faults_apfs import FAULTS
from layoutscope.checks.apfs.registry import CONTAINER_CHECKS, VOLUME_CHECKS
from layoutscope.filesystems.apfs.container import open_container, report_changes
from layoutscope.findings import FindingLog
from layoutscope.image import open_image
from layoutscope.image.source import MemorySource
from layoutscope.partition import find_volumes
from layoutscope.structs.checksum import crc32c_of_words
from layoutscope.structs.records import (
    APFS_SUPERBLOCK,
    CHECKPOINT_MAP_HEAD,
    CHECKPOINT_MAPPING,
    CIB_HEAD,
    NX_SUPERBLOCK,
    OBJ_PHYS,
    OMAP_PHYS,
    REAPER_HEAD,
    SPACEMAN_PHYS,
)
from tests.apfs import check_container
from tests.cases import for_each
from tests.images.test_check_apfs_fields import changed, container_map

BLOCK_BYTES = 4096
HASHED_KEY_BYTES = disk.HASHED_KEY.sizeof()
BY_NAME = {fault.name: fault for fault in FAULTS}

# The finding for each kind of fault.
CODES = {
    "checksum": {"checksum-mismatch", "checkpoint-invalid", "volume-unreadable"},
    "object-header": {"node-invalid", "node-header-differs", "superblock-differs", "volume-unreadable"},
    "node-header": {"node-header-differs", "node-invalid", "record-invalid"},
    "record-table": {"node-invalid", "record-invalid"},
    "key-order": {"keys-unordered", "record-differs"},
    "tree-link": {"subtree-missing"},
    "tree-count": {"count-differs", "tree-unreadable"},
    "omap": {"object-map-differs", "keys-unordered", "tree-unreadable", "volume-unreadable"},
    "superblock": {
        *("superblock-differs", "checkpoint-invalid", "spaceman-invalid", "tree-unreadable", "volume-unreadable"),
        "count-differs",
    },
    "checkpoint": {"checkpoint-invalid"},
    "volume-count": {"count-differs"},
    "record": {"record-invalid", "record-differs"},
    "cross-reference": {"inode-missing", "record-differs", "name-hash-differs"},
    "link-count": {"count-differs"},
    "extent": {"extent-invalid", "count-differs"},
    "double-claim": {"block-claimed-twice"},
    "extent-reference": {"reference-differs"},
    "bitmap": {"block-claimed-free", "block-unclaimed"},
    "free-count": {"spaceman-invalid"},
    "free-queue": {"spaceman-invalid"},
    "spaceman": {"spaceman-invalid", "checksum-mismatch", "checkpoint-invalid"},
    "snapshot": {"snapshot-differs", "tree-unreadable", "structure-invalid"},
    "seal": {"seal-broken", "checksum-mismatch", "structure-invalid"},
    "encryption": {"structure-invalid", "checksum-mismatch"},
}

# Kinds of fault found at the exact byte of the field. The others name the object that holds it, because damage that
# breaks a checksum may be anywhere in it.
EXACT = {"volume-count", "cross-reference", "link-count", "bitmap", "free-count", "free-queue", "tree-link"} | {
    "double-claim"
}

# One fault per check that only this check finds.
NEEDED = {
    "numbers": "nx-next-oid",
    "checkpoint-maps": "map-not-last",
    "newer-superblocks": "checkpoint-checksum",
    "chunk-checksums": "chunk-checksum",
    "checkpoints": "map-address",
    "volumes": "volume-omap",
    "sizes": "nx-block-count",
    "internal-pool": "spaceman-pool-size",
    "chunks": "chunk-address",
    "free-queues": "queue-live-block",
    "file-claims": "extent-metadata",
    "bitmaps": "bitmap-leaked",
    "container-trees": "omap-volume-missing",
    "roots": "child-unknown",
    "object-maps": "omap-deleted",
    "keys": "index-key-order",
    "volume-identity": "volume-index",
    "volume-counts": "num-files",
    "entries": "entry-inode",
    "links": "directory-children",
    "name-hashes": "entry-hash",
    "streams": "stream-references",
    "stream-sizes": "extent-long",
    "attributes": "xattr-flags",
    "lost-records": "leaf-key-across",
    "extents": "extent-empty",
    "references": "reference-count",
    "reference-owners": "reference-owner",
    "snapshots": "snapshot-newest",
    "snapshot-records": "snapshot-name",
    "seals": "sealed-root-hash",
}
# The writers' faults do not reach these checks; each has its own test.
OTHERWISE_TESTED = {
    *("double-claims", "sibling-links", "directories", "superblock-fields", "superblock-copy", "map-fields"),
    *("reaper-fields", "space-fields", "map-head", "map-heads"),
    *("mapping-fields", "chunk-heads", "pool-versions", "superblocks"),
}


# Found only on sealed volumes or in snapshots, with tests of their own (test_check_apfs_volumes.py and
# test_check_apfs_snapshots.py); so have inodes and rare structures (test_check_apfs_inodes.py and
# test_check_apfs_rare.py).
OF_SOME_VOLUMES = {
    *("integrity-metadata", "states", "inodes"),
    *("jumpstart", "key-bags", "write-cache", "extended-metadata"),
}
STOOD_FOR = [name for name in (*CONTAINER_CHECKS, *VOLUME_CHECKS) if name not in OTHERWISE_TESTED | OF_SOME_VOLUMES]


def findings(path, scenario="", *, image_offset=0, without=()):
    """Check an image."""
    password = PASSWORD if scenario.startswith("encrypted") else None
    with open_image(path) as source:
        found = check_container(source, image_offset=image_offset, password=password, without=without)
    return found.findings()


@pytest.mark.parametrize("name", VICTIMS)
def test_what_faults_are_planted_in_is_clean(name, victims):
    """Without a fault there are no findings."""
    assert findings(victims[name][0], name) == []


@for_each("fault", FAULTS)
def test_every_fault_is_found_where_it_is(fault, victims):
    """A fault is found under a code of its kind, at the object that holds it or at the exact byte."""
    with planted(fault, victims) as image:
        found = [item for item in findings(image.path, fault.scenario) if item.code in CODES[fault.kind]]
    places = {item.image_offset for item in found if item.image_offset is not None}
    assert image.where // BLOCK_BYTES in {place // BLOCK_BYTES for place in places}
    assert image.where in places or fault.kind not in EXACT


@for_each("name", STOOD_FOR)
def test_fault_is_not_found_where_its_check_is_left_out(name, victims):
    """Each check is the only one to find its fault."""
    fault = BY_NAME[NEEDED[name]]
    with planted(fault, victims) as image:
        block = image.where // BLOCK_BYTES
        whole, rest = (findings(image.path, fault.scenario, without=names) for names in ((), {name}))
    lost = {
        (item.code, item.image_offset)
        for item in whole
        if item.image_offset and item.image_offset // BLOCK_BYTES == block
    } - {(item.code, item.image_offset) for item in rest}
    assert {code for code, _ in lost} & CODES[fault.kind]


@for_each("name", [name for name, plan in SCENARIOS.items() if name != "fusion"])
def test_written_scenarios_are_clean(name, tmp_path):
    """Every written part of the format is consistent."""
    path = tmp_path / "disk.img"
    write(SCENARIOS[name], path)
    assert findings(path, name) == []


CLEAN = (
    *("driver/apfs-ci.img", "driver/apfs-empty.img", "driver/apfs-frag.img", "driver/apfs-normsens.img"),
    *("driver/apfs-snap.img", "aged/apfs-20000-c00.img", "aged/apfs-20000-c20.img"),
    *("apple/hdimac_apfs-c.raw", "apple/offsite_source_2snaps.raw", "apple/sparkle_apfs_lzma_aux.raw"),
)


@pytest.mark.parametrize("name", CLEAN)
def test_images_that_apfsck_calls_clean_are_clean(name, reference_image):
    """By the verdict in the images' README; images that macOS unmounted cleanly are clean, too."""
    path = reference_image(name)
    with open_image(path) as source:
        places = [item.image_offset for item in find_volumes(source).readable if item.kind == "apfs"]
    assert places
    assert [findings(path, image_offset=where) for where in places] == [[]] * len(places)


@pytest.mark.full
def test_large_aged_image_is_clean(reference_image):
    """Two hundred thousand files on a volume of 1 TiB, twenty times changed: apfsck 0.2.1 calls it clean."""
    assert findings(reference_image("aged/apfs-200000-c20.img")) == []


def test_quirks_of_other_macos_versions_are_information(reference_image):
    """A pre-release wrote hard links without sibling maps, hfs_convert wrong entry counts: no damage."""
    quirks = {
        "apple/dissect_case_sensitive_beta.raw": "record-differs",
        "apple/dissect_jhfs_converted.raw": "count-differs",
    }
    for name, code in quirks.items():
        assert {(item.code, item.level) for item in findings(reference_image(name))} == {(code, "info")}


def test_locked_volume_is_no_damage(reference_image):
    """Without the password a check reports only that the volume is locked."""
    found = findings(reference_image("apple/dissect_encrypted.raw"))
    assert [item.code for item in found] == ["volume-locked"]


def _folder_in_itself(image, expected):
    """Put a folder into its own subfolder."""
    inodes = at.leaf_records(image, expected, RecordType.INODE)
    folders = {}
    for start, place in inodes:
        number = at.parse(image, disk.KEY, place.key).obj_id_and_type & (1 << 60) - 1
        folders[number] = (start, place, at.parse(image, disk.INODE, place.value).parent_id)
    inner = next(number for number, (*_, parent) in folders.items() if parent not in (1, 2) and parent in folders)
    outer = folders[inner][2]
    start, place, _ = folders[outer]
    where = at.put_field(image, place.value, disk.INODE, "parent_id", lambda _: inner)
    at.fix_checksum(image, start, BLOCK_BYTES)
    return where


def _mapping_pad(image, expected):
    """Change the padding of the first mapping."""
    start = at.checkpoint_map(image, expected)
    where = start + CHECKPOINT_MAP_HEAD.width + CHECKPOINT_MAPPING.pad.offset
    image[where] ^= 1
    at.fix_checksum(image, start, BLOCK_BYTES)
    return where


FURTHER = {
    "double-claims": ("block-claimed-twice", BY_NAME["extent-metadata"].apply),
    "sibling-links": (
        "record-differs",
        in_record(RecordType.SIBLING_LINK, disk.NUMBERED_KEY, "number", lambda old: old + 1000, of_key=True),
    ),
    "directories": ("record-differs", _folder_in_itself),
    "superblock-fields": ("superblock-differs", changed(at.superblock, NX_SUPERBLOCK.test_type)),
    "superblock-copy": ("superblock-differs", changed(lambda *_: 0, NX_SUPERBLOCK.test_type)),
    "map-fields": ("checkpoint-invalid", changed(at.checkpoint_map, OBJ_PHYS.subtype)),
    "reaper-fields": ("reaper-differs", changed(at.ephemeral("nx_reaper_oid"), REAPER_HEAD.completed_id)),
    "superblocks": ("superblock-differs", changed(at.region("volume-superblock"), APFS_SUPERBLOCK.reserved_oid)),
    "mapping-fields": ("checkpoint-invalid", _mapping_pad),
    "chunk-heads": ("spaceman-invalid", changed(at.region("chunk-info", -1), CIB_HEAD.hdr.subtype)),
    "pool-versions": ("spaceman-invalid", changed(at.ephemeral("nx_spaceman_oid"), SPACEMAN_PHYS.ip_bm_free_head)),
    "space-fields": ("spaceman-invalid", changed(at.ephemeral("nx_spaceman_oid"), SPACEMAN_PHYS.ip_bm_tx_multiplier)),
    "map-head": ("object-map-differs", changed(container_map, OMAP_PHYS.tree_type)),
    "map-heads": ("object-map-differs", changed(at.region("object-map"), OMAP_PHYS.tree_type)),
}


@pytest.mark.parametrize("name", sorted(OTHERWISE_TESTED))
def test_what_no_fault_of_the_writer_shows_is_found_by_its_check(name, victims):
    """A block with two owners, a hard link without its counterpart, a folder in itself: only one check finds each."""
    code, apply = FURTHER[name]
    with planted(Fault(name, "", "", "", apply), victims) as image:
        whole, rest = findings(image.path), findings(image.path, without={name})
    lost = {(item.code, item.structure, item.image_offset, item.message) for item in whole} - {
        (item.code, item.structure, item.image_offset, item.message) for item in rest
    }
    assert {item[0] for item in lost} == {code}


def test_references_of_volumes_with_snapshots_add_up(victims):
    """A count that is off by one is found at its field, by one check only, even if snapshots hold references too."""
    apply = in_record(RecordType.EXTENT, disk.PHYS_EXTENT, "refcnt", lambda old: old + 1, tree="extentref")
    with planted(Fault("references", "snapshots", "", "", apply), victims) as image:
        whole, rest = findings(image.path), findings(image.path, without={"references"})
    assert [(item.code, item.image_offset) for item in set(whole) - set(rest)] == [("reference-differs", image.where)]


def test_missing_subtree_is_bounded(victims):
    """A lost leaf is reported with its range of objects, at the index record that points to it."""
    with planted(BY_NAME["leaf-checksum"], victims) as image:
        told = [item for item in findings(image.path) if item.code == "subtree-missing"]
    expected = victims["victim"][1]
    leaf = at.find_node(expected, "fs", 0, 1, min_keys=8)
    assert [item.structure for item in told] == [f"fs tree, node {leaf.oid}"]
    assert "what it holds is missing: objects from " in told[0].message


def test_container_that_is_written_meanwhile_is_told(victims):
    """A superblock newer than the one at opening means that the data read may be of no single state."""
    path, expected = victims["victim"]
    data = bytearray(path.read_bytes())
    source = MemorySource(data)
    opened = open_container((source, 0), FindingLog())
    report_changes(opened)
    assert opened.log.findings == []
    start = at.superblock(data, expected)
    at.put_field(data, start, OBJECT_HEADER, "o_xid", lambda old: old + 1)
    at.fix_checksum(data, start, BLOCK_BYTES)
    report_changes(opened)
    assert [(item.code, item.expected, item.found) for item in opened.log.findings] == [
        ("container-changed", str(opened.xid), str(opened.xid + 1))
    ]


ONE_HASH = ("xhdmj", "olmqzarus")
"""Two names of different lengths whose hashes are the same."""


def test_names_of_one_hash_stand_in_any_order(tmp_path):
    """Apfsck compares bytes, whatever the lengths; linux-apfs-rw keeps the order of creation, which is no damage."""
    path = tmp_path / "disk.img"
    expected = write(container(VolumePlan("Ties", tuple(FilePlan(name) for name in ONE_HASH))), path)
    assert findings(path) == []
    data = bytearray(path.read_bytes())
    root = at.root("fs")
    places = at.records(data, root(data, expected), BLOCK_BYTES)
    names = [bytes(data[place.key : place.key + place.key_length]).rstrip(b"\0")[HASHED_KEY_BYTES:] for place in places]
    tied = [number for number, name in enumerate(names) if name.decode() in ONE_HASH]
    assert [names[number].decode() for number in tied] == sorted(ONE_HASH)
    where = swap_entries(root, tied[0], KVLOC)(data, expected)
    path.write_bytes(data)
    found = findings(path)
    assert len(tied) == 2
    assert [(item.code, item.level) for item in found] == [("keys-unordered", "info")]
    assert found[0].image_offset // BLOCK_BYTES == where // BLOCK_BYTES


def test_hash_of_a_name_is_the_one_of_rfc_3720():
    """It gives 0x8a9136aa for CRC-32C of 32 zero bytes, after an inversion that directory records leave out."""
    assert int(crc32c_of_words(np.zeros((1, 8), np.uint32))[0]) ^ 0xFFFFFFFF == 0x8A9136AA

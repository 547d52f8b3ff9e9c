"""The structure check of APFS: each rule is broken once and found at its byte, and sound images give no finding."""

from __future__ import annotations

import re
from unittest.mock import MagicMock

import numpy as np
import pytest

from fixtures.apfs import locate as at
from fixtures.apfs.encryption import encrypt_keybag
from fixtures.apfs.fault import in_record, swap_entries
from fixtures.apfs.plan import FilePlan, VolumePlan
from fixtures.apfs.scenarios import PASSWORD, SCENARIOS, container
from fixtures.apfs.structures import records as disk
from fixtures.apfs.structures.objects import KVLOC, OBJECT_HEADER, OMAP_VALUE
from fixtures.apfs.structures.records import KEY, OBJECT_TYPE_SHIFT, RecordType
from fixtures.apfs.victims import VICTIMS
from fixtures.apfs.writer import write
from fixtures.fault import Fault, planted
from fixtures.faults_apfs import FAULTS
from layoutscope import check, read_layouts
from layoutscope.checks.apfs import btree as rules
from layoutscope.checks.apfs import objects, spaceman
from layoutscope.checks.apfs import records as record_rules
from layoutscope.checks.apfs.registry import CONTAINER_CHECKS, VOLUME_CHECKS
from layoutscope.filesystems.apfs.blocks import Blocks
from layoutscope.filesystems.apfs.container import open_container, report_changes
from layoutscope.findings import FindingLog
from layoutscope.image import open_image
from layoutscope.image.source import MemorySource
from layoutscope.partition import find_volumes
from layoutscope.structs.checksum import crc32c_of_words
from layoutscope.structs.records import (
    APFS_SUPERBLOCK,
    BTREE_INFO,
    BTREE_NODE,
    CHECKPOINT_MAP_HEAD,
    CHECKPOINT_MAPPING,
    CIB_HEAD,
    ENTRY_HEAD,
    INODE_VAL_FIXED,
    KEYBAG,
    NX_SUPERBLOCK,
    OBJ_PHYS,
    OMAP_PHYS,
    REAPER_HEAD,
    SPACEMAN_PHYS,
    X_FIELD,
    XF_BLOB_HEAD,
)
from layoutscope.structs.records import KVLOC as DISK_KVLOC
from tests.apfs import check_container
from tests.cases import for_each

BLOCK_BYTES = 4096


class Ones(int):
    """A structure whose fields are all 1: the set of fields with rules does not depend on other fields."""

    def __getattr__(self, _: str) -> Ones:
        """Return any field."""
        return self

    def __iter__(self):
        """Yield no item."""
        return iter(())


ONES = Ones(1)
STRANGE = (1, 0x10)
"""A bit that is never set in these fields: its byte, and its value there."""
OTHERS = {"hdr.type_and_flags": (3, 0x08), "max_file_systems": (0, 1)}
"""Fields that a reader needs: a bit of these that the reader ignores."""


def container_map(image, expected):
    """Return the block of the object map that the superblock points to."""
    start = at.superblock(image, expected) + NX_SUPERBLOCK.omap_oid.offset
    return int.from_bytes(image[start : start + 8], "little") * BLOCK_BYTES


PLACES = {
    "superblock": (at.superblock, objects.make_superblock_rules(ONES)),
    "checkpoint map": (at.checkpoint_map, objects.make_map_rules(np.zeros(1, np.uint64))),
    "reaper": (at.ephemeral("nx_reaper_oid"), objects.make_reaper_rules(1, 1, 0, is_idle=True)),
    "space manager": (at.ephemeral("nx_spaceman_oid"), spaceman.make_space_rules(ONES, ONES, None, [])),
    "container object map": (container_map, objects.make_omap_rules(is_own=True)),
    "volume object map": (at.region("object-map"), objects.make_omap_rules(is_own=False)[:5]),
}


def altered(find, change):
    """Return a function that changes an image where `find` says, corrects the checksum, and returns what was changed.

    `find` returns the start of a block, which `change` is given, or that and a record of the block, which it is given.
    """

    def apply(image, expected):
        found = find(image, expected)
        start, place, *_ = found if isinstance(found, tuple) else (found, found)
        where = change(image, place)
        at.fix_checksum(image, start, BLOCK_BYTES)
        return where

    return apply


def fault_of(apply, scenario="victim"):
    """Return a fault that is not among those of the writers."""
    return Fault("here", "", "", "", apply, scenario)


def changed(place, field):
    """Return a function that changes a bit of a field of the object at a place, and corrects the checksum."""

    def change(image, start):
        # The last item of a repeated field: rules about second devices concern only that one.
        last = sum((count - 1) * stride for count, stride in zip(field.counts, field.strides, strict=True))
        where = start + field.offset + last
        byte, bit = OTHERS.get(str(field), STRANGE)
        image[where + byte] ^= bit
        return where

    return altered(place, change)


def findings(path, scenario="", *, image_offset=0, without=()):
    """Check an image."""
    password = PASSWORD if scenario.startswith("encrypted") else None
    with open_image(path) as source:
        return check_container(source, image_offset=image_offset, password=password, without=without)


def codes_at(fault, victims):
    """Return the codes of the findings at the field that a fault changed."""
    with planted(fault, victims) as image:
        return {item.code for item in findings(image.path, fault.scenario) if item.image_offset == image.where}


def missed(changes, victims, scenario="victim"):
    """Plant changes, each by the code of its finding and its field, at once; return those not found at their field."""

    def apply(image, expected):
        return {key: change(image, expected) for key, change in changes.items()}

    with planted(fault_of(apply, scenario), victims) as image:
        found = {(item.image_offset, item.code) for item in findings(image.path, scenario)}
        places = image.where
    return [(code, field) for (code, field), where in places.items() if (where, code) not in found]


@for_each("name", PLACES)
def test_broken_rules_are_found_at_their_fields(name, victims):
    """One strange bit in each field gives a finding with the rule's code there.

    Numbers in the space manager lead to what other rules need, so its fields are changed one by one.
    """
    place, declared = PLACES[name]
    changes = {(rule.code, str(rule.field)): changed(place, rule.field) for rule in declared}
    groups = [{key: change} for key, change in changes.items()] if name == "space manager" else [changes]
    assert [miss for group in groups for miss in missed(group, victims)] == []


def test_findings_begin_with_the_names_of_their_fields(victims):
    """So do those of the superblock."""
    place, declared = PLACES["superblock"]
    changes = [changed(place, rule.field) for rule in declared]
    fault = fault_of(lambda image, expected: [change(image, expected) for change in changes])
    with planted(fault, victims) as image:
        found = {(item.image_offset, re.split(r"[:\\[]", item.message)[0]) for item in findings(image.path)}
        assert {(where, str(rule.field)) for where, rule in zip(image.where, declared, strict=True)} <= found


COPIED = [each for each in objects.list_copied_fields() if each.offset >= NX_SUPERBLOCK.xp_desc_next.offset][::5]


def test_copy_in_block_0_is_compared_field_by_field(victims):
    """Only the check of the copy finds strange bits in block 0."""
    changes = [changed(lambda *_: 0, field) for field in COPIED]
    fault = fault_of(lambda image, expected: [change(image, expected) for change in changes])
    with planted(fault, victims) as image:
        whole, rest = (
            {item.image_offset for item in findings(image.path, without=without) if item.code == "superblock-differs"}
            for without in ((), {"superblock-copy"})
        )
        assert set(image.where) <= whole - rest


# The structure check of APFS containers: every planted fault is found, and sound images give no finding.


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
# Found only on sealed volumes, in snapshots, in inodes and in rare structures, with tests of their own below.
OF_SOME_VOLUMES = {
    *("integrity-metadata", "states", "inodes"),
    *("jumpstart", "key-bags", "write-cache", "extended-metadata"),
}
STOOD_FOR = [name for name in (*CONTAINER_CHECKS, *VOLUME_CHECKS) if name not in OTHERWISE_TESTED | OF_SOME_VOLUMES]


@pytest.mark.parametrize("name", VICTIMS)
def test_what_faults_are_planted_in_is_clean(name, victims):
    """Without a fault there are no findings."""
    assert findings(victims[name][0], name) == []


@for_each("fault", FAULTS)
def test_every_fault_is_found_where_it_is(fault, victims):
    """A fault is found under a code of its kind, at the object that holds it or at the exact byte.

    For each check, one fault is found by that check alone.
    """
    checks = [name for name in STOOD_FOR if NEEDED[name] == fault.name]
    with planted(fault, victims) as image:
        found, *rests = (
            [
                (item.code, item.image_offset)
                for item in findings(image.path, fault.scenario, without=without)
                if item.code in CODES[fault.kind] and item.image_offset is not None
            ]
            for without in ((), *({name} for name in checks))
        )
    here = {(code, place) for code, place in found if place // BLOCK_BYTES == image.where // BLOCK_BYTES}
    assert here
    assert image.where in {place for _, place in found} or fault.kind not in EXACT
    for name, rest in zip(checks, rests, strict=True):
        assert here - set(rest), name


def test_the_faults_of_checks_are_planted():
    """Each check that has a fault of its own has one of those above."""
    assert {NEEDED[name] for name in STOOD_FOR} <= {fault.name for fault in FAULTS}


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


def _mapping_pad(image, start):
    """Change the padding of the first mapping."""
    where = start + CHECKPOINT_MAP_HEAD.width + CHECKPOINT_MAPPING.pad.offset
    image[where] ^= 1
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
    "mapping-fields": ("checkpoint-invalid", altered(at.checkpoint_map, _mapping_pad)),
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
    with planted(fault_of(apply), victims) as image:
        whole, rest = findings(image.path), findings(image.path, without={name})
    lost = {(item.code, item.structure, item.image_offset, item.message) for item in whole} - {
        (item.code, item.structure, item.image_offset, item.message) for item in rest
    }
    assert {item[0] for item in lost} == {code}


def test_references_of_volumes_with_snapshots_add_up(victims):
    """A count that is off by one is found at its field, by one check only, even if snapshots hold references too."""
    apply = in_record(RecordType.EXTENT, disk.PHYS_EXTENT, "refcnt", lambda old: old + 1, tree="extentref")
    with planted(fault_of(apply), victims) as image:
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


# Inodes, attributes and names: each contradiction is planted once and found at its record.


BLOB = INODE_VAL_FIXED.width


def fields_of(image, place):
    """Yield type, description offset and data offset of an inode's extended fields."""
    if place.value_length <= BLOB:
        return
    start = place.value + BLOB
    count = int.from_bytes(image[start : start + 2], "little")
    data = start + XF_BLOB_HEAD.width + count * X_FIELD.width
    for number in range(count):
        head = start + XF_BLOB_HEAD.width + number * X_FIELD.width
        yield image[head], head, data
        size = int.from_bytes(image[head + 2 : head + 4], "little")
        data += -(-size // 8) * 8


def inodes(image, expected):
    """Return node start, offset and number of every inode but the root and the private directory."""
    found = []
    for start, place in at.leaf_records(image, expected, RecordType.INODE):
        number = at.parse(image, KEY, place.key).obj_id_and_type & (1 << 60) - 1
        if number >= 16:
            found.append((start, place, number))
    return found


def fault_in_inode(choose, change):
    """Return a fault in the first chosen inode."""

    def find(image, expected):
        return next(item for item in inodes(image, expected) if choose(image, item[1]))

    return fault_of(altered(find, change))


def has(kind):
    return lambda image, place: kind in {each for each, *_ in fields_of(image, place)}


def is_of(form):
    return lambda image, place: at.parse(image, disk.INODE, place.value).mode & 0xF000 == form


def _flag(bit):
    return lambda image, place: at.put_field(image, place.value, disk.INODE, "internal_flags", lambda old: old ^ bit)


def _data(kind):
    """Change the first byte of an extended field's data."""

    def change(image, place):
        where = next(data for each, _, data in fields_of(image, place) if each == kind)
        image[where] ^= 1
        return where

    return change


def _kind(old, new):
    """Change the type of an extended field."""

    def change(image, place):
        head = next(head for each, head, _ in fields_of(image, place) if each == old)
        image[head] = new
        return head

    return change


def _another_stream(image, place):
    return at.put_field(image, place.value, disk.INODE, "private_id", lambda old: old + 1)


def _key_of_stream(image, place):
    where = next(data for each, _, data in fields_of(image, place) if each == 8) + 16
    image[where] = 0x77
    return where


def _compressed(image, place):
    return at.put_field(image, place.value, disk.INODE, "bsd_flags", lambda old: old ^ 0x20)


FILE, LINK, DIRECTORY = 0x8000, 0xA000, 0x4000
INODE_FAULTS = {
    "a name that is not the entry's": (has(4), _data(4), "the name in it"),
    "a flag of statistics without them": (is_of(DIRECTORY), _flag(0x2), "disagree about statistics"),
    "a flag of holes without a count": (is_of(LINK), _flag(0x200), "disagree about a count"),
    "a flag of a resource fork": (is_of(DIRECTORY), _flag(0x4000), "disagree about a resource fork"),
    "a flag of access rights": (is_of(DIRECTORY), _flag(0x40), "disagree about a list"),
    "a flag of the Finder": (is_of(DIRECTORY), _flag(0x100), "disagree about information"),
    "an origin of statistics": (is_of(DIRECTORY), _flag(0x4), "statistics begin here"),
    "flags that exclude each other": (is_of(DIRECTORY), _flag(0x3000), "pinned to both"),
    "a stream of another file": (lambda i, p: has(8)(i, p) and is_of(FILE)(i, p), _another_stream, "is not a clone"),
    "a key in a plain volume": (has(8), _key_of_stream, "a key that it cannot have"),
    "two fields of one type": (lambda i, p: has(4)(i, p) and has(8)(i, p), _kind(8, 4), "two extended fields"),
    "compression without a header": (is_of(DIRECTORY), _compressed, "called compressed"),
    "a count of other holes": (has(13), _data(13), "other sparse bytes"),
}


RECORD_KINDS = {
    "inode": (RecordType.INODE, "fs", "victim"),
    "dir_rec": (RecordType.DIR_REC, "fs", "victim"),
    "file_extent": (RecordType.FILE_EXTENT, "fs", "victim"),
    "xattr": (RecordType.XATTR, "fs", "victim"),
    "extent": (RecordType.EXTENT, "extentref", "victim"),
    "snap_metadata": (RecordType.SNAP_METADATA, "snapmeta", "snapshots"),
}


def in_record_of(kind, change, number=1):
    """Return a fault that changes one of the records of a kind, by its place."""
    record, tree, scenario = RECORD_KINDS[kind]

    def find(image, expected):
        found = at.leaf_records(image, expected, record, tree=tree)
        return found[min(number, len(found) - 1)]

    return fault_of(altered(find, change), scenario)


def _no_end(image, place):
    where = place.key + place.key_length - 1
    image[where] = ord("x")
    return where


def _target(image, expected):
    """Locate a link's target, which belongs to the file system."""
    return next(
        (start, place)
        for start, place in at.leaf_records(image, expected, RecordType.XATTR)
        if b"com.apple.fs.symlink" in bytes(image[place.key : place.key + place.key_length])
    )


def _owned(image, place):
    """Let an attribute belong to the user."""
    image[place.value] ^= 4
    return place.value


def _longer(part):
    """Make a length in the table of contents one too large."""

    def change(image, place):
        image[place.entry + getattr(DISK_KVLOC, part).len_data.offset] += 1
        return place.key if part == "key" else place.value

    return change


RECORD_FAULTS = {
    **{name: (fault_in_inode(choose, change), message) for name, (choose, change, message) in INODE_FAULTS.items()},
    **{
        f"{kind} without the end of its name": (in_record_of(kind, _no_end, 0), "does not end with its first zero byte")
        for kind in ("xattr", "dir_rec")
    },
    "an attribute of the file system": (fault_of(altered(_target, _owned)), "against its name"),
    **{
        f"{kind} with a longer {part}": (in_record_of(kind, _longer(part)), "length|do not fill")
        for kind in ("inode", "xattr", "file_extent")
        for part in ("key", "val")
    },
}


@for_each("name", RECORD_FAULTS)
def test_contradiction_of_a_record_is_found_in_its_leaf(name, victims):
    """The finding names both sides of the contradiction; lengths include the zero byte that ends a name."""
    fault, message = RECORD_FAULTS[name]
    with planted(fault, victims) as image:
        found = findings(image.path)
        here = {item.message for item in found if item.image_offset // BLOCK_BYTES == image.where // BLOCK_BYTES}
    assert any(re.search(message, each) for each in here), here


# Headers, free lists and roots of nodes: each rule is broken once, and found at its byte.


TREES = ("fs", "omap", "container-omap", "extentref", "snapmeta", "spaceman")
INFO = BLOCK_BYTES - BTREE_INFO.width
FS = MagicMock()
FS.tree.source.tree = "fs"
OF_ROOTS = (*rules.make_info_rules(FS), *rules.make_longest_rules(FS, (0, 0)))
NODE_FIELDS = {
    **{str(rule.field): (rule.field.offset, rule.code) for rule in rules.make_node_rules(FS, 1)},
    **{str(rule.field): (INFO + rule.field.offset, rule.code) for rule in OF_ROOTS},
    "key_free_list.len_data": (BTREE_NODE.key_free_list.len_data.offset, rules.DIFFERS),
    "val_free_list.len_data": (BTREE_NODE.val_free_list.len_data.offset, rules.DIFFERS),
}
NODE_BITS = {"hdr.type_and_flags": (3, 0x08), "flags": (0, 0x10), "hdr.xid": (0, None), "table_space.ofs_data": (0, 4)}
NODE_BITS |= {"fixed.len_key": (1, 1), "fixed.len_val": (0, 4)}
"""The changed byte and its value, where a strange bit in the second byte would stop the reader; None zeroes all."""


def change_root(tree, field):
    offset, _ = NODE_FIELDS[field]
    byte, bit = NODE_BITS.get(field, (1, 0x10))

    def change(image, start):
        if bit is None:
            image[start + offset : start + offset + 8] = bytes(8)
        else:
            image[start + offset + byte] ^= bit
        return start + offset

    return altered(at.root(tree, -1 if tree in {"container-omap", "spaceman"} else 0), change)


TORN = {("container-omap", "fixed.len_val"), *((tree, "table_space.ofs_data") for tree in TREES[:3] + TREES[5:])}
"""Changes that put records outside the node: reading reports and skips the whole node."""
NODE_CASES = [
    (tree, field) for tree in TREES for field in NODE_FIELDS if (tree, field) not in {*TORN, ("fs", "hdr.xid")}
]
"""Reading compares the transaction of a virtual node with the object map's."""


TOGETHER = {"fixed.flags", "fixed.len_key", "fixed.len_val", "longest_key", "longest_val"}
"""Fields that no other rule needs; the others are changed one by one."""


@for_each("tree", TREES)
def test_strange_values_in_a_root_are_found_at_their_fields(tree, victims):
    """Every rule of headers and roots applies to every kind of tree."""
    changes = {(NODE_FIELDS[field][1], field): change_root(tree, field) for kind, field in NODE_CASES if kind == tree}
    groups = [{key: change for key, change in changes.items() if key[1] in TOGETHER}]
    groups += [{key: change} for key, change in changes.items() if key[1] not in TOGETHER]
    victim = "snapshots" if tree == "snapmeta" else "victim"
    assert [miss for group in groups for miss in missed(group, victims, victim)] == []


def put(image, place, *numbers):
    for number in numbers:
        image[place : place + 2] = number.to_bytes(2, "little")
        place += 2


def number(image, place):
    return int.from_bytes(image[place : place + 2], "little")


LIST_END = 0xFFFF
FREED = 16
"""Bytes taken from the gap between keys and values for each free list."""


def freed(change=None):
    """Return a fault that gives a leaf two free lists, as after a record was removed, and changes them."""

    def free(image, start):
        field = {name: start + getattr(BTREE_NODE, name).ofs_data.offset for name in (*LISTS, "free_space")}
        table = start + BTREE_NODE.table_space.ofs_data.offset
        keys = start + BTREE_NODE.width + number(image, table) + number(image, table + 2)
        end = start + BLOCK_BYTES - (BTREE_INFO.width if image[start + BTREE_NODE.flags.offset] & 1 else 0)
        gap, room = number(image, field["free_space"]), number(image, field["free_space"] + 2)
        put(image, field["free_space"], gap + FREED, room - 2 * FREED)
        value = end - (keys + gap + room - FREED)
        put(image, field["key_free_list"], gap, FREED)
        put(image, field["val_free_list"], value, FREED)
        put(image, keys + gap, LIST_END, FREED)
        put(image, end - value, LIST_END, FREED)
        entries = {"key_free_list": keys + gap, "val_free_list": end - value}
        return start if change is None else change(image, field, entries)

    return fault_of(altered(at.node("fs", min_keys=4), free))


LISTS = ("key_free_list", "val_free_list")
CHANGES = {
    "a piece too small": ("entry", 2, 3),
    "a piece too long": ("entry", 2, 4000),
    "an entry outside": ("entry", 0, 4000),
    "a start outside": ("head", 0, 4000),
    "bytes of a record": ("head", 0, 8),
    "another sum": ("head", 2, FREED + 4),
}


def test_free_lists_that_add_up_are_sound(victims):
    """Listed and summed pieces between records and gap give no finding."""
    with planted(freed(), victims) as image:
        assert findings(image.path) == []


@for_each("change, name", [(change, name) for change in (*CHANGES, "a loop") for name in LISTS])
def test_broken_free_list_is_found_in_its_node(change, name, victims):
    """Pieces that are too small, too long, outside or in use, and a wrong sum, are findings in the node.

    A piece that points to itself is found, too, and the traversal of the list ends.
    """

    def apply(image, head, entry):
        if change == "a loop":
            put(image, entry[name], number(image, head[name]))
        else:
            part, plus, value = CHANGES[change]
            put(image, {"entry": entry, "head": head}[part][name] + plus, value)
        return head[name]

    with planted(freed(apply), victims) as image:
        found = findings(image.path)
        first = image.where - image.where % BLOCK_BYTES
    assert {item.code for item in found} == {rules.DIFFERS}
    assert all(first <= item.image_offset < first + BLOCK_BYTES for item in found)


def test_size_in_a_map_is_that_of_the_node(victims):
    """A reader that trusts the map reads two extra blocks; apfsck rejects such an object."""

    def apply(image, expected):
        leaf = next(node.paddr for node in expected.live.nodes if (node.tree, node.level) == ("omap", 0)) * BLOCK_BYTES
        leaves = {node.paddr for node in expected.live.nodes if (node.tree, node.level) == ("fs", 0)}
        places = at.records(image, leaf, BLOCK_BYTES)
        where = max(each.value for each in places if _leads_to(image, each) in leaves)
        image[where + 4 : where + 8] = (3 * BLOCK_BYTES).to_bytes(4, "little")
        at.fix_checksum(image, leaf, BLOCK_BYTES)
        return where + 4

    with planted(fault_of(apply), victims) as image:
        found = {
            (item.image_offset, item.message) for item in findings(image.path) if item.code == "object-map-differs"
        }
    assert found == {(image.where, "the node there has another size")}


def _leads_to(image, place):
    return at.parse(image, OMAP_VALUE, place.value).ov_paddr


def causes(name, victims):
    """Return the subjects of a fault's primary findings, and the number of consequences."""
    with planted(BY_NAME[name], victims) as image:
        found = check(image.path).every()
    worse = [item for item in found if item.level != "info"]
    alone = [item for item in worse if item.cause is None]
    return {item.structure.partition(",")[0] for item in alone}, len(worse) - len(alone)


@pytest.mark.parametrize("name", ["omap-leaf-checksum", "omap-leaf-oid", "omap-child-outside"])
def test_what_a_map_lost_follows_from_the_map(name, victims):
    """Nodes missing from a damaged map are not separate faults."""
    about, following = causes(name, victims)
    assert about == {"omap tree"}
    assert following


def test_a_lost_node_follows_from_no_sound_map(victims):
    """A broken leaf of another tree is reported there, unrelated to the map."""
    about, _ = causes("leaf-checksum", victims)
    assert about
    assert "omap tree" not in about


def test_a_map_whose_keys_do_not_ascend_is_one_cause_at_its_node(victims):
    """The map lacks nothing: a binary search would have missed two nodes of the volume's tree."""
    whole = read_layouts(victims["victim"][0])
    with planted(BY_NAME["omap-key-order"], victims) as image:
        (found,) = findings(image.path)
        layouts = read_layouts(image.path)
        first = image.where - image.where % BLOCK_BYTES
    assert (found.code, found.level, found.causes) == ("keys-unordered", "error", ())
    assert first <= found.image_offset < first + BLOCK_BYTES
    for before, after in zip(whole, layouts, strict=True):
        assert after.nodes["image_offset"].to_list() == before.nodes["image_offset"].to_list()
        assert after.entries.height == before.entries.height


# Fields of rare structures.


@pytest.fixture(scope="module")
def boot(tmp_path_factory):
    """A container with an EFI jumpstart, as the victims are."""
    path = tmp_path_factory.mktemp("boot") / "disk.img"
    return {"jumpstart": (path, write(SCENARIOS["jumpstart"], path))}


JUMPSTART = objects.JUMPSTART
BOOT_FIELDS = ("magic", "version", "len_efi_file", "num_extents", "reserved")
BOOT_CASES = [*(getattr(JUMPSTART, name) for name in BOOT_FIELDS), JUMPSTART.hdr.oid, JUMPSTART.hdr.subtype]


@for_each("field", BOOT_CASES)
def test_strange_value_in_a_boot_record_is_found(field, boot):
    """Each field of the EFI jumpstart but its transaction: at the field, its start, or the extent that it adds."""
    with planted(fault_of(changed(at.region("efi-jumpstart", -1), field), "jumpstart"), boot) as image:
        found = {item.image_offset // BLOCK_BYTES for item in findings(image.path)}
    assert image.where // BLOCK_BYTES in found


BAG = [
    *((rule, 0) for rule in objects.make_bag_rules(1, 0, 0)),
    *((rule, KEYBAG.width) for rule in objects.ENTRY_RULES),
]


@for_each("rule, start", BAG)
def test_broken_rule_of_a_key_bag_is_found_at_its_field(rule, start, victims):
    """The container's keybag is decrypted with its UUID, changed, and encrypted again."""

    def apply(image, expected):
        place = at.region("container-keybag", -1)(image, expected)
        uuid_at = at.superblock(image, expected) + NX_SUPERBLOCK.uuid.offset
        uuid = bytes(image[uuid_at : uuid_at + 16])
        data = bytearray(_turned(uuid, place // BLOCK_BYTES, bytes(image[place : place + BLOCK_BYTES])))
        where = start + rule.field.offset
        size = rule.field.scalar.itemsize
        data[where : where + size] = bytes(size) if rule.field is ENTRY_HEAD.len_key else b"\x77" * size
        at.fix_checksum(data, 0, BLOCK_BYTES)
        image[place : place + BLOCK_BYTES] = encrypt_keybag(uuid, place // BLOCK_BYTES, bytes(data))
        return place + where

    assert rule.code in codes_at(fault_of(apply, "encrypted"), victims)


def _turned(uuid, paddr, block):
    objects = np.frombuffer(block, np.uint8)[None, :]
    where, chosen = np.array([paddr], np.uint64), np.ones(1, np.bool_)
    return Blocks((), (), BLOCK_BYTES).decrypt(uuid + uuid, objects, where, chosen).tobytes()


def test_free_queue_with_more_nodes_than_its_limit_is_found(victims):
    """The limit is next to the queue; a driver that ignores it leaves a volume that apfsck calls damaged."""

    def change(image, start):
        where = start + SPACEMAN_PHYS.free_queues.tree_node_limit.offset
        image[where : where + 2] = bytes(2)
        return where

    with planted(fault_of(altered(at.ephemeral("nx_spaceman_oid"), change)), victims) as image:
        found = {item.message for item in findings(image.path) if item.image_offset == image.where}
    assert "free_queues.tree_node_limit[0]: the queue has more nodes than it may have" in found


# Fields of records: rules of lengths, flags, reserved bytes and extended fields, each found at its record.


# Key states are in encrypted nodes, and file hashes in nodes whose own hash is in their parents.
FOLLOWING = (("inode", record_rules.INODE.len_uncompressed), ("file_extent", record_rules.EXTENT.crypto_id))
FOLLOWING += (("extent", record_rules.REFERENCE.owning_obj_id),)
"""Fields whose rules need another field of the record, or the volume."""
RECORD_CASES = [
    (kind, rule.field)
    for kind, declared in record_rules.VALUE_RULES.items()
    if kind in RECORD_KINDS
    for rule in declared
]
RECORD_CASES += FOLLOWING
RECORD_VALUES = {
    "fixed.inum": bytes(8),
    "fixed.flags": b"\x08",
    "len_and_kind": bytes(8),
    "refcnt": bytes(4),
}


@for_each("kind, field", RECORD_CASES)
def test_broken_rule_of_a_value_is_found_at_its_field(kind, field, victims):
    """Each rule of a value is broken once, and the finding is at the field's first byte."""

    def change(image, place):
        where = place.value + field.offset
        value = RECORD_VALUES.get(str(field), b"\x77\x77")
        image[where : where + len(value)] = value
        if field.scalar.itemsize == 8 and str(field) not in {"fixed.inum", "len_and_kind"}:
            image[where + 7] = 0x42
        return where

    assert "record-invalid" in codes_at(in_record_of(kind, change), victims)


OUT_OF_REACH = [rule for kind in ("crypto_state", "file_info") for rule in record_rules.VALUE_RULES[kind]]
AS_WRITTEN = {
    "fixed.refcnt": 1,
    "fixed.major_version": 5,
    "fixed.persistent_class": 3,
    "fixed.num_hashed_blocks": 1,
    "fixed.len_hash": 32,
}
"""The key state and hash that macOS writes; zero where unknown."""


@for_each("rule", OUT_OF_REACH)
def test_rules_of_records_that_no_fault_can_be_planted_in(rule):
    """What macOS writes satisfies each rule, and another value breaks it."""
    sound = AS_WRITTEN.get(str(rule.field), 0)
    broken = 0 if str(rule.field) in {"fixed.refcnt", "fixed.num_hashed_blocks", "fixed.len_hash"} else 0x77
    values = np.array([sound, broken], rule.field.scalar)
    assert rule.want.is_met(values).tolist() == [True, False]


XFIELDS = {
    "bytes in use": lambda blob: (blob + XF_BLOB_HEAD.used_data.offset, 8),
    "type": lambda blob: (blob + XF_BLOB_HEAD.width + X_FIELD.type.offset, 0x55),
    "flags": lambda blob: (blob + XF_BLOB_HEAD.width + X_FIELD.flags.offset, 0x40),
}


@for_each("name", XFIELDS)
def test_extended_fields_fit_their_types(name, victims):
    """Used bytes, type and flags of extended fields are compared with the rules of their types."""

    def change(image, place):
        where, bits = XFIELDS[name](place.value + record_rules.INODE.width)
        image[where] ^= bits
        return place.value

    assert "record-invalid" in codes_at(in_record_of("inode", change), victims)


# Findings of a check in states that only snapshots keep, each reported once.


def kept_records(image, expected, kind):
    """Return records of a type in leaves that a snapshot has and the live state no longer has."""
    live = {node.paddr for node in expected.live.nodes}
    nodes = [node for snapshot in expected.snapshots for node in expected.states[snapshot.xid].nodes]
    starts = [
        node.paddr * BLOCK_BYTES for node in nodes if (node.tree, node.level) == ("fs", 0) and node.paddr not in live
    ]
    return [
        (start, place)
        for start in starts
        for place in at.records(image, start, BLOCK_BYTES)
        if at.parse(image, KEY, place.key).obj_id_and_type >> OBJECT_TYPE_SHIFT == kind
    ]


def in_kept(kind, change):
    """Return a fault in a record that only snapshots keep."""
    return fault_of(altered(lambda image, expected: kept_records(image, expected, kind)[-1], change), "snapshots")


def _strange_pad(image, place):
    where = place.value + at.field_offset(disk.INODE, "pad1")
    image[where] ^= 0x55
    return where


def _another_hash(image, place):
    where = place.key + KEY.sizeof()
    image[where + 2] ^= 0x10
    return where


def _another_inode(image, place):
    return at.put_field(image, place.value, disk.DIRECTORY_RECORD, "file_id", lambda _: 0x7000)


SNAPSHOT_FAULTS = {
    "a rule of a field": (RecordType.INODE, _strange_pad, "record-invalid"),
    "a hash of a name": (RecordType.DIR_REC, _another_hash, "name-hash-differs"),
    "an entry without inode": (RecordType.DIR_REC, _another_inode, "inode-missing"),
}


@pytest.mark.parametrize("name", SNAPSHOT_FAULTS)
def test_fault_in_a_leaf_of_snapshots_alone_is_found_there_once(name, victims):
    """Snapshot records follow the rules of the live state, and nothing is reported twice."""
    kind, change, code = SNAPSHOT_FAULTS[name]
    with planted(in_kept(kind, change), victims) as image:
        found = findings(image.path)
    here = [
        item for item in found if item.code == code and item.image_offset // BLOCK_BYTES == image.where // BLOCK_BYTES
    ]
    assert here
    assert len({(item.code, item.image_offset, item.message) for item in here}) == len(here)


def test_finding_of_a_comparison_names_the_snapshot(victims):
    """The finding tells the reader to look into that state, not into the live one."""
    kind, change, code = SNAPSHOT_FAULTS["an entry without inode"]
    with planted(in_kept(kind, change), victims) as image:
        whole, rest = findings(image.path), findings(image.path, without={"states"})
    found = [item for item in whole if item.code == code]
    assert found
    assert [item for item in rest if item.code == code] == []
    assert all(item.structure.startswith("snapshot ") for item in found)


@pytest.mark.parametrize("field", ["num_files", "num_directories", "role", "incompatible_features"])
def test_superblock_of_a_snapshot_is_compared_with_its_records(field, victims):
    """Counts, role and the rule of names in the snapshot's copy."""
    change = changed(at.region("snapshot-superblock"), getattr(APFS_SUPERBLOCK, field))
    assert codes_at(fault_of(change, "snapshots"), victims)


def _name_record(image, expected):
    start = next(node.paddr for node in expected.live.nodes if node.tree == "snapmeta") * BLOCK_BYTES
    kinds = {
        at.parse(image, KEY, each.key).obj_id_and_type >> OBJECT_TYPE_SHIFT: each
        for each in at.records(image, start, BLOCK_BYTES)
    }
    return start, kinds[RecordType.SNAP_NAME].key


@pytest.mark.parametrize(
    ("plus", "message"),
    [
        (KEY.sizeof() + 2, "a name is not that in the metadata of its snapshot"),
        (KEY.sizeof() - 2, "its key has the number of an object"),
    ],
)
def test_name_of_a_snapshot_is_that_of_its_metadata(plus, message, victims):
    """A snapshot with two names, or a name under another key, is not clean, according to apfsck as well."""

    def change(image, key):
        image[key + plus] ^= 1
        return key

    with planted(fault_of(altered(_name_record, change), "snapshots"), victims) as image:
        found = [item for item in findings(image.path) if item.code == "snapshot-differs"]
    assert message in {item.message for item in found}
    assert {item.image_offset // BLOCK_BYTES for item in found} == {image.where // BLOCK_BYTES}


# Superblocks of volumes and of snapshots, and seals: each rule is broken once, and found at its byte.


VOLUME = APFS_SUPERBLOCK
LARGE = {"hdr.xid", "num_quota_blocks", "fs_flags", "next_doc_id", "root_tree_type", "hdr.type_and_flags"}
LARGE |= {"meta_crypto.key_revision"}
"""Fields where a strange bit is no contradiction, or leads to another volume; their own values are below."""
VOLUME_VALUES = {
    "num_quota_blocks": b"\1",
    "fs_flags": b"\0",
    "next_doc_id": b"\0",
    "meta_crypto.key_revision": b"\0",
    "hdr.type_and_flags": b"\x0d\0\0\x08",
}


def snapshot(image, expected):
    """Locate the superblock of the first snapshot."""
    _, place = at.leaf_records(image, expected, RecordType.SNAP_METADATA, tree="snapmeta")[0]
    return int(at.parse(image, disk.SNAP_METADATA, place.value).sblock_oid) * BLOCK_BYTES


VIEWS = {"live": at.region("volume-superblock"), "snapshot": snapshot}
OF_COPIES = {
    "incompatible_features",
    "fs_index",
    "omap_oid",
    "extentref_tree_oid",
    "snap_meta_tree_oid",
    "root_tree_oid",
    "next_obj_id",
}
RULES = objects.make_volume_rules(ONES, ONES, ONES, [], is_copy=True)
VOLUME_FIELDS = {str(rule.field): rule.field for rule in RULES}
VOLUME_CASES = [
    (view, name)
    for view in VIEWS
    for name in VOLUME_FIELDS
    if (name not in LARGE or name in VOLUME_VALUES)
    and (view == "snapshot" or name not in OF_COPIES)
    and (view, name) != ("snapshot", "num_quota_blocks")
]


def change_volume(place, field):
    def change(image, start):
        where, value = start + field.offset, VOLUME_VALUES.get(str(field))
        if value is None:
            image[where + field.scalar.itemsize - 1 if field.scalar.itemsize < 8 else where + 4] ^= 0x40
        else:
            image[where : where + len(value)] = value
        return where

    return altered(place, change)


@for_each("view", VIEWS)
def test_strange_values_in_a_superblock_are_found_at_their_fields(view, victims):
    """The same rules apply to the live superblock and a snapshot's, where they are applicable."""
    names = [name for kind, name in VOLUME_CASES if kind == view]
    changes = {("superblock-differs", name): change_volume(VIEWS[view], VOLUME_FIELDS[name]) for name in names}
    # Both numbers of clones are compared with the same one.
    alone = {key: changes.pop(key) for key in [("superblock-differs", "cloneinfo_id_epoch")] if view == "snapshot"}
    assert missed(changes, victims, "snapshots") + (missed(alone, victims, "snapshots") if alone else []) == []


def test_strange_values_in_a_seal_are_found_at_their_fields(victims):
    """Header, version, flags and reserved bytes of integrity metadata follow their rules."""
    seal = at.region("integrity-metadata")
    fields = [rule.field for rule in objects.make_seal_rules(1) if str(rule.field) != "hdr.xid"]
    assert missed({("seal-broken", str(each)): change_volume(seal, each) for each in fields}, victims, "sealed") == []


ENTRY = VOLUME.modified_by.id.strides[0]
STANDING = {
    "time without program": (VOLUME.modified_by.timestamp, 0, 1),
    "transaction without program": (VOLUME.modified_by.last_xid, 0, 1),
    "entry behind the last": (VOLUME.modified_by.id, 3, 1),
    "no name": (VOLUME.volname, 0, 0),
    "no maker": (VOLUME.formatted_by.id, 0, 0),
}


@for_each("name", STANDING)
def test_volumes_have_a_name_a_maker_and_programs_in_order(name, victims):
    """Empty entries follow the entries with a program. An empty name or maker gives a finding."""
    field, number, value = STANDING[name]

    def change(image, start):
        where = start + field.offset + number * ENTRY
        image[where] = value
        return where

    assert codes_at(fault_of(altered(at.region("volume-superblock"), change)), victims) == {"superblock-differs"}


@pytest.mark.parametrize("name", ["volume-oid", "volume-checksum"])
def test_what_stands_in_for_a_lost_volume_is_no_fault_of_its_own(name, victims):
    """An older copy that a search found is a consequence of the unreadable superblock."""
    with planted(BY_NAME[name], victims) as image:
        found = check(image.path, password=PASSWORD)
    told = [item for part in (found, *found.volumes) for item in part.findings]
    assert [item for item in told if item.code == "tree-rebuilt"]
    assert {item.code for item in told if item.is_cause and item.level == "error"}
    assert not [item for item in told if item.code == "tree-rebuilt" and item.is_cause]

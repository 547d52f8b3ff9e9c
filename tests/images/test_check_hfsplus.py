"""The structure check of HFS+: each planted fault is found at its byte, and sound volumes are clean."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from fixtures.faults_hfsplus import FAULTS
from fixtures.hfsplus import structures as s
from fixtures.hfsplus.compressed import DECMPFS, DECMPFS_HEADER, compressed_file
from fixtures.hfsplus.locate import payload, record_of
from fixtures.hfsplus.plan import File, VolumePlan, Xattr
from fixtures.hfsplus.scenarios import SCENARIOS
from fixtures.hfsplus.writer import render
from layoutscope.checks.hfsplus.registry import CHECKS
from layoutscope.errors import FormatError
from layoutscope.filesystems.hfsplus import btree, contents, forks, journal, tree, volume
from layoutscope.image import MemorySource, open_image
from layoutscope.partition import find_volumes
from tests.cases import for_each
from tests.hfsplus import check_volume, read_layout, rendered

READING = {
    "alternate header": (volume, "_compare"),
    "free count": (forks, "check_free_count"),
    "header node": (btree, "_read_header_node"),
    "tree size": (tree, "open_tree"),
    "map nodes": (btree, "_read_map"),
    "map end": (tree, "_report_short_map"),
    "shape": (tree, "check_reach"),
    "node map": (tree, "_report_map"),
    "unreached": (tree, "_report_unreached"),
    "leaf links": (tree, "_check_links"),
    "journal place": (contents, "find_journal"),
    "journal header": (journal, "_read_sound_header"),
    "journal lists": (journal, "_report_invalid"),
}
"""Comparisons that reading makes, by their function."""
FOUND = {
    "file-count": ("file-count-differs", "volume-counts"),
    "folder-count": ("file-count-differs", "volume-counts"),
    "free-blocks": ("free-count-differs", "free count"),
    "next-id": ("next-cnid-used", "volume-counts"),
    "creation-date": ("alternate-header-differs", "volume-fields"),
    "clump-odd": ("clump-size-invalid", "volume-fields"),
    "clump-huge": ("clump-size-invalid", "volume-fields"),
    "encoding-lost": ("encodings-differ", "volume-fields"),
    "special-half-extent": ("extents-invalid", "unused-extents"),
    "copy-lost": ("alternate-header-missing", "alternate header"),
    "copy-size": ("alternate-header-differs", "alternate header"),
    "copy-catalog": ("alternate-header-differs", "alternate header"),
    "catalog-size": ("fork-size-differs", "special-sizes"),
    "catalog-blocks": ("fork-size-differs", "special-sizes"),
    "bitmap-too-small": ("allocation-file-short", "allocation-size"),
    "used-block-free": ("block-claimed-free", "allocation"),
    "free-block-used": ("block-unclaimed", "allocation"),
    "header-block-free": ("block-claimed-free", "allocation"),
    "last-block-free": ("block-claimed-free", "allocation"),
    "journal-outside": ("journal-invalid", "journal place"),
    "journal-size": ("journal-invalid", "journal place"),
    "journal-magic": ("journal-invalid", "journal header"),
    "journal-start": ("journal-invalid", "journal header"),
    "journal-checksum": ("journal-invalid", "journal header"),
    "transaction-checksum": ("journal-invalid", "journal lists"),
    "transaction-count": ("journal-invalid", "journal lists"),
    "leaf-records": ("tree-count-differs", "tree-headers"),
    "free-nodes": ("tree-header-differs", "tree-headers"),
    "total-nodes": ("tree-size-differs", "tree size"),
    "tree-depth": ("tree-header-differs", "tree-headers"),
    "root-outside": ("tree-unreachable", "shape"),
    "first-leaf": ("tree-header-differs", "tree-headers"),
    "last-leaf": ("tree-header-differs", "tree-headers"),
    "node-size": ("tree-header-invalid", "header node"),
    "node-size-zero": ("tree-header-invalid", "header node"),
    "key-compare": ("tree-header-differs", "key-compare"),
    "max-key-length": ("tree-header-differs", "key-lengths"),
    "overflow-leaf-records": ("tree-count-differs", "tree-headers"),
    "attributes-free-nodes": ("tree-header-differs", "tree-headers"),
    "used-node-free": ("node-map-differs", "node map"),
    "free-node-used": ("node-map-differs", "unreached"),
    "tree-reserved": ("tree-header-differs", "header-nodes"),
    "tree-reserved-end": ("tree-header-differs", "header-nodes"),
    "tree-type": ("tree-header-differs", "header-nodes"),
    "tree-attributes": ("tree-header-differs", "header-nodes"),
    "tree-not-closed": ("tree-header-differs", "header-nodes"),
    "node-behind-last": ("node-map-differs", "map-nodes"),
    "header-next": ("node-invalid", "map-nodes"),
    "header-height": ("node-invalid", "header-nodes"),
    "header-records": ("node-invalid", "header-nodes"),
    "header-back-link": ("node-invalid", "header-nodes"),
    "header-reserved": ("node-invalid", "header-nodes"),
    "header-offset": ("records-invalid", "header-nodes"),
    "header-offset-end": ("records-invalid", "header-nodes"),
    "map-node-height": ("node-invalid", "map-nodes"),
    "map-node-records": ("node-invalid", "map-nodes"),
    "map-node-reserved": ("node-invalid", "map-nodes"),
    "map-node-next": ("node-invalid", "map-nodes"),
    "map-node-offset": ("records-invalid", "map-nodes"),
    "folder-locked": ("flags-invalid", "catalog-fields"),
    "plain-in-chain": ("flags-invalid", "catalog-fields"),
    "plain-links": ("link-count-differs", "catalog-fields"),
    "half-extent": ("extents-invalid", "unused-extents"),
    "header-kind": ("node-invalid", "header node"),
    "leaf-kind-unknown": ("node-invalid", "descriptors"),
    "leaf-kind-index": ("node-invalid", "descriptors"),
    "leaf-height": ("node-invalid", "descriptors"),
    "record-count": ("records-invalid", "record-offsets"),
    "record-count-huge": ("records-invalid", "record-offsets"),
    "offset-outside": ("records-invalid", "record-offsets"),
    "offset-falls": ("records-invalid", "record-offsets"),
    "offset-first": ("records-invalid", "record-offsets"),
    "forward-link": ("leaf-chain-broken", "leaf links"),
    "forward-loop": ("leaf-chain-broken", "leaf links"),
    "forward-outside": ("leaf-chain-broken", "leaf links"),
    "backward-link": ("leaf-chain-broken", "leaf links"),
    "child-outside": ("pointer-invalid", "pointers"),
    "child-twice": ("pointer-invalid", "pointers"),
    "child-is-root": ("pointer-invalid", "pointers"),
    "index-key": ("index-key-differs", "index-keys"),
    "key-order": ("keys-unordered", "key-order"),
    "key-too-long": ("records-invalid", "keys"),
    "key-too-short": ("records-invalid", "keys"),
    "map-node-kind": ("node-invalid", "map nodes"),
    "map-node-chain": ("node-map-short", "map end"),
    "record-type": ("records-invalid", "record-types"),
    "record-type-folder": ("records-invalid", "record-types"),
    "reserved-id": ("cnid-reserved", "ids"),
    "duplicate-id": ("cnid-duplicate", "ids"),
    "changed-id": ("thread-differs", "threads"),
    "changed-folder-id": ("thread-differs", "threads"),
    "thread-parent": ("thread-differs", "threads"),
    "thread-type": ("thread-differs", "threads"),
    "thread-name": ("thread-differs", "threads"),
    "valence": ("valence-differs", "valence"),
    "subfolder-count": ("folder-count-differs", "subfolders"),
    "link-count": ("link-count-differs", "link-counts"),
    "link-target": ("hard-link-broken", "link-targets"),
    "link-chain": ("link-chain-broken", "link-chains"),
    "link-back": ("link-chain-broken", "link-chains"),
    "first-link": ("link-chain-broken", "first-links"),
    "first-link-second": ("link-chain-broken", "first-links"),
    "folder-first-link": ("link-chain-broken", "first-links"),
    "hot-file-unknown": ("hot-file-differs", "hot-files"),
    "hot-thread-lost": ("hot-file-differs", "hot-files"),
    "hot-thread-temperature": ("hot-file-differs", "hot-files"),
    "folder-link-target": ("hard-link-broken", "link-targets"),
    "double-claim": ("block-claimed-twice", "double-claims"),
    "extent-outside": ("extent-outside", "extents"),
    "extent-huge": ("extent-outside", "extents"),
    "fork-blocks": ("fork-size-differs", "fork-sizes"),
    "fork-size": ("fork-size-differs", "fork-sizes"),
    "overflow-start": ("extents-gap", "overflow-starts"),
    "overflow-owner": ("extents-orphaned", "overflow-records"),
    "overflow-fork": ("extents-invalid", "overflow-records"),
    "overflow-count": ("extents-invalid", "overflow-records"),
    "attribute-type": ("records-invalid", "record-types"),
    "attribute-size": ("attribute-invalid", "attribute-values"),
    "attribute-owner": ("attribute-orphaned", "attribute-owners"),
    "attribute-name": ("records-invalid", "keys"),
    "attribute-start": ("attribute-invalid", "attribute-values"),
    "attribute-extent": ("extent-outside", "extents"),
    "first-link-none": ("link-chain-broken", "first-links"),
    "link-data": ("link-invalid", "catalog-fields"),
    "link-date": ("link-invalid", "catalog-fields"),
    "folder-link-flags": ("link-invalid", "catalog-fields"),
    "folder-mode": ("permissions-invalid", "catalog-fields"),
    "folder-encoding": ("encodings-differ", "catalog-fields"),
    "child-link": ("flags-invalid", "catalog-fields"),
    "file-mode": ("permissions-invalid", "catalog-fields"),
    "attribute-head": ("attribute-invalid", "attribute-values"),
    "attribute-long": ("attribute-invalid", "attribute-values"),
    "attribute-claim": ("attribute-flag-differs", "attribute-flags"),
    "list-claim": ("attribute-flag-differs", "attribute-flags"),
    "clump-attributes": ("clump-size-invalid", "volume-fields"),
    "clump-none": ("clump-size-invalid", "volume-fields"),
    "bad-blocks-denied": ("volume-field-invalid", "volume-fields"),
    "version": ("volume-field-invalid", "volume-fields"),
    **dict.fromkeys(
        ("header-magic", "header-type", "header-in-fork", "header-in-attribute", "compressed-plain", "compressed-data"),
        ("compression-differs", "compressed-files"),
    ),
    "next-block": ("volume-field-invalid", "volume-fields"),
    "unused-node": ("node-not-zeroed", "unused-nodes"),
    "attribute-flag": ("attribute-flag-differs", "attribute-flags"),
}
"""The finding for each planted fault, and the check that finds it."""
NAMES = [fault.name for fault in FAULTS]


def damaged(name):
    fault = FAULTS[NAMES.index(name)]
    data, expected = rendered(fault.scenario)
    image = bytearray(data)
    at = fault.apply(image, expected)
    return MemorySource(bytes(image)), at


def found(findings):
    return {(finding.code, finding.image_offset) for finding in findings}


def test_every_fault_is_in_the_table():
    """Every planted fault is in the table."""
    assert sorted(NAMES) == sorted(FOUND)


WITHOUT = {
    "find_journal": None,
    "_read_sound_header": lambda *_: (None, False),
    "_read_header_node": None,
    "open_tree": None,
    "_read_map": None,
}
"""Replacements for comparisons that also return something; None: only their reports are dropped."""


@for_each("name", NAMES)
def test_fault_is_found_at_its_field_by_one_check(name, monkeypatch):
    """The finding has the address of the changed field; without that check or comparison there is none."""
    source, at = damaged(name)
    code, check = FOUND[name]
    assert (code, at) in found(check_volume(source))
    if check in CHECKS:
        assert (code, at) not in found(check_volume(source, without={check}))
        return
    module, function = READING[check]
    replacement = WITHOUT.get(function, lambda *_: None)
    if replacement is None:
        replacement = silenced(getattr(module, function))
    monkeypatch.setattr(module, function, replacement)
    assert (code, at) not in found(check_volume(source))


def silenced(function):
    """Run a function without its findings and its format errors about its own comparisons."""

    def run(volume, *args):
        before = len(volume.log.findings)
        try:
            return function(volume, *args)
        except FormatError as error:
            raise type(error)("not looked at", structure="", image_offset=0) from error
        finally:
            del volume.log.findings[before:]

    return run


EXTRA = {"unmounted", "index-links", "parents"}
"""Checks whose faults are planted below."""


def test_every_check_finds_a_planted_fault():
    """Every check has a fault that only it finds; the information has its own test."""
    assert set(CHECKS) <= {name for _, name in FOUND.values()} | EXTRA


def test_volume_that_was_not_unmounted_is_told_as_information():
    """It is not damage, as a mount reports nothing either; without the check there is no finding."""
    source = MemorySource(rendered("dirty")[0])
    at = 1024 + 4  # TN1150: the attributes follow signature and version
    assert [(item.code, item.level, item.image_offset) for item in check_volume(source)] == [
        ("not-unmounted", "info", at)
    ]
    assert check_volume(source, without={"unmounted"}) == []


def test_index_node_with_a_wrong_neighbour():
    """The root has no siblings: a link from it is found at its first field."""
    data, expected = rendered("victim")
    root = expected.node("catalog", expected.trees["catalog"]["root_node"])
    image = bytearray(data)
    image[root.image_offset : root.image_offset + 4] = (1).to_bytes(4, "big")
    source = MemorySource(bytes(image))
    assert ("node-links-differ", root.image_offset) in found(check_volume(source))
    assert ("node-links-differ", root.image_offset) not in found(check_volume(source, without={"index-links"}))


def test_children_of_a_lost_folder_are_named():
    """A folder with a wrong CNID leaves its 25 files without a parent, each reported at its key."""
    source, _ = damaged("changed-folder-id")
    lost = [item for item in check_volume(source) if item.code == "parent-missing"]
    assert len(lost) == 25
    assert not [item for item in check_volume(source, without={"parents"}) if item.code == "parent-missing"]


def test_a_file_without_a_name_is_found_at_its_key():
    """newfs_hfs can make a root folder without a name, which fsck_hfs rejects; only threads have none."""
    canvas, expected = render(replace(SCENARIOS["victim"], name=""))
    source = MemorySource(bytes(canvas.to_bytearray()))
    first = expected.node("catalog", expected.trees["catalog"]["first_leaf_node"]).image_offset
    at = first + 14 + 2 + 4  # TN1150: key length and parent follow the node descriptor, then the name's length
    assert {(item.code, item.image_offset) for item in check_volume(source)} == {("records-invalid", at)}


REMARKABLE = {"journal-external": {"journal-external"}}
"""Scenarios that are sound, but with data that could not be read."""


@for_each("name", sorted(SCENARIOS))
def test_sound_volume_is_clean(name):
    """Written volumes have no contradictions."""
    data, expected = rendered(name)
    worse = {item.code for item in check_volume(MemorySource(data), image_offset=expected.volume_offset)
             if item.level != "info"}  # fmt: skip
    assert worse == REMARKABLE.get(name, set())


REAL = [
    *(f"driver/{name}" for name in (
        "hfsplus-4k.img", "hfsplus-b512-n4096.img", "hfsplus-empty-plain.img", "hfsplus-frag.img",
        "hfsplus-journaled-pop.img", "hfsx-cs.img", "apm-hfsplus.img", "gpt-both.img",
    )),
    *(f"apple/{name}.raw" for name in (
        "hfsinspect_hfsj", "hfsinspect_MBR", "slate_20121008", "plaso_spotlight10.13", "goapfsv2_hfs-basic",
        "hdimac_hfsx_j",
    )),
    "aged/hfsplus-20000-c00.img",
    "aged/hfsplus-20000-c20.img",
    pytest.param("aged/hfsplus-200000-c20.img", marks=pytest.mark.slow),
]  # fmt: skip


def check_image(path):
    with open_image(path) as source:
        volumes = [item for item in find_volumes(source).readable if item.kind == "hfsplus"]
        assert volumes
        return [item for volume in volumes for item in check_volume(source, image_offset=volume.image_offset)]


@pytest.mark.parametrize("name", REAL)
def test_real_volume_is_clean(name, reference_image):
    """Volumes that fsck_hfs calls clean or that macOS wrote have neither errors nor warnings."""
    assert [item for item in check_image(reference_image(name)) if item.level != "info"] == []


def test_hybrid_image_counts_one_block_too_few(reference_image):
    """The disc's writer marks an unowned block as used, as fsck_hfs reports for its free count."""
    worse = [item for item in check_image(reference_image("driver/hybrid-hfsplus.iso")) if item.level != "info"]
    assert [item.code for item in worse] == ["block-unclaimed"]
    assert "block 81," in worse[0].message


def test_dirty_volume_of_macos_is_told_as_such(reference_image):
    """A volume whose journal was not replayed is sound after the replay; both facts are information."""
    findings = check_image(reference_image("apple/hfsinspect_hfsj.raw"))
    assert {(item.code, item.level) for item in findings} == {("journal-replayed", "info"), ("not-unmounted", "info")}


def test_truncated_volume_is_bounded_and_the_rest_is_read(reference_image, tmp_path):
    """Truncated in its catalog, a volume reports missing data; the rest is checked as far as possible."""
    from layoutscope import check, read_layouts

    source = reference_image("driver/hfsplus-b512-n4096.img")
    whole = read_layouts(source)[0]
    leaves = whole.nodes.filter((whole.nodes["tree"] == "catalog") & (whole.nodes["kind"] == "leaf"))
    cut = tmp_path / "cut.img"
    cut.write_bytes(source.read_bytes()[: sorted(leaves["image_offset"])[len(leaves) // 2]])
    result = check(cut)
    codes = {item.code for volume in result.volumes for item in volume.findings} | {f.code for f in result.findings}
    assert {"truncated", "node-unreadable", "subtree-missing"} <= codes
    assert result.exit_code == 3
    assert 0 < result.volumes[0].coverage < 1
    assert 0 < read_layouts(cut)[0].entries.height < whole.entries.height


def test_a_file_that_grew_ahead_of_its_map_is_information():
    """Unused nodes after the end of the map are free: nothing is damaged."""
    data, _ = rendered("map-grows-late")
    (finding,) = check_volume(MemorySource(data))
    mapped = (512 - 14 - 106 - 128 - 8) * 8
    assert (finding.code, finding.level, finding.found) == ("node-map-short", "info", f"{mapped}")
    with MemorySource(data) as source:
        layout = read_layout(source)
    nodes = layout.nodes.filter(layout.nodes["tree"] == "catalog")
    assert (nodes["kind"] == "free").sum() > 9000 - mapped


# Headers of compressed files compared with their files: no false findings.


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

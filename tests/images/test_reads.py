"""The program's own reads of a disk: each block once, in a few passes from its start to its end."""

from __future__ import annotations

import itertools
import subprocess
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import layoutscope
from fixtures.apfs import locate
from fixtures.apfs.plan import EncryptionPlan, TreeShape, VolumePlan
from fixtures.apfs.scenarios import PASSWORD, SCENARIOS
from fixtures.apfs.writer import write
from fixtures.wrappers import expert_witness
from layoutscope import progress
from layoutscope.drive import load_profile, service
from layoutscope.errors import LayoutscopeError
from layoutscope.filesystems.apfs import btree
from layoutscope.image import opening, remembered
from layoutscope.image.containers.placed import StoredSource
from layoutscope.image.passes import PART_BYTES
from layoutscope.image.raw import RawFile
from layoutscope.image.source import RecordingSource
from layoutscope.remedies.case import Case
from layoutscope.remedies.changes import list_from_disk
from layoutscope.structs.arrays import runs_of, total, union
from layoutscope.tables.schema import TABLES
from layoutscope.walk.host import host_profile
from tests.apfs import read_layouts
from tests.bench.own_reads import DRIVE, Requests, served
from tests.images.test_apfs_states import FILES, PLAN
from tests.losses.images import APFS_PLANS, HFSPLUS_PLANS, written_images
from tests.sparse import copy_zeroed
from tests.unit.image.containers.test_udif import BZIP2, LZFSE, LZMA, ZEROS, ZLIB, udif

FIXTURES = Path(__file__).parents[2] / "fixtures" / "images"
VERBS = {
    "scan": lambda image, _: layoutscope.scan(image),
    "list": lambda image, _: layoutscope.list(image),
    "check": lambda image, _: layoutscope.check(image),
    "export": lambda image, folder: layoutscope.export(image, "entries", folder / "entries.csv"),
    "map": lambda image, folder: layoutscope.map(image, folder / "map.html"),
    "extract": lambda image, folder: layoutscope.extract(image, folder / "metadata.img"),
}
MAX_PASSES = 40
"""Allowed backward steps between reads: headers and roots of trees, then the levels of all trees together."""


@pytest.fixture
def counted(monkeypatch):
    """Record the reads of every opened image, without gaps that are read over."""
    sources = []

    def open_recorded(*words, **options):
        sources.append(RecordingSource(open_image(*words, **options)))
        return sources[-1]

    open_image = opening.open_image
    monkeypatch.setattr(opening, "open_image", open_recorded)
    return sources


@pytest.fixture(params=["apfs-scattered", "hfsplus-scattered", "aged/apfs-20000-c20.img", "aged/hfsplus-20000-c20.img"])
def image(request):
    """Return a committed image, or one that is stored elsewhere."""
    name = request.param
    return request.getfixturevalue("reference_image")(name) if "/" in name else FIXTURES / f"{name}.img.zst"


@pytest.mark.full
@pytest.mark.parametrize("verb", VERBS)
def test_each_block_is_asked_for_once_and_by_address(verb, image, counted, tmp_path):
    """No byte is read twice, even if nodes are used again or a header is read in parts."""
    VERBS[verb](image, tmp_path)
    (source,) = counted
    asked = source.recorded()
    lengths = asked[:, 1] - asked[:, 0]
    assert lengths.sum() == total(union([runs_of(asked[:, 0], lengths)]))
    num_passes = np.count_nonzero(asked[1:, 0] < asked[:-1, 1])
    assert num_passes <= MAX_PASSES


@pytest.mark.parametrize("verb", VERBS)
def test_nodes_of_trees_are_read_in_one_pass_without_memory(verb, reference_image, counted, monkeypatch, tmp_path):
    """Index nodes and leaves of the file-system tree together, although only headers are cached of the 24 MiB."""
    monkeypatch.setattr(remembered, "MEMORY_BYTES", 1 << 20)
    path = reference_image("aged/apfs-20000-c20.img")
    VERBS[verb](path, tmp_path)
    asked = counted[0].recorded()
    with layoutscope.open(path) as session:
        (nodes,) = (layout.nodes for layout in session.layouts if layout.facts.volume is not None)
    tree = nodes.filter(tree="fs").filter(pl.col("parent_row").is_not_null()).sort("image_offset")
    starts, sizes = (tree[name].to_numpy().astype(np.int64) for name in ("image_offset", "size_bytes"))
    assert set(tree["level"]) == {0, 1}
    order = np.argsort(asked[:, 0], kind="stable")
    read = order[np.searchsorted(asked[order, 0], starts, side="right") - 1]
    assert (asked[read, 1] >= starts + sizes).all()
    assert (np.diff(read) >= 0).all()
    lengths = asked[:, 1] - asked[:, 0]
    assert lengths.sum() == total(union([runs_of(asked[:, 0], lengths)]))


@pytest.mark.parametrize(("name", "most"), [("aged/apfs-20000-c20.img", 200), ("aged/hfsplus-20000-c20.img", 80)])
def test_an_aged_volume_is_read_in_few_requests(reference_image, name, most):
    """6,000 nodes within 35 MiB, and a catalog in five pieces: short gaps are read over."""
    assert layoutscope.scan(reference_image(name)).image.reads <= most


def test_a_plan_predicts_what_list_reads(image, monkeypatch, tmp_path):
    """Its requests are those of ``list`` without headers, each of which costs at most a seek and a revolution."""
    opened = []
    open_image = opening.open_image
    monkeypatch.setattr(
        opening,
        "open_image",
        lambda *words, **options: opened.append(Requests(open_image(*words, **options))) or opened[-1],
    )
    layoutscope.list(image)
    monkeypatch.undo()
    recorded = served(opened[0].asked, tmp_path)
    with layoutscope.open(image) as session:
        (layout,) = (layout for layout in session.layouts if len(layout.columns("entries")))
    case = Case(layout, load_profile(DRIVE), "fts", host_profile("linux"))
    reads = list_from_disk(case).parts[0].reads
    headers = recorded["reads"] - len(reads)
    assert 0 <= headers <= MAX_HEADERS
    assert 0.95 < reads.length_bytes.sum() / recorded["bytes"] <= 1
    drive_s = service(reads, case.drive).seconds - reads.host_us / 1e6
    assert 0 <= recorded["seconds"] - drive_s <= MAX_HEADER_S * headers


MAX_HEADERS = 64
"""Pieces of superblocks, headers and roots, most of which are contiguous."""
MAX_HEADER_S = 0.0167
"""An average seek of 8.33 ms and a revolution of 8.33 ms (generic-7200)."""


def test_a_pass_knows_its_bytes_before_it_starts(image, counted, monkeypatch):
    """The bytes read from first to last step equal the announced ones; short passes are silent.

    Headers and roots that were already read are not read again, nor are cached data.
    """
    monkeypatch.setattr(progress, "REPORT_INTERVAL_S", 0.0)
    steps = []

    def listen(step):
        asked = counted[0].recorded() if counted else np.empty((0, 2), np.int64)
        steps.append((step, int((asked[:, 1] - asked[:, 0]).sum())))

    layoutscope.list(image, progress=listen)
    grouped = itertools.groupby(steps, lambda item: item[0].total if item[0].phase.startswith("reading") else None)
    passes = [[*group] for size, group in grouped if size]
    assert bool(passes) == ("aged" in str(image))
    assert not passes or passes[0][0][1] < passes[0][-1][1]
    for group in passes:
        (first, before), (last, after) = group[0], group[-1]
        assert (first.done, last.done, last.share) == (0, last.total, 1.0)
        assert before == after or 0 <= last.total - (after - before) < last.total // 100
        assert len({step.done for step, _ in group}) > last.total // PART_BYTES


CHUNK_BYTES = 1 << 18


def disk_image(storage):
    """Write a disk image whose chunks of 256 KiB are compressed in one way, and whose zero chunks are not stored."""

    def write(raw, path, _):
        disk = raw.read_bytes()
        chunks = [disk[at : at + CHUNK_BYTES] for at in range(0, len(disk), CHUNK_BYTES)]
        path.write_bytes(udif([(storage if any(chunk) else ZEROS, chunk) for chunk in chunks]))

    return write


def packed_qcow(raw, path, peer):
    subprocess.run([peer("qemu-img"), "convert", "-c", "-f", "raw", "-O", "qcow2", raw, path], check=True)


def expert_witness_image(raw, path, _):
    (segment,) = expert_witness(raw.read_bytes())
    path.write_bytes(segment)


PACKED = {
    "zlib.dmg": disk_image(ZLIB),
    "bzip2.dmg": disk_image(BZIP2),
    "lzma.dmg": disk_image(LZMA),
    "lzfse.dmg": disk_image(LZFSE),
    "packed.qcow2": packed_qcow,
    "packed.E01": expert_witness_image,
}


@pytest.fixture(scope="module", params=PACKED)
def packed_images(request, reference_image, peer, tmp_path_factory):
    """Return the images of a driver in compressed chunks."""
    folder = tmp_path_factory.mktemp("packed")
    paths = [folder / f"{name}-{request.param}" for name in ("apfs-ci", "hfsplus-4k")]
    for path, name in zip(paths, ("apfs-ci", "hfsplus-4k"), strict=True):
        PACKED[request.param](reference_image(f"driver/{name}.img"), path, peer)
    return paths


@pytest.mark.full
def test_each_chunk_of_a_packed_image_is_unpacked_once(packed_images, monkeypatch, tmp_path):
    """Chunks are counted where they are decompressed, whatever the passes of a command."""
    unpacked = Counter()
    unpack = StoredSource._unpack
    monkeypatch.setattr(StoredSource, "_unpack", lambda self, number: unpacked.update([number]) or unpack(self, number))
    for path in packed_images:
        for verb, run in VERBS.items():
            unpacked.clear()
            run(path, tmp_path)
            for made in tmp_path.iterdir():
                made.unlink()
            assert len(unpacked) > 5
            assert set(unpacked.values()) == {1}, (path.name, verb)


# Nodes read before the trees that lead to them: the tables equal those of reading level by level.


SHAPE = TreeShape(12, 6)
ENCRYPTED = VolumePlan("Secret", FILES, fs_shape=SHAPE, encryption=EncryptionPlan(PASSWORD))
PLANS = {"snapshots": PLAN, "encrypted": replace(PLAN, volumes=(ENCRYPTED,), transactions=())}


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Write the containers; return the bytes of each, and the addresses of nodes by level."""
    found = {}
    for name, plan in PLANS.items():
        path, by_level = tmp_path_factory.mktemp("ahead") / "a.img", {}
        for node in write(plan, path).live.nodes:
            if node.tree == "fs":
                by_level.setdefault(node.level, []).append(node.paddr * 4096)
        found[name] = path.read_bytes(), by_level
    return found


def flip(data, start):
    data[start + 200] ^= 1


def disorder(data, start):
    """Make the first key of a leaf the greatest."""
    place = locate.records(data, start, 4096)[0]
    data[place.key + 6] |= 1
    locate.fix_checksum(data, start, 4096)


def unknown(data, start):
    """Give the last record of a leaf a type that does not exist."""
    place = locate.records(data, start, 4096)[-1]
    data[place.key + 7] |= 0xF0
    locate.fix_checksum(data, start, 4096)


CASES = [
    (name, level, damage)
    for name in PLANS
    for level, damage in ((0, None), (0, flip), (0, disorder), (0, unknown), (1, flip), (2, flip))
    # Records of encrypted nodes cannot be changed in place.
    if name != "encrypted" or damage in (None, flip)
]


@pytest.mark.full
@pytest.mark.parametrize("room_bytes", [btree.MAX_KEPT_BYTES, 0])
@pytest.mark.parametrize(("name", "level", "damage"), CASES)
def test_tables_are_those_of_reading_level_by_level(written, name, level, damage, room_bytes, monkeypatch, tmp_path):
    """Row for row, including findings; index nodes that are not cached are read again."""
    plain, by_level = written[name]
    data = bytearray(plain)
    for start in by_level[level][1::3] if damage else ():
        damage(data, start)
    path = tmp_path / "changed.img"
    path.write_bytes(data)
    ahead = []
    find_leaves = btree.Ahead.find_leaves

    def find(*words):
        found = find_leaves(*words)
        ahead.extend([] if found is None else [found])
        return found

    monkeypatch.setattr(btree.Ahead, "find_leaves", find)
    monkeypatch.setattr(btree, "MAX_KEPT_BYTES", room_bytes)
    found = read(path)
    monkeypatch.setattr(btree.Ahead, "read", lambda *_: iter(()))
    assert read(path) == found
    num_ahead = len(ahead[0].numbers) if ahead else 0
    if level == 0:
        assert num_ahead == len(by_level[0]) - (len(by_level[0][1::3]) if damage else 0)
    else:
        assert num_ahead < len(by_level[0])


def read(path):
    """Return the rows of all tables."""
    with RawFile(path) as source:
        layouts = read_layouts(source, password=PASSWORD)
        return [layout.table(name).rows() for layout in layouts for name in TABLES]


# States and volumes reopened from damaged images: selected states, both halves of a Fusion set, and losses.


@pytest.fixture(scope="module")
def reopened(tmp_path_factory):
    """Return the images of a scenario, one or the two of a Fusion set."""
    made = {}

    def get(name):
        if name not in made:
            folder = tmp_path_factory.mktemp(name)
            made[name] = [folder / "main.img"] + ([folder / "second.img"] if SCENARIOS[name].fusion else [])
            write(SCENARIOS[name], *made[name])
        return made[name]

    return get


def places(result, kind, device=0):
    """Return the addresses of a scan's regions of a type."""
    tables = [volume.layout.regions.with_columns(pl.col("type").cast(pl.String)) for volume in result.parts]
    chosen = [table.filter(type=kind, device=device)["image_offset"].to_list() for table in tables]
    return [at for table in chosen for at in table]


def names(result):
    """Return the entries of all volumes."""
    return [
        set(volume.layout.entries.select("parent_id", "file_id", "name").rows())
        for volume in result.parts
        if volume.layout.facts.volume is not None
    ]


def errors(result):
    return [item for volume in result.parts for item in volume.findings if item.level == "error"]


@pytest.mark.parametrize("sweep", [False, True])
def test_a_chosen_state_whose_object_map_is_lost(reopened, tmp_path, sweep):
    """Its volumes are found by their superblocks of that transaction, not those of the newest state."""
    (path,) = reopened("edited")
    states = [state for state in layoutscope.checkpoints(path) if state.kind == "checkpoint"]
    xid = states[1].xid
    assert xid < states[0].xid
    whole = layoutscope.scan(path, xid=xid, drives=())
    lost = places(whole, "object-map")[0]
    image = copy_zeroed(path, tmp_path / path.name, lost)
    found = layoutscope.scan(image, xid=xid, drives=(), sweep=sweep)
    assert found.exit_code == 3
    assert found.coverage != 1
    assert {volume.layout.facts.view for volume in found.parts} == {f"xid {xid}"}
    assert names(found) == names(whole) != names(layoutscope.scan(path, drives=()))


@pytest.mark.parametrize("sweep", [False, True])
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_fusion_set_whose_object_map_is_lost(reopened, tmp_path, order, sweep):
    """Volume superblocks are searched for on both devices, whichever image is named first."""
    main, second = reopened("fusion")
    whole = layoutscope.scan(main, second=second, drives=())
    pair = copy_zeroed(main, tmp_path / main.name, places(whole, "object-map")[0]), second
    found = layoutscope.scan(pair[order[0]], second=pair[order[1]], drives=(), sweep=sweep)
    assert found.exit_code == 3
    assert found.coverage != 1
    assert names(found) == names(whole)
    assert any("container object map" in item.structure for item in errors(found))


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_fusion_set_without_any_superblock_of_its_main_device(reopened, tmp_path, order):
    """A sweep reassembles it: the second device's superblock copy shows which image is which."""
    main, second = reopened("fusion")
    whole = layoutscope.scan(main, second=second, drives=())
    pair = copy_zeroed(main, tmp_path / main.name, 0, *places(whole, "container-superblock")), second
    found = layoutscope.scan(pair[order[0]], second=pair[order[1]], drives=(), sweep=True)
    assert found.exit_code == 3
    assert names(found) == names(whole)


@pytest.mark.parametrize(("order", "sweep"), [((0, 1), False), ((0, 1), True), ((1, 0), True)])
def test_a_second_device_whose_superblock_is_lost(reopened, tmp_path, order, sweep):
    """The main device's superblock shows which is which; nothing is lost, and the damage has its device."""
    main, second = reopened("fusion")
    pair = main, copy_zeroed(second, tmp_path / second.name, 0)
    whole = layoutscope.scan(main, second=second, drives=())
    found = layoutscope.scan(pair[order[0]], second=pair[order[1]], drives=(), sweep=sweep)
    assert names(found) == names(whole)
    told = [item for volume in found.parts for item in volume.findings if item.code == "checkpoint-invalid"]
    # The magic follows the 32 bytes of the object header.
    assert [(item.level, item.image_offset, item.device) for item in told] == [("warning", 32, 1)]


def test_a_second_image_that_is_nothing_is_refused(reopened, tmp_path):
    """A container that is not a Fusion set has no second device."""
    (path,) = reopened("edited")
    other = tmp_path / "zeros.img"
    other.write_bytes(bytes(1 << 20))
    with pytest.raises(LayoutscopeError):
        layoutscope.scan(path, second=other, drives=())


@pytest.mark.parametrize("sweep", [False, True])
def test_a_volume_of_whose_superblock_no_copy_is_left(reopened, tmp_path, sweep):
    """The loss has no address, and is reported as far as the search went; the other volume is complete."""
    (path,) = reopened("volumes")
    whole = layoutscope.scan(path, drives=())
    (first,) = [item for item in whole.parts if item.layout.facts.volume == 1]
    own = first.layout.regions.with_columns(pl.col("type").cast(pl.String)).filter(type="volume-superblock")
    image = copy_zeroed(path, tmp_path / path.name, *own["image_offset"].to_list())
    found = layoutscope.scan(image, drives=(), sweep=sweep)
    assert found.exit_code == 3
    assert found.coverage is None
    assert names(found) == names(whole)[1:]
    (lost,) = [item for item in errors(found) if "no copy" in item.message]
    assert (lost.code, lost.image_offset) == ("volume-unreadable", None)
    assert "missing from the tables" in lost.message
    assert ("--sweep" in lost.message) is not sweep


# Both decoders agree on every view: live, each snapshot, older checkpoints, sealed and not, locked and unlocked.


MAX_OF_A_KIND = 3
"""Older checkpoints and snapshots per image that are read, the newest first."""


def views(path, **options):
    """Yield the options that show each state of an image."""
    states = layoutscope.checkpoints(path, **options)
    snapshots = [state.label for state in states if state.kind == "snapshot"]
    checkpoints = [state.xid for state in states if state.kind == "checkpoint" and state.is_complete]
    yield {}
    yield {"sweep": True}
    yield from ({"snapshot": label} for label in snapshots[-MAX_OF_A_KIND:])
    yield from ({"xid": xid} for xid in checkpoints[1 : MAX_OF_A_KIND + 1])


def disagreements(path, view, **options):
    """Return the tables of a view on which the decoders differ, and the number of compared rows."""
    found = layoutscope.verify(path, **view, **options)
    return [item for item in found.tables if item.differences], sum(item.rows for item in found.tables)


@pytest.fixture(scope="module")
def written_views(tmp_path_factory):
    """Write our own images; return them with their options, by name."""
    return {sound.name: sound for sound in written_images(tmp_path_factory.mktemp("views"))}


@pytest.mark.full
@pytest.mark.parametrize("name", [name for name in APFS_PLANS if name != "deep"])
def test_every_view_of_a_written_container(written_views, name):
    """Snapshots, sealed or not, and remaining checkpoints; an encrypted volume with its password, too."""
    sound = written_views[f"written-apfs-{name}"]
    for view in views(sound.path, **sound.options):
        wrong, rows = disagreements(sound.path, view, **sound.options)
        assert (view, wrong) == (view, [])
        assert rows > 0


def test_a_locked_volume(written_views):
    """Without the password, unencrypted data are read alike."""
    assert disagreements(written_views["written-apfs-encrypted"].path, {})[0] == []


@pytest.mark.parametrize("view", [{}, {"no_journal": True}, {"sweep": True}], ids=["live", "as it lies", "sweep"])
@pytest.mark.parametrize("name", [name for name in HFSPLUS_PLANS if "journal" in name or name in ("sized", "victim")])
def test_every_view_of_a_written_volume(written_views, name, view):
    """With the journal replayed, and with the bytes as stored."""
    assert disagreements(written_views[f"written-hfsplus-{name}"].path, view)[0] == []


@pytest.mark.full
@pytest.mark.images
@pytest.mark.parametrize(
    "name",
    [
        "apple/dissect_case_sensitive_beta.raw",
        "apple/hdimac_apfs-c.raw",
        "apple/offsite_source_2snaps.raw",
        "apple/sparkle_apfs_lzma_aux.raw",
        "driver/apfs-empty.img",
        "driver/apfs-snap.img",
    ],
)
def test_every_view_of_images_of_others(reference_image, name):
    """Images from macOS and Linux's driver that have snapshots or older checkpoints."""
    path = reference_image(name)
    for view in views(path):
        assert (view, disagreements(path, view)[0]) == (view, [])

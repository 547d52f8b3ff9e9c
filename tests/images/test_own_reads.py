"""The program's own reads of a disk: each block once, in a few passes from its start to its end."""

from __future__ import annotations

import itertools
import subprocess
from collections import Counter
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import layoutscope
from fixtures.wrappers import expert_witness
from layoutscope import progress
from layoutscope.drive import load_profile, service
from layoutscope.image import opening, remembered
from layoutscope.image.containers.placed import StoredSource
from layoutscope.image.passes import PART_BYTES
from layoutscope.image.source import RecordingSource
from layoutscope.remedies.case import Case
from layoutscope.remedies.changes import list_from_disk
from layoutscope.structs.arrays import runs_of, total, union
from layoutscope.walk.host import host_profile
from tests.bench.own_reads import DRIVE, Requests, served
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

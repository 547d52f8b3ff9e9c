from __future__ import annotations

import io
import json
import re
import subprocess
from dataclasses import replace

import pytest

from fixtures.apfs.plan import ExtentPlan, FilePlan
from fixtures.apfs.scenarios import SCENARIOS
from fixtures.apfs.writer import write
from layoutscope import extract, read_layouts, scan
from layoutscope.api import extract as extract_module
from layoutscope.image import open_image
from layoutscope.report.json import result_document
from layoutscope.zstd import zstd

COUNTERS = ("name", "reads", "read_bytes", "hole_bytes")


def document(path):
    """Return the document of a scan without the image's name and read statistics."""
    found = result_document(scan(path, drives=["generic-7200"]))
    found["image"] = {name: value for name, value in found["image"].items() if name not in COUNTERS}
    return json.loads(json.dumps(found))


def unpacked(path, target):
    """Decompress an extract with the zstd program."""
    subprocess.run(["zstd", "-q", "-d", "-f", path, "-o", target], check=True)
    return target


@pytest.fixture(params=["hfsplus", "apfs", "driver/gpt-both.img", "driver/apm-hfsplus.img", "driver/apfs-snap.img"])
def original(request):
    """Return an image: one of the committed ones, or a real one with partition map and snapshots."""
    if "/" in request.param:
        return request.getfixturevalue("reference_image")(request.param)
    return request.getfixturevalue({"hfsplus": "image", "apfs": "apfs_image"}[request.param])


@pytest.mark.full
@pytest.mark.parametrize("name", ["meta.img", "meta.img.zst"])
def test_an_extract_scans_the_same(original, tmp_path, name):
    """Sparse or compressed, it gives the same document except for the name and the reads."""
    found = extract(original, tmp_path / name)
    assert found.metadata_bytes < found.size_bytes == original.stat().st_size
    assert document(tmp_path / name) == document(original)


def test_runs_of_zeros_are_compressed_once(monkeypatch):
    """Frames of 1 GiB, 16 MiB and 1 MiB are made once and repeated: 18 GiB of zeros cost no more than these three."""
    sizes, compressor = [], zstd.ZstdCompressor

    class Counting:
        def __init__(self, *words, **options):
            self._own = compressor(*words, **options)
            self.flush = self._own.flush

        def compress(self, data):
            sizes.append(len(data))
            return self._own.compress(data)

    monkeypatch.setattr(zstd, "ZstdCompressor", Counting)
    extract_module.zero_frame.cache_clear()
    file = io.BytesIO()
    for _ in range(2):
        writer = extract_module._Compressed(file)
        writer.data(5 << 30, b"a" * 512)
        writer.data((8 << 30) + (35 << 20), b"b" * 512)
        writer.end(9 << 30)
    extract_module.zero_frame.cache_clear()
    assert 0 <= sum(sizes) - sum(extract_module.ZERO_FRAMES) - 4 * 512 < 4 * extract_module.ZERO_FRAMES[-1]
    assert file.tell() < 1 << 20


def test_data_of_files_are_left_out(image, tmp_path):
    """Places that hold file data and no metadata according to the tables are zeros."""
    extract(image, tmp_path / "meta.img")
    layout = read_layouts(image)[0]
    extents = layout.extents.filter(fork="data").drop_nulls("image_offset")
    # The journal is a file, too.
    data = extents.join(layout.regions, on="image_offset", how="anti")
    with open_image(tmp_path / "meta.img") as part:
        pieces = data.filter(data["file_id"] >= 16).select("image_offset", "length_bytes")
        assert pieces.height > 10
        assert all(part.read(*piece) == bytes(piece[1]) for piece in pieces.iter_rows())


def test_contents_in_places_that_are_searched_are_left_out(tmp_path):
    """The last block of a disk may hold a trailer or a RAID header; here it belongs to a file."""
    path, target = tmp_path / "a.img", tmp_path / "meta.img"
    plan = SCENARIOS["basic"]
    last = plan.block_count - 1
    file = FilePlan("last", (ExtentPlan(1, paddr=last),))
    volume = replace(plan.volumes[0], entries=(*plan.volumes[0].entries, file))
    write(replace(plan, volumes=(volume,)), path)
    with path.open("r+b") as image:
        image.seek(last * plan.block_size)
        image.write(b"contents" * (plan.block_size // 8))
    extract(path, target)
    assert b"contents" not in target.read_bytes()
    assert document(target) == document(path)


def test_zstd_unpacks_what_was_compressed(apfs_image, tmp_path, peer):
    """The zstd program decompresses the compressed extract to the sparse one."""
    peer("zstd")
    extract(apfs_image, tmp_path / "a.img")
    extract(apfs_image, tmp_path / "b.img.zst")
    assert unpacked(tmp_path / "b.img.zst", tmp_path / "b.img").read_bytes() == (tmp_path / "a.img").read_bytes()


def test_sleuthkit_lists_an_extract_of_hfsplus(reference_image, tmp_path, peer):
    """Fls prints the same for the extract as for the image, whose catalog is fragmented."""
    image = reference_image("aged/hfsplus-20000-c20.img")
    extract(image, tmp_path / "a.img")
    listings = [
        subprocess.run([peer("fls"), "-r", "-p", path], capture_output=True, check=True).stdout
        for path in (image, tmp_path / "a.img")
    ]
    assert listings[0] == listings[1]
    assert listings[0].count(b"\n") > 10


def test_sleuthkit_lists_an_extract_of_apfs(apfs_image, tmp_path, peer):
    """Pstat and fls print the same for the extract as for the image."""
    extract(apfs_image, tmp_path / "a.img")
    pool = subprocess.run([peer("pstat"), apfs_image], capture_output=True, check=True).stdout.decode("utf-8")
    block = re.findall(r"APSB Block Number: (\d+)", pool)[0]
    listings = [
        subprocess.run([peer("fls"), "-P", "apfs", "-B", block, "-r", path], capture_output=True, check=True).stdout
        for path in (apfs_image, tmp_path / "a.img")
    ]
    assert listings[0] == listings[1]
    assert listings[0].count(b"\n") > 10


@pytest.mark.parametrize("name", ["basic", "rich", "aged"])
def test_apfsck_calls_an_extract_clean(name, tmp_path, peer):
    """Apfsck reports no more errors for the extract than for the container."""
    write(SCENARIOS[name], tmp_path / "a.img")
    extract(tmp_path / "a.img", tmp_path / "b.img")
    done = subprocess.run([peer("apfsck"), "-cuw", tmp_path / "b.img"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.fixture
def fusion(tmp_path):
    """Return both images of a set whose volumes have nodes and data on either device."""
    paths = tmp_path / "main.img", tmp_path / "second.img"
    write(SCENARIOS["fusion"], *paths)
    return paths


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_fusion_set_is_extracted_into_two_images(run, fusion, tmp_path, order):
    """They scan the same as the set, whichever image is named first, and hold only the metadata."""
    first, second = (fusion[place] for place in order)
    goals = tmp_path / "one.img", tmp_path / "other.img.zst"
    done = run("extract", first, "--second", second, "-o", goals[0], "--second-output", goals[1])
    assert done.exit_code == 0
    wanted, found = (
        result_document(scan(one, second=two, drives=["generic-7200"])) for one, two in ((first, second), goals)
    )
    wanted["image"] = found["image"] = {}
    assert found == wanted
    assert found["exit_code"] == 0
    assert scan(goals[0], second=goals[1], drives=()).image.size_bytes == first.stat().st_size


def test_each_image_of_a_set_needs_its_output(run, fusion, tmp_path):
    """One output for two images, two for one, and a shared one are refused before anything is written."""
    out = tmp_path / "a.img"
    for asked in (
        ("--second", fusion[1]),
        ("--second-output", tmp_path / "b.img"),
        ("--second", fusion[1], "--second-output", out),
        ("--second", fusion[1], "--second-output", fusion[1], "--force"),
    ):
        assert run("extract", fusion[0], "-o", out, *asked).exit_code == 2
    assert not out.exists()


def test_of_a_chosen_volume_the_other_ones_trees_are_left_out(run, tmp_path):
    """The volume scans the same by name and by number; of the other volume only its name is included, no file names."""
    path = tmp_path / "a.img"
    write(SCENARIOS["volumes"], path)
    names = [layout.facts.name for layout in read_layouts(path) if layout.facts.volume]
    for wanted in (names[1], 2):
        goal = tmp_path / f"{wanted}.img"
        assert run("extract", f"{path}:{wanted}", "-o", goal).exit_code == 0
        (before,), (after,) = (read_layouts(image, volume=names[1]) for image in (path, goal))
        assert after.entries.equals(before.entries)
        assert after.nodes.equals(before.nodes)
        assert after.coverage == 1
        other = next(layout for layout in read_layouts(goal) if layout.facts.name == names[0])
        assert not len(other.entries)
        assert other.coverage != 1
    assert run("extract", f"{path}:nobody", "-o", tmp_path / "c.img").exit_code == 2


def test_checkpoints_of_a_chosen_volume(run, tmp_path):
    """Only the container checkpoints that hold the volume, and only its own snapshots."""
    path = tmp_path / "a.img"
    write(SCENARIOS["snapshots"], path)
    name = read_layouts(path)[1].facts.name
    every, one = (json.loads(run("checkpoints", image, "--json").stdout) for image in (path, f"{path}:{name}"))
    assert one == every
    assert run("checkpoints", f"{path}:nobody").exit_code == 2


def test_it_says_that_names_are_in_it(run, image, tmp_path):
    """The command reports what it kept and that names are included, and refuses to leave them out."""
    done = run("extract", image, "-o", tmp_path / "a.img.zst")
    assert (done.exit_code, "names of files" in done.stderr) == (0, True)
    assert run("extract", image, "-o", tmp_path / "a.img.zst").exit_code == 2
    assert run("extract", image, "-o", tmp_path / "b.img.zst", "--no-names").exit_code == 2

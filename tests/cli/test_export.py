"""``export``, ``extract`` and captures: tables, documents for other programs, and images of the metadata alone."""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
from dataclasses import replace

import polars as pl
import pytest

from fixtures.apfs.plan import ExtentPlan, FilePlan
from fixtures.apfs.scenarios import SCENARIOS
from fixtures.apfs.writer import write
from layoutscope import extract, predict, read_layouts, scan
from layoutscope.api import extract as extract_module
from layoutscope.api.export import EXPORTED, RESULTS
from layoutscope.image import open_image
from layoutscope.report.json import result_document
from layoutscope.tables import TABLES
from layoutscope.tables.frames import FRAMES
from layoutscope.zstd import zstd


@pytest.mark.parametrize("table", sorted(TABLES))
def test_every_table_has_its_columns(run, image, table):
    """CSV on standard output has the columns of the schema, in order, and one line per row."""
    rows = list(csv.reader(io.StringIO(run("export", image, "--table", table).stdout)))
    assert rows[0] == [column.name for column in TABLES[table]]
    assert len(rows) - 1 == read_layouts(image)[0].table(table).height


def test_forms_keep_types_and_values(run, image, tmp_path):
    """Parquet gives the table back; in lines of JSON ids of 64 bits are strings and offsets numbers."""
    target = tmp_path / "nodes.parquet"
    assert run("export", image, "--table", "nodes", "--format", "parquet", "-o", target).exit_code == 0
    expected, found = read_layouts(image)[0].nodes, pl.read_parquet(target)
    assert found.schema == expected.schema
    assert by_name(found).equals(by_name(expected))
    lines = run("export", image, "--table", "nodes", "--format", "jsonl").stdout.splitlines()
    first = json.loads(lines[0])
    assert (type(first["node_id"]), type(first["image_offset"]), len(lines)) == (str, int, expected.height)


@pytest.mark.parametrize("words", [["--order", "names"], ["--host", "macos"], ["--drive", "sata-ssd"]])
def test_a_table_of_no_walk_is_of_no_order_host_or_drive(run, image, words):
    """Options without effect are refused, not ignored; tables of workloads and folders of all tables accept them."""
    result = run("export", image, "--table", "nodes", *words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "the table nodes does not depend on" in result.stderr
    assert run("export", image, "--table", "reads", *words).exit_code == 0


# ``export`` beyond single tables: all of them, and documents for other programs.


def test_all_tables_are_a_file_each(run, image, tmp_path):
    """A folder is created; each table in it equals the one exported alone."""
    folder = tmp_path / "tables"
    result = run("export", image, "--table", "all", "--format", "parquet", "-o", folder)
    assert result.exit_code == 0, result.stderr
    assert sorted(path.name for path in folder.iterdir()) == sorted(f"{name}.parquet" for name in EXPORTED)
    for name in TABLES:
        assert pl.read_parquet(folder / f"{name}.parquet").height == read_layouts(image)[0].table(name).height


def test_results_are_tables_like_others(run, image):
    """Metrics match scan; times, directories and reads match predict for the requested workload."""
    work = ("--order", "names", "--drive", "generic-7200")
    for name in RESULTS:
        result = predict(image, order="names", drives="generic-7200") if name != "metrics" else scan(image)
        text = run("export", image, "--table", name, *work, "--format", "jsonl").stdout
        rows = [json.loads(line) for line in text.splitlines()]
        expected = getattr(result, name)
        if name == "metrics":
            expected = expected.filter(pl.col("subject") != "walk")
            rows = [row for row in rows if row["subject"] != "walk"]
        assert len(rows) == expected.height > 0
        assert list(rows[0]) == [column.name for column in FRAMES[name]]
    assert {row["drive"] for row in rows} == {"generic-7200"}


def test_a_locked_volume_has_no_tables_of_walks(run, reference_image, tmp_path):
    """All available tables are written; an unlistable volume has no times."""
    folder = tmp_path / "tables"
    run("export", reference_image("apple/dissect_encrypted.raw"), "--table", "all", "-o", folder)
    assert sorted(path.stem for path in folder.iterdir()) == sorted(TABLES)


def test_all_tables_overwrite_nothing_unasked(run, image, tmp_path, marks):
    """One existing file stops all tables before anything is read; other files in the folder stay."""
    marks(tmp_path / "nodes.csv")
    (tmp_path / "other").write_text("mine, too")
    refused = run("export", image, "--table", "all", "-o", tmp_path)
    assert refused.exit_code == 2
    assert "nodes.csv: exists" in refused.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["nodes.csv", "other"]
    assert run("export", image, "--table", "all", "-o", tmp_path, "--force").exit_code == 0
    assert (tmp_path / "other").read_text() == "mine, too"
    assert (tmp_path / "nodes.csv").read_text().startswith("row,")


def test_documents_follow_the_ending(run, image, tmp_path):
    """The file name selects the document; workloads use the given drive and order; a body file is a line per entry."""
    made = run("export", image, "-o", tmp_path / "a.speedscope.json", "--order", "names", "--drive", "sata-ssd")
    assert made.exit_code == 0, made.stderr
    names = [profile["name"] for profile in json.loads((tmp_path / "a.speedscope.json").read_text())["profiles"]]
    assert names
    assert all("names on sata-ssd" in name for name in names)
    assert run("export", image, "-o", tmp_path / "a.dfxml").exit_code == 0
    assert (tmp_path / "a.dfxml").read_text().startswith("<?xml")
    assert run("export", image, "--format", "perfetto", "-o", tmp_path / "a.json").exit_code == 0
    assert run("export", image, "--format", "bodyfile").stdout.count("\n") == read_layouts(image)[0].entries.height


def by_name(frame):
    """Compare categories by their strings: their codes depend on the order of first use."""
    return frame.with_columns(pl.col(pl.Categorical).cast(pl.String))


@pytest.fixture(scope="module")
def capture(apfs_image, tmp_path_factory):
    """Return a capture of the committed APFS image."""
    target = tmp_path_factory.mktemp("capture") / apfs_image.name
    scan(apfs_image, drives=()).save(target)
    return target


def test_tables_come_back_as_they_were(apfs_image, capture):
    """Every table and all facts of every layout equal those of the image."""
    for first, second in zip(read_layouts(apfs_image), read_layouts(capture), strict=True):
        assert first.facts == second.facts
        for table in TABLES:
            assert by_name(first.table(table)).equals(by_name(second.table(table)))


@pytest.mark.parametrize(
    "words",
    [
        ("scan",),
        ("scan", "--json"),
        ("scan", "--explain"),
        ("predict", "--drive", "generic-7200", "--json"),
        ("trace",),
        ("export", "--table", "entries"),
        ("map", "-o", "-", "--drive", "sata-ssd"),
    ],
)
def test_verbs_give_the_same_from_a_capture(run, apfs_image, capture, monkeypatch, words):
    """Output from the capture equals that from the image byte for byte, when run from their own folders."""
    verb, *options = words
    outputs = []
    for path in (apfs_image, capture):
        monkeypatch.chdir(path.parent)
        outputs.append(run(verb, path.name, *options))
    assert outputs[0].exit_code == outputs[1].exit_code == 0
    assert outputs[0].stdout == outputs[1].stdout


def test_a_capture_needs_no_image(run, apfs_image, tmp_path):
    """The saved scan is read back with names; commands that need bytes say so, and name the capture as it was typed."""
    target = tmp_path / "disk.lscope"
    assert run("scan", apfs_image, "--save", target).exit_code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["disk.lscope"]
    said = f"layoutscope: {target}: is a capture; this needs the image itself\n"
    for words in (("inspect", "--at", "0"), ("verify",), ("checkpoints",), ("extract", "-o", tmp_path / "meta.img")):
        refused = run(words[0], target, *words[1:])
        assert (refused.exit_code, refused.stderr) == (2, said)
        assert "but no capture" in " ".join(run(words[0], "--help").stdout.split())
    assert run("scan", target, "--partition", "1").exit_code == 2
    assert "but no capture" not in " ".join(run("check", "--help").stdout.split())


def test_names_can_be_left_out_or_hashed(run, apfs_image, tmp_path):
    """Without names the files contain none; hashed names keep equality, and differ with each salt."""
    plain = read_layouts(apfs_image)[-1].entries["name"]
    run("scan", apfs_image, "--save", tmp_path / "none.lscope", "--no-names")
    assert read_layouts(tmp_path / "none.lscope")[-1].entries["name"].null_count() == len(plain)
    columns = []
    for name in ("one.lscope", "two.lscope"):
        assert run("scan", apfs_image, "--save", tmp_path / name, "--hash-names").exit_code == 0
        columns.append(read_layouts(tmp_path / name)[-1].entries["name"])
    assert columns[0].n_unique() == columns[1].n_unique() == plain.n_unique()
    assert set(columns[0]).isdisjoint(columns[1])
    assert set(columns[0]).isdisjoint(plain)
    raw = b"".join(path.read_bytes() for path in tmp_path.rglob("manifest.json"))
    volume = read_layouts(apfs_image)[-1].facts.name
    assert volume
    assert volume.encode() not in raw


@pytest.mark.parametrize("damage", ["version", "table", "missing", "manifest"])
def test_damaged_captures_are_refused_in_one_line(run, apfs_image, tmp_path, damage):
    """Another version, a changed or missing table, a torn manifest: exit code 1 and one line."""
    target = tmp_path / "disk.lscope"
    run("scan", apfs_image, "--save", target)
    manifest = target / "manifest.json"
    if damage == "version":
        document = json.loads(manifest.read_text())
        manifest.write_text(json.dumps(document | {"format": "layoutscope.capture/99"}))
    elif damage == "table":
        table = target / "1" / "nodes.parquet"
        data = bytearray(table.read_bytes())
        data[len(data) // 2] ^= 1
        table.write_bytes(data)
    elif damage == "missing":
        (target / "1" / "entries.parquet").unlink()
    else:
        manifest.write_text(manifest.read_text()[:100])
    result = run("scan", target)
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (1, "", 1)


COUNTERS = ("name", "reads", "read_bytes", "hole_bytes")


def document(path):
    """Return the document of a scan without the image's name and read statistics."""
    found = result_document(scan(path, drives=["generic-7200"]))
    found["image"] = {name: value for name, value in found["image"].items() if name not in COUNTERS}
    return json.loads(json.dumps(found))


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
    extract(apfs_image, tmp_path / "a.img")
    extract(apfs_image, tmp_path / "b.img.zst")
    subprocess.run([peer("zstd"), "-q", "-d", tmp_path / "b.img.zst"], check=True)
    assert (tmp_path / "b.img").read_bytes() == (tmp_path / "a.img").read_bytes()


@pytest.mark.parametrize("name", ["aged/hfsplus-20000-c20.img", "apfs"])
def test_sleuthkit_lists_an_extract(reference_image, apfs_image, tmp_path, peer, name):
    """Fls prints the same for the extract as for the image; the HFS+ image has a fragmented catalog."""
    image, options = (apfs_image, []) if name == "apfs" else (reference_image(name), ["-p"])
    extract(image, tmp_path / "a.img")
    if name == "apfs":
        pool = subprocess.run([peer("pstat"), image], capture_output=True, check=True).stdout.decode("utf-8")
        options = ["-P", "apfs", "-B", re.findall(r"APSB Block Number: (\d+)", pool)[0]]
    listings = [
        subprocess.run([peer("fls"), *options, "-r", path], capture_output=True, check=True).stdout
        for path in (image, tmp_path / "a.img")
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
    assert run("extract", image, "-o", tmp_path / "b.img.zst", "--no-names").exit_code == 2

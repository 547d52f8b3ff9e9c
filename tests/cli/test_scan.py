"""``scan``: the first screen, volumes by name and number, images without recognizable structures, reported defects."""

from __future__ import annotations

import json
import re
import shutil
import sys
from io import BytesIO

import polars as pl
import pytest

from fixtures.apfs import scenarios as apfs
from fixtures.apfs.scenarios import SCENARIOS
from fixtures.apfs.writer import write
from fixtures.hfsplus.large import LargePlan, write_large
from fixtures.hfsplus.plan import File, Fork, VolumePlan
from fixtures.hfsplus.scenarios import SCENARIOS as HFSPLUS_SCENARIOS
from fixtures.hfsplus.writer import render
from layoutscope import read_layouts, scan, trace
from layoutscope.api.save import save
from layoutscope.drive import simulation
from layoutscope.errors import UsageError
from layoutscope.report.json import result_document, result_json
from layoutscope.tables.capture import hash_tables
from layoutscope.units import MAX_LISTED
from tests.cli.conftest import ROOT
from tests.docs.schemas import described_members, faults, schemas
from tests.peak import run_measured
from tests.sparse import write_sparse
from tests.unit.partition.builders import HFS, gpt_disk, gpt_entry


def test_json_is_what_the_library_returns(run, image, cut_off):
    """The document is the library's, in ASCII; every field has a meaning; ids of 64 bits are strings."""
    result = run("scan", image, "--json")
    document = json.loads(result.stdout)
    assert (result.exit_code, result.stdout.isascii(), document["schema"]) == (0, True, "layoutscope.scan/1")
    assert document == json.loads(json.dumps(result_document(scan(image))))
    assert isinstance(document["volumes"][0]["stamp"], str)
    assert isinstance(document["volumes"][0]["trees"][0]["declared"]["root_node_id"], str)
    assert [path for path, text in described_members(schemas()["scan"]) if not text] == []
    assert (
        faults(document, schemas()["scan"]) == faults(json.loads(result_json(scan(cut_off))), schemas()["scan"]) == []
    )


def test_every_field_of_a_yardstick_is_documented(reference_image):
    """Small volumes have none."""
    document = json.loads(result_json(scan(reference_image("aged/apfs-20000-c20.img"))))
    assert any(volume["verdict"] and volume["verdict"]["yardsticks"] for volume in document["volumes"])
    assert faults(document, schemas()["scan"]) == []


def test_the_first_screen_fits_and_details_show_all_that_was_measured(run, image, monkeypatch):
    """The first screen has no line longer than the terminal and nothing but text and line ends."""
    screens = {}
    for columns in (80, 120):
        monkeypatch.setenv("COLUMNS", str(columns))
        screens[columns] = run("scan", image).stdout
        assert max(map(len, screens[columns].splitlines())) <= columns
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]| \n", screens[columns])
    text = run("scan", image, "--details", "--explain").stdout
    for part in ("GPT > partition 1 > HFS+", "Metadata by tree", "Next leaf is next on disk", "Rotation", "Coverage"):
        assert part in text
        assert part not in screens[80]
    assert all(word in text for word in ("Conway", "Smith", "Source:"))


def test_details_say_how_a_volume_was_written_and_whose_time_a_time_is(run, image, apfs_image):
    """One sentence above the metrics. Times are UTC and marked so; HFS+ stores its creation in local time (TN1150)."""
    said = {kind: " ".join(run("scan", kind, "--details").stdout.split()) for kind in (image, apfs_image)}
    assert (
        "Its files were created in the order of their names; its leaves were written in 4 streams;" in said[apfs_image]
    )
    assert "files were created" not in run("scan", apfs_image, "--drive", "sata-ssd").stdout
    for kind, text in said.items():
        before = re.findall(r"(?:\((UTC|local time)\)|(\w+))\s+\d{4}-\d\d-\d\d\s\d\d:\d\d:\d\d", text)
        assert before
        assert not [other for _, other in before if other]
        assert ("created (local time)" in text) == (kind == image)


def test_drives_are_chosen_by_name(run, image):
    """Only the named drives are predicted; the seconds are the sum of their causes."""
    document = json.loads(run("scan", image, "--json", "--drive", "sata-ssd", "--drive", "generic-7200").stdout)
    predictions = document["volumes"][0]["predictions"]
    assert [item["drive"] for item in predictions] == ["sata-ssd", "generic-7200"]
    for item in predictions:
        assert sum(item["causes_s"].values()) == pytest.approx(item["seconds"])
    assert predictions[0]["causes_s"]["seek"] == 0


def test_partition_and_volume_choose(run, image):
    """The one volume of the image is found by partition, name, number and address."""
    whole = json.loads(run("scan", image, "--json").stdout)["volumes"]
    start = whole[0]["image_offset"]
    for options in (["--partition", "1"], ["--volume", "Scattered"], ["--volume", "1"], ["--volume-at", start]):
        chosen = json.loads(run("scan", image, "--json", *options).stdout)["volumes"]
        assert [volume["image_offset"] for volume in chosen] == [start]


def test_damage_ends_with_3_and_strict_with_1(run, cut_off):
    """A truncated image is read as far as possible; strict makes it an error, in one line with the address."""
    result = run("scan", cut_off)
    assert result.exit_code == 3
    assert "DAMAGED" in result.stdout
    strict = run("scan", cut_off, "--strict")
    assert strict.exit_code == 1
    assert re.fullmatch(r"layoutscope: .* at byte [\d,]+: .*\n", strict.stderr)


def test_names_can_be_left_out(run, image):
    """No output has the name of the volume or of any file."""
    text = run("scan", image, "--no-names").stdout + run("scan", image, "--json", "--no-names").stdout
    assert "Scattered" not in text.replace("scattered.img", "")
    table = run("export", image, "--table", "entries", "--no-names").stdout
    names = run("export", image, "--table", "entries").stdout
    assert names.splitlines()[5].split(",")[4] not in ("", *table.splitlines()[5].split(","))


@pytest.mark.parametrize(("more", "level", "exit_code"), [(1, "error", 3), (-1, "warning", 0)])
def test_what_is_missing_is_an_error_and_what_was_not_counted_a_warning(image, tmp_path, more, level, exit_code):
    """A header that counts one file more than found reports a loss; one that counts fewer does not."""
    data, target = bytearray(image.read_bytes()), tmp_path / "counted.img"
    at = data.index(b"H+\0\x04") + 32
    data[at : at + 4] = (int.from_bytes(data[at : at + 4], "big") + more).to_bytes(4, "big")
    target.write_bytes(data)
    found = scan(target, drives="sata-ssd")
    assert found.volume.layout.findings["code", "level"].rows() == [("file-count-differs", level)]
    assert found.exit_code == exit_code
    assert (found.volume.layout.coverage < 1) is (level == "error")


# IMAGE:VOLUME selects one volume, wherever a command takes an image.


def test_a_volume_is_chosen_by_name_and_by_number(run, image, tmp_path):
    """Both are values of --volume, which must not name another; an existing file of that exact path is opened."""
    whole = run("predict", image, "--volume", "1", "--json").stdout
    for name in ("1", "Scattered"):
        assert run("predict", f"{image}:{name}", "--json").stdout == whole
    assert run("scan", f"{image}:1", "--volume", "1").exit_code == 0
    result = run("scan", f"{image}:1", "--volume", "2")
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert "no.img:Data: no such file" in run("scan", "no.img:Data").stderr
    assert run("scan", f"{image}:").exit_code == 1
    shutil.copy(image, tmp_path / "disk:1")
    for path in (tmp_path / "disk:1", f"{tmp_path / 'disk:1'}:1"):
        assert run("scan", path, "--json").exit_code == 0


VERBS = ("scan", "predict", "trace", "check", "inspect --at 0", "export --table nodes", "map -o OUT")


@pytest.mark.parametrize("verb", VERBS)
def test_verbs_take_one_volume(run, image, tmp_path, verb):
    """Every command for images accepts it; an unknown volume is reported with the available ones."""
    name, *words = [word.replace("OUT", str(tmp_path / "a.html")) for word in verb.split()]
    assert run(name, f"{image}:scattered", *words).exit_code == 0
    absent = run(name, f"{image}:Scatered", *words, *(["--force"] if name == "map" else []))
    assert absent.exit_code == 2
    assert "no volume 'Scatered' (did you mean 'Scattered'?)" in absent.stderr


def test_two_volumes_of_one_container_are_compared(run, tmp_path):
    """Both sides are from one image: each shows its volume's name with its figures."""
    path = tmp_path / "macos.img"
    write(SCENARIOS["volumes"], path)
    found = json.loads(run("compare", f"{path}:System", f"{path}:Data", "--json").stdout)
    assert found["names"] == ["macos.img, APFS, 'System'", "macos.img, APFS, 'Data'"]
    entries = next(row["values"] for row in found["metrics"] if row["name"] == "entries")
    listed = [read_layouts(path, volume=name) for name in ("System", "Data")]
    assert entries == [layout.entries.height for (layout,) in listed]


def test_two_file_systems_of_one_disk_are_compared(run, reference_image):
    """HFS+ and APFS in two partitions of one disk are compared."""
    path = reference_image("driver/gpt-both.img")
    found = json.loads(run("compare", f"{path}:1", f"{path}:2", "--json").stdout)
    assert [side.split(", ")[1] for side in found["names"]] == ["HFS+", "APFS"]
    assert run("map", f"{path}:1", f"{path}:2", "-o", path.with_name("both.html"), "--force").exit_code == 0
    path.with_name("both.html").unlink()


def test_numbers_count_from_one_everywhere(run, tmp_path):
    """Volume 2 of JSON, tables and text is the one that --volume 2 and IMAGE:2 read."""
    path = tmp_path / "macos.img"
    write(SCENARIOS["volumes"], path)
    document = json.loads(run("scan", path, "--json").stdout)
    numbers = {volume["volume"]: volume["name"] for volume in document["volumes"]}
    assert numbers == {None: "", 1: "System", 2: "Data", 3: "VM"}
    (data,) = read_layouts(path, volume="2")
    assert (data.facts.name, data.facts.volume) == ("Data", 2)
    assert data.entries["volume"].unique().to_list() == [2]
    assert 'Volume 2: APFS "Data"' in run("scan", f"{path}:2").stdout


# Disks with more volumes than a byte can count: up to 1,024 partitions of a GPT are read.


COUNT = 258
SECTOR = 512
FIRST = 2048
"""Sector of the first volume, after all entries of the table."""


@pytest.fixture(scope="module")
def disk(tmp_path_factory):
    """Write many copies of a small volume, each in its own partition."""
    canvas, _ = render(VolumePlan(attributes=None, total_blocks=64, root=(File("a", Fork(10)),)))
    volume = bytes(canvas.to_bytearray())
    size = len(volume) // SECTOR
    starts = [FIRST + number * size for number in range(COUNT)]
    made = gpt_disk((FIRST + COUNT * size + FIRST) * SECTOR, [gpt_entry(HFS, at, at + size - 1) for at in starts])
    for at in starts:
        made.put(at * SECTOR, volume)
    path = tmp_path_factory.mktemp("many") / "many.img"
    path.write_bytes(made.data)
    return path


@pytest.fixture(scope="module")
def result(disk):
    """Scan it without drives."""
    return scan(disk, drives=())


@pytest.fixture(scope="module")
def capture(result, tmp_path_factory):
    """Save it."""
    path = tmp_path_factory.mktemp("many") / "many.lscope"
    result.save(path)
    return path


@pytest.mark.full
def test_every_volume_has_its_number_also_in_a_capture(result, capture):
    """The numbers are 1 to 258 in the facts and in every table that has rows; a capture gives the same tables."""
    layouts = [volume.layout for volume in result.volumes]
    assert [layout.facts.volume for layout in layouts] == list(range(1, COUNT + 1))
    for name in ("nodes", "entries", "extents", "regions", "free"):
        assert layouts[-1].table(name)["volume"].unique().to_list() == [COUNT], name
    for one, other in zip(read_layouts(capture), layouts, strict=True):
        assert one.nodes.equals(other.nodes)
        assert one.entries.equals(other.entries)


@pytest.mark.full
def test_a_capture_whose_numbers_have_eight_bits_opens(result, tmp_path):
    """Captures written before the number became wider stay readable."""
    save(result, tmp_path / "old.lscope")
    manifest = json.loads((tmp_path / "old.lscope" / "manifest.json").read_text())
    manifest["volumes"] = manifest["volumes"][:9]
    for number, volume in enumerate(manifest["volumes"]):
        folder = tmp_path / "old.lscope" / str(number)
        for table in volume["sha256"]:
            frame = pl.read_parquet(folder / f"{table}.parquet")
            if "volume" in frame.columns:
                frame.with_columns(pl.col("volume").cast(pl.UInt8)).write_parquet(folder / f"{table}.parquet")
        volume["sha256"] = hash_tables(folder)
    (tmp_path / "old.lscope" / "manifest.json").write_text(json.dumps(manifest))
    saved = read_layouts(tmp_path / "old.lscope")
    assert len(saved) == 9
    assert all(one.nodes.equals(other.layout.nodes) for one, other in zip(saved, result.volumes, strict=False))


@pytest.mark.full
def test_verbs_take_all_of_them(run, disk, capture, tmp_path):
    """Each ends as for one such volume, and its output has rows of all of them."""
    ended = {
        words: run(*words.replace("DISK", str(disk)).replace("CAPTURE", str(capture)).split()).exit_code
        for words in (
            "check DISK",
            f"export CAPTURE --table nodes -o {tmp_path}/nodes.csv",
            f"map CAPTURE -o {tmp_path}/map.html",
            "predict CAPTURE:258 --drive sata-ssd",
            f"batch {capture} -o {tmp_path}/fleet --drive sata-ssd",
        )
    }
    assert ended == dict.fromkeys(ended, 0)
    rows = pl.read_csv(tmp_path / "nodes.csv")
    assert rows["volume"].unique().sort().to_list() == list(range(1, COUNT + 1))
    pytest.importorskip("duckdb", reason="duckdb is not installed (pip install 'layoutscope[query]')")
    asked = run("query", tmp_path / "fleet", "SELECT max(number) AS n, count(DISTINCT number) AS m FROM nodes")
    assert asked.stdout.split()[-2:] == [str(COUNT), str(COUNT)]


@pytest.mark.full
def test_the_screen_and_the_messages_stay_short(run, capture, monkeypatch):
    """At most 24 lines, with the number of hidden ones; a message lists some names and counts the rest."""
    # Mounting reads all of such a small volume, so listing it takes only host time, and no drive is drawn.
    monkeypatch.setattr(simulation, "draw_drive", lambda *given: pytest.fail(f"a drive was drawn: {given}"))
    screen = run("scan", capture, "--drive", "generic-7200")
    assert screen.exit_code == 0
    assert len(screen.stdout.splitlines()) <= 24
    assert "Not shown here, but in --details: " in screen.stdout
    for words in (("forecast", capture, "--cycles", "1"), ("scan", f"{capture}:none")):
        told = run(*words)
        assert told.exit_code == 2
        assert f"'Fixture' and {COUNT - MAX_LISTED} more" in told.stderr
    (volume,) = scan(f"{capture}:1", drives=("generic-7200",)).volumes
    assert volume.walk.reads == 0
    assert volume.predictions[0].seconds_low <= volume.predictions[0].seconds <= volume.predictions[0].seconds_high


# Images without any recognizable structure at the start: a sweep still finds their volumes.


MIB = 1 << 20


def without(data, *places):
    data = bytearray(data)
    for start, length in places:
        data[start : start + length] = b"\xa5" * length
    return bytes(data)


@pytest.fixture(scope="module")
def lost(tmp_path_factory):
    """Write images of both kinds, and one in a partition, without the structures that identify them."""
    folder = tmp_path_factory.mktemp("lost")
    plain = bytes(render(HFSPLUS_SCENARIOS["victim"])[0].to_bytearray())
    hfs = without(plain, (1024, 512), (len(plain) - 1024, 512))
    entry = bytes((0, 0, 2, 0, 0xAF, 0, 2, 0)) + (MIB // 512).to_bytes(4, "little")
    record = bytes(446) + entry + (len(hfs) // 512).to_bytes(4, "little") + bytes(48) + b"\x55\xaa"
    write(apfs.BASIC, folder / "apfs")
    blocks = [(0, 4096), (4096, 8 * 4096)]
    write_sparse(folder / "apfs", BytesIO(without((folder / "apfs").read_bytes(), *blocks)))
    (folder / "hfs").write_bytes(hfs)
    (folder / "mbr").write_bytes(record + bytes(MIB - 512) + hfs + bytes(MIB))
    return folder


@pytest.mark.parametrize(("name", "volume"), [("apfs", "Basic"), ("hfs", "Fixture"), ("mbr", "Fixture")])
def test_a_sweep_brings_volumes_out(run, lost, name, volume):
    """Without a sweep the image is an error in one line; with it the names are found, with coverage and exit code 3."""
    plain = run("scan", lost / name)
    assert (plain.exit_code, plain.stderr.count("\n")) == (1, 1)
    result = run("scan", lost / name, "--sweep", "--json")
    document = json.loads(result.stdout)
    found = [item for item in document["volumes"] if item["name"] == volume]
    assert result.exit_code == document["exit_code"] == 3
    assert len(found) == 1
    assert {found[0]["coverage"], document["volumes"][0]["coverage"]} != {1}
    assert document["coverage"] != 1
    checked = run("check", lost / name, "--sweep")
    assert checked.exit_code == 3
    assert "inferred" in " ".join(checked.stdout.split())
    listed = run("export", lost / name, "--sweep", "--table", "entries", "--format", "jsonl")
    assert len(listed.stdout.splitlines()) > 100


# Folders that are nested 2,000 deep or contain themselves: output stays proportional to the entries.


FOLDERS, FILES = 2_000, 18_000
ENTRIES = 1 + FOLDERS + FILES
ROW_BYTES = 2_000
"""More than a mean row: of paths whose parts have 9 bytes those at most 454 deep, a quarter, are whole and have 2,043
bytes in the mean, others 1,000; byte runs and times beside them take less than 700."""
MEMORY_BYTES = 100 << 20
"""Allowed memory beyond that of a command without paths; the paths of all entries would take 180 MB."""
VERBS_OF_DEPTH = {
    **{name: ("export", "{image}", "--format", name, "-o", "{out}") for name in
       ("bodyfile", "dfxml", "perfetto", "folded")},
    **{f"directories as {name}": ("export", "{image}", "--table", "directories", "--format", name, "-o", "{out}")
       for name in ("csv", "parquet")},
    "plan": ("plan", "{image}", "--emit-order", "{out}", "-0", "--format", "json"),
    "map": ("map", "{image}", "--all-paths", "-o", "{out}.html"),
    "predict": ("predict", "{image}", "--ncdu", "{out}", "--json"),
    "archive": ("predict", "{image}", "--order", "archive", "--json"),
}  # fmt: skip
OF_A_RING = ("bodyfile", "folded", "directories as csv", "plan")
"""No listing reaches a ring, so other commands write the output of an empty volume."""


def measured(words, folder):
    """Return the exit code, the bytes written anywhere, and the peak memory of a run in bytes."""
    report = f"{folder}.peak"
    with (folder / "stdout").open("wb") as out, (folder / "stderr").open("wb") as err:
        child, peak = run_measured(
            [sys.executable, "-m", "layoutscope", *map(str, words)], report, stdout=out, stderr=err, cwd=ROOT
        )
    written = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return child.returncode, written, peak


@pytest.mark.full
@pytest.mark.skipif(sys.platform == "win32", reason="memory is counted by getrusage")
@pytest.mark.parametrize(("shape", "verbs"), [("chain", VERBS_OF_DEPTH), ("ring", OF_A_RING)])
def test_outputs_are_in_proportion(tmp_path, shape, verbs):
    """Bytes and memory of every command that writes paths, on a chain and on a ring."""
    image = tmp_path / "deep.img"
    write_large(LargePlan(FILES, shape=shape, shuffled=0.0), image)
    (tmp_path / "base").mkdir()
    code, _, base = measured(("export", image, "--table", "nodes", "--format", "parquet"), tmp_path / "base")
    assert code in (0, 3)
    wrong = []
    for name in verbs:
        words = VERBS_OF_DEPTH[name]
        folder = tmp_path / name
        folder.mkdir()
        code, written, memory = measured([word.format(image=image, out=folder / "out") for word in words], folder)
        if code not in (0, 3) or written > ROW_BYTES * ENTRIES or memory > base + MEMORY_BYTES:
            wrong.append((name, code, written, memory - base, (folder / "stderr").read_text()[-300:]))
    assert wrong == []


def test_lists_leave_out_what_is_too_deep(run, tmp_path):
    """File names add 9 bytes, with a suffix 13: 453 folders hold files whose paths fit, 9 files each."""
    path = tmp_path / "chain.img"
    write_large(LargePlan(9 * 500, shape="chain", shuffled=0.0), path)
    result = run("plan", path, "--emit-order", tmp_path / "list")
    assert result.exit_code == 0
    names = (tmp_path / "list").read_text().splitlines()
    fitting = (4094 - 13) // 9
    assert len(names) == 9 * fitting
    assert max(map(len, names)) == 1 + 9 * fitting + 13
    left = f"{9 * (500 - fitting):,} files are left out of the list: their paths have more than 4,094 bytes"
    assert left in result.stderr
    assert "…/<" in result.stderr


# Messages of the commands: volumes, captures, traces and files that are missing.


@pytest.fixture(scope="module")
def several(tmp_path_factory):
    """Write a container with three volumes, two of which can be listed."""
    path = tmp_path_factory.mktemp("several") / "macos.img"
    write(SCENARIOS["volumes"], path)
    return path


def test_a_folder_that_takes_no_file_is_told(run, image, monkeypatch, tmp_path):
    """The error names the folder, not the file that was to be created."""

    def refuse(**_given):
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr("tempfile.mkstemp", refuse)
    result = run("export", image, "--table", "free", "-o", tmp_path / "a.csv")
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert f"{tmp_path / 'a.csv'}: its folder takes no new file: " in result.stderr


@pytest.mark.parametrize("words", ["trace IMAGE", "compare IMAGE IMAGE", "series IMAGE", "predict IMAGE --ncdu OUT"])
def test_several_volumes_are_told_alike(run, several, tmp_path, words):
    """Commands for one volume list the available ones, and both ways to choose; nothing is written."""
    name, *rest = words.replace("IMAGE", str(several)).replace("OUT", str(tmp_path / "costs")).split()
    result = run(name, *rest)
    assert (result.exit_code, result.stderr.count("\n"), list(tmp_path.iterdir())) == (2, 1, [])
    assert "volumes can be walked ('System', 'Data'" in result.stderr
    assert "choose one with --volume, or as IMAGE:VOLUME" in result.stderr


def test_a_volume_that_is_chosen_is_not_asked_for(run, several, tmp_path):
    """On the command line and in the library."""
    assert run("predict", f"{several}:Data", "--ncdu", tmp_path / "costs").exit_code == 0
    assert (tmp_path / "costs").exists()
    assert len(trace(several, volume="System"))
    with pytest.raises(UsageError, match="choose one"):
        trace(several)
    assert len(read_layouts(several)) == 4


def test_a_file_that_is_not_a_trace_is_refused_as_other_files_are(run, tmp_path):
    """A missing file in one line. Without a given format all that were tried are named; with one, only that one."""
    result = run("replay", tmp_path / "nothing.csv")
    told = f"layoutscope: {tmp_path / 'nothing.csv'}: no such file or directory\n"
    assert (result.exit_code, result.stderr) == (1, told)
    path = tmp_path / "notes.txt"
    path.write_text("Dear diary\n" * 50)
    every = "any format that was tried: csv, fio, blkparse, pairs, fs_usage, iosnoop, biosnoop"
    assert every in run("replay", path).stderr
    assert "fio" in run("replay", path, "--format", "fio").stderr
    assert "any format" not in run("replay", path, "--format", "blkparse").stderr

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

import layoutscope
from fixtures.apfs.plan import VolumePlan as ApfsVolume
from fixtures.apfs.scenarios import ENCRYPTED, container, many
from fixtures.apfs.writer import write
from layoutscope.errors import install_command
from layoutscope.results.fleet import STATUSES
from tests.cli.conftest import files_of

IMAGES = Path(__file__).parents[2] / "fixtures/images"
HFS, APFS = IMAGES / "hfsplus-scattered.img.zst", IMAGES / "apfs-scattered.img.zst"
TABLES = ("batch", "volumes", "metrics", "predictions", "findings")
RUN = ("seconds", "peak_memory_bytes")
VARYING = (*RUN, "modify_time_ns", "identity")


def run(*words, **more):
    command = [sys.executable, "-m", "layoutscope", "batch", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=False, **more)


def table(folder, name="batch"):
    return pl.read_parquet(folder / f"{name}.parquet")


def status_of(folder):
    return {Path(path).name: status for path, status in table(folder).select("path", "status").rows()}


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    """A folder of good and poisoned sources, with the output of a batch of it inside."""
    folder = tmp_path_factory.mktemp("mixed")
    for name in ("one", "two"):
        (folder / name).mkdir()
        shutil.copy(HFS, folder / name / "same.img.zst")
    (folder / "cut.img.zst").write_bytes(APFS.read_bytes()[:20000])
    (folder / "note.txt").write_text("a text, and no image\n")
    (folder / "empty").touch()
    (folder / "random").write_bytes(bytes(range(256)) * 400)
    (folder / "loop").symlink_to("loop")
    (folder / "up").symlink_to(".")
    Path(os.fsdecode(os.fsencode(folder) + b"/bad\xff.img")).write_bytes(b"x" * 5000)
    os.mkfifo(folder / "pipe")
    unix = socket.socket(socket.AF_UNIX)
    here = Path.cwd()
    os.chdir(folder)  # socket paths have a short limit
    unix.bind("socket")
    os.chdir(here)
    done = run(folder, folder / "gone.img", "-o", folder / "fleet", "-j", 2)
    unix.close()
    return folder, folder / "fleet", done


def test_every_source_has_one_row_whatever_it_is(mixed):
    """The batch waits for neither a pipe nor a loop of links, and a file that is not an image has a row like others."""
    _, fleet, done = mixed
    assert done.returncode == 3
    rows = table(fleet)
    named = dict(zip(map(os.path.basename, rows["path_raw"]), rows["status"], strict=True))
    refused = [b"note.txt", b"empty", b"random", b"bad\xff.img", b"pipe", b"socket", b"cut.img.zst"]
    wanted = dict.fromkeys(refused, "refused") | {b"loop": "failed", b"gone.img": "failed", b"same.img.zst": "complete"}
    assert named == wanted
    assert rows.height == len(wanted) + 1  # two have the same name
    assert rows["source"].is_unique().all()
    assert rows.filter(status="complete")["message"].to_list() == ["", ""]
    assert (rows.filter(pl.col("status") != "complete")["message"] != "").all()
    assert rows.filter(path=str(fleet.parent / "pipe"))["message"].str.contains("may never end").all()
    assert rows["path"].str.contains(r"bad\xff.img", literal=True).sum() == 1
    assert not rows["path"].str.contains("fleet/").any()  # the output is not a source


def test_a_line_is_told_for_each_source_that_is_read(mixed):
    """Without a terminal, each source prints a line; an option turns that off."""
    _, fleet, done = mixed
    total = table(fleet).height
    assert [line for line in done.stderr.splitlines() if f" of {total}: " in line][-1].startswith(
        f"layoutscope: {total} of"
    )
    assert "Traceback" not in done.stderr


def test_tables_are_keyed_by_source_and_documented(mixed):
    """Every row of every table belongs to a source; the manifest has the tables' columns in order."""
    _, fleet, _ = mixed
    sources = set(table(fleet)["source"])
    manifest = json.loads((fleet / "batch.json").read_text())
    assert manifest["format"] == "layoutscope.batch/1"
    assert manifest["is_complete"] is True
    assert manifest["counts"] == {name: (table(fleet)["status"] == name).sum() for name in STATUSES}
    for name in TABLES:
        assert set(table(fleet, name)["source"]) <= sources
        assert table(fleet, name).columns == [column["name"] for column in manifest["tables"][name]]
    read = set(table(fleet).filter(status="complete")["source"])
    assert set(table(fleet, "volumes")["source"]) == set(table(fleet, "metrics")["source"]) == read


def test_tables_are_the_same_however_many_rows_are_in_memory(mixed, tmp_path, monkeypatch):
    """Rows become columns a few sources at a time: none is lost in between, and the order is kept."""
    from layoutscope.fleet import store

    _, fleet, _ = mixed
    shutil.copytree(fleet, tmp_path / "copy")
    for name in TABLES:
        (tmp_path / f"copy/{name}.parquet").unlink()
    monkeypatch.setattr(store, "SOURCES_PER_PIECE", 2)
    store.FleetFolder(tmp_path / "copy").write_tables(table(fleet)["source"], {})
    assert all(table(tmp_path / "copy", name).equals(table(fleet, name)) for name in TABLES)


def test_a_capture_equals_the_one_that_scan_saves(mixed, tmp_path):
    """Two sources of the same name each have a capture, byte for byte the one that scan --save writes."""
    folder, fleet, _ = mixed
    rows = table(fleet).filter(status="complete").sort("path")
    assert rows["capture"].n_unique() == 2
    result = layoutscope.scan(folder / "one/same.img.zst", identify=True)
    result.save(tmp_path / "single.lscope")
    assert files_of(fleet / rows["capture"][0]) == files_of(tmp_path / "single.lscope")
    predicted = table(fleet, "predictions").filter(source=rows["source"][0])
    assert predicted.select("drive", "seconds").rows() == result.times.select("drive", "seconds").rows()


def test_resuming_reads_only_what_changed_or_failed(mixed):
    """Complete, unchanged sources are not read again; changed or failed ones are; the tables follow."""
    folder, fleet, _ = mixed
    before = {file.name: file.stat().st_mtime_ns for file in (fleet / "rows").iterdir()}
    tables = {name: table(fleet, name) for name in TABLES}
    (folder / "note.txt").write_text("a text, not an image\n")
    done = run(folder, folder / "gone.img", "-o", fleet, "--resume")
    assert done.returncode == 3
    after = {file.name: file.stat().st_mtime_ns for file in (fleet / "rows").iterdir()}
    again = {name.removesuffix(".json") for name in before if before[name] != after[name]}
    paths = table(fleet).filter(pl.col("source").is_in(list(again)))["path"]
    assert {Path(path).name for path in paths} == {"note.txt", "loop", "gone.img"}
    assert table(fleet).drop(VARYING).equals(tables["batch"].drop(VARYING))
    assert all(table(fleet, name).equals(tables[name]) for name in TABLES[1:])


def test_other_options_are_read_anew(mixed, tmp_path):
    """A capture with names is not reused as one without: an option that changes results makes it again."""
    folder, _, _ = mixed
    image, fleet = folder / "one/same.img.zst", tmp_path / "fleet"
    first = layoutscope.batch(image, fleet, drives="generic-7200")
    same = layoutscope.batch(image, fleet, drives="generic-7200", resume=True, workers=1)
    other = layoutscope.batch(image, fleet, drives=["sata-ssd"], orders=["fts", "names"], resume=True)
    assert [first.kept, same.kept, other.kept] == [0, 1, 0]
    rows = other.table("predictions")
    assert rows.select("order", "drive").rows() == [("fts", "sata-ssd"), ("names", "sata-ssd")]
    listed = layoutscope.predict(image, order="names", drives="sata-ssd")
    assert rows["seconds"][1] == listed.times["seconds"][0]


@pytest.mark.full
def test_a_batch_that_was_killed_and_resumed_equals_a_calm_one(tmp_path):
    """Killed at its first lines, repeatedly, a batch resumes each time; the tables are those of an undisturbed run."""
    folder = tmp_path / "images"
    folder.mkdir()
    for number in range(4):
        shutil.copy((HFS, APFS)[number % 2], folder / f"disk {number}.img.zst")
    (folder / "note.txt").write_text("no image\n")
    killed, calm = tmp_path / "killed", tmp_path / "calm"
    assert run(folder, "-o", calm).returncode == 3
    kept = []
    for lines in (0, 1, 2):
        command = [sys.executable, "-m", "layoutscope", "batch", folder, "-o", killed, "--resume", "-j", "2"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
            while not (killed / "work").is_dir() and process.poll() is None:
                continue
            for _ in range(lines):
                process.stderr.readline()
            process.send_signal(signal.SIGKILL)
        kept.append(len(list((killed / "rows").glob("*.json"))))
    assert kept[1] >= 1
    assert kept[2] >= min(kept[1] + 2, 5)  # a busy machine may do more before it is killed
    result = layoutscope.batch(folder, killed, resume=True)
    assert result.kept == kept[-1]
    assert not list((killed / "work").iterdir())
    for name in TABLES:
        there, wanted = table(killed, name), table(calm, name)
        assert there.drop(RUN, strict=name == "batch").equals(wanted.drop(RUN, strict=name == "batch"))
    for capture in table(calm)["capture"].drop_nulls():
        assert files_of(killed / capture) == files_of(calm / capture)


@pytest.mark.full
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--timeout", "0.01"), "took longer than 0.01 s"),
        (("--memory", "150MiB"), "not enough memory: limited to 150 MiB"),
        (("--written", "10KiB", "--no-cache"), "file too large"),
    ],
)
def test_what_passes_its_limits_is_a_row_that_says_which(tmp_path, words, said):
    """Time, memory and written bytes are limited for each source, and the batch continues."""
    done = run(HFS, "-o", tmp_path / "fleet", *words)
    assert done.returncode == 1
    rows = table(tmp_path / "fleet")
    assert rows.select("status", "exit_code").rows() == [("failed", 1)]
    assert said in rows["message"][0]
    assert layoutscope.batch(HFS, tmp_path / "fleet", resume=True).counts["complete"] == 1


def test_what_is_locked_is_not_called_damaged_unless_it_is(tmp_path):
    """An encrypted volume without its password is locked; if another volume lost a leaf, the source is damaged."""
    write(container(ApfsVolume("Plain", many(60)), ENCRYPTED, block_count=16384), tmp_path / "locked.img")
    volumes = layoutscope.scan(tmp_path / "locked.img", drives=()).parts
    plain = next(volume.layout for volume in volumes if volume.layout.facts.name == "Plain")
    leaf = next(node for node in plain.nodes.rows(named=True) if node["tree"] == "fs" and node["level"] == 0)
    data = bytearray((tmp_path / "locked.img").read_bytes())
    data[leaf["image_offset"] : leaf["image_offset"] + 4096] = bytes(4096)
    (tmp_path / "both.img").write_bytes(data)
    run(tmp_path / "locked.img", tmp_path / "both.img", "-o", tmp_path / "fleet")
    assert status_of(tmp_path / "fleet") == {"locked.img": "locked", "both.img": "damaged"}


def test_workers_do_not_take_over_the_memory_settings_of_dask(monkeypatch):
    """Dask's settings for its workers would make every large buffer of a reader be mapped again."""
    from layoutscope.fleet import engines
    from layoutscope.fleet.jobs import FleetLimits

    seen = []
    begin = subprocess.Popen
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "65536")
    monkeypatch.setattr(engines.subprocess, "Popen", lambda *words, **more: seen.append(more) or begin(*words, **more))
    engines.Worker(FleetLimits(1 << 30, 60.0)).close()
    assert "MALLOC_TRIM_THRESHOLD_" not in seen[0]["env"]
    assert seen[0]["env"]["PATH"] == os.environ["PATH"]


def test_two_batches_on_one_folder_notice_each_other(tmp_path):
    """The second one is refused in one line, and can start as soon as the first has ended."""
    from layoutscope.fleet.store import FleetFolder

    fleet = tmp_path / "fleet"
    fleet.mkdir()
    with FleetFolder(fleet).lock():
        done = run(HFS, "-o", fleet)
        assert (done.returncode, done.stderr) == (2, f"layoutscope: {fleet}: another batch is writing here\n")
    assert run(HFS, "-o", fleet, "--quiet", "--json").returncode == 0


def test_a_folder_with_something_else_is_left_alone(tmp_path):
    """A batch writes into a new or empty folder or, with --resume, into its own."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/letter.txt").write_text("dear all")
    done = run(HFS, "-o", tmp_path / "mine", "--resume")
    assert (done.returncode, "holds something else than a batch" in done.stderr) == (2, True)
    assert [file.name for file in (tmp_path / "mine").iterdir()] == ["letter.txt"]


def test_a_full_disk_is_one_line(tmp_path):
    """If nothing can be written, the batch reports it once."""
    import resource

    # Without writing modules: Python may leave truncated ones in the checkout, and then nothing starts any more.
    uncompiled = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    limit = (resource.RLIMIT_FSIZE, (1024, 1024))
    done = run(HFS, "-o", tmp_path / "fleet", preexec_fn=lambda: resource.setrlimit(*limit), env=uncompiled)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [f"layoutscope: {tmp_path}/fleet: the batch cannot be written: file too large"]


def test_lists_and_patterns_name_sources(tmp_path):
    """A list has one path per line, a pattern names its matches; a source that is named twice counts once."""
    (tmp_path / "list.txt").write_text(f"{HFS}\n{tmp_path}/gone.img\n{HFS}\n")
    result = layoutscope.batch(
        [f"@{tmp_path}/list.txt", f"{IMAGES}/hfs*.zst"], tmp_path / "fleet", drives=[], names=False
    )
    assert [(Path(end.path).name, end.status) for end in result.sources] == [
        (HFS.name, "complete"),
        ("gone.img", "failed"),
    ]
    assert (result.exit_code, result.table("predictions").height) == (3, 0)
    with pytest.raises(layoutscope.errors.UsageError, match="cannot be read as a list of sources"):
        layoutscope.batch(f"@{tmp_path}/none", tmp_path / "other")


def test_parts_of_a_split_image_are_one_source(tmp_path):
    """Parts in a folder that are read together with the first one have no rows of their own."""
    folder = tmp_path / "images"
    folder.mkdir()
    (folder / "disk.001").write_bytes(b"\0" * 4096)
    (folder / "disk.002").write_bytes(b"\0" * 4096)
    result = layoutscope.batch(folder, tmp_path / "fleet")
    assert [Path(end.path).name for end in result.sources] == ["disk.001"]
    assert result.exit_code == 1


def test_without_polars_a_batch_says_so_before_it_begins(tmp_path):
    """Tables need the extra: one error line, and nothing is written."""
    code = "import sys; sys.modules['polars'] = None; from layoutscope.__main__ import main; main()"
    command = [sys.executable, "-c", code, "batch", str(HFS), "-o", str(tmp_path / "fleet")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n"), install_command("frames") in done.stderr) == (1, 1, True)
    assert not (tmp_path / "fleet").exists()

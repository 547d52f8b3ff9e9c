"""The folder of a batch: other files in it are kept, and nothing is reached through a link."""

from __future__ import annotations

import json
import os
import shutil
import stat
from pathlib import Path

import polars as pl
import pytest

import layoutscope
from fixtures.hfsplus.scenarios import SCENARIOS
from fixtures.hfsplus.writer import write
from layoutscope.errors import UsageError
from layoutscope.fleet.store import FleetFolder
from layoutscope.tables.capture import is_capture
from tests.cli.test_batch import files_of

pytestmark = pytest.mark.usefixtures("marks")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return a folder with two disks and a batch of them, not to be changed."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "disks").mkdir()
    for name in ("hard-links", "victim"):
        write(SCENARIOS[name], folder / "disks" / f"{name}.img")
    layoutscope.batch(folder / "disks", folder / "fleet", drives=["generic-7200"], workers=1)
    return folder


@pytest.fixture
def fleet(made, tmp_path):
    """Return a copy of the batch that a test may change, with its marks."""
    if not hasattr(os, "listxattr"):
        pytest.skip("copies keep no marks on this system")
    shutil.copytree(made / "fleet", tmp_path / "fleet")
    return tmp_path / "fleet"


def states(folder):
    """Return the state of a folder: kind, content and modification time of each file, without following links."""
    found = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        data = path.read_bytes() if stat.S_ISREG(status.st_mode) else None
        found[path.relative_to(folder).as_posix()] = (stat.S_IFMT(status.st_mode), data, status.st_mtime_ns)
    return found


def resumed(run, made, fleet, *words):
    """Resume the batch on the command line."""
    return run("batch", made / "disks", "-o", fleet, "--resume", "--jobs", 1, "--drive", "generic-7200", *words)


def test_a_batch_is_taken_up_as_often_as_one_likes(run, made, fleet):
    """Its own files are replaced, including those of its captures if the options differ."""
    for words in ((), ("--order", "names"), ()):
        result = resumed(run, made, fleet, *words)
        assert result.exit_code == 0, result.stderr
    assert list((fleet / "work").iterdir()) == []


@pytest.mark.parametrize("name", ["work", "rows", "captures"])
def test_folders_behind_links_are_refused(run, made, fleet, tmp_path, name):
    """Subfolders of another folder stay, although a link in the batch leads to it."""
    evidence = tmp_path / "evidence"
    (evidence / "case1").mkdir(parents=True)
    (evidence / "case1" / "disk.img").write_bytes(b"disk")
    shutil.rmtree(fleet / name)
    (fleet / name).symlink_to(evidence)
    before = states(tmp_path)
    result = resumed(run, made, fleet)
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert f"{fleet / name}: is a link; a batch writes into a folder of its own" in result.stderr
    assert states(tmp_path) == before


@pytest.mark.parametrize("name", ["batch.lock", "batch.json", "volumes.parquet", "."])
def test_files_behind_links_are_refused(run, made, fleet, tmp_path, name):
    """Nothing is written through such links, and the folder is not reached by one."""
    far, place = tmp_path / "far", fleet if name == "." else fleet / name
    place.rename(far)
    place.symlink_to(far)
    before = states(tmp_path)
    result = resumed(run, made, fleet)
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert "is a link" in result.stderr
    assert states(tmp_path) == before


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
@pytest.mark.parametrize("kind", ["pipe", "folder"])
def test_a_lock_that_is_no_file_is_refused(run, made, fleet, kind):
    """Opening one fails or would block; one line says what is wrong."""
    lock = fleet / "batch.lock"
    lock.unlink()
    os.mkfifo(lock) if kind == "pipe" else lock.mkdir()
    result = run("batch", made, "-o", fleet, "--resume")
    assert (result.exit_code, "batch.lock: is not a regular file. Remove it." in result.stderr) == (2, True), (
        result.stderr
    )


def test_only_what_the_batch_made_goes_from_its_work(made, fleet):
    """Folders with names of its kind are removed with their content; everything else stays."""
    folder = FleetFolder(fleet)
    abandoned, linked = folder.new_work("0a"), folder.new_work("0b")
    (abandoned / "half").write_bytes(b"half")
    linked.rmdir()
    linked.symlink_to(made)
    (fleet / "work" / "evidence").mkdir()
    (fleet / "work" / "evidence" / "disk.img").write_bytes(b"disk")
    (fleet / "work" / "notes.txt").write_text("mine")
    layoutscope.batch(made / "disks", fleet, drives=["generic-7200"], resume=True, workers=1)
    left = sorted(path.name for path in (fleet / "work").iterdir())
    assert left == sorted([linked.name, "evidence", "notes.txt"])
    assert (fleet / "work" / "evidence" / "disk.img").read_bytes() == b"disk"
    assert (made / "disks").is_dir()


@pytest.mark.parametrize("name", ["volumes.parquet", "batch.json"])
def test_edited_tables_are_not_replaced(run, made, fleet, name):
    """A table that the user changed is kept: the batch is not resumed."""
    text = (fleet / name).read_bytes().replace(b"layoutscope 0", b"layoutscope X") + b"\n"
    (fleet / name).write_bytes(text)
    before = files_of(fleet)
    result = resumed(run, made, fleet)
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    told = "exists and was changed since layoutscope wrote it. Begin a new batch in another folder."
    assert f"{name}: {told}" in result.stderr
    assert files_of(fleet) == before


@pytest.mark.parametrize("kind", ["rows", "captures"])
def test_edited_rows_and_captures_are_not_replaced(run, made, fleet, kind):
    """The source fails in one line, and the changed files stay."""
    (first, *_), edited = sorted((fleet / "rows").iterdir()), None
    if kind == "captures":
        (capture,) = (fleet / "captures").glob(f"*-{first.stem}.lscope")
        edited = capture / "0" / "nodes.parquet"
    else:
        edited = first
    edited.write_bytes(edited.read_bytes() + b"\n")
    before = edited.read_bytes()
    result = resumed(run, made, fleet, "--order", "names")  # every source is read again
    assert result.exit_code == 3
    assert "was changed since layoutscope wrote it" in result.stderr + result.stdout
    assert edited.read_bytes() == before


def test_a_batch_is_made_where_the_file_system_keeps_no_marks(made, tmp_path, monkeypatch):
    """The batch itself remembers the files that it writes twice; only resuming needs the marks."""
    for name in ("setxattr", "getxattr"):
        monkeypatch.delattr(os, name, raising=False)
    monkeypatch.setattr("layoutscope.ownfiles._IS_DARWIN", False)
    done = layoutscope.batch(made / "disks", tmp_path / "fleet", drives=["generic-7200"], workers=1)
    assert done.counts["complete"] == 2
    with pytest.raises(UsageError, match="keeps no extended attributes"):
        layoutscope.batch(made / "disks", tmp_path / "fleet", drives=["generic-7200"], workers=1, resume=True)


def test_no_other_verb_writes_into_a_batch(run, made, fleet, tmp_path):
    """Its files have the marks of results; if another command replaced one, the whole batch would be lost."""
    (tmp_path / "linked").symlink_to(fleet.name)
    disk, before = made / "disks" / "victim.img", states(fleet)
    files = [path for path in fleet.rglob("*") if path.is_file() and not any(map(is_capture, path.parents))]
    assert len(files) == 9
    captures = [path for path in fleet.rglob("*") if is_capture(path)]
    assert len(captures) == 2
    for folder in (fleet, tmp_path / "linked"):
        for place in (*files, fleet / "rows" / "new.json", fleet / "captures" / "new"):
            goal = folder / place.relative_to(fleet)
            for words in (("kit", "-o"), ("plan", disk, "--emit-order"), ("extract", disk, "-o")):
                result = run(*words, goal, "--force")
                assert (result.exit_code, result.stderr.count("\n")) == (2, 1), result.stderr
                assert "part of the batch in" in result.stderr
        for place in (*captures, fleet / "captures" / "new.lscope"):
            result = run("scan", disk, "--save", folder / place.relative_to(fleet), "--force")
            assert (result.exit_code, "part of the batch in" in result.stderr) == (2, True), result.stderr
    assert states(fleet) == before
    # Names that a batch does not use are free, and names of its parts are free elsewhere.
    for place in (fleet / "kit.sh", tmp_path / "batch.json", tmp_path / "rows"):
        assert run("kit", "-o", place).exit_code == 0


@pytest.mark.parametrize("way", ["folder", "captures", "a capture", "list", "link"])
def test_what_a_batch_wrote_itself_is_no_source_of_it(run, made, fleet, tmp_path, way):
    """Its tables would otherwise describe its own captures instead of the disks."""
    before = states(fleet)
    capture = next((fleet / "captures").iterdir())
    named = {"folder": fleet, "captures": fleet / "captures", "a capture": capture}.get(way, tmp_path / way)
    if way == "list":
        named.write_text(f"{made / 'disks'}\n{capture}\n")
        named = f"@{named}"
    elif way == "link":
        named.symlink_to(fleet / "captures")
    result = run("batch", named, "-o", fleet, "--resume", "--drive", "generic-7200")
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"is in the folder of this batch ({fleet}), which is not a source" in result.stderr
    assert result.stderr.count("\n") == 1
    assert states(fleet) | {"batch.lock": None} == before | {"batch.lock": None}


def test_patterns_and_folders_leave_out_what_the_batch_wrote(run, made, fleet, tmp_path):
    """They match by chance, because the folder of a batch may be among the disks."""
    (tmp_path / "disk.img").symlink_to(made / "disks/victim.img")
    for asked in (tmp_path / "*", tmp_path / "**", tmp_path):
        result = run("batch", asked, "-o", fleet, "--resume", "--drive", "generic-7200", "--json")
        assert result.exit_code == 0, result.stderr
        # The same disk as before, by another path.
        assert [Path(item["path"]).name for item in json.loads(result.stdout)["sources"]] == ["victim.img"]


def test_a_list_with_zero_bytes_is_refused_in_one_line(run, tmp_path):
    """In the output of ``find -print0`` all paths are on one line."""
    (tmp_path / "list").write_bytes(b"one.img\0two.img\0")
    result = run("batch", f"@{tmp_path / 'list'}", "-o", tmp_path / "fleet")
    assert (result.exit_code, result.stdout) == (2, "")
    said = "layoutscope: one.img\\u0000two.img\\u0000: has a zero byte. A list has one path per line.\n"
    assert result.stderr == said


@pytest.mark.parametrize("way", ["edited", "another document", "link", "folder", "pipe"])
def test_tables_have_no_row_of_before_in_place_of_one_that_failed(run, made, fleet, tmp_path, way):
    """A row that cannot be replaced describes the disk's earlier state; a file in its place may not be a row."""
    disk = tmp_path / "disk.img"
    shutil.copyfile(made / "disks/victim.img", disk)
    words = ("batch", disk, "-o", tmp_path / "own", "--drive", "generic-7200")
    assert run(*words).exit_code == 0
    (row,) = (tmp_path / "own/rows").iterdir()
    if way == "edited":
        row.write_text(row.read_text() + " ")
    elif way == "another document":
        row.write_text('{"status": "complete", "volumes": 3}')
    else:
        row.unlink()
        make = {"link": lambda: row.symlink_to(next((fleet / "rows").iterdir())), "pipe": lambda: os.mkfifo(row)}
        make.get(way, row.mkdir)()
    disk.write_bytes(disk.read_bytes() + bytes(4096))
    before = states(row.parent)
    result = run(*words, "--resume")
    assert (result.exit_code, "failed" in result.stdout) == (1, True)
    (found,) = pl.read_parquet(tmp_path / "own/batch.parquet").select("status", "message").rows()
    assert found[0] == "failed"
    assert row.name in found[1]
    assert states(row.parent) == before

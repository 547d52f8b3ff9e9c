"""No output ever replaces what is read, whatever it is called and whatever is forced."""

from __future__ import annotations

import hashlib
import json
import os
import shutil

import pytest

from fixtures.hfsplus.scenarios import SCENARIOS
from fixtures.hfsplus.writer import write

VERBS = {
    "export": ("export", "{image}", "--table", "nodes", "-o", "{target}"),
    "trace": ("trace", "{image}", "-o", "{target}"),
    "map": ("map", "{image}", "-o", "{target}"),
    "scan --map": ("scan", "{image}", "--map", "{target}"),
    "scan --save": ("scan", "{image}", "--save", "{target}"),
    "predict --ncdu": ("predict", "{image}", "--ncdu", "{target}"),
    "extract": ("extract", "{image}", "-o", "{target}"),
    "series --plot": ("series", "{image}", "{other}", "--plot", "{target}"),
}
"""Every option that writes, with an image that it reads."""


def names(folder):
    """List what lies in a folder."""
    return sorted(path.name for path in folder.iterdir())


def digest(path):
    """Hash a file, or all files of a folder with their names."""
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    return [(file.name, hashlib.sha256(file.read_bytes()).hexdigest()) for file in files if file.is_file()]


def small_disk(target):
    """Write a small image."""
    write(SCENARIOS["hard-links"], target)
    return target


@pytest.fixture
def disk(tmp_path):
    """Return an image that the test may lose."""
    return small_disk(tmp_path / "disk.img")


def refused(run, before, *words):
    """Run with --force; check that it was refused by usage and that nothing has changed."""
    known = {path: digest(path) for path in before}
    folder = before[0].parent
    listed = names(folder)
    result = run(*words, "--force")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.count("\n") == 1
    assert {path: digest(path) for path in before} == known
    assert names(folder) == listed
    return result.stderr


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("way", ["same", "dots", "symlink", "hard link"])
def test_the_image_is_never_the_output(run, disk, tmp_path, verb, way):
    """Whichever verb writes, and under whichever name the image is given."""
    (tmp_path / "folder").mkdir()
    other = tmp_path / "other.img"
    shutil.copyfile(disk, other) if "{other}" in VERBS[verb] else other.touch()
    target = {"same": disk, "dots": tmp_path / "folder" / ".." / disk.name}.get(way, tmp_path / "alias")
    if way == "symlink":
        target.symlink_to(disk)
    elif way == "hard link":
        target.hardlink_to(disk)
    words = [word.format(image=disk, target=target, other=other) for word in VERBS[verb]]
    assert "input" in refused(run, [disk, other], *words)


def test_an_image_opened_through_a_link_is_protected(run, disk, tmp_path):
    """The output names the file, the image the link."""
    link = tmp_path / "link"
    link.symlink_to(disk)
    refused(run, [disk], "export", link, "--table", "nodes", "-o", disk)


def test_later_parts_of_a_split_image_are_protected(run, disk, tmp_path):
    """Parts are read as much as the first is."""
    folder = tmp_path / "parts"
    folder.mkdir()
    parts = [folder / f"disk.{number:03}" for number in (1, 2, 3, 4)]
    data = disk.read_bytes()
    length = len(data) // 4
    for number, part in enumerate(parts):
        part.write_bytes(data[number * length :][:length])
    refused(run, parts, "export", parts[0], "--table", "nodes", "-o", parts[2])


def test_bands_of_a_bundle_are_protected(run, tmp_path):
    """Also those that were not opened, and files that are not there yet."""
    import plistlib

    bundle = tmp_path / "disk.sparsebundle"
    (bundle / "bands").mkdir(parents=True)
    data = small_disk(tmp_path / "disk.img").read_bytes()
    length = len(data) // 4
    (bundle / "Info.plist").write_bytes(plistlib.dumps({"size": len(data), "band-size": length}))
    for number in range(4):
        (bundle / "bands" / f"{number:x}").write_bytes(data[number * length :][:length])
    for name in ("bands/3", "bands/4", "nodes.csv"):
        refused(run, [bundle], "export", bundle, "--table", "nodes", "-o", bundle / name)


def test_tables_of_a_capture_are_protected(run, disk, tmp_path):
    """A capture is an input like any image, and is not saved over itself."""
    capture = tmp_path / "disk.lscope"
    assert run("scan", disk, "--save", capture).exit_code == 0
    for name in ("0/nodes.parquet", "manifest.json", "new.csv"):
        refused(run, [capture], "export", capture, "--table", "nodes", "-o", capture / name)
    refused(run, [capture], "scan", capture, "--save", capture)


def test_files_that_say_how_to_read_are_protected(run, disk, tmp_path):
    """A password file, a drive profile and a list of paths."""
    secret, listed, profile = (tmp_path / name for name in ("secret", "list", "drive.toml"))
    secret.write_text("password")
    listed.write_text("a\nb\n")
    profile.write_text(run("drives", "show", "sata-ssd", "--toml").stdout or "x")
    refused(run, [secret, disk], "export", disk, "--table", "nodes", "--password-file", secret, "-o", secret)
    refused(run, [listed, disk], "trace", disk, "--order", "paths", "--paths", listed, "-o", listed)


def test_a_result_keeps_its_image_safe_after_it_was_closed(disk):
    """A library that scans, then writes the map over the image, is refused too."""
    from layoutscope import scan, write_map
    from layoutscope.errors import UsageError

    result = scan(disk, drives=())
    with pytest.raises(UsageError, match="read as input"):
        write_map(result, disk, force=True)


def test_what_is_no_regular_file_is_not_replaced(run, disk, tmp_path):
    """A pipe stays a pipe."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    result = run("export", disk, "--table", "nodes", "-o", pipe, "--force")
    assert (result.exit_code, pipe.is_fifo()) == (2, True)
    assert "no regular file" in result.stderr


def test_other_outputs_are_still_overwritten(run, disk, tmp_path):
    """Results of an earlier run are, with --force."""
    target = tmp_path / "nodes.csv"
    for words in ((), ("--force",)):
        assert run("export", disk, "--table", "nodes", "-o", target, *words).exit_code == 0
    assert run("export", disk, "--table", "nodes", "-o", target).exit_code == 2


def test_a_foreign_folder_with_a_manifest_stays(run, disk, tmp_path):
    """Many programs keep a manifest.json; only our own captures are ever replaced."""
    folder = tmp_path / "extension"
    (folder / "js").mkdir(parents=True)
    (folder / "manifest.json").write_text(json.dumps({"name": "my browser extension"}))
    (folder / "js" / "work.js").write_text("work()")
    assert "belongs to no capture" in refused(run, [folder], "scan", disk, "--save", folder)


@pytest.mark.parametrize("stranger", ["notes.txt", "0/notes.txt", "work"])
def test_a_capture_with_other_files_stays(run, disk, tmp_path, stranger):
    """What somebody put into a capture is theirs."""
    capture = tmp_path / "disk.lscope"
    assert run("scan", disk, "--save", capture).exit_code == 0
    if "." in stranger:
        (capture / stranger).write_text("mine")
    else:
        (capture / stranger).mkdir()
    assert stranger.split("/")[-1] in refused(run, [capture, disk], "scan", disk, "--save", capture)


def test_a_folder_that_holds_the_image_stays(run, tmp_path):
    """A capture's folder with the image in it is not removed."""
    capture = tmp_path / "disk.lscope"
    disk = small_disk(tmp_path / "disk.img")
    assert run("scan", disk, "--save", capture).exit_code == 0
    moved = disk.rename(capture / "disk.img")
    refused(run, [capture], "scan", moved, "--save", capture)


def test_a_capture_is_replaced_through_a_link(run, disk, tmp_path):
    """The link stays one, and what it leads to is the new capture."""
    capture, link = tmp_path / "disk.lscope", tmp_path / "link.lscope"
    assert run("scan", disk, "--save", capture).exit_code == 0
    link.symlink_to(capture)
    assert run("scan", disk, "--save", link, "--no-names", "--force").exit_code == 0
    assert link.is_symlink()
    assert json.loads((capture / "manifest.json").read_text())["image"]["name"] == ""
    assert names(tmp_path) == ["disk.img", "disk.lscope", "link.lscope"]


def test_an_old_capture_survives_a_failure(disk, tmp_path, monkeypatch):
    """If the new one cannot be put in its place, the old one is there as it was."""
    from pathlib import Path

    from layoutscope import save, scan
    from layoutscope.api.outputs import OutputError

    capture = tmp_path / "disk.lscope"
    result = scan(disk, drives=())
    save(result, capture)
    known = digest(capture)
    replace = Path.replace

    def fail(self, target):
        if self.name == "new":
            raise OSError(28, "No space left on device")
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OutputError, match="no space left"):
        save(result, capture, force=True)
    assert digest(capture) == known
    assert names(tmp_path) == ["disk.img", "disk.lscope"]

"""No output ever replaces what is read, whatever it is called and whatever is forced."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import shutil
from pathlib import Path

import pytest

from fixtures.hfsplus.scenarios import SCENARIOS
from fixtures.hfsplus.writer import write
from layoutscope import inputs
from layoutscope.api.outputs import disk_in
from tests.unit.image.containers.test_udif import ZLIB, udif

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


WRAPPED = {
    "raw": lambda data: data,
    "compressed": gzip.compress,
    "dmg": lambda data: udif([(ZLIB, data)]),
    "qcow2": lambda data: b"QFI\xfb" + data,
    "E01": lambda data: b"EVF\x09\x0d\x0a\xff\x00" + data,
    "foreign": lambda data: bytes(510) + b"\x55\xaa" + bytes(1024 + 56 - 512) + b"\x53\xef" + bytes(len(data)),
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("way", WRAPPED)
def test_no_image_is_replaced_although_nobody_reads_it(run, disk, tmp_path, verb, way):
    """An image that has nothing to do with the work, however it is wrapped, is no result of ours."""
    precious = tmp_path / "precious"
    precious.write_bytes(WRAPPED[way](disk.read_bytes()))
    given = {"image": disk, "target": precious, "other": small_disk(tmp_path / "other.img")}
    told = refused(run, [precious, disk], *(word.format(**given) for word in VERBS[verb]))
    assert "holds a disk" in told or "is no capture" in told


def test_what_was_written_holds_no_disk(run, disk, tmp_path):
    """Every kind of file that is written is one that --force may overwrite."""
    for name in ("a.csv", "a.parquet", "a.jsonl"):
        assert run("export", disk, "--table", "entries", "-o", tmp_path / name).exit_code == 0
    assert run("map", disk, "-o", tmp_path / "a.html").exit_code == 0
    assert run("trace", disk, "-o", tmp_path / "a.fio").exit_code == 0
    written = [path for path in tmp_path.iterdir() if path != disk]
    assert {path.name: disk_in(path) for path in written} == dict.fromkeys((path.name for path in written), "")
    assert len(written) == 5
    assert disk_in(disk) == "HFS+"


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


SETS = {
    "part of a vmdk": ("a.vmdk", "a-flat.vmdk"),
    "segment of an E01": ("a.E01", "a.E02"),
}


@pytest.mark.parametrize("way", SETS)
def test_files_that_a_container_names_are_protected(run, disk, tmp_path, peer, way):
    """The extents of a vmdk and the segments behind the first are read as much as what was named."""
    import subprocess

    folder = tmp_path / "set"
    folder.mkdir()
    if way == "part of a vmdk":
        pytest.importorskip("pyvmdk")
        command = [peer("qemu-img"), "convert", "-O", "vmdk", "-o", "subformat=monolithicFlat", disk, folder / "a.vmdk"]
    else:
        noise = tmp_path / "noise.img"
        noise.write_bytes(disk.read_bytes() + os.urandom(3 << 20))
        command = [peer("ewfacquire"), "-u", "-q", "-c", "none", "-S", str(2 << 20), "-t", folder / "a", noise]
    subprocess.run(command, check=True, capture_output=True)
    first, other = (folder / name for name in SETS[way])
    refused(run, [first, other], "export", first, "--table", "nodes", "-o", other)


def test_everything_else_that_is_read_is_protected(run, disk, tmp_path):
    """The second device, a map of ddrescue, offsets, a trace, a profile, its map, a member, a report of fio."""
    from tests.unit.drive.test_sectormap import PROFILE, ROWS, packed

    folder = tmp_path / "beside"
    folder.mkdir()
    second = small_disk(folder / "second.img")
    texts = {
        "a.map": f"0x0 ? 1\n0x0 0x{disk.stat().st_size:x} +\n",
        "offsets": "0\n4096\n",
        "trace.csv": "image_offset,length_bytes\n0,512\n",
        "disk.toml": PROFILE,
        "set.toml": 'kind = "stripe"\nmembers = ["disk.toml"]\n[figures]\n'
        'chunk_bytes = { value = 4096, kind = "assumed", source = "x" }\n',
        "fio.json": json.dumps({"jobs": [{"job options": {"rw": "read"}, "read": {"bw_bytes": 1e8}}]}),
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    (folder / "disk.map.zst").write_bytes(packed(ROWS))
    table, every = ("export", disk, "--table", "nodes"), [disk, second, *(folder / name for name in texts)]
    for name, words in {
        "second.img": (*table, "--second", second),
        "a.map": (*table, "--ddrescue-map", folder / "a.map"),
        "offsets": ("trace", disk, "--order", "read", "--file", "/other", "--offsets", folder / "offsets"),
        "fio.json": ("drives", "fit", "new", "--base", "generic-7200", "--fio", folder / "fio.json"),
    }.items():
        told = refused(run, every, *words, "-o", folder / name)
        assert "input" in told or "holds a disk" in told, name
    for name in ("disk.toml", "disk.map.zst", "set.toml"):
        words = ("predict", disk, "--drive", folder / "set.toml", "--ncdu", folder / name)
        assert run(*words, "--force").exit_code in (1, 2)
        assert [(folder / each).read_text() for each in texts] == list(texts.values())
        assert (folder / "disk.map.zst").read_bytes() == packed(ROWS)


@pytest.mark.parametrize("verb", VERBS)
def test_outputs_are_asked_for_before_any_work(run, tmp_path, verb):
    """What exists is told before an image is looked for; nobody waits for hours and then loses the result."""
    target = tmp_path / "there"
    target.write_text("mine")
    given = {"image": tmp_path / "absent.img", "target": target, "other": tmp_path / "absent"}
    result = run(*(word.format(**given) for word in VERBS[verb]))
    assert result.exit_code == 2
    assert "there: " in result.stderr
    assert target.read_text() == "mine"


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb not in ("scan --save", "extract")])
@pytest.mark.parametrize(
    "head", [b"PK\x03\x04", b"%PDF-1.7\n\xe2\xe3\xcf\xd3\n1 0 obj\0", b"\x7fELF\2\1\1\0", b"\xff\xd8\xff\xe0"]
)
def test_what_is_never_written_here_is_not_overwritten(run, disk, tmp_path, verb, head):
    """A document, a program, a photograph: whatever is forced."""
    target = tmp_path / "thesis"
    target.write_bytes(head + bytes(range(256)) * 20)
    given = {"image": disk, "target": target, "other": small_disk(tmp_path / "other.img")}
    words = [word.format(**given) for word in VERBS[verb]]
    refused(run, [target, disk], *words)


def test_the_null_device_takes_everything(run, disk, tmp_path):
    """It is written to, never replaced, and needs no --force; that it was read from does not matter."""
    inputs.note(os.devnull)
    alias = tmp_path / "alias"
    alias.symlink_to(os.devnull)
    for target in (os.devnull, alias):
        result = run("export", disk, "--table", "nodes", "-o", target)
        assert result.exit_code == 0, result.stderr
        assert Path(target).samefile(os.devnull)
        assert Path(target).is_char_device()


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_permissions_are_those_of_the_mask(run, disk, tmp_path, mask, mode):
    """New files, files in place of old ones, and captures."""
    (tmp_path / "old.csv").write_text("a,b\n")
    before = os.umask(mask)
    try:
        for name in ("new.csv", "old.csv"):
            assert run("export", disk, "--table", "nodes", "-o", tmp_path / name, "--force").exit_code == 0
            assert (tmp_path / name).stat().st_mode & 0o777 == mode
        assert run("scan", disk, "--save", tmp_path / "a.lscope").exit_code == 0
        assert (tmp_path / "a.lscope").stat().st_mode & 0o777 == mode | (mode & 0o444) >> 2
    finally:
        os.umask(before)


def test_results_are_on_the_disk_before_they_have_their_names(tmp_path, monkeypatch):
    """Written under a name that nobody can guess, synced, renamed: in this order."""
    from layoutscope.api.outputs import output

    done = []
    fsync, replace = os.fsync, Path.replace
    monkeypatch.setattr(os, "fsync", lambda number: done.append("synced") or fsync(number))
    monkeypatch.setattr(Path, "replace", lambda self, target: done.append(self.name) or replace(self, target))
    with output(tmp_path / "a.csv") as file:
        file.write(b"a,b\n")
        (part,) = [name for name in names(tmp_path) if name.endswith(".part")]
    assert done == ["synced", part]
    assert len(part) > len(".a.csv..part") + 6
    assert (tmp_path / "a.csv").read_bytes() == b"a,b\n"


@pytest.mark.parametrize("verb", VERBS)
def test_a_full_disk_leaves_the_old_file_and_nothing_else(disk, tmp_path, verb):
    """Files may not grow beyond some bytes: one line, exit code 1, and what was there before is there."""
    import subprocess
    import sys

    target = tmp_path / "old.txt"
    if verb == "scan --save":
        subprocess.run([sys.executable, "-m", "layoutscope", "scan", disk, "--save", target], check=True)
    elif verb != "extract":
        target.write_text("image_offset,length_bytes\n0,512\n")
    other = small_disk(tmp_path / "other.img")
    words = [word.format(image=disk, target=target, other=other) for word in VERBS[verb]]
    known, listed = digest(target) if target.exists() else [], names(tmp_path)
    limited = (
        "import resource, runpy, signal, sys",
        "sys.dont_write_bytecode = True",  # else Python may leave cut ones in the checkout, for all who follow
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)",
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))",
        "runpy.run_module('layoutscope', run_name='__main__')",
    )
    force = [] if verb == "extract" else ["--force"]
    result = subprocess.run(
        [sys.executable, "-c", "; ".join(limited), *words, *force], capture_output=True, text=True, check=False
    )
    assert (result.returncode, result.stderr.count("\n")) == (1, 1), result.stderr
    assert names(tmp_path) == listed
    assert (digest(target) if target.exists() else []) == known


@pytest.mark.parametrize(
    ("picture", "reason"),
    [("a.gif", "a picture ends with .png or .svg"), ("old.png", "exists"), ("disk.svg", "is read as input"),
     ("absent/a.png", "absent")],
)  # fmt: skip
def test_a_picture_that_cannot_be_written_is_told_before_the_page_is(run, disk, tmp_path, picture, reason):
    """The ending, a file that is there, an input, and a folder that is not: exit 2, and no page."""
    (tmp_path / "old.png").write_bytes(b"")
    (tmp_path / "disk.svg").hardlink_to(disk)
    result = run("map", disk, "-o", tmp_path / "page.html", "--png", tmp_path / picture)
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert reason in result.stderr
    assert not (tmp_path / "page.html").exists()

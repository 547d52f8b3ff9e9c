"""Output: files that replace no input, streams, formats, progress, and what other programs read."""

from __future__ import annotations

import errno
import gzip
import hashlib
import io
import json
import os
import pty
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from itertools import cycle, product
from pathlib import Path

import pytest

import layoutscope
from fixtures.apfs.scenarios import SCENARIOS as APFS
from fixtures.apfs.writer import write as write_apfs
from fixtures.hfsplus.scenarios import SCENARIOS
from fixtures.hfsplus.writer import write
from layoutscope import inputs, ownfiles
from layoutscope.api.outputs import OutputError, disk_in, open_output
from layoutscope.cli import running
from layoutscope.errors import UsageError
from layoutscope.fleet.query import write_answer
from layoutscope.image.split import refuse_part
from layoutscope.progress import Step
from layoutscope.units import format_bytes
from tests.cases import for_each
from tests.cli.conftest import ROOT
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
    """List the content of a folder."""
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
    """Return an image that the test may destroy."""
    return small_disk(tmp_path / "disk.img")


def refused(run, before, *words):
    """Run with --force; check that it ends with a usage error and that nothing has changed."""
    known = {path: digest(path) for path in before}
    folder = before[0].parent
    listed = names(folder)
    result = run(*words, "--force")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.count("\n") == 1
    assert {path: digest(path) for path in before} == known
    assert names(folder) == listed
    return result.stderr


@for_each("verb", VERBS)
@for_each("way", ["same", "dots", "symlink", "hard link", "volume"])
def test_the_image_is_never_the_output(run, tmp_path, verb, way):
    """For every command that writes and every name of the image."""
    disk = small_disk(tmp_path / "disk.img")
    (tmp_path / "folder").mkdir()
    other = tmp_path / "other.img"
    shutil.copyfile(disk, other) if "{other}" in VERBS[verb] else other.touch()
    target = {"same": disk, "volume": disk, "dots": tmp_path / "folder" / ".." / disk.name}.get(way, tmp_path / "alias")
    if way == "symlink":
        target.symlink_to(disk)
    elif way == "hard link":
        target.hardlink_to(disk)
    image = f"{disk}:1" if way == "volume" else disk
    words = [word.format(image=image, target=target, other=other) for word in VERBS[verb]]
    assert "input" in refused(run, [disk, other], *words)


@pytest.mark.parametrize("writer", ["table", "list", "map", "trace", "answer"])
def test_an_image_that_is_open_for_writing_is_protected(disk, writer):
    """The library may write into an open file, which may be the image; another file is accepted."""
    pytest.importorskip("duckdb")

    def write_to(file):
        if writer == "table":
            layoutscope.export(disk, "nodes", file)
        elif writer == "list":
            layoutscope.export(disk, None, file, file_format="bodyfile")
        elif writer == "map":
            layoutscope.map([disk], file)
        elif writer == "trace":
            layoutscope.write_trace(layoutscope.trace(disk), file)
        else:
            write_answer(layoutscope.query(disk, "SELECT 1"), file)

    before = digest(disk)
    with disk.open("r+b") as file, pytest.raises(UsageError, match="read as input"):
        write_to(file)
    assert digest(disk) == before
    other = disk.with_name("other")
    with other.open("wb") as file:
        write_to(file)
    assert other.stat().st_size > 0
    write_to(io.BytesIO())


def test_a_result_keeps_its_image_safe_after_it_was_closed(disk):
    """A library call that scans, then writes the map over the image, is refused too."""
    with pytest.raises(UsageError, match="read as input"):
        layoutscope.scan(disk, drives=()).map(disk, force=True)


def test_all_parts_of_an_image_are_protected(run, disk, tmp_path):
    """Later parts, bands that were not opened, files of a bundle or capture that do not exist yet, and links."""
    import plistlib

    data, folder, bundle = disk.read_bytes(), tmp_path / "parts", tmp_path / "disk.sparsebundle"
    folder.mkdir()
    (bundle / "bands").mkdir(parents=True)
    length = len(data) // 4
    (bundle / "Info.plist").write_bytes(plistlib.dumps({"size": len(data), "band-size": length}))
    for number in range(4):
        for path in (folder / f"disk.{number + 1:03}", bundle / "bands" / f"{number:x}"):
            path.write_bytes(data[number * length :][:length])
    parts, capture, link = sorted(folder.iterdir()), tmp_path / "disk.lscope", tmp_path / "link"
    link.symlink_to(disk)
    assert run("scan", disk, "--save", capture).exit_code == 0
    table = ("--table", "nodes", "-o")
    refused(run, [disk], "export", link, *table, disk)
    refused(run, parts, "export", parts[0], *table, parts[2])
    for name in ("bands/3", "bands/4", "nodes.csv"):
        refused(run, [bundle], "export", bundle, *table, bundle / name)
    for name in ("0/nodes.parquet", "manifest.json", "new.csv"):
        refused(run, [capture], "export", capture, *table, capture / name)
    refused(run, [capture], "scan", capture, "--save", capture)


def test_what_is_no_regular_file_is_not_replaced(run, disk, tmp_path):
    """A pipe stays a pipe."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    result = run("export", disk, "--table", "nodes", "-o", pipe, "--force")
    assert (result.exit_code, pipe.is_fifo()) == (2, True)
    assert "not a regular file" in result.stderr


WRAPPED = {
    "raw": lambda data: data,
    "compressed": gzip.compress,
    "dmg": lambda data: udif([(ZLIB, data)]),
    "qcow2": lambda data: b"QFI\xfb" + data,
    "E01": lambda data: b"EVF\x09\x0d\x0a\xff\x00" + data,
    "foreign": lambda data: bytes(510) + b"\x55\xaa" + bytes(1024 + 56 - 512) + b"\x53\xef" + bytes(len(data)),
}


@for_each("verb", VERBS)
@for_each("way", WRAPPED)
def test_no_image_is_replaced_although_nobody_reads_it(run, tmp_path, verb, way):
    """An unrelated image, in any container, is not an output of ours."""
    disk = small_disk(tmp_path / "disk.img")
    precious = tmp_path / "precious"
    precious.write_bytes(WRAPPED[way](disk.read_bytes()))
    given = {"image": disk, "target": precious, "other": small_disk(tmp_path / "other.img")}
    told = refused(run, [precious, disk], *(word.format(**given) for word in VERBS[verb]))
    assert "holds a disk" in told or "is not a capture" in told


def test_what_was_written_holds_no_disk(run, disk, tmp_path):
    """--force may overwrite every kind of file that the tool writes."""
    for name in ("a.csv", "a.parquet", "a.jsonl"):
        assert run("export", disk, "--table", "entries", "-o", tmp_path / name).exit_code == 0
    assert run("map", disk, "-o", tmp_path / "a.html").exit_code == 0
    assert run("trace", disk, "-o", tmp_path / "a.fio").exit_code == 0
    written = [path for path in tmp_path.iterdir() if path != disk]
    assert {path.name: disk_in(path) for path in written} == dict.fromkeys((path.name for path in written), "")
    assert len(written) == 5
    assert disk_in(disk) == "HFS+"


@pytest.mark.usefixtures("marks")
@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb != "extract"])
def test_results_are_overwritten_until_somebody_changes_them(run, disk, tmp_path, verb):
    """With --force, any number of times; a file that was edited, or copied without its mark, belongs to the user."""
    target, given = tmp_path / "result", {"image": disk, "other": small_disk(tmp_path / "other.img")}
    words = [word.format(target=target, **given) for word in VERBS[verb]]
    for force in ((), ("--force",), ("--force",)):
        assert run(*words, *force).exit_code == 0
    assert "exists; --force overwrites it" in run(*words).stderr
    edited = target / "0" / "nodes.parquet" if target.is_dir() else target
    edited.write_bytes(edited.read_bytes()[:-1] + b" ")
    assert f"{edited}: exists and was changed since layoutscope wrote it" in refused(run, [target, disk], *words)
    copied = edited.with_name("copy")
    shutil.copyfile(edited, copied)
    copied.replace(edited)
    assert f"{edited}: exists and was not written by layoutscope" in refused(run, [target, disk], *words)


@pytest.mark.parametrize("verb", ["export", "scan --save"])
def test_without_marks_nothing_is_overwritten(run, disk, tmp_path, monkeypatch, verb):
    """If the file system stores no attributes, results are written, and --force says why it replaces none."""

    def refuse(*_args, **_named):
        raise OSError(errno.ENOTSUP, "Operation not supported")

    for name in ("setxattr", "getxattr"):
        monkeypatch.setattr(os, name, refuse, raising=False)
    target = tmp_path / "result"
    words = [word.format(image=disk, target=target) for word in VERBS[verb]]
    assert run(*words).exit_code == 0
    assert "keeps no extended attributes" in refused(run, [target, disk], *words)


SET_NAMES = {
    "split": (("disk.001", "disk.002"), ("disk.003", "disk.017", "disk.000")),
    "split of four digits": (("disk.0000",), ("disk.0001",)),
    "split by letters": (("disk.aa", "disk.ab"), ("disk.ac",)),
    "split of three letters": (("disk.aaa",), ("disk.aab", "disk.csv")),
    "split without a prefix": (("xaa", "xab"), ("xac", "xzz")),
    "split by digits without a prefix": (("x00",), ("x01",)),
    "E01": (("e.E01",), ("e.E02", "e.E99", "e.EAA", "e.e02")),
    "Ex01": (("e.Ex01",), ("e.Ex02",)),
    "s01": (("e.s01",), ("e.s02",)),
    "L01": (("e.L01",), ("e.L02",)),
    "first segment lost": (("e.E02",), ("e.E01", "e.E03")),
    "vmdk": (("v.vmdk",), ("v-s001.vmdk", "v-f001.vmdk", "v-flat.vmdk", "v-000001.vmdk")),
    "extents of a vmdk": (("v-s001.vmdk",), ("v.vmdk", "v-s002.vmdk")),
    "dmg": (("d.dmg",), ("d.002.dmgpart", "d.dmgpart")),
    "AD1": (("a.ad1",), ("a.ad2",)),
    "CD": (("disc.cue",), ("disc.bin", "Disc (Track 1).bin")),
    "tracks of a CD": (("disc (track 1).bin",), ("disc.cue",)),
}
FREE_NAMES = {
    "E01": (("e.E01", "disk.img"), ("e.csv", "e.svg", "e.png", "f.E02", "disk.csv", "e.parquet", "e")),
    "split": (("disk.001", "xaa"), ("disk.csv", "other.002", "disk.1", "nodes", "xaa.csv")),
    "words": (("a.log", "a.img", "notes.txt", "run1"), ("a.lst", "a.csv", "notes.md", "run2", "map")),
    "vmdk": (("v.vmdk", "d.dmg"), ("w.vmdk.csv", "v.csv", "v-flat.csv", "d.html")),
    "CD": (("disc.cue", "other.bin"), ("other (track 2).bin", "disc.csv", "disc2.bin")),
}


@for_each(
    "there, wanted, is_refused",
    [(*names, True) for names in SET_NAMES.values()] + [(*names, False) for names in FREE_NAMES.values()],
)
def test_no_output_becomes_a_part_of_a_set(tmp_path, there, wanted, is_refused):
    """Each name that readers of such sets would take for a part is refused, and no other one."""
    for part in there:
        (tmp_path / part).write_bytes(b"part")
    (tmp_path / "loop").symlink_to("loop")
    refuse_part(tmp_path / "zero")
    for path in (tmp_path / each for each in wanted):
        if not is_refused:
            refuse_part(path)
            continue
        with pytest.raises(UsageError, match="has the name of a part of") as caught:
            refuse_part(path)
        assert f"beside {there[0]}" in str(caught.value)


PLACES = {
    "export": ("export", "{image}", "--table", "nodes", "-o", "{target}", "--force"),
    "scan --save": ("scan", "{image}", "--save", "{target}", "--force"),
    "export of all": ("export", "{image}", "--table", "all", "-o", "{target}"),
    "batch": ("batch", "{image}", "-o", "{target}"),
    "cache": ("scan", "fixtures/images/hfsplus-scattered.img.zst", "--cache-dir", "{target}"),
}
"""Commands by what they write."""


@for_each("words", PLACES.values())
def test_no_command_writes_a_part_of_a_set_or_into_a_bundle(run, tmp_path, words):
    """Neither files nor folders."""
    disk, bundle = small_disk(tmp_path / "disk.img"), tmp_path / "a.sparsebundle"
    bundle.mkdir()
    (tmp_path / "xaa").write_bytes(b"part")
    places = {bundle / "14": "is inside of"}
    if "--force" in words:
        places[tmp_path / "xab"] = "has the name of a part of"
    for target, said in places.items():
        result = run(*(word.format(image=disk, target=target) for word in words))
        assert (result.exit_code, said in result.stderr, result.stderr.count("\n")) == (2, True, 1), result.stderr
    assert names(tmp_path) == ["a.sparsebundle", "disk.img", "xaa"]
    assert names(bundle) == []


@pytest.mark.parametrize("long", ["\N{PARTY POPPER}" * 62 + ".csv", "\u3042" * 83 + ".csv", "x" * 251 + ".csv"])
def test_names_may_be_as_long_as_the_system_has_them(run, disk, tmp_path, long):
    """Systems limit bytes, not letters: the temporary name next to the result has at most as many bytes."""
    assert run("export", disk, "--table", "nodes", "-o", tmp_path / long).exit_code == 0
    capture = long.replace(".csv", ".c")
    assert run("scan", disk, "--save", tmp_path / capture).exit_code == 0
    assert names(tmp_path) == sorted(["disk.img", long, capture])


@pytest.mark.usefixtures("marks")
def test_results_may_be_numbered(run, disk, tmp_path):
    """The tool's own output is not taken for an image."""
    for number in (1, 2, 3):
        assert run("trace", disk, "-o", tmp_path / f"trace.00{number}", "--format", "csv").exit_code == 0


def test_no_output_gets_into_a_bundle(tmp_path):
    """At any depth; so are damaged bundles, and other folders as a whole, but no other folder of bands."""
    for name, files in {
        "a.sparsebundle": (),
        "renamed": ("Info.plist", "bands/0"),
        "no list": ("bands/3e",),
        "no bands": ("Info.plist", "token"),
        "vm.hdd": ("root.hds",),
        "renamed disk": ("DiskDescriptor.xml", "root.hds"),
        "old.lscope": (),
        "capture": ("manifest.json", "0/nodes.parquet"),
    }.items():
        for file in files:
            (tmp_path / name / file).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name / file).write_text("x")
        for inner in ("", "bands", "bands/deep"):
            folder = tmp_path / name / inner
            folder.mkdir(parents=True, exist_ok=True)
            with pytest.raises(UsageError, match="is inside of"):
                refuse_part(folder / "14")
    (tmp_path / "music" / "bands" / "ABBA").mkdir(parents=True)
    refuse_part(tmp_path / "music" / "a.csv")


def test_places_of_the_system_take_no_output(run, disk, tmp_path, monkeypatch):
    """Devices, processes and settings are refused; /dev/shm holds ordinary files."""
    for name in ("dev/shm", "proc", "plain"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "dev" / "stdout").symlink_to(tmp_path / "plain" / "log")
    monkeypatch.setattr(ownfiles, "SPECIAL", (tmp_path / "dev", tmp_path / "proc"))
    monkeypatch.setattr(ownfiles, "PLAIN_BELOW_SPECIAL", (tmp_path / "dev" / "shm",))
    (tmp_path / "plain" / "far").symlink_to(tmp_path / "proc")
    for name in ("dev/a.csv", "dev/stdout", "proc/a.csv", "plain/far/a.csv", "dev/shm/../a.csv"):
        for words in (("export", disk, "--table", "nodes", "-o"), ("scan", disk, "--save")):
            refused(run, [tmp_path / "dev", tmp_path / "proc", tmp_path / "plain"], *words, tmp_path / name)
    assert run("export", disk, "--table", "nodes", "-o", tmp_path / "dev" / "shm" / "a.csv").exit_code == 0


def test_a_capture_with_other_files_stays(run, disk, tmp_path):
    """Files and folders that a user put into a capture, one in place of a table, the image, and a foreign manifest."""
    folder, capture = tmp_path / "extension", tmp_path / "disk.lscope"
    (folder / "js").mkdir(parents=True)
    (folder / "manifest.json").write_text(json.dumps({"name": "my browser extension"}))
    (folder / "js" / "work.js").write_text("work()")
    assert "belongs to no capture" in refused(run, [folder], "scan", disk, "--save", folder)
    for stranger in ("notes.txt", "0/notes.txt", "work/", "0/nodes.parquet/", "disk.img"):
        assert run("scan", disk, "--save", capture).exit_code == 0
        place, image = capture / stranger, disk
        if stranger == "disk.img":
            image = disk.rename(place)
        elif stranger.endswith("/"):
            place.unlink(missing_ok=True)
            place.mkdir()
        else:
            place.write_text("mine")
        told = refused(run, [capture], "scan", image, "--save", capture)
        assert ("is an empty folder" if "parquet" in stranger else place.name) in told
        shutil.rmtree(capture)


@for_each("verb", VERBS)
@for_each("leads_to", ["a result", "a text", "nothing"])
def test_nothing_is_written_through_a_link(run, tmp_path, verb, leads_to):
    """Neither a file nor a capture, wherever the link leads, even with --force."""
    disk = small_disk(tmp_path / "disk.img")
    other = small_disk(tmp_path / "other.img")
    given = {"image": disk, "other": other}
    far, link = tmp_path / "far", tmp_path / "link"
    if leads_to == "a result":
        assert run(*(word.format(target=far, **given) for word in VERBS[verb])).exit_code == 0
    elif leads_to == "a text":
        far.write_text("mine")
    link.symlink_to(far)
    for force in ((), ("--force",)):
        before = (names(tmp_path), digest(far) if far.exists() else None)
        result = run(*(word.format(target=link, **given) for word in VERBS[verb]), *force)
        assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
        assert "is a link" in result.stderr
        assert (names(tmp_path), digest(far) if far.exists() else None) == before
        assert link.is_symlink()


@pytest.mark.usefixtures("marks")
def test_an_old_capture_survives_a_failure(disk, tmp_path, monkeypatch):
    """If the new one cannot be renamed into place, the old one is still there unchanged."""
    from layoutscope.api.save import save

    capture = tmp_path / "disk.lscope"
    result = layoutscope.scan(disk, drives=())
    save(result, capture)
    known = digest(capture)

    def fail(*_names):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("layoutscope.ownfiles.rename_new", fail)
    with pytest.raises(OutputError, match="no space left"):
        save(result, capture, force=True)
    assert digest(capture) == known
    assert names(tmp_path) == ["disk.img", "disk.lscope"]


SETS = {"part of a vmdk": ("a.vmdk", "a-flat.vmdk"), "segment of an E01": ("a.E01", "a.E02")}


@pytest.mark.parametrize("way", SETS)
def test_files_that_a_container_names_are_protected(run, disk, tmp_path, peer, way):
    """The extents of a vmdk and later segments are inputs like the named file."""
    folder = tmp_path / "set"
    folder.mkdir()
    if way == "part of a vmdk":
        command = [peer("qemu-img"), "convert", "-O", "vmdk", "-o", "subformat=monolithicFlat", disk, folder / "a.vmdk"]
    else:
        noise = tmp_path / "noise.img"
        noise.write_bytes(disk.read_bytes() + os.urandom(3 << 20))
        command = [peer("ewfacquire"), "-u", "-q", "-c", "none", "-S", str(2 << 20), "-t", folder / "a", noise]
    subprocess.run(command, check=True, capture_output=True)
    first, other = (folder / name for name in SETS[way])
    refused(run, [first, other], "export", first, "--table", "nodes", "-o", other)


def test_everything_else_that_is_read_is_protected(run, disk, tmp_path):
    """Passwords, paths, the second device, a ddrescue map, offsets, a profile, its map, a member, a fio report."""
    from tests.unit.drive.test_sectormap import PROFILE, ROWS, packed

    folder = tmp_path / "beside"
    folder.mkdir()
    second = small_disk(folder / "second.img")
    texts = {
        "secret": "password",
        "list": "a\nb\n",
        "a.map": f"0x0 ? 1\n0x0 0x{disk.stat().st_size:x} +\n",
        "offsets": "0\n4096\n",
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
        "secret": (*table, "--password-file", folder / "secret"),
        "list": ("trace", disk, "--order", "paths", "--paths", folder / "list"),
        "second.img": (*table, "--second", second),
        "a.map": (*table, "--ddrescue-map", folder / "a.map"),
        "offsets": ("trace", disk, "--order", "read", "--file", "/other", "--offsets", folder / "offsets"),
        "fio.json": ("drives", "fit", "new", "--base", "generic-7200", "--fio", folder / "fio.json"),
    }.items():
        told = refused(run, every, *words, "-o", folder / name)
        reasons = ("input", "holds a disk", "not written by layoutscope", "Name two files")
        assert any(reason in told for reason in reasons), name
    for name in ("disk.toml", "disk.map.zst", "set.toml"):
        words = ("predict", disk, "--drive", folder / "set.toml", "--ncdu", folder / name)
        assert run(*words, "--force").exit_code in (1, 2)
        assert [(folder / each).read_text() for each in texts] == list(texts.values())
        assert (folder / "disk.map.zst").read_bytes() == packed(ROWS)


@pytest.mark.parametrize("verb", VERBS)
def test_outputs_are_asked_for_before_any_work(run, tmp_path, verb):
    """Existing outputs are reported before an image is opened, so no long run loses its result."""
    target = tmp_path / "there"
    target.write_text("mine")
    given = {"image": tmp_path / "absent.img", "target": target, "other": tmp_path / "absent"}
    result = run(*(word.format(**given) for word in VERBS[verb]))
    assert result.exit_code == 2
    assert "there: " in result.stderr
    assert target.read_text() == "mine"


@for_each("verb", [verb for verb in VERBS if verb not in ("scan --save", "extract")])
@for_each("head", [b"PK\x03\x04", b"%PDF-1.7\n\xe2\xe3\xcf\xd3\n1 0 obj\0", b"\x7fELF\2\1\1\0", b"\xff\xd8\xff\xe0"])
def test_what_is_never_written_here_is_not_overwritten(run, tmp_path, verb, head):
    """A document, a program, a photograph: even if forced."""
    disk = small_disk(tmp_path / "disk.img")
    target = tmp_path / "thesis"
    target.write_bytes(head + bytes(range(256)) * 20)
    given = {"image": disk, "target": target, "other": small_disk(tmp_path / "other.img")}
    words = [word.format(**given) for word in VERBS[verb]]
    refused(run, [target, disk], *words)


def test_the_null_device_takes_everything(run, disk, tmp_path):
    """It is written to, never replaced, and needs no --force, even if it was also read or is named twice."""
    inputs.note(os.devnull)
    result = run("export", disk, "--table", "nodes", "-o", os.devnull)
    assert result.exit_code == 0, result.stderr
    assert run("plan", disk, "--emit-order", os.devnull, "--emit-script", os.devnull).exit_code == 0
    assert Path(os.devnull).is_char_device()
    alias = tmp_path / "alias"
    alias.symlink_to(os.devnull)
    assert run("export", disk, "--table", "nodes", "-o", alias).exit_code == 2


def test_a_file_in_place_of_the_null_device_stays(run, disk, tmp_path, monkeypatch):
    """In a misconfigured container, a file of that name holds output that others discarded."""
    for name in ("null", "link"):
        (tmp_path / name).write_text("mine") if name == "null" else (tmp_path / name).symlink_to(tmp_path / "null")
        monkeypatch.setattr(os, "devnull", str(tmp_path / name))
        refused(run, [tmp_path / "null"], "export", disk, "--table", "nodes", "-o", tmp_path / name)


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_permissions_are_those_of_the_mask(run, disk, tmp_path, marks, mask, mode):
    """New files and captures follow the mask; a replaced file keeps its mode."""
    marks(tmp_path / "old.csv")
    (tmp_path / "old.csv").chmod(0o640)
    before = os.umask(mask)
    try:
        for name, expected in (("new.csv", mode), ("old.csv", 0o640)):
            assert run("export", disk, "--table", "nodes", "-o", tmp_path / name, "--force").exit_code == 0
            assert (tmp_path / name).stat().st_mode & 0o777 == expected
        assert run("scan", disk, "--save", tmp_path / "a.lscope").exit_code == 0
        assert (tmp_path / "a.lscope").stat().st_mode & 0o777 == mode | (mode & 0o444) >> 2
    finally:
        os.umask(before)


@pytest.mark.skipif(os.name == "nt", reason="folders have no such modes")
@pytest.mark.parametrize("mask", [0o777, 0o277])
def test_a_mask_that_keeps_out_the_owner_leaves_nothing(run, disk, tmp_path, mask):
    """A folder created under it could be neither filled nor emptied, so there is none, and one line."""
    before = os.umask(mask)
    try:
        saved = run("scan", disk, "--save", tmp_path / "a.lscope")
        exported = run("export", disk, "--table", "nodes", "-o", tmp_path / "a.csv")
    finally:
        os.umask(before)
    assert (saved.exit_code, saved.stderr.count("\n"), "the umask keeps" in saved.stderr) == (1, 1, True)
    assert exported.exit_code == 0
    assert names(tmp_path) == ["a.csv", "disk.img"]


def test_refusals_fit_the_command(run, disk, tmp_path):
    """A folder of tables is not reached through a link; a check has no --force; fit draws no plot."""
    (tmp_path / "far").mkdir()
    (tmp_path / "link").symlink_to("far")
    told = refused(run, [disk, tmp_path / "far"], "export", disk, "--table", "all", "-o", tmp_path / "link")
    assert "is a link" in told
    (tmp_path / "report.txt").write_text("mine")
    result = run("check", disk, "--evidence", tmp_path / "report.txt")
    said = f"layoutscope: {tmp_path / 'report.txt'}: exists, and is not replaced. Remove it or name another file.\n"
    assert (result.exit_code, result.stderr) == (2, said)
    result = run("drives", "fit", "mine", "--random-ms", "12", "-o", tmp_path / "a", "--plot", tmp_path / "a.html")
    assert (result.exit_code, "No such option: --plot" in result.stderr) == (2, True)
    assert names(tmp_path) == ["disk.img", "far", "link", "report.txt"]


def test_results_are_on_the_disk_before_they_have_their_names(tmp_path, monkeypatch):
    """They are written under an unpredictable name, synced, then renamed, in this order."""
    done = []
    fsync, place = os.fsync, ownfiles.place
    monkeypatch.setattr(os, "fsync", lambda number: done.append("synced") or fsync(number))
    monkeypatch.setattr(ownfiles, "place", lambda old, *more: done.append(old.name) or place(old, *more))
    with open_output(tmp_path / "a.csv") as file:
        file.write(b"a,b\n")
        (part,) = [name for name in names(tmp_path) if name.endswith(".part")]
    assert done == ["synced", part]
    assert len(part) > len(".a.csv..part") + 6
    assert (tmp_path / "a.csv").read_bytes() == b"a,b\n"


@pytest.mark.full
@pytest.mark.parametrize("verb", VERBS)
def test_a_full_disk_leaves_the_old_file_and_nothing_else(disk, tmp_path, marks, verb):
    """File sizes are limited: one line, exit code 1, and earlier files are kept."""
    target = tmp_path / "old.txt"
    if verb == "scan --save":
        subprocess.run([sys.executable, "-m", "layoutscope", "scan", disk, "--save", target], check=True)
    elif verb != "extract":
        marks(target)
    other = small_disk(tmp_path / "other.img")
    words = [word.format(image=disk, target=target, other=other) for word in VERBS[verb]]
    known, listed = digest(target) if target.exists() else [], names(tmp_path)
    limited = (
        "import resource, runpy, signal, sys",
        "sys.dont_write_bytecode = True",  # else Python may leave truncated ones in the checkout for later runs
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
    """The ending, an existing file, an input, and a missing folder: exit 2, and no page."""
    (tmp_path / "old.png").write_bytes(b"")
    (tmp_path / "disk.svg").hardlink_to(disk)
    result = run("map", disk, "-o", tmp_path / "page.html", "--png", tmp_path / picture)
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert reason in result.stderr
    assert not (tmp_path / "page.html").exists()


TWICE = {
    "order and script": ("plan", "{image}", "--emit-order", "{one}", "--emit-script", "{other}", "--force"),
    "page and capture": ("scan", "{image}", "--map", "{one}", "--save", "{other}"),
    "list and report": ("export", "{image}", "--format", "bodyfile", "-o", "{one}", "--evidence", "{other}"),
    "two reports": ("check", "{image}", "--evidence", "{one}", "--evidence", "{other}"),
    "batch and cache": ("batch", "{image}", "-o", "{one}", "--cache-dir", "{other}"),
}
"""Commands in which two options name one file or folder in two spellings."""


@pytest.mark.parametrize("options", TWICE)
def test_one_file_is_not_named_twice(run, disk, tmp_path, options):
    """The second result would replace the first, or fail after all the work."""
    (tmp_path / "link").symlink_to(tmp_path)
    before = names(tmp_path)
    for other in (tmp_path / "out.txt", tmp_path / "link" / "out.txt"):
        result = run(*(word.format(image=disk, one=tmp_path / "out.txt", other=other) for word in TWICE[options]))
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr.startswith(f"layoutscope: {other}: is named by --")
        assert names(tmp_path) == before


# Standard output and standard error: never an image, and ``-o -`` for printable results.


WAYS = {"appended": os.O_WRONLY | os.O_APPEND, "read and written": os.O_RDWR, "written from the start": os.O_WRONLY}
NAMES = {"stdout": "standard output", "stderr": "standard error"}


@pytest.fixture
def disks(tmp_path):
    """Return a folder with an image of each file system."""
    write(SCENARIOS["hard-links"], tmp_path / "H")
    write_apfs(APFS["basic"], tmp_path / "A")
    return tmp_path


def printed_into(place: Path, way: int, stream: str, *words: object, folder: Path, both=False):
    """Run a command with a file as one or both standard streams; return its result and whether the file changed."""
    before = place.read_bytes()
    descriptor = os.open(place, way)
    try:
        streams = dict.fromkeys(NAMES, subprocess.PIPE) | {stream: descriptor}
        result = subprocess.run(
            [sys.executable, "-m", "layoutscope", *map(str, words)], text=True, check=False, timeout=120, cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)}, **(dict.fromkeys(NAMES, descriptor) if both else streams),
        )  # fmt: skip
    finally:
        os.close(descriptor)
    return result, place.read_bytes() == before


PRINTING_VERBS = (
    "export H --table nodes", "scan H", "scan H --json --evidence report.txt", "map H -o -", "trace H", "kit",
    "--help", "scan absent", "export A --table nodes",
)  # fmt: skip


@for_each("words, pair", zip(PRINTING_VERBS, cycle(product(WAYS.values(), NAMES)), strict=False))
def test_nothing_is_printed_into_a_disk(disks, words, pair):
    """Whether the disk is the input or not: one line on the safe stream, and exit code 2.

    The check precedes all commands, so each is tried with one way and stream, and each way with each stream. Where both
    streams lead there, only the exit code reports it.
    """
    place, (way, stream) = disks / "H", pair
    for both in (False, *([True] if words == "scan H" else [])):
        result, is_unchanged = printed_into(place, way, stream, *words.split(), folder=disks, both=both)
        assert (result.returncode, is_unchanged) == (2, True)
        said = result.stderr if stream == "stdout" else result.stdout
        told = f"layoutscope: {place}: holds a disk (HFS+), and {NAMES[stream]} leads there. Send it elsewhere.\n"
        assert both or said == told
    assert not (disks / "report.txt").exists()


@pytest.mark.parametrize("stream", NAMES)
def test_nothing_is_printed_into_a_device_of_blocks(tmp_path, stream):
    """Whatever it holds; a file stands in for the device, because only root can create one."""
    code = "import stat\nstat.S_ISBLK = stat.S_ISREG\nfrom layoutscope.__main__ import main\nmain()"
    place = tmp_path / "device"
    streams = dict.fromkeys(NAMES, subprocess.PIPE)
    with place.open("wb") as file:
        result = subprocess.run(
            [sys.executable, "-c", code, "kit"], text=True, check=False, timeout=120,
            env={**os.environ, "PYTHONPATH": str(ROOT)}, **{**streams, stream: file},
        )  # fmt: skip
    said = result.stderr if stream == "stdout" else result.stdout
    assert (result.returncode, place.read_bytes()) == (2, b"")
    assert said == f"layoutscope: {place}: is a disk, and {NAMES[stream]} leads there. Send it elsewhere.\n"


@pytest.mark.full
def test_nothing_is_printed_into_what_is_read_whatever_it_holds(disks):
    """Lists of paths, passwords, tables of captures and unrecognized images are inputs as well; on either stream."""
    (disks / "list").write_text(f"{disks / 'A'}\n")
    (disks / "empty").write_bytes(bytes(1 << 20))
    cases = [
        ("list", ("predict", "H", "--order", "paths", "--paths", "list")),
        ("list", ("scan", "A", "--password-file", "list")),
        ("list", ("batch", "@list")),
        ("empty", ("scan", "empty")),
        ("empty", ("batch", ".")),
        ("empty", ("export", "H", "--table", "nodes", "--ddrescue-map", "empty")),
    ]
    if find_spec("polars"):
        layoutscope.scan(disks / "H").save(disks / "c.lscope")
        cases += [("c.lscope/manifest.json", ("scan", "c.lscope")), ("c.lscope/0/nodes.parquet", ("batch", "c.lscope"))]
    if find_spec("duckdb"):
        layoutscope.batch(disks / "H", disks / "fleet", drives="generic-7200", workers=1)
        cases += [(f"fleet/{name}", ("query", "fleet", "SELECT 1")) for name in ("batch.json", "batch.lock")]
    for number, ((name, words), stream) in enumerate(zip(cases, cycle(NAMES), strict=False)):
        more = ("-o", f"fleet{number}") if words[0] == "batch" else ()
        result, is_unchanged = printed_into(disks / name, os.O_RDWR, stream, *words, *more, folder=disks)
        said = (result.stderr if stream == "stdout" else result.stdout) or ""
        assert (is_unchanged, result.returncode, said.count("\n")) == (True, 2, 1), (name, words, said)
        what = f"is inside of {disks / 'c.lscope'}, which is a capture" if "c.lscope" in name else "is read as input"
        assert f"{what}, and {NAMES[stream]} leads there" in said


def test_nothing_is_printed_into_a_part_of_a_disk_or_a_capture(disks):
    """Such a file alone holds no disk, and it need not be an input of the command."""
    disk = (disks / "H").read_bytes()
    for number in range(3):
        (disks / f"disk.00{number + 1}").write_bytes(disk[number * (len(disk) // 3) :][: len(disk) // 3])
    for place, data in (("c.lscope/0/nodes.parquet", b""), ("x.sparsebundle/bands/1f", b""), ("run01", b"log\n")):
        (disks / place).parent.mkdir(parents=True, exist_ok=True)
        (disks / place).write_bytes(data or b"data")
    (disks / "run02").write_bytes(b"log\n")
    parts = {
        "disk.003": f"is a part of {disks / 'disk.001'}, a disk (HFS+)",
        "c.lscope/0/nodes.parquet": f"is inside of {disks / 'c.lscope'}, which is a capture",
        "x.sparsebundle/bands/1f": f"is inside of {disks / 'x.sparsebundle'}, which is an Apple sparse bundle",
    }
    for name, what in parts.items():
        result, is_unchanged = printed_into(disks / name, os.O_RDWR, "stdout", "check", "A", folder=disks)
        assert (result.returncode, is_unchanged) == (2, True), name
        assert (
            result.stderr
            == f"layoutscope: {disks / name}: {what}, and standard output leads there. Send it elsewhere.\n"
        )
    # Numbered logs are not parts.
    result, is_unchanged = printed_into(
        disks / "run02", os.O_WRONLY | os.O_APPEND, "stdout", "check", "A", folder=disks
    )
    assert (result.returncode, is_unchanged) == (0, False)


def test_other_files_are_printed_to_as_ever(disks):
    """A log with lines, a table in append mode, and both streams in one file."""
    log = disks / "log.txt"
    log.write_text("earlier\n")
    for stream in NAMES:
        result, _ = printed_into(log, os.O_WRONLY | os.O_APPEND, stream, "scan", "absent", folder=disks)
        assert result.returncode == 1
    assert log.read_text() == "earlier\nlayoutscope: absent: no such file\n"
    result, _ = printed_into(log, os.O_WRONLY | os.O_APPEND, "stdout", "scan", "H", folder=disks, both=True)
    assert result.returncode == 0
    assert "HFS+" in log.read_text()


STREAMED = [
    *("export H --table nodes", "export H --table nodes --format parquet", "export H --format bodyfile", "trace H"),
    *("trace H --format fio", "kit", "drives fit hitachi.json", "query H SELECT"),
]


@pytest.mark.full
def test_a_dash_is_standard_output(run, disks, monkeypatch):
    """Every command that prints without -o prints the same with -o -; the map is a page."""
    monkeypatch.chdir(disks)
    for line in STREAMED if find_spec("duckdb") else STREAMED[:-1]:
        words = ["SELECT count(*) FROM nodes" if word == "SELECT" else word for word in line.split()]
        printed = [run(*words, *more) for more in ((), ("-o", "-"))]
        assert len({(each.exit_code, each.stdout_bytes, each.stderr) for each in printed}) == 1, words
        assert printed[0].stdout_bytes or words[0] == "drives"
    page = run("map", "H", "-o", "-")
    assert page.exit_code == 0
    assert page.stdout.startswith("<!DOCTYPE html>")
    assert page.stdout.rstrip().endswith("</html>")
    assert not Path("-").exists()


@for_each(
    "words",
    ["extract H -o -", "batch H -o -", "report . -o -", "scan H --save -", "scan H --map -", "scan H --evidence -",
     "map H -o map.html --png -", "plan H --emit-order -", "compare H A --nodes -"],
)  # fmt: skip
def test_a_dash_is_no_name_of_a_file(run, disks, monkeypatch, words):
    """Commands that cannot print refuse it, and no file is created."""
    monkeypatch.chdir(disks)
    result = run(*words.split())
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert "-: name a file" in result.stderr
    assert names(disks) == ["A", "H"]


# Written files: their format, protection of terminals, and the message about them.


WRITING = {
    "export --table nodes -o OUT.csv": r"[\d,]+ rows",
    "export --table extents -o OUT.parquet": r"[\d,]+ rows",
    "trace -o OUT.csv": r"[\d,]+ reads",
    "map -o OUT.html": "",
    "scan --map OUT.html": "",
    "scan --save OUT.lscope": r"[\d,]+ entries",
    "extract -o OUT.img.zst": r".*of metadata of 256 MiB",
    "predict --ncdu OUT.json": "",
    "series IMAGE --plot OUT.html": "",
}


@pytest.mark.parametrize("words", WRITING)
def test_what_was_written_is_said(run, image, tmp_path, words):
    """Each command that writes reports the path, the number of rows if there are any, and the bytes."""
    typed = words.replace("IMAGE", str(image)).replace("OUT", str(tmp_path / "out"))
    name, *rest = typed.split()
    result = run(name, image, *rest)
    assert result.exit_code == 0
    (path,) = tmp_path.iterdir()
    files = [file for file in path.rglob("*") if file.is_file()] if path.is_dir() else [path]
    size = sum(file.stat().st_size for file in files)
    holds = f"{WRITING[words]}, " if WRITING[words] else ""
    told = [line for line in result.stderr.splitlines() if "wrote" in line]
    assert len(told) == 1
    assert re.fullmatch(f"layoutscope: wrote {re.escape(str(path))}: {holds}{re.escape(format_bytes(size))}", told[0])


def test_drives_say_what_they_write_and_a_refusal_nothing(run, image, tmp_path):
    """Profiles and plots of drives are reported; an image on standard output and --quiet print no message."""
    plot, profile, table = tmp_path / "drives.html", tmp_path / "mine.toml", ("export", image, "--table", "nodes")
    assert f"wrote {plot}" in run("drives", "sata-ssd", "--plot", plot).stderr
    assert f"wrote {profile}" in run("drives", "fit", "mine", "--random-ms", "12", "-o", profile).stderr
    assert run(*table).stderr == run(*table, "-o", tmp_path / "a.csv", "--quiet").stderr == ""
    assert "wrote" not in run(*table, "-o", tmp_path / "a.csv").stderr


ENDINGS = {
    "export --table nodes -o a.parquet": b"PAR1",
    "export --table nodes -o a.PQ": b"PAR1",
    "export --table nodes -o a.jsonl": b"{",
    "export --table nodes -o a.csv": b"row,",
    "export --table nodes -o a": b"row,",
    "trace -o a.csv": b"device,image_offset,",
    "trace -o a.fio": b"fio version 3",
    "trace -o a.iolog": b"fio version 3",
    "export --table nodes --format csv -o a.parquet": None,
    "export --table nodes --format parquet -o a.csv": None,
    "export --table nodes -o a.html": None,
    "trace --format fio -o a.csv": None,
    "trace -o a.parquet": None,
    "map -o a.png": None,
    "map -o a.csv": None,
}
"""How files begin; a contradiction gives none."""


@for_each("words, beginning", ENDINGS.items())
def test_formats_follow_the_ending(run, image, tmp_path, monkeypatch, words, beginning):
    """The file name selects the format, and must agree with the requested one; otherwise nothing is written."""
    monkeypatch.chdir(tmp_path)
    verb, *rest = words.split()
    result = run(verb, image, *rest)
    if beginning:
        assert result.exit_code == 0
        assert Path(rest[-1]).read_bytes().startswith(beginning)
    else:
        assert (result.exit_code, result.stderr.count("\n"), list(tmp_path.iterdir())) == (2, 1, [])
        assert "ends in ." in result.stderr


def test_parquet_is_not_written_to_a_terminal(image):
    """It is written to a pipe, but not to a terminal."""
    pty = pytest.importorskip("pty", reason="this system has no terminals")
    command = [sys.executable, "-m", "layoutscope", "export", str(image), "--table", "free", "--format", "parquet"]
    piped = subprocess.run(command, capture_output=True, check=True, cwd=ROOT)
    assert piped.stdout.startswith(b"PAR1")
    main, other = pty.openpty()
    shown = subprocess.run(command, stdout=other, stderr=subprocess.PIPE, text=True, check=False, cwd=ROOT)
    os.close(other)
    os.close(main)
    assert (shown.returncode, shown.stderr.count("\n")) == (2, 1)
    assert "this is a terminal" in shown.stderr


# Output for other programs: complete lines, no trailing blanks, no control codes.


@pytest.fixture
def plain() -> dict[str, str]:
    """Return the environment without a terminal width."""
    return {name: value for name, value in os.environ.items() if name != "COLUMNS"}


def test_lines_of_a_pipe_are_whole(shell, image, plain):
    """A definition is one line for grep, several at 80 columns; the first screen fits 80 columns in a pipe, too."""
    words = ("scan", image, "--details", "--explain")
    sentence = "0 in order, 0.5 at random, 1 reversed."
    whole, wrapped = shell(*words, env=plain).stdout, shell(*words, env={**plain, "COLUMNS": "80"}).stdout
    lines = [line for line in whole.splitlines() if sentence in line]
    assert lines
    assert all("Share of pairs of leaves" in line for line in lines)
    assert not [line for line in wrapped.splitlines() if len(line) > 80]
    assert not re.search(r" \n|\x1b", whole + wrapped)
    assert sentence in " ".join(wrapped.split())
    assert max(map(len, shell("scan", image, env=plain).stdout.splitlines())) <= 80


# Progress: a line on standard error if it is a terminal, and nothing anywhere else.


IMAGE = "fixtures/images/apfs-scattered.img.zst"
EAGER = """
import sys, time
from layoutscope.cli import app, running
running.DELAY_S, running.REDRAWN_EVERY_S, told = 0.0, 0.005, running.Watch.__call__
def drawn(bar):
    return [(task.description, task.completed) for task in bar.tasks] if bar else []
def wait(self, step):
    while step.phase and (step.phase, step.done) not in drawn(self._bar):
        time.sleep(0.001)
    told(self, step)
running.Watch.__call__ = wait
app(sys.argv[1:])
"""
"""The command, with lines at once instead of after two seconds, and no step before the last one is drawn."""
PATIENT = """
import sys
from layoutscope.cli import app, running
running.DELAY_S = 60.0
app(sys.argv[1:], standalone_mode=False)
print("rich.progress" in sys.modules)
"""


def _errors_of(arguments, *, program=EAGER, is_terminal=True, **environment):
    """Run a command; return its output on standard error (a terminal or a pipe) and on standard output."""
    outer, inner = pty.openpty() if is_terminal else os.pipe()
    command = [sys.executable, "-c", program, *arguments]
    variables = {**os.environ, "TERM": "xterm", "COLUMNS": "100", **environment}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=inner if is_terminal else subprocess.PIPE, env=variables
    ) as child:
        os.close(inner)
        if not is_terminal:
            os.close(outer)
            output, errors = child.communicate()
            return errors.decode(), output.decode()
        errors = b""
        try:
            while piece := os.read(outer, 65_536):
                errors += piece
        except OSError:  # how a terminal ends on Linux
            pass
        output, _ = child.communicate()
        os.close(outer)
        assert child.returncode == 0
    return errors.decode(), output.decode()


def test_a_terminal_shows_phases_with_their_share_and_bytes():
    """The phase, its share and the bytes, without color under NO_COLOR; the last output clears the line."""
    errors, output = _errors_of(["scan", IMAGE])
    assert "MiB" in errors
    assert errors.rstrip().endswith(("\x1b[2K", "\x1b[?25h"))
    assert "Scattered" in output
    bare, _ = _errors_of(["scan", IMAGE], NO_COLOR="1")
    assert "reading" in errors
    assert "reading" in bare
    assert "\x1b[3" not in bare


def test_pipes_and_quiet_and_dumb_terminals_get_nothing():
    """Scripts and logs get no lines, nor does a terminal that cannot show them."""
    assert _errors_of(["scan", IMAGE], is_terminal=False)[0] == ""
    assert _errors_of(["scan", "--quiet", IMAGE])[0] == ""
    assert _errors_of(["scan", IMAGE], TERM="dumb")[0] == ""


def test_what_is_quick_shows_nothing():
    """Work that ends before the delay shows no line, and the drawing library is not even loaded."""
    errors, output = _errors_of(["scan", IMAGE, "--json"], program=PATIENT)
    assert errors == ""
    assert output.endswith("False\n")


def test_a_share_is_told_where_it_is_known():
    """Decompression has a share; the amount of reading is unknown beforehand."""
    bar = running._new_bar(io.StringIO())
    shown = []
    for step in (Step("decompressing", 512, 1024), Step("reading", 2048)):
        running.draw(bar, step)
        shown.append([(task.description, task.percentage if task.total else None, task.fields) for task in bar.tasks])
    assert shown == [
        [("decompressing", 50.0, {"counted": "512 B of 1.00 KiB", "left": ""})],
        [("reading", None, {"counted": "2.00 KiB", "left": ""})],
    ]


def test_the_time_left_follows_the_pace():
    """A quarter in ten seconds, counted from the second update: half takes twenty, the last hundredth nothing."""
    bar = running._new_bar(io.StringIO())
    clock = [0.0]
    bar.get_time = lambda: clock[0]
    shown = []
    for seconds, done in ((0, 0), (10, 256), (20, 512), (39.6, 1014)):
        clock[0] = float(seconds)
        running.draw(bar, Step("reading disk.img", done, 1024))
        shown.append(bar.tasks[0].fields["left"])
    assert shown == ["", "", "20 s left", ""]

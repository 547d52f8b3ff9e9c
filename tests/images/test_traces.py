"""Predicted reads compared with those of Linux's drivers, recorded below them request by request."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import subprocess
import unicodedata
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace
from rich.console import Console

import layoutscope
from layoutscope.access.trace import AccessTrace
from layoutscope.report.json import result_json
from layoutscope.walk import Work, host_profile, random_records, trace
from layoutscope.walk.orders import ORDERS as WALK_ORDERS
from layoutscope.walk.orders import model_of
from layoutscope.walk.programs import least_written
from layoutscope.walk.score import bytes_by_owner, score
from layoutscope.zstd import zstd
from tests.layouts import file_id

# Cold reads of real programs through Linux's drivers, request by request.
#
# The traces of the aged volumes were recorded by linux-apfs-rw 0.3.0 and Linux 6.1's hfsplus, with coreutils 9.1, rsync
# 3.5.0, findutils 4.9.0, git 2.39.5 (its own files elsewhere, one thread) and tar 1.34. The other traces are recorded
# again where the lab is available.


TRACES = Path(__file__).parent / "traces"
RECORDED = Path(__file__).with_name("recorded")
PROGRAMS = {
    "du": "du -s .",
    "rsync": "rsync -an . /tmp/none/",
    "find": "find .",
    "ls": "ls -lR .",
    # With the null device as output it would read no data.
    "tar": ["sh", "-c", "tar cf - . | cat > /dev/null"],
}
ORDERS = {"du": "du", "rsync": "backup", "find": "find", "ls": "ls", "tar": "archive", "git": "git-status"}
READ_BY_TAR = {
    ("hfsplus", "c00"): (28_463, "dfa9c7deb3b012b91a28732cee5785c0"),
    ("hfsplus", "c20"): (39_101, "e4dccf575f23b26522e360b956364645"),
    ("apfs", "c00"): (27_112, "6436af6fb3e6f5d0b51066d88f7d79b4"),
    ("apfs", "c20"): (40_733, "72e88ab1832e29908c8c32549ff2d994"),
}
"""Number of recorded reads, and the beginning of the SHA-256 of their offsets and lengths: the traces are large."""
# This driver does not look up a file's data stream when it creates an inode.
HOST = host_profile("linux", apfs_looks_up_dstream=False)
ODD = """#!/usr/bin/python3
import os, random
os.chdir("/mnt")
r = random.Random(5)
os.mkdir("big")
order = list(range(COUNT)); r.shuffle(order)
for n in order:
    path = f"big/entry number {n:06}"
    if n % 240 == 0:
        os.mkdir(path); open(path + "/inner", "w").close()
    else:
        open(path, "w").close()
for d in ("a", "a-b", "a b", "a.c", "aa", "A2", "é", "e", "z"):
    os.mkdir(d)
    for n in range(300):
        open(f"{d}/{n}", "w").close()
        if n % 3 == 0: os.symlink(f"../big/entry {n}", f"{d}/link {n}")
        if n % 5 == 0: os.link(f"{d}/{n}", f"a/hard {d} {n}")
    for sub in ("sub-x", "sub", "sub x"):
        os.mkdir(f"{d}/{sub}"); open(f"{d}/{sub}/f", "w").close()
os.sync()
"""
"""Links, names whose order changes with a trailing slash, two-character letters, and a large directory."""


def volume_of(path):
    """Return the tables of an image's volume."""
    return next(layout for layout in layoutscope.read_layouts(path) if layout.facts.volume is not None)


def image_of(name):
    """Folder and file of an image."""
    suffix = "iso" if name.startswith("hybrid") else "img"
    return f"{'aged' if '000-c' in name else 'driver'}/{name}.{suffix}"


def requests_in(path):
    """Return offsets and lengths of a trace's reads."""
    return np.frombuffer(zstd.decompress(path.read_bytes()), np.uint64).reshape(-1, 2).astype(np.int64)


def places(reads):
    """Return offsets and lengths of a predicted trace."""
    return np.stack([reads.image_offset, reads.length_bytes], axis=1)


def predicted(layout, program):
    """Return offsets and lengths of the predicted reads."""
    return places(trace(layout, order=ORDERS[program], host=HOST))


@pytest.fixture(scope="module")
def volume(reference_image):
    """Return a function that reads the volume of an image once."""
    return cache(lambda name: volume_of(reference_image(image_of(name))))


@pytest.fixture(scope="module")
def recorded(reference_file):
    """Return a function from a trace's name to its reads: offsets and lengths."""

    def get(name):
        file = f"{name}.trace.zst"
        own = [folder / file for folder in (TRACES, RECORDED) if (folder / file).exists()]
        return requests_in(own[0] if own else reference_file(f"traces/{file}"))

    return get


SMALL = [f"{kind}-20000-{age}" for kind in ("hfsplus", "apfs") for age in ("c00", "c20")]
AGED = SMALL[1::2]
LARGE = [name.replace("20000", "200000") for name in SMALL]
FRAGMENTED = ["hfsplus-frag", "apfs-frag"]
CHECKED = ["hfsx-cs", "hfsplus-journaled-pop", "hfsplus-b512-n4096", "hfsplus-frag", *SMALL[:2]]
YOUNGER = "linux"
"""With linux-apfs-rw 0.3.20, which recorded the traces of the reference images."""
LISTINGS = [
    *((name, "stat", "fts", YOUNGER) for name in SMALL + FRAGMENTED),
    *((name, "names", "names", YOUNGER) for name in AGED),
    *((name, "copy", "copy", YOUNGER) for name in AGED + FRAGMENTED),
    *((name, "du", "du", HOST) for name in SMALL),
    # ls reads the same as rsync if no name has a character below the slash.
    *((name, "rsync", order, HOST) for name in SMALL for order in ("backup", "ls")),
    *((name, "find", "find", HOST) for name in SMALL),
    *((name, "git", "git-status", HOST) for name in AGED),
    *(("apm-hfsplus", kind, order, HOST) for kind, order in (("stat", "fts"), ("names", "names"), ("copy", "copy"))),
    *((name, "copy", "copy", HOST) for name in ("hybrid-hfsplus", "hfsplus-journaled-pop", "apfs-snap")),
    *((name, "fsck", "fsck", YOUNGER) for name in CHECKED),
    *(pytest.param(name, "stat", "fts", YOUNGER, marks=pytest.mark.slow) for name in LARGE),
]
"""Image, trace, order and host of recorded reads of everything.

Volumes of 20,000 files, fresh and after 20 cycles, files of hundreds of extents, an Apple partition map, a hybrid, a
journal, snapshots, binary names, blocks of 512 bytes.
"""


@pytest.mark.parametrize(("name", "kind", "order", "host"), LISTINGS)
def test_everything_is_read_as_it_was_recorded(volume, recorded, name, kind, order, host):
    """Request by request, with lengths: windows, extents, and the queue's order."""
    assert np.array_equal(recorded(f"{name}-{kind}"), places(trace(volume(name), order=order, host=host)))


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE[1::2])
def test_a_large_volume_is_listed_without_stat_as_it_was_recorded(volume, recorded, name):
    """At 200,000 files on 1 TiB."""
    assert np.array_equal(recorded(f"{name}-nostat"), places(trace(volume(name), work=Work(stat=False))))


@pytest.mark.parametrize("name", SMALL)
def test_orders_read_the_same_blocks_in_other_sequences(volume, name):
    """Find reads less than du, and tar all data; HFS+ lists names in the order in which rsync sorts these."""
    layout = volume(name)
    reads = {order: trace(layout, order=order, host=HOST).image_offset for order in ("du", "backup", "readdir-stat")}
    assert len({frozenset(offsets.tolist()) for offsets in reads.values()}) == 1
    assert not np.array_equal(reads["readdir-stat"], reads["du"])
    assert np.array_equal(reads["readdir-stat"], reads["backup"]) == name.startswith("hfsplus")
    assert set(predicted(layout, "find")[:, 0].tolist()) < set(reads["du"].tolist())
    archived = predicted(layout, "tar")
    digest = hashlib.sha256(archived.astype("<i8").tobytes()).hexdigest()
    assert (len(archived), digest[:32]) == READ_BY_TAR[name.partition("-")[0], name[-3:]]
    # ls reads all of a directory before its subdirectories, git in the byte order of whole paths.
    by_path, listed = predicted(layout, "git"), predicted(layout, "ls")
    assert not np.array_equal(by_path, listed)
    assert set(by_path[:, 0].tolist()) == set(listed[:, 0].tolist())


def printed(result):
    """Return the fields to show of a result."""
    console = Console(file=io.StringIO(), width=200)
    console.print(result)
    return console.file.getvalue()


def test_the_version_of_the_driver_is_found_by_trial(reference_image, reference_file):
    """0.3.0 looks up no data streams: reported for its traces, not for 0.3.20, nor if the property is given."""
    image = reference_image("aged/apfs-20000-c20.img")
    younger = reference_file("traces/apfs-20000-c20-stat.trace.zst")
    older = TRACES / "apfs-20000-c20-du.trace.zst"
    found = layoutscope.replay(older, against=image, drives="generic-7200", order="du")
    assert found.driver == "linux-apfs-rw 0.3.0 (apfs_looks_up_dstream=no)"
    assert (found.agreement.block_share, found.agreement.extra_share, found.agreement.pair_share) == (1, 0, 1)
    assert "Predicted as linux-apfs-rw 0.3.0 (apfs_looks_up_dstream=no) reads" in printed(found)
    assert json.loads(result_json(found))["driver"] == found.driver
    usual = layoutscope.replay(younger, against=image, drives="generic-7200", order="fts")
    assert (usual.driver, usual.agreement.pair_share) == ("", 1)
    assert "Predicted as" not in printed(usual)
    given = layoutscope.replay(
        older, against=image, drives="generic-7200", order="du", host_properties={"apfs_looks_up_dstream": "yes"}
    )
    assert given.driver == ""
    assert given.agreement.pair_share < 0.95


@pytest.mark.slow
@pytest.mark.parametrize("count", [12_000, 110_000])
@pytest.mark.parametrize("filesystem", ["hfsplus", "apfs"])
def test_large_directories_links_and_names(lab, tmp_path, filesystem, count):
    """Above 10,000 entries du uses inode order, above 100,000 in two parts; rsync reads link targets."""
    commands = {name: given.split() if isinstance(given, str) else given for name, given in PROGRAMS.items()}
    for name in (*PROGRAMS, "sh"):
        if shutil.which(name) is None:
            pytest.skip(f"{name} is not installed")
    image, fill = tmp_path / f"{filesystem}.img", tmp_path / "fill.py"
    fill.write_text(ODD.replace("COUNT", str(count)))
    size = ("--size", "2G") if filesystem == "apfs" else ("--template", "8G")
    lab("make", filesystem, "-o", str(image), "--files", "50", "--cycles", "0", "--seed", "3", *size)
    lab("run", str(image), "--", f"python3 {fill}")
    layout = volume_of(image)
    for program, command in commands.items():
        lab("trace", str(image), "-o", str(tmp_path / program), "exec", *command)
        assert np.array_equal(requests_in(tmp_path / f"{program}.trace.zst"), predicted(layout, program))


# Real programs and mounts on volumes of other ages, sizes and fills, made and traced here; skips without a lab.
#
# Nothing is stored: every run makes them again from the seeds in this file.
COMMANDS = {"du": "du -s .", "rsync": "rsync -an . /tmp/none/"}
AGES = {
    "hfsplus-cycle-3": ("--files", "20000", "--cycles", "3", "--seed", "31", "--template", "8G", "--order", "created"),
    "apfs-cycle-3": ("--files", "20000", "--cycles", "3", "--seed", "31", "--size", "8G", "--order", "created"),
    "hfsplus-cycle-12": ("--files", "30000", "--cycles", "12", "--seed", "12", "--template", "1T"),
    "apfs-cycle-12": (
        *("--files", "30000", "--cycles", "12", "--seed", "77", "--size", "100G"),
        *("--driver", "stock", "--mkfs", "-s"),
    ),
    "hfsplus-full": ("--files", "3000", "--cycles", "8", "--seed", "5", "--template", "512M"),
    "apfs-full": ("--files", "3000", "--cycles", "8", "--seed", "5", "--size", "350M"),
    "hfsplus-journaled": ("--files", "3000", "--cycles", "5", "--seed", "6", "--template", "512M-journaled"),
    "hfsplus-hfsx": ("--files", "4000", "--cycles", "7", "--seed", "77", "--template", "1G-hfsx"),
}
SIZES = {"hfsplus": ("--template", "8G"), "apfs": ("--size", "4G")}
FOLDERS = """#!/usr/bin/python3
import os, random
os.chdir("/mnt"); r = random.Random(7)
made = {}
for folder, count in (("below", 9990), ("above", 10050), ("far above", 14000), ("few", 40)):
    os.mkdir(folder)
    names = [f"{'x' * r.randrange(1, 40)}{k:05}" for k in range(count)]
    r.shuffle(names)
    for k, name in enumerate(names):
        path = f"{folder}/{name}"
        if k % 700 == 0:
            os.mkdir(path)
            for n in range(5): open(f"{path}/in {n}", "wb").write(bytes(100))
        elif k % 333 == 0:
            os.symlink(f"../few/{name}", path)
        else:
            with open(path, "wb") as file: file.write(bytes(r.choice((0, 10, 5000, 30000))))
    made[folder] = names
os.sync()
for cycle in range(4):
    for folder, names in made.items():
        for k in r.sample(range(len(names)), len(names) // 20):
            path = f"{folder}/{names[k]}"
            if os.path.isdir(path): continue
            os.unlink(path)
            with open(path + "~", "wb") as file: file.write(bytes(r.choice((0, 10, 5000, 30000))))
            os.rename(path + "~", path)
    os.sync()
"""
"""Folders below and above 10,000 entries, from which du uses inode order, aged."""
CRASH = """#!/usr/bin/python3
import os, subprocess
os.chdir("/mnt"); os.mkdir("crash")
for n in range(900):
    open(f"crash/{n}", "wb").write(bytes(n * 40))
    if n == 600: os.sync()
subprocess.run(["busybox", "poweroff", "-n", "-f"])
"""
"""The machine stops while files are written, some of them after the last commit."""


def meets(lab, image, folder):
    """Compare du, rsync and the preceding mounts with the prediction; return the volume."""
    layout = volume_of(image)
    for program, command in COMMANDS.items():
        lab("trace", str(image), "-o", str(folder / program), "exec", *command.split())
        real = requests_in(folder / f"{program}.trace.zst")
        assert len(real) > 100
        assert np.array_equal(real, predicted(layout, program))
        mounted = requests_in(folder / f"{program}.mount.trace.zst")
        reads = trace(layout, order="mount", host=HOST)
        assert np.array_equal(without_partition_scan(mounted), without_partition_scan(places(reads)))
    found = score(AccessTrace.from_reads(mounted[:, 0], mounted[:, 1]), reads, layout)
    assert (found.block_share, found.extra_share, found.pair_share) == (1, 0, 1)
    return layout


@pytest.fixture
def du_and_rsync():
    """Skip where du or rsync is not installed."""
    for name in ("du", "rsync"):
        if shutil.which(name) is None:
            pytest.skip(f"{name} is not installed")


@pytest.mark.slow
@pytest.mark.usefixtures("du_and_rsync")
@pytest.mark.parametrize("name", AGES)
def test_du_rsync_and_mounts_at_other_ages(lab, tmp_path, name):
    """After 3 and 12 cycles, full, journaled, binary names: every request in its place."""
    image = tmp_path / f"{name}.img"
    lab("make", name.split("-")[0], "-o", str(image), *AGES[name])
    meets(lab, image, tmp_path)


@pytest.mark.slow
@pytest.mark.usefixtures("du_and_rsync")
@pytest.mark.parametrize("filesystem", SIZES)
def test_aged_folders_on_both_sides_of_the_limit(lab, tmp_path, filesystem):
    """9,990, 10,050 and 14,000 entries, including folders, links and replaced files."""
    image, fill = tmp_path / f"{filesystem}.img", tmp_path / "fill.py"
    fill.write_text(FOLDERS)
    made = ("--files", "2000", "--cycles", "1", "--seed", "5")
    lab("make", filesystem, "-o", str(image), *made, *SIZES[filesystem])
    lab("run", str(image), "--", str(fill))
    layout = meets(lab, image, tmp_path)
    # Inode order and listing order read the same blocks in different sequences.
    by_number, as_listed = (trace(layout, order=order, host=HOST).image_offset for order in ("du", "fts"))
    assert set(by_number.tolist()) == set(as_listed.tolist())
    assert not np.array_equal(by_number, as_listed)


@pytest.mark.usefixtures("du_and_rsync")
@pytest.mark.slow
@pytest.mark.parametrize("filesystem", SIZES)
@pytest.mark.parametrize(("program", "order"), [("ls -lR .", "ls"), ("tar cf - . | cat", "archive")])
def test_a_second_pass_finds_all_in_memory(lab, tmp_path, filesystem, program, order):
    """A repeated pass reads the same as a single one, if everything fits in memory."""
    image = tmp_path / f"{filesystem}.img"
    made = ("--files", "600", "--cycles", "2", "--seed", "6")
    lab("make", filesystem, "-o", str(image), *made, *SIZES[filesystem])
    twice = f"{program} > /dev/null; {program} > /dev/null"
    lab("trace", str(image), "-o", str(tmp_path / "twice"), "exec", "sh", "-c", twice)
    layout = volume_of(image)
    reads = places(trace(layout, order=order, host=HOST, work=Work(passes=2)))
    assert np.array_equal(requests_in(tmp_path / "twice.trace.zst"), reads)
    assert len(trace(layout, order=order, host=HOST, work=Work(warm=True))) == 0
    small = host_profile(HOST, cache_bytes=1 << 16)
    assert len(trace(layout, order=order, host=small, work=Work(passes=2))) > len(reads)


@pytest.mark.usefixtures("du_and_rsync")
@pytest.mark.slow
@pytest.mark.parametrize("filesystem", SIZES)
def test_mount_after_a_crash(lab, tmp_path, filesystem):
    """Linux's drivers mount a crashed volume as any other: in the last consistent state."""
    image, fill = tmp_path / f"{filesystem}.img", tmp_path / "fill.py"
    fill.write_text(CRASH)
    made = ("--files", "600", "--cycles", "2", "--seed", "6")
    lab("make", filesystem, "-o", str(image), *made, *SIZES[filesystem])
    with pytest.raises(subprocess.CalledProcessError):
        lab("run", str(image), "--", str(fill))
    layout = meets(lab, image, tmp_path)
    if filesystem == "hfsplus":
        assert "unmounted" not in layout.facts.features
    else:
        names = set(layout.entries.filter(layout.entries["name"].is_in([str(n) for n in range(900)]))["name"])
        assert 600 <= len(names) < 900


# Chosen paths, files and records, and other properties of the recorded reads.
#
# ``recorded/`` holds what ``lab trace IMAGE …`` of ``../shared/lab`` recorded on reference images, below Linux 6.1's
# hfsplus and linux-apfs-rw 0.3.0. The ``git-status`` ones are of ``git --git-dir=ELSEWHERE --work-tree=/mnt status``
# (git 2.39) with every file in the index, ``core.preloadIndex`` off or, for ``-threads``, on: two threads and more.
ROOT_ID = 2
GIT = ["hfsplus-4k", "apfs-ci"]


@pytest.mark.parametrize("name", AGED)
def test_list_of_paths_reads_what_the_driver_read(volume, recorded, truth, name):
    """An lstat of every file in the order of git's index is predicted request by request."""
    wanted = truth(f"{name}-paths.list.zst").decode().splitlines()
    reads = trace(volume(name), order="paths", work=Work(paths=wanted))
    assert np.array_equal(recorded(f"{name}-paths"), places(reads))


@pytest.mark.parametrize(
    ("name", "kind", "path"),
    [
        ("hfsplus-frag", "read-seq", "2.bin"),
        ("apfs-frag", "read-seq", "2.bin"),
        ("apfs-frag", "read-seq-rewritten", "0.bin"),
    ],
)
def test_fragmented_file_is_read_as_the_driver_did(volume, recorded, name, kind, path):
    """A file of hundreds of extents, in and out of order on disk, is predicted request by request."""
    reads = trace(volume(name), order="read", work=Work(file_id=file_id(volume(name), "large", path)))
    assert np.array_equal(recorded(f"{name}-{kind}"), places(reads))


RANDOM = [
    ("hfsplus-frag", "2.bin", 2000, 16384, "read-random", YOUNGER),
    ("apfs-frag", "2.bin", 2000, 16384, "read-random", YOUNGER),
    ("apfs-frag", "0.bin", 100, 1_000_000, "read-long", HOST),
]


@pytest.mark.parametrize(("name", "path", "count", "size", "kind", "host"), RANDOM)
def test_random_records_are_read_as_the_driver_did(volume, recorded, truth, name, path, count, size, kind, host):
    """The kernel's read-ahead where it detects a stream, windows beyond the usual one, queues that fill up."""
    layout = volume(name)
    number = file_id(layout, "large", path)
    file_bytes = layout.entries.filter(layout.entries["file_id"] == number)["size_bytes"].item()
    records = random_records(file_bytes, count, size, seed=1)
    if kind == "read-random":
        lines = truth(f"{name}-{kind}.offsets.tsv.zst").decode().splitlines()
        assert records.tolist() == [int(line.split("\t")[1]) for line in lines]
    work = Work(file_id=number, records=records, record_bytes=size)
    reads = trace(layout, order="read", host=host, work=work)
    assert np.array_equal(recorded(f"{name}-{kind}"), places(reads))


@pytest.mark.parametrize("name", SMALL)
def test_leaves_in_key_order_are_no_prediction(volume, recorded, name):
    """A plain list of all leaves has over 97 % of the blocks but far fewer than 98 % of the pairs."""
    real = AccessTrace.from_reads(*recorded(f"{name}-stat").T)
    result = score(real, trace(volume(name), order="catalog"), volume(name))
    assert result.block_share > 0.97
    assert result.pair_share < 0.98


def test_score_names_the_trees_that_a_wrong_host_gets_wrong(volume, recorded):
    """Without the search for data-stream records only leaves of the fs tree are missed."""
    layout = volume("apfs-20000-c20")
    real = AccessTrace.from_reads(*recorded("apfs-20000-c20-stat").T)
    result = score(real, trace(layout, host=HOST), layout)
    assert result.pair_share < 1
    assert set(result.missed) <= {"fs leaf", "omap leaf"}


@pytest.mark.parametrize("name", AGED)
def test_nothing_that_the_mount_read_is_predicted(volume, recorded, name):
    """The blocks of the listing and of the mount are disjoint."""
    reads = set(trace(volume(name), order="copy").image_offset.tolist())
    assert not reads & set(recorded(f"{name}-copy.mount")[:, 0].tolist())


def index_of(layout):
    """List the content of git's index for a volume: files and symlinks, composed, by the bytes of their paths."""
    columns = ("parent_id", "file_id", "kind", "name")
    entries = [row for row in layout.entries.select(columns).rows() if not row[3].startswith("\0")]
    folders = {number: (parent, name) for parent, number, kind, name in entries if kind == "directory" and parent != 1}

    def path(parent, name):
        return name if parent == ROOT_ID else path(*folders[parent]) + "/" + name

    listed = [
        path(row[0], row[3]) for row in entries if row[2] in ("file", "symlink") and row[0] in {ROOT_ID, *folders}
    ]
    if layout.facts.filesystem == "hfsplus":
        listed = [unicodedata.normalize("NFC", name) for name in listed]
    return sorted(listed, key=str.encode)


def git_status(layout, host=HOST):
    """Return the reads of ``git status``: an lstat of each path, then a mostly cached listing of each directory."""
    looked_up = places(trace(layout, order="paths", host=host, work=Work(paths=index_of(layout))))
    listed = places(trace(layout, order="names", host=HOST))
    return np.concatenate([looked_up, listed[~np.isin(listed[:, 0], looked_up[:, 0])]])


@pytest.mark.parametrize("name", GIT)
def test_git_status_reads_what_the_driver_read(volume, recorded, name):
    """With one thread every request of git comes in its place."""
    assert git_status(volume(name)).tolist() == recorded(f"{name}-git-status").tolist()


def test_git_status_with_threads_reads_the_same_in_another_order(volume, recorded):
    """The order of four threads differs between runs: the requests are the predicted ones."""
    reads = git_status(volume("hfsplus-4k"), host_profile(HOST, threads=4))
    assert sorted(reads.tolist()) == sorted(recorded("hfsplus-4k-git-status-threads").tolist())


# Reads of checkers: Apple's fsck_hfs (627.40.1, built for Linux) and apfsck 0.2.1, recorded with strace.
#
# Reads of fsck_hfs are as recorded, with `-n -f`. For apfsck, which maps the image block by block, they are the first
# mapping of each block. All call their image clean.
APFS = ["apfs-ci", "apfs-empty", "apfs-normsens", "apfs-snap", "apfs-frag", "apfs-20000-c00", "apfs-20000-c20"]


@pytest.mark.slow
def test_fsck_hfs_reads_again_what_its_cache_let_go(volume, recorded):
    """A catalog six times as large as the cache: every leaf is read twice, once for the hierarchy."""
    name = "hfsplus-200000-c20"
    layout = volume(name)
    real, made = recorded(f"{name}-fsck"), places(trace(layout, order="fsck"))
    assert np.array_equal(np.sort(real[:, 0]), np.sort(made[:, 0]))
    following = [set(zip(each[:-1, 0].tolist(), each[1:, 0].tolist(), strict=True)) for each in (real, made)]
    assert len(following[0] & following[1]) > 0.999 * len(following[0])
    at_once = trace(layout, order="fsck", host=host_profile("linux", hfs_fsck_cache_blocks=65_536))
    assert len(at_once) == len(set(at_once.image_offset.tolist())) < 0.8 * len(real)


@pytest.mark.parametrize("name", APFS)
def test_apfsck_reads_what_is_predicted(volume, recorded, name):
    """Block for block, except the bitmap of the internal pool's ring, which apfsck reads before the others."""
    layout = volume(name)
    reads = trace(layout, order="fsck")
    real, made = recorded(f"{name}-fsck")[:, 0].tolist(), reads.image_offset.tolist()
    assert sorted(real) == sorted(made)
    kinds = [reads.trees[tree] for tree in reads.tree.tolist()]
    ring = [offset for offset, kind in zip(made, kinds, strict=True) if kind == "internal-pool-bitmap"]
    assert made[-len(ring) :] == ring
    first = real[-len(ring)]
    assert real == [*made[: -len(ring)], first, *(offset for offset in ring if offset != first)]


def test_fsck_apfs_reads_each_snapshot_again(volume):
    """Blocks that snapshots share are read for each of them, unless they are assumed to be cached."""
    layout = volume("apfs-snap")
    again = trace(layout, order="fsck", host="macos").image_offset.tolist()
    once = trace(layout, order="fsck", host=host_profile("macos", apfs_fsck_caches=True)).image_offset.tolist()
    assert set(again) == set(once)
    assert len(once) == len(set(once)) < len(again)
    assert set(trace(layout, order="fsck").image_offset.tolist()) < set(once)


def test_the_year_of_fsck_apfs_decides_the_order_alone(volume):
    """2017 begins with the tree, 2018 with extent references, later versions with snapshots; all read the same."""
    layout = volume("apfs-snap")
    begun, read = {}, []
    for year in (2017, 2018, 2019, 2025):
        reads = trace(layout, order="fsck", host=host_profile("macos", apfs_fsck_year=year))
        trees = [reads.trees[tree] for tree in reads.tree.tolist()]
        begun[year] = next(tree for tree in trees if tree in {"fs", "extentref", "snapmeta"})
        read.append((sorted(reads.image_offset.tolist()), trees))
    assert begun == {2017: "fs", 2018: "extentref", 2019: "snapmeta", 2025: "snapmeta"}
    assert all(offsets == read[0][0] for offsets, _ in read)
    assert read[2][1] == read[3][1]


def test_a_check_of_a_file_system_without_one_reads_every_node(volume):
    """Once, and nothing else."""
    from layoutscope.access.driver import check_by_nodes
    from layoutscope.walk.orders import model_of

    model = model_of(volume("hfsx-cs"), host_profile("linux"))
    reads = check_by_nodes(model.layout, model.nodes, model.entries)
    assert sorted(offset for each in reads for offset in each.image_offset.tolist()) == sorted(
        model.nodes.image_offset.tolist()
    )


# Reads of `rm -rf`: predicted request by request for Linux's drivers, mounted for writing.
#
# Recorded with coreutils 9.1 on copies of the images, with Linux 6.1's hfsplus and linux-apfs-rw 0.3.0. For APFS a few
# bitmaps are not predicted, because they depend on where the next block is allocated.
def deleted(layout, name=None):
    """Return the predicted reads for removing a directory of the root, or everything in the root."""
    inside = layout.entries.filter((layout.entries["parent_id"] == 2) & (layout.entries["name"] == (name or "")))
    start = inside["file_id"][0] if name else 2
    return trace(layout, order="delete", host=HOST, work=Work(start_directory_id=start))


@pytest.mark.parametrize(
    ("name", "directory"),
    [
        ("hfsplus-20000-c00", "d001"),
        ("hfsplus-20000-c20", "d000"),
        ("hfsplus-20000-c20", "d001"),
        ("hfsplus-20000-c20", None),
        ("hfsplus-frag", "large"),
    ],
)
def test_rm_reads_what_is_predicted(volume, recorded, name, directory):
    """Fresh and aged; siblings of leaves that lose all records; bitmap and overflow tree of fragmented files."""
    layout = volume(name)
    real = recorded(f"{name}-delete-{directory or 'all'}")
    assert np.array_equal(real, places(deleted(layout, directory)))


def test_each_page_of_the_bitmap_is_read_once(volume):
    """No pages are read except those with bits of freed blocks."""
    layout = volume("hfsplus-frag")
    reads = deleted(layout, "large")
    kinds = np.array(reads.trees)[reads.tree]
    bitmap = reads.image_offset[kinds == "allocation-file"]
    (file,) = layout.regions.filter(layout.regions["type"] == "allocation-file").iter_rows(named=True)
    inside = layout.entries.filter(layout.entries["kind"] == "directory").filter(
        layout.entries.filter(layout.entries["kind"] == "directory")["name"] == "large"
    )["file_id"][0]
    files = set(layout.entries.filter(layout.entries["parent_id"] == inside)["file_id"])
    pages = set()
    for row in layout.extents.filter(layout.extents["file_id"].is_in(files)).iter_rows(named=True):
        begin, end = row["image_offset"], row["image_offset"] + row["length_bytes"] - 1
        pages |= set(range(begin // 2**27, end // 2**27 + 1))
    assert sorted((bitmap - file["image_offset"]) // 4096) == sorted(pages)


def test_apfs_reads_all_that_is_predicted_and_a_few_bitmaps(volume, recorded):
    """Every node of every tree is in order; of 2,243 blocks the six that are not predicted are not nodes."""
    layout = volume("apfs-20000-c20")
    real = recorded("apfs-20000-c20-delete-d001")
    made = deleted(layout, "d001")
    missed = np.setdiff1d(real[:, 0], made.image_offset)
    kept = real[~np.isin(real[:, 0], missed)]
    assert np.array_equal(kept, places(made))
    assert (len(real), len(missed)) == (2243, 6)
    kinds = bytes_by_owner(missed, layout.container)
    assert kinds == {"spaceman-bitmap": 5, "internal-pool-bitmap": 1}
    # Listings use only some of the trees: here extents are looked up by their addresses, too.
    assert np.count_nonzero(np.array(made.trees)[made.tree] == "extentref") > 400


@pytest.mark.parametrize("name", ["hfsplus-20000-c20", "apfs-20000-c20"])
def test_what_a_removal_cannot_but_write(volume, name):
    """Leaves with names of the folder and others; if nothing is left, only pages of the bitmap."""
    layout = volume(name)
    model = model_of(layout, HOST)
    entries = layout.entries
    inside = entries.filter((entries["parent_id"] == 2) & (entries["name"] == "d001"))["file_id"][0]
    some, everything = least_written(model, inside), least_written(model, 2)
    size = layout.facts.block_size_bytes
    assert 0 < some.pieces <= some.written_bytes // size
    below = set(entries.filter(entries["parent_id"] == inside)["entry_node_row"])
    beside = set(entries.filter(entries["parent_id"] != inside)["entry_node_row"])
    assert some.pieces >= len(below & beside - {None})
    assert everything.pieces < some.pieces
    order = WALK_ORDERS["delete"]
    assert order.least_written is not None
    assert [each.name for each in WALK_ORDERS.values() if each.least_written] == ["delete"]


def test_what_is_written_is_told_of_removals_alone(reference_image):
    """A listing writes nothing."""
    image = reference_image("driver/hfsplus-frag.img")
    told = {
        order: printed(layoutscope.predict(image, drives="generic-7200", order=order)) for order in ("delete", "fts")
    }
    assert "Writes are not included in the times: at least" in told["delete"]
    assert "What it writes" not in told["fts"]


def test_an_extent_outside_of_the_volume_has_no_bits(volume):
    """Its file is looked up like the others, and no bitmap page is read for it."""
    layout = volume("hfsplus-frag")
    far = np.where(np.arange(len(layout.extents)) % 2, layout.extents["image_offset"], 2**50)
    damaged = layout.changed(extents=layout.extents.with_columns(image_offset=far))
    sound, less = (set(deleted(one, "large").image_offset.tolist()) for one in (layout, damaged))
    assert less <= sound


# Reads of a mount: predicted request by request for Linux's drivers, and by the published source for macOS.
#
# Linux 6.1 hfsplus, linux-apfs-rw 0.3.20 (the aged volumes) and 0.3.0 (the small ones), mounted read-only.
SMALL_MOUNTS = sorted(path.name.split(".")[0] for path in TRACES.glob("*.mount.trace.zst"))
MOUNTS = [
    *((name, f"{name}-stat.mount") for name in SMALL),
    *(pytest.param(name, f"{name}-stat.mount", marks=pytest.mark.slow) for name in LARGE),
    *((name, f"{name}.mount") for name in SMALL_MOUNTS),
]


def without_partition_scan(real):
    """Drop the kernel's reads of block 0 before any driver runs: once or twice, and once more by APFS."""
    first = int(np.flatnonzero(real[:, 0] > 0)[0])
    return real[first:]


@pytest.mark.parametrize(("name", "kind"), MOUNTS)
def test_mounts_read_what_is_predicted(volume, recorded, name, kind):
    """Blocks of 512 bytes, binary names, a journal, snapshots, volumes without a file or with 20,000, fresh and aged.

    Large ones have a descriptor area of 280 blocks: one checkpoint is mounted and all are read.
    """
    real, reads = recorded(kind), places(trace(volume(name), order="mount"))
    assert np.array_equal(without_partition_scan(real), without_partition_scan(reads))
    # The partition scan reads the first page; the APFS driver reads it again.
    if name in SMALL:
        assert (reads[:2, 0] == 0).tolist() == [True, name.startswith("apfs")]
        assert real[0].tolist() == reads[0].tolist() == [0, 4096]


def test_macos_reads_the_bitmap_and_the_journal(volume):
    """In requests of 1 MiB; the journal's info block and header in sectors."""
    layout = volume("hfsplus-journaled-pop")
    reads = trace(layout, order="mount", host="macos")
    by_kind = {}
    for offset, length, tree in zip(reads.image_offset.tolist(), reads.length_bytes.tolist(), reads.tree, strict=True):
        by_kind.setdefault(reads.trees[tree], []).append((offset, length))
    regions = {row["type"]: row for row in layout.regions.iter_rows(named=True)}
    assert by_kind["journal-info-block"] == [(regions["journal-info-block"]["image_offset"], 4096)]
    assert by_kind["journal"] == [(regions["journal"]["image_offset"], 4096)]
    bits = layout.facts.details["allocation blocks"]
    assert sum(length for _, length in by_kind["allocation-file"]) == -(-bits // (8 * 4096)) * 4096
    assert by_kind["allocation-file"][0][0] == regions["allocation-file"]["image_offset"]
    order = [reads.trees[tree] for tree in reads.tree.tolist()]
    assert order.index("journal") < order.index("extents-overflow") < order.index("allocation-file")


def test_macos_replays_what_is_pending(volume):
    """The ring is read from its start and continues after its header: once to verify it, once to apply it."""
    layout = volume("hfsplus-journaled-pop")
    ring = layout.regions.filter(layout.regions["type"] == "journal").row(0, named=True)
    start, size = ring["image_offset"], ring["length_bytes"]
    pending = {"journal pending bytes": 5000, "journal pending from byte": size - 1000}
    dirty = layout.changed(facts=replace(layout.facts, details={**layout.facts.details, **pending}))
    clean, replayed = (places(trace(one, order="mount", host="macos")).tolist() for one in (layout, dirty))
    assert [read for read in replayed if read not in clean] == [[start + size - 1000, 1000], [start + 512, 4000]] * 2


def test_macos_reads_the_space_manager_and_may_trim(volume):
    """Trimming reads the chunk-info blocks and bitmaps in addition to the reads of the mount."""
    layout = volume("apfs-ci")
    with_trim = trace(layout, order="mount", host="macos")
    without = trace(layout, order="mount", host=host_profile("macos", apfs_mount_trims=False))
    assert places(with_trim)[: len(without)].tolist() == places(without).tolist()
    kinds = {with_trim.trees[tree] for tree in with_trim.tree[len(without) :].tolist()}
    assert kinds == {"spaceman-cib", "spaceman-bitmap"}
    linux = set(trace(layout, order="mount").image_offset.tolist())
    assert linux < set(without.image_offset.tolist())
    ephemeral = layout.container.regions
    ephemeral = ephemeral.filter((ephemeral["type"] == "checkpoint-data") & (ephemeral["owner"] != "unused"))
    assert set(ephemeral["image_offset"]) <= set(without.image_offset.tolist())


def test_macos_checks_what_was_not_unmounted(volume):
    """Without a journal fsck_hfs runs before the mount; Linux, and macOS with a journal, mount without a check."""
    layout = volume("hfsplus-4k")
    journaled = volume("hfsplus-journaled-pop")

    def dirty(one):
        rest = tuple(word for word in one.facts.features if word != "unmounted")
        return one.changed(facts=replace(one.facts, features=rest))

    def reads(one, host, order="mount"):
        return places(trace(one, order=order, host=host)).tolist()

    assert "unmounted" in layout.facts.features
    assert reads(dirty(layout), "macos") == reads(layout, "macos", "fsck") + reads(layout, "macos")
    assert reads(dirty(layout), "linux") == reads(layout, "linux")
    assert reads(dirty(journaled), "macos") == reads(journaled, "macos")

"""Volumes with unusual content, filled and listed by real drivers during the tests; skips without a lab."""

from __future__ import annotations

import io
import unicodedata
from collections import defaultdict

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import layoutscope
from fixtures.hfsplus.plan import File, Tree, VolumePlan
from fixtures.hfsplus.writer import write
from layoutscope.cli.application import app
from layoutscope.walk import AccessTrace, Work, host_profile, trace
from tests.layouts import FIND_LETTERS, file_id
from tests.validation.remedies import Aged, Lab, proven, volume_of


def ran(*arguments):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return result.stdout_bytes


# Rare kinds of volumes, filled by real drivers: the reader's listing and extents equal the driver's.


HEAD = """#!/usr/bin/python3
import os, random, unicodedata
os.chdir("/mnt")
r = random.Random(7)
def put(path, size=0):
    with open(path, "wb", buffering=0) as file:
        while size > 0:
            size -= file.write(bytes(min(size, 1 << 20)))
"""
LINKS = """
os.makedirs("a/b"); os.makedirs("c")
for n in range(200):
    put(f"a/{n}", n * 100)
    for k in range(n % 5):
        os.link(f"a/{n}", f"{'c' if k % 2 else 'a/b'}/{n}-{k}")
    if n % 7 == 0 and n % 5:
        os.unlink(f"a/{n}")
for n in range(100):
    put(f"c/x{n}")
    os.setxattr(f"c/x{n}", "NAMESPACE.one", bytes(n * 7 + 1))
    os.setxattr(f"c/x{n}", "NAMESPACE.two", b"z" * (n % 40 + 1))
    if n % 3 == 0:
        os.removexattr(f"c/x{n}", "NAMESPACE.two")
files = [open(f"a/piece{i}", "wb", buffering=0) for i in range(6)]
for i in range(120):
    for file in files:
        file.write(bytes(4096 * (1 + i % 3)))
        if i % 7 == 0:
            os.fsync(file.fileno())
os.unlink("a/piece1"); os.unlink("a/piece4")
os.sync()
put("c/in the gaps", 2 << 20)
os.rename("a/b", "c/moved"); os.rename("c/moved", "a/back again")
"""
CHURN = """
names = []
for d in range(10):
    os.mkdir(f"d{d}")
for step in range(4000):
    what = r.random()
    here = f"d{r.randrange(10)}/number {step} " + "x" * r.randrange(60)
    place = r.randrange(len(names)) if names else 0
    if step < 1000 or what < .2:
        put(here, r.choice((0, 10, 5000, 30000))); names.append(here)
    elif what < .5:
        os.unlink(names.pop(place))
    elif what < .9:
        os.rename(names[place], here); names[place] = here
    else:
        other = names.pop(place)
        os.rename(other, names[r.randrange(len(names))])
"""
LARGE = """
os.mkdir("big"); os.mkdir("links")
for n in range(12000):
    put(f"big/entry with a fairly long name number {n * 7919 % 12000:05}")
for n in range(0, 12000, 3):
    if n % 50 == 0:
        os.link(f"big/entry with a fairly long name number {n:05}", f"links/{n}")
    os.unlink(f"big/entry with a fairly long name number {n:05}")
"""
NAMES = """
words = "Әліпби Өнер Ғылым Қазақ Ңе Ұлт Үй Һау Монгол Өөрөө Үүр Җан Ңәрсә Хөрмәт Һәм Шүрәле Ӏ Ӂ Ԁ ǶǷ Ͱ ᲐᲑ Ⴧ ა".split()
os.mkdir("names")
for word in words:
    for name in {word, word.lower(), word.upper(), word.capitalize()}:
        for form in ("NFC", "NFD"):
            try:
                with open("names/" + unicodedata.normalize(form, name), "xb") as file:
                    file.write(bytes(len(name)))
            except FileExistsError:
                pass
for number, word in enumerate(words):
    os.makedirs("deep/" + "/".join(words[:number % 9 + 1]) + f"/{number}")
"""  # noqa: RUF001  (letters that look alike are what it is about)
FULL = """
os.mkdir("x")
for size in (3000000, 300000, 65536, 4096, 1):
    for number in range(30000):
        try:
            put(f"x/{size}-{number}", size)
        except OSError:
            break
"""
SPECIAL = """
import socket
for path in ("links/a/b", "links/c", "names", "special", "gone", "empty", "hash"):
    os.makedirs(path)
for number in range(40):
    put(f"links/a/{number}", number * 700)
    for copy in range(number % 4):
        os.link(f"links/a/{number}", f"links/{'c' if copy else 'a/b'}/{number}-{copy}")
    if number % 7 == 0:
        os.unlink(f"links/a/{number}")
os.symlink("../links/a/1", "special/symlink")
os.symlink("x" * 1000, "special/long")
os.mkfifo("special/fifo")
os.mknod("special/char", 0o20600, os.makedev(5, 44))
os.mknod("special/block", 0o60600, os.makedev(8, 17))
socket.socket(socket.AF_UNIX).bind("special/socket")
path = "deep"
for level in range(60):
    os.mkdir(path)
    put(f"{path}/file", level * 100)
    path += f"/{level}"
names = ["e\\u0301", "\\u00fc", "\\ud55c\\uae00", "\\U0001f600", "a" * 255, " b", "c ", "d:e", "=f", "\\u212b"]
names += ["back\\\\slash", "\\ufb01", "\\u1e9b\\u0323", "\\x1b[31m", "\\u0130", "\\u03c3\\u03c2", "[red]"]
for number, name in enumerate(names):
    put(f"names/{name}", number)
for number in range(2000):
    put(f"gone/a-name-that-fills-leaves-which-will-be-empty-{number:05}")
os.sync()
for number in range(2000):
    if number % 500:
        os.unlink(f"gone/a-name-that-fills-leaves-which-will-be-empty-{number:05}")
for name in ("54e0c1e43c953dc-1322", "d8d55199b052eb-3683"):
    put(f"hash/{name}")
for number in range(40):
    put(f"names/attribute{number}")
    os.setxattr(f"names/attribute{number}", "osx.com.example", bytes(10 * number + 1))
"""
"""Content that ordinary files lack; the two names in ``hash`` have one hash on APFS, and different lengths."""
KINDS = {
    "hfsx-links": (("hfsplus", "--template", "1G-hfsx"), LINKS),
    "hfsplus-churn": (("hfsplus", "--template", "512M"), CHURN),
    "hfsplus-large-folder": (("hfsplus", "--template", "512M"), LARGE),
    "hfsplus-names": (("hfsplus", "--template", "512M"), NAMES),
    "hfsx-names": (("hfsplus", "--template", "1G-hfsx"), NAMES),
    "hfsplus-full": (("hfsplus", "--template", "512M"), FULL),
    "hfsplus-blocks-of-512": (512, LINKS),
    "hfsplus-blocks-of-64k": (65536, LINKS + CHURN),
    "apfs-links": (("apfs", "--size", "300M"), LINKS),
    "apfs-churn": (("apfs", "--size", "300M"), CHURN),
    "apfs-names": (("apfs", "--size", "200M"), NAMES),
    "apfs-case-sensitive-names": (("apfs", "--size", "200M", "--mkfs", "-s"), NAMES),
    "apfs-full": (("apfs", "--size", "160M"), FULL),
    "hfsplus-special": (("hfsplus", "--template", "512M"), SPECIAL),
    "hfsx-special": (("hfsplus", "--template", "1G-hfsx"), SPECIAL),
    "apfs-special": (("apfs", "--size", "400M"), SPECIAL),
    "apfs-case-sensitive-special": (("apfs", "--size", "400M", "--mkfs", "-s", "--driver", "stock"), SPECIAL),
}
"""How each volume is made (by the lab, or by our own writer with a block size), and the work done on it."""
OF_SPECIAL = [name for name in KINDS if name.endswith("special")]
AGED, FRESH = ("--files", "400", "--cycles", "2", "--seed", "31"), ("--files", "50", "--cycles", "0", "--seed", "3")
"""What is on a volume before the work: of the special ones, leaves that are partly empty."""
LIST = (
    "$LAB_TOOLS/walk find /mnt > /share/find.tsv; cd /mnt; "
    "find . -xdev -type f -print0 | xargs -0 $LAB_TOOLS/walk map > /share/map.tsv"
)


@pytest.fixture(scope="module", params=KINDS)
def witness(request, lab, tmp_path_factory):
    """Return the image, and the driver's lines of entries and extents."""
    made, script = KINDS[request.param]
    folder = tmp_path_factory.mktemp(request.param)
    folder.chmod(0o777)
    image, fill, options = folder / "disk.img", folder / "fill.py", ()
    if isinstance(made, int):
        plan = VolumePlan(
            root=(File("seed"),),
            block_size=made,
            total_blocks=(96 << 20) // made,
            catalog=Tree(max(4096, min(made, 32768))),
        )
        write(plan, image)
        options = ("--mount-options", "force")
    else:
        lab("make", *made, "-o", str(image), *(AGED if request.param in OF_SPECIAL else FRESH))
    fill.write_text(HEAD + script.replace("NAMESPACE", "osx" if "apfs" in request.param else "user"))
    lab("run", str(image), *options, "--", f"python3 {fill}")
    lab("run", str(image), "--ro", "--share", str(folder), "--", LIST)
    lines = [
        [line.split("\t") for line in (folder / name).read_text("utf-8", "surrogateescape").splitlines()]
        for name in ("find.tsv", "map.tsv")
    ]
    return image, *lines


def is_special(image):
    """Whether a volume was made for one of `OF_SPECIAL`, by the name of its folder."""
    return "special" in image.parent.name


def plain(path):
    return unicodedata.normalize("NFD", path.removeprefix("./"))


def listed(layout):
    """Return inode, kind and links of each path, and the size of files."""
    rows = [row for row in layout.entries.iter_rows(named=True) if row["parent_id"] != 1]
    folders = {row["file_id"]: row for row in rows if row["kind"] == "directory"}

    def path(row):
        before = folders.get(row["parent_id"])
        return row["name"] if before is None else f"{path(before)}/{row['name']}"

    paths = {plain(path(row)): row for row in rows}
    return {
        name: (
            row["file_id"],
            FIND_LETTERS[row["kind"]],
            row["link_count"],
            row["size_bytes"] if row["kind"] == "file" else 0,
        )
        for name, row in paths.items()
        if not name.startswith(("\0", ".HFS+ Private Directory Data\r"))
    }


def joined(extents, end):
    """Join extents that are contiguous in the file and on the disk; those after the file's end do not count."""
    found = []
    for start, place, length in sorted(extents):
        length = min(length, end - start)  # noqa: PLW2901  (a driver allocates more than it shows)
        if length <= 0:
            continue
        if found and found[-1][0] + found[-1][2] == start and found[-1][1] + found[-1][2] == place:
            found[-1] = (*found[-1][:2], found[-1][2] + length)
        else:
            found.append((start, place, length))
    return found


@pytest.mark.slow
def test_entries_and_extents_are_those_of_the_driver(witness):
    """Paths, inodes, kinds, links, sizes, and the place of each byte of each file."""
    image, lines, mapped = witness
    layout = volume_of(image)
    expected = {
        plain(row[5]): (int(row[0]), row[1], int(row[2]), int(row[3]) if row[1] == "f" else 0)
        for row in lines
        if row[5:]
    }
    expected.pop("", None)
    assert len(expected) > (700 if is_special(image) else 0)
    assert listed(layout) == expected
    unit = min(layout.facts.block_size_bytes, 4096)
    data = layout.extents.filter(fork="data").drop_nulls("image_offset")
    ours, theirs = defaultdict(list), defaultdict(list)
    for row in data.iter_rows(named=True):
        ours[row["file_id"]].append((row["logical_offset"], row["image_offset"], row["length_bytes"]))
    for *path, start, place, length in mapped:
        theirs[plain("\t".join(path))].append((int(start), int(place), int(length)))
    for path, (number, kind, _, size) in expected.items():
        end = -(-size // unit) * unit
        if kind == "f":
            assert (path, joined(ours[number], end)) == (path, joined(theirs[path], end))
    assert sum(map(len, theirs.values())) > 10


@pytest.mark.slow
def test_what_a_driver_wrote_is_sound(witness):
    """There are no findings, all of it is read, and both decoders read it alike.

    Linux's driver leaves what was in unused nodes of a catalog, also where the volume promises that these are zeros;
    the root folder of the lab's empty HFSX volume does not count its folders, as ``fsck_hfs`` says, too.
    """
    image, *_ = witness
    result = layoutscope.scan(image, drives=())
    assert (result.exit_code, result.coverage) == (0, 1)
    checked = layoutscope.check(image)
    told = {item.code for each in checked.volumes for item in each.findings if item.level != "info"}
    may_be = result.parts[0].layout.facts.filesystem == "hfsplus" and not is_special(image)
    assert told <= ({"node-not-zeroed", "flags-invalid"} if may_be else set())
    assert [item for item in layoutscope.verify(image).tables if item.differences] == []


@pytest.mark.slow
@pytest.mark.parametrize("witness", OF_SPECIAL, indirect=True)
@pytest.mark.parametrize("order", ["stat", "names", "copy"])
def test_trace_is_that_of_the_driver(lab, witness, order):
    """The CSV of the command line equals the driver's reads, in order."""
    image, *_ = witness
    there = real(lab, image, order)
    words = [] if order == "stat" else ["--order", order]
    # The lab's APFS driver is 0.3.0, which does not look data streams up.
    words += ["--host-property", "apfs_looks_up_dstream=no"] if "apfs" in image.parent.name else []
    table = pl.read_csv(io.BytesIO(ran("trace", image, *words)))
    assert table["image_offset"].to_list() == there.image_offset.tolist()
    assert table["length_bytes"].to_list() == there.length_bytes.tolist()


# Predictions compared with drivers at run time, on images without stored traces; skips without a lab.


HOST = host_profile("linux", apfs_looks_up_dstream=False)
"""The lab's APFS driver is 0.3.0, which does not look data streams up."""
TRACED_FILL = """#!/usr/bin/python3
import os
os.chdir("/mnt")
os.makedirs("big/zz-dir"); os.makedirs("attributes"); os.makedirs("deep/a/b/c")
for number in range(2500):
    open(f"big/\\u00e9{number:04}\\ud55c\\uae00", "w").close()
for number in range(200):
    os.link(f"big/\\u00e9{number:04}\\ud55c\\uae00", f"deep/a/link{number}")
    os.mkdir(f"attributes/{number:03}")
    for size in (3000, 1500):
        try:
            os.setxattr(f"attributes/{number:03}", f"osx.{size}", b"x" * size)
        except OSError:
            pass
    for name in range(12):
        open(f"attributes/{number:03}/a-name-of-some-length-{name}", "w").close()
with open("deep/a/b/c/data", "wb") as file:
    file.write(os.urandom(1500000))
os.mkdir("sparse")
for number in range(40):
    with open(f"sparse/{number}", "wb", buffering=0) as file:
        for step in range(60):
            file.seek((step * 7919 + number * 31) % 400 * 4096)
            file.write(os.urandom(4096 * (1 + step % 3)))
os.sync()
"""
"""More names than a buffer holds, decomposed on disk; hard links; attributes between a directory and its entries;
files with holes (zeros on HFS+), written out of order."""


@pytest.fixture(scope="module", params=["hfsplus", "apfs"])
def traced_volume(request, lab, tmp_path_factory):
    """Return the path of a filled volume and its layout."""
    folder = tmp_path_factory.mktemp(request.param)
    image, script = folder / f"{request.param}.img", folder / "fill.py"
    size = ("--template", "512M") if request.param == "hfsplus" else ("--size", "512M")
    lab("make", request.param, "-o", str(image), *size, "--files", "300", "--cycles", "0", "--seed", "5")
    script.write_text(TRACED_FILL)
    lab("run", str(image), "--", f"python3 {script}")
    return image, volume_of(image)


def real(lab, image, *workload) -> AccessTrace:
    """Record the cold reads of a workload."""
    return Lab(lab, image.parent).trace(image, *workload)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["stat", "nostat", "names", "copy"])
def test_driver_reads_what_is_predicted(lab, traced_volume, kind):
    """Every request of a listing of large directories, hard links and attributes is predicted, in order."""
    image, layout = traced_volume
    there = real(lab, image, kind)
    here = trace(
        layout, order=kind if kind in ("names", "copy") else "fts", host=HOST, work=Work(stat=kind != "nostat")
    )
    assert len(there) > 100
    assert np.array_equal(there.image_offset, here.image_offset)
    assert np.array_equal(there.length_bytes, here.length_bytes)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["stat", "names"])
def test_walk_from_a_directory_reads_what_is_predicted(lab, traced_volume, kind):
    """The path to the directory and everything below it, nothing else."""
    image, layout = traced_volume
    there = real(lab, image, kind, "/deep/a")
    order = "names" if kind == "names" else "fts"
    here = trace(layout, order=order, host=HOST, work=Work(start_directory_id=file_id(layout, "deep", "a")))
    assert np.array_equal(there.image_offset, here.image_offset)


@pytest.mark.slow
def test_records_longer_than_the_window_are_read_as_predicted(lab, traced_volume):
    """Random records of 200,000 bytes: the read-ahead windows grow with them."""
    image, layout = traced_volume
    there = real(lab, image, "read", "deep/a/b/c/data", "random:6:200000:9")
    lines = (image.parent / "traced.offsets.tsv").read_text().splitlines()
    records = np.array([int(line.split("\t")[1]) for line in lines])
    number = file_id(layout, "deep", "a", "b", "c", "data")
    here = trace(layout, order="read", host=HOST, work=Work(file_id=number, records=records, record_bytes=200000))
    assert np.array_equal(there.image_offset, here.image_offset)
    assert np.array_equal(there.length_bytes, here.length_bytes)


@pytest.mark.slow
def test_names_that_the_kernel_keeps_are_not_searched_again(lab, traced_volume):
    """With pages dropped, but not names, a second pass reads only what listings need, and no inodes.

    On HFS+ it reads nothing: the driver caches its nodes until the volume is unmounted.
    """
    image, layout = traced_volume
    walk = "$LAB_TOOLS/walk stat /mnt"
    twice = real(lab, image, "exec", f"{walk}; echo 1 > /proc/sys/vm/drop_caches; {walk}").image_offset
    first = trace(layout, host=HOST).image_offset
    assert np.array_equal(twice[: len(first)], first)
    again = set(twice[len(first) :].tolist())
    if layout.facts.filesystem == "hfsplus":
        assert not again
        return
    listed = set(trace(layout, host=host_profile(HOST, cache_bytes=4096), work=Work(warm=True)).image_offset.tolist())
    assert 10 < len(again) < len(first) / 2
    assert again <= listed


READ_ALIKE = ("names-only", "stat-by-inode", "stat-all-by-inode", "remembered-walk", "block-copy", "files-by-place")


@pytest.mark.slow
@pytest.mark.parametrize("filesystem", ["apfs", "hfsplus"])
def test_remedies_do_what_the_plan_says(lab, tmp_path, filesystem):
    """Aged volumes of 2,000 files: the reads equal the plan's block for block; a copy saves as much."""
    aged = Aged(Lab(lab, tmp_path), filesystem, 2_000)
    for name in READ_ALIKE:
        (row,) = proven(aged, name)
        assert (row["blocks"], row["extra"], row["pairs"]) == (1.0, 0.0, 1.0), name
        assert row["reads"] == row["predicted_reads"], name
    (row,) = proven(aged, "copied-in-walk-order")
    on_disk = next(found for found in row["times"] if found["drive"] == "generic-5400-2.5")
    # On such a small HFS+ catalog hundredths of a second matter.
    little = 0.05 * on_disk["before_s"]
    assert on_disk["low_s"] - little <= on_disk["saved_s"] <= on_disk["high_s"] + little

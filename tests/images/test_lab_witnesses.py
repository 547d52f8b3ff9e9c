"""Rare kinds of volumes, filled by real drivers: the reader's listing and extents equal the driver's."""

from __future__ import annotations

import unicodedata
from collections import defaultdict

import pytest

import layoutscope
from fixtures.hfsplus.plan import File, Tree, VolumePlan
from fixtures.hfsplus.writer import write

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
}
"""How each volume is made (by the lab, or by our own writer with a block size), and the work done on it."""

LIST = (
    "$LAB_TOOLS/walk find /mnt > /share/find.tsv; cd /mnt; "
    "find . -xdev -type f -print0 | xargs -0 $LAB_TOOLS/walk map > /share/map.tsv"
)
LETTERS = {"directory": "d", "file": "f", "symlink": "l"}


@pytest.fixture(scope="module", params=KINDS)
def volume(request, lab, tmp_path_factory):
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
        lab("make", *made, "-o", str(image), "--files", "50", "--cycles", "0", "--seed", "3")
    fill.write_text(HEAD + script.replace("NAMESPACE", "osx" if "apfs" in request.param else "user"))
    lab("run", str(image), *options, "--", f"python3 {fill}")
    lab("run", str(image), "--ro", "--share", str(folder), "--", LIST)
    lines = [
        [line.split("\t") for line in (folder / name).read_text("utf-8", "surrogateescape").splitlines()]
        for name in ("find.tsv", "map.tsv")
    ]
    return image, *lines


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
            LETTERS[row["kind"]],
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
def test_entries_and_extents_are_those_of_the_driver(volume):
    """Paths, inodes, kinds, links, sizes, and the place of each byte of each file."""
    image, lines, mapped = volume
    result = layoutscope.scan(image, drives=())
    layout = next(item.layout for item in result.parts if item.layout.facts.volume is not None)
    expected = {
        plain(row[5]): (int(row[0]), row[1], int(row[2]), int(row[3]) if row[1] == "f" else 0)
        for row in lines
        if row[5:]
    }
    expected.pop("", None)
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
def test_what_a_driver_wrote_is_sound(volume):
    """There are no findings, all of it is read, and both decoders read it alike.

    Linux's driver leaves what was in unused nodes of a catalog, also where the volume promises that these are zeros;
    the root folder of the lab's empty HFSX volume does not count its folders, as ``fsck_hfs`` says, too.
    """
    image, *_ = volume
    result = layoutscope.scan(image, drives=())
    assert (result.exit_code, result.coverage) == (0, 1)
    checked = layoutscope.check(image)
    told = {item.code for each in checked.volumes for item in each.findings if item.level != "info"}
    assert told <= (
        {"node-not-zeroed", "flags-invalid"} if result.parts[0].layout.facts.filesystem == "hfsplus" else set()
    )
    assert [item for item in layoutscope.verify(image).tables if item.differences] == []

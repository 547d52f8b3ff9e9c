"""``list`` compared with the listings of the drivers that mounted the same volumes, and with ``fls -r``."""

from __future__ import annotations

import re
import subprocess
import unicodedata

import pytest

import layoutscope
from tests.layouts import FIND_LETTERS

LISTINGS = {
    **{
        name: (f"driver/{name}.img", {})
        for name in (
            *("apfs-ci", "apfs-frag", "apfs-normsens", "apfs-snap"),
            *("hfsplus-4k", "hfsplus-b512-n4096", "hfsplus-frag", "hfsplus-journaled-pop", "hfsx-cs"),
        )
    },
    "apfs-snap.snap1": ("driver/apfs-snap.img", {"snapshot": "snap1"}),
    "apfs-snap.snap2": ("driver/apfs-snap.img", {"snapshot": "snap2"}),
    "part-apfs": ("driver/gpt-both.img", {"volume": "2"}),
    "part-hfsplus": ("driver/gpt-both.img", {"volume": "1"}),
}

SLEUTHKIT = (
    *("dissect_case_sensitive_beta", "dissect_jhfs_converted", "goapfsv2_hfs-basic", "hdimac_apfs-c"),
    *("hdimac_hfsx_j", "hfsinspect_MBR", "hfsinspect_hfsj", "offsite_source_2snaps"),
    *("plaso_spotlight10.13", "ronin_apfs_content", "slate_20121008", "sparkle_apfs_lzma_aux"),
    *("apfs-empty", "apm-hfsplus", "hfsplus-empty-plain", "hybrid-hfsplus"),
    *("apfs-20000-c00", "apfs-20000-c20", "hfsplus-20000-c00", "hfsplus-20000-c20"),
    *(pytest.param(f"{filesystem}-200000-c20", marks=pytest.mark.slow) for filesystem in ("apfs", "hfsplus")),
)
"""Images that sleuthkit 4.11 lists; it cannot open the encrypted one of macOS."""

COMPRESSED_APFS = {"dissect_case_sensitive_beta": 2, "dissect_jhfs_converted": 6, "ronin_apfs_content": 1}
"""Compressed files of an image. On APFS fls shows the empty data stream of the inode, on HFS+ the size of the contents
(as stat does, and ``list``)."""

PLAIN_KEYS = "dissect_case_sensitive_beta"
"""fls takes plain directory keys for hashed ones, and loses the first two bytes of each name."""

LOST_LINKS = {"apm-hfsplus": ("/links/", "/unicode/")}
"""Folders with hard links made by the Linux driver, whose contents fls loses."""

OWN_FILES = re.compile(r"/(\$\w+File|\^{4}HFS\+ Private Data(/.*)?|\.HFS\+ Private Directory Data\^)")
"""Files of HFS+ itself, which fls shows as files."""


@pytest.mark.parametrize("name", LISTINGS)
def test_a_list_equals_the_drivers_listing(name, reference_image, truth):
    """Every path with its inode number, kind and size; the APFS driver shows symbolic links as empty."""
    image, options = LISTINGS[name]
    rows = layoutscope.list(reference_image(image), **options)
    found = rows.part(slice(None))
    columns = (found[column] for column in ("path", "file_id", "kind", "size_bytes"))
    listed = {
        unicodedata.normalize("NFD", path): (number, FIND_LETTERS[kind], size if kind == "file" else None)
        for path, number, kind, size in zip(*columns, strict=True)
    }
    expected = {}
    for line in truth(f"{name}.find.tsv.zst").decode("utf-8", "surrogateescape").split("\n")[:-1]:
        number, kind, _, size, _, path = line.split("\t")
        shown = unicodedata.normalize("NFD", f"/{path}")
        expected[shown] = (int(number), kind, int(size) if kind == "f" else None)
    assert listed == expected
    assert len(rows) == len(expected)


@pytest.mark.parametrize("name", ["apfs-20000-c20", "hfsplus-20000-c20"])
def test_a_list_holds_the_paths_that_were_looked_up(name, reference_image, truth):
    """The paths were given to the driver in random order, from its own listing."""
    rows = layoutscope.list(reference_image(f"aged/{name}.img"))
    listed = set(rows.part(slice(None))["path"])
    wanted = truth(f"{name}-paths.list.zst").decode().splitlines()
    assert len(wanted) > 1000
    assert {f"/{path.lstrip('./')}" for path in wanted} <= listed


@pytest.mark.parametrize("name", SLEUTHKIT)
def test_a_list_equals_that_of_sleuthkit(name, shared, reference_image, peer):
    """Every path with its inode number, kind, size and times, on macOS volumes and on aged ones."""
    packed = next((shared / "images").glob(f"[ad]*/{name}.*.zst"))
    kind = packed.name.removeprefix(name).split(".")[1]
    image = reference_image(f"{packed.parent.name}/{name}.{kind}")
    with layoutscope.open(image) as session:
        (facts,) = (layout.facts for layout in session.layouts if layout.facts.volume is not None)
        found = layoutscope.list(session).part(slice(None))
    expected = _listed_by_sleuthkit(image, facts, peer)
    listed, compressed = {}, 0
    for path, number, kind, size, changed, made in zip(
        *(found[name] for name in ("path", "file_id", "kind", "size_bytes", "modify_time", "create_time")), strict=True
    ):
        shown = _shown_by_sleuthkit(path, loses_two_bytes=name == PLAIN_KEYS)
        if path == "/" or shown.startswith(LOST_LINKS.get(name, "//")):
            continue
        key, row = (shown, number), [FIND_LETTERS[kind].replace("f", "r"), size if kind == "file" else None]
        if kind == "file" and size and key in expected and expected[key][1] == 0:
            compressed += 1
            row[1] = 0
        assert key not in listed
        listed[key] = (*row, *(int(time.timestamp()) if time else 0 for time in (changed, made)))
    assert listed == expected
    assert compressed == COMPRESSED_APFS.get(name, 0)


def _listed_by_sleuthkit(image, facts, peer):
    """List a volume with fls: kind, size and times by path and number."""
    at = ("-o", str(facts.image_offset // 512))
    if facts.filesystem == "apfs":
        told = subprocess.run([peer("pstat"), *at, image], capture_output=True, check=True).stdout
        words = ("-P", "apfs", "-B", re.search(rb"APSB Block Number: (\d+)", told)[1].decode())
    else:
        words = ("-f", "hfs")
    command = [peer("fls"), "-r", "-p", "-m", "/", *words, *at, image]
    text = subprocess.run(command, capture_output=True, check=True).stdout.decode("utf-8", "surrogateescape")
    rows = {}
    for line in text.split("\n")[:-1]:
        _, path, number, mode, _, _, size, _, changed, _, made = line.split("|")
        path = path.partition(" -> ")[0]
        if facts.filesystem == "apfs" or not OWN_FILES.fullmatch(path):
            kind = mode[2]
            key = unicodedata.normalize("NFD", path), int(number.partition("-")[0])
            assert key not in rows
            rows[key] = kind, int(size) if kind == "r" else None, int(changed), int(made)
    return rows


def _shown_by_sleuthkit(path, *, loses_two_bytes):
    """Spell a path as fls does, with a circumflex for each control character."""
    parts = path.split("/")
    if loses_two_bytes:
        parts = [part.encode()[2:].decode("utf-8", "surrogateescape") for part in parts]
    return unicodedata.normalize("NFD", "".join("^" if ord(c) < 32 else c for c in "/".join(parts)))

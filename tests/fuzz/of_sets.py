"""Images of several files, one of them changed: bundles, split and witness images, tracks, Fusion sets."""

from __future__ import annotations

import os
import plistlib
import tempfile
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path

from fixtures.apfs.scenarios import SCENARIOS
from fixtures.apfs.writer import write
from fixtures.hfsplus.writer import render
from fixtures.wrappers import disc, expert_witness, parallels, parallels_description
from tests.fuzz.base import Base, base_of
from tests.fuzz.of_apfs import _pages, base_of_pages
from tests.fuzz.of_partitions import PLANS

_BAND = 32768
SEGMENTS = "disk.E01", "disk.E02", "disk.E03"


@cache
def disk() -> bytes:
    """Return the small disk that bundles and split images hold."""
    data = bytes(render(PLANS["mbr"])[0].to_bytearray())
    return data.ljust(-(-len(data) // 4096) * 4096, b"\0")


@cache
def folder() -> Path:
    """Write the sound files once."""
    root = Path(tempfile.mkdtemp(prefix="fuzz-sets-"))
    bundle = root / "disk.sparsebundle"
    (bundle / "bands").mkdir(parents=True)
    facts = {"band-size": _BAND, "size": len(disk()), "diskimage-bundle-type": "com.apple.diskimage.sparsebundle"}
    (bundle / "Info.plist").write_bytes(plistlib.dumps(facts))
    (bundle / "token").write_bytes(b"")
    for number in range(-(-len(disk()) // _BAND)):
        (bundle / "bands" / f"{number:x}").write_bytes(disk()[number * _BAND : (number + 1) * _BAND])
    half = len(disk()) // 1024 * 512
    (root / "disk.001").write_bytes(disk()[:half])
    (root / "disk.002").write_bytes(disk()[half:])
    for number, data in enumerate(expert_witness(disk(), per_segment=2), 1):
        (root / f"disk.E{number:02}").write_bytes(data)
    parts = [(0, half // 512, ["a.hds"]), (half // 512, len(disk()) // 512, ["b.hds"])]
    (root / "DiskDescriptor.xml").write_text(parallels_description(parts))
    (root / "a.hds").write_bytes(parallels(disk()[:half], 4096))
    (root / "b.hds").write_bytes(disk()[half:])
    (root / "disc.cue").write_text('FILE "disc.bin" BINARY\n  TRACK 01 MODE1/2352\n    INDEX 01 00:00:00\n')
    (root / "disc.bin").write_bytes(disc(disk()))
    write(SCENARIOS["fusion"], root / "main.img", root / "second.img")
    return root


def bases() -> tuple[Base, ...]:
    """Return the files of all sets."""
    root = folder()
    plist = plistlib.loads((root / "disk.sparsebundle" / "Info.plist").read_bytes())
    return (
        base_of("bundle Info.plist", plistlib.dumps(plist), is_text=True),
        base_of("bundle Info.plist in binary", plistlib.dumps(plist, fmt=plistlib.FMT_BINARY), is_text=True),
        base_of("bundle token", b"\0" * 64),
        base_of("bundle bands/0", disk()[:_BAND], ranges=tuple((at, 512) for at in range(0, _BAND, 512))),
        base_of("bundle names", b"\n".join(b"%x" % number for number in range(8)), is_text=True),
        _part(root / "disk.001"),
        _part(root / "disk.002"),
        *(_witness(root / name) for name in SEGMENTS),
        base_of("folder DiskDescriptor.xml", (root / "DiskDescriptor.xml").read_bytes(), is_text=True),
        base_of("folder a.hds", (root / "a.hds").read_bytes(), spots=tuple((at, 4) for at in range(0, 512, 4))),
        base_of("cue disc.cue", (root / "disc.cue").read_bytes(), is_text=True),
        *(_device(root / name) for name in ("main.img", "second.img")),
    )


def _part(path: Path) -> Base:
    data = path.read_bytes()
    ranges = tuple((at, min(512, len(data) - at)) for at in range(0, len(data), 512) if any(data[at : at + 512]))
    return base_of(f"split {path.name}", data, ranges=ranges)


def _witness(path: Path) -> Base:
    data = path.read_bytes()
    spots = [(at, 4) for at in range(0, min(1300, len(data) - 4), 4)]
    spots += [(at, 4) for at in range(max(0, len(data) - 600), len(data) - 4, 4)]
    return base_of(f"witness {path.name}", data, spots=tuple(spots))


def _device(path: Path) -> Base:
    return replace(base_of_pages(f"fusion {path.name}", path.stat().st_size, _pages(path)))


def run(path: Path, base: Base) -> int:
    """Scan a set with one file changed."""
    from layoutscope import scan

    kind, _, name = base.name.partition(" ")
    case = path.parent / "set"
    if kind == "fusion":
        pair = [path if each == name else folder() / each for each in ("main.img", "second.img")]
        return scan(pair[0], second=pair[1], drives=()).exit_code
    if kind == "split":
        _link(case, {each: path if each == name else folder() / each for each in ("disk.001", "disk.002")})
        return scan(case / "disk.001", drives=()).exit_code
    if kind == "witness":
        _link(case, {each: path if each == name else folder() / each for each in SEGMENTS})
        return scan(case / "disk.E01", drives=()).exit_code
    if kind in ("folder", "cue"):
        names = ("disc.cue", "disc.bin") if kind == "cue" else ("DiskDescriptor.xml", "a.hds", "b.hds")
        _link(case, {each: path if each == name else folder() / each for each in names})
        return scan(case / "disc.cue" if kind == "cue" else case, drives=()).exit_code
    sound = folder() / "disk.sparsebundle"
    bundle = case / "disk.sparsebundle"
    bands = {each.name: each for each in (sound / "bands").iterdir()}
    names = os.fsdecode(path.read_bytes()).split("\n") if name == "names" else list(bands)
    chosen = path if name == "bands/0" else sound / "bands" / "0"
    _link(bundle / "bands", {each: bands.get(each, sound / "token") for each in names}, chosen)
    _link(bundle, {
        "Info.plist": path if name.startswith("Info.plist") else sound / "Info.plist",
        "token": path if name == "token" else sound / "token",
    })  # fmt: skip
    return scan(bundle, drives=()).exit_code


def _link(target: Path, files: dict[str, Path], first: Path | None = None) -> None:
    """Fill a folder with links to files; names that the system rejects are left out."""
    target.mkdir(parents=True, exist_ok=True)
    for each in target.iterdir():
        if each.is_symlink():
            each.unlink()
    for name, file in files.items():
        with suppress(OSError, ValueError):
            if "/" not in name:
                (target / name).symlink_to(first if first is not None and name == "0" else file)

"""Containers of images: formats that need no library, those of other programs, and images of several files."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import plistlib
import shutil
import subprocess
import tempfile
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from fixtures.apfs.scenarios import SCENARIOS
from fixtures.apfs.writer import write
from fixtures.asif import Plan, asif
from fixtures.hfsplus.writer import render
from fixtures.wrappers import (
    apple_single,
    disc,
    expert_witness,
    im4p,
    mac_binary,
    parallels,
    parallels_description,
    sparse_image,
    vdi,
)
from layoutscope.zstd import zstd
from tests.fuzz.base import Base, base_of
from tests.fuzz.of_apfs import _pages, base_of_pages
from tests.fuzz.of_partitions import PLANS
from tests.unit.image.containers.test_udif import ADC, BZIP2, IGNORED, LZMA, PLAIN, ZEROS, ZLIB, udif

# Files around images: Apple's and other disk image formats that need no library, and compressed files.


def containers_bases() -> tuple[Base, ...]:
    """Wrap a small sound image in every format."""
    disk = bytes(render(PLANS["mbr"])[0].to_bytearray())
    disk += bytes(-len(disk) % 512)
    piece = 64 * 512
    parts = [disk[at : at + piece] for at in range(0, len(disk), piece)]
    ways = (PLAIN, ADC, ZLIB, BZIP2, LZMA)
    dmg = udif([(ZEROS if not any(part) else ways[place % len(ways)], part) for place, part in enumerate(parts)])
    return (
        _base("dmg", dmg),
        _base("dmg-tail", udif([(ZLIB, disk), (IGNORED, bytes(512))])),
        _base("asif", asif(Plan(disk, partial=frozenset(range(0, 99, 3))))),
        _base("asif-large", asif(Plan(disk, more_sectors=200_000, with_metadata=False))),
        _base("dmg-inside", udif([(ZLIB, disk)]) + bytes(700)),
        _base("sparse-image", sparse_image(disk, 4096, reverse=True)),
        _base("sparse-image-tables", sparse_image(disk + b"\x01" * 600_000, 512)),
        _base("parallels", parallels(disk, 4096)),
        _base("vdi", vdi(disk, 4096)),
        _base("e01", expert_witness(disk, per_table=3)[0]),
        _base("e01-plain", expert_witness(disk, packed=False, small=True)[0]),
        _base("mac-binary", mac_binary(disk)),
        _base("apple-single", apple_single(disk)),
        _base("im4p", im4p(disk)),
        _base("disc", disc(disk)),
        _base("gzip", gzip.compress(disk, mtime=0)),
        _base("bzip2", bz2.compress(disk)),
        _base("xz", lzma.compress(disk)),
        _base("zstd", zstd.compress(disk)),
    )


def _base(name: str, data: bytes) -> Base:
    tail = max(0, len(data) - 2048)
    spots = [(at, 4) for at in range(0, min(64, len(data) - 4), 4)]
    if name.startswith("dmg"):
        spots += [(at, 8) for at in range(len(data) - 512, len(data) - 8, 4)]
        spots += [(at, 1) for at in range(tail, len(data) - 512)]
    if name.startswith("asif"):
        spots += [(at, 8) for at in range(512, 1056, 8)] + [(at, 8) for at in _words(data)]
    if name.startswith(("sparse", "parallels", "vdi", "e01")):
        heads = [at for at in range(0, len(data), 512) if any(data[at : at + 512])]
        spots += [(at, 4) for at in range(0, min(1024, len(data)) - 4, 4)]
        spots += [(at + place, 4) for at in heads[:64] for place in range(0, 64, 4) if at + place + 4 <= len(data)]
    if name.startswith("e01"):
        spots += [(at + place, 8) for at in _sections(data) for place in range(0, 112, 4) if at + place + 8 < len(data)]
    ranges = tuple((at, min(512, len(data) - at)) for at in range(0, len(data), 512))
    return base_of(name, data, spots=tuple(spots), ranges=ranges)


def _sections(data: bytes) -> list[int]:
    """Find the section headers of an Expert Witness image."""
    return [data.find(name.ljust(16, b"\0")) for name in (b"volume", b"sectors", b"table", b"table2", b"done")]


def _words(data: bytes) -> list[int]:
    """Find references to chunks: words that hold only a state and a small number."""
    words = np.frombuffer(data[: len(data) // 8 * 8], ">u8")
    return (8 * np.flatnonzero((words > 0) & (words & np.uint64(2**62 - 1) < len(data) // 32768))).tolist()


def run_containers(path: Path, base: Base) -> int:  # noqa: ARG001
    """Scan the wrapped image."""
    from layoutscope import scan

    return scan(path, drives=()).exit_code


# Containers written by other programs.


_QEMU = {"qcow2": [], "vhdx": [], "vpc": [], "vmdk": []}


@cache
def foreign_bases() -> tuple[Base, ...]:
    """Wrap a small sound image with the installed programs; none without them."""
    folder = Path(tempfile.mkdtemp(prefix="fuzz-foreign-"))
    disk = folder / "disk.img"
    data = bytes(render(PLANS["mbr"])[0].to_bytearray())
    disk.write_bytes(data.ljust(-(-len(data) // 4096) * 4096, b"\0"))
    made = []
    if shutil.which("qemu-img"):
        for form in _QEMU:
            subprocess.run(["qemu-img", "convert", "-f", "raw", "-O", form, disk, folder / form], check=True)
            made.append(folder / form)
    if shutil.which("ewfacquire"):
        command = ["ewfacquire", "-u", "-q", "-c", "fast", "-t", folder / "ewf", disk]
        subprocess.run(command, check=True, capture_output=True)
        made.append((folder / "ewf.E01").rename(folder / "ewf"))
    return tuple(_foreign_base(path) for path in made)


def _foreign_base(path: Path) -> Base:
    """Mutate likely structure starts: every 512 bytes, and all of the first and last bytes."""
    data = path.read_bytes()
    heads = [at for at in range(0, len(data), 512) if any(data[at : at + 512])]
    spots = [
        (at, 4) for start in (0, max(0, len(data) - 512)) for at in range(start, min(start + 512, len(data)) - 4, 4)
    ]
    spots += [(at + place, width) for at in heads[:64] for place, width in ((0, 8), (8, 8), (16, 4), (24, 8))]
    ranges = tuple((at, min(512, len(data) - at)) for at in heads)
    return base_of(path.name, data, spots=tuple(spots), ranges=ranges)


def run_foreign(path: Path, base: Base) -> int:  # noqa: ARG001
    """Scan the container with a sweep, which asks it for its stored areas."""
    from layoutscope import scan

    return scan(path, drives=(), sweep=True).exit_code


# Images of several files, one of them changed: bundles, split and witness images, tracks, Fusion sets.


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


def sets_bases() -> tuple[Base, ...]:
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


def run_sets(path: Path, base: Base) -> int:
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

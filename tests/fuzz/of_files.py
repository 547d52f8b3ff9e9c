"""Files that are read with an image or in place of one: captures, lists, kits, maps, traces, profiles, secrets."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import plistlib
import shutil
import struct
import tarfile
import tempfile
from dataclasses import replace
from functools import cache
from importlib.resources import files as package_files
from pathlib import Path
from typing import Any, Final

import numpy as np

from fixtures.apfs.scenarios import ENCRYPTED, PASSWORD, container
from fixtures.apfs.writer import write
from fixtures.hfsplus.plan import Partitioning
from fixtures.hfsplus.writer import render
from tests.fuzz.base import Base, base_of
from tests.fuzz.of_apfs import apfs_bases
from tests.fuzz.of_hfsplus import PLANS as HFSPLUS_PLANS
from tests.fuzz.of_hfsplus import hfsplus_bases
from tests.unit.drive.test_sectormap import PROFILE, ROWS, packed


@cache
def disk() -> bytes:
    """Return a small disk with a boot record and one volume."""
    plan = replace(HFSPLUS_PLANS["deep"], partitioning=Partitioning("mbr", start_bytes=63 * 512))
    data = bytes(render(plan)[0].to_bytearray())
    return data.ljust(-(-len(data) // 4096) * 4096, b"\0")


# Captures: the manifest as text, and each table as bytes with a corrected digest.


@cache
def capture() -> Path:
    """Save a small scan."""
    from layoutscope import scan
    from layoutscope.api.save import save

    folder = Path(tempfile.mkdtemp(prefix="fuzz-capture-"))
    image = folder / "disk.img"
    image.write_bytes(render(HFSPLUS_PLANS["everything"])[0].to_bytearray())
    save(scan(image, drives=()), folder / "sound.lscope")
    return folder / "sound.lscope"


def captures_bases() -> tuple[Base, ...]:
    """Return the files of a capture."""
    manifest = capture() / "manifest.json"
    tables = sorted((capture() / "0").glob("*.parquet"))
    return (
        base_of("manifest.json", manifest.read_bytes(), is_text=True),
        *(_capture_table(path) for path in tables),
    )


def _capture_table(path: Path) -> Base:
    data = path.read_bytes()
    ranges = tuple((at, min(64, len(data) - at)) for at in range(0, len(data), 64))
    return base_of(f"0/{path.name}", data, ranges=ranges)


def run_captures(path: Path, base: Base) -> int:
    """Scan a capture with one file changed."""
    from layoutscope import scan

    folder = path.parent / "case.lscope"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(capture(), folder)
    shutil.copyfile(path, folder / base.name)
    if base.name.startswith("0/"):
        manifest = json.loads((folder / "manifest.json").read_text())
        table = Path(base.name).stem
        manifest["volumes"][0]["sha256"][table] = hashlib.sha256(path.read_bytes()).hexdigest()
        (folder / "manifest.json").write_text(json.dumps(manifest))
    return scan(folder, drives=()).exit_code


# Trace files in every format, served by a drive model.


_CSV = b"device,image_offset,length_bytes,cause,think_us\n" + b"".join(
    b"0,%d,4096,node,%d\n" % (at * 8192 % 999_424, at) for at in range(40)
)
_FIO = b"fio version 2 iolog\n/dev/sda add\n/dev/sda open\n" + b"".join(
    b"/dev/sda read %d 4096\n" % (at * 12288) for at in range(20)
)
_BLKPARSE = b"".join(
    b"  8,0    3 %8d     0.%09d   697  D   R %d + 8 [kjournald]\n" % (at, at * 1000, at * 64) for at in range(20)
)
_FS_USAGE = b"".join(
    b"09:00:%02d.%06d    RdMeta   D=0x%08x  B=0x1000   /dev/disk1  0.000123 W  find.1\n" % (at, at, at * 16)
    for at in range(20)
)
_CORE_STORAGE = b"".join(
    b"23:59:%02d.%06d      RdChunkCS     D=0x%08x  B=0x1000   /dev/disk0s2   0.000123 W find.1\n"
    % (at + 40, at, at * 16)
    for at in range(20)
)
_IOSNOOP = b"STIME TIME UID PID D BLOCK SIZE COMM PATHNAME\n" + b"".join(
    b"%d %d 0 77 R %d 4096 find ??/a b\n" % (at * 9000, at * 9000 + 5000, at * 64) for at in range(20)
)
_BIOSNOOP = b"TIME(s)     COMM           PID    DISK    T SECTOR     BYTES  LAT(ms)\n" + b"".join(
    b"%d.004046 find %d sda R %d 4096 4.10\n" % (at, at, at * 64) for at in range(20)
)


def traces_bases() -> tuple[Base, ...]:
    """Return a trace in each format."""
    texts = {"csv": _CSV, "fio": _FIO, "blkparse": _BLKPARSE, "fs_usage": _FS_USAGE}
    texts |= {"iosnoop": _IOSNOOP, "biosnoop": _BIOSNOOP}
    pairs = b"".join(struct.pack("<QQ", at * 8192, 4096) for at in range(40))
    return (
        *(base_of(name, text, is_text=True) for name, text in texts.items()),
        base_of("fs_usage", _CORE_STORAGE, is_text=True),
        base_of("pairs", pairs, spots=tuple((at, 8) for at in range(0, len(pairs), 8))),
    )


def run_traces(path: Path, base: Base) -> int:
    """Read and serve a trace."""
    from layoutscope import replay

    replay(path, drives=("generic-7200", "sata-ssd"), form=base.name)
    return 0


# Lists given with an image: paths to visit, offsets to read.


_PATHS = b"/\n/folder 000\n/folder 001/file 0001\nfile\n//\n/../..\n/nothing/here\n"
_OFFSETS = b"0\n1,4096\n2 8192\n3;12288\n100\n"


def lists_bases() -> tuple[Base, ...]:
    """Return one list of each kind."""
    return base_of("paths", _PATHS, is_text=True), base_of("offsets", _OFFSETS, is_text=True)


def run_lists(path: Path, base: Base) -> int:
    """Visit or read the items of the list."""
    from layoutscope import predict
    from layoutscope.cli.parameters import read_lines, read_offsets
    from layoutscope.errors import UsageError

    workload: dict[str, Any] = {"order": "paths", "paths": read_lines(path)}
    if base.name == "offsets":
        workload = {"order": "read", "file": _file(), "offsets": read_offsets(path)}
    try:
        predict(capture(), drives=("generic-7200",), workload=workload)
    except UsageError:
        return 0 if path.read_bytes() == base.whole() else 1
    return 0


def _file() -> str:
    from layoutscope import open as open_session

    with open_session(capture()) as session:
        layout = session.volumes[1]
    files = layout.entries.filter(kind="file", parent_id=2)
    return f"/{files['name'][0]}"


# Archives of measurements from a Mac: the tar itself as bytes, and each file in it as text.


_TEXTS = {
    "kit.txt": b"kit = 1\nvolume = blanked\ndevice = disk4s2\ncontainer = disk5\nphysical = disk4\n",
    "steps.tsv": b"step\tstatus\tseconds\tnote\ncalibrate\t-\t0\tno perl\nwalk-find\t0\t3\t\n",
    "sw_vers.txt": b"ProductName:\t\tmacOS\nProductVersion:\t\t14.5\nBuildVersion:\t\t23F79\n",
    "sysctl.txt": b"hw.memsize: 17179869184\nhw.model: MacBookPro18,3\nkern.maxvnodes: 263168\n",
    "volume.plist": plistlib.dumps({"DeviceBlockSize": 4096}),
    "physical.plist": plistlib.dumps({"MediaName": "Disk", "SolidState": False}),
    "walk-find.fs_usage.txt": _FS_USAGE,
    "walk-find.time.txt": b"real 3.00\nuser 0.10\nsys 0.40\n",
    "walk-find.count.txt": b"    4198\n",
}


@cache
def files() -> dict[str, bytes]:
    """Return the files of a kit, with a capture."""
    folder = capture()
    saved = {f"metadata.lscope/{each.relative_to(folder).as_posix()}": each.read_bytes()
             for each in folder.rglob("*") if each.is_file()}  # fmt: skip
    return saved | _TEXTS


def _packed(content: dict[str, bytes]) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as made:
        for name, data in content.items():
            member = tarfile.TarInfo(f"kit/{name}")
            member.size = len(data)
            made.addfile(member, io.BytesIO(data))
    return target.getvalue()


def kits_bases() -> tuple[Base, ...]:
    """Return the archive, whose headers are changed, and each text."""
    whole = _packed(files())
    heads = tuple((at, 512) for at in range(0, len(whole), 512) if whole[at + 257 : at + 262] == b"ustar")
    return (base_of("tar", whole, ranges=heads), *(base_of(name, data, is_text=True) for name, data in _TEXTS.items()))


def run_kits(path: Path, base: Base) -> int:
    """Compare predictions with a kit."""
    from layoutscope.api.validate import validate
    from layoutscope.errors import UsageError

    data = path.read_bytes()
    target = path.parent / "kit.tar"
    target.write_bytes(data if base.name == "tar" else _packed(files() | {base.name: data}))
    try:
        validate(target, drive="generic-7200")
    except UsageError:
        return 0 if data == base.whole() else 1
    return 0


# GNU ddrescue map files next to an image.


_MAP = b"""# Mapfile. Created by GNU ddrescue version 1.27
# current_pos  current_status  current_pass
0x00010000     ?               1
#      pos        size  status
0x00000000  0x00008000  +
0x00008000  0x00000200  -
0x00008200  0x00007E00  +
0x00010000  0x00010000  *
0x00020000  0x00010000  /
0x00030000  0x00010000  ?
"""


@cache
def image() -> Path:
    """Write the image that the maps describe."""
    path = Path(tempfile.mkdtemp(prefix="fuzz-map-")) / "disk.img"
    path.write_bytes(disk())
    return path


def maps_bases() -> tuple[Base, ...]:
    """Return one map with every status."""
    return (base_of("map", _MAP, is_text=True),)


def run_maps(path: Path, base: Base) -> int:
    """Scan with the map; hidden areas are damage, so the sound map is handled separately."""
    from layoutscope import scan

    code = scan(image(), drives=(), ddrescue_map=path).exit_code
    return 0 if path.read_bytes() == base.whole() and code == 3 else code


# Drive profiles: every profile of the package, mutated, then read and used.


def profiles_bases() -> tuple[Base, ...]:
    """Return the profiles that need no other file."""
    folder = package_files("layoutscope.drive") / "profiles"
    found = {item.name: item.read_bytes() for item in folder.iterdir() if item.name.endswith(".toml")}
    return tuple(
        base_of(name, data, is_text=True) for name, data in sorted(found.items())
        if b"map" not in data.split(b"[", 1)[-1] and b"member" not in data
    )  # fmt: skip


def run_profiles(path: Path, base: Base) -> int:  # noqa: ARG001
    """Load a profile and serve a few reads."""
    from layoutscope.access.trace import AccessTrace
    from layoutscope.drive import load_profile, service

    profile = load_profile(path)
    offsets = np.array([0, 4096, 1 << 20, 1 << 30, 0], np.int64)
    service(AccessTrace.from_reads(offsets, np.full(5, 4096, np.int64)), profile)
    return 0


# Logs of timed reads that profiles are fitted to: those of a disk and of flash.


@cache
def timings_bases() -> tuple[Base, ...]:
    """Time reads of two drive models with a simulated clock; no profile is fitted, which would take longer."""
    from unittest.mock import patch

    from layoutscope.drive import load_profile
    from layoutscope.drive.calibration import fitting
    from layoutscope.drive.calibration.plan import Calibration
    from tests.unit.drive.fakes import FakeDrive
    from tests.unit.drive.lesser import without_map
    from tests.unit.drive.toys import flash

    walk = [(k * 40_960, 4096) for k in range(50)]
    plans = {
        "disk": Calibration(FakeDrive(without_map(load_profile("cheetah9lp")))),
        "flash": Calibration(FakeDrive(flash())),
    }
    with patch.object(fitting, "judge_log"):
        for plan in plans.values():
            fitting.calibrate(plan, "mine", walk)
    return tuple(base_of(name, plan.log.text().encode(), is_text=True) for name, plan in plans.items())


def run_timings(path: Path, base: Base) -> int:
    """Fit a profile to a log."""
    from layoutscope.api.drives import fit_log
    from layoutscope.errors import UsageError

    try:
        fit_log(path, "mine")
    except UsageError:
        return 0 if path.read_bytes() == base.whole() else 1
    return 0


# Files next to an image or given with it: secrets, measurements, sector maps, cached images.


_FIO_REPORT = {
    "global options": {"bs": "4k"},
    "jobs": [
        {"jobname": "random", "job options": {"rw": "randread", "iodepth": "1"},
         "read": {"clat_ns": {"mean": 11e6, "percentile": {"50.000000": 12_000_000}}, "bw": 300, "bw_bytes": 307_200}},
        {"jobname": "sequential", "job options": {"rw": "read", "bs": "1m"},
         "read": {"clat_ns": {"percentile": {"50.000000": 5_000_000}}, "bw": 180_000, "bw_bytes": 184_320_000}},
    ],
}  # fmt: skip
_SET = """name = "set"
kind = "stripe"
members = ["generic-7200", "member.toml"]
[figures]
chunk_bytes = { value = 16384, kind = "assumed", source = "test" }
"""


@cache
def locked() -> Path:
    """Write the image that the secrets unlock."""
    path = Path(tempfile.mkdtemp(prefix="fuzz-locked-")) / "locked.img"
    write(container(ENCRYPTED, block_count=16384), path)
    return path


def beside_bases() -> tuple[Base, ...]:
    """Return one file of each kind."""
    sectors = packed(ROWS)
    data = disk()
    return (
        base_of("secret", PASSWORD.encode() + b"\n", is_text=True),
        base_of("fio", json.dumps(_FIO_REPORT).encode(), is_text=True),
        base_of("sectors", sectors, ranges=((0, len(sectors)),)),
        base_of("cells", ROWS.astype("<u4").tobytes(), spots=tuple((at, 4) for at in range(0, 4 * ROWS.size, 4))),
        base_of("set", _SET.encode(), is_text=True),
        base_of("kept", data, ranges=tuple((at, 512) for at in range(0, len(data), 512) if any(data[at : at + 512]))),
    )


def run_beside(path: Path, base: Base) -> int:
    """Use a file according to its kind."""
    from layoutscope.errors import UsageError

    try:
        return _USES[base.name](path)
    except UsageError:
        return 0 if path.read_bytes() == base.whole() else 1


def _secret(path: Path) -> int:
    from layoutscope.cli.parameters import read_secret
    from layoutscope.image import open_image
    from tests.apfs import read_layouts

    with open_image(locked()) as source:
        layouts = read_layouts(source, password=read_secret(path))
    return 3 if {level for layout in layouts for level in layout.findings["level"]} - {"info"} else 0


def _fio(path: Path) -> int:
    from layoutscope.api.drives import fit

    return 0 if fit("fitted", base="generic-7200", fio=path) else 1


def _sectors(path: Path) -> int:
    (path.parent / "disk.toml").write_text(PROFILE)
    shutil.copyfile(path, path.parent / "disk.map.zst")
    return _serve_five(path.parent / "disk.toml")


def _cells(path: Path) -> int:
    from layoutscope.zstd import zstd

    (path.parent / "disk.toml").write_text(PROFILE)
    (path.parent / "disk.map.zst").write_bytes(zstd.compress(path.read_bytes()))
    return _serve_five(path.parent / "disk.toml")


def _set(path: Path) -> int:
    (path.parent / "member.toml").write_text(PROFILE.replace("disk.map.zst", "absent"))
    shutil.copyfile(path, path.parent / "set.toml")
    return _serve_five(path.parent / "set.toml", count=0)


def _serve_five(profile: Path, count: int = 5) -> int:
    import numpy as np

    from layoutscope.access.trace import AccessTrace
    from layoutscope.drive import load_profile, service

    offsets = np.array([0, 512, 9216, 20480, 0], np.int64)[:count]
    service(AccessTrace.from_reads(offsets, np.full(len(offsets), 512, np.int64)), load_profile(profile))
    return 0


def _kept(path: Path) -> int:
    """Change a file that an earlier run decompressed, and reseal it, so the next run takes it for the image."""
    from layoutscope import scan
    from layoutscope.image import cache

    folder = path.parent / "cache"
    image = path.parent / "disk.img.gz"
    if not image.exists():
        image.write_bytes(gzip.compress(disk()))
    shutil.rmtree(folder, ignore_errors=True)  # no case sees files of an earlier one
    scan(image, drives=(), cache_dir=folder)
    for kept in folder.glob("*.raw"):
        shutil.copyfile(path, kept)
        cache.seal(kept)
    return scan(image, drives=(), cache_dir=folder).exit_code


_USES = {"secret": _secret, "fio": _fio, "sectors": _sectors, "cells": _cells, "set": _set, "kept": _kept}


# Forecasts: images of both file systems with changed fields, whose volumes age for two cycles.


REFUSED: Final = ("encrypted", "many")
"""Images without a forecast: a locked volume, and several volumes when none is named."""


def forecasts_bases() -> tuple[Base, ...]:
    """Return the sound images of both file systems that have a forecast."""
    return *hfsplus_bases(), *(base for base in apfs_bases() if base.name not in REFUSED)


def run_forecasts(path: Path, base: Base) -> int:  # noqa: ARG001  (both file systems are read alike)
    """Let the volume age."""
    from layoutscope import forecast
    from layoutscope.errors import UsageError

    try:
        forecast(path, cycles=2, seeds=1, share=0.3, drives=())
    except UsageError:
        return 1
    return 0

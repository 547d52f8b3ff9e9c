"""Files next to an image or given with it: secrets, measurements, sector maps, cached images."""

from __future__ import annotations

import gzip
import json
import shutil
import tempfile
from functools import cache
from pathlib import Path

from fixtures.apfs.scenarios import ENCRYPTED, PASSWORD, container
from fixtures.apfs.writer import write
from tests.fuzz.base import Base, base_of
from tests.fuzz.of_sets import disk
from tests.unit.drive.test_sectormap import PROFILE, ROWS, packed

_FIO = {
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


def bases() -> tuple[Base, ...]:
    """Return one file of each kind."""
    sectors = packed(ROWS)
    data = disk()
    return (
        base_of("secret", PASSWORD.encode() + b"\n", is_text=True),
        base_of("fio", json.dumps(_FIO).encode(), is_text=True),
        base_of("sectors", sectors, ranges=((0, len(sectors)),)),
        base_of("cells", ROWS.astype("<u4").tobytes(), spots=tuple((at, 4) for at in range(0, 4 * ROWS.size, 4))),
        base_of("set", _SET.encode(), is_text=True),
        base_of("kept", data, ranges=tuple((at, 512) for at in range(0, len(data), 512) if any(data[at : at + 512]))),
    )


def run(path: Path, base: Base) -> int:
    """Use a file according to its kind."""
    from layoutscope.errors import UsageError

    try:
        return _USES[base.name](path)
    except UsageError:
        return 0 if path.read_bytes() == base.whole() else 1


def _secret(path: Path) -> int:
    from layoutscope.cli.options import read_secret
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
    return _served(path.parent / "disk.toml")


def _cells(path: Path) -> int:
    from layoutscope.zstd import zstd

    (path.parent / "disk.toml").write_text(PROFILE)
    (path.parent / "disk.map.zst").write_bytes(zstd.compress(path.read_bytes()))
    return _served(path.parent / "disk.toml")


def _set(path: Path) -> int:
    (path.parent / "member.toml").write_text(PROFILE.replace("disk.map.zst", "absent"))
    shutil.copyfile(path, path.parent / "set.toml")
    return _served(path.parent / "set.toml", count=0)


def _served(profile: Path, count: int = 5) -> int:
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

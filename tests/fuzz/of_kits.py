"""Archives of measurements from a Mac: the tar itself as bytes, and each file in it as text."""

from __future__ import annotations

import io
import plistlib
import tarfile
from functools import cache
from typing import TYPE_CHECKING

from tests.fuzz.base import Base, base_of
from tests.fuzz.of_captures import capture
from tests.fuzz.of_traces import _FS_USAGE

if TYPE_CHECKING:
    from pathlib import Path

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


def bases() -> tuple[Base, ...]:
    """Return the archive, whose headers are changed, and each text."""
    whole = _packed(files())
    heads = tuple((at, 512) for at in range(0, len(whole), 512) if whole[at + 257 : at + 262] == b"ustar")
    return (base_of("tar", whole, ranges=heads), *(base_of(name, data, is_text=True) for name, data in _TEXTS.items()))


def run(path: Path, base: Base) -> int:
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

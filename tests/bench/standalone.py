"""The executable, tried where nothing but it and glibc is: ``python -m tests.bench.standalone FILE``.

Makes a root with the executable, glibc and the committed images, and runs commands there with an empty environment:
each must end as it should. Prints the size of the executable, and how long it takes to start. Needs ``unshare`` and
the right to make a root (root, or namespaces of users).
"""

from __future__ import annotations

import argparse
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
IMAGES = ROOT / "fixtures" / "images"
LIBRARIES = ("c", "m", "dl", "rt", "util", "pthread", "resolv", "z")
"""What it may take of a system: glibc, and zlib, which unpacks it."""

CLUSTER = 1 << 16
STARTS = 3


def main() -> int:
    """Try an executable."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("executable", type=Path)
    program = parser.parse_args().executable.resolve()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        root = bare_root(Path(name), program)
        failed = [told for words, wanted in tried() if (told := tell(root, words, wanted))]
        sys.stdout.write("".join(f"{line}\n" for line in failed))
        seconds = [timed(root) for _ in range(STARTS)]
    size = program.stat().st_size / 1e6
    sys.stdout.write(f"{size:.0f} MB; starts in {min(seconds):.1f} s to {max(seconds):.1f} s; {len(failed)} failed\n")
    return 1 if failed else 0


def bare_root(folder: Path, program: Path) -> Path:
    """Make a root in which there is no Python, no shell, no user and no other program."""
    for name in ("tmp", "data", "dev", "out"):
        (folder / name).mkdir()
    (folder / "dev" / "null").touch()
    shutil.copy2(program, folder / "layoutscope")
    listed = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    found = [line.rpartition(" => ")[2] for line in listed.splitlines() if " => " in line]
    wanted = [path for path in found if any(Path(path).name.startswith(f"lib{each}.so") for each in LIBRARIES)]
    loader = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    wanted += [word for word in loader.split() if word.startswith("/") and "ld-" in word]
    for path in wanted:
        target = folder / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, target)
    for image in IMAGES.glob("*.img.zst"):
        shutil.copy2(image, folder / "data")
    write_qcow2(folder / "data" / "hfsplus-scattered.img.zst", folder / "out" / "disk.qcow2")
    return folder


def write_qcow2(packed: Path, target: Path) -> None:
    """Put a disk into a container of QEMU, which a library in a process of its own reads."""
    from layoutscope.image import open_image

    with open_image(packed) as source, target.open("wb") as file:
        clusters = -(-source.size_bytes // CLUSTER)
        table, place = [0] * (CLUSTER // 8), 3 * CLUSTER
        for k in range(clusters):
            data = source.read(k * CLUSTER, min(CLUSTER, source.size_bytes - k * CLUSTER))
            if any(data):
                file.seek(place)
                file.write(data.ljust(CLUSTER, b"\0"))
                table[k], place = place | 1 << 63, place + CLUSTER
        file.seek(0)
        numbers = (2, 0, 0, 16, source.size_bytes, 0, 1, CLUSTER, 0, 0, 0, 0)
        file.write(b"QFI\xfb" + struct.pack(">IQIIQIIQQIIQ", *numbers))
        file.seek(CLUSTER)
        file.write(struct.pack(">Q", 2 * CLUSTER | 1 << 63))
        file.seek(2 * CLUSTER)
        file.write(struct.pack(f">{len(table)}Q", *table))


def tried() -> list[tuple[str, str]]:
    """Return command lines, and what each must say: the verbs, and whatever the program starts as itself."""
    return [
        ("--version", "layoutscope "),
        ("scan data/apfs-scattered.img.zst", "2.5-inch disk (5400 rpm)"),
        ("map data/apfs-scattered.img.zst -o out/map.html", ""),
        ("check data/hfsplus-scattered.img.zst", ""),
        ("verify data/hfsplus-scattered.img.zst", ""),
        ("predict data/apfs-scattered.img.zst --order all --drive generic-7200", "fts"),
        ("scan data/hfsplus-scattered.img.zst --save out/disk.lscope", "HFS+"),
        ("scan out/disk.lscope", "HFS+"),
        ("scan out/disk.qcow2", "HFS+"),
        ("batch data -o out/batch --jobs 2", "2 "),
        ("explain extent", "extent"),
        ("drives", "generic-7200"),
        ("cache", ""),
    ]


def tell(root: Path, words: str, wanted: str) -> str:
    """Run a command there; empty where it ended as it should."""
    ended = run(root, words)
    is_well = ended.returncode == 0 and wanted in ended.stdout
    sys.stdout.write(f"{'ok  ' if is_well else 'FAIL'} layoutscope {words}\n")
    return "" if is_well else f"{words}: {ended.returncode}\n{ended.stdout[-2000:]}{ended.stderr[-2000:]}"


def timed(root: Path) -> float:
    """Measure a start."""
    began = time.perf_counter()
    run(root, "--version")
    return time.perf_counter() - began


def run(root: Path, words: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a root, with an empty environment."""
    command = ["unshare", "--map-root-user", f"--root={root}", "/layoutscope", *words.split()]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=600, env={"PATH": "/usr/bin:/bin"}
    )


if __name__ == "__main__":
    sys.exit(main())

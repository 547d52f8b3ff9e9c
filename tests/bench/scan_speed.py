"""Scans against their peers and against the floor, in one run: ``python tests/bench/scan_speed.py IMAGE... -o FILE``.

Each program is a process of its own and runs several times, in turns with the others; the least of its times counts.
Python keeps compiled modules between runs, as it does for an installed package.
The floor is the time to read the bytes of the metadata into memory, each node with one request, nothing decoded.
The pages of the image are in the memory of the system after the first round, which is not counted.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

DECODE = """
import json, resource, sys, time
from layoutscope.api.reading import make_request, open_volumes
import layoutscope.filesystems.hfsplus.layout, layoutscope.filesystems.apfs.reader
def used():
    now = resource.getrusage(resource.RUSAGE_SELF)
    return time.perf_counter(), now.ru_utime, now.ru_stime
first = used()
with open_volumes(sys.argv[1], make_request({})) as image:
    last = used()
    known = sum(layout.facts.metadata_read_bytes for layout in image.layouts)
    entries = sum(layout.entries.height for layout in image.layouts)
    print(json.dumps([*(b - a for a, b in zip(first, last)), image.about.read_bytes, known, entries]))
"""

RANGES = """
import sys
import numpy as np
from layoutscope.api.extract import metadata_ranges
from layoutscope.api.reading import make_request, open_volumes
with open_volumes(sys.argv[1], make_request({})) as image:
    np.save(sys.argv[2], metadata_ranges(image.layouts, 0, image.images[0].size_bytes))
"""

FLOOR = """
import json, os, resource, sys, time
import numpy as np
ranges = np.load(sys.argv[2])
starts, lengths = ranges[:, 0].tolist(), (ranges[:, 1] - ranges[:, 0]).tolist()
def used():
    now = resource.getrusage(resource.RUSAGE_SELF)
    return time.perf_counter(), now.ru_utime, now.ru_stime
file = os.open(sys.argv[1], os.O_RDONLY)
buffer = memoryview(bytearray(8 << 20))
first = used()
for start, length in zip(starts, lengths):
    for at in range(start, start + length, len(buffer)):
        os.preadv(file, (buffer[: min(len(buffer), start + length - at)],), at)
print(json.dumps([b - a for a, b in zip(first, used())]))
"""


DISSECT = """
import sys
from dissect.apfs.apfs import APFS
with open(sys.argv[1], "rb") as file:
    todo = [volume.get("/") for volume in APFS(file).volumes]
    while todo:
        todo += [entry.inode for entry in todo.pop().iterdir() if entry.is_dir()]
"""
"""What ``fls -r`` does, by a reader in pure Python, which runs in an environment of its own (AGPL)."""


def surroundings(kept: str) -> dict[str, str]:
    """Return the environment of the programs; compiled modules are kept in a folder."""
    plain = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**plain, "PYTHONPYCACHEPREFIX": kept}


def measured(command: list[str], around: dict[str, str]) -> dict[str, float]:
    """Run a program; its wall, user and system seconds and its peak memory."""
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=around)
    _, _, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - started
    return {"wall": wall, "user": usage.ru_utime, "system": usage.ru_stime, "peak_mib": usage.ru_maxrss / 1024}


def told(command: list[str], around: dict[str, str]) -> list[float]:
    """Run a program that measures itself; what it prints."""
    done = subprocess.run(command, capture_output=True, check=True, text=True, env=around)
    numbers: list[float] = json.loads(done.stdout)
    return numbers


def peers(image: Path, *, slow: bool, dissect: str | None) -> dict[str, list[str]]:
    """Return the programs of others that list an image, as far as they are installed; some take minutes."""
    found: dict[str, list[str]] = {}
    is_hfs = "hfs" in image.name
    if shutil.which("fls"):
        found["fls -r"] = ["fls", "-r", str(image)]
        if not is_hfs:
            pool = subprocess.run(["pstat", image], capture_output=True, check=True).stdout.decode("utf-8", "replace")
            block = re.findall(r"APSB Block Number: (\d+)", pool)[0]
            found["fls -r"] = ["fls", "-P", "apfs", "-B", block, "-r", str(image)]
    if dissect and not is_hfs:
        found["dissect.apfs"] = [dissect, "-c", DISSECT, str(image)]
    name = "fshfsinfo" if is_hfs else "fsapfsinfo"
    if slow and shutil.which(name):
        found[f"{name} -H"] = [name, "-H", str(image)] if is_hfs else [name, "-H", "-f", "1", str(image)]
    return found


def least(runs: list[dict[str, float]]) -> dict[str, float]:
    """Return the least of each figure of several runs."""
    return {key: round(min(run[key] for run in runs), 3) for key in runs[0]}


def scans(image: Path, rounds: int, around: dict[str, str]) -> dict[str, object]:
    """Measure the scan of an image that is too large to wait for the others."""
    command = [sys.executable, "-m", "layoutscope", "scan", str(image)]
    runs = [measured(command, around) for _ in range(rounds + 1)][1:]
    *_, read, known, entries = told([sys.executable, "-c", DECODE, str(image)], around)
    return about(image, (read, known, entries), {"scan": least(runs)})


def about(image: Path, sizes: tuple[float, float, float], seconds: dict[str, dict[str, float]]) -> dict[str, object]:
    """Put together what was found of an image; `sizes` are bytes read, bytes of metadata, and entries."""
    read, known, entries = sizes
    return {
        "image": image.name,
        "entries": int(entries),
        "metadata_bytes": int(known),
        "read_ratio": round(read / known, 4),
        "seconds": seconds,
    }


def bench(
    image: Path, rounds: int, scratch: Path, around: dict[str, str], others: dict[str, list[str]]
) -> dict[str, object]:
    """Measure everything about one image."""
    python = sys.executable
    subprocess.run([python, "-c", RANGES, image, scratch], check=True)
    programs = {"scan": [python, "-m", "layoutscope", "scan", str(image)], **others}
    times: dict[str, list[dict[str, float]]] = {}
    for number in range(rounds + 1):
        results = {name: measured(command, around) for name, command in programs.items()}
        wall, user, system, read, known, entries = told([python, "-c", DECODE, str(image)], around)
        results["decode"] = {"wall": wall, "user": user, "system": system}
        results["floor"] = dict(
            zip(("wall", "user", "system"), told([python, "-c", FLOOR, str(image), str(scratch)], around), strict=True)
        )
        for name, result in results.items():
            if number:
                times.setdefault(name, []).append(result)
        sys.stderr.write(f"{image.name} {number} { {name: round(run['wall'], 2) for name, run in results.items()} }\n")
    return about(image, (read, known, entries), {name: least(runs) for name, runs in times.items()})


def main() -> None:
    """Measure the images that are named, and write what came out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("images", nargs="*", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--slow-peers", action="store_true", help="fshfsinfo and fsapfsinfo too")
    parser.add_argument("--dissect", metavar="PYTHON", help="an interpreter that has dissect.apfs; takes minutes")
    parser.add_argument("--append", action="store_true", help="keep the images that the output has already")
    parser.add_argument("--scan-only", nargs="*", default=[], type=Path, help="images that are scanned and no more")
    options = parser.parse_args()
    scratch = options.output.with_suffix(".npy")
    with tempfile.TemporaryDirectory() as kept:
        around = surroundings(kept)
        found = json.loads(options.output.read_text("utf-8"))["images"] if options.append else []
        for image in options.images:
            others = peers(image, slow=options.slow_peers, dissect=options.dissect)
            found.append(bench(image, options.rounds, scratch, around, others))
        found += [scans(image, 1, around) for image in options.scan_only]
    scratch.unlink(missing_ok=True)
    document = {"processors": os.cpu_count(), "python": platform.python_version(), "images": found}
    options.output.write_text(json.dumps(document, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()

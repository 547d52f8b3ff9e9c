"""Images a second and memory of a batch, against as many plain loops: ``python -m tests.bench.fleet_speed``.

A loop is one process that reads, saves and predicts, one image after the other, with nothing to protect it. Loops run
before and after each batch, as many at a time as the batch has processes, so that what else the machine does weighs on
both.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import layoutscope

IMAGE = Path(__file__).parents[2] / "fixtures/images/hfsplus-scattered.img.zst"

LOOP = """
import sys, tempfile, time
from pathlib import Path
from layoutscope.fleet.worker import read_source
def read():
    with tempfile.TemporaryDirectory() as work:
        assert read_source(sys.argv[1], {"orders": ["fts"], "hash_names": False}, Path(work))["status"] == "complete"
read()
began = time.perf_counter()
for _ in range(int(sys.argv[2])):
    read()
print(int(sys.argv[2]) / (time.perf_counter() - began))
"""


def loops(processes: int, images: int) -> float:
    """Images a second of so many loops together, each of which begins to count when it has read one."""
    command = [sys.executable, "-c", LOOP, str(IMAGE), str(images)]
    few = {**os.environ, "POLARS_MAX_THREADS": "2", "OPENBLAS_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2"}
    made = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=few) for _ in range(processes)]
    return sum(float(each.communicate()[0]) for each in made)


def resident_mib() -> float:
    """What this process has in memory."""
    text = Path("/proc/self/status").read_text()
    return int(text.split("VmRSS:")[1].split()[0]) / 1024


class Told:
    """When images were done, and what this process had in memory then."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.memory: list[float] = []

    def __call__(self, *_: object) -> None:
        """Take note of one."""
        self.times.append(perf_counter())
        self.memory.append(resident_mib())

    def rate(self, processes: int) -> float:
        """Images a second once every process has read its first one."""
        return (len(self.times) - processes) / (self.times[-1] - self.times[processes - 1])


def main() -> None:
    """Print a row for each engine."""
    asked = argparse.ArgumentParser()
    asked.add_argument("--images", type=int, default=1000)
    asked.add_argument("--loop", type=int, default=40)
    asked.add_argument("-j", type=int, default=len(os.sched_getaffinity(0)))
    asked.add_argument("--engine", choices=["here", "local"], action="append")
    given = asked.parse_args()
    print("| engine | images | a second | of loops | memory at a tenth, half, end | all |")  # noqa: T201
    print("|---|---|---|---|---|---|")  # noqa: T201
    with tempfile.TemporaryDirectory() as folder:
        images = Path(folder) / "images"
        images.mkdir()
        first = images / "0.img.zst"
        first.write_bytes(IMAGE.read_bytes())
        for number in range(1, given.images):
            (images / f"{number}.img.zst").hardlink_to(first)
        for engine in given.engine or ["here", "local"]:
            before, told, began = loops(given.j, given.loop), Told(), perf_counter()
            scheduler = None if engine == "here" else engine
            done = layoutscope.batch(
                images, Path(folder) / engine, workers=given.j, scheduler=scheduler, on_source=told
            )
            whole = perf_counter() - began
            assert done.counts["complete"] == given.images
            plain = (before + loops(given.j, given.loop)) / 2
            marks = [told.memory[int(part * (given.images - 1))] for part in (0.1, 0.5, 1)]
            name = f"-j {given.j}" if engine == "here" else f"--scheduler local -j {given.j}"
            memory = ", ".join(f"{mark:.0f}" for mark in marks)
            rate = told.rate(given.j)
            print(  # noqa: T201
                f"| `{name}` | {given.images} | {rate:.2f} | {rate / plain:.2f} | {memory} MiB | {whole:.0f} s |",
                flush=True,
            )


if __name__ == "__main__":
    main()

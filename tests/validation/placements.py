"""Volumes without a preserved image: plans whose unknown placement is drawn.

``python -m tests.validation.placements FOLDER`` ages the seed's volume once per draw and stores its workloads (fresh,
after 10 and after 20 cycles) in FOLDER, from which `tests.validation.intervals` predicts. This takes four minutes.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec.structs
import numpy as np

from fixtures.fileset import FileSet
from layoutscope.access.trace import AccessTrace
from layoutscope.drive.uncertain import drawn, priors
from layoutscope.walk import trace
from tests.validation.plans import MACOS_APFS, MACOS_HFSPLUS, Placement, aging

if TYPE_CHECKING:
    from collections.abc import Iterator

DRAWN: Final = 16
VOLUMES: Final = 8
"""Number of drawn volumes, and how many of them (the first ones) are made; each takes its share of the drives."""
AGES: Final = {"apfs": (0, 10, 20), "hfsplus": (0, 10)}
"""Cycles after which the workloads are stored; HFS+ does not age according to the measurement."""
FILES: Final = 200_000
SCALE: Final = 1_000_000 / FILES
"""A fifth of the seed's files is made, and times are multiplied by five. On a volume with all files, fresh times were 2
% less on APFS and 4 % more on HFS+ (median of the draws). Volumes with short transactions take minutes."""


def draws(count: int = DRAWN) -> dict[str, np.ndarray[Any, Any]]:
    """Draw the unknown placement inputs: a value of each input for each volume."""
    return {name: drawn(f"placement.{name}", prior, count) for name, prior in priors()["placement"].items()}


def has_temporary_names(number: int) -> bool:
    """Whether files of a drawn volume are replaced under a temporary name in their folder, or deleted first."""
    return str(draws()["replacement"][number]) == "renamed"


def volume(filesystem: str, number: int, files: FileSet) -> tuple[FileSet, Placement]:
    """Return a draw of what is unknown of a volume: its files in creation order, and their placement."""
    chosen = {name: values[number] for name, values in draws().items()}
    made = replace(files, order=str(chosen["creation"]))
    fill, is_next_fit = float(chosen["fill"]), str(chosen["allocator"]) == "next-fit"
    placement = MACOS_HFSPLUS if filesystem == "hfsplus" else MACOS_APFS
    policy = replace(placement.policy, next_fit=is_next_fit)
    if filesystem == "apfs":
        # How HFS+ splits full nodes is documented.
        length = round(float(chosen["transaction_files"]))
        policy = replace(policy, leaf_keep=fill, index_keep=fill, map_keep=fill, files_per_transaction=length)
    return made, replace(placement, policy=policy)


def walks(filesystem: str, number: int) -> Iterator[tuple[int, AccessTrace]]:
    """Age a drawn volume of the seed's files, and yield its workload at some ages."""
    ages = AGES[filesystem]
    files, placement = volume(filesystem, number, FileSet(files=FILES))
    states = aging(files, placement, ages, has_temporary_names=has_temporary_names(number))
    for cycle, layout in zip(ages, states, strict=True):
        yield cycle, trace(layout, order="fts", host="macos")


def keep(folder: Path, filesystem: str, number: int) -> None:
    """Compute the reads of a drawn volume and store them."""
    for cycle, reads in walks(filesystem, number):
        np.savez_compressed(
            folder / f"{filesystem}-{number:02d}-c{cycle:02d}.npz",
            image_offset=reads.image_offset, length_bytes=reads.length_bytes, think_us=reads.think_us,
            after_us=reads.after_us,
        )  # fmt: skip


def kept(folder: Path, filesystem: str, number: int, cycle: int) -> AccessTrace:
    """Return the stored reads of a drawn volume."""
    with np.load(folder / f"{filesystem}-{number:02d}-c{cycle:02d}.npz") as found:
        reads = AccessTrace.from_reads(found["image_offset"], found["length_bytes"])
        return msgspec.structs.replace(reads, think_us=found["think_us"], after_us=float(found["after_us"]))


def main() -> None:
    """Compute every drawn volume that is not yet in the folder."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(VOLUMES):
        for filesystem in ("apfs", "hfsplus"):
            if not (folder / f"{filesystem}-{number:02d}-c{max(AGES[filesystem]):02d}.npz").exists():
                keep(folder, filesystem, number)


if __name__ == "__main__":
    main()

"""Remedies carried out by real drivers, compared with what a plan predicts for them.

``python -m tests.validation.remedies`` makes aged volumes in the lab, applies each remedy to them, records the cold
reads of the work before and after it, and writes ``results/remedies.json`` for docs/reference/remedies-proven.md. It
takes about a quarter of an hour; ``--files 5000 --only names-only`` does less and prints it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec.structs import replace

from layoutscope import read_layouts
from layoutscope.access.trace import AccessTrace
from layoutscope.drive import load_profile, service
from layoutscope.remedies.case import Case, entries_by_name, entries_in_walk_order, level_by_level
from layoutscope.remedies.changes import file_list
from layoutscope.remedies.planning import change_of, plan_of
from layoutscope.results.frames import with_paths
from layoutscope.walk.host import host_profile
from layoutscope.walk.score import score
from layoutscope.zstd import zstd

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from layoutscope.results.plan import PlannedRemedy
    from layoutscope.tables import VolumeLayout

RESULTS: Final = Path(__file__).parent / "results" / "remedies.json"
FILES: Final = (5_000, 20_000)
FILESYSTEMS: Final = ("apfs", "hfsplus")
CYCLES: Final = 10
SEED: Final = 22
DRIVES: Final = ("cheetah15k5", "generic-5400-2.5")
"""A disk whose every sector is mapped, on which DiskSim agrees within 0.2 %, and the disk that plans assume."""

HOST: Final = host_profile("linux", apfs_looks_up_dstream=False)
"""The lab's APFS driver is 0.3.0, which does not look data streams up."""

SIZE: Final = {"apfs": ("--size", "8G"), "hfsplus": ("--template", "8G")}
DRIVER: Final = {"apfs": ("--driver", "interleave"), "hfsplus": ()}

FILL: Final = """#!/usr/bin/python3
import os, sys
os.chdir("/mnt")
zeros = bytes(1 << 20)
for line in open(sys.argv[1]):
    size, path = line.rstrip("\\n").split("\\t")
    if not size:
        os.mkdir(path)
        continue
    with open(path, "wb", buffering=0) as file:
        left = int(size)
        while left > 0:
            left -= file.write(zeros[:left])
os.sync()
"""
"""Creates folders and files line by line, as a copy from a list does."""

SORTED_STAT: Final = """
import os, sys
def listed(path):
    with os.scandir(path) as found:
        return [(each.inode(), each.path, each.is_dir(follow_symlinks=False)) for each in found]
def by_folder(path):
    found = listed(path)
    for _, name, _ in sorted(found):
        os.lstat(name)
    for _, name, is_folder in found:
        if is_folder:
            by_folder(name)
def names(path, into):
    found = listed(path)
    into += found
    for _, name, is_folder in found:
        if is_folder:
            names(name, into)
if sys.argv[1] == "folder":
    by_folder(".")
else:
    every = []
    names(".", every)
    for _, name, _ in sorted(every):
        os.lstat(name)
"""
"""Lists folders, and stats in inode order: folder by folder, or everything after all listings."""

SOME_FOLDERS: Final = """
import os, sys
for line in open(sys.argv[1]):
    path = line.rstrip("\\n")
    for name in os.listdir(path):
        os.lstat(path + "/" + name)
"""
"""Visits the folders of a list, and stats the entries in them."""

READ_LIST: Final = """
import os, sys
for path in open(sys.argv[1], "rb").read().split(b"\\0")[:-1]:
    file = os.open(path, os.O_RDONLY)
    while os.read(file, 1 << 17):
        pass
    os.close(file)
"""
"""Reads files completely, 128 KiB at a time, in list order."""


@dataclass(frozen=True)
class Proof:
    """How a remedy is carried out."""

    remedy: str  # its name in a plan; `{other}` stands for the other file system
    order: str  # the work: as of :data:`layoutscope.walk.ORDERS`
    does: str  # the action, in a few words
    # records the cold reads after it; of a copy, too, the new volume's path
    record: Callable[[Aged], tuple[AccessTrace, Path | None]]


class Lab:
    """Real drivers on demand."""

    # The folder has images, lists and programs. It is not below /dev, which the guest does not see.
    def __init__(self, run: Callable[..., object], scratch: Path) -> None:
        self._run, self.scratch = run, scratch

    @classmethod
    def at(cls, program: Path, scratch: Path) -> Lab:
        """Return the lab at its location."""

        def run(*arguments: str) -> None:
            done = subprocess.run([program, *arguments], capture_output=True, text=True, cwd=scratch, check=False)
            if done.returncode:
                raise RuntimeError(f"lab {' '.join(arguments)}: {done.stdout[-2000:]}{done.stderr[-2000:]}")

        return cls(run, scratch)

    def __call__(self, *arguments: str) -> None:
        """Run the lab, quietly."""
        self._run(*arguments)

    def trace(self, image: Path, *workload: str) -> AccessTrace:
        """Record the cold reads of a workload."""
        prefix = self.scratch / "traced"
        self("trace", str(image), "-o", str(prefix), *workload)
        packed = Path(f"{prefix}.trace.zst").read_bytes()
        pairs = np.frombuffer(zstd.decompress(packed), np.uint64)
        offset, length = pairs.reshape(-1, 2).astype(np.int64).T
        return AccessTrace.from_reads(offset, length)

    def program(self, name: str, text: str) -> Path:
        """Write a program that the guest can run."""
        path = self.scratch / name
        path.write_text(text)
        path.chmod(0o755)
        return path


class Aged:
    """A volume that a real driver aged, and the work on it."""

    def __init__(self, lab: Lab, filesystem: str, files: int, seed: int = SEED) -> None:
        self.lab, self.filesystem, self.files = lab, filesystem, files
        self.image = lab.scratch / f"{filesystem}-{files}.img"
        made = ("--files", str(files), "--cycles", str(CYCLES), "--seed", str(seed))
        lab("make", filesystem, "-o", str(self.image), *SIZE[filesystem], *made, "--force")

    @property
    def other(self) -> str:
        """The other file system."""
        return next(name for name in FILESYSTEMS if name != self.filesystem)

    @cached_property
    def layout(self) -> VolumeLayout:
        """Its tables."""
        return volume_of(self.image)

    def case(self, order: str, drive: str = DRIVES[0]) -> Case:
        """Return some work on it."""
        return Case(self.layout, load_profile(drive), order, HOST)

    def paths(self, case: Case, chosen: np.ndarray[Any, Any]) -> list[str]:
        """Return the paths of entries of the model, from the root of the volume."""
        rows = np.arange(len(case.model.entries))[case.model.entries.order]
        return [f".{path}" for path in with_paths(self.layout)["path"].gather(rows[chosen]).to_list()]

    def copied(self, order: Callable[[Case], Any], filesystem: str) -> tuple[AccessTrace, Path]:
        """Recreate its files in an order on an empty volume; record a listing of that."""
        case, entries = self.case("fts"), self.case("fts").model.entries
        chosen = order(case)
        chosen = chosen[~entries.is_hidden[chosen]]
        sizes = np.where(entries.is_directory, -1, entries.size_bytes)[chosen].tolist()
        lines = [
            f"{'' if size < 0 else size}\t{path}\n" for size, path in zip(sizes, self.paths(case, chosen), strict=True)
        ]
        listed, fill = self.lab.scratch / "copied.txt", self.lab.program("fill.py", FILL)
        listed.write_text("".join(lines))
        image = self.lab.scratch / f"copied-{filesystem}.img"
        self.lab("make", filesystem, "-o", str(image), *SIZE[filesystem], "--files", "0", "--cycles", "0", "--force")
        self.lab("run", str(image), *DRIVER[filesystem], "--", str(fill), str(listed))
        return self.lab.trace(image, "stat"), image

    def ran(self, name: str, text: str, *arguments: str) -> AccessTrace:
        """Record the reads of a Python program."""
        program = self.lab.program(name, text)
        return self.lab.trace(self.image, "exec", sys.executable, "-S", "-B", str(program), *arguments)


def volume_of(image: Path) -> VolumeLayout:
    """Tables of the volume of an image."""
    return next(layout for layout in read_layouts(image) if layout.facts.volume is not None)


def _copied(order: Callable[[Case], Any]) -> Callable[[Aged], tuple[AccessTrace, Path | None]]:
    return lambda aged: aged.copied(order, aged.filesystem)


def _sorted(how: str) -> Callable[[Aged], tuple[AccessTrace, Path | None]]:
    return lambda aged: (aged.ran("sorted.py", SORTED_STAT, how), None)


def _remembered(aged: Aged) -> tuple[AccessTrace, Path | None]:
    """Visit every twentieth folder of the listing."""
    case = aged.case("fts")
    descent = case.descent
    chosen = descent.entry[::20]
    folders = [".", *aged.paths(case, chosen[1:])]
    listed = aged.lab.scratch / "folders.txt"
    listed.write_text("".join(f"{path}\n" for path in folders))
    return aged.ran("some.py", SOME_FOLDERS, str(listed)), None


def _block_copy(aged: Aged) -> tuple[AccessTrace, Path | None]:
    copy = aged.lab.scratch / "blocks.img"
    subprocess.run(["cp", "--sparse=always", aged.image, copy], check=True)
    return aged.lab.trace(copy, "stat"), None


def _emitted(aged: Aged) -> Path:
    paths, _ = file_list(aged.case("copy"), is_null_separated=True)
    listed = aged.lab.scratch / "emitted.txt"
    listed.write_bytes(b"".join(path + b"\0" for path in paths))
    return listed


def _by_place(aged: Aged) -> tuple[AccessTrace, Path | None]:
    """List everything, then read files in the order of their locations."""
    program, listed = aged.lab.program("read.py", READ_LIST), _emitted(aged)
    line = f"$LAB_TOOLS/walk stat /mnt; {sys.executable} -S -B {program} {listed}"
    return aged.lab.trace(aged.image, "exec", line), None


def _read_ahead(aged: Aged) -> tuple[AccessTrace, Path | None]:
    line = "mount -t sysfs none /sys; echo 8192 > /sys/block/ubda/queue/read_ahead_kb; $LAB_TOOLS/walk copy /mnt"
    return aged.lab.trace(aged.image, "exec", line), None


PROOFS: Final = (
    Proof("names-only", "fts", "fts with FTS_NOSTAT", lambda aged: (aged.lab.trace(aged.image, "nostat"), None)),
    Proof("stat-by-inode", "fts", "each folder listed, then stat'ed by number", _sorted("folder")),
    Proof("stat-all-by-inode", "fts", "everything listed, then stat'ed by number", _sorted("whole")),
    Proof("remembered-walk", "fts", "every twentieth folder listed and stat'ed", _remembered),
    Proof("block-copy", "fts", "copied block by block", _block_copy),
    Proof("copied-in-walk-order", "fts", "remade on an empty volume, folder by folder", _copied(entries_in_walk_order)),
    Proof("copied-by-name", "fts", "remade on an empty volume, by name", _copied(entries_by_name)),
    Proof("copied-by-level", "fts", "remade on an empty volume, level by level", _copied(level_by_level)),
    Proof(
        "on-{other}",
        "fts",
        "remade on the other file system, folder by folder",
        lambda aged: aged.copied(entries_in_walk_order, aged.other),
    ),
    Proof("files-by-place", "copy", "walked, then files read in the order of --emit-order", _by_place),
    Proof("larger-requests", "copy", "read_ahead_kb 8192 instead of 128", _read_ahead),
)
"""Remedies that the available drivers can carry out."""

WORK: Final = {"fts": "stat", "copy": "copy"}
"""Workloads of the lab, by their names here."""


def proven(aged: Aged, only: str = "") -> Iterator[dict[str, Any]]:
    """Apply the remedies to a volume; yield a row for each, with its times per drive."""
    before: dict[str, AccessTrace] = {}
    for proof in PROOFS:
        if only and only != proof.remedy:
            continue
        case = aged.case(proof.order)
        if proof.order not in before:
            before[proof.order] = aged.lab.trace(aged.image, WORK[proof.order])
        name = proof.remedy.format(other=aged.other)
        changed = change_of(name)(case)
        if not hasattr(changed, "parts"):
            continue
        real, made = proof.record(aged)
        expected = changed.parts[0].reads
        row = {"filesystem": aged.filesystem, "files": aged.files, "remedy": name, "does": proof.does}
        row |= {"reads": len(real), "predicted_reads": len(expected)} | _agreement(real, expected, made)
        row["times"] = [_times(aged.case(proof.order, drive), name, (before[proof.order], real)) for drive in DRIVES]
        yield row


def _agreement(real: AccessTrace, expected: AccessTrace, made: Path | None) -> dict[str, Any]:
    """Report what is equal block for block: the reads or, for a copy, those of a listing of the new volume."""
    if made is not None:
        layout = volume_of(made)
        expected = Case(layout, load_profile(DRIVES[0]), "fts", HOST).reads
    found = score(real, expected)
    shares = {"blocks": found.block_share, "extra": found.extra_share, "pairs": found.pair_share}
    return {"of": "the new volume" if made else "the volume"} | shares


def _times(case: Case, name: str, recorded: tuple[AccessTrace, AccessTrace]) -> dict[str, Any]:
    """Compare the savings of the recorded reads with the plan's savings and range."""
    change: Any = change_of(name)
    row: PlannedRemedy = plan_of(case, [name]).remedies[0]
    think = [case.reads, change(case).parts[0].reads]
    before, after = (_seconds(case, reads, like) for reads, like in zip(recorded, think, strict=True))
    saved = row.saved
    return {
        "drive": case.drive.name,
        "before_s": before,
        "after_s": after,
        "saved_s": before - after,
        "predicted_s": row.seconds,
        "predicted_saved_s": row.saved_s,
        "low_s": saved.low_s if saved else 0.0,
        "high_s": saved.high_s if saved else 0.0,
    }


def _seconds(case: Case, reads: AccessTrace, like: AccessTrace) -> float:
    """Serve recorded reads, with the predicted computer time between them."""
    # If there are more or fewer reads than predicted, each takes its share of the time at its place in the workload.
    passed = np.concatenate([[0.0], np.cumsum(like.think_us)])
    at = np.interp(np.linspace(0, len(like), len(reads) + 1), np.arange(len(like) + 1), passed)
    plain = AccessTrace.from_reads(reads.image_offset, reads.length_bytes)
    timed = replace(plain, think_us=np.diff(at), after_us=like.after_us)
    return service(timed, case.drive).seconds


def main() -> None:
    """Run everything and write the results; with a choice, print its rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, action="append")
    parser.add_argument("--filesystem", choices=FILESYSTEMS, action="append")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--only", default="")
    parser.add_argument("--into", type=Path)
    asked = parser.parse_args()
    from tests.conftest import shared_dir

    shared = shared_dir()
    if shared is None:
        sys.exit("the lab (../shared) is absent")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        lab = Lab.at(shared / "lab" / "lab", Path(folder))
        for filesystem in asked.filesystem or FILESYSTEMS:
            for files in asked.files or FILES:
                for row in proven(Aged(lab, filesystem, files, asked.seed), asked.only):
                    sys.stderr.write(json.dumps(row) + "\n")
                    rows.append(row)
    into = asked.into or (None if asked.files or asked.filesystem or asked.only or asked.seed != SEED else RESULTS)
    if into is not None:
        into.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()

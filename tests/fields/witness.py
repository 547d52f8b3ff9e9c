"""Record what apfsck says of drawn changes of APFS fields, beside what ``check`` says.

``python -m tests.fields.witness --seed N IMAGE...`` adds rows.

apfsck is run as a program of its own. The table that it leaves, ``recorded/apfs.csv``, needs no program to be read.
"""

from __future__ import annotations

import argparse
import csv
import random
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

from tests.fields.faults import found_on
from tests.fields.places import drawn, fields_in_use, one_change

RECORDED = Path(__file__).parent / "recorded" / "apfs.csv"
COLUMNS = ("image", "object", "field", "start", "at", "change", "old", "new", "peer", "ours")
SECONDS = 60


def main() -> None:
    """Read the command line, plant the changes in copies, and write the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.fields.witness", description=__doc__)
    parser.add_argument("images", nargs="+", type=Path, help="containers that both programs find sound")
    parser.add_argument("--apfsck", default="apfsck", help="the program")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--count", type=int, default=60, help="changes in each image")
    parser.add_argument("--output", type=Path, default=RECORDED, help="where the rows are added")
    arguments = parser.parse_args()
    for image in arguments.images:
        rows = witnessed(image, arguments.apfsck, arguments.seed, arguments.count)
        is_new = not arguments.output.exists()
        with arguments.output.open("a", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerows([COLUMNS, *rows] if is_new else rows)
        sys.stdout.write(f"{image.stem}: {share([dict(zip(COLUMNS, row, strict=True)) for row in rows])}\n")


def witnessed(image: Path, apfsck: str, seed: int, count: int) -> list[tuple[str, ...]]:
    """Draw changes of an image's fields, and ask both programs.

    Parameters
    ----------
    image : path
        The image, which is copied.
    apfsck : str
        The program.
    seed, count : int
        Of the draw, and how many.
    """
    chance, rows = random.Random(f"{seed} {image.name}"), []  # noqa: S311
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(shutil.copy(image, folder))
        places, before = fields_in_use(copy), found_on(copy)
        with copy.open("r+b", buffering=0) as file:
            for _ in range(count):
                field = drawn(places, chance)
                file.seek(field.start)
                stored = file.read(field.size)
                change, data = one_change(stored, field, chance)
                file.seek(field.start)
                file.write(data)
                ours = bool(found_on(copy) - before)
                peer = _verdict(apfsck, copy)
                file.seek(field.start)
                file.write(stored)
                part = slice(field.at, field.at + field.length)
                place = (image.stem, field.owner, field.address, str(field.start), str(field.at))
                rows.append((*place, change, stored[part].hex(), data[part].hex(), peer, "found" if ours else "silent"))
    return rows


def _verdict(apfsck: str, path: Path) -> str:
    """Run the program: found, silent, a state that it does not support, or a failure of its own."""
    try:
        done = subprocess.run([apfsck, "-cuw", path], capture_output=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return "failure"
    if done.returncode < 0:
        return "failure"
    is_state = b"not supported" in done.stdout + done.stderr
    return ("unsupported" if is_state else "found") if done.returncode else "silent"


def share(rows: list[dict[str, str]]) -> str:
    """Say how many of the peer's findings are found."""
    peer = [row for row in rows if row["peer"] == "found"]
    seen = sum(row["ours"] == "found" for row in peer)
    return f"{seen} of {len(peer)}, {100 * seen / max(len(peer), 1):.1f} %"


def recorded() -> dict[str, list[dict[str, str]]]:
    """Read the recorded verdicts, by image."""
    found: dict[str, list[dict[str, str]]] = defaultdict(list)
    with RECORDED.open(newline="") as file:
        for row in csv.DictReader(file):
            found[row["image"]].append(row)
    return found


if __name__ == "__main__":
    main()

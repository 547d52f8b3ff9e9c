"""Records the verdicts of apfsck and of ``check`` on random changes of APFS fields.

``python -m tests.fields.witness --seed N IMAGE...`` adds rows; with ``--lacking``, only for fields that have no fault
recorded as found.

apfsck runs as a separate program. The resulting table, ``recorded/apfs.csv``, can be read without it.
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
from collections.abc import Callable, Generator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tests.fields.faults import found_on
from tests.fields.places import Places, drawn, fields_in_use, one_change

if TYPE_CHECKING:
    from tests.fields.faults import Field

Draw = Callable[[Places, random.Random], Generator["Field", bool, None]]

RECORDED = Path(__file__).parent / "recorded" / "apfs.csv"
COLUMNS = ("image", "object", "field", "start", "at", "change", "old", "new", "peer", "ours")
SECONDS = 60
TRIES = 3


def main() -> None:
    """Read the command line, plant the changes in copies, and write the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.fields.witness", description=__doc__)
    parser.add_argument("images", nargs="+", type=Path, help="containers that both programs find sound")
    parser.add_argument("--apfsck", default="apfsck", help="the program")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--count", type=int, default=60, help="changes in each image")
    parser.add_argument("--lacking", action="store_true", help="fields of which no fault is recorded as found, each")
    parser.add_argument("--output", type=Path, default=RECORDED, help="where the rows are added")
    arguments = parser.parse_args()
    for image in arguments.images:
        draw = _lacking(arguments.output) if arguments.lacking else partial(_drawn, count=arguments.count)
        rows = witnessed(image, arguments.apfsck, arguments.seed, draw)
        is_new = not arguments.output.exists()
        with arguments.output.open("a", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerows([COLUMNS, *rows] if is_new else rows)
        sys.stdout.write(f"{image.stem}: {share([dict(zip(COLUMNS, row, strict=True)) for row in rows])}\n")


def witnessed(image: Path, apfsck: str, seed: int, draw: Draw) -> list[tuple[str, ...]]:
    """Change fields of an image, and run both programs.

    Parameters
    ----------
    image : path
        The image, which is copied.
    apfsck : str
        The program.
    seed : int
        Of what is random.
    draw : callable
        Chooses among the image's fields; it is informed whether each change was found.
    """
    chance, rows = random.Random(f"{seed} {image.name}"), []  # noqa: S311
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(shutil.copy(image, folder))
        before, is_sound = found_on(copy), _verdict(apfsck, copy) == "silent"
        with copy.open("r+b", buffering=0) as file:
            fields = draw(fields_in_use(copy), chance)
            field = next(fields, None)
            while field is not None:
                file.seek(field.start)
                stored = file.read(field.size)
                change, data = one_change(stored, field, chance)
                file.seek(field.start)
                file.write(data)
                ours = bool(found_on(copy) - before)
                # If the program rejects the sound image, its verdict on a change means nothing.
                peer = _verdict(apfsck, copy) if is_sound else "unsupported"
                file.seek(field.start)
                file.write(stored)
                part = slice(field.at, field.at + field.length)
                place = (image.stem, field.owner, field.address, str(field.start), str(field.at))
                rows.append((*place, change, stored[part].hex(), data[part].hex(), peer, "found" if ours else "silent"))
                try:
                    field = fields.send(ours)
                except StopIteration:
                    field = None
    return rows


def _drawn(places: Places, chance: random.Random, *, count: int) -> Generator[Field, bool, None]:
    for _ in range(count):
        yield drawn(places, chance)


def _lacking(output: Path) -> Draw:
    """Choose fields that have no fault recorded as found: up to three changes of each, until one is found."""
    known = {row["field"] for several in recorded(output).values() for row in several if row["ours"] == "found"}

    def choose(places: Places, chance: random.Random) -> Generator[Field, bool, None]:
        by_address: dict[str, list[Field]] = defaultdict(list)
        for objects in places.values():
            for fields in objects.values():
                for address, several in fields.items():
                    by_address[address] += several
        for address in sorted(set(by_address) - known):
            for _ in range(TRIES):
                if (yield chance.choice(by_address[address])):
                    break

    return choose


def _verdict(apfsck: str, path: Path) -> str:
    """Run the program; return found, silent, an unsupported state, or a failure of its own."""
    try:
        done = subprocess.run([apfsck, "-cuw", path], capture_output=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return "failure"
    if done.returncode < 0:
        return "failure"
    is_state = b"not supported" in done.stdout + done.stderr
    return ("unsupported" if is_state else "found") if done.returncode else "silent"


def share(rows: list[dict[str, str]]) -> str:
    """Report how many of the peer's findings are found."""
    peer = [row for row in rows if row["peer"] == "found"]
    seen = sum(row["ours"] == "found" for row in peer)
    return f"{seen} of {len(peer)}, {100 * seen / max(len(peer), 1):.1f} %"


def recorded(path: Path = RECORDED) -> dict[str, list[dict[str, str]]]:
    """Read the recorded verdicts, by image."""
    found: dict[str, list[dict[str, str]]] = defaultdict(list)
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            found[row["image"]].append(row)
    return found


if __name__ == "__main__":
    main()

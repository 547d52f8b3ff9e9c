"""Print how many changes of single fields are found on images, by structure and by field."""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from tests.fields.faults import fields_of, outcomes

if TYPE_CHECKING:
    from tests.fields.faults import Outcome


def main() -> None:
    """Read the command line, plant the faults in copies, and print the tables."""
    parser = argparse.ArgumentParser(prog="python -m tests.fields", description=__doc__)
    parser.add_argument("images", nargs="+", type=Path, help="sound images; they are copied first")
    parser.add_argument("--only", default="", help="fields whose address holds this text")
    parser.add_argument("--places", type=int, default=2, help="places of each field")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--misses", action="store_true", help="list each change that is not found")
    arguments = parser.parse_args()
    found: list[Outcome] = []
    for image in arguments.images:
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(shutil.copy(image, folder))
            fields = [each for each in fields_of(copy, arguments.places) if arguments.only in each.address]
            order = "big" if all(each.address.startswith(("hfsplus", "partition")) for each in fields) else "little"
            found += outcomes(copy, fields, order, arguments.seed)
    _print(found, lambda each: f"{each.field.address.rpartition('.')[0]} in {each.field.owner}")
    _print(found, lambda each: f"{each.field.address} in {each.field.owner}")
    for each in found if arguments.misses else ():
        if not each.codes:
            print("missed", each.change, each.field)  # noqa: T201


def _print(found: list[Outcome], by) -> None:  # type: ignore[no-untyped-def]
    rows: dict[str, list[Outcome]] = defaultdict(list)
    for each in found:
        rows[by(each)].append(each)
    rows["all"] = found
    for name, outcome in rows.items():
        seen = sum(bool(each.codes) for each in outcome)
        share, exact = 100 * seen / max(len(outcome), 1), sum(each.is_at_field for each in outcome)
        print(f"{name:75} {len(outcome):5} {seen:5} {share:5.1f} % {exact:5} at the field")  # noqa: T201
    print()  # noqa: T201


if __name__ == "__main__":
    main()

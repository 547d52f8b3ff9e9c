"""The worked questions of docs/reference/queries.md: a small fleet, and the answers of each question on it.

``python -m tests.docs.fleet_questions`` writes the answers below the questions again.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from contextlib import chdir
from pathlib import Path

import layoutscope
from fixtures.apfs import writer as apfs
from fixtures.apfs.scenarios import SCENARIOS as APFS
from fixtures.hfsplus import writer as hfsplus
from fixtures.hfsplus.scenarios import SCENARIOS as HFSPLUS
from layoutscope.fleet.query import query
from layoutscope.report.text.fleet import markdown

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reference" / "queries.md"
QUESTION = re.compile(r"(```sql\n(.*?)```\n\n)((?:\|[^\n]*\n)*)", re.DOTALL)

DISKS = {"hfsplus": ("populated", "strewn-catalog", "half-full-nodes", "overflow"),
         "apfs": ("aged", "strided", "snapshots", "volumes", "encrypted")}  # fmt: skip


def make_fleet(folder: Path) -> Path:
    """Write disks with and without harm to an empty folder, and read them into its batch ``fleet``; return that."""
    disks = folder / "disks"
    disks.mkdir()
    for kind in DISKS:
        shutil.copy(ROOT / "fixtures" / "images" / f"{kind}-scattered.img.zst", disks)
    for kind, scenarios, writer in (("hfsplus", HFSPLUS, hfsplus), ("apfs", APFS, apfs)):
        for name in DISKS[kind]:
            writer.write(scenarios[name], disks / f"{kind}-{name}.img")
    whole = (disks / "hfsplus-populated.img").read_bytes()
    (disks / "hfsplus-cut.img").write_bytes(whole[: len(whole) // 2])
    (disks / "notes.txt").write_text("a text, and no disk\n")
    with chdir(folder):  # so that paths are the same wherever it is
        layoutscope.batch(["disks", "disks/gone.img"], "fleet", drives=["generic-7200", "sata-ssd"])
    return folder / "fleet"


def answer(fleet: Path, sql: str) -> str:
    """Return the answer of a question in the format of the page."""
    return markdown(query(fleet, sql))


def written(text: str, fleet: Path) -> str:
    """Return the page with the answers of its questions."""
    return QUESTION.sub(lambda match: match[1] + answer(fleet, match[2]), text)


def main() -> None:
    """Write the answers again."""
    with tempfile.TemporaryDirectory() as folder:
        fleet = make_fleet(Path(folder))
        PAGE.write_text(written(PAGE.read_text("utf-8"), fleet), "utf-8")


if __name__ == "__main__":
    main()

"""What every verb says of every image, written to a folder, so that two versions of the code can be compared.

A change that must not alter results is proven by two runs and ``diff -r``::

    python -m tests.equality /tmp/before        # with the old code
    python -m tests.equality /tmp/after         # with the new code
    diff -r /tmp/before /tmp/after

``--images quick`` takes the fixture scenarios alone (a few minutes), ``all`` adds each planted fault and the reference
images that the tests have decompressed. Long outputs are kept as their SHA-256. Images are written next to the
outputs, in ``OUT.images``, and used again where they are there.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

if TYPE_CHECKING:
    from collections.abc import Iterator

KEPT_BYTES = 1 << 18
"""Longer outputs are kept as their hash."""

ORDERS = (
    "fts",
    "bulk",
    "names",
    "catalog",
    "searchfs",
    "copy",
    "readdir-stat",
    "du",
    "backup",
    "find",
    "ls",
    "archive",
    "git-status",
)

TABLES = ("nodes", "node_fragments", "regions", "extents", "entries", "free", "findings")


@dataclass(frozen=True, slots=True)
class Case:
    """An image by its name in the folder of images, the options that it needs, and whether it is a large one."""

    name: str
    options: tuple[str, ...] = ()
    is_large: bool = False
    is_fault: bool = False


def commands(case: Case) -> Iterator[tuple[str, tuple[str, ...]]]:
    """List what is asked of an image: the name of the output and the words of the command line."""
    image = (case.name, *case.options)
    yield "check", ("check", *image, "--json")
    yield "scan", ("scan", *image, "--json")
    for table in TABLES:
        yield f"table-{table}", ("export", *image, "--table", table, "--format", "jsonl")
    if case.is_fault:
        return
    yield "scan-text", ("scan", *image)
    yield "checkpoints", ("checkpoints", *image, "--json")
    for host in ("linux", "macos"):
        for order in ORDERS:
            yield f"trace-{host}-{order}", ("trace", *image, "--host", host, "--order", order)
    if case.is_large:
        return
    yield "verify", ("verify", *image, "--json")
    yield "sweep", ("scan", *image, "--json", "--sweep")
    yield "check-sweep", ("check", *image, "--json", "--sweep")
    yield "predict", ("predict", *image, "--json", "--host", "macos")
    for at in ("0", "4096", "40960", "65536"):
        yield f"inspect-{at}", ("inspect", *image, "--at", at, "--json")


def run_case(case: Case, images: Path, out: Path) -> str:
    """Run all commands on an image, in this process, and write what they say."""
    from typer.testing import CliRunner

    from layoutscope.cli import app

    os.chdir(images)
    os.environ["COLUMNS"] = "80"
    folder = out / case.name.replace("/", "_")
    folder.mkdir(parents=True, exist_ok=True)
    for name, words in commands(case):
        result = CliRunner().invoke(app, list(words))
        failure = f"\nexception: {result.exception!r}" if result.exception and result.exit_code == 1 else ""
        text = f"exit {result.exit_code}{failure}\n{result.stderr}\n{result.stdout}"
        if len(text) > KEPT_BYTES:
            text = f"exit {result.exit_code}\nsha256 {hashlib.sha256(text.encode()).hexdigest()}\n"
        (folder / f"{name}.txt").write_text(text)
    return case.name


def scenarios(images: Path) -> Iterator[Case]:
    """Write the fixtures' scenarios."""
    from fixtures.apfs.scenarios import PASSWORD
    from fixtures.apfs.scenarios import SCENARIOS as APFS
    from fixtures.apfs.writer import write
    from fixtures.hfsplus.scenarios import SCENARIOS as HFSPLUS
    from fixtures.hfsplus.writer import write as write_hfsplus

    for name, plan in APFS.items():
        paths = [images / f"apfs-{name}-{number}.img" for number in range(2 if plan.fusion else 1)]
        if not all(path.exists() for path in paths):
            write(plan, *paths)
        second = ("--second", paths[1].name) if plan.fusion else ()
        yield Case(paths[0].name, (*second, "--password", PASSWORD))
    for name, plan in HFSPLUS.items():
        path = images / f"hfsplus-{name}.img"
        if not path.exists():
            write_hfsplus(plan, path)
        yield Case(path.name)


def faults(images: Path) -> Iterator[Case]:
    """Write each planted fault."""
    from fixtures.apfs.scenarios import PASSWORD
    from fixtures.apfs.victims import VICTIMS
    from fixtures.apfs.writer import write
    from fixtures.fault import planted
    from fixtures.faults_apfs import FAULTS as APFS
    from tests.sparse import write_sparse

    victims = {name: (images / f"victim-{name}.img", plan) for name, plan in VICTIMS.items()}
    written = {name: (path, write(plan, path)) for name, (path, plan) in victims.items()}
    for fault in APFS:
        target = images / f"fault-apfs-{fault.name}.img"
        if not target.exists():
            with planted(fault, written) as image, Path(image.path).open("rb") as plain:
                write_sparse(target, plain)
        yield Case(target.name, ("--password", PASSWORD), is_fault=True)
    yield from hfsplus_faults(images)


def hfsplus_faults(images: Path) -> Iterator[Case]:
    """Write each fault of an HFS+ volume."""
    from fixtures.faults_hfsplus import FAULTS
    from fixtures.hfsplus.scenarios import SCENARIOS
    from fixtures.hfsplus.writer import render

    for fault in FAULTS:
        target = images / f"fault-hfsplus-{fault.name}.img"
        if not target.exists():
            canvas, expected = render(SCENARIOS[fault.scenario])
            image = canvas.to_bytearray()
            fault.apply(image, expected)
            target.write_bytes(image)
        yield Case(target.name, is_fault=True)


def references(images: Path) -> Iterator[Case]:
    """Link the reference images that are there."""
    from tests.conftest import ROOT, cache_dir

    passwords = {"dissect_encrypted.raw": "password"}
    found = [*sorted((ROOT / "fixtures" / "images").glob("*.zst")), *sorted(cache_dir().glob("*/*"))]
    for path in found:
        if path.suffix not in (".raw", ".img", ".iso", ".zst") or path.name == "tier2.img":
            continue
        link = images / path.name
        if not link.is_symlink():
            link.symlink_to(path)
        password = ("--password", passwords[path.name]) if path.name in passwords else ()
        second = ("--second", str(path.with_name("tier2.img"))) if path.name == "main.img" else ()
        yield Case(path.name, (*password, *second), is_large="0000-" in path.name)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.equality", description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--images", choices=("quick", "all"), default="all")
    parser.add_argument("--only", default="", help="only images with this in their name")
    parser.add_argument("--images-dir", type=Path)
    options = parser.parse_args()
    out = options.out.resolve()
    images = (options.images_dir or out.with_name(out.name + ".images")).resolve()
    images.mkdir(parents=True, exist_ok=True)
    cases = [*scenarios(images)]
    if options.images == "all":
        cases += [*faults(images), *references(images)]
    cases = [case for case in cases if options.only in case.name]
    with ProcessPoolExecutor(max_workers=os.cpu_count()) as pool:
        for number, name in enumerate(pool.map(run_case, cases, [images] * len(cases), [out] * len(cases)), 1):
            print(f"{number}/{len(cases)} {name}", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()

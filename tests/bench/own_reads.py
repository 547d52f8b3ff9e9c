"""What the verbs themselves ask of a disk, and how long a 7,200 rpm disk takes for that by the drive model.

``python -m tests.bench.own_reads IMAGE... -o FILE`` records the requests of each verb, gaps that are read over among
them, and serves them in their order. Beside them two sweeps by address: nodes of object maps, then all others.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

import numpy as np

import layoutscope
from layoutscope.image import opening
from layoutscope.image.source import Source, WrappedSource
from layoutscope.structs.arrays import GAP_BYTES, MAX_REQUEST_BYTES

DRIVE = "generic-7200"
VERBS = {
    "scan": lambda image, _: layoutscope.scan(image),
    "check": lambda image, _: layoutscope.check(image),
    "export --table entries": lambda image, folder: layoutscope.export(image, "entries", folder / "entries.csv"),
    "list": lambda image, _: layoutscope.list(image),
    "map": lambda image, folder: layoutscope.map(image, folder / "map.html"),
}


class Requests(WrappedSource):
    """An image whose requests are noted as a file or device gets them."""

    gap_bytes = GAP_BYTES
    read_pieces = Source.read_pieces

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self.asked: list[tuple[int, int]] = []

    def _fetch_into(self, image_offset: int, target: memoryview) -> None:
        self.asked.append((image_offset, len(target)))
        self.source.read_into(image_offset, target)


def measure(image: Path, folder: Path) -> dict[str, dict[str, float]]:
    """Run every verb on an image; requests, bytes and seconds of each."""
    found, sources = {}, list[Requests]()
    open_image = opening.open_image

    def opened(*words, **options):
        sources.append(Requests(open_image(*words, **options)))
        return sources[-1]

    opening.open_image = opened
    for verb, run in VERBS.items():
        run(image, folder)
        found[verb] = served(sources.pop().asked, folder)
        for made in folder.iterdir():
            made.unlink()
    opening.open_image = open_image
    with layoutscope.open(image) as session:
        nodes = [layout.columns("nodes") for layout in session.layouts]
    parts = []
    for is_map in (True, False):
        chosen = [
            table.take((table["tree"].equals("omap") | table["tree"].equals("container-omap")) == is_map)
            for table in nodes
        ]
        parts += sweep(
            np.concatenate([table["image_offset"].data for table in chosen]),
            np.concatenate([table["size_bytes"].data for table in chosen]),
        )
    return {**found, "two sweeps": served(parts, folder)}


def sweep(offsets: np.ndarray, sizes: np.ndarray) -> list[tuple[int, int]]:
    """Requests for nodes in the order of their addresses, with gaps read over as a file's are."""
    found: list[list[int]] = []
    for k in np.argsort(offsets, kind="stable").tolist():
        start, stop = int(offsets[k]), int(offsets[k] + sizes[k])
        if found and start - found[-1][1] <= GAP_BYTES and stop - found[-1][0] <= MAX_REQUEST_BYTES:
            found[-1][1] = max(found[-1][1], stop)
        else:
            found.append([start, stop])
    return [(start, stop - start) for start, stop in found]


def served(asked: list[tuple[int, int]], folder: Path) -> dict[str, float]:
    """How long the requests take, one after the other."""
    pairs = folder / "asked.pairs"
    pairs.write_bytes(np.array(asked, np.uint64).tobytes())
    (time,) = layoutscope.replay(pairs, form="pairs", drives=DRIVE).times
    pairs.unlink()
    return {"reads": len(asked), "bytes": sum(length for _, length in asked), "seconds": time.seconds}


def main() -> None:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("images", nargs="+", type=Path)
    parser.add_argument("-o", "--output", type=Path)
    words = parser.parse_args()
    found = {}
    for image in words.images:
        with tempfile.TemporaryDirectory() as folder:
            found[image.name] = measure(image, Path(folder))
        print(image.name, json.dumps(found[image.name], indent=1))  # noqa: T201
    if words.output:
        words.output.write_text(json.dumps({"drive": DRIVE, "images": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()

"""Predicted reads compared with those of real drivers, by workload and file system.

Each trace was recorded below a Linux driver on a cold cache; it is compared request by request, and by blocks and pairs
of consecutive first touches.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from layoutscope.image import RawFile
from layoutscope.walk import AccessTrace, Score, Work, score, trace
from layoutscope.zstd import zstd
from tests.apfs import read_layouts
from tests.hfsplus import read_layout
from tests.layouts import file_id as number_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from layoutscope.tables import VolumeLayout

KINDS = ("stat", "nostat", "names", "paths", "copy", "read-seq", "read-seq-rewritten", "read-random")
READ_FILES = {"read-seq": "2.bin", "read-random": "2.bin", "read-seq-rewritten": "0.bin"}
RECORD_BYTES = 16384


@dataclass(frozen=True)
class Row:
    """One trace: how much of it is predicted."""

    image: str
    kind: str
    requests: int
    same_requests: int
    score: Score


class Traces:
    """The recorded traces and their images."""

    def __init__(self, shared: Path, image_path: Callable[[str], Path]) -> None:
        """Load them from the folder of reference images; `image_path` gives a raw image on disk."""
        self.folder = shared / "images" / "traces"
        self.image_path = image_path

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Go through images and kinds."""
        names = {path.name.removesuffix(".trace.zst") for path in self.folder.glob("*.trace.zst")}
        images = sorted({name.rsplit("-stat", 1)[0] for name in names if name.endswith("-stat")})
        yield from ((image, kind) for image in images for kind in KINDS if f"{image}-{kind}" in names)

    def bytes_of(self, name: str) -> bytes:
        """Return a decompressed file."""
        return zstd.decompress((self.folder / name).read_bytes())

    def real(self, name: str) -> AccessTrace:
        """Return the recorded reads."""
        pairs = np.frombuffer(self.bytes_of(f"{name}.trace.zst"), np.uint64).reshape(-1, 2).astype(np.int64)
        return AccessTrace.from_reads(pairs[:, 0], pairs[:, 1])

    def layout(self, image: str) -> VolumeLayout:
        """Read an image."""
        folder = "driver" if image.endswith("-frag") else "aged"
        source = RawFile(self.image_path(f"{folder}/{image}.img"))
        if image.startswith("hfsplus"):
            return read_layout(source)
        return next(layout for layout in read_layouts(source) if layout.facts.volume is not None)

    def predicted(self, layout: VolumeLayout, image: str, kind: str) -> AccessTrace:
        """Predict one trace."""
        order, work = self._workload(layout, image, kind)
        return trace(layout, order=order, work=work)

    def _workload(self, layout: VolumeLayout, image: str, kind: str) -> tuple[str, Work]:
        if kind in READ_FILES:
            file_id = number_of(layout, "large", READ_FILES[kind])
            if kind == "read-random":
                return "read", Work(file_id=file_id, records=self._records(image), record_bytes=RECORD_BYTES)
            return "read", Work(file_id=file_id)
        if kind == "paths":
            return "paths", Work(paths=self.bytes_of(f"{image}-paths.list.zst").decode().splitlines())
        return kind if kind in ("names", "copy") else "fts", Work(stat=kind != "nostat")

    def _records(self, image: str) -> np.ndarray[Any, Any]:
        lines = self.bytes_of(f"{image}-read-random.offsets.tsv.zst").decode().splitlines()
        return np.array([int(line.split("\t")[1]) for line in lines])

    def rows(self, wanted: Callable[[str], bool] = lambda _: True) -> Iterator[Row]:
        """Compare every trace of the selected images."""
        held: tuple[str, VolumeLayout] | None = None
        for image, kind in self:
            if not wanted(image):
                continue
            if held is None or held[0] != image:
                held = image, self.layout(image)
            real, here = self.real(f"{image}-{kind}"), self.predicted(held[1], image, kind)
            yield Row(image, kind, len(real), _same(real, here), score(real, here, held[1]))


def _same(real: AccessTrace, here: AccessTrace) -> int:
    """Count requests that have the same offset and length at the same position."""
    n = min(len(real), len(here))
    return int(
        ((real.image_offset[:n] == here.image_offset[:n]) & (real.length_bytes[:n] == here.length_bytes[:n])).sum()
    )

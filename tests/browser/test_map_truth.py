"""The page against the tables: several zoom levels of eight disks, one of them with a million files.

The tables are painted here into an array of blocks, by the rules of docs/map.md and without the page's own code. A
mouse moves over bars, cells and dots, and the page's text there is compared.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pytest

from fixtures.apfs.large import LargePlan, write_large
from fixtures.apfs.scenarios import SCENARIOS
from fixtures.apfs.writer import write
from layoutscope.api.map import map_page
from layoutscope.api.scan import scan
from layoutscope.filesystems.registry import filesystem_of
from layoutscope.report.map.scans import disks
from layoutscope.tables.schema import DATA_REGIONS
from tests.browser.conftest import FIXTURES, READY_MS, Visit, show
from tests.browser.kinds import KINDS
from tests.conftest import cache_dir

if TYPE_CHECKING:
    from pathlib import Path

    from layoutscope.report.map.scans import MapDisk

MILLION = 1_000_000
CYCLES = 20
PROBES = 10
"""Places per zoom level to which the pointer moves, for bars and for cells."""

DISKS = (
    "apfs-scattered", "hfsplus-scattered", "aged/apfs-20000-c20.img", "aged/hfsplus-20000-c20.img",
    "apple/slate_20121008.raw", "apple/sparkle_apfs_lzma_aux.raw", "volumes", "damaged", "million",
)  # fmt: skip

TOLD = 5
"""The text names this many classes of a range; smaller ones are only counted."""

SHARE = re.compile(r"(.+?) (?:(over 99\.9|under 0\.01|[\d.]+) %)$")


def _image(name: str, folder: Path, reference_image) -> Path:
    if name.endswith("-scattered"):
        return FIXTURES / f"{name}.img.zst"
    if name == "volumes":
        write(SCENARIOS["volumes"], folder / "volumes.img")
        return folder / "volumes.img"
    if name == "million":
        path = cache_dir() / "large" / f"apfs-{MILLION}-c{CYCLES}.img"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            part = path.with_suffix(".part")
            write_large(LargePlan(MILLION, cycles=CYCLES), part)
            part.replace(path)
        return path
    return reference_image(name)


class Blocks:
    """A disk in blocks, each with its class from the tables."""

    def __init__(self, disk: MapDisk) -> None:
        self.size = min(disk.block_size_bytes, 512) if disk.block_size_bytes % 512 else 512
        if disk.size_bytes > 2**32:
            self.size = disk.block_size_bytes
        self.start = disk.image_offset
        self.codes = np.zeros(-(-disk.size_bytes // self.size), np.uint8)
        self.names = ["unclaimed"]
        tables = {
            name: [layout.columns(name) for layout in disk.layouts] for name in ("nodes", "regions", "extents", "free")
        }
        nodes = [
            (table, filesystem_of(layout).traits) for table, layout in zip(tables["nodes"], disk.layouts, strict=True)
        ]
        # Later painting wins: doubly claimed blocks get the first class of the legend, and damage wins over all.
        for table in tables["free"]:
            self.paint("free", table["image_offset"], table["length_bytes"])
        for key in ("unread", "unclaimed", "pending-free", "data"):
            for table in tables["regions"]:
                kinds = table["type"]
                chosen = kinds.equals(key) if key != "data" else kinds.is_in(tuple(DATA_REGIONS))
                part = table.take(np.flatnonzero(chosen))
                self.paint(key, part["image_offset"], part["length_bytes"])
        for table in tables["extents"]:
            self.paint("data", table["image_offset"], table["length_bytes"])
        for table in tables["regions"]:
            other = ~table["type"].is_in(("free", "pending-free", "unclaimed", "unread", *DATA_REGIONS))
            part = table.take(np.flatnonzero(other))
            self.paint("region", part["image_offset"], part["length_bytes"], whole=disk.block_size_bytes)
        for tree in sorted({word for table, _ in nodes for word in table["tree"].numbered()[1]}, reverse=True):
            for table, _ in nodes:
                part = table.take(np.flatnonzero(table["tree"].equals(tree)))
                self.paint(tree, part["image_offset"], part["size_bytes"])
        for condition, key in (("locked", "locked"), ("unread", "damaged"), ("damaged", "damaged")):
            for table, _ in nodes:
                part = table.take(np.flatnonzero(table["condition"].equals(condition)))
                self.paint(key, part["image_offset"], part["size_bytes"])

    def paint(self, name: str, start, length, whole: int = 0) -> None:
        """Give ranges a class; with `whole`, every block in which one of them begins."""
        if name not in self.names:
            self.names.append(name)
        code = self.names.index(name)
        known = start.is_known & length.is_known
        first = (start.data[known].astype(np.int64) - self.start) // self.size
        last = -(-(start.data[known].astype(np.int64) + length.data[known].astype(np.int64) - self.start) // self.size)
        for low, high in zip(first.tolist(), last.tolist(), strict=True):
            self.codes[low:high] = code
        if whole > self.size:  # a block that holds a header of 512 bytes holds nothing else
            step = whole // self.size
            for low in {one // step for one in first.tolist()}:
                rest = self.codes[low * step : (low + 1) * step]
                rest[rest == 0] = code

    def shares(self, low: int, high: int) -> dict[str, float]:
        """Return each class's share of a range, in bytes from the disk's start."""
        first, last = low // self.size, -(-high // self.size)
        codes = self.codes[first:last]
        weight = np.full(len(codes), float(self.size))
        if len(codes):
            weight[0] -= low - first * self.size
            weight[-1] -= last * self.size - high
        counts = np.bincount(codes, weight, minlength=len(self.names))
        return {self.names[code]: counts[code] / (high - low) for code in np.flatnonzero(counts > 0).tolist()}


def _labels(page) -> dict[str, str]:
    return {item["label"]: item["key"] for item in page.evaluate("() => layoutscope.page.disks[0].classes")}


def _said(text: str, labels: dict[str, str]) -> tuple[int, int, dict[str, float]]:
    """Parse a range and its shares from the page's text, without those that it summarizes as "more"."""
    lines = text.splitlines()
    low, high = (int(number.replace(",", "")) for number in re.match(r"bytes ([\d,]+) to ([\d,]+)", lines[0]).groups())
    shares = {}
    for part in lines[1].split(" · "):
        if found := SHARE.match(part):
            told = found[2]
            shares[labels[found[1]]] = (
                1.0 if told == "over 99.9" else 0.0 if told == "under 0.01" else float(told) / 100
            )
    return low, high, shares


def _agrees(said: dict[str, float], true: dict[str, float], tolerance: float) -> bool:
    least = min(said.values()) if len(said) >= TOLD else 0.0
    missed = [key for key, share in true.items() if key not in said and share > least + tolerance]
    return not missed and all(abs(true.get(key, 0.0) - share) <= tolerance for key, share in said.items())


@pytest.mark.images
@pytest.mark.parametrize("name", DISKS)
def test_page_says_what_the_tables_say(browser, reference_image, tmp_path, name):
    """Bars, cells, nodes, files and reads under a real pointer, at four zoom levels, equal those of the tables."""
    result = KINDS["damaged"](tmp_path)[0] if name == "damaged" else scan(_image(name, tmp_path, reference_image))
    disk = disks([result])[0]
    (tmp_path / "page.html").write_text(map_page([result]), "utf-8")
    blocks = Blocks(disk)
    seen = Visit(browser, tmp_path / "page.html", size=(1366, 1400))
    page = seen.page
    page.set_default_timeout(READY_MS)
    labels = _labels(page)
    draw = np.random.default_rng(17)
    checks = 0
    used = page.evaluate("() => layoutscope.page.figure.span")
    nodes = pl.concat([layout.nodes for layout in disk.layouts], how="vertical_relaxed")
    known = nodes.filter(pl.col("image_offset").is_not_null() & (pl.col("device") == disk.device))
    by_place = {row["image_offset"]: row for row in known.iter_rows(named=True)}
    places = np.array(sorted(by_place)) - disk.image_offset
    for zoom in (1, 8, 64, 1024):
        wide = max(used // zoom, 64 * disk.block_size_bytes)
        middle = int(draw.choice(places)) if zoom > 1 and len(places) else used // 2
        show(page, max(0, middle - wide // 2), max(0, middle - wide // 2) + wide)
        page.evaluate("() => layoutscope.detail.draw()")
        page.wait_for_timeout(150)
        checks += _look_at_bars(page, blocks, labels, draw)
        checks += _look_at_cells(page, blocks, labels, by_place, disk, draw)
    show(page, 0, used)
    checks += _look_at_ink(page, blocks, labels, used)
    checks += _look_at_reads(page, disk, draw)
    assert checks >= (70 if disk.walks else 50)
    assert seen.complaints == []
    page.context.close()


INK = """() => {
  const { figure, detail, page } = layoutscope;
  const ink = {}, cells = {};
  for (const { meta, x, width } of figure.plot.data)
    if (meta.part === 'bars' && meta.disk === 0)
      ink[meta.role] = x.reduce((sum, share, i) => sum + share * width[i], 0) * page.figure.unit[0];
  for (const place of detail.painted) {
    const role = place < 0 ? '' : page.figure.roles[place];
    cells[role] = (cells[role] ?? 0) + 1;
  }
  return [ink, cells, detail.cell, Object.fromEntries(page.disks[0].classes.map((c) => [c.key, c.role]))];
}"""


def _look_at_ink(page, blocks: Blocks, labels: dict[str, str], used: int) -> int:
    """A role's ink in bars and number of cells match its bytes in the tables: 1.7 % looks like 1.7 %."""
    page.evaluate("() => layoutscope.detail.turnTo(0)")
    ink, cells, cell, roles = page.evaluate(INK)
    true: dict[str, float] = {}
    for key, share in blocks.shares(0, used).items():
        true[roles[key]] = true.get(roles[key], 0.0) + share * used
    assert len(labels) == len(roles)
    for role, size in true.items():
        if role:
            assert ink[role] == pytest.approx(size, rel=2e-3, abs=2 * blocks.size)
        if role != "damaged":  # each cell with any damage is painted
            spare = cells.get("damaged", 0)
            assert abs(cells.get(role, 0) * cell - size) <= (2 + spare) * cell, (role, cells, size / cell)
    return len(true)


def _look_at_bars(page, blocks: Blocks, labels: dict[str, str], draw) -> int:
    left, wide, top, high = page.evaluate(
        """() => {
          scrollTo(0, 0);
          const { plot } = layoutscope.figure, { xaxis, yaxis } = plot._fullLayout, box = plot.getBoundingClientRect();
          return [box.left + xaxis._offset, xaxis._length, box.top + yaxis._offset, yaxis._length];
        }"""
    )
    checks = 0
    for at in draw.random(PROBES):
        page.mouse.move(left + wide / 2, top + high * at)
        text = page.locator(".tip").first.inner_text()
        if "past the end" in text:
            continue
        low, end, said = _said(text, labels)
        low, end = low - blocks.start, end - blocks.start
        true = blocks.shares(low, end)
        assert _agrees(said, true, 0.006 + 2 * blocks.size / (end - low)), (low, end, said, true)
        checks += 1
    return checks


def _look_at_cells(page, blocks: Blocks, labels: dict[str, str], by_place: dict, disk: MapDisk, draw) -> int:
    box = page.evaluate(
        """() => {
          const { plot } = layoutscope.detail;
          plot.scrollIntoView({ block: 'center' });
          const { xaxis, yaxis } = plot._fullLayout, box = plot.getBoundingClientRect();
          return [box.left + xaxis._offset, xaxis._length, box.top + yaxis._offset, yaxis._length];
        }"""
    )
    page.wait_for_function("() => layoutscope.detail.plot.dataset.drawn === 'yes'")
    left, wide, top, high = page.evaluate(
        """() => {
          const { plot } = layoutscope.detail;
          const { xaxis, yaxis } = plot._fullLayout, box = plot.getBoundingClientRect();
          return [box.left + xaxis._offset, xaxis._length, box.top + yaxis._offset, yaxis._length];
        }"""
    )
    assert box[1] == 0 or wide > 0
    checks = 0
    for across, down in draw.random((PROBES, 2)):
        page.mouse.move(left + wide * across, top + high * down)
        text = page.locator(".tip").nth(1).inner_text()
        if not text or "past the end" in text:
            continue
        low, end, said = _said(text, labels)
        true = blocks.shares(low - blocks.start, end - blocks.start)
        assert _agrees(said, true, 0.006), (low, end, said, true)
        for line in text.splitlines()[2:]:
            if found := re.search(r"(\S+) (?:\w+ )?node (\d+) · .*at byte ([\d,]+)$", line):
                node = by_place[int(found[3].replace(",", ""))]
                assert (str(node["tree"]), node["node_id"]) == (found[1], int(found[2]))
                records = re.search(r"(\d+) records", line)
                assert records is None or node["num_records"] in (None, int(records[1]))
            for volume, layout in enumerate(disk.layouts):
                if disk.called.get(volume, "") and not line.startswith(f"data of {disk.called[volume]}"):
                    continue
                for number in re.findall(r"file (\d+) “", line):
                    own = layout.extents.filter(pl.col("file_id") == int(number))
                    if own.height:
                        inside = (pl.col("image_offset") < end) & (
                            pl.col("image_offset") + pl.col("length_bytes") > low
                        )
                        assert own.filter(inside).height
                        checks += 1
        checks += 1
    return checks


def _look_at_reads(page, disk: MapDisk, draw) -> int:
    if not disk.walks:
        return 0
    walks = [walk for walk in disk.walks if walk.drive == disk.walks[0].drive]
    offsets = np.concatenate([walk.trace.image_offset for walk in walks])
    left, wide, x0, x1, top, high, y0, y1 = page.evaluate(
        """() => {
          scrollTo(0, 0);
          const { plot } = layoutscope.figure, { xaxis2: x, yaxis: y } = plot._fullLayout;
          const box = plot.getBoundingClientRect();
          return [box.left + x._offset, x._length, ...x.range, box.top + y._offset, y._length, ...y.range];
        }"""
    )
    unit = page.evaluate("() => layoutscope.page.figure.unit[0]")
    dots = page.evaluate(
        """() => layoutscope.figure.plot.data.filter(({ meta }) => meta.part === 'dots' && meta.disk === 0)
          .flatMap(({ x, y }) => x.map((at, i) => [at, y[i]]))"""
    )
    checks = 0
    for number in draw.choice(len(dots), min(PROBES, len(dots)), replace=False):
        x, y = dots[number]
        page.mouse.move(left + wide * (x - x0) / (x1 - x0), top + high * (1 - (y - y0) / (y1 - y0)))
        text = page.locator(".tip").first.inner_text()
        at = int(re.search(r"at byte ([\d,]+)", text)[1].replace(",", ""))
        assert (offsets == at).any()
        nearest = np.abs(offsets - disk.image_offset - y * unit).min()
        assert nearest < 1
        checks += 1
    return checks

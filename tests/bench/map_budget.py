"""Size, memory and speed of a page for a disk with ten million blocks of metadata, strewn over a terabyte.

``python -m tests.bench.map_budget [NODES]`` prints the figures; the browser's part needs Playwright and Chromium.
"""

from __future__ import annotations

import resource
import shutil
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from layoutscope.report.map import MapDisk, render
from layoutscope.tables import NULL_ROW, VolumeFacts, VolumeLayout, build_table, findings_table

DISK_BYTES = 2**40
BLOCK_BYTES = 4096


def strewn_layout(num_nodes: int) -> VolumeLayout:
    """A layout of nodes at random blocks, as many extents as a tenth of them, no names."""
    rng = np.random.default_rng(1)
    blocks = rng.permutation(np.unique(rng.integers(0, DISK_BYTES // BLOCK_BYTES, num_nodes)))
    ids = np.arange(len(blocks), dtype=np.uint64)
    nodes = build_table(
        "nodes",
        {
            "device": 0, "volume": 0, "tree": (ids % 20 == 0, ["fs", "omap"]), "node_id": ids + 1024,
            "image_offset": blocks * BLOCK_BYTES, "size_bytes": np.full(len(ids), BLOCK_BYTES), "level": 0,
            "kind": "leaf", "num_records": 20, "used_bytes": 2000, "free_bytes": 2000, "xid": ids // 20_000 + 1,
            "parent_row": None, "key_rank": ids, "first_key_id": ids, "last_key_id": ids + 1, "state": "live",
            "valid": "checksum",
        },
    )  # fmt: skip
    starts = np.sort(rng.integers(0, DISK_BYTES // BLOCK_BYTES, num_nodes // 10)) * BLOCK_BYTES
    extents = build_table(
        "extents",
        {
            "device": 0, "volume": 0, "file_id": np.arange(len(starts), dtype=np.uint64), "fork": "data",
            "logical_offset": 0, "image_offset": starts, "length_bytes": np.full(len(starts), 65536),
            "node_row": np.full(len(starts), NULL_ROW), "flags": 0,
        },
    )  # fmt: skip
    facts = VolumeFacts("apfs", "APFS", 0, "strewn", "", (), 0, DISK_BYTES, BLOCK_BYTES, False, 1, 0, 0)
    empty = {name: build_table(name, {}) for name in ("node_fragments", "regions", "entries", "free")}
    return VolumeLayout(facts, nodes, extents=extents, findings=findings_table([]), **empty)


def browse(page: Path) -> list[str]:
    """Tell what the page takes in a browser, in lines."""
    from playwright.sync_api import sync_playwright

    from tests.bench.map_frames import figures
    from tests.browser.conftest import ARGUMENTS

    with (
        sync_playwright() as driver,
        driver.chromium.launch(executable_path=shutil.which("chromium"), args=ARGUMENTS) as browser,
    ):
        return list(figures(browser, page))


def main() -> None:
    """Print what a page of so many nodes costs."""
    layout = strewn_layout(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begin, begin_cpu = time.perf_counter(), time.process_time()
    text = render([MapDisk("strewn", "APFS", [layout], 0, DISK_BYTES, BLOCK_BYTES)], made="a benchmark")
    wall, cpu = time.perf_counter() - begin, time.process_time() - begin_cpu
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"{layout.nodes.height:,} nodes: page of {len(text) / 1e6:.1f} MB in {wall:.1f} s ({cpu:.1f} s of CPU)")  # noqa: T201
    print(f"peak {after / 1024:,.0f} MiB, of which the layout {before / 1024:,.0f} MiB")  # noqa: T201
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        page.write_text(text, "utf-8")
        print("\n".join(browse(page)))  # noqa: T201


if __name__ == "__main__":
    main()

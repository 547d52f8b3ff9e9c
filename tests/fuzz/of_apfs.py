"""APFS containers: scan, check and sweep of small images; nine of ten cases have correct checksums."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path
from typing import Final

from fixtures.apfs.checksum import with_checksum
from fixtures.apfs.plan import ContainerPlan, SpacePlan, TakeSnapshot, Touch, TransactionPlan, TreeShape, VolumePlan
from fixtures.apfs.scenarios import ENCRYPTED, PASSWORD, RICH, SCENARIOS, SEALED, container, many
from fixtures.apfs.writer import write
from layoutscope.errors import FormatError
from tests.fuzz.base import PAGE_BYTES, Base, Change, changed_pages

_DEEP: Final = VolumePlan("Deep", many(60), fs_shape=TreeShape(24, 8), omap_shape=TreeShape(12, 8))
_STEPS: Final = (
    TransactionPlan((TakeSnapshot("first"),)),
    TransactionPlan((Touch("short"), TakeSnapshot("second"))),
    TransactionPlan((Touch("short"),)),
)
PLANS: Final = {
    "rich": ContainerPlan((VolumePlan("Rich", RICH),), block_count=16384, space=SpacePlan(pool_paddr=1100)),
    "many": ContainerPlan((VolumePlan("Many", many(60)), VolumePlan("Empty")), block_count=4096),
    "deep": ContainerPlan((_DEEP,), block_count=4096),
    "snapshots": container(VolumePlan("Snapshots", RICH), transactions=_STEPS, block_count=16384),
    "sealed": container(SEALED, block_count=16384),
    "encrypted": container(ENCRYPTED, block_count=16384),
}


def apfs_bases() -> tuple[Base, ...]:
    """Write the sound images."""
    return tuple(_base(name, plan) for name, plan in PLANS.items())


def _base(name: str, plan: ContainerPlan) -> Base:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "disk.img"
        write(plan, path)
        return _base_of(path, name)


def _base_of(path: Path, name: str) -> Base:
    """Make a base of an image whose container starts at its first page."""
    pages = _pages(path)
    objects = [page for page, data in pages.items() if data == with_checksum(data)]
    spots = [(page * PAGE_BYTES + at, width) for page in objects for at, width in _words(pages[page])]
    ranges = tuple((page * PAGE_BYTES, PAGE_BYTES) for page in objects)
    orders = ("little", "little", "little", "big")
    return Base(name, path.stat().st_size, pages, tuple(spots), ranges, repair=_repaired, orders=orders)


def _words(page: bytes) -> list[tuple[int, int]]:
    """Return numbers of every width after the checksum, where a page is not empty."""
    used = [at for at in range(8, PAGE_BYTES, 8) if any(page[at : at + 8])]
    return [(at + step, width) for at in used for step, width in ((0, 8), (0, 4), (4, 4), (0, 2), (2, 2), (4, 2))]


def _pages(path: Path) -> dict[int, bytes]:
    empty = bytes(PAGE_BYTES)
    with path.open("rb") as file:
        found = enumerate(iter(lambda: file.read(PAGE_BYTES), b""))
        return {page: data for page, data in found if data != empty}


def _repaired(base: Base, changes: tuple[Change, ...]) -> list[Change]:
    """Correct the checksum of every page that is an object."""
    return [
        Change(page * PAGE_BYTES, 8, with_checksum(bytes(data))[:8])
        for page, data in changed_pages(base, changes).items()
        if base.read(page * PAGE_BYTES, PAGE_BYTES) == with_checksum(base.read(page * PAGE_BYTES, PAGE_BYTES))
    ]


def run_apfs(path: Path, base: Base) -> int:
    """Scan, check and sweep an image."""
    from layoutscope.image import open_image
    from tests.apfs import check_container, read_layouts

    password = PASSWORD if base.name == "encrypted" else None
    with open_image(path) as source:
        layouts = read_layouts(source, password=password, sweep=True)
        try:
            findings = check_container(source, password=password)
        except FormatError:
            # Damage that only a sweep finds is checked with one.
            findings = check_container(source, password=password, sweep=True)
    levels = {finding.level for finding in findings}.union(*(layout.findings["level"] for layout in layouts))
    return 3 if levels - {"info"} else 0


# Fusion sets, of which one image is changed.


@cache
def _fusion() -> Path:
    """Write both images once."""
    folder = Path(tempfile.mkdtemp(prefix="fuzz-fusion-"))
    write(SCENARIOS["fusion"], folder / "main.img", folder / "second.img")
    return folder


def fusion_bases() -> tuple[Base, ...]:
    """Return both images of a set."""
    return tuple(_base_of(_fusion() / name, name) for name in ("main.img", "second.img"))


def run_fusion(path: Path, base: Base) -> int:
    """Scan the set with one image changed."""
    from layoutscope import scan

    main, second = (path if name == base.name else _fusion() / name for name in ("main.img", "second.img"))
    return scan(main, second=second, drives=()).exit_code

"""``list`` against the listings of the drivers, which mounted the same volumes."""

from __future__ import annotations

import unicodedata

import pytest

import layoutscope
from tests.layouts import FIND_LETTERS

LISTINGS = {
    **{
        name: (f"driver/{name}.img", {})
        for name in (
            *("apfs-ci", "apfs-frag", "apfs-normsens", "apfs-snap"),
            *("hfsplus-4k", "hfsplus-b512-n4096", "hfsplus-frag", "hfsplus-journaled-pop", "hfsx-cs"),
        )
    },
    "apfs-snap.snap1": ("driver/apfs-snap.img", {"snapshot": "snap1"}),
    "apfs-snap.snap2": ("driver/apfs-snap.img", {"snapshot": "snap2"}),
    "part-apfs": ("driver/gpt-both.img", {"volume": "2"}),
    "part-hfsplus": ("driver/gpt-both.img", {"volume": "1"}),
}


@pytest.mark.parametrize("name", LISTINGS)
def test_a_list_equals_the_drivers_listing(name, reference_image, truth):
    """Every path with its inode number, kind and size; symbolic links are empty to the driver of APFS."""
    image, options = LISTINGS[name]
    rows = layoutscope.list(reference_image(image), **options)
    found = rows.part(slice(None))
    columns = (found[column] for column in ("path", "file_id", "kind", "size_bytes"))
    listed = {
        unicodedata.normalize("NFD", path): (number, FIND_LETTERS[kind], size if kind == "file" else None)
        for path, number, kind, size in zip(*columns, strict=True)
    }
    expected = {}
    for line in truth(f"{name}.find.tsv.zst").decode("utf-8", "surrogateescape").split("\n")[:-1]:
        number, kind, _, size, _, path = line.split("\t")
        shown = unicodedata.normalize("NFD", f"/{path}")
        expected[shown] = (int(number), kind, int(size) if kind == "f" else None)
    assert listed == expected
    assert len(rows) == len(expected)


@pytest.mark.parametrize("name", ["apfs-20000-c20", "hfsplus-20000-c20"])
def test_a_list_holds_the_paths_that_were_looked_up(name, reference_image, truth):
    """Paths that were handed to the driver in a random order, of files that it found."""
    rows = layoutscope.list(reference_image(f"aged/{name}.img"))
    listed = set(rows.part(slice(None))["path"])
    wanted = truth(f"{name}-paths.list.zst").decode().splitlines()
    assert len(wanted) > 1000
    assert {f"/{path.lstrip('./')}" for path in wanted} <= listed

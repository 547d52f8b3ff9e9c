"""A scan prints, draws and saves itself; names of the previous release give a warning."""

from __future__ import annotations

import pytest

import layoutscope
from layoutscope.errors import UsageError

APFS = "fixtures/images/apfs-scattered.img.zst"


@pytest.fixture(scope="module")
def scan():
    """Scan an image with a container and a volume."""
    return layoutscope.scan(APFS)


def test_print_shows_the_report(scan, capsys):
    """The first screen is printed, while the repr is one line."""
    print(scan)  # noqa: T201
    assert "SLOW on hard disks: listing all files takes" in capsys.readouterr().out
    assert "\n" not in repr(scan)


def test_volumes_causes_and_remedies(scan):
    """Volumes are apart from containers, and titles are given."""
    (volume,), (container,) = scan.volumes, scan.containers
    assert (volume.layout.facts.name, container.layout.facts.volume) == ("Scattered", None)
    assert scan.parts == (container, volume)
    assert scan.volume is volume
    # Titles are plain words, those of the screen.
    verdict = scan.volume.verdict
    assert verdict.named_causes
    for item in (*verdict.named_causes[:3], *verdict.helpful[:2]):
        assert item.title in str(scan)
    assert all(" " in item.title for item in (*verdict.causes, *verdict.remedies))


def test_a_scan_writes_its_map_and_its_capture(scan, tmp_path):
    """It writes them like the command-line verbs; an existing file stays."""
    scan.map(tmp_path / "map.html", names=False)
    assert "<html" in (tmp_path / "map.html").read_text("utf-8")
    with pytest.raises(UsageError, match="exists"):
        scan.map(tmp_path / "map.html")
    scan.save(tmp_path / "a.lscope")
    assert layoutscope.scan(tmp_path / "a.lscope", drives=()).volume.layout.facts.name == "Scattered"
    # The verb accepts scans instead of images, and does not read the images again.
    assert layoutscope.map([scan, scan], tmp_path / "two.html") == (scan, scan)
    with pytest.raises(UsageError, match="Scan the images first"):
        layoutscope.map([scan, APFS], tmp_path / "mixed.html")


@pytest.mark.parametrize(
    ("name", "new"), [("layout_map", "scan.figure"), ("save", "scan.save"), ("write_map", "scan.map")]
)
def test_old_names_are_understood_with_a_warning(name, new):
    """They are no longer public names of the package."""
    with pytest.warns(DeprecationWarning, match=f"layoutscope.{name} is removed in the next release: write {new}"):
        assert callable(getattr(layoutscope, name))
    assert name not in layoutscope.__all__
    assert name not in dir(layoutscope)

"""Plans of real volumes: copies are compared with fresh volumes, and times with predictions."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from layoutscope import plan, predict, read_layouts, scan
from layoutscope.drive import load_profile, service
from layoutscope.filesystems.registry import filesystem
from layoutscope.remedies.case import Case
from layoutscope.remedies.changes import copied_by_name
from layoutscope.remedies.planning import QUICK
from layoutscope.walk import trace
from layoutscope.walk.host import host_profile

DISK = load_profile("generic-5400-2.5")


def volume(path):
    return next(item for item in read_layouts(path) if item.columns("entries").frame.height)


def test_a_remade_apfs_takes_as_long_as_a_fresh_one(reference_image):
    """With the parameters of a fresh volume of 20,000 files, the listing time agrees within 2 %."""
    fresh = volume(reference_image("aged/apfs-20000-c00.img"))
    made = filesystem("apfs").remade(fresh)
    real, again = trace(fresh), trace(made)
    assert len(again) == pytest.approx(len(real), rel=0.02)
    assert service(again, DISK).seconds == pytest.approx(service(real, DISK).seconds, rel=0.02)


@pytest.mark.parametrize("name", ["apfs", "hfsplus"])
def test_a_driver_fills_a_volume_as_its_rule_says(reference_image, name):
    """Filled file by file with the rule of the driver that made it: reads within 1 %, and the time within 2 %."""
    fresh = volume(reference_image(f"aged/{name}-20000-c00.img"))
    real, made = trace(fresh), [trace(item) for item in filesystem(name).copied(fresh, host_profile("linux"))]
    assert len(made[0]) == pytest.approx(len(real), rel=0.01)
    assert service(made[0], DISK).seconds == pytest.approx(service(real, DISK).seconds, rel=0.02)
    # The volume names the version of the driver.
    assert len(made) == 1
    # A driver that splits nodes with fragmented free space leaves them far less full.
    unnamed = fresh.changed(facts=replace(fresh.facts, details={}))
    others = [trace(item) for item in filesystem(name).copied(unnamed, host_profile("linux"))[1:]]
    assert [len(other) > 1.5 * len(real) for other in others] == ([True] if name == "apfs" else [])


def test_a_copy_by_name_takes_as_long_as_a_volume_that_was_filled_by_name(reference_image):
    """200,000 files among their data, created in alphabetical order: within 10 %, with another number of leaves."""
    fresh = volume(reference_image("aged/apfs-200000-c00.img"))
    case = Case(fresh, DISK, "fts", host_profile("linux"))
    copied = copied_by_name(case)
    assert len(copied.parts[0].reads) == pytest.approx(len(case.reads), rel=0.05)
    real = service(case.reads, DISK).seconds
    assert service(copied.parts[0].reads, DISK).seconds == pytest.approx(real, rel=0.1)


def test_a_copy_of_a_catalog_takes_as_long_as_a_fresh_one(reference_image):
    """For the aged HFS+ volume of 200,000 files the predicted copy takes as long as the fresh one, within 10 %."""
    aged, fresh = (volume(reference_image(f"aged/hfsplus-200000-{age}.img")) for age in ("c20", "c00"))
    copied = copied_by_name(Case(aged, DISK, "fts", host_profile("linux")))
    assert service(copied.parts[0].reads, DISK).seconds == pytest.approx(service(trace(fresh), DISK).seconds, rel=0.1)


@pytest.mark.parametrize("image", ["apfs-20000-c20", "hfsplus-20000-c20"])
def test_a_plan_says_what_predictions_say(reference_image, image):
    """The current time, names only, and another drive have the times of `predict`."""
    path = reference_image(f"aged/{image}.img")
    (found,) = plan(path).volumes
    rows = {row.words.name: row.seconds for row in found.remedies}
    now, names = (predict(path, drives=DISK.name, stat=stat).times["seconds"][0] for stat in (True, False))
    flash = predict(path, drives="sata-ssd").times["seconds"][0]
    assert found.seconds == now
    assert rows["names-only"] == pytest.approx(names)
    assert rows["solid-state"] == pytest.approx(flash)


@pytest.mark.full
@pytest.mark.parametrize("name", ["apfs-scattered", "hfsplus-scattered"])
@pytest.mark.parametrize("order", ["fts", "ls", "copy", "archive"])
@pytest.mark.parametrize("host", ["linux", "macos"])
def test_every_kind_of_work_has_a_plan(name, order, host):
    """On both file systems, for both hosts, with and without contents: some remedies apply, and some help."""
    (found,) = plan(f"fixtures/images/{name}.img.zst", order=order, host=host).volumes
    assert found.helpful
    assert all(row.saved_s == pytest.approx(found.seconds - row.seconds) for row in found.remedies)
    assert all(row.effort_s is None or row.effort_s >= 0 for row in found.remedies)


@pytest.mark.full
@pytest.mark.parametrize("host", ["linux", "macos"])
@pytest.mark.parametrize(
    "image", ["apfs-20000-c00", "apfs-20000-c20", "hfsplus-20000-c20", "apfs-200000-c20", "apfs-scattered"]
)
def test_a_scan_tells_the_first_rows_of_the_plan(reference_image, image, host):
    """The remedies that need no other layout, in the plan's order, with its seconds; for both hosts."""
    is_ours = image.endswith("scattered")
    path = f"fixtures/images/{image}.img.zst" if is_ours else reference_image(f"aged/{image}.img")
    volumes = scan(path, drives=(DISK.name, "sata-ssd"), host=host).parts
    verdict, flash = next((item.verdict, item.predictions[1]) for item in volumes if item.verdict)
    (found,) = plan(path, host=host).volumes
    names = set(QUICK)
    rows = [row for row in found.remedies if row.words.name in names and not row.why_not]
    assert [(item.name, item.title) for item in verdict.remedies] == [(row.words.name, row.words.title) for row in rows]
    assert [item.seconds for item in verdict.remedies] == pytest.approx([row.seconds for row in rows], rel=1e-9)
    assert [item.helps for item in verdict.remedies] == [row.helps for row in rows]
    # The same drive is in the table of times above them.
    assert [item.seconds for item in verdict.remedies if item.name == "solid-state"] == pytest.approx([flash.seconds])
    # Earlier rows of the plan need another layout or a purchase.
    before = found.remedies[: next(i for i, row in enumerate(found.remedies) if row.words.name == verdict.best.name)]
    assert {row.words.kind for row in before} <= {"volume", "hardware"}

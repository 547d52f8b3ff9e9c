"""Both decoders agree on every view: live, each snapshot, older checkpoints, sealed and not, locked and unlocked."""

from __future__ import annotations

import pytest

import layoutscope
from tests.losses.images import APFS_PLANS, HFSPLUS_PLANS, written_images

MAX_OF_A_KIND = 3
"""Older checkpoints and snapshots per image that are read, the newest first."""


def views(path, **options):
    """Yield the options that show each state of an image."""
    states = layoutscope.checkpoints(path, **options)
    snapshots = [state.label for state in states if state.kind == "snapshot"]
    checkpoints = [state.xid for state in states if state.kind == "checkpoint" and state.is_complete]
    yield {}
    yield {"sweep": True}
    yield from ({"snapshot": label} for label in snapshots[-MAX_OF_A_KIND:])
    yield from ({"xid": xid} for xid in checkpoints[1 : MAX_OF_A_KIND + 1])


def disagreements(path, view, **options):
    """Return the tables of a view on which the decoders differ, and the number of compared rows."""
    found = layoutscope.verify(path, **view, **options)
    return [item for item in found.tables if item.differences], sum(item.rows for item in found.tables)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Write our own images; return them with their options, by name."""
    return {sound.name: sound for sound in written_images(tmp_path_factory.mktemp("views"))}


@pytest.mark.full
@pytest.mark.parametrize("name", [name for name in APFS_PLANS if name != "deep"])
def test_every_view_of_a_written_container(written, name):
    """Snapshots, sealed or not, and remaining checkpoints; an encrypted volume with its password, too."""
    sound = written[f"written-apfs-{name}"]
    for view in views(sound.path, **sound.options):
        wrong, rows = disagreements(sound.path, view, **sound.options)
        assert (view, wrong) == (view, [])
        assert rows > 0


def test_a_locked_volume(written):
    """Without the password, unencrypted data are read alike."""
    assert disagreements(written["written-apfs-encrypted"].path, {})[0] == []


@pytest.mark.parametrize("view", [{}, {"no_journal": True}, {"sweep": True}], ids=["live", "as it lies", "sweep"])
@pytest.mark.parametrize("name", [name for name in HFSPLUS_PLANS if "journal" in name or name in ("sized", "victim")])
def test_every_view_of_a_written_volume(written, name, view):
    """With the journal replayed, and with the bytes as stored."""
    assert disagreements(written[f"written-hfsplus-{name}"].path, view)[0] == []


@pytest.mark.full
@pytest.mark.images
@pytest.mark.parametrize(
    "name",
    [
        "apple/dissect_case_sensitive_beta.raw",
        "apple/hdimac_apfs-c.raw",
        "apple/offsite_source_2snaps.raw",
        "apple/sparkle_apfs_lzma_aux.raw",
        "driver/apfs-empty.img",
        "driver/apfs-snap.img",
    ],
)
def test_every_view_of_images_of_others(reference_image, name):
    """Images from macOS and Linux's driver that have snapshots or older checkpoints."""
    path = reference_image(name)
    for view in views(path):
        assert (view, disagreements(path, view)[0]) == (view, [])

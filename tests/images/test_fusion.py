"""The Fusion pair that mkapfs made (`fusion/`): two devices, one container, clean to apfsck 0.2.1."""

from __future__ import annotations

import pytest

import layoutscope
from fixtures.apfs.checksum import with_checksum
from fixtures.apfs.scenarios import SCENARIOS
from fixtures.apfs.writer import write
from layoutscope.errors import FormatError

BLOCK = 4096
MAIN_BLOCKS, SECOND_BLOCKS = 153_600, 524_288
UUID_AT = 1280
"""nx_fusion_uuid in the superblock."""


pytestmark = pytest.mark.images


@pytest.fixture(scope="module")
def pair(reference_image):
    return reference_image("fusion/main.img"), reference_image("fusion/tier2.img")


@pytest.fixture
def copies(pair, tmp_path):
    """Return copies whose set identifier has the other highest bit, as in half of all sets."""
    paths = []
    for image in pair:
        path = tmp_path / image.name
        with image.open("rb") as source, path.open("wb") as target:
            target.truncate(image.stat().st_size)
            for at in range(0, 16 << 20, BLOCK):
                source.seek(at)
                block = source.read(BLOCK)
                if block[32:36] == b"NXSB":
                    changed = bytearray(block)
                    changed[UUID_AT] ^= 0x80
                    block = with_checksum(bytes(changed))
                if any(block):
                    target.seek(at)
                    target.write(block)
        paths.append(path)
    return tuple(paths)


def levels(result):
    found = [finding.level for finding in result.findings]
    return found + [level for volume in result.parts for level in volume.layout.findings["level"]]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_pair_opens_whichever_half_is_named_first(pair, order):
    """Everything is read, without findings."""
    first, second = (pair[place] for place in order)
    result = layoutscope.scan(first, second=second, drives=())
    assert result.exit_code == 0
    assert set(levels(result)) <= {"info"}
    assert [volume.layout.facts.name for volume in result.parts] == ["", "Fuse"]


def test_blocks_of_both_devices_are_told_apart(pair):
    """The superblock counts the blocks of both; on the second device only its superblock copy is used."""
    result = layoutscope.scan(pair[0], second=pair[1], drives=())
    layout = result.parts[0].layout
    assert layout.facts.details["blocks"] == MAIN_BLOCKS + SECOND_BLOCKS
    assert layout.facts.details["claimed but free blocks"] == 0
    assert layout.facts.details["unclaimed blocks"] == 0
    free = layout.free.select("device", "image_offset", "length_bytes").rows()
    assert [row for row in free if row[0] == 1] == [(1, BLOCK, (SECOND_BLOCKS - 1) * BLOCK)]
    assert max(at + length for device, at, length in free if device == 0) == MAIN_BLOCKS * BLOCK


def test_check_finds_nothing(pair):
    """As with apfsck."""
    for first, second in (pair, pair[::-1]):
        result = layoutscope.check(first, second=second)
        assert [finding for finding in result.findings if finding.level != "info"] == []


def test_halves_alone_say_which_one_is_missing(pair):
    """Each is identified, and the missing one is damage."""
    # Nothing on the second device can be read alone: the main device has all checkpoints.
    for image, words, code in zip(pair, ("second device", "main device"), (3, 1), strict=True):
        result = layoutscope.scan(image, drives=())
        messages = [message for volume in result.parts for message in volume.layout.findings["message"]]
        assert result.exit_code == code
        assert any(words in message and "not given" in message for message in messages)


def test_second_device_alone_has_no_checkpoints(pair):
    """Commands that list states name this half and the missing one."""
    with pytest.raises(FormatError, match=r"second device of a Fusion set; its main device.* was not given"):
        layoutscope.checkpoints(pair[1])
    assert [state.kind for state in layoutscope.checkpoints(pair[0])] == ["checkpoint"]


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """Write a set with nodes and data on both devices."""
    folder = tmp_path_factory.mktemp("filled")
    paths = folder / "main.img", folder / "second.img"
    write(SCENARIOS["fusion"], *paths)
    return paths


@pytest.mark.full
def test_bytes_are_those_of_the_device_in_the_tables(filled, tmp_path):
    """Whichever half is named first: metadata hash, owners and modes of files, single nodes, check, inspect."""
    seen = []
    for first, second in (filled, filled[::-1]):
        result = layoutscope.scan(first, second=second, drives=(), identify=True)
        nodes = [row for item in result.parts for row in item.layout.nodes.iter_rows(named=True)]
        assert {row["device"] for row in nodes} == {0, 1}
        shown = [
            layoutscope.inspect(first, second=second, node=f"fs:{row['node_id']}").structures
            for row in nodes
            if row["tree"] == "fs" and row["level"] == 0
        ]
        assert all(fields.fields for each in shown for fields in each)
        layoutscope.export(first, None, tmp_path / "list", second=second, file_format="bodyfile", force=True)
        checked = layoutscope.check(first, second=second)
        seen.append((result.image.metadata_sha256, shown, (tmp_path / "list").read_bytes(), checked.volumes))
    assert seen[0] == seen[1]


def test_first_byte_of_the_identifier_says_nothing(copies):
    """Only the last bit distinguishes the devices."""
    result = layoutscope.scan(copies[1], second=copies[0], drives=())
    assert result.exit_code == 0
    assert layoutscope.scan(copies[0], drives=()).parts[-1].layout.facts.name == "Fuse"


def test_two_images_of_one_half_are_refused(pair, tmp_path):
    """They are not two halves of a set."""
    other = tmp_path / "other.img"
    other.symlink_to(pair[0])
    with pytest.raises(FormatError):
        layoutscope.scan(pair[0], second=other, drives=())


@pytest.mark.parametrize("has_second", [True, False])
def test_the_same_byte_of_two_devices_is_counted_twice(pair, has_second):
    """Everything but the metadata is free by the main device's bitmaps, and every byte of the set has one use."""
    result = layoutscope.scan(pair[0], second=pair[1] if has_second else None, drives=())
    container = result.parts[0]
    held = {row.use: row.size_bytes for row in container.space}
    assert set(held) == {"metadata", "free"}
    assert held["free"] == container.layout.free["length_bytes"].sum()
    assert sum(held.values()) == (MAIN_BLOCKS + SECOND_BLOCKS) * BLOCK


def test_uses_of_both_devices_are_those_of_their_tables(tmp_path):
    """With files and nodes on both, even at equal addresses, data and free space add up per device."""
    paths = tmp_path / "main", tmp_path / "second"
    write(SCENARIOS["fusion"], *paths)
    volumes = layoutscope.scan(paths[0], second=paths[1], drives=()).parts
    (held,) = ({row.use: row.size_bytes for row in item.space} for item in volumes if item.space)
    layouts = [item.layout for item in volumes]
    assert set(layouts[0].free["device"].to_list()) == {0, 1}
    used = sum(size for use, size in held.items() if use in ("metadata", "data"))
    details = layouts[0].facts.details
    assert held["free"] == details["free blocks"] * BLOCK
    assert used + held["free"] + held.get("pending-free", 0) + held.get("unaccounted", 0) == details["blocks"] * BLOCK
    assert held.get("unaccounted", 0) == 0

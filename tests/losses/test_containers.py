"""The campaign on maps and containers: sound disks pass, and each kind of fault is detected."""

from __future__ import annotations

import struct
import time
import zlib
from collections import Counter
from dataclasses import replace

import pytest

from tests.losses import containers
from tests.losses.containers import Campaign, Judged, table, verdict
from tests.losses.disks import Base, Known, container_bases, known_of, map_bases, mark, write

OWN = ("dmg", "sparse-image", "parallels", "vdi", "e01-set", "mac-binary", "disc", "split", "bundle", "asif")


@pytest.fixture(scope="module")
def bases() -> dict[str, Base]:
    """All maps, and containers of our own writers around an HFS+ disk."""
    return {base.name: base for base in [*map_bases(), *container_bases(with_apfs=False)]}


def judged(base: Base, folder, *, more: Counter | None = None, known: Known | None = None, **changes: bytes) -> str:
    """Judge a disk with some files replaced, against more entries than it has."""
    known = known or known_of(base, folder / "case")
    files = {name: bytearray(changes.get(name.replace(".", "_"), data)) for name, data in base.files.items()}
    write(base.pack(files), folder / "case")
    return verdict(base, known._replace(rows=known.rows + (more or Counter())), folder / "case", sweep=False)[0]


def test_sound_disks_are_right(bases, tmp_path):
    """Every map and some containers: all entries are found, and each address holds the data that identify it."""
    chosen = [base for base in bases.values() if base.is_map or base.name in OWN]
    assert len(chosen) >= 15 + len(OWN)
    assert {base.name: judged(base, tmp_path) for base in chosen} == {base.name: "right" for base in chosen}


def test_data_elsewhere_are_a_wrong_address(bases, tmp_path):
    """One sector of a file is replaced by zeros, as if the address led elsewhere."""
    disk = bytearray(bases["gpt-512"].disk)
    at = disk.index(mark("Second", 17, "data", 0))
    disk[at : at + 512] = bytes(512)
    assert judged(bases["gpt-512"], tmp_path, disk_img=bytes(disk)) == "wrong address"


def test_doubt_about_one_volume_excuses_no_other(bases, tmp_path):
    """The first volume has no header, a copy with one block more, and no header nodes, so its start is uncertain."""
    base = bases["mbr"]
    disk = bytearray(base.disk)
    (low, high), *_ = known_of(base, tmp_path / "case").spaces
    header, copy = low + 1024, high - 1024
    for field in (192, 272):  # extents-overflow and catalog forks, whose first extents are 16 bytes further on
        block = int.from_bytes(disk[header + field + 16 : header + field + 20], "big")
        disk[low + 512 * block : low + 512 * block + 32] = bytes(32)
    disk[header : header + 512] = bytes(512)
    disk[copy + 44 : copy + 48] = (301).to_bytes(4, "big")
    assert judged(base, tmp_path, disk_img=bytes(disk)) == "right"
    for name, expected in (("First", "told"), ("Second", "wrong address")):
        torn = bytearray(disk)
        at = torn.index(mark(name, 17, "data", 0))
        torn[at : at + 512] = bytes(512)
        assert judged(base, tmp_path, disk_img=bytes(torn)) == expected


def test_missing_entries_are_silent(bases, tmp_path):
    """An entry that the sound disk is claimed to have, and that no finding mentions."""
    row = ("Second", 2, 99, "one more")
    assert judged(bases["mbr"], tmp_path, more=Counter([row])) == "silent"
    assert judged(bases["vdi"], tmp_path, more=Counter([row])) == "silent"


def test_a_free_band_is_another_disk(bases, tmp_path):
    """The band with a file's second piece is marked free; nothing in a sparse image contradicts that."""
    base = bases["sparse-image"]
    image, disk = bytearray(base.files["disk.img"]), base.disk
    band = disk.index(mark("Second", 19, "data", 1)) // 8192
    numbers = struct.unpack_from(">1008I", image, 64)
    struct.pack_into(">I", image, 64 + 4 * numbers.index(band + 1), 0)
    assert judged(base, tmp_path, disk_img=bytes(image)) == "another disk"


def test_mutants_are_made_again(bases, tmp_path):
    """Seed and number reproduce a mutant. Most GPT mutants have correct checksums; the first header's is compared."""
    campaign = Campaign([bases["gpt-512"], bases["dmg"]], tmp_path, 5)
    assert campaign.mutant(8)[1:] == campaign.mutant(8)[1:]
    right = 0
    for number in range(0, 80, 2):
        disk = campaign.mutant(number)[1]["disk.img"]
        length = struct.unpack_from("<I", disk, 524)[0]
        head = disk[512 : 512 + min(length, 512)]
        right += zlib.crc32(head[:16] + bytes(4) + head[20:]) == struct.unpack_from("<I", disk, 528)[0]
    assert 20 <= right < 40


@pytest.mark.full
def test_mutants_are_judged(bases, tmp_path):
    """A mutant of each map and of each container of an HFS+ disk, each in its own process: none is a fault."""
    campaign = Campaign([*bases.values()], tmp_path, 6)
    found = [campaign.judge(number) for number in range(len(bases))]
    assert [item for item in found if item.verdict in containers.FAULTS] == []
    assert all(item.peak_bytes > 0 for item in found)
    assert "| apm-512 | 1 |" in table(found)
    assert f"| **all** | {len(found)} |" in table(found)


def test_an_unknown_encoding_of_a_property_list_is_refused(bases, tmp_path):
    """The list of a bundle and its copy name an encoding that does not exist."""
    base = bases["bundle"]
    lists = [name for name in base.files if "/Info." in name]
    files = base.files | {name: base.files[name].replace(b"UTF-8", b"UTF-inf") for name in lists}
    assert judged(replace(base, files=files), tmp_path, known=known_of(base, tmp_path / "case")) == "refused"


def test_what_hangs_or_takes_memory_fails(bases, tmp_path, monkeypatch):
    """A case that sleeps is ended; one that exceeds its memory limit is a fault whatever it found."""
    campaign = Campaign([bases["bare-hfs"]], tmp_path, 6)
    monkeypatch.setattr(containers, "MAX_BYTES", 0)
    assert campaign.judge(0).verdict == "failed"
    monkeypatch.undo()
    monkeypatch.setattr(containers, "MAX_SECONDS", 0.2)
    monkeypatch.setattr(containers, "verdict", lambda *_, **__: time.sleep(60))
    assert campaign.judge(0).detail.endswith("or it crashed")


def test_figures_add_up():
    """Bases around both disks share a row."""
    some = [Judged("vdi", 0, (), "right", ""), Judged("vdi-apfs", 1, (), "told", "", 2.0, 3 << 20)]
    assert table(some).splitlines()[2:] == [
        "| vdi | 2 | 1 | 0 | 1 | 0 | 0 | 0 | 0 | 2.00 | 3 |",
        "| **all** | 2 | 1 | 0 | 1 | 0 | 0 | 0 | 0 | 2.00 | 3 |",
    ]

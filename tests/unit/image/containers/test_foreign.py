"""Containers written by their makers' own programs give the disk that was put into them."""

from __future__ import annotations

import errno
import os
import plistlib
import subprocess
from types import SimpleNamespace
from uuid import UUID

import numpy as np
import pytest

from fixtures.hfsplus.scenarios import SCENARIOS
from fixtures.hfsplus.writer import render
from layoutscope import scan
from layoutscope.errors import FormatError, ImageError, UnsupportedError
from layoutscope.image import open_image, raw
from layoutscope.image.failing import FailingSource
from layoutscope.zstd import zstd
from tests.cases import for_each

MIB = 1024**2
COUNTED = b"".join(number.to_bytes(2, "big") for number in range(2**15)) * 32
"""Two mebibytes that compress well."""

FORMS = ("qcow2", "vhdx", "vpc", "vmdk")
SEVERAL = ("monolithicFlat", "twoGbMaxExtentSparse", "streamOptimized")
"""Kinds of VMware disks, most of them in several files."""


def parameters_of(data: bytes) -> int:
    """Locate the parent flag in a disk of Hyper-V: bit 1 after the block size."""
    at = data.index(b"metadata")
    item = data.index(UUID("caa16737-fa36-4d43-b3b6-33f0aa44e76b").bytes_le, at)
    return at + int.from_bytes(data[item + 16 : item + 20], "little") + 4


@pytest.fixture(scope="module")
def disk(tmp_path_factory):
    """Return 24 MiB: noise in the first and the last two, zeros between."""
    path = tmp_path_factory.mktemp("disk") / "disk.img"
    noise = np.random.default_rng(3).integers(0, 256, 4 * MIB, np.uint8).tobytes()
    path.write_bytes(b"\x01\x02" + noise[2 : 2 * MIB] + bytes(20 * MIB) + noise[2 * MIB :])
    return path


def assert_same(path, disk):
    """Compare both ends and the middle with the disk, whose length may have been rounded up."""
    data = disk.read_bytes()
    with open_image(path) as source:
        assert len(data) <= source.size_bytes < len(data) + MIB
        for place in (0, 12_345, 2 * MIB - 777, 11 * MIB, 22 * MIB - 1, 24 * MIB - 5000):
            assert source.read(place, 5000) == data[place : place + 5000]
        starts, lengths = np.array([23 * MIB, 4096, 0]), np.array([512, 70_000, 9])
        wanted = b"".join(data[a : a + b] for a, b in zip(starts, lengths, strict=True))
        assert source.read_extents(starts, lengths).tobytes() == wanted
        assert source.read(0, len(data)) == data


@pytest.mark.parametrize(
    "options",
    [*([form] for form in FORMS), *(["vmdk", "-o", f"subformat={each}"] for each in SEVERAL)],
    ids=lambda options: options[-1],
)
def test_disks_of_qemu(disk, tmp_path, convert, options):
    """The format is recognised by content, whatever the name; a descriptor is opened with the extents next to it."""
    target = tmp_path / "renamed.img"
    convert(disk, target, *options)
    assert_same(target, disk)
    if options == ["qcow2"]:
        (tmp_path / "a.qcow2.zst").write_bytes(zstd.compress(target.read_bytes()))
        assert_same(tmp_path / "a.qcow2.zst", disk)


def test_a_description_may_say_more_of_an_extent(disk, tmp_path, convert):
    """A partition's name and a device's name may follow the extent's place."""
    convert(disk, tmp_path / "a.vmdk", "vmdk", "-o", "subformat=monolithicFlat")
    text = (tmp_path / "a.vmdk").read_text()
    (tmp_path / "a.vmdk").write_text(text.replace('-flat.vmdk" 0', '-flat.vmdk" 0 c1a2-uuid vmhba0:0:1'))
    assert_same(tmp_path / "a.vmdk", disk)


@pytest.mark.parametrize(
    ("subformat", "file"), [("monolithicSparse", "a.vmdk"), ("twoGbMaxExtentSparse", "a-s001.vmdk")]
)
@pytest.mark.parametrize("directory", ["second", "first"])
def test_tables_of_a_vmware_disk_are_compared_with_their_copies(tmp_path, disk, convert, subformat, file, directory):
    """One of two tables lacks a grain: the disk is read, and the exit code is that of damage."""
    convert(disk, tmp_path / "a.vmdk", "vmdk", "-o", f"subformat={subformat}")
    with open_image(tmp_path / "a.vmdk") as source:
        assert source.findings == ()
    # SparseExtentHeader: rgdOffset at byte 48, gdOffset at 56, both in sectors; entries have 4 bytes.
    with (tmp_path / file).open("r+b") as image:
        image.seek({"second": 48, "first": 56}[directory])
        image.seek(512 * int.from_bytes(image.read(8), "little"))
        table = 512 * int.from_bytes(image.read(4), "little")
        image.seek(table)
        assert image.read(4) != bytes(4)
        image.seek(table)
        image.write(bytes(4))
    with open_image(tmp_path / "a.vmdk") as source:
        (finding,) = source.findings
    assert (finding.code, finding.level) == ("container-invalid", "error")
    assert finding.message == f"a table of {file} and its copy differ; which is right is not known"
    if directory == "first":
        assert finding.image_offset == table


@pytest.mark.parametrize("options", ["compat=1.1", "compat=0.10", "cluster_size=512", "cluster_size=2M"])
def test_compressed_disks_of_qemu(disk, tmp_path, convert, options):
    """Clusters are decompressed; the zero flag exists from version 3 on, and compressed data may contain zeros."""
    packed = disk.parent / "packed"
    packed.write_bytes(COUNTED + disk.read_bytes())
    convert(packed, tmp_path / "a.qcow2", "qcow2", "-c", "-o", options)
    assert_same(tmp_path / "a.qcow2", packed)
    with open_image(tmp_path / "a.qcow2") as source:
        assert source.read(0, source.size_bytes) == packed.read_bytes()
        assert source.findings == ()


@pytest.mark.parametrize("options", ["compression_type=zstd", "extended_l2=on", "data_file=other"])
def test_features_of_qcow_that_are_not_known_are_refused(disk, tmp_path, peer, options):
    """Clusters could have another meaning with such a feature."""
    command = [peer("qemu-img"), "convert", "-f", "raw", "-c" if "zstd" in options else "-q", "-o", options]
    target = tmp_path / "a.qcow2"
    if subprocess.run([*command, "-O", "qcow2", disk, target], check=False, cwd=tmp_path).returncode:
        pytest.skip("this qemu-img does not write it")
    with pytest.raises(UnsupportedError, match=r"features that are not known.*qemu-img convert"):
        open_image(target)


def test_a_damaged_cluster_that_is_packed_costs_itself(disk, tmp_path, convert):
    """It counts as unread from its first read on, with one finding."""
    packed = disk.parent / "packed"
    packed.write_bytes(COUNTED + disk.read_bytes())
    target = tmp_path / "a.qcow2"
    convert(packed, target, "qcow2", "-c")
    with target.open("r+b") as file:
        file.seek(40)
        file.seek(int.from_bytes(file.read(8), "big"))
        file.seek(int.from_bytes(file.read(8), "big") & (1 << 56) - 512)
        entry = int.from_bytes(file.read(8), "big")
        assert entry >> 62 == 1
        file.seek(entry & (1 << 54) - 1)
        file.write(b"\xff" * 8)
    with open_image(target) as source:
        data = bytearray(source.size_bytes)
        source.read_into(0, memoryview(data))
        assert source.unread_ranges().tolist() == [[0, 65536]]
        (finding,) = source.findings
    assert not any(data[:65536])
    assert data[65536:] == packed.read_bytes()[65536:]
    assert finding.code == "container-invalid"
    assert "cannot be decompressed" in finding.message


@pytest.mark.parametrize("form", FORMS)
def test_a_container_that_is_cut(tmp_path, convert, form):
    """HFS+ in the first half is read from the first half of the file; the rest is unread, but not damaged."""
    disk = bytes(render(SCENARIOS["hard-links"])[0].to_bytearray())
    raw, target = tmp_path / "raw", tmp_path / "a"
    raw.write_bytes(disk.ljust(8 * MIB, b"\0") + np.random.default_rng(4).bytes(24 * MIB))
    convert(raw, target, form)
    os.truncate(target, target.stat().st_size - 12 * MIB)
    with open_image(target) as source:
        read = bytearray(source.size_bytes)
        source.read_into(0, memoryview(read))
        unread = source.unread_ranges()
        assert 11 * MIB <= unread.sum(axis=0)[1] <= 13 * MIB
        for start, length in unread.tolist():
            assert not any(read[start : start + length])
        assert read[: unread[0, 0]] == raw.read_bytes()[: unread[0, 0]]
        (finding,) = source.findings
        assert (finding.code, finding.level) == ("image-incomplete", "error")
        assert f"ends at byte {target.stat().st_size:,}; " in finding.message
    files = [scan(path, drives=()).volumes[0].layout.facts.num_files for path in (target, raw)]
    assert files[0] == files[1] > 0


@pytest.mark.parametrize("form", FORMS)
def test_a_container_that_is_cut_says_so_before_anything_is_read(tmp_path, convert, form):
    """Data in the middle of the disk, which a scan does not read, is lost: tables name blocks after the end."""
    raw, target = tmp_path / "raw", tmp_path / "a"
    raw.write_bytes(bytes(4 * MIB) + np.random.default_rng(4).bytes(8 * MIB) + bytes(20 * MIB))
    convert(raw, target, form)
    with open_image(target) as source:
        assert source.findings == ()
    size = target.stat().st_size - (9 if form == "vhdx" else 4) * MIB
    os.truncate(target, size)
    with open_image(target) as source:
        (finding,) = source.findings
    assert (finding.code, finding.level, finding.image_offset) == ("image-incomplete", "error", size)
    assert f"ends at byte {size:,}; " in finding.message


def test_a_virtual_pc_disk_without_its_footer(disk, tmp_path, convert):
    """The whole disk is present; the footer's copy at the start of the file replaces it."""
    target = tmp_path / "a.vhd"
    convert(disk, target, "vpc")
    target.write_bytes(target.read_bytes()[:-512])
    assert_same(target, disk)
    with open_image(target) as source:
        (finding,) = source.findings
    assert (finding.code, finding.level, finding.image_offset) == (
        "container-invalid", "warning", target.stat().st_size,
    )  # fmt: skip


@pytest.mark.parametrize("form", ["qcow2", "vmdk"])
def test_differences_alone_are_refused(disk, tmp_path, peer, convert, form):
    """A differencing disk is refused by name, with the tool that merges it."""
    base = tmp_path / "base"
    convert(disk, base, form)
    command = [peer("qemu-img"), "create", "-q", "-f", form, "-F", form, "-b", base, tmp_path / "a"]
    subprocess.run(command, check=True)
    with pytest.raises(UnsupportedError, match=r"holds the differences to .* alone; .*qemu-img convert"):
        open_image(tmp_path / "a")


VERSION, TWO_FILES = (17).to_bytes(4, "little"), ("vmdk", "-o", "subformat=twoGbMaxExtentSparse")


@for_each(
    "options, changed, place, value, words",
    [
        # One file of several is not called damaged; the message says what names it.
        (TWO_FILES, "a-s001.vmdk", None, b"", "a-s001.vmdk: is one of the files of a VMware disk"),
        # Tables of another version may have another meaning; qemu-img refuses it as well.
        (("vmdk",), "a.vmdk", 4, VERSION, r"a.vmdk: is a VMware disk \(vmdk\) of version 17, and 1 to 3 are known"),
        (TWO_FILES, "a-s001.vmdk", 4, VERSION, r"001.vmdk: is a VMware disk \(vmdk\) of version 17, and 1 to 3 are"),
        # Ciphertext would otherwise be read as the content of the disk.
        (("qcow2",), "a.vmdk", 32, (2).to_bytes(4, "big"), r"encrypted.*qemu-img convert"),
        # No available tool writes disks of Virtual PC and Hyper-V with a parent.
        (("vpc",), "a.vmdk", 63, b"\4", "holds the differences to another disk alone"),
        (("vhdx",), "a.vmdk", parameters_of, b"\2", "holds the differences to another disk alone"),
    ],
)
def test_disks_that_are_refused(disk, tmp_path, convert, options, changed, place, value, words):
    convert(disk, tmp_path / "a.vmdk", *options)
    data = bytearray((tmp_path / changed).read_bytes())
    if place is not None:
        at = place(bytes(data)) if callable(place) else place
        data[at : at + len(value)] = value
        (tmp_path / changed).write_bytes(data)
    with pytest.raises(UnsupportedError, match=words) as caught:
        open_image(tmp_path / (changed if place is None else "a.vmdk"))
    assert place is not None or "names it" in caught.value.advice


@pytest.mark.parametrize("magic", [b"QFI\xfb", b"vhdxfile", b"conectix", b"KDMV", b"# Disk DescriptorFile"])
def test_a_damaged_container_is_an_error(tmp_path, magic):
    """A magic without anything after it gives one line."""
    (tmp_path / "a").write_bytes(magic + bytes(8192))
    with pytest.raises((FormatError, ImageError, UnsupportedError)) as error:
        open_image(tmp_path / "a")
    assert "\n" not in str(error.value)


@pytest.fixture
def bundle(disk, tmp_path):
    """Return a sparse bundle of the disk in bands of 1 MiB, with zero bands absent and the last one cut short."""
    folder = tmp_path / "disk.sparsebundle"
    (folder / "bands").mkdir(parents=True)
    facts = {"band-size": MIB, "size": 24 * MIB, "diskimage-bundle-type": "com.apple.diskimage.sparsebundle"}
    (folder / "Info.plist").write_bytes(plistlib.dumps(facts))
    (folder / "token").touch()
    data = disk.read_bytes()
    for number in range(24):
        band = data[number * MIB : (number + 1) * MIB].rstrip(b"\0")
        if band:
            (folder / "bands" / f"{number:x}").write_bytes(band)
    return folder


def test_a_sparse_bundle(bundle, disk):
    """Bands are found by their hexadecimal numbers; absent ones are zeros and holes."""
    assert not (bundle / "bands" / "a").exists()
    assert_same(bundle, disk)
    with open_image(bundle) as source:
        assert source.holes.tolist() == [[2 * MIB, 20 * MIB]]
    # Case-folding systems may return the names in capitals.
    for number in (20, 21, 22):
        (bundle / "bands" / f"{number:x}").write_bytes(bytes(MIB))
    (bundle / "bands" / "b").write_bytes(b"\x07" * MIB)
    (bundle / "bands" / "b").rename(bundle / "bands" / "B")
    with open_image(bundle) as source:
        assert source.read(11 * MIB, MIB) == b"\x07" * MIB
        assert source.read(23 * MIB, MIB) == disk.read_bytes()[23 * MIB :]
        assert source.findings == ()


@pytest.mark.parametrize("content", [None, b"", b"<plist>", plistlib.dumps({"size": 5})])
def test_a_bundle_whose_property_list_is_lost(bundle, disk, content):
    """Its copy has the same content; a finding says which of them was used."""
    (bundle / "Info.plist").rename(bundle / "Info.bckup")
    if content is not None:
        (bundle / "Info.plist").write_bytes(content)
    assert_same(bundle, disk)
    with open_image(bundle) as source:
        (finding,) = source.findings
    assert (finding.code, finding.level) == ("container-invalid", "warning")
    assert finding.message.startswith("its Info.plist is ")
    assert "Info.bckup" in finding.message
    (bundle / "Info.bckup").unlink()
    with pytest.raises(ImageError, match=r"its Info\.plist is (missing|not that of a sparse bundle)$"):
        open_image(bundle)


def test_bands_that_are_none(bundle, disk):
    """Foreign files in the folder of bands hold no part of the disk."""
    for name in ("0 (conflicted copy)", "00", "g"):
        (bundle / "bands" / name).write_bytes(b"x")
    assert_same(bundle, disk)
    with open_image(bundle) as source:
        (finding,) = source.findings
    assert finding.level == "warning"
    assert all(repr(name) in finding.message for name in ("0 (conflicted copy)", "00", "g"))


@pytest.mark.parametrize("told", [MIB // 2, MIB // 4])
def test_a_band_size_that_the_bands_contradict(bundle, disk, told):
    """Bands of up to 1 MiB that cover the disk with that size are read with it, with a warning."""
    (bundle / "Info.plist").write_bytes(plistlib.dumps({"size": 24 * MIB, "band-size": told}))
    assert_same(bundle, disk)
    with open_image(bundle) as source:
        (finding,) = source.findings
    assert (finding.level, finding.expected, finding.found) == (
        "warning", "a band size of 1,048,576", f"{told:,}"
    )  # fmt: skip


def test_a_band_that_is_too_long_is_not_read(bundle, disk):
    """Data beyond the band size means that the file is another one; the rest is read."""
    (bundle / "bands" / "1").write_bytes(bytes(MIB + 512))
    (bundle / "bands" / "20").write_bytes(bytes(MIB))
    with open_image(bundle) as source:
        assert source.unread_ranges().tolist() == [[MIB, MIB]]
        assert source.read(0, MIB) == disk.read_bytes()[:MIB]
        assert [(item.code, item.level) for item in source.findings] == [
            ("container-invalid", "error"), ("container-invalid", "warning"),
        ]  # fmt: skip
        assert "'1'" in source.findings[0].message
        assert "'20'" in source.findings[1].message


def test_pipes_in_a_bundle_are_not_waited_for(bundle, disk):
    """A token that is not a file is ignored; a band that is not a file is named."""
    (bundle / "token").unlink()
    os.mkfifo(bundle / "token")
    assert_same(bundle, disk)
    (bundle / "bands" / "0").unlink()
    os.mkfifo(bundle / "bands" / "0")
    with pytest.raises(ImageError, match="bands/0: is a pipe"):
        open_image(bundle)


@pytest.mark.parametrize("facts", [{}, {"size": 5, "band-size": 0}, {"size": -1, "band-size": 512}, {"size": "1"}])
def test_a_bundle_with_impossible_sizes_is_an_error(bundle, facts):
    """A property list without sizes, or with impossible ones, gives a one-line error."""
    (bundle / "Info.plist").write_bytes(plistlib.dumps(facts))
    with pytest.raises(ImageError, match=r"Info\.plist"):
        open_image(bundle)


def test_a_bad_sector_in_a_container_costs_only_its_data(disk, tmp_path, convert):
    """If the disk cannot read a cluster of a qcow2, only that area is unread."""
    convert(disk, tmp_path / "a.qcow2", "qcow2")
    size = (tmp_path / "a.qcow2").stat().st_size
    bad = size - 65536

    def read(descriptor, at, target):
        if at < bad + 512 and bad < at + len(target) and os.fstat(descriptor).st_size == size:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return whole(descriptor, at, target)

    whole = raw.pread_into
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(raw, "pread_into", read)
        patch.setattr(raw, "READ_PIECES", SimpleNamespace(attempt=lambda *_: None))
        with FailingSource(open_image(tmp_path / "a.qcow2")) as source:
            target = bytearray(source.size_bytes)
            source.read_into(0, memoryview(target))
            lost = source.unread_ranges()
    whole_disk = np.frombuffer(disk.read_bytes(), np.uint8)
    is_lost = np.zeros(len(whole_disk), np.bool_)
    for start, length in lost.tolist():
        is_lost[start : start + length] = True
    assert (np.frombuffer(target, np.uint8)[~is_lost] == whole_disk[~is_lost]).all()
    assert 0 < is_lost.sum() <= 65536

"""The cache of decompressed images: which image it returns, how much it keeps, what a crash leaves behind."""

from __future__ import annotations

import os
import time

import pytest

from layoutscope import ownfiles
from layoutscope.errors import UsageError
from layoutscope.image import cache, open_image
from layoutscope.zstd import zstd

KIB = 1024


def packed(path, byte, size=256 * KIB):
    """Write a compressed image that is filled with one byte."""
    path.write_bytes(zstd.compress(bytes([byte]) * size))
    return path


def names(folder):
    """List the names in a folder."""
    return sorted(path.name for path in folder.iterdir())


def first_byte(path, folder):
    """Read the image's first byte, through the cache."""
    with open_image(path, cache_dir=folder) as source:
        return source.read(0, 1)[0]


def set_back(path, before):
    """Restore a file's times, at least one tick of its file system's clock later."""
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    while path.stat().st_ctime_ns == before.st_ctime_ns:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_two_images_of_one_name_size_and_time_are_two(tmp_path):
    """Neither another file nor a rewritten one, with its time set back, is taken for the cached image."""
    places = [tmp_path / name for name in ("one", "two")]
    for byte, place in enumerate(places, 1):
        place.mkdir()
        os.utime(packed(place / "disk.zst", byte), ns=(10**18, 10**18))
    assert [first_byte(place / "disk.zst", tmp_path / "kept") for place in (*places, *places)] == [1, 2, 1, 2]
    assert len(cache.list_cached_images(tmp_path / "kept")) == 2
    path = places[0] / "disk.zst"
    before = path.stat()
    packed(path, 3)
    set_back(path, before)
    assert path.stat().st_size == before.st_size == (places[1] / "disk.zst").stat().st_size
    assert first_byte(path, tmp_path / "kept") == 3


def test_a_file_that_changes_meanwhile_is_not_kept(tmp_path, monkeypatch):
    """Data read from two states of a file is stored under no name."""
    whole = cache._decompress
    path = packed(tmp_path / "disk.zst", 1)

    def slow(*given):
        whole(*given)
        os.utime(path, (1_000_000, 1_000_000))

    monkeypatch.setattr(cache, "_decompress", slow)
    assert first_byte(path, tmp_path / "kept") == 1
    assert names(tmp_path / "kept") == [cache.TAG]


def test_what_was_used_longest_ago_goes(tmp_path, monkeypatch):
    """With room for two images, the third replaces the least recently used one."""
    monkeypatch.setenv(cache.LIMIT_VARIABLE, str(600 * KIB))
    for byte, name in enumerate(("a.zst", "b.zst"), 1):
        first_byte(packed(tmp_path / name, byte), tmp_path / "kept")
    for item in cache.list_cached_images(tmp_path / "kept"):
        os.utime(item.path.with_suffix(cache.SEAL), (1_000_000, 1_000_000 + (item.name == "b.zst")))
    assert first_byte(tmp_path / "a.zst", tmp_path / "kept") == 1
    first_byte(packed(tmp_path / "c.zst", 3), tmp_path / "kept")
    assert sorted(item.name for item in cache.list_cached_images(tmp_path / "kept")) == ["a.zst", "c.zst"]
    # An image that is larger than the limit is decompressed each time, and no other one is removed for it.
    first_byte(packed(tmp_path / "d.zst", 4, 1024 * KIB), tmp_path / "kept")
    assert first_byte(tmp_path / "d.zst", tmp_path / "kept") == 4
    assert sorted(item.name for item in cache.list_cached_images(tmp_path / "kept")) == ["a.zst", "c.zst"]
    # Folder and images are accessible only to the user, because they hold disks.
    for item in cache.list_cached_images(tmp_path / "kept"):
        assert item.path.stat().st_mode & 0o077 == item.path.parent.stat().st_mode & 0o077 == 0
    # All files of an image are removed from the folder.
    assert len(names(tmp_path / "kept")) == 5
    cache.remove(cache.list_cached_images(tmp_path / "kept"))
    assert names(tmp_path / "kept") == [cache.TAG]


@pytest.mark.usefixtures("marks")
def test_what_was_abandoned_goes_and_strangers_stay(tmp_path):
    """A partial image of yesterday is removed; a current one, and a file that the cache did not create, are kept."""
    folder, left = tmp_path / "kept", {}
    first_byte(packed(tmp_path / "a.zst", 1), folder)
    for name in ("old", "new"):
        with ownfiles.part_file(folder, f"{cache.PARTIAL}{name}-") as (_, part):
            left[name] = part
            part.rename(tmp_path / name)
        (tmp_path / name).rename(part)  # the state that a killed process leaves
    (folder / ".partial-mine").write_text("mine")
    for path in (left["old"], folder / ".partial-mine"):
        os.utime(path, (time.time() - 2 * 24 * 3600,) * 2)
    first_byte(packed(tmp_path / "b.zst", 1), folder)
    cache.remove(cache.list_cached_images(folder))
    assert names(folder) == sorted([".partial-mine", cache.TAG, left["new"].name])


EVIDENCE = "case12-9dd4e461268c8034f5c8564e155c67a6.raw"


def test_evidence_in_a_cache_is_never_removed(tmp_path, monkeypatch):
    """An image named by its MD5 that a user put there is not used, and neither making room nor clearing removes it."""
    folder = tmp_path / "kept"
    first_byte(packed(tmp_path / "a.zst", 1), folder)
    (folder / EVIDENCE).write_bytes(b"evidence" * 100_000)
    os.utime(folder / EVIDENCE, (1, 1))
    forged = folder / EVIDENCE.replace("12", "13")
    forged.write_bytes(b"evidence")
    forged.with_suffix(cache.SEAL).write_text(f"{'0' * 32} 1 2 3 4\n{forged.name}\n")
    monkeypatch.setenv(cache.LIMIT_VARIABLE, str(300 * KIB))
    first_byte(packed(tmp_path / "b.zst", 2), folder)
    assert [item.name for item in cache.list_cached_images(folder)] == ["b.zst"]
    cache.remove(cache.list_cached_images(folder))
    assert names(folder) == sorted([cache.TAG, EVIDENCE, forged.name, forged.with_suffix(cache.SEAL).name])


def test_an_image_that_somebody_named_is_not_removed(tmp_path, monkeypatch):
    """An image that was opened by its own name in the cache stays as long as the process lives."""
    folder = tmp_path / "kept"
    first_byte(packed(tmp_path / "a.zst", 1), folder)
    (item,) = cache.list_cached_images(folder)
    monkeypatch.setattr(cache, "_served", set())
    open_image(item.path).close()
    assert cache.remove([item]) == 0
    assert item.path.exists()


@pytest.mark.parametrize("stranger", ["notes.txt", EVIDENCE, "disk.E01", "folder", cache.TAG])
@pytest.mark.parametrize("is_tagged", [False, True])
def test_a_folder_that_holds_anything_else_is_no_cache(tmp_path, stranger, is_tagged):
    """It is refused in one line before any write; a tagged cache ignores files named like its own."""
    folder = tmp_path / "kept"
    folder.mkdir()
    if is_tagged and stranger != cache.TAG:
        (folder / cache.TAG).write_text(cache.TAG_TEXT)
    if stranger == "folder":
        (folder / stranger).mkdir()
    else:
        (folder / stranger).write_text("Signature: 8a477f597d28d172789f06886806bc55\n# of another program\n")
    before, image = names(folder), packed(tmp_path / "a.zst", 1)
    if is_tagged and stranger == EVIDENCE:
        assert first_byte(image, folder) == 1
        return
    for use in (lambda: first_byte(image, folder), lambda: cache.list_cached_images(folder)):
        with pytest.raises(UsageError, match=f"holds {stranger}, which is not of a cache"):
            use()
    assert names(folder) == before


@pytest.mark.parametrize("stranger", ["another tag", "another image"])
def test_no_seal_is_written_in_a_folder_that_is_refused(tmp_path, stranger):
    """No seal is renewed either, because another file prevents the use of the folder."""
    folder, image = tmp_path / "kept", packed(tmp_path / "b.zst", 1)
    first_byte(image, folder)
    (kept,) = folder.glob("*.raw")
    os.utime(kept)
    if stranger == "another tag":
        (folder / cache.TAG).write_text("Signature: 8a477f597d28d172789f06886806bc55\n# of another program\n")
    else:
        (folder / cache.TAG).unlink()
        (folder / ("c" + kept.name[1:])).write_bytes(b"mine")
    seal = kept.with_suffix(cache.SEAL)
    before = seal.stat().st_ino, seal.read_bytes()
    with pytest.raises(UsageError, match="which is not of a cache"):
        first_byte(image, folder)
    assert (seal.stat().st_ino, seal.read_bytes()) == before


@pytest.mark.parametrize("is_there", [False, True])
@pytest.mark.parametrize("way", ["as it is", "behind a link"])
def test_a_folder_of_the_system_is_no_cache(tmp_path, monkeypatch, is_there, way):
    """No folder is created among devices, and no image is kept in an empty one there."""
    devices = tmp_path / "dev"
    devices.mkdir()
    monkeypatch.setattr(ownfiles, "SPECIAL", (str(devices),))
    if is_there:
        (devices / "shm").mkdir()
    (tmp_path / "link").symlink_to(devices)
    folder = {"as it is": devices, "behind a link": tmp_path / "link"}[way] / "shm"
    with pytest.raises(UsageError, match="is in a folder of the system"):
        first_byte(packed(tmp_path / "a.zst", 1), folder)
    assert [path.name for path in devices.rglob("*")] == (["shm"] if is_there else [])


def test_a_cache_of_an_earlier_version_goes_on(tmp_path):
    """It has no tag, and seals that do not name their image; if all of them match, the folder gets its tag."""
    folder, image = tmp_path / "kept", packed(tmp_path / "a.zst", 1)
    first_byte(image, folder)
    (kept,) = folder.glob("*.raw")
    seal = kept.with_suffix(cache.SEAL)
    seal.write_text(f"{'0' * 32} {seal.read_text().split(chr(10))[0]}\n")
    (folder / cache.TAG).unlink()
    assert [item.name for item in cache.list_cached_images(folder)] == ["a.zst"]
    assert first_byte(packed(tmp_path / "b.zst", 2), folder) == 2
    assert sorted(item.name for item in cache.list_cached_images(folder)) == ["a.zst", "b.zst"]
    assert (folder / cache.TAG).read_text() == cache.TAG_TEXT


def test_nothing_takes_the_place_of_a_file_with_an_images_name(tmp_path):
    """The image is decompressed for this use only, and the file stays as it is."""
    folder, image = tmp_path / "kept", packed(tmp_path / "a.zst", 1)
    first_byte(packed(tmp_path / "b.zst", 2), folder)
    stranger = folder / cache.make_cached_name("a.zst", image.stat())
    stranger.write_bytes(b"mine")
    assert first_byte(image, folder) == 1
    assert stranger.read_bytes() == b"mine"


def test_long_names_are_kept_under_shorter_ones(tmp_path):
    """Systems limit names, mostly to 255 bytes, and letters of many scripts take three or four bytes."""
    for name in ("\N{PARTY POPPER}" * 61 + ".img.zst", "\udcff" * 200 + ".img.zst"):
        assert len(os.fsencode(cache.make_cached_name(name, tmp_path.stat()))) <= 100 + len("-.raw") + 32


def test_folder_and_limit_are_the_users(monkeypatch, tmp_path):
    """It follows the system's rule; the environment can name another folder, or disable it with an empty name."""
    for told in ("plenty", "-5"):
        monkeypatch.setenv(cache.LIMIT_VARIABLE, told)
        with pytest.raises(UsageError, match="LAYOUTSCOPE_CACHE_LIMIT"):
            cache.limit_bytes()
    monkeypatch.delenv(cache.FOLDER_VARIABLE)
    assert cache.default_folder().parts[-2:] == ("layoutscope", "images")
    monkeypatch.setenv(cache.FOLDER_VARIABLE, str(tmp_path / "own"))
    assert cache.default_folder() == tmp_path / "own"
    monkeypatch.setenv(cache.FOLDER_VARIABLE, "")
    assert cache.default_folder() is None

    # A container or a bare root has no user: images are read there, but not kept.
    def homeless(*_args, **_named):
        raise RuntimeError("could not determine the home directory")

    monkeypatch.delenv(cache.FOLDER_VARIABLE)
    monkeypatch.setattr("platformdirs.user_cache_path", homeless)
    assert cache.default_folder() is None


def sparse(path):
    """Write a compressed image with data at its start, in its middle, and at an end that is not a whole block."""
    image = bytearray(5 << 20)
    image[0], image[(2 << 20) + 5000], image[-1:] = 1, 2, b"\3abc"
    path.write_bytes(zstd.compress(bytes(image)))
    return bytes(image)


@pytest.mark.parametrize("change", ["byte", "hole", "length", "seal", "times"])
def test_a_cached_image_that_was_changed_is_decompressed_again(tmp_path, monkeypatch, change):
    """Writing to it, or to its seal, does not change what is read, even if sizes and times are unchanged.

    It is decompressed again, and the next use finds it whole.
    """
    image = sparse(tmp_path / "disk.zst")
    first_byte(tmp_path / "disk.zst", tmp_path / "kept")
    (item,) = cache.list_cached_images(tmp_path / "kept")
    before = item.path.stat()
    with item.path.open("r+b") as file:
        if change == "length":
            file.truncate(1 << 20)
        elif change in ("byte", "hole"):
            file.seek(0 if change == "byte" else 1 << 20)
            file.write(b"X")
    if change == "seal":
        item.path.with_suffix(cache.SEAL).write_text("0 0 0\n")
    if change == "times":
        os.utime(item.path, (1_000_000, 1_000_000))
    else:
        set_back(item.path, before)
    decompress, made = cache._decompress_to_cache, []
    monkeypatch.setattr(cache, "_decompress_to_cache", lambda *given: made.append(1) or decompress(*given))
    for _ in range(2):
        with open_image(tmp_path / "disk.zst", cache_dir=tmp_path / "kept") as source:
            assert source.read(0, source.size_bytes) == image
    # What has no seal may be of somebody else: it stays, and nothing takes its place.
    is_kept = change != "seal"
    assert (len(made), len(cache.list_cached_images(tmp_path / "kept"))) == ((1, 1) if is_kept else (2, 0))


@pytest.mark.parametrize("way", ["moved", "linked"])
def test_an_image_that_has_another_name_is_not_touched(tmp_path, way):
    """If the user moved it and left a link, or added a second name, the cache no longer changes its times."""
    path, kept, mine = packed(tmp_path / "disk.zst", 1), tmp_path / "kept", tmp_path / "mine.img"
    assert first_byte(path, kept) == 1
    image = cache.list_cached_images(kept)[0].path
    if way == "moved":
        image.rename(mine)
        image.symlink_to(mine)
    else:
        mine.hardlink_to(image)
    os.utime(mine, ns=(10**18, 10**18))
    before = mine.stat()
    assert first_byte(path, kept) == 1
    assert (mine.stat().st_mtime_ns, mine.stat().st_ctime_ns) == (before.st_mtime_ns, before.st_ctime_ns)
    assert image.exists()

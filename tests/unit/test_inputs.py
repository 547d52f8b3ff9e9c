"""Inputs are opened read-only, and declared sizes cost nothing until the data arrives."""

from __future__ import annotations

import os
import tracemalloc

import pytest

from layoutscope import inputs


def test_room_is_made_for_what_comes(tmp_path):
    """A file of ten bytes that may have 4 GiB takes two allocations."""
    (tmp_path / "a").write_bytes(b"0123456789")
    tracemalloc.start()
    assert inputs.read_bytes(tmp_path / "a", 1 << 32) == b"0123456789"
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 3 * inputs.PIECE_BYTES


@pytest.mark.parametrize("length", [0, 1, 99, 100])
def test_files_up_to_the_limit_are_read_whole(tmp_path, monkeypatch, length):
    """For any chunks, all bytes arrive in order; one more than the limit is refused."""
    monkeypatch.setattr(inputs, "PIECE_BYTES", 7)
    data = bytes(range(length))
    (tmp_path / "a").write_bytes(data)
    assert inputs.read_bytes(tmp_path / "a", 100) == data
    (tmp_path / "a").write_bytes(bytes(101))
    with pytest.raises(OSError, match="is longer than 100 bytes"):
        inputs.read_bytes(tmp_path / "a", 100)


@pytest.mark.skipif(not hasattr(os, "O_NOATIME"), reason="the system has no such flag")
def test_whoever_may_not_leave_the_time_of_access_reads_all_the_same(tmp_path, monkeypatch):
    """Linux refuses O_NOATIME to other users; the file is then opened without it."""
    (tmp_path / "a").write_bytes(b"x")
    real, seen = os.open, []

    def refusing(path, flags, *more):
        seen.append(flags)
        if flags & os.O_NOATIME:
            raise PermissionError
        return real(path, flags, *more)

    monkeypatch.setattr(os, "open", refusing)
    descriptor = inputs.open_untouched(tmp_path / "a")
    assert os.read(descriptor, 9) == b"x"
    os.close(descriptor)
    assert [bool(flags & os.O_NOATIME) for flags in seen] == [True, False]
    assert not any(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) for flags in seen)


def test_what_was_read_stays_an_input_under_other_names_and_after_changes(tmp_path):
    """Links lead to it, and it may grow; files in an input folder are inputs too."""
    image, folder = tmp_path / "a.img", tmp_path / "bundle"
    image.write_bytes(b"x")
    (folder / "bands").mkdir(parents=True)
    inputs.note(image)
    inputs.note(folder)
    (tmp_path / "link").symlink_to(image)
    (tmp_path / "hard").hardlink_to(image)
    image.write_bytes(b"xy")
    (folder / "new").write_bytes(b"")
    assert all(inputs.is_input(tmp_path / name) for name in ("a.img", "link", "hard", "bundle/new", "bundle/bands/0"))
    assert not inputs.is_input(tmp_path / "b.img")


def test_another_file_with_the_number_of_a_removed_one_is_no_input(tmp_path, monkeypatch):
    """File systems reuse inode numbers; the new file was created after the old one was read."""
    monkeypatch.setattr(inputs, "_identity", lambda _: (1, 2))
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_bytes(b"x")
    read_at = old.stat().st_ctime_ns
    inputs.note(old)
    old.unlink()
    new.write_bytes(b"y")
    while new.stat().st_ctime_ns == read_at:
        new.touch()
    assert not inputs.is_input(new)
    old.write_bytes(b"z")
    assert inputs.is_input(new)

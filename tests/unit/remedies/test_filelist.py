"""The list of all files: each once, where the next one lies, within what memory holds; what it lacks is said."""

from __future__ import annotations

import os
import subprocess

import pytest

from layoutscope.drive import load_profile
from layoutscope.remedies.case import Case
from layoutscope.remedies.filelist import INODES, NAMES, PLACE, WALK, file_list
from layoutscope.report.filescript import file_script
from layoutscope.walk.host import host_profile
from tests.layouts import NODE, data, entries, layout, leaves

DISK = load_profile("generic-7200")
FILES = 60
HOSTILE = ("-rf", "a b", "it's", "$(touch x)", "é", "tab\t", "back\\slash", "*")


def case_of(names, places=(), **changes):
    """Files of a folder in this order, whose data lie at these blocks."""
    rows = entries(
        (2, 20, "sub", "directory", 0),
        *((20, 30 + k, name, "file", 0) for k, name in enumerate(names)),
        size_bytes=NODE,
        **changes,
    )
    extents = data(*((30 + k, block, 1) for k, block in enumerate(places)))
    made = layout(nodes=leaves(1), entries=rows, extents=extents, size_bytes=2**40)
    return Case(made, DISK, "fts", host_profile("linux"))


def test_files_come_in_the_order_in_which_they_lie():
    """Blocks 90, 30, 60: the second, the third, the first; a file without data comes behind them."""
    found = file_list(case_of(["a", "b", "c", "none"], (90, 30, 60)))
    assert found.paths == (b"./sub/b", b"./sub/c", b"./sub/a", b"./sub/none")
    assert (found.missing, found.windows) == ((), 1)


def test_memory_cuts_the_walk_into_windows():
    """Names of 7 bytes and 64 beside them: two fit into 150 bytes, and each pair is sorted by itself."""
    found = file_list(case_of(["a", "b", "c", "d"], (90, 30, 60, 10)), 150)
    assert found.paths == (b"./sub/b", b"./sub/a", b"./sub/d", b"./sub/c")
    assert found.windows == 2


def test_the_order_of_the_list_is_the_quickest():
    """Files made in a scattered order: by place they take less than in the orders of the walk, of names and numbers."""
    places = [1000 + 7919 * k % FILES * 50_000 for k in range(FILES)]
    found = file_list(case_of([f"f{k:02}" for k in range(FILES)], places))
    assert found.seconds[PLACE] < min(found.seconds[name] for name in (WALK, NAMES, INODES))
    assert found.seconds[WALK] == found.seconds[NAMES] == found.seconds[INODES]


def test_line_ends_in_names_are_listed_or_said_to_be_missing():
    """Without zero bytes such a file is not in the list, and the plan says which; with them nothing is missing."""
    case = case_of(["a\nb", "c"], (30, 60))
    plain, nulls = file_list(case), file_list(case, is_null_separated=True)
    assert plain.paths == (b"./sub/c",)
    assert plain.missing == ("'/sub/a\\nb': a line end in its name (-0 lists it)",)
    assert set(nulls.paths) == {b"./sub/a\nb", b"./sub/c"}
    assert nulls.missing == ()


def test_what_no_walk_finds_is_counted():
    """A file whose folder is gone has no path that could be listed."""
    rows = entries((77, 40, "lost", "file", 0), (2, 41, "found", "file", 0))
    found = file_list(Case(layout(nodes=leaves(1), entries=rows), DISK, "fts", host_profile("linux")))
    assert found.paths == (b"./found",)
    assert found.missing == ("1 names that no walk from the root comes to",)


@pytest.mark.parametrize("is_null_separated", [True, False])
def test_the_script_copies_what_is_listed(tmp_path, is_null_separated):
    """With tar and with cp, in the list's order, whatever the names; the archive's members are in that order."""
    source = tmp_path / "so urce"
    names = [*HOSTILE, "line\nend"] if is_null_separated else list(HOSTILE)
    listed = [f"./sub/{name}" for name in reversed(names)]
    (source / "sub").mkdir(parents=True)
    for name in names:
        (source / "sub" / name).write_text(name)
    end = "\0" if is_null_separated else "\n"
    (tmp_path / "the list").write_text("".join(path + end for path in listed))
    script = tmp_path / "go.sh"
    script.write_text(file_script("go.sh", "the list", is_null_separated=is_null_separated))
    run = ["sh", script]
    subprocess.run([*run, "tar", source, "out.tar"], check=True, cwd=tmp_path)
    subprocess.run([*run, "cp", source, "copy"], check=True, cwd=tmp_path)
    told = subprocess.run(
        ["tar", "--quoting-style=literal", "--show-transformed-names", "-tf", tmp_path / "out.tar"],
        check=True, capture_output=True, env={**os.environ, "LC_ALL": "C.UTF-8"},
    )  # fmt: skip
    assert told.stdout.decode() == "".join(f"{path}\n" for path in listed)
    assert {path.name for path in (tmp_path / "copy" / "sub").iterdir()} == set(names)


BSDTAR = """#!/bin/sh
for word; do
    case $word in
        --version) echo "bsdtar 3.5.3 - libarchive 3.7.4"; exit ;;
        --null | --no-recursion | -C | -cf | -T) ;;
        -?*) echo "tar: Option $word is not supported" >&2; exit 1 ;;
    esac
done
exec /bin/tar --no-unquote "$@"
"""
"""A tar that takes of the script's options those that bsdtar(1) of macOS names, and no other."""


@pytest.mark.parametrize("is_null_separated", [True, False])
def test_the_script_runs_with_the_tar_of_macos(tmp_path, is_null_separated):
    """It has no option of GNU tar alone; an archive holds what is listed."""
    for folder, name, text in (("bin", "tar", BSDTAR), ("source", "a b", "here")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).write_text(text)
    (tmp_path / "bin" / "tar").chmod(0o755)
    (tmp_path / "list").write_text("./a b\0" if is_null_separated else "./a b\n")
    script = tmp_path / "go.sh"
    script.write_text(file_script("go.sh", "list", is_null_separated=is_null_separated))
    path = {**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    subprocess.run(["sh", script, "tar", "source", "out.tar"], check=True, cwd=tmp_path, env=path)
    told = subprocess.run(["tar", "-tf", tmp_path / "out.tar"], check=True, capture_output=True, text=True)
    assert told.stdout == "./a b\n"


def test_the_script_refuses_what_it_does_not_know(tmp_path):
    """Without three words it shows its help; another program's name is refused."""
    script = tmp_path / "go.sh"
    script.write_text(file_script("go.sh", "list", is_null_separated=True))
    few = subprocess.run(["sh", script], capture_output=True, text=True, check=False)
    other = subprocess.run(["sh", script, "rm", "a", "b"], capture_output=True, text=True, check=False)
    assert (few.returncode, other.returncode) == (2, 2)
    assert "sh go.sh tar SOURCE TARGET.tar" in few.stderr
    assert "rm: tar, cp or rsync" in other.stderr


@pytest.mark.parametrize("is_null_separated", [True, False])
def test_shellcheck_finds_nothing(peer, tmp_path, is_null_separated):
    """Whatever the list is called."""
    script = tmp_path / "go.sh"
    script.write_text(file_script("go.sh", "it's a `list` $x", is_null_separated=is_null_separated))
    subprocess.run([peer("shellcheck"), script], check=True)

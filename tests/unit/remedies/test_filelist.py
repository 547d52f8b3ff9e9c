"""The list of all files: each once, in disk order, in memory-sized windows; omissions are reported."""

from __future__ import annotations

import os
import shutil
import subprocess

import numpy as np
import pytest

from layoutscope.drive import load_profile
from layoutscope.remedies.case import Case
from layoutscope.remedies.changes import INODES, NAMES, PLACE, WALK, file_list, find_needed_entries
from layoutscope.report.filescript import file_script
from layoutscope.results.plan import MissingFiles
from layoutscope.walk.host import host_profile
from tests.layouts import NODE, data, entries, layout, leaves

DISK = load_profile("generic-7200")
FILES = 60
HOSTILE = ("-rf", "a b", "it's", "$(touch x)", "é", "tab\t", "back\\slash", "*")


def case_of(names, places=(), **changes):
    """Files of a folder in this order, with data at these blocks."""
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
    """Blocks 90, 30, 60 give the order second, third, first; a file without data comes after them."""
    paths, found = file_list(case_of(["a", "b", "c", "none"], (90, 30, 60)))
    assert paths == (b"./sub/b", b"./sub/c", b"./sub/a", b"./sub/none")
    assert (found.missing, found.windows) == ((), 1)
    # A name of 7 bytes takes 64 more: two fit into 150 bytes, and each pair is sorted by itself.
    paths, found = file_list(case_of(["a", "b", "c", "d"], (90, 30, 60, 10)), 150)
    assert paths == (b"./sub/b", b"./sub/a", b"./sub/d", b"./sub/c")
    assert found.windows == 2
    # Files created in scattered order take less time by place than by walk, by name or by number.
    places = [1000 + 7919 * k % FILES * 50_000 for k in range(FILES)]
    _, found = file_list(case_of([f"f{k:02}" for k in range(FILES)], places))
    assert dict(found.seconds)[PLACE] < min(dict(found.seconds)[name] for name in (WALK, NAMES, INODES))
    assert dict(found.seconds)[WALK] == dict(found.seconds)[NAMES] == dict(found.seconds)[INODES]


def test_line_ends_in_names_are_listed_or_said_to_be_missing():
    """Without zero bytes, such a file is left out and counted in the plan; with them, no file is missing."""
    case = case_of(["a\nb", "c"], (30, 60))
    (paths, plain), (with_nulls, nulls) = file_list(case), file_list(case, is_null_separated=True)
    assert paths == (b"./sub/c",)
    assert plain.missing == (MissingFiles("line ends in their paths; -0 lists them", 1, "/sub/a\nb"),)
    assert set(with_nulls) == {b"./sub/a\nb", b"./sub/c"}
    assert nulls.missing == ()


def test_names_that_no_list_can_hold_are_counted():
    """Each omission is counted with its reason."""
    # A file whose folder is gone has no path to list.
    rows = entries((77, 40, "lost", "file", 0), (2, 41, "found", "file", 0))
    paths, found = file_list(Case(layout(nodes=leaves(1), entries=rows), DISK, "fts", host_profile("linux")))
    assert paths == (b"./found",)
    assert found.missing == (MissingFiles("no walk from the root comes to them", 1),)
    assert found.missing[0].sentence == "1 file is left out of the list: no walk from the root comes to them"
    # Two of seven files have names that other programs accept; one of these looks like our escape.
    names = ["..", ".", "", "a/../../b", "nul\0l", "..a", "a\\u002fb"]
    for is_null_separated in (False, True):
        paths, found = file_list(case_of(names), is_null_separated=is_null_separated)
        assert set(paths) == {b"./sub/..a", b"./sub/a\\u002fb"}
        assert [(each.reason, each.files) for each in found.missing] == [("their names cannot be part of a path", 5)]
    assert found.missing[0].sentence == (
        "5 files are left out of the list: their names cannot be part of a path, such as /sub/\\u002e\\u002e"
    )
    # Their own names do not matter; files in a folder whose path exceeds 4,094 bytes are left out too.
    names = ["n" * 255] * 15 + ["m" * 252]  # 15 * 256 + 253 = 4,093
    folders = [(2 if not k else 99 + k, 100 + k, name, "directory", 0) for k, name in enumerate(names)]
    rows = entries(
        (2, 20, "..", "directory", 0), (20, 30, "a", "file", 0), (2, 31, "b", "file", 0), *folders,
        (114, 40, "x" * 253, "file", 0), (114, 41, "x" * 254, "file", 0), (115, 42, "y", "file", 0),
    )  # fmt: skip
    paths, found = file_list(Case(layout(nodes=leaves(1), entries=rows), DISK, "fts", host_profile("linux")))
    assert sorted(map(len, paths)) == [len("./b"), 1 + 15 * 256 + 254]
    assert [(each.reason, each.files) for each in found.missing] == [
        ("their names cannot be part of a path", 1),
        ("their paths have more than 4,094 bytes", 2),
    ]


def test_the_first_to_need_a_folder_looks_it_up():
    """Each of four files in nested folders needs new folders on its path; a thousand random ones agree with sets."""
    case = case_of(["a", "b"])
    table = case.model.entries
    numbers = {number: place for place, number in enumerate(table.file_id.tolist())}
    needed, owner = find_needed_entries(case, np.array([numbers[31], numbers[30]]))
    assert table.file_id[needed].tolist()[-3:] == [20, 31, 30]
    assert owner.tolist()[-3:] == [0, 0, 1]
    random = np.random.default_rng(5)
    parents = [2, *(int(random.integers(0, k)) + 100 for k in range(1, 1000))]
    rows = entries(*((parent, 100 + k, f"d{k}", "directory", 0) for k, parent in enumerate(parents)))
    case = Case(layout(nodes=leaves(1), entries=rows), DISK, "fts", host_profile("linux"))
    ids = case.model.entries.file_id
    files = random.permutation(np.flatnonzero(ids != 2))[:300]
    expected, seen = [], set()
    for place, file in enumerate(files.tolist()):
        way, at = [], int(ids[file])
        while at != 2 and at not in seen:
            way.append((at, place))
            seen.add(at)
            at = parents[at - 100]
        expected += reversed(way)
    found, owner = find_needed_entries(case, files)
    assert [pair for pair in zip(ids[found].tolist(), owner.tolist(), strict=True) if pair[0] != 2] == expected


@pytest.mark.parametrize("is_null_separated", [True, False])
def test_the_script_copies_what_is_listed(tmp_path, is_null_separated):
    """With tar and with cp, in the list's order, for any names; the archive's members have that order."""
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
        --null | --no-recursion | -cf | -xpf | -T) ;;
        -?*) echo "tar: Option $word is not supported" >&2; exit 1 ;;
    esac
done
exec /bin/tar --no-unquote "$@"
"""
"""A tar that accepts only those of the script's options that bsdtar(1) of macOS has."""


@pytest.mark.parametrize("is_null_separated", [True, False])
def test_the_script_runs_with_the_tar_of_macos(tmp_path, is_null_separated):
    """The script uses no option specific to GNU tar; the archive holds the listed files."""
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


@pytest.fixture(params=["sh", "dash", "bash --posix"])
def shell(request):
    words = request.param.split()
    if shutil.which(words[0]) is None:
        pytest.skip(f"{words[0]} is not installed")
    return words


@pytest.fixture
def run_script(tmp_path, shell):
    """Run the script over a list, in a folder with a source that has ./sub/a and ./b, and a secret next to it."""
    (tmp_path / "source" / "sub").mkdir(parents=True)
    (tmp_path / "source" / "sub" / "a").write_text("a")
    (tmp_path / "source" / "b").write_text("b")
    (tmp_path / "secret").write_text("secret")

    def run(how, listed, target="target", *, end="\0", path=None):
        (tmp_path / "list").write_bytes(b"".join(os.fsencode(name + end) for name in listed))
        (tmp_path / "go.sh").write_text(file_script("go.sh", "list", is_null_separated=end == "\0"))
        environment = {**os.environ, "PATH": f"{path}:{os.environ['PATH']}"} if path else None
        return subprocess.run(
            [*shell, "go.sh", how, "source", target],
            check=False, cwd=tmp_path, env=environment, capture_output=True, text=True,
        )  # fmt: skip

    return run


def contents(folder):
    """Return every file of a folder by path, links as their targets."""
    return {
        path.relative_to(folder).as_posix(): str(path.readlink()) if path.is_symlink() else path.read_text()
        for path in folder.rglob("*")
        if path.is_symlink() or path.is_file()
    }


NO_PATHS = ("./../secret", "./sub/../../secret", "../secret", "./..", "./.", ".", "..", "./", "", "./sub//a", "./sub/",
            "./sub/./a", "/etc/hostname", "-rf", "sub/a", "./sub/..", ".a")  # fmt: skip


@pytest.mark.parametrize("how", ["tar", "cp"])
@pytest.mark.parametrize("end", ["\0", "\n"])
def test_the_script_refuses_lists_that_lead_elsewhere(run_script, tmp_path, how, end):
    """Each such name is refused with its position in the list, before any output."""
    before = contents(tmp_path)
    for name in NO_PATHS:
        told = run_script(how, ["./b", name], end=end)
        assert told.returncode == 1, name
        assert "list: name 2 does not begin with ./" in told.stderr, name
        assert not (tmp_path / "target").exists()
    assert {name: text for name, text in contents(tmp_path).items() if name in before} == before


def test_what_splits_names_or_is_there_is_refused(run_script, tmp_path):
    """A newline-separated list with zero bytes is refused; a zero-separated one keeps line ends in names."""
    told = run_script("cp", ["./b\0./../secret"], end="\n")
    assert (told.returncode, "has zero bytes" in told.stderr) == (1, True)
    told = run_script("cp", ["./b\n/../../secret"])
    assert (told.returncode, "name 1 does not begin" in told.stderr) == (1, True)
    assert not (tmp_path / "target").exists()
    # No archive is overwritten, and a link to one is not followed either.
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "link.tar").symlink_to("mine")
    for target in ("mine", "link.tar"):
        told = run_script("tar", ["./b"], target)
        assert (told.returncode, f"{target}: exists" in told.stderr) == (1, True)
    assert (tmp_path / "mine").read_text() == "mine"
    assert not list(tmp_path.glob(".layoutscope.*"))


@pytest.mark.parametrize("how", ["tar", "cp"])
def test_the_script_goes_through_no_link_in_the_source(run_script, tmp_path, how):
    """A folder of the list that is a link leads out of the source; a listed link is copied as a link."""
    (tmp_path / "source" / "out").symlink_to(tmp_path)
    told = run_script(how, ["./b", "./out/secret"])
    assert told.returncode == 1
    assert "./out: is a link in place of a folder" in told.stderr
    assert not (tmp_path / "target").exists()
    if how == "cp":
        assert run_script(how, ["./b", "./out"]).returncode == 0
        assert contents(tmp_path / "target") == {"b": "b", "out": str(tmp_path)}


@pytest.mark.parametrize("kind", ["file", "folder", "link", "dangling"])
def test_the_script_replaces_nothing_in_its_target(run_script, tmp_path, kind):
    """If the target has a name of the list, that file stays, and nothing is copied."""
    target = tmp_path / "target"
    target.mkdir()
    (tmp_path / "elsewhere").mkdir()
    made = {
        "file": lambda path: path.write_text("mine"),
        "folder": lambda path: path.mkdir(),
        "link": lambda path: path.symlink_to(tmp_path / "elsewhere"),
        "dangling": lambda path: path.symlink_to(tmp_path / "nowhere"),
    }
    made[kind](target / "sub")
    before = contents(target)
    told = run_script("cp", ["./b", "./sub/a"])
    assert told.returncode == 1
    assert f"{target}/sub: exists; choose an empty folder" in told.stderr
    assert (contents(target), list(target.iterdir())) == (before, [target / "sub"])
    assert not list((tmp_path / "elsewhere").iterdir())
    assert not (tmp_path / "nowhere").exists()


def test_the_script_moves_nothing_over_what_appears_meanwhile(run_script, tmp_path):
    """If files with the same names appear in the target meanwhile, they stay; the script says where the copies are."""
    (tmp_path / "bin").mkdir()
    for name in ("cp", "tar"):
        real = shutil.which(name)
        (tmp_path / "bin" / name).write_text(
            f"""#!/bin/sh
[ "$1" = --version ] || ( cd '{tmp_path}' && mkdir -p target && echo mine >target/b && ln -sf /nowhere out.tar )
exec {real} "$@"
"""
        )
        (tmp_path / "bin" / name).chmod(0o755)
    told = run_script("cp", ["./b", "./sub/a"], path=tmp_path / "bin")
    (kept,) = (tmp_path / "target").glob(".layoutscope.*")
    assert told.returncode == 1
    assert "holds a file or folder of the same name by now" in told.stderr
    assert f"what was copied and not moved is in {kept}" in told.stderr
    found = contents(tmp_path / "target")
    assert found == {"b": "mine\n", "sub/a": "a", f"{kept.name}/b": "b"}
    told = run_script("tar", ["./b", "./sub/a"], "out.tar", path=tmp_path / "bin")
    assert (told.returncode, "out.tar: exists" in told.stderr) == (1, True)
    assert str((tmp_path / "out.tar").readlink()) == "/nowhere"


def test_without_gnu_cp_the_script_copies_with_tar(run_script, tmp_path):
    """The tar of macOS is used; an unreadable file is an error even if that tar succeeds."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "cp").write_text("#!/bin/sh\necho 'cp: illegal option' >&2\nexit 64\n")
    (tmp_path / "bin" / "cp").chmod(0o755)
    assert run_script("cp", ["./b", "./sub/a"], path=tmp_path / "bin").returncode == 0
    assert contents(tmp_path / "target") == {"b": "b", "sub/a": "a"}
    told = run_script("cp", ["./b", "./gone"], "second", path=tmp_path / "bin")
    assert (told.returncode, "some files could not be read" in told.stderr) == (1, True)


def test_rsync_gets_names_that_end_with_zero_bytes(run_script, tmp_path):
    """Its line lists also split at a carriage return, which names of icon files on a Mac contain."""
    (tmp_path / "source" / "Icon\r").write_text("icon")
    (tmp_path / "bin").mkdir()
    fake = f"""#!/bin/sh
[ "$1 $2 $3 $4" = "-a --from0 --files-from=- ./" ] || exit 9
exec xargs -0 {shutil.which("cp")} -a --parents -t "$5" --
"""
    if shutil.which("rsync") is None:
        (tmp_path / "bin" / "rsync").write_text(fake)
        (tmp_path / "bin" / "rsync").chmod(0o755)
    assert run_script("rsync", ["./Icon\r", "./sub/a"], end="\n", path=tmp_path / "bin").returncode == 0
    assert contents(tmp_path / "target") == {"Icon\r": "icon", "sub/a": "a"}


def test_the_script_refuses_what_it_does_not_know(tmp_path):
    """Without three arguments it shows its help; an unknown program is refused."""
    script = tmp_path / "go.sh"
    script.write_text(file_script("go.sh", "list", is_null_separated=True))
    few = subprocess.run(["sh", script], capture_output=True, text=True, check=False)
    other = subprocess.run(["sh", script, "rm", "a", "b"], capture_output=True, text=True, check=False)
    assert (few.returncode, other.returncode) == (2, 2)
    assert "sh go.sh tar SOURCE TARGET.tar" in few.stderr
    assert "rm: tar, cp or rsync" in other.stderr


@pytest.mark.parametrize("is_null_separated", [True, False])
def test_shellcheck_finds_nothing(peer, tmp_path, is_null_separated):
    """The list can have any name."""
    script = tmp_path / "go.sh"
    script.write_text(file_script("go.sh", "it's a `list` $x", is_null_separated=is_null_separated))
    subprocess.run([peer("shellcheck"), script], check=True)

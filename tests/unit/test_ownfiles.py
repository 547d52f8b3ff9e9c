"""Only our own files are deleted or replaced, in the state in which they were found, and in one module."""

from __future__ import annotations

import ast
import errno
import os
from typing import TYPE_CHECKING

import pytest

from fixtures.hfsplus.scenarios import SCENARIOS
from fixtures.hfsplus.writer import render
from layoutscope import ownfiles
from layoutscope.api.outputs import open_output
from layoutscope.errors import OutputError, UsageError
from tests.cases import for_each
from tests.docs.imports import PACKAGE, read_modules

if TYPE_CHECKING:
    from pathlib import Path

ALWAYS = {"unlink", "rmtree", "rmdir", "removedirs", "renames", "hardlink_to", "symlink_to"}
OF_MODULES = ALWAYS | {
    "replace",
    "rename",
    "remove",
    "truncate",
    "link",
    "symlink",
    "move",
    "copyfile",
    "copy",
    "copy2",
}
EXCEPTIONS = {
    "structs/build.py: built.replace": "compiles the library where a developer says; the package never calls it",
    "api/extract.py: self._file.truncate": "the length of an open file that nobody else has",
    "image/cache.py: target.truncate": "the length of an open file that nobody else has",
}


def calls_in(tree: ast.Module) -> list[str]:
    """List the calls with which a module may delete or replace files.

    A string's ``replace`` has two arguments, that of dataclasses keywords or a name of its own, lists alone ``remove``.
    """
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module in ("os", "shutil"):
            found += [f"from {node.module} import {each.name}" for each in node.names if each.name in OF_MODULES]
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        name, receiver = node.func.attr, ast.unparse(node.func.value)
        is_path = name in ("replace", "rename") and len(node.args) == 1 and not node.keywords
        is_path |= name in ("replace", "rename") and [each.arg for each in node.keywords] == ["target"]
        of_module = receiver in ("os", "shutil") and name in OF_MODULES
        if name in ALWAYS or name == "truncate" or of_module or is_path:
            found.append(f"{receiver}.{name}")
    return found


WRITERS = {
    "api/outputs.py: target.open": "the null device",
    "api/validate.py: (folder / place).write_bytes": "a temporary folder of its own",
    "cli/application.py: formatter.write_text": "a page of help",
    "cli/help.py: formatter.write_text": "a page of help",
    "fleet/limits.py: Path('/proc/self/clear_refs').write_text": "has the kernel measure memory anew",
    "structs/build.py: source.write_text": "a temporary folder of its own",
    "tables/capture.py: open": "the null device",
    "__main__.py: open": "standard streams, by their numbers",
}


def writers_in(tree: ast.Module) -> list[str]:
    """List the calls with which a module may write into an existing file."""
    found = []
    for node in (each for each in ast.walk(tree) if isinstance(each, ast.Call)):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        words = [each for part in (*node.args, *(word.value for word in node.keywords)) for each in ast.walk(part)]
        modes = [each.value for each in words if isinstance(each, ast.Constant) and isinstance(each.value, str)]
        # A mode with x creates a new file; other words are names and encodings.
        is_writing = any(set(mode) & set("wa+") and set(mode) <= set("rwabt+") for mode in modes)
        is_writing |= any(isinstance(each, ast.Attribute) and each.attr == "O_TRUNC" for each in words)
        is_method = isinstance(node.func, ast.Attribute) and name in ("write_text", "write_bytes")
        if (name == "open" and is_writing) or is_method:
            found.append(ast.unparse(node.func))
    return found


@for_each("find, wanted", [(writers_in, WRITERS), (calls_in, EXCEPTIONS)])
def test_one_module_writes_deletes_and_replaces(find, wanted):
    """Nothing else in the package changes, removes or renames a file that is there, except for listed reasons."""
    found = {
        f"{module.path.relative_to(PACKAGE).as_posix()}: {call}"
        for module in read_modules().values()
        if module.name != "layoutscope.ownfiles"
        for call in find(module.tree)
    }
    assert found == set(wanted)


WRITING = """
    open(a, 'w'); a.open('wb'); a.open(mode='r+b'); a.write_text('x'); os.open(a, os.O_RDWR | os.O_TRUNC)
"""
DELETING = """
    path.unlink(); path.unlink(missing_ok=True); shutil.rmtree(x); os.replace(a, b); a.replace(b); os.remove(a)
    os.rename(a, b); a.rename(b); os.renames(a, b); os.removedirs(a); a.rmdir(); os.truncate(a, 0); a.truncate(0)
    from os import unlink; from shutil import rmtree as gone; a.b(c).replace(d); shutil.move(a, b)
    a.replace(target=b); os.link(a, b)
"""
HARMLESS = """
    text.replace('a', 'b'); replace(item, a=1); dataclasses.replace(item, a=1); found.remove(x)
    time.replace(tzinfo=None); shutil.disk_usage(a)
"""


def calls_of(text: str) -> list[ast.Module]:
    """Split an example into its calls."""
    return [ast.parse(call.strip()) for line in text.strip().splitlines() for call in line.split(";")]


def test_each_such_call_is_found():
    """Each would make a test above fail; strings, dataclasses, lists and times are not files."""
    assert [ast.unparse(call) for call in calls_of(WRITING) if not writers_in(call)] == []
    assert [ast.unparse(call) for call in calls_of(DELETING) if not calls_in(call)] == []
    assert [ast.unparse(call) for call in calls_of(HARMLESS) if calls_in(call)] == []


def put(path: Path, text: str = "mine") -> None:
    """Write in place, like another program."""
    path.write_text(text)


def put_new(path: Path, data: bytes = b"mine") -> None:
    """Write like a program that moves a finished file into its place."""
    path.with_suffix(".other").write_bytes(data)
    path.with_suffix(".other").replace(path)


def put_link(path: Path) -> None:
    """Put a dangling link there."""
    path.unlink(missing_ok=True)
    path.symlink_to("nowhere")


def put_folder_link(path: Path) -> None:
    """Put a link to a folder there."""
    path.unlink(missing_ok=True)
    path.symlink_to(PACKAGE)


def put_disk(path: Path) -> None:
    """Put a disk there."""
    put_new(path, bytes(render(SCENARIOS["hard-links"])[0].to_bytearray()))


def put_folder(path: Path) -> None:
    """Put an empty folder there."""
    path.unlink(missing_ok=True)
    path.mkdir()


STRANGERS = {
    "file": put_new,
    "edit": put,
    "link": put_link,
    "link to a folder": put_folder_link,
    "disk": put_disk,
    "folder": put_folder,
}


def contents(path: Path) -> object:
    """Return the content at a path, whatever it is."""
    if path.is_symlink():
        return path.readlink()
    return sorted(path.iterdir()) if path.is_dir() else path.read_bytes()


@pytest.fixture(params=["link", "rename"])
def way(request, monkeypatch):
    """Use each way of renaming, because some file systems have no hard links."""

    def refuse(*_args, **_named):
        raise OSError(errno.EPERM, "Operation not permitted")

    if request.param == "rename":
        monkeypatch.setattr(os, "link", refuse)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize(
    ("is_old", "force", "words"),
    [
        (False, False, "appeared while the result was made, and is not replaced"),
        (False, True, "appeared while the result was made, and is not replaced"),
        (True, True, "was changed while the result was made, and stays as it is"),
    ],
)
@pytest.mark.parametrize("stranger", STRANGERS)
def test_what_appears_meanwhile_is_not_replaced(request, tmp_path, stranger, is_old, force, words):
    """A file that is put in the place, or written into an old result, after the check stays."""
    target, before = tmp_path / "a.csv", None
    if is_old:
        request.getfixturevalue("marks")(target, "four")

    def write() -> None:
        nonlocal before
        with open_output(target, force=force) as file:
            file.write(b"result")
            STRANGERS[stranger](target)
            before = contents(target)

    with pytest.raises(OutputError, match=rf"a\.csv: {words}"):
        write()
    assert contents(target) == before
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("force", [False, True])
def test_results_get_their_names_in_every_way(tmp_path, marks, force):
    """New files, and with force in place of old ones; folders as well."""
    target = tmp_path / "a.csv"
    if force:
        marks(target)
    with open_output(target, force=force) as file:
        file.write(b"result")
    assert (target.read_bytes(), ownfiles.is_own(target)) == (b"result", True)
    work = ownfiles.make_folder(tmp_path / ".work")
    for text in (b"one", b"two"):
        (work / "new").mkdir()
        ownfiles.write_new(work / "new" / "file", text)
        ownfiles.place(work / "new", tmp_path / "folder", ownfiles.take_snapshot(tmp_path / "folder"))
        assert (tmp_path / "folder" / "file").read_bytes() == text
    ownfiles.remove_folder(work)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.csv", "folder"]


def test_an_edit_of_the_same_length_and_moment_is_seen(tmp_path, marks):
    """The time of a finished file is one that the file system's clock never gives."""
    target = marks(tmp_path / "a.csv", "four")
    before = target.stat()
    put(target)
    os.utime(target, ns=(before.st_atime_ns, before.st_mtime_ns // 4_000_000 * 4_000_000))
    with pytest.raises(UsageError, match="was changed since layoutscope wrote it"), open_output(target, force=True):
        pass
    assert target.read_text() == "mine"


@pytest.mark.parametrize("change", ["edited", "added", "removed", "linked"])
def test_a_folder_that_was_changed_meanwhile_stays(tmp_path, marks, change):
    """A capture with a file that changed while the new one was made is not replaced, as for a single file."""
    goal, work = tmp_path / "folder", ownfiles.make_folder(tmp_path / ".work")
    for folder in (goal, work / "new"):
        (folder / "0").mkdir(parents=True)
        marks(folder / "0" / "file")
    seen = ownfiles.take_snapshot(goal)
    if change in ("removed", "linked"):
        (goal / "0" / "file").unlink()
    if change == "linked":
        (goal / "0" / "file").symlink_to("/nowhere")
    if change in ("edited", "added"):
        put(goal / "0" / ("file" if change == "edited" else "other"))
    before = ownfiles.take_snapshot(goal)
    with pytest.raises(OutputError, match="was changed while the result was made"):
        ownfiles.place(work / "new", goal, seen)
    assert ownfiles.take_snapshot(goal) == before
    with pytest.raises(OutputError, match="was changed meanwhile, and is not removed"):
        ownfiles.remove(goal, seen, aside=work / "old")
    assert ownfiles.take_snapshot(goal) == before


def test_links_are_not_followed_when_a_folder_goes(tmp_path):
    """Neither a link in the folder nor one that has replaced the folder is followed."""
    made, evidence = ownfiles.make_folder(tmp_path / "work"), tmp_path / "evidence"
    (evidence / "case1").mkdir(parents=True)
    (evidence / "case1" / "disk.img").write_bytes(b"disk")
    (made / "link").symlink_to(evidence)
    ownfiles.empty_folder(made)
    assert list(made.iterdir()) == []
    ownfiles.remove_folder(made)
    assert not made.exists()
    made.symlink_to(evidence)
    ownfiles.remove_folder(made)
    assert (evidence / "case1" / "disk.img").read_bytes() == b"disk"


@pytest.mark.skipif(not hasattr(os, "setxattr"), reason="this system lists no attributes")
@pytest.mark.parametrize("name", ["", "0", "0/nodes"])
def test_what_a_user_noted_on_a_result_is_not_lost(tmp_path, marks, name):
    """Tags and comments are attributes, which change neither the length nor the time of a file."""
    folder = tmp_path / "folder"
    (folder / "0").mkdir(parents=True)
    marks(folder / "0" / "nodes")
    ownfiles.refuse_strangers(folder, ownfiles.take_snapshot(folder), is_folder=True)
    os.setxattr(folder / name, "user.xdg.comment", b"mine")
    with pytest.raises(UsageError, match=r"has the attribute user\.xdg\.comment, which layoutscope did not write"):
        ownfiles.refuse_strangers(folder, ownfiles.take_snapshot(folder), is_folder=True)


@pytest.mark.skipif(os.chmod not in os.supports_fd, reason="this system changes modes by names alone")
def test_modes_are_those_of_the_file_that_was_written(tmp_path):
    """Another file may have taken the name of the unfinished one."""
    with ownfiles.part_file(tmp_path, "a") as (file, part):
        part.rename(tmp_path / "moved")
        put(part)
        part.chmod(0o600)
        ownfiles.finish(file, part, mode=0o644)
    assert [path.stat().st_mode & 0o777 for path in (part, tmp_path / "moved")] == [0o600, 0o644]
    assert part.read_text() == "mine"


@pytest.mark.skipif(os.name == "nt", reason="this system has no modes")
@pytest.mark.parametrize("mode", [0o600, 0o755])
def test_a_result_keeps_the_mode_of_the_one_it_replaces(tmp_path, marks, mode):
    """A result that was made private, or a script made executable, keeps its mode."""
    target = marks(tmp_path / "a.csv")
    target.chmod(mode)
    with open_output(target, force=True) as file:
        file.write(b"result")
    assert (target.read_bytes(), target.stat().st_mode & 0o777) == (b"result", mode)


def test_a_file_that_may_not_be_read_is_not_replaced_and_the_reason_is_told(tmp_path, monkeypatch):
    """The message must not say that the file system kept no marks."""
    target = tmp_path / "a.csv"
    put(target)

    def denied(*_):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(ownfiles, "_read_mark", denied)
    with pytest.raises(UsageError, match="its mark cannot be read: Permission denied"), open_output(target, force=True):
        pass
    assert target.read_text() == "mine"

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from layoutscope.errors import TruncatedError
from tests.cli.conftest import ROOT


def one_line(result, code):
    """Check that a run ended with a code, one line on standard error and nothing on standard output."""
    assert (result.exit_code, result.stdout) == (code, "")
    assert result.stderr.startswith("layoutscope: ")
    assert result.stderr.count("\n") == 1
    return result.stderr


def test_missing_file(run, tmp_path):
    """A missing file is named."""
    assert "no such file" in one_line(run("scan", tmp_path / "nothing.img"), 1)


def test_directory(run, tmp_path):
    """A directory is not an image."""
    assert "is a directory" in one_line(run("scan", tmp_path), 1)


def test_empty_file(run, tmp_path):
    """An empty file is reported as empty."""
    target = tmp_path / "empty.img"
    target.touch()
    assert "is empty" in one_line(run("scan", target), 1)


def test_text_file(run, tmp_path):
    """A text file is reported as one."""
    target = tmp_path / "notes.txt"
    target.write_text("Dear diary\n" * 50)
    assert "is a text file" in one_line(run("scan", target), 1)


def test_zeroes(run, tmp_path):
    """For an image without a volume the error says that none was found."""
    target = tmp_path / "zeroes.img"
    target.write_bytes(bytes(1 << 20))
    assert "no HFS+ or APFS volume found" in one_line(run("scan", target), 1)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_file_without_permission(run, tmp_path):
    """For an unreadable file the error says what to do."""
    target = tmp_path / "locked.img"
    target.write_bytes(bytes(4096))
    target.chmod(0)
    assert "permission denied" in one_line(run("scan", target), 1)


def test_denied_by_the_system(run, tmp_path, monkeypatch):
    """A permission error of the system is one line, whichever user runs the test."""

    def deny(*_args, **_options):
        raise PermissionError(13, "Permission denied")

    target = tmp_path / "locked.img"
    target.write_bytes(bytes(4096))
    monkeypatch.setattr("layoutscope.image.raw.os.open", deny)
    assert "permission denied" in one_line(run("scan", target), 1)


def test_only_the_reader_says_what_may_be_read(run, image, monkeypatch):
    """Nothing checks permissions before a file is opened, so there is one error with one exit code."""
    monkeypatch.setattr("os.access", lambda *_args, **_options: False)
    assert run("scan", image).exit_code == 0


def test_other_file_system(run, tmp_path, peer):
    """An ext4 image is refused by its name."""
    target = tmp_path / "linux.img"
    target.write_bytes(bytes(4 << 20))
    subprocess.run([peer("mkfs.ext4"), "-q", "-F", str(target)], check=True)
    assert "ext" in one_line(run("scan", target), 1)


def test_truncated_read_is_no_abort(run, image, monkeypatch):
    """An error that is also an EOFError is reported as itself, not as an aborted prompt."""

    def fail(*_args, **_options):
        raise TruncatedError("cut", structure="node", image_offset=4096)

    monkeypatch.setattr("layoutscope.api.scan.open_volumes", fail)
    assert "node at byte 4,096: cut" in one_line(run("scan", image), 1)


def test_control_characters_in_messages_are_escaped(run, tmp_path):
    """A file name cannot act on the terminal through an error."""
    assert "\\u001b[31m" in one_line(run("scan", tmp_path / "a\x1b[31mb"), 1)


def test_interrupt_ends_with_130(run, image, monkeypatch):
    """Ctrl-C ends a command with 130; the program adds its line."""

    def interrupt(*_args, **_options):
        raise KeyboardInterrupt

    monkeypatch.setattr("layoutscope.api.scan.open_volumes", interrupt)
    result = run("scan", image)
    assert (result.exit_code, result.stdout, result.stderr) == (130, "", "")


def test_interrupted_process_ends_with_130():
    """A signal that arrives anywhere ends the process with 130 and one line."""
    code = (
        "import os, signal, sys\nfrom layoutscope import cli, __main__\n"
        "sys.modules['layoutscope.cli'].app = lambda: os.kill(os.getpid(), signal.SIGINT)\n__main__.main()"
    )
    result = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert (result.returncode, result.stderr) == (130, "layoutscope: interrupted\n")


def test_broken_pipe_is_quiet(image):
    """A reader that closes the pipe early is not an error."""
    command = f'"{sys.executable}" -m layoutscope export "{image}" --table extents | head -n 1'
    result = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith("row,")


PARQUET = ("export", "--table", "nodes", "--format", "parquet")


def test_a_closed_output_is_one_line(image):
    """An image that is opened next does not become the standard output, and nothing is printed into it."""
    command = f'"{sys.executable}" -m layoutscope scan "{image}" >&-'
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False, cwd=ROOT)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.startswith("layoutscope: the output cannot be written: ")
    assert result.stderr.count("\n") == 1


def test_all_streams_closed(image, tmp_path):
    """A command that writes a file works without any of the three."""
    target = tmp_path / "nodes.csv"
    command = f'"{sys.executable}" -m layoutscope export "{image}" --table nodes -o "{target}" <&- >&- 2>&-'
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False, cwd=ROOT)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert target.read_text().startswith("row,")


@pytest.mark.full
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device")
@pytest.mark.parametrize("words", [("scan",), ("scan", "--json"), ("export", "--table", "nodes"), ("trace",), PARQUET])
def test_a_full_disk_is_one_line(image, words):
    """A standard output that is full ends with 1 and the reason, without a traceback."""
    command = [sys.executable, "-m", "layoutscope", words[0], str(image), *words[1:]]
    with Path("/dev/full").open("wb") as full:
        result = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, cwd=ROOT)
    assert result.returncode == 1
    assert result.stderr.startswith("layoutscope: the output cannot be written: ")
    assert result.stderr.count("\n") == 1


def test_no_memory_is_one_line(run, image, monkeypatch):
    """A failed allocation ends the command with 1, as other errors do."""

    def fail(*_args, **_options):
        raise MemoryError

    monkeypatch.setattr("layoutscope.api.scan.open_volumes", fail)
    result = run("scan", image)
    assert (result.exit_code, result.stderr) == (1, "layoutscope: there is not enough memory for this\n")


def test_the_image_is_not_written_to(run, image, tmp_path):
    """Scan, export and inspect work on a read-only file and do not change its bytes."""
    import hashlib

    before = hashlib.sha256(image.read_bytes()).hexdigest()
    image.chmod(0o444)
    assert run("scan", image).exit_code == 0
    assert run("export", image, "--table", "nodes", "-o", tmp_path / "nodes.csv").exit_code == 0
    assert run("inspect", image, "--at", "0").exit_code == 0
    assert hashlib.sha256(image.read_bytes()).hexdigest() == before
    assert [path.name for path in image.parent.iterdir()] == [image.name]

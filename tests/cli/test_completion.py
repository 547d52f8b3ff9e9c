"""Completion: scripts for three shells, and bash completes commands, options and choices."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys

import pytest

from tests.cli.conftest import ROOT


@pytest.fixture
def program(tmp_path):
    """Put a command of this name on the path, as an installation does, and return its environment."""
    command = tmp_path / "layoutscope"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m layoutscope "$@"\n')
    command.chmod(command.stat().st_mode | stat.S_IXUSR)
    # The script starts Python with -m, which takes the program name from the shell completion variable.
    return {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}


def completed(program, line, shell="bash"):
    """Return the completions of the last word of a line, as the shell's script requests them."""
    words = line.split(" ")
    asked = {
        "bash": {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1), "_LAYOUTSCOPE_COMPLETE": "complete_bash"},
        "zsh": {"_TYPER_COMPLETE_ARGS": line, "_LAYOUTSCOPE_COMPLETE": "complete_zsh"},
        "fish": {
            "_TYPER_COMPLETE_ARGS": line,
            "_TYPER_COMPLETE_FISH_ACTION": "get-args",
            "_LAYOUTSCOPE_COMPLETE": "complete_fish",
        },
    }[shell]
    code = "import sys; sys.argv[0] = 'layoutscope'; from layoutscope.__main__ import main; main()"
    run = subprocess.run(
        [sys.executable, "-c", code], env={**program, **asked}, capture_output=True, text=True, check=False, cwd=ROOT
    )
    return run.stdout


@pytest.mark.parametrize(
    ("line", "found", "not_found"),
    [
        ("layoutscope sc", "scan", "check"),
        ("layoutscope predict --or", "--order", "--host"),
        ("layoutscope predict --order f", "fts", "names"),
        ("layoutscope export --table no", "node_views", "extents"),
        ("layoutscope scan --host m", "macos", "linux"),
        ("layoutscope predict --what-if o", "outer-zone", "packed"),
    ],
)
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_verbs_options_and_choices_are_completed(program, shell, line, found, not_found):
    """Each shell gets the possible words, and nothing else."""
    told = completed(program, line, shell)
    assert found in told
    assert not_found not in told


SIGNS = {"bash": "complete -o", "zsh": "#compdef layoutscope", "fish": "complete"}


@pytest.mark.parametrize(("shell", "sign"), SIGNS.items())
def test_each_shell_has_its_script(program, shell, sign):
    """Each shell gets the script that a user adds to a start-up file."""
    code = "import sys; sys.argv[0] = 'layoutscope'; from layoutscope.__main__ import main; main()"
    asked = {**program, "_LAYOUTSCOPE_COMPLETE": f"source_{shell}"}
    run = subprocess.run([sys.executable, "-c", code], env=asked, capture_output=True, text=True, check=True, cwd=ROOT)
    assert sign in run.stdout
    assert "_LAYOUTSCOPE_COMPLETE=complete_" in run.stdout


def test_no_start_up_file_is_written(program, tmp_path):
    """Typer would rewrite a shell's settings: it changes their line ends, and loses them if the disk is full."""
    (tmp_path / ".bashrc").write_bytes(b"export A=1\r\n")
    run = subprocess.run(
        [sys.executable, "-m", "layoutscope", "--install-completion"], capture_output=True, text=True, check=False,
        env={**program, "HOME": str(tmp_path)}, cwd=ROOT,
    )  # fmt: skip
    assert (run.returncode, "No such option" in run.stderr, "--show-completion" in run.stderr) == (2, True, True)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".bashrc", "layoutscope"]


def test_bash_completes_with_the_script(program, tmp_path):
    """A real bash with the script completes the beginning of a command."""
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("bash is not installed")
    code = "import sys; sys.argv[0] = 'layoutscope'; from layoutscope.__main__ import main; main()"
    (tmp_path / "layoutscope").write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "{code}" "$@"\n')
    script = """
        eval "$(_LAYOUTSCOPE_COMPLETE=source_bash layoutscope)"
        COMP_WORDS=(layoutscope checkp); COMP_CWORD=1
        _layoutscope_completion layoutscope
        echo "${COMPREPLY[@]}"
    """
    run = subprocess.run([bash, "--norc", "-c", script], env=program, capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["checkpoints"]

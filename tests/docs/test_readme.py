"""The README is short and right, and what cog writes into it and the pages is fresh."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib

import pytest

from tests.docs.imports import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.full
def test_generated_parts_are_fresh():
    """Tables, outputs and help texts are what the code prints now."""
    pytest.importorskip("cogapp", reason="cog is not installed (pip install -e '.[dev]')")
    command = [sys.executable, "-m", "cogapp", "-P", "--check", "--diff", *map(str, PAGES)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout[-3000:]


def test_the_readme_is_short_and_shows_a_picture():
    """At most 100 lines and 8 KiB."""
    assert len(README.splitlines()) <= 100
    assert len(README.encode()) <= 8192
    shown = re.findall(r'(?:src|srcset)="([^"]+)"', README)
    assert len(shown) == 2


def test_every_extra_of_users_is_named():
    """Each optional dependency of users has its purpose; those of developers are not listed."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    named = set(re.findall(r"'\.\[(\w+)\]'", README))
    assert named - {"test"} == set(extras) - {"dev", "docs", "test"}


def test_first_command_scans_the_committed_image():
    """The image that the first command names is there."""
    names = re.findall(r"layoutscope scan (fixtures/images/\S+)", README)
    assert names
    assert all((ROOT / name).is_file() for name in names)


def test_ci_runs_the_second_command():
    """CI takes its test command from the README, between the marker and the end of the block."""
    if shutil.which("sed") is None:
        pytest.skip("sed is not installed")
    block = README.split("<!-- test-command -->")[1].split("```")[1]
    assert "-m pytest" in block
    assert "test-command" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")

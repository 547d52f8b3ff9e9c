"""The reference of the commands and the manual page are what the commands say, whole, and roff takes them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

import pytest

from layoutscope.cli.application import COMMANDS
from layoutscope.cli.help import FORMS
from tests.docs.manual import MANUAL, REFERENCE, manual, options_of, reference


def test_reference_and_manual_are_fresh():
    """``python -m tests.docs.manual`` writes what is committed."""
    assert REFERENCE.read_text(encoding="utf-8") == reference()
    assert MANUAL.read_text(encoding="utf-8") == manual()


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_has_a_description_a_unit_and_a_default(name):
    """A row of the reference without one of them is not enough for a user."""
    section = REFERENCE.read_text(encoding="utf-8").split(f"\n### {name}\n")[1].split("\n### ")[0].split("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| `")]
    assert len(rows) == len(options_of(name))
    for row in rows:
        cells = [cell.strip() for cell in row.replace("\\|", "/").strip("|").split("|")]
        assert len(cells) == 4
        assert all(cells), row


def test_the_manual_is_shown_without_a_complaint():
    """Man and groff take the page, with every verb and no warning."""
    groff = shutil.which("groff")
    if groff is None:
        pytest.skip("groff is not installed")
    command = [groff, "-man", "-Tutf8", "-ww", str(MANUAL)]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, "LC_ALL": "C.UTF-8"})
    assert shown.stderr == ""
    # Bold letters are struck twice, as on paper.
    text = re.sub(".\x08", "", shown.stdout)
    assert all(f"\n   {FORMS.get(name, name)}\n" in text for name in COMMANDS)

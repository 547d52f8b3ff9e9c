"""The shell script that reads the files of a list in order, with tar, cp or rsync: ``filescript.sh``."""

from __future__ import annotations

import shlex
from importlib import resources
from typing import Final

_LINES: Final = """\
lines() { cat "$list"; }
names() { LC_ALL=C tr '\\n' '\\000' <"$list"; }
[ "$(LC_ALL=C tr -cd '\\000' <"$list" | wc -c)" -eq 0 ] || fail "$list: has zero bytes, which end no names in it"
"""
# A line end in a name becomes a character that the rules below ignore.
_ZEROS: Final = """\
lines() { LC_ALL=C tr '\\n\\000' '\\001\\n' <"$list"; }
names() { cat "$list"; }
"""


def file_script(name: str, listed: str, *, is_null_separated: bool) -> str:
    """Return the script for a list."""
    lines = _ZEROS if is_null_separated else _LINES
    template = resources.files("layoutscope.report").joinpath("filescript.sh").read_text("utf-8")
    script = template.replace("@LINES@\n", lines).replace("@NAME@", shlex.quote(name).replace("\n", " "))
    return script.replace("@LIST@", shlex.quote(listed))

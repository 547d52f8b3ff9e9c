"""``kit``: the script that measures what a Mac does on a disk."""

from __future__ import annotations

from pathlib import Path

from layoutscope.version import __version__


def kit() -> str:
    """Return the shell script that measures what a Mac does on a disk; docs/kit.md says what its archive holds.

    Examples
    --------
    >>> import layoutscope
    >>> layoutscope.kit().splitlines()[0]
    '#!/bin/sh'
    """
    return Path(__file__).with_name("kit.sh").read_text("utf-8").replace("@VERSION@", __version__)

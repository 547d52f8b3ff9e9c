"""The verbs of the library, under the same names as those of the command line; ``layoutscope`` itself has all of them.

A module holds a family of verbs and is named after the first of them, as in ``results``, ``report`` and ``cli``; it
loads what these verbs need.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from layoutscope.results import Shown

if TYPE_CHECKING:
    from rich.console import Console


def print_shown(result: Shown, console: Console) -> None:
    """Print a result of any verb as its command does."""
    from layoutscope.report.text import print_result

    print_result(result, console)


Shown.print_with(print_shown)

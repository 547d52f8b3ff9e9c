"""The verbs of the library, under the same names as those of the command line.

Each stands in the module of its name, which loads what that verb needs; ``layoutscope`` itself has all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from layoutscope.results.shown import Shown

if TYPE_CHECKING:
    from rich.console import Console


def print_shown(result: Shown, console: Console) -> None:
    """Print a result of any verb as its command does."""
    from layoutscope.report.text import print_result

    print_result(result, console)


Shown.print_with(print_shown)

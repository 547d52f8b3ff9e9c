"""The verbs of the library, under the same names as those of the command line; ``layoutscope`` itself has all of them.

A module holds a family of verbs and is named after the first of them, as in ``results``, ``report`` and ``cli``; it
loads what these verbs need.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from layoutscope.display import Displayed
from layoutscope.results import Shown

if TYPE_CHECKING:
    from rich.console import Console

    from layoutscope.tables.columns import Rows


def print_shown(result: Shown, console: Console) -> None:
    """Print a result of any verb as its command does."""
    from layoutscope.report.text import print_result

    print_result(result, console)


def draw_html(thing: Displayed) -> str:
    """Draw an object for a notebook."""
    from layoutscope.report.notebook import to_html

    return to_html(thing)


def make_rows(name: str, result: Shown) -> Rows:
    """Make the rows of one of the frames of a result."""
    from layoutscope.results.frames import rows_of

    return rows_of(name, result)


_HOMES = {"layout_map": "map", "write_map": "map", "save": "save"}


def run_verb(verb: str, *given: Any, **options: Any) -> object:
    """Draw or save a result."""
    return getattr(import_module(f"layoutscope.api.{_HOMES[verb]}"), verb)(*given, **options)


# Results know nothing of reports, which are made of them: here they are brought together, and loaded when needed.
Shown.render_with(print_shown, make_rows, run_verb)
Displayed.draw_with(draw_html)

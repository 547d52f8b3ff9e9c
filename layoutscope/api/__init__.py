"""The verbs of the library, under the same names as those of the command line; ``layoutscope`` itself has all of them.

A module holds a family of verbs and is named after the first of them, as in ``results``, ``report`` and ``cli``; it
loads what these verbs need.
"""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import Any

from layoutscope.display import Displayed
from layoutscope.results import Shown


def call_from(module: str, name: str, *given: Any, **options: Any) -> Any:
    """Call a function of a module that is imported only now."""
    return getattr(import_module(f"layoutscope.{module}"), name)(*given, **options)


def run_verb(verb: str, *given: Any, **options: Any) -> object:
    """Draw or save a result."""
    return call_from("api.save" if verb == "save" else "api.map", verb, *given, **options)


# Results know nothing of reports, which are made of them: here they are brought together, and loaded when needed.
Shown.render_with(
    partial(call_from, "report.text", "print_result"), partial(call_from, "results.frames", "rows_of"), run_verb
)
Displayed.draw_with(partial(call_from, "report.notebook", "to_html"))

"""Results as text for a terminal or a pipe, readable from 80 columns on.

The module of a name prints the results of ``layoutscope.results`` in the module of that name, and is imported for that.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

    from layoutscope.results import Shown


def printer(kind: type[Shown]) -> Callable[[Shown, Console], None]:
    """Return what prints a kind of result."""
    family = import_module(f"{__name__}.{kind.__module__.rpartition('.')[2]}")
    found: Callable[[Shown, Console], None] = family.PRINTERS[kind]
    return found


def print_result(result: Shown, console: Console) -> None:
    """Print a result as its command does."""
    printer(type(result))(result, console)

"""Results as terminals and notebooks show them: what the command line prints of them."""

from __future__ import annotations

import io
from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

NOTEBOOK_COLUMNS: Final = 110
HTML: Final = '<pre style="font-family: monospace; white-space: pre; line-height: normal">{code}</pre>'

PRINTERS: Final = {
    "ScanResult": "layoutscope.report.text.scan:print_scan",
    "PredictResult": "layoutscope.report.text.predict:print_prediction",
    "Comparison": "layoutscope.report.text.compare:print_comparison",
    "Series": "layoutscope.report.text.series:print_series",
    "CheckResult": "layoutscope.report.text.check:print_check",
    "ReplayResult": "layoutscope.report.text.replay:print_replay",
    "Inspection": "layoutscope.report.text.inspect:print_inspection",
    "Verification": "layoutscope.report.text.verify:print_verification",
}
"""Class of a result and the function that prints it."""


class Shown:
    """A result with rich representations."""

    __slots__ = ()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Print the result as the command line does."""
        from rich.text import Text

        yield Text.from_ansi(_printed(self, options.max_width, colours=console.is_terminal))

    def _repr_html_(self) -> str:
        """Show the result in a notebook."""
        from rich.console import Console
        from rich.text import Text

        page = Console(file=io.StringIO(), width=NOTEBOOK_COLUMNS, record=True)
        page.print(Text.from_ansi(_printed(self, NOTEBOOK_COLUMNS, colours=True)))
        return page.export_html(inline_styles=True, code_format=HTML)


def _printed(result: Shown, width: int, *, colours: bool) -> str:
    from rich.console import Console

    module, _, name = PRINTERS[type(result).__name__].partition(":")
    target = io.StringIO()
    console = Console(file=target, width=width, highlight=False, markup=False, emoji=False, force_terminal=colours)
    getattr(import_module(module), name)(result, console)
    return target.getvalue()

"""What the library returns: plain data; reports render them, the analysis adds to them.

One module a family of verbs, named after the first of them. What all have in common is how terminals and notebooks show
them (:class:`Shown`): as the command line prints them.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, ClassVar, Final

from layoutscope.display import Displayed

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console, ConsoleOptions, RenderResult

    from layoutscope.frames import pl
    from layoutscope.tables.columns import Rows


NOTEBOOK_COLUMNS: Final = 110
HTML: Final = '<pre style="font-family: monospace; white-space: pre; line-height: normal">{code}</pre>'


class Shown(Displayed):
    """A result that is printed as its command's text; in notebooks it has tables below that.

    Results know nothing of reports, which are made of them; the library says once how they are printed.
    """

    __slots__ = ()

    _print: ClassVar[Callable[[Shown, Console], None]]
    _make: ClassVar[Callable[[str, Shown], Rows]]
    _verbs: ClassVar[Callable[..., object]]
    frames: ClassVar[tuple[str, ...]] = ()
    """Names of the members that are frames, documented in :data:`layoutscope.tables.frames.FRAMES`."""

    @staticmethod
    def print_with(printer: Callable[[Shown, Console], None]) -> None:
        """Describe how results are printed to a console."""
        Shown._print = printer

    @staticmethod
    def rows_with(make: Callable[[str, Shown], Rows]) -> None:
        """Describe how results become rows under columns, from the frame's name and the result."""
        Shown._make = make

    @staticmethod
    def verbs_with(run: Callable[..., object]) -> None:
        """Describe how a result is drawn or saved, from the verb's name and what it takes."""
        Shown._verbs = run

    def _run(self, verb: str, *given: object, **options: object) -> object:
        return Shown._verbs(verb, *given, **options)

    def rows(self, name: str) -> Rows:
        """Return the rows of a frame by its name in :data:`layoutscope.tables.frames.FRAMES`, without making one."""
        return Shown._make(name, self)

    def _frame(self, name: str) -> pl.DataFrame:
        return self.rows(name).frame

    def __str__(self) -> str:
        """Return what the command prints, as wide as the terminal."""
        return self._printed(None, colours=False).rstrip("\n")

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Print the result as the command line does."""
        from rich.text import Text

        yield Text.from_ansi(self._printed(options.max_width, colours=console.is_terminal))

    def text_html(self) -> str:
        """Return what the command prints, for a notebook."""
        from rich.console import Console
        from rich.text import Text

        # In a notebook a console would show at once what is only to be recorded here.
        page = Console(file=io.StringIO(), width=NOTEBOOK_COLUMNS, record=True, force_jupyter=False)
        page.print(Text.from_ansi(self._printed(NOTEBOOK_COLUMNS, colours=True)))
        return page.export_html(inline_styles=True, code_format=HTML)

    def _printed(self, width: int | None, *, colours: bool) -> str:
        from rich.console import Console

        target = io.StringIO()
        console = Console(
            file=target,
            width=width,
            highlight=False,
            markup=False,
            emoji=False,
            force_terminal=colours,
            force_jupyter=False,
        )
        Shown._print(self, console)
        return target.getvalue()

"""The results that the library returns, as plain data that reports render.

There is one module per family of verbs, named after the first of them. Terminals and notebooks show a result as the
command line prints it (:class:`Shown`).
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
    """A result that is printed like the output of its command; in notebooks, its tables follow.

    Results do not depend on the reports that render them: the library registers the printer once.
    """

    __slots__ = ()

    _print: ClassVar[Callable[[Shown, Console], None]]
    _make: ClassVar[Callable[[str, Shown], Rows]]
    _verbs: ClassVar[Callable[..., object]]
    frames: ClassVar[tuple[str, ...]] = ()
    """Names of the members that are frames, documented in :data:`layoutscope.tables.frames.FRAMES`."""

    @staticmethod
    def render_with(
        printer: Callable[[Shown, Console], None],
        make: Callable[[str, Shown], Rows],  # makes rows from the name of a frame and a result
        run: Callable[..., object],  # draws or saves a result, from the name of a verb and what it takes
    ) -> None:
        """Set the functions that print results, make their rows, and draw or save them."""
        Shown._print, Shown._make, Shown._verbs = printer, make, run

    def _run(self, verb: str, *given: object, **options: object) -> object:
        return Shown._verbs(verb, *given, **options)

    def rows(self, name: str) -> Rows:
        """Return the rows of a frame by its name in :data:`layoutscope.tables.frames.FRAMES`, without the frame."""
        return Shown._make(name, self)

    def _frame(self, name: str) -> pl.DataFrame:
        return self.rows(name).frame

    def __str__(self) -> str:
        """Return the output of the command, in the width of the terminal."""
        return self._render(None, colours=False).rstrip("\n")

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Print the result as the command line does."""
        from rich.text import Text

        yield Text.from_ansi(self._render(options.max_width, colours=console.is_terminal))

    def text_html(self) -> str:
        """Return the output of the command as HTML, for a notebook."""
        from rich.console import Console
        from rich.text import Text

        # In a notebook, a console would otherwise show the text at once.
        page = Console(file=io.StringIO(), width=NOTEBOOK_COLUMNS, record=True, force_jupyter=False)
        page.print(Text.from_ansi(self._render(NOTEBOOK_COLUMNS, colours=True)))
        return page.export_html(inline_styles=True, code_format=HTML)

    def _render(self, width: int | None, *, colours: bool) -> str:
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

"""Where text is printed: a console that writes no control codes unless somebody watches, tables and lists.

Everything from an image goes through :func:`~layoutscope.report.escape_text`; nothing is read as markup.
"""

from __future__ import annotations

import os
from collections import Counter
from textwrap import wrap
from typing import IO, TYPE_CHECKING, Final, TypeVar

from rich import box
from rich.cells import cell_len, set_cell_size
from rich.console import Console, Group
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from layoutscope.report import escape_text
from layoutscope.units import NOTHING, format_bytes, format_count, format_coverage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from rich.console import ConsoleOptions, RenderableType

    from layoutscope.findings import Finding, Level
    from layoutscope.results.scan import ImageFacts
    from layoutscope.tables import VolumeFacts

T = TypeVar("T")

UNWRAPPED_COLUMNS: Final = 100_000
"""Wider than any line of a report."""

COLUMNS: Final = 80

STYLES: Final = {"error": "bold red", "warning": "yellow", "info": "dim"}


def make_console(file: IO[str], *, width: int | None = None) -> Console:
    """Make a console that writes no control codes unless the file is a terminal, and wraps for terminals alone.

    Lines of a pipe or a file are for other programs, which look for whole ones; who wants them wrapped sets COLUMNS.
    """
    if width is None and not file.isatty() and not os.environ.get("COLUMNS"):
        width = UNWRAPPED_COLUMNS
    return _SafeConsole(file=file, width=width, highlight=False, markup=False, emoji=False, soft_wrap=False)


class _SafeConsole(Console):
    """The last guard: what some part of a report forgot to escape, is escaped here."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        """Render, with unsafe characters made visible."""
        for segment in super().render(renderable, options):
            text = segment.text if segment.control else "\n".join(map(escape_text, segment.text.split("\n")))
            yield segment if text == segment.text else Segment(text, segment.style)


def count_findings(findings: Sequence[Finding]) -> str:
    """Count causes by level, and their consequences; a scan and a check may find different ones."""
    numbers = Counter(item.level for item in findings if not item.causes)
    words: dict[Level, str] = {"error": "error", "warning": "warning", "info": "note"}
    counts = ", ".join(format_count(numbers[level], word) for level, word in words.items() if numbers[level])
    follow = sum(bool(item.causes) for item in findings)
    return f"{counts} and {format_count(follow, 'consequence')}" if follow else counts


def print_parts(parts: Iterable[RenderableType], console: Console) -> None:
    """Print parts one below the other, without the spaces that tables end their lines with."""
    with console.capture() as captured:
        for part in parts:
            console.print(part)
    console.file.write("\n".join(line.rstrip() for line in captured.get().splitlines()) + "\n")


def make_printer(parts: Callable[[T], Iterator[RenderableType]]) -> Callable[[T, Console], None]:
    """Make what yields the parts of a result a function that prints them."""

    def print_found(found: T, console: Console) -> None:
        print_parts(parts(found), console)

    return print_found


WIDEST_NAME: Final = 20
"""Characters of a name that begins a row and is never broken; longer ones are paths or sentences."""


def plain_table(
    title: str, columns: Sequence[tuple[str, bool]], rows: Iterable[Sequence[str | Text]], *, gap: int = 2
) -> Group:
    """Make a table without a frame under its title."""
    cells = list(rows)
    has_names = max((len(row[0]) for row in cells if row), default=0) <= WIDEST_NAME
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, gap - 1, 0, 0))
    for place, (name, is_number) in enumerate(columns):
        # What a row is called can be copied whole, however narrow the screen.
        is_whole = is_number or (place == 0 and has_names)
        table.add_column(name, justify="right" if is_number else "left", no_wrap=is_whole, overflow="fold")
    for row in cells:
        table.add_row(*row)
    return Group(Text(title, style="bold"), table)


def heads(*names: str) -> list[tuple[str, bool]]:
    """Return columns of a table by their names; ``>`` comes before the names of numbers."""
    return [(name.removeprefix(">"), name.startswith(">")) for name in names]


def item_table(
    title: str,
    items: Iterable[T],
    *columns: tuple[str, Callable[[T], str | Text]],  # name, as of `heads`, and what writes the cell of an item
    gap: int = 2,
) -> Group:
    """Make a table with a row per item."""
    rows = [[write(item) for _, write in columns] for item in items]
    return plain_table(title, heads(*(name for name, _ in columns)), rows, gap=gap)


def wrap_text(text: str, style: str = "", *, most_lines: int | None = None, room: int = COLUMNS) -> Iterator[Text]:
    """Break a text into lines, those after the first indented; if there are too many, the last one is cut."""
    indent = " " * (len(text) - len(text.lstrip()) + 2)
    lines = wrap(escape_text(text), room, subsequent_indent=indent, break_on_hyphens=False)
    if most_lines is not None and len(lines) > most_lines:
        lines = [*lines[: most_lines - 1], cut_text(" ".join([lines[most_lines - 1], "..."]), room)]
    for line in lines:
        yield Text(line, style=style)


def cut_text(text: str, room: int = COLUMNS) -> str:
    """Cut the end of a text that is too long."""
    return text if cell_len(text) <= room else f"{set_cell_size(text, room - 3)}..."


def format_address(image_offset: int | None) -> str:
    """Write an address of the image; a dash where there is none."""
    return NOTHING if image_offset is None else f"{image_offset:,}"


def stack_words(facts: VolumeFacts, separator: str, what: str) -> str:
    """Name a volume: its number for ``--volume``, what it is, its name, and its state if that is not the live one."""
    number = "Container" if facts.volume is None else f"Volume {facts.volume}"
    name = f'{separator}"{escape_text(facts.name)}"' if facts.name else ""
    view = "" if facts.view == "live" else f"{separator}({escape_text(facts.view)})"
    return f"{number}: {escape_text(what)}{name}{view}"


def coverage_words(coverage: float | None, num_errors: int) -> str:
    """Say how much of the metadata was read, if that was not all of it without an error; else nothing."""
    if coverage == 1 and not num_errors:
        return ""
    errors = format_count(num_errors, "error")
    return f"{format_coverage(coverage)} of the known metadata was read, with {errors}. "


def image_line(image: ImageFacts) -> Text:
    """Show the image and what was read of it."""
    read = f"scanned by reading {format_bytes(image.read_bytes)} in {image.reads:,} requests"
    holes = f", plus {format_bytes(image.hole_bytes)} in sparse regions" if image.hole_bytes else ""
    return Text.assemble((escape_text(image.name), "bold"), f"\n{format_bytes(image.size_bytes)}; {read}{holes}")

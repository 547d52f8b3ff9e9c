"""How far a command is, on a terminal: a line on standard error while something takes longer than two seconds.

A thread looks at the phases that loops declare (:mod:`layoutscope.progress`), so that they need not wait for the
drawing, and what draws is loaded only when there is something to draw. The line is gone before a result is printed.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from threading import Event, Lock, Thread
from typing import IO, TYPE_CHECKING, Final

from layoutscope.bounded import terminal
from layoutscope.progress import Step, UnderWay, reporting

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.progress import Progress as Bar

    from layoutscope.progress import Progress

DELAY_S: Final = 2.0
"""What is done sooner is not worth a line."""

REDRAWN_EVERY_S: Final = 0.2

NO_LINES: Final = ("dumb", "unknown")
"""Terminals that cannot go back to the beginning of a line."""


@contextmanager
def watched(*, quiet: bool) -> Iterator[Progress | None]:
    """Show on standard error how far things are; nothing if that is no terminal, or nobody wants to see it."""
    if quiet or not _can_show(terminal()):
        yield None
        return
    watch = Watch(terminal())
    with reporting(watch) as report:
        watch.begin(report)
        try:
            yield watch
        finally:
            watch.end()


def _can_show(stream: IO[str]) -> bool:
    return stream.isatty() and os.environ.get("TERM", "").lower() not in NO_LINES


class Watch:
    """Who draws the line."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream, self._over, self._lock = stream, Event(), Lock()
        self._bar: Bar | None = None
        self._thread = Thread(target=self._run, daemon=True, name="layoutscope progress")

    def __call__(self, step: Step) -> None:
        """Take the line away as soon as nothing is being done: what follows is printed."""
        if not step.phase and self._bar is not None:
            with self._lock:
                self._clear()

    def begin(self, report: UnderWay | None) -> None:
        """Start to look."""
        self._report = report
        self._thread.start()

    def end(self) -> None:
        """Look no more, and leave nothing behind."""
        self._over.set()
        with self._lock:
            self._clear()

    def _run(self) -> None:
        if self._over.wait(DELAY_S):
            return
        while not self._over.wait(REDRAWN_EVERY_S):
            with self._lock:
                if not self._over.is_set() and self._report is not None:
                    self._draw(self._report.step())

    def _draw(self, step: Step) -> None:
        if not step.phase:
            self._clear()
            return
        if self._bar is None:
            self._bar = _new_bar(self._stream)
            self._bar.start()
        draw(self._bar, step)

    def _clear(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


def _new_bar(stream: IO[str]) -> Bar:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        TaskProgressColumn(show_speed=False),
        TextColumn("{task.fields[counted]}"),
        TimeElapsedColumn(),
    )
    return Progress(*columns, console=Console(file=stream), transient=True, auto_refresh=False)


def draw(bar: Bar, step: Step) -> None:
    """Show a step; another phase has a task of its own, whose total may not be known."""
    for task in bar.tasks:
        if (task.description, task.total) != (step.phase, step.total):
            bar.remove_task(task.id)
    if not bar.tasks:
        bar.add_task(step.phase, total=step.total, counted="")
    bar.update(bar.tasks[0].id, completed=step.done, counted=_counted(step))
    bar.refresh()


def _counted(step: Step) -> str:
    """Show the bytes that were dealt with; steps are in the share."""
    from layoutscope.units import format_bytes

    if step.unit != "bytes" or not step.done:
        return ""
    return format_bytes(step.done) if step.total is None else f"{format_bytes(step.done)} of {format_bytes(step.total)}"

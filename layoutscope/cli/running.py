"""How every command runs and ends: errors as one line, with the exit codes of docs/images.md.

A command whose result shows findings returns the exit code of its result, 0 or 3. One that returns none, and whose
images were not read whole, ends with 3 as well, and says on standard error what is missing (:class:`Damage`).
"""

from __future__ import annotations

import os
import stat
import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Lock, Thread
from typing import IO, TYPE_CHECKING, Final

from layoutscope import inputs
from layoutscope.errors import (
    EXIT_COMPLETE,
    EXIT_DAMAGED,
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EXIT_USAGE,
    LayoutscopeError,
    UsageError,
    reason_of,
)
from layoutscope.memory import is_out_of_memory
from layoutscope.progress import ProgressReport, Step, reporting
from layoutscope.units import format_coverage

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import NoReturn

    from rich.progress import Progress as Bar

    from layoutscope.progress import Progress
    from layoutscope.results import Shown

DELAY_S: Final = 2.0
"""What is done sooner is not worth a line."""

REDRAWN_EVERY_S: Final = 0.2

NO_LINES: Final = ("dumb", "unknown")
"""Terminals that cannot go back to the beginning of a line."""


@contextmanager
def show_progress(*, quiet: bool) -> Iterator[Progress | None]:
    """Show on standard error how far things are; nothing if that is not a terminal, or if progress is off."""
    if quiet or not sys.stderr.isatty() or os.environ.get("TERM", "").lower() in NO_LINES:
        yield None
        return
    watch = Watch(sys.stderr)
    with reporting(watch) as report:
        watch.begin(report)
        try:
            yield watch
        finally:
            watch.end()


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

    def begin(self, report: ProgressReport | None) -> None:
        """Start to look."""
        self._report = report
        self._thread.start()

    def end(self) -> None:
        """Stop drawing, and clear the line."""
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
        TextColumn("{task.fields[left]}"),
    )
    return Progress(*columns, console=Console(file=stream), transient=True, auto_refresh=False)


def draw(bar: Bar, step: Step) -> None:
    """Show a step; another phase has a task of its own, whose total may not be known."""
    from layoutscope.units import format_bytes, format_seconds

    for task in bar.tasks:
        if (task.description, task.total) != (step.phase, step.total):
            bar.remove_task(task.id)
    if not bar.tasks:
        bar.add_task(step.phase, total=step.total, counted="", left="")
    task = bar.tasks[0]
    counted = left = ""  # steps are in the share, and nothing is left when it is nearly over
    if step.unit == "bytes" and step.done:
        counted = format_bytes(step.done) + ("" if step.total is None else f" of {format_bytes(step.total)}")
    bar.update(task.id, completed=step.done, counted=counted)
    seconds = task.time_remaining  # of the phase, at its recent pace
    if seconds is not None and seconds >= DELAY_S:
        left = f"{seconds:.0f} s left" if seconds < SECONDS_SHOWN_TO else f"{format_seconds(seconds)} left"
    bar.update(task.id, left=left)
    bar.refresh()


SECONDS_SHOWN_TO: Final = 120
"""From so many seconds on, minutes are shown."""


_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
"""Parameters of ``mallopt``, as glibc's malloc.h numbers them."""
_ARRAY_BYTES: Final = 32 * 1024**2
_NEVER: Final = 2**31 - 1

STANDARD_OUTPUT: Final = "standard output"
"""What an option shows as its default where a result can go there; ``-`` asks for it."""


class Damage:
    """The parts of the images that a command could not read, one line per image."""

    def __init__(self) -> None:
        self.lines: dict[str, str] = {}

    def note(
        self,
        name: str,
        coverage: float | None,  # share of the known metadata that was read, 0 to 1; None where that is unknown
        errors: int,
    ) -> None:
        """Remember an image that was not read whole."""
        are_errors = "1 finding is an error" if errors == 1 else f"{errors:,} findings are errors"
        told = f"{format_coverage(coverage)} of the known metadata was read, {are_errors}"
        if coverage == 1 and not errors:
            told = "the image ends before its volume does; all metadata known of it was read"
        self.lines.setdefault(name, f"{name}: {told}; layoutscope check lists them")

    def exit_code(self) -> int:
        """Report a finding, for commands whose result shows no findings."""
        for line in self.lines.values():
            warn(line)
        return EXIT_DAMAGED if self.lines else EXIT_COMPLETE


def keep_freed_memory() -> None:
    """Make the C library reuse the memory of freed arrays, where it offers that.

    glibc gives the end of its heap back to the system at every chance, which then clears the pages once more for the
    next array: a third of the system's time in a scan of a million files. Larger arrays are given back as before.
    """
    import ctypes

    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _ARRAY_BYTES)
        mallopt(_M_TRIM_THRESHOLD, _NEVER)


@contextmanager
def list_outputs(lines: list[str]) -> Iterator[None]:
    """List what is written meanwhile, a line each: where, what is in it, how large it is."""
    from layoutscope.api.outputs import on_write
    from layoutscope.units import format_bytes

    def hear(path: Path, size_bytes: int, holds: str) -> None:
        lines.append(f"wrote {path}: {holds + ', ' if holds else ''}{format_bytes(size_bytes)}")

    with on_write(hear):
        yield


def show(result: Shown, *, as_json: bool) -> None:
    """Print a result on standard output, as JSON or as text."""
    if as_json:
        from layoutscope.report.json import result_json

        sys.stdout.write(result_json(result) + "\n")
        return
    from layoutscope.report.text import print_result
    from layoutscope.report.text.console import make_console

    print_result(result, make_console(sys.stdout))


def check_outputs(reads: Sequence[Path | str], *paths: Path | None, force: bool) -> None:
    """Refuse before the work what could not be written after it."""
    from layoutscope.api.outputs import check_output

    for path in filter(None, paths):
        check_output(path, force=force, reads=reads)


@contextmanager
def errors_as_exit_codes() -> Iterator[None]:
    """End the process with one line and an exit code where the work fails; only programming errors pass through."""
    try:
        yield
        if inputs.redirect_streams():
            raise UsageError("standard output or standard error leads to what was read. Send it elsewhere.")
        sys.stdout.flush()
    except LayoutscopeError as error:
        inputs.redirect_streams()
        if is_out_of_memory(error):
            raise  # as one line by :mod:`layoutscope.memory`
        fail(error.typed, EXIT_USAGE if isinstance(error, UsageError) else EXIT_FAILED)
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
    except BrokenPipeError:
        silence()
        sys.exit(EXIT_COMPLETE)
    except OSError as error:
        if is_out_of_memory(error):
            raise
        reason = reason_of(error)
        if error.filename is not None:
            fail(f"{error.filename}: {reason}", EXIT_FAILED)
        silence()
        fail(f"the output cannot be written: {reason}", EXIT_FAILED)
    except MemoryError as error:
        if is_out_of_memory(error):
            raise
        fail("there is not enough memory for this", EXIT_FAILED)


def refuse_disks() -> None:
    """Refuse standard output or standard error that leads to a disk, as ``>> disk.img`` asks for."""
    for stream, name in ((1, "standard output"), (2, "standard error")):
        status = os.fstat(stream)
        if not stat.S_ISBLK(status.st_mode) and not stat.S_ISREG(status.st_mode):
            continue
        from layoutscope.api.outputs import disk_in
        from layoutscope.image.split import find_beginning, whole_folder

        path = inputs.find_stream_path(stream)
        what = "is a disk" if stat.S_ISBLK(status.st_mode) else ""
        if stat.S_ISREG(status.st_mode):
            begins = find_beginning(path)
            if held := disk_in(begins):
                what = f"holds a disk ({held})" if begins == path else f"is a part of {begins}, a disk ({held})"
            for folder in path.parents:
                if kind := whole_folder(folder):
                    what = f"is inside of {folder}, which is {kind}"
        if what:
            with suppress(UsageError):
                inputs.note(path, stream)  # from now on nothing is printed there
            raise UsageError(f"{path}: {what}, and {name} leads there. Send it elsewhere.")


def fail(line: str, code: int) -> NoReturn:
    """Print what is wrong in one line and end."""
    warn(line)
    sys.exit(code)


def warn(line: str) -> None:
    """Print a line on standard error, whatever it quotes from the image."""
    from layoutscope.report import escape_text

    sys.stderr.write(f"layoutscope: {escape_text(line)}\n")


def silence() -> None:
    """Let go of a pipe whose reader has left, so that nothing complains at exit either."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

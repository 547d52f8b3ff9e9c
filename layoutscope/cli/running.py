"""How every command runs and ends: errors as one line, with the exit codes of docs/using.md.

A command whose result shows findings returns the exit code of its result, 0 or 3. One that returns none, and whose
images were not read whole, ends with 3 as well, and says on standard error what is missing (:class:`Damage`).
"""

from __future__ import annotations

import inspect
import os
import stat
import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Lock, Thread
from typing import IO, TYPE_CHECKING, Any, ClassVar, Final, get_origin, get_type_hints

import typer
from typer.models import ArgumentInfo, ParameterInfo

from layoutscope import inputs
from layoutscope.bounded import lacks_memory, terminal
from layoutscope.errors import (
    EXIT_COMPLETE,
    EXIT_DAMAGED,
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EXIT_USAGE,
    LayoutscopeError,
    UsageError,
)
from layoutscope.progress import Step, UnderWay, reporting
from layoutscope.units import format_coverage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.progress import Progress as Bar

    from layoutscope.progress import Progress
    from layoutscope.results import Shown


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


_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
"""Parameters of ``mallopt``, as glibc's malloc.h numbers them."""
_ARRAY_BYTES: Final = 32 * 1024**2
_NEVER: Final = 2**31 - 1

READING: Final = "reading"
"""The argument by which every command takes how images are read."""


STANDARD_OUTPUT: Final = "standard output"
"""What an option shows as its default where a result can go there; ``-`` asks for it."""

DASH: Final = Path("-")


class Group:
    """Options that go together; a command takes them as one argument.

    Each annotated attribute of a subclass is an option, its value the default. These are no dataclasses, which take
    longer to make than a command to start.
    """

    panel = ""
    """The panel of the help in which those options stand that name no other one."""

    def __init__(self, **given: Any) -> None:
        vars(self).update(given)

    @classmethod
    def options(cls) -> list[inspect.Parameter]:
        """List the options as a command's parameters."""
        hints = get_type_hints(cls, include_extras=True)
        kinds = {name: kind for name, kind in hints.items() if get_origin(kind) is not ClassVar}
        for mark in (mark for kind in kinds.values() for mark in getattr(kind, "__metadata__", ())):
            mark.rich_help_panel = mark.rich_help_panel or cls.panel or None
        return [option(name, kind, getattr(cls, name, inspect.Parameter.empty)) for name, kind in kinds.items()]


def option(
    name: str,
    annotation: object,  # its type, with what typer is to know of it
    default: object,  # what holds where it is not given; `empty` where it must be
) -> inspect.Parameter:
    """Make an option."""
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


class Damage:
    """What could not be read of the images of a command, a line an image."""

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
        """Tell of it, where a command's result shows no findings itself."""
        for line in self.lines.values():
            warn(line)
        return EXIT_DAMAGED if self.lines else EXIT_COMPLETE


class Command:
    """A command as typer takes it.

    Typer has no groups of options, so an argument that is a :class:`Group` stands in the signature as the options that
    it is made of, behind the command's own.
    """

    def __init__(
        self,
        function: Callable[..., int | None],  # the command; returns its exit code, or None to leave it to `Damage`
    ) -> None:
        self.__name__, self.__doc__ = function.__name__, function.__doc__
        self._function = function
        own = inspect.signature(function, eval_str=True).parameters
        self._groups = {name: item.annotation for name, item in own.items() if _is_group(item.annotation)}
        self._options = {name: group.options() for name, group in self._groups.items()}
        spread = [option for options in self._options.values() for option in options]
        parameters = [*(item for name, item in own.items() if name not in self._groups), *spread]
        for item in parameters:
            for mark in getattr(item.annotation, "__metadata__", ()):
                if isinstance(mark, ParameterInfo):
                    mark.readable = False  # whoever opens a file says why it cannot, with one exit code
        self._arguments = [item.name for item in parameters if _is_argument(item)]
        self.__signature__ = inspect.Signature(parameters)
        self.__annotations__ = {item.name: item.annotation for item in parameters}

    def __call__(self, **given: Any) -> None:
        """Run the command and leave with its exit code."""
        raise typer.Exit(exit_code(lambda: self._run(given)))

    def _run(self, given: dict[str, Any]) -> int:
        given = {name: self._streamed(name, value) for name, value in given.items()}
        damage, locked = Damage(), list[str]()
        for name, group in self._groups.items():
            given[name] = group(**{item.name: given.pop(item.name) for item in self._options[name]})
        reading = given.get(READING)
        if reading is not None:
            reading.heard_by = {"on_damage": damage.note, "on_locked": locked.append}
        keep_freed_memory()
        said: list[str] = []
        with watched(quiet=reading is None or reading.quiet), heard_of_outputs(said):
            code = self._examine(given, damage) if getattr(reading, "evidence", None) else self._function(**given)
        for line in dict.fromkeys(locked):
            warn(line)
        for line in said if reading is None or not reading.quiet else ():
            warn(line)
        return damage.exit_code() if code is None else code

    def _streamed(self, name: str, value: Any) -> Any:
        """Take ``-`` for standard output where a result can go there, which is what None stands for; else refuse it."""
        item = self.__signature__.parameters[name]
        if _is_argument(item) or DASH not in (value if isinstance(value, list) else [value]):
            return value
        marks = [mark for mark in item.annotation.__metadata__ if isinstance(mark, ParameterInfo)]
        if any(getattr(mark, "show_default", None) == STANDARD_OUTPUT for mark in marks):
            return None
        flags = [flag for mark in marks for flag in mark.param_decls or () if flag.startswith("--")]
        flag = flags[0] if flags else f"--{name.replace('_', '-')}"
        raise UsageError(f"{flag} -: name a file; '-' is standard output, which takes no result of {flag} here")

    def _examine(self, given: dict[str, Any], damage: Damage) -> int | None:
        """Run the command between two hashes of what it examines."""
        from layoutscope.api.evidence import examined

        reading = given[READING]
        named = [given[name] for name in self._arguments]
        named += [vars(reading).get("second"), reading.ddrescue_map]
        images = [path for item in named for path in (item if isinstance(item, list) else [item])]
        with examined([path for path in images if isinstance(path, Path)], reading.evidence, sys.argv[1:]) as work:
            code = self._function(**given)
            work.exit_code = (EXIT_DAMAGED if damage.lines else EXIT_COMPLETE) if code is None else code
        return code


def keep_freed_memory() -> None:
    """Have arrays that are let go make room for the next ones, where the C library can be told so.

    glibc gives the end of its heap back to the system at every chance, which then clears the pages once more for the
    next array: a third of the system's time in a scan of a million files. Larger arrays are given back as before.
    """
    import ctypes

    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _ARRAY_BYTES)
        mallopt(_M_TRIM_THRESHOLD, _NEVER)


@contextmanager
def heard_of_outputs(said: list[str]) -> Iterator[None]:
    """Gather what is written meanwhile, a line each: where, what is in it, how large it is."""
    from layoutscope.api.outputs import written_told_to
    from layoutscope.units import format_bytes

    def hear(path: Path, size_bytes: int, holds: str) -> None:
        said.append(f"wrote {path}: {holds + ', ' if holds else ''}{format_bytes(size_bytes)}")

    with written_told_to(hear):
        yield


def _is_argument(item: inspect.Parameter) -> bool:
    """Whether a parameter is no option, as images are."""
    return any(isinstance(mark, ArgumentInfo) for mark in getattr(item.annotation, "__metadata__", ()))


def _is_group(annotation: object) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, Group)


def show(result: Shown, *, as_json: bool) -> None:
    """Print a result on standard output, as JSON or as text."""
    if as_json:
        from layoutscope.report.json import result_json

        sys.stdout.write(result_json(result) + "\n")
        return
    from layoutscope.report.text import print_result
    from layoutscope.report.text.console import make_console

    print_result(result, make_console(sys.stdout))


def exit_code(command: Callable[[], int]) -> int:
    """Run a command and return its exit code; nothing but programming errors leaves it."""
    try:
        code = command()
        if inputs.leave_inputs():
            raise UsageError("standard output or standard error leads to what was read; send it elsewhere")
        sys.stdout.flush()
    except LayoutscopeError as error:
        inputs.leave_inputs()
        if lacks_memory(error):
            raise  # as one line by :mod:`layoutscope.bounded`
        code = fail(error, EXIT_USAGE if isinstance(error, UsageError) else EXIT_FAILED)
    except KeyboardInterrupt:
        code = EXIT_INTERRUPTED
    except BrokenPipeError:
        code = silence()
    except OSError as error:
        if lacks_memory(error):
            raise
        reason = (error.strerror or str(error)).lower()
        if error.filename is None:
            silence()
            reason = f"the output cannot be written: {reason}"
        else:
            reason = f"{error.filename}: {reason}"
        code = fail(LayoutscopeError(reason), EXIT_FAILED)
    except MemoryError as error:
        if lacks_memory(error):
            raise
        code = fail(LayoutscopeError("there is not enough memory for this"), EXIT_FAILED)
    return code


def refuse_disks() -> int:
    """Refuse standard output or standard error that leads to a disk, as ``>> disk.img`` asks for; returns 0."""
    from layoutscope.api.outputs import disk_in

    for stream, name in ((1, "standard output"), (2, "standard error")):
        status, path = os.fstat(stream), inputs.stream_path(stream)
        held = disk_in(path) if stat.S_ISREG(status.st_mode) else ""
        if held or stat.S_ISBLK(status.st_mode):
            with suppress(UsageError):
                inputs.note(path, stream)  # from now on nothing is printed there
            what = f"holds a disk ({held})" if held else "is a disk"
            raise UsageError(f"{path}: {what}, and {name} leads there; send it elsewhere")
    return EXIT_COMPLETE


def fail(error: LayoutscopeError, code: int) -> int:
    """Print an error in one line, whatever it quotes from the image."""
    warn(error.typed)
    return code


def warn(line: str) -> None:
    """Print a line on standard error, whatever it quotes from the image."""
    from layoutscope.report import escape_text

    sys.stderr.write(f"layoutscope: {escape_text(line)}\n")


def silence() -> int:
    """Let go of a pipe whose reader has left, so that nothing complains at exit either."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return EXIT_COMPLETE

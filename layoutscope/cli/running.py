"""How every command ends: errors as one line, with the exit codes of the README."""

from __future__ import annotations

import functools
import os
import sys
from typing import TYPE_CHECKING, Final

import typer

from layoutscope.errors import LayoutscopeError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
EXIT_DAMAGED: Final = 3
EXIT_INTERRUPTED: Final = 130


def guarded(command: Callable[..., int | None]) -> Callable[..., None]:
    """Wrap a command: its result is the exit code, errors become one line on standard error."""

    @functools.wraps(command)
    def run(*args: object, **options: object) -> None:
        raise typer.Exit(exit_code(lambda: command(*args, **options)))

    run.__annotations__ = {**command.__annotations__, "return": "None"}
    return run


def exit_code(command: Callable[[], int | None]) -> int:
    """Run a command and return its exit code; nothing but programming errors leaves it."""
    try:
        code = command() or 0
        sys.stdout.flush()
    except LayoutscopeError as error:
        code = fail(error, EXIT_USAGE if isinstance(error, UsageError) else EXIT_FAILED)
    except KeyboardInterrupt:
        code = EXIT_INTERRUPTED
    except BrokenPipeError:
        code = silence()
    except OSError as error:
        silence()
        code = fail(LayoutscopeError(f"the output cannot be written: {error.strerror or error}"), EXIT_FAILED)
    except MemoryError:
        code = fail(LayoutscopeError("there is not enough memory for this"), EXIT_FAILED)
    return code


def fail(error: LayoutscopeError, code: int) -> int:
    """Print an error in one line, whatever it quotes from the image."""
    warn(str(error))
    return code


def warn(line: str) -> None:
    """Print a line on standard error, whatever it quotes from the image."""
    from layoutscope.report.escape import escape_text

    sys.stderr.write(f"layoutscope: {escape_text(line)}\n")


def silence() -> int:
    """Let go of a pipe whose reader has left, so that nothing complains at exit either."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0

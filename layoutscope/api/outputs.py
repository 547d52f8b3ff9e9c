"""Writing results: into a temporary file beside the target, moved when complete; nothing is overwritten unasked."""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from layoutscope import inputs
from layoutscope.errors import LayoutscopeError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class OutputError(LayoutscopeError):
    """A result cannot be written where it was wanted."""


def check_output(path: Path, *, force: bool, reads: Iterable[str | os.PathLike[str]] = ()) -> None:
    """Refuse before the work what would fail after it, and what would destroy what the work reads.

    Parameters
    ----------
    path : Path
        Where a result is to go.
    force : bool
        Whether an existing file is overwritten; never one that is read, and never a device or a pipe.
    reads : iterable of path
        What will be read; what has been read already is known.

    Raises
    ------
    UsageError
        If it is an input, a directory or no regular file, if the file exists and `force` is not given, or its folder
        does not exist.
    """
    refuse_input(path, reads)
    if path.is_dir():
        raise UsageError(f"{path}: is a directory")
    if path.exists() and not path.is_file():
        raise UsageError(f"{path}: is no regular file; results are written to files or to standard output")
    if path.exists() and not force:
        raise UsageError(f"{path}: exists; --force overwrites it")
    if not path.absolute().parent.is_dir():
        raise UsageError(f"{path}: its folder does not exist")


def refuse_input(path: Path, reads: Iterable[str | os.PathLike[str]] = ()) -> None:
    """Refuse to write over what was read, or is named as what will be.

    Raises
    ------
    UsageError
        If the path leads to an input, under whatever name.
    """
    for each in reads:
        inputs.note(each)
    if inputs.is_input(path):
        raise UsageError(f"{path}: is read as input, and nothing is written over that, with --force neither")


@contextmanager
def output(path: str | os.PathLike[str], *, force: bool = False) -> Iterator[IO[bytes]]:
    """Open a file for writing that appears only when it is complete.

    Raises
    ------
    UsageError
        As :func:`check_output`.
    OutputError
        If it cannot be written.
    """
    target = Path(path)
    check_output(target, force=force)
    try:
        descriptor, part = tempfile.mkstemp(
            prefix=f".{target.name[:64]}.", suffix=".part", dir=target.absolute().parent
        )
    except OSError as error:
        raise OutputError(f"{target}: {(error.strerror or str(error)).lower()}") from error
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
        Path(part).chmod(0o666 & ~umask())
        Path(part).replace(target)
    except OSError as error:
        raise OutputError(f"{target}: {(error.strerror or str(error)).lower()}") from error
    finally:
        Path(part).unlink(missing_ok=True)


def umask() -> int:
    """Read the process's file mode mask, which can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask

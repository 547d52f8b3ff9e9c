"""Writing results: into a temporary file beside the target, moved when complete; nothing is overwritten unasked.

:mod:`layoutscope.ownfiles` decides what may be replaced.

Anyone who wants to know what was written, listens (:func:`on_write`).
"""

from __future__ import annotations

import os
import re
import stat
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from layoutscope import inputs, ownfiles
from layoutscope.api.keywords import check_choice
from layoutscope.errors import LayoutscopeError, OutputError, UsageError, reason_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    Listener = Callable[[Path, int, str], None]

ENDINGS: Final = {
    **{
        name: name
        for name in ("csv", "parquet", "jsonl", "json", "html", "png", "svg", "toml", "fio", "blkparse", "md")
    },
    "htm": "html",
    "iolog": "fio",
    "ndjson": "jsonl",
    "pq": "parquet",
}
"""Which form a file is in, by how its name ends; others say nothing."""

BATCH_PARTS: Final = re.compile(
    r"batch\.(json|lock|work)|(batch|volumes|metrics|predictions|findings)\.parquet|captures|rows"
)
"""What in the folder of a batch is of the batch alone."""

_BATCH_SIGN: Final = b'"layoutscope.batch/'

FORCE: Final = {"force=True": "--force"}
"""What the command line has for the keyword by which something is overwritten."""

_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def on_write(listener: Listener) -> Iterator[None]:
    """Report everything that is written meanwhile: path, number of bytes, and content, such as the number of rows.

    Earlier listeners are called, too.
    """
    outer = _listener.get()

    def tell_all(path: Path, size_bytes: int, holds: str) -> None:
        listener(path, size_bytes, holds)
        if outer is not None:
            outer(path, size_bytes, holds)

    before = _listener.set(tell_all)
    try:
        yield
    finally:
        _listener.reset(before)


@contextmanager
def without_write_events() -> Iterator[None]:
    """Report nothing about temporary files that are written meanwhile."""
    before = _listener.set(None)
    try:
        yield
    finally:
        _listener.reset(before)


def report_written(path: str | os.PathLike[str], size_bytes: int, holds: str = "") -> None:
    """Say that something was written."""
    listener = _listener.get()
    if listener is not None:
        listener(Path(path), size_bytes, holds)


def file_form(target: object, asked: str | None, forms: Collection[str], usual: str) -> str:
    """Return the format of a result: the requested one, else that of the file's name."""
    if asked is not None:
        check_choice("format", asked, forms)
    ending = Path(target).suffix.lower().removeprefix(".") if isinstance(target, str | os.PathLike) else ""
    form = ENDINGS.get(ending)
    if form in (None, asked):
        return asked or usual
    if asked is None and form in forms:
        return str(form)
    wanted = f"{asked} was asked for" if asked else f"it can be {' or '.join(forms)}"
    raise UsageError(f"{target}: ends in .{ending}, but {wanted}. Name it .{asked or usual}")


def check_output(
    path: Path,
    *,
    force: bool | None,  # None where nothing could ask for it
    reads: Iterable[str | os.PathLike[str]] = (),
    of_batch: bool = False,
) -> ownfiles.Snapshot:
    """Refuse before the work what would fail after it, and what would destroy what the work reads."""
    if is_null_device(path):
        return {}
    refuse_place(path, reads, of_batch=of_batch)
    seen = ownfiles.take_snapshot(path) if not path.is_dir() else {}
    if path.is_dir():
        raise UsageError(f"{path}: is a directory")
    if seen and not path.is_file():
        raise UsageError(f"{path}: is not a regular file; results are written to files or to standard output")
    if seen and force is None:
        raise UsageError(f"{path}: exists, and is not replaced. {ownfiles.REMEDY}")
    if seen and not force:
        raise UsageError(f"{path}: exists; force=True overwrites it", options=FORCE)
    held = disk_in(path) if seen else ""
    if held:
        why = f"holds a disk ({held}), which force=True does not overwrite"
        raise UsageError(f"{path}: {why}. Remove it first.", options=FORCE)
    ownfiles.refuse_strangers(path, seen)
    if not path.absolute().parent.is_dir():
        raise UsageError(f"{path}: its folder does not exist")
    return seen


def refuse_place(path: Path, reads: Iterable[str | os.PathLike[str]] = (), *, of_batch: bool = False) -> None:
    """Refuse a place where no file or folder of ours may be, whatever is there."""
    # Brings containers along, which those who write no file need not wait for.
    from layoutscope.image.split import refuse_part

    for each in reads:
        inputs.note(each)
    if inputs.is_input(path):
        why = "is read as input, and nothing is written over that, with force=True neither"
        raise UsageError(f"{path}: {why}", options=FORCE)
    ownfiles.refuse_special(path)
    refuse_part(path)
    if of_batch:
        return
    # The files of a batch carry the mark, but another result in place of one would end the batch.
    real = Path(os.path.realpath(path))
    for folder in real.parents:
        if BATCH_PARTS.fullmatch(real.relative_to(folder).parts[0]):
            with suppress(OSError), inputs.open_file(folder / "batch.json") as file:
                if _BATCH_SIGN in file.read(64):
                    raise UsageError(f"{path}: would be a part of the batch in {folder}. Name a file elsewhere.")


def is_null_device(path: Path) -> bool:
    """Whether a path names the device that takes everything; it is written to, and never replaced."""
    if os.path.normpath(path) != os.path.normpath(os.devnull):
        return False
    try:
        # In a container that was set up badly, it is a file.
        return os.name == "nt" or stat.S_ISCHR(os.lstat(os.devnull).st_mode)
    except OSError:
        return False


def disk_in(path: Path) -> str:
    """Return what kind of disk a file holds, wrapped or not; empty where it holds none.

    Anyone who names the wrong image as a result loses what may exist once: of what is written here, extracts alone are
    images, and those are removed by hand.
    """
    from layoutscope.image.cache import compression_of
    from layoutscope.image.containers.udif import udif_trailer_at
    from layoutscope.image.raw import RawFile
    from layoutscope.image.signatures import signature_of
    from layoutscope.image.source import peek, trailer_of
    from layoutscope.partition import find_volumes

    try:
        # It is about to be written, if it may be: opened as images are, it would be an input from now on.
        source = RawFile(path, inputs.open_untouched(path))
    except (OSError, LayoutscopeError):
        return ""
    with source:
        head = peek(source)
        found = signature_of(head, trailer_of(source))
        if found is not None:
            return found.name
        if way := compression_of(head):
            return way
        if udif_trailer_at(source) is not None:
            return "Apple disk image"
        search = find_volumes(source, depth="maps")
        known = [item.label for item in search.candidates if item.kind != "unknown"]
        return (known or [f"{scheme} partition map" for scheme in search.schemes] or [""])[0]


@contextmanager
def open_output(
    path: str | os.PathLike[str] | IO[bytes], *, force: bool | None = False, holds: str = "", of_batch: bool = False
) -> Iterator[IO[bytes]]:
    """Open a file for writing that appears only when it is complete."""
    if not isinstance(path, str | os.PathLike):
        if inputs.is_open_input(path):
            raise UsageError(f"{getattr(path, 'name', 'the file')}: is read as input, so nothing is written into it")
        yield path
        return
    target = Path(path)
    seen = check_output(target, force=force, of_batch=of_batch)
    if is_null_device(target):
        with target.open("wb") as file:
            yield file
        return
    try:
        with ownfiles.new_file(target, seen) as file:
            yield file
        report_written(target, target.stat().st_size, holds)
    except OSError as error:
        raise OutputError(f"{target}: {reason_of(error)}") from error


def write_page(path: str | os.PathLike[str], page: Callable[[], str], *, force: bool) -> None:
    """Write one page that needs no network; an unusable target is reported before the page is made."""
    file_form(path, "html", ("html",), "html")
    with open_output(path, force=force) as file:
        file.write(page().encode("utf-8", "replace"))

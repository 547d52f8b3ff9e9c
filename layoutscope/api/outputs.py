"""Writing results: into a temporary file beside the target, moved when complete; nothing is overwritten unasked.

What may be replaced, and how, is the matter of :mod:`layoutscope.ownfiles`.

Whoever wants to know what was written, listens (:func:`written_told_to`).
"""

from __future__ import annotations

import os
import re
import stat
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import fields, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from layoutscope import inputs, ownfiles
from layoutscope.api.naming import Opened
from layoutscope.errors import ImageError, LayoutscopeError, OutputError, UsageError, did_you_mean
from layoutscope.filesystems.registry import filesystem_names, read_options
from layoutscope.findings import Finding
from layoutscope.results.locked import is_locked
from layoutscope.results.scan import ImageFacts, PartitionFacts
from layoutscope.tables.capture import check_values, read_capture

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from layoutscope.options import ReadRequest

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
def written_told_to(listener: Listener) -> Iterator[None]:
    """Tell of everything that is written meanwhile: where, how many bytes, and what they hold, such as its rows.

    Whoever listened before is told, too.
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
def written_unheard() -> Iterator[None]:
    """Tell nobody of what is written meanwhile, which is of no use to them: it does not outlive its use."""
    before = _listener.set(None)
    try:
        yield
    finally:
        _listener.reset(before)


def tell_written(path: str | os.PathLike[str], size_bytes: int, holds: str = "") -> None:
    """Say that something was written."""
    listener = _listener.get()
    if listener is not None:
        listener(Path(path), size_bytes, holds)


def file_form(target: object, asked: str | None, forms: Collection[str], usual: str) -> str:
    """Tell the form in which a result is written: the one that was asked for, else what the file's name ends in."""
    if asked is not None and asked not in forms:
        raise UsageError(f"no format {asked!r}{did_you_mean(asked, forms)}; there are {', '.join(forms)}")
    ending = Path(target).suffix.lower().removeprefix(".") if isinstance(target, str | os.PathLike) else ""
    form = ENDINGS.get(ending)
    if form in (None, asked):
        return asked or usual
    if asked is None and form in forms:
        return str(form)
    wanted = f"{asked} was asked for" if asked else f"it can be {' or '.join(forms)}"
    raise UsageError(f"{target}: ends in .{ending}, but {wanted}; name it .{asked or usual}")


def check_output(
    path: Path, *, force: bool, reads: Iterable[str | os.PathLike[str]] = (), of_batch: bool = False
) -> ownfiles.Seen:
    """Refuse before the work what would fail after it, and what would destroy what the work reads."""
    if is_null_device(path):
        return {}
    refuse_place(path, reads, of_batch=of_batch)
    seen = ownfiles.look(path) if not path.is_dir() else {}
    if path.is_dir():
        raise UsageError(f"{path}: is a directory")
    if seen and not path.is_file():
        raise UsageError(f"{path}: is no regular file; results are written to files or to standard output")
    if seen and not force:
        raise UsageError(f"{path}: exists; force=True overwrites it", options=FORCE)
    held = disk_in(path) if seen else ""
    if held:
        why = f"holds a disk ({held}), which force=True does not overwrite"
        raise UsageError(f"{path}: {why}; remove it first", options=FORCE)
    ownfiles.refuse_strangers(path, seen)
    if not path.absolute().parent.is_dir():
        raise UsageError(f"{path}: its folder does not exist")
    return seen


def refuse_place(path: Path, reads: Iterable[str | os.PathLike[str]] = (), *, of_batch: bool = False) -> None:
    """Refuse a place where no file or folder of ours may be, whatever is there."""
    # Brings containers along, which those who write no file need not wait for.
    from layoutscope.image.split import refuse_part

    refuse_input(path, reads)
    ownfiles.refuse_special(path)
    refuse_part(path)
    if not of_batch:
        _refuse_batch_part(path)


def _refuse_batch_part(path: Path) -> None:
    """Refuse what belongs to a batch: its files carry the mark, but another result in place of one would end it."""
    real = Path(os.path.realpath(path))
    for folder in real.parents:
        if BATCH_PARTS.fullmatch(real.relative_to(folder).parts[0]) and _is_batch(folder):
            raise UsageError(f"{path}: would be a part of the batch in {folder}. Name a file elsewhere.")


def _is_batch(folder: Path) -> bool:
    with suppress(OSError), inputs.open_file(folder / "batch.json") as file:
        return _BATCH_SIGN in file.read(64)
    return False


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
    """Tell what kind of disk a file holds, wrapped or not; empty where it holds none.

    Whoever names the wrong image as a result loses what may exist once: of what is written here, extracts alone are
    images, and those are removed by hand.
    """
    from layoutscope.image.cache import compression_of
    from layoutscope.image.raw import RawFile
    from layoutscope.image.signatures import has_udif_trailer, head_of, header_of, is_asif, signature_of, trailer_of
    from layoutscope.partition import find_volumes

    try:
        # It is about to be written, if it may be: opened as images are, it would be an input from now on.
        source = RawFile(path, inputs.open_untouched(path))
    except (OSError, LayoutscopeError):
        return ""
    with source:
        head = head_of(source)
        found = signature_of(head, trailer_of(source)) or compression_of(head)
        if found is not None:
            return found.name
        if has_udif_trailer(source) or is_asif(source) or header_of(head) is not None:
            return "Apple disk image"
        search = find_volumes(source, depth="maps")
        known = [item.label for item in search.candidates if item.kind != "unknown"]
        return (known or [f"{scheme} partition map" for scheme in search.schemes] or [""])[0]


def refuse_input(path: Path, reads: Iterable[str | os.PathLike[str]] = ()) -> None:
    """Refuse to write over what was read, or is named as what will be."""
    for each in reads:
        inputs.note(each)
    if inputs.is_input(path):
        why = "is read as input, and nothing is written over that, with force=True neither"
        raise UsageError(f"{path}: {why}", options=FORCE)


@contextmanager
def output(
    path: str | os.PathLike[str] | IO[bytes], *, force: bool = False, holds: str = "", of_batch: bool = False
) -> Iterator[IO[bytes]]:
    """Open a file for writing that appears only when it is complete."""
    if not isinstance(path, str | os.PathLike):
        if inputs.is_open_input(path):
            raise UsageError(f"{getattr(path, 'name', 'the file')}: is read as input, and nothing is written into that")
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
        tell_written(target, target.stat().st_size, holds)
    except OSError as error:
        raise OutputError(f"{target}: {(error.strerror or str(error)).lower()}") from error


def write_page(path: str | os.PathLike[str], page: Callable[[], str], *, force: bool) -> None:
    """Write one page that needs no network; where it cannot go is told before it is made."""
    file_form(path, "html", ("html",), "html")
    with output(path, force=force) as file:
        file.write(page().encode("utf-8", "replace"))


IMAGE_ONLY: Final = ("partition", "volume_at", "ddrescue_map")
"""Options that choose among what only an image holds, besides those that single file systems have."""


def load_capture(path: Path, request: ReadRequest) -> Opened:
    """Open a capture."""
    layouts, manifest = read_capture(path)
    # What opens volumes may be told for many images at once; of a capture where all is open it has nothing to open.
    own, is_open = own_options(request), not any(map(is_locked, layouts))
    own = [name for name in own if not (is_open and read_options()[name][0].kind == "secret")]
    asked = [name for name in IMAGE_ONLY if getattr(request, name) is not None] + own
    if asked:
        raise UsageError(f"{path}: is a capture; {asked[0].replace('_', '-')} needs the image itself")
    unknown = [layout.facts.filesystem for layout in layouts if layout.facts.filesystem not in filesystem_names()]
    if unknown:
        raise ImageError(f"{path}: is a capture of the file system {unknown[0]!r:.40}, which is not known here")
    try:
        about = _saved_facts(manifest["image"])
        findings = tuple(map(_saved_finding, manifest["findings"]))
        return Opened(replace(about, name=about.name or str(path)), layouts, findings, capture=str(path))
    except ValueError as error:
        raise ImageError(f"{path}: is a damaged capture: {error}") from error


def _saved_facts(saved: dict[str, Any]) -> ImageFacts:
    kinds: dict[str, type | tuple[type, ...]] = {
        **{item.name: int for item in fields(ImageFacts)},
        **dict.fromkeys(("name", "metadata_sha256"), str),
        **dict.fromkeys(("partition_maps", "other_contents", "partitions"), list),
    }
    # Captures of earlier versions have no list of partitions.
    saved = {"partitions": [], **saved}
    check_values("image", saved, kinds)
    words = {name: tuple(map(str, saved[name])) for name in ("partition_maps", "other_contents")}
    return ImageFacts(**{**saved, **words, "partitions": tuple(map(_saved_partition, saved["partitions"]))})


def _saved_partition(saved: dict[str, Any]) -> PartitionFacts:
    kinds: dict[str, type | tuple[type, ...]] = {
        **dict.fromkeys(("scheme", "type_name", "name", "content"), str),
        **dict.fromkeys(("number", "image_offset", "size_bytes"), int),
        "content_size_bytes": (int, type(None)),
        "roles": list,
        "is_encrypted": (bool, type(None)),
    }
    check_values("partition", saved, kinds)
    return PartitionFacts(**{**saved, "roles": tuple(map(str, saved["roles"]))})


def _saved_finding(saved: dict[str, Any]) -> Finding:
    kinds: dict[str, type | tuple[type, ...]] = {item.name: str for item in fields(Finding) if item.name != "causes"}
    # Causes are found by a check, which a capture is not enough for.
    kinds |= {"image_offset": (int, type(None)), "device": int, "cause": type(None)}
    check_values("finding", saved, kinds)
    if saved["level"] not in ("info", "warning", "error"):
        raise ValueError("a finding has an unknown level")
    return Finding(**{name: value for name, value in saved.items() if name != "cause"})


def own_options(request: ReadRequest) -> list[str]:
    """Name the options of single file systems that ask for something else than they do by default."""
    known = read_options()
    return [name for name, value in request.own.items() if value != known[name][0].default]

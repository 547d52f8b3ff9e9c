"""``batch``: many sources, each read in a process of its own, into captures and tables in one folder.

A job is the work on one source as plain data: what is read, how, within which limits, and by what it is known to be
unchanged.
"""

from __future__ import annotations

import glob
import os
import stat
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from layoutscope import inputs
from layoutscope.api.keywords import profiles_of, several, takes
from layoutscope.errors import ImageError, UsageError, did_you_mean, reason_of
from layoutscope.fleet.engines import (
    HERE,
    need_unix,
    read_by_scheduler,
    read_here,
    require_dask,
    usual_memory_bytes,
    usual_workers,
)
from layoutscope.fleet.jobs import FleetJob, FleetLimits, FleetSource
from layoutscope.fleet.store import FleetFolder, need_polars, plain_text
from layoutscope.image.containers.sparse import is_bundle
from layoutscope.image.split import find_parts
from layoutscope.inputs import is_address, whole_address
from layoutscope.options import BatchOptions, EnumerationOptions, FleetOptions, fill, leave_out
from layoutscope.progress import phase
from layoutscope.results.fleet import FleetResult, SourceEnd
from layoutscope.tables.capture import is_capture

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Unpack


LIST_SIGN: Final = "@"
"""What stands before the name of a list of sources."""

UNREAD_KINDS: Final = (
    (stat.S_ISFIFO, "is a pipe, which is not read: it may never end"),
    (stat.S_ISSOCK, "is a socket, which is not read"),
    (stat.S_ISCHR, "is a character device, which is not read"),
)


def find_sources(asked: Iterable[str | os.PathLike[str]], output: Path) -> list[FleetSource]:
    """List what is to be read, each once, in the order in which it is found."""
    own_folder, seen = Path(os.path.realpath(output)), set[tuple[int, int]]()
    found: dict[str, FleetSource] = {}
    for path, is_named in _expand_lists(asked):
        if "\0" in path:
            raise UsageError(f"{path}: has a zero byte. A list has one path per line.")
        # Its captures would be read as further disks, and its tables would be about nothing else.
        if is_named and _is_within(path, own_folder):
            why = f"{path}: is in the folder of this batch ({output}), which is not a source"
            raise UsageError(f"{why}. Name the disks, or another folder for a batch of these captures.")
        for source in _sources_below(path, own_folder, seen):
            found.setdefault(source.identifier, source)
    if not found:
        raise UsageError("no source: nothing was named, or the names match no file")
    return list(found.values())


def _expand_lists(asked: Iterable[str | os.PathLike[str]]) -> list[tuple[str, bool]]:
    """Put the lines of lists and the matches of patterns in their places; true for what is named, not matched."""
    names: list[tuple[str, bool]] = []
    for each in (os.fspath(item) for item in asked):
        if each.startswith(LIST_SIGN) and not os.path.lexists(each):
            names += [(line, True) for line in _lines(Path(each.removeprefix(LIST_SIGN)))]
        elif is_address(each):
            names.append((whole_address(each), True))
        elif glob.has_magic(each) and not os.path.lexists(each):
            matches = sorted(glob.glob(each, recursive=True)) or [each]  # noqa: PTH207  (names may be no UTF-8)
            names += [(match, False) for match in matches]
        else:
            names.append((each, True))
    return names


def _lines(path: Path) -> list[str]:
    try:
        text = inputs.read_text(path, errors="surrogateescape")
    except OSError as error:
        raise UsageError(f"{path}: cannot be read as a list of sources: {reason_of(error)}") from error
    return [line for line in text.split("\n") if line]


def _is_within(path: str, folder: Path) -> bool:
    """Whether a path leads to a folder or into it."""
    return not is_address(path) and Path(os.path.realpath(path)).is_relative_to(folder)


def _sources_below(path: str, output: Path, seen: set[tuple[int, int]]) -> list[FleetSource]:
    """List the sources that a path leads to: itself, or what a folder holds, each folder once; not that of the batch.

    `output` has no links in it, and `seen` gathers the folders: links may lead to one from many places.
    """
    if is_address(path):
        return [FleetSource(path)]
    if _is_within(path, output):
        return []
    try:
        status = os.stat(path)  # noqa: PTH116  (names may be no UTF-8)
    except (OSError, ValueError) as error:
        return [FleetSource(path, failed=reason_of(error))]
    for is_kind, reason in UNREAD_KINDS:
        if is_kind(status.st_mode):
            return [FleetSource(path, refused=reason)]
    place, identity = Path(path), (status.st_dev, status.st_ino)
    if not stat.S_ISDIR(status.st_mode) or is_bundle(place) or is_capture(place):
        return [FleetSource(path)]
    if identity in seen:
        return []
    seen.add(identity)
    try:
        names = sorted(inputs.list_folder(path))
    except OSError as error:
        return [FleetSource(path, failed=reason_of(error))]
    inside = [os.path.join(path, name) for name in names]  # noqa: PTH118
    parts = {str(part) for name in inside for part in _later_parts(Path(name))}
    return [source for name in inside if name not in parts for source in _sources_below(name, output, seen)]


def _later_parts(path: Path) -> Iterator[Path]:
    """Yield the parts of a split image that are read with its first one."""
    try:
        yield from find_parts(path)[1:] if path.is_file() else ()
    except (ImageError, OSError):
        # A part is missing: the row of the first one says which, and the others have theirs.
        return


HEARD: Final = ("progress", "on_damage", "on_locked")
"""Options by which a caller listens, which no other process can call."""

OF_ONE_IMAGE: Final = ("ddrescue_map", "second")
"""Options that make sense for one image alone."""


@takes(BatchOptions)
def batch(
    sources: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    output: str | os.PathLike[str],
    *,
    on_source: Callable[[SourceEnd, int, int], None] | None = None,
    **options: Unpack[BatchOptions],
) -> FleetResult:
    """Read many images into one folder: captures, and tables with a row for every source.

    Parameters
    ----------
    sources : path or sequence of path
        Images, captures, folders, patterns such as ``*.dmg``, and ``@FILE`` for a list with one path per line.
    output : path
        The folder.
    on_source : callable, optional
        Called with the :class:`~layoutscope.results.fleet.SourceEnd` of each source that was read, how many are done,
        and how many there are to do.
    **options
        See :class:`~layoutscope.options.BatchOptions`.

    Returns
    -------
    FleetResult

    Raises
    ------
    TypeError
        If there is no such keyword.
    UsageError
        If the folder holds something else, or another batch works there.
    LayoutscopeError
        If the tables cannot be written.

    Examples
    --------
    >>> import layoutscope
    >>> result = layoutscope.batch("fixtures/images/*.zst", "fleet", drives="generic-7200")
    >>> result.counts["complete"], result.exit_code
    (2, 0)
    >>> result.table("volumes")["name"].unique().sort().to_list()
    ['', 'Scattered']
    """
    began = monotonic()
    need_polars()
    need_unix()
    own = fill(FleetOptions, options)
    work = _check_options(leave_out(options, own), own)
    folder = FleetFolder(Path(output))
    folder.begin(resume=own["resume"])
    with folder.locked():
        found = find_sources(several(sources), folder.path)
        for source in found:
            inputs.note(source.path)  # other processes read it: what is printed here must not go there
        limits, read = _choose_engine(own)
        folder.prepare({"sources": len(found)})
        jobs = [FleetJob(source, str(folder.path.absolute()), limits, work) for source in found]
        documents = _find_unchanged_rows(folder, jobs)
        left = [job for job in jobs if job.source.identifier not in documents]
        kept = len(documents)
        documents |= _read_sources(folder, read(left), len(left), on_source)
        folder.clear_work()
        folder.write_tables((source.identifier for source in found), documents)
        ends = tuple(_end(documents[source.identifier]) for source in found)
        result = FleetResult(os.fspath(folder.path), ends, kept, monotonic() - began)
        folder.tell({"sources": len(found), "counts": result.counts, "is_complete": True})
    return result


def _check_options(given: dict[str, Any], own: FleetOptions) -> dict[str, Any]:
    """Refuse slips of the pen once, in place of in every row; returns what each process is asked."""
    from layoutscope.walk.orders import ORDERS

    for name in OF_ONE_IMAGE:
        if given.get(name) is not None:
            raise UsageError(f"{name} applies to one image, not to a batch")
    profiles_of(given.get("drives") or ())
    orders = list(own["orders"] or ("fts",))
    for order in orders:
        if order not in ORDERS:
            raise UsageError(f"unknown order {order!r}{did_you_mean(order, ORDERS)}. Choose from: {', '.join(ORDERS)}")
        if ORDERS[order].needs:
            raise UsageError(f"the order {order} needs a pattern for one volume, so a batch cannot use it")
    # Options that equal the defaults are left out, so equal requests have equal keys.
    usual = fill(EnumerationOptions, {})
    passed = {name: value for name, value in given.items() if name not in (*OF_ONE_IMAGE, *HEARD)}
    plain = {name: value for name, value in passed.items() if value is not None and value != usual.get(name)}
    if plain.get("drives") is not None:
        plain["drives"] = [os.fspath(name) for name in several(plain["drives"])]
    if plain.get("cache_dir") is not None:
        plain["cache_dir"] = os.path.abspath(plain["cache_dir"])  # noqa: PTH100
    return {**plain, "orders": orders, "hash_names": own["hash_names"]}


def _choose_engine(own: FleetOptions) -> tuple[FleetLimits, Callable[[Sequence[FleetJob]], Iterator[dict[str, Any]]]]:
    """Return what each process may take, and what has the sources read."""
    workers = usual_workers() if own["workers"] is None else own["workers"]
    memory = usual_memory_bytes(max(1, workers)) if own["memory_bytes"] is None else own["memory_bytes"]
    seconds = own["timeout_ms"] / 1000
    written = own["written_bytes"]
    if min(workers, memory, seconds, 1 if written is None else written) <= 0:
        raise UsageError("jobs, memory, timeout and written of a batch must be more than 0")
    scheduler, has_dashboard = own["scheduler"], own["dashboard"]
    if scheduler is None and not has_dashboard:
        return FleetLimits(memory, seconds, written), partial(read_here, workers=workers)
    if scheduler not in (None, HERE):
        if has_dashboard or own["workers"] is not None:
            raise UsageError("an existing scheduler has its own workers and its own page")
        if own["memory_bytes"] is None:
            memory = 0  # other machines have memory of their own
    require_dask(has_dashboard=has_dashboard)
    read = partial(read_by_scheduler, address=scheduler or HERE, workers=workers, has_dashboard=has_dashboard)
    return FleetLimits(memory, seconds, written), read


def _find_unchanged_rows(folder: FleetFolder, jobs: Sequence[FleetJob]) -> dict[str, dict[str, Any]]:
    """Find the rows of sources that need not be read again; what failed is tried again, its cause may have passed."""
    known = {job.source.identifier: (job, folder.row(job.source.identifier)) for job in jobs}
    return {
        name: row
        for name, (job, row) in known.items()
        if row is not None and row.get("status") != "failed" and row.get("key") == job.key()
    }


def _read_sources(
    folder: FleetFolder,
    running: Iterator[dict[str, Any]],
    total: int,
    on_source: Callable[[SourceEnd, int, int], None] | None,
) -> dict[str, dict[str, Any]]:
    """Have sources read; their documents, without the rows of tables, which are in the folder."""
    found: dict[str, dict[str, Any]] = {}
    with phase("reading sources", total=total, unit="steps") as under_way:
        try:
            for number, document in enumerate(running, 1):
                found[document["source"]] = {
                    name: item for name, item in document.items() if not isinstance(item, list)
                }
                under_way.at(number)
                if on_source is not None:
                    on_source(_end(document), number, total)
                folder.check_room(document)
        finally:
            running.close()  # type: ignore[attr-defined]  # ends what is still running
    return found


def _end(document: Mapping[str, Any]) -> SourceEnd:
    return SourceEnd(
        source=document["source"],
        path=plain_text(document["path"]),
        status=document["status"],
        message=plain_text(document["message"]),
        seconds=document.get("seconds", 0.0),
        has_capture=bool(document.get("capture")),
    )

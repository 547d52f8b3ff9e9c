"""``batch``: reads each source in its own process, into captures and tables in one folder.

A job is the work on one source as plain data: its path, its options and limits, and the key that shows whether the
source has changed.
"""

from __future__ import annotations

import glob
import os
import stat
from contextlib import suppress
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from layoutscope import inputs
from layoutscope.api.keywords import check_choice, profiles_of, several, takes
from layoutscope.errors import ImageError, UsageError, reason_of
from layoutscope.fleet.engines import (
    LOCAL_CLUSTER,
    FleetJob,
    read_by_scheduler,
    read_here,
    require_dask,
    require_unix,
)
from layoutscope.fleet.limits import default_memory_bytes, default_workers
from layoutscope.fleet.store import FleetFolder, plain_text, require_polars
from layoutscope.image.containers.sparse import is_bundle
from layoutscope.image.split import find_parts
from layoutscope.inputs import is_address, restore_address
from layoutscope.options import LISTENER_OPTIONS, BatchOptions, EnumerationOptions, FleetOptions, fill, leave_out
from layoutscope.progress import phase
from layoutscope.results.fleet import FleetResult, SourceEnd
from layoutscope.tables.capture import is_capture

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Unpack


LIST_PREFIX: Final = "@"
"""Prefix of the name of a list of sources."""

UNREAD_KINDS: Final = (
    (stat.S_ISFIFO, "is a pipe, which is not read: it may never end"),
    (stat.S_ISSOCK, "is a socket, which is not read"),
    (stat.S_ISCHR, "is a character device, which is not read"),
)


Found: TypeAlias = tuple[str, tuple[str, str] | None]
"""The path of a source, and how it ended if it is not to be read: `FleetJob.ended`."""


def find_sources(paths: Iterable[str | os.PathLike[str]], output: Path) -> list[Found]:
    """List the sources to read in the order in which they are found; several paths may lead to one."""
    own_folder, known_folders = Path(os.path.realpath(output)), set[tuple[int, int]]()
    found: list[Found] = []
    for path, is_named in _expand_lists(paths):
        if "\0" in path:
            raise UsageError(f"{path}: has a zero byte. A list has one path per line.")
        # Its captures would be read as further disks, and its tables would be about nothing else.
        if is_named and _is_within(path, own_folder):
            why = f"{path}: is in the folder of this batch ({output}), which is not a source"
            raise UsageError(f"{why}. Name the disks, or another folder for a batch of these captures.")
        found += _list_sources(path, own_folder, known_folders)
    if not found:
        raise UsageError("no source: nothing was named, or the names match no file")
    return found


def _expand_lists(paths: Iterable[str | os.PathLike[str]]) -> list[tuple[str, bool]]:
    """Expand lists and patterns into paths; the flag is false for the match of a pattern."""
    names: list[tuple[str, bool]] = []
    for path in (os.fspath(item) for item in paths):
        if path.startswith(LIST_PREFIX) and not os.path.lexists(path):
            place = Path(path.removeprefix(LIST_PREFIX))
            try:
                text = inputs.read_text(place, errors="surrogateescape")
            except OSError as error:
                raise UsageError(f"{place}: cannot be read as a list of sources: {reason_of(error)}") from error
            names += [(line, True) for line in text.split("\n") if line]
        elif is_address(path):
            names.append((restore_address(path), True))
        elif glob.has_magic(path) and not os.path.lexists(path):
            matches = sorted(glob.glob(path, recursive=True)) or [path]  # noqa: PTH207  (names may be no UTF-8)
            names += [(match, False) for match in matches]
        else:
            names.append((path, True))
    return names


def _is_within(path: str, folder: Path) -> bool:
    """Whether a path leads to a folder or into it."""
    return not is_address(path) and Path(os.path.realpath(path)).is_relative_to(folder)


def _list_sources(path: str, output: Path, known_folders: set[tuple[int, int]]) -> list[Found]:
    """List the sources at a path or, for a folder, below it; the batch's own folder is skipped.

    `output` has no links in it. `known_folders` collects the listed folders, because several links may lead to one.
    """
    if is_address(path):
        return [(path, None)]
    if _is_within(path, output):
        return []
    try:
        status = os.stat(path)  # noqa: PTH116  (names may be no UTF-8)
    except (OSError, ValueError) as error:
        return [(path, ("failed", reason_of(error)))]
    for is_kind, reason in UNREAD_KINDS:
        if is_kind(status.st_mode):
            return [(path, ("refused", reason))]
    place, identity = Path(path), (status.st_dev, status.st_ino)
    if not stat.S_ISDIR(status.st_mode) or is_bundle(place) or is_capture(place):
        return [(path, None)]
    if identity in known_folders:
        return []
    known_folders.add(identity)
    try:
        names = sorted(inputs.list_folder(path))
    except OSError as error:
        return [(path, ("failed", reason_of(error)))]
    inside = [os.path.join(path, name) for name in names]  # noqa: PTH118
    # Only the first part of a split image is a source.
    parts = set[str]()
    for name in inside:
        # If a part is missing, the row of the first part names it; the other parts get rows of their own.
        with suppress(ImageError, OSError):
            parts |= {str(part) for part in (find_parts(Path(name))[1:] if Path(name).is_file() else ())}
    return [source for name in inside if name not in parts for source in _list_sources(name, output, known_folders)]


SINGLE_IMAGE_OPTIONS: Final = ("ddrescue_map", "second")
"""Options that apply to a single image only."""


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

    Returns
    -------
    FleetResult

    Raises
    ------
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
    require_polars()
    require_unix()
    fleet_options = fill(FleetOptions, options)
    scan_options = _check_options(leave_out(options, fleet_options), fleet_options)
    folder = FleetFolder(Path(output))
    folder.begin(resume=fleet_options["resume"])
    with folder.lock():
        found = find_sources(several(sources), folder.path)
        for path, _ in found:
            inputs.note(path)  # other processes read it: what is printed here must not go there
        memory_bytes, read = _choose_engine(fleet_options)
        jobs: dict[str, FleetJob] = {}
        for path, ended in found:
            job = FleetJob(
                path=path,
                folder=str(folder.path.absolute()),
                memory_bytes=memory_bytes,
                seconds=fleet_options["timeout_ms"] / 1000,
                written_bytes=fleet_options["written_bytes"],
                options=scan_options,
                ended=ended,
            )
            jobs.setdefault(job.identifier, job)
        folder.prepare({"sources": len(jobs)})
        documents: dict[str, dict[str, Any]] = {}
        for identifier, job in jobs.items():
            row = folder.read_row(identifier)
            # A failed source is read again, because the cause may be gone.
            if row is not None and row.get("status") != "failed" and row.get("key") == job.key():
                documents[identifier] = row
        remaining = [job for identifier, job in jobs.items() if identifier not in documents]
        num_unchanged = len(documents)
        documents |= _read_sources(folder, read(remaining), len(remaining), on_source)
        folder.clear_work()
        folder.write_tables(jobs, documents)
        ends = tuple(_make_source_end(documents[identifier]) for identifier in jobs)
        result = FleetResult(os.fspath(folder.path), ends, num_unchanged, monotonic() - began)
        folder.write_manifest({"sources": len(jobs), "counts": result.counts, "is_complete": True})
    return result


def _check_options(options: dict[str, Any], fleet_options: FleetOptions) -> dict[str, Any]:
    """Refuse wrong options once rather than in each row; return the options of each process."""
    from layoutscope.walk.orders import ORDERS

    for name in SINGLE_IMAGE_OPTIONS:
        if options.get(name) is not None:
            raise UsageError(f"{name} applies to one image, not to a batch")
    profiles_of(options.get("drives") or ())
    orders = list(fleet_options["orders"] or ("fts",))
    for order in orders:
        check_choice("order", order, ORDERS)
        if ORDERS[order].needs:
            raise UsageError(f"the order {order} needs a pattern for one volume, so a batch cannot use it")
    # Options that equal the defaults are left out, so equal requests have equal keys.
    usual = fill(EnumerationOptions, {})
    requested = {
        name: value for name, value in options.items() if name not in (*SINGLE_IMAGE_OPTIONS, *LISTENER_OPTIONS)
    }
    plain = {name: value for name, value in requested.items() if value is not None and value != usual.get(name)}
    if plain.get("drives") is not None:
        plain["drives"] = [os.fspath(name) for name in several(plain["drives"])]
    if plain.get("cache_dir") is not None:
        plain["cache_dir"] = os.path.abspath(plain["cache_dir"])  # noqa: PTH100
    return {**plain, "orders": orders, "hash_names": fleet_options["hash_names"]}


def _choose_engine(
    options: FleetOptions,
) -> tuple[int, Callable[[Sequence[FleetJob]], Iterator[dict[str, Any]]]]:
    """Choose the memory of each process and the engine that runs the jobs."""
    workers = default_workers() if options["workers"] is None else options["workers"]
    memory = default_memory_bytes(workers) if options["memory_bytes"] is None else options["memory_bytes"]
    written = options["written_bytes"]
    if min(memory, options["timeout_ms"], 1 if written is None else written) <= 0:
        raise UsageError("memory, timeout and written of a batch must be more than 0")
    scheduler, has_dashboard = options["scheduler"], options["dashboard"]
    if scheduler is None and not has_dashboard:
        return memory, partial(read_here, workers=workers)
    if scheduler not in (None, LOCAL_CLUSTER):
        if has_dashboard or options["workers"] is not None:
            raise UsageError("an existing scheduler has its own workers and its own page")
        if options["memory_bytes"] is None:
            memory = 0  # other machines have memory of their own
    require_dask(has_dashboard=has_dashboard)
    read = partial(read_by_scheduler, address=scheduler or LOCAL_CLUSTER, workers=workers, has_dashboard=has_dashboard)
    return memory, read


def _read_sources(
    folder: FleetFolder,
    running: Iterator[dict[str, Any]],
    total: int,
    on_source: Callable[[SourceEnd, int, int], None] | None,
) -> dict[str, dict[str, Any]]:
    """Collect the documents of the running jobs, without the table rows, which are in the folder."""
    documents: dict[str, dict[str, Any]] = {}
    with phase("reading sources", total=total, unit="steps") as progress:
        try:
            for number, document in enumerate(running, 1):
                documents[document["source"]] = {
                    name: item for name, item in document.items() if not isinstance(item, list)
                }
                progress.at(number)
                if on_source is not None:
                    on_source(_make_source_end(document), number, total)
                folder.check_room(document)
        finally:
            running.close()  # type: ignore[attr-defined]  # ends what is still running
    return documents


def _make_source_end(document: Mapping[str, Any]) -> SourceEnd:
    return SourceEnd(
        source=document["source"],
        path=plain_text(document["path"]),
        status=document["status"],
        message=plain_text(document["message"]),
        seconds=document.get("seconds", 0.0),
        has_capture=bool(document.get("capture")),
    )

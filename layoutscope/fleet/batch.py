"""``batch``: many sources, each read in a process of its own, into captures and tables in one folder."""

from __future__ import annotations

import os
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from layoutscope import inputs, system
from layoutscope.api.keywords import profiles_of, several, takes
from layoutscope.errors import UsageError, did_you_mean
from layoutscope.fleet.cluster import HERE, SchedulerEngine
from layoutscope.fleet.engines import LocalEngine, usual_memory_bytes, usual_workers
from layoutscope.fleet.jobs import FleetJob, FleetLimits, find_sources
from layoutscope.fleet.store import FleetFolder, need_polars, plain_text
from layoutscope.options import BatchOptions, EnumerationOptions, FleetOptions, fill, leave_out
from layoutscope.progress import phase
from layoutscope.results.fleet import FleetResult, SourceEnd

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Unpack

    from layoutscope.fleet.engines import FleetEngine

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
        Images, captures, folders that are walked, patterns such as ``*.dmg``, and ``@FILE`` for a list, a path a line.
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
    system.need_unix()
    own = fill(FleetOptions, options)
    work = _check_options(leave_out(options, own), own)
    folder = FleetFolder(Path(output))
    folder.begin(resume=own["resume"])
    with folder.locked():
        found = find_sources(several(sources), folder.path)
        for source in found:
            inputs.note(source.path)  # other processes read it: what is printed here must not go there
        limits, engine = _choose_engine(own)
        folder.prepare({"sources": len(found)})
        jobs = [FleetJob(source, str(folder.path.absolute()), limits, work) for source in found]
        documents = _find_unchanged_rows(folder, jobs)
        left = [job for job in jobs if job.source.identifier not in documents]
        kept = len(documents)
        documents |= _done(folder, engine.run(left), len(left), on_source)
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
            raise UsageError(f"{name} is a matter of one image, not of a batch")
    profiles_of(given.get("drives") or ())
    orders = list(own["orders"] or ("fts",))
    for order in orders:
        if order not in ORDERS:
            raise UsageError(f"no order {order!r}{did_you_mean(order, ORDERS)}; there are {', '.join(ORDERS)}")
        if ORDERS[order].needs:
            raise UsageError(f"the order {order} is told what to look for on one volume, and is none for a batch")
    # What is said and holds without it is not said: results are the same, and are known to be.
    usual = fill(EnumerationOptions, {})
    passed = {name: value for name, value in given.items() if name not in (*OF_ONE_IMAGE, *HEARD)}
    plain = {name: value for name, value in passed.items() if value is not None and value != usual.get(name)}
    if plain.get("drives") is not None:
        plain["drives"] = [os.fspath(name) for name in several(plain["drives"])]
    if plain.get("cache_dir") is not None:
        plain["cache_dir"] = os.path.abspath(plain["cache_dir"])  # noqa: PTH100
    return {**plain, "orders": orders, "hash_names": own["hash_names"]}


def _choose_engine(own: FleetOptions) -> tuple[FleetLimits, FleetEngine]:
    """Say who reads the sources, and what each process may take."""
    workers = usual_workers() if own["workers"] is None else own["workers"]
    memory = usual_memory_bytes(max(1, workers)) if own["memory_bytes"] is None else own["memory_bytes"]
    seconds = own["timeout_ms"] / 1000
    written = own["written_bytes"]
    if min(workers, memory, seconds, 1 if written is None else written) <= 0:
        raise UsageError("a batch has one process at least, and each of them some memory, time and room to write")
    engine = _engine(own, workers)
    if own["memory_bytes"] is None and own["scheduler"] not in (None, HERE):
        memory = 0  # other machines have memory of their own
    return FleetLimits(memory, seconds, written), engine


def _engine(own: FleetOptions, workers: int) -> FleetEngine:
    """Choose who has sources read."""
    scheduler, has_dashboard = own["scheduler"], own["dashboard"]
    if scheduler is None and not has_dashboard:
        return LocalEngine(workers)
    if scheduler not in (None, HERE) and (has_dashboard or own["workers"] is not None):
        raise UsageError("a scheduler that is there has its own workers, and its own page")
    return SchedulerEngine(scheduler or HERE, workers, has_dashboard=has_dashboard)


def _find_unchanged_rows(folder: FleetFolder, jobs: Sequence[FleetJob]) -> dict[str, dict[str, Any]]:
    """Find the rows of sources that need not be read again; what failed is tried again, its cause may have passed."""
    known = {job.source.identifier: (job, folder.row(job.source.identifier)) for job in jobs}
    return {
        name: row
        for name, (job, row) in known.items()
        if row is not None and row.get("status") != "failed" and row.get("key") == job.key()
    }


def _done(
    folder: FleetFolder,
    running: Iterator[dict[str, Any]],
    total: int,
    on_source: Callable[[SourceEnd, int, int], None] | None,
) -> dict[str, dict[str, Any]]:
    """Have sources read; their documents, without the rows of tables, which lie in the folder."""
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

"""Sources read by a cluster of Dask distributed: one that is there, or one that is made on this machine.

A worker keeps processes that read, as the engine of this machine does, so that no source can end a worker. What a
worker that is lost had under way is given to another one. The scheduler has no more tasks at a time than keep its
workers busy.
"""

from __future__ import annotations

import atexit
import logging
import subprocess
import sys
import threading
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from layoutscope.errors import EXIT_FAILED, LayoutscopeError, UnsupportedError
from layoutscope.fleet.engines import USUAL_MEMORY_BYTES, WorkerPool, attempt, row_document, usual_memory_bytes
from layoutscope.fleet.store import RESUME
from layoutscope.fleet.worker import outcome
from layoutscope.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from layoutscope.fleet.jobs import FleetJob

HERE: Final = "local"
"""The address of a cluster that is made on this machine for the batch."""

MAX_LOSSES: Final = 20
"""A source whose workers were lost so often is given up; Dask itself tries a few times each."""

WAITING_PER_WORKER: Final = 4
"""So many tasks are at the scheduler for each source that can be read at a time."""

CONNECT_S: Final = 15
STOP_S: Final = 10.0

_MAKING = threading.Lock()


@cache
def _pool() -> WorkerPool:
    """Return the processes with which this worker of Dask reads."""
    pool = WorkerPool()
    atexit.register(pool.end)
    return pool


def attempt_there(job: FleetJob, version: str) -> dict[str, Any]:
    """Read a source on a worker."""
    if version != __version__:
        words = f"a worker has layoutscope {__version__}, and the batch is of {version}"
        return row_document(job, outcome("failed", EXIT_FAILED, words))
    with _MAKING:
        pool = _pool()
    if not job.limits.memory_bytes:
        job = replace(job, limits=replace(job.limits, memory_bytes=_memory_bytes()))
    return {name: item for name, item in attempt(job, pool).items() if not isinstance(item, list)}


def _memory_bytes() -> int:
    """Return what a process of this worker may take unless told otherwise."""
    from distributed import get_worker

    worker = get_worker()
    threads: int = worker.state.nthreads
    limit: int | None = worker.memory_manager.memory_limit
    return max(USUAL_MEMORY_BYTES, limit // threads) if limit else usual_memory_bytes(threads)


class SchedulerEngine:
    """Has sources read by the workers of a scheduler."""

    def __init__(self, address: str, workers: int, *, has_dashboard: bool = False) -> None:
        self._address, self._workers, self._has_dashboard = address, workers, has_dashboard
        _require_package("distributed", "a cluster")
        if has_dashboard:
            _require_package("bokeh", "Dask's page")

    def run(self, jobs: Sequence[FleetJob]) -> Iterator[dict[str, Any]]:
        """Yield the document of each job when it is done."""
        from distributed import Client
        from distributed.comm.core import CommClosedError

        lost = (OSError, TimeoutError, CommClosedError)
        with ExitStack() as stack:
            stack.enter_context(_quiet())
            address = stack.enter_context(self._made()) if self._address == HERE else self._address
            try:
                link = stack.enter_context(Client(address, timeout=CONNECT_S, set_as_default=False))
                if self._has_dashboard:
                    sys.stderr.write(f"layoutscope: Dask's page is at {link.dashboard_link}\n")
                yield from _Running(link, jobs).documents()
            except lost as error:
                raise LayoutscopeError(
                    f"the scheduler {address} cannot be reached: what was read is kept, and resume=True takes it up",
                    options=RESUME,
                ) from error

    @contextmanager
    def _made(self) -> Iterator[str]:
        """Make a scheduler in this process, and workers as programs of their own, which load nobody's script."""
        from distributed import LocalCluster

        page = ":0" if self._has_dashboard else None
        with LocalCluster(
            n_workers=0, processes=False, protocol="tcp://", dashboard_address=page, silence_logs=logging.CRITICAL
        ) as here:
            address: str = here.scheduler_address
            command = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--nthreads", "1"]
            command += ["--memory-limit", "0", "--no-dashboard", "--death-timeout", str(4 * CONNECT_S)]
            quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            made: list[subprocess.Popen[bytes]] = []
            try:
                made += [subprocess.Popen(command, **quiet) for _ in range(self._workers)]  # type: ignore[call-overload]  # noqa: S603
                yield address
            finally:
                for each in made:
                    each.terminate()
                for each in made:
                    with suppress(subprocess.TimeoutExpired):
                        each.wait(STOP_S)
                    each.kill()
                    each.wait()


class _Running:
    """Jobs at a scheduler, a few at a time."""

    def __init__(self, link: Any, jobs: Sequence[FleetJob]) -> None:
        from distributed import as_completed

        self._link, self._left = link, iter(jobs)
        self._under_way: dict[Any, tuple[FleetJob, int]] = {}
        self._done = as_completed([], loop=link.loop, raise_errors=False)

    def documents(self) -> Iterator[dict[str, Any]]:
        """Yield the document of each job when it is done."""
        self._fill()
        while self._under_way:
            future = next(self._done)
            job, losses = self._under_way.pop(future)
            document = self._document(future, job)
            if document is None and losses + 1 < MAX_LOSSES:
                self._submit(job, losses + 1)
            else:
                words = f"its workers were lost {MAX_LOSSES} times"
                yield document or row_document(job, outcome("failed", EXIT_FAILED, words))
            self._fill()

    def _document(self, future: Any, job: FleetJob) -> dict[str, Any] | None:
        """Return what became of a job; None where it was lost with its worker."""
        from distributed import KilledWorker

        if future.status == "finished":
            document: dict[str, Any] = future.result()
            return document
        error = future.exception() if future.status == "error" else None
        if error is None or isinstance(error, KilledWorker | OSError):
            return None
        words = f"its worker broke off: {type(error).__name__}: {error}".splitlines()[0]
        return row_document(job, outcome("failed", EXIT_FAILED, words))

    def _fill(self) -> None:
        """Give the scheduler what keeps its workers busy."""
        threads = sum(self._link.nthreads().values())
        for _ in range(WAITING_PER_WORKER * max(1, threads) - len(self._under_way)):
            job = next(self._left, None)
            if job is None:
                return
            self._submit(job, 0)

    def _submit(self, job: FleetJob, losses: int) -> None:
        future = self._link.submit(attempt_there, job, __version__, pure=False)
        self._under_way[future] = job, losses
        self._done.add(future)


def _require_package(package: str, what: str) -> None:
    from importlib.util import find_spec

    if find_spec(package) is None:
        advice = "pip install bokeh" if package == "bokeh" else "pip install 'layoutscope[fleet]'"
        raise UnsupportedError(f"{what} needs the package {package}", code="fleet-missing", advice=advice)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep what Dask says of lost workers from standard error: they are no news to whoever asked."""
    # Those below have levels of their own: Dask sets them when it is loaded.
    names = [name for name in logging.root.manager.loggerDict if name.startswith("distributed.")]
    loggers = [logging.getLogger(name) for name in (*names, "distributed", "asyncio", "tornado")]
    before = [each.level for each in loggers]
    try:
        for each in loggers:
            each.setLevel(logging.CRITICAL)
        yield
    finally:
        for each, level in zip(loggers, before, strict=True):
            each.setLevel(level)

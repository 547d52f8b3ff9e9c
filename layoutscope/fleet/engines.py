"""The engines that have the sources of a batch read: processes of this machine, or the workers of a Dask cluster.

What becomes of a source must not depend on another. A worker that read anything but a complete source reads no other
one, nor does one that has read :data:`MAX_SOURCES` or took much memory. A source that failed in a worker that had read
others is tried again in a new one. An engine yields documents in the order in which they are ready; a source that ends
its process is a row of the batch, as any other.

A Dask worker reads by :func:`attempt`, as this machine does, so no source can end it. What a lost worker had under way
is given to another one. The scheduler has no more tasks at a time than keep its workers busy.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager, suppress
from functools import cache, partial
from itertools import islice
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from msgspec import to_builtins
from msgspec.structs import replace

from layoutscope import bounded, ownfiles
from layoutscope.errors import EXIT_FAILED, LayoutscopeError, UnsupportedError, install_command, reason_of
from layoutscope.fleet.store import RESUME, FleetFolder
from layoutscope.fleet.worker import CAPTURE, LACKS_MEMORY, RESULT, UNWRITTEN, machine_memory_bytes, outcome
from layoutscope.units import format_bytes
from layoutscope.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from layoutscope.fleet.jobs import FleetJob, FleetLimits


FEW_THREADS: Final = {"POLARS_MAX_THREADS": "2", "OPENBLAS_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2"}
"""There is a worker per core already, and every thread takes address space."""

NOT_PASSED_ON: Final = "MALLOC_TRIM_THRESHOLD_"
"""Dask sets this to have its workers return each large buffer at once; a reader would map its pages again each time."""

MAX_SOURCES: Final = 25
"""Sources that one worker reads: they share the time that it takes to start."""

MEMORY_PART: Final = 4
"""A worker that took more than one part in four of its memory limit is not used again."""

MAX_WORDS_BYTES: Final = 4096
"""The end of what a worker wrote before it broke off, in which the reason is looked for."""

KILL_WAIT_S: Final = 10.0
"""How long to wait for a killed worker: one that the system holds, in a read that never returns, cannot be ended."""

START_WAIT_S: Final = 600.0
"""How long a worker may take to load its modules. A source is not charged with it."""


def need_unix() -> None:
    """Refuse a batch on Windows, where there are no process groups and no pipes that can be polled."""
    if not hasattr(os, "killpg"):
        raise LayoutscopeError("a batch needs Unix: Linux, macOS or WSL")


class Worker:
    """A process that reads one source after the other."""

    def __init__(self, limits: FleetLimits) -> None:
        need_unix()
        self.limits, self.num_sources, self.is_killed, self._has_begun = limits, 0, False, False
        module, place = f"{__package__}.worker", str(Path(__file__).parents[2])
        paths = os.pathsep.join(filter(None, (place, os.environ.get("PYTHONPATH"))))
        environment = {name: value for name, value in os.environ.items() if name != NOT_PASSED_ON}
        self._words = tempfile.TemporaryFile()  # noqa: SIM115  (closed with the process)
        self._jobs, its = socket.socketpair()
        self.process = subprocess.Popen(  # noqa: S603  (this interpreter, and a program of our own)
            bounded.command_of(module, "-P", "-m", module),
            stdin=its.fileno(),
            stdout=its.fileno(),
            stderr=self._words,
            env={**environment, **FEW_THREADS, "PYTHONPATH": paths},
            start_new_session=True,
        )
        its.close()
        with suppress(OSError):  # one that ended at once is noticed when it is to read
            self._send(to_builtins(limits))

    def read(self, job: FleetJob, work: Path) -> tuple[int | None, str]:
        """Read a source; return 0, or the code and last words of a worker that ended; None if time was over."""
        begin = os.fstat(self._words.fileno()).st_size
        try:
            self._has_begun = self._has_begun or self._is_answered(START_WAIT_S)
            if self._has_begun:
                self.num_sources += 1
                self._send({**to_builtins(job), "work": str(work)})
                if self._is_answered(job.limits.seconds):
                    return 0, ""
        except TimeoutError:
            self.kill()
            if not self._has_begun:
                raise LayoutscopeError(f"its process has not started within {START_WAIT_S:g} s") from None
            return None, ""
        except OSError:
            pass  # the worker has ended: its code says how
        code = self._wait()
        end = os.fstat(self._words.fileno()).st_size
        words = os.pread(self._words.fileno(), MAX_WORDS_BYTES, max(begin, end - MAX_WORDS_BYTES))
        return code, words.decode("utf-8", "replace")

    def _send(self, document: dict[str, Any]) -> None:
        self._jobs.sendall(json.dumps(document).encode() + b"\n")

    def _is_answered(self, seconds: float) -> bool:
        """Wait for the byte that says that the worker is ready for another source; False where it has ended."""
        self._jobs.settimeout(seconds)
        return bool(self._jobs.recv(1))

    def _wait(self) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            return self.process.wait(KILL_WAIT_S)
        return None

    def kill(self) -> None:
        """End the process and those that it started, whatever it does; another thread may wait for it in `read`."""
        self.is_killed = True
        self._end_group()

    def close(self) -> None:
        """End the process, which has nothing to do any more."""
        self._end_group()
        self._wait()
        self._jobs.close()
        self._words.close()

    def _end_group(self) -> None:
        # Once the process is gone its number may be another's. What it has left ends with the socket.
        with suppress(OSError):
            if self.process.poll() is None:
                os.killpg(self.process.pid, signal.SIGKILL)


class WorkerPool:
    """The workers of this process: those that read now, and those that wait for a source."""

    def __init__(self) -> None:
        self._working: set[Worker] = set()
        self.idle: list[Worker] = []
        self._lock, self._is_over = threading.Lock(), False

    def take(self, limits: FleetLimits) -> Worker:
        """Return a worker that has these limits: one that waits, or a new one."""
        with self._lock:
            if self._is_over:
                raise InterruptedError("the batch was ended")
            worker = next((each for each in self.idle if each.limits == limits), None)
            if worker is not None:
                self.idle.remove(worker)
            else:
                worker = Worker(limits)
            self._working.add(worker)
            return worker

    def give(self, worker: Worker, *, is_sound: bool) -> None:
        """Take a worker back."""
        with self._lock:
            self._working.discard(worker)
            is_kept = is_sound and not self._is_over and worker.num_sources < MAX_SOURCES
            if is_kept:
                self.idle.append(worker)
        if not is_kept:
            worker.close()

    def end(self) -> None:
        """End all workers, and start no other one."""
        with self._lock:
            self._is_over = True
            for worker in self._working:
                worker.kill()
            for worker in self.idle:
                worker.close()
            self.idle.clear()


def attempt(job: FleetJob, workers: WorkerPool | None = None) -> dict[str, Any]:
    """Read a source, and put its capture and its row into the batch's folder."""
    folder, began = FleetFolder(Path(job.folder)), monotonic()
    source, key = job.source, job.key()  # as it was before it was read
    try:
        work = folder.new_work(source.identifier)
    except OSError as error:
        return row_document(job, outcome("failed", EXIT_FAILED, f"{UNWRITTEN}: {reason_of(error)}"), key)
    try:
        if source.refused or source.failed:
            status = "refused" if source.refused else "failed"
            found = outcome(status, EXIT_FAILED, f"{source.shown}: {source.refused or source.failed}")
        else:
            found = _read_by_worker(job, work, workers)
        document = row_document(job, {**found, "seconds": monotonic() - began}, key)
        folder.commit(document, work / CAPTURE)
    except OSError as error:
        document = row_document(job, outcome("failed", EXIT_FAILED, f"{UNWRITTEN}: {reason_of(error)}"), key)
    except LayoutscopeError as error:
        document = row_document(job, outcome("failed", EXIT_FAILED, str(error)), key)
    finally:
        ownfiles.remove_folder(work)
    return document


def row_document(job: FleetJob, found: dict[str, Any], key: dict[str, Any] | None = None) -> dict[str, Any]:
    """Make the document of a row."""
    return {"source": job.source.identifier, "path": job.source.path, "key": key or job.key(), **found}


def _read_by_worker(job: FleetJob, work: Path, workers: WorkerPool | None) -> dict[str, Any]:
    """Have a worker read the source; return what it wrote, or what became of it."""
    pool = workers or WorkerPool()
    try:
        while True:
            worker = pool.take(job.limits)
            has_read, found = worker.num_sources > 0, None
            try:
                found = _outcome_of(job, work, *worker.read(job, work))
            finally:
                pool.give(worker, is_sound=_is_sound(found, job))
            if found["status"] != "failed" or not has_read or worker.is_killed:
                return found
            ownfiles.empty_folder(work)
    except InterruptedError as error:
        return outcome("failed", EXIT_FAILED, str(error))
    finally:
        if workers is None:
            pool.end()


def _is_sound(found: dict[str, Any] | None, job: FleetJob) -> bool:
    """Whether a process may read another source after this one."""
    if found is None or found["status"] != "complete":
        return False
    return (found.get("peak_memory_bytes") or 0) * MEMORY_PART < job.limits.memory_bytes


def _outcome_of(job: FleetJob, work: Path, code: int | None, words: str) -> dict[str, Any]:
    """Return what a worker made of a source."""
    limit = format_bytes(job.limits.memory_bytes)
    if code is None:
        ownfiles.empty_folder(work)
        return outcome("failed", EXIT_FAILED, f"took longer than {job.limits.seconds:g} s, and was ended")
    try:
        found: dict[str, Any] = json.loads((work / RESULT).read_text("utf-8"))
    except (OSError, ValueError):
        if any(word in words.lower() for word in bounded.OOM_WORDS) or "MemoryError" in words:
            return outcome("failed", EXIT_FAILED, f"{LACKS_MEMORY}: limited to {limit}")
        return outcome("failed", EXIT_FAILED, f"its process broke off: {_how(code, words)}")
    if found["message"] == LACKS_MEMORY:
        found["message"] = f"{LACKS_MEMORY}: limited to {limit}"
    return found


def _how(code: int, words: str) -> str:
    """Describe how a process ended, with the last line that it said."""
    last = next((line.strip() for line in reversed(words.splitlines()) if line.strip()), "")
    try:
        ended = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    except ValueError:
        ended = f"signal {-code}"
    return f"{ended}, {last}" if last else ended


USUAL_MEMORY_BYTES: Final = 2 * 1024**3
"""A process may have this much at least, or there are fewer of them."""

MEMORY_SHARE: Final = 0.8
"""So much of this machine's memory is shared out."""


def read_here(jobs: Sequence[FleetJob], workers: int) -> Iterator[dict[str, Any]]:
    """Have jobs done by so many processes on this machine, each waited for by a thread; yield each document."""
    pool = WorkerPool()
    with ThreadPoolExecutor(workers, thread_name_prefix="layoutscope batch") as threads:
        # A few at a time: what is done and was handed on is not kept.
        left = iter(jobs)
        begin = partial(threads.submit, partial(attempt, workers=pool))
        waiting = {begin(job) for job in islice(left, 2 * workers)}
        try:
            while waiting:
                done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                waiting |= {begin(job) for job in islice(left, len(done))}
                for each in done:
                    yield each.result()
        finally:
            for each in waiting:
                each.cancel()
            pool.end()


def usual_workers() -> int:
    """Return how many sources are read at a time by default: one per core, as far as memory goes."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, int(machine_memory_bytes() * MEMORY_SHARE) // USUAL_MEMORY_BYTES))


def usual_memory_bytes(workers: int) -> int:
    """Return what each of so many processes may take by default."""
    return max(USUAL_MEMORY_BYTES, int(machine_memory_bytes() * MEMORY_SHARE) // workers)


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
    """Return what a process of this worker may take by default."""
    from distributed import get_worker

    worker = get_worker()
    threads: int = worker.state.nthreads
    limit: int | None = worker.memory_manager.memory_limit
    return max(USUAL_MEMORY_BYTES, limit // threads) if limit else usual_memory_bytes(threads)


def require_dask(*, has_dashboard: bool) -> None:
    """Refuse to begin where a package is missing that a cluster takes."""
    from importlib.util import find_spec

    wanted = [("distributed", "a cluster", install_command("fleet"))]
    wanted += [("bokeh", "Dask's page", "pip install bokeh")] if has_dashboard else []
    for package, what, advice in wanted:
        if find_spec(package) is None:
            raise UnsupportedError(f"{what} needs the package {package}", code="fleet-missing", advice=advice)


def read_by_scheduler(
    jobs: Sequence[FleetJob],
    address: str,
    workers: int,  # how many are started where the cluster is made here
    *,
    has_dashboard: bool,
) -> Iterator[dict[str, Any]]:
    """Have jobs done by the workers of a scheduler; yield each document when it is there."""
    from distributed import Client
    from distributed.comm.core import CommClosedError

    with ExitStack() as stack:
        stack.enter_context(_quiet())
        if address == HERE:
            address = stack.enter_context(_start_local_workers(workers, has_dashboard=has_dashboard))
        try:
            link = stack.enter_context(Client(address, timeout=CONNECT_S, set_as_default=False))
            if has_dashboard:
                sys.stderr.write(f"layoutscope: Dask's page is at {link.dashboard_link}\n")
            yield from _submit_all(link, jobs)
        except (OSError, TimeoutError, CommClosedError) as error:
            raise LayoutscopeError(
                f"the scheduler {address} cannot be reached: what was read is kept, and resume=True takes it up",
                options=RESUME,
            ) from error


@contextmanager
def _start_local_workers(workers: int, *, has_dashboard: bool) -> Iterator[str]:
    """Make a scheduler in this process, and workers as programs of their own, which load nobody's script."""
    from distributed import LocalCluster

    page = ":0" if has_dashboard else None
    with LocalCluster(
        n_workers=0, processes=False, protocol="tcp://", dashboard_address=page, silence_logs=logging.CRITICAL
    ) as here:
        address: str = here.scheduler_address
        command = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--nthreads", "1"]
        command += ["--memory-limit", "0", "--no-dashboard", "--death-timeout", str(4 * CONNECT_S)]
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        made: list[subprocess.Popen[bytes]] = []
        try:
            made += [subprocess.Popen(command, **quiet) for _ in range(workers)]  # type: ignore[call-overload]  # noqa: S603
            yield address
        finally:
            for each in made:
                each.terminate()
            for each in made:
                with suppress(subprocess.TimeoutExpired):
                    each.wait(STOP_S)
                each.kill()
                each.wait()


def _submit_all(link: Any, jobs: Sequence[FleetJob]) -> Iterator[dict[str, Any]]:
    """Give the scheduler a few jobs at a time, again those that were lost with their worker; yield each document."""
    from distributed import as_completed

    left = iter(jobs)
    under_way: dict[Any, tuple[FleetJob, int]] = {}
    done = as_completed([], loop=link.loop, raise_errors=False)

    def submit(job: FleetJob, losses: int) -> None:
        future = link.submit(attempt_there, job, __version__, pure=False)
        under_way[future] = job, losses
        done.add(future)

    while True:
        threads = max(1, sum(link.nthreads().values()))
        for job in islice(left, max(0, WAITING_PER_WORKER * threads - len(under_way))):
            submit(job, 0)
        if not under_way:
            return
        future = next(done)
        job, losses = under_way.pop(future)
        document = _document_of(future, job)
        if document is None and losses + 1 < MAX_LOSSES:
            submit(job, losses + 1)
        else:
            words = f"its workers were lost {MAX_LOSSES} times"
            yield document or row_document(job, outcome("failed", EXIT_FAILED, words))


def _document_of(future: Any, job: FleetJob) -> dict[str, Any] | None:
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


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep Dask's messages about lost workers from standard error: the batch reports them itself."""
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

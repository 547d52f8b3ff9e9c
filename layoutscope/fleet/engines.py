"""The jobs of a batch, and the engines that do them: processes on this machine, or the workers of a Dask cluster.

The result of a source must not depend on other sources. A worker is not used again after an incomplete source, after
:data:`MAX_SOURCES` sources, or after it took much memory. A source that failed in a used worker is read again in a new
one. An engine yields documents in the order in which they are ready. A source that ends its process gets a row like any
other.

A Dask worker reads through :func:`attempt`, as this machine does, so no source can end it. Another worker gets the jobs
of a lost one. The scheduler has only as many tasks at a time as keep its workers busy.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from itertools import islice
from pathlib import Path
from queue import SimpleQueue
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from msgspec import field
from msgspec.structs import asdict, replace

from layoutscope import inputs, memory, ownfiles
from layoutscope.display import Struct
from layoutscope.errors import EXIT_FAILED, ImageError, LayoutscopeError, UnsupportedError, install_command, reason_of
from layoutscope.fleet.limits import default_memory_bytes
from layoutscope.fleet.store import RESUME, FleetFolder, plain_text
from layoutscope.fleet.worker import CAPTURE, LACKS_MEMORY, RESULT, UNWRITTEN, outcome
from layoutscope.image.remote import address_identity
from layoutscope.image.split import find_parts
from layoutscope.inputs import is_address
from layoutscope.units import format_bytes
from layoutscope.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


ID_DIGITS: Final = 16
"""Hexadecimal digits of a source's identifier: among 10^9 sources, the chance of a collision is 1 in 40."""


END_BYTES: Final = 65536
"""Length of a file's beginning and end that its identity includes: a write to a disk changes headers there."""


class FleetJob(Struct, frozen=True):
    """The work on one source, for an engine on any machine."""

    path: str  # of the source as it was found; bytes that are not UTF-8 are surrogates, as in Python's own functions
    folder: str  # the batch's folder
    memory_bytes: int  # address space of its process; 0 for a share of the cluster worker's own limit
    seconds: float  # wall time that its process may take
    written_bytes: int | None = None  # length of each file that its process writes; None for no limit
    options: dict[str, Any] = field(default_factory=dict)  # keywords of `scan`, and `orders` and `hash_names`
    at: str = field(default_factory=os.getcwd)  # the folder to which paths are relative
    # how it ended already, and why: it is known not to be an image (`refused`), or cannot be reached (`failed`)
    ended: tuple[str, str] | None = None

    @property
    def identifier(self) -> str:
        """The key of its rows and its capture: the same for the same path, whatever the options."""
        place = self.path if is_address(self.path) else os.path.realpath(self.path)
        return hashlib.sha256(os.fsencode(place)).hexdigest()[:ID_DIGITS]

    def key(self) -> dict[str, Any]:
        """Return what the results depend on: while it is equal, the source need not be read again."""
        from layoutscope.filesystems.registry import read_options

        path = self.path if is_address(self.path) else os.path.join(self.at, self.path)  # noqa: PTH118
        identity = source_identity(path) if self.ended is None else {}
        # A secret is reduced to whether one was given.
        secrets = {name for name, (each, _) in read_options().items() if each.kind == "secret"}
        relevant = {name: value for name, value in self.options.items() if name != "cache_dir"}
        plain = {name: value is not None if name in secrets else value for name, value in relevant.items()}
        options = json.loads(json.dumps(plain, default=str))
        return {"made_by": f"layoutscope {__version__}", "options": options, **identity}


def source_identity(path: str) -> dict[str, Any]:
    """Identify a source without reading it whole.

    Returns `size_bytes` and `modify_time_ns` (the newest) of all of its files, and `identity`: SHA-256 of their names,
    sizes and times, and of the ends of a file that is named itself. Empty if the source cannot be read.
    """
    if is_address(path):
        return address_identity(path)
    total, newest, digest = 0, 0, hashlib.sha256()
    try:
        # The parts of a split image, and the files of a folder such as a bundle, belong to it.
        names = [path]
        if os.path.isdir(path):  # noqa: PTH112
            names = list(inputs.walk_files(path))
        else:
            with suppress(ImageError):
                names += map(str, find_parts(Path(path))[1:])
        for name in names:
            status = os.stat(name)  # noqa: PTH116  (names may be no UTF-8)
            total, newest = total + status.st_size, max(newest, status.st_mtime_ns)
            about = os.fsencode(os.path.relpath(name, path))
            digest.update(b"%d:%s %d %d\n" % (len(about), about, status.st_size, status.st_mtime_ns))
            if name == path:
                with inputs.open_file(Path(name)) as file:
                    begin = file.read(END_BYTES)
                    file.seek(max(0, status.st_size - END_BYTES))
                    digest.update(begin + file.read(END_BYTES))
    except (OSError, ValueError):
        return {}
    return {"size_bytes": total, "modify_time_ns": newest, "identity": digest.hexdigest()}


FEW_THREADS: Final = {"POLARS_MAX_THREADS": "2", "OPENBLAS_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2"}
"""Each core has a worker already, and each thread takes address space."""

NOT_PASSED_ON: Final = "MALLOC_TRIM_THRESHOLD_"
"""Dask sets this to have its workers return each large buffer at once; a reader would map its pages again each time."""

MAX_SOURCES: Final = 25
"""Sources that one worker reads, so they share its start-up time."""

MEMORY_PART: Final = 4
"""A worker that took more than a quarter of its memory limit is not used again."""

MAX_WORDS_BYTES: Final = 4096
"""Length of the end of a worker's output that is searched for the reason of its failure."""

KILL_WAIT_S: Final = 10.0
"""How long to wait for a killed worker: the system cannot end one whose read never returns."""

START_WAIT_S: Final = 600.0
"""How long a worker may take to load its modules. This time does not count for a source."""


def require_unix() -> None:
    """Refuse a batch on Windows, where there are no process groups and no pipes that can be polled."""
    if not hasattr(os, "killpg"):
        raise LayoutscopeError("a batch needs Unix: Linux, macOS or WSL")


class Worker:
    """A process that reads sources one by one."""

    def __init__(self, memory_bytes: int, written_bytes: int | None = None) -> None:
        require_unix()
        self.limits, self.num_sources = (memory_bytes, written_bytes), 0
        self.is_killed = self._has_begun = False
        module, place = f"{__package__}.worker", str(Path(__file__).parents[2])
        paths = os.pathsep.join(filter(None, (place, os.environ.get("PYTHONPATH"))))
        environment = {name: value for name, value in os.environ.items() if name != NOT_PASSED_ON}
        self._words = tempfile.TemporaryFile()  # noqa: SIM115  (closed with the process)
        self._jobs, theirs = socket.socketpair()
        self.process = subprocess.Popen(  # noqa: S603  (this interpreter, and a program of our own)
            memory.make_command(module, "-P", "-m", module),
            stdin=theirs.fileno(),
            stdout=theirs.fileno(),
            stderr=self._words,
            env={**environment, **FEW_THREADS, "PYTHONPATH": paths},
            start_new_session=True,
        )
        theirs.close()
        with suppress(OSError):  # the first read notices a process that ended at once
            self._send({"memory_bytes": memory_bytes, "written_bytes": written_bytes})

    def read(self, job: FleetJob, work: Path) -> tuple[int | None, str]:
        """Read a source; return 0, or the exit code and last output of a worker that ended, or None at a timeout."""
        begin = os.fstat(self._words.fileno()).st_size
        try:
            self._has_begun = self._has_begun or self._is_answered(START_WAIT_S)
            if self._has_begun:
                self.num_sources += 1
                self._send({**asdict(job), "work": str(work)})
                if self._is_answered(job.seconds):
                    return 0, ""
        except TimeoutError:
            self.kill()
            if not self._has_begun:
                raise LayoutscopeError(f"its process has not started within {START_WAIT_S:g} s") from None
            return None, ""
        except OSError:
            pass  # the worker has ended; its exit code says how
        code = self._wait()
        end = os.fstat(self._words.fileno()).st_size
        words = os.pread(self._words.fileno(), MAX_WORDS_BYTES, max(begin, end - MAX_WORDS_BYTES))
        return code, words.decode("utf-8", "replace")

    def _send(self, document: dict[str, Any]) -> None:
        self._jobs.sendall(json.dumps(document).encode() + b"\n")

    def _is_answered(self, seconds: float) -> bool:
        """Wait for the byte that signals that the worker is ready; return False if it has ended."""
        self._jobs.settimeout(seconds)
        return bool(self._jobs.recv(1))

    def _wait(self) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            return self.process.wait(KILL_WAIT_S)
        return None

    def kill(self) -> None:
        """End the process and its children; another thread may be waiting for it in `read`."""
        self.is_killed = True
        self._end_group()

    def close(self) -> None:
        """End the idle process and close its pipes."""
        self._end_group()
        self._wait()
        self._jobs.close()
        self._words.close()

    def _end_group(self) -> None:
        # Once the process is gone, its number may belong to another process. Its children end with the socket.
        with suppress(OSError):
            if self.process.poll() is None:
                os.killpg(self.process.pid, signal.SIGKILL)


class WorkerPool:
    """The workers of this process, working and idle."""

    def __init__(self) -> None:
        self._working: set[Worker] = set()
        self.idle: list[Worker] = []
        self._lock, self._is_over = threading.Lock(), False

    def take(self, job: FleetJob) -> Worker:
        """Return an idle worker with the limits of a job, or start one."""
        limits = job.memory_bytes, job.written_bytes
        with self._lock:
            if self._is_over:
                raise InterruptedError("the batch was ended")
            worker = next((each for each in self.idle if each.limits == limits), None)
            if worker is not None:
                self.idle.remove(worker)
            else:
                worker = Worker(job.memory_bytes, job.written_bytes)
            self._working.add(worker)
            return worker

    def release(self, worker: Worker, *, is_sound: bool) -> None:
        """Take a worker back, and close it if it must not be used again."""
        with self._lock:
            self._working.discard(worker)
            is_reusable = is_sound and not self._is_over and worker.num_sources < MAX_SOURCES
            if is_reusable:
                self.idle.append(worker)
        if not is_reusable:
            worker.close()

    def end(self) -> None:
        """End all workers, and refuse to start others."""
        with self._lock:
            self._is_over = True
            for worker in self._working:
                worker.kill()
            for worker in self.idle:
                worker.close()
            self.idle.clear()


def attempt(job: FleetJob, workers: WorkerPool | None = None) -> dict[str, Any]:
    """Read a source, and store its capture and its row in the folder of the batch."""
    folder, began = FleetFolder(Path(job.folder)), monotonic()
    key = job.key()  # before the read: the source may change meanwhile
    try:
        work = folder.new_work(job.identifier)
    except OSError as error:
        return row_document(job, outcome("failed", EXIT_FAILED, f"{UNWRITTEN}: {reason_of(error)}"), key)
    try:
        if job.ended is not None:
            status, reason = job.ended
            result = outcome(status, EXIT_FAILED, f"{plain_text(job.path)}: {reason}")
        else:
            result = _read_by_worker(job, work, workers)
        document = row_document(job, {**result, "seconds": monotonic() - began}, key)
        folder.commit(document, work / CAPTURE)
    except OSError as error:
        document = row_document(job, outcome("failed", EXIT_FAILED, f"{UNWRITTEN}: {reason_of(error)}"), key)
    except LayoutscopeError as error:
        document = row_document(job, outcome("failed", EXIT_FAILED, str(error)), key)
    finally:
        ownfiles.remove_folder(work)
    return document


def row_document(job: FleetJob, result: dict[str, Any], key: dict[str, Any] | None = None) -> dict[str, Any]:
    """Make the document of a row."""
    return {"source": job.identifier, "path": job.path, "key": key or job.key(), **result}


def _read_by_worker(job: FleetJob, work: Path, workers: WorkerPool | None) -> dict[str, Any]:
    """Have a worker read the source; return its result, or why there is none."""
    pool = workers or WorkerPool()
    try:
        while True:
            worker = pool.take(job)
            has_read, is_sound = worker.num_sources > 0, False
            try:
                result = _read_outcome(job, work, *worker.read(job, work))
                peak_bytes = result.get("peak_memory_bytes") or 0
                is_sound = result["status"] == "complete" and peak_bytes * MEMORY_PART < job.memory_bytes
            finally:
                pool.release(worker, is_sound=is_sound)
            if result["status"] != "failed" or not has_read or worker.is_killed:
                return result
            ownfiles.empty_folder(work)
    except InterruptedError as error:
        return outcome("failed", EXIT_FAILED, str(error))
    finally:
        if workers is None:
            pool.end()


def _read_outcome(job: FleetJob, work: Path, code: int | None, words: str) -> dict[str, Any]:
    """Return the result that a worker wrote, or the failure that its exit shows."""
    limit = format_bytes(job.memory_bytes)
    if code is None:
        ownfiles.empty_folder(work)
        return outcome("failed", EXIT_FAILED, f"took longer than {job.seconds:g} s, and was ended")
    try:
        result: dict[str, Any] = json.loads((work / RESULT).read_text("utf-8"))
    except (OSError, ValueError):
        if memory.mentions_lack(words) or "MemoryError" in words:
            return outcome("failed", EXIT_FAILED, f"{LACKS_MEMORY}: limited to {limit}")
        last = next((line.strip() for line in reversed(words.splitlines()) if line.strip()), "")
        try:
            ended = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        except ValueError:
            ended = f"signal {-code}"
        return outcome("failed", EXIT_FAILED, f"its process broke off: {', '.join(filter(None, (ended, last)))}")
    if result["message"] == LACKS_MEMORY:
        result["message"] = f"{LACKS_MEMORY}: limited to {limit}"
    return result


def read_here(jobs: Sequence[FleetJob], workers: int) -> Iterator[dict[str, Any]]:
    """Run jobs in processes on this machine, with a thread waiting for each; yield each document."""
    pool, remaining, done = WorkerPool(), iter(jobs), SimpleQueue[Future[dict[str, Any]]]()
    with ThreadPoolExecutor(workers, thread_name_prefix="layoutscope batch") as threads:

        def submit(most: int) -> int:
            chosen = list(islice(remaining, most))
            for job in chosen:
                threads.submit(attempt, job, pool).add_done_callback(done.put)
            return len(chosen)

        try:
            num_waiting = submit(2 * workers)  # a few at a time, so finished documents do not pile up in memory
            while num_waiting:
                document = done.get().result()
                num_waiting += submit(1) - 1
                yield document
        finally:
            threads.shutdown(wait=False, cancel_futures=True)
            pool.end()


LOCAL_CLUSTER: Final = "local"
"""The address that stands for a cluster started on this machine for the batch."""

MAX_LOSSES: Final = 20
"""A source that lost this many workers has failed; Dask itself retries a few times for each loss."""

WAITING_PER_WORKER: Final = 4
"""Tasks submitted to the scheduler per thread of its workers."""

CONNECT_S: Final = 15
STOP_S: Final = 10.0

_POOL_LOCK = threading.Lock()


@cache
def _pool() -> WorkerPool:
    """Return the worker processes of this Dask worker."""
    pool = WorkerPool()
    atexit.register(pool.end)
    return pool


def attempt_on_dask_worker(job: FleetJob, version: str) -> dict[str, Any]:
    """Read a source on a Dask worker."""
    if version != __version__:
        words = f"a worker has layoutscope {__version__}, and the batch is of {version}"
        return row_document(job, outcome("failed", EXIT_FAILED, words))
    with _POOL_LOCK:
        pool = _pool()
    if not job.memory_bytes:
        from distributed import get_worker

        worker = get_worker()
        memory_bytes = default_memory_bytes(worker.state.nthreads, worker.memory_manager.memory_limit)
        job = replace(job, memory_bytes=memory_bytes)
    return {name: item for name, item in attempt(job, pool).items() if not isinstance(item, list)}


def require_dask(*, has_dashboard: bool) -> None:
    """Raise if a package that a cluster needs is missing."""
    from importlib.util import find_spec

    packages = [("distributed", "a cluster", install_command("fleet"))]
    packages += [("bokeh", "Dask's page", "pip install bokeh")] if has_dashboard else []
    for package, user, advice in packages:
        if find_spec(package) is None:
            raise UnsupportedError(f"{user} needs the package {package}", code="fleet-missing", advice=advice)


def read_by_scheduler(
    jobs: Sequence[FleetJob], address: str, workers: int, *, has_dashboard: bool
) -> Iterator[dict[str, Any]]:
    """Run jobs on the workers of a scheduler, or on a number of local workers; yield each document when it is ready."""
    from distributed import Client
    from distributed.comm.core import CommClosedError

    with ExitStack() as stack:
        stack.enter_context(_silence_dask())
        if address == LOCAL_CLUSTER:
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
    """Start a scheduler in this process, and workers as separate programs, which do not load the caller's script."""
    from distributed import LocalCluster

    page = ":0" if has_dashboard else None
    with LocalCluster(
        n_workers=0, processes=False, protocol="tcp://", dashboard_address=page, silence_logs=logging.CRITICAL
    ) as scheduler:
        address: str = scheduler.scheduler_address
        command = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--nthreads", "1"]
        command += ["--memory-limit", "0", "--no-dashboard", "--death-timeout", str(4 * CONNECT_S)]
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        processes: list[subprocess.Popen[bytes]] = []
        try:
            processes += [subprocess.Popen(command, **streams) for _ in range(workers)]  # type: ignore[call-overload]  # noqa: S603
            yield address
        finally:
            for each in processes:
                each.terminate()
            for each in processes:
                with suppress(subprocess.TimeoutExpired):
                    each.wait(STOP_S)
                each.kill()
                each.wait()


def _submit_all(link: Any, jobs: Sequence[FleetJob]) -> Iterator[dict[str, Any]]:
    """Submit a few jobs at a time, and again those lost with their worker; yield each document."""
    from distributed import KilledWorker, as_completed

    remaining = iter(jobs)
    under_way: dict[Any, tuple[FleetJob, int]] = {}
    done = as_completed([], loop=link.loop, raise_errors=False)

    def submit(job: FleetJob, losses: int) -> None:
        future = link.submit(attempt_on_dask_worker, job, __version__, pure=False)
        under_way[future] = job, losses
        done.add(future)

    while True:
        threads = max(1, sum(link.nthreads().values()))
        for job in islice(remaining, max(0, WAITING_PER_WORKER * threads - len(under_way))):
            submit(job, 0)
        if not under_way:
            return
        future = next(done)
        job, losses = under_way.pop(future)
        error = future.exception() if future.status == "error" else None
        if future.status == "finished":
            yield future.result()
        elif error is not None and not isinstance(error, KilledWorker | OSError):
            words = f"its worker broke off: {type(error).__name__}: {error}".splitlines()[0]
            yield row_document(job, outcome("failed", EXIT_FAILED, words))
        elif losses + 1 < MAX_LOSSES:
            submit(job, losses + 1)  # the job was lost with its worker
        else:
            words = f"its workers were lost {MAX_LOSSES} times"
            yield row_document(job, outcome("failed", EXIT_FAILED, words))


@contextmanager
def _silence_dask() -> Iterator[None]:
    """Keep Dask's messages about lost workers from standard error: the batch reports them itself."""
    # Dask sets the levels of its child loggers when it is imported.
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

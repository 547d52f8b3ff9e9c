"""Who has the sources of a batch read: anything that calls :func:`~layoutscope.fleet.attempt.attempt` for each job.

An engine gives documents in the order in which they are ready. What it loses, such as a worker, it tries again itself;
a source that ends its process is no loss but a row. So a cluster of other machines has the same place as the processes
here.
"""

from __future__ import annotations

import os
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Protocol

from layoutscope.fleet.attempt import attempt
from layoutscope.fleet.readers import Readers
from layoutscope.system import machine_memory_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from layoutscope.fleet.jobs import FleetJob

USUAL_MEMORY_BYTES: Final = 2 * 1024**3
"""A process may have this much at least, or there are fewer of them."""

MEMORY_SHARE: Final = 0.8
"""So much of this machine's memory is shared out."""


class FleetEngine(Protocol):
    """Has jobs done."""

    def run(self, jobs: Sequence[FleetJob]) -> Iterator[dict[str, Any]]:
        """Yield the document of each job when it is done; ends all of them where nobody wants more."""


class LocalEngine:
    """So many processes on this machine; a thread here waits for each."""

    def __init__(self, workers: int) -> None:
        self._workers = workers

    def run(self, jobs: Sequence[FleetJob]) -> Iterator[dict[str, Any]]:
        """Yield the document of each job when it is done."""
        readers = Readers()
        with ThreadPoolExecutor(self._workers, thread_name_prefix="layoutscope batch") as pool:
            # A few at a time: what is done and was handed on is not kept.
            left = iter(jobs)
            begin = partial(pool.submit, partial(attempt, readers=readers))
            waiting = {begin(job) for job in islice(left, 2 * self._workers)}
            try:
                while waiting:
                    done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                    waiting |= {begin(job) for job in islice(left, len(done))}
                    for each in done:
                        yield each.result()
            finally:
                for each in waiting:
                    each.cancel()
                readers.end()


def usual_workers() -> int:
    """Return how many sources are read at a time unless told otherwise: one a core, as far as memory goes."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, int(machine_memory_bytes() * MEMORY_SHARE) // USUAL_MEMORY_BYTES))


def usual_memory_bytes(workers: int) -> int:
    """Return what each of so many processes may take unless told otherwise."""
    return max(USUAL_MEMORY_BYTES, int(machine_memory_bytes() * MEMORY_SHARE) // workers)

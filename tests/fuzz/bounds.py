"""Limits of a case: CPU seconds and bytes of memory, both enforced by the operating system."""

from __future__ import annotations

import contextlib
import re
import resource
import signal
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

CASE_SECONDS = 20.0
"""A sound case takes 0.1 s, fitting a drive to its log 4 s; no case has a reason to exceed the limit."""

CASE_BYTES = 1 << 30
"""In addition to the memory that the interpreter and its libraries have mapped when fuzzing begins."""


class OutOfTimeError(Exception):
    """A case exceeded its time limit."""


@contextlib.contextmanager
def limited_time(seconds: float = CASE_SECONDS) -> Iterator[None]:
    """Interrupt code after a limit of CPU time, so a busy machine causes no failure."""

    def stop(*_: object) -> None:
        raise OutOfTimeError(f"more than {seconds} s")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@contextlib.contextmanager
def strict_warnings() -> Iterator[None]:
    """Treat warnings of numpy and others as failures."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def limit_memory(further_bytes: int = CASE_BYTES) -> None:
    """Let allocations fail beyond the current mapping plus this many bytes; meant for a separate process."""
    status = Path("/proc/self/status")
    if not status.exists():
        return
    found = re.search(r"VmSize:\s+(\d+) kB", status.read_text())
    if found:
        limit = int(found[1]) * 1024 + further_bytes
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def peak_bytes() -> int:
    """Return the peak memory of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

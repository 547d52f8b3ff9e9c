"""What a case may cost: seconds of processor time and bytes of memory, both enforced by the operating system."""

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
"""A sound case takes a tenth of a second, a drive that is fitted to its log four; none has a reason to take longer."""

CASE_BYTES = 1 << 30
"""On top of what the interpreter and its libraries have mapped when fuzzing begins."""


class OutOfTimeError(Exception):
    """A case took longer than it may."""


@contextlib.contextmanager
def limited_time(seconds: float = CASE_SECONDS) -> Iterator[None]:
    """Interrupt what takes longer, in processor time, so that a busy machine fails nothing."""

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
    """Let warnings of numpy and others count as failures."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def limit_memory(further_bytes: int = CASE_BYTES) -> None:
    """Let allocations fail beyond what is mapped now and so many bytes more; for a process of its own."""
    status = Path("/proc/self/status")
    if not status.exists():
        return
    found = re.search(r"VmSize:\s+(\d+) kB", status.read_text())
    if found:
        limit = int(found[1]) * 1024 + further_bytes
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def peak_bytes() -> int:
    """Most memory that this process ever held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

"""Limits of the processes of a batch: what this machine allows, what one process may take, and what it took."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

USUAL_MEMORY_BYTES: Final = 2 * 1024**3
"""Least memory per process; with less memory there are fewer processes."""

MEMORY_SHARE: Final = 0.8
"""Share of this machine's memory that the processes may take together."""


def machine_memory_bytes() -> int:
    """Return the memory of this machine (Unix only)."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def default_workers() -> int:
    """Return how many sources are read at a time by default: one per core, as far as memory allows."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, int(machine_memory_bytes() * MEMORY_SHARE) // USUAL_MEMORY_BYTES))


def default_memory_bytes(workers: int, limit_bytes: int | None = None) -> int:
    """Return the default memory limit of each process: a share of a limit for all, or else of this machine."""
    return max(USUAL_MEMORY_BYTES, (limit_bytes or int(machine_memory_bytes() * MEMORY_SHARE)) // workers)


def limit_process(memory_bytes: int, written_bytes: int | None) -> None:
    """Set the resource limits of this process that the system supports."""
    try:
        import resource
    except ImportError:
        return
    for name, limit in {"AS": memory_bytes, "CORE": 0, "FSIZE": written_bytes}.items():
        with suppress(AttributeError, ValueError, OSError):
            kind = getattr(resource, f"RLIMIT_{name}")
            if limit is not None:
                resource.setrlimit(kind, (limit, limit))


def resident_bytes() -> int:
    """Return the resident memory of this process, or its peak if the system reports only that."""
    try:
        with open("/proc/self/statm", "rb") as file:  # noqa: PTH123
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        import resource

        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


RESET_PEAK: Final = "5"
"""The value for ``/proc/self/clear_refs`` that resets the peak, see proc(5)."""


def reset_peak_memory() -> None:
    """Begin a new peak; where the system cannot, the peak includes everything earlier."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text(RESET_PEAK, "utf-8")


def peak_memory_bytes() -> int | None:
    """Return the peak resident memory of this process; None if the system does not report it."""
    with suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/self/status").read_text("utf-8").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return None

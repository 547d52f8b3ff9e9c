"""What systems do in different ways: reading at a place, copies of a process, and how a part of this program starts."""

from __future__ import annotations

import os
import sys
import threading
from typing import Final

from layoutscope.errors import LayoutscopeError

OWN_PART: Final = "--own-part"
"""First word of the command line of an executable without Python, which then is one module of the package."""

_SEEKING: Final = threading.Lock()


def part(module: str, *words: str) -> list[str]:
    """Return the command that runs a module of this package; `words` are what Python is told where there is one."""
    return [sys.executable, OWN_PART, module] if getattr(sys, "frozen", False) else [sys.executable, *words]


def asked_part() -> str | None:
    """Return the module that this process is to be, in an executable without Python; None where it is the command."""
    is_part = getattr(sys, "frozen", False) and len(sys.argv) == 3 and sys.argv[1] == OWN_PART
    return sys.argv[2] if is_part and sys.argv[2].startswith("layoutscope.") else None


def pread_into(
    descriptor: int,
    offset: int,  # where from, in bytes
    target: memoryview,
) -> int:
    """Read at a place of an open file into a buffer."""
    if hasattr(os, "preadv"):
        return os.preadv(descriptor, (target,), offset)
    with _SEEKING:  # Windows, and macOS before 11: the file has one position, which threads share
        os.lseek(descriptor, offset, os.SEEK_SET)
        data = os.read(descriptor, len(target))
    target[: len(data)] = data
    return len(data)


def need_unix() -> None:
    """Refuse a batch on Windows, where there are no process groups and no pipes that can be polled."""
    if not hasattr(os, "killpg"):
        raise LayoutscopeError("a batch needs Unix: Linux, macOS or WSL")


def machine_memory_bytes() -> int:
    """Return the memory of this machine, which is a Unix."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def resident_bytes() -> int:
    """Return the memory of this machine that this process has now; its most so far where the system says no more."""
    try:
        with open("/proc/self/statm", "rb") as file:  # noqa: PTH123
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        import resource

        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit

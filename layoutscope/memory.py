"""Limits of this process's memory, and the line that reports a lack of it.

The functions at the end of the module start a part of this program, also from an executable with its own Python.
"""

from __future__ import annotations

import errno
import sys
import warnings
from contextlib import contextmanager

try:
    import resource
except ImportError:  # Windows has no such limits.
    resource = None  # type: ignore[assignment]

TYPE_CHECKING = False  # that of typing takes memory
if TYPE_CHECKING:
    from collections.abc import Iterator

OOM_WORDS = (
    "allocate memory", "memory allocation", "out of memory", "outofmemory", "not enough memory",
    "failed to map segment", "thread creation failed", "threadpoolbuilderror", "can't start new thread",
    "resource temporarily unavailable", "without setting an exception", "without exception set",
    "unsupported hash type", "polars binary is missing",
)  # fmt: skip
"""Lower-case messages of Python, its loader, and libraries in C and Rust that indicate a lack of memory.

A thread needs memory for its stack. Python loses an exception for which it has no memory; hashlib and polars continue
without modules that could not be loaded.
"""

GARBAGE_AFTER_OBJECTS = 100_000
"""Number of new objects before the garbage collector runs; Python's default is 700."""

OWN_PART = "--own-part"
"""First argument of an executable without Python that runs one module of the package."""

_CHAIN_LENGTH = 16
"""Number of causes of an error that are examined."""


def memory_limit() -> tuple[int, str] | None:
    """Return the limit of this process's memory, and the option of ``ulimit`` that sets it; None without a limit."""
    getrlimit = getattr(resource, "getrlimit", None)
    if getrlimit is None:
        return None
    known = (("RLIMIT_AS", "-v"), ("RLIMIT_DATA", "-d"))
    limits = [(getrlimit(getattr(resource, name))[0], way) for name, way in known if hasattr(resource, name)]
    return min((limit for limit in limits if limit[0] != resource.RLIM_INFINITY), default=None)


def is_out_of_memory(error: BaseException | None) -> bool:
    """Whether an error or one of its causes is a lack of memory; always False without a memory limit."""
    for _ in range(_CHAIN_LENGTH if memory_limit() else 0):
        if error is None:
            break
        if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
            return True
        # File names may contain the same words, so only errors of libraries with their own memory are searched.
        is_raised = isinstance(error, ImportError | RuntimeError | SystemError | Warning) or any(
            kind.__module__.startswith(("polars", "pyo3", "_duckdb", "duckdb")) for kind in type(error).__mro__
        )
        if is_raised and mentions_lack(str(error)):
            return True
        error = error.__cause__ or error.__context__
    return False


def mentions_lack(text: str) -> bool:
    """Whether the words of a library indicate a lack of memory."""
    return any(word in text.lower() for word in OOM_WORDS)


@contextmanager
def report_lack() -> Iterator[None]:
    """End with one line where memory is limited and runs out."""
    # polars goes on without its binary, and fails later for other reasons.
    warnings.filterwarnings("error", "Polars binary is missing")
    try:
        yield
    except BaseException as error:
        limit = memory_limit()
        if limit is None or not is_out_of_memory(error):
            raise
        sys.stderr.write(f"layoutscope: not enough memory: limited to {limit[0] >> 20:,} MiB (ulimit {limit[1]})\n")
        sys.exit(1)


def make_command(module: str, *words: str) -> list[str]:
    """Return the command that runs a module of this package; `words` are the arguments for Python."""
    return [sys.executable, OWN_PART, module] if getattr(sys, "frozen", False) else [sys.executable, *words]


def get_requested_module() -> str | None:
    """Return the module that an executable without Python should run; None for the command itself."""
    is_part = getattr(sys, "frozen", False) and len(sys.argv) == 3 and sys.argv[1] == OWN_PART
    return sys.argv[2] if is_part and sys.argv[2].startswith("layoutscope.") else None

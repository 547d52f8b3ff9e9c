"""One-line errors for lack of memory: if the address space is limited, the command runs in a child process.

Without memory, a process may end without running any more Python code: a library in C or Rust calls ``abort``, or the
stack cannot grow. Therefore, the parent process waits and prints the line. It has the same limit and loads very little.
Both are in one process group, so signals of a terminal (Ctrl-C, Ctrl-Z) reach both, and the parent forwards signals
that it alone receives. Without a limit (``ulimit -v``, ``ulimit -d``), the program runs in one process.

A process that ends in this way does not remove its temporary files. It records their paths, and the parent removes the
remaining ones.

The functions at the end of the module start a part of this program, also from an executable with its own Python.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
from contextlib import contextmanager

try:
    import resource
except ImportError:  # Windows has no such limits.
    resource = None  # type: ignore[assignment]

TYPE_CHECKING = False  # that of typing takes memory
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType
    from typing import TextIO

NO_MEMORY = 86
"""Exit code by which the child reports a lack of memory to the parent; it is not visible outside."""

FORWARDED_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")

OOM_SIGNALS = ("SIGABRT", "SIGSEGV", "SIGBUS", "SIGILL", "SIGTRAP", "SIGKILL")
"""Signals that end a process without memory: from its libraries, for lack of stack, or from the system."""

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

_NOISE_BYTES = 1 << 16


class HeldErrors:
    """Standard error of a process with limited memory, which holds back the output of libraries until the end.

    If memory runs out, one line replaces this output; otherwise it is printed.
    """

    def __init__(self, stream: TextIO) -> None:
        self.stream, self.text = stream, ""
        self.encoding, self.errors = stream.encoding, stream.errors
        self.isatty, self.fileno, self.flush = stream.isatty, stream.fileno, stream.flush

    def write(self, text: str) -> int:
        """Print lines of the program, and hold back others."""
        if text.startswith("layoutscope: "):
            return self.stream.write(text)
        self.text = (self.text + text)[:_NOISE_BYTES]
        return len(text)

    def mentions_lack(self) -> bool:
        """Whether the output that was held back mentions a lack of memory."""
        return _mentions_lack(self.text)


class _OutOfMemory:
    """State of this process: whether its memory is limited, and whether a thread ran out of memory."""

    is_limited = False
    was_seen = False


def terminal() -> TextIO:
    """Return the real standard error, for drawing on a terminal."""
    return sys.stderr.stream if isinstance(sys.stderr, HeldErrors) else sys.stderr


def memory_limit() -> tuple[int, str] | None:
    """Return the limit of this process's memory, and the option of ``ulimit`` that sets it; None without a limit."""
    if resource is None or not hasattr(os, "memfd_create") or not hasattr(signal, "sigwaitinfo"):
        return None
    known = (("RLIMIT_AS", "-v"), ("RLIMIT_DATA", "-d"))
    limits = [(resource.getrlimit(getattr(resource, name))[0], way) for name, way in known if hasattr(resource, name)]
    return min((limit for limit in limits if limit[0] != resource.RLIM_INFINITY), default=None)


def is_out_of_memory(error: BaseException | None) -> bool:
    """Whether an error or one of its causes is a lack of memory; always False without a memory limit."""
    for _ in range(_CHAIN_LENGTH if _OutOfMemory.is_limited else 0):
        if error is None:
            break
        if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
            return True
        # File names may contain the same words, so only errors of libraries are searched.
        is_raised = isinstance(error, ImportError | RuntimeError | SystemError) or _is_from_library(error)
        if is_raised and _mentions_lack(str(error)):
            return True
        error = error.__cause__ or error.__context__
    return False


def _mentions_lack(text: str) -> bool:
    return any(word in text.lower() for word in OOM_WORDS)


def _is_from_library(error: BaseException) -> bool:
    """Whether an error comes from a library with its own memory management: polars, Rust or DuckDB."""
    return any(kind.__module__.startswith(("polars", "pyo3", "_duckdb", "duckdb")) for kind in type(error).__mro__)


def _is_from_loading(error: BaseException) -> bool:
    """Whether an error was raised while an existing module was loaded.

    Without memory, compiling a module raises arbitrary errors, such as "field 'target' is required for AnnAssign".
    """
    at, is_loading = error.__traceback__, False
    while at is not None:
        is_loading |= at.tb_frame.f_code.co_name == "<module>" or (at.tb_next is None and _is_import(at))
        at = at.tb_next
    return is_loading and not isinstance(error, ModuleNotFoundError)


def _is_import(at: TracebackType) -> bool:
    """Whether an error was raised by an import statement, which is the last frame if loading fails."""
    try:
        with open(at.tb_frame.f_code.co_filename, encoding="utf-8") as file:  # noqa: PTH123  (pathlib takes memory)
            line = file.read().split("\n")[at.tb_lineno - 1]
    except (OSError, ValueError, IndexError, MemoryError):
        return False
    return line.strip().startswith(("import ", "from "))


@contextmanager
def run_in_child() -> Iterator[None]:
    """Run a command in a child process if memory is limited; the parent ends here with the child's exit code."""
    limit = memory_limit()
    if limit is None:
        yield
        return
    line = f"layoutscope: not enough memory: limited to {limit[0] >> 20:,} MiB (ulimit {limit[1]})"
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        waited = [getattr(signal, name) for name in FORWARDED_SIGNALS] + [signal.SIGCHLD]
        before = signal.pthread_sigmask(signal.SIG_BLOCK, waited)
        noise_pipe, code_pipe, parent = os.pipe(), os.pipe(), os.getpid()
        temporary_record = os.memfd_create("layoutscope temporary files")
        child = os.fork()
    except (MemoryError, OSError):
        _print_line(line)
        sys.exit(1)
    if child:
        os.close(noise_pipe[1])
        os.close(code_pipe[1])
        status = _wait_for_child(child, waited)
        recorded = _read_pipe(code_pipe[0])
        if recorded in (b"", bytes([NO_MEMORY])):
            _remove_temporary(temporary_record)
        _end_like_child(status, recorded, _read_pipe(noise_pipe[0]), line)
    code = NO_MEMORY
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        _record_temporary(temporary_record)
        held_errors = _hold_standard_error(noise_pipe[1], parent)
        code = 0
        try:
            yield
        except SystemExit as ended:
            if ended.code is None or isinstance(ended.code, int):
                code = ended.code or 0
            else:
                sys.stderr.write(f"{ended.code}\n")
                code = 1
        except BaseException as error:  # noqa: BLE001  (a panic of polars' core derives from nothing else)
            code = 1
            if is_out_of_memory(error) or held_errors.mentions_lack() or _is_from_loading(error):
                code = NO_MEMORY
            else:
                sys.stderr = held_errors.stream
                sys.excepthook(type(error), error, error.__traceback__)
        code = _finish_output(code, held_errors)
    except BaseException:  # noqa: BLE001  (memory is still lacking)
        code = NO_MEMORY
    finally:
        # A process that a library ends does not record a code.
        os.write(code_pipe[1], bytes([code]))
        os._exit(code)


def _hold_standard_error(into: int, parent: int) -> HeldErrors:
    """Hold back the output on standard error, in the child process.

    Direct output of libraries goes into a pipe that is not read before the end: 64 KiB are kept, and the rest is lost.
    """
    _OutOfMemory.is_limited = True
    end_with_parent(parent)
    real_stderr = os.dup(2)
    os.dup2(into, 2)
    os.set_blocking(2, False)
    os.close(into)
    stream = open(real_stderr, "w", encoding=sys.stderr.encoding, errors="backslashreplace", buffering=1)  # noqa: SIM115, PTH123
    held_errors = HeldErrors(stream)
    sys.stderr = held_errors
    sys.unraisablehook = _note_error
    import threading

    threading.excepthook = _note_error
    return held_errors


def _finish_output(code: int, held_errors: HeldErrors) -> int:
    """Print the output that was held back, unless memory ran out; return the exit code."""
    # The exit functions remove temporary files; no other part of the interpreter's shutdown is needed.
    import atexit

    atexit._run_exitfuncs()  # noqa: SLF001  (as the interpreter does at its end)
    if _OutOfMemory.was_seen:
        code = NO_MEMORY
    try:
        if code != NO_MEMORY and not held_errors.mentions_lack():
            held_errors.stream.write(held_errors.text)
        sys.stdout.flush()
    except OSError:
        code = code or 1
    return code


def _record_temporary(into: int) -> None:
    """Record each temporary file and folder of this process before it is made."""

    def record(event: str, arguments: tuple[object, ...]) -> None:
        if event in ("tempfile.mkstemp", "tempfile.mkdtemp"):
            os.write(into, os.fsencode(os.path.abspath(str(arguments[0]))) + b"\0")  # noqa: PTH100  (pathlib takes memory)

    sys.addaudithook(record)


def _remove_temporary(record: int) -> None:
    """Remove the temporary files and folders that a process left behind."""
    paths = os.pread(record, os.fstat(record).st_size, 0)
    if not paths:
        return
    from layoutscope.errors import OutputError
    from layoutscope.ownfiles import remove_temporary

    for path in paths.split(b"\0")[:-1]:
        try:
            remove_temporary(path)
        except FileNotFoundError:
            continue  # the process has renamed or removed it
        except (OSError, OutputError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            _print_line(f"layoutscope: {os.fsdecode(path)}: is left: {reason.lower()}")


def _note_error(event: object) -> None:
    """Note an error in a thread, or one that cannot be raised, because results may be incomplete after it."""
    error = getattr(event, "exc_value", None)
    if error is None or is_out_of_memory(error):
        _OutOfMemory.was_seen = True
    elif hasattr(event, "thread"):
        import threading

        threading.__excepthook__(event)  # type: ignore[arg-type]
    else:
        sys.__unraisablehook__(event)  # type: ignore[arg-type]


def end_with_parent(parent: int) -> None:
    """Have the system kill this process when its parent is killed."""
    set_death_signal = 1
    try:
        import ctypes

        ctypes.CDLL(None).prctl(set_death_signal, int(signal.SIGKILL))
    except (ImportError, OSError, AttributeError):
        return
    if os.getppid() != parent:
        os._exit(1)


def _wait_for_child(child: int, waited: list[signal.Signals]) -> int:
    """Wait for the end of a process and forward signals; return its status."""
    while True:
        received = signal.sigwaitinfo(waited)
        if received.si_signo == signal.SIGCHLD:
            pid, status = os.waitpid(child, os.WNOHANG)
            if pid:
                return status
        elif received.si_code <= 0:  # sent by a process; signals of the terminal reach the whole group
            os.kill(child, received.si_signo)


def _read_pipe(noise: int) -> bytes:
    """Read a pipe without waiting for processes that still have its other end open."""
    os.set_blocking(noise, False)
    try:
        return os.read(noise, _NOISE_BYTES)
    except OSError:
        return b""


def _end_like_child(
    status: int,
    code: bytes,  # the exit code that it recorded; empty if a library or the system ended it
    noise: bytes,
    line: str,
) -> None:
    """End this process like the command."""
    ended_by = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    name = signal.Signals(ended_by).name if ended_by else ""
    lacks = _mentions_lack(noise.decode(errors="replace"))
    if name in OOM_SIGNALS or code == bytes([NO_MEMORY]) or (not code and lacks):
        _print_line(line if lacks or not name else f"{line}; {name} ended the work")
        sys.exit(1)
    if not lacks:
        os.write(2, noise)
    if ended_by:
        signal.signal(ended_by, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [ended_by])
        os.kill(os.getpid(), ended_by)
    sys.exit(os.waitstatus_to_exitcode(status))


def _print_line(line: str) -> None:
    """Write a line on standard error, replacing the progress line."""
    lead = "\r\x1b[K" if os.isatty(2) and os.environ.get("TERM", "dumb") not in ("dumb", "unknown") else ""
    try:
        os.write(2, f"{lead}{line}\n".encode())
    except OSError:
        return


def make_command(module: str, *words: str) -> list[str]:
    """Return the command that runs a module of this package; `words` are the arguments for Python."""
    return [sys.executable, OWN_PART, module] if getattr(sys, "frozen", False) else [sys.executable, *words]


def get_requested_module() -> str | None:
    """Return the module that an executable without Python should run; None for the command itself."""
    is_part = getattr(sys, "frozen", False) and len(sys.argv) == 3 and sys.argv[1] == OWN_PART
    return sys.argv[2] if is_part and sys.argv[2].startswith("layoutscope.") else None

"""Too little memory ends in one line: where the address space is limited, the command runs in a process of its own.

Without memory a process may end where no line of Python runs any more: a library in C or Rust calls ``abort``, or the
stack cannot grow. So a second process waits and prints the line. It has the same limit and loads next to nothing. Both
are in one process group: what a terminal sends (Ctrl-C, Ctrl-Z) reaches both, and the waiting process passes on what
was sent to it alone. Without a limit (``ulimit -v``, ``ulimit -d``) the program runs in one process.

A process that ends in this way removes none of its temporary files. It records where it makes them, and the waiting
process removes those that are left.

The end of the module starts a part of this program, also from an executable that brings its own Python.
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
"""How the process that works says so to the one that waits; nobody else sees it."""

PASSED_ON = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")

OOM_SIGNALS = ("SIGABRT", "SIGSEGV", "SIGBUS", "SIGILL", "SIGTRAP", "SIGKILL")
"""What ends a process that gets no memory: by its libraries, for want of a stack, or by the system."""

OOM_WORDS = (
    "allocate memory", "memory allocation", "out of memory", "outofmemory", "not enough memory",
    "failed to map segment", "thread creation failed", "threadpoolbuilderror", "can't start new thread",
    "resource temporarily unavailable", "without setting an exception", "without exception set",
    "unsupported hash type", "polars binary is missing",
)  # fmt: skip
"""In what Python, its loader of libraries and libraries in C and Rust say, in small letters: memory is what they lack.

A thread needs room for its stack. Python forgets the exception where it has no memory for it; hashlib and polars go on
without what could not be loaded.
"""

GARBAGE_AFTER_OBJECTS = 100_000
"""As many objects are made before those that hold each other are looked for; Python's own number is 700."""

OWN_PART = "--own-part"
"""First word of the command line of an executable without Python, which then is one module of the package."""

_CHAIN = 16
"""So many causes of an error are looked at."""

_NOISE_BYTES = 1 << 16


class HeldErrors:
    """Standard error of a process whose memory is limited: what libraries say there is held back until the end.

    If memory ran out, pages of such text are dropped in favour of one line; otherwise they are printed.
    """

    def __init__(self, stream: TextIO) -> None:
        self.stream, self.text = stream, ""
        self.encoding, self.errors = stream.encoding, stream.errors
        self.isatty, self.fileno, self.flush = stream.isatty, stream.fileno, stream.flush

    def write(self, text: str) -> int:
        """Print what the program says, and keep what others say."""
        if text.startswith("layoutscope: "):
            return self.stream.write(text)
        self.text = (self.text + text)[:_NOISE_BYTES]
        return len(text)

    def says_lack(self) -> bool:
        """Whether anybody said that there is too little memory."""
        return _says_lack(self.text)


class _OutOfMemory:
    """What is known of this process: whether its memory is limited, and whether a thread had too little of it."""

    is_limited = False
    was_seen = False


def terminal() -> TextIO:
    """Return standard error itself, for what is drawn there."""
    return sys.stderr.stream if isinstance(sys.stderr, HeldErrors) else sys.stderr


def memory_limit() -> tuple[int, str] | None:
    """Return how much memory this process may map, and the option of ``ulimit`` that says so; None without a limit."""
    if resource is None or not hasattr(os, "memfd_create") or not hasattr(signal, "sigwaitinfo"):
        return None
    known = (("RLIMIT_AS", "-v"), ("RLIMIT_DATA", "-d"))
    limits = [(resource.getrlimit(getattr(resource, name))[0], way) for name, way in known if hasattr(resource, name)]
    return min((limit for limit in limits if limit[0] != resource.RLIM_INFINITY), default=None)


def lacks_memory(error: BaseException | None) -> bool:
    """Whether an error came of too little memory, here or in what it came from; only where memory is limited."""
    for _ in range(_CHAIN if _OutOfMemory.is_limited else 0):
        if error is None:
            break
        if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
            return True
        # Names of files say nothing: only what libraries raise is looked at for words.
        is_raised = isinstance(error, ImportError | RuntimeError | SystemError) or _is_of_library(error)
        if is_raised and _says_lack(str(error)):
            return True
        error = error.__cause__ or error.__context__
    return False


def _says_lack(text: str) -> bool:
    return any(word in text.lower() for word in OOM_WORDS)


def _is_of_library(error: BaseException) -> bool:
    """Whether an error is of a library with memory of its own: of polars and Rust, or of DuckDB."""
    return any(kind.__module__.startswith(("polars", "pyo3", "_duckdb", "duckdb")) for kind in type(error).__mro__)


def _is_of_loading(error: BaseException) -> bool:
    """Whether an error came while a module was loaded that is there.

    Without memory for that, compiling raises whatever comes: "field 'target' is required for AnnAssign".
    """
    at, is_loading = error.__traceback__, False
    while at is not None:
        is_loading |= at.tb_frame.f_code.co_name == "<module>" or (at.tb_next is None and _is_import(at))
        at = at.tb_next
    return is_loading and not isinstance(error, ModuleNotFoundError)


def _is_import(at: TracebackType) -> bool:
    """Whether an error came from a statement that imports: where loading fails, Python shows no more than that."""
    try:
        with open(at.tb_frame.f_code.co_filename, encoding="utf-8") as file:  # noqa: PTH123  (pathlib takes memory)
            line = file.read().split("\n")[at.tb_lineno - 1]
    except (OSError, ValueError, IndexError, MemoryError):
        return False
    return line.strip().startswith(("import ", "from "))


@contextmanager
def own_process() -> Iterator[None]:
    """Run a command in a process of its own where memory is limited; the process that began ends here with its code."""
    limit = memory_limit()
    if limit is None:
        yield
        return
    line = f"layoutscope: not enough memory: limited to {limit[0] >> 20:,} MiB (ulimit {limit[1]})"
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        waited = [getattr(signal, name) for name in PASSED_ON] + [signal.SIGCHLD]
        before = signal.pthread_sigmask(signal.SIG_BLOCK, waited)
        noise, codes, parent = os.pipe(), os.pipe(), os.getpid()
        made = os.memfd_create("layoutscope temporary files")
        child = os.fork()
    except (MemoryError, OSError):
        _print_line(line)
        sys.exit(1)
    if child:
        os.close(noise[1])
        os.close(codes[1])
        status = _wait(child, waited)
        recorded = _read(codes[0])
        if recorded in (b"", bytes([NO_MEMORY])):
            _remove_temporary(made)
        _end(status, recorded, _read(noise[0]), line)
    code = NO_MEMORY
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        _record_temporary(made)
        held = _hold_standard_error(noise[1], parent)
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
            if lacks_memory(error) or held.says_lack() or _is_of_loading(error):
                code = NO_MEMORY
            else:
                sys.stderr = held.stream
                sys.excepthook(type(error), error, error.__traceback__)
        code = _finish(code, held)
    except BaseException:  # noqa: BLE001  (of memory that is lacking to the end)
        code = NO_MEMORY
    finally:
        # A process that a library ends by itself records no code here.
        os.write(codes[1], bytes([code]))
        os._exit(code)


def _hold_standard_error(into: int, parent: int) -> HeldErrors:
    """Hold back what is printed on standard error, in the process that works.

    What libraries write there by themselves goes into a pipe that nobody empties: 64 KiB are kept, the rest is lost.
    """
    _OutOfMemory.is_limited = True
    end_with(parent)
    said = os.dup(2)
    os.dup2(into, 2)
    os.set_blocking(2, False)
    os.close(into)
    stream = open(said, "w", encoding=sys.stderr.encoding, errors="backslashreplace", buffering=1)  # noqa: SIM115, PTH123
    held = HeldErrors(stream)
    sys.stderr = held
    sys.unraisablehook = _note_error
    import threading

    threading.excepthook = _note_error
    return held


def _finish(code: int, held: HeldErrors) -> int:
    """Print what was held back, unless memory was lacking; return the exit code."""
    # What holds temporary files gives them up here; nothing else of the interpreter's end is needed.
    import atexit

    atexit._run_exitfuncs()  # noqa: SLF001  (as the interpreter does at its end)
    if _OutOfMemory.was_seen:
        code = NO_MEMORY
    try:
        if code != NO_MEMORY and not held.says_lack():
            held.stream.write(held.text)
        sys.stdout.flush()
    except OSError:
        code = code or 1
    return code


def _record_temporary(into: int) -> None:
    """Record each temporary file and folder of this process before it is made."""

    def hear(event: str, arguments: tuple[object, ...]) -> None:
        if event in ("tempfile.mkstemp", "tempfile.mkdtemp"):
            os.write(into, os.fsencode(os.path.abspath(str(arguments[0]))) + b"\0")  # noqa: PTH100  (pathlib takes memory)

    sys.addaudithook(hear)


def _remove_temporary(record: int) -> None:
    """Remove the temporary files and folders that a process has left."""
    recorded = os.pread(record, os.fstat(record).st_size, 0)
    if not recorded:
        return
    from layoutscope.errors import OutputError
    from layoutscope.ownfiles import remove_temporary

    for path in recorded.split(b"\0")[:-1]:
        try:
            remove_temporary(path)
        except FileNotFoundError:
            continue  # the process has moved it to its place, or has removed it itself
        except (OSError, OutputError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            _print_line(f"layoutscope: {os.fsdecode(path)}: is left: {reason.lower()}")


def _note_error(raised: object) -> None:
    """Take note of an error in a thread, or where none can be raised: what came of it may lack something."""
    error = getattr(raised, "exc_value", None)
    if error is None or lacks_memory(error):
        _OutOfMemory.was_seen = True
    elif hasattr(raised, "thread"):
        import threading

        threading.__excepthook__(raised)  # type: ignore[arg-type]
    else:
        sys.__unraisablehook__(raised)  # type: ignore[arg-type]


def end_with(parent: int) -> None:
    """Have the system end this process when the one that waits was killed, as if they were one."""
    set_death_signal = 1
    try:
        import ctypes

        ctypes.CDLL(None).prctl(set_death_signal, int(signal.SIGKILL))
    except (ImportError, OSError, AttributeError):
        return
    if os.getppid() != parent:
        os._exit(1)


def _wait(child: int, waited: list[signal.Signals]) -> int:
    """Wait for the end of a process and pass signals on; return its status."""
    while True:
        came = signal.sigwaitinfo(waited)
        if came.si_signo == signal.SIGCHLD:
            pid, status = os.waitpid(child, os.WNOHANG)
            if pid:
                return status
        elif came.si_code <= 0:  # of a process; those of the terminal go to the whole group
            os.kill(child, came.si_signo)


def _read(noise: int) -> bytes:
    """Return what libraries said, without waiting for those who hold the other end still."""
    os.set_blocking(noise, False)
    try:
        return os.read(noise, _NOISE_BYTES)
    except OSError:
        return b""


def _end(
    status: int,
    code: bytes,  # its exit code as it said itself; empty where a library, or the system, ended it
    noise: bytes,
    line: str,
) -> None:
    """End as the command did."""
    ended_by = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    name = signal.Signals(ended_by).name if ended_by else ""
    says_lack = _says_lack(noise.decode(errors="replace"))
    if name in OOM_SIGNALS or code == bytes([NO_MEMORY]) or (not code and says_lack):
        _print_line(line if says_lack or not name else f"{line}; {name} ended the work")
        sys.exit(1)
    if not says_lack:
        os.write(2, noise)
    if ended_by:
        signal.signal(ended_by, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [ended_by])
        os.kill(os.getpid(), ended_by)
    sys.exit(os.waitstatus_to_exitcode(status))


def _print_line(line: str) -> None:
    """Write a line on standard error, in the place of the progress line."""
    lead = "\r\x1b[K" if os.isatty(2) and os.environ.get("TERM", "dumb") not in ("dumb", "unknown") else ""
    try:
        os.write(2, f"{lead}{line}\n".encode())
    except OSError:
        return


def command_of(module: str, *words: str) -> list[str]:
    """Return the command that runs a module of this package; Python, where there is one, gets `words`."""
    return [sys.executable, OWN_PART, module] if getattr(sys, "frozen", False) else [sys.executable, *words]


def requested_part() -> str | None:
    """Return the module that an executable without Python is to run; None where it is to run the command."""
    is_part = getattr(sys, "frozen", False) and len(sys.argv) == 3 and sys.argv[1] == OWN_PART
    return sys.argv[2] if is_part and sys.argv[2].startswith("layoutscope.") else None

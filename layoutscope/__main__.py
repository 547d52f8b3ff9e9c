"""``python -m layoutscope``, and the installed command."""

from __future__ import annotations

import sys

try:
    import gc
    import os
    import signal
    import weakref
    from contextlib import contextmanager, suppress

    from layoutscope import memory
    from layoutscope.errors import EXIT_INTERRUPTED
except KeyboardInterrupt:
    sys.stderr.write("layoutscope: interrupted\n")
    sys.exit(130)  # EXIT_INTERRUPTED, whose module may be the one that was being loaded

TYPE_CHECKING = False  # that of typing takes memory
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType
    from typing import NoReturn

ENDING = ("SIGTERM", "SIGHUP", "SIGXCPU")
"""What asks a process to end: a service manager, a terminal that is gone, and the system when its time is used up."""


class Ended(SystemExit):
    """A signal asks this process to end: whatever tidies up on the way out does so, as at Ctrl-C."""

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)  # as shells report it
        self.args = (f"ended by {signal.Signals(number).name}",)


def raise_signals() -> None:
    """Raise signals that ask this process to end in the main thread; those that are ignored (``nohup``) stay so."""
    raised: list[weakref.ref[Ended]] = []

    def end(number: int, _: FrameType | None) -> None:
        # ``timeout`` sends its signal twice, to the process and to its group. One that is on its way out already is not
        # interrupted; one that a library has swallowed is raised again.
        if raised and raised[-1]() is not None:
            return
        error = Ended(number)
        raised[:] = [weakref.ref(error)]
        raise error

    for name in ENDING:
        if hasattr(signal, name) and signal.getsignal(getattr(signal, name)) is signal.SIG_DFL:
            signal.signal(getattr(signal, name), end)


def open_closed_streams() -> None:
    """Put something in the place of standard streams that were closed before the start (``>&-``).

    The next file that is opened gets the lowest free number, which would make the image the standard output. What is
    written to a closed output fails, as it should; messages to a closed standard error are lost.
    """
    for number, way in enumerate((os.O_RDONLY, os.O_RDONLY, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, way)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "w" if number else "r", encoding="utf-8", closefd=False))  # noqa: SIM115


def main() -> None:
    """Run the command line; the exit codes are those of docs/images.md."""
    try:
        open_closed_streams()
        if (module := memory.get_requested_module()) is not None:
            import runpy

            runpy.run_module(module, run_name="__main__", alter_sys=True)
            return
        with memory.report_lack(), ends_as_exit_codes():
            from layoutscope.cli import app
            from layoutscope.cli.running import errors_as_exit_codes, refuse_disks

            with errors_as_exit_codes():
                refuse_disks()
            app()
    except KeyboardInterrupt:
        end_interrupted()


def end_interrupted() -> NoReturn:
    """End as Ctrl-C asks for, with one line."""
    with suppress(OSError):
        sys.stderr.write("layoutscope: interrupted\n")
    sys.exit(EXIT_INTERRUPTED)


@contextmanager
def ends_as_exit_codes() -> Iterator[None]:
    """Run the command in this process, which ends with it: by itself, interrupted, or by another signal."""
    # numpy starts a thread for each processor, which wait for matrices that nothing here multiplies.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Loading modules makes many objects and no garbage; looking through all of them again and again is for nothing.
    gc.set_threshold(memory.GARBAGE_AFTER_OBJECTS)
    try:
        try:
            raise_signals()
            yield
        except Ended as ended:
            with suppress(OSError):  # the terminal may be what has gone
                sys.stderr.write(f"layoutscope: {ended}\n")
            raise
        except KeyboardInterrupt:
            end_interrupted()
        except SystemExit as ended:
            if ended.code == EXIT_INTERRUPTED:
                end_interrupted()
            raise
        finally:
            # The exit code is settled: a signal while threads are joined has nothing to interrupt but a traceback.
            for name in ("SIGINT", *ENDING):
                if hasattr(signal, name):
                    signal.signal(getattr(signal, name), signal.SIG_IGN)
            # All memory is given back at once: no circle in it need be looked for. DuckDB reports its own errors.
            if "duckdb" not in sys.modules:
                gc.freeze()
    except SystemExit as ended:
        queries = sys.modules.get("layoutscope.fleet.query")
        if queries is not None and queries.is_working():  # DuckDB goes on although it was interrupted
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(ended.code if isinstance(ended.code, int) else 1)
        raise


if __name__ == "__main__":
    main()

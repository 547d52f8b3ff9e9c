"""``python -m layoutscope``, and the installed command."""

from __future__ import annotations

import gc
import os
import signal
import sys

from layoutscope import bounded, system


def open_closed_streams() -> None:
    """Put something in the place of standard streams that were closed before the start (``>&-``).

    The next file that is opened gets the lowest free number, which would make the image the standard output. What is
    written to a closed output fails, as it should; what is said on a closed standard error is lost.
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
    """Run the command line; the exit codes are those of docs/using.md."""
    open_closed_streams()
    if (module := system.asked_part()) is None:
        bounded.run(work)
    else:
        import runpy

        runpy.run_module(module, run_name="__main__", alter_sys=True)


def work() -> None:
    """Run the command itself."""
    # numpy starts a thread for each processor, which wait for matrices that nothing here multiplies.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Loading modules makes many objects and no garbage; looking through all of them again and again is for nothing.
    gc.set_threshold(bounded.GARBAGE_AFTER_OBJECTS)
    try:
        from layoutscope.cli import app

        app()
    except KeyboardInterrupt:
        from layoutscope.errors import EXIT_INTERRUPTED

        sys.exit(EXIT_INTERRUPTED)
    finally:
        # The exit code is settled: Ctrl-C while threads are joined has nothing to interrupt but a traceback.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        # All memory is given back at once: no circle in it need be looked for. DuckDB tells of what is left to it.
        if "duckdb" not in sys.modules:
            gc.freeze()


if __name__ == "__main__":
    main()

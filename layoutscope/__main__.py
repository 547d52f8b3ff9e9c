"""``python -m layoutscope``, and the installed command."""

from __future__ import annotations

import signal
import sys


def main() -> None:
    """Run the command line; the exit codes are those of the README."""
    try:
        from layoutscope.cli import app

        app()
    except KeyboardInterrupt:
        sys.exit(130)
    finally:
        # The exit code is settled: Ctrl-C while threads are joined has nothing to interrupt but a traceback.
        signal.signal(signal.SIGINT, signal.SIG_IGN)


if __name__ == "__main__":
    main()

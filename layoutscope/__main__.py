"""``python -m layoutscope``, and the installed command."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; the exit codes are those of the README."""
    try:
        from layoutscope.cli import app

        app()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()

"""Peak memory of a command, independent of the memory of the process that starts it."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

# Linux gives a child the peak of the process that it was forked from, so a small process starts the command
# (getrusage(2)).
STARTER = """
import resource, subprocess, sys
code = subprocess.run(sys.argv[2:]).returncode
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
with open(sys.argv[1], "w") as file:
    print(code, peak * (1 if sys.platform == "darwin" else 1024), file=file)
"""


def run_measured(words: list[str], report: str, **options: Any) -> tuple[subprocess.CompletedProcess[Any], int]:
    """Run a command; return its ``subprocess.run`` result, and its peak memory in bytes from the report file."""
    done = subprocess.run([sys.executable, "-S", "-c", STARTER, report, *words], check=False, **options)
    with open(report) as file:  # noqa: PTH123
        code, peak = map(int, file.read().split())
    return subprocess.CompletedProcess(words, code, done.stdout, done.stderr), peak

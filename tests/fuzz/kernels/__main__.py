"""``python -m tests.fuzz.kernels --seconds 60``: fuzz each kernel this long; ``--record`` renews the corpus."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.fuzz.kernels.record import record
from tests.fuzz.kernels.targets import build, prototypes


def main() -> int:
    """Fuzz the kernels; return 1 if a sanitizer found something."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.kernels", description=__doc__)
    parser.add_argument("--kernel", choices=sorted(prototypes()), action="append", help="all without it")
    parser.add_argument("--seconds", type=float, default=60, help="for each kernel")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--folder", type=Path, default=Path(tempfile.gettempdir(), "fuzz-kernels"), help="for the program and its finds"
    )
    parser.add_argument("--record", action="store_true", help="write the corpus anew from the unit tests")
    given = parser.parse_args()
    if given.record:
        sys.stdout.write(f"{record()}\n")
        return 0
    given.folder.mkdir(parents=True, exist_ok=True)
    fuzzer, failed = build(given.folder), 0
    for kernel in given.kernel or prototypes():
        try:
            said = f"{kernel}: {fuzzer.run(kernel, given.seconds, given.seed):,} inputs\n"
        except subprocess.CalledProcessError as error:
            said, failed = f"{kernel}: failed; the input is in {given.folder}\n{error.stderr[-4000:]}", 1
        sys.stdout.write(said)
        sys.stdout.flush()
    return failed


if __name__ == "__main__":
    sys.exit(main())

"""Build the library: ``python -m layoutscope.native.build`` puts it where this checkout finds it.

Installation does so by itself (``hatch_build.py``); a checkout that runs without being installed, or whose C sources
changed since, is built by this command, or runs in plain Python. Needs a C compiler: that of ``CC``, cc, gcc, clang, or
the one in the package ``ziglang``.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from layoutscope.native.library import LIBRARY, SOURCES, digest

FLAGS: Final = ("-std=c11", "-O3", "-fPIC", "-shared", "-fvisibility=hidden", "-Wall", "-Wextra", "-Wpedantic")
SANITIZERS: Final = ("-g", "-fno-omit-frame-pointer", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")


def compiler() -> list[str]:
    """Return the command of a C compiler, empty where there is none."""
    named = shlex.split(os.environ.get("CC", ""))
    for command in (named, ["cc"], ["gcc"], ["clang"]):
        if command and shutil.which(command[0]):
            return command
    return [sys.executable, "-m", "ziglang", "cc"] if importlib.util.find_spec("ziglang") else []


def build(target: Path, *, sanitize: bool = False) -> None:
    """Compile the library."""
    command = compiler()
    if not command:
        raise FileNotFoundError("there is no C compiler: neither CC nor cc, gcc, clang, nor the package ziglang")
    flags = (*FLAGS, *(SANITIZERS if sanitize else ()), *shlex.split(os.environ.get("CFLAGS", "")))
    sources = (str(path) for path in sorted(SOURCES.glob("*.c")))
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        built = Path(scratch) / target.name
        around = {"ZIG_LOCAL_CACHE_DIR": scratch, "ZIG_GLOBAL_CACHE_DIR": scratch, **os.environ}
        define = f'-DSOURCES="{digest()}"'
        subprocess.run([*command, *flags, define, *sources, "-o", str(built)], check=True, env=around)  # noqa: S603
        built.replace(target)


def main() -> None:
    """Build the library where the package finds it, or elsewhere."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, default=LIBRARY)
    parser.add_argument("--sanitize", action="store_true", help="with AddressSanitizer and UndefinedBehaviorSanitizer")
    options = parser.parse_args()
    build(options.output, sanitize=options.sanitize)


if __name__ == "__main__":
    main()

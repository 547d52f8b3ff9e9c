"""Build the library: ``python -m layoutscope.structs.build`` puts it where this checkout finds it.

An installation builds it automatically (``hatch_build.py``). This command is for a checkout that runs without
installation, or whose C sources have changed. It needs a C compiler: that of ``CC``, cc, gcc, clang, or the one in the
package ``ziglang``, whichever first makes a library that Python can load.
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
from contextlib import suppress
from pathlib import Path
from typing import Final

from layoutscope.structs.native import LIBRARY, SOURCES, digest

FLAGS: Final = ("-std=c11", "-O3", "-fPIC", "-shared", "-fvisibility=hidden", "-Wall", "-Wextra", "-Wpedantic")
SANITIZERS: Final = ("-g", "-fno-omit-frame-pointer", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")

NO_COMPILER: Final = (
    "the C core cannot be built: no C compiler makes a library that this Python loads. Install gcc, clang, Apple's "
    "command line tools (xcode-select --install) or the package ziglang, or name another compiler in CC"
)

_PROOF: Final = (
    "#include <stdint.h>\n#include <string.h>\n#if defined(_WIN32)\n__declspec(dllexport)\n#else\n"
    '__attribute__((visibility("default")))\n#endif\nint64_t proof(void) { return (int64_t)strlen("proof"); }\n'
)
_LOAD: Final = "import ctypes, sys; sys.exit(ctypes.CDLL(sys.argv[1]).proof() != 5)"


def compiler() -> list[str]:
    """Return the command of the first C compiler that works here; empty if none does."""
    named = shlex.split(os.environ.get("CC", ""))
    found = [command for command in (named, ["cc"], ["gcc"], ["clang"]) if command and shutil.which(command[0])]
    if importlib.util.find_spec("ziglang"):
        found.append([sys.executable, "-m", "ziglang", "cc"])
    # A compiler for other machines fails, and so does Apple's placeholder without the command line tools.
    for command in found:
        with tempfile.TemporaryDirectory() as scratch:
            source, library = Path(scratch, "proof.c"), Path(scratch, LIBRARY.name)
            source.write_text(_PROOF, encoding="ascii")
            # In a separate process, because Windows cannot remove a loaded library.
            load = [sys.executable, "-c", _LOAD, str(library)]
            with suppress(OSError, subprocess.CalledProcessError):
                _compile(command, [str(source)], library)
                subprocess.run(load, check=True, capture_output=True)  # noqa: S603
                return command
    return []


def _compile(command: list[str], words: list[str], library: Path) -> None:
    """Run a compiler; it keeps its cache next to the library."""
    scratch = str(library.parent)
    around = {"ZIG_LOCAL_CACHE_DIR": scratch, "ZIG_GLOBAL_CACHE_DIR": scratch, **os.environ}
    line = [*command, *FLAGS, *words, "-o", str(library)]
    subprocess.run(line, check=True, env=around, capture_output=True, text=True)  # noqa: S603


def build(target: Path, *, sanitize: bool = False, cross: bool = False) -> None:
    """Compile the library; for another machine with the compiler of ``CC``, whose result cannot be tested here."""
    command = shlex.split(os.environ.get("CC", "")) if cross else compiler()
    if not command:
        raise FileNotFoundError(NO_COMPILER)
    words = [*(SANITIZERS if sanitize else ()), *shlex.split(os.environ.get("CFLAGS", "")), f'-DSOURCES="{digest()}"']
    words += [str(path) for path in sorted(SOURCES.glob("*.c"))]
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        built = Path(scratch) / target.name
        _compile(command, words, built)
        built.replace(target)


def main() -> None:
    """Build the library where the package finds it, or elsewhere."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, default=LIBRARY)
    parser.add_argument("--sanitize", action="store_true", help="with AddressSanitizer and UndefinedBehaviorSanitizer")
    parser.add_argument("--cross", action="store_true", help="for another machine, by the compiler of CC")
    options = parser.parse_args()
    try:
        build(options.output, sanitize=options.sanitize, cross=options.cross)
    except FileNotFoundError as error:
        sys.exit(f"error: {error}")
    except subprocess.CalledProcessError as error:
        sys.exit(f"error: the C core cannot be built: {error.cmd[0]} ended with {error.returncode}\n{error.stderr}")


if __name__ == "__main__":
    main()

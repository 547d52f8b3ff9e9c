"""One program with a target per kernel, generated from the prototypes in the C sources."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from layoutscope.structs.build import SANITIZERS, compiler
from layoutscope.structs.native import SOURCES
from tests.fuzz.runner import CORPUS

HERE: Final = Path(__file__).parent
SEEDS: Final = CORPUS / "kernels"
PROTOTYPE: Final = re.compile(r"^KERNEL int64_t (\w+)\(([^)]*)\)$", re.MULTILINE)
READERS: Final = {"Words": "words", "Numbers": "numbers", "Bytes": "bytes", "Columns": "columns", "int64_t": "number"}


def prototypes() -> dict[str, list[list[str]]]:
    """Return type and name of each argument, by kernel."""
    texts = [path.read_text() for path in sorted(SOURCES.glob("*.c"))]
    return {
        name: [argument.split() for argument in arguments.split(",")]
        for text in texts
        for name, arguments in PROTOTYPE.findall(text)
    }


def source() -> str:
    """Return the C source of the targets; the environment variable ``KERNEL`` selects one."""
    declared, functions, cases = [], [], []
    for name, arguments in prototypes().items():
        types = ", ".join(kind for kind, _ in arguments)
        declared.append(f"int64_t {name}({types});")
        # C does not specify the order in which arguments are evaluated, so each is read in its own statement.
        taken = [f"    const {kind} {word} = take_{READERS[kind]}(input);" for kind, word in arguments]
        words = ", ".join("open_zeros()" if word == "descriptor" else word for _, word in arguments)
        ignored = ["    (void)descriptor;"] if "open_zeros" in words else []
        functions += [f"static void try_{name}(Input *input)\n{{", *taken, *ignored, f"    {name}({words});\n}}"]
        cases.append(f'    if (!strcmp(name, "{name}"))\n        try_{name}(&input);')
    zeros = (
        "static int64_t open_zeros(void)\n{\n    static int file = -1;\n"
        '    if (file < 0)\n        file = open("/dev/zero", O_RDONLY);\n    return file;\n}'
    )
    entry = [
        "int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);",
        "int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)\n{",
        "    Input input = {data, size, {0}, 0};",
        '    const char *name = getenv("KERNEL");\n    if (!name)\n        abort();',
        *cases,
        "    release(&input);\n    return 0;\n}",
    ]
    return "\n".join(['#include <fcntl.h>\n#include "input.h"', *declared, zeros, *functions, *entry]) + "\n"


@dataclass(frozen=True)
class Fuzzer:
    """A compiled program, and whether it uses libFuzzer."""

    program: Path
    is_guided: bool

    def run(self, kernel: str, seconds: float, seed: int) -> int:
        """Run a target for some time, corpus first; return the number of inputs tried.

        Raises CalledProcessError if a sanitizer found something; the input is kept beside the program.
        """
        folder = self.program.parent
        around = {**os.environ, "KERNEL": kernel}
        seeds = sorted(str(path) for path in (SEEDS / kernel).iterdir())
        if self.is_guided:
            grown = folder / kernel
            grown.mkdir(exist_ok=True)
            words = [f"-max_total_time={max(1, round(seconds))}", f"-seed={seed}", str(grown), str(SEEDS / kernel)]
            # Linux counts the starting process's memory as the program's own, so a long test run would exceed the
            # limit.
            words.insert(0, "-rss_limit_mb=0")
        else:
            words = [str(seconds), str(seed), *seeds]
        command = [str(self.program), *words]
        done = subprocess.run(command, check=True, env=around, cwd=folder, capture_output=True, text=True)
        if not self.is_guided:
            return int(done.stdout)
        counted = re.findall(r"Done (\d+) runs", done.stderr)
        return int(counted[-1])


def _has_fuzzer(clang: str, folder: Path) -> bool:
    """Whether libFuzzer is installed: distributions package it separately from the compiler."""
    probe = folder / "probe.c"
    probe.write_text(
        "int LLVMFuzzerTestOneInput(const unsigned char *data, unsigned long size) { return !data && size; }"
    )
    command = [clang, "-fsanitize=fuzzer,address,undefined", str(probe), "-o", str(folder / "probe")]
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


def build(folder: Path) -> Fuzzer:
    """Compile kernels and targets with sanitizers.

    Raises FileNotFoundError without a compiler.
    """
    clang = shutil.which("clang")
    if clang and not _has_fuzzer(clang, folder):
        clang = None
    command = [clang] if clang else compiler()
    if not command:
        raise FileNotFoundError("there is no C compiler")
    (folder / "targets.c").write_text(source())
    own = ["-fsanitize=fuzzer"] if clang else [str(HERE / "alone.c")]
    words = ["-std=c11", "-O1", *SANITIZERS, *shlex.split(os.environ.get("CFLAGS", "")), '-DSOURCES=""']
    sources = [*sorted(map(str, SOURCES.glob("*.c"))), str(folder / "targets.c")]
    program = folder / "fuzz"
    subprocess.run([*command, *words, f"-I{SOURCES}", f"-I{HERE}", *sources, *own, "-o", str(program)], check=True)
    return Fuzzer(program, bool(clang))

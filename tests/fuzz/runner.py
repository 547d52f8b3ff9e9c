"""Running cases within limits: each must end with a result or with an error that the package raises on purpose."""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import re
import resource
import signal
import tempfile
import traceback
import warnings
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import layoutscope
from layoutscope.errors import LayoutscopeError
from tests.fuzz.base import Base, Recipe, WorkFile
from tests.fuzz.mutate import mutate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fuzz.base import Change

CORPUS = Path(__file__).parent / "corpus"
PACKAGE = str(Path(layoutscope.__file__).parent) + os.sep

CASE_SECONDS = 20.0
"""A sound case takes 0.1 s, fitting a drive to its log 4 s; no case has a reason to exceed the limit."""

CASE_BYTES = 1 << 30
"""In addition to the memory that the interpreter and its libraries have mapped when fuzzing begins."""


class OutOfTimeError(Exception):
    """A case exceeded its time limit."""


@contextlib.contextmanager
def limited_time(seconds: float = CASE_SECONDS) -> Iterator[None]:
    """Interrupt code after a limit of CPU time, so a busy machine causes no failure."""

    def stop(*_: object) -> None:
        raise OutOfTimeError(f"more than {seconds} s")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@contextlib.contextmanager
def strict_warnings() -> Iterator[None]:
    """Treat warnings of numpy and others as failures."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def limit_memory(further_bytes: int = CASE_BYTES) -> None:
    """Let allocations fail beyond the current mapping plus this many bytes; meant for a separate process."""
    status = Path("/proc/self/status")
    if not status.exists():
        return
    found = re.search(r"VmSize:\s+(\d+) kB", status.read_text())
    if found:
        limit = int(found[1]) * 1024 + further_bytes
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def peak_bytes() -> int:
    """Return the peak memory of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@dataclass(frozen=True, slots=True)
class Target:
    """An entry point: makes sound files, and reads a case; returns the exit code of the command line, or raises."""

    name: str
    module: str
    suffix: str

    def bases(self) -> tuple[Base, ...]:
        """Make the sound files."""
        found: tuple[Base, ...] = getattr(import_module(self.module), f"{self.name}_bases")()
        return found

    def run(self, path: Path, base: Base) -> int:
        """Read a case."""
        code: int = getattr(import_module(self.module), f"run_{self.name}")(path, base)
        return code


MODULES = {
    "of_hfsplus": {"hfsplus": ".img"},
    "of_apfs": {"apfs": ".img", "fusion": ".img"},
    "of_files": {
        "maps": ".map", "traces": ".txt", "profiles": ".toml", "captures": ".tar", "lists": ".txt", "beside": ".bin",
        "timings": ".csv", "kits": ".bin", "forecasts": ".img",
    },
}  # fmt: skip
"""Targets by module, with the suffix of a case's name; a module has ``NAME_bases()`` and ``run_NAME(path, base)``.

Partition maps and containers are changed by `tests.losses.containers`, which also judges what is read.
"""

TARGETS = {
    name: Target(name, f"tests.fuzz.{module}", suffix)
    for module, suffixes in MODULES.items()
    for name, suffix in suffixes.items()
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a case ended: ``exit`` 0, 1 or 3; or the failure and its place, in ``failure`` and ``signature``."""

    exit: int
    failure: str = ""
    signature: str = ""


class Runner:
    """Runs cases of one target in a folder of its own."""

    def __init__(self, target: Target, folder: Path, *, seconds: float = CASE_SECONDS) -> None:
        self.target = target
        self.bases = {base.name: base for base in target.bases()}
        self.seconds = seconds
        self._file = WorkFile(folder / f"case{target.suffix}")

    def case(self, seed: int, number: int) -> Recipe:
        """Make a case from its number."""
        rng = random.Random(f"{self.target.name} {seed} {number}")  # noqa: S311
        base = list(self.bases.values())[number % len(self.bases)]
        return mutate(self.target.name, base, rng)

    def run(self, recipe: Recipe) -> Outcome:
        """Run a case within its limits."""
        base = self.bases[recipe.base]
        self._file.become(base, recipe)
        before = _state(self._file.path)
        try:
            with strict_warnings(), limited_time(self.seconds):
                code = self.target.run(self._file.path, base)
            if _state(self._file.path) != before:
                return Outcome(-1, "the file that was read is not what it was", "ChangedInput")
            return Outcome(code)
        except LayoutscopeError:
            return Outcome(1)
        except Exception as error:  # noqa: BLE001  (whatever else escapes is what is looked for)
            return Outcome(-1, f"{type(error).__name__}: {error}"[:300], signature(error))
        finally:
            self._file.restore(base, recipe)

    def digests(self) -> dict[str, str]:
        """Hash every sound file as it is on disk after a run."""
        found = {}
        for name, base in self.bases.items():
            self._file.become(base, Recipe(self.target.name, name, ()))
            with self._file.path.open("rb") as file:
                found[name] = hashlib.file_digest(file, "sha256").hexdigest()
        return found

    def shrink(self, recipe: Recipe, failed: Outcome) -> Recipe:
        """Drop changes while the same failure remains."""
        for candidate in self._smaller(recipe):
            if self.run(candidate).signature == failed.signature:
                return self.shrink(candidate, failed)
        return replace(recipe, why=f"{failed.signature}: {failed.failure}"[:300])

    def _smaller(self, recipe: Recipe) -> Iterator[Recipe]:
        if recipe.length_bytes is not None:
            yield replace(recipe, length_bytes=None)
        if len(recipe.changes) > 1:
            for place in range(len(recipe.changes)):
                yield replace(recipe, changes=(*recipe.changes[:place], *recipe.changes[place + 1 :]))
        for place, change in enumerate(recipe.changes):
            for half in _halves(change, is_text=self.bases[recipe.base].is_text):
                yield replace(recipe, changes=(*recipe.changes[:place], half, *recipe.changes[place + 1 :]))


def _halves(change: Change, *, is_text: bool) -> Iterator[Change]:
    middle = len(change.data) // 2
    if len(change.data) <= 8 or is_text:
        return
    yield replace(change, removed=middle, data=change.data[:middle])
    yield replace(change, at=change.at + middle, removed=len(change.data) - middle, data=change.data[middle:])


def _state(path: Path) -> tuple[int, ...]:
    """Return the file attributes that change with anything but a read."""
    status = path.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_mode


def signature(error: BaseException) -> str:
    """Identify a failure by the kind of error and the last line of the package in its traceback."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(PACKAGE)]
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfTimeError":
        frames = frames[:6]
    last = frames[-1] if frames else None
    return f"{type(error).__name__} in {Path(last.filename).name}:{last.name}" if last else type(error).__name__


def keep(recipe: Recipe, folder: Path = CORPUS) -> Path:
    """Write a case into the corpus."""
    target = folder / recipe.target
    target.mkdir(parents=True, exist_ok=True)
    path = target / recipe.name
    path.write_text(recipe.to_json())
    return path


def work_folder() -> tempfile.TemporaryDirectory[str]:
    """Make a folder for cases, in memory if possible."""
    memory = Path("/dev/shm")  # noqa: S108
    return tempfile.TemporaryDirectory(prefix="fuzz-", dir=memory if os.access(memory, os.W_OK) else None)

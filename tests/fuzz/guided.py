"""``python -m tests.fuzz.guided --target partitions --seconds 60``: mutation guided by coverage of the readers.

Needs `Atheris <https://github.com/google/atheris>`_ (``pip install atheris``), which is not a dependency of the
project. Atheris instruments each line of Python that the package loads. Its bytes are not files: they select fields of
sound files and new values, so checksums are corrected as in :mod:`tests.fuzz`. Failing cases are stored as recipes in
the same corpus. The C kernels have their own fuzzer.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.fuzz.base import Base
    from tests.fuzz.recipe import Recipe
    from tests.fuzz.runner import Runner


def main() -> None:
    """Run until the time is over or a case fails."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.guided", description=__doc__)
    parser.add_argument("--target", required=True)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--found", type=Path, help="a folder where inputs that reach new lines are kept")
    given = parser.parse_args()
    import atheris  # type: ignore[import-not-found,unused-ignore]

    with atheris.instrument_imports(include=["layoutscope"]):
        import layoutscope.api.scan
        import layoutscope.filesystems.apfs.reader
        import layoutscope.plugins.hfsplus  # noqa: F401
    from tests.fuzz.runner import Runner, keep, work_folder
    from tests.fuzz.targets import TARGETS

    with work_folder() as folder:
        runner = Runner(TARGETS[given.target], Path(folder))

        def test_one(data: bytes) -> None:
            recipe = recipe_of(atheris.FuzzedDataProvider(data), runner)
            outcome = runner.run(recipe)
            if outcome.signature:
                kept = keep(runner.shrink(recipe, outcome))
                raise RuntimeError(f"{outcome.signature}: {outcome.failure}; kept as {kept.name}")

        words = [
            sys.argv[0],
            f"-max_total_time={given.seconds}",
            f"-seed={given.seed}",
            "-max_len=256",
            "-len_control=0",
        ]
        atheris.Setup([*words, *([str(given.found)] if given.found else [])], test_one)
        atheris.Fuzz()


def recipe_of(given: Any, runner: Runner) -> Recipe:
    """Build a case from the fuzzer's input.

    Parameters
    ----------
    given : FuzzedDataProvider
        Numbers and bytes on request; zeros when there are no more.
    runner : Runner
        The target's, with its sound files.
    """
    from tests.fuzz.recipe import Recipe

    base = list(runner.bases.values())[given.ConsumeIntInRange(0, len(runner.bases) - 1)]
    changes = [_change(given, base) for _ in range(given.ConsumeIntInRange(1, 4))]
    if base.repair is not None:
        changes += base.repair(base, tuple(changes))
    return Recipe(runner.target.name, base.name, tuple(changes))


def _change(given: Any, base: Base) -> Any:
    from tests.fuzz.recipe import Change

    if base.is_text:
        at, removed = given.ConsumeIntInRange(0, base.size_bytes), given.ConsumeIntInRange(0, 8)
        return Change(at, removed, given.ConsumeBytes(given.ConsumeIntInRange(0, 12)))
    if base.spots:
        at, width = base.spots[given.ConsumeIntInRange(0, len(base.spots) - 1)]
    else:
        start, length = base.ranges[given.ConsumeIntInRange(0, len(base.ranges) - 1)]
        width = min(length, 1 << given.ConsumeIntInRange(0, 3))
        at = start + given.ConsumeIntInRange(0, length - width)
    data = given.ConsumeBytes(width).ljust(width, b"\0")[: max(0, base.size_bytes - at)]
    return Change(at, len(data), data)


if __name__ == "__main__":
    main()

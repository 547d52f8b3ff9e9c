"""Ask everything and write the answers; see the package."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import shutil
import signal
import sys
from concurrent.futures import ProcessPoolExecutor
from contextlib import chdir
from pathlib import Path
from typing import TYPE_CHECKING

import tests.equality
from tests.equality.asked import calls, commands
from tests.equality.cases import cases, chosen_of, folder_of
from tests.equality.differences import report
from tests.equality.told import kept, normalised, object_text, unsalted, written

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.equality.cases import Case

LIMIT_SECONDS = 1800
"""Whatever takes longer is given up, and the answer says so."""


class GivenUp(BaseException):
    """A question took too long; nothing that it goes through may take this for an error of its own."""


def tree_under_test() -> Path | None:
    """Return the first folder of ``PYTHONPATH`` that holds the package; None for the one that is found anyhow."""
    folders = map(Path, filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)))
    return next((folder.resolve() for folder in folders if (folder / "layoutscope" / "__init__.py").is_file()), None)


def prepare(tree: Path | None) -> None:
    """Load the package under test in a process that will ask, from its tree and nowhere else."""
    os.environ.update(COLUMNS="80", LAYOUTSCOPE_CACHE="", OPENBLAS_NUM_THREADS="1", NO_COLOR="1")
    os.environ.pop("LAYOUTSCOPE_PASSWORD", None)
    signal.signal(signal.SIGALRM, _give_up)
    if tree is None:
        return
    os.environ["PYTHONPATH"] = str(tree)
    sys.path.insert(0, str(tree))
    import layoutscope

    sys.path.remove(str(tree))  # tests and fixtures stay those of this checkout
    if not Path(layoutscope.__file__).is_relative_to(tree):
        raise SystemExit(f"the package was loaded from {layoutscope.__file__}, not from {tree}")


def _give_up(*_: object) -> None:
    raise GivenUp(f"no answer within {LIMIT_SECONDS} s")


def run_case(case: Case, images: Path, out: Path, asks: tuple[str, ...]) -> str:
    """Ask all about an image, in this process, and write the answers."""
    import layoutscope

    folder = out / folder_of(case)
    if not asks:
        shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    # Each case has a folder of its own with names that are the same in each run, and images that are not its own.
    here = out.with_name(f"{out.name}.work") / folder.name
    shutil.rmtree(here, ignore_errors=True)
    (here / "w").mkdir(parents=True)
    for path in images.iterdir():
        (here / path.name).symlink_to(path)
    tree = str(Path(layoutscope.__file__).parent)
    clean = normalised(layoutscope.__version__, {str(here): "<here>", str(images): "<images>", tree: "<package>"})
    with chdir(here):
        known = set[Path]()
        for name, words in commands(case):
            if wanted(name, asks):
                text = answered(lambda name=name, words=words: typed(words, f"w/{name}"))
                text = clean(text + "".join(written(Path("w"), known)))
                write(folder / f"{name}.txt", kept(unsalted(text) if "--hash-names" in words else text))
        for name, call in calls(case):
            if wanted(f"library-{name}", asks):
                text = answered(lambda call=call: object_text(call(), clean))
                write(folder / f"library-{name}.txt", kept(clean(text + "".join(written(Path("w"), known)))))
    shutil.rmtree(here)
    return folder.name


def wanted(name: str, asks: tuple[str, ...]) -> bool:
    """Whether a question is among those that were chosen."""
    return not asks or any(part in name for part in asks)


def write(path: Path, text: str) -> None:
    """Write an answer, whatever is in it."""
    path.write_text(text, encoding="utf-8", errors="backslashreplace")


def answered(ask: Callable[[], str]) -> str:
    """Ask, within the limit; whatever is raised is the answer."""
    signal.alarm(LIMIT_SECONDS)
    try:
        return ask()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001  (compiled libraries raise such as are no Exception)
        return f"raises {type(error).__name__}: {error}\n"
    finally:
        signal.alarm(0)


def typed(words: tuple[str, ...], output: str) -> str:
    """Run a command line; its exit code, and what it says."""
    from typer.testing import CliRunner

    from layoutscope.cli import app

    result = CliRunner().invoke(
        app, [word.replace("OUT", output) if word.startswith("OUT") else word for word in words]
    )
    raised = result.exception
    failure = f"exception: {raised!r}\n" if raised and not isinstance(raised, SystemExit) else ""
    return f"exit {result.exit_code}\n{failure}{result.stderr}\n{result.stdout}\n"


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.equality",
        description=tests.equality.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("out", type=Path, help="folder for the answers")
    parser.add_argument("--images", choices=("quick", "all"), default="all")
    parser.add_argument("--only", default="", help="only images with this in the name of their folder")
    parser.add_argument("--asks", nargs="*", default=(), help="only outputs with one of these in their name")
    parser.add_argument("--images-dir", type=Path, help="where images are, or are written to")
    parser.add_argument("--against", type=Path, help="answers of another version: list what differs")
    parser.add_argument("--no-run", action="store_true", help="compare what was answered before")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    out = options.out.resolve()
    before = options.against.resolve() if options.against else None
    if not options.no_run:
        first = before or out
        images = (options.images_dir or first.with_name(f"{first.name}.images")).resolve()
        ask_all(out, images, options)
    if before:
        print(report(before, out))  # noqa: T201


def ask_all(out: Path, images: Path, options: argparse.Namespace) -> None:
    """Ask about all chosen images, several at a time."""
    # Forked processes start without the package, whichever this one would find.
    forked = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(1, forked) as pool:
        found = pool.submit(cases, images, options.images).result()
    asked = chosen_of(found, options.only)
    tree = tree_under_test()
    print(f"{len(asked)} images, asking the package of {tree or 'this checkout'}", flush=True)  # noqa: T201
    with ProcessPoolExecutor(options.jobs, forked, prepare, (tree,)) as pool:
        runs = [pool.submit(run_case, case, images, out, tuple(options.asks)) for case in asked]
        for number, run in enumerate(runs, 1):
            print(f"{number}/{len(asked)} {run.result()}", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()

"""What a change must pass, in sessions: ``nox`` while working, ``nox -s full`` before it is handed on.

They use the environment that nox itself lies in (``pip install -c constraints-dev.txt -e '.[dev]'``), so that they
start at once and need no network. ``.ci/run`` runs them too.
"""

from __future__ import annotations

import os
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

import nox

nox.options.sessions = ["quick"]
PROGRAMS = Path(sys.executable).parent
UNIT_TESTS = (
    "python",
    "-m",
    "pytest",
    "-q",
    "tests/unit",
    "tests/toyfs",
    "--ignore=tests/unit/fixtures",
)
# Thousands of reads after each other: minutes where Python runs them, or is watched.
LONG_TESTS = tuple(f"--ignore=tests/unit/drive/test_{what}.py" for what in ("calibration", "draws"))
CROSS_TARGETS = ("x86_64-linux-musl", "aarch64-linux-gnu", "aarch64-linux-musl", "aarch64-macos", "x86_64-windows-gnu")
IMAGE = Path("fixtures", "images", "hfsplus-scattered.img.zst")


def run(session: nox.Session, program: str, *words: str) -> None:
    """Run a program of this environment."""
    session.run(str(PROGRAMS / program), *words, external=True)


@nox.session(python=False)
def lint(session: nox.Session) -> None:
    """Check style, format, types and layers."""
    run(session, "ruff", "check", "--quiet")
    run(session, "ruff", "format", "--check", "--quiet")
    run(session, "mypy")
    run(session, "lint-imports")


@nox.session(python=False)
def generated(session: nox.Session) -> None:
    """Check that parsers and pages are those of their sources; needs Node and ``npm ci`` in ksy/."""
    run(session, "python", "ksy/build.py", "--check")
    run(session, "python", "-m", "cogapp", "-P", "--check", "README.md", *map(str, sorted(Path("docs").rglob("*.md"))))


@nox.session(python=False)
def page(session: nox.Session) -> None:
    """Check the map's scripts: types, style, tests, and that they are what is committed; needs Node and ``npm ci``."""
    session.chdir("layoutscope/report/map/web")
    for words in (["run", "check"], ["test"], ["run", "build", "--", "--check"]):
        session.run("npm", *words, external=True)


@nox.session(python=False)
def quick(session: nox.Session) -> None:
    """Lint, and the unit tests that need no image: under a minute."""
    lint(session)
    run(session, *UNIT_TESTS, "-m", "not full and not images and not slow")


@nox.session(python=False)
def cover(session: nox.Session) -> None:
    """Check that unit tests alone cover no less of the code than before; the limit is in pyproject.toml."""
    run(session, *UNIT_TESTS, *LONG_TESTS, "--cov", "-m", "not images and not slow")


@nox.session(python=False)
def full(session: nox.Session) -> None:
    """Check everything."""
    lint(session)
    generated(session)
    cover(session)
    run(session, "python", "-m", "pytest", "-q", "-n", "auto", "-m", "not slow", *session.posargs)


@nox.session(python=False)
def kernels(session: nox.Session) -> None:
    """Watch the C kernels with sanitizers, against their references in Python.

    Needs gcc or clang. ``LAYOUTSCOPE_FUZZ=100`` tries a hundred times as many tables, new ones each time. The tests
    fuzz each kernel for a moment; ``python -m tests.fuzz.kernels`` takes longer.
    """
    tests = ["python", "-m", "pytest", "-q"]
    compiler = os.environ.get("CC", "cc")
    with tempfile.TemporaryDirectory() as name:
        library = str(Path(name, "kernels.so"))
        run(session, "python", "-m", "layoutscope.structs.build", "--sanitize", "-o", library)
        # Python itself is not instrumented: the runtime must be there before it, and what Python keeps is no leak.
        found = session.run(compiler, "-print-file-name=libasan.so", external=True, silent=True)
        watched = {"LD_PRELOAD": str(found).strip(), "ASAN_OPTIONS": "detect_leaks=0", "LAYOUTSCOPE_KERNELS": library}
        # Which library is taken is asked of new processes, whose start takes minutes under a sanitizer.
        rooms = ["tests/unit/native", "--ignore=tests/unit/native/test_library.py"]
        session.run(str(PROGRAMS / tests[0]), *tests[1:], *rooms, external=True, env=watched)


@nox.session(python=False)
def cross(session: nox.Session) -> None:
    """Compile the C kernels for every system that gets a wheel, warnings being errors; needs the package index."""
    with tempfile.TemporaryDirectory() as name:
        tools = Path(name, "tools")
        venv.create(tools, with_pip=True)
        python = str(tools / "bin" / "python")
        session.run(python, "-m", "pip", "install", "--quiet", "ziglang>=0.13", external=True)
        for target in CROSS_TARGETS:
            flags = {"CC": f"{python} -m ziglang cc -target {target}", "CFLAGS": "-Werror"}
            words = ["python", "-m", "layoutscope.structs.build", "--cross", "-o", str(Path(name, target))]
            session.run(str(PROGRAMS / words[0]), *words[1:], external=True, env=flags)


@nox.session(python=False)
def docs(session: nox.Session) -> None:
    """Build the pages into build/docs without a warning, with the reference made and notebooks run; needs ``docs``."""
    words = ["-W", "--keep-going", "--quiet", "-d", "build/doctrees", "docs", "build/docs"]
    run(session, "python", "-m", "sphinx", *words)


@nox.session(python=False)
def links(session: nox.Session) -> None:
    """Follow every address outside that the pages name; needs a network, and the extra ``docs``."""
    words = ["-b", "linkcheck", "-D", "nb_execution_mode=off", "--quiet", "-d", "build/doctrees", "docs", "build/links"]
    run(session, "python", "-m", "sphinx", *words)


@nox.session(python=False)
def notebook(session: nox.Session) -> None:
    """Execute the notebook of the docs in a kernel, and hand every frame to pandas; needs the package index."""
    with tempfile.TemporaryDirectory() as name:
        run(
            session,
            "python",
            "-m",
            "pip",
            "install",
            "--quiet",
            "--target",
            name,
            "pandas",
            "pyarrow",
            "ipykernel",
            "nbclient",
        )
        tests = ("tests/docs/test_notebooks.py", "tests/unit/results/test_frames.py")
        # Behind this environment's own packages, which stay what they are.
        found = {"PYTHONPATH": os.pathsep.join((str(Path.cwd()), name))}
        session.run(str(PROGRAMS / "python"), "-m", "pytest", "-q", *tests, external=True, env=found)


@nox.session(python=False)
def wheel(session: nox.Session) -> None:
    """Build the wheel and try it away from the source, without extras, and with a package that adds a file system.

    Needs the package index.
    """
    image = IMAGE.resolve()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run(session, "python", "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", name, ".", "tests/toyfs")
        built = sorted(map(str, folder.glob("*.whl")))
        venv.create(folder / "venv", with_pip=True)
        python = str(folder / "venv" / "bin" / "python")
        session.run(python, "-m", "pip", "install", "--quiet", *built, external=True)
        run(session, "python", "tests/bench/installed_size.py", "--environment", str(folder / "venv"))
        with session.chdir(folder):
            # Drive profiles and the parts of the page must be in it.
            words = ["scan", str(image), "--drive", "generic-7200", "--map", "map.html"]
            session.run(python, "-I", "-m", "layoutscope", *words, external=True, silent=True)
            # So must the text of the script that reads a list.
            words = ["plan", str(image), "--emit-order", "list.txt", "--emit-script", "list.sh"]
            session.run(python, "-I", "-m", "layoutscope", *words, external=True, silent=True)
            # A file system of another package is found by its entry point.
            session.run(python, "-I", "-m", "toyfs.volume", "toy.img", external=True)
            session.run(python, "-I", "-m", "layoutscope", "scan", "toy.img", "--first-file", "20", external=True)


@nox.session(python=False)
def binary(session: nox.Session) -> None:
    """Build one executable that needs no Python into dist, and try it where there is none; needs the package index."""
    with tempfile.TemporaryDirectory() as name:
        tools, entry = Path(name, "tools"), Path(name, "entry.py")
        venv.create(tools, with_pip=True)
        python = str(tools / "bin" / "python")
        extras = ".[frames,crypto,containers,query,remote]"
        session.run(python, "-m", "pip", "install", "--quiet", "pyinstaller>=6.10", extras, external=True)
        entry.write_text("from layoutscope.__main__ import main\n\nmain()\n")
        words = ["--onefile", "--name", "layoutscope", "--log-level", "WARN", "--collect-all", "layoutscope"]
        words += ["--collect-all", "nanoarrow", "--collect-submodules", "fsspec", "--exclude-module", "tkinter"]
        # What is looked for by its name, when an image asks for it.
        loaded = ("lzfse", "duckdb", "fsspec")
        words += [word for module in (*loaded, "polars", "cryptography") for word in ("--hidden-import", module)]
        words += ["--distpath", str(Path("dist").resolve()), "--workpath", name, "--specpath", name, str(entry)]
        # Away from the checkout, whose package would be taken in place of the one that was built.
        with session.chdir(name):
            session.run(python, "-I", "-m", "PyInstaller", *words, external=True, env={"PYTHONPATH": ""})
    run(session, "python", "-m", "tests.bench.standalone", "dist/layoutscope")


@nox.session(python=False)
def release(session: nox.Session) -> None:
    """Build what is released twice into dist, compare every byte, and run ``twine check``; needs the package index."""
    tags = session.run("git", "tag", "--points-at", "HEAD", "--list", "v*", external=True, silent=True)
    known = tomllib.loads(Path("pyproject.toml").read_text("utf-8"))["tool"]["hatch"]["version"]["fallback-version"]
    for tag in str(tags or "").split():
        if tag != f"v{known.partition('+')[0]}":
            session.error(f"the tag here is {tag}, and the newest release that pyproject.toml knows is {known}")
    rounds = []
    with tempfile.TemporaryDirectory() as name:
        tools = Path(name, "tools")
        venv.create(tools, with_pip=True)
        python = str(tools / "bin" / "python")
        session.run(python, "-m", "pip", "install", "--quiet", "build", "twine", external=True)
        for number in ("1", "2"):
            target = Path(name, number)
            session.run(python, "-m", "build", "--outdir", str(target), ".", external=True, silent=True)
            rounds.append({path.name: path.read_bytes() for path in sorted(target.iterdir())})
        if rounds[0] != rounds[1]:
            session.error(
                f"built twice, these differ: {[each for each in rounds[0] if rounds[0][each] != rounds[1].get(each)]}"
            )
        session.run(python, "-m", "twine", "check", "--strict", *map(str, target.iterdir()), external=True)
        Path("dist").mkdir(exist_ok=True)
        for file, content in rounds[1].items():
            Path("dist", file).write_bytes(content)

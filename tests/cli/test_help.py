from __future__ import annotations

import subprocess
import sys

import pytest

import layoutscope
from layoutscope.cli.application import COMMANDS as OVERVIEW
from layoutscope.native import core as core_name
from tests.cli.conftest import ROOT

COMMANDS = sorted(OVERVIEW)


def test_help_lists_every_command(run):
    """The overview names each command."""
    text = run("--help").stdout
    assert COMMANDS
    assert all(f"\n  {name} " in text for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_option_has_help(run, name):
    """Each command says what it does, and each of its options too."""
    result = run(name, "--help")
    assert result.exit_code == 0
    options = result.stdout.partition("Options:\n")[2].splitlines()
    starts = [line for line in options if line.startswith(("  -", "  --"))]
    assert starts
    joined = "\n".join(options)
    for line in starts:
        following = joined[joined.index(line) + len(line.split("  ")[1]) :]
        assert following.split()


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_a_verb_of_the_library(name):
    """What the command line does, the library does under the same name."""
    assert name in layoutscope.__all__


def test_version(run):
    """The version is that of the package."""
    assert run("--version").stdout == f"layoutscope {layoutscope.__version__}\n"


@pytest.mark.parametrize("words", [["--version", "--verbose"], ["--verbose", "--version"]])
def test_verbose_version_names_the_core(run, words):
    """It tells what runs the loops: the native core or Python."""
    version, core = run(*words).stdout.splitlines()
    assert version == f"layoutscope {layoutscope.__version__}"
    assert core == f"core: {core_name()}"


@pytest.mark.parametrize("words", [["--verbose"], ["--verbose", "scan"]])
def test_verbose_is_about_the_version(run, words):
    """Alone, or before a command, it is a usage error."""
    assert run(*words).exit_code == 2


TABLES = {"polars", "plotly", "zstandard", "kaitaistruct"}
ALL = {*TABLES, "numpy", "rich"}


@pytest.mark.parametrize(
    ("words", "heavy"),
    [
        (["--version"], ALL),
        (["--version", "--verbose"], ALL),
        (["--help"], ALL),
        (["scan", "--help"], ALL),
        (["drives", "sata-ssd"], TABLES),
        (["drives", "sata-ssd", "--json"], {*TABLES, "rich"}),
    ],
)
def test_start_imports_nothing_heavy(words, heavy):
    """Version and help come at once, without tables, arrays, plots and rich; drives need arrays alone."""
    code = (
        "import sys\nfrom layoutscope.__main__ import main\n"
        f"sys.argv[1:] = {words!r}\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        f"sys.stderr.write(' '.join(sorted({heavy!r} & set(sys.modules))))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert result.stderr == ""
    assert result.stdout

"""Help texts and shell completion."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import stat
import subprocess
import sys

import pytest
import typer

import layoutscope
from layoutscope.cli import app
from layoutscope.cli.application import COMMANDS as OVERVIEW
from layoutscope.cli.application import GROUPS, PARTS
from layoutscope.cli.help import EXAMPLES, FOLDED, FORMS, PANELS, Verb, command_of_form, describe_options
from layoutscope.structs.native import core as core_name
from tests.cases import for_each
from tests.cli.conftest import ROOT
from tests.docs.test_screens import PRIVATE

COMMANDS = sorted(OVERVIEW)


def test_help_lists_fifteen_commands_and_their_parts(run):
    """In groups: for new users, for developers, for data; parts of other commands are shown as they are typed."""
    text = run("--help").stdout
    shown = [name for group in GROUPS.values() for name in group]
    assert len(shown) == 15
    places = [text.index(f"\n{title}:\n") for title in GROUPS]
    assert places == sorted(places)
    assert places[0] < text.index("\n  scan ") < places[1] < text.index("\n  predict ") < places[2]
    assert all(f"\n  {name} " in text for name in shown)
    assert all(form in " ".join(text.split()) for form in FORMS.values())
    assert {*shown, *PARTS} == {*COMMANDS}
    assert {*PARTS} - {*FORMS} == {"verify", "cache"}


@pytest.mark.parametrize("name", FORMS)
def test_a_part_is_the_same_command_as_its_own_name(run, name):
    """Both spellings have one help, whose first line shows the preferred one."""
    typed = FORMS[name].split()
    by_form, by_name = (run(*words, "--help").stdout.partition("\n") for words in (typed, [name]))
    assert by_form[2] == by_name[2]
    assert f" {FORMS[name]} [OPTIONS]" in by_form[0]


def test_options_that_form_a_command_may_be_anywhere(run, image, tmp_path):
    """Before or after the image, with or without dashes; after -- they are files."""
    target = tmp_path / "small.img"
    assert run("export", image, f"--metadata-image={target}").exit_code == 0
    assert target.exists()
    assert run("inspect", "--states", image).stdout == run("checkpoints", image).stdout
    assert "--states: no such file" in run("inspect", "--at", "0", "--", "--states").stderr


def test_a_help_page_is_about_30_lines(run):
    """Rarely needed options are only named at the end; --help-all describes each of them. The median is 31 lines."""
    lengths = []
    for name in COMMANDS:
        short, whole = (run(name, option).stdout for option in ("--help", "--help-all"))
        lengths.append(len(short.splitlines()))
        for item in options_of(name):
            assert item.names in whole, name
            assert item.names.rpartition(" ")[2] in short or item.panel in FOLDED, name
    assert max(lengths) <= 40
    assert sorted(lengths)[len(lengths) // 2] <= 31


def test_parts_of_drives_hear_options_before_them(run, tmp_path):
    """The old form is an alias, with a line that shows the new form."""
    words = ("--random-ms", "15", "-o", tmp_path / "old.toml", "fit", "mine")
    result = run("drives", *words)
    assert result.exit_code == 0
    assert "write drives fit first" in result.stderr
    assert run("drives", "fit", "mine", "--random-ms", "15", "-o", tmp_path / "new.toml").exit_code == 0
    assert (tmp_path / "old.toml").read_text() == (tmp_path / "new.toml").read_text()


def test_a_help_page_leaves_out_what_all_commands_share(run):
    """Panels about images are only named; --help-all shows them."""
    short, whole = (run("scan", option).stdout for option in ("--help", "--help-all"))
    for option in ("--volume-at", "--password-file", "--ddrescue-map", "--cache-dir"):
        assert f"  {option} " in whole
        assert option not in short
    assert "More options (--help-all):\n  Choosing the volume, Encrypted" in short
    assert "More options" not in whole


UNIT = re.compile(r"[A-Z]+(?:[.:=/][A-Za-z]+)*")
"""A placeholder for a value, such as ``BYTES``, ``FILE.html`` or ``NAME=VALUE``."""


def options_of(name):
    command = typer.main.get_command(app).commands[name]
    context = command.make_context(name, [], resilient_parsing=True)
    return describe_options(command, context)


@for_each("name", COMMANDS)
def test_every_option_says_what_it_does_what_it_takes_and_what_holds_without_it(name):
    """An option or argument without a description, a unit or a default is not usable."""
    for item in options_of(name):
        assert item.text.endswith("."), item
        assert item.panel in PANELS or not item.panel
        if not item.panel:
            assert item.choices or item.names.strip("[].").isupper()
        if item.takes:
            assert item.choices or UNIT.fullmatch(item.takes), item
        assert bool(item.default) == bool(item.takes or not item.panel), item


def test_an_option_that_says_too_little_would_be_seen():
    """The test above detects an option without unit and default."""
    lone, nothing = typer.Typer(), typer.Option(None)
    lone.command(cls=Verb)(lambda size=nothing: size)
    command = typer.main.get_command(lone)
    item = describe_options(command, command.make_context("lone", [], resilient_parsing=True))[0]
    assert (item.text, item.default, UNIT.fullmatch(item.takes)) == ("", "", None)


@for_each("name", COMMANDS)
def test_help_ends_with_two_examples_that_work(run, name):
    """Each help shows two commands; their options and choices exist."""
    shown = run(name, "--help").stdout.partition("\nExamples:\n")[2].splitlines()
    assert len(shown) == 4
    assert [line.strip() for line in shown] == [line for example in EXAMPLES[name] for line in example]
    for words, purpose in EXAMPLES[name]:
        program, *typed = shlex.split(words.removeprefix("sudo ").split(" | ")[0])
        meant, rest = command_of_form(typed)
        assert (program, meant or typed[0]) == ("layoutscope", name)
        assert len(words) <= 76
        assert purpose.endswith(".")
        assert len(purpose) <= 74
        command = typer.main.get_command(app).commands[name]
        command.make_context(name, rest if meant else typed[1:])


@pytest.mark.parametrize(
    ("name", "absent"),
    [
        ("checkpoints", ["--sweep", "--no-journal", "--xid", "--snapshot"]),
        ("compare", ["--ddrescue-map", "--second"]),
        ("series", ["--ddrescue-map", "--second"]),
        ("extract", ["--no-names"]),
        ("drives", ["--volume", "--password", "--sweep", "--order"]),
        ("scan", ["--order", "--memory", "--records"]),
    ],
)
def test_options_that_cannot_matter_are_not_shown(run, name, absent):
    """A command has no options that cannot change its result."""
    text = run(name, "--help-all").stdout
    assert not [option for option in absent if f"  {option} " in text]


@for_each("words", [[], *([name] for name in COMMANDS)])
def test_help_fits_80_columns_and_shows_what_is_typed(run, words):
    """No trailing blanks, braces or type names of the program, and no private terms."""
    text = run(*words, "--help").stdout
    assert [line for line in text.splitlines() if len(line) > 80 or line != line.rstrip()] == []
    assert not PRIVATE.search(text)
    assert not words or not re.search(r"[{}<>]|RANGE|FLOAT|INTEGER|\bPATH\.\.\.", text)


@for_each("name", sorted({*COMMANDS} - {"cache", "measure"}))  # a device is not an image
def test_every_command_is_a_verb_of_the_library(name):
    """Every command is a library function of the same name, except ``report``, which is ``write_report``."""
    assert {"report": "write_report"}.get(name, name) in layoutscope.__all__


def test_version(run):
    """That of the package; verbose names the build of the C core, and is a usage error elsewhere."""
    version = f"layoutscope {layoutscope.__version__}\n"
    assert run("--version").stdout == version
    for words in (["--version", "--verbose"], ["--verbose", "--version"]):
        assert run(*words).stdout == f"{version}core: {core_name()}\n"
    for words in (["--verbose"], ["--verbose", "scan"]):
        assert run(*words).exit_code == 2


TABLES = {"polars", "plotly", "layoutscope.zstd", "kaitaistruct"}
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
    """Version and help load no tables, arrays, plots or rich; drives needs only arrays."""
    code = (
        "import sys\nfrom layoutscope.__main__ import main\n"
        f"sys.argv[1:] = {words!r}\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        f"sys.stderr.write(' '.join(sorted({heavy!r} & set(sys.modules))))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert result.stderr == ""
    assert result.stdout


# Completion: scripts for three shells, and bash completes commands, options and choices.


@pytest.fixture
def program(tmp_path):
    """Put a command of this name on the path, as an installation does, and return its environment."""
    command = tmp_path / "layoutscope"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m layoutscope "$@"\n')
    command.chmod(command.stat().st_mode | stat.S_IXUSR)
    # The script starts Python with -m, which takes the program name from the shell completion variable.
    return {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}


COMPLETING = "import sys; sys.argv[0] = 'layoutscope'; from layoutscope.__main__ import main; main()"


def completed(program, **asked):
    """Return what the program tells a shell's script."""
    run = subprocess.run(
        [sys.executable, "-c", COMPLETING],
        env={**program, **asked},
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    return run.stdout


@pytest.mark.parametrize(
    ("shell", "line", "found", "not_found"),
    [
        ("bash", "layoutscope sc", "scan", "check"),
        ("zsh", "layoutscope predict --or", "--order", "--host"),
        ("fish", "layoutscope predict --order f", "fts", "names"),
        ("bash", "layoutscope export --table no", "node_views", "extents"),
        ("zsh", "layoutscope scan --host m", "macos", "linux"),
        ("fish", "layoutscope predict --what-if o", "outer-zone", "packed"),
    ],
)
def test_verbs_options_and_choices_are_completed(program, shell, line, found, not_found):
    """Each shell gets the possible words for the last one, as its script asks for them, and nothing else."""
    asked = {
        "bash": {"COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))},
        "zsh": {"_TYPER_COMPLETE_ARGS": line},
        "fish": {"_TYPER_COMPLETE_ARGS": line, "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
    }[shell]
    told = completed(program, _LAYOUTSCOPE_COMPLETE=f"complete_{shell}", **asked)
    assert found in told
    assert not_found not in told


SIGNS = {"bash": "complete -o", "zsh": "#compdef layoutscope", "fish": "complete"}


@pytest.mark.parametrize(("shell", "sign"), SIGNS.items())
def test_each_shell_has_its_script(program, shell, sign):
    """Each shell gets the script that a user adds to a start-up file."""
    shown = completed(program, _LAYOUTSCOPE_COMPLETE=f"source_{shell}")
    assert sign in shown
    assert "_LAYOUTSCOPE_COMPLETE=complete_" in shown


def test_no_start_up_file_is_written(program, tmp_path):
    """Typer would rewrite a shell's settings: it changes their line ends, and loses them if the disk is full."""
    (tmp_path / ".bashrc").write_bytes(b"export A=1\r\n")
    run = subprocess.run(
        [sys.executable, "-m", "layoutscope", "--install-completion"], capture_output=True, text=True, check=False,
        env={**program, "HOME": str(tmp_path)}, cwd=ROOT,
    )  # fmt: skip
    assert (run.returncode, "No such option" in run.stderr, "--show-completion" in run.stderr) == (2, True, True)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".bashrc", "layoutscope"]


def test_bash_completes_with_the_script(program, tmp_path):
    """A real bash with the script completes the beginning of a command."""
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("bash is not installed")
    (tmp_path / "layoutscope").write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "{COMPLETING}" "$@"\n')
    script = """
        eval "$(_LAYOUTSCOPE_COMPLETE=source_bash layoutscope)"
        COMP_WORDS=(layoutscope checkp); COMP_CWORD=1
        _layoutscope_completion layoutscope
        echo "${COMPREPLY[@]}"
    """
    run = subprocess.run([bash, "--norc", "-c", script], env=program, capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["checkpoints"]

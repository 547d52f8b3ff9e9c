"""Words on the command line: choices, old spellings, suggestions, images without a command."""

from __future__ import annotations

import pytest
import typer

from layoutscope.api.compare import ORDERINGS
from layoutscope.api.export import ALL, DOCUMENT_FORMATS, EXPORTED
from layoutscope.api.plan import PLANNED
from layoutscope.api.trace import FORMATS as TRACE_FORMATS
from layoutscope.api.workloads import PLACEMENTS
from layoutscope.cli import app
from layoutscope.cli.help import RENAMED, describe_options, rename_options
from layoutscope.cli.options import complete_what_if
from layoutscope.drive.recordings import FORMS
from layoutscope.remedies.changes import WHAT_IFS
from layoutscope.report.tables import FORMATS
from layoutscope.walk.host import HOSTS
from layoutscope.walk.orders import ORDERS


def choices(command, flag):
    """Return the choices of an option, from its help."""
    made = typer.main.get_command(app).commands[command]
    context = made.make_context(command, [], resilient_parsing=True)
    (option,) = [item for item in describe_options(made, context) if flag in item.names.split(", ")]
    return option.choices


@pytest.mark.parametrize(
    ("offered", "known"),
    [
        (choices("trace", "--order"), ORDERS),
        (choices("predict", "--order"), [*ORDERS, "all"]),
        (choices("plan", "--order"), PLANNED),
        (choices("scan", "--host"), HOSTS),
        (choices("export", "--table"), [*EXPORTED, ALL]),
        (choices("export", "--format"), [*FORMATS, *DOCUMENT_FORMATS]),
        (choices("trace", "--format"), TRACE_FORMATS),
        (choices("replay", "--format"), [*FORMS]),
        (choices("series", "--by"), ORDERINGS),
        (choices("predict", "--placement"), PLACEMENTS),
        (complete_what_if(""), [*WHAT_IFS]),
    ],
    ids=[
        *("orders", "orders and all", "planned orders", "hosts", "tables", "export formats", "traces", "replay"),
        *("orderings", "placements", "what-ifs"),
    ],
)
def test_choices_are_what_the_library_knows(offered, known):
    """Help lists exactly the choices of the library."""
    assert sorted(offered) == sorted(known)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["scann", "x"], 2, "Did you mean 'scan'?"),
        (["drives", "--jsn"], 2, "No such option: --jsn (did you mean '--json'?)"),
        (
            ["predict", "x", "--order", "fst"],
            2,
            "unknown order 'fst' (did you mean 'fts'?). Choose from: fts, readdir-stat",
        ),
        (["predict", "x", "--what-if", "packd"], 2, "did you mean 'packed'?"),
        (["export", "x", "--table", "nods"], 2, "did you mean 'nodes'?"),
        (["scan", "x", "--host", "macosx"], 2, "did you mean 'macos'?"),
        (["drives", "generic-720"], 2, "did you mean 'generic-7200'?"),
        (["disk.img"], 2, "disk.img: no such file or verb. Write: layoutscope scan IMAGE"),
    ],
)
def test_misspelt_words_are_suggested(run, words, code, said):
    """Commands, options, orders, what-ifs, tables, operating systems and drives: each error suggests a similar word."""
    result = run(*words)
    assert (result.exit_code, result.stdout) == (code, "")
    assert said in " ".join(result.stderr.split())


def test_a_misspelt_volume_is_suggested(run, image):
    """The error lists the volumes of the image and suggests the intended one."""
    assert "did you mean 'Scattered'?" in run("scan", image, "--volume", "Scatered").stderr


def test_an_image_alone_is_scanned(run, image):
    """Without a command an image is scanned, with options."""
    assert run(image, "--json").stdout == run("scan", image, "--json").stdout


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (["replay", "TRACE", "--cache", "off"], ["replay", "TRACE", "--buffer", "off"]),
        (["predict", "IMAGE", "--cache=64KiB"], ["predict", "IMAGE", "--memory=64KiB"]),
        (["predict", "IMAGE", "--starts-at", "4096"], ["predict", "IMAGE", "--start-offset", "4096"]),
        (["predict", "IMAGE", "--from", "/"], ["predict", "IMAGE", "--start", "/"]),
        (
            ["trace", "IMAGE", "--order", "paths", "--list", "LIST"],
            ["trace", "IMAGE", "--order", "paths", "--paths", "LIST"],
        ),
        (["scan", "IMAGE", "--map-file", "MAP"], ["scan", "IMAGE", "--ddrescue-map", "MAP"]),
        (["drives", "fit", "mine", "--figure", "rpm"], ["drives", "fit", "mine", "--datasheet", "rpm"]),
    ],
)
def test_old_spellings_do_the_same_and_say_so(run, image, tmp_path, old, new):
    """An old option works like its new name and prints one line about it."""
    (tmp_path / "list").write_text("/\n")
    (tmp_path / "walk.csv").write_text("image_offset,length_bytes\n4096,4096\n81920,4096\n")
    (tmp_path / "disk.map").write_text(f"0x0 +\n0x0 0x{image.stat().st_size:x} +\n")
    files = {"IMAGE": image, "TRACE": tmp_path / "walk.csv", "LIST": tmp_path / "list", "MAP": tmp_path / "disk.map"}
    before, after = (run(*(files.get(word, word) for word in words)) for words in (old, new))
    assert (before.stdout, before.exit_code) == (after.stdout, after.exit_code)
    told = before.stderr.removesuffix(after.stderr)
    assert told.count("\n") == 1
    assert "is called --" in told
    assert "is called" not in after.stderr


def test_every_old_spelling_has_a_new_one_that_exists(run):
    """Each replacement is an option of a command."""
    from layoutscope.cli.application import COMMANDS

    helps = {name: run(name, "--help-all").stdout for name in COMMANDS}
    for command, names in RENAMED.items():
        for old, new in names.items():
            texts = helps.values() if not command else [helps[command]]
            assert any(f"  {new} " in text for text in texts), new
            # An option that keeps its name means something else there, and is not an old spelling.
            assert new == old or not any(f"  {old} " in text for text in texts if command), old


def test_what_stands_behind_two_hyphens_is_no_option():
    """A file whose name looks like an old option is opened under its name."""
    assert rename_options("scan", ["--", "--map-file"]) == ["--", "--map-file"]

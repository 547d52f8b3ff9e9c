"""Errors and words of the command line: one line, suggestions, and plain English."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from layoutscope.api.compare import ORDERINGS
from layoutscope.api.export import ALL, DOCUMENT_FORMATS, EXPORTED
from layoutscope.api.plan import PLANNED
from layoutscope.api.predict import PLACEMENTS
from layoutscope.api.trace import FORMATS as TRACE_FORMATS
from layoutscope.cli import app
from layoutscope.cli.help import RENAMED, describe_options, rename_options
from layoutscope.cli.parameters import complete_what_if
from layoutscope.drive.recordings import FORMS
from layoutscope.errors import TruncatedError
from layoutscope.remedies.changes import WHAT_IFS
from layoutscope.report.tables import FORMATS
from layoutscope.walk.host import HOSTS
from layoutscope.walk.orders import ORDERS
from tests.cases import for_each
from tests.cli.conftest import ROOT


def one_line(result, code):
    """Check that a run ended with a code, one line on standard error and nothing on standard output."""
    assert (result.exit_code, result.stdout) == (code, "")
    assert result.stderr.startswith("layoutscope: ")
    assert result.stderr.count("\n") == 1
    return result.stderr


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("nothing.img", None, "no such file"),
        (".", None, "is a directory"),
        ("empty.img", b"", "is empty"),
        ("notes.txt", b"Dear diary\n" * 50, "is a text file"),
        ("zeroes.img", bytes(1 << 20), "no HFS+ or APFS volume found"),
        ("noise.img", bytes(range(256)) * 4096, "no HFS+ or APFS volume found"),
        ("a\x1b[31mb", None, "\\u001b[31m"),
    ],
)
def test_what_is_no_image_is_named_in_one_line(run, tmp_path, name, content, said):
    """With what it is, and the same after a sweep; control characters of a name are escaped."""
    if content is not None:
        (tmp_path / name).write_bytes(content)
    told = one_line(run("scan", tmp_path / name), 1)
    assert said in told
    assert one_line(run("scan", tmp_path / name, "--sweep"), 1) == told


def test_other_file_system(run, tmp_path, peer):
    """An ext4 image is refused by its name."""
    target = tmp_path / "linux.img"
    target.write_bytes(bytes(4 << 20))
    subprocess.run([peer("mkfs.ext4"), "-q", "-F", str(target)], check=True)
    assert "ext" in one_line(run("scan", target), 1)


def test_denied_by_the_system(run, image, monkeypatch):
    """One line, whichever user runs the test; nothing checks permissions before a file is opened."""
    monkeypatch.setattr("os.access", lambda *_args, **_options: False)
    assert run("scan", image).exit_code == 0

    def deny(*_args, **_options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("layoutscope.image.raw.os.open", deny)
    assert "permission denied" in one_line(run("scan", image), 1)


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        # An error that is also an EOFError is not an aborted prompt.
        (TruncatedError("cut", structure="node", image_offset=4096), 1, "node at byte 4,096: cut"),
        (MemoryError(), 1, "there is not enough memory for this"),
        (OSError(5, "Input/output error", "/dev/disk4"), 1, "/dev/disk4: input/output error"),
        (KeyboardInterrupt(), 130, ""),  # the program adds its line
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_ends_a_command_is_one_line(run, image, monkeypatch, error, code, said):
    """Whatever is raised while an image is opened."""

    def fail(*_args, **_options):
        raise error

    monkeypatch.setattr("layoutscope.api.scan.open_volumes", fail)
    result = run("scan", image)
    told = f"layoutscope: {said}\n" if said else ""
    assert (result.exit_code, result.stdout, result.stderr) == (code, "", told)


def test_broken_pipe_is_quiet(image):
    """A reader that closes the pipe early is not an error."""
    command = f'"{sys.executable}" -m layoutscope export "{image}" --table extents | head -n 1'
    result = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith("row,")


PARQUET = ("export", "--table", "nodes", "--format", "parquet")


def test_a_closed_output_is_one_line(image):
    """An image that is opened next does not become the standard output, and nothing is printed into it."""
    command = f'"{sys.executable}" -m layoutscope scan "{image}" >&-'
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False, cwd=ROOT)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.startswith("layoutscope: the output cannot be written: ")
    assert result.stderr.count("\n") == 1


def test_all_streams_closed(image, tmp_path):
    """A command that writes a file works without any of the three."""
    target = tmp_path / "nodes.csv"
    command = f'"{sys.executable}" -m layoutscope export "{image}" --table nodes -o "{target}" <&- >&- 2>&-'
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False, cwd=ROOT)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert target.read_text().startswith("row,")


@pytest.mark.full
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device")
@pytest.mark.parametrize("words", [("scan",), ("scan", "--json"), ("export", "--table", "nodes"), ("trace",), PARQUET])
def test_a_full_disk_is_one_line(image, words):
    """A standard output that is full ends with 1 and the reason, without a traceback."""
    command = [sys.executable, "-m", "layoutscope", words[0], str(image), *words[1:]]
    with Path("/dev/full").open("wb") as full:
        result = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, cwd=ROOT)
    assert result.returncode == 1
    assert result.stderr.startswith("layoutscope: the output cannot be written: ")
    assert result.stderr.count("\n") == 1


# Words on the command line: choices, old spellings, suggestions, images without a command.


CHOICES = {
    "trace --order": ORDERS,
    "predict --order": [*ORDERS, "all"],
    "plan --order": PLANNED,
    "scan --host": HOSTS,
    "export --table": [*EXPORTED, ALL],
    "export --format": [*FORMATS, *DOCUMENT_FORMATS],
    "trace --format": TRACE_FORMATS,
    "replay --format": FORMS,
    "series --by": ORDERINGS,
    "predict --placement": PLACEMENTS,
}


@for_each("typed, known", CHOICES.items())
def test_choices_are_what_the_library_knows(typed, known):
    """Help lists exactly the choices of the library; what-ifs are completed."""
    command, flag = typed.split()
    made = typer.main.get_command(app).commands[command]
    context = made.make_context(command, [], resilient_parsing=True)
    (option,) = [item for item in describe_options(made, context) if flag in item.names.split(", ")]
    assert sorted(option.choices) == sorted(known)
    assert sorted(complete_what_if("")) == sorted(WHAT_IFS)


WRONG = """
scann x: Did you mean 'scan'?
drives --jsn: No such option: --jsn (did you mean '--json'?)
disk.img: disk.img: no such file or verb. Write: layoutscope scan IMAGE
drives generic-720: did you mean 'generic-7200'?
scan IMAGE --volume Scatered: did you mean 'Scattered'?
scan IMAGE --drive abacus: unknown drive profile
scan IMAGE --host vms: unknown host 'vms'
scan x --host macosx: did you mean 'macos'?
scan IMAGE --partition 7: no volume in partition 7
scan IMAGE --volume Nowhere: no volume 'Nowhere'
scan IMAGE --volume-at 12: no volume starts at byte 12
scan IMAGE --volume-at soon: not a number of bytes
scan IMAGE --volume-at -1: not a number of bytes
predict x --order fst: unknown order 'fst' (did you mean 'fts'?). Choose from: fts, readdir-stat
predict x --what-if packd: did you mean 'packed'?
predict IMAGE --order zigzag: unknown order 'zigzag'
predict IMAGE --order paths: needs its paths
predict IMAGE --order read: needs its file
predict IMAGE --order read --file /Users: '/Users' is a directory
predict IMAGE --what-if magic: unknown what-if 'magic'
predict IMAGE --start /no/such: no file at '/no/such'
predict IMAGE --memory lots: not a number of bytes
predict IMAGE --placement unknown --order all: one order that covers the whole volume
predict IMAGE --placement unknown --start /Users: one order that covers the whole volume
predict IMAGE --order all --what-if ssd: one order
predict IMAGE --order all --ncdu costs: one order
trace IMAGE --order all: unknown order 'all'
plan IMAGE --order names: unknown order 'names'
plan IMAGE --drive no-such-drive: unknown drive profile 'no-such-drive'
plan IMAGE --drive '': unknown drive profile ''. Choose from:
plan IMAGE --start-offset far: 'far' is not a number of bytes
plan IMAGE --lasts 0: 0 is not in the range x>=1
plan IMAGE --lasts 5 --order copy: is forecast for the order fts alone
forecast IMAGE --workload replaec: unknown workload 'replaec' (did you mean 'replace'?). Choose from: replace,
forecast IMAGE --share 0: more than 0 and at most 1: it is 0
forecast IMAGE --share 1.5: it is 1.5
forecast IMAGE --seeds 65: 65 is not in the range 1<=x<=64
forecast IMAGE --drive nosuch: unknown drive profile 'nosuch'
export x --table nods: did you mean 'nodes'?
export IMAGE --table chairs: unknown table 'chairs'
export IMAGE --table nodes --format xls: unknown format 'xls'
export IMAGE --table nodes -o /no/such/folder/x.csv: folder does not exist
export IMAGE --table all: Name a folder
export IMAGE --table all -o FILE: is not a folder
export IMAGE --format bodyfile --table nodes: leave the table out
export IMAGE --format bodyfile -o a.csv: ends as csv does
export IMAGE --format csv --table nodes -o a.dfxml: ends as dfxml does
export IMAGE --format folded -o a.speedscope.json: ends as speedscope does
export IMAGE: no table was named
export IMAGE --format csv: no table was named
inspect IMAGE: give exactly one place
inspect IMAGE --at 0 --lba 0: give exactly one place
inspect IMAGE --node catalog: is not a node
inspect IMAGE --node catalog:999999: no node catalog:999999
inspect IMAGE --at 1TiB: is outside the image
inspect IMAGE --cnid 4000000000: no file with the number
inspect IMAGE --path /no/such: no file at '/no/such'
check IMAGE --json --format csv: --json and --format csv contradict each other
check IMAGE --explain --json: --explain needs text output: json was chosen
check IMAGE --rule no-such-rule: there is no finding code 'no-such-rule'
check IMAGE --format xml: unknown format 'xml'. Choose from: text, json, csv, sarif
"""
"""Command lines that cannot be, and the reason."""


@for_each("line, reason", [line.split(": ", 1) for line in WRONG.strip().splitlines()])
def test_what_cannot_be_asked_is_refused(run, image, tmp_path, monkeypatch, line, reason):
    """Exit code 2, what is wrong, valid or similar words, and nothing on standard output or in the folder."""
    monkeypatch.chdir(tmp_path)
    places = {"IMAGE": image, "FILE": __file__}
    result = run(*(places.get(word, word) for word in shlex.split(line)))
    assert (result.exit_code, result.stdout, list(tmp_path.iterdir())) == (2, "", [])
    assert reason in " ".join(result.stderr.split())
    assert (
        result.stderr.count("\n") == 1
        or "not in the range" in reason
        or line.startswith(("scann", "drives --jsn", "disk"))
    )


def test_an_image_alone_is_scanned(run, image):
    """With options; after two hyphens, a file whose name looks like an old option is opened under its name."""
    assert run(image, "--json").stdout == run("scan", image, "--json").stdout
    assert rename_options("scan", ["--", "--map-file"]) == ["--", "--map-file"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("replay TRACE --cache off", "--buffer off"),
        ("predict IMAGE --cache=64KiB", "--memory=64KiB"),
        ("predict IMAGE --starts-at 4096", "--start-offset 4096"),
        ("predict IMAGE --from /", "--start /"),
        ("trace IMAGE --order paths --list LIST", "--paths LIST"),
        ("scan IMAGE --map-file MAP", "--ddrescue-map MAP"),
        ("drives fit mine --figure rpm", "--datasheet rpm"),
    ],
)
def test_old_spellings_do_the_same_and_say_so(run, image, tmp_path, old, new):
    """An old option, the last one, works like its new name and prints one line about it."""
    (tmp_path / "list").write_text("/\n")
    (tmp_path / "walk.csv").write_text("image_offset,length_bytes\n4096,4096\n81920,4096\n")
    (tmp_path / "disk.map").write_text(f"0x0 +\n0x0 0x{image.stat().st_size:x} +\n")
    files = {"IMAGE": image, "TRACE": tmp_path / "walk.csv", "LIST": tmp_path / "list", "MAP": tmp_path / "disk.map"}
    typed = old, f"{old[: old.rindex('--')]}{new}"
    before, after = (run(*(files.get(word, word) for word in words.split())) for words in typed)
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

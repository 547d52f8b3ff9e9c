"""Two versions are compared by all their output: differences between runs are ignored, all others are reported."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

from layoutscope.findings import Finding
from tests.conftest import ROOT
from tests.equality.asked import VERBS, calls, commands
from tests.equality.cases import Case
from tests.equality.differences import compare, report
from tests.equality.told import LONG, normalised, object_text, unsalted

if TYPE_CHECKING:
    from pathlib import Path


def run(*words: object, tree: Path = ROOT) -> str:
    """Run the tool on the package of a source tree, as from a checkout."""
    around = {**os.environ, "PYTHONPATH": str(tree)}
    command = [sys.executable, "-m", "tests.equality", *map(str, words)]
    done = subprocess.run(command, cwd=ROOT, env=around, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def images(tmp_path):
    """Write two small images and the list that describes them."""
    from fixtures.hfsplus.scenarios import SCENARIOS
    from fixtures.hfsplus.writer import write

    folder = tmp_path / "images"
    folder.mkdir()
    write(SCENARIOS["populated"], folder / "volume.img")
    (folder / "text.img").write_text("This is no disk.\n" * 100)
    (folder / "quick.json").write_text(
        '[{"name": "volume.img", "kind": "fault"}, {"name": "text.img", "kind": "refused"}]'.replace(
            "}", ', "options": []}'
        )
    )
    return folder


@pytest.mark.full
@pytest.mark.images
def test_two_runs_of_one_version_say_the_same(tmp_path, images):
    for name in ("before", "after"):
        run(tmp_path / name, "--images", "quick", "--images-dir", images, "--jobs", 2)
    assert run(tmp_path / "after", "--against", tmp_path / "before", "--no-run") == "no difference\n"
    said = (tmp_path / "after" / "refused-text.img" / "scan.txt").read_text()
    assert said.startswith("exit 1\nlayoutscope: text.img: is a text file")
    assert str(tmp_path) not in "".join(path.read_text() for path in (tmp_path / "after").rglob("*.txt"))


def test_the_package_under_test_is_that_of_the_path(tmp_path, images):
    """The package on the path is used instead of the checkout's, even if its output and questions differ."""
    package = tmp_path / "tree" / "layoutscope"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("__version__ = '9.9'\n__all__ = []\n")
    (package / "cli.py").write_text(
        "import typer\napp = typer.Typer()\n@app.command()\ndef scan(image: str): typer.echo('other')\n"
        "@app.command()\ndef check(image: str): typer.echo('version 9.9')\n"
    )
    told = run(tmp_path / "out", "--images", "quick", "--images-dir", images, "--only", "volume", tree=package.parent)
    assert str(package.parent) in told
    answers = tmp_path / "out" / "volume.img"
    assert (answers / "scan-text.txt").read_text() == "exit 0\n\nother\n\n"
    assert (answers / "check-text.txt").read_text() == "exit 0\n\nversion <version>\n\n"
    assert (answers / "scan.txt").read_text().startswith("exit 2\n")
    assert (answers / "library-scan.txt").read_text().startswith("raises AttributeError")


def test_nothing_that_shows_answers_asks_the_package_of_this_checkout():
    """Names in the package move, and the tool must read the output of an older one."""
    loads = "import sys, tests.equality.__main__, tests.pages; sys.exit('layoutscope' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", loads], cwd=ROOT, check=False).returncode == 0


def test_every_verb_and_every_name_of_the_library_is_asked_under_its_own_name():
    import layoutscope
    from layoutscope.cli.application import COMMANDS

    assert {*VERBS} == {*COMMANDS}
    kinds = [Case("x.img", kind, partner="x.img") for kind in ("whole", "usual", "fault", "refused", "words", "batch")]
    assert {words[0] for case in kinds for _, words in commands(case)} >= {*COMMANDS}
    asked = {name for case in kinds for name, _ in calls(case)} | {"open"}
    assert {*layoutscope.__all__} - asked == {"__version__"}
    for case in kinds:
        names = [name for name, _ in commands(case)] + [f"library-{name}" for name, _ in calls(case)]
        assert len(names) == len({*names})


def test_what_belongs_to_a_run_is_left_out_and_nothing_else():
    clean = normalised("1.2.3", {"/a": "<a>", "/a/b": "<b>"})
    assert (
        clean("layoutscope 1.2.3 at /a/b/x and /a/x takes 1.5 s")
        == "layoutscope <version> at <b>/x and <a>/x takes 1.5 s"
    )
    assert clean("w/out: 1 source in 1.4 s") == "w/out: 1 source in <time>"
    assert clean("fork = 0123456789abcdef0123") == "fork = 0123456789abcdef0123"
    assert (
        unsalted("fork = 0123456789abcdef0123, id = 18446744073709551615") == "fork = <hash>, id = 18446744073709551615"
    )
    assert (
        clean('<g class="trace0a1b2c" clip-path="url(#clip0a1b2cxy)">')
        == '<g class="trace<id>" clip-path="url(#clip<id>xy)">'
    )
    assert clean("layoutscope: 1 of 2: complete p.img (1.4 s)") == "layoutscope: 1 of 2: complete p.img (<time>)"
    assert clean("Started:    2026-11-26T14:47:43\nVolume: x") == "Started:    <of the run>\nVolume: x"
    assert clean('"seconds": 1.5,\n "reads": 3') == '"seconds": 1.5,\n "reads": 3'
    assert clean('"seconds": 1.5,\n "has_capture": true') == '"seconds": <time>,\n "has_capture": true'


def test_objects_are_shown_through_all_that_they_hold():
    """Arrays are shown by kind, shape and numbers; a change of one number in a long one is detected."""
    short, long = np.arange(3, dtype=np.int64), np.arange(100)
    changed = long.copy()
    changed[50] += 1
    assert object_text({"a": (short, b"x", {2, 1})}, str).startswith(
        '{\n "a": [\n  {\n   "array": "int64",\n   "shape": [\n    3\n   ],'
    )
    assert object_text(long, str) != object_text(changed, str)
    assert object_text(short, str) != object_text(short.astype(np.int32), str)
    assert object_text(1, str) != object_text(1.0, str) != object_text("1", str)


def test_what_belongs_to_a_run_is_left_out_of_what_is_shown_as_a_hash():
    """An object that appears twice in another one is shown once, then as a hash of its run-independent content."""

    def shown(place: str) -> str:
        clean = normalised("1.2.3", {place: "<package>"})
        finding = Finding("image-incomplete", "error", "image", None, f"{place}/{'a' * LONG}")
        return clean(object_text((finding, finding), clean))

    assert '"as above"' in shown("/old")
    assert shown("/old") == shown("/newer")


def test_differences_are_listed_by_kinds_of_lines(tmp_path):
    for folder, count, more in (("old", 3, ""), ("new", 4, "new line\n")):
        for image in ("a.img", "b.img"):
            (tmp_path / folder / image).mkdir(parents=True)
            (tmp_path / folder / image / "scan.txt").write_text(f"exit 0\n{image} has {count} files\n{more}")
            (tmp_path / folder / image / "check.txt").write_text("exit 0\n")
    (tmp_path / "new" / "a.img" / "plan.txt").write_text("exit 0\n")
    differing, kinds = compare(tmp_path / "old", tmp_path / "new")
    assert differing == ["a.img/plan.txt", "a.img/scan.txt", "b.img/scan.txt"]
    assert {line: len(files) for line, files in kinds.items()} == {
        "+ new line": 2,
        "- a.img has 3 files": 1,
        "- b.img has 3 files": 1,
        "+ a.img has 4 files": 1,
        "+ b.img has 4 files": 1,
        "+ (the whole output)": 1,
    }
    assert report(tmp_path / "old", tmp_path / "new").startswith(
        "3 files differ, 6 kinds of lines\n+ new line\n    2 images"
    )
    assert report(tmp_path / "old", tmp_path / "old") == "no difference"


def test_lines_in_another_order_and_one_more_field_of_rows_are_a_difference_each(tmp_path):
    for folder, text, more in (("old", "a\nb\n", ""), ("new", "b\na\n", ',"condition":"sound"')):
        (tmp_path / "rows" / folder).mkdir(parents=True)
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.txt").write_text(text)
        rows = (f'{{"row":{row},"tree":"omap"{more}}}' for row in range(9))
        (tmp_path / "rows" / folder / "table.txt").write_text("\n".join(("exit 0", *rows)))
    assert [*compare(tmp_path / "old", tmp_path / "new")[1]] == ["! the order of lines, or what is around them"]
    assert [*compare(tmp_path / "rows" / "old", tmp_path / "rows" / "new")[1]] == ['+ condition = "sound"']

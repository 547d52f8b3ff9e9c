"""What is changed, which tests are asked, and that tests which pass are not refused."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys

import pytest

from tests.mutations.__main__ import ROOT, Reach, change_functions, choose, mutants_of

TEXT = '''"""Words with 1 number."""

LEAST: int = 5
MAX_ROWS: int = 6
ROWS_AT_ONCE: int = 7


def judged(value, least=3):
    """Some 2 words."""
    found = []
    if value > least and value % 2 == 0:
        found.append(
            value + 1)
    if not found:
        raise ValueError(1)
    return lambda: found


def shaped(table):
    """Some 3 words."""
    return table.reshape(2, -1)


def piece(text, table):
    """Some 4 words."""
    return text.split("x", 1)[3], table.max(initial=0), parse(text, image_offset=0)
'''


@pytest.fixture
def path(tmp_path):
    """Return where the module is."""
    place = tmp_path / "judged.py"
    place.write_text(TEXT)
    return place


def imported(path):
    """Import a module as it stands."""
    spec = importlib.util.spec_from_file_location("judged", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_change_of_code_is_made_and_no_other(path):
    """With the lines of its statement, and whether the body of a function has it; errors, words and limits stay."""
    found = [(item.lines.start, item.lines[-1], item.what, item.is_in_function) for item in mutants_of(str(path))]
    assert sorted(found) == [
        (3, 3, "5 to 6", False),
        (8, 8, "3 to 4", False),
        (11, 11, "0 to 1", True),
        (11, 11, "2 to 3", True),
        (11, 11, "and to or", True),
        (11, 11, "condition negated", True),
        (11, 11, "eq to noteq", True),
        (11, 11, "gt to gte", True),
        (11, 11, "mod to floordiv", True),
        (12, 13, "1 to 2", True),
        (12, 13, "add to sub", True),
        (14, 14, "condition negated", True),
        (21, 21, "2 to 3", True),
        (26, 26, "3 to 4", True),
    ]


def test_the_first_numbers_of_a_long_table_are_changed(tmp_path):
    """Ten of twenty, and both of the statement behind it."""
    path = tmp_path / "table.py"
    path.write_text(f"TABLE = {tuple(range(20))}\nPAIR = (1, 2)\n")
    found = [(item.number, item.lines.start) for item in mutants_of(str(path))]
    assert found == [*((number, 1) for number in range(10)), (20, 2), (21, 2)]


def test_functions_that_were_imported_are_changed(path):
    """6 is greater than 3 and even: 6 + 1, and with the change 6 - 1 or 6 + 2; lambdas in it go along."""
    module = imported(path)
    assert module.judged(6)() == [7]
    changes = {item.what: item for item in mutants_of(str(path))}
    for what, expected in (("add to sub", [5]), ("1 to 2", [8])):
        change_functions(changes[what])
        assert module.judged(6)() == expected
    change_functions(changes["and to or"])
    assert module.judged(7)() == [8]


def test_tests_that_execute_a_line_come_first_and_the_quickest_of_them(path):
    """Then the others of the same file, with which they share images, and none of other files."""
    (mutant,) = (item for item in mutants_of(str(path)) if item.what == "add to sub")
    seconds = {"a::slow": 3.0, "a::quick": 1.0, "a::other": 0.5, "a::endless": 1e9}
    reached = {
        "a": Reach(seconds, {str(path): {13: ["a::slow", "a::quick"], 11: ["a::other"]}}, {str(path): [3]}),
        "b": Reach({"b::any": 0.1}, {str(path): {11: ["b::any"]}}, {str(path): [3]}),
    }
    assert choose(mutant, reached) == [("a::quick", 1.0), ("a::slow", 3.0), ("a::other", 0.5)]


def test_tests_that_pass_are_recorded():
    """Though modules were imported before pytest, which warns of that, and warnings are errors."""
    pytest.importorskip("coverage")
    code = (
        "import hypothesis, pytest\n"
        "from tests.mutations.__main__ import record\n"
        "found = record(['tests/unit/partition/test_apm.py'], None, 1)['tests/unit/partition/test_apm.py']\n"
        "print(len(found.seconds) > 10, len(found.tests['layoutscope/partition/maps.py']) > 20)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "LAYOUTSCOPE_SHARED": str(ROOT / "no-such-folder")}
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert (ran.stdout, ran.stderr) == ("True True\n", "")

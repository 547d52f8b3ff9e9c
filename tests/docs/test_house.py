"""The house gets no worse: each number of ``house.py`` keeps its limit; and how the numbers are measured."""

from __future__ import annotations

import pytest

from tests.docs import house
from tests.docs.drawing import drawings, needed
from tests.docs.imports import circles, floors, imports, read_modules, rooms


@pytest.mark.full
@pytest.mark.parametrize("measure", house.MEASURES, ids=lambda measure: measure.what)
def test_number_keeps_its_limit(measure):
    """No number is worse than its limit; ``python -m tests.docs.house --show WORDS`` lists what it counts."""
    assert measure.holds, f"{measure.what}: {measure.value}, limit {measure.limit}"


def test_every_limit_is_of_a_row():
    """The file of limits has the rows of the table and no other."""
    assert list(house.limits()) == [measure.what for measure in house.MEASURES]


@pytest.fixture
def package(tmp_path):
    """Return a function that writes modules by their paths and returns those of the package ``toy``."""

    def write(**texts: str):
        for name, text in texts.items():
            path = tmp_path / "toy" / f"{name.replace('__', '/')}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return read_modules(tmp_path / "toy")

    return write


def test_imports_for_type_checkers_make_a_circle(package):
    """A circle is found even if one arrow is below TYPE_CHECKING and the other inside a function."""
    modules = package(
        tree="if TYPE_CHECKING:\n    from toy.node import Node\n",
        node="def read():\n    from toy import tree\n",
        leaf="from toy.node import Node\n",
    )
    assert circles(imports(modules)) == [["toy.node", "toy.tree"]]


def test_generated_modules_are_no_rooms(package):
    """What is generated is neither counted nor taken for an import of the package itself."""
    modules = package(reader="from toy import _generated\n", _generated__parser="import toy.reader\n")
    assert imports(modules) == {"toy.reader": set()}


def test_rooms_are_what_lies_directly_inside(package):
    """Imports inside a folder are not arrows; two imports between the same rooms are one."""
    modules = package(
        top="from toy.tree import node, leaf\n", tree__node="from toy.tree import leaf\n", tree__leaf="import os\n"
    )
    assert rooms(imports(modules), "toy") == {"top": {"tree"}, "tree": set()}


def test_drawings_are_of_the_house_as_it_stands():
    """The drawings of the docs are those of today's imports; ``python -m tests.docs.drawing`` makes them again."""
    assert {path.name: path.read_text() == text for path, text in drawings().items()} == dict.fromkeys(
        ["house.svg", "hfsplus.svg", "apfs.svg"], True
    )


def test_arrows_that_a_longer_way_makes_needless_are_left_out():
    """The arrow that passes the middle of three floors is not drawn."""
    graph = {"roof": {"hall", "cellar"}, "hall": {"cellar"}, "cellar": set()}
    assert needed(graph) == {"roof": {"hall"}, "hall": {"cellar"}, "cellar": set()}


def test_floors_count_the_longest_way_down():
    """A room is above everything it imports, and the rooms of a circle on one floor above what they import."""
    graph = {"roof": {"hall", "cellar"}, "hall": {"stairs"}, "stairs": {"hall", "cellar"}, "cellar": set()}
    assert floors(graph) == {"roof": 2, "hall": 1, "stairs": 1, "cellar": 0}

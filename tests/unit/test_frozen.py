"""Frozen dataclasses of ours are those of Python, made with fewer functions."""

from __future__ import annotations

import copy
import inspect
import pickle
from dataclasses import FrozenInstanceError, dataclass, field, fields, is_dataclass, replace
from typing import Any

import pytest

from layoutscope.frozen import frozen


def classes(decorate: Any) -> dict[str, Any]:
    """Make the same classes with a decorator."""

    @decorate
    class Plain:
        """Fields, defaults, a factory, what is not compared, and what is not shown."""

        size: int
        name: str = "unnamed"
        parts: list[int] = field(default_factory=list, hash=False, compare=False)
        hidden: str = field(default="", repr=False)
        flag: bool = field(default=False, kw_only=True)
        known: dict[str, int] = field(default_factory=dict, init=False, repr=False, compare=False)

    @decorate
    class Single:
        """One field."""

        value: object

    @decorate
    class Empty:
        """No field."""

    @decorate
    class Checked:  # noqa: PLW1641  (the decorator adds the hash)
        """A check after it was made, and an equality of its own."""

        value: int

        def __post_init__(self) -> None:
            if self.value < 0:
                raise ValueError("negative")

        def __eq__(self, other: object) -> bool:
            return isinstance(other, type(self)) and self.value % 10 == other.value % 10

        def __repr__(self) -> str:
            return "own"

    class Base:
        """What another derives from."""

        __slots__ = ()

    @decorate
    class Derived(Base):
        """A class with a base that is none."""

        value: int

    return {kind.__name__: kind for kind in (Plain, Single, Empty, Checked, Derived)}


OURS, PYTHONS = classes(frozen), classes(dataclass(frozen=True, slots=True))


@frozen
class Kept:
    """At the top of a module, so that it can be pickled."""

    number: int
    words: tuple[str, ...] = ()


@pytest.mark.parametrize("name", list(OURS))
def test_the_same_fields_parameters_and_slots(name: str) -> None:
    """Whoever looks at a class sees what Python's own decorator makes."""
    ours, pythons = OURS[name], PYTHONS[name]
    assert is_dataclass(ours)
    assert [repr(item) for item in fields(ours)] == [repr(item) for item in fields(pythons)]
    assert [*inspect.signature(ours).parameters] == [*inspect.signature(pythons).parameters]
    kinds = [[item.kind for item in inspect.signature(kind).parameters.values()] for kind in (ours, pythons)]
    assert kinds[0] == kinds[1]
    assert ours.__slots__ == pythons.__slots__
    assert ours.__match_args__ == pythons.__match_args__


@pytest.mark.parametrize(
    ("name", "given", "named"),
    [
        ("Plain", (1,), {}),
        ("Plain", (1, "a", [2], "hidden"), {"flag": True}),
        ("Plain", (), {"size": 3, "parts": [1]}),
        ("Single", (None,), {}),
        ("Single", ((1, 2),), {}),
        ("Empty", (), {}),
        ("Checked", (12,), {}),
        ("Derived", (5,), {}),
    ],
)
def test_the_same_text_equality_and_hash(name: str, given: tuple[Any, ...], named: dict[str, Any]) -> None:
    """Two records with the same values are equal, hash alike where Python's do, and read as Python's."""
    ours, pythons = OURS[name](*given, **named), PYTHONS[name](*given, **named)
    assert repr(ours) == repr(pythons)
    assert (ours == OURS[name](*given, **named)) is (pythons == PYTHONS[name](*given, **named)) is True
    assert ours != pythons
    assert hash(ours) == hash(OURS[name](*given, **named)) == hash(pythons)
    assert [getattr(ours, item.name) for item in fields(ours)] == [
        getattr(pythons, item.name) for item in fields(pythons)
    ]


def test_what_is_not_compared_makes_no_difference() -> None:
    """Fields that take no part in a comparison may differ; all others may not."""
    plain = OURS["Plain"]
    assert plain(1, parts=[1]) == plain(1, parts=[2])
    assert plain(1) != plain(2)
    assert plain(1, hidden="a") != plain(1)


def test_factories_make_a_new_value_each_time() -> None:
    """No two records share a list that neither was given."""
    first, second = OURS["Plain"](1), OURS["Plain"](1)
    assert first.parts is not second.parts
    assert first.known is not second.known


@pytest.mark.parametrize("change", [lambda kept: setattr(kept, "number", 2), lambda kept: delattr(kept, "number")])
def test_nothing_can_be_changed(change: Any) -> None:
    """A field can neither be set nor deleted, and no other attribute be added."""
    kept = Kept(1)
    with pytest.raises(FrozenInstanceError):
        change(kept)
    with pytest.raises(FrozenInstanceError):
        kept.other = 1  # type: ignore[attr-defined]
    assert kept.number == 1


def test_replacing_copying_and_pickling() -> None:
    """Copies are equal; a replaced field differs alone."""
    kept = Kept(1, ("a",))
    assert replace(kept, number=2) == Kept(2, ("a",))
    assert pickle.loads(pickle.dumps(kept)) == copy.copy(kept) == copy.deepcopy(kept) == kept  # noqa: S301  (its own)


@pytest.mark.parametrize("kinds", [OURS, PYTHONS], ids=["ours", "Python's"])
def test_wrong_arguments_are_refused(kinds: dict[str, Any]) -> None:
    """Too few, too many, unknown, by place what goes by name, and what its own check refuses."""
    for given, named in [((), {}), ((1, "a", [], "", True), {}), ((1,), {"known": {}})]:
        with pytest.raises(TypeError):
            kinds["Plain"](*given, **named)
    with pytest.raises(ValueError, match="negative"):
        kinds["Checked"](-1)


def test_a_record_that_holds_itself_can_be_shown() -> None:
    """A circle ends in dots, as with Python's."""
    held: list[Any] = []
    single = OURS["Single"](held)
    held.append(single)
    assert repr(single).endswith("Single(value=[...])")

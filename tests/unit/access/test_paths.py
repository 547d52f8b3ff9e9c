"""Paths of names: what a component may hold, where a path begins, and how long it gets."""

from __future__ import annotations

import pytest

from layoutscope.access.entries import LENGTH, LOST, MAX_PATH_BYTES, NAME, Paths, can_be_component, path_component
from layoutscope.results.frames import with_paths
from layoutscope.results.inspect import paths_of, resolve
from tests.layouts import entries, layout


def volume(*rows, files=()):
    """Make a volume from folders (number, directory and name) and files in the same form."""
    made = [(parent, number, name, "directory", 0) for number, parent, name in rows]
    made += [(parent, number, name, "file", 0) for number, parent, name in files]
    return layout(entries=entries(*made))


def spelled(paths, *numbers):
    return [tuple(paths.folder(number)) for number in numbers]


@pytest.mark.parametrize(
    ("name", "component"),
    [
        ("a", "a"),
        ("a/b", r"a\u002fb"),
        ("/", r"\u002f"),
        ("a\0b", r"a\u0000b"),
        (".", r"\u002e"),
        ("..", r"\u002e\u002e"),
        ("...", "..."),
        ("a:b\n", "a:b\n"),
        (r"a\u002fb", r"a\u005cu002fb"),
        (r"\u005cu002f", r"\u005cu005cu002f"),
        (r"\u002e\u002e", r"\u005cu002e\u005cu002e"),
        (r"back\slash \u0041", r"back\slash \u0041"),
    ],
)
def test_a_component_holds_nothing_that_parts_a_path(name, component):
    """Apart from separators, only the characters of the escape syntax itself are escaped."""
    assert path_component(name) == component
    assert can_be_component(component)


def test_names_are_spelled_apart_and_come_back():
    """All names of up to four significant characters have distinct spellings; possible names keep their bytes."""
    signs = ("/", "\0", ".", "\\", r"\u002f", r"\u005c", "u002e")
    names = {first + second + third for first in ("", *signs) for second in ("", *signs) for third in ("", *signs)}
    assert len({path_component(name) for name in names}) == len(names)
    paths = Paths(volume())
    for name in names - {""}:
        path = paths.entry(5, 2, name)
        assert path.flaw == ("" if can_be_component(name) else NAME)
        if not path.flaw:
            assert path.to_bytes() == b"/" + name.encode()


def test_a_path_leads_from_the_root():
    """The root is a slash; a path is the path of its directory plus the name; descendants inherit a flaw."""
    paths = Paths(volume((20, 2, "a"), (21, 20, "b"), (22, 20, ".."), (23, 22, "c")))
    assert spelled(paths, 2, 20, 21) == [("/", ""), ("/a", ""), ("/a/b", "")]
    assert spelled(paths, 22, 23) == [(r"/a/\u002e\u002e", NAME), (r"/a/\u002e\u002e/c", NAME)]
    assert paths.entry(30, 21, "f") == ("/a/b/f", "")
    assert paths.entry(30, 2, "f") == ("/f", "")
    assert paths.entry(30, 23, "f") == (r"/a/\u002e\u002e/c/f", NAME)
    assert paths.entry(2, 1, "volume") == ("/", "")
    assert paths.entry(30, 20, None) == paths.entry(30, 20, "") == ("/a/<30>", NAME)
    # Links to directories, or damage, can give a directory several entries.
    assert Paths(volume((20, 2, "first"), (20, 2, "second"))).folder(20) == ("/first", "")
    # A directory without a name, and each directory of a ring, starts a path of its own, in any order.
    rows = [(20, 77, "a"), (21, 20, "b"), (30, 32, "x"), (31, 30, "y"), (32, 31, "z"), (33, 31, "w"), (40, 40, "self")]
    wanted = {
        20: "<77>/a", 21: "<77>/a/b", 30: "<30>", 31: "<31>", 32: "<32>", 33: "<31>/w", 40: "<40>", 77: "<77>",
    }  # fmt: skip
    for order in (list(wanted), list(wanted)[::-1]):
        paths = Paths(volume(*rows))
        assert [(number, *paths.folder(number)) for number in order] == [
            (number, wanted[number], LOST) for number in order
        ]
    assert paths.entry(50, 33, "f") == ("<31>/w/f", LOST)
    assert paths.entry(50, 78, "f") == ("<78>/f", LOST)


def test_long_paths_keep_their_end():
    """454 names of 9 bytes (with slash) fit into 4,094 bytes; 1,000 bytes hold the last 111 names, which differ."""
    rows = [(100 + k, 2 if not k else 99 + k, f"d{k:07}") for k in range(1000)]
    for order in (range(1000), reversed(range(1000))):
        paths = Paths(volume(*rows))
        found = {k: paths.folder(100 + k) for k in order}
        assert found[453] == ("".join(f"/d{k:07}" for k in range(454)), "")
        assert len(found[453].text) == 4086
        for last in (454, 999):
            first = last - 110
            assert found[last] == (f"…/<{99 + first}>" + "".join(f"/d{k:07}" for k in range(first, last + 1)), LENGTH)
        assert len(set(found.values())) == 1000
    assert paths.entry(5, 553, "x" * 7) == (found[453].text + "/xxxxxxx", "")
    assert len(paths.entry(5, 553, "x" * 7).text) == MAX_PATH_BYTES
    assert paths.entry(5, 553, "x" * 8).flaw == paths.entry(5, 554, "x").flaw == LENGTH
    assert paths.entry(5, 1099, "é" * 400) == (
        "…/<1077>" + "".join(f"/d{k:07}" for k in range(978, 1000)) + "/" + "é" * 400,
        LENGTH,
    )
    # A name alone that takes more stays whole: six bytes for each of 255 slashes.
    assert paths.entry(5, 1099, "/" * 255) == ("…/<1099>/" + r"\u002f" * 255, LENGTH)


def test_a_path_takes_as_many_steps_as_it_is_long(monkeypatch):
    """Computing all paths of a chain of 4,000 folders takes the sum of their bytes, and the cache is bounded."""
    monkeypatch.setattr("layoutscope.access.entries.MAX_KNOWN_BYTES", 10_000)
    rows = [(100 + k, 2 if not k else 99 + k, "a") for k in range(4000)]
    paths = Paths(volume(*rows))
    texts = [paths.folder(100 + k).text for k in range(4000)]
    assert texts[2046] == "/a" * 2047
    assert max(map(len, texts)) == 4094
    assert all(len(text.encode()) <= 1020 for text in texts[2047:])
    assert sum(map(len, paths._known.values())) <= 10_000 + 4094


def test_a_name_is_found_as_paths_spell_it():
    """A path that an export prints leads back to the file; ``..`` leads nowhere."""
    made = volume((20, 2, ".."), (21, 2, "a/b"), files=[(30, 20, "c"), (31, 21, ".")])
    assert paths_of(made, 30) == [r"/\u002e\u002e/c"]
    assert paths_of(made, 31) == [r"/a\u002fb/\u002e"]
    for number in (30, 31):
        assert resolve(made, paths_of(made, number)[0]) == number
    assert resolve(made, "/../c") is None
    assert resolve(made, "/a/b/.") is None
    assert with_paths(made)["path"].to_list() == [
        "/\\u002e\\u002e",
        "/a\\u002fb",
        "/\\u002e\\u002e/c",
        "/a\\u002fb/\\u002e",
    ]

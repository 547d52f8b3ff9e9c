"""Paths as people type them."""

from __future__ import annotations

import pytest

from layoutscope.results.inspect import resolve
from tests.layouts import entries, layout

NAMES = entries(
    (2, 20, "cafe\u0301", "directory", 0),
    (20, 21, "Stra\u00dfe", "file", 1),
    (20, 22, "\u00c5ngstro\u0308m", "file", 2),
    (2, 23, "A", "file", 3),
    (2, 24, "a", "file", 4),
)


@pytest.mark.parametrize(
    ("path", "file_id"),
    [
        ("/cafe\u0301", 20),
        ("/caf\u00e9/", 20),
        ("CAF\u00c9/A\u030angstr\u00f6m", 22),
        ("/caf\u00e9/STRASSE", 21),
        ("A", 23),
        ("a", 24),
        ("/", 2),
        ("/cafe", None),
        ("/caf\u00e9/x/y", None),
    ],
)
def test_composition_and_case_do_not_matter_where_nothing_matches_exactly(path, file_id):
    """A name matches exactly first, else decomposed and folded, as on the volume itself."""
    assert resolve(layout(entries=NAMES, case_sensitive=False), path) == file_id


def test_case_matters_where_the_volume_minds_it():
    """On a case-sensitive volume only composition is ignored."""
    sensitive = layout(entries=NAMES, case_sensitive=True)
    assert resolve(sensitive, "/caf\u00e9") == 20
    assert resolve(sensitive, "/CAF\u00c9") is None

"""Host properties given by name and as text."""

from __future__ import annotations

import pytest

from layoutscope.walk.host import HOSTS, LINUX, property_values, set_properties, sources


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("apfs_looks_up_dstream", "False", False),
        ("apfs_looks_up_dstream", "no", False),
        ("elevator", "1", True),
        ("read_ahead_bytes", "256KiB", 262144),
        ("cache_bytes", "1GiB", 1 << 30),
        ("cache_bytes", "unlimited", None),
        ("name_cache_entries", "5000", 5000),
        ("name_cache_entries", "unlimited", None),
        ("threads", "8", 8),
        ("hidden_names", "a,b", ("a", "b")),
        ("apfs.node_us", "2.5", 2.5),
    ],
)
def test_text_is_read_as_the_kind_of_the_property(name, text, value):
    """Booleans, sizes, numbers and names are parsed by the property's kind, and no other property changes."""
    changed = property_values(set_properties(LINUX, {name: text}))
    assert changed.pop(name) == value
    assert changed.items() <= property_values(LINUX).items()


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("read_ahead", "1", "unknown host property 'read_ahead'. Choose from: node_read_bytes, "),
        ("name", "x", "unknown host property 'name'"),
        ("elevator", "maybe", "elevator: 'maybe' is not a yes or no"),
        ("threads", "-1", "threads: '-1' is not a number or size"),
        ("threads", "unlimited", "threads: 'unlimited' is not a number or size"),
        ("apfs.node_us", "nan", "apfs.node_us: 'nan' is not a number"),
        ("read_ahead_bytes", "inf kB", "read_ahead_bytes: 'inf kB' is not a number or size"),
    ],
)
def test_what_a_property_cannot_be_is_refused(name, text, reason):
    """The error for an unknown name lists the known ones, that for a wrong value the expected form."""
    with pytest.raises(ValueError, match=reason):
        set_properties(LINUX, {name: text})


def test_every_property_has_its_source():
    assert set(property_values(LINUX)) == set(sources())
    assert all(len(source) == len(HOSTS) for source in sources().values())

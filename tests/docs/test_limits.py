"""The table of limits is complete, and each row is true."""

from __future__ import annotations

import re

import pytest

from tests.docs.limits import LIMITS, PACKAGE, ROOT, declared, is_elsewhere, value_of


def test_every_limit_is_in_the_table():
    """A constant that limits input is in the table, or among the others, with a reason."""
    listed = {limit.place for limit in LIMITS}
    found = set(declared())
    assert {place for place in found - listed if not is_elsewhere(place)} == set()
    assert listed - found == set()
    assert len(listed) == len(LIMITS)


@pytest.mark.parametrize("limit", LIMITS, ids=lambda limit: limit.place)
def test_message_and_test_are_there(limit):
    """The words are those of the package, and the test is one of ours."""
    package = PACKAGE / limit.place.split(".")[0]
    files = list(package.rglob("*.py")) if package.is_dir() else [package.with_suffix(".py")]
    is_in_code = any(limit.message in path.read_text() for path in [*files, PACKAGE / "inputs.py"])
    assert limit.message.startswith("no message") or is_in_code
    path, _, name = limit.test.partition("::")
    assert re.search(rf"^def {name}\(", (ROOT / path).read_text(), re.MULTILINE)
    assert "fuzz" not in path


def test_values_are_shown_as_they_are():
    """Bytes in units, seconds as such, numbers with their digits."""
    shown = {limit.place: value_of(limit) for limit in LIMITS}
    assert shown["image.cache.MAX_IMAGE_BYTES"] == "32 TiB"
    assert shown["filesystems.apfs.keybag.MAX_ITERATIONS"] == "10,000,000"
    assert shown["tables.capture.MAX_ADDRESS"] == "2^62"

"""Record types lay out their members contiguously, including nested and repeated ones."""

from __future__ import annotations

import numpy as np
import pytest

from layoutscope.structs.recordtypes import Field, RecordType

EXTENT = RecordType("toy.extent", start=">u4", num_blocks=">u4", end=lambda r: r["start"] + r["num_blocks"])
FORK = RecordType("toy.fork", size_bytes=">u8", extents=(EXTENT, 8))
FILE = RecordType("toy.file", kind="u1", name="V3", data=FORK, tail=(EXTENT, None, 10), flags=("<u2", 4))


def test_places_and_widths():
    """Members follow each other, with repetitions and nested records."""
    # 1 + 3 bytes, then the fork.
    assert (FILE.kind.offset, FILE.name.offset, FILE.data.offset) == (0, 1, 4)
    # A fork has 8 + 8 * 8 bytes; the file has 1 + 3 before it, then 10 bytes and 4 flags of 2.
    assert (FORK.width, FILE.width) == (72, 1 + 3 + 72 + 10 + 8)
    # The second number of the fork's first extent is 4 + 8 + 4 bytes in, and repeats every 8 bytes.
    field = FILE.data.extents.num_blocks
    assert (field, field.offset, field.counts, field.strides) == ("data.extents.num_blocks", 16, (8,), (8,))
    # Seven strides of 8 bytes, then one number of 4.
    assert FILE.data.extents.start.width == 7 * 8 + 4


def test_fields_are_listed_in_the_order_of_the_disk():
    """Nested records are listed by their fields; instances have no place."""
    assert FILE.fields() == [
        "kind",
        "name",
        "data.size_bytes",
        "data.extents.start",
        "data.extents.num_blocks",
        "tail.start",
        "tail.num_blocks",
        "flags",
    ]


def test_fields_are_located_by_their_names():
    """A prefix locates the record, and a dotted name a field in it."""
    # The formula uses the record's own fields; the prefix locates them.
    end = FILE.tail.end
    assert (end, end.prefix, end.formula({"start": 3, "num_blocks": 4})) == ("tail.end", "tail.", 7)
    # A field is also found by its dotted name.
    assert FILE.column("data.size_bytes") is FILE.data.size_bytes
    assert isinstance(FILE.column("flags"), Field)
    assert FILE.flags.scalar == np.dtype("<u2")


@pytest.mark.parametrize("name", ["data.size", "data", "nothing", ""])
def test_unknown_names_are_refused(name):
    """Neither an unknown member nor a nested record is a column."""
    with pytest.raises(KeyError, match=r"toy\.file has no fixed field or instance"):
        FILE.column(name)

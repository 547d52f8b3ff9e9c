from __future__ import annotations

import numpy as np
import pytest

from tests.unit.native.reference.xfields import extended_fields

# Two fields: type 13 of 8 bytes and type 4 of 3 bytes ("ab" and a zero byte), the latter padded to 8.
BLOB = bytes.fromhex(
    "0200 1000"  # two fields, 16 bytes of data
    "0d 08 0800"  # type 13, flags 8, 8 bytes
    "04 02 0300"  # type 4, flags 2, 3 bytes
    "1122334455667788"
    "616200 0000000000"
)


@pytest.fixture
def locate():
    """Return a function that locates the fields of contiguous values."""

    def run(*values: bytes):
        buffer = np.frombuffer(b"".join(values), np.uint8)
        lengths = np.array([len(value) for value in values])
        return extended_fields(buffer, np.cumsum(lengths) - lengths, lengths)

    return run


def test_data_follow_the_descriptions_each_padded_to_eight_bytes(locate):
    """With two descriptions, data starts at 4 + 2 * 4 = 12, and the second field at 12 + 8 = 20."""
    fields = locate(BLOB)
    assert fields.type.tolist() == [13, 4]
    assert fields.start.tolist() == [12, 20]
    assert fields.size_bytes.tolist() == [8, 3]
    assert fields.damaged.tolist() == []


def test_the_last_padding_may_be_cut_off(locate):
    """A value that ends with the data of its last field is whole."""
    assert locate(BLOB[:-5]).type.tolist() == [13, 4]


def test_values_without_fields_are_passed_over(locate):
    """The second of three values has no fields; the third's fields are relative to its own start, 28 bytes on."""
    fields = locate(BLOB, b"", BLOB)
    assert fields.record.tolist() == [0, 0, 2, 2]
    assert fields.start.tolist() == [12, 20, 28 + 12, 28 + 20]


@pytest.mark.parametrize("cut", [2, 10, 22])
def test_a_value_that_is_too_short_is_damaged(locate, cut):
    """A head, description or data outside the value makes it damaged, but not its neighbour."""
    fields = locate(BLOB[:cut], BLOB)
    assert fields.damaged.tolist() == [0]
    assert fields.record.tolist() == [1, 1]


def test_a_head_alone_is_a_value_without_fields(locate):
    """Four bytes with a count of zero are valid; three bytes are too few."""
    fields = locate(bytes(4), BLOB, bytes(3))
    assert fields.damaged.tolist() == [2]
    assert fields.record.tolist() == [1, 1]

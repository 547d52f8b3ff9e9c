"""Errors of the grammar wrapper have addresses on the image."""

from __future__ import annotations

import pytest

from layoutscope.errors import FormatError, TruncatedError
from layoutscope.structs import grammar


def test_errors_name_addresses_and_values():
    """A short buffer, and a wrong magic."""
    # A GPT header that ends after its revision (12 bytes) fails at the next field, 12 bytes in.
    with pytest.raises(TruncatedError) as caught:
        grammar.parse(grammar.Gpt.Header, b"EFI PART" + bytes([0, 0, 1, 0]), structure="GPT header", image_offset=512)
    assert caught.value.structure == "GPT header"
    assert caught.value.image_offset == 512 + 12
    # A wrong signature is reported with the expected and the found value.
    with pytest.raises(FormatError) as caught:
        grammar.parse(grammar.Gpt.Header, b"EFI PARX" + bytes(600), structure="GPT header", image_offset=512)
    assert caught.value.image_offset == 512
    assert (caught.value.expected, caught.value.found) == (b"EFI PART".hex(), b"EFI PARX".hex())

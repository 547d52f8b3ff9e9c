from __future__ import annotations

from dataclasses import fields

from layoutscope.options import ReadOptions, ReadRequest


def test_a_request_has_what_callers_may_say():
    """Each keyword of reading is a field of a request, and nothing else is."""
    assert {field.name for field in fields(ReadRequest)} == set(ReadOptions.__annotations__)


def test_a_request_without_keywords_reads_everything_as_mounted():
    """By default all volumes are read with their names, in bulk, the journal replayed, no sweep."""
    request = ReadRequest()
    assert (request.partition, request.volume, request.names, request.decoder) == (None, None, True, "bulk")
    assert (request.no_journal, request.sweep) == (False, False)

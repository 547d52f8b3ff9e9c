from __future__ import annotations

from dataclasses import fields

from layoutscope.filesystems.registry import read_options
from layoutscope.options import OF_ALL, ReadOptions, ReadRequest


def test_a_request_has_what_callers_may_say():
    """Each keyword of reading is an option of all file systems, or one that a file system of the package declares."""
    own = set(read_options())
    assert own == {"xid", "snapshot", "second", "password", "no_journal"}
    assert OF_ALL | own == set(ReadOptions.__annotations__)
    assert {field.name for field in fields(ReadRequest)} - {"second", "own"} == OF_ALL


def test_a_request_without_keywords_reads_everything_as_mounted():
    """By default all volumes are read with their names, in bulk, as each file system does by default, no sweep."""
    request = ReadRequest()
    assert (request.partition, request.volume, request.names, request.decoder) == (None, None, True, "bulk")
    assert (request.own, request.sweep) == ({}, False)

from __future__ import annotations

from pathlib import Path
from typing import get_args, get_origin

import pytest

from layoutscope.cli.options import Reading
from layoutscope.filesystems.registry import read_options
from layoutscope.options import OF_ALL, ReadOptions, ReadRequest


def test_a_request_has_what_callers_may_say():
    """Each keyword of reading is an option of all file systems, or one that a file system of the package declares."""
    own = set(read_options())
    assert own == {"xid", "snapshot", "second", "password", "no_journal"}
    assert OF_ALL | own == set(ReadOptions.__annotations__)
    assert set(ReadRequest.__struct_fields__) - {"second", "own"} == OF_ALL


def test_a_request_without_keywords_reads_everything_as_mounted():
    """By default all volumes are read with their names, in bulk, as each file system does by default, no sweep."""
    request = ReadRequest()
    assert (request.partition, request.volume, request.names, request.decoder) == (None, None, True, "bulk")
    assert (request.own, request.sweep) == ({}, False)


def value_for(option):
    """Return something that a user could say for an option, other than its default."""
    kind = get_args(option.annotation)[0]
    kinds = get_args(kind) if get_origin(kind) is not None and type(None) in get_args(kind) else (kind,)
    if bool in kinds:
        return not option.default
    if int in kinds:
        return 7
    if Path in kinds:
        return Path(__file__)
    return "grammar" if option.name == "decoder" else "7"


HEARD = [each for each in Reading.options() if each.name not in ("quiet", "evidence")]
"""Options that the reader hears of; how a terminal is watched, and what is written of it all, are not its business."""


@pytest.mark.parametrize("option", HEARD, ids=lambda each: each.name)
def test_every_option_reaches_the_reader(option, monkeypatch):
    """Whatever is said on the command line changes what the library is asked for; none is dropped on the way."""
    monkeypatch.setattr("layoutscope.cli.options.usual_cache", lambda: Path("cache"))
    unsaid = {each.name: each.default for each in Reading.options()}
    said = Reading(**{**unsaid, option.name: value_for(option)}).asked()
    assert said != Reading(**unsaid).asked()

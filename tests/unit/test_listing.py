from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

import layoutscope
from layoutscope.api import listing
from layoutscope.errors import LayoutscopeError, UsageError
from layoutscope.tables.schema import FLAG_PRIVATE

IMAGES = Path(__file__).parents[2] / "fixtures" / "images"
HFS, APFS = IMAGES / "hfsplus-scattered.img.zst", IMAGES / "apfs-scattered.img.zst"


@pytest.fixture(scope="module")
def session():
    """Return an open session on the small HFS+ image."""
    with layoutscope.open(HFS) as image:
        yield image


def written(image, **options):
    target = io.BytesIO()
    rows = layoutscope.list(image, target, **options)
    return rows, target.getvalue()


def test_every_name_is_a_row_in_the_order_of_paths(session):
    """A folder's contents follow it, and the file system's private entries are left out."""
    rows = layoutscope.list(session)
    paths = rows.part(slice(None))["path"]
    assert [path.replace("/", "\0") for path in paths] == sorted(path.replace("/", "\0") for path in paths)
    entries = session.layouts[0].columns("entries")
    assert len(rows) == np.count_nonzero(entries["flags"].data & FLAG_PRIVATE == 0) == len(set(paths))
    rows = layoutscope.list(session)
    whole = rows.part(slice(None))
    first, rest = rows.part(slice(0, 1000)), rows.part(slice(1000, None))
    assert {name: first[name] + rest[name] for name in first} == whole
    pytest.importorskip("polars")
    assert {name: rows.frame[name].to_list() for name in whole} == whole


@pytest.mark.parametrize("folder", ["/Users/jo", "Users/jo/"])
def test_a_folder_alone(session, folder):
    """The folder and its descendants are listed, but not a name with the same prefix."""
    every = layoutscope.list(session).part(slice(None))["path"]
    found = layoutscope.list(session, folder=folder).part(slice(None))["path"]
    assert found == [path for path in every if path == "/Users/jo" or path.startswith("/Users/jo/")]
    with pytest.raises(UsageError, match=r"no folder /Users/j on this volume"):
        layoutscope.list(session, folder="/Users/j")


def test_formats_hold_the_same_rows(session):
    """Text is one path per line or per zero byte; CSV and JSON lines have all columns."""
    rows, text = written(session)
    paths = rows.part(slice(None))["path"]
    shown = [path.replace("\r", "\\u000d") for path in paths]
    assert text.decode().split("\n")[:-1] == shown != paths
    assert written(session, zero=True)[1].decode().split("\0") == [*paths, ""]
    table = list(csv.DictReader(io.StringIO(written(session, file_format="csv")[1].decode())))
    assert [row["path"] for row in table] == shown
    lines = [json.loads(line) for line in written(session, file_format="jsonl")[1].decode().splitlines()]
    assert [row["path"] for row in lines] == paths
    assert [row["size_bytes"] for row in lines] == [int(row["size_bytes"]) for row in table]
    # Other formats have their own separators.
    with pytest.raises(UsageError, match="zero bytes"):
        layoutscope.list(session, zero=True, file_format="csv")
    with pytest.raises(UsageError, match="unknown format 'xml'"):
        layoutscope.list(session, file_format="xml")


def test_what_a_terminal_would_act_on_is_visible_unless_bytes_are_asked_for(monkeypatch, session):
    """A line feed in a name is escaped in a line of text, and raw between zero bytes."""

    class Odd:
        def __init__(self, layout):
            pass

        def entry(self, *_):
            return type("Path", (), {"text": "/a\nb\x1b[2J"})

    monkeypatch.setattr(listing, "Paths", Odd)
    rows, text = written(session)
    assert text.count(b"\n") == len(rows)
    assert b"\x1b" not in text
    assert written(session, zero=True)[1] == b"/a\nb\x1b[2J\0" * len(rows)


def test_a_list_replaces_no_file_of_others(session, tmp_path):
    """An existing target is refused before the image is read; the suffix selects the format."""
    target = tmp_path / "files.csv"
    layoutscope.list(session, target)
    assert target.read_text().startswith("volume,path,file_id,kind,")
    with pytest.raises(UsageError, match="exists"):
        layoutscope.list(session, target)
    layoutscope.list(session, target, force=True)
    # No empty list is written.
    empty = tmp_path / "empty.img"
    empty.write_bytes(bytes(1 << 20))
    with pytest.raises(LayoutscopeError):
        layoutscope.list(empty)


def test_paths_of_several_volumes_begin_with_their_names(session):
    """Numbers distinguish two volumes of one name; a path of a single volume has no prefix."""
    layout = session.layouts[0]
    other = layout.changed(facts=replace(layout.facts, volume=2))
    rows, _ = listing._list_rows([layout, other], "/Users")
    found = rows.part(slice(None))
    half = len(rows) // 2
    assert found["volume"] == [1] * half + [2] * half
    assert (found["path"][0], found["path"][half]) == ("/Scattered (volume 1)/Users", "/Scattered (volume 2)/Users")
    _, every = listing._list_rows([layout, other], None)
    assert every[:1] == ["/Scattered (volume 1)"]

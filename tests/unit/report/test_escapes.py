"""Invisible and misleading characters are escaped: a test over all code points."""

from __future__ import annotations

import csv
import io
import re
import sys
import unicodedata

import polars as pl

from layoutscope.report import UNSAFE, escape_text
from layoutscope.report.forensic import field, text
from layoutscope.report.tables import write_csv, write_jsonl
from layoutscope.report.text.fleet import markdown
from layoutscope.results.fleet import QueryResult
from layoutscope.tables.columns import Rows
from layoutscope.tables.frames import FRAMES

ALL = [chr(code) for code in range(sys.maxunicode + 1)]
UNSEEN = ("Cc", "Cf", "Zl", "Zp", "Cs")


def escaped() -> set[str]:
    return {character for character in ALL if escape_text(character) != character}


def ignorable() -> set[str]:
    """Match Default_Ignorable_Code_Point with the regular expressions of polars, which have their own tables."""
    plain = pl.Series([character for character in ALL if unicodedata.category(character) != "Cs"])
    return set(plain.filter(plain.str.contains(r"\p{Default_Ignorable_Code_Point}")).to_list())


def test_every_character_that_is_not_seen_is_escaped():
    """Escaped are all such categories of this Python's Unicode, and all that renderers omit; nothing else."""
    unseen = {character for character in ALL if unicodedata.category(character) in UNSEEN}
    assert unseen | ignorable() <= escaped()
    # Code points that this Python has no name for may have been assigned since.
    assert {
        character for character in escaped() - unseen - ignorable() if unicodedata.category(character) != "Cn"
    } == set()
    # A digit after an escape is therefore not part of it; letters, marks, spaces and private characters stay.
    assert escape_text("\xad1\u180e2\U000e00413\ud8004") == "\\u00ad1\\u180e2\\U000e00413\\ud8004"
    assert escape_text("e\u0301 \u00a0\u3000\uf8ff\U0001f600") == "e\u0301 \u00a0\u3000\uf8ff\U0001f600"


def test_every_form_escapes_the_same():
    """CSV, JSON lines, body file, XML and Markdown contain none of these characters; CSV keeps line ends in quotes."""
    name = "".join(sorted(escaped()))
    assert len(name) > 2000 + 4096
    columns = FRAMES["directory_costs"]
    rows = Rows.listed(columns, [[name if column.name == "path" else 1 for column in columns]])
    unseen = re.compile(f"[{UNSAFE}\ud800-\udfff]")
    for write in (write_csv, write_jsonl):
        file = io.BytesIO()
        write(rows, file)
        assert unseen.search(file.getvalue().decode()) is None
    file = io.BytesIO()
    write_csv(rows, file)
    head, row = csv.reader(io.StringIO(file.getvalue().decode(), newline=""))
    assert (len(head), len(row)) == (len(columns), len(columns))
    assert row[1].count("\n") == 1
    for shown in (field(name), text(name)):
        assert unseen.search(shown) is None
        assert "\n" not in shown
    spoken = name.encode("utf-8", "replace").decode()
    table = markdown(QueryResult(pl.DataFrame({spoken: [spoken]})))
    assert unseen.search(table) is None
    assert table.count("\n") == 3


def test_heads_of_columns_are_escaped_in_csv():
    """A query defines its own column names."""
    file = io.BytesIO()
    write_csv(QueryResult(pl.DataFrame({"\x1b[31m": [1], "=1,2": [2]})).answer(), file)
    assert file.getvalue() == b'\\u001b[31m,"\'=1,2"\n1,2\n'

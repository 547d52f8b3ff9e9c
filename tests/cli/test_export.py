from __future__ import annotations

import csv
import io
import json

import polars as pl
import pytest

from layoutscope import read_layouts
from layoutscope.tables import TABLES


@pytest.mark.parametrize("table", sorted(TABLES))
def test_every_table_has_its_columns(run, image, table):
    """CSV on standard output has the columns of the schema, in order, and one line per row."""
    rows = list(csv.reader(io.StringIO(run("export", image, "--table", table).stdout)))
    assert rows[0] == [column.name for column in TABLES[table]]
    assert len(rows) - 1 == read_layouts(image)[0].table(table).height


def test_parquet_keeps_types_and_values(run, image, tmp_path):
    """Reading the file gives the table back."""
    target = tmp_path / "nodes.parquet"
    assert run("export", image, "--table", "nodes", "--format", "parquet", "-o", target).exit_code == 0
    expected = read_layouts(image)[0].nodes
    found = pl.read_parquet(target)
    assert found.schema == expected.schema
    text = pl.col(pl.Categorical).cast(pl.String)
    assert found.with_columns(text).equals(expected.with_columns(text))


def test_json_lines_keep_ids_as_strings(run, image):
    """One object per line; 64-bit ids are strings, offsets numbers."""
    lines = run("export", image, "--table", "nodes", "--format", "jsonl").stdout.splitlines()
    first = json.loads(lines[0])
    assert isinstance(first["node_id"], str)
    assert isinstance(first["image_offset"], int)
    assert len(lines) == read_layouts(image)[0].nodes.height


def test_existing_files_stay(run, image, tmp_path, marks):
    """The tool's own output is overwritten if forced; its folder holds nothing else."""
    target = marks(tmp_path / "out.csv", "mine")
    refused = run("export", image, "--table", "free", "-o", target)
    assert (refused.exit_code, target.read_text()) == (2, "mine")
    assert run("export", image, "--table", "free", "-o", target, "--force").exit_code == 0
    assert target.read_text().startswith("row,")
    assert [path.name for path in tmp_path.iterdir()] == ["out.csv"]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--table", "chairs"], "unknown table 'chairs'"),
        (["--table", "nodes", "--format", "xls"], "unknown format 'xls'"),
        (["--table", "nodes", "-o", "/no/such/folder/x.csv"], "folder does not exist"),
    ],
)
def test_wrong_wishes_are_usage_errors(run, image, options, reason):
    """Requests that cannot be written are refused in one line, with exit code 2."""
    result = run("export", image, *options)
    assert result.exit_code == 2
    assert reason in result.stderr


@pytest.mark.parametrize("words", [["--order", "names"], ["--host", "macos"], ["--drive", "sata-ssd"]])
def test_a_table_of_no_walk_is_of_no_order_host_or_drive(run, image, words):
    """Options without effect are refused, not ignored; tables of workloads and folders of all tables accept them."""
    result = run("export", image, "--table", "nodes", *words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "the table nodes does not depend on" in result.stderr
    assert run("export", image, "--table", "reads", *words).exit_code == 0

"""``export`` beyond single tables: all of them, and documents for other programs."""

from __future__ import annotations

import json

import polars as pl
import pytest

from layoutscope import predict, read_layouts, scan
from layoutscope.api.export import EXPORTED, RESULTS
from layoutscope.tables import TABLES
from layoutscope.tables.frames import FRAMES


def test_all_tables_are_a_file_each(run, image, tmp_path):
    """A folder is created; each table in it equals the one exported alone."""
    folder = tmp_path / "tables"
    result = run("export", image, "--table", "all", "--format", "parquet", "-o", folder)
    assert result.exit_code == 0, result.stderr
    assert sorted(path.name for path in folder.iterdir()) == sorted(f"{name}.parquet" for name in EXPORTED)
    for name in TABLES:
        assert pl.read_parquet(folder / f"{name}.parquet").height == read_layouts(image)[0].table(name).height


def test_results_are_tables_like_others(run, image):
    """Metrics match scan; times, directories and reads match predict for the requested workload."""
    work = ("--order", "names", "--drive", "generic-7200")
    for name in RESULTS:
        result = predict(image, order="names", drives="generic-7200") if name != "metrics" else scan(image)
        text = run("export", image, "--table", name, *work, "--format", "jsonl").stdout
        rows = [json.loads(line) for line in text.splitlines()]
        expected = getattr(result, name)
        if name == "metrics":
            expected = expected.filter(pl.col("subject") != "walk")
            rows = [row for row in rows if row["subject"] != "walk"]
        assert len(rows) == expected.height > 0
        assert list(rows[0]) == [column.name for column in FRAMES[name]]
    assert {row["drive"] for row in rows} == {"generic-7200"}


def test_a_locked_volume_has_no_tables_of_walks(run, reference_image, tmp_path):
    """All available tables are written; an unlistable volume has no times."""
    folder = tmp_path / "tables"
    run("export", reference_image("apple/dissect_encrypted.raw"), "--table", "all", "-o", folder)
    assert sorted(path.stem for path in folder.iterdir()) == sorted(TABLES)


def test_all_tables_overwrite_nothing_unasked(run, image, tmp_path, marks):
    """One existing file stops all tables before anything is read; other files in the folder stay."""
    marks(tmp_path / "nodes.csv")
    (tmp_path / "other").write_text("mine, too")
    refused = run("export", image, "--table", "all", "-o", tmp_path)
    assert refused.exit_code == 2
    assert "nodes.csv: exists" in refused.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["nodes.csv", "other"]
    assert run("export", image, "--table", "all", "-o", tmp_path, "--force").exit_code == 0
    assert (tmp_path / "other").read_text() == "mine, too"
    assert (tmp_path / "nodes.csv").read_text().startswith("row,")


def test_all_tables_need_a_folder(run, image, tmp_path):
    """Several files can go neither to standard output nor into a path that is a file."""
    assert "Name a folder" in run("export", image, "--table", "all").stderr
    (tmp_path / "file").write_text("")
    result = run("export", image, "--table", "all", "-o", tmp_path / "file")
    assert (result.exit_code, "is not a folder" in result.stderr) == (2, True)


def test_documents_go_to_standard_output(run, image):
    """A body file is text with one line per entry."""
    result = run("export", image, "--format", "bodyfile")
    assert result.exit_code == 0, result.stderr
    assert len(result.stdout.splitlines()) == read_layouts(image)[0].entries.height


def test_documents_follow_the_ending(run, image, tmp_path):
    """The file name selects the document; workloads use the given drive and order."""
    made = run("export", image, "-o", tmp_path / "a.speedscope.json", "--order", "names", "--drive", "sata-ssd")
    assert made.exit_code == 0, made.stderr
    names = [profile["name"] for profile in json.loads((tmp_path / "a.speedscope.json").read_text())["profiles"]]
    assert names
    assert all("names on sata-ssd" in name for name in names)
    assert run("export", image, "-o", tmp_path / "a.dfxml").exit_code == 0
    assert (tmp_path / "a.dfxml").read_text().startswith("<?xml")
    assert run("export", image, "--format", "perfetto", "-o", tmp_path / "a.json").exit_code == 0


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--format", "bodyfile", "--table", "nodes"], "leave the table out"),
        (["--format", "bodyfile", "-o", "a.csv"], "ends as csv does"),
        (["--format", "csv", "--table", "nodes", "-o", "a.dfxml"], "ends as dfxml does"),
        (["--format", "folded", "-o", "a.speedscope.json"], "ends as speedscope does"),
        ([], "no table was named"),
        (["--format", "csv"], "no table was named"),
    ],
)
def test_contradictions_are_refused(run, image, words, reason):
    """A form that contradicts the file name is refused, and nothing is written."""
    result = run("export", image, *words)
    assert result.exit_code == 2
    assert reason in result.stderr

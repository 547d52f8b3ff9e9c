from __future__ import annotations

import json

import pytest

from layoutscope import read_layouts
from layoutscope.tables import TABLES


@pytest.fixture(scope="module")
def capture(apfs_image, tmp_path_factory):
    """Return a capture of the committed APFS image."""
    from layoutscope import scan
    from layoutscope.api.save import save

    target = tmp_path_factory.mktemp("capture") / apfs_image.name
    save(scan(apfs_image, drives=()), target)
    return target


def by_name(frame):
    """Compare categories by their strings: their codes depend on the order of first use."""
    import polars as pl

    return frame.with_columns(pl.col(pl.Categorical).cast(pl.String))


def test_tables_come_back_as_they_were(apfs_image, capture):
    """Every table and all facts of every layout equal those of the image."""
    for first, second in zip(read_layouts(apfs_image), read_layouts(capture), strict=True):
        assert first.facts == second.facts
        for table in TABLES:
            assert by_name(first.table(table)).equals(by_name(second.table(table)))


@pytest.mark.parametrize(
    "words",
    [
        ("scan",),
        ("scan", "--json"),
        ("scan", "--explain"),
        ("predict", "--drive", "generic-7200", "--json"),
        ("trace",),
        ("export", "--table", "entries"),
    ],
)
def test_verbs_give_the_same_from_a_capture(run, apfs_image, capture, monkeypatch, words):
    """Output from the capture equals that from the image byte for byte, when run from their own folders."""
    verb, *options = words
    outputs = []
    for path in (apfs_image, capture):
        monkeypatch.chdir(path.parent)
        outputs.append(run(verb, path.name, *options))
    assert outputs[0].exit_code == outputs[1].exit_code == 0
    assert outputs[0].stdout == outputs[1].stdout


def test_the_map_is_the_same(run, apfs_image, capture, monkeypatch, tmp_path):
    """The page made from the capture is the page made from the image."""
    pages = []
    for path in (apfs_image, capture):
        monkeypatch.chdir(path.parent)
        target = tmp_path / f"{len(pages)}.html"
        assert run("map", path.name, "-o", target, "--drive", "sata-ssd").exit_code == 0
        pages.append(target.read_bytes())
    assert pages[0] == pages[1]


def test_a_capture_needs_no_image(run, apfs_image, tmp_path):
    """The saved scan is read back with names; commands that need bytes say so."""
    target = tmp_path / "disk.lscope"
    assert run("scan", apfs_image, "--save", target).exit_code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["disk.lscope"]
    for words in (("inspect", "--at", "0"), ("verify",), ("checkpoints",), ("extract", "-o", tmp_path / "meta.img")):
        refused = run(words[0], target, *words[1:])
        assert (refused.exit_code, refused.stderr.count("\n")) == (2, 1)
        assert "needs the image itself" in refused.stderr
        assert "but no capture" in " ".join(run(words[0], "--help").stdout.split())
    assert run("scan", target, "--partition", "1").exit_code == 2
    assert "but no capture" not in " ".join(run("check", "--help").stdout.split())


def test_names_can_be_left_out_or_hashed(run, apfs_image, tmp_path):
    """Without names the files contain none; hashed names keep equality, and differ with each salt."""
    plain = read_layouts(apfs_image)[-1].entries["name"]
    run("scan", apfs_image, "--save", tmp_path / "none.lscope", "--no-names")
    assert read_layouts(tmp_path / "none.lscope")[-1].entries["name"].null_count() == len(plain)
    columns = []
    for name in ("one.lscope", "two.lscope"):
        assert run("scan", apfs_image, "--save", tmp_path / name, "--hash-names").exit_code == 0
        columns.append(read_layouts(tmp_path / name)[-1].entries["name"])
    assert columns[0].n_unique() == columns[1].n_unique() == plain.n_unique()
    assert set(columns[0]).isdisjoint(columns[1])
    assert set(columns[0]).isdisjoint(plain)
    raw = b"".join(path.read_bytes() for path in tmp_path.rglob("manifest.json"))
    volume = read_layouts(apfs_image)[-1].facts.name
    assert volume
    assert volume.encode() not in raw


def test_nothing_is_overwritten_unasked(run, apfs_image, tmp_path):
    """A capture stays unless forced, and a folder that is not a capture stays even then."""
    target = tmp_path / "disk.lscope"
    assert run("scan", apfs_image, "--save", target).exit_code == 0
    assert run("scan", apfs_image, "--save", target).exit_code == 2
    assert run("scan", apfs_image, "--save", target, "--force").exit_code == 0
    other = tmp_path / "photos"
    other.mkdir()
    (other / "cat.jpg").write_bytes(b"cat")
    assert run("scan", apfs_image, "--save", other, "--force").exit_code == 2
    assert (other / "cat.jpg").read_bytes() == b"cat"


@pytest.mark.parametrize("damage", ["version", "table", "missing", "manifest"])
def test_damaged_captures_are_refused_in_one_line(run, apfs_image, tmp_path, damage):
    """Another version, a changed or missing table, a torn manifest: exit code 1 and one line."""
    target = tmp_path / "disk.lscope"
    run("scan", apfs_image, "--save", target)
    manifest = target / "manifest.json"
    if damage == "version":
        document = json.loads(manifest.read_text())
        manifest.write_text(json.dumps(document | {"format": "layoutscope.capture/99"}))
    elif damage == "table":
        table = target / "1" / "nodes.parquet"
        data = bytearray(table.read_bytes())
        data[len(data) // 2] ^= 1
        table.write_bytes(data)
    elif damage == "missing":
        (target / "1" / "entries.parquet").unlink()
    else:
        manifest.write_text(manifest.read_text()[:100])
    result = run("scan", target)
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (1, "", 1)


def test_polars_reads_the_files_as_they_are(capture):
    """A table is one Parquet file under its name, whose columns are those of the schema."""
    import polars as pl

    frame = pl.read_parquet(capture / "1" / "nodes.parquet")
    assert frame.columns == [column.name for column in TABLES["nodes"]]
    assert frame.filter(pl.col("tree") == "fs").height > 0

from __future__ import annotations

import json
import os
from pathlib import Path

import polars as pl
import pytest

from layoutscope import read_layouts, scan
from layoutscope.api.save import save, with_hashed_names, without_names
from layoutscope.errors import ImageError
from layoutscope.tables import VolumeFacts
from layoutscope.tables.capture import NEWER_FACTS, TREE_TYPES, hash_tables
from layoutscope.zstd import zstd

IMAGE = Path(__file__).resolve().parents[3] / "fixtures" / "images" / "apfs-scattered.img.zst"


@pytest.fixture(scope="module")
def result():
    """Return a scan of the committed APFS image."""
    return scan(IMAGE, drives=(), identify=True)


@pytest.fixture
def capture(result, tmp_path):
    """Return a capture that a test may damage."""
    save(result, tmp_path / "a.lscope")
    return tmp_path / "a.lscope"


def note(capture: Path, **facts: object) -> None:
    """Change facts of the volume in the manifest, and update the hash of its tables."""
    document = json.loads((capture / "manifest.json").read_text())
    document["volumes"][1]["facts"] |= facts
    document["volumes"][1]["sha256"] = hash_tables(capture / "1")
    (capture / "manifest.json").write_text(json.dumps(document))


def rewrite(capture: Path, table: str, frame: pl.DataFrame) -> None:
    """Replace a table of the volume and update its hash."""
    frame.write_parquet(capture / "1" / f"{table}.parquet")
    note(capture)


def change(capture: Path, table: str, *columns: pl.Expr) -> None:
    """Recompute columns of a table."""
    rewrite(capture, table, pl.read_parquet(capture / "1" / f"{table}.parquet").with_columns(*columns))


def test_a_rewritten_capture_is_still_one(capture):
    """Rewriting a table without a change does no harm, so the refusals below are due to the change."""
    change(capture, "nodes")
    assert len(read_layouts(capture)) == 2


def test_a_capture_of_a_cut_image_is_one(tmp_path):
    """Nodes after the end are unreadable, which a capture may contain."""
    raw = zstd.decompress((IMAGE.parent / "hfsplus-scattered.img.zst").read_bytes())
    (tmp_path / "cut.img").write_bytes(raw[: len(raw) * 6 // 10])
    found = scan(tmp_path / "cut.img", drives=())
    save(found, tmp_path / "cut.lscope")
    (layout,) = read_layouts(tmp_path / "cut.lscope")
    assert "unreadable" in layout.nodes["kind"].to_list()
    assert layout.nodes.equals(found.volumes[0].layout.nodes)


BAD = {
    "reference": ("entries", pl.lit(2**31, pl.UInt32).alias("inode_node_row"), "refers to nodes"),
    "parent": ("nodes", pl.col("row").alias("parent_row"), "parent"),
    "numbering": ("nodes", (pl.col("row") + 1).alias("row"), "not numbered"),
    "negative": ("extents", pl.lit(-1, pl.Int64).alias("length_bytes"), "negative"),
    "far": ("nodes", pl.lit(2**62, pl.Int64).alias("image_offset"), "beyond"),
    "device": ("nodes", pl.lit(2, pl.UInt8).alias("device"), "nodes.device is none of the 2 that a set has"),
    "node": ("nodes", pl.lit(2**16 + 1, pl.Int64).alias("size_bytes"), "a node has more than 65,536 bytes"),
    "null": ("nodes", pl.lit(None, pl.UInt64).alias("node_id"), "nulls"),
    "word": ("nodes", pl.lit("twig").cast(pl.Categorical).alias("kind"), "unknown word"),
    "type": ("nodes", pl.col("node_id").cast(pl.String), "columns of nodes"),
    "column": ("nodes", pl.lit(1).alias("more"), "columns of nodes"),
}


@pytest.mark.parametrize("name", BAD)
def test_hostile_tables_are_refused(capture, name):
    """An invalid reference, a loop, negative sizes or wrong types give one line with the column."""
    table, column, words = BAD[name]
    change(capture, table, column)
    with pytest.raises(ImageError, match=words):
        read_layouts(capture)


def test_the_largest_nodes_are_taken(capture):
    """Nodes of 64 KiB, the largest APFS block size, are valid; the refusal above is thus due to the byte beyond."""
    change(capture, "nodes", pl.lit(2**16, pl.Int64).alias("size_bytes"))
    note(capture, trees=[{**dict.fromkeys(TREE_TYPES, 1), "tree": "fs", "node_size_bytes": 2**16}])
    assert len(read_layouts(capture)) == 2


def test_captures_that_would_fill_the_memory(capture):
    """Ten million equal rows in a few kilobytes are not decompressed."""
    frame = pl.read_parquet(capture / "1" / "node_fragments.parquet")
    one = {"node_row": 0, "device": 0, "image_offset": 0, "length_bytes": 1}
    rows = pl.DataFrame(one, schema=frame.schema).select(pl.all().repeat_by(10_000_000).explode())
    rewrite(capture, "node_fragments", rows)
    with pytest.raises(ImageError, match="10,000,000 rows"):
        read_layouts(capture)
    rewrite(capture, "node_fragments", frame)
    # A name of 100 MB compresses to kilobytes.
    frame = pl.read_parquet(capture / "1" / "entries.parquet")
    names = ["a" * 100_000_000, *frame["name"][1:]]
    rewrite(capture, "entries", frame.with_columns(pl.Series("name", names)))
    assert (capture / "1" / "entries.parquet").stat().st_size < 10**6
    with pytest.raises(ImageError, match=r"entries would take 95.6 MiB, from"):
        read_layouts(capture)
    # A name of 70,000 bytes, which every row may repeat at no cost, would be written out for each row.
    names = ["a" * 70_000, *frame["name"][1:]]
    rewrite(capture, "entries", frame.with_columns(pl.Series("name", names)))
    with pytest.raises(ImageError, match=r"entries.name has a text of more than 65,536 bytes"):
        read_layouts(capture)


def test_rows_that_are_few_bytes_are_counted_in_memory(capture):
    """Ten million rows in 200 KB are within the rows per byte, but exceed the memory per byte."""
    frame = pl.read_parquet(capture / "1" / "extents.parquet")
    noise = pl.Series("logical_offset", list(range(0, 2**40, 2**25)), pl.Int64)
    rows = frame.head(1).select(pl.all().repeat_by(10_000_000).explode()).with_columns(
        pl.concat([noise, pl.zeros(10_000_000 - len(noise), pl.Int64, eager=True)]).alias("logical_offset")
    )  # fmt: skip
    rewrite(capture, "extents", rows)
    with pytest.raises(ImageError, match=r"extents would take .* from"):
        read_layouts(capture)


@pytest.mark.parametrize("what", ["1/nodes.parquet", "1", "manifest.json"])
def test_links_out_of_a_capture_are_not_followed(capture, tmp_path, what):
    """A table, folder or manifest that is a link is refused, although its target is sound."""
    (capture / what).rename(tmp_path / "outside")
    (capture / what).symlink_to(tmp_path / "outside")
    with pytest.raises(ImageError, match="is a link"):
        read_layouts(capture)


def test_every_table_is_held_to_its_digest(capture):
    """A changed byte in any table is reported, even if the values would be valid."""
    for path in sorted(capture.glob("*/*.parquet")):
        sound = path.read_bytes()
        path.write_bytes(sound + b"PAR1")
        with pytest.raises(ImageError, match="differs from its SHA-256"):
            read_layouts(capture)
        path.write_bytes(sound)
    assert len(read_layouts(capture)) == 2


MANIFESTS = {
    "infinite": ("block_size_bytes", float("inf")),
    "text": ("size_bytes", "many"),
    "negative": ("image_offset", -1),
    "block": ("block_size_bytes", 0),
    "tree": ("trees", [{"tree": "fs"}]),
    "nodes": ("trees", [{**dict.fromkeys(TREE_TYPES, 1), "tree": "fs", "node_size_bytes": 2**16 + 1}]),
    "true": ("num_files", True),
    "empty": ("size_bytes", 0),
    "far": ("image_offset", 2**63),
    "long": ("size_bytes", 2**62 + 1),
    "file system": ("filesystem", "ntfs"),  # named, because the package that supports it may be missing
}


def test_facts_that_an_earlier_version_did_not_have(capture):
    """Facts with a default may be missing; all others are there in every version."""
    document = json.loads((capture / "manifest.json").read_text())
    saved = document["volumes"][1]["facts"]
    usual = {name: value for name, value in saved.items() if name not in NEWER_FACTS}
    assert {"filesystem", "size_bytes", "stamp"} < usual.keys() < saved.keys()
    for name in sorted(saved):
        document["volumes"][1]["facts"] = {each: value for each, value in saved.items() if each != name}
        (capture / "manifest.json").write_text(json.dumps(document))
        if name in usual:
            with pytest.raises(ImageError, match="facts has not the members"):
                read_layouts(capture)
        else:
            read = read_layouts(capture)[1].facts
            assert getattr(read, name) == getattr(VolumeFacts(**usual), name)


@pytest.mark.parametrize("name", MANIFESTS)
def test_hostile_facts_are_refused(capture, name):
    """Facts that are not numbers, or impossible numbers, give a one-line error."""
    field, value = MANIFESTS[name]
    note(capture, **{field: value})
    words = "damaged capture" if field != "filesystem" else "the file system 'ntfs', which is not known here"
    with pytest.raises(ImageError, match=words):
        read_layouts(capture)


def test_a_file_that_is_no_parquet_is_refused(capture):
    """A table of zeros with a correct hash gives a one-line error."""
    (capture / "1" / "nodes.parquet").write_bytes(bytes(4096))
    note(capture)
    with pytest.raises(ImageError, match="damaged capture"):
        read_layouts(capture)


def test_captures_identify_the_metadata(capture, result, tmp_path):
    manifest = json.loads((capture / "manifest.json").read_text())
    assert len(manifest["image"]["metadata_sha256"]) == 64
    assert manifest["image"]["metadata_sha256"] == result.image.metadata_sha256
    save(scan(capture, drives=(), identify=True), tmp_path / "b.lscope")
    assert json.loads((tmp_path / "b.lscope" / "manifest.json").read_text())["image"] == manifest["image"]


@pytest.mark.parametrize("private", [without_names, lambda layout: with_hashed_names(layout, b"salt")])
def test_names_are_nowhere_once_they_are_gone(result, private):
    """No name of a file, an attribute or the volume is in any remaining cell or fact."""
    layout = result.parts[1].layout
    names = {layout.facts.name, *layout.entries["name"]} | set(layout.extents["fork"].cast(pl.String))
    secrets = {name for name in names if len(name) > 3} - {"data", "resource"}
    assert secrets
    hidden = private(layout)
    cells = {hidden.facts.name, hidden.facts.view, *map(str, hidden.facts.details.values())}
    for table in ("entries", "extents", "findings", "node_views", "regions"):
        for column in hidden.table(table).iter_columns():
            if column.dtype in (pl.String, pl.Categorical, pl.Binary):
                kept = column.cast(pl.String).drop_nulls().unique()
                cells |= set(kept)
    assert secrets.isdisjoint(cells)


def test_equal_names_have_equal_hashes_within_a_salt(result):
    """There are as many different names as before, and another salt gives other hashes."""
    layout = result.parts[1].layout
    one, other = (with_hashed_names(layout, salt).entries["name"] for salt in (b"1", b"2"))
    assert one.n_unique() == other.n_unique() == layout.entries["name"].n_unique()
    assert set(one).isdisjoint(other)


@pytest.mark.parametrize("name", ["manifest.json", "0/nodes.parquet"])
def test_a_pipe_in_a_capture_is_refused_at_once(capture, name):
    """A foreign capture may contain anything: a path that is not a file is not waited for."""
    (capture / name).unlink()
    os.mkfifo(capture / name)
    with pytest.raises(ImageError):
        scan(capture)

"""Two states compared: each block has the class that the tables of both states give it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from msgspec.structs import replace

from fixtures.apfs.scenarios import SCENARIOS
from fixtures.apfs.writer import write
from layoutscope.api.map import map_page
from layoutscope.api.scan import scan
from layoutscope.errors import UsageError
from layoutscope.report.map.difference import difference, share_by_change
from layoutscope.report.map.figure import CHANGES as ROLES
from layoutscope.report.map.figure import figure
from layoutscope.report.map.pyramid import CHANGES, NOT_TOLD, STILL_THERE, held_by
from layoutscope.report.map.scans import disks
from layoutscope.units import format_seconds

FIXTURES = Path(__file__).resolve().parents[4] / "fixtures" / "images"


@pytest.fixture(scope="module", params=["hfsplus", "apfs"])
def result(request):
    """A scan; the image of HFS+ has no identifier of its own."""
    found = scan(FIXTURES / f"{request.param}-scattered.img.zst", drives=())
    return with_facts(found, uuid="8000") if request.param == "hfsplus" else found


def with_facts(result, **changes):
    """Return the scan with other facts for all its volumes."""
    volumes = [
        replace(volume, layout=volume.layout.changed(facts=replace(volume.layout.facts, **changes)))
        for volume in result.parts
    ]
    return replace(result, parts=tuple(volumes))


def changed_layout(layout, free):
    """Return the layout with some leaves and files moved, grown, renumbered or removed, and its free space."""
    nodes, extents = layout.nodes.with_row_index("place"), layout.extents.with_row_index("place")
    is_leaf = (pl.col("kind").cast(pl.String) == "leaf") & (pl.col("state").cast(pl.String) == "live")
    leaves = nodes.filter(is_leaf)["place"].to_list()
    files = extents.filter(pl.col("image_offset").is_not_null() & (pl.col("file_id") >= 16))["place"].to_list()
    moved = pl.col("place").is_in(leaves[3:6])
    shift = (pl.col("place") - leaves[3]) * pl.col("size_bytes") + free
    grown, renamed = pl.col("place") == files[2], pl.col("place") == files[5]
    later = layout.changed(
        nodes=nodes.with_columns(
            image_offset=pl.when(moved).then(shift).otherwise(pl.col("image_offset")).cast(pl.Int64)
        )
        .filter(pl.col("place") != leaves[8])
        .drop("place"),
        extents=extents.with_columns(
            length_bytes=pl.col("length_bytes") + pl.when(grown).then(layout.facts.block_size_bytes).otherwise(0),
            file_id=pl.when(renamed).then(pl.lit(999_999, pl.UInt64)).otherwise(pl.col("file_id")),
        )
        .filter(pl.col("place") != files[7])
        .drop("place"),
    )
    gone = extents.row(files[7], named=True), nodes.row(leaves[8], named=True)
    return later, [(row["image_offset"], row.get("length_bytes", row.get("size_bytes"))) for row in gone]


@pytest.fixture(scope="module")
def later(result):
    """Return the same volume some time later; released blocks are free."""
    (own,) = (volume.layout for volume in result.parts if volume.layout.entries.height)
    (space,) = (volume.layout for volume in result.parts if volume.layout.free.height)
    changed, gone = changed_layout(own, space.free.sort("length_bytes")["image_offset"][-1])
    rows = [space.free[:1].with_columns(image_offset=pl.lit(at), length_bytes=pl.lit(size)) for at, size in gone]
    freed = pl.concat([space.free, *rows], how="vertical_relaxed").cast(dict(space.free.schema))

    def later_of(layout):
        layout = changed if layout is own else layout
        return layout.changed(free=freed) if layout.free.height else layout

    volumes = [replace(volume, layout=later_of(volume.layout)) for volume in result.parts]
    return replace(result, parts=tuple(volumes))


def _difference(one, other):
    (disk,) = difference(disks([one]), disks([other]), ("Monday", "Friday"))
    return disk


def _blocks(layouts, disk):
    """Return what each block holds: its nodes, other metadata, or the owner of its data."""
    block = disk.block_size_bytes
    nodes, other, files = {}, set(), {}

    def places(start, length):
        first = (start - disk.image_offset) // block
        return range(first, (start - disk.image_offset + length - 1) // block + 1)

    for number, layout in enumerate(layouts):
        for tree, ident, at, size in layout.nodes.select("tree", "node_id", "image_offset", "size_bytes").iter_rows():
            for place in places(at, size):
                nodes.setdefault(place, set()).add((number, tree, ident))
        for kind, at, size in layout.regions.select("type", "image_offset", "length_bytes").iter_rows():
            if kind not in ("free", "pending-free", "unclaimed", "unread", "file-data", "data"):
                other.update(places(at, size))
        for file, at, size in layout.extents.select("file_id", "image_offset", "length_bytes").iter_rows():
            if at is not None:
                for place in places(at, size):
                    files.setdefault(place, set()).add((number, file))
    return nodes, other, files


def _expected(place, now, before, lives):
    """Compute the class of a block independently."""
    (nodes, other, files), (was_nodes, was_other, was_files) = now, before
    is_metadata, was_metadata = (place in a or place in b for a, b in ((nodes, other), (was_nodes, was_other)))
    alive, was_alive = lives
    if is_metadata:
        new = nodes.get(place, set()) - was_nodes.get(place, set())
        if any(node in was_alive for node in new):
            return "moved-here"
        return "came" if new or not was_metadata else "stayed"
    if was_metadata:
        return "moved-away" if any(node in alive for node in was_nodes.get(place, ())) else "went"
    own, old = files.get(place, set()), was_files.get(place, set())
    if own:
        return "stayed" if own & old else "new-data"
    return "old-data" if old else None


def test_each_block_is_what_the_two_tables_make_of_it(result, later):
    """Sets of nodes and files per block in both states agree with the runs of the map."""
    disk = _difference(result, later)
    cut = len(disk.layouts) - disk.num_earlier
    now, before = (_blocks(layouts, disk) for layouts in (disk.layouts[:cut], disk.layouts[cut:]))
    lives = [{node for there in state[0].values() for node in there} for state in (now, before)]
    shares = share_by_change(disk)
    edges = np.arange(disk.size_bytes // disk.block_size_bytes + 1) * disk.block_size_bytes
    held = held_by(shares, edges)
    assert (held.sum(axis=0) == disk.block_size_bytes).all()
    keys = [share.item.key for share in shares]
    found = {}
    for place in set().union(*now, *before):
        if 0 <= place < held.shape[1]:
            expected = _expected(place, now, before, lives)
            most = keys[int(held[:, place].argmax())]
            found.setdefault((expected, most), []).append(place)
    wrong = {pair: places[:3] for pair, places in found.items() if pair[0] not in (None, pair[1])}
    assert wrong == {}
    assert {most for _, most in found} >= {"moved-here", "moved-away", "went", "new-data", "old-data", "stayed"}


def test_sentences_and_directions_of_a_change(result, later):
    """Sentences count what the tables count, in both directions."""
    # Three leaves were moved and one removed, as the first sentence of the picture says.
    disk = _difference(result, later)
    assert "3 nodes of metadata moved, 0 came and 1 went" in disk.story[0]
    assert disk.story[0].startswith("From Monday to Friday, ")
    assert any("file data is gone" in sentence for sentence in disk.story)
    # In reverse, what exists now is what existed before, unless something else took its place.
    forth, back = (_difference(*pair) for pair in ((result, later), (later, result)))
    one, other = ({share.item.key: share.size_bytes for share in share_by_change(disk)} for disk in (forth, back))
    assert one["moved-here"] == other["moved-here"] > 0
    assert one["moved-away"] == other["moved-away"] > 0
    assert (one["came"], one["went"] > 0) == (other["went"], other["came"] > 0)
    # States are named by their properties, not by their images.
    page = map_page([result, later], difference=True, names=False)
    assert "From the earlier state to the later state" in page
    assert Path(result.image.name).stem not in page


def test_the_time_is_that_of_all_volumes(tmp_path):
    """A container of several volumes takes the time of all of them, in both states."""
    write(SCENARIOS["volumes"], tmp_path / "volumes.img")
    found = scan(tmp_path / "volumes.img", drives=["generic-7200"])
    seconds = sum(item.seconds for volume in found.parts for item in volume.predictions)
    told = f"Listing all files takes {format_seconds(seconds)} on a 3.5-inch disk"
    assert any(sentence.startswith(told) for sentence in _difference(found, found).story)


def test_states_that_are_equal_or_unrelated(result):
    """Nothing changed, or the volume is another one."""
    # A state compared with itself has no changed byte, and the sentence says so.
    disk = _difference(result, result)
    held = {share.item.key: share.size_bytes for share in share_by_change(disk)}
    assert all(held[item.key] == 0 for item in CHANGES)
    assert held[STILL_THERE.key] > 0
    assert disk.story[0].startswith("Nothing moved, came or went between Monday and Friday")
    drawn = figure([disk], [share_by_change(disk)])
    assert {trace["meta"]["role"] for trace in drawn["data"]} == {"data"}
    # Another identifier, none, another place in the image, one state or three: each is refused with a message.
    for other in (with_facts(result, uuid="another"), with_facts(result, image_offset=4096)):
        with pytest.raises(UsageError, match="not two states of one volume"):
            map_page([result, other], difference=True)
    nameless = with_facts(result, uuid="")
    with pytest.raises(UsageError, match="not two states of one volume"):
        map_page([nameless, nameless], difference=True)
    for several in ([result], [result] * 3):
        with pytest.raises(UsageError, match="takes two states"):
            map_page(several, difference=True)
    # None of them is red, which is reserved for damage.
    keys = {role.key for role in ROLES}
    assert {item.role for item in (*CHANGES, STILL_THERE, NOT_TOLD)} == keys
    assert "damaged" not in keys


def test_what_one_state_did_not_read_is_not_said_to_have_come_or_to_be_unchanged(result, later):
    """Without its file tables, the earlier state's used blocks have no owner, so no change is reported for them."""
    hidden = tuple(
        replace(
            volume,
            layout=volume.layout.changed(extents=volume.layout.extents.clear(), regions=volume.layout.regions.clear()),
        )
        for volume in result.parts
    )
    blind = replace(result, parts=hidden)
    disk = _difference(blind, later)
    held = {share.item.key: share.size_bytes for share in share_by_change(disk)}
    assert held["old-data"] == 0
    assert held["new-data"] == disk.block_size_bytes  # one file grew into a free block by this
    assert held[NOT_TOLD.key] > 0
    assert any("Unknown for" in sentence for sentence in disk.story)
    same = _difference(blind, blind)
    assert not any(sentence.startswith("Nothing moved") for sentence in same.story)

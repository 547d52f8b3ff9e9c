"""Decoding of leaf records in C and in numpy, and the plans of the decoder."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutscope.structs import leaves
from layoutscope.structs.leaves import (
    DECODE_LEAVES,
    Leaf,
    LeafBatch,
    LeafPlan,
    LeafTables,
    Repeated,
    Text,
    compile_plan,
)
from layoutscope.structs.records import CATALOG_FILE, CATALOG_KEY, CATALOG_RECORD_TYPE, CATALOG_THREAD, J_KEY
from layoutscope.structs.recordtypes import RecordType
from tests.unit.native.fences import EVIL, EXAMPLES, Fenced, spoil
from tests.unit.native.reference.leaves import PlainTables

NUMBERS = ("u1", "i1", "<u2", ">u2", "<i2", ">i4", "<u4", ">u4", "<u8", ">u8", "<i8", ">i8")
DTYPES = (np.bool_, np.uint8, np.int16, np.uint16, np.uint32, np.int32, np.int64, np.uint64)

ITEM_HEAD = RecordType("toy.head", num_items="u1", spare="u1")
ITEM_ENTRY = RecordType("toy.entry", kind="u1", size_bytes="u1", pace=lambda r: r["size_bytes"] + 3 & 0xFC)
ITEM = RecordType("toy.item", wide="<u4", narrow=">u2", is_odd=lambda r: r["wide"] & 1 != 0)


def locate(buffer, starts, lengths) -> SimpleNamespace:
    """Locate items one by one; the reference for the kernel."""
    found, damaged = [], []
    for number, (start, length) in enumerate(zip(starts.tolist(), lengths.tolist(), strict=True)):
        blob = buffer[start : start + length].tolist()
        if not blob:
            continue
        count, mine = blob[0], []
        at = 2 + 2 * count
        is_whole = length >= 2 and at <= length
        for k in range(count if is_whole else 0):
            kind, size = blob[2 + 2 * k : 4 + 2 * k]
            is_whole &= at + size <= length
            mine.append((number, kind, start + at, size))
            at += (size + 3) & 0xFC
        found += mine if is_whole else []
        damaged += [] if is_whole else [number]
    record, kind, start, size = np.array(found, np.int64).reshape(-1, 4).T
    return SimpleNamespace(
        record=record, type=kind.astype(np.uint8), start=start, size_bytes=size, damaged=np.array(damaged, np.int64)
    )


ITEMS = (ITEM_HEAD, ITEM_HEAD.num_items, ITEM_ENTRY, (ITEM_ENTRY.kind, ITEM_ENTRY.size_bytes, ITEM_ENTRY.pace))


@st.composite
def record_types(draw, prefix: str, first: dict[str, str]) -> RecordType:
    """Return a type with some fields, repetitions and instances in all forms that plans support."""
    members: dict = dict(first)
    for number in range(draw(st.integers(0, 4))):
        members[f"{prefix}{number}"] = draw(st.sampled_from(NUMBERS))
    extent = RecordType(
        "toy.extent", start=draw(st.sampled_from(NUMBERS)), count=draw(st.sampled_from(("u1", ">u2", "<u8")))
    )
    members[f"{prefix}extents"] = (extent, draw(st.integers(1, 3)))
    members["base"] = draw(st.sampled_from(("u1", ">u2", "<u4", "<u8")))
    bits = draw(st.integers(0, 7))
    members["masked"] = lambda r: r["base"] & 0x35
    members["shifted"] = lambda r: r["base"] >> bits
    members["field"] = lambda r: r["base"] >> 3 & 31
    members["inner"] = lambda r: (r["base"] & 0xF8) >> 3
    members["is_one"] = lambda r: r["masked"] == 1
    members["is_set"] = lambda r: r["shifted"] & 4 != 0
    return RecordType(f"toy.{prefix}", **members)


def numbers_of(record_type: RecordType) -> list:
    """Return possible columns: fields that are not repeated, and instances."""
    return [field for field in record_type.fields() if not field.counts] + record_type.instances()


@st.composite
def plans(draw) -> LeafPlan:
    """Return a plan of up to three kinds of records in up to two tables, with texts, repetitions and items."""
    tables: dict = {"extents": {"owner": np.int64, "before": np.uint64, "start": np.uint32, "what": np.uint8}}
    for table in ("one", "two")[: draw(st.integers(1, 2))]:
        names = [f"c{k}" for k in range(draw(st.integers(1, 5)))]
        tables[table] = {name: draw(st.sampled_from(DTYPES)) for name in names}
        tables[table] |= {"node": np.int32, "key_at": np.uint16, "val_at": np.uint16, "wide": np.int64, "has": np.bool_}
        tables[table]["text"] = draw(st.sampled_from(("bytes", "utf-8", "utf-16", "utf-16-others")))
        if tables[table]["text"] == "utf-16" and draw(st.booleans()):
            tables[table]["rest"] = "utf-16-others"
    kind_type = draw(st.sampled_from(("u1", ">u2", "<u8")))
    part = draw(st.sampled_from(("key", "val")))
    found = []
    for kind in draw(st.lists(st.integers(0, 3), min_size=1, max_size=3, unique=True)):
        length = draw(st.sampled_from(("u1", ">u2")))
        key = draw(record_types("key", {"kind": kind_type, "length": length}))
        value = draw(record_types("val", {"kind": kind_type, "length": length}))
        table = draw(st.sampled_from([name for name in tables if name != "extents"]))
        pick = {
            name: draw(st.sampled_from(numbers_of(value)))
            for name in tables[table]
            if name[0] == "c" and draw(st.booleans())
        }
        from_key = {name: draw(st.sampled_from(numbers_of(key))) for name in tables[table] if name[0] == "c"}
        unit_bytes = 2 if tables[table]["text"].startswith("utf-16") else 1
        text = Text(draw(st.sampled_from(("key", "val"))), key.length, unit_bytes)
        runs = value.valextents
        lists = [
            Repeated("extents", runs.count, {"start": runs.start, "what": number})
            for number in range(draw(st.integers(0, 2)))
        ]
        cases = {draw(st.integers(0, 2)): (ITEM, {"wide": ITEM.wide, "has": draw(st.sampled_from((1, ITEM.is_odd)))})}
        found.append(
            Leaf(
                kind,
                table,
                key,
                value,
                {**pick, "has": draw(st.integers(0, 1))},
                from_key,
                {name: text for name in ("text", "rest") if name in tables[table]} if draw(st.booleans()) else {},
                (text,) if draw(st.booleans()) else (),
                tuple(lists),
                cases if draw(st.booleans()) else {},
            )
        )
    some_kind = RecordType("toy.kind", kind=kind_type)
    return LeafPlan(tables, found, (part, some_kind, some_kind.kind) if draw(st.integers(0, 4)) else None, ITEMS)


@st.composite
def batches(draw, *, is_hostile: bool = False) -> LeafBatch:
    """Return records of small numbers, so lengths, counts and kinds are often valid."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    size, count = draw(st.integers(60, 400)), draw(st.integers(0, 40))
    buffer = np.where(rng.random(size) < 0.15, rng.integers(0, 256, size), rng.integers(0, 4, size)).astype(np.uint8)
    key, value = rng.integers(0, size, (2, count))
    key_length, value_length = (np.minimum(size - start, rng.integers(10, 120, count)) for start in (key, value))
    node = np.sort(rng.integers(0, 3, count))
    columns = [node, key, key_length.astype(np.int32), value, value_length.astype(np.int32)]
    if is_hostile and count:
        for _ in range(draw(st.integers(1, 5))):
            column = draw(st.sampled_from(columns))
            column[draw(st.integers(0, count - 1))] = np.array(draw(EVIL), np.int64).astype(column.dtype)
    return LeafBatch(buffer, draw(st.sampled_from([64, 4096])), np.array([7, -1, 2**40]), *columns)


def tables_of(some: LeafTables) -> dict:
    """Return all columns, with texts as their bytes and lengths."""
    return {
        (name, column): (values.data.tobytes(), values.length.tolist())
        if isinstance(values, tuple)
        else (values.dtype, values.tolist())
        for name in some.plan.tables
        for column, values in some.table(name).items()
    }


def add_all(some: LeafTables, given: list[LeafBatch]) -> tuple[dict, list]:
    """Decode batches; return the tables and the status of each record."""
    found = [some.add(batch) for batch in given]
    return tables_of(some), [[each.tolist() for each in one] for one in found]


@EXAMPLES
@given(data=st.data(), is_hostile=st.booleans())
def test_the_same_rows_are_decoded(data, is_hostile):
    """For any plan and records at any place, values, texts, repetitions, items and left-out records are equal.

    With no room at first, the kernel stops and resumes, without losing or duplicating a row.
    """
    plan = data.draw(plans())
    given_batches = data.draw(st.lists(batches(is_hostile=is_hostile), min_size=1, max_size=3))
    theirs = add_all(PlainTables(plan, locate), given_batches)
    assert add_all(LeafTables(plan), given_batches) == theirs
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(leaves, "_FIRST_ROOM", 0)
        patch.setattr(leaves, "_ENOUGH", 1)
        patch.setattr(leaves, "_MARGIN", 0.0)
        assert add_all(LeafTables(plan), given_batches) == theirs


@EXAMPLES
@given(data=st.data())
def test_hostile_tables_write_nowhere_else(data):
    """With any number of plan, slices and counts replaced and any end cut off, surrounding memory is unchanged."""
    plan, batch = data.draw(plans()), data.draw(batches(is_hostile=True))
    count = len(batch.node)
    given_arrays = [batch.buffer, *batch[2:], *compile_plan(plan), np.zeros(plan.num_counters + 1, np.int64)]
    *spoilt, counts = spoil(data.draw, given_arrays)
    dtypes = [np.uint8 if dtype == np.bool_ else dtype for dtype, _ in plan.outputs.values()]
    rooms = Fenced(*(np.zeros(data.draw(st.integers(0, 60)), dtype) for dtype in dtypes))
    outcomes = Fenced(counts, np.zeros(count, np.int64), np.zeros(count, np.uint8), np.zeros(count, np.uint8))
    fenced = Fenced(*spoilt)
    buffer, *tables = fenced.copies
    first = data.draw(st.one_of(st.just(0), EVIL))
    node_bytes = data.draw(EVIL)
    DECODE_LEAVES.attempt(buffer, node_bytes, *tables, rooms.copies, outcomes.copies[0], first, *outcomes.copies[1:])
    assert rooms.hold()
    assert outcomes.hold()
    assert fenced.hold()
    assert fenced.unchanged(*range(len(spoilt)))


def batch_of(key: bytes, value: bytes) -> LeafBatch:
    """Return one record."""
    zero = np.zeros(1, np.int64)
    lengths = (zero + len(each) for each in (key, key, value))
    return LeafBatch(np.frombuffer(key + value, np.uint8), 4096, zero, zero, zero, *lengths)


@pytest.mark.parametrize("tables", [LeafTables, PlainTables], ids=["kernel", "reference"])
@pytest.mark.parametrize(("units", "text"), [
    ("name", "name"), ("a\0b", "a\0b"), ("\u00e4\u20ac\U0001f600", "\u00e4\u20ac\U0001f600"),
    (b"\xd8\x00\x00a", "\ufffda"), (b"\xdc\x00\xd8\x00", "\ufffd\ufffd"),
    (b"\xd8\x00\xd8\x3d\xde\x00", "\ufffd\U0001f600"),
])  # fmt: skip
def test_names_in_utf_16_become_utf_8(tables, units, text):
    """Surrogate pairs become one character, unpaired ones the replacement character; NUL is an ordinary character."""
    raw = units if isinstance(units, bytes) else units.encode("utf-16-be")
    key = CATALOG_KEY.blank({"num_name_units": len(raw) // 2}) + raw
    thread = CATALOG_THREAD.blank({"record_type": 3})
    plan = LeafPlan(
        {"threads": {"name": "utf-16"}},
        [Leaf(3, "threads", CATALOG_KEY, CATALOG_THREAD, texts={"name": Text("key", CATALOG_KEY.num_name_units, 2)})],
        ("val", CATALOG_RECORD_TYPE, CATALOG_RECORD_TYPE.record_type),
    )
    some = tables(plan)
    assert some.add(batch_of(key, thread))[1].tolist() == [0]
    assert some.table("threads")["name"].data.tobytes().decode() == text


@pytest.mark.parametrize("tables", [LeafTables, PlainTables], ids=["kernel", "reference"])
def test_extents_of_a_file_follow_one_another(tables):
    """Used extents of both forks, each with the blocks before it and its fork; written from TN1150."""
    fork = CATALOG_FILE.data_fork.extents
    other = CATALOG_FILE.resource_fork.extents
    second = {"start": other.start_block, "count": other.num_blocks, "fork": 255}
    plan = LeafPlan(
        {
            "files": {"file_id": np.int64, "data_size": np.int64},
            "extents": {"owner": np.int64, "fork": np.uint8, "before": np.int64, "start": np.int64, "count": np.int64},
        },
        [
            Leaf(
                2, "files", CATALOG_KEY, CATALOG_FILE,
                {"file_id": CATALOG_FILE.file_id, "data_size": CATALOG_FILE.data_fork.len_logical},
                lists=(
                    Repeated("extents", fork.num_blocks, {"start": fork.start_block, "count": fork.num_blocks}),
                    Repeated("extents", other.num_blocks, second),
                ),
            )
        ],
        ("val", CATALOG_RECORD_TYPE, CATALOG_RECORD_TYPE.record_type),
    )  # fmt: skip
    value = CATALOG_FILE.blank({
        "record_type": 2, "file_id": 20, "data_fork.len_logical": 2**64 - 1,
        "data_fork.extents.start_block": [100, 0, 300], "data_fork.extents.num_blocks": [4, 0, 2],
        "resource_fork.extents.start_block": [900], "resource_fork.extents.num_blocks": [1],
    })  # fmt: skip
    some = tables(plan)
    some.add(batch_of(CATALOG_KEY.blank({"len_key": 6}), value))
    files, extents = some.table("files"), some.table("extents")
    assert (files["file_id"].tolist(), files["data_size"].tolist()) == ([20], [2**63 - 1])
    assert {name: column.tolist() for name, column in extents.items()} == {
        "owner": [0, 0, 0], "fork": [0, 0, 255], "before": [0, 4, 0], "start": [100, 300, 900], "count": [4, 2, 1],
    }  # fmt: skip
    chosen = some.give_up("extents", np.array([2, 0]), np.array([1, 1]))
    assert chosen["start"].tolist() == [900, 100]


def test_a_plan_takes_what_the_kernel_can_compute():
    """Formulas of other forms, including signs, and fields that are not numbers are refused when the plan is made."""
    toy = RecordType(
        "toy.odd", base="<u4", low="<i4", uuid="V16",
        twice=lambda r: r["base"] * 2, added=lambda r: (r["base"] & 3) + 1,
        signed=lambda r: r["low"] & 3, items=("u1", 4),
    )  # fmt: skip
    for column, error in (
        ("twice", TypeError),
        ("added", TypeError),
        ("signed", TypeError),
        ("uuid", ValueError),
        ("items", ValueError),
    ):
        plan = LeafPlan({"odd": {"value": np.int64}}, [Leaf(0, "odd", J_KEY, toy, {"value": toy.column(column)})])
        with pytest.raises(error):
            compile_plan(plan)

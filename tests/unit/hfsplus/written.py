"""Nodes built from records, for tests of the reader."""

from __future__ import annotations

import numpy as np

from layoutscope.filesystems.hfsplus.nodes import FORMS, INDEX, LEAF, decode_nodes, locate_records
from layoutscope.structs.records import NODE_DESCRIPTOR


def node(records, *, kind=LEAF, height=1, size=4096, f_link=0, b_link=0):
    """Return a node: its descriptor, contiguous records, and their offsets from the end."""
    starts = np.cumsum([NODE_DESCRIPTOR.width, *map(len, records)]).tolist()
    fields = {"f_link": f_link, "b_link": b_link, "kind": kind, "height": height, "num_records": len(records)}
    table = b"".join(start.to_bytes(2, "big") for start in reversed(starts))
    return (NODE_DESCRIPTOR.blank(fields) + b"".join(records)).ljust(size - len(table), b"\0") + table


def named(key_type, name, data, **values):
    """Return a record: a key of a given form with a UTF-16 name, and its data."""
    raw = name.encode("utf-16-be", "surrogatepass")
    fixed = {"len_key": key_type.width - 2 + len(raw), "num_name_units": len(raw) // 2, **values}
    return key_type.blank(fixed) + raw + data


def decoded(decode, *nodes, tree="catalog", size=4096):
    """Decode leaves numbered from 1 on; return what their records decode to, and the numbers of bad leaves."""
    buffer = np.frombuffer(b"".join(nodes), np.uint8)
    read = decode_nodes(buffer, size, np.arange(len(nodes), dtype=np.int64) + 1)
    records = locate_records(read, None, FORMS[tree].key_type.width)
    assert not (read.kind == INDEX).any()
    return decode(records, np.ones(len(records.node), np.bool_))


def find_misplaced(keys):
    """Return which keys do not come after the previous key, comparing pair by pair."""
    rows = np.arange(1, len(keys.ident), dtype=np.int64)
    return [*[False] * min(1, len(keys.ident)), *keys.not_after(rows - 1, rows).tolist()]

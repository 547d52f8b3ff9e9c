r"""Records of leaves, decoded straight into columns that grow: the kernel, and its twin in numpy.

A reader writes a :class:`~layoutscope.ondisk.leafplan.LeafPlan` once, and adds batches of records, of which it knows
where keys and values lie. Each record becomes a row of the table of its kind, in the order given. One that does not fit
(it leaves the buffer, its kind is unknown, it is shorter than what it must have) has no row, and the reader says so.
With the bulk decoder the kernel runs; with the grammar, or without a library, the twin asks the decoder for columns.
Plans for records of real formats are in ``tests/unit/native/test_leaves.py``.

Examples
--------
Files with their names and the extents of their data; other kinds of records are left out:

>>> from layoutscope.ondisk.decoder import BULK
>>> from layoutscope.ondisk.leafplan import Kind, Leaf, LeafBatch, LeafPlan, Repeated, Text
>>> from layoutscope.ondisk.records import CATALOG_FILE, CATALOG_KEY, CATALOG_RECORD_TYPE
>>> extents = CATALOG_FILE.data_fork.extents
>>> plan = LeafPlan(
...     {
...         "files": {"node": np.int32, "parent": np.int64, "is_locked": np.bool_, "name": "utf-16"},
...         "extents": {"owner": np.int64, "before": np.int64, "start": np.uint32, "count": np.uint32},
...     },
...     [
...         Leaf(2, "files", CATALOG_KEY, CATALOG_FILE,
...              {"is_locked": CATALOG_FILE.is_locked}, {"parent": CATALOG_KEY.parent_id},
...              texts={"name": Text("key", CATALOG_KEY.num_name_units, unit_bytes=2)},
...              lists=(Repeated("extents", extents.num_blocks,
...                              {"start": extents.start_block, "count": extents.num_blocks}),)),
...     ],
...     Kind("val", CATALOG_RECORD_TYPE, CATALOG_RECORD_TYPE.record_type),
... )
>>> key = CATALOG_KEY.blank({"parent_id": 2, "num_name_units": 3}) + "one".encode("utf-16-be")
>>> one = CATALOG_FILE.blank({"record_type": 2, "flags": 1, "data_fork.extents.start_block": [9, 32],
...                           "data_fork.extents.num_blocks": [4, 1]})
>>> other = CATALOG_FILE.blank({"record_type": 77})
>>> starts, sizes = np.array([0, len(key + one)]), np.array([len(key), len(one)])
>>> batch = LeafBatch(np.frombuffer(key + one + key + other, np.uint8), 4096, np.array([5]), np.array([0, 0]),
...                   starts, sizes[[0, 0]], starts + len(key), sizes[[1, 1]])
>>> leaves = LeafTables(plan)
>>> leaves.add(BULK, batch).row.tolist()
[0, -1]
>>> files = leaves.table("files")
>>> files["node"].tolist(), files["parent"].tolist(), files["is_locked"].tolist(), files["name"].data.tobytes()
([5], [2], [True], b'one')
>>> {name: column.tolist() for name, column in leaves.table("extents").items()}
{'owner': [0, 0], 'before': [0, 4], 'start': [9, 32], 'count': [4, 1]}
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from layoutscope.arrays.growing import GrowingColumn
from layoutscope.arrays.pieces import take_ranges
from layoutscope.native import Kernel
from layoutscope.native.library import made_ready
from layoutscope.ondisk.decoder import Bulk
from layoutscope.ondisk.leafplan import RecordRows
from layoutscope.ondisk.leafprogram import compiled
from layoutscope.ondisk.leaftwin import LeafTwin

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from layoutscope.arrays.columns import I64, U8, Columns
    from layoutscope.native.library import Columns as KernelColumns
    from layoutscope.ondisk.decoder import Decoder
    from layoutscope.ondisk.leafplan import LeafBatch, LeafPlan, Output

DECODE_LEAVES: Final = Kernel("decode_leaves", "bnlllililillllllCLnLBB")

_FIRST_ROOM: Final = 4096
_MARGIN: Final = 1.6
"""How much more is reserved than the records so far promise: what is not touched costs nothing."""
_ENOUGH: Final = 1 << 17
"""Elements by which a column grows at least: more than one record can need."""


class Texts(NamedTuple):
    """A column of texts: the bytes of all, and the length of each in bytes."""

    data: U8
    length: NDArray[np.uint32]


class LeafTables:
    """Tables of what leaves hold."""

    def __init__(self, plan: LeafPlan) -> None:
        self.plan = plan
        self._columns = [GrowingColumn(output.dtype) for output in plan.outputs]
        self._counts = np.zeros(plan.num_counters + 1, np.int64)
        self._handed: KernelColumns | None = None

    def add(self, decoder: Decoder, batch: LeafBatch, to_come: float = 0.0) -> RecordRows:
        """Decode the records of a batch."""
        found = self._natively(batch, to_come) if isinstance(decoder, Bulk) else None
        return found or self._plainly(decoder, batch)

    def table(self, name: str) -> dict[str, Any]:
        """Return the columns of a table so far, views that the next batch may leave behind; texts as `Texts`."""
        values = {(each.column, each.is_data): self._values(k) for k, each in self._outputs_of(name)}
        coded = self.plan.tables[name]
        return {
            column: Texts(values[column, True], values[column, False]) if isinstance(coded[column], str) else array
            for (column, is_data), array in values.items()
            if not is_data
        }

    def count(self, name: str) -> int:
        """Return how many rows a table has."""
        return int(self._counts[list(self.plan.tables).index(name)])

    def give_up(self, name: str, starts: I64, counts: I64) -> Columns:
        """Return rows of a table's numbers; each column is let go as it has been copied: no two tables are held."""
        found: Columns = {}
        for k, output in self._outputs_of(name):
            if not isinstance(self.plan.tables[name][output.column], str):
                found[output.column] = take_ranges(self._values(k), starts, counts)
                self._columns[k] = GrowingColumn(output.dtype)
                self._handed = None
        return found

    def _outputs_of(self, name: str) -> Iterable[tuple[int, Output]]:
        return ((k, output) for k, output in enumerate(self.plan.outputs) if output.table == name)

    def _values(self, number: int) -> NDArray[Any]:
        return self._columns[number].room()[: self._counts[self.plan.outputs[number].counter]]

    def _natively(self, batch: LeafBatch, to_come: float) -> RecordRows | None:
        """Run the kernel until it has passed all records, with more room each time; None if it does not run."""
        total = len(batch.node)
        found = RecordRows(np.empty(total, np.uint8), np.empty(total, np.int64), np.empty(total, np.bool_))
        before, done = self._counts.copy(), 0
        lengths = (np.ascontiguousarray(each, np.int32) for each in (batch.key_length, batch.val_length))
        key_length, val_length = lengths
        while True:
            rooms = self._handed or self._hand_over()
            passed = DECODE_LEAVES(
                batch.buffer, batch.node_bytes, batch.numbers, batch.node, batch.key_start, key_length,
                batch.val_start, val_length, *compiled(self.plan), rooms, self._counts, done,
                found.row, found.leaf, found.is_damaged.view(np.uint8),
            )  # fmt: skip
            if passed is None or passed == total:
                return None if passed is None else found
            done, full = passed, int(self._counts[-1])
            share = (self._counts[full] - before[full]) / max(done, 1)
            # What the first records of all are says little of those to come.
            further = total * (1 + to_come) - done if done * 8 > total else total - done
            more = max(int(share * further * _MARGIN), _ENOUGH)
            for number, output in enumerate(self.plan.outputs):
                if output.counter == full:
                    # More than there is: a single text may be longer than what is still free.
                    used, present = int(self._counts[full]), len(self._columns[number].room())
                    self._room(number, used, max(more, present - used + 1))

    def _hand_over(self) -> KernelColumns:
        """Make all columns ready for the kernel; this holds until one of them grows."""
        for column, output in zip(self._columns, self.plan.outputs, strict=True):
            column.room(_FIRST_ROOM, int(self._counts[output.counter]))
        self._handed = made_ready([column.room() for column in self._columns])
        return self._handed

    def _plainly(self, decoder: Decoder, batch: LeafBatch) -> RecordRows:
        """Decode column by column."""
        twin = LeafTwin(self.plan, decoder, batch, self._counts)
        values, before = twin.values(), self._counts.copy()
        for number, output in enumerate(self.plan.outputs):
            added, used = values[output.table, output.column, output.is_data], int(before[output.counter])
            self._counts[output.counter] = used + len(added)
            self._room(number, used, len(added))[used : used + len(added)] = added
        return twin.found

    def _room(self, number: int, used: int, more: int) -> NDArray[Any]:
        """Return the room of a column, which grows by half at least where there is not enough."""
        self._handed = None
        column = self._columns[number]
        present = len(column.room())
        return column.room(0 if used + more <= present else max(used + more, present + present // 2), used)

"""What the records in the leaves of a tree become, where they lie, and what became of them.

The plan is written in types, fields and instances of the grammars.
"""

from __future__ import annotations

from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from layoutscope.arrays.columns import I64, U8, Mask
    from layoutscope.ondisk.decoder import Decoder
    from layoutscope.recordtypes import Field, RecordColumn, RecordType

Part = Literal["key", "val"]
Coding = Literal["bytes", "utf-8", "utf-16", "utf-16-others"]
"""Texts: as they stand; up to the first zero byte; big-endian UTF-16 that becomes UTF-8; the same as it stands, where
it is not all ASCII, and nothing where it is."""

NO_LEAF: Final = 255
TEXT_DTYPE: Final = np.uint32
"""Of the lengths of texts."""
_NONE: Final[Mapping[Any, Any]] = MappingProxyType({})


class Text(NamedTuple):
    """Bytes behind the fixed part of a key or value, and the field of that part that has their length in units."""

    part: Part
    length: RecordColumn
    unit_bytes: int = 1


class Repeated(NamedTuple):
    """Repetitions of fields in a value that become rows of a table of their own, where a field of theirs is not 0.

    A column ``owner`` of that table is the row of the record in its table; ``before`` is the sum of the used fields of
    the record's repetitions before.
    """

    table: str
    used: Field
    columns: Mapping[str, Field | int]


class ItemCase(NamedTuple):
    """What an item of a collection is, and the columns of the record that are set by it."""

    record_type: RecordType
    columns: Mapping[str, RecordColumn | int]


class LocatedItems(Protocol):
    """Items of many collections: number of the collection, type and place of each, and the collections without any."""

    record: NDArray[np.int64]
    type: NDArray[np.uint8]
    start: NDArray[np.int64]
    size_bytes: NDArray[np.int64]
    damaged: NDArray[np.int64]


class Items(NamedTuple):
    """How collections lie behind the fixed part of values: a head, descriptions of all items, then their data."""

    # from a decoder, the buffer, and starts and lengths of collections to their items; for the twin of the kernel
    locate: Callable[[Decoder, NDArray[np.uint8], I64, I64], LocatedItems]
    # head, entry: the head and one description
    head: RecordType
    # num_items, kind, size, pace: of the head: number of items. Of a description: type, size, and bytes to the next
    # item.
    num_items: RecordColumn
    entry: RecordType
    kind: RecordColumn
    size: RecordColumn
    pace: RecordColumn


class Kind(NamedTuple):
    """Where the kind of a record stands."""

    part: Part
    record_type: RecordType
    field: RecordColumn


class Leaf(NamedTuple):
    """Records of one kind."""

    kind: int  # their kind; 0 in trees that know no kinds
    table: str  # the table that gets a row for each
    # key_type, val_type: what must be there of key and value
    key_type: RecordType
    val_type: RecordType
    # columns, key_columns: column of the table to field or instance of the value or key, or to a number for all records
    columns: Mapping[str, RecordColumn | int] = _NONE
    key_columns: Mapping[str, RecordColumn] = _NONE
    texts: Mapping[str, Text] = _NONE  # columns with texts
    checked: tuple[Text, ...] = ()  # further bytes that must be there
    lists: tuple[Repeated, ...] = ()  # what becomes rows of other tables
    cases: Mapping[int, ItemCase] = _NONE  # items of the collection behind the value by their type
    # whether the grammar has types for these records as a whole, and not only for their fixed parts
    is_parsed_whole: bool = False


class Output(NamedTuple):
    """A buffer that is filled: a column, the lengths of its texts, or (`is_data`) their bytes."""

    table: str
    column: str
    is_data: bool
    dtype: np.dtype[Any]
    counter: int


class LeafPlan:
    """What the records of a tree become."""

    def __init__(
        self,
        tables: Mapping[str, Mapping[str, type[np.generic] | Coding]],
        leaves: Sequence[Leaf],
        kind: Kind | None = None,
        items: Items | None = None,
    ) -> None:
        self.tables = tables
        self.leaves = tuple(leaves)
        self.kind = kind
        self.items = items

    @cached_property
    def outputs(self) -> tuple[Output, ...]:
        """The buffers that are filled; those of one counter grow together."""
        found, counter = [], len(self.tables)
        for number, (table, columns) in enumerate(self.tables.items()):
            for name, kind in columns.items():
                is_text = isinstance(kind, str)
                found.append(Output(table, name, False, np.dtype(TEXT_DTYPE if is_text else kind), number))
                if is_text:
                    found.append(Output(table, name, True, np.dtype(np.uint8), counter))
                    counter += 1
        return tuple(found)

    @property
    def num_counters(self) -> int:
        """Numbers of tables and of columns with texts."""
        return 1 + max(output.counter for output in self.outputs)

    def dtype(self, table: str, column: str) -> np.dtype[Any]:
        """Return the type of a column."""
        kind = self.tables[table][column]
        return np.dtype(TEXT_DTYPE if isinstance(kind, str) else kind)


class LeafBatch(NamedTuple):
    """Records, and the nodes that they lie in."""

    buffer: U8  # whole nodes
    node_bytes: int  # size of a node, which is how far apart nodes start in the buffer
    numbers: I64  # what the column `node` shall say of each
    node: I64  # place of each record's node in the batch
    # key_start, key_length, val_start, val_length: where keys and values lie, in bytes from the start of the buffer;
    # none of it is trusted
    key_start: I64
    key_length: NDArray[np.integer[Any]]
    val_start: I64
    val_length: NDArray[np.integer[Any]]

    def part(self, part: Part, rows: I64) -> tuple[I64, NDArray[np.integer[Any]]]:
        """Starts and lengths of the keys or values of some records."""
        if part == "key":
            return self.key_start[rows], self.key_length[rows]
        return self.val_start[rows], self.val_length[rows]


class RecordRows(NamedTuple):
    """What became of each record of a batch."""

    leaf: U8  # which of the plan's leaves it is; `NO_LEAF` where it was left out
    row: I64  # its row in the table of that leaf, counted over all batches; -1 where it was left out
    is_damaged: Mask  # whether the collection behind its value is damaged; then no item of it was decoded

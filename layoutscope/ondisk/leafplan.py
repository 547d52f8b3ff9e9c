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
    """How collections lie behind the fixed part of values: a head, descriptions of all items, then their data.

    Attributes
    ----------
    locate : callable
        From a decoder, the buffer, and starts and lengths of collections to their items; for the twin of the kernel.
    head, entry : RecordType
        The head and one description.
    num_items, kind, size, pace : RecordColumn
        Of the head: number of items. Of a description: type, size, and bytes to the next item.
    """

    locate: Callable[[Decoder, NDArray[np.uint8], I64, I64], LocatedItems]
    head: RecordType
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
    """Records of one kind.

    Attributes
    ----------
    kind : int
        Their kind; 0 in trees that know no kinds.
    table : str
        The table that gets a row for each.
    key_type, val_type : RecordType
        What must be there of key and value.
    columns, key_columns : mapping
        Column of the table to field or instance of the value or key, or to a number for all records.
    texts : mapping of str to Text
        Columns with texts.
    checked : tuple of Text
        Further bytes that must be there.
    lists : tuple of Repeated
        What becomes rows of other tables.
    cases : mapping of int to ItemCase
        Items of the collection behind the value by their type.
    is_parsed_whole : bool
        Whether the grammar has types for these records as a whole, and not only for their fixed parts.
    """

    kind: int
    table: str
    key_type: RecordType
    val_type: RecordType
    columns: Mapping[str, RecordColumn | int] = _NONE
    key_columns: Mapping[str, RecordColumn] = _NONE
    texts: Mapping[str, Text] = _NONE
    checked: tuple[Text, ...] = ()
    lists: tuple[Repeated, ...] = ()
    cases: Mapping[int, ItemCase] = _NONE
    is_parsed_whole: bool = False


class Output(NamedTuple):
    """A buffer that is filled: a column, the lengths of its texts, or (`is_data`) their bytes."""

    table: str
    column: str
    is_data: bool
    dtype: np.dtype[Any]
    counter: int


class LeafPlan:
    """What the records of a tree become.

    Parameters
    ----------
    tables : mapping of str to mapping
        Columns by table: a type of numbers, or how a text is coded. Columns named ``node``, ``key_at`` and ``val_at``
        get the number of the node and the places of key and value in it, where the leaf does not say otherwise; what a
        leaf says nothing of becomes 0.
    leaves : sequence of Leaf
        Kinds of records; others are left out.
    kind : Kind, optional
        Where the kind stands.
    items : Items, optional
        How collections lie.
    """

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
    """Records, and the nodes that they lie in.

    Attributes
    ----------
    buffer : (n_bytes,) uint8 array
        Whole nodes.
    node_bytes : int
        Size of a node, which is how far apart nodes start in the buffer.
    numbers : (n_nodes,) int64 array
        What the column ``node`` shall say of each.
    node : (n,) int64 array
        Place of each record's node in the batch.
    key_start, key_length, val_start, val_length : (n,) integer arrays
        Where keys and values lie, in bytes from the start of the buffer; none of it is trusted.
    """

    buffer: U8
    node_bytes: int
    numbers: I64
    node: I64
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
    """What became of each record of a batch.

    Attributes
    ----------
    leaf : (n,) uint8 array
        Which of the plan's leaves it is; ``NO_LEAF`` where it was left out.
    row : (n,) int64 array
        Its row in the table of that leaf, counted over all batches; -1 where it was left out.
    is_damaged : (n,) bool array
        Whether the collection behind its value is damaged; then no item of it was decoded.
    """

    leaf: U8
    row: I64
    is_damaged: Mask

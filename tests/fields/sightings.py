"""Which fields hold something on which images: everything that readers and ``inspect`` parse of an image is looked at.

A field is seen where it is not zero; of a field of varying size, or of a structure within, where it is there at all.
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from layoutscope.api import reading
from layoutscope.api.check import compare_nodes
from layoutscope.api.reading import make_request, open_volumes
from layoutscope.errors import LayoutscopeError
from layoutscope.structs import bulk, grammar
from layoutscope.structs.recordtypes import Field, RecordType
from tests.fields.grammars import types

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from layoutscope.tables import VolumeLayout

NODES_OF_A_TREE = 200
"""Nodes of each tree that are shown as ``inspect`` shows them; readers have seen the others."""
LONGEST = 1 << 20


@dataclass
class Sightings:
    """What was met.

    Attributes
    ----------
    values : dict of str to bool
        By the address of a field, whether it ever held something.
    shown : set of str
        Types that ``inspect`` shows.
    places : dict of str to list
        Where fields are that ``inspect`` shows: start and length of the object, place and length of the field in it,
        in bytes, and whether the field holds something.
    """

    values: dict[str, bool] = field(default_factory=lambda: defaultdict(bool))
    shown: set[str] = field(default_factory=set)
    places: dict[str, list[tuple[int, int, int, int, bool]]] = field(default_factory=lambda: defaultdict(list))
    around: tuple[int, int] | None = None
    is_showing: bool = False

    def parsed(self, structure: Any, start: int) -> bool:
        """Take note of a parsed structure, by its place in its buffer in bytes; return whether it holds anything."""
        name, holds = type_of(type(structure)), False
        for key, spot in structure._debug.items():
            if key.startswith("_") or "end" not in spot or name is None:
                continue
            items = spot.get("arr")
            values = [(getattr(structure, key, None), spot)]
            if items is not None:
                values = list(zip(getattr(structure, key, None) or [], items, strict=False))
            own = [self._field(value, place, start) for value, place in values]
            self._note(f"{name}.{key}", any(own), start + spot["start"], spot["end"] - spot["start"])
            holds |= any(own)
        return holds

    def _field(self, value: Any, spot: dict[str, Any], start: int) -> bool:
        if hasattr(value, "_debug"):
            apart = bool(value._debug) and grammar._starts_at_zero(value, spot)
            return self.parsed(value, start + (spot["start"] if apart else 0))
        return any(value) if isinstance(value, bytes) else bool(int(value or 0))

    def _note(self, address: str, holds: bool, start: int, length: int) -> None:
        self.values[address] |= holds
        if self.is_showing:
            self.shown.add(address.rpartition(".")[0])
            if self.around is not None and length:
                self.places[address].append((*self.around, start, length, holds))

    def gathered(self, record_type: RecordType, gather: bulk.Gather) -> None:
        """Take note of records that are gathered in bulk."""
        self._members(record_type, record_type, gather)

    def _members(self, outer: RecordType, inner: RecordType, gather: bulk.Gather) -> bool:
        holds = False
        for name in inner._members:
            member = getattr(inner, name)
            if isinstance(member, RecordType):
                own = self._members(outer, member, gather)
            elif isinstance(member, Field):
                values = gather(member)
                own = bool((values != np.zeros((), values.dtype)).any())
            else:
                continue
            self.values[f"{inner.type_name}.{name}"] |= own
            holds |= own
        return holds


@cache
def type_of(cls: type) -> str | None:
    """Return the full name of the type that a parser's class is of."""
    grammar_id = cls.__module__.rpartition(".")[2]
    for name in types():
        if name.startswith(f"{grammar_id}.") and _camel(name.partition(".")[2]) == cls.__name__:
            return name
    return None


def _camel(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


@contextmanager
def watched() -> Iterator[Sightings]:
    """Look over the shoulders of bulk decoding and the grammars for a while."""
    sightings = Sightings()
    parse, gather_from = grammar.parse, bulk._gather_from

    def watching(cls: Any, data: Any, *, structure: str, image_offset: int = 0) -> Any:
        found = parse(cls, data, structure=structure, image_offset=image_offset)
        sightings.parsed(found, image_offset)
        return found

    def watching_gather(record_type: RecordType, buffer: Any, positions: Any, num_fields: int) -> bulk.Gather:
        gather = gather_from(record_type, buffer, positions, num_fields)
        if len(positions):
            sightings.gathered(record_type, gather)
        return gather

    grammar.parse, bulk._gather_from = watching, watching_gather
    try:
        yield sightings
    finally:
        grammar.parse, bulk._gather_from = parse, gather_from


def look_at(sightings: Sightings, path: Path, **options: Any) -> None:
    """Read an image, and show every node and region of it.

    Parameters
    ----------
    sightings : Sightings
        What is watching.
    path : path
        The image.
    **options
        As for :func:`layoutscope.inspect`.
    """
    request = make_request(options)
    with open_volumes(path, request) as image:
        view = reading.views_of(image, request)
        for layout in image.layouts:
            # The kernels decode the records of leaves unseen: comparing nodes decodes them once more.
            list(compare_nodes(layout, view(layout)))
            sightings.is_showing = True
            _show(sightings, layout, view(layout))
            sightings.is_showing = False


def _show(sightings: Sightings, layout: VolumeLayout, view: Any) -> None:
    for row in layout.nodes.group_by("tree", maintain_order=True).head(NODES_OF_A_TREE).iter_rows(named=True):
        pieces = reading.parts_of_node(layout, row)
        if row["kind"] == "locked":
            continue
        sightings.around = (pieces[0][0], pieces[0][1]) if len(pieces) == 1 and row["device"] == 0 else None
        try:
            view.describe_node(b"".join(view.read(row, piece) for piece in pieces), str(row["tree"]))
        except LayoutscopeError:
            continue
    for row in layout.regions.filter(pl.col("device") == 0).iter_rows(named=True):
        piece = (row["image_offset"], min(row["length_bytes"], LONGEST))
        sightings.around = piece
        try:
            view.describe_region(view.read(row, piece), str(row["type"]))
        except LayoutscopeError:
            continue
    sightings.around = None

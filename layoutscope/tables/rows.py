"""Rows under named columns: what is written to files, and becomes a frame where somebody asks for one."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from layoutscope.frames import pl
from layoutscope.tables.schema import TABLES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from layoutscope.tables.schema import Column
    from layoutscope.tables.table import Table


class Rows:
    """Rows of documented columns, which are made part by part."""

    def __init__(
        self,
        columns: Sequence[Column],
        height: int,
        # from a slice of the rows to the values of each column in it, None where there is none
        part: Callable[[slice], dict[str, list[Any]]],
        frame: Callable[[], pl.DataFrame],
    ) -> None:
        self.columns = tuple(columns)
        self._height = height
        self.part = part
        self._frame = frame

    def __len__(self) -> int:
        return self._height

    @cached_property
    def frame(self) -> pl.DataFrame:
        """The same as a frame; made when it is asked for the first time."""
        return self._frame()

    @classmethod
    def of(cls, table: Table) -> Rows:
        """Return the rows of a public table."""
        columns = TABLES[table.name]

        def part(chosen: slice) -> dict[str, list[Any]]:
            taken = table.take(chosen)
            return {column.name: taken.listed(column.name) for column in columns}

        return cls(columns, len(table), part, lambda: table.frame)

    @classmethod
    def under(cls, columns: Sequence[Column], data: Mapping[str, Any]) -> Rows:
        """Put arrays or lists of one length under columns."""
        names = [column.name for column in columns]
        if set(data) != set(names):
            raise ValueError(f"these rows have other columns: {sorted(set(data) ^ set(names))}")

        def part(chosen: slice) -> dict[str, list[Any]]:
            return {
                name: np.ndarray.tolist(own) if isinstance(own := data[name][chosen], np.ndarray) else own
                for name in names
            }

        def frame() -> pl.DataFrame:
            return pl.DataFrame([_series(column, data[column.name]) for column in columns])

        return cls(columns, len(data[names[0]]), part, frame)

    @classmethod
    def listed(cls, columns: Sequence[Column], rows: Iterable[Sequence[Any]]) -> Rows:
        """Put rows, whose values stand in the order of columns, under these."""
        values = list(zip(*rows, strict=True)) or [()] * len(columns)
        data = {column.name: list(own) for column, own in zip(columns, values, strict=True)}
        return cls.under(columns, data)


def _series(column: Column, values: Any) -> pl.Series:
    if isinstance(values, np.ndarray):
        return pl.Series(column.name, values).cast(column.dtype)
    return pl.Series(column.name, values, dtype=column.dtype)

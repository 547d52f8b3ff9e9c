"""What the blocks of a volume are used for: every byte counted once.

Input: nodes, regions, extents and free. Where two tables claim the same byte, metadata wins over data, data over free.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from layoutscope.metrics.pieces import NOT_METADATA, Pieces, merged, metadata_pieces

if TYPE_CHECKING:
    from collections.abc import Sequence

    from layoutscope.tables import VolumeLayout

USES: Final = ("metadata", "data", "free", "pending-free", "unclaimed")
"""In the order in which a byte that is claimed twice is counted."""


@dataclass(frozen=True, slots=True)
class SpaceUse:
    """Bytes by use.

    Attributes
    ----------
    use : str
        One of :data:`USES`, or ``unaccounted``: no table says anything about them.
    size_bytes : int
        Bytes of the volume, each counted once.
    """

    use: str
    size_bytes: int


def space_use(layouts: Sequence[VolumeLayout]) -> tuple[SpaceUse, ...]:
    """Account for every byte of a volume, or of a container with the volumes that share it.

    Parameters
    ----------
    layouts : sequence of VolumeLayout
        The volume, or the container and its volumes.
    """
    claimed = Pieces(np.empty(0, np.int64), np.empty(0, np.int64))
    rows = []
    for use, pieces in zip(USES, _pieces(layouts), strict=True):
        both = merged(_joined(claimed, pieces), 0)
        rows.append(SpaceUse(use, int(both.length.sum() - claimed.length.sum())))
        claimed = both
    rows.append(SpaceUse("unaccounted", max(layouts[0].facts.size_bytes - int(claimed.length.sum()), 0)))
    return tuple(row for row in rows if row.size_bytes)


def _pieces(layouts: Sequence[VolumeLayout]) -> tuple[Pieces, ...]:
    columns = ("image_offset", "length_bytes")
    regions = pl.concat([layout.regions.select("type", *columns) for layout in layouts])
    extents = pl.concat([layout.extents.select(columns).drop_nulls() for layout in layouts])
    free = pl.concat([layout.free.select(columns) for layout in layouts])
    kind = pl.col("type").cast(pl.String)
    typed = {name: regions.filter(kind == name).select(columns) for name in NOT_METADATA}
    return (
        _joined(*map(metadata_pieces, layouts)),
        _of(pl.concat([extents, typed["data"]])),
        _of(free),
        _of(typed["pending-free"]),
        _of(typed["unclaimed"]),
    )


def _of(frame: pl.DataFrame) -> Pieces:
    start = frame["image_offset"].to_numpy().astype(np.int64)
    return _joined(Pieces(start, start + frame["length_bytes"].to_numpy().astype(np.int64)))


def _joined(*many: Pieces) -> Pieces:
    start, stop = (np.concatenate(columns) for columns in zip(*many, strict=True))
    order = np.argsort(start, kind="stable")
    return Pieces(start[order], stop[order])

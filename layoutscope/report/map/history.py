"""When nodes were written: transactions over the address space, for file systems that number them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from layoutscope.report.map.pictures import density
from layoutscope.units import MIB

if TYPE_CHECKING:
    from layoutscope.report.map.model import MapDisk


def history(item: MapDisk) -> dict[str, Any] | None:
    """Return the transactions of all nodes as a picture, and the states that can be read; None without transactions."""
    nodes = pl.concat([layout.nodes for layout in item.layouts], how="vertical_relaxed")
    dated = nodes.filter(pl.col("xid").is_not_null() & (pl.col("xid") > 0) & pl.col("image_offset").is_not_null())
    if dated["xid"].n_unique() < 2:
        return None
    place = (dated["image_offset"].to_numpy() - item.image_offset) / MIB
    return {
        "low": int(dated["xid"].min()),  # type: ignore[arg-type]
        "high": int(dated["xid"].max()),  # type: ignore[arg-type]
        "picture": density(place, dated["xid"].to_numpy().astype(float)),
        "states": [{"label": label, "xid": xid} for label, xid in item.states],
    }

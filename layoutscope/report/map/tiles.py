"""Detail for the deepest zoom: exact segments in tiles that the page unpacks when a view needs them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from layoutscope.report.map.segments import Segments

TILE_SEGMENTS: Final = 16_384


def tiles(segments: Segments, budget: int, pack: Callable[[Segments], dict[str, Any]]) -> list[dict[str, Any]]:
    """Cut segments in address order into tiles of equal count.

    Parameters
    ----------
    segments : Segments
        In address order.
    budget : int
        Most segments that are kept; past it every n-th tile is kept, and the page says where it has only shares.
    pack : callable
        Turns segments into JSON-ready arrays.
    """
    count = -(-len(segments) // TILE_SEGMENTS)
    step = max(1, -(-len(segments) // budget))
    return [_tile(segments, number, pack) for number in range(0, count, step)]


def _tile(segments: Segments, number: int, pack: Callable[[Segments], dict[str, Any]]) -> dict[str, Any]:
    following = min((number + 1) * TILE_SEGMENTS, len(segments))
    part = segments.take(np.arange(number * TILE_SEGMENTS, following))
    stop = int((part.start + part.length).max())
    # What lies between two tiles belongs to the first; the last one of a run ends where its segments end.
    end = int(segments.start[following]) if following < len(segments) else stop
    return {"from": int(part.start[0]), "to": end, **pack(part)}

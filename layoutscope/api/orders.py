"""All orders of a volume beside one another: one read of the image, one model, a walk for each order."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from layoutscope.analysis.owners import volume_name
from layoutscope.api.served import quick_prediction
from layoutscope.api.workloads import host_of, said_of, walk_on, why_not
from layoutscope.results.predict import OrderCase, OrdersCase
from layoutscope.walk.orders import ORDERS, model_of
from layoutscope.walk.paths import entries_on_paths, missing_paths

if TYPE_CHECKING:
    from collections.abc import Sequence

    from layoutscope.access.model import Model
    from layoutscope.drive import DriveProfile
    from layoutscope.options import WorkRequest
    from layoutscope.tables import VolumeLayout

ALL: Final = "all"
"""In place of an order's name: every one of them."""


def over_orders(
    layout: VolumeLayout,
    profiles: Sequence[DriveProfile],  # the drives; orders are sorted by their time on the first
    work: WorkRequest,
    *,
    start_offset_bytes: int = 0,
) -> OrdersCase:
    """Predict every order on a volume."""
    model = model_of(layout, host_of(work))
    cases = [_case(model, profiles, replace(work, order=name), start_offset_bytes) for name in ORDERS]
    cases.sort(key=lambda case: (bool(case.why_not), case.times[0].seconds if case.times else case.reads))
    paths = work.paths or ()
    missing = missing_paths(paths, entries_on_paths(model, paths))
    return OrdersCase(volume_name(layout), work.host, tuple(cases), layout.coverage, layout.num_errors, missing)


def _case(model: Model, profiles: Sequence[DriveProfile], work: WorkRequest, start_offset_bytes: int) -> OrderCase:
    reason = why_not(work)
    if reason:
        return OrderCase(work.order, reason)
    reads = walk_on(model, work).reads
    said = said_of(model.host)
    times = tuple(quick_prediction(model.layout, reads, profile, said, start_offset_bytes) for profile in profiles)
    read_bytes = int(reads.length_bytes.sum())
    return OrderCase(work.order, "", len(reads), read_bytes, entries_of(model, work), times)


def entries_of(model: Model, work: WorkRequest) -> int | None:
    """Count the entries that an order goes through; None where it goes through no number of them."""
    if work.order == "paths":
        return len(work.paths or ())
    chosen = ORDERS[work.order]
    if chosen.needs or not chosen.is_whole or work.start is not None:
        return None
    return len(model.layout.columns("entries")) * work.passes

"""Volumes like one that is known: with its files in other orders, and aged."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope.aging.layouts import build_aged_layout
from layoutscope.aging.volume import FullError
from layoutscope.drive.uncertain import drawn, priors
from layoutscope.errors import UsageError
from layoutscope.filesystems.registry import filesystem_of
from layoutscope.metrics.history import (
    AS_LISTED,
    BEHIND,
    BY_NAME,
    FILES_PER_TRANSACTION,
    FOLDERS_FIRST,
    REUSED_BELOW,
    infer_creation_order,
    writing_metrics,
)
from layoutscope.progress import phase
from layoutscope.remedies.changes import lay_in_read_order, pack_nodes
from layoutscope.walk.orders import trace

if TYPE_CHECKING:
    from layoutscope.aging.volume import AgingVolume, Policy
    from layoutscope.tables import VolumeLayout


def readable(layout: VolumeLayout, host: str) -> AgingVolume:
    """Make a volume that can age of a layout, by the driver of a host."""
    # A file system that another package adds may have no model of what its driver writes.
    make = getattr(filesystem_of(layout), "aging", None)
    name = layout.facts.name
    if make is None:
        raise UsageError(f"{name}: how {layout.facts.variant} places new data is not modelled")
    volume: AgingVolume | None = make(layout, host)
    if volume is None:
        raise UsageError(f"{name}: no forecast of a volume whose tree was not read, or is spread over two devices")
    if not volume.entries.is_file.any():
        raise UsageError(f"{name}: no forecast of a volume without files: nothing would change")
    volume.policy = shown_policy(layout, host, volume.policy)
    return volume


def shown_policy(layout: VolumeLayout, host: str, usual: Policy) -> Policy:
    """Replace assumptions about a driver by what its volume shows: transactions, and where they are."""
    if filesystem_of(layout).written_by(layout) != host:
        return usual
    values = {metric.name: metric.value for metric in writing_metrics(layout)}
    files, behind = values.get(FILES_PER_TRANSACTION.name), values.get(BEHIND.name)
    shown: dict[str, Any] = {}
    told = dict(usual.assumes)
    if "files_per_transaction" in told and files:
        low, high = priors()["placement"]["transaction_files"]["range"]
        shown |= {"files_per_transaction": round(min(max(files, low), high)), "length_spread": SHOWN_SPREAD}
        told["files_per_transaction"] = f"A transaction writes about {files:,.0f} files, as the last ones did."
    if "next_fit" in told and behind is not None and behind < REUSED_BELOW:
        shown["next_fit"] = False
        told["next_fit"] = "Freed blocks are used again, as they were on this volume."
    return replace(usual, **shown, assumes=told)


SHOWN_SPREAD: Final = 1.25
"""Factor within which lengths of transactions are drawn that a volume shows."""


VOLUMES: Final = 8


DRAWN_VOLUMES: Final = 16
"""Volumes that are made, the first of those that are drawn."""


AGED_SHARE: Final = 0.05
"""Share of the files that a cycle replaces, as an age for a volume in use."""


LAID_OUT: Final = {AS_LISTED: "walk-order", BY_NAME: "packed", FOLDERS_FIRST: "packed"}
"""Where nodes of new volumes are, by the order in which files were added: in walk order, or by key."""


def volumes_alike(layout: VolumeLayout, host: str) -> list[tuple[str, int, VolumeLayout]]:
    """Make volumes with the files of one that is known: how their files came, their ages in cycles, their layouts.

    Files come as they did on the one that is known, if its numbers show that.
    """
    prior, shown = priors()["placement"], infer_creation_order(layout)
    names = [shown or str(word) for word in drawn("placement.creation", prior["creation"], DRAWN_VOLUMES)[:VOLUMES]]
    ages = [int(age) for age in drawn("placement.age", prior["age"], DRAWN_VOLUMES)[:VOLUMES]]
    made: dict[tuple[str, int], VolumeLayout] = {}
    wanted = {way: {age for name, age in zip(names, ages, strict=True) if LAID_OUT[name] == way} for way in NEW}
    steps = sum(max(each, default=0) for each in wanted.values())
    with phase("ageing volumes like that", max(steps, 1), unit="steps") as under_way:
        for way, at in wanted.items():
            new = pack_nodes(layout) if way == "packed" else lay_in_read_order(layout, trace(layout, host=host))
            volume, rng = readable(new, host).copy(), np.random.default_rng(1)
            for cycle in range(max(at, default=-1) + 1):
                if cycle:
                    try:
                        volume.age("replace", max(round(AGED_SHARE * volume.entries.is_file.sum()), 1), rng)
                    except FullError:
                        # What no longer fits stays as old as it became.
                        made |= {(way, age): build_aged_layout(new, volume) for age in at if age >= cycle}
                        break
                    under_way.advance()
                if cycle in at:
                    made[way, cycle] = build_aged_layout(new, volume) if cycle else new
    return [(name, age, made[LAID_OUT[name], age]) for name, age in zip(names, ages, strict=True)]


NEW: Final = tuple(dict.fromkeys(LAID_OUT.values()))

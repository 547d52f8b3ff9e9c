"""Plans of the ager as layouts, so that walks, drives and metrics run on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from fixtures.ager import apfs, hfsplus
from fixtures.ager.fileset import populate
from fixtures.ager.plan import apfs_plan, hfsplus_plan
from fixtures.ager.policies import ApfsPolicy
from layoutscope.tables import VolumeFacts, VolumeLayout, build_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fixtures.ager.fileset import FileSet
    from fixtures.ager.plan import Plan
    from fixtures.ager.policies import HfsPlusPolicy


def layout_of(plan: Plan) -> VolumeLayout:
    """Turn a plan into a layout."""
    facts = dict(plan.facts)
    facts.pop("trees")
    tables = {name: build_table(name, _columns(name, columns)) for name, columns in plan.tables.items()}
    return VolumeLayout(
        facts=VolumeFacts(
            volume=0,
            uuid="00000000-0000-0000-0000-000000000000",
            stack=("plan", str(facts["variant"])),
            image_offset=0,
            case_sensitive=False,
            **facts,
        ),
        node_fragments=build_table("node_fragments", {}),
        findings=build_table("findings", {}),
        **tables,
    )


def _columns(name: str, columns: dict[str, Any]) -> dict[str, Any]:
    """Names are bytes in a plan, text and bytes in a layout."""
    if name != "entries":
        return columns
    raw = pl.Series("name_raw", columns["name"], dtype=pl.Binary)
    return {**columns, "name": raw.cast(pl.String), "name_raw": raw}


def aging(
    file_set: FileSet, policy: ApfsPolicy | HfsPlusPolicy, cycles: int, *, extents: bool = False
) -> Iterator[VolumeLayout]:
    """Go through the states of a volume: fresh, then after each cycle."""
    population = populate(file_set)
    if isinstance(policy, ApfsPolicy):
        state = apfs.created(population, policy)
        yield layout_of(apfs_plan(state, extents=extents))
        for cycle in range(1, cycles + 1):
            apfs.aged(state, cycle)
            yield layout_of(apfs_plan(state, extents=extents))
        return
    catalog = hfsplus.created(population, policy)
    yield layout_of(hfsplus_plan(catalog, extents=extents))
    for cycle in range(1, cycles + 1):
        hfsplus.aged(catalog, cycle)
        yield layout_of(hfsplus_plan(catalog, extents=extents))

"""The sound images that are damaged: those of our writers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from fixtures.apfs import scenarios as apfs
from fixtures.apfs.plan import ContainerPlan, Create, FilePlan, TakeSnapshot, Touch, TransactionPlan, VolumePlan
from fixtures.apfs.structures.volume import VolumeRole
from fixtures.apfs.writer import write
from fixtures.hfsplus import scenarios as hfsplus
from fixtures.hfsplus.writer import write as write_hfsplus
from tests.fuzz import of_apfs, of_hfsplus

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from fixtures.hfsplus.plan import VolumePlan as HfsPlusPlan

SYSTEM: Final = VolumePlan("System", apfs.many(30), role=VolumeRole.SYSTEM, group=apfs.GROUP)
DATA: Final = VolumePlan("Data", apfs.RICH, role=VolumeRole.DATA, group=apfs.GROUP)
UPDATE: Final = (
    TransactionPlan((TakeSnapshot("os"),)),
    TransactionPlan((Touch("short"), Create(FilePlan("new")))),
)
APFS_PLANS: Final[dict[str, ContainerPlan]] = {
    **of_apfs.PLANS,
    "aged": replace(apfs.SCENARIOS["aged"], block_count=16384),
    "edited": replace(apfs.SCENARIOS["edited"], block_count=16384),
    "group": apfs.container(SYSTEM, DATA, transactions=(TransactionPlan((Touch("short", 1),)),), block_count=262144),
    "sealed-snapshot": apfs.container(apfs.SEALED, transactions=UPDATE, block_count=16384),
    "case-sensitive": replace(apfs.SCENARIOS["case-sensitive"], block_count=16384),
    "plain-keys": replace(apfs.SCENARIOS["plain-keys"], block_count=16384),
    "shared-streams": replace(apfs.SCENARIOS["shared-streams"], block_count=16384),
    "fusion": apfs.SCENARIOS["fusion"],
}
HFSPLUS_PLANS: Final[dict[str, HfsPlusPlan]] = {
    **of_hfsplus.PLANS,
    **{
        name: hfsplus.SCENARIOS[name]
        for name in (
            "victim", "attributes", "hard-links", "old-hard-links", "odd-names", "long-names", "overflow",
            "journal-pending", "journal-pending-big-endian", "map-nodes", "hfsx-case-insensitive", "apm-wrapped", "gpt",
        )
    },
    "sized": hfsplus.sized(8192, 8192),
}  # fmt: skip
SNAPSHOTS: Final = {"snapshots": "first", "sealed-snapshot": "os"}
"""Images with a snapshot that is also read in place of the live state."""


@dataclass(frozen=True, slots=True)
class Sound:
    """A sound image, and how it is read: the password, the snapshot, or the other image of a Fusion set."""

    name: str
    path: Path
    options: Mapping[str, Any]


def written_images(folder: Path) -> list[Sound]:
    """Write our own images into a folder."""
    found = [item for name, plan in APFS_PLANS.items() for item in _apfs_images(name, plan, folder)]
    for name, volume in HFSPLUS_PLANS.items():
        path = folder / f"written-hfsplus-{name}.img"
        write_hfsplus(volume, path)
        found.append(Sound(path.stem, path, {}))
    return found


def _apfs_images(name: str, plan: ContainerPlan, folder: Path) -> list[Sound]:
    """Write a container. A Fusion set is read from either image, an image with snapshots in two states."""
    path = folder / f"written-apfs-{name}.img"
    if plan.fusion:
        second = folder / f"written-apfs-{name}-second.img"
        write(plan, path, second)
        return [Sound(path.stem, path, {"second": second}), Sound(second.stem, second, {"second": path})]
    write(plan, path)
    found = [Sound(path.stem, path, {"password": apfs.PASSWORD} if name == "encrypted" else {})]
    if name in SNAPSHOTS:
        found.append(Sound(f"{path.stem}-view", path, {"snapshot": SNAPSHOTS[name]}))
    return found

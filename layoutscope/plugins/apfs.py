"""The interface of APFS to all code outside of its package."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from layoutscope.filesystems.apfs import CODES
from layoutscope.filesystems.traits import OnDemand, ReadOption, Traits, TreeTraits

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from layoutscope.access.driver import Driver, DriverProperties, HostProfile
    from layoutscope.aging import apfs as aging
    from layoutscope.aging.volume import AgingVolume
    from layoutscope.checks import causes
    from layoutscope.checks.apfs import registry, scan
    from layoutscope.drivers import apfs as drivers
    from layoutscope.filesystems import content
    from layoutscope.filesystems.apfs import container, inspect, reader
    from layoutscope.filesystems.content import Content
    from layoutscope.filesystems.contract import Checked, FileSystem, ReadableState, View, VolumeRequest
    from layoutscope.findings import Finding
    from layoutscope.image.source import Window
    from layoutscope.structs import records
    from layoutscope.tables import VolumeLayout
    from layoutscope.tables import layout as tables
else:
    aging, drivers, causes = map(OnDemand, ("aging.apfs", "drivers.apfs", "checks.causes"))
    registry, scan = map(OnDemand, ("checks.apfs.registry", "checks.apfs.scan"))
    container, inspect, reader = (OnDemand(f"filesystems.apfs.{name}") for name in ("container", "inspect", "reader"))
    content, records, tables = map(OnDemand, ("filesystems.content", "structs.records", "tables.layout"))

TREES: Final = (
    TreeTraits("fs", "file-system B-tree", "main", True, words="The file-system tree"),
    TreeTraits("omap", "object map", "map", True),
    TreeTraits("container-omap", "container object map", "map", False),
    TreeTraits("extentref", "extent-reference B-tree", "other", False),
    TreeTraits("snapmeta", "snapshot-metadata B-tree", "other", False),
    TreeTraits("fext", "file-extent B-tree", "other", False),
    TreeTraits("spaceman", "free-queue B-trees", "other", False, holds_several=True),
    TreeTraits("checkpoint-area", "checkpoint-area B-tree", holds_several=True),
)

TRAITS: Final = Traits(
    labels=("APFS",),
    trees=TREES,
    stamp_word="xid",
    options=(
        ReadOption("xid", "number", is_state=True),
        ReadOption("snapshot", "text", is_state=True),
        ReadOption("second", "image"),
        ReadOption("password", "secret"),
    ),
    finding_codes=CODES,
    gpt_types={
        "7c3457ef-0000-11aa-aa11-00306543ecac": "Apple APFS",
        "69646961-6700-11aa-aa11-00306543ecac": "Apple APFS, iBoot system container",
        "52637672-7900-11aa-aa11-00306543ecac": "Apple APFS, recovery",
    },
    apm_types=("Apple_APFS",),
    has_containers=True,
    keeps_states=True,
    maps_every_node=True,
    may_end_within_block=True,
    driver_versions=(("linux", "linux-apfs-rw 0.3.0", {"apfs_looks_up_dstream": False}),),
)


class Apfs:
    """APFS (Apple File System Reference)."""

    name: Final = "apfs"
    traits: Final = TRAITS

    @property
    def hosts(self) -> Mapping[str, DriverProperties]:
        """Behaviour of the driver on each host."""
        return drivers.HOSTS

    @property
    def host_sources(self) -> Mapping[str, tuple[str, str]]:
        """Sources of these properties."""
        return drivers.HOST_SOURCES

    def probe(self, stretch: Window, *, thorough: bool = False) -> Content | None:
        """Recognise a container by the superblock in its first block, or by those of its checkpoints."""
        if content.parse_at(stretch, records.APFS_CONTAINER, 0) is not None:
            return content.Content(self.name, TRAITS.label, 0, stretch.size_bytes)
        return container.probe_near(stretch) if thorough else None

    def find_in(self, stretch: Window, data: NDArray[np.uint8], offset: int) -> list[Content]:
        """Find containers by their superblocks."""
        return container.contents_at(stretch, container.superblock_places(data, offset))

    def read(self, request: VolumeRequest) -> list[VolumeLayout]:
        """Read a container with all its volumes."""
        return reader.read_layouts(request, scan.compare_contents)

    def check(self, request: VolumeRequest, layouts: Sequence[VolumeLayout]) -> list[Checked]:
        """Check a container; old copies of nodes are counted during reading, where they are found."""
        found = registry.check_container(request)
        results: list[Checked] = []
        for layout in layouts:
            own = found.get("" if layout.facts.volume is None else layout.facts.uuid, registry.UNOPENED)
            stale = [item for item in tables.layout_findings(layout) if item.code == "stale-nodes"]
            results.append(replace(own, findings=(*own.findings, *stale)))
        return results

    def explained(self, findings: Sequence[Finding], volumes: Sequence[str] = ()) -> tuple[Finding, ...]:
        """Name causes, as a check does."""
        return causes.name_causes(findings, registry.CAUSES, volumes)

    def view(self, request: VolumeRequest, layout: VolumeLayout) -> View:
        """Open the bytes of a container; a password unlocks the nodes of the volume."""
        return inspect.open_view(request, layout)

    def is_second(self, request: VolumeRequest) -> bool:
        """Distinguish the devices of a Fusion set."""
        return reader.is_second(request)

    def states(self, request: VolumeRequest) -> list[ReadableState]:
        """List checkpoints and snapshots, with how many of their nodes still exist."""
        return reader.list_states(request)

    def remade(self, layout: VolumeLayout) -> VolumeLayout | None:
        """Model entries in trees that were filled in the order of the entries' numbers."""
        return aging.remade(layout)

    def copied(self, layout: VolumeLayout, host: HostProfile) -> tuple[VolumeLayout, ...]:
        """Fill the trees like the Linux driver; the method of macOS is not published."""
        if host.name != "linux":
            return ()
        # The driver version that started to look up data streams also started to join the free space in nodes.
        is_later = host.properties_of(self.name, drivers.HOSTS).apfs_looks_up_dstream
        is_settled = drivers.joins_pieces(layout) is is_later
        return aging.copies_by_linux(layout, (is_later,) if is_settled else (is_later, not is_later))

    def aging(self, layout: VolumeLayout, host: str) -> AgingVolume | None:
        """Make a volume that ages as under a host's driver; None if its tree was not read."""
        return aging.read_apfs(layout, aging.policy_of(layout, host))

    def written_by(self, layout: VolumeLayout) -> str:
        """Distinguish Linux and macOS by their traces in the volume's header."""
        return drivers.written_by(layout)

    def driver(self, host: HostProfile) -> Driver:
        """Return the accesses of a host's driver."""
        return drivers.driver(host)


APFS: Final[FileSystem] = Apfs()

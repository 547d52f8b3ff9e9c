"""The interface of APFS to all code outside of its package."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from layoutscope.filesystems.apfs import CODES
from layoutscope.filesystems.traits import ReadOption, Traits, TreeTraits

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from layoutscope.access.driver import Driver, DriverProperties, HostProfile
    from layoutscope.aging.volume import AgingVolume
    from layoutscope.filesystems.content import Content
    from layoutscope.filesystems.contract import Checked, FileSystem, ReadableState, View, VolumeRequest
    from layoutscope.findings import Finding
    from layoutscope.image.source import Window
    from layoutscope.tables import VolumeLayout

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
        from layoutscope.drivers.apfs import HOSTS

        return HOSTS

    @property
    def host_sources(self) -> Mapping[str, tuple[str, str]]:
        """Sources of these properties."""
        from layoutscope.drivers.apfs import HOST_SOURCES

        return HOST_SOURCES

    def probe(self, stretch: Window, *, thorough: bool = False) -> Content | None:
        """Recognise a container by the superblock in its first block, or by those of its checkpoints."""
        from layoutscope.filesystems.content import Content, parse_at
        from layoutscope.structs.records import APFS_CONTAINER

        if parse_at(stretch, APFS_CONTAINER, 0) is not None:
            return Content(self.name, TRAITS.label, 0, stretch.size_bytes)
        if not thorough:
            return None
        from layoutscope.filesystems.apfs.container import probe_near

        return probe_near(stretch)

    def find_in(self, stretch: Window, data: NDArray[np.uint8], offset: int) -> list[Content]:
        """Find containers by their superblocks."""
        from layoutscope.filesystems.apfs.container import contents_at, superblock_places

        return contents_at(stretch, superblock_places(data, offset))

    def read(self, request: VolumeRequest) -> list[VolumeLayout]:
        """Read a container with all its volumes."""
        from layoutscope.checks.apfs.scan import compare_contents
        from layoutscope.filesystems.apfs.reader import read_layouts

        return read_layouts(request, compare_contents)

    def check(self, request: VolumeRequest, layouts: Sequence[VolumeLayout]) -> list[Checked]:
        """Check a container; old copies of nodes are counted during reading, where they are found."""
        from layoutscope.checks.apfs.registry import UNOPENED, check_container
        from layoutscope.tables import layout_findings

        found = check_container(request)
        results: list[Checked] = []
        for layout in layouts:
            own = found.get("" if layout.facts.volume is None else layout.facts.uuid, UNOPENED)
            stale = [item for item in layout_findings(layout) if item.code == "stale-nodes"]
            results.append(replace(own, findings=(*own.findings, *stale)))
        return results

    def explained(self, findings: Sequence[Finding], volumes: Sequence[str] = ()) -> tuple[Finding, ...]:
        """Name causes, as a check does."""
        from layoutscope.checks.apfs.registry import CAUSES
        from layoutscope.checks.causes import name_causes

        return name_causes(findings, CAUSES, volumes)

    def view(self, request: VolumeRequest, layout: VolumeLayout) -> View:
        """Open the bytes of a container; a password unlocks the nodes of the volume."""
        from layoutscope.filesystems.apfs.inspect import open_view

        return open_view(request, layout)

    def is_second(self, request: VolumeRequest) -> bool:
        """Distinguish the devices of a Fusion set."""
        from layoutscope.filesystems.apfs.reader import is_second

        return is_second(request)

    def states(self, request: VolumeRequest) -> list[ReadableState]:
        """List checkpoints and snapshots, with how many of their nodes still exist."""
        from layoutscope.filesystems.apfs.reader import list_states

        return list_states(request)

    def remade(self, layout: VolumeLayout) -> VolumeLayout | None:
        """Model entries in trees that were filled in the order of the entries' numbers."""
        from layoutscope.aging.apfs import remade

        return remade(layout)

    def copied(self, layout: VolumeLayout, host: HostProfile) -> tuple[VolumeLayout, ...]:
        """Fill the trees like the Linux driver; the method of macOS is not published."""
        from layoutscope.aging.apfs import copies_by_linux
        from layoutscope.drivers.apfs import HOSTS, joins_pieces

        if host.name != "linux":
            return ()
        # The driver version that started to look up data streams also started to join the free space in nodes.
        is_later = host.properties_of(self.name, HOSTS).apfs_looks_up_dstream
        is_settled = joins_pieces(layout) is is_later
        return copies_by_linux(layout, (is_later,) if is_settled else (is_later, not is_later))

    def aging(self, layout: VolumeLayout, host: str) -> AgingVolume | None:
        """Make a volume that ages as under a host's driver; None if its tree was not read."""
        from layoutscope.aging.apfs import policy_of, read_apfs

        return read_apfs(layout, policy_of(layout, host))

    def written_by(self, layout: VolumeLayout) -> str:
        """Distinguish Linux and macOS by their traces in the volume's header."""
        from layoutscope.drivers.apfs import written_by

        return written_by(layout)

    def driver(self, host: HostProfile) -> Driver:
        """Return the accesses of a host's driver."""
        from layoutscope.drivers.apfs import driver

        return driver(host)


APFS: Final[FileSystem] = Apfs()

"""The interface of HFS+ and HFSX to all code outside of their package."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from layoutscope.errors import declare_refusals
from layoutscope.filesystems.hfsplus import CODES
from layoutscope.filesystems.traits import OnDemand, ReadOption, Traits, TreeTraits

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from layoutscope.access.driver import Driver, DriverProperties, HostProfile
    from layoutscope.aging import hfsplus as aging
    from layoutscope.aging.volume import AgingVolume
    from layoutscope.checks import causes
    from layoutscope.checks.hfsplus import registry, scan
    from layoutscope.drivers import hfsplus as drivers
    from layoutscope.filesystems.content import Content
    from layoutscope.filesystems.contract import Checked, FileSystem, ReadableState, View, VolumeRequest
    from layoutscope.filesystems.hfsplus import inspect, layout, probe
    from layoutscope.findings import Finding
    from layoutscope.image.source import Window
    from layoutscope.tables import VolumeLayout
else:
    aging, drivers, causes = map(OnDemand, ("aging.hfsplus", "drivers.hfsplus", "checks.causes"))
    registry, scan = map(OnDemand, ("checks.hfsplus.registry", "checks.hfsplus.scan"))
    inspect, layout, probe = (OnDemand(f"filesystems.hfsplus.{name}") for name in ("inspect", "layout", "probe"))

TREES: Final = (
    TreeTraits("catalog", "catalog B-tree", "main", True, words="The catalog"),
    TreeTraits("attributes", "attributes B-tree", "other", True),
    TreeTraits("extents-overflow", "extents-overflow B-tree", "map", False),
    TreeTraits("hot-files", "hot-files B-tree", "other", False),
)

# The wrapper of an HFS+ volume is a classic HFS volume, and so is one without an HFS+ volume in it.
declare_refusals({"classic-hfs": "The volume is classic HFS without an HFS+ volume in it."})

TRAITS: Final = Traits(
    labels=("HFS+", "HFSX"),
    trees=TREES,
    stamp_word="write count",
    options=(ReadOption("no_journal", "switch", default=False),),
    relatives={"hfs": ("classic-hfs", "mount it on Mac OS up to 10.14, or copy its files with hfsutils")},
    finding_codes=CODES,
    gpt_types={
        "48465300-0000-11aa-aa11-00306543ecac": "Apple HFS+",
        "5265636f-7665-11aa-aa11-00306543ecac": "Apple TV Recovery",
    },
    apm_types=("Apple_HFS", "Apple_HFSX"),
    mbr_types=("apple_hfs",),
    has_metadata_zone=True,
)


class Hfsplus:
    """HFS+ and HFSX (TN1150)."""

    name: Final = "hfsplus"
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
        """Recognise HFS+, HFSX, a wrapper around either, and classic HFS, which cannot be read."""
        return probe.probe(stretch, thorough=thorough)

    def find_in(self, stretch: Window, data: NDArray[np.uint8], offset: int) -> list[Content]:
        """Find volumes by their headers or by the copies of these."""
        return probe.find_in(stretch, data, offset)

    def read(self, request: VolumeRequest) -> list[VolumeLayout]:
        """Read a volume."""
        return [layout.read_layout(request, scan.compare_contents)]

    def check(self, request: VolumeRequest, layouts: Sequence[VolumeLayout]) -> list[Checked]:
        """Check a volume, once for each of its layouts."""
        checked = registry.check_volume(request)
        return [checked for _ in layouts]

    def explained(self, findings: Sequence[Finding], volumes: Sequence[str] = ()) -> tuple[Finding, ...]:
        """Name causes, as a check does."""
        return causes.name_causes(findings, registry.CAUSES, volumes)

    def view(self, request: VolumeRequest, layout: VolumeLayout) -> View:
        """Open the bytes of a volume, after the journal's replay if that was requested."""
        return inspect.open_view(request, layout)

    def is_second(self, request: VolumeRequest) -> bool:  # noqa: ARG002  (none of any)
        """Return False: a volume is on one image."""
        return False

    def states(self, request: VolumeRequest) -> list[ReadableState]:  # noqa: ARG002  (none of any)
        """Return nothing: older states are overwritten."""
        return []

    def remade(self, layout: VolumeLayout) -> VolumeLayout | None:
        """Model the entries in a contiguous catalog; None if their names were omitted or hashed."""
        return aging.remade(layout) if aging.has_names(layout) else None

    def copied(self, layout: VolumeLayout, host: HostProfile) -> tuple[VolumeLayout, ...]:
        """Fill a catalog file by file; return nothing if names were omitted or hashed."""
        return aging.fill_catalogs(layout, host.name)

    def aging(self, layout: VolumeLayout, host: str) -> AgingVolume | None:
        """Make a volume that ages as under a host's driver; None if its tree was not read."""
        return aging.read_hfsplus(layout, aging.POLICIES[host])

    def written_by(self, layout: VolumeLayout) -> str:
        """Distinguish Linux and macOS by their traces in the volume's header."""
        return drivers.written_by(layout)

    def driver(self, host: HostProfile) -> Driver:
        """Return the accesses of a host's driver."""
        return drivers.driver(host, layout.compared_by)


HFSPLUS: Final[FileSystem] = Hfsplus()

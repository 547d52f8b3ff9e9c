"""Results of ``scan``: the image, its volumes with their metrics, and the cost of an enumeration."""

from __future__ import annotations

from collections import Counter
from typing import IO, TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

import numpy as np

from layoutscope.display import Displayed, Struct
from layoutscope.errors import EXIT_COMPLETE, EXIT_DAMAGED, EXIT_FAILED
from layoutscope.findings import count_causes
from layoutscope.results import Shown
from layoutscope.results.locked import make_locked_error, make_several_volumes_error

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence
    from typing import Unpack

    import numpy as np
    import plotly.graph_objects as go
    from numpy.typing import NDArray

    from layoutscope.access.trace import AccessTrace
    from layoutscope.drive import DriveProfile, ServiceResult
    from layoutscope.drive.uncertain import Interval
    from layoutscope.findings import Finding
    from layoutscope.frames import pl
    from layoutscope.metrics import Metric, TreeSummary
    from layoutscope.metrics.scatter import SpaceUse
    from layoutscope.options import PageOptions
    from layoutscope.results.verdict import Verdict
    from layoutscope.tables import VolumeLayout


CUT_OFF = "truncated"
"""Code of the finding for an image or a structure that ends early."""


class PartitionFacts(Displayed, Struct, frozen=True):
    """One entry of a partition map and its content."""

    scheme: str  # ``GPT``, ``APM`` or ``MBR``
    number: int  # as the system counts: ``disk2s3`` is 3
    type_name: str  # declared type in words
    name: str  # name of the partition; empty with ``--no-names``
    image_offset: int  # start, in bytes from the start of the image
    size_bytes: int  # size according to the map
    content: str = ""  # recognised content, such as ``NTFS``; empty if none was recognised
    content_size_bytes: int | None = None  # size of the volume or container in it; None if it was not read
    roles: tuple[str, ...] = ()  # roles of the volumes in it that have one
    is_encrypted: bool | None = None  # whether a volume in it is encrypted; None if none was read


class ImageFacts(Displayed, Struct, frozen=True):
    """The image and the cost of reading it."""

    name: str  # name under which it was opened
    size_bytes: int  # length of the image
    sector_size_bytes: int  # size of its sectors
    partition_maps: tuple[str, ...] = ()  # schemes of its partition maps
    other_contents: tuple[str, ...] = ()  # layer stacks of unsupported contents, such as ``GPT > partition 3 > NTFS``
    reads: int = 0  # number of requests that reached the file
    read_bytes: int = 0  # bytes read
    hole_bytes: int = 0  # bytes in holes of the file
    metadata_sha256: str = ""  # SHA-256 of the metadata in address order; only in captures
    partitions: tuple[PartitionFacts, ...] = ()  # entries of its partition maps, in address order


HostFrom: TypeAlias = Literal["asked", "written-by", "unknown", "compared"]


class WalkFacts(Displayed, Struct, frozen=True):
    """One enumeration: its reads, independent of the drive."""

    order: str  # name of the order
    host: str  # name of the host profile
    # reason for this host: `asked`, `written-by` (it wrote the volume last), `unknown` (the volume does not show it),
    # or `compared` (different systems wrote the volumes that are compared)
    host_from: HostFrom
    reads: int  # number of reads that reach the drive
    read_bytes: int  # bytes read
    metrics: tuple[Metric, ...]  # metrics of the trace
    trace: AccessTrace  # the reads


class Prediction(Displayed, Struct, frozen=True):
    """The time of an enumeration on a drive, and its causes."""

    drive: str  # name of the profile
    title: str  # title of the profile
    rotates: bool  # whether the drive has an arm; otherwise there are no seeks
    seconds: float  # median of the simulations of similar drives and computers
    seconds_low: float  # lower end of their 90 % range
    seconds_high: float  # upper end of that range
    causes_s: tuple[tuple[str, float], ...]  # seconds by cause, which sum to `seconds`
    seeks: int  # number of reads that moved the arm
    head_travel_bytes: int  # distance between reads, in bytes of address
    head_travel_strokes: float  # travel of the arm in full strokes
    service_s: NDArray[np.float64]  # service time of each read
    note: str = ""  # limitations of the prediction
    # totals, means and percentiles, see :meth:`layoutscope.drive.ServiceResult.summary`
    summary: tuple[tuple[str, float], ...] = ()
    interval: Interval | None = None  # contributions to that range; None if not requested
    # seconds per simulation; the simulations of two walks on one drive correspond one to one
    draws_s: tuple[float, ...] = ()
    nominal_s: float = 0.0  # the time on the nominal drive and the reference computer
    host_factor: float = 1.0  # ratio of the computer's time to that in the trace
    # the sampled parameter or behaviour that explains most of the range, such as `on_arrival`; empty if there is none
    largest_unknown: str = ""
    largest_unknown_share: float = 0.0  # its share of the variance of the time's logarithm

    @classmethod
    def of(cls, result: ServiceResult, profile: DriveProfile, interval: Interval | None = None) -> Prediction:
        """Convert the service times of a trace to a prediction."""
        return cls(
            drive=result.drive,
            title=profile.title,
            rotates=profile.geometry != "none",
            seconds=result.seconds,
            seconds_low=result.seconds_low,
            seconds_high=result.seconds_high,
            causes_s=tuple(result.causes_s.items()),
            seeks=result.seeks,
            head_travel_bytes=result.head_travel_bytes,
            head_travel_strokes=result.head_travel_strokes,
            service_s=result.reads_ms.service_ms / 1000,
            note=" ".join(filter(None, (profile.note, result.knowledge))),
            summary=tuple(result.summary().items()),
            interval=interval,
            draws_s=result.draws_s,
            nominal_s=result.nominal_s,
            host_factor=result.host_factor,
            largest_unknown=result.largest_unknown,
            largest_unknown_share=result.largest_unknown_share,
        )


class VolumeScan(Displayed, Struct, frozen=True):
    """One volume."""

    layout: VolumeLayout  # its tables
    trees: tuple[TreeSummary, ...]  # metadata by tree
    space: tuple[SpaceUse, ...]  # bytes by use
    metrics: tuple[Metric, ...]  # metrics of the tables
    walk: WalkFacts | None  # the enumeration; None if the volume cannot be walked
    predictions: tuple[Prediction, ...]  # one per drive
    findings: tuple[Finding, ...]  # problems and notable facts
    verdict: Verdict | None = None  # conclusions from the predictions; None without a walk or a drive


class ScanResult(Shown, Struct, frozen=True):
    """The result of a scan."""

    frames: ClassVar = ("metrics", "times")

    image: ImageFacts  # the image
    # its volumes by offset; a container, which has no entries and cannot be walked, comes before its volumes
    parts: tuple[VolumeScan, ...]
    findings: tuple[Finding, ...]  # findings outside the volumes

    @property
    def volumes(self) -> tuple[VolumeScan, ...]:
        """The volumes, by place; containers are in `containers`, and both are in `parts`."""
        return tuple(item for item in self.parts if item.layout.facts.volume is not None)

    @property
    def containers(self) -> tuple[VolumeScan, ...]:
        """The containers that volumes share, which have no files of their own."""
        return tuple(item for item in self.parts if item.layout.facts.volume is None)

    def map(
        self,
        target: str | os.PathLike[str] | IO[bytes],
        *,
        names: bool = True,
        force: bool = False,
        **shown: Unpack[PageOptions],
    ) -> None:
        """Write the map of the image: one page that needs no network.

        Parameters
        ----------
        target : path or binary file
            The file to write.
        names : bool
            Whether names from the image may appear.
        force : bool
            Whether an existing file is overwritten.
        **shown
            See :class:`~layoutscope.options.PageOptions`: what the page shows.

        Examples
        --------
        >>> import layoutscope
        >>> layoutscope.scan("fixtures/images/hfsplus-scattered.img.zst").map("disk.html")
        """
        self._run("write_map", self, target, names=names, force=force, **shown)

    def figure(self, *others: ScanResult, names: bool = True) -> go.Figure:
        """Draw the first screen of the map as a Plotly figure, which a notebook shows as the whole page.

        Parameters
        ----------
        *others : ScanResult
            Further scans to show on the same scale.
        names : bool
            Whether names from the images may appear.

        Returns
        -------
        plotly.graph_objects.Figure
            One row per disk: what fills each stretch of it, and the position of each read over time.

        Examples
        --------
        >>> import layoutscope
        >>> layoutscope.scan("fixtures/images/hfsplus-scattered.img.zst").figure()
        LayoutMap(1 disk)
        """
        figure: Any = self._run("layout_map", (self, *others), names=names)
        return figure

    def save(self, path: str | os.PathLike[str], *, hash_names: bool = False, force: bool = False) -> None:
        """Save the scan as a capture, which every verb takes in place of the image.

        Parameters
        ----------
        path : path
            The folder, by custom ``NAME.lscope``.
        hash_names : bool
            Whether names are replaced by hashes with a salt that nobody keeps: the same name has the same hash.
        force : bool
            Whether a capture that layoutscope wrote is overwritten.

        Examples
        --------
        >>> import layoutscope
        >>> layoutscope.scan("fixtures/images/hfsplus-scattered.img.zst").save("disk.lscope")
        >>> layoutscope.scan("disk.lscope").volume.layout.facts.name
        'Scattered'
        """
        self._run("save", self, path, hash_names=hash_names, force=force)

    @property
    def metrics(self) -> pl.DataFrame:
        """The metrics of all volumes, one per row."""
        return self._frame("metrics")

    @property
    def times(self) -> pl.DataFrame:
        """The predicted times, one row per volume and drive."""
        return self._frame("times")

    @property
    def volume(self) -> VolumeScan:
        """The only volume that can be walked.

        Raises
        ------
        UsageError
            If there is none, or more than one.
        LockedError
            If there is none because it is locked.
        """
        walked = [volume for volume in self.parts if volume.walk is not None]
        locked = make_locked_error([volume.layout for volume in self.parts], self.image.name)
        if not walked and locked is not None:
            raise locked
        if len(walked) != 1:
            raise make_several_volumes_error([volume.layout for volume in walked], self.image.name)
        return walked[0]

    def every(self) -> tuple[Finding, ...]:
        """Return all findings, those outside the volumes first."""
        return (*self.findings, *(finding for volume in self.parts for finding in volume.findings))

    @property
    def num_causes(self) -> int:
        """Number of errors and warnings that are not consequences of another finding, as a check counts them."""
        return count_causes(self.every())

    @property
    def coverage(self) -> float | None:
        """Share of the known metadata that could be read, 0 to 1; None if unknown."""
        from layoutscope.tables import coverage_of

        num_errors = sum(finding.level == "error" for finding in self.findings)
        return coverage_of([volume.layout for volume in self.parts], num_errors)

    @property
    def exit_code(self) -> int:
        """0 if everything was read, 3 with damage, gaps or a locked tree, 1 if nothing could be read."""
        # An image that ends early may hold all metadata, but it has a gap.
        damaged = any(finding.level == "error" or finding.code == CUT_OFF for finding in self.every())
        if not damaged and self.coverage == 1:
            return EXIT_COMPLETE
        return EXIT_FAILED if damaged and self._is_nothing else EXIT_DAMAGED

    @property
    def _is_nothing(self) -> bool:
        """Whether neither a volume nor a node was read, as for the second device of a Fusion set on its own."""
        layouts = [volume.layout for volume in self.parts]
        return all(layout.facts.volume is None and not len(layout.columns("nodes")) for layout in layouts)


def knows_offset(layout: VolumeLayout, start_offset_bytes: int = 0) -> bool:
    """Whether the place of a volume on its drive is known, from a partition map or as stated."""
    return layout.facts.image_offset > 0 or start_offset_bytes > 0


def volume_name(layout: VolumeLayout) -> str:
    """Name a volume by its layers and its own name."""
    own = f' "{layout.facts.name}"' if layout.facts.name else ""
    return " > ".join(layout.facts.stack) + own


def volume_names(layouts: Sequence[VolumeLayout], chosen: Sequence[VolumeLayout] | None = None) -> tuple[str, ...]:
    """Name the volumes of one image uniquely.

    Volumes of a container may share a name, and a volume without a name has that of its container; their numbers
    distinguish these.
    """
    times = Counter(map(volume_name, layouts))
    named = [(volume_name(layout), layout.facts.volume) for layout in (layouts if chosen is None else chosen)]
    return tuple(
        f"{name} (volume {number})" if times[name] > 1 and number is not None else name for name, number in named
    )

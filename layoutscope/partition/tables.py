"""What a search for volumes yields: partitions, the structures that describe them, and volumes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from layoutscope.display import Struct
from layoutscope.filesystems.registry import filesystem_names

if TYPE_CHECKING:
    from layoutscope.filesystems.recognition import MapRegion
    from layoutscope.findings import Finding


class Partition(Struct, frozen=True):
    """One entry of a partition map."""

    scheme: str  # `GPT`, `APM` or `MBR`
    number: int  # as the system of the scheme counts: `disk2s3` is 3
    # image_offset, size_bytes: bytes from the start of the image; the size as the map says
    image_offset: int
    size_bytes: int
    name: str  # the partition's own name; empty in an MBR
    type_name: str  # its declared type in words
    declared: str = ""  # the kind of volume that the type promises, empty if none


class PartitionTable(Struct, frozen=True):
    """A partition map: its partitions, where it stands itself, and what is odd about it."""

    scheme: str
    partitions: tuple[Partition, ...]
    regions: tuple[MapRegion, ...]
    findings: tuple[Finding, ...] = ()


class VolumeCandidate(Struct, frozen=True):
    """A place where a volume or a container of volumes starts, or something that is not read."""

    kind: str  # name of a file system that is read, the slug of one that is not, or `unknown`
    label: str  # the same for people
    # image_offset, size_bytes: bytes from the start of the image; the size is that of the space it lies in, cut at the
    # image's end
    image_offset: int
    size_bytes: int
    stack: tuple[str, ...]  # the layers from the image down, such as `("GPT", "partition 2", "NTFS")`
    partition: int | None = None  # number of its partition; None for a bare volume
    name: str = ""  # name of its partition, or of a wrapper
    type_name: str = ""  # declared type of its partition
    about: str = ""  # what else is known of something that is not read, in words
    is_promised: bool = False  # whether the type of its partition is all that tells of it

    @property
    def is_readable(self) -> bool:
        """Whether a reader of this package understands it."""
        return self.kind in filesystem_names()


class VolumeSearch(Struct, frozen=True):
    """Everything that was found on an image."""

    candidates: tuple[VolumeCandidate, ...]  # in the order of their maps; unreadable ones too
    partitions: tuple[Partition, ...]  # all entries of all maps that hold space
    regions: tuple[MapRegion, ...]  # the maps themselves
    findings: tuple[Finding, ...]
    schemes: tuple[str, ...]  # the maps that are there; several on hybrid disks
    searched: str = ""  # what was searched for volumes that no map names, in words; empty if nothing was

    @property
    def readable(self) -> tuple[VolumeCandidate, ...]:
        """The candidates that a reader understands."""
        return tuple(candidate for candidate in self.candidates if candidate.is_readable)

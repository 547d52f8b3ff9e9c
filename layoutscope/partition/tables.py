"""What a search for volumes yields: partitions, the structures that describe them, and volumes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from layoutscope.filesystems.registry import filesystem_names
from layoutscope.frozen import frozen

if TYPE_CHECKING:
    from layoutscope.filesystems.recognition import MapRegion
    from layoutscope.findings import Finding


@frozen
class Partition:
    """One entry of a partition map.

    Attributes
    ----------
    scheme : str
        ``GPT``, ``APM`` or ``MBR``.
    number : int
        As the system of the scheme counts: ``disk2s3`` is 3.
    image_offset, size_bytes : int
        Bytes from the start of the image; the size as the map says.
    name : str
        The partition's own name; empty in an MBR.
    type_name : str
        Its declared type in words.
    declared : str
        The kind of volume that the type promises, empty if none.
    """

    scheme: str
    number: int
    image_offset: int
    size_bytes: int
    name: str
    type_name: str
    declared: str = ""


@frozen
class PartitionTable:
    """A partition map: its partitions, where it stands itself, and what is odd about it."""

    scheme: str
    partitions: tuple[Partition, ...]
    regions: tuple[MapRegion, ...]
    findings: tuple[Finding, ...] = ()


@frozen
class VolumeCandidate:
    """A place where a volume or a container of volumes starts, or something that is not read.

    Attributes
    ----------
    kind : str
        Name of a file system that is read, the slug of one that is not, or ``unknown``.
    label : str
        The same for people.
    image_offset, size_bytes : int
        Bytes from the start of the image; the size is that of the space it lies in, cut at the image's end.
    stack : tuple of str
        The layers from the image down, such as ``("GPT", "partition 2", "NTFS")``.
    partition : int or None
        Number of its partition; None for a bare volume.
    name : str
        Name of its partition, or of a wrapper.
    type_name : str
        Declared type of its partition.
    about : str
        What else is known of something that is not read, in words.
    is_promised : bool
        Whether the type of its partition is all that tells of it.
    """

    kind: str
    label: str
    image_offset: int
    size_bytes: int
    stack: tuple[str, ...]
    partition: int | None = None
    name: str = ""
    type_name: str = ""
    about: str = ""
    is_promised: bool = False

    @property
    def is_readable(self) -> bool:
        """Whether a reader of this package understands it."""
        return self.kind in filesystem_names()


@frozen
class VolumeSearch:
    """Everything that was found on an image.

    Attributes
    ----------
    candidates : tuple of VolumeCandidate
        In the order of their maps; unreadable ones too.
    partitions : tuple of Partition
        All entries of all maps that hold space.
    regions : tuple of MapRegion
        The maps themselves.
    findings : tuple of Finding
    schemes : tuple of str
        The maps that are there; several on hybrid disks.
    searched : str
        What was searched for volumes that no map names, in words; empty if nothing was.
    """

    candidates: tuple[VolumeCandidate, ...]
    partitions: tuple[Partition, ...]
    regions: tuple[MapRegion, ...]
    findings: tuple[Finding, ...]
    schemes: tuple[str, ...]
    searched: str = ""

    @property
    def readable(self) -> tuple[VolumeCandidate, ...]:
        """The candidates that a reader understands."""
        return tuple(candidate for candidate in self.candidates if candidate.is_readable)

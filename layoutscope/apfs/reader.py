"""APFS container to tables: one layout of the container itself, then one of each volume.

What belongs to no volume (checkpoint areas, the container's object map, the space manager, free space) stands in the
first layout, whose ``facts.volume`` is None; free space is shared by all volumes and listed only there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from layoutscope.apfs import decoding
from layoutscope.apfs.container import open_container
from layoutscope.apfs.containerlayout import account, build_container_layout, read_container_parts
from layoutscope.apfs.options import Options
from layoutscope.apfs.volume import list_volumes, open_volume
from layoutscope.apfs.volumelayout import VolumeParts, build_layout, read_parts
from layoutscope.errors import FormatError
from layoutscope.findings import from_error

if TYPE_CHECKING:
    from layoutscope.apfs.container import Container
    from layoutscope.findings import Finding
    from layoutscope.image.source import Source
    from layoutscope.tables import VolumeLayout

__all__ = ["Options", "read_layouts"]


def read_layouts(source: Source, *, image_offset: int = 0, options: Options | None = None) -> list[VolumeLayout]:
    """Read a container with all its volumes.

    Parameters
    ----------
    source : Source
        The image.
    image_offset : int
        Where the container starts, in bytes.
    options : Options, optional
        Decoder, view, second image, password.

    Returns
    -------
    list of VolumeLayout
        The container's own layout, then one of each volume in the order of their slots.

    Raises
    ------
    FormatError
        If there is no usable superblock or checkpoint.
    UsageError
        If the state that was asked for does not exist.
    """
    options = options or Options()
    findings: list[Finding] = []
    decoder = decoding.choose(options.decoder)
    container = open_container(
        source, decoder, findings, image_offset=image_offset, second=options.second, xid=options.xid
    )
    parts = read_container_parts(container, findings)
    volumes = _read_volumes(container, options, findings)
    layouts = [build_layout(container, volume, options.stack, "live") for volume in volumes]
    balance = account(container, parts, volumes)
    return [build_container_layout(container, parts, balance, options.stack), *layouts]


def _read_volumes(container: Container, options: Options, findings: list[Finding]) -> list[VolumeParts]:
    """Read every volume that can be opened."""
    volumes = []
    for number, (_, oid) in enumerate(list_volumes(container)):
        own: list[Finding] = []
        try:
            volume = open_volume(container, oid, options.first_volume + number, own)
        except FormatError as error:
            findings += [*own, from_error(error, code="volume-unreadable")]
            continue
        volumes.append(read_parts(container, volume, own))
    return volumes

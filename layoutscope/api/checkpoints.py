"""``checkpoints``: the states of APFS containers that can still be read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from layoutscope.api.reading import opened_source, second_half
from layoutscope.errors import UsageError
from layoutscope.options import ReadRequest
from layoutscope.partition import choose, find_volumes
from layoutscope.results.checkpoints import StateLine

if TYPE_CHECKING:
    import os
    from typing import Unpack

    from layoutscope.options import ReadOptions


def checkpoints(path: str | os.PathLike[str], **options: Unpack[ReadOptions]) -> tuple[StateLine, ...]:
    """List checkpoints and snapshots, with how many of their nodes still exist.

    Parameters
    ----------
    path : path
        The image.
    **options
        See :class:`~layoutscope.options.ReadOptions`.

    Raises
    ------
    UsageError
        If there is no APFS container.
    LayoutscopeError
        If the image cannot be read.
    """
    from layoutscope.filesystems.apfs.reader import list_states

    request = ReadRequest(**options)
    with opened_source(path, request) as source:
        search = find_volumes(source)
        wanted = choose(source, search, partition=request.partition, volume_at=request.volume_at)
        containers = [candidate for candidate in wanted if candidate.kind == "apfs"]
        if not containers:
            raise UsageError(f"{source.name}: no APFS container; HFS+ keeps no older states")
        return tuple(
            StateLine(
                container=" > ".join(candidate.stack),
                kind=state.kind,
                label=state.label,
                xid=state.xid,
                volume=state.volume,
                time_ns=state.time_ns,
                is_complete=state.is_complete,
                num_nodes=state.num_nodes,
                num_sound_nodes=state.num_sound_nodes,
            )
            for candidate in containers
            for state in list_states(source, image_offset=candidate.image_offset, second=second_half(source))
        )

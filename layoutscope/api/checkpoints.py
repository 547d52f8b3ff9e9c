"""``checkpoints``: the states of containers that can still be read."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from layoutscope.api.reading import request_of, with_options
from layoutscope.errors import UsageError
from layoutscope.filesystems.contract import VolumeRequest
from layoutscope.filesystems.registry import filesystem, filesystems
from layoutscope.image.opening import open_images
from layoutscope.ondisk.decoder import decoder_named
from layoutscope.partition import choose, find_volumes
from layoutscope.results.inspect import StateLine

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
        If no container keeps older states.
    LayoutscopeError
        If the image cannot be read.
    """
    request = request_of(options)
    with open_images(path, request) as images:
        source = images.main
        decoder = decoder_named(request.decoder)
        search = find_volumes(source, decoder)
        wanted = choose(source, search, partition=request.partition, volume_at=request.volume_at, decoder=decoder)
        found = [(candidate, filesystem(candidate.kind)) for candidate in wanted]
        containers = [(candidate, chosen) for candidate, chosen in found if chosen.traits.keeps_states]
        if not containers:
            keeping = " or ".join(item.traits.label for item in filesystems() if item.traits.keeps_states)
            kept_by = " and ".join(item.traits.label for item in filesystems() if not item.traits.keeps_states)
            raise UsageError(f"{source.name}: no {keeping} container; {kept_by} keeps no older states")
        return tuple(
            StateLine(" > ".join(candidate.stack), **asdict(state))
            for candidate, chosen in containers
            for state in chosen.states(
                with_options(VolumeRequest(source, candidate.image_offset), images, chosen, request)
            )
        )

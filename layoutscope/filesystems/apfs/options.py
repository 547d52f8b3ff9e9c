"""What a caller may ask of the reader."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from layoutscope.filesystems.apfs.decoding import DecoderName
    from layoutscope.image.source import Source


@dataclass(frozen=True, slots=True)
class Options:
    """How a container is read.

    Attributes
    ----------
    decoder : {'bulk', 'grammar'}
        Which of the two decoders.
    stack : tuple of str
        Layers around the container, outermost first.
    first_volume : int
        Number of the container's first volume on the image.
    second : (Source, int) or None
        The other image of a Fusion set, and where its half starts there.
    xid : int or None
        Read the checkpoint of this transaction, or the snapshot of it.
    snapshot : str or None
        Read the snapshot of this name.
    password : str or None
        Password or recovery key of encrypted volumes.
    sweep : bool
        Look at the whole container for nodes, to rebuild broken trees and to count old copies.
    """

    decoder: DecoderName = "bulk"
    stack: tuple[str, ...] = ()
    first_volume: int = 0
    second: tuple[Source, int] | None = None
    xid: int | None = None
    snapshot: str | None = None
    password: str | None = None
    sweep: bool = False

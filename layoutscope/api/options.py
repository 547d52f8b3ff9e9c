"""How an image is read, in words that all verbs share. Cheap to import: the command line needs it at its start."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypedDict

if TYPE_CHECKING:
    import os
    from collections.abc import Callable


class ReadOptions(TypedDict, total=False):
    """How an image is opened and which of its volumes are read; every verb takes these.

    Attributes
    ----------
    partition : int
        Only the volumes of the partition of this number.
    volume : str
        Only the volume of this name or number (from 1).
    volume_at : int
        Only what starts at this byte of the image, whether a partition map names it or not.
    decoder : {'bulk', 'grammar'}
        How structures are decoded; both give the same tables.
    no_journal : bool
        Show an HFS+ volume as its bytes lie, without the transactions that its journal still holds.
    names : bool
        False leaves names out of all results.
    map_file : path
        ddrescue's map of the image: areas that it does not call finished are unread, not zero.
    cache_dir : path
        Where decompressed images are kept.
    second : path
        The image of the other device of a Fusion set.
    xid : int
        Read the state of this transaction (APFS).
    snapshot : str
        Read the snapshot of this name (APFS).
    password : str
        Password or recovery key of encrypted volumes (APFS).
    progress : callable
        Called while an image is decompressed, with bytes done and in all.
    """

    partition: int | None
    volume: str | None
    volume_at: int | None
    decoder: Literal["bulk", "grammar"]
    no_journal: bool
    names: bool
    map_file: str | os.PathLike[str] | None
    cache_dir: str | os.PathLike[str] | None
    second: str | os.PathLike[str] | None
    xid: int | None
    snapshot: str | None
    password: str | None
    progress: Callable[[int, int], None] | None

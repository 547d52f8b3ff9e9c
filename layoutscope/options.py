"""How an image is read and what is done on it, in words that all verbs share; cheap to import.

Callers say so in keywords (:class:`ReadOptions`, :class:`Workload`). A verb makes a :class:`ReadRequest` of them once,
and whatever it calls takes that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypedDict

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping, Sequence


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
    sweep : bool
        Look at the whole volume for nodes: broken trees are rebuilt, old copies counted.
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
    on_damage : callable
        Called with the name of an image that was not read whole, the share of the known metadata that was, and how many
        findings are errors.
    """

    partition: int | None
    volume: str | None
    volume_at: int | None
    decoder: Literal["bulk", "grammar"]
    no_journal: bool
    sweep: bool
    names: bool
    map_file: str | os.PathLike[str] | None
    cache_dir: str | os.PathLike[str] | None
    second: str | os.PathLike[str] | None
    xid: int | None
    snapshot: str | None
    password: str | None
    progress: Callable[[int, int], None] | None
    on_damage: Callable[[str, float, int], None] | None


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """How an image is read: every field of :class:`ReadOptions`, as given or as it is without."""

    partition: int | None = None
    volume: str | None = None
    volume_at: int | None = None
    decoder: Literal["bulk", "grammar"] = "bulk"
    no_journal: bool = False
    sweep: bool = False
    names: bool = True
    map_file: str | os.PathLike[str] | None = None
    cache_dir: str | os.PathLike[str] | None = None
    second: str | os.PathLike[str] | None = None
    xid: int | None = None
    snapshot: str | None = None
    password: str | None = None
    progress: Callable[[int, int], None] | None = None
    on_damage: Callable[[str, float, int], None] | None = None


class Workload(TypedDict, total=False):
    """What is done on a volume; every verb that walks takes these.

    Attributes
    ----------
    order : str
        One of :data:`layoutscope.walk.ORDERS`; ``fts`` by default.
    host : {'linux', 'macos'}
        Whose drivers and libraries do it.
    host_properties : mapping of str to value
        Properties in which the host differs from its profile (:class:`layoutscope.walk.HostProfile`), such as
        ``read_ahead_bytes`` or ``apfs_looks_up_dstream``; costs as ``apfs.node_us``.
    start : str
        Path of the directory to start at.
    stat : bool
        False for ``fts`` that stats directories alone.
    paths : sequence of str
        What ``paths`` looks up.
    file : str
        Path of the file that ``read`` reads.
    records : int
        How many random records of it are read; the whole file from its beginning without it.
    record_bytes : int
        Their length, 4096 without it.
    seed : int
        Draws the records.
    offsets : sequence of int
        Where records start in the file, in bytes and in order, in place of random ones.
    cache_bytes : int
        The host's memory for metadata; unlimited without it.
    threads : int
        Threads that share the host's work.
    warm : bool
        Whether a first, uncounted pass has filled the cache, and the name cache if its names fit.
    passes : int
        How often it is done.
    """

    order: str
    host: str
    host_properties: Mapping[str, object]
    start: str | None
    stat: bool
    paths: Sequence[str] | None
    file: str | None
    records: int | None
    record_bytes: int
    seed: int
    offsets: Sequence[int] | None
    cache_bytes: int | None
    threads: int
    warm: bool
    passes: int

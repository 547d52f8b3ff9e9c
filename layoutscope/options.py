"""How an image is read and what is done on it, in words that all verbs share; cheap to import.

Callers say so in keywords (:class:`ReadOptions`, :class:`Workload`). A verb makes a :class:`ReadRequest` and a
:class:`WorkRequest` of them once, and whatever it calls takes that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, TypedDict

from msgspec import Struct, field

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping, Sequence

    from layoutscope.progress import Progress

    Drives = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
    """One profile or several, each a name or a TOML file."""


class ReadOptions(TypedDict, total=False):
    """How an image is opened and which of its volumes are read; every verb takes these.

    What stands behind a type is its unit, where it is a number, and what holds without the keyword.

    The last ones are options of the file systems that come with this package, named here for type checkers; each says
    itself what it has (`ReadOption`). Those of others are keywords like these.

    Attributes
    ----------
    partition : int, number, optional
        Only the volumes of the partition of this number.
    volume : str or int, optional
        Only the volume of this name or number (from 1).
    volume_at : int, bytes, optional
        Only what starts at this byte of the image. No partition map needs to name it.
    decoder : {'bulk', 'grammar'}, default 'bulk'
        How structures are decoded; both give the same tables.
    sweep : bool, default False
        Look at the whole volume for nodes: broken trees are rebuilt, old copies counted. If no partition map names a
        volume, the whole image is searched for one.
    names : bool, default True
        False leaves names out of all results.
    ddrescue_map : path, optional
        ddrescue's map of the image: areas that it does not call finished are unread, not zero.
    cache_dir : path, optional
        Where decompressed images are kept.
    progress : callable, optional
        Told of each step of what takes long, in the thread that works: :class:`layoutscope.progress.Step` with its
        phase, what is done of how much, and the unit of both. Nothing is shown without it.
    on_damage : callable, optional
        Called with the name of an image that was not read whole, the share of the known metadata that was (None if
        that is unknown), and how many findings are errors.
    on_locked : callable, optional
        Called with a sentence that names an image, its volumes that stayed locked, and what opens them.
    second : path, optional
        The image of the other device of a set.
    xid : int, number, optional
        Read the state of this transaction.
    snapshot : str, optional
        Read the snapshot of this name.
    password : str, optional
        Password or recovery key of encrypted volumes.
    no_journal : bool, default False
        Show a volume as its bytes lie, without the transactions that its journal still holds.
    """

    partition: int | None
    volume: str | int | None
    volume_at: int | None
    decoder: Literal["bulk", "grammar"]
    sweep: bool
    names: bool
    ddrescue_map: str | os.PathLike[str] | None
    cache_dir: str | os.PathLike[str] | None
    progress: Progress | None
    on_damage: Callable[[str, float | None, int], None] | None
    on_locked: Callable[[str], None] | None
    second: str | os.PathLike[str] | None
    xid: int | None
    snapshot: str | None
    password: str | None
    no_journal: bool


class ReadRequest(Struct, frozen=True):
    """How an image is read: options of every file system, as given or as they are without, and those of single ones.

    Attributes
    ----------
    second : path or None
        The image of the other device, where an option of that kind was given.
    own : mapping of str to value
        Options that single file systems have, those that were given.
    """

    partition: int | None = None
    volume: str | None = None
    volume_at: int | None = None
    decoder: Literal["bulk", "grammar"] = "bulk"
    sweep: bool = False
    names: bool = True
    ddrescue_map: str | os.PathLike[str] | None = None
    cache_dir: str | os.PathLike[str] | None = None
    progress: Progress | None = None
    on_damage: Callable[[str, float | None, int], None] | None = None
    on_locked: Callable[[str], None] | None = None
    second: str | os.PathLike[str] | None = None
    own: Mapping[str, object] = field(default_factory=dict)


OF_ALL: Final = frozenset(ReadRequest.__struct_fields__) - {"second", "own"}
"""Options that every file system has; no file system's own has such a name."""


class Enumeration(TypedDict, total=False):
    """On which drives and by whose drivers volumes are enumerated.

    Attributes
    ----------
    drives : str or sequence of str, optional
        Profiles or TOML files to predict a cold enumeration on, one or several; none with an empty sequence, without it
        a notebook's and a desktop's disk and a flash drive, those that the image fits on.
    host : {'linux', 'macos'}, default 'linux'
        Whose driver walks.
    """

    drives: Drives | None
    host: str


class EnumerationOptions(ReadOptions, Enumeration, total=False):
    """How images are read, and how their volumes are enumerated."""


class PageOptions(TypedDict, total=False):
    """What the page of a map shows and carries.

    Attributes
    ----------
    difference : bool, default False
        Whether two states of one volume, the earlier one first, are set against each other: what moved, came and went.
    all_paths : bool, default False
        Whether every path can be searched, and the data of every file found, however many there are; for a million
        files the page grows by some 10 MB.
    """

    difference: bool
    all_paths: bool


class MapOptions(EnumerationOptions, PageOptions, total=False):
    """How images are read and enumerated, and what the page of their map shows."""


class Workload(TypedDict, total=False):
    """What is done on a volume; every verb that walks takes these.

    Attributes
    ----------
    order : str, default 'fts'
        How a program goes through the volume: one of :data:`layoutscope.walk.ORDERS`.
    host : {'linux', 'macos'}, default 'linux'
        Whose drivers and libraries do it.
    host_properties : mapping of str to value, default {}
        Properties in which the host differs from its profile (:class:`layoutscope.walk.HostProfile`), such as
        ``read_ahead_bytes``; those of a file system's driver have its name in front, its costs as ``name.node_us``.
    start : str, optional
        Path of the directory to start at; the root without it.
    stat : bool, default True
        False for ``fts`` that stats directories alone.
    paths : sequence of str, optional
        What ``paths`` looks up.
    file : str, optional
        Path of the file that ``read`` reads.
    records : int, count, optional
        How many random records of it are read; the whole file from its beginning without it.
    record_bytes : int, bytes, default 4096
        Length of a record.
    seed : int, number, default 1
        Draws the records.
    offsets : sequence of int, bytes, optional
        Where records start in the file, in bytes and in order, in place of random ones.
    memory_bytes : int, bytes, optional
        The host's memory for what is read; unlimited without it.
    threads : int, count, default 1
        Threads that share the host's time between the reads; the drive gets one read at a time, as without them.
        Several at a time are the remedy ``more-in-flight`` of :func:`layoutscope.plan`.
    warm : bool, default False
        Whether a first, uncounted pass has filled the cache, and the name cache if its names fit.
    passes : int, count, default 1
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
    memory_bytes: int | None
    threads: int
    warm: bool
    passes: int


class Predict(Workload, total=False):
    """What is done on a volume, and what a prediction is asked about it.

    Attributes
    ----------
    start_offset_bytes : int, bytes, default 0
        Where the image lies on the drive.
    what_ifs : str or sequence of str, default ()
        Changes that are tried, of :data:`layoutscope.api.predict.WHAT_IF_NAMES`, one or several.
    top : int, count, default 10
        How many directories are listed, the most expensive first.
    placement : {'known', 'unknown'}, default 'known'
        ``unknown``: also for a volume like that, whose nodes came to lie in other ways.
    """

    start_offset_bytes: int
    what_ifs: str | Sequence[str]
    top: int
    placement: Literal["known", "unknown"]


class Plan(TypedDict, total=False):
    """What a plan is asked for.

    Attributes
    ----------
    drive : str or path, default 'generic-5400-2.5'
        Profile or TOML file of the drive that the volume lies on.
    order : str, default 'fts'
        The work that is to take less: a listing such as ``fts``, or ``copy`` or ``archive``, which read contents.
    host : {'linux', 'macos'}, default 'linux'
        Whose drivers and libraries do it.
    start_offset_bytes : int, bytes, default 0
        Where the image lies on the drive.
    shows_all : bool, default False
        Whether the text also tells of remedies that would not help or do not apply; tables and JSON always do.
    emit_order : path, optional
        Where a list of all files goes, in the order in which they are best read.
    emit_script : path, optional
        Where a script goes that copies or archives in that order; with `emit_order`.
    is_null_separated : bool, default False
        Whether names in the list end with a zero byte instead of a line end.
    memory_bytes : int, bytes, optional
        What whoever sorts the list can hold of it at once; unlimited without it.
    lasts : int, count, optional
        Cycles over which it is forecast how fast the listing becomes slower, which tells how long a remedy lasts; not
        forecast without it, because that takes longer than the plan.
    force : bool, default False
        Whether existing files are overwritten.
    """

    drive: str | os.PathLike[str]
    order: str
    host: str
    start_offset_bytes: int
    shows_all: bool
    emit_order: str | os.PathLike[str] | None
    emit_script: str | os.PathLike[str] | None
    is_null_separated: bool
    memory_bytes: int | None
    lasts: int | None
    force: bool


class PlanOptions(ReadOptions, Plan, total=False):
    """How an image is read, and what a plan for it is asked."""


class Forecast(TypedDict, total=False):
    """What happens to a volume, and how often it is drawn.

    Attributes
    ----------
    workload : str, default 'replace'
        What a cycle does: one of :data:`layoutscope.aging.model.WORKLOADS`.
    share : float, number, optional
        Share of the files that a cycle is about; 0.05 without it, or what several images tell.
    seeds : int, count, default 4
        How often what happens is drawn.
    keep_snapshots : int, count, default 0
        How many cycles back snapshots hold what was replaced, where a file system has them.
    host : {'linux', 'macos'}, default 'linux'
        Whose driver writes and walks.
    """

    workload: str
    share: float | None
    seeds: int
    keep_snapshots: int
    host: str


class InspectPlace(TypedDict, total=False):
    """What :func:`layoutscope.inspect` looks at, one of these.

    Attributes
    ----------
    node : str, optional
        ``TREE:NUMBER``; the number is that by which its file system finds the node.
    at : int, bytes, optional
        Byte of the image.
    lba : int, sectors, optional
        Sector of the image.
    cnid : int, number, optional
        CNID or inode number of a file.
    file_path : str, optional
        Path of a file from the root of its volume.
    """

    node: str | None
    at: int | None
    lba: int | None
    cnid: int | None
    file_path: str | None


class WorkRequest(Struct, frozen=True):
    """What is done on a volume: the members of :class:`Workload`, as given or as they are without."""

    order: str = "fts"
    host: str = "linux"
    host_properties: Mapping[str, object] = field(default_factory=dict)
    start: str | None = None
    stat: bool = True
    paths: Sequence[str] | None = None
    file: str | None = None
    records: int | None = None
    record_bytes: int = 4096
    seed: int = 1
    offsets: Sequence[int] | None = None
    memory_bytes: int | None = None
    threads: int = 1
    warm: bool = False
    passes: int = 1

"""What programs do on a volume: the orders, and the work that they are given.

An :class:`Order` says what it needs and how it makes the reads that reach the drive.

>>> sorted(ORDERS)[:6]
['archive', 'backup', 'backup-events', 'bulk', 'catalog', 'copy']
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from layoutscope.access.descent import descend
from layoutscope.access.entries import ROOT_ID, entry_table
from layoutscope.access.model import Model
from layoutscope.access.nodes import node_table
from layoutscope.filesystems.registry import filesystem_of
from layoutscope.frozen import frozen
from layoutscope.walk import archive, data, directories, git, programs, scans
from layoutscope.walk.assemble import metadata_reads, walked_reads
from layoutscope.walk.deleting import delete, least_written
from layoutscope.walk.host import host_profile
from layoutscope.walk.namecache import repeated
from layoutscope.walk.paths import paths
from layoutscope.walk.steps import fsck, mount
from layoutscope.walk.timemachine import changed_folders
from layoutscope.walk.visits import Visits

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from numpy.typing import NDArray

    from layoutscope.access.host import HostProfile
    from layoutscope.access.touches import Touches
    from layoutscope.access.trace import AccessTrace
    from layoutscope.tables import VolumeLayout
    from layoutscope.walk.deleting import LeastWritten


@frozen
class Work:
    """What an order is done on, and how often."""

    start_directory_id: int = ROOT_ID  # directory (CNID or oid) in which to start; the root without it
    stat: bool = True  # false for `fts` with FTS_NOSTAT: only directories are stat'ed
    paths: Sequence[str] | None = None  # for `paths`: what to look up, from the root
    file_id: int | None = None  # for `read`: the file
    # for `read`: offsets of the records in the file, in order; the whole file from its beginning without it
    records: NDArray[np.int64] | None = None
    record_bytes: int | None = None  # for `read` with `records`: their length
    # start with the metadata of a first, uncounted pass in the cache, and with its names in the name cache
    warm: bool = False
    passes: int = 1  # how often the order is done; what the cache keeps is not read again

    @property
    def is_repeated(self) -> bool:
        """Whether the order is done with something cached."""
        return self.warm or self.passes > 1


@frozen
class Order:
    """A way in which a program goes through a volume."""

    name: str  # as users say it
    run: Callable[[Model, Work], AccessTrace]  # makes the reads of some work on a model
    # `paths` or `file` where the work must name them, an empty string otherwise
    needs: Literal["", "paths", "file"] = ""
    # `stat` or `records` where it looks at them; others go on without
    takes: tuple[Literal["stat", "records"], ...] = ()
    is_done_once: bool = False  # whether it is done once, with nothing cached
    does: str = ""  # what a program gets by it, in a few words
    # whether it goes through all entries of a volume, so that its time can be said of so many of them
    is_whole: bool = True
    # says what it cannot but write, which is not among its reads; None of orders that change nothing
    least_written: Callable[[Model, Work], LeastWritten] | None = None

    def check(self, given: Collection[str], *, is_repeated: bool) -> None:
        """Refuse work that this order cannot do."""
        if self.needs and self.needs not in given:
            raise ValueError(f"the order {self.name} needs its {self.needs}")
        if self.is_done_once and is_repeated:
            raise ValueError(f"the order {self.name} is done once, with nothing cached")


def by_touches(
    needed: Callable[[Model, Work], Visits | Touches | tuple[Touches, NDArray[np.uint16]] | data.FileTouches],
) -> Callable[[Model, Work], AccessTrace]:
    """Make an order's run of what it touches, before any cache, and of the threads that do so if they are several."""

    def run(model: Model, work: Work) -> AccessTrace:
        found = needed(model, work)
        if isinstance(found, Visits) and not work.is_repeated and model.host.cache_bytes is None:
            return walked_reads(model, found)

        def once(one: Model) -> tuple[Touches, NDArray[Any]]:
            again = found if one is model else needed(one, work)
            if isinstance(again, data.FileTouches):
                return again.needed, again.window
            laid_out = again.touches() if isinstance(again, Visits) else again
            return laid_out if isinstance(laid_out, tuple) else (laid_out, np.zeros(len(laid_out), np.uint16))

        passes = repeated(model, once, work.passes + work.warm)
        if isinstance(found, data.FileTouches):
            return data.file_reads(model, passes, found.parts, uncounted=work.warm)
        return metadata_reads(model, passes, uncounted=work.warm)

    return run


def trace(
    layout: VolumeLayout,
    *,
    order: str = "fts",
    host: str | HostProfile = "linux",
    work: Work | None = None,  # what it is done on, and how often: once from the root without it, with nothing cached
) -> AccessTrace:
    """Work out the reads of a workload on one volume."""
    return trace_on(model_of(layout, host_profile(host)), ORDERS[order], work or Work())


def trace_on(model: Model, order: Order, work: Work) -> AccessTrace:
    """Work out the reads of a workload on a model, which serves several of them."""
    given = {"paths": work.paths, "file": work.file_id}
    order.check([name for name, value in given.items() if value is not None], is_repeated=work.is_repeated)
    return order.run(model, work)


def model_of(layout: VolumeLayout, host: HostProfile) -> Model:
    """Turn tables into the arrays of one host's driver."""
    chosen = filesystem_of(layout)
    driver, nodes = chosen.driver(host), node_table(layout)
    entries = entry_table(layout, nodes, backwards=driver.lists_backwards, hidden_names=driver.hidden_names)
    return Model(layout, host, driver, chosen.traits.main_tree, nodes, entries)


def _readdir_stat(model: Model, work: Work) -> Visits:
    return directories.fts(model, work.start_directory_id, stat=work.stat)


def _fts(model: Model, work: Work) -> Visits:
    if not (work.stat and model.host.listing_carries_attributes):
        return _readdir_stat(model, work)
    return _at_once(model, work, descend_by_stat=True)


def _at_once(model: Model, work: Work, *, descend_by_stat: bool = False) -> Visits:
    start = work.start_directory_id
    return directories.bulk(model, descend(model.entries, start), start_id=start, descend_by_stat=descend_by_stat)


def _bulk(model: Model, work: Work) -> Visits:
    return _at_once(model, work)


def _names(model: Model, work: Work) -> Visits:
    return directories.names(model, work.start_directory_id)


def _du(model: Model, work: Work) -> Visits | Touches:
    # BSD's du takes what its fts hands out, which asks for all attributes with the names.
    if model.host.listing_carries_attributes:
        return _fts(model, work)
    return programs.deferred(model, work.start_directory_id)


def _find(model: Model, work: Work) -> Visits | Touches:
    if model.host.listing_carries_attributes:
        return directories.fts(model, work.start_directory_id, stat=False)
    return programs.deferred(model, work.start_directory_id, stat=False)


def _ls(model: Model, work: Work, *, is_deep: bool = True) -> Visits | data.FileTouches:
    if model.host.listing_carries_attributes:
        return programs.ls_at_once(model, work.start_directory_id, is_deep=is_deep)
    return programs.ls(model, work.start_directory_id, is_deep=is_deep)


def _ls_folder(model: Model, work: Work) -> Visits | data.FileTouches:
    return _ls(model, work, is_deep=False)


def _archive(model: Model, work: Work) -> data.FileTouches:
    return archive.archive(model, work.start_directory_id)


def _git_status(model: Model, work: Work) -> tuple[Touches, NDArray[np.uint16]]:
    return git.git_status(model, work.start_directory_id)


def _search(model: Model, work: Work) -> AccessTrace:
    # Linux has no call that searches a catalog: there a search by name is find.
    return (_searchfs if model.host.listing_carries_attributes else by_touches(_find))(model, work)


def _backup(model: Model, work: Work) -> Visits | data.FileTouches:
    # Linux backs up with rsync; macOS with Time Machine, which gets attributes together with the names.
    if model.host.listing_carries_attributes:
        return _at_once(model, work)
    return programs.backup(model, work.start_directory_id)


def _backup_events(model: Model, work: Work) -> Touches:
    return changed_folders(model, work.paths or ())


def _delete(model: Model, work: Work) -> AccessTrace:
    return delete(model, work.start_directory_id)


def _least_written(model: Model, work: Work) -> LeastWritten:
    return least_written(model, work.start_directory_id)


def _mount(model: Model, _: Work) -> AccessTrace:
    return mount(model)


def _fsck(model: Model, _: Work) -> AccessTrace:
    return fsck(model)


def _catalog(model: Model, _: Work) -> Touches:
    return scans.leaves(model)


def _searchfs(model: Model, work: Work) -> AccessTrace:
    return scans.all_nodes(model) if model.driver.scans_by_number else by_touches(_catalog)(model, work)


def _paths(model: Model, work: Work) -> tuple[Touches, NDArray[np.uint16]]:
    return paths(model, work.paths or (), ROOT_ID)


def _copy(model: Model, work: Work) -> data.FileTouches:
    return data.copy(model, work.start_directory_id)


def _read(model: Model, work: Work) -> data.FileTouches:
    return data.read(model, work.file_id or 0, work.records, work.record_bytes)


ORDERS: Final[Mapping[str, Order]] = MappingProxyType(
    {
        order.name: order
        for order in (
            Order("readdir-stat", by_touches(_readdir_stat), does="names and attributes: readdir, and stat of each"),
            Order(
                "fts",
                by_touches(_fts),
                takes=("stat",),
                does="names and attributes as fts(3) gets them: find -ls, chown -R",
            ),
            Order("du", by_touches(_du), does="names and attributes as du adds them up, entry by entry"),
            Order("backup", by_touches(_backup), does="all names and attributes, to find what changed"),
            Order(
                "backup-events",
                by_touches(_backup_events),
                needs="paths",
                does="names and attributes of the folders of a list, which changed",
            ),
            Order(
                "delete",
                _delete,
                is_done_once=True,
                does="what rm -r reads; what it writes is not in it",
                least_written=_least_written,
            ),
            Order("mount", _mount, is_done_once=True, is_whole=False, does="what the system reads to mount the volume"),
            Order("fsck", _fsck, is_done_once=True, does="what the maker's checker reads of a sound volume"),
            Order("find", by_touches(_find), does="names as find prints them: no stat where no test needs one"),
            Order("ls", by_touches(_ls), does="names and attributes as ls -lR prints them, folder by folder"),
            Order(
                "ls-folder",
                by_touches(_ls_folder),
                is_whole=False,
                does="names and attributes of one folder: ls -l",
            ),
            Order("archive", by_touches(_archive), does="names, attributes and contents as tar puts them in"),
            Order("git-status", by_touches(_git_status), does="what git status looks at where all files are tracked"),
            Order("search", _search, is_done_once=True, does="all names, as a search by name goes through them"),
            Order("bulk", by_touches(_bulk), does="names and attributes at once: getattrlistbulk"),
            Order("names", by_touches(_names), does="names alone: readdir without stat"),
            Order("catalog", by_touches(_catalog), does="the whole tree in the order of its keys"),
            Order("searchfs", _searchfs, is_done_once=True, does="the whole tree as searchfs reads it"),
            Order("paths", by_touches(_paths), needs="paths", does="paths of a list, looked up one by one"),
            Order("copy", by_touches(_copy), does="names, attributes and the contents of all files"),
            Order("read", by_touches(_read), needs="file", takes=("records",), does="the contents of one file"),
        )
    }
)
"""Every order by its name."""

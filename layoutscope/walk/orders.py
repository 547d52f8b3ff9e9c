"""What programs do on a volume: the orders and their work.

An :class:`Order` names its inputs and makes the reads that reach the drive.

>>> sorted(ORDERS)[:6]
['archive', 'backup', 'backup-events', 'bulk', 'catalog', 'copy']
"""

from __future__ import annotations

from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from layoutscope.access.descent import descend, turns_of
from layoutscope.access.driver import Model
from layoutscope.access.entries import ROOT_ID, entry_table, name_bytes, node_table
from layoutscope.access.trace import concatenate
from layoutscope.display import Struct
from layoutscope.filesystems.registry import filesystem_of
from layoutscope.structs.arrays import find, first_places, index_of
from layoutscope.walk import data, directories, programs, visits
from layoutscope.walk.data import FileTouches, files_in_turn, merge_by_turn, read_in_turn
from layoutscope.walk.directories import (
    bulk,
    components_of,
    drop_unlisted_entries,
    entries_on_paths,
    look_up_components,
    look_up_start,
    lookups,
    names_alone,
    repeat_order,
    searches_of_lookup,
)
from layoutscope.walk.host import host_profile
from layoutscope.walk.programs import delete, least_written, number_turns, order_by_turn, sort_siblings
from layoutscope.walk.visits import Visits, fsck, metadata_reads, mount, read_for_visits

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from numpy.typing import NDArray

    from layoutscope.access.descent import Descent
    from layoutscope.access.driver import HostProfile
    from layoutscope.access.entries import EntryTable
    from layoutscope.access.trace import AccessTrace, Touches
    from layoutscope.tables import VolumeLayout
    from layoutscope.walk.programs import LeastWritten


BLOCK_BYTES: Final = 512
"""Size of a member's header; a member's data are rounded up to a multiple of it."""

RECORD_BYTES: Final = 20 * BLOCK_BYTES
"""Size of one write; a file is read into the rest of a record."""

NAME_BYTES: Final = 100
"""Room for a name in a header; a longer name is stored in its own member before."""


def archive(model: Model, start_id: int) -> FileTouches:
    """List a whole directory, then stat each entry in listing order, read it, and descend into it at once.

    A hard link is read under its first name; the targets of symbolic links are also read.
    """
    table = model.entries
    descent = drop_unlisted_entries(model, descend(table, start_id))
    turn = number_turns(table, descent)
    walk = names_alone(model, descent)
    listed, per_buffer = walk.lay_out()
    shown = order_by_turn(model, descent, turn)
    searches, has_data = searches_of_lookup(model), table.is_file
    if model.driver.links_are_attributes:
        target = np.where(table.is_symlink, table.xattr_node, -1).astype(np.int32)
        searches = searches.with_search(target, "xattr")
    else:
        has_data = has_data | table.is_symlink
    found = searches.of(shown, table.parent_id[shown])
    # A directory is read to its end in its turn; the start, which has no turn, comes before all others.
    when = 2 * turn[descent.entry[walk.directory]] + 1
    steps = [(listed, when, per_buffer), (found, 2 * turn[shown], np.full(len(shown), len(searches.nodes)))]
    files, file_turns = files_in_turn(model, descent, has_data)
    first = np.minimum(_space_left(model, descent, shown)[files], table.size_bytes[files])
    return read_in_turn(model, steps, (files, 2 * file_turns), look_up_start(model, start_id), first)


def _space_left(model: Model, descent: Descent, shown: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the bytes left in the archive's record after the header of each entry, in the order of the table."""
    table = model.entries
    name = _path_bytes(model, descent)[shown]
    # A long name is stored in its own member, followed by a zero byte.
    header = np.where(name > NAME_BYTES, 2 * BLOCK_BYTES + _round_up_to_blocks(name + 1), BLOCK_BYTES)
    is_first = np.zeros(len(shown), bool)
    is_first[np.unique(table.file_id[shown], return_index=True)[1]] = True
    data = np.where(table.is_file[shown] & is_first, _round_up_to_blocks(table.size_bytes[shown]), 0)
    # The header of the start directory comes first.
    at = BLOCK_BYTES + np.cumsum(header + data) - data
    left = np.zeros(len(table), np.int64)
    left[shown] = RECORD_BYTES - at % RECORD_BYTES
    return left


def _round_up_to_blocks(size: NDArray[np.int64]) -> NDArray[np.int64]:
    found: NDArray[np.int64] = -(-size // BLOCK_BYTES) * BLOCK_BYTES
    return found


def _path_bytes(model: Model, descent: Descent) -> NDArray[np.int64]:
    """Return the length of each entry's path from the start, including ``./`` and a slash after directories."""
    table = model.entries
    own = name_bytes(table) + table.is_directory
    if not len(own):
        return own
    above = find(descent.directory_id, table.parent_id)
    entry = np.maximum(descent.entry, 0)
    path = np.full(len(descent), len("./"), np.int64)
    # Directory by directory from the top: the number of rounds is the depth of the tree.
    for _ in range(len(descent)):
        longer = path[above[entry]] + own[entry]
        longer[0] = len("./")
        if np.array_equal(longer, path):
            break
        path = longer
    return path[above] + own


OWN: Final = ".git"


def git_status(model: Model, start_id: int) -> tuple[Touches, NDArray[np.uint16]]:
    """Stat all files in the order of the index, then walk all directories in listing order.

    Several threads share the first part, as in :func:`look_up_components`; git starts one for each 500 files,
    20 at most.
    """
    descent = _drop_git_directory(model.entries, drop_unlisted_entries(model, model.descend(start_id)))
    files = _order_by_path(model.entries, descent, start_id)
    components = _components(model.entries, descent, files)
    stats, threads = look_up_components(model, components)
    way, later = look_up_start(model, start_id), _list_untracked(model, descent, np.unique(components))
    before, behind = (np.zeros(len(each), np.uint16) for each in (way, later))
    return concatenate([way, stats, later]), np.concatenate([before, threads, behind])


def _drop_git_directory(entries: EntryTable, descent: Descent) -> Descent:
    """Drop git's own directory."""
    first, count = int(descent.first[0]), int(descent.count[0])
    names = entries.names(slice(first, first + count)).to_list()
    if OWN not in names:
        return descent
    own = np.flatnonzero(descent.entry == first + names.index(OWN))
    # In a linked work tree, it is a file.
    if not len(own):
        return descent
    begin = int(descent.turn[own[0]])
    is_inside = (descent.turn >= begin) & (descent.turn <= begin + int(descent.under[own[0]]))
    return descent.take(np.flatnonzero(~is_inside))


def _order_by_path(entries: EntryTable, descent: Descent, start_id: int) -> NDArray[np.int64]:
    """Return the entries of all files, sorted by the bytes of their paths as git's index is."""
    # The slash after a directory's name is compared, too: "a-b" comes before "a/b", though "a" is less than "a-b".
    place = sort_siblings(entries, np.arange(len(entries)), b"/")
    entry, turn = turns_of(descend(entries.chosen(place), start_id), len(entries))
    ordered = place[entry[np.argsort(turn, kind="stable")]]
    is_known = np.isin(entries.parent_id[ordered], descent.directory_id)
    found: NDArray[np.int64] = ordered[is_known & ~entries.is_directory[ordered] & ~entries.is_hidden[ordered]]
    return found


def _components(entries: EntryTable, descent: Descent, files: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the entries on the path from the start to each file; -1 before and after them."""
    columns, entry, directories = [files], files, index_of(descent.directory_id)
    # No path is longer than the number of directories, but damage may create a loop.
    for _ in range(len(descent)):
        row, _ = directories.find(entries.parent_id[np.maximum(entry, 0)])
        # The start is on every path, and is looked up before them.
        entry = np.where((entry >= 0) & (row > 0), descent.entry[row], -1)
        if not (entry >= 0).any():
            break
        columns.append(entry)
    return np.stack(columns[::-1], axis=1)


def _list_untracked(model: Model, descent: Descent, known: NDArray[np.int64]) -> Touches:
    """List each directory in the turn of its name; those without tracked files are looked up first."""
    turn, walk = number_turns(model.entries, descent), names_alone(model, descent)
    listed, per_buffer = walk.lay_out()
    own = turn[descent.entry[walk.directory]]
    # Listing a directory continues only after everything below its earlier names has been walked.
    later = turn[np.minimum(walk.first, len(turn) - 1)]
    when = np.where(walk.is_first, 4 * own + 2, 4 * later - 1)
    new = descent.entry[1:][~np.isin(descent.entry[1:], known)]
    found, each = lookups(model, new)
    return merge_by_turn([(listed, when, per_buffer), (found, 4 * turn[new], each)])


def list_folders(
    model: Model,
    wanted: Sequence[str],  # paths of folders from the root; an empty path or `/` is the root itself
) -> Touches:
    """List folders in sequence, names and attributes together, each after a look-up of its path.

    What was looked up for an earlier folder is not looked up again. A path that is not a folder costs its look-ups.
    """
    components = entries_on_paths(model, wanted)
    owner = np.broadcast_to(np.arange(len(components))[:, None], components.shape)
    exists = components >= 0
    new = first_places(components[exists], len(model.entries))
    found, each = lookups(model, components[exists][new])
    # The entries of those paths that are folders (-1 for the root), and the numbers of these paths.
    folders: list[int] = []
    named: list[int] = []
    for number, path in enumerate(wanted):
        names = components_of(path)
        last = int(components[number, len(names) - 1]) if names else -1
        if not names or (last >= 0 and bool(model.entries.is_directory[last])):
            folders.append(last)
            named.append(number)
    every = model.descend(ROOT_ID)
    row = np.full(len(model.entries) + 1, -1, np.int64)
    row[every.entry] = np.arange(len(every))
    walk = bulk(model, every.take(row[np.array(folders, np.int64)]), start_id=ROOT_ID)
    listed, per_buffer = walk.lay_out()
    listings = np.array(named, np.int64)[walk.directory]
    return merge_by_turn([(found, 2 * owner[exists][new], each), (listed, 2 * listings + 1, per_buffer)])


class Work(Struct, frozen=True):
    """Inputs of an order, and the number of its passes."""

    start_directory_id: int = ROOT_ID  # directory (CNID or oid) in which to start
    stat: bool = True  # false for `fts` with FTS_NOSTAT, which stats only directories
    paths: Sequence[str] | None = None  # for `paths`: what to look up, from the root
    file_id: int | None = None  # for `read`: the file
    # for `read`: ascending offsets of the records in the file; None reads the whole file from its beginning
    records: NDArray[np.int64] | None = None
    record_bytes: int | None = None  # for `read` with `records`: length of a record
    # start with the metadata and names of a first, uncounted pass in the caches
    warm: bool = False
    passes: int = 1  # number of passes; later passes do not read what the cache keeps

    @property
    def is_repeated(self) -> bool:
        """Whether the order runs with something cached."""
        return self.warm or self.passes > 1


class Order(Struct, frozen=True):
    """A way in which a program accesses a volume."""

    name: str  # name for users
    run: Callable[[Model, Work], AccessTrace]  # makes the reads of some work on a model
    # `paths` or `file` if the work must specify them, otherwise an empty string
    needs: Literal["", "paths", "file"] = ""
    # `stat` or `records` if the order uses them; other orders ignore them
    takes: tuple[Literal["stat", "records"], ...] = ()
    is_done_once: bool = False  # whether it runs only once, with nothing cached
    does: str = ""  # what a program gets from it, in a few words
    # whether it covers all entries of a volume, so that its time can be given per entry
    is_whole: bool = True
    # returns the least that it must write, which is not among its reads; None for orders that change nothing
    least_written: Callable[[Model, Work], LeastWritten] | None = None

    def check(self, given: Collection[str], *, is_repeated: bool) -> None:
        """Refuse work that this order cannot do."""
        if self.needs and self.needs not in given:
            raise ValueError(f"the order {self.name} needs its {self.needs}")
        if self.is_done_once and is_repeated:
            raise ValueError(f"the order {self.name} is done once, with nothing cached")


def make_run(
    needed: Callable[[Model, Work], Visits | Touches | tuple[Touches, NDArray[np.uint16]] | data.FileTouches],
) -> Callable[[Model, Work], AccessTrace]:
    """Make the run function of an order from a function that returns its touches before any cache, and its threads."""

    def run(model: Model, work: Work) -> AccessTrace:
        found = needed(model, work)
        if isinstance(found, Visits) and not work.is_repeated:
            return read_for_visits(model, found)

        def once(one: Model) -> tuple[Touches, NDArray[Any]]:
            again = found if one is model else needed(one, work)
            if isinstance(again, data.FileTouches):
                return again.needed, again.window
            laid_out = again.touches() if isinstance(again, Visits) else again
            return laid_out if isinstance(laid_out, tuple) else (laid_out, np.zeros(len(laid_out), np.uint16))

        passes = repeat_order(model, once, work.passes + work.warm)
        if isinstance(found, data.FileTouches):
            return data.file_reads(model, passes, found.parts, uncounted=work.warm)
        return metadata_reads(model, passes, uncounted=work.warm)

    return run


def trace(
    layout: VolumeLayout,
    *,
    order: str = "fts",
    host: str | HostProfile = "linux",
    work: Work | None = None,  # inputs and number of passes; None means once from the root with nothing cached
) -> AccessTrace:
    """Compute the reads of a workload on one volume."""
    return trace_on(model_of(layout, host_profile(host)), ORDERS[order], work or Work())


def trace_on(model: Model, order: Order, work: Work) -> AccessTrace:
    """Compute the reads of a workload on a model, which several workloads can share."""
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
    if not model.host.listing_carries_attributes:
        return _readdir_stat(model, work)
    # Apple's fts asks for the link count with each name, even with FTS_NOSTAT; the count is in the inode.
    return _visit_at_once(model, work, descend_by_stat=True)


def _visit_at_once(model: Model, work: Work, *, descend_by_stat: bool = False) -> Visits:
    start = work.start_directory_id
    return directories.bulk(model, model.descend(start), start_id=start, descend_by_stat=descend_by_stat)


def _stat_in_turn(model: Model, work: Work, *, stat: bool) -> Visits | Touches:
    # BSD's du and find use what its fts returns, and this fts asks for all attributes with the names.
    if model.host.listing_carries_attributes:
        return _fts(model, work)
    return programs.stat_in_turn(model, work.start_directory_id, stat=stat)


_find = partial(_stat_in_turn, stat=False)


def _ls(model: Model, work: Work, *, end: bytes | None) -> Visits | FileTouches:
    start = work.start_directory_id
    if not model.host.listing_carries_attributes:
        return programs.visit_by_name(model, start, end)
    # BSD's ls gets attributes with the names, and its fts sorts its results. Link targets are read when they are
    # printed; these reads are left out.
    return directories.bulk(model, programs.sort_directories(model, start, end), start_id=start)


def _backup(model: Model, work: Work) -> Visits | FileTouches:
    # Linux backs up with rsync. macOS uses Time Machine, which gets attributes together with the names.
    if model.host.listing_carries_attributes:
        return _visit_at_once(model, work)
    return programs.visit_by_name(model, work.start_directory_id, b"/")


def _names(model: Model, work: Work) -> Visits:
    descent = drop_unlisted_entries(model, model.descend(work.start_directory_id))
    return directories.names_and_folders(model, descent, look_up_start(model, work.start_directory_id))


def _search(model: Model, work: Work) -> AccessTrace:
    # Linux has no call that searches a catalog; a search by name on Linux is find.
    return (_searchfs if model.host.listing_carries_attributes else make_run(_find))(model, work)


def _catalog(model: Model, _: Work) -> Touches:
    return visits.leaves(model)


def _searchfs(model: Model, work: Work) -> AccessTrace:
    return visits.all_nodes(model) if model.driver.scans_by_number else make_run(_catalog)(model, work)


ORDERS: Final[Mapping[str, Order]] = MappingProxyType(
    {
        order.name: order
        for order in (
            Order("readdir-stat", make_run(_readdir_stat), does="names and attributes: readdir, and stat of each"),
            Order(
                "fts",
                make_run(_fts),
                takes=("stat",),
                does="names and attributes as fts(3) gets them: find -ls, chown -R",
            ),
            Order(
                "du",
                make_run(partial(_stat_in_turn, stat=True)),
                does="names and attributes as du adds them up, entry by entry",
            ),
            Order("backup", make_run(_backup), does="all names and attributes, to find what changed"),
            Order(
                "backup-events",
                make_run(lambda model, work: list_folders(model, work.paths or ())),
                needs="paths",
                does="names and attributes of the folders of a list, which changed",
            ),
            Order(
                "delete",
                lambda model, work: delete(model, work.start_directory_id),
                is_done_once=True,
                does="what rm -r reads; what it writes is not in it",
                least_written=lambda model, work: least_written(model, work.start_directory_id),
            ),
            Order(
                "mount",
                lambda model, _: mount(model),
                is_done_once=True,
                is_whole=False,
                does="what the system reads to mount the volume",
            ),
            Order(
                "fsck",
                lambda model, _: fsck(model),
                is_done_once=True,
                does="what the maker's checker reads of a sound volume",
            ),
            Order("find", make_run(_find), does="names as find prints them: no stat where no test needs one"),
            Order(
                "ls",
                make_run(partial(_ls, end=b"")),
                does="names and attributes as ls -lR prints them, folder by folder",
            ),
            Order(
                "ls-folder",
                make_run(partial(_ls, end=None)),
                is_whole=False,
                does="names and attributes of one folder: ls -l",
            ),
            Order(
                "archive",
                make_run(lambda model, work: archive(model, work.start_directory_id)),
                does="names, attributes and contents as tar puts them in",
            ),
            Order(
                "git-status",
                make_run(lambda model, work: git_status(model, work.start_directory_id)),
                does="what git status looks at where all files are tracked",
            ),
            Order("search", _search, is_done_once=True, does="all names, as a search by name goes through them"),
            Order("bulk", make_run(_visit_at_once), does="names and attributes at once: getattrlistbulk"),
            Order("names", make_run(_names), does="names alone: readdir without stat"),
            Order("catalog", make_run(_catalog), does="the whole tree in the order of its keys"),
            Order("searchfs", _searchfs, is_done_once=True, does="the whole tree as searchfs reads it"),
            Order(
                "paths",
                make_run(lambda model, work: look_up_components(model, entries_on_paths(model, work.paths or ()))),
                needs="paths",
                does="paths of a list, looked up one by one",
            ),
            Order(
                "copy",
                make_run(lambda model, work: data.copy(model, work.start_directory_id)),
                does="names, attributes and the contents of all files",
            ),
            Order(
                "read",
                make_run(lambda model, work: data.read(model, work.file_id or 0, work.records, work.record_bytes)),
                needs="file",
                takes=("records",),
                does="the contents of one file",
            ),
        )
    }
)
"""All orders by name."""

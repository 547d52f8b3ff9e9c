"""Work on one volume and drive, what a change makes of it, and how long that takes."""

from __future__ import annotations

import tomllib
from copy import copy
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

import numpy as np
from msgspec.structs import replace

from layoutscope.access.descent import descend
from layoutscope.access.entries import ROOT_ID, node_table
from layoutscope.access.trace import AccessTrace
from layoutscope.display import Struct
from layoutscope.drive import service
from layoutscope.drive.simulation import Part, draw_seconds, evenly_spaced
from layoutscope.drive.uncertain import LAYOUT, interval_of, median_draw
from layoutscope.filesystems.registry import filesystem, filesystem_of
from layoutscope.metrics.files import BACKWARD, order_metrics
from layoutscope.metrics.history import AS_LISTED, BY_NAME, infer_creation_order
from layoutscope.metrics.scatter import main_tree, select_own_nodes
from layoutscope.results.explanation import ReadsOfNodes, locate_reads, measure_placement
from layoutscope.results.plan import RemedyWords
from layoutscope.results.scan import knows_offset
from layoutscope.structs.arrays import I64, find, ranges
from layoutscope.tables import Values
from layoutscope.walk.orders import ORDERS, Work, model_of, trace_on
from layoutscope.walk.visits import requests

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from layoutscope.access.descent import Descent
    from layoutscope.access.driver import HostProfile, Model
    from layoutscope.drive import DriveProfile
    from layoutscope.drive.simulation import Unknowns
    from layoutscope.drive.uncertain import Interval
    from layoutscope.filesystems.traits import Traits
    from layoutscope.tables import VolumeLayout

    F64 = NDArray[np.float64]

LISTINGS: Final = ("fts", "readdir-stat", "du", "backup", "ls", "git-status")
"""Orders that ask for the attributes of every entry."""

WITH_DATA: Final = ("copy", "archive")
"""Orders that read the contents of files, too."""


class Case:
    """The work that a plan is about, on one volume and one drive."""

    def __init__(
        self,
        layout: VolumeLayout,
        drive: DriveProfile,
        order: str,
        host: HostProfile,
        start_offset_bytes: int = 0,
        work_out: Callable[[Model], AccessTrace] | None = None,  # the reads of the work; by default of the whole order
    ) -> None:
        self.layout, self.drive, self.order, self.host = layout, drive, order, host
        self.start_offset_bytes = start_offset_bytes
        self.knows_offset = knows_offset(layout, start_offset_bytes)
        self.efforts_s: dict[str, float] = {}
        self._work_out = work_out
        self._changed: dict[str, Case | None] = {}

    @cached_property
    def model(self) -> Model:
        """The volume as the host's driver sees it."""
        return model_of(self.layout, self.host)

    @cached_property
    def reads(self) -> AccessTrace:
        """What the work reads."""
        return self.walk(self.order) if self._work_out is None else self._work_out(self.model)

    @cached_property
    def by_node(self) -> ReadsOfNodes:
        """The same with the node of each read."""
        return locate_reads(self.layout, self.reads)

    @property
    def descent(self) -> Descent:
        """The directories in the order of the walk."""
        return self.model.descend(ROOT_ID)

    @property
    def traits(self) -> Traits:
        """What is known of its file system."""
        return filesystem_of(self.layout).traits

    @property
    def reads_data(self) -> bool:
        """Whether the work reads the contents of files."""
        return self.order in WITH_DATA

    def walk(self, order: str, work: Work | None = None) -> AccessTrace:
        """Work out the reads of an order on this volume."""
        return trace_on(self.model, ORDERS[order], work or Work())

    def part(self, reads: AccessTrace, drive: DriveProfile | None = None, queue_depth: int = 1) -> Part:
        """Return work that a drive serves, with the volume at its present place."""
        return Part(reads, drive or self.drive, queue_depth, self.start_offset_bytes, self.knows_offset)

    def with_reads(self, reads: ReadsOfNodes, model: Model) -> Case:
        """Take what the work reads, and of what, from somebody who has walked already, and return the same case."""
        self.reads, self.by_node, self.model = reads.trace, reads, model
        return self

    def with_layout(self, layout: VolumeLayout, host: HostProfile | None = None) -> Case:
        """Return the same work on another layout, or done by another host."""
        return Case(layout, self.drive, self.order, host or self.host, self.start_offset_bytes, self._work_out)

    def with_drive(self, drive: DriveProfile) -> Case:
        """Return the same work on another drive; what it reads is worked out once for all of them."""
        _ = self.reads
        found = copy(self)
        found.drive, found.efforts_s = drive, {}
        return found

    def lay_out(self, name: str, lay_out: Callable[[VolumeLayout], VolumeLayout]) -> Case | None:
        """Return the same work with the nodes elsewhere, by the name of the layout; None if they are already there."""
        if name not in self._changed:
            made = lay_out(self.layout)
            self._changed[name] = None if made is self.layout else self._moved(made)
        found = self._changed[name]
        return found and found.with_drive(self.drive)

    def forget(self) -> None:
        """Drop values computed from the layout; they are computed again when they are needed."""
        for name in ("model", "by_node"):
            self.__dict__.pop(name, None)

    def _moved(self, layout: VolumeLayout) -> Case:
        """Return the same work on the same nodes in other places; a listing visits them in the same order."""
        found = self.with_layout(layout)
        nodes = node_table(layout)
        if not np.array_equal(nodes.of_row, self.model.nodes.of_row):
            return found
        found.model = replace(self.model, layout=layout, nodes=nodes)
        made = requests(found.model)
        is_listing = self.order in LISTINGS and bool((self.by_node.node >= 0).all())
        if is_listing and not made.are_shared and nodes.is_moved(self.model.nodes):
            # Each read of the walk is of a node or continues in it.
            trace, first = self.by_node.trace, np.flatnonzero(self.by_node.within == 0)
            place, source = made.of(self.by_node.node[first])
            found.reads = replace(
                trace[first[source]],
                device=made.device[place],
                image_offset=made.image_offset[place],
                length_bytes=made.length_bytes[place],
                think_us=np.where(np.diff(source, prepend=-1) != 0, trace.think_us[first[source]], 0.0),
                after_us=trace.after_us,
            )
        return found


Effort: TypeAlias = "Callable[[Case], float]"
"""What says how many seconds making a change takes."""


class Changed(Struct, frozen=True):
    """What a change makes of the work."""

    parts: tuple[Part, ...]  # the reads after the change, drive by drive, in sequence
    effort: Effort | None = None  # one-time cost of the change; None if no model predicts it
    # the volume's layout after the change, for remedies on top of this one; None if it does not change
    case: Case | None = None
    least_s: float = 0.0  # host time that overlaps drive time: the work takes at least this long
    # alternative outcomes that nobody can know in advance; draws use them in turn; empty if there are none
    alternatives: tuple[tuple[Part, ...], ...] = ()
    # relative error of the remedy's model: of the draws of each outcome, a third takes this share less time, and a
    # third this share more
    error_share: float = 0.0


class Change(Protocol):
    """A change: it gives the reads, or in a clause why it does not apply."""

    __name__: str

    def __call__(self, case: Case, /) -> Changed | str:
        """Return the changed work, or why the change does not apply."""


def no_effort(_: Case) -> float:
    """Return the one-time cost of a change that a program makes by itself: nothing."""
    return 0.0


def change_reads(case: Case, reads: AccessTrace, effort: Effort | None = no_effort) -> Changed:
    """Say that other reads do the work, on the same drive."""
    return Changed((case.part(reads),), effort)


def change_layout(case: Case, layout: VolumeLayout, effort: Effort | None) -> Changed:
    """Say that the same work is done on another layout."""
    return make_changed(case.with_layout(layout), effort)


def make_changed(then: Case, effort: Effort | None) -> Changed:
    """Say that the work is that of another case."""
    return Changed((then.part(then.reads),), effort, then)


ERROR_SIGNS = np.array([0, -1, 1])
"""How many times the error of a remedy's model draws have, in turn."""


class Served(Struct, frozen=True):
    """What work takes."""

    draws_s: F64  # time in each simulation; those of two works are pairs
    sampling_error: float = 0.0  # as in `ServiceResult`

    @property
    def seconds(self) -> float:
        """The median of the simulations."""
        return float(self.draws_s[median_draw(self.draws_s)])

    @property
    def interval(self) -> Interval:
        """The range of the simulated times."""
        return interval_of(self.draws_s, {}, LAYOUT, self.sampling_error)


def serve_change(changed: Changed, unknowns: Unknowns) -> Served:
    """Serve what changed work reads, once for each draw of what is not known."""
    every, sampling_error = [], 0.0
    for parts in (changed.parts, *changed.alternatives):
        seconds = []
        for part in parts:
            found = draw_seconds(part, *unknowns.of(part))
            seconds.append(found.seconds * part.times)
            if parts is changed.parts:
                sampling_error = max(sampling_error, found.sampling_error)
        every.append(np.sum(seconds, axis=0))
    outcomes = np.array(every)
    turn = np.arange(outcomes.shape[1])
    error = 1 + changed.error_share * ERROR_SIGNS[turn // len(outcomes) % len(ERROR_SIGNS)]
    return Served(np.maximum(outcomes[turn % len(outcomes), turn] * error, changed.least_s), sampling_error)


SAMPLE_FILES: Final = 2048
STRETCHES: Final = 8
"""If there are more files, only this many are served, in this many stretches of the walk."""

STREAM_READS: Final = 64
STREAM_BYTES: Final = 1 << 20
"""A stream is this many contiguous reads of this length."""


def stream_rate(drive: DriveProfile) -> float:
    """Return the bytes per second that a drive reads or writes in one stream at its start."""
    offset = np.arange(STREAM_READS) * STREAM_BYTES
    reads = AccessTrace.from_reads(offset, np.full(STREAM_READS, STREAM_BYTES))
    return STREAM_READS * STREAM_BYTES / max(service(reads, drive).seconds, 1e-9)


def reading_everything_s(case: Case, listing_s: float) -> float:
    """Return what reading all files takes: the listing, and their data file by file in the order of the walk."""
    entries = case.model.entries
    listed = entries_in_walk_order(case)
    files = entries.file_id[listed[entries.is_file[listed] & (entries.size_bytes[listed] > 0)]]
    # Some stretches of many files, all of few; each file once.
    chosen = files
    if len(files) > SAMPLE_FILES:
        chosen = files[evenly_spaced(len(files), SAMPLE_FILES, STRETCHES)]
    chosen = chosen[np.sort(np.unique(chosen, return_index=True)[1])]
    table = case.layout.columns("extents")
    turns = find(chosen, table["file_id"].data)
    rows = np.flatnonzero((turns >= 0) & table["image_offset"].is_known)
    if not len(rows):
        return listing_s
    rows = rows[np.lexsort((table["logical_offset"].signed()[rows], turns[rows]))]
    reads = AccessTrace.from_reads(table["image_offset"].signed()[rows], table["length_bytes"].signed()[rows])
    served = service(reads, case.drive, start_offset_bytes=case.start_offset_bytes).seconds
    return listing_s + served * len(files) / len(chosen)


def data_bytes(case: Case) -> int:
    """Count the bytes that the contents of files take on the volume."""
    table = case.layout.columns("extents")
    return int(table["length_bytes"].signed()[table["image_offset"].is_known].sum())


def copying_s(case: Case) -> float:
    """Return what copying everything off and back takes at least: reading it all, and writing it in one stream."""
    if "copying" not in case.efforts_s:
        listing_s = service(case.reads, case.drive, start_offset_bytes=case.start_offset_bytes).seconds
        written_s = (data_bytes(case) + metadata_bytes(case)) / stream_rate(case.drive)
        case.efforts_s["copying"] = reading_everything_s(case, listing_s) + written_s
    return case.efforts_s["copying"]


def metadata_bytes(case: Case) -> int:
    """Count the bytes of the nodes that enumerations read."""
    nodes = case.by_node.nodes
    return int(nodes.size_bytes[(nodes.level >= 0) & nodes.is_own].sum())


def rewriting_s(case: Case) -> float:
    """Return the time to read all nodes at their places and write them in one stream."""
    if "rewriting" not in case.efforts_s:
        reads = case.by_node.trace[case.by_node.by_place]
        served = service(reads, case.drive, start_offset_bytes=case.start_offset_bytes).seconds
        case.efforts_s["rewriting"] = served + metadata_bytes(case) / stream_rate(case.drive)
    return case.efforts_s["rewriting"]


FILE: Final = Path(__file__).with_name("words.toml")

ON_PAGES: Final = ("does", "helps", "unless", "links", "proof")
"""What a remedy's page alone has: what it does, when it helps, when not, public sources, and how it was checked."""

OTHER: Final = "on-other"
"""Entry of the remedy that there is one of for each file system."""


@lru_cache(maxsize=1)
def all_words() -> dict[str, dict[str, Any]]:
    """Return the file unchanged."""
    return tomllib.loads(FILE.read_text("utf-8"))


def words_of(name: str) -> RemedyWords:
    """Return the words of a remedy; the copy to another file system is named after it."""
    other = name.removeprefix("on-") if name.startswith("on-") else ""
    about = {key: value for key, value in all_words()[OTHER if other else name].items() if key not in ON_PAGES}
    about["ways"] = tuple((system, command) for system, command in about["ways"])
    if other:
        label = filesystem(other).traits.label
        about |= {key: about[key].replace("{label}", label) for key in ("title", "side_effects")}
    return RemedyWords(name, **about)


FIRST_NUMBER: Final = 16
"""The first number that files get (TN1150, "Catalog Node IDs"; the reference of Apple's other one, inode numbers)."""


def entries_in_walk_order(case: Case) -> I64:
    """Return the entries directory by directory, as a walk comes to them and lists them."""
    return ranges(case.descent.first, case.descent.count)


def entries_by_name(case: Case) -> I64:
    """Return the entries as a program comes to them that sorts names: each folder's by name, folders by name."""
    entries = case.model.entries
    group = np.repeat(np.arange(len(entries.group_id)), np.diff(entries.group_start))
    place = entries.names().order_by_text(group)
    descent = descend(entries.chosen(place), ROOT_ID)
    return place[ranges(descent.first, descent.count)]


def level_by_level(case: Case) -> I64:
    """Return the entries of the root, then those of its folders, and so on, level by level."""
    entries, descent = case.model.entries, case.descent
    above = np.where(descent.entry >= 0, entries.parent_id[np.maximum(descent.entry, 0)], np.uint64(0))
    parent = find(descent.directory_id, above)
    depth = np.zeros(len(descent), np.int64)
    # A parent comes before its folders, so the number of rounds is the depth of the tree.
    for _ in range(len(descent)):
        deeper = np.where((parent >= 0) & (np.arange(len(descent)) > 0), depth[np.maximum(parent, 0)] + 1, 0)
        if np.array_equal(deeper, depth):
            break
        depth = deeper
    chosen = np.argsort(depth, kind="stable")
    return ranges(descent.first[chosen], descent.count[chosen])


def space_nodes(case: Case, made: VolumeLayout) -> VolumeLayout:
    """Leave as much room between the nodes of a new volume as there is between those of the old one.

    Where every node has a place of its own, a file system puts nodes among the data as these come, or keeps them
    together; which of both it does is seen by how it did so before. A tree that is one file is in one piece.
    """
    found = measure_placement(case.by_node, 0.0)
    if found is None or not filesystem_of(made).traits.maps_every_node:
        return made
    nodes = made.columns("nodes")
    start = made.facts.image_offset
    # Nodes begin at multiples of their size, and the last one must be on the volume.
    room = max(made.facts.size_bytes // max(len(nodes), 1), 1)
    apart = nodes["size_bytes"].signed() * min(1 / found.density, room / NODE_BYTES)
    offset = start + np.arange(len(nodes)) * np.maximum(apart // NODE_BYTES, 1).astype(np.int64) * NODE_BYTES
    return made.changed(nodes=nodes.changed("image_offset", Values(offset.astype(nodes["image_offset"].data.dtype))))


EMPTIER: Final = 1.68
"""Leaves that a copy may have for each one that is modelled: a driver that splits leaves whose room is in pieces left
1,510 bytes in a leaf of a fresh volume, where the one that was measured left 2,541."""


def leaves_as_full_as_now(case: Case, made: VolumeLayout) -> float:
    """Return the leaves of a new volume per modelled leaf, if they are as full as now."""
    if not is_own_work(case):
        return np.inf
    means = []
    for layout in (case.layout, made):
        leaves = select_own_nodes(layout, main_tree(layout))
        used = leaves["used_bytes"].filled(0)[leaves["kind"].equals("leaf")]
        means.append(float(used.mean()) if len(used) else 0.0)
    now, then = means
    return then / now if now else np.inf


def is_own_work(case: Case) -> bool:
    """Whether the system that does the work wrote the volume last: it shows what that system writes then."""
    return filesystem_of(case.layout).written_by(case.layout) == case.host.name


IN_ORDER: Final = 0.1
"""Largest share of leaves with a successor before them at which the leaves still count as ordered."""


def fills_in_order(case: Case) -> bool:
    """Whether the system that does the work left leaves in order when it filled the volume folder by folder."""
    if not is_own_work(case) or infer_creation_order(case.layout) not in {AS_LISTED, BY_NAME}:
        return False
    values = {metric.name: metric.value for metric in order_metrics(case.layout, main_tree(case.layout))}
    backward = values[BACKWARD.name]
    return backward is not None and backward <= IN_ORDER


def split_leaves(made: VolumeLayout) -> VolumeLayout:
    """Move every second leaf after all others.

    A leaf that is full is split, and half of it goes to a new node at the current end of the used space. If names are
    added to old folders, that is far from the leaf's neighbours.
    """
    nodes = made.columns("nodes")
    leaves = np.flatnonzero((nodes["level"].data == 0) & nodes["tree"].equals(filesystem_of(made).traits.main_tree))
    leaves = leaves[np.argsort(nodes["key_rank"].signed()[leaves], kind="stable")]
    offset = nodes["image_offset"].data.copy()
    places = np.sort(offset[leaves])
    offset[np.concatenate([leaves[::2], leaves[1::2]])] = places
    return made.changed(nodes=nodes.changed("image_offset", Values(offset)))


NODE_BYTES: Final = 4096
"""Size of the nodes that are laid out one by one."""


def number_entries(case: Case, order: I64) -> VolumeLayout:
    """Give the entries of a volume the numbers that they get when they are made in an order."""
    entries, layout = case.model.entries, case.layout
    rows = np.arange(len(entries))[entries.order]
    left = np.ones(len(entries), bool)
    left[order] = False
    made = rows[np.concatenate([order, np.flatnonzero(left)])]
    table = layout.columns("entries")
    own, parent = table["file_id"].data, table["parent_id"].data
    first = np.sort(np.unique(own[made], return_index=True)[1])
    known = own[made][first]
    number = np.arange(FIRST_NUMBER, FIRST_NUMBER + len(known), dtype=np.uint64)
    # The root and the file system's own entries keep their fixed numbers.
    number = np.where(known < FIRST_NUMBER, known, number)

    def new(ids: NDArray[np.uint64]) -> NDArray[np.uint64]:
        place = find(known, ids)
        # A folder that no longer exists keeps a number that no entry gets.
        return np.where(place >= 0, number[np.maximum(place, 0)], np.where(ids < FIRST_NUMBER, ids, np.uint64(1)))

    renumbered = table.changed("file_id", Values(new(own))).changed("parent_id", Values(new(parent)))
    return layout.changed(entries=renumbered)

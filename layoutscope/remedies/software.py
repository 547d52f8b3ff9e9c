"""Remedies in the program that reads: other calls, another order, more at once, or what it remembers."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from layoutscope.analysis.counterfactual import in_whole_nodes
from layoutscope.arrays.lookup import order_of
from layoutscope.remedies.case import LISTINGS, Case, Changed, NotHere, Part, read_by
from layoutscope.remedies.reading import files_by_place
from layoutscope.remedies.sorting import some_folders, stat_by_number
from layoutscope.remedies.words import said
from layoutscope.units import MIB, format_count
from layoutscope.walk.host import host_profile, host_time
from layoutscope.walk.orders import Work

THREADS: Final = 8
"""Reads in flight, one a thread; the threads of a host property share its processor time alone."""

CHANGED_SHARE: Final = 20
"""One directory of so many has changed since the last walk: 5 %."""

READ_AHEAD: Final = 8 * MIB

OF_ATTRIBUTES: Final = ("du", "backup", "git-status")
"""Orders that names alone are of no use to."""

NO_LISTING: Final = "the work reads more than names"
NO_DATA: Final = "a listing reads no contents of files"


class NamesOnly:
    """List without stat."""

    words = said("names-only")

    def model(self, case: Case) -> Changed | NotHere:
        """Walk with FTS_NOSTAT."""
        if case.order not in LISTINGS:
            return NotHere(NO_LISTING)
        if case.order in OF_ATTRIBUTES:
            return NotHere("the work is about sizes or dates")
        return read_by(case, case.walk("fts", Work(stat=False)))


class AttributesAtOnce:
    """Ask for attributes with the names."""

    words = said("attributes-at-once")

    def model(self, case: Case) -> Changed | NotHere:
        """Walk as getattrlistbulk does, where the system has it."""
        if case.order not in LISTINGS:
            return NotHere(NO_LISTING)
        if not case.host.listing_carries_attributes:
            return NotHere(f"{case.host.name} has no such call")
        return read_by(case, case.walk("bulk"))


class StatByInode:
    """Sort each directory before its stats."""

    words = said("stat-by-inode")

    def model(self, case: Case) -> Changed | NotHere:
        """Walk with the stats of a directory sorted."""
        if case.order not in LISTINGS:
            return NotHere(NO_LISTING)
        return read_by(case, stat_by_number(case, is_whole=False))


class StatAllByInode:
    """List everything, then stat everything in the order of the leaves."""

    words = said("stat-all-by-inode")

    def model(self, case: Case) -> Changed | NotHere:
        """Walk the names, then stat by number."""
        if case.order not in LISTINGS:
            return NotHere(NO_LISTING)
        return read_by(case, stat_by_number(case, is_whole=True))


class TreeInKeyOrder:
    """Read the tree leaf by leaf."""

    words = said("tree-in-key-order")

    def model(self, case: Case) -> Changed | NotHere:
        """Walk the leaves, as searchfs does where the system has it."""
        if case.order not in LISTINGS:
            return NotHere(NO_LISTING)
        return read_by(case, case.walk("searchfs" if case.host.listing_carries_attributes else "catalog"))


class OneSweep:
    """Read the leaves by their place on the disk."""

    words = said("one-sweep")

    def model(self, case: Case) -> Changed | NotHere:
        """Read what leads to leaves as a walk does, level by level, then the leaves by address."""
        if case.order not in LISTINGS:
            return NotHere(NO_LISTING)
        nodes = case.by_node
        level = nodes.of_node(nodes.nodes.level, 0)
        place = np.empty(len(nodes.trace), np.int64)
        place[nodes.by_place] = np.arange(len(place))
        turn = order_of(((int(level.max(initial=0)) - level) << 40) + place)
        return read_by(case, nodes.trace[turn])


class LargerRequests:
    """Ask for more at once."""

    words = said("larger-requests")

    def model(self, case: Case) -> Changed | NotHere:
        """Join the pages of nodes; of work with contents, walk with more read-ahead."""
        if case.reads_data:
            host = host_profile(case.host, read_ahead_bytes=READ_AHEAD, optimal_read_bytes=READ_AHEAD)
            return read_by(case, case.on(case.layout, host).reads)
        joined = in_whole_nodes(case.by_node)
        return NotHere("every node is one request already") if joined is case.reads else read_by(case, joined)


class MoreInFlight:
    """Several threads at once."""

    words = said("more-in-flight")

    def model(self, case: Case) -> Changed | NotHere:
        """Cut the reads into as many parts, and serve one of each in turn, as many at once as there are parts."""
        if case.drive.members:
            return NotHere("reads side by side are modelled for single drives alone")
        reads = case.reads
        part = -(-len(reads) // THREADS) or 1
        turn = np.lexsort((np.arange(len(reads)) // part, np.arange(len(reads)) % part))
        wall = host_time(reads.host_us, replace(case.host, threads=THREADS)).wall_s
        served = Part(reads[turn], case.drive, THREADS, case.start_offset_bytes)
        return Changed((served,), least_s=wall)


class RememberedWalk:
    """Look only where something changed."""

    words = said("remembered-walk")

    def model(self, case: Case) -> Changed | NotHere:
        """Go down to every twentieth directory, and look at what lies in it."""
        if case.order not in LISTINGS:
            return NotHere(NO_LISTING)
        if case.layout.facts.view != "live":
            return NotHere("an older state does not change")
        descent = case.descent
        if len(descent) < CHANGED_SHARE:
            return NotHere(f"with {format_count(len(descent), 'directory')} there is little to leave out")
        chosen = np.zeros(len(descent), bool)
        chosen[::CHANGED_SHARE] = True
        return read_by(case, some_folders(case, chosen))


class FilesByPlace:
    """Read files in the order in which they lie."""

    words = said("files-by-place")

    def model(self, case: Case) -> Changed | NotHere:
        """Walk, then read each file where the next one lies."""
        if not case.reads_data:
            return NotHere(NO_DATA)
        return read_by(case, files_by_place(case))

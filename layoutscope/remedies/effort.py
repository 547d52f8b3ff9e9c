"""What a remedy itself takes, by the models that tell what the work takes: reading all files, writing them again.

Files are read in the order in which a walk comes to them; of many, some stretches are served. What is written goes in
one stream: that is the least that a copy takes, and said so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.access.trace import AccessTrace
from layoutscope.arrays.ragged import ranges
from layoutscope.drive import service

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from layoutscope.drive import DriveProfile
    from layoutscope.remedies.case import Case

SAMPLE_FILES: Final = 2048
STRETCHES: Final = 8
"""Of more files so many are served, in so many stretches of the walk."""

STREAM_READS: Final = 64
STREAM_BYTES: Final = 1 << 20
"""A stream is so many reads of this length, one behind the other."""


def stream_rate(drive: DriveProfile) -> float:
    """Return the bytes a second that a drive reads or writes in one stream at its start."""
    offset = np.arange(STREAM_READS) * STREAM_BYTES
    reads = AccessTrace.from_reads(offset, np.full(STREAM_READS, STREAM_BYTES))
    return STREAM_READS * STREAM_BYTES / max(service(reads, drive, phases=1).seconds, 1e-9)


def reading_everything_s(case: Case, listing_s: float) -> float:
    """Return what reading all files takes: the listing, and their data file by file in the order of the walk."""
    files = _files(case)
    if not len(files):
        return listing_s
    chosen = _stretches(files)
    table = case.layout.columns("extents")
    rows = np.flatnonzero(np.isin(table["file_id"].data, chosen) & table["image_offset"].is_known)
    if not len(rows):
        return listing_s
    place = {int(number): turn for turn, number in enumerate(chosen.tolist())}
    turns = np.array([place[int(number)] for number in table["file_id"].data[rows]], np.int64)
    rows = rows[np.lexsort((table["logical_offset"].signed()[rows], turns))]
    reads = AccessTrace.from_reads(table["image_offset"].signed()[rows], table["length_bytes"].signed()[rows])
    served = service(reads, case.drive, phases=1, start_offset_bytes=case.start_offset_bytes).seconds
    return listing_s + served * len(files) / len(chosen)


def _files(case: Case) -> NDArray[np.uint64]:
    """Numbers of the files with data, in the order of the walk."""
    entries, descent = case.model.entries, case.descent
    listed = ranges(descent.first, descent.count)
    listed = listed[entries.is_file[listed] & (entries.size_bytes[listed] > 0)]
    return entries.file_id[listed]


def _stretches(files: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Take some stretches of many files, all of few; each file once."""
    if len(files) > SAMPLE_FILES:
        long = SAMPLE_FILES // STRETCHES
        starts = np.linspace(0, len(files) - long, STRETCHES).astype(np.int64)
        files = files[(starts[:, None] + np.arange(long)).ravel()]
    return files[np.sort(np.unique(files, return_index=True)[1])]


def data_bytes(case: Case) -> int:
    """Count the bytes that the contents of files take on the volume."""
    table = case.layout.columns("extents")
    return int(table["length_bytes"].signed()[table["image_offset"].is_known].sum())


def copying_s(case: Case) -> float:
    """Return what copying everything off and back takes at least: reading it all, and writing it in one stream."""
    if "copying" not in case.efforts_s:
        listing_s = service(case.reads, case.drive, phases=1, start_offset_bytes=case.start_offset_bytes).seconds
        written_s = (data_bytes(case) + metadata_bytes(case)) / stream_rate(case.drive)
        case.efforts_s["copying"] = reading_everything_s(case, listing_s) + written_s
    return case.efforts_s["copying"]


def metadata_bytes(case: Case) -> int:
    """Count the bytes of the nodes that enumerations read."""
    nodes = case.by_node.nodes
    return int(nodes.size_bytes[(nodes.level >= 0) & nodes.is_own].sum())


def rewriting_s(case: Case) -> float:
    """Return what reading all nodes where they lie and writing them in one stream takes."""
    if "rewriting" not in case.efforts_s:
        reads = case.by_node.trace[case.by_node.by_place]
        served = service(reads, case.drive, phases=1, start_offset_bytes=case.start_offset_bytes).seconds
        case.efforts_s["rewriting"] = served + metadata_bytes(case) / stream_rate(case.drive)
    return case.efforts_s["rewriting"]

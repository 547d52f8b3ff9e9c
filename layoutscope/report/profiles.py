"""Walks in the formats of profilers, with a track per tree, a slice per read, and the parts of its time.

speedscope's own format (https://www.speedscope.app/file-format-schema.json), Chrome's trace events as JSON, which
Perfetto opens (Trace Event Format), and folded stacks by directory (Gregg, flamegraph.pl).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from layoutscope.access.entries import ROOT_ID, path_component
from layoutscope.report import escape_text
from layoutscope.results.frames import directory_name
from layoutscope.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from layoutscope.access.entries import Paths
    from layoutscope.access.trace import AccessTrace
    from layoutscope.drive import ServiceResult
    from layoutscope.tables import VolumeLayout


SPEEDSCOPE_SCHEMA: Final = "https://www.speedscope.app/file-format-schema.json"
PARTS: Final = ("seek", "rotation", "transfer", "overhead")
"""Parts of the time of a read; the last is the rest."""


@dataclass(frozen=True, slots=True)
class Profile:
    """The reads of a walk on a time line; arrays of shape (n_reads,)."""

    title: str  # volume, order and drive
    trace: AccessTrace
    start_us: NDArray[np.float64]
    service_us: NDArray[np.float64]
    parts_us: NDArray[np.float64]  # service time by `PARTS`, shape (n_reads, n_parts)
    end_us: float  # end of the walk, including the host's work after the last read
    paths: Paths  # of the volume

    @classmethod
    def of(cls, title: str, trace: AccessTrace, result: ServiceResult, paths: Paths) -> Profile:
        """Place the reads of a walk on a time line, as a drive served them."""
        each, trace = result.reads_ms, trace.scale_host_time(result.host_factor)
        service = each.service_ms * 1000
        start = np.cumsum(trace.think_us + service) - service
        known = np.stack([each.seek_ms, each.rotation_ms, each.transfer_ms], axis=1) * 1000
        parts = np.column_stack([known, np.maximum(service - known.sum(axis=1), 0.0)])
        end = float(start[-1] + service[-1] if len(trace) else 0.0) + trace.after_us
        return cls(title, trace, start, service, parts, end, paths)

    def directory(self, number: int) -> str:
        """Name a directory; 0 means no directory."""
        return escape_text(directory_name(self.paths, number))


def write_speedscope(profiles: Sequence[Profile]) -> Iterator[str]:
    """Yield a file for speedscope: a profile per tree and walk, with stacks of cause and part of the time."""
    frames: dict[str, int] = {}
    yield f'{{"$schema":"{SPEEDSCOPE_SCHEMA}","exporter":"layoutscope@{__version__}","name":"walks","profiles":['
    first = True
    for profile in profiles:
        for code in np.unique(profile.trace.tree).tolist():
            yield "" if first else ","
            yield from _write_track(profile, code, lambda name: frames.setdefault(name, len(frames)))
            first = False
    yield f'],"shared":{{"frames":{json.dumps([{"name": name} for name in frames])}}}}}\n'


def _write_track(profile: Profile, code: int, frame: Callable[[str], int]) -> Iterator[str]:
    """Yield one profile: each read is open from its start to its end, and contains its parts in sequence."""
    trace = profile.trace
    rows = np.flatnonzero(trace.tree == code)
    name = json.dumps(f"{trace.trees[code]}: {profile.title}")
    yield f'{{"type":"evented","name":{name},"unit":"microseconds","startValue":0,"endValue":{profile.end_us:.3f},'
    yield '"events":['
    causes = [frame(name) for name in trace.causes]
    parts = [frame(name) for name in PARTS]
    for number, row in enumerate(rows.tolist()):
        at = profile.start_us[row]
        stop = at + profile.service_us[row]
        cause = causes[trace.cause[row]]
        events = [_format_event("O", cause, at)]
        for part, length in zip(parts, profile.parts_us[row].tolist(), strict=True):
            if length > 0:
                # The sum of parts may exceed the whole by a rounding error, but events must not go back in time.
                end = min(at + length, stop)
                events += [_format_event("O", part, at), _format_event("C", part, end)]
                at = end
        yield ("," if number else "") + ",".join([*events, _format_event("C", cause, stop)])
    yield "]}"


def _format_event(kind: str, frame: int, at: float) -> str:
    return f'{{"type":"{kind}","frame":{frame},"at":{at:.3f}}}'


def write_chrome_trace(profiles: Sequence[Profile]) -> Iterator[str]:
    """Yield a file of trace events for Perfetto: walks are processes, trees are threads, reads are slices."""
    yield '{"displayTimeUnit":"ms","traceEvents":[\n'
    first = True
    for process, profile in enumerate(profiles, 1):
        for event in _list_events(process, profile):
            yield ("" if first else ",\n") + json.dumps(event, separators=(",", ":"))
            first = False
    yield "\n]}\n"


def _list_events(process: int, profile: Profile) -> Iterator[dict[str, Any]]:
    trace = profile.trace
    yield {"ph": "M", "pid": process, "tid": 0, "name": "process_name", "args": {"name": profile.title}}
    for code in np.unique(trace.tree).tolist():
        name = {"name": trace.trees[code]}
        yield {"ph": "M", "pid": process, "tid": code + 1, "name": "thread_name", "args": name}
    for row in range(len(trace)):
        tree = int(trace.tree[row])
        parts = zip(PARTS, profile.parts_us[row].tolist(), strict=True)
        yield {
            "ph": "X",
            "pid": process,
            "tid": tree + 1,
            "ts": round(float(profile.start_us[row]), 3),
            "dur": round(float(profile.service_us[row]), 3),
            "name": trace.causes[trace.cause[row]],
            "cat": trace.trees[tree],
            "args": {
                "image_offset": int(trace.image_offset[row]),
                "length_bytes": int(trace.length_bytes[row]),
                "directory": profile.directory(int(trace.directory_id[row])),
                **{f"{name}_us": round(length, 3) for name, length in parts if length > 0},
            },
        }


def write_folded_stacks(profiles: Sequence[Profile]) -> Iterator[str]:
    """Yield folded stacks: the path of each directory that caused reads, and their microseconds.

    Host time before a read counts for its directory; host time after the last read has no line.
    """
    for profile in profiles:
        ids, place = np.unique(profile.trace.directory_id, return_inverse=True)
        spent = np.bincount(place, profile.service_us + profile.trace.think_us, minlength=len(ids))
        for number, microseconds in zip(ids.tolist(), spent.tolist(), strict=True):
            names = profile.directory(number).split("/")
            stack = ";".join(map(escape_frame, [profile.title, *filter(None, names)]))
            yield f"{stack} {round(microseconds)}\n"


def escape_frame(text: str) -> str:
    r"""Escape a name for one frame of a folded stack.

    >>> escape_frame("a;b\n")
    'a\\u003bb\\u000a'
    """
    return escape_text(text).replace(";", "\\u003b")


PROFILES: Final[dict[str, Callable[[Sequence[Profile]], Iterator[str]]]] = {
    "speedscope": write_speedscope,
    "perfetto": write_chrome_trace,
    "folded": write_folded_stacks,
}
"""Writers of walks by the name of their format."""

MAX_LEVELS: Final = 4096
"""Depth of directories that are written; deeper ones are left out."""


def ncdu_text(layout: VolumeLayout, milliseconds: Mapping[int, float]) -> Iterator[str]:
    """Yield the text of an export for ncdu, one directory per line."""
    head = {"progname": "layoutscope", "progver": __version__}
    yield f"[1,2,{json.dumps(head)}"
    children = _list_subdirectories(layout)
    # The stack is explicit because directories may be nested deeper than Python's recursion limit.
    stack: list[tuple[int, str] | None] = [(ROOT_ID, layout.facts.name or "/")]
    depth = 0
    while stack:
        item = stack.pop()
        if item is None:
            depth -= 1
            yield "]"
            continue
        directory_id, name = item
        cost = round(milliseconds.get(directory_id, 0.0))
        yield ",\n[" + json.dumps({"name": escape_text(name), "asize": cost, "dsize": cost, "ino": directory_id})
        stack.append(None)
        depth += 1
        if depth < MAX_LEVELS:
            stack += children.pop(directory_id, [])
    yield "]\n"


def _list_subdirectories(layout: VolumeLayout) -> dict[int, list[tuple[int, str]]]:
    """List the subdirectories of each directory; a directory with two entries counts once."""
    entries = layout.columns("entries")
    folders = entries.take(entries["kind"].equals("directory") & (entries["file_id"].data != ROOT_ID))
    children: dict[int, list[tuple[int, str]]] = {}
    visited: set[int] = set()
    for parent, number, name in zip(*map(folders.listed, ("parent_id", "file_id", "name")), strict=True):
        if number not in visited:
            visited.add(number)
            children.setdefault(parent, []).append((number, path_component(name) if name else f"<{number}>"))
    return children

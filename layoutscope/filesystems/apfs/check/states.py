"""States that snapshots keep: their file-system trees, and the comparisons that the live state's records are put to.

Apple File System Reference, Snapshot Metadata. A snapshot has a superblock and a tree root of its own, and its nodes
are those that the object map of the volume knew at its transaction. Most of them are nodes of the live state too.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from layoutscope.errors import FormatError
from layoutscope.filesystems.apfs.check.subject import of_volume
from layoutscope.filesystems.apfs.volume.states import LIVE, open_snapshot
from layoutscope.filesystems.apfs.volume.trees import fs_source, read_fext_tree, read_fs_tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from layoutscope.filesystems.apfs.check.subject import Subject
    from layoutscope.filesystems.apfs.store.source import TreeSource
    from layoutscope.filesystems.apfs.volume.parts import VolumeParts
    from layoutscope.filesystems.apfs.volume.volume import Volume


def snapshot_states(subject: Subject, parts: VolumeParts) -> Iterator[tuple[str, Volume]]:
    """Open each snapshot that can be read, the newest first, by its view; findings go to logs of their own."""
    if parts.view != LIVE or parts.is_locked:
        return
    live = replace(parts.state, store=subject.apart)
    for snapshot in reversed(parts.snapshots):
        # What cannot be opened is found where snapshots are listed.
        with suppress(FormatError):
            if snapshot.view in parts.views:
                yield snapshot.view, open_snapshot(live, snapshot)


def snapshot_sources(subject: Subject, parts: VolumeParts) -> Iterator[tuple[str, Volume, TreeSource]]:
    """Describe the file-system tree of each snapshot."""
    for view, state in snapshot_states(subject, parts):
        yield view, state, fs_source(state.store, state, parts.cipher)


def _snapshot_parts(subject: Subject, parts: VolumeParts) -> Iterator[VolumeParts]:
    """Read the records of each snapshot; those of states that are made of the same nodes once."""
    known = parts
    for view, state in snapshot_states(subject, parts):
        own = replace(state, store=subject.apart)
        fs, fext = known.fs, known.fext
        if not np.array_equal(parts.views[view].paddr, fs.nodes.paddr):
            fs, fext = read_fs_tree(own, parts.cipher), read_fext_tree(own)
        known = replace(parts, state=own, view=view, fs=fs, fext=fext)
        yield known


def check_states(subject: Subject, checks: Sequence[Callable[[Subject], None]]) -> None:
    """Put the records of each snapshot to comparisons; what was found in another state is not said again."""
    for live in subject.whole:
        seen = {*subject.log.findings, *live.log.findings}
        for parts in _snapshot_parts(subject, live):
            one = replace(of_volume(subject, parts), whole=[parts])
            for check in checks:
                check(one)
            found = [item for item in (*parts.log.findings, *one.log.findings) if item not in seen]
            seen.update(found)
            subject.log.extend(replace(item, structure=f"{parts.view}, {item.structure}") for item in found)

"""What ``checkpoints`` returns: states of a container that can still be read."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StateLine:
    """One state of a container that can be read; fields as in the reader's list of states."""

    container: str
    kind: str
    label: str
    xid: int
    volume: str
    time_ns: int
    is_complete: bool
    num_nodes: int
    num_sound_nodes: int

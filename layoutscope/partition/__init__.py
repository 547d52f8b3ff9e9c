"""Partition maps and volumes: GPT, MBR, Apple Partition Map and bare volumes."""

from __future__ import annotations

from layoutscope.partition.choice import choose, select_name
from layoutscope.partition.search import find_volumes
from layoutscope.partition.tables import Partition, VolumeCandidate, VolumeSearch

__all__ = [
    "Partition",
    "VolumeCandidate",
    "VolumeSearch",
    "choose",
    "find_volumes",
    "select_name",
]

"""Partition maps and volumes: GPT, MBR, Apple Partition Map and bare volumes."""

from __future__ import annotations

from layoutscope.partition.choice import choose, select_name
from layoutscope.partition.maps import Partition, VolumeCandidate, VolumeSearch
from layoutscope.partition.search import find_volumes

__all__ = ["Partition", "VolumeCandidate", "VolumeSearch", "choose", "find_volumes", "select_name"]

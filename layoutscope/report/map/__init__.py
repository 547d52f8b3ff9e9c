"""Layout maps: where everything is stored, what a walk does, and what it costs, in one offline page."""

from __future__ import annotations

from layoutscope.report.map.page import render
from layoutscope.report.map.scans import MapDisk, MapWalk

__all__ = ["MapDisk", "MapWalk", "render"]

"""Layout maps: where everything lies, what a walk does, and what it costs, in one offline page."""

from __future__ import annotations

from layoutscope.report.map.model import MapDisk, MapFact, MapWalk
from layoutscope.report.map.page import render

__all__ = ["MapDisk", "MapFact", "MapWalk", "render"]

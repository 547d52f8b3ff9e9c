"""Read-only byte sources: raw files, devices, split and compressed images, and windows on them."""

from __future__ import annotations

from layoutscope.image.opening import open_image
from layoutscope.image.raw import RawFile
from layoutscope.image.source import MemorySource, ReadCounter, Source, Window, Workspace

__all__ = ["MemorySource", "RawFile", "ReadCounter", "Source", "Window", "Workspace", "open_image"]

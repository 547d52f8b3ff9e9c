"""Read-only byte sources: raw files, devices, split and compressed images, and windows on them."""

from __future__ import annotations

from layoutscope.image.source import MemorySource, RawFile, ReadCounter, Source, Window

__all__ = ["MemorySource", "RawFile", "ReadCounter", "Source", "Window"]

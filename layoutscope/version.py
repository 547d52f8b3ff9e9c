"""The version, where the build reads it too."""

from __future__ import annotations

__version__ = "0.1.0"

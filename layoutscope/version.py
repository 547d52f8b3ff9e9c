"""The version: that which the build found in git's tags, else the release that this source came with or after."""

from __future__ import annotations

from typing import Final

RELEASE: Final = "0.1.0"
"""The newest release, by hand: for a source that was neither built nor installed."""

try:
    from layoutscope._version import __version__ as _built
except ImportError:  # nobody built it
    _built = f"{RELEASE}+unknown"

__version__: str = _built

"""Kernels in C for the loops that numpy has no words for, and for those that it takes many passes for.

Each is the twin of a function in Python that stays beside its caller. `library` finds and calls them, ``source`` has
them, `build` compiles them.
"""

from __future__ import annotations

from layoutscope.native.library import Kernel, core, outdated

__all__ = ["Kernel", "core", "outdated"]

"""Kernels in C for the loops that numpy has no words for, and for those that it takes many passes for.

`library` finds and calls them, ``source`` has them, `build` compiles them. Reference implementations in Python, with
which tests compare them, are in ``tests/unit/native/reference``.
"""

from __future__ import annotations

from layoutscope.native.library import Kernel, core

__all__ = ["Kernel", "core"]

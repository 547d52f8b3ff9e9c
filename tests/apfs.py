"""APFS containers, read as the plug-in reads them: what a scan compares is compared."""

from __future__ import annotations

from functools import partial

from layoutscope.checks.apfs.comparison import compare_contents
from layoutscope.filesystems.apfs import reader

read_layouts = partial(reader.read_layouts, compare=compare_contents)

"""On-disk layout of Apple file systems: where the metadata lies, and what that costs.

Bytes flow one way: image, partition, reader (``hfsplus`` or ``apfs``), tables, metrics and walk, drive, report.
"""

from __future__ import annotations

__version__ = "0.1.0"

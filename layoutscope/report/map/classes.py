"""Classes of the address map: what a stretch of disk holds, with its colour.

Colours are those of Okabe and Ito (2008), which people with colour-vision deficiencies can tell apart; data and free
space are greys, so that the metadata stands out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

METADATA: Final = "metadata"
DATA: Final = "data"
FREE: Final = "free"
UNKNOWN: Final = "unknown"


@dataclass(frozen=True, slots=True)
class MapClass:
    """One class: its key in the tables, what people call it, its group, and its colours on light and dark."""

    key: str
    label: str
    group: str
    light: str
    dark: str


_TREES: Final = {
    "catalog": ("catalog B-tree", "#0072B2", "#4BA3E3"),
    "fs": ("file-system B-tree", "#0072B2", "#4BA3E3"),
    "extents-overflow": ("extents-overflow B-tree", "#009E73", "#2FD6A3"),
    "attributes": ("attributes B-tree", "#CC79A7", "#E9A3CB"),
    "hot-files": ("hot-files B-tree", "#8A6BBE", "#B79CEB"),
    "omap": ("object map", "#D55E00", "#FF8A3D"),
    "container-omap": ("container object map", "#9C2F00", "#E0662E"),
    "extentref": ("extent-reference B-tree", "#009E73", "#2FD6A3"),
    "snapmeta": ("snapshot-metadata B-tree", "#8A6BBE", "#B79CEB"),
    "fext": ("file-extent B-tree", "#1B998B", "#5FD8C9"),
    "spaceman": ("free-queue B-trees", "#B58900", "#E3B93B"),
}
OTHER_TREE: Final = ("#56B4E9", "#8CD0F7")
REGION: Final = MapClass("region", "other metadata", METADATA, "#C9A100", "#F0E442")
FILE_DATA: Final = MapClass("data", "file data", DATA, "#B9BDC4", "#555B66")
PENDING: Final = MapClass("pending-free", "freed, not yet reusable", DATA, "#DDD3BE", "#443F33")
UNCLAIMED: Final = MapClass("unclaimed", "used, owner unknown", UNKNOWN, "#7A5C3E", "#A98462")
FREE_SPACE: Final = MapClass("free", "free space", FREE, "#F4F4F2", "#1E2126")
UNREAD: Final = MapClass("unread", "not read", UNKNOWN, "#3B3B3B", "#8E8E8E")
DAMAGED: Final = MapClass("damaged", "damaged metadata", METADATA, "#E4002B", "#FF4D6A")

NOT_METADATA_REGIONS: Final = frozenset({"free", "pending-free", "unclaimed", "unread"})


def tree_class(tree: str) -> MapClass:
    """Return the class of a B-tree."""
    label, light, dark = _TREES.get(tree, (f"{tree} B-tree", *OTHER_TREE))
    return MapClass(tree, label, METADATA, light, dark)

"""Classes of the address map: what a stretch of disk holds, with its colour.

Colours are those of Okabe and Ito (2008), which people with colour-vision deficiencies can tell apart; data and free
space are greys, so that the metadata stands out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from layoutscope.filesystems.registry import tree_traits
from layoutscope.filesystems.traits import TreeTraits

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
    traits = tree_traits(tree) or TreeTraits(tree, f"{tree} B-tree")
    return MapClass(tree, traits.label, METADATA, traits.light, traits.dark)

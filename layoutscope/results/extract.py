"""What ``extract`` returns: how much of an image was kept."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Extract:
    """What was written.

    Attributes
    ----------
    size_bytes : int
        Length of the image.
    metadata_bytes : int
        How much of it was kept.
    written_bytes : int
        Length of the file, or what a sparse one stores.
    """

    size_bytes: int
    metadata_bytes: int
    written_bytes: int

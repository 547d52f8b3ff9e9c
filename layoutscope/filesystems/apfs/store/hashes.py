"""Hashes of sealed volumes.

Apple File System Reference, Sealed Volumes: index nodes hold the hash of each child, the integrity metadata that of
the root. The hash is over the whole node as it is stored.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

from layoutscope.ondisk import grammar

if TYPE_CHECKING:
    from numpy.typing import NDArray


def hash_size(hash_type: int) -> int:
    """Return the length of a hash in bytes, 0 for none; `hash_type` as in the integrity metadata."""
    return hashlib.new(_name(hash_type)).digest_size if hash_type else 0


def _name(hash_type: int) -> str:
    # The grammar's names are those of hashlib.
    return grammar.ApfsSealed.HashType(hash_type).name


def hash_objects(hash_type: int, objects: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Hash each row.

    Parameters
    ----------
    hash_type : int
        As in the integrity metadata.
    objects : (n, size_bytes) uint8 array
        Whole nodes.

    Returns
    -------
    (n, hash_size) uint8 array
    """
    joined = b"".join(hashlib.new(_name(hash_type), row.tobytes()).digest() for row in objects)
    return np.frombuffer(joined, np.uint8).reshape(-1, hash_size(hash_type))

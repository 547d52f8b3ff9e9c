"""Blocks of a container by address, on one device or on both devices of a Fusion set.

Apple File System Reference, Fusion: addresses of the second device have a mark, 0x4000000000000000 in byte addresses.
"""

from __future__ import annotations

import hashlib
import hmac
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import field

from layoutscope.display import Struct
from layoutscope.errors import FormatError
from layoutscope.image.crypto import UNIT_BYTES, decrypt_units
from layoutscope.image.passes import Want
from layoutscope.image.source import overlaps
from layoutscope.structs import grammar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from layoutscope.image.source import Source
    from layoutscope.structs.arrays import I64, U8, Mask


class Blocks(Struct, frozen=True):
    """The blocks of a container, and the images that hold them."""

    # main device and second device, each starting at its first block; None if an image was not given
    sources: tuple[Source | None, ...]
    image_offsets: tuple[int, ...]  # offset of each device in its own image, in bytes
    block_size: int  # in bytes
    # runs of a Fusion set's second device whose newest bytes are on the main device, shape (3, n): start and stop, with
    # the mark of the second device, ascending and disjoint, and first block on the main device; none before the middle
    # tree is read
    dirty: NDArray[np.uint64] = field(default_factory=lambda: np.empty((3, 0), np.uint64))
    num_claimed: int = 0  # number of blocks that the container declares; an image may hold fewer

    @property
    def tier2_mark(self) -> int:
        """Bit that marks block addresses of the second device."""
        return int(grammar.ApfsFusion.Tier2Marker.device_byte_address) // self.block_size

    def newest(self, paddrs: NDArray[Any]) -> NDArray[Any]:
        """Return the addresses of the newest bytes of some blocks: mostly the blocks' own addresses."""
        start, stop, cached = self.dirty
        if not len(start):
            return paddrs
        address = np.asarray(paddrs).astype(np.uint64)
        # An address before all runs wraps around to the last run, which does not contain it either.
        row = np.searchsorted(start, address, side="right") - 1
        is_inside = (address >= start[row]) & (address < stop[row])
        return np.where(is_inside, cached[row] + (address - start[row]), address)

    def split(self, paddrs: NDArray[Any]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Return the device and the byte offset on it, from the container's start, for block addresses."""
        # A bit of the byte address distinguishes the devices of a Fusion set; in block addresses it is shifted.
        mark = np.uint64(self.tier2_mark)
        addresses = np.asarray(paddrs).astype(np.uint64, copy=False)
        if addresses.max(initial=0) < mark:
            position = addresses.astype(np.int64)
            position *= self.block_size
            return np.zeros(len(addresses), np.uint8), position
        device = ((addresses & mark) != 0).astype(np.uint8)
        plain = np.minimum(addresses & ~mark, np.uint64(2**62 // self.block_size))
        return device, plain.astype(np.int64) * self.block_size

    def image_offset(self, paddrs: NDArray[Any]) -> NDArray[np.int64]:
        """Return the byte offset of each block in its own image."""
        return self.locate(paddrs)[1]

    def locate(self, paddrs: NDArray[Any]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Return the device and the byte offset in its image for block addresses."""
        device, position = self.split(paddrs)
        position += np.array((*self.image_offsets, 0), np.int64)[device] if device.any() else self.image_offsets[0]
        return device, position

    def at(self, paddr: int) -> int:
        """Return the byte offset of one block in its image."""
        return self.place(paddr)[0]

    def place(self, paddr: int) -> tuple[int, int]:
        """Return the byte offset of one block's newest bytes in their image, and the device of that image."""
        where = self.newest(np.array([min(max(paddr, 0), 2**64 - 1)], np.uint64))
        return int(self.image_offset(where)[0]), int(self.split(where)[0][0])

    @contextmanager
    def concerning(self, paddr: int) -> Iterator[None]:
        """Add the device of an object to errors about it."""
        try:
            yield
        except FormatError as error:
            error.device = self.place(paddr)[1]
            raise

    def present(self, paddrs: NDArray[Any], size_bytes: int) -> NDArray[np.bool_]:
        """Return which objects are entirely inside a given image."""
        device, position = self.split(self.newest(paddrs))
        sizes = np.array([source.size_bytes if source else 0 for source in (*self.sources, None)], np.int64)
        position += size_bytes
        inside: NDArray[np.bool_] = position <= (sizes[device] if device.any() else sizes[0])
        return inside

    def claimed(self, paddrs: NDArray[Any], size_bytes: int) -> NDArray[np.bool_]:
        """Return which objects are entirely inside the container, if their device's image is given."""
        device, position = self.split(self.newest(paddrs))
        is_given = np.array([source is not None for source in (*self.sources, None)], np.bool_)
        inside: NDArray[np.bool_] = position + size_bytes <= self.num_claimed * self.block_size
        # If one image of a set is missing, no source has its number.
        inside &= is_given[device]
        return inside | self.present(paddrs, size_bytes)

    def readable(self, paddrs: NDArray[Any], size_bytes: int) -> NDArray[np.bool_]:
        """Return which objects are entirely inside a given image, and were read into it."""
        result = self.present(paddrs, size_bytes)
        device, position = self.split(self.newest(paddrs))
        for number, source in enumerate(self.sources):
            if source is not None and len(unread := source.unread_ranges()):
                lost = overlaps(unread, position, np.full(len(position), size_bytes, np.int64))
                result &= ~(lost & (device == number))
        return result

    def read(self, paddrs: NDArray[Any], size_bytes: int) -> NDArray[np.uint8]:
        """Read objects of one size."""
        # The middle tree maps blocks that were written together, so an object of several blocks is cached as a whole.
        device, position = self.split(self.newest(paddrs))
        out: NDArray[np.uint8] | None = None
        for number, source in enumerate(self.sources):
            members = device == number
            if not members.any() or source is None:
                continue
            if members.all():
                return _read_from(source, position, size_bytes)
            out = np.empty((len(position), size_bytes), np.uint8) if out is None else out
            out[members] = _read_from(source, position[members], size_bytes)
        return np.empty((len(position), size_bytes), np.uint8) if out is None else out

    def wants(
        self, paddrs: NDArray[Any], size_bytes: int, take: Callable[[I64, U8], None], more: int = 0
    ) -> list[Want]:
        """List the reads for objects of one size; `take` receives some of them at a time, by position."""
        device, position = self.split(self.newest(paddrs))
        result = []
        for number, source in enumerate(self.sources):
            rows = np.flatnonzero(device == number)
            if source is not None and len(rows):
                hand = partial(lambda rows, got, data: take(rows[got], data), rows)
                result.append(Want(source, position[rows], size_bytes, hand, more))
        return result

    def read_object(self, paddr: int, size_bytes: int = 0) -> bytes:
        """Read one object."""
        size = size_bytes or self.block_size
        where = np.array([max(paddr, 0)], np.uint64)
        if paddr < 0 or not self.readable(where, size)[0]:
            at, device = self.place(max(paddr, 0))
            reason = "address outside the container"
            if paddr >= 0 and self.present(where, size)[0]:
                reason = "could not be read"
            elif device >= len(self.sources):
                reason = "it is on the device whose image was not given"
            error = FormatError(reason, structure=f"block {paddr}", image_offset=at)
            error.device = device
            raise error
        return self.read(where, size).tobytes()

    def decrypt(self, key: bytes, objects: U8, paddrs: NDArray[np.uint64], chosen: Mask) -> U8:
        """Decrypt those of many objects that are encrypted; the key consists of the data key and the tweak key."""
        plain, rows = objects.copy(), np.flatnonzero(chosen)
        size = objects.shape[1]
        # The tweak of each 512-byte unit is its number on the device, whatever the container's block size.
        first = paddrs[rows] * np.uint64(self.block_size // UNIT_BYTES)
        numbers = (first[:, None] + np.arange(size // UNIT_BYTES, dtype=np.uint64)).reshape(-1)
        stored = np.ascontiguousarray(objects[rows]).reshape(-1)
        plain[rows] = decrypt_units(key, stored, numbers).reshape(len(rows), size)
        return plain


def _read_from(source: Source, position: NDArray[np.int64], size_bytes: int) -> NDArray[np.uint8]:
    lengths = np.full(len(position), size_bytes, np.int64)
    return source.read_extents(position, lengths).reshape(len(position), size_bytes)


def is_authentic(prefix: bytes, salt: bytes, body: bytes, expected: bytes) -> bool:
    """Verify the HMAC of a key record; its key is a hash of a fixed prefix and the record's salt."""
    key = hashlib.sha256(prefix + salt).digest()
    return hmac.compare_digest(hmac.new(key, body, hashlib.sha256).digest(), expected)

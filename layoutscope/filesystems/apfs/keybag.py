"""Key bags: derive the key of a volume from a password.

Apple File System Reference, Encryption (Accessing Encrypted Objects). The container's key bag is encrypted with the
container's UUID. It holds each volume's wrapped key and the address of the volume's own key bag. That bag is encrypted
with the volume's UUID, and holds one wrapped key per user and per recovery key.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from layoutscope.display import Struct
from layoutscope.errors import FormatError
from layoutscope.filesystems.apfs.blocks import is_authentic
from layoutscope.image.crypto import password_key, unwrap_key
from layoutscope.structs import grammar
from layoutscope.structs.checksum import fletcher64
from layoutscope.structs.records import ENTRY_HEAD, KEYBAG, PRANGE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from layoutscope.filesystems.apfs.container import Container


MAX_BAG_BLOCKS: Final = 256
MAX_ITERATIONS: Final = 10_000_000
"""Limit for the PBKDF2 rounds of all records of a bag together: two seconds. macOS uses about 100,000 per record."""

ALIGNMENT: Final = 16
AES128_BYTES, AES256_BYTES = 16, 32
WRAPPING_BYTES: Final = 8
"""Number of bytes that RFC 3394 adds to a key."""


Entry: TypeAlias = tuple[bytes, int, bytes]
"""An entry of a key bag: UUID of its owner, type and data."""


class WrappedKey(Struct, frozen=True):
    """A wrapped key from its record."""

    uuid: bytes  # of the volume or user
    is_aes128: bool  # whether the key is 16 bytes long
    wrapped: bytes  # the key, wrapped according to RFC 3394
    iterations: int  # of PBKDF2; 0 if a key unwraps it, not a password
    salt: bytes  # of PBKDF2

    @property
    def key_bytes(self) -> int:
        """Length of the key."""
        return AES128_BYTES if self.is_aes128 else AES256_BYTES

    def unwrap(self, key: bytes) -> bytes | None:
        """Unwrap the key; None if the given key is wrong.

        A key of a volume that CoreStorage encrypted fills only the first part of its field.
        """
        return unwrap_key(key, self.wrapped[: WRAPPING_BYTES + self.key_bytes])


def read_keybag(container: Container, start_paddr: int, num_blocks: int, owner: bytes, structure: str) -> list[Entry]:
    """Read and decrypt a key bag."""
    data, where = decrypt_bag(container, (start_paddr, num_blocks), owner, structure), container.blocks.at(start_paddr)
    bag = grammar.parse(grammar.ApfsKeybag.Keybag, data, structure=structure, image_offset=where)
    return list(_entries(data, bag.locker.num_keys, structure, where))


def _entries(data: bytes, count: int, structure: str, image_offset: int) -> Iterator[Entry]:
    position, cls, name = KEYBAG.width, grammar.ApfsKeybag.Entry, f"{structure}, entry"
    for _ in range(count):
        parsed = grammar.parse(cls, data[position:], structure=name, image_offset=image_offset + position)
        yield bytes(parsed.head.uuid), parsed.head.tag, bytes(parsed.keydata)
        position += -(-(ENTRY_HEAD.width + parsed.head.len_key) // ALIGNMENT) * ALIGNMENT


def decrypt_bag(container: Container, run: tuple[int, int], owner: bytes, structure: str) -> bytes:
    """Read and decrypt the blocks of a key bag."""
    (start_paddr, num_blocks), blocks = run, container.blocks
    where = blocks.at(start_paddr)
    if not 0 < num_blocks <= MAX_BAG_BLOCKS:
        raise FormatError("impossible length", structure=structure, image_offset=where, found=str(num_blocks))
    stored = np.frombuffer(blocks.read_object(start_paddr, num_blocks * blocks.block_size), np.uint8)
    paddr = np.array([start_paddr], np.uint64)
    # A bag is encrypted with its owner's UUID as both keys of AES-XTS, so anyone with the superblock can read it (Apple
    # File System Reference, Encryption).
    plain = blocks.decrypt(owner + owner, stored[None, :], paddr, np.ones(1, bool))
    data = plain.tobytes()
    head = grammar.parse(grammar.ApfsObject.ObjPhys, data, structure=structure, image_offset=where)
    if int(fletcher64(plain)[0]) != head.cksum:
        raise FormatError("checksum differs after decryption", structure=structure, image_offset=where)
    return data


def container_keybag(container: Container) -> list[Entry]:
    """Read the container's key bag; return an empty list if there is none."""
    run = container.superblock.keylocker
    if not run.num_blocks:
        return []
    owner = bytes(container.superblock.uuid)
    return read_keybag(container, run.start_paddr, run.num_blocks, owner, "container key bag")


def volume_keybag_run(entries: list[Entry], volume_uuid: bytes) -> tuple[int, int] | None:
    """Return first block and length of a volume's key bag; None if the container's key bag does not name it."""
    wanted = volume_uuid, int(grammar.ApfsKeybag.KeybagTag.volume_unlock_records)
    for uuid, tag, data in entries:
        if (uuid, tag) == wanted and len(data) >= PRANGE.width:
            run = grammar.parse(grammar.ApfsObject.Prange, data, structure="volume key bag", image_offset=0)
            return run.start_paddr, run.num_blocks
    return None


def split_der(data: bytes) -> list[tuple[int, bytes, bytes]]:
    """Split DER values into tag, body, and the whole value with its header."""
    found, position = list[tuple[int, bytes, bytes]](), 0
    while position < len(data):
        rest, cls = data[position:], grammar.ApfsKeybag.DerValue
        value = grammar.parse(cls, rest, structure="key record", image_offset=position)
        body = bytes(value.body)
        end = value._debug["body"]["end"]  # noqa: SLF001  (positions of the grammar)
        found.append((value.tag, body, data[position : position + end]))
        position += end
    return found


def parse_wrapped_key(data: bytes) -> WrappedKey | None:
    """Parse a key record and check its HMAC; None if it is not authentic."""
    kinds = grammar.ApfsKeybag.KeyField
    outer = {tag: (body, whole) for tag, body, whole in split_der(split_der(data)[0][1])}
    record, whole = outer.get(int(kinds.key_record), (b"", b""))
    salt, expected = (
        outer.get(int(kinds.salt_or_flags), (b"", b""))[0],
        outer.get(int(kinds.hmac_or_uuid), (b"", b""))[0],
    )
    prefix = int(grammar.ApfsKeybag.KeySecret.hmac_prefix)
    secret = prefix.to_bytes(6, "big")
    if not is_authentic(secret, salt, whole, expected):
        return None
    inner = {tag: body for tag, body, _ in split_der(record)}
    flags = grammar.parse(
        grammar.ApfsKeybag.WrappedKeyFlags,
        inner.get(int(kinds.salt_or_flags), b""),
        structure="key record",
        image_offset=0,
    )
    # DER integers: big-endian.
    iterations = int(inner.get(int(kinds.iterations), b"").hex() or "0", 16)
    return WrappedKey(
        inner.get(int(kinds.hmac_or_uuid), b""),
        bool(flags.is_aes128),
        inner.get(int(kinds.wrapped_key), b""),
        iterations,
        inner.get(int(kinds.salt), b""),
    )


def unlock(container: Container, volume_uuid: bytes, password: str) -> bytes | None:
    """Find the key of a volume with a password or recovery key; None if it opens none of the volume's keys."""
    entries = container_keybag(container)
    run = volume_keybag_run(entries, volume_uuid)
    volume_key = _find_wrapped_keys(entries, volume_uuid, int(grammar.ApfsKeybag.KeybagTag.volume_key))
    if run is None or not volume_key:
        return None
    own = read_keybag(container, *run, volume_uuid, "volume key bag")
    left, refused = MAX_ITERATIONS, 0
    for record in _find_wrapped_keys(own, None, int(grammar.ApfsKeybag.KeybagTag.volume_unlock_records)):
        if not 0 < record.iterations <= left:
            refused = record.iterations
            continue
        left -= record.iterations
        # The password unwraps a key-encryption key in the volume's bag. That key unwraps the volume's own key, which is
        # in the container's bag. So a password can change without rewriting the volume.
        key = record.unwrap(password_key(password, record.salt, record.iterations, record.key_bytes))
        opened = volume_key[0].unwrap(key) if key else None
        if opened:
            return _volume_key(volume_key[0], opened)
    if refused:
        # If a key could not be tried, the password cannot be called wrong.
        raise FormatError(
            f"its keys ask for more than {MAX_ITERATIONS:,} rounds of PBKDF2 together; not all were tried",
            structure="volume key bag",
            image_offset=container.blocks.at(run[0]),
            found=f"{refused:,}",
        )
    return None


def _find_wrapped_keys(entries: list[Entry], owner: bytes | None, tag: int) -> list[WrappedKey]:
    """Return the key records with a tag, of one owner or of all."""
    records = [parse_wrapped_key(data) for uuid, own_tag, data in entries if own_tag == tag and owner in (None, uuid)]
    return [record for record in records if record is not None]


def _volume_key(record: WrappedKey, key: bytes) -> bytes:
    """Return both halves of the XTS key; a short key's second half is a hash of the key and the volume's UUID."""
    if not record.is_aes128:
        return key
    return key[:AES128_BYTES] + hashlib.sha256(key[:AES128_BYTES] + record.uuid).digest()[:AES128_BYTES]

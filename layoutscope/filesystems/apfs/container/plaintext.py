"""The bytes of an unlocked volume's nodes, for people who look at single nodes.

Apple File System Reference, Encryption. An encrypted node's checksum is that of its plain bytes: where the stored bytes
have the right one, they are not encrypted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

import numpy as np

from layoutscope.errors import FormatError
from layoutscope.filesystems.apfs.container.container import open_container
from layoutscope.filesystems.apfs.container.keybag import unlock
from layoutscope.findings import FindingLog
from layoutscope.ondisk import grammar
from layoutscope.ondisk.checksum import fletcher64
from layoutscope.ondisk.decoder import decoder_named

if TYPE_CHECKING:
    from layoutscope.filesystems.apfs.store.blocks import Blocks
    from layoutscope.filesystems.apfs.store.crypto import Cipher
    from layoutscope.image.source import Source


@dataclass(frozen=True, slots=True)
class Plaintext:
    """Decrypts nodes of one volume."""

    blocks: Blocks
    cipher: Cipher

    def of_node(self, data: bytes, device: int, image_offset: int) -> bytes:
        """Return the plain bytes of a node that was read from a place.

        Parameters
        ----------
        data : bytes
            As stored.
        device : int
            Which image of a Fusion set.
        image_offset : int
            Where it lies on that image, in bytes.
        """
        if _is_sound(data):
            return data
        paddr = (image_offset - self.blocks.image_offsets[device]) // self.blocks.block_size
        where = np.array([paddr + device * self.blocks.tier2_mark], np.uint64)
        stored = np.frombuffer(data, np.uint8)[None, :]
        plain = self.cipher.decrypt_objects(stored, where, np.ones(1, bool)).tobytes()
        return plain if _is_sound(plain) else data


def _is_sound(data: bytes) -> bool:
    """Tell whether an object's checksum is the right one."""
    head = grammar.parse(grammar.ApfsObject.ObjPhys, data, structure="object header", image_offset=0)
    return int(fletcher64(np.frombuffer(data, np.uint8)[None, :])[0]) == head.cksum


def plaintext_of(
    source: Source,
    *,
    image_offset: int,
    volume_uuid: str,
    password: str,
    second: tuple[Source, int] | None = None,
) -> Plaintext | None:
    """Unlock a volume.

    Parameters
    ----------
    source : Source
        The image.
    image_offset : int
        Where the container starts, in bytes.
    volume_uuid : str
        Of the volume.
    password : str
        Password or recovery key.
    second : (Source, int), optional
        The other image of a Fusion set.

    Returns
    -------
    Plaintext or None
        None if nothing can be unlocked: the volume is not encrypted by software, or this is not its password.
    """
    try:
        container = open_container((source, image_offset), decoder_named("bulk"), FindingLog(), second=second)
        if not container.superblock.is_crypto_sw:
            return None
        cipher = unlock(container, UUID(volume_uuid).bytes, password)
    except FormatError:
        return None
    return Plaintext(container.blocks, cipher) if cipher is not None else None

"""The key of an encrypted volume, or why it stays locked.

Apple File System Reference, Encryption: the keys lie in the container's keybag, wrapped by those that passwords and
recovery keys unwrap; where hardware encrypts, they never leave it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from layoutscope.errors import FormatError
from layoutscope.filesystems.apfs.container.keybag import unlock
from layoutscope.filesystems.apfs.volume.trees import is_encrypted

if TYPE_CHECKING:
    from layoutscope.filesystems.apfs.container.container import Container
    from layoutscope.filesystems.apfs.store.crypto import Cipher
    from layoutscope.filesystems.apfs.volume.volume import Volume


def cipher_of(
    container: Container,
    volume: Volume,  # the volume; None is returned if it is not encrypted
    password: str | None,
) -> Cipher | None:
    """Find the key of an encrypted volume; without one it stays locked, and a finding says why."""
    if not is_encrypted(volume):
        return None
    code, uuid = "volume-locked", bytes(volume.superblock.vol_uuid)
    if password is not None and container.superblock.is_crypto_sw:
        try:
            cipher = unlock(container, uuid, password)
            if cipher is not None:
                return cipher
        except FormatError as error:
            volume.log.survive(error)
        message = "the password opens none of the volume's keys"
    elif container.superblock.is_crypto_sw:
        message = "the volume is encrypted; a password or recovery key unlocks it"
    else:
        code = "volume-hardware-locked"
        message = (
            "the volume's keys are bound to the hardware that made them, so that no password unlocks an image: unlock "
            "it on the Mac it belongs to, and copy or clone it there to a disk of software encryption or none"
        )
    volume.log.at(f"volume {volume.name}", volume.paddr).add(code, "warning", message)
    return None

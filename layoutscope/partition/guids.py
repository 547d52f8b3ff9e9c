"""Types of GPT partitions by GUID."""

from __future__ import annotations

import uuid
from typing import Final

from layoutscope.filesystems.registry import promised_by

_NAMES: Final[dict[str, tuple[str, str]]] = {
    "53746f72-6167-11aa-aa11-00306543ecac": ("Apple CoreStorage", "corestorage"),
    "426f6f74-0000-11aa-aa11-00306543ecac": ("Apple Boot", ""),
    "52414944-0000-11aa-aa11-00306543ecac": ("Apple RAID", ""),
    "52414944-5f4f-11aa-aa11-00306543ecac": ("Apple RAID, offline", ""),
    "4c616265-6c00-11aa-aa11-00306543ecac": ("Apple Label", ""),
    "55465300-0000-11aa-aa11-00306543ecac": ("Apple UFS", ""),
    "c12a7328-f81f-11d2-ba4b-00a0c93ec93b": ("EFI System", ""),
    "21686148-6449-6e6f-744e-656564454649": ("BIOS Boot", ""),
    "ebd0a0a2-b9e5-4433-87c0-68b6b72699c7": ("Microsoft Basic Data", ""),
    "e3c9e316-0b5c-4db8-817d-f92df00215ae": ("Microsoft Reserved", ""),
    "de94bba4-06d1-4d40-a16a-bfd50179d6ac": ("Windows Recovery", ""),
    "0fc63daf-8483-4772-8e79-3d69d8477de4": ("Linux file system", ""),
    "0657fd6d-a4ab-43c4-84e5-0933c84b4f4f": ("Linux swap", ""),
    "e6d6d379-f507-44c2-a23c-238f2a3df928": ("Linux LVM", ""),
}


def name_of(type_guid: bytes) -> tuple[str, str]:
    """Name a partition type.

    Parameters
    ----------
    type_guid : bytes
        As on disk: the first three fields little-endian.

    Returns
    -------
    (str, str)
        Its name, the GUID itself where it has none; the kind of volume that it promises, or an empty string.
    """
    text = str(uuid.UUID(bytes_le=type_guid))
    promised = promised_by("gpt", text)
    if promised is not None:
        return promised.traits.partition_types.gpt[text], promised.name
    return _NAMES.get(text, (text, ""))

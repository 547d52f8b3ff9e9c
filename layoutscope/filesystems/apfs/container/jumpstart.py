"""The EFI jumpstart: where firmware finds the driver that boots from a container.

Apple File System Reference, EFI Jumpstart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from layoutscope.errors import FormatError
from layoutscope.filesystems.apfs.container.container import read_object
from layoutscope.filesystems.apfs.container.regions import Region
from layoutscope.ondisk import grammar
from layoutscope.ondisk.records import EFI_JUMPSTART

if TYPE_CHECKING:
    from layoutscope.filesystems.apfs.container.container import Container


def read_jumpstart(container: Container) -> list[Region]:
    """Read the boot record and locate the driver that it points to; nothing where a container has none."""
    paddr, blocks = container.superblock.efi_jumpstart, container.blocks
    if not paddr:
        return []
    regions = [Region("efi-jumpstart", "container superblock", paddr)]
    try:
        record = read_object(blocks, grammar.ApfsContainer.EfiJumpstart, paddr, "EFI jumpstart")
    except FormatError as error:
        container.log.survive(error)
        return regions
    room = sum(run.num_blocks for run in record.extents) * blocks.block_size
    if record.efi_file_len > room:
        log = container.log.at("EFI jumpstart", paddr, plus=EFI_JUMPSTART.efi_file_len.offset)
        message, found = "the driver is longer than its extents", record.efi_file_len
        log.add("structure-invalid", "warning", message, expected=f"at most {room}", found=found)
    return regions + [Region("efi-driver", "EFI jumpstart", run.start_paddr, run.num_blocks) for run in record.extents]

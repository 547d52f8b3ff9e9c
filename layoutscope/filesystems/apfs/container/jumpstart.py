"""The EFI jumpstart: where firmware finds the driver that boots from a container.

Apple File System Reference, EFI Jumpstart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from layoutscope.errors import FormatError
from layoutscope.filesystems.apfs.container.container import read_object
from layoutscope.filesystems.apfs.container.regions import Region
from layoutscope.findings import Finding, from_error
from layoutscope.ondisk import grammar
from layoutscope.ondisk.records import EFI_JUMPSTART

if TYPE_CHECKING:
    from layoutscope.filesystems.apfs.container.container import Container


def read_jumpstart(container: Container, findings: list[Finding]) -> list[Region]:
    """Read the boot record and locate the driver that it points to; nothing where a container has none."""
    paddr, blocks = container.superblock.efi_jumpstart, container.blocks
    if not paddr:
        return []
    regions = [Region("efi-jumpstart", "container superblock", paddr)]
    try:
        record = read_object(blocks, grammar.ApfsContainer.EfiJumpstart, paddr, "EFI jumpstart")
    except FormatError as error:
        findings.append(from_error(error))
        return regions
    room = sum(run.num_blocks for run in record.extents) * blocks.block_size
    if record.efi_file_len > room:
        where = blocks.at(paddr) + EFI_JUMPSTART.efi_file_len.offset
        message, sides = "the driver is longer than its extents", (f"at most {room}", str(record.efi_file_len))
        findings.append(Finding("structure-invalid", "warning", "EFI jumpstart", where, message, *sides))
    return regions + [Region("efi-driver", "EFI jumpstart", run.start_paddr, run.num_blocks) for run in record.extents]

"""Rules of the allocation zones of a versioned space manager.

Apple File System Reference, spaceman_allocation_zone_info_phys_t, names them without a word; apfsck knows more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from layoutscope.filesystems.apfs.check.object_fields import OBSERVED, REFERENCE, RESERVED
from layoutscope.filesystems.apfs.check.space import INVALID
from layoutscope.ondisk.fieldrules import ZERO, FieldRule, Structures, at_most, check_fields, rules
from layoutscope.ondisk.records import DATAZONE, SPACEMAN_PHYS

if TYPE_CHECKING:
    from layoutscope.filesystems.apfs.check.subject import Subject
    from layoutscope.findings import FindingLog

SPACE, ZONES = SPACEMAN_PHYS, DATAZONE.zones
_PREVIOUS: Final = 7
"""Earlier places of a zone."""

ZONE_RULES: Final[tuple[FieldRule[None], ...]] = rules(
    INVALID,
    f"{REFERENCE}, spaceman_allocation_zone_info_phys_t; {OBSERVED}",
    (ZONES.reserved, ZERO, RESERVED),
    (ZONES.previous_boundary_index, at_most(_PREVIOUS), "there is no such earlier place"),
    level="warning",
)
"""Rules of the zones of a versioned space manager."""


def check_zones(subject: Subject, paddr: int) -> None:
    """A zone without number has no blocks, and one without earlier places none of those."""
    decoder, blocks = subject.container.decoder, subject.container.blocks
    data = blocks.read(np.array([paddr], np.uint64), blocks.block_size).reshape(-1)
    structures = Structures(DATAZONE, data, np.array([SPACE.width]), decoder)

    def at(_: int, plus: int) -> FindingLog:
        return subject.log.at("space manager", paddr, plus=SPACE.width + plus)

    check_fields(structures, ZONE_RULES, None, at)
    fields = (
        *(ZONES.zone_id, ZONES.previous_boundary_index, ZONES.current.start_paddr, ZONES.current.stop_paddr),
        *(ZONES.previous.start_paddr, ZONES.previous.stop_paddr),
    )
    found = decoder.columns(DATAZONE, data, structures.starts, fields)
    has_number, index = found[ZONES.zone_id][0] != 0, found[ZONES.previous_boundary_index][0]
    for part, is_used in (
        (ZONES.current, has_number),
        (ZONES.previous, np.repeat((index != 0)[:, None], _PREVIOUS, axis=1)),
    ):
        start, stop = found[part.start_paddr][0], found[part.stop_paddr][0]
        # Of earlier places some may be free; a zone that is used has blocks.
        is_set = np.ones(start.shape, bool) if part is ZONES.current else (start | stop) != 0
        for field, wrong, message in (
            (part.start_paddr, ~is_used & (start != 0), "blocks of a zone that is not used"),
            (part.stop_paddr, ~is_used & (stop != 0), "blocks of a zone that is not used"),
            (part.stop_paddr, is_used & (start >= stop) & is_set, "before the start of the zone"),
        ):
            for place in np.argwhere(wrong)[:1].tolist():
                plus = field.offset + sum(n * stride for n, stride in zip(place, field.strides, strict=True))
                at(0, plus).add(INVALID, "warning", f"{field}: {message}")

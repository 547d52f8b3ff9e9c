"""Members of AppleRAID sets: a mirror is read; a set that is spread over several members is only named.

Since Mac OS X 10.4, the last 4,096 bytes of a member hold a header with a property list (AppleRAIDMember.h); earlier,
the first ones held a header.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from layoutscope.errors import UnreadError
from layoutscope.filesystems.content import Content, parse_at
from layoutscope.findings import Finding
from layoutscope.image.source import Window
from layoutscope.partition.corestorage import get_value
from layoutscope.structs import grammar
from layoutscope.structs.records import FORMER_RAID_HEADER, RAID_HEADER

if TYPE_CHECKING:
    from collections.abc import Callable

    from layoutscope.image.source import Source

HEADER_BYTES: Final = 4096
"""Size of a header with the data after it."""


def identify_member(
    source: Source, image_offset: int, size_bytes: int, recognise: Callable[[Source, int, int], Content]
) -> Content | None:
    """Describe the content of a member of a set; None if the stretch is not a member."""
    stretch = Window(source, image_offset, size_bytes)
    label_at = size_bytes // HEADER_BYTES * HEADER_BYTES - HEADER_BYTES
    # An old member begins with its header, which has other fields.
    header: grammar.Foreign.RaidHeader | None = parse_at(stretch, RAID_HEADER, label_at) if label_at else None
    if header is not None:
        text = b""
        with suppress(UnreadError):
            text = stretch.read(label_at + RAID_HEADER.width, HEADER_BYTES - RAID_HEADER.width)
        listed = _MEMBERS.search(text)
        members = _MEMBER.findall(listed[1]) if listed else []
        own = header.member_uuid.split(b"\0", 1)[0]
        number, num_members = members.index(own) + 1 if own in members else 0, len(members)
        level = get_value(text, "AppleRAID-LevelName", "string").lower()
        set_name, offset = get_value(text, "AppleRAID-SetName", "string"), 0
    else:
        former: grammar.Foreign.FormerRaidHeader | None = parse_at(stretch, FORMER_RAID_HEADER, 0)
        if former is None or former.len_header != HEADER_BYTES:
            return None
        level = former.level.name if isinstance(former.level, grammar.Foreign.RaidLevel) else ""
        set_name = former.set_name.split(b"\0", 1)[0].decode(errors="replace")
        number, num_members, offset = former.member_index + 1, former.num_members, HEADER_BYTES
    label = f"AppleRAID {level}" if level else "AppleRAID"
    about = f"{f'member {number} of {num_members}' if number else 'a member'} of set {set_name!r:.200}"
    unread_content = Content("appleraid", label, 0, size_bytes, about=about)
    # A stripe holds only every second piece, and a later member of a concatenation has no start of a volume.
    if level != "mirror" and (level != "concat" or number != 1):
        return unread_content
    content = recognise(source, image_offset + offset, size_bytes - offset)
    if content.kind == "unknown":
        return unread_content
    findings, at = content.findings, offset + content.volume_offset
    if level == "concat" and num_members > 1:
        message = f"is {about}; the data on the others is not in this image"
        findings += (Finding("image-incomplete", "error", label, image_offset + at, message),)
    return content._replace(volume_offset=at, layers=(label, *content.layers), findings=findings)


_MEMBERS: Final = re.compile(rb"(?s)<key>AppleRAID-Members</key>\s*<array[^>]*>(.*?)</array>")
_MEMBER: Final = re.compile(rb"<string[^>]*>([^<]*)<")

"""Members of AppleRAID sets: a mirror is read, what is spread over several members is named.

Since Mac OS X 10.4 a header with a property list is in the last 4,096 bytes of a member (AppleRAIDMember.h); before
it was in the first ones.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from layoutscope.errors import UnreadError
from layoutscope.filesystems.recognition import Content, parse_at
from layoutscope.findings import Finding
from layoutscope.image.source import Window
from layoutscope.structs import grammar
from layoutscope.structs.records import FORMER_RAID_HEADER, RAID_HEADER

if TYPE_CHECKING:
    from collections.abc import Callable

    from layoutscope.image.source import Source

HEADER_BYTES: Final = 4096
"""Size of a header with the data after it."""


def member_content(
    source: Source, image_offset: int, size_bytes: int, recognise: Callable[[int, int], Content]
) -> Content | None:
    """Describe what a member of a set holds; None if the stretch is none."""
    member = _member(Window(source, image_offset, size_bytes), size_bytes)
    if member is None:
        return None
    level, set_name, number, num_members, offset = member
    label = f"AppleRAID {level}" if level else "AppleRAID"
    about = f"{f'member {number} of {num_members}' if number else 'a member'} of set {set_name!r:.200}"
    named = Content("appleraid", label, 0, size_bytes, about=about)
    # A stripe has every second piece alone, and a later one of a row of members no start.
    if level != "mirror" and (level != "concat" or number != 1):
        return named
    found = recognise(image_offset + offset, size_bytes - offset)
    if found.kind == "unknown":
        return named
    findings, at = found.findings, offset + found.volume_offset
    if level == "concat" and num_members > 1:
        message = f"is {about}; the data on the others is not in this image"
        findings += (Finding("image-incomplete", "error", label, image_offset + at, message),)
    return found._replace(volume_offset=at, layers=(label, *found.layers), findings=findings)


def _member(stretch: Window, size_bytes: int) -> tuple[str, str, int, int, int] | None:
    """Read what a member says of itself.

    The level of its set (``stripe``, ``mirror`` or ``concat``, or whatever it says) and its name, which of how many it
    is, and where its data begin.
    """
    at = size_bytes // HEADER_BYTES * HEADER_BYTES - HEADER_BYTES
    # What begins with a header is an old member, whose header has other fields.
    header: grammar.Foreign.RaidHeader | None = parse_at(stretch, RAID_HEADER, at) if at else None
    if header is not None:
        from html import unescape

        text = _text(stretch, at + RAID_HEADER.width, HEADER_BYTES - RAID_HEADER.width)
        members = _MEMBER.findall(_value(text, _LIST.format("Members")))
        own = header.member_uuid.split(b"\0", 1)[0]
        number = members.index(own) + 1 if own in members else 0
        level, name = (_value(text, _STRING.format(key)).decode(errors="replace") for key in ("LevelName", "SetName"))
        return level.lower(), unescape(name), number, len(members), 0
    former: grammar.Foreign.FormerRaidHeader | None = parse_at(stretch, FORMER_RAID_HEADER, 0)
    if former is None or former.len_header != HEADER_BYTES:
        return None
    level = former.level.name if isinstance(former.level, grammar.Foreign.RaidLevel) else ""
    name = former.set_name.split(b"\0", 1)[0].decode(errors="replace")
    return level, name, former.member_index + 1, former.num_members, HEADER_BYTES


def _text(stretch: Window, at: int, length: int) -> bytes:
    try:
        return stretch.read(at, length)
    except UnreadError:
        return b""


_STRING: Final = r"<key>AppleRAID-{}</key>\s*<string[^>]*>([^<]*)<"
_LIST: Final = r"(?s)<key>AppleRAID-{}</key>\s*<array[^>]*>(.*?)</array>"
_MEMBER: Final = re.compile(rb"<string[^>]*>([^<]*)<")


def _value(text: bytes, pattern: str) -> bytes:
    found = re.search(pattern.encode(), text)
    return found[1] if found else b""

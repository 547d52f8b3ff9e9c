"""The choice between the two decoders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

from layoutscope.filesystems.hfsplus import decode_bulk, decode_grammar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from layoutscope.arrays.columns import I64, U8, Columns

DecoderName = Literal["bulk", "grammar"]


class Decoder(Protocol):
    """What both decoder modules offer."""

    def columns(self, type_name: str, buffer: U8, starts: I64, fields: Sequence[str]) -> Columns:
        """Decode some fields of many structures."""
        ...


def choose(name: DecoderName) -> Decoder:
    """Return a decoder by its name."""
    return decode_bulk if name == "bulk" else decode_grammar

"""The choice between the two decoders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol

from layoutscope.filesystems.apfs.store import decode_bulk, decode_grammar

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from layoutscope.filesystems.apfs.store.xfields import ExtendedFields

DecoderName = Literal["bulk", "grammar"]


class Decoder(Protocol):
    """What both decoder modules offer."""

    def columns(
        self,
        type_name: str,
        buffer: NDArray[np.uint8],
        starts: NDArray[np.int64],
        fields: Sequence[str],
        lengths_bytes: NDArray[np.integer] | None = None,
    ) -> dict[str, NDArray[Any]]:
        """Decode some fields of many structures."""
        ...

    def extended_fields(
        self, buffer: NDArray[np.uint8], starts: NDArray[np.int64], lengths_bytes: NDArray[np.integer]
    ) -> ExtendedFields:
        """Locate every extended field of many values."""
        ...


def choose(name: DecoderName) -> Decoder:
    """Return a decoder by its name."""
    return decode_bulk if name == "bulk" else decode_grammar

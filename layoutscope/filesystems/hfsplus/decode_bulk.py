"""Fields of many structures, gathered through the generated dtypes.

One of two twins: :mod:`.decode_grammar` returns the same arrays through the compiled grammars.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from layoutscope.ondisk import bulk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from layoutscope.arrays.columns import I64, U8, Columns


def columns(type_name: str, buffer: U8, starts: I64, fields: Sequence[str]) -> Columns:
    """Decode some fields of many structures.

    Parameters
    ----------
    type_name : str
        Full name of the grammar type.
    buffer : (n_bytes,) uint8 array
        Where the structures lie.
    starts : (n,) int64 array
        Their starts, in bytes from the start of the buffer.
    fields : sequence of str
        Dotted names of fields of the fixed prefix, or of instances; a repeated field adds an axis.

    Returns
    -------
    dict of str to (n,) or (n, k) array
        In native byte order.

    Raises
    ------
    FormatError
        If a structure's fixed prefix does not fit into the buffer.
    """
    return bulk.columns(type_name, buffer, starts, fields)

"""Opening an image, whatever it is wrapped into."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from layoutscope import image
from layoutscope.containers import udif
from layoutscope.errors import LayoutscopeError, UnsupportedError
from layoutscope.image.containers import has_udif_trailer

if TYPE_CHECKING:
    import os

    from layoutscope.image import Source
    from layoutscope.image.unpack import Progress

MAX_DEPTH: Final = 4
"""Containers within containers; more is no disk that anyone made."""


def open_image(
    path: str | os.PathLike[str],
    *,
    map_file: str | os.PathLike[str] | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    second: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> Source:
    """Open an image as :func:`layoutscope.image.open_image` does, and what lies in containers in it.

    Raises
    ------
    ImageError, UnsupportedError, FormatError
        If it cannot be opened.
    """
    source = image.open_image(path, map_file=map_file, cache_dir=cache_dir, second=second, progress=progress)
    try:
        unwrapped = unwrap(source)
        if source.second is not None:
            unwrapped.second = unwrap(source.second)
    except LayoutscopeError:
        source.close()
        raise
    return unwrapped


def unwrap(source: Source) -> Source:
    """Return the innermost disk of nested containers; the source itself where there is none.

    Raises
    ------
    UnsupportedError
        If containers are nested too deeply.
    """
    for _ in range(MAX_DEPTH):
        if not has_udif_trailer(source):
            return source
        source = udif.open_udif(source)
    raise UnsupportedError(f"{source.name}: holds disk images within disk images", code="nested-containers")

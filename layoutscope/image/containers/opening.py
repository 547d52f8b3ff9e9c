"""Opening an image, whatever it is wrapped into."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from layoutscope import image
from layoutscope.errors import LayoutscopeError, UnsupportedError
from layoutscope.image.containers import bundle, foreign, udif
from layoutscope.image.containers.encrypted import refuse_encrypted
from layoutscope.image.signatures import has_udif_trailer, head_of, identify, refuse_containers, trailer_of

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
    source = _opened(Path(path), map_file=map_file, cache_dir=cache_dir, progress=progress)
    try:
        if second is not None:
            source.second = _opened(Path(second), cache_dir=cache_dir, progress=progress)
    except LayoutscopeError:
        source.close()
        raise
    return source


def _opened(path: Path, **options: Any) -> Source:
    if bundle.is_bundle(path):
        source: Source = bundle.SparseBundle(path)
    else:
        source = image.open_image(path, refuse=False, **options)
    try:
        refuse_encrypted(source)
        inside = unwrap(source)
        if not has_udif_trailer(inside):
            refuse_containers(inside)
    except LayoutscopeError:
        source.close()
        raise
    return inside


def unwrap(source: Source) -> Source:
    """Return the innermost disk of nested containers; the source itself where there is none.

    Raises
    ------
    UnsupportedError
        If containers are nested too deeply, or what reads one of them is not installed.
    """
    for _ in range(MAX_DEPTH):
        if has_udif_trailer(source):
            source = udif.open_udif(source)
            continue
        found = identify(head_of(source), trailer_of(source))
        if found is None or not found.reader:
            return source
        source = foreign.open_foreign(source, found)
    raise UnsupportedError(f"{source.name}: holds disk images within disk images", code="nested-containers")

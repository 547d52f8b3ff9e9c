"""The images that are read together: one as a rule, two of a Fusion set.

A Fusion drive is one volume on two devices. Its tables number them (column ``device``): 0 is the image that was named,
1 the other one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from layoutscope.errors import LayoutscopeError
from layoutscope.image.opening import open_image

if TYPE_CHECKING:
    import os
    from types import TracebackType

    from layoutscope.image.source import Source
    from layoutscope.image.unpack import Progress


@dataclass(frozen=True, slots=True)
class ImageSet:
    """Open images, by the number of their device."""

    main: Source
    second: Source | None = None

    @property
    def devices(self) -> tuple[Source, ...]:
        """The images in order."""
        return (self.main,) if self.second is None else (self.main, self.second)

    def device(self, number: int) -> Source:
        """Return the image of a device; the main one where a row names another that is not there."""
        return self.devices[number] if 0 <= number < len(self.devices) else self.main

    def close(self) -> None:
        """Close all images."""
        for source in self.devices:
            source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_images(
    path: str | os.PathLike[str],
    *,
    second: str | os.PathLike[str] | None = None,
    map_file: str | os.PathLike[str] | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> ImageSet:
    """Open an image, and the other one of a Fusion set.

    Parameters
    ----------
    path : path
        As for :func:`layoutscope.image.open_image`.
    second : path, optional
        The image of the other device of a Fusion set.
    map_file : path, optional
        ddrescue's map of the first image.
    cache_dir : path, optional
        Where decompressed images are kept.
    progress : callable, optional
        Called while an image is decompressed, with compressed bytes done and in all.

    Raises
    ------
    ImageError, UnsupportedError, FormatError
        If one of them cannot be opened.
    """
    main = open_image(path, map_file=map_file, cache_dir=cache_dir, progress=progress)
    if second is None:
        return ImageSet(main)
    try:
        return ImageSet(main, open_image(second, cache_dir=cache_dir, progress=progress))
    except LayoutscopeError:
        main.close()
        raise

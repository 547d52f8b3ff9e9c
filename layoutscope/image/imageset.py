"""The images that are read together: one as a rule, two of a Fusion set.

A Fusion drive is one volume on two devices. Its tables number them (column ``device``): 0 is the image that was named,
1 the other one.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from layoutscope.image.opening import open_image

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from layoutscope.image.source import Source
    from layoutscope.options import ReadRequest


@dataclass(frozen=True, slots=True)
class ImageSet:
    """Open images: the one that was named, and the other one of a set."""

    main: Source
    second: Source | None = None

    @property
    def devices(self) -> tuple[Source, ...]:
        """The images by the number of their device."""
        return (self.main,) if self.second is None else (self.main, self.second)


@contextmanager
def open_images(path: str | os.PathLike[str], request: ReadRequest) -> Iterator[ImageSet]:
    """Open an image, and the other one of a Fusion set, until the context ends.

    Raises
    ------
    ImageError, UnsupportedError, FormatError
        If one of them cannot be opened.
    """
    kept, progress = request.cache_dir, request.progress
    with ExitStack() as stack:
        main = stack.enter_context(open_image(path, map_file=request.map_file, cache_dir=kept, progress=progress))
        if request.second is None:
            yield ImageSet(main)
        else:
            yield ImageSet(main, stack.enter_context(open_image(request.second, cache_dir=kept, progress=progress)))

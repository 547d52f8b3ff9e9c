"""The images that are read together: one as a rule, two of a Fusion set.

A Fusion drive is one volume on two devices. Its tables number them (column ``device``): 0 is the image that was named,
1 the other one.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from layoutscope.image.opening import open_image
from layoutscope.ondisk.decoder import decoder_named

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
    wanted = partial(
        open_image, cache_dir=request.cache_dir, progress=request.progress, decoder=decoder_named(request.decoder)
    )
    with ExitStack() as stack:
        main = stack.enter_context(wanted(path, map_file=request.map_file))
        yield ImageSet(main, None if request.second is None else stack.enter_context(wanted(request.second)))

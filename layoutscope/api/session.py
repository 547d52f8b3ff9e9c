"""``open``: an image that is read once and asked many things."""

from __future__ import annotations

from contextlib import ExitStack
from typing import IO, TYPE_CHECKING, Any

import layoutscope
from layoutscope.api.images import OpenImage
from layoutscope.api.keywords import as_method, takes
from layoutscope.api.reading import opened, request_of
from layoutscope.options import MapOptions, ReadOptions
from layoutscope.progress import reporting

if TYPE_CHECKING:
    import os
    from typing import Self, Unpack

    from layoutscope.results.scan import ScanResult


@takes(ReadOptions, "open")
def open_session(path: str | os.PathLike[str], **options: Unpack[ReadOptions]) -> Session:
    """Open an image and read it once, for many questions.

    Parameters
    ----------
    path : path
        The image, or a capture.
    **options
        See :class:`~layoutscope.options.ReadOptions`.

    Returns
    -------
    Session
        Its verbs are those of the library; what they need of the image is there. Closed by ``close`` or by the end of a
        ``with``.

    Raises
    ------
    TypeError
        If there is no such keyword.
    LayoutscopeError
        If the image cannot be opened, or nothing on it can be read.

    Examples
    --------
    >>> import layoutscope
    >>> with layoutscope.open("fixtures/images/hfsplus-scattered.img.zst") as session:
    ...     scanned = session.scan(drives="generic-7200")
    ...     listed = session.predict(order="names", drives="generic-7200")
    ...     session.volume.facts.view
    'live'
    >>> listed.volumes[0].drives[0].prediction.seconds < scanned.volume.predictions[0].seconds
    True
    """
    return Session(path, request_of(options, path))


class _Verb:
    """A verb of the library as a method of a session: loaded when it is first used, without the options of reading."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, session: object, owner: type) -> Any:
        method = as_method(getattr(layoutscope, self._name))
        setattr(owner, self._name, method)
        return getattr(owner if session is None else session, self._name)


class Session(OpenImage):
    """An open image; every verb of the library takes it in place of a path, and the usual ones are methods of it.

    Parameters
    ----------
    path : path
        The image.
    request : ReadOptions
        How it is read.
    """

    def __init__(self, path: str | os.PathLike[str], request: ReadOptions) -> None:
        self._open = ExitStack()
        # Whoever listens to progress is told while a verb works, and not from here until the session is closed.
        with reporting(request["progress"]):
            image = self._open.enter_context(opened(path, {**request, "progress": None}))
        super().__init__(path, request, image)

    def close(self) -> None:
        """Let go of the image; tables and results that were taken from it stay."""
        self._opened = None
        self._open.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        if self._opened is None:
            return f"Session({self.path!r:.120}, closed)"
        return f"Session({self.path!r:.120}, {self.volumes!r:.150})"

    def _repr_html_(self) -> str | None:
        """Show the volumes in a notebook; a closed session has none."""
        return None if self._opened is None else self.volumes._repr_html_()

    if TYPE_CHECKING:
        # Options of reading are refused at run time: the image is open already.
        check = layoutscope.check
        export = layoutscope.export
        inspect = layoutscope.inspect
        predict = layoutscope.predict
        scan = layoutscope.scan
        trace = layoutscope.trace
    else:
        check, export, inspect, predict, scan, trace = (_Verb() for _ in range(6))

    @as_method
    @takes(MapOptions)
    def map(self, target: str | os.PathLike[str] | IO[bytes], **options: Unpack[MapOptions]) -> ScanResult:
        """Write the map of the image, see :func:`layoutscope.map`.

        Parameters
        ----------
        target : path or binary file
            Where to.
        **options
            See :class:`~layoutscope.options.MapOptions`.
        """
        return layoutscope.map(self, target, **options)[0]

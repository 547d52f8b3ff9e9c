"""``open``: an image that is read once and asked many things."""

from __future__ import annotations

from contextlib import ExitStack
from typing import IO, TYPE_CHECKING

from layoutscope.api.keywords import takes
from layoutscope.api.reading import OpenImage, make_request, open_volumes
from layoutscope.options import (
    ExportOptions,
    InspectOptions,
    MapOptions,
    PredictOptions,
    ReadOptions,
    ScanOptions,
    TraceOptions,
)
from layoutscope.progress import reporting

if TYPE_CHECKING:
    import os
    from typing import Self, Unpack

    from layoutscope.access.trace import AccessTrace
    from layoutscope.options import Predict
    from layoutscope.results.check import CheckResult
    from layoutscope.results.inspect import Inspection
    from layoutscope.results.predict import PredictResult
    from layoutscope.results.scan import ScanResult


@takes(ReadOptions, "open")
def open_session(path: str | os.PathLike[str], **options: Unpack[ReadOptions]) -> Session:
    """Open an image and read it once, for many questions.

    Parameters
    ----------
    path : path
        The image, or a capture.

    Returns
    -------
    Session
        Its verbs are those of the library; what they need of the image is there. Closed by ``close`` or by the end of a
        ``with``.

    Raises
    ------
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
    return Session(path, make_request(options, path))


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
        # Progress listeners are called while a verb works, not from here until the session is closed.
        with reporting(request["progress"]):
            image = self._open.enter_context(open_volumes(path, {**request, "progress": None}))
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

    def check(self) -> CheckResult:
        """Check the structures of the image, see :func:`layoutscope.check`."""
        from layoutscope.api.check import check

        return check(self)

    @takes(ExportOptions, is_open=True)
    def export(
        self, table: str | None, target: str | os.PathLike[str] | IO[bytes], **options: Unpack[ExportOptions]
    ) -> None:
        """Write a table of all volumes, or a document, see :func:`layoutscope.export`.

        Parameters
        ----------
        table : str or None
            One of the names in :data:`layoutscope.tables.TABLES`; None for a document.
        target : path or binary file
            The file to write.
        """
        from layoutscope.api.export import export

        export(self, table, target, **options)

    @takes(InspectOptions, is_open=True)
    def inspect(self, **options: Unpack[InspectOptions]) -> Inspection:
        """Show the structure at a place, and who owns it, see :func:`layoutscope.inspect`."""
        from layoutscope.api.inspect import inspect

        return inspect(self, **options)

    @takes(MapOptions, is_open=True)
    def map(self, target: str | os.PathLike[str] | IO[bytes], **options: Unpack[MapOptions]) -> ScanResult:
        """Write the map of the image, see :func:`layoutscope.map`.

        Parameters
        ----------
        target : path or binary file
            The file to write.
        """
        from layoutscope.api.map import map_images

        return map_images(self, target, **options)[0]

    @takes(PredictOptions, is_open=True)
    def predict(self, *, workload: Predict | None = None, **options: Unpack[PredictOptions]) -> PredictResult:
        """Predict what a workload costs, see :func:`layoutscope.predict`.

        Parameters
        ----------
        workload : Predict, optional
            The keywords from ``order`` to ``placement`` together, for those who keep them in a dictionary.
        """
        from layoutscope.api.predict import predict

        return predict(self, workload=workload, **options)

    @takes(ScanOptions, is_open=True)
    def scan(self, **options: Unpack[ScanOptions]) -> ScanResult:
        """Scan the image, see :func:`layoutscope.scan`."""
        from layoutscope.api.scan import scan

        return scan(self, **options)

    @takes(TraceOptions, is_open=True)
    def trace(self, **options: Unpack[TraceOptions]) -> AccessTrace:
        """Work out the reads of a workload, see :func:`layoutscope.trace`."""
        from layoutscope.api.trace import trace

        return trace(self, **options)

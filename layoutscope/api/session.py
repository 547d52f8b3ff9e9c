"""``open``: an image that is read once and asked many things."""

from __future__ import annotations

from contextlib import ExitStack
from typing import IO, TYPE_CHECKING

from msgspec.structs import replace

from layoutscope.api.images import OpenImage
from layoutscope.api.keywords import takes
from layoutscope.api.reading import opened, request_of
from layoutscope.options import Enumeration, InspectPlace, Predict, ReadOptions, Workload
from layoutscope.progress import reporting

if TYPE_CHECKING:
    import os
    from typing import Self, Unpack

    from layoutscope.access.trace import AccessTrace
    from layoutscope.options import Drives, ReadRequest
    from layoutscope.results.check import CheckResult
    from layoutscope.results.inspect import Inspection
    from layoutscope.results.predict import PredictResult
    from layoutscope.results.scan import ScanResult


@takes(ReadOptions, called="open")
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


class Session(OpenImage):
    """An open image; every verb of the library takes it in place of a path, and the usual ones are methods of it.

    Parameters
    ----------
    path : path
        The image.
    request : ReadRequest
        How it is read.
    """

    def __init__(self, path: str | os.PathLike[str], request: ReadRequest) -> None:
        self._open = ExitStack()
        # Whoever listens to progress is told while a verb works, and not from here until the session is closed.
        with reporting(request.progress):
            image = self._open.enter_context(opened(path, replace(request, progress=None)))
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

    @takes(Enumeration)
    def scan(self, *, strict: bool = False, identify: bool = False, **asked: Unpack[Enumeration]) -> ScanResult:
        """Scan the image, see :func:`layoutscope.scan`.

        Parameters
        ----------
        strict : bool
            Whether damage is an error instead of a finding.
        identify : bool
            Whether the metadata are hashed, as for a capture.
        **options
            See :class:`~layoutscope.options.Enumeration`.
        """
        from layoutscope.api.scan import scan

        return scan(self, strict=strict, identify=identify, **asked)

    @takes(Workload, Predict)
    def predict(
        self,
        *,
        drives: Drives | None = None,
        ncdu: str | os.PathLike[str] | None = None,
        force: bool = False,
        **asked: Unpack[Predict],
    ) -> PredictResult:
        """Predict what a workload costs, see :func:`layoutscope.predict`.

        Parameters
        ----------
        drives : str or sequence of str, optional
            On which drives.
        ncdu : path, optional
            Where the costs of directories are written.
        force : bool
            Whether an existing file is overwritten.
        **options
            What is done, and what is asked about it: :class:`~layoutscope.options.Workload`, and of
            :class:`~layoutscope.options.Predict` the rest.
        """
        from layoutscope.api.predict import predict

        return predict(self, drives=drives, ncdu=ncdu, force=force, **asked)

    @takes(Workload)
    def trace(self, **work: Unpack[Workload]) -> AccessTrace:
        """Work out the reads of a workload, see :func:`layoutscope.trace`.

        Parameters
        ----------
        **options
            See :class:`~layoutscope.options.Workload`.
        """
        from layoutscope.api.trace import trace

        return trace(self, **work)

    @takes(Enumeration)
    def map(
        self,
        target: str | os.PathLike[str],
        *,
        picture: str | os.PathLike[str] | None = None,
        all_paths: bool = False,
        force: bool = False,
        **asked: Unpack[Enumeration],
    ) -> ScanResult:
        """Write the map of the image, see :func:`layoutscope.map`.

        Parameters
        ----------
        target : path
            Where to.
        picture : path, optional
            Where an overview goes as PNG or SVG.
        all_paths : bool
            Whether every path can be searched, however many there are.
        force : bool
            Whether existing files are overwritten.
        **options
            See :class:`~layoutscope.options.Enumeration`.
        """
        from layoutscope.api.map import map_images

        return map_images(self, target, picture=picture, all_paths=all_paths, force=force, **asked)[0]

    @takes(InspectPlace)
    def inspect(self, **place: Unpack[InspectPlace]) -> Inspection:
        """Show the structure at a place, and who owns it, see :func:`layoutscope.inspect`.

        Parameters
        ----------
        **options
            See :class:`~layoutscope.options.InspectPlace`.
        """
        from layoutscope.api.inspect import inspect

        return inspect(self, **place)

    def check(self) -> CheckResult:
        """Check the structures of the image, see :func:`layoutscope.check`."""
        from layoutscope.api.check import check

        return check(self)

    def export(
        self,
        table: str,
        target: str | os.PathLike[str] | IO[bytes],
        *,
        file_format: str = "csv",
        force: bool = False,
    ) -> None:
        """Write one table of all volumes, see :func:`layoutscope.export`.

        Parameters
        ----------
        table : str
            One of the names in :data:`layoutscope.tables.TABLES`.
        target : path or binary file
            Where to.
        file_format : {'csv', 'parquet', 'jsonl'}
            How it is written.
        force : bool
            Whether an existing file is overwritten.
        """
        from layoutscope.api.export import export

        export(self, table, target, file_format=file_format, force=force)

"""Images on servers and in object stores: ``https://``, and everything fsspec opens, such as ``s3://`` and ``sftp://``.

They are read by ranges, in blocks that are kept in a cache of limited size; adjacent blocks that are requested together
are one request. Bytes from the network are counted, so a scan can report them.
"""

from __future__ import annotations

import base64
import hashlib
import http.client
import queue
import re
import socket
import ssl
import threading
from collections import OrderedDict, defaultdict
from contextlib import suppress
from http import HTTPStatus
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar
from urllib.parse import SplitResult, quote, unquote, urljoin, urlsplit

from layoutscope.errors import ImageError, UnsupportedError, install_command
from layoutscope.image.source import ReadCounter, Source
from layoutscope.inputs import restore_address
from layoutscope.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from layoutscope.structs.arrays import I64

    Range = tuple[int, int]
    """A range of bytes of a file, with its first byte and its stop (exclusive)."""

TIMEOUT_S: Final = 60.0
"""Deadline of a short range with all its attempts; longer ranges have more time, by :data:`SLOWEST_BYTES_S`."""

SLOWEST_BYTES_S: Final = 32 * 1024
"""Rate that a server must reach in long ranges; a slow home connection does."""

WAITS_S: Final = (0.5, 2.0, 8.0)
"""Waits before the second and further attempts."""

MAX_REDIRECTS: Final = 5
MAX_CONNECTIONS: Final = 8
MAX_WORD: Final = 80
"""Number of characters shown of a server's own message."""

PASSING: Final = frozenset({408, 425, 429})
"""Statuses below 500 that may be temporary (RFC 9110, RFC 8470, RFC 6585)."""

REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})

VALIDATORS: Final = ("ETag", "Last-Modified", "Content-MD5", "Digest")
"""Header fields that change with the file."""

WHOLE: Final = "its server gives no parts of it; download it first"

_CONTENT_RANGE: Final = re.compile(r"bytes (\d{1,19})-(\d{1,19})/(\d{1,19})", re.ASCII)
_EMPTY: Final = re.compile(r"bytes \*/0+", re.ASCII)
_LENGTH: Final = re.compile(r"\d{1,19}", re.ASCII)
_PORTS: Final = {"http": 80, "https": 443}


class ServerError(OSError):
    """A server did not fulfil a request; another attempt may help if ``may_pass``."""

    def __init__(self, reason: str, *, may_pass: bool = False) -> None:
        super().__init__(reason)
        self.may_pass = may_pass


class _Deadline:
    """The time by which a request must be answered; then the socket that it waits for is shut down."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = monotonic() + seconds
        self.socket: socket.socket | None = None
        self._timer = threading.Timer(seconds, self._shut_down)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()

    def _shut_down(self) -> None:
        # A server that sends a byte now and then would satisfy any limit on single reads.
        if self.socket is not None:
            with suppress(OSError):
                socket.socket.shutdown(self.socket, socket.SHUT_RDWR)

    @property
    def remaining_s(self) -> float:
        """Seconds until the deadline, negative after it."""
        return self._end - monotonic()


class WebFile:
    """A file on a web server."""

    def __init__(self, address: str, first_bytes: int) -> None:
        self.name = address
        self.facts: dict[str, str] = {}
        self.size_bytes = -1
        self._read_header_settings = _read_header_settings()
        self._idle: defaultdict[tuple[str, str], list[http.client.HTTPConnection]] = defaultdict(list)
        try:
            self._origin = self._target = _place(address)
        except ValueError as error:
            raise ImageError(f"{address}: is not an address: {error}") from error
        self.start = self._read((0, first_bytes), threading.Event())

    def read_ranges(
        self,
        ranges: Sequence[Range],  # within the file, not empty
    ) -> list[bytes]:
        """Read ranges, several at a time."""
        stop = threading.Event()
        if len(ranges) <= 1:
            return [self._read(each, stop) for each in ranges]

        wanted: queue.SimpleQueue[int] = queue.SimpleQueue()
        answers: queue.SimpleQueue[tuple[int, bytes | BaseException]] = queue.SimpleQueue()
        for number in range(len(ranges)):
            wanted.put(number)

        def work() -> None:
            while not stop.is_set():
                try:
                    number = wanted.get_nowait()
                except queue.Empty:
                    return
                try:
                    answers.put((number, self._read(ranges[number], stop)))
                except BaseException as error:
                    # The reader of the answers would wait for this one forever. It may also take it late; until then,
                    # the other threads would continue to query a server that has refused.
                    answers.put((number, error))
                    stop.set()
                    if not isinstance(error, ImageError):
                        raise

        for _ in range(min(len(ranges), MAX_CONNECTIONS)):
            # They are not joined after a failure or an interrupt: an attempt may take until its deadline. The pool of
            # `concurrent.futures` joins its threads at exit. That of `multiprocessing` needs a semaphore, for which it
            # starts a process on macOS, and fails without /dev/shm on Linux.
            threading.Thread(target=work, daemon=True).start()
        found = [b""] * len(ranges)
        try:
            for _ in ranges:
                number, data = answers.get()
                if isinstance(data, BaseException):
                    raise data
                found[number] = data
        finally:
            stop.set()
        return found

    def close(self) -> None:
        """Close the connections."""
        for idle in list(self._idle.values()):
            with suppress(IndexError):  # an attempt that is still under way may take the last one
                while idle:
                    idle.pop().close()

    def _read(self, wanted: Range, stop: threading.Event) -> bytes:
        """Read a range, with further attempts if the failure may be temporary and time is left."""
        with _Deadline(TIMEOUT_S + (wanted[1] - wanted[0]) / SLOWEST_BYTES_S) as deadline:
            for wait in (*WAITS_S, None):
                try:
                    return self._attempt(wanted, deadline)
                except ServerError as error:
                    failure = error
                # These include a refused connection, and an answer that is not HTTP.
                except (OSError, http.client.HTTPException, ValueError) as error:
                    may_pass = not isinstance(error, ssl.SSLCertVerificationError)
                    failure = ServerError(f"cannot be reached: {_reason(error)}", may_pass=may_pass)
                    failure.__cause__ = error
                if deadline.remaining_s <= 0:  # the deadline cut off the answer
                    failure = ServerError(
                        f"the server failed: it gave no whole answer within {deadline.seconds:,.3g} seconds"
                    )
                if wait is None or not failure.may_pass:
                    break
                if stop.wait(min(wait, max(0.0, deadline.remaining_s))) or deadline.remaining_s <= 0:
                    break
        raise ImageError(f"{self.name}: {failure}") from failure

    def _attempt(self, wanted: Range, deadline: _Deadline) -> bytes:
        """Query the place of the last answer; if it refuses, query the address again, which may redirect elsewhere."""
        target = self._target
        try:
            return self._follow(target, wanted, deadline)
        except (OSError, http.client.HTTPException):
            if target is self._origin:
                raise
            self._target = self._origin
            return self._follow(self._origin, wanted, deadline)

    def _follow(self, place: SplitResult, wanted: Range, deadline: _Deadline) -> bytes:
        for _ in range(MAX_REDIRECTS + 1):
            connection, answer = self._ask(place, wanted, deadline)
            is_whole = False
            try:
                if answer.status not in REDIRECTS:
                    data = self._read_answer(answer, wanted)
                    is_whole = answer.isclosed() and not answer.will_close
                    self._target = place
                    return data
                place = _follow_redirect(place, answer)
            finally:
                if is_whole:
                    self._idle[place.scheme, place.netloc].append(connection)
                else:
                    answer.close()
                    connection.close()
        raise ServerError(f"its server redirects more than {MAX_REDIRECTS} times, the last time to {_origin(place)}")

    def _ask(
        self, place: SplitResult, wanted: Range, deadline: _Deadline
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        """Send a request and read the head of its answer."""
        path = quote(place.path or "/", safe="/%:@!$&'()*+,;=~-._")
        query = f"?{quote(place.query, safe='/?%:@!$&()*+,;=~-._')}" if place.query else ""
        idle = self._idle[place.scheme, place.netloc]
        while True:
            try:
                connection, is_new = idle.pop(), False
            except IndexError:
                connection, is_new = self._connect(place, deadline), True
            deadline.socket = connection.sock
            try:
                connection.request("GET", path + query, headers=self._fields(place, wanted))
                return connection, connection.getresponse()
            except BaseException as error:
                connection.close()
                # Servers close connections that were idle for a while, which is not a failure.
                if is_new or not isinstance(error, ConnectionError):
                    raise

    @staticmethod
    def _connect(place: SplitResult, deadline: _Deadline) -> http.client.HTTPConnection:
        left = deadline.remaining_s
        if left <= 0:
            raise TimeoutError
        kind = http.client.HTTPSConnection if place.scheme == "https" else http.client.HTTPConnection
        # This leaves time for another address if the first one does not answer.
        connection = kind(place.hostname or "", place.port or _PORTS[place.scheme], timeout=left / 2)
        try:
            connection.connect()
        except BaseException:
            connection.close()
            raise
        connection.sock.settimeout(None)
        return connection

    def _fields(self, place: SplitResult, wanted: Range) -> dict[str, str]:
        """Return the header fields of a request; http.client itself asks for an uncompressed answer."""
        fields = {
            "User-Agent": f"layoutscope/{__version__}",
            "Accept": "*/*",
            "Range": f"bytes={wanted[0]}-{wanted[1] - 1}",
        }
        if (place.scheme, place.netloc) == (self._origin.scheme, self._origin.netloc):
            fields |= self._read_header_settings
            if place.username is not None:
                secret = f"{unquote(place.username)}:{unquote(place.password or '')}".encode()
                fields["Authorization"] = f"Basic {base64.b64encode(secret).decode('ascii')}"
        return fields

    def _read_answer(self, answer: http.client.HTTPResponse, wanted: Range) -> bytes:
        """Check an answer against the request, and read the bytes of the range."""
        is_first = self.size_bytes < 0
        told = answer.headers.get("Content-Range", "").strip()
        if answer.status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and is_first and _EMPTY.fullmatch(told):
            self.size_bytes = 0
            return b""
        status, asked = answer.status, _describe_range(wanted)
        refusals: dict[int, str] = {
            HTTPStatus.OK: f"{WHOLE} (status 200 where {asked} were asked for)",
            HTTPStatus.NOT_FOUND: "no such file",
            HTTPStatus.GONE: "no such file",
            HTTPStatus.UNAUTHORIZED: "its server asks for a password (401): put USER:PASSWORD@ before the host",
            HTTPStatus.FORBIDDEN: "permission denied by its server (403)",
            HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE: f"its server has no {asked} (416)",
        }
        if status in refusals:
            raise ServerError(refusals[status])
        if status != HTTPStatus.PARTIAL_CONTENT:
            known = next((f" {item.phrase}" for item in HTTPStatus if item == status), "")
            may_pass = status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in PASSING
            failed = "the server failed" if may_pass else "its server refused the request"
            raise ServerError(f"{failed}: it answered {status}{known}", may_pass=may_pass)
        packed = answer.headers.get("Content-Encoding", "identity")
        if packed.strip().lower() != "identity":
            raise _report_mismatch(wanted, f"a packed answer (Content-Encoding: {_shorten_words(packed)})")
        wrapped = answer.headers.get("Transfer-Encoding", "chunked")
        if wrapped.strip().lower() != "chunked":
            raise _report_mismatch(wanted, f"an answer in another form (Transfer-Encoding: {_shorten_words(wrapped)})")
        came = _CONTENT_RANGE.fullmatch(told)
        if came is None:
            given = f"Content-Range: {_shorten_words(told)}" if told else "an answer without Content-Range"
            raise _report_mismatch(wanted, given)
        first, last, total = map(int, came.groups())
        # The length and the validators of the first answer are compared with those of all later answers.
        facts = {name: _shorten_words(answer.headers[name]) for name in VALIDATORS if name in answer.headers}
        if self.size_bytes < 0:
            self.size_bytes, self.facts = total, facts
        changed = "changed on its server while it was read: its"
        if total != self.size_bytes:
            raise ServerError(f"{changed} length was {self.size_bytes:,} bytes, and is {total:,}")
        # Several machines with one address may have different times, so these count only without an ETag.
        name = "ETag" if "ETag" in self.facts else "Last-Modified"
        if name in self.facts and facts.get(name, self.facts[name]) != self.facts[name]:
            raise ServerError(f"{changed} {name} was {self.facts[name]}, and is {facts[name]}")
        stop = min(wanted[1], total)
        if (first, last + 1) != (wanted[0], stop):
            raise _report_mismatch(wanted, f"bytes {first:,} to {last:,} of {total:,}")
        for length in answer.headers.get_all("Content-Length", []):
            if not _LENGTH.fullmatch(length.strip()) or int(length) != stop - first:
                raise _report_mismatch(wanted, f"a length of {_shorten_words(length)} bytes")
        data = bytearray(stop - first)
        filled = 0
        while filled < len(data):
            count = answer.readinto(memoryview(data)[filled:])
            if not count:
                reason = f"ended after {filled:,} of the {len(data):,} bytes from {first:,} on"
                raise ServerError(f"the server failed: its answer {reason}", may_pass=True)
            filled += count
        return bytes(data)


def _describe_range(wanted: Range) -> str:
    return f"bytes {wanted[0]:,} to {wanted[1] - 1:,}"


def _report_mismatch(wanted: Range, came: str) -> ServerError:
    return ServerError(f"the server failed: {_describe_range(wanted)} were asked for, and {came} came")


def _follow_redirect(place: SplitResult, answer: http.client.HTTPResponse) -> SplitResult:
    """Follow a redirection, except to another scheme or to a less safe one."""
    location = answer.headers.get("Location", "")
    if not location:
        raise ServerError(f"the server failed: it redirects (status {answer.status}) to nowhere")
    try:
        found = _place(urljoin(place.geturl(), location))
    except ValueError:
        raise ServerError(f"its server redirects to {_shorten_words(location)}, which is not followed") from None
    if place.scheme == "https" and found.scheme == "http":
        raise ServerError(f"its server redirects from https to http ({_origin(found)}), which is not followed")
    return found


def _place(address: str) -> SplitResult:
    """Split an address."""
    place = urlsplit(address)
    if place.scheme not in _PORTS or not place.hostname or place.port == 0:
        raise ValueError(
            "it has no host" if place.scheme in _PORTS else f"its scheme is {_shorten_words(place.scheme)}"
        )
    place.hostname.encode("idna")
    return place


def _origin(place: SplitResult) -> str:
    """Return the name of a server without the password in the address."""
    return _shorten_words(f"{place.scheme}://{place.netloc.rpartition('@')[2]}")


def _shorten_words(text: str) -> str:
    """Prepare a server's message for display: it may be long, and contain anything."""
    escaped = text.encode("ascii", "backslashreplace").decode("ascii")
    plain = "".join(each if each.isprintable() else repr(each)[1:-1] for each in escaped)
    return plain if len(plain) <= MAX_WORD else f"{plain[:MAX_WORD]}..."


def _reason(error: Exception) -> str:
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return _shorten_words(text) or type(error).__name__


def _read_header_settings() -> dict[str, str]:
    """Return the header fields for web servers in fsspec's settings, such as an access token."""
    try:
        from fsspec.config import conf
    except ImportError:
        return {}
    settings: dict[str, Any] = conf.get("http", {}) | conf.get("https", {})
    fields = settings.get("headers") or settings.get("client_kwargs", {}).get("headers") or {}
    return {str(name): "".join(str(value).splitlines()) for name, value in fields.items()}


BLOCK_BYTES: Final = 4 * 1024
"""Unit of the cache: for scattered nodes, larger blocks would load unneeded data."""

AHEAD_BYTES: Final = 16 * 1024
"""Least length of a single request: data nearby is often needed next."""

GAP_BYTES: Final = 64 * 1024
"""Gaps up to this length are requested, too: they arrive faster than another answer."""

CACHE_BYTES: Final = 64 * 1024**2
"""Amount of recently read data that is kept."""

LARGE_BYTES: Final = 8 * 1024**2
"""Reads of this length or more bypass the cache, to keep its contents."""

_CHANGING: Final = {"etag", "lastmodified", "mtime", "versionid", "md5", "contentmd5", "digest"}
"""Servers' names for attributes that change with a file."""

Result = TypeVar("Result")


class RemoteSource(Source):
    """A file on a server."""

    def __init__(self, address: str) -> None:
        self.name = restore_address(address)
        self._file = _open(self.name, AHEAD_BYTES)
        self.size_bytes, start = self._file.size_bytes, self._file.start
        self.counter = ReadCounter(reads=1 if start else 0, bytes=len(start))
        self._blocks: OrderedDict[int, bytes] = OrderedDict()
        for at in range(0, len(start), BLOCK_BYTES):
            self._blocks[at // BLOCK_BYTES] = start[at : at + BLOCK_BYTES]

    def _fetch_into(self, image_offset: int, target: memoryview) -> None:
        stop = image_offset + len(target)
        if len(target) >= LARGE_BYTES:
            for at in range(0, len(target), LARGE_BYTES):
                piece = target[at : at + LARGE_BYTES]
                piece[:] = self._request([(image_offset + at, image_offset + at + len(piece))])[0]
        elif len(target):
            start = image_offset - image_offset % AHEAD_BYTES
            self._fill(image_offset, target, self._load_blocks(self._blocks_of(start, stop + -stop % AHEAD_BYTES)))

    def read_pieces(self, image_offsets: I64, lengths_bytes: I64, places: I64, target: memoryview) -> None:
        """Read many pieces, each to its place in a buffer."""
        pieces = list(zip(image_offsets.tolist(), lengths_bytes.tolist(), places.tolist(), strict=True))
        # As many pieces at a time as the cache holds, so that pieces needed together are requested together.
        while pieces:
            wanted: set[int] = set()
            count = 0
            for start, length, _ in pieces:
                if len(wanted) * BLOCK_BYTES >= CACHE_BYTES // 2:
                    break
                count += 1
                if length < LARGE_BYTES and len(places) > 1:
                    wanted.update(self._blocks_of(start, start + length))
            blocks = self._load_blocks(wanted)
            for start, length, place in pieces[:count]:
                piece = target[place : place + length]
                if length < LARGE_BYTES and len(places) > 1:
                    self._fill(start, piece, blocks)
                else:
                    self._fetch_into(start, piece)
            del pieces[:count]

    def _blocks_of(self, start: int, stop: int) -> range:
        return range(start // BLOCK_BYTES, -(-min(stop, self.size_bytes) // BLOCK_BYTES))

    def _load_blocks(self, wanted: Iterable[int]) -> dict[int, bytes]:
        """Return blocks by number, and request those that are not in the cache."""
        numbers = sorted(wanted)
        runs: list[list[int]] = []
        for number in (number for number in numbers if number not in self._blocks):
            first, after = runs[-1] if runs else (number, -GAP_BYTES)
            is_near = (number - after) * BLOCK_BYTES <= GAP_BYTES and (number - first) * BLOCK_BYTES < LARGE_BYTES
            if is_near and not any(between in self._blocks for between in range(after, number)):
                runs[-1][1] = number + 1
            else:
                runs.append([number, number + 1])
        ranges = [(first * BLOCK_BYTES, min(last * BLOCK_BYTES, self.size_bytes)) for first, last in runs]
        for (first, last), data in zip(runs, self._request(ranges), strict=True):
            for number in range(first, last):
                at = (number - first) * BLOCK_BYTES
                self._blocks[number] = data[at : at + BLOCK_BYTES]
        found = {}
        for number in numbers:
            found[number] = self._blocks[number]
            self._blocks.move_to_end(number)
        while len(self._blocks) * BLOCK_BYTES > CACHE_BYTES:
            self._blocks.popitem(last=False)
        return found

    def _fill(self, image_offset: int, target: memoryview, blocks: dict[int, bytes]) -> None:
        end = image_offset + len(target)
        for number in self._blocks_of(image_offset, end):
            start, stop = max(image_offset, number * BLOCK_BYTES), min(end, (number + 1) * BLOCK_BYTES)
            piece = blocks[number][start - number * BLOCK_BYTES : stop - number * BLOCK_BYTES]
            target[start - image_offset : stop - image_offset] = piece

    def _request(self, ranges: list[tuple[int, int]]) -> list[bytes]:
        """Request ranges from the server, all at once if it allows that."""
        if not ranges:
            return []
        found = self._file.read_ranges(ranges)
        for (first, last), data in zip(ranges, found, strict=True):
            self.counter.reads += 1
            self.counter.bytes += len(data)
            if len(data) != last - first:
                raise ImageError(
                    f"{self.name}: its server gave {len(data):,} bytes where {last - first:,} were asked for"
                )
        return found

    def close(self) -> None:
        """Discard the cache, and close all connections."""
        self._blocks.clear()
        self._file.close()


class _StoredFile:
    """A file that fsspec opens."""

    start = b""  # nothing is read to open it

    def __init__(self, address: str) -> None:
        self.name = address
        self._files, self._path = _open_by_fsspec(address)
        # Earlier answers may be cached for long, and :func:`address_identity` asks whether they still hold.
        self._files.invalidate_cache()
        self.facts: dict[str, Any] = _retry(address, lambda: self._files.info(self._path))
        if self.facts.get("type") == "directory":
            raise ImageError(f"{address}: is a directory, not an image")
        if self.facts.get("size") is None or not self.facts.get("partial", True):
            raise ImageError(f"{address}: {WHOLE}")
        self.size_bytes = int(self.facts["size"])

    def read_ranges(self, ranges: list[tuple[int, int]]) -> list[bytes]:
        """Read ranges, all at once if this kind of server allows that."""
        starts, stops = [first for first, _ in ranges], [last for _, last in ranges]
        paths = [self._path] * len(ranges)
        found: list[bytes] = _retry(
            self.name, lambda: self._files.cat_ranges(paths, starts, stops, on_error="raise", max_gap=None)
        )
        return found

    def close(self) -> None:
        """Do nothing: fsspec keeps connections for other files."""


def _open(address: str, first_bytes: int) -> WebFile | _StoredFile:
    is_web = address.startswith(("http://", "https://"))
    return WebFile(address, first_bytes) if is_web else _StoredFile(address)


def address_identity(address: str) -> dict[str, Any]:
    """Describe a file on a server without reading it.

    Returns `size_bytes`, and `identity`: SHA-256 of its address, its size, and the attributes that change with it
    according to the server. Empty if it cannot be reached.
    """
    name = restore_address(address)
    try:
        file = _open(name, 1)
    except (ImageError, UnsupportedError):
        return {}
    file.close()
    facts = [(key.lower(), str(file.facts[key])) for key in file.facts if key.lower().replace("-", "") in _CHANGING]
    text = repr((name, file.size_bytes, sorted(facts)))
    return {"size_bytes": file.size_bytes, "identity": hashlib.sha256(text.encode()).hexdigest()}


def _open_by_fsspec(address: str) -> tuple[Any, str]:
    try:
        from fsspec.core import url_to_fs
    except ImportError as error:
        raise UnsupportedError(
            f"{address}: reading from servers needs the package fsspec",
            code="remote-missing",
            advice=install_command("remote"),
        ) from error
    try:
        files, path = url_to_fs(address)
    except ImportError as error:
        raise UnsupportedError(f"{address}: {error}", code="remote-missing") from error
    except ValueError as error:
        raise ImageError(f"{address}: {str(error).lower()}") from error
    return files, path


def _retry(name: str, ask: Callable[[], Result]) -> Result:
    """Query a server, and again if that failed for a reason that may be temporary."""
    for wait in (*WAITS_S, None):
        try:
            return ask()
        except FileNotFoundError as error:
            raise ImageError(f"{name}: no such file") from error
        except PermissionError as error:
            raise ImageError(f"{name}: permission denied. Log in as the kind of server asks for it.") from error
        except Exception as error:  # noqa: BLE001  (each kind of server has errors of its own)
            if wait is None:
                cause = error if isinstance(error, OSError) else OSError(str(error))
                reason = str(error) or type(error).__name__
                raise ImageError(f"{name}: cannot be reached: {reason.splitlines()[0]}") from cause
            sleep(wait)
    raise AssertionError  # the last attempt returned or raised

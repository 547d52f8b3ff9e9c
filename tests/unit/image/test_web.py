"""Files on web servers: each kind of server error has its own message, and all are bounded."""

from __future__ import annotations

import base64
import re
import socket
import threading
from urllib.parse import urlsplit

import pytest

from layoutscope.errors import ImageError
from layoutscope.image import remote

DATA = bytes(range(256)) * 256
TOTAL = len(DATA)
FIRST = 4096
"""Bytes that are read when a file is opened."""
MAX_SENT = 16 * 1024**2
"""More than the socket buffers of client and server hold; endless answers would exceed it at once."""


class Server:
    """Gives the N-th answer to the N-th request, and the last one to all later ones; counts requests and bytes.

    An answer is a function of the connection and the range that was asked for.
    """

    def __init__(self, *answers):
        self.answers, self.requests, self.sent = answers, [], 0
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._listening.getsockname()[1]}/disk.img"
        self.closing = threading.Event()
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self):
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        with connection:
            connection.settimeout(10)
            try:
                while request := self._request(connection):
                    self.requests.append(request)
                    answer = self.answers[min(len(self.requests), len(self.answers)) - 1]
                    asked = re.search(r"\r\nRange: bytes=(\d+)-(\d+)\r\n", request)
                    if answer(lambda data: self._send(connection, data), int(asked[1]), int(asked[2]) + 1) is CLOSE:
                        return
            except OSError:
                return

    @staticmethod
    def _request(connection):
        request = b""
        while not request.endswith(b"\r\n\r\n"):
            data = connection.recv(4096)
            if not data:
                return ""
            request += data
        return request.decode("latin-1")

    def _send(self, connection, data):
        if self.closing.is_set():
            raise OSError("closing")
        connection.sendall(data)
        self.sent += len(data)

    def close(self):
        """Stop listening and sending."""
        self.closing.set()
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join()


CLOSE = object()
"""Return value of an answer after which the server closes the connection."""


def head(status, *fields):
    """Write the head of an answer."""
    return "\r\n".join([f"HTTP/1.1 {status} So", *fields, "", ""]).encode()


def part(**changes):
    """Answer correctly with a range, except for some fields, which may be functions of the range; None omits one."""
    body = changes.pop("body", lambda first, stop: DATA[first:stop])

    def answer(send, first, stop):
        stop = min(stop, TOTAL)
        fields = {
            "content_range": f"bytes {first}-{stop - 1}/{TOTAL}",
            "content_length": str(stop - first),
            "etag": '"one"',
        } | {name: value(first, stop) if callable(value) else value for name, value in changes.items()}
        lines = [f"{name.replace('_', '-')}: {value}" for name, value in fields.items() if value is not None]
        send(head(206, *lines) + body(first, stop))
        return CLOSE if len(body(first, stop)) != stop - first or fields["content_length"] is None else None

    return answer


def status(code, *fields):
    """Answer with only a status."""

    def answer(send, _first, _stop):
        send(head(code, *fields, "Content-Length: 0"))

    return answer


def endless(start, data):
    """Answer with endless data."""

    def answer(send, first, stop):
        send(start(first, stop))
        while True:
            send(data)

    return answer


def slowly(start):
    """Answer with single bytes at intervals, forever."""
    pause = threading.Event()

    def answer(send, first, stop):
        send(start(first, stop))
        while not pause.wait(0.02):
            send(b"x")

    return answer


def silent(_send, _first, _stop):
    """Answer nothing until the client gives up; the server closes after 10 seconds."""


def raw(data):
    """Answer with given bytes, and close."""

    def answer(send, _first, _stop):
        send(data)
        return CLOSE

    return answer


def ranged(first, stop, *fields):
    """Write the head of an answer with a range but without a length."""
    return head(206, f"Content-Range: bytes {first}-{stop - 1}/{TOTAL}", *fields)


OPEN = []


def open_file(address, first_bytes):
    """Open a file and close it after the test."""
    OPEN.append(remote.WebFile(address, first_bytes))
    return OPEN[-1]


@pytest.fixture(autouse=True)
def close_files():
    """Close the files that tests opened."""
    yield
    while OPEN:
        OPEN.pop().close()


@pytest.fixture
def serve(monkeypatch):
    """Return a function that starts a server; retries follow without delay."""
    monkeypatch.setattr(remote, "WAITS_S", (0.0, 0.0))
    started = []

    def start(*answers):
        started.append(Server(*answers))
        return started[-1]

    yield start
    for server in started:
        server.close()


good = part()
TRIES = 3
LATE = "the server failed: it gave no whole answer within 0.5 seconds"
GOT = "the server failed: bytes 8,192 to 12,287 were asked for, and"

BAD = {
    "packed": (
        endless(lambda first, stop: ranged(first, stop, "Content-Encoding: gzip"), bytes(65536)),
        rf"{GOT} a packed answer \(Content-Encoding: gzip\) came", 1,
    ),
    "wrapped": (
        part(transfer_encoding="gzip, chunked"),
        rf"{GOT} an answer in another form \(Transfer-Encoding: gzip, chunked\) came", 1,
    ),
    "shifted": (
        part(content_range=lambda first, stop: f"bytes {first + 512}-{stop + 511}/{TOTAL}"),
        f"{GOT} bytes 8,704 to 12,799 of 65,536 came", 1,
    ),
    "short range": (
        part(content_range=lambda first, stop: f"bytes {first}-{stop - 2}/{TOTAL}"),
        f"{GOT} bytes 8,192 to 12,286 of 65,536 came", 1,
    ),
    "no range": (part(content_range=None), f"{GOT} an answer without Content-Range came", 1),
    "odd range": (part(content_range="bytes all/some"), f"{GOT} Content-Range: bytes all/some came", 1),
    "no total": (
        part(content_range=lambda first, stop: f"bytes {first}-{stop - 1}/*"),
        rf"{GOT} Content-Range: bytes 8192-12287/\* came", 1,
    ),
    "negative length": (part(content_length="-1"), f"{GOT} a length of -1 bytes came", 1),
    "absurd length": (part(content_length="9" * 40), f"{GOT} a length of {'9' * 40} bytes came", 1),
    "longer length": (part(content_length="4097"), f"{GOT} a length of 4097 bytes came", 1),
    "length in words": (part(content_length="many"), f"{GOT} a length of many bytes came", 1),
    "other total": (
        part(content_range=lambda first, stop: f"bytes {first}-{stop - 1}/{TOTAL + 1}"),
        "changed on its server while it was read: its length was 65,536 bytes, and is 65,537", 1,
    ),
    "other ETag": (part(etag='"two"'), 'changed on its server while it was read: its ETag was "one", and is "two"', 1),
    "whole": (status(200), r"its server gives no parts of it; download it first \(status 200 where", 1),
    "401": (status(401), r"its server asks for a password \(401\)", 1),
    "403": (status(403), r"permission denied by its server \(403\)", 1),
    "404": (status(404), "no such file$", 1),
    "416": (status(416), r"its server has no bytes 8,192 to 12,287 \(416\)", 1),
    "400": (status(400), "its server refused the request: it answered 400 Bad Request", 1),
    "500": (status(500), "the server failed: it answered 500 Internal Server Error", TRIES),
    "429": (status(429), "the server failed: it answered 429 Too Many Requests", TRIES),
    "599": (status(599), "the server failed: it answered 599$", TRIES),
    "circle": (status(302, "Location: /disk.img"), "its server redirects more than 5 times, the last time to http:", 6),
    "to a file": (
        status(302, "Location: file:///etc/passwd"),
        "its server redirects to file:///etc/passwd, which is not followed", 1,
    ),
    "to another scheme": (status(307, "Location: ftp://host/x"), "redirects to ftp://host/x, which is not followed", 1),
    "to nowhere": (status(301), r"it redirects \(status 301\) to nowhere", 1),
    "no HTTP": (raw(b"SSH-2.0-OpenSSH_9.6\r\n"), "cannot be reached: SSH-2.0-OpenSSH_9.6", TRIES),
    "dropped": (raw(b""), "cannot be reached: Remote end closed connection", 1 + TRIES),
    "cut off": (
        part(body=lambda first, _stop: DATA[first : first + 100]),
        "the server failed: its answer ended after 100 of the 4,096 bytes from 8,192 on", TRIES,
    ),
    "many fields": (
        raw(head(206, *(f"X-{number}: 1" for number in range(101)))),
        "cannot be reached: got more than 100 headers", TRIES,
    ),
    "long field": (raw(b"HTTP/1.1 206 So\r\nX: " + bytes(70000)), "cannot be reached: got more than 65536", TRIES),
    "no such chunk": (
        lambda send, first, stop: send(ranged(first, stop, "Transfer-Encoding: chunked") + b"zz\r\n"),
        "cannot be reached: ", TRIES,
    ),
    "silent": (silent, LATE, 1),
    "slow head": (slowly(lambda _first, _stop: b"HTTP/1.1 206 So\r\nX: "), LATE, 1),
    "slow body": (slowly(ranged), LATE, 1),
    "waits on": (endless(lambda *_: b"", head(100)), LATE, 1),
}  # fmt: skip
"""Server behaviour after opening: the message, the number of requests, and on which connections."""


@pytest.mark.parametrize("name", BAD)
def test_a_server_that_misbehaves_is_named_and_bounded(serve, monkeypatch, name):
    """One line says what was requested and received; requests, time and bytes are bounded."""
    answer, message, tries = BAD[name]
    server = serve(good, answer)
    file = open_file(server.address, FIRST)
    if "0.5 seconds" in message:
        monkeypatch.setattr(remote, "TIMEOUT_S", 0.5)
        monkeypatch.setattr(remote, "SLOWEST_BYTES_S", 2**60)
    with pytest.raises(ImageError, match=f"^{server.address}: .*{message}") as caught:
        file.read_ranges([(8192, 12288)])
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value.__cause__, OSError)
    assert len(server.requests) == 1 + tries
    assert server.sent < MAX_SENT
    file.close()


@pytest.mark.parametrize("name", ["404", "401", "500", "whole", "no range", "negative length", "circle", "packed"])
def test_the_first_answer_is_judged_likewise(serve, name):
    """A file that cannot be opened has a reason, and is never mistaken for an absent one."""
    answer, message, tries = BAD[name]
    server = serve(answer)
    with pytest.raises(ImageError, match=message.replace("8,192 to 12,287", "0 to 4,095")):
        open_file(server.address, FIRST)
    assert len(server.requests) == tries


ODD_BUT_RIGHT = {
    "as it should be": good,
    "no length": part(content_length=None),
    "weak validators left out": part(etag=None),
    "in chunks": lambda send, first, stop: send(
        ranged(first, stop, "Transfer-Encoding: chunked")
        + b"".join(b"400\r\n" + DATA[at : at + 1024] + b"\r\n" for at in range(first, stop, 1024))
        + b"0\r\n\r\n"
    ),
    "chunks without end": endless(
        lambda first, stop: ranged(first, stop, "Transfer-Encoding: chunked")
        + b"1000\r\n" + DATA[first:stop] + b"\r\n",
        b"10000\r\n" + bytes(65536) + b"\r\n",
    ),
    "a body without end": endless(
        lambda first, stop: ranged(first, stop) + DATA[first:stop], bytes(65536)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ODD_BUT_RIGHT)
def test_no_more_is_read_than_was_asked_for(serve, name):
    """The range is the whole answer, and later bytes stay with the server."""
    server = serve(good, ODD_BUT_RIGHT[name])
    file = open_file(server.address, FIRST)
    assert file.start == DATA[:FIRST]
    assert file.read_ranges([(8192, 12288)]) == [DATA[8192:12288]]
    assert server.sent < MAX_SENT
    file.close()


@pytest.mark.parametrize("answer", [status(503), raw(b""), part(body=lambda first, _stop: DATA[first : first + 7])])
def test_what_passes_is_asked_again(serve, answer):
    """A server failure and a connection lost before or within the answer are retried."""
    server = serve(good, answer, good)
    file = open_file(server.address, FIRST)
    assert file.read_ranges([(8192, 12288)]) == [DATA[8192:12288]]
    assert len(server.requests) == 3


def test_the_waits_end_with_the_deadline(serve, monkeypatch):
    """An hour between attempts is cut to the rest of the request's time; the clock is the test's."""
    now = [0.0]
    waits = []

    class Stop:
        def wait(self, seconds):
            waits.append(seconds)
            now[0] += seconds
            return False

    def slow_failure(send, first, stop):
        now[0] += 20.0
        return status(503)(send, first, stop)

    server = serve(good, slow_failure)
    file = open_file(server.address, FIRST)
    monkeypatch.setattr(remote, "WAITS_S", (3600.0,))
    monkeypatch.setattr(remote, "SLOWEST_BYTES_S", 2**60)
    monkeypatch.setattr(remote, "monotonic", lambda: now[0])
    with pytest.raises(ImageError, match="it answered 503"):
        file._read((0, 10), Stop())
    assert waits == [pytest.approx(remote.TIMEOUT_S - 20.0)]
    assert len(server.requests) == 2


def test_ranges_and_connections(serve):
    """Ranges come in order over few connections."""
    # Each range arrives once, in any order of answers; the first failure ends the others.
    server = serve(good)
    file = open_file(server.address, FIRST)
    ranges = [(at, at + 512) for at in range(0, TOTAL, 1024)]
    assert file.read_ranges(ranges) == [DATA[first:stop] for first, stop in ranges]
    assert len(server.requests) == 1 + len(ranges)
    assert file.read_ranges([]) == []
    failing = serve(good, status(404))
    file = open_file(failing.address, FIRST)
    with pytest.raises(ImageError, match="no such file"):
        file.read_ranges(ranges)
    assert len(failing.requests) <= 1 + remote.MAX_CONNECTIONS
    # No range fits; the server answers 416 with the length.
    assert open_file(serve(status(416, "Content-Range: bytes */0")).address, FIRST).size_bytes == 0
    # A redirection is followed once; if its target fails later, the original address is asked again.
    first, second = serve(good, status(403)), serve(good)
    server = serve(status(302, f"Location: {first.address}"), status(302, f"Location: {second.address}"))
    file = open_file(server.address, FIRST)
    assert file.read_ranges([(8192, 12288)]) == [DATA[8192:12288]]
    assert [len(each.requests) for each in (server, first, second)] == [2, 2, 1]
    # Servers close idle connections; that is not a failure and does not count as an attempt.
    file = open_file(serve(lambda *given: good(*given) or CLOSE).address, FIRST)
    for first in (4096, 8192, 12288, 16384, 20480):
        assert file.read_ranges([(first, first + 9)]) == [DATA[first : first + 9]]


def test_ranges_are_read_by_plain_threads(serve, monkeypatch):
    """They need no semaphore, which some systems lack; an error of any kind in one of them ends the read."""

    def refuse(*_args, **_kwargs):
        raise OSError("no semaphores")

    class OtherError(BaseException):
        pass

    monkeypatch.setattr("multiprocessing.synchronize.SemLock.__init__", refuse)
    monkeypatch.setattr(threading, "excepthook", lambda _error: None)
    file = open_file(serve(good).address, FIRST)
    ranges = [(at, at + 512) for at in range(0, TOTAL, 1024)]
    assert file.read_ranges(ranges) == [DATA[first:stop] for first, stop in ranges]
    file.close()
    # A closed file connects again.
    assert file.read_ranges(ranges[:2]) == [DATA[first:stop] for first, stop in ranges[:2]]

    def read(wanted, _stop):
        if wanted == ranges[3]:
            raise OtherError
        return b""

    monkeypatch.setattr(file, "_read", read)
    with pytest.raises(OtherError):
        file.read_ranges(ranges)


def test_a_password_is_told_to_its_own_server_alone(serve, monkeypatch):
    """Neither it nor configured fields are sent to a redirection's target; messages do not contain it."""
    monkeypatch.setattr(remote, "_read_header_settings", lambda: {"X-Token": "abc"})
    other = serve(good)
    server = serve(status(302, f"Location: {other.address}"))
    open_file(server.address.replace("//", "//me:a%20b@"), FIRST).close()
    secret = base64.b64encode(b"me:a b").decode()
    assert f"Authorization: Basic {secret}\r\n" in server.requests[0]
    assert "X-Token: abc\r\n" in server.requests[0]
    assert "Authorization" not in other.requests[0]
    assert "X-Token" not in other.requests[0]


def test_requests_are_plain_and_stay_secret(serve):
    """No compression is requested, and no part of the address leaves its line."""
    server = serve(good)
    open_file(server.address + "?a=b c\r\nX: y", FIRST).close()
    line, *fields = server.requests[0].split("\r\n")
    assert line == "GET /disk.img?a=b%20cX:%20y HTTP/1.1"
    assert "Accept-Encoding: identity" in fields
    assert not any(field.startswith("X:") for field in fields)

    # Data requested over https is not read over http.
    class Answer:
        status = 302
        headers = {"Location": "http://host/disk.img"}  # noqa: RUF012

    with pytest.raises(
        remote.ServerError, match=r"redirects from https to http \(http://host\), which is not followed"
    ):
        remote._follow_redirect(urlsplit("https://host/disk.img"), Answer())


def test_addresses_that_lead_to_no_server_are_one_line(serve):
    """An invalid address is never looked up, and no server listens at a closed port."""
    for address in ("http://", "http:///disk.img", "http://host:99999/x", "http://[::1/x"):
        with pytest.raises(ImageError, match="is not an address"):
            open_file(address, FIRST)
    server = serve(good)
    server.close()
    server.close = lambda: None
    with pytest.raises(ImageError, match="cannot be reached: Connection refused"):
        open_file(server.address, FIRST)

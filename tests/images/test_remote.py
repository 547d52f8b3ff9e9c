import http.server
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import layoutscope
from layoutscope.errors import ImageError, UnsupportedError
from layoutscope.image import remote
from layoutscope.image.remote import AHEAD_BYTES, BLOCK_BYTES, GAP_BYTES, RemoteSource
from layoutscope.inputs import is_address, restore_address
from layoutscope.units import format_bytes
from layoutscope.zstd import zstd

pytest.importorskip("fsspec")

IMAGES = Path(__file__).parents[2] / "fixtures/images"
HFS, APFS = IMAGES / "hfsplus-scattered.img.zst", IMAGES / "apfs-scattered.img.zst"
DISK_BYTES = 64 << 30


class Server(http.server.ThreadingHTTPServer):
    """Serves a folder with range requests, records the requests, and fails as often as requested."""

    daemon_threads = True

    def __init__(self, folder):
        self.folder, self.asked, self.failures, self.has_ranges = folder, [], 0, True
        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def address(self):  # noqa: D102
        return f"http://127.0.0.1:{self.server_port}"


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers requests for a file of the folder."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):  # noqa: D102
        pass

    def do_HEAD(self):  # noqa: D102
        self.answer(has_body=False)

    def do_GET(self):  # noqa: D102
        self.answer(has_body=True)

    def answer(self, *, has_body):  # noqa: D102
        file = self.server.folder / self.path.lstrip("/")
        if not file.is_file() or (has_body and self.server.failures > 0):
            self.server.failures -= 1
            self.send_response(503 if file.is_file() else 404)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        size, status = file.stat().st_size, 200
        first, last = 0, size
        asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if asked and self.server.has_ranges:
            first, last, status = int(asked[1]), min(int(asked[2]) + 1, size), 206
        self.send_response(status)
        self.send_header("Content-Length", str(last - first))
        self.send_header("ETag", f'"{file.stat().st_mtime_ns}"')
        if self.server.has_ranges:
            self.send_header("Accept-Ranges", "bytes")
        if status == 206:
            self.send_header("Content-Range", f"bytes {first}-{last - 1}/{size}")
        self.end_headers()
        if has_body:
            self.server.asked.append((first, last))
            with file.open("rb") as data:
                self.wfile.write(os.pread(data.fileno(), last - first, first))


@pytest.fixture
def server(tmp_path, monkeypatch):
    monkeypatch.setattr(remote, "WAITS_S", (0.0, 0.0))
    (tmp_path / "served").mkdir()
    made = Server(tmp_path / "served")
    thread = threading.Thread(target=made.serve_forever, args=(0.05,))
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


def large_disk(path):
    """Write the small volume at the start of a sparse disk of 64 GiB."""
    with HFS.open("rb") as packed, path.open("wb") as disk:
        shutil.copyfileobj(zstd.open(packed), disk)
        disk.truncate(DISK_BYTES)
    return path


def test_a_disk_on_a_server_is_scanned_by_ranges(server):
    """The layout equals that from a file; far less than a thousandth of 64 GiB is read and reported, no byte twice."""
    disk = large_disk(server.folder / "disk.img")
    there, here = layoutscope.scan(f"{server.address}/disk.img"), layoutscope.scan(disk)
    for one, other in zip(there.parts, here.parts, strict=True):
        assert one.layout.nodes.equals(other.layout.nodes)
        assert one.layout.entries.equals(other.layout.entries)
    sent = sum(last - first for first, last in server.asked)
    assert there.image.read_bytes == sent < DISK_BYTES // 1000
    blocks = [at for first, last in server.asked for at in range(first // BLOCK_BYTES, -(-last // BLOCK_BYTES))]
    assert len(blocks) == len(set(blocks))
    assert there.image.size_bytes == DISK_BYTES
    command = [sys.executable, "-m", "layoutscope", "scan", f"{server.address}/disk.img", "--details"]
    said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    assert (
        f"{format_bytes(DISK_BYTES)}; scanned by reading {format_bytes(sent)} in {there.image.reads} requests" in said
    )


def test_packed_images_are_read_through_the_same_door(server):
    """An image that is compressed on the server."""
    shutil.copy(APFS, server.folder / "disk.img.zst")
    address = f"{server.address}/disk.img.zst"
    command = [sys.executable, "-m", "layoutscope", "scan", address, "--no-cache"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False)
    assert "disk.img.zst: 256 MiB" in done.stdout
    assert sum(last - first for first, last in server.asked) >= APFS.stat().st_size


def test_any_bytes_come_as_they_lie_there(server):
    """Ranges within blocks, across them, at the end, in many pieces, and longer than the cache takes at once."""
    data = os.urandom(3 * BLOCK_BYTES + 77)
    (server.folder / "data").write_bytes(data)
    with RemoteSource(f"{server.address}/data") as source:
        for first, length in ((0, 1), (BLOCK_BYTES - 5, 10), (len(data) - 77, 77), (5, len(data) - 5), (9, 0)):
            assert source.read(first, length) == data[first : first + length]
        assert source.counter.bytes == len(data)
        with pytest.raises(layoutscope.errors.TruncatedError):
            source.read(len(data), 1)


def test_the_cache_is_bounded(server, monkeypatch):
    """The least recently used block is dropped; it is correct when read again, and counted again."""
    monkeypatch.setattr(remote, "CACHE_BYTES", 2 * AHEAD_BYTES)
    data = os.urandom(4 * AHEAD_BYTES)
    (server.folder / "data").write_bytes(data)
    with RemoteSource(f"{server.address}/data") as source:  # reads the start to check for range support
        for number in (0, 1, 0, 2, 0, 1):
            at = number * AHEAD_BYTES
            assert source.read(at, 8) == data[at : at + 8]
        assert (source.counter.reads, len(source._blocks) * BLOCK_BYTES) == (
            4,
            2 * AHEAD_BYTES,
        )  # block 1 twice: block 2 had replaced it


def test_gaps_are_asked_for_too_up_to_the_limit(server):
    """Of the gaps of five blocks one is a block too wide, and one holds known data: three requests, no byte twice."""
    at = 10 * AHEAD_BYTES // BLOCK_BYTES
    wide = GAP_BYTES // BLOCK_BYTES + 2
    wanted = np.array([at, at + wide, at + wide + 3, at + wide + 8])
    data = os.urandom(int(wanted[-1] + 4) * BLOCK_BYTES)
    (server.folder / "data").write_bytes(data)
    with RemoteSource(f"{server.address}/data") as source:
        source.read_extents(np.array([wanted[-1] - 4, wanted[-1] - 2]) * BLOCK_BYTES, np.full(2, BLOCK_BYTES))
        before = source.counter.reads
        found = source.read_extents(wanted * BLOCK_BYTES, np.full(4, BLOCK_BYTES))
        assert source.counter.reads - before == 3
        assert found.tobytes() == b"".join(data[one * BLOCK_BYTES :][:BLOCK_BYTES] for one in wanted.tolist())
    assert len(server.asked) == 5


def test_a_failure_that_passes_is_tried_again(server):
    """Two failures and a response succeed; more failures give one line, and no damage of the image."""
    (server.folder / "data").write_bytes(b"x" * 100)
    server.failures = 2
    with RemoteSource(f"{server.address}/data") as source:
        assert source.read(0, 100) == b"x" * 100
    (server.folder / "more").write_bytes(b"x" * 2 * AHEAD_BYTES)
    with RemoteSource(f"{server.address}/more") as source:
        server.failures = 3
        with pytest.raises(ImageError, match="the server failed: it answered 503 Service Unavailable") as caught:
            source.read(AHEAD_BYTES, 100)
        assert isinstance(caught.value.__cause__, OSError)


def test_what_cannot_be_read_is_one_line(server, monkeypatch):
    """Missing files, servers without ranges, unknown schemes, and a missing package."""
    (server.folder / "whole").write_bytes(bytes(1 << 20))
    with pytest.raises(ImageError, match=r"gone\.img: no such file$"):
        layoutscope.scan(f"{server.address}/gone.img")
    server.has_ranges = False
    with pytest.raises(ImageError, match="gives no parts of it; download it first"):
        layoutscope.scan(f"{server.address}/whole")
    with pytest.raises(ImageError, match="protocol not known: nonsense"):
        layoutscope.scan("nonsense://host/disk.img")
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(UnsupportedError, match="needs the package fsspec"):
        layoutscope.scan("memory://host/disk.img")


def test_an_address_is_no_file_of_that_name(tmp_path, monkeypatch):
    """A local file takes precedence; a path made from an address gets its second slash back."""
    monkeypatch.chdir(tmp_path)
    assert is_address("https://host/disk.img")
    assert is_address(Path("s3://store/disk.img"))
    assert restore_address(Path("s3://store/a//disk.img")) == "s3://store/a/disk.img"
    assert not is_address("disk.img")
    assert not is_address("C:/disk.img")
    (tmp_path / "odd:").mkdir()
    (tmp_path / "odd:/disk.img").touch()
    assert not is_address("odd:/disk.img")


def test_a_batch_reads_addresses_and_notices_changes(server, tmp_path):
    """With --resume nothing is read again until the server reports a change; a missing one is a row."""
    shutil.copy(HFS, server.folder / "disk.img.zst")
    sources = [f"{server.address}/disk.img.zst", f"{server.address}/gone.img"]
    first = layoutscope.batch(sources, tmp_path / "fleet")
    assert [(end.path, end.status) for end in first.sources] == list(zip(sources, ("complete", "failed"), strict=True))
    row = first.table("batch").row(0, named=True)
    assert row["size_bytes"] == HFS.stat().st_size
    assert layoutscope.batch(sources[0], tmp_path / "fleet", resume=True).kept == 1
    os.utime(server.folder / "disk.img.zst")
    assert layoutscope.batch(sources[0], tmp_path / "fleet", resume=True).kept == 0


def test_a_disk_in_an_object_store_is_scanned(tmp_path, monkeypatch):
    """An S3 store, simulated by moto, gives the same figures as the file."""
    pytest.importorskip("s3fs")
    moto = pytest.importorskip("moto.server")
    boto3 = pytest.importorskip("boto3")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    store = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=port, verbose=False)
    store.start()
    try:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
        amazon = boto3.client("s3")
        amazon.create_bucket(Bucket="disks")
        raw = tmp_path / "disk.img"
        with HFS.open("rb") as packed, raw.open("wb") as disk:
            shutil.copyfileobj(zstd.open(packed), disk)
        amazon.upload_file(str(raw), "disks", "one/disk.img")
        there, here = layoutscope.scan("s3://disks/one/disk.img"), layoutscope.scan(raw)
        assert there.parts[0].layout.nodes.equals(here.parts[0].layout.nodes)
        assert 0 < there.image.read_bytes < raw.stat().st_size
    finally:
        store.stop()

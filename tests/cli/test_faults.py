"""Machine faults, signals and lack of memory: one clear line, the right exit code, and no partial file."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
from itertools import cycle
from typing import TYPE_CHECKING

import pytest

import layoutscope
from fixtures.apfs.scenarios import SCENARIOS as APFS
from fixtures.apfs.writer import write as write_apfs
from fixtures.hfsplus.scenarios import SCENARIOS
from fixtures.hfsplus.writer import write
from layoutscope import memory
from tests.cli.conftest import ROOT

if TYPE_CHECKING:
    from pathlib import Path

VERBS = ("scan", "check", "verify", "predict", "trace", "checkpoints")


@pytest.fixture(scope="module")
def disks(tmp_path_factory):
    """Return a folder with an image of each file system, under two names, and a compressed one."""
    folder = tmp_path_factory.mktemp("faults")
    write(SCENARIOS["hard-links"], folder / "hfsplus.img")
    write_apfs(APFS["basic"], folder / "apfs.img")
    (folder / "H").hardlink_to(folder / "hfsplus.img")
    (folder / "A").hardlink_to(folder / "apfs.img")
    (folder / "zst").write_bytes((ROOT / "fixtures/images/hfsplus-scattered.img.zst").read_bytes())
    return folder


def python(code: str, *words: object, **options):
    """Run the command after some lines of Python, in its own process."""
    start = "import runpy, sys; sys.argv[0] = 'layoutscope'; runpy.run_module('layoutscope', run_name='__main__')"
    return subprocess.run(
        [sys.executable, "-c", f"{code}\n{start}", *map(str, words)],
        capture_output=True, text=True, check=False, cwd=ROOT, timeout=120, **options,
    )  # fmt: skip


PRELOADED = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>

/* Areas of one file, told by its inode, that cannot be read: FAULT_INODE, FAULT_START, FAULT_LENGTH; FAULT_SHORT gives
   nothing in place of an error. */
static int hits(int file, off_t at, size_t length, ssize_t *answer)
{
    const char *inode = getenv("FAULT_INODE");
    struct stat status;
    if (!inode || fstat(file, &status) || status.st_ino != (ino_t)atoll(inode)) return 0;
    off_t start = atoll(getenv("FAULT_START")), size = atoll(getenv("FAULT_LENGTH"));
    if (at >= start + size || at + (off_t)length <= start) return 0;
    *answer = getenv("FAULT_SHORT") ? 0 : -1;
    errno = EIO;
    return 1;
}

static size_t sum(const struct iovec *parts, int count)
{
    size_t length = 0;
    for (int i = 0; i < count; i++) length += parts[i].iov_len;
    return length;
}

#define ONE(NAME) \
    ssize_t NAME(int file, void *target, size_t length, off_t at) \
    { \
        ssize_t answer; \
        if (hits(file, at, length, &answer)) return answer; \
        ssize_t (*real)(int, void *, size_t, off_t) = dlsym(RTLD_NEXT, #NAME); \
        return real(file, target, length, at); \
    }
#define MANY(NAME) \
    ssize_t NAME(int file, const struct iovec *parts, int count, off_t at) \
    { \
        ssize_t answer; \
        if (hits(file, at, sum(parts, count), &answer)) return answer; \
        ssize_t (*real)(int, const struct iovec *, int, off_t) = dlsym(RTLD_NEXT, #NAME); \
        return real(file, parts, count, at); \
    }
ONE(pread)
ONE(pread64)
MANY(preadv)
MANY(preadv64)
ssize_t preadv2(int file, const struct iovec *parts, int count, off_t at, int flags)
{
    ssize_t answer;
    if (hits(file, at, sum(parts, count), &answer)) return answer;
    ssize_t (*real)(int, const struct iovec *, int, off_t, int) = dlsym(RTLD_NEXT, "preadv2");
    return real(file, parts, count, at, flags);
}
ssize_t preadv64v2(int file, const struct iovec *parts, int count, off_t at, int flags)
{
    return preadv2(file, parts, count, at, flags);
}
"""
"""A failing disk, simulated below Python and below the C kernels."""


@pytest.fixture(scope="module")
def failing(tmp_path_factory):
    """Return a function that returns the environment in which an area of an image cannot be read."""
    folder = tmp_path_factory.mktemp("preload")
    compiler = shutil.which("cc")
    if sys.platform != "linux" or compiler is None:
        pytest.skip("needs Linux and a C compiler")
    (folder / "fault.c").write_text(PRELOADED)
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-O1", "-o", folder / "fault.so", folder / "fault.c", "-ldl"], check=True
    )

    def areas(image: Path, start: int, length: int, **more: str) -> dict[str, str]:
        told = {"FAULT_INODE": image.stat().st_ino, "FAULT_START": start, "FAULT_LENGTH": length}
        given = {name: str(value) for name, value in told.items()}
        return os.environ | {"LD_PRELOAD": str(folder / "fault.so")} | given | more

    return areas


@pytest.mark.full
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("where", ["start", "end"])
def test_a_sector_that_nobody_needs_stops_no_verb(disks, failing, verb, where):
    """HFS+ begins at byte 1024. The last 512 bytes are Apple's and are checked for disk image trailers."""
    if verb == "checkpoints":
        pytest.skip("of APFS alone")
    image = disks / "hfsplus.img"
    bad = (0, 1024) if where == "start" else (image.stat().st_size - 512, 512)
    sound = python("", verb, image, env=dict(os.environ))
    result = python("", verb, image, env=failing(image, *bad))
    assert (result.returncode, result.stderr) == (0, "")
    # The number of requests may differ.
    told, expected = ([line for line in each.stdout.splitlines() if "requests" not in line] for each in (result, sound))
    assert told == expected


@pytest.mark.full
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("name", ["hfsplus", "apfs"])
def test_an_unreadable_area_is_a_finding_and_the_rest_is_read(disks, failing, verb, name):
    """A sector inside a leaf: the result reports a gap and holds everything around it."""
    image, at = disks / f"{name}.img", leaf_in_the_middle(disks / f"{name}.img")
    if (verb, name) == ("checkpoints", "hfsplus"):
        pytest.skip("of APFS alone")
    result = python("", verb, image, env=failing(image, at, 512))
    assert "Traceback" not in result.stderr
    # Commands that list files report that some are missing; the newest checkpoint lacks one of its nodes.
    assert result.returncode == 3, result.stderr
    assert result.stdout
    if verb == "checkpoints":
        assert "15 of 16" in result.stdout
    if verb == "check":
        assert f"{at:,}" in result.stdout
        assert "could not be read" in result.stdout
    if verb == "verify":
        assert "Both decoders agree on every row that was read." in result.stdout
        assert "Reading found " in result.stdout


def leaf_in_the_middle(image: Path) -> int:
    """Return the address of a leaf with names that is neither the first nor the last."""
    from layoutscope import read_layouts

    nodes = read_layouts(image)[-1].nodes
    leaves = nodes.filter((nodes["kind"] == "leaf") & nodes["tree"].is_in(["catalog", "fs"]))
    return int(leaves["image_offset"][len(leaves) // 2])


@pytest.mark.parametrize("name", ["hfsplus", "apfs"])
def test_a_disk_that_fails_reads_as_with_a_map_of_the_same_areas(disks, failing, tmp_path, name):
    """Found while reading or known from ddrescue: the same tables, the same findings."""
    image, at = disks / f"{name}.img", leaf_in_the_middle(disks / f"{name}.img")
    size = image.stat().st_size
    areas = f"0x0 {at:#x} +\n{at:#x} 0x200 -\n{at + 512:#x} {size - at - 512:#x} +\n"
    (tmp_path / "map").write_text(f"0x0 ? 1\n{areas}")
    mapped = python("", "check", image, "--ddrescue-map", tmp_path / "map", env=dict(os.environ))
    found = python("", "check", image, env=failing(image, at, 512))
    assert (found.returncode, found.stdout) == (mapped.returncode, mapped.stdout)
    assert found.returncode == 3


@pytest.mark.parametrize("name", ["hfsplus", "apfs"])
def test_what_is_extracted_of_a_failing_disk_scans_with_what_was_read(disks, failing, tmp_path, name):
    """The lost sector is a hole; the exit code reports missing data."""
    image, at = disks / f"{name}.img", leaf_in_the_middle(disks / f"{name}.img")
    result = python("", "extract", image, "-o", tmp_path / "a.img", env=failing(image, at, 512))
    assert result.returncode == 3, result.stderr
    data, whole = (tmp_path / "a.img").read_bytes(), image.read_bytes()
    assert data[at : at + 512] == bytes(512)
    assert data[at + 512 : at + 4096] == whole[at + 512 : at + 4096]


@pytest.mark.parametrize(("special", "told"), [("catalog", "B-tree header node"), ("allocation", "file")])
def test_special_files_that_cannot_be_read_are_named(disks, failing, special, told):
    """Their first sectors: unreadable data is not a contradiction, and is not compared as zeros."""
    from layoutscope import read_layouts

    layout = read_layouts(disks / "hfsplus.img")[0]
    table, column = (layout.nodes, "tree") if special == "catalog" else (layout.regions, "type")
    places = table.filter(table[column].cast(str).str.starts_with(special))["image_offset"]
    result = python("", "check", disks / "hfsplus.img", env=failing(disks / "hfsplus.img", int(places[0]), 512))
    assert result.returncode == 3, result.stderr
    assert f"{special} {told}: cannot be read" in result.stdout
    assert "impossible" not in result.stdout
    assert "block-claimed-free" not in result.stdout


def test_a_copy_of_the_header_that_cannot_be_read_explains_nothing_else(disks, failing):
    """It is not reported as absent, and a leaf that is lost as well is not treated as its consequence."""
    image = disks / "hfsplus.img"
    alone = python("", "check", image, env=failing(image, image.stat().st_size - 1024, 512))
    assert alone.returncode == 3, alone.stderr
    assert "the copy of the volume header could not be read" in alone.stdout
    assert "no copy" not in alone.stdout
    # Nothing is readable from the leaf to the copy, so the node has a finding of its own.
    at = leaf_in_the_middle(image)
    both = python("", "check", image, env=failing(image, at, 1 << 40))
    assert both.returncode == 3, both.stderr
    assert "node-unreadable" in both.stdout


def test_the_second_image_of_a_set_may_fail(failing, tmp_path):
    """A node on the hard disk of a Fusion set is reported with its device, and the rest of both is read."""
    from layoutscope import read_layouts

    ssd, hdd = tmp_path / "ssd.img", tmp_path / "hdd.img"
    write_apfs(APFS["fusion"], ssd, hdd)
    words = ("scan", ssd, "--second", hdd)
    sound = python("", *words, env=dict(os.environ))
    assert sound.returncode == 0, sound.stderr
    unused = python("", *words, env=failing(hdd, hdd.stat().st_size - 512, 512))
    assert (unused.returncode, unused.stdout) == (0, sound.stdout)
    nodes = read_layouts(ssd, second=hdd)[-1].nodes
    at = int(nodes.filter(nodes["device"] == 1)["image_offset"][0])
    lost = python("", *words, env=failing(hdd, at, 512))
    assert lost.returncode == 3, lost.stderr
    assert "could not be read" in " ".join(lost.stdout.split())


@pytest.mark.parametrize(
    ("name", "bad", "more", "codes"),
    [
        ("apfs", (4096, 1 << 40), {}, (1, 3)),  # the failure limit ends the reading
        ("hfsplus", (512, 512), {}, (0, 3)),  # only this sector of a block is lost; the header after it is read
        ("hfsplus", (0, 1 << 40), {"FAULT_SHORT": "1"}, (1,)),  # less than requested, and then nothing: no zeros
    ],
)
def test_a_disk_that_fails_ends_in_one_line_or_is_read(disks, failing, name, bad, more, codes):
    """Everywhere, in one sector, and where the system returns nothing."""
    image = disks / f"{name}.img"
    result = python("", "scan", image, "--json", env=failing(image, *bad, **more))
    assert result.returncode in codes
    assert "Traceback" not in result.stderr
    assert result.stderr.count("\n") <= 1
    assert bad != (512, 512) or '"hfsplus' in result.stdout.lower()


@pytest.mark.parametrize("verb", ["scan", "check"])
def test_a_file_that_shrinks_is_told(disks, tmp_path, verb):
    """An image is truncated after its header during the scan: the loss is reported, and no data are made up."""
    copy = tmp_path / "a.img"
    copy.write_bytes((disks / "hfsplus.img").read_bytes())
    code = (
        "import os\nfrom layoutscope.image import raw\nmake = raw.RawFile.__init__\n"
        f"def init(self, *words):\n    make(self, *words)\n    os.truncate({str(copy)!r}, 8192)\n"
        "raw.RawFile.__init__ = init"
    )
    result = python(code, verb, copy)
    assert "Traceback" not in result.stderr
    assert (result.returncode, result.stderr) == (3, "")
    assert "shorter" in " ".join(result.stdout.split())
    assert "impossible" not in result.stdout


@pytest.mark.parametrize(
    "module",
    [
        "layoutscope.memory",
        "layoutscope.cli",
        "typer",
        "numpy",
        "layoutscope.cli.commands",
        "layoutscope.api.scan",
        "rich",
    ],
)
def test_an_interrupt_during_imports_ends_with_130(disks, module):
    """Ctrl-C during the import of any module: no traceback, one line."""
    code = (
        "import os, signal, sys\n"
        "class Finder:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == {module!r}:\n"
        "            sys.meta_path.remove(self)\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Finder())"
    )
    result = python(
        code, "scan", disks / "hfsplus.img", preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler)
    )
    assert (result.returncode, result.stderr) == (130, "layoutscope: interrupted\n")


@pytest.mark.parametrize("reads", [1, 3, 10, 30])
def test_an_interrupt_at_any_read_ends_with_130(disks, tmp_path, reads):
    """Also during an output, of which nothing is left."""
    code = (
        "import os, signal\nfrom layoutscope.image import raw\ncount = [0]\n"
        "def counted(real):\n    def read(*words):\n        count[0] += 1\n"
        f"        count[0] == {reads} and os.kill(os.getpid(), signal.SIGINT)\n"
        "        return real(*words)\n    return read\n"
        "for name in ('_fetch_into', 'read_pieces'):\n"
        "    setattr(raw.RawFile, name, counted(getattr(raw.RawFile, name)))"
    )
    result = python(
        code, "extract", disks / "apfs.img", "-o", tmp_path / "a.img",
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    assert result.returncode in (130, 0), result.stderr
    assert result.returncode == 130 or reads > 3
    assert "Traceback" not in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == (["a.img"] if result.returncode == 0 else [])


ENVIRONMENTS = {
    "no home": {"HOME": "/nonexistent", "XDG_CACHE_HOME": "/nonexistent/cache"},
    "no environment": None,
    "another locale": {"LC_ALL": "tr_TR.UTF-8", "LANG": "tr_TR.UTF-8"},
    "plain ASCII": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": ""},
    "another time zone": {"TZ": "Pacific/Kiritimati"},
}


@pytest.mark.full
@pytest.mark.parametrize("words", [("scan", "--details"), ("check",), ("export", "--table", "entries")])
def test_results_do_not_depend_on_the_environment(disks, words):
    """Without a home, without any variable, with other locales and time zones: the same result."""
    verb, *rest = words
    # Libraries put the terminal width into the environment without Python's knowledge.
    usual = python("", verb, disks / "hfsplus.img", *rest, env=dict(os.environ))
    for name, given in ENVIRONMENTS.items():
        environment = {"PATH": os.environ["PATH"]} if given is None else os.environ | given
        result = python("", verb, disks / "hfsplus.img", *rest, env=environment, encoding="utf-8", errors="replace")
        assert (result.returncode, result.stderr) == (usual.returncode, ""), name
        assert name == "plain ASCII" or result.stdout == usual.stdout, name


@pytest.mark.parametrize("seconds", [0, 1, -86400])
def test_a_clock_in_the_past_harms_nothing(disks, tmp_path, seconds):
    """Before 1970 or in its first second: results, captures and evidence reports are written."""
    code = f"import time, datetime\ntime.time = lambda: {seconds}.0\ntime.time_ns = lambda: {seconds} * 10**9"
    result = python(
        code, "scan", disks / "hfsplus.img", "--save", tmp_path / "a.lscope", "--evidence", tmp_path / "a.txt"
    )
    assert "Traceback" not in result.stderr
    assert result.returncode == 0, result.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"a.lscope", "a.txt"}


def test_an_install_that_cannot_be_written_to_works(disks, tmp_path):
    """Without byte code, cache or a writable temporary folder."""
    if os.geteuid() == 0:
        code = (
            "import os, sys\nsys.dont_write_bytecode = False\nreal = os.open\n"
            f"def guarded(path, flags, *rest, **kept):\n    name = os.fspath(path)\n"
            f"    if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) and {str(ROOT / 'layoutscope')!r} in str(name):\n"
            "        raise OSError(30, 'Read-only file system', name)\n    return real(path, flags, *rest, **kept)\n"
            "os.open = guarded"
        )
    else:
        code = ""
    result = python(code, "scan", disks / "hfsplus.img", env=os.environ | {"TMPDIR": str(tmp_path / "absent")})
    assert (result.returncode, result.stderr) == (0, "")


def test_a_disk_that_goes_away_is_told(disks):
    """Every read fails from some point on, as with an unplugged device."""
    code = (
        "import errno, os\ncount = [0]\n"
        "def failing(real):\n    def read(*words):\n        count[0] += 1\n        if count[0] > 4:\n"
        f"            raise OSError({errno.ENODEV}, 'No such device')\n        return real(*words)\n    return read\n"
        "os.pread, os.preadv = failing(os.pread), failing(os.preadv)"
    )
    for name in ("hfsplus.img", "apfs.img"):
        result = python(code, "scan", disks / name)
        assert "Traceback" not in result.stderr
        assert result.returncode in (1, 3)


# Ends other than Ctrl-C: signals from service managers and terminals, and lack of memory, leave no partial file.


ENDED = {"SIGTERM": 143, "SIGHUP": 129, "SIGXCPU": 152}
WRITING = {
    "export": ("export", "H", "--table", "nodes", "-o", "out.parquet"),
    "map": ("map", "A", "-o", "out.html"),
    "trace": ("trace", "H", "-o", "out.csv"),
    "kit": ("kit", "-o", "out.sh"),
    "extract": ("extract", "H", "-o", "out.img"),
    "compressed extract": ("extract", "A", "-o", "out.img.zst"),
    "save": ("scan", "A", "--save", "out.lscope"),
    "query": ("query", "H", "SELECT count(*) FROM nodes"),
    "cache": ("scan", "zst", "--cache-dir", "."),
}
"""Commands that write, and what they write."""
STOPS = {
    "save": "from layoutscope.tables import capture\ncapture.parquet = stop",
    "query": "from layoutscope.fleet import query\nquery._answer_query = stop",
}
"""Where they are stopped in the middle of writing; the others stop after their file is complete and before its
rename."""
WAIT = "print('writing', flush=True)\n    while True: time.sleep(0.1)"
"""Code that stops a command until a signal comes. A signal just before a sleep does not end the sleep, a gap of
Python."""
PROGRAM = """
import os, signal, sys, time
from layoutscope import __main__
def stop(*_, **__):
    {what}
{place}
__main__.main()
"""


def started(disks, folder, words, what, place, **more):
    """Start a command that runs other code at a stop point, in a folder for its results."""
    if words[0] == "query":
        pytest.importorskip("duckdb", reason="duckdb is not installed (pip install 'layoutscope[query]')")
    named = [str(disks / word) if (disks / word).is_file() else word for word in words]
    around = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(folder)}
    code = PROGRAM.format(what=what, place=place)
    return subprocess.Popen(
        [sys.executable, "-c", code, *named],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder, env=around, **more,
    )  # fmt: skip


def usual_signals():
    """Restore default signal handling, because the parent of the tests may ignore signals."""
    for name in ENDED:
        signal.signal(getattr(signal, name), signal.SIG_DFL)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")
@pytest.mark.parametrize(("verb", "name"), [*zip(WRITING, cycle(ENDED), strict=False)])
def test_a_signal_in_the_middle_of_writing_leaves_nothing(disks, tmp_path, verb, name):
    """The exit status is the signal's, standard error has one line, and the folder is empty as before."""
    place = STOPS.get(verb, "os.fsync = stop")
    with started(disks, tmp_path, WRITING[verb], WAIT, place, preexec_fn=usual_signals) as process:
        assert process.stdout.readline() == "writing\n"
        assert list(tmp_path.iterdir()), "it was not in the middle of writing"
        process.send_signal(getattr(signal, name))
        said = process.communicate(timeout=120)[1]
    assert (process.returncode, said) == (ENDED[name], f"layoutscope: ended by {name}\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")
def test_signals_that_follow_do_not_interrupt_tidying_up(disks, tmp_path):
    """``timeout`` sends its signal to the process and to its group; service managers send SIGHUP as well."""
    wait = "for _ in range(2): os.kill(os.getpid(), signal.SIGTERM)"
    place = (
        "os.fsync = stop\nfrom pathlib import Path\nunlink = Path.unlink\n"
        "def slow(*given, **more):\n"
        "    for each in (signal.SIGTERM, signal.SIGHUP, signal.SIGTERM): os.kill(os.getpid(), each)\n"
        "    unlink(*given, **more)\nPath.unlink = slow"
    )
    with started(disks, tmp_path, WRITING["kit"], wait, place, preexec_fn=usual_signals) as process:
        said = process.communicate(timeout=120)[1]
    assert (process.returncode, said) == (143, "layoutscope: ended by SIGTERM\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")
@pytest.mark.parametrize("name", ENDED)
def test_signals_that_were_ignored_at_the_start_stay_so(disks, tmp_path, name):
    """As with ``nohup``: the result is written."""
    program = f"os.kill(os.getpid(), signal.{name})"
    ignore = lambda: signal.signal(getattr(signal, name), signal.SIG_IGN)  # noqa: E731
    with started(disks, tmp_path, WRITING["kit"], program, "os.fsync = stop", preexec_fn=ignore) as process:
        said = process.communicate(timeout=120)[1]
    assert process.returncode == 0, said
    assert [path.name for path in tmp_path.iterdir()] == ["out.sh"]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")
def test_a_batch_that_is_ended_leaves_what_it_has_read(disks, tmp_path):
    """No work remains in progress, no partial file is left, and the batch can be resumed."""
    pytest.importorskip("polars", reason="polars is not installed")
    images = [f"{number}.img" for number in range(3)]
    for name in images:
        (tmp_path / name).write_bytes((disks / "H").read_bytes())
    place = "from layoutscope.fleet.store import FleetFolder\nFleetFolder.check_room = stop"
    words = ("batch", *images, "-o", "fleet", "--jobs", "2", "--quiet")
    with started(disks, tmp_path, words, WAIT, place, preexec_fn=usual_signals) as process:
        assert process.stdout.readline() == "writing\n"
        process.send_signal(signal.SIGTERM)
        said = process.communicate(timeout=120)[1]
    assert (process.returncode, said.splitlines()[-1]) == (143, "layoutscope: ended by SIGTERM")
    assert [path for path in tmp_path.rglob("*") if path.name.endswith(".part")] == []
    assert list((tmp_path / "fleet/work").iterdir()) == []
    assert layoutscope.batch([tmp_path / name for name in images], tmp_path / "fleet", resume=True).kept >= 1


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")
def test_a_report_of_an_examination_names_the_signal(disks, tmp_path):
    """The exit code in the report is the one that the process ends with."""
    words = ("export", "H", "--table", "nodes", "-o", "out.csv", "--evidence", "report.txt")
    place = "from layoutscope.api import export\nexport.write_table = stop"
    what = "os.kill(os.getpid(), signal.SIGTERM)"
    with started(disks, tmp_path, words, what, place, preexec_fn=usual_signals) as process:
        process.communicate(timeout=120)
    assert process.returncode == 143
    report = (tmp_path / "report.txt").read_text()
    assert "143" in report
    assert "ended by SIGTERM" in report
    assert [path.name for path in tmp_path.iterdir()] == ["report.txt"]


def under_limit():
    """Limit the address space, far above actual needs."""
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")
@pytest.mark.full
@pytest.mark.skipif(sys.platform != "linux", reason="Linux holds processes to such limits")
@pytest.mark.parametrize("verb", WRITING)
def test_too_little_memory_in_the_middle_of_writing_leaves_nothing(disks, tmp_path, verb):
    """One line, and no partial file."""
    place = STOPS.get(verb, "os.fsync = stop")
    with started(disks, tmp_path, WRITING[verb], "raise MemoryError", place, preexec_fn=under_limit) as process:
        said = process.communicate(timeout=120)[1]
    assert process.returncode == 1
    assert said.startswith("layoutscope: not enough memory: limited to 8,192 MiB (ulimit -v)")
    assert said.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


# Too little memory: one line and exit code 1, or the result, at any limit at which the interpreter starts.


LACK = "layoutscope: not enough memory: limited to {:,} MiB (ulimit -v)"
COMFORTABLE_MIB = 8192
VERBS_IN_LITTLE_MEMORY = {
    "scan": ("H",), "check": ("H",), "verify": ("H",), "predict": ("H",), "trace": ("H",), "checkpoints": ("A",),
    "inspect": ("H", "--at", "1024"), "export": ("A", "--table", "entries"), "map": ("A", "-o", "O"),
    "extract": ("H", "-o", "O"), "compare": ("H", "A"), "series": ("H", "A"), "explain": ("sweep",), "drives": (),
    "kit": (), "cache": (),
}  # fmt: skip
"""Commands to run: H and A stand for images of HFS+ and APFS, O for an output."""


SHELL = ["sh", "-c", 'ulimit -v $0 && exec "$@"']


def limited(mib: int | None, *words: object, **options):
    """Run a Python program under ``ulimit -v``, which the shell sets before anything is loaded."""
    limit = "unlimited" if mib is None else str(mib * 1024)
    return subprocess.run(
        [*SHELL, limit, sys.executable, *map(str, words)],
        capture_output=True, text=True, check=False, cwd=ROOT, timeout=120, stdin=subprocess.DEVNULL, **options,
    )  # fmt: skip


def command(code: str, mib: int | None = COMFORTABLE_MIB):
    """Run some lines as the command of a program."""
    lines = "\n    ".join(["import os, signal, sys", "from layoutscope import memory", *code.splitlines()])
    return limited(mib, "-c", f"from layoutscope import memory\nwith memory.report_lack():\n    {lines}")


@pytest.mark.skipif(sys.platform != "linux", reason="Linux holds processes to such limits")
@pytest.mark.parametrize("mib", [20, 130, pytest.param(400, marks=pytest.mark.full)])
@pytest.mark.parametrize("verb", VERBS_IN_LITTLE_MEMORY)
def test_any_limit_gives_the_result_or_says_what_is_missing(disks, tmp_path, verb, mib):
    """From limits at which libraries fail to load to some that work; a library that ends the process says why."""
    words = [
        {"H": disks / "H", "A": disks / "A", "O": tmp_path / "out"}.get(word, word)
        for word in VERBS_IN_LITTLE_MEMORY[verb]
    ]
    result = limited(mib, "-m", "layoutscope", verb, *words)
    if result.returncode in (0, 3):
        assert mib > 20
        assert all(line.startswith("layoutscope: ") for line in result.stderr.splitlines())
    elif result.stderr != LACK.format(mib) + "\n":
        assert memory.mentions_lack(result.stderr), result.stderr[-600:]
        assert "Traceback" not in result.stderr, result.stderr[-600:]
    else:
        assert result.returncode == 1
        assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform != "linux", reason="Linux holds processes to such limits")
def test_with_enough_memory_a_limit_changes_nothing(disks):
    """The same text, the same codes."""
    for words in (["scan", disks / "H"], ["scan", disks / "absent"], ["scan", "--nonsense"], ["--help"]):
        one, other = (limited(mib, "-m", "layoutscope", *words) for mib in (COMFORTABLE_MIB, None))
        assert (one.returncode, one.stdout, one.stderr) == (other.returncode, other.stdout, other.stderr)


@pytest.mark.skipif(sys.platform != "linux", reason="Linux holds processes to such limits")
@pytest.mark.parametrize(
    "code",
    [
        "raise MemoryError",
        "bytearray(1 << 36)",
        "try: raise MemoryError\nexcept MemoryError as error: raise ValueError('damaged') from error",
        "raise ImportError('a.so: failed to map segment from shared object')",
        "raise OSError(12, 'Cannot allocate memory')",
        'raise RuntimeError("can\'t start new thread")',
    ],
)
def test_whatever_lacks_memory_ends_in_the_same_line(code):
    """Errors of Python, of its loader, and of libraries."""
    result = command(code)
    assert (result.returncode, result.stderr) == (1, LACK.format(COMFORTABLE_MIB) + "\n")


@pytest.mark.skipif(sys.platform != "linux", reason="Linux holds processes to such limits")
@pytest.mark.parametrize(
    ("code", "exit_code", "said"),
    [
        ("raise KeyError('a fault of the program')", 1, "KeyError: 'a fault of the program'"),
        ("import layoutscope.absent", 1, "ModuleNotFoundError"),
        ("raise FileNotFoundError(2, 'No such file', 'out of memory.img')", 1, "FileNotFoundError"),
        ("os.write(2, b'a library warns')", 0, "a library warns"),
        ("sys.stderr.write('layoutscope: it has findings\\n')\nsys.exit(3)", 3, "layoutscope: it has findings"),
        ("sys.exit('said at the end')", 1, "said at the end"),
        ("sys.exit(130)", 130, ""),
        ("os.kill(os.getpid(), signal.SIGXCPU)", -signal.SIGXCPU, ""),
    ],
)
def test_other_ends_are_what_they_are(code, exit_code, said):
    """A program error or a timeout is not a lack of memory; earlier output is kept."""
    result = command(code)
    assert result.returncode == exit_code
    assert said in result.stderr
    assert "not enough memory" not in result.stderr

"""An image that is read once: its answers, its reads, and when it is closed."""

from __future__ import annotations

import io
import shutil
from pathlib import Path

import pytest

import layoutscope
from fixtures.apfs.scenarios import PASSWORD, SCENARIOS
from fixtures.apfs.writer import write
from layoutscope.api.reading import Volumes
from layoutscope.errors import LockedError, UsageError
from layoutscope.zstd import zstd
from tests.layouts import layout

FOLDER = Path(__file__).resolve().parents[2] / "fixtures" / "images"
NAMES = {"hfsplus": "hfsplus-scattered.img.zst", "apfs": "apfs-scattered.img.zst"}


@pytest.fixture(params=NAMES)
def image(request, tmp_path):
    """Write the raw image of each kind."""
    path = tmp_path / f"{request.param}.img"
    with (FOLDER / NAMES[request.param]).open("rb") as packed, path.open("wb") as raw:
        shutil.copyfileobj(zstd.open(packed), raw)
    return path


def reads(session) -> tuple[int, int]:
    """Return the reads that reached the file."""
    counter = session.opened.images[0].counter
    return counter.reads, counter.bytes


def test_a_second_verb_reads_nothing_more(image, tmp_path):
    """Scan, prediction, trace, map and export are computed from the data read on opening."""
    with layoutscope.open(image) as session:
        before = reads(session)
        assert before[0] > 0
        session.scan(drives="generic-7200")
        session.predict(order="names", drives="generic-7200")
        session.trace(order="catalog")
        session.map(tmp_path / "map.html", drives=())
        session.export("nodes", io.BytesIO())
        assert reads(session) == before


def test_what_shows_bytes_asks_nothing_of_the_disk(image):
    """The leaves with a file's records are remembered, and so is the image's head that locates them."""
    with layoutscope.open(image) as session:
        before = reads(session)[1]
        found = session.inspect(cnid=2)
        assert found.structures
        assert reads(session)[1] == before


def test_the_path_is_not_opened_again(image, tmp_path):
    """After the image is renamed, every verb of a session answers as before."""
    with layoutscope.open(image) as session:
        image.rename(tmp_path / "elsewhere")
        assert session.scan(drives=()).volume.walk is not None
        assert session.predict(drives="sata-ssd").volumes
        assert len(session.trace()) > 0
        assert session.inspect(cnid=2).owners
        assert session.check().is_clean
        session.map(tmp_path / "map.html", drives=())


def test_a_session_says_what_the_verbs_say(image):
    """Each answer equals that of the verb for the path."""
    with layoutscope.open(image) as session:
        plain = layoutscope.scan(image, drives="generic-7200")
        asked = session.scan(drives="generic-7200")
        assert asked.image == plain.image
        assert [volume.metrics for volume in asked.parts] == [volume.metrics for volume in plain.parts]
        assert asked.volume.predictions[0].seconds == plain.volume.predictions[0].seconds
        assert session.check() == layoutscope.check(image)
        assert session.inspect(cnid=2) == layoutscope.inspect(image, cnid=2)


@pytest.mark.full
def test_every_verb_takes_a_session_in_place_of_a_path(image, tmp_path):
    """Verbs that are not methods of a session accept one, including those that read the bytes again."""
    with layoutscope.open(image) as session:
        assert layoutscope.read_layouts(session) is session.layouts
        assert len(layoutscope.compare(session, session, drives=()).names) == 2
        assert layoutscope.series([session], drives=()).volumes
        assert all(not table.differences for table in layoutscope.verify(session).tables)
        assert layoutscope.extract(session, tmp_path / "metadata.img").metadata_bytes > 0


def test_how_an_image_is_read_is_said_when_it_is_opened(image):
    """A session opened with some options does not answer as if it had others."""
    with layoutscope.open(image, names=False) as session:
        assert session.volume.entries["name"].null_count() == session.volume.entries.height
        with pytest.raises(TypeError, match="is open already; give 'names' when you open the image"):
            layoutscope.scan(session, names=True)
        with pytest.raises(TypeError, match="open"):
            layoutscope.open(session, names=True)


def test_the_volume_is_the_one_that_can_be_walked(image):
    """On APFS the container comes before its volume; ``volume`` is the volume on both file systems."""
    with layoutscope.open(image) as session:
        result = session.scan(drives=())
        assert session.volume is result.volume.layout
        assert session.volume.entries.height > 0
        is_container = [part.layout.facts.volume is None for part in result.parts]
        assert is_container == ([True, False] if "apfs" in image.name else [False])
        assert session.volumes[1] is session.volumes[session.volume.facts.name] is session.volume
        assert len(session.volumes) == 1


def test_volumes_are_found_by_name_and_by_number_from_one():
    """Numbers count from 1 and leave out containers; an error lists the existing volumes."""
    data, system = layout(name="Data", volume=0), layout(name="System", volume=1)
    volumes = Volumes([layout(name="", volume=None), data, system])
    assert list(volumes) == [data, system]
    assert volumes["Data"] is volumes[1] is data
    assert volumes["system"] is volumes[2] is system
    for wanted in ("Dta", 0, 3):
        with pytest.raises(UsageError, match=f"no volume '{wanted}'.*Choose from: 1 'Data', 2 'System'"):
            volumes[wanted]
    assert repr(volumes) == "Volumes(1: 'Data', 2: 'System')"
    with pytest.raises(UsageError, match="no volume that can be walked"):
        layoutscope.api.reading.only_volume([])


def test_a_closed_session_says_so(image):
    """After the end of a ``with`` block, verbs fail; tables obtained before stay valid."""
    with layoutscope.open(image) as session:
        kept = session.volume
    assert kept.nodes.height > 0
    with pytest.raises(UsageError, match="was closed"):
        session.scan()
    assert "closed" in repr(session)


def test_progress_is_told_while_a_verb_works(image):
    """The listener receives reading on opening, walking on request, and nothing in between."""
    heard: list[str] = []
    with layoutscope.open(image, progress=lambda step: heard.append(step.phase)) as session:
        assert any("reading" in phase for phase in heard)
        heard.clear()
        layoutscope.drives("sata-ssd")
        assert heard == []
        session.trace()
        assert any("working out the reads" in phase for phase in heard)


def test_a_capture_is_opened_like_an_image(image, tmp_path):
    """A saved capture answers the verbs that need only tables."""
    layoutscope.scan(image, drives=()).save(tmp_path / "kept.lscope")
    with layoutscope.open(tmp_path / "kept.lscope") as session:
        assert session.predict(drives="sata-ssd").volumes
        with pytest.raises(UsageError, match="is a capture"):
            session.inspect(at=0)
    shutil.rmtree(tmp_path / "kept.lscope")


def test_a_locked_volume_is_no_slip_of_the_pen(tmp_path):
    """The errors for locked and missing volumes differ, and with the password the volume can be read."""
    path = tmp_path / "locked.img"
    write(SCENARIOS["encrypted"], path)
    with layoutscope.open(path) as session:
        for ask in (lambda: session.volume, lambda: session.scan(drives=()).volume, session.trace, session.predict):
            with pytest.raises(LockedError, match="encrypted and locked"):
                ask()
        with pytest.raises(UsageError, match="no volume 'Secrte'") as slip:
            session.volumes["Secrte"]
        assert not isinstance(slip.value, LockedError)
    with layoutscope.open(path, password=PASSWORD) as session:
        assert session.volume.entries.height > 0


def test_misspelt_keywords_of_a_session_are_refused(image):
    """Its methods check their keywords as the verbs do."""
    with layoutscope.open(image) as session:
        asked = {
            "drives": lambda: session.scan(drive="sata-ssd"),
            "order": lambda: session.predict(ordr="names"),
            "host": lambda: session.trace(hst="macos"),
            "cnid": lambda: session.inspect(cnd=2),
            "picture": lambda: session.map("nowhere.html", pictur="x.png"),
        }
        for meant, ask in asked.items():
            with pytest.raises(TypeError, match=rf"has no keyword '\w+' \(did you mean '{meant}'\?\)"):
                ask()

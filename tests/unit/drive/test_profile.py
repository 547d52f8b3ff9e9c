"""Drive profiles: figures with their sources, from the package or from a file."""

from __future__ import annotations

import pytest

from layoutscope.drive import FIGURES, list_profiles, load_profile
from layoutscope.drive.profile import KINDS, parse_profile
from layoutscope.errors import UsageError
from tests.unit.drive.toys import disk, drive_set, flash

GOOD = """
name = "A disk"
kind = "hdd"
note = "n"
[sources]
spec = "the maker's manual, p. 3"
[figures]
rpm = { value = 7200, kind = "datasheet", source = "spec" }
heads = { value = 4, kind = "assumed", source = "two platters" }
"""


@pytest.mark.parametrize("name", list_profiles())
def test_every_figure_says_where_it_comes_from(name):
    """All profiles load; each figure has a known kind and a source, and no assumed figure claims to be measured."""
    profile = load_profile(name)
    assert profile.title
    for key, figure in profile.figures.items():
        assert key in FIGURES
        assert figure.kind in KINDS
        assert len(figure.source) > 3
        assert not (figure.source.startswith("assumed") and figure.kind in ("measured", "datasheet")), key
    assert profile.capacity_bytes > 9e9


def test_profiles_of_the_package_are_complete():
    """Their figures and their geometry say how they are known."""
    # Generic drives, the reference enclosure, measured and simulated drives, flash.
    assert set(list_profiles()) >= {
        "generic-5400-3.5", "generic-5400-2.5", "generic-7200", "wd-mybook-duo-2tb", "st2000dm006", "sata-ssd",
        "apple-sm0512l-2016", "apple-ap0256j-2017", "stripe-8-blades", "cheetah15k5", "cheetah9lp", "atlas10k5",
    }  # fmt: skip
    # Nothing is published about these disks, and every figure says so.
    enclosure = load_profile("wd-mybook-duo-2tb")
    assert len(enclosure.members) == 2
    for drive in (enclosure, *enclosure.members):
        assert {figure.kind for figure in drive.figures.values()} == {"assumed"}
    # A sector map, zones, a datasheet, or no surface at all; a set is known as well as its disks.
    assert load_profile("cheetah9lp").geometry == "map"
    assert disk().geometry == "zones"
    assert load_profile("generic-7200").geometry == "datasheet"
    assert flash().geometry == "none"
    assert drive_set("fusion", flash(), disk()).geometry == "zones"


def test_figures_have_sources_and_units():
    """Sources are written out, and missing figures are named."""
    # A source that is in the table of sources is written out.
    profile = parse_profile(GOOD, name="x", folder=None)
    assert profile.figures["rpm"].source == "the maker's manual, p. 3"
    assert profile.figures["heads"].source == "two platters"
    assert profile.number("rpm") == 7200
    # A disk without rotation speed cannot be simulated, and the message says what is missing.
    with pytest.raises(UsageError, match=r"lacks rpm \(revolutions a minute\)"):
        disk(rpm=None).number("rpm")
    with pytest.raises(UsageError, match="lacks latency_us"):
        flash().with_figures(latency_us=None).numbers("latency_us")
    # ``off`` disables look-ahead, ``join`` lets reads wait for its next sector, other words are refused.
    assert disk().with_cache("off").text("look_ahead", "") == "none"
    assert disk().with_cache("join").text("join", "") == "next-sector"
    assert disk().with_cache("own") == disk()
    with pytest.raises(UsageError, match="warm"):
        disk().with_cache("warm")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("rpm", "rmp", "unknown figure rmp"),
        ('kind = "datasheet"', 'kind = "sure"', "'sure'"),
        (', source = "spec"', "", "needs value, kind and source"),
        ('kind = "hdd"', 'kind = "tape"', "tape"),
        ("[figures]", "[figures", "drive profile x"),
    ],
)
def test_a_malformed_profile_is_refused(old, new, message):
    """The error names the profile and what is wrong."""
    with pytest.raises(UsageError, match=message):
        parse_profile(GOOD.replace(old, new, 1), name="x", folder=None)


def test_a_profile_from_a_file(tmp_path):
    """FILE.toml is accepted instead of a name; its members may be next to it."""
    (tmp_path / "one.toml").write_text(GOOD)
    (tmp_path / "two.toml").write_text(
        'kind = "stripe"\nmembers = ["one.toml", "generic-7200"]\n'
        '[figures]\nchunk_bytes = { value = 65536, kind = "assumed", source = "made up" }\n'
    )
    assert load_profile(tmp_path / "one.toml").name == "one"
    assert [member.name for member in load_profile(str(tmp_path / "two.toml")).members] == ["one", "generic-7200"]
    with pytest.raises(UsageError, match="cheetah9lp"):
        load_profile("cheetah9")
    with pytest.raises(UsageError, match=r"no drive profile at .*nothing\.toml"):
        load_profile(tmp_path / "nothing.toml")


@pytest.mark.parametrize("files", [("a",), ("a", "b"), tuple("abcdefghij")])
def test_a_set_that_is_its_own_member_is_refused(tmp_path, files):
    """Sets that contain themselves, and sets nested too deeply, give an error."""
    for name, member in zip(files, (*files[1:], "a"), strict=True):
        (tmp_path / f"{name}.toml").write_text(f'kind = "stripe"\nmembers = ["{member}.toml"]\n')
    with pytest.raises(UsageError, match="is a member of itself, or of too many sets"):
        load_profile(tmp_path / "a.toml")

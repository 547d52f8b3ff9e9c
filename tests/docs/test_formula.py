"""The Homebrew formula names every package that is needed, at the public index, and is Ruby."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import tomllib

import pytest

from tests.docs import formula
from tests.docs.imports import ROOT

FILE, CONTENT = "layoutscope-0.1.0.tar.gz", b"a source distribution"
INDEX = "https://files.pythonhosted.org/packages"


def package(name, url=f"{INDEX}/ab/cd/ef", **sdist):
    return {
        "name": name,
        "version": "1",
        "sdist": {"url": f"{url}/{name}-1.tar.gz", "hashes": {"sha256": name}, **sdist},
    }


LOCK = {"packages": [package("platformdirs"), package("numpy"), package("mdurl")]}


@pytest.fixture(scope="module")
def text():
    """Return a formula."""
    return formula.formula(FILE, CONTENT, LOCK)


def test_each_package_is_a_resource_or_a_formula(text):
    """Resources come by name, with address and hash; what Homebrew builds itself is depended on."""
    assert re.findall(r'resource "(.*)" do\n    url "(.*)"\n    sha256 "(.*)"\n  end', text) == [
        ("mdurl", f"{INDEX}/ab/cd/ef/mdurl-1.tar.gz", "mdurl"),
        ("platformdirs", f"{INDEX}/ab/cd/ef/platformdirs-1.tar.gz", "platformdirs"),
    ]
    assert re.findall('depends_on "(.*)"', text) == ["numpy", "python@3.13"]


def test_the_release_is_named_by_its_hashes(text):
    """The formula's own address and hash follow from the bytes; one other byte, and both are others."""
    (url,) = re.findall(r'^  url "(.*)"$', text, re.MULTILINE)
    (sha256,) = re.findall(r'^  sha256 "(.*)"$', text, re.MULTILINE)
    assert sha256 == hashlib.sha256(CONTENT).hexdigest()
    assert url.startswith(f"{INDEX}/")
    assert url.endswith(f"/{FILE}")
    other = formula.formula(FILE, CONTENT + b".", LOCK)
    assert url not in other
    assert sha256 not in other


def test_the_index_files_by_blake2():
    """The address of a file without content is that which its BLAKE2 hash of 256 bits gives."""
    empty = "0e/57/51c026e543b2e8ab2eb06099daa1d1e5df47778f7787faab45cdf12fe3a8"
    assert formula.address("a.tar.gz", b"") == f"{INDEX}/{empty}/a.tar.gz"


def test_no_other_index_gets_into_it():
    """A lock file made with a mirror is refused."""
    with pytest.raises(SystemExit, match="mdurl is not of the public package index"):
        formula.formula(FILE, CONTENT, {"packages": [package("mdurl", "https://mirror.example/packages")]})


def test_a_package_of_wheels_alone_is_refused():
    """Homebrew builds from source distributions."""
    with pytest.raises(SystemExit, match="mdurl has no source distribution"):
        formula.formula(FILE, CONTENT, {"packages": [{"name": "mdurl", "wheels": []}]})


def test_it_says_what_the_project_says(text):
    """Licence and version of Python are those of pyproject.toml; the description is as short as Homebrew wants it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert f'license "{project["license"]}"' in text
    wanted = tuple(map(int, project["requires-python"].removeprefix(">=").split(".")))
    assert tuple(map(int, formula.PYTHON.split("."))) >= wanted
    (description,) = re.findall('desc "(.*)"', text)
    assert len(description) <= 80


def test_it_is_ruby(text, tmp_path):
    """Ruby parses it, and does not parse it cut short."""
    ruby = shutil.which("ruby")
    if ruby is None:
        pytest.skip("there is no Ruby")
    whole, part = tmp_path / "whole.rb", tmp_path / "part.rb"
    whole.write_text(text)
    part.write_text(text.rstrip().removesuffix("end"))
    status = [subprocess.run([ruby, "-c", path], capture_output=True, check=False).returncode for path in (whole, part)]
    assert status[0] == 0
    assert status[1] != 0

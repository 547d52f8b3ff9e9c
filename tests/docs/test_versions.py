"""The version comes from git's tags, and a source without git, tags or both can be built, too."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile

import pytest

from layoutscope import version
from layoutscope.structs.build import compiler
from tests.docs.imports import ROOT

pytest.importorskip("hatchling", reason="the build's packages are not here: extra dev")
pytest.importorskip("hatch_vcs", reason="the build's packages are not here: extra dev")
pytest.importorskip("editables", reason="the build's packages are not here: extra dev")
if not shutil.which("git"):
    pytest.skip("git is not here", allow_module_level=True)
UNKNOWN = f"{version.RELEASE}+unknown"
PARTS = (
    ".git_archival.txt",
    ".gitattributes",
    ".gitignore",
    "hatch_build.py",
    "pyproject.toml",
    "LICENSE",
    "README.md",
)
WRITTEN = "layoutscope/_version.py"


def git(folder, *words):
    """Run git, whatever the user set up."""
    settings = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    settings |= {f"GIT_{who}_{what}": "a@b.example" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    subprocess.run(["git", *words], cwd=folder, env={**os.environ, **settings}, check=True, capture_output=True)


def hatch(folder, *words, path=None):
    """Run the build's program in a folder."""
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("SETUPTOOLS_SCM")}
    # Which code the compiler makes of the core is not the question: the quickest will do.
    around = {**inherited, "PYTHONPATH": "", "CFLAGS": "-O0", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-P", "-m", "hatchling", *words]
    around |= {"PATH": path} if path is not None else {}
    return subprocess.run(command, cwd=folder, env=around, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def source(tmp_path):
    """Make a repository of what a wheel needs, with a commit and no tag."""
    folder = tmp_path / "source"
    folder.mkdir()
    for name in PARTS:
        shutil.copy(ROOT / name, folder / name)
    for name in ("glossary.md", "layoutscope.1"):
        (folder / "docs").mkdir(exist_ok=True)
        shutil.copy(ROOT / "docs" / name, folder / "docs" / name)
    left_out = shutil.ignore_patterns("_version.py", "kernels.*", "__pycache__", "web")
    shutil.copytree(ROOT / "layoutscope", folder / "layoutscope", ignore=left_out)
    git(folder, "init", "--quiet")
    commit(folder)
    return folder


def commit(folder):
    """Commit everything, and something new each time."""
    with (folder / "more").open("a", encoding="utf-8") as stream:
        stream.write("more\n")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "more")


def archive(folder, target):
    """Unpack what ``git archive`` gives, as hosts of repositories do."""
    git(folder, "archive", "--output", str(target.with_suffix(".tar")), "HEAD")
    return unpack(target.with_suffix(".tar"), target)


def unpack(path, folder):
    """Unpack with Python's safe filter where there is one: Debian 12's 3.11.2 has none yet."""
    with tarfile.open(path) as packed:
        packed.extractall(folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))  # noqa: S202 - ours
    return folder


def test_a_release_is_its_tag_and_what_follows_names_its_commit(source, tmp_path):
    """Tags of other kinds count for nothing; an archive knows as much as the repository."""
    git(source, "tag", "v9.8.7")
    git(source, "tag", "nightly")
    assert hatch(source, "version") == "9.8.7"
    assert hatch(archive(source, tmp_path / "released"), "version") == "9.8.7"
    commit(source)
    later = r"9\.8\.8\.dev1\+g[0-9a-f]{7,}"
    assert re.fullmatch(later, hatch(source, "version"))
    assert re.fullmatch(later, hatch(archive(source, tmp_path / "later"), "version"))


def test_without_tags_or_git_it_is_the_newest_release_known_and_says_so(source, tmp_path):
    """A clone without tags, a shallow one, an archive of it, a folder without git, a machine without git."""
    pattern = rf"{re.escape(version.RELEASE.rpartition('.')[0])}\.\d+\.dev1\+unknown\.g[0-9a-f]{{7,}}"
    assert re.fullmatch(pattern, hatch(source, "version"))
    assert hatch(archive(source, tmp_path / "archive"), "version") == UNKNOWN
    assert hatch(source, "version", path="") == UNKNOWN
    git(source, "tag", "v9.8.7")
    commit(source)
    git(tmp_path, "clone", "--quiet", "--depth", "1", source.as_uri(), "shallow")
    assert re.fullmatch(pattern, hatch(tmp_path / "shallow", "version"))
    shutil.rmtree(source / ".git")
    assert hatch(source, "version") == UNKNOWN


def test_wheel_source_distribution_and_what_is_built_of_it_say_the_same(source, tmp_path):
    """The file with the version is in both, and the source distribution is built without git."""
    if not compiler():
        pytest.skip("no C compiler")
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("cc", "gcc", "clang", "as", "ld"):
        if found := shutil.which(name):
            (tools / name).symlink_to(found)
    git(source, "tag", "v9.8.7")
    hatch(source, "build", "-d", str(tmp_path))
    assert not (source / WRITTEN).exists()
    unpacked = unpack(tmp_path / "layoutscope-9.8.7.tar.gz", tmp_path) / "layoutscope-9.8.7"
    assert '__version__ = "9.8.7"\n' in (unpacked / WRITTEN).read_text("utf-8")
    assert hatch(unpacked, "version", path="") == "9.8.7"
    hatch(unpacked, "build", "-t", "wheel", "-d", str(tmp_path / "again"), path=str(tools))
    first, again = next(tmp_path.glob("*.whl")), next((tmp_path / "again").glob("*.whl"))
    assert (first.name, first.read_bytes()) == (again.name, again.read_bytes())
    with zipfile.ZipFile(first) as wheel:
        assert wheel.read(WRITTEN) == (unpacked / WRITTEN).read_bytes()
        assert "Version: 9.8.7" in wheel.read("layoutscope-9.8.7.dist-info/METADATA").decode().splitlines()


def test_a_checkout_says_what_was_built_last_else_that_it_does_not_know(source):
    """An editable installation writes the file beside the source; before, nothing is claimed."""
    ask = [sys.executable, "-c", "import layoutscope; print(layoutscope.__version__)"]
    around = {**os.environ, "PYTHONPATH": str(source)}
    assert subprocess.check_output(ask, env=around, text=True, cwd=source).strip() == UNKNOWN
    git(source, "tag", "v9.8.7")
    if not compiler():
        pytest.skip("no C compiler")
    hatch(source, "build", "-t", "wheel:editable", "-d", str(source.parent))
    assert subprocess.check_output(ask, env=around, text=True, cwd=source).strip() == "9.8.7"

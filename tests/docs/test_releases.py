"""The texts for releases are about the program as it is."""

from __future__ import annotations

import re
import tomllib

import yaml

from layoutscope.tables.capture import FORMAT
from layoutscope.version import RELEASE
from tests.docs.imports import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PAGE = (ROOT / "docs" / "dev" / "releases.md").read_text(encoding="utf-8")


def test_it_is_cited_by_its_version_and_licence():
    """CITATION.cff is valid, and has the newest release and the licence of the package."""
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert {"cff-version", "message", "title", "authors"} <= set(citation)
    assert (citation["version"], citation["license"]) == (RELEASE, PROJECT["project"]["license"])


def test_where_no_tag_is_seen_the_newest_release_is_named():
    """The build's fallback, that of a source nobody built, and the changelog's newest heading are of one release."""
    assert PROJECT["tool"]["hatch"]["version"]["fallback-version"] == f"{RELEASE}+unknown"
    headings = re.findall(r"^## (\d\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert (headings[0] if headings else "0.1.0") == RELEASE


def test_the_policy_names_the_format_of_captures():
    """The page has the current version, and describes how older ones are read."""
    assert f"`{FORMAT}`" in PAGE


def test_the_container_has_no_rights():
    """The last user is an ordinary one, and every extra that is asked for is there."""
    text = (ROOT / "Containerfile").read_text(encoding="utf-8")
    users = re.findall(r"^USER (\d+):", text, re.MULTILINE)
    assert users
    assert int(users[-1]) > 0
    (extras,) = re.findall(r"/source\[([^]]+)\]", text)
    assert set(extras.split(",")) <= set(PROJECT["project"]["optional-dependencies"])


def test_the_workflow_runs_what_is_there():
    """Its sessions of nox are, and so are the images that wheels are tried on; it may write nothing."""
    text = (ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8")
    sessions = re.findall(r"^def (\w+)\(session", (ROOT / "noxfile.py").read_text(encoding="utf-8"), re.MULTILINE)
    assert set(re.findall(r"nox -s (\w+)", text)) <= set(sessions)
    assert yaml.safe_load(text)["permissions"] == {"contents": "read"}
    platforms = "\n".join([*PROJECT["tool"]["cibuildwheel"]["test-command"], text])
    images = re.findall(r"fixtures/images/\S+", platforms)
    assert images
    assert all((ROOT / image).is_file() for image in images)


def test_what_pages_lead_to_is_in_the_source_distribution():
    """Tests and pages that are in it read files outside of their folders: these are in it as well."""
    included = PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    assert {".ci", ".github", "Containerfile", "CITATION.cff", "noxfile.py", "ksy", "fixtures"} <= set(included)

"""What an installation consists of is listed whole, and a licence that binds users is seen."""

from __future__ import annotations

import json

import pytest

from tests.docs import bill

PACKAGES = {
    "layoutscope": "License-Expression: MIT",
    "expressed": "License-Expression: Apache-2.0 OR BSD-2-Clause",
    "classified": "Classifier: License :: OSI Approved :: MIT License",
    "old": "License: BSD 3-Clause\n        and many lines more",
    "pip": "License: MIT",
}


@pytest.fixture
def listed(tmp_path, monkeypatch):
    """Return a function that lists an environment of packages, given as licences by name."""

    def run(**licences):
        for name, line in licences.items():
            folder = tmp_path / "lib" / "python3.12" / "site-packages" / f"{name}-1.0.dist-info"
            folder.mkdir(parents=True)
            (folder / "METADATA").write_text(f"Metadata-Version: 2.4\nName: {name}\nVersion: 1.0\n{line}\n")
        target = tmp_path / "bill.json"
        monkeypatch.setattr("sys.argv", ["bill", str(tmp_path), "-o", str(target)])
        status = bill.main()
        return status, json.loads(target.read_text())

    return run


def test_every_package_is_listed_with_its_licence(listed):
    """Licences are found wherever packages record them; packages that each environment has are left out."""
    status, document = listed(**PACKAGES)
    licences = {part["name"]: part["licenses"][0]["license"]["name"] for part in document["components"]}
    assert licences == {"expressed": "Apache-2.0 OR BSD-2-Clause", "classified": "MIT License", "old": "BSD 3-Clause"}
    assert document["metadata"]["component"]["purl"] == "pkg:pypi/layoutscope@1.0"
    assert status == 0


@pytest.mark.parametrize("line", ["License-Expression: GPL-3.0-only", "Summary: tells no licence"])
def test_a_licence_that_is_not_permissive_is_seen(listed, capsys, line):
    """It is named, and the status says so; unknown is not permissive."""
    status, _ = listed(layoutscope=PACKAGES["layoutscope"], other=line)
    assert status == 1
    assert capsys.readouterr().out.startswith("other: ")

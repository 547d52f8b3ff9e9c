"""What an installation without extras takes: ``python tests/bench/installed_size.py [--environment FOLDER]``.

Makes an environment of its own, installs the wheel of this checkout there (this needs the package index), and prints
the size of each package with its compiled modules, in millions of bytes. What environments bring along, pip and
setuptools, is left out. Ends with 1 where the sum is above what is promised.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import venv
from importlib.metadata import distributions
from pathlib import Path

MAX_BYTES = 250_000_000
BROUGHT_ALONG = ("pip", "setuptools")
ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    """Measure an environment, or make one first."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--environment", type=Path, help="one that is there, with nothing else installed in it")
    environment = parser.parse_args().environment
    if environment is not None:
        return report(environment)
    with tempfile.TemporaryDirectory() as name:
        pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", name, str(ROOT)]
        subprocess.run(pip, check=True)
        made = Path(name, "environment")
        venv.create(made, with_pip=True)
        wheels = [str(wheel) for wheel in Path(name).glob("*.whl")]
        subprocess.run([made / "bin" / "python", "-m", "pip", "install", "--quiet", *wheels], check=True)
        return report(made)


def report(environment: Path) -> int:
    """Print the table of an environment; returns 1 where it takes too much."""
    sizes = sizes_of(environment)
    for name, size in sorted(sizes.items(), key=lambda item: -item[1]):
        sys.stdout.write(f"{size / 1e6:8.1f} MB  {name}\n")
    total = sum(sizes.values())
    sys.stdout.write(f"{total / 1e6:8.1f} MB  in all; at most {MAX_BYTES / 1e6:.0f}\n")
    return int(total > MAX_BYTES)


def sizes_of(environment: Path) -> dict[str, int]:
    """Return the bytes of the files of each package in an environment."""
    folders = [str(folder) for folder in environment.glob("lib/python*/site-packages")]
    found: dict[str, int] = {}
    for package in distributions(path=folders):
        name = package.metadata["Name"].lower()
        if name not in BROUGHT_ALONG:
            # The list of a package's files has its compiled modules, too, which pip makes when it installs.
            files = {Path(str(file.locate())) for file in package.files or ()}
            found[name] = found.get(name, 0) + sum(file.stat().st_size for file in files if file.is_file())
    return found


if __name__ == "__main__":
    sys.exit(main())

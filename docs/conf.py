"""How Sphinx builds these pages: ``nox -s docs``, or ``python -m sphinx -W docs build/docs``.

The same files are read in a repository's browser, so links between them are plain ones. Three pages stand in the root
of the repository, where tools look for them; here each is included by a page of its own, and links are led there.
Pages and tables that are made from the code are written by ``tests/docs/pages.py``, and not committed.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from layoutscope.version import RELEASE

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(Path(__file__).resolve().parent / "_ext")]

from tests.docs import pages as made  # noqa: E402  (it is found by the line above)

project = "layoutscope"
copyright = (ROOT / "LICENSE").read_text(encoding="utf-8").split("Copyright (c) ")[1].split("\n")[0]  # noqa: A001
version = release = RELEASE
extensions = ["myst_nb", "sphinx.ext.autodoc", "numpydoc", "sections"]
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
# Two dashes are those of an option.
smartquotes_action = "q"
html_theme = "furo"
html_title = "layoutscope"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
# Pages are read without network, too: the theme's own fonts and scripts, and the search that lies beside them.
html_theme_options = {"footer_icons": []}

exclude_patterns = ["reference/schemas/*.json"]
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence", "deflist"]

# ``nox -s links`` follows what leads outside: pages that ask for patience are asked again, an example is not asked.
linkcheck_ignore = [r"https://host/.*"]
linkcheck_retries = 3
linkcheck_timeout = 30
linkcheck_anchors_ignore_for_url = [r"https://github\.com/.*"]  # written by scripts

# Notebooks are run whenever they are built, and one that fails breaks the build.
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 300
nb_merge_streams = True

# Pages that stand in the root of the repository, where tools look for them, and the pages that include or replace them.
INCLUDED = {
    "CONTRIBUTING.md": "dev/contributing.md",
    "CHANGELOG.md": "changelog.md",
    "README.md": "index.md",
    ".github/SECURITY.md": "dev/security.md",
}
PICTURE = re.compile(r'<picture>\s+<source [^>]*srcset="(.+?)">\s+<img alt="(.+?)" src="(.+?)">\s+</picture>')
IMAGE = "```{{image}} {place}\n:alt: {words}\n:class: only-{ground}\n```"
SECTION = re.compile(r"^## (.+)\n\n((?:- .+\n)+)", re.MULTILINE)
LINK = re.compile(r"\]\(([^)#]+)\.(?:md|ipynb)\)")


def prepare(app: Sphinx, name: str, source: list[str]) -> None:
    """Give a page its tables, lead links to the pages of the root, and add the tables of contents for the theme.

    The list of the first page is that of the sidebar; the first page of a folder has the others below it.
    """
    source[0] = made.fill(source[0])
    up = "../" * (1 + name.count("/"))
    for target, page in INCLUDED.items():
        source[0] = source[0].replace(f"]({up}{target}", f"]({up[3:]}{page}")
    source[0] = PICTURE.sub(_of_both_grounds, source[0])
    if name == "index":
        listed = [(caption, LINK.findall(links)) for caption, links in SECTION.findall(source[0])]
        source[0] += "".join(contents(pages, caption=caption) for caption, pages in listed)
    elif name.endswith("/README") and len(list(Path(app.srcdir, name).parent.glob("*.md"))) > 1:
        folders = ["*/README"] * bool(list(Path(app.srcdir, name).parent.glob("*/README.md")))
        source[0] += contents(["*", *folders], glob="")


def _of_both_grounds(picture: re.Match[str]) -> str:
    """Show the one of two pictures that fits the theme, which may be another one than the system's."""
    grounds = (("light", picture[3]), ("dark", picture[1]))
    return "\n\n".join(IMAGE.format(place=place, words=picture[2], ground=ground) for ground, place in grounds)


def contents(pages: list[str], **options: str) -> str:
    """Write a table of contents that stands in the sidebar alone."""
    lines = ["", "```{toctree}", ":hidden:", *(f":{name}: {value}" for name, value in options.items()), "", *pages]
    return "\n".join([*lines, "```", ""])


def prepare_included(_app: Sphinx, path: Path, _name: str, source: list[str]) -> None:
    """Make the links of a page of the root relative to the page that includes it."""
    page = next((page for target, page in INCLUDED.items() if path.as_posix().endswith(target)), "")

    def _from_here(link: re.Match[str]) -> str:
        target, mark, anchor = link[1].partition("#")
        up = "" if re.match(r"https?:", target) or not target else "../" * page.count("/")
        return f"]({up}{INCLUDED.get(target, target)}{mark}{anchor})"

    source[0] = re.sub(r"\]\((?:(?:\.\./)?docs/)?([^)]+)\)", _from_here, source[0])


def with_made_tables(_app: Sphinx, env: BuildEnvironment, *_changes: set[str]) -> list[str]:
    """Return the pages with tables from the code, which are read again even if they are as they were."""
    return [name for name in env.found_docs if made.BUILT.search(env.doc2path(name).read_text(encoding="utf-8"))]


def setup(app: Sphinx) -> None:
    """Have pages made before they are looked for, and prepared as they are read."""
    app.connect("builder-inited", lambda _app: made.write())
    app.connect("env-get-outdated", with_made_tables)
    app.connect("source-read", prepare)
    app.connect("include-read", prepare_included)

"""Pages of the site that lie beside docs/: the results in papers/, and the changelog.

The build copies them into docs/ (git ignores them there), and turns links between all pages into
links of the site. What is no page of it, such as a table or a source file, becomes a link into the
checkout around the built site, or, with SUREFOOT_REPOSITORY_URL set, to the file there.
"""

from __future__ import annotations

import os
import posixpath
import re
import shutil
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.util import logging

ROOT = Path(__file__).parents[2]
CHANGELOG = "changelog.md"
SHOWN = (".md", ".svg", ".png")
LINK = re.compile(r"^```.*?^```$|\[([^\]]*)\]\(([^)\s]+)\)|`[^`]*`", re.M | re.S)  # or code
log = logging.getLogger(__name__)


def copy(app: Sphinx) -> None:
    """Take the pages and their pictures into docs/, with the time of their last change."""
    there = Path(app.srcdir)
    shutil.copy2(ROOT / "CHANGELOG.md", there / CHANGELOG)
    shutil.rmtree(there / "papers", ignore_errors=True)
    for path in (ROOT / "papers").rglob("*"):
        if path.suffix in SHOWN:
            copied = there / path.relative_to(ROOT)
            copied.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, copied)


def home(page: str) -> str:
    """Where the Markdown of a page lies in the repository."""
    if f"{page}.md" == CHANGELOG:
        return "CHANGELOG.md"
    return f"{page}.md" if page.startswith("papers/") else f"docs/{page}.md"


def on_site(path: str) -> str | None:
    """Where a file of the repository lies in docs/ during the build."""
    if path == "CHANGELOG.md":
        return CHANGELOG
    if path.startswith("papers/") and path.endswith(SHOWN):
        return path
    return path.removeprefix("docs/") if path.startswith("docs/") else None


def whole(page: str, text: str) -> str:
    """A page of papers/ with what it lacks: a title, the paper's other pages below it."""
    folder, name = posixpath.split(page)
    if not text.startswith("# "):
        text = f"# {name.replace('-', ' ').capitalize()}\n\n{text}"
    if name != "README":
        return text
    others = sorted(x.relative_to(ROOT / folder) for x in (ROOT / folder).rglob("*.md"))
    below = "\n".join(x.with_suffix("").as_posix() for x in others if x.name != "README.md")
    return f"{text}\n\n```{{toctree}}\n:hidden:\n\n{below}\n```\n" if below else text


def links(app: Sphinx, page: str, source: list[str]) -> None:
    """Mend the links of a page. Those of the changelog lead to pages alone: sections move."""
    folder = posixpath.dirname(home(page))

    def link(match: re.Match[str]) -> str:
        words, target = match.groups()
        if target is None:  # code; what is written in a directive is not
            first, _, rest = match[0].partition("\n")
            return f"{first}\n{LINK.sub(link, rest)}" if first.startswith("```{") else match[0]
        path, _, anchor = target.partition("#")
        if not path or ":" in path:
            return match[0]
        inside = posixpath.normpath(posixpath.join(folder, path))
        if not (ROOT / inside).exists():
            log.warning("%s links to %s, which is not in the repository", page, inside)
        anchor = f"#{anchor}" if anchor and f"{page}.md" != CHANGELOG else ""
        found = on_site(inside)
        if found is not None:
            return f"[{words}]({posixpath.relpath(found, posixpath.dirname(page) or '.')}{anchor})"
        up = "../" * (page.count("/") + 2)  # from build/docs
        base = os.environ.get("SUREFOOT_REPOSITORY_URL", "") or up.rstrip("/")
        return f'<a href="{base}/{inside}{anchor}">{words}</a>'

    source[0] = LINK.sub(link, source[0])
    if page.startswith("papers/"):
        source[0] = whole(page, source[0])


def setup(app: Sphinx) -> dict[str, bool]:
    """Register it."""
    app.connect("builder-inited", copy)
    app.connect("source-read", links)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

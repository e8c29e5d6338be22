"""Mend what Sphinx and the theme leave inaccessible in the pages they write.

Headings get a level, landmarks a name, blocks that scroll can be reached with the keyboard, and the
parameters of a signature are no list of definitions without terms. An empty cell heads no column.
"""

from __future__ import annotations

import re
from pathlib import Path

from sphinx.application import Sphinx

MENDED = (
    (r'(<p class="caption" role="heading")>', r'\1 aria-level="2">'),
    (r'<aside class="sidebar-drawer">', '<aside class="sidebar-drawer" aria-label="All pages">'),
    (r'<aside class="(toc-drawer[^"]*)">', r'<aside class="\1" aria-label="On this page">'),
    (r"<pre>", '<pre tabindex="0">'),
    (r'<div class="table-wrapper([^>]*)>', r'<div tabindex="0" class="table-wrapper\1>'),
    (r'<th class="head">(?:<p></p>)?</th>', '<td class="head"></td>'),
    (r"<p>(<img [^>]*/>)</p>", r'<p class="picture" tabindex="0">\1</p>'),
    (r'(<div id="search-results">)', r"<h1>Search</h1>\n\1"),
)
PARAMETERS = re.compile(r"<dl>((?:\s*<dd>(?:(?!</?d[ld]>).)*</dd>)+)\s*</dl>", re.S)


def mend(page: str) -> str:
    """The page, mended; one that is mended stays as it is."""
    for old, new in MENDED:
        if "<h1>" not in new or "<h1>Search" not in page:
            page = re.sub(old, new, page)
    return PARAMETERS.sub(_parameters, page)


def _parameters(match: re.Match[str]) -> str:
    inside = match[1].replace("<dd>", '<span class="parameter">').replace("</dd>", "</span>")
    return f'<span class="parameters">{inside}</span>'


def mend_all(app: Sphinx, exception: Exception | None) -> None:
    """Mend every page of the finished site."""
    if exception is None and app.builder.format == "html":
        for path in Path(app.outdir).rglob("*.html"):
            path.write_text(mend(path.read_text(encoding="utf-8")), encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register it."""
    app.connect("build-finished", mend_all)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

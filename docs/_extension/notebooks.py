"""The pages of docs/notebooks as notebooks: a .ipynb beside each page, and a link to it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

HERE = Path(__file__).parents[1] / "notebooks"
LINK = '<p><a href="{name}.ipynb" download>Download this page as a notebook</a></p>'


def pages() -> list[Path]:
    """The pages that are notebooks."""
    return sorted(x for x in HERE.glob("*.md") if x.name != "index.md")


def notebook(text: str) -> dict[str, Any]:
    """A page as a notebook, nbformat 4.5: Python blocks are cells of code, the rest is Markdown."""
    return {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {
            "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"},
            "language_info": {"name": "python"},
        },
        "cells": [cell | {"id": f"cell-{i}"} for i, cell in enumerate(cells(text))],
    }


def cells(text: str) -> Iterator[dict[str, Any]]:
    """The cells; links to other pages become their words, since these are not there."""
    for i, part in enumerate(re.split(r"^```python\n(.*?)^```$", text, flags=re.M | re.S)):
        source = part.strip("\n").splitlines(keepends=True)
        if i % 2:
            empty = {"execution_count": None, "outputs": []}
            yield {"cell_type": "code", "metadata": {}, "source": source} | empty
        elif source:
            words = re.sub(r"\[([^\]]*)\]\((?!https?:)[^)]*\)", r"\1", "".join(source))
            yield {"cell_type": "markdown", "metadata": {}, "source": words.splitlines(True)}


def link(app: Sphinx, page: str, source: list[str]) -> None:
    """Below the title of each of these pages."""
    name = page.removeprefix("notebooks/")
    if name in {x.stem for x in pages()}:
        title, _, rest = source[0].partition("\n")
        source[0] = f"{title}\n\n{LINK.format(name=name)}\n{rest}"


def write(app: Sphinx, exception: Exception | None) -> None:
    """Beside the pages of the finished site."""
    if exception is None and app.builder.format == "html":
        for page in pages():
            made = json.dumps(notebook(page.read_text(encoding="utf-8")), indent=1)
            there = Path(app.outdir, "notebooks", page.stem).with_suffix(".ipynb")
            there.write_text(made + "\n", encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register it."""
    app.connect("source-read", link)
    app.connect("build-finished", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

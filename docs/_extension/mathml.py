"""Formulas as MathML, made in the build: browsers draw them without a script or a network."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from math_core import LatexError, LatexToMathML
from sphinx.application import Sphinx
from sphinx.util import logging

log = logging.getLogger(__name__)
TO_MATHML = LatexToMathML(fancy_error=False)


def mathml(node: nodes.Element, *, display: bool) -> str:
    """The formula of a node; one that cannot be read is a warning, and so an error of the build."""
    try:
        return TO_MATHML.convert_with_local_state(node.astext(), displaystyle=display)
    except LatexError as error:
        log.warning("formula %r: %s", node.astext(), error, location=node)
        return ""


def inline(writer: Any, node: nodes.Element) -> None:
    """A formula in a line."""
    writer.body.append(mathml(node, display=False))
    raise nodes.SkipNode


def block(writer: Any, node: nodes.Element) -> None:
    """A formula of its own; where it is wider than the page it scrolls, with the keyboard too."""
    found = mathml(node, display=True)
    writer.body.append(f'<div class="formula" tabindex="0">{found}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Register it."""
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}

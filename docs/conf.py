"""Sphinx: how `make docs` builds the documentation site."""

import sys
from pathlib import Path

import matplotlib

import surefoot

sys.path.insert(0, str(Path(__file__).parent / "_extension"))

project = "surefoot"
author = "The surefoot authors"
copyright = "The surefoot authors, MIT licence"
release = version = surefoot.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "from_the_program",
    "of_algorithms",
    "beside",
    "notebooks",
    "mathml",
    "accessible",
]
exclude_patterns = ["_extension"]
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_disable_syntax = ["myst_line_comment"]  # lines that begin with "% of logs" are text
html_math_renderer = "mathml"

# each page would copy hundreds of names into its list of pages
toc_object_entries = False
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 90

smartquotes = False

html_theme = "furo"
html_title = f"surefoot {release}"
# the font of formulas where a machine has none comes with matplotlib
html_static_path = ["_static", f"{matplotlib.get_data_path()}/fonts/ttf/DejaVuSerif.ttf"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False

"""Sphinx configuration; `make docs` treats warnings as errors."""

import re
from typing import Any

import strop

project = "strop"
author = "the strop developers"
copyright = "the strop developers"
release = version = strop.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
]
myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]
nitpicky = False

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {"members": True, "show-inheritance": True}

html_theme = "furo"
html_title = "strop"


def as_written(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Docstrings are plain text with formulas and aligned lists: show them as they are written."""
    summary, *rest = lines or [""]
    while rest and not rest[0].strip():
        rest.pop(0)
    lines[:] = [re.sub(r"([\\\\*|_`])", r"\\\1", summary), ""]
    if any(line.strip() for line in rest):
        lines += [".. code-block:: none", "", *(f"   {line}" for line in rest), ""]


def setup(app: Any) -> None:
    app.connect("autodoc-process-docstring", as_written)

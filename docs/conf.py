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
    """Docstrings are plain text: prose becomes paragraphs, examples and lists stay as written."""
    blocks = "\n".join(lines).strip("\n").split("\n\n")
    lines[:] = [line for block in blocks if block.strip() for line in (*_shown(block), "")]


def _shown(block: str) -> list[str]:
    rows = block.split("\n")
    if block.lstrip().startswith(">>>"):
        return [".. code-block:: pycon", "", *(f"   {row}" for row in rows)]
    if any(re.match(r"\s|- |[\w, *]+: ", row) for row in rows[1:]) or re.match(r"\s|- ", rows[0]):
        return [".. code-block:: none", "", *(f"   {row}" for row in rows)]
    return [_escaped(row) for row in rows]


def _escaped(text: str) -> str:
    """Without a meaning to Sphinx, but for ``code`` between two pairs of backticks."""
    text = re.sub(r":\w+:`~?(?:[\w.]*\.)?([\w]+)`", r"``\1``", text)
    parts = re.split(r"(``.+?``)", text)
    return "".join(p if p.startswith("``") else re.sub(r"([\\*|_`])", r"\\\1", p) for p in parts)


def setup(app: Any) -> None:
    app.connect("autodoc-process-docstring", as_written)

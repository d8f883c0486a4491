"""How the documentation is built: python -m sphinx -W docs build/docs."""

import re

from mpinodes import __version__

project, author, release = "mpinodes", "The mpinodes developers", __version__
project_copyright = author
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
myst_enable_extensions = ["deflist", "dollarmath"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = f"mpinodes {release}"
html_show_sphinx = False
default_role = "code"  # docstrings put names in single backquotes
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {"members": True, "show-inheritance": True}
napoleon_use_ivar = True
suppress_warnings = ["ref.python"]  # attributes of one name in several classes


def as_text(app, what, name, obj, options, lines):
    """Docstrings are plain text: what reStructuredText would take for markup of its own is not."""
    text = "\n".join(line if "`" in line else line.replace("|", r"\|").replace("*", r"\*") for line in lines)
    lines[:] = re.sub(r":\n\n(?= {4})", "::\n\n", text).split("\n")


def setup(app):
    """Called by Sphinx."""
    app.connect("autodoc-process-docstring", as_text, priority=400)  # before napoleon

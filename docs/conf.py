"""The documentation site: `make docs`. Its sources are the pages that a repository browser shows, at their places."""

from __future__ import annotations

import sys
from pathlib import Path

from pinyon import __version__

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY / "tools"))

project = "Pinyon"
author = "The Pinyon developers"
copyright = "The Pinyon developers"
version = release = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "site_links",
    "site_settings",
    "site_signatures",
    "site_versions",
]

root_doc = "docs/index"
include_patterns = [
    "docs/*.md",
    "docs/index.rst",
    "docs/reference/*.rst",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "PERFORMANCE*.md",
]
exclude_patterns = ["docs/_build"]

myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]
nitpicky = True
# A name of several modules in an annotation, such as Client, leads to the first one.
suppress_warnings = ["ref.python"]
# Only names of Pinyon's own lead to a page of this site.
nitpick_ignore_regex = [("py:.*", r"(?!pinyon\.).*"), ("py:.*", r"pinyon\.(_|.*\._).*")]

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_class_signature = "mixed"
autodoc_default_options = {"members": True}
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
python_maximum_signature_line_length = 80
python_use_unqualified_type_names = True
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_title = f"Pinyon {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
templates_path = ["_templates"]
html_copy_source = False
html_show_sphinx = False
html_theme_options = {
    "source_repository": "https://github.com/pinyon-client/pinyon/",
    "source_branch": "main",
    "source_directory": "",
    "top_of_page_buttons": ["view"],
}
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "sidebar/versions.html",
        "sidebar/search.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "sidebar/scroll-end.html",
    ]
}
pygments_style = "friendly"
pygments_dark_style = "github-dark"

linkcheck_timeout = 20
linkcheck_anchors = False
# Pages of this repository are checked as files; they are on the network only once it is published.
linkcheck_ignore = [r"https://github\.com/pinyon-client/pinyon/.*"]

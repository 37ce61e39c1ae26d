"""The report beside a result's JSON: one HTML page of findings, plots and tables that needs no other file."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path

from jinja2 import Environment

from . import summary
from .plots import drawn
from .results import Document
from .tables import tables
from .terminal import FLOOR_SAYS, head

PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Benchmark of {{ document.created[:10] }}</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem }
.scroll { overflow-x: auto }
table { border-collapse: collapse; font-size: .85rem }
th, td { padding: .2rem .6rem; text-align: left; border-bottom: 1px solid #7b839055; vertical-align: top }
.figure { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
.plots { display: flex; flex-wrap: wrap; gap: 1rem }
.plots img { flex: 1 1 26rem; max-width: 34rem }
summary { cursor: pointer; font-weight: 600; margin: .6rem 0 }
.note { opacity: .8; font-size: .9rem }
</style>
</head>
<body>
{% macro show(table) %}
<div class="scroll"><table>
<thead><tr>{% for name in table.header %}<th scope="col">{{ name }}</th>{% endfor %}</tr></thead>
<tbody>
{% for row in table.rows %}
<tr>{% for cell in row %}<td{% if table.is_figure(loop.index0) %} class="figure"{% endif %}>{{ cell }}</td>{% endfor %}</tr>
{% endfor %}
</tbody>
</table></div>
{% if table.note %}<p class="note">{{ table.note }}</p>{% endif %}
{% endmacro %}
<h1>Benchmark</h1>
<p>{% for line in head %}{{ line }}<br>{% endfor %}Made by <code>{{ document.command }}</code>.</p>
<p><b>{{ verdict }}</b></p>
<p class="note">{{ floor }} Absolute figures move with the machine; compare figures within this page.</p>
{% for table in findings if table.rows %}
<h2>{{ table.title }}</h2>
{{ show(table) }}
{% endfor %}
<h2>Plots</h2>
<div class="plots">
{% for svg in plots %}
<img alt="{{ svg[0] }}" src="data:image/svg+xml;base64,{{ svg[1] }}">
{% endfor %}
</div>
<h2>Tables</h2>
{% for table in tables %}
<details><summary>{{ table.title }}</summary>
{{ show(table) }}
</details>
{% endfor %}
</body>
</html>
"""


def write(document: Document, path: Path) -> Path:
    """Writes the page beside the JSON file `path`, and returns its path; raises OSError."""
    page = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(PAGE)
    text = page.render(
        document=document,
        head=head(document),
        verdict=summary.verdict(document),
        floor=FLOOR_SAYS,
        findings=[summary.summary(document), summary.missed(document), summary.slower(document)],
        plots=[(key, b64encode(svg.encode()).decode()) for key, svg in drawn(document).items()],
        tables=tables(document),
    )
    target = path.with_suffix(".html")
    target.write_text(text, encoding="utf-8")
    return target

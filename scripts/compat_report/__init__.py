"""The compatibility report: from what the suites left behind to docs/compatibility.md, .html and .svg (scripts/compat-report).

`results.py` reads; `matrix.py` says which tests stand for which capability of which client; `sections.py`, with `differences.py`
for what differs, makes the report of it as blocks (`blocks.py`), which `pages.py` writes as Markdown and as HTML, and
`picture.py` draws.
"""

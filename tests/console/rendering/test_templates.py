"""Templates escape everything, show what cannot be seen, and none of them gets around that."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from jinja2 import UndefinedError

from ottla.console.rendering import templates as rendering
from ottla.console.rendering.templates import Templates, number, segment, size, utc, when

FOLDER = Path(rendering.__file__).parent


def test_no_template_and_no_module_gets_around_escaping() -> None:
    templates = {path.name: path.read_text() for path in rendering.FOLDER.iterdir()}
    assert len(templates) > 15
    for name, text in templates.items():
        assert not re.search(r"\|\s*safe|autoescape|\bMarkup\b|\|\s*tojson|\|\s*xmlattr", text), name
        assert not re.search(r"\son(?!e\b)\w+\s*=|<style|\sstyle=|javascript:|<script(?! src=\"/static/)", text), name
        assert "http:" not in text, name
        assert "https:" not in text, name
    for path in FOLDER.rglob("*.py"):
        assert not re.search(r"Markup\(|HTMLResponse\((?!self\._templates)", path.read_text()), path


def test_what_is_put_out_is_visible_and_escaped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = '{% macro m(x) %}<i>{{ x }}</i>{% endmacro %}{{ m(v) }}<p title="{{ v }}">{{ nothing }}{{ known }}'
    (tmp_path / "a.html").write_text(page)
    (tmp_path / "b.html").write_text("{{ nobody }}")
    (tmp_path / "c.html").write_text('<input value="{{ v|as_typed }}">')
    monkeypatch.setattr(rendering, "FOLDER", tmp_path)
    templates = Templates({"known": 1})
    assert (
        templates.render("a.html", {"v": '<\u202e"', "nothing": None}) == '<i>&lt;⟨U+202E⟩&#34;</i><p title="&lt;⟨U+202E⟩&#34;">1'
    )
    assert templates.render("c.html", {"v": '"><\u00a0'}) == '<input value="&#34;&gt;&lt;\u00a0">'
    with pytest.raises(UndefinedError):
        templates.render("b.html", {})


def test_numbers_sizes_and_parts_of_addresses() -> None:
    assert (number(None), number(1234567), size(None), size(2048)) == ("–", "1,234,567", "–", "2.0 KiB")
    assert segment("a/b?c=ü&\u202e\ud800") == "a%2Fb%3Fc%3D%C3%BC%26%E2%80%AE%3F"


def test_times_that_no_calendar_has_are_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Europe/Helsinki")
    time.tzset()
    try:
        assert when(1795780044006) == "2026-11-27 13:47:24.006"
    finally:
        monkeypatch.undo()
        time.tzset()
    assert utc(1795780044006) == "2026-11-27 11:47:24.006+00:00"
    assert (when(None), when(-1), utc(2**63 - 1)) == ("–", "–", f"{2**63 - 1} ms")

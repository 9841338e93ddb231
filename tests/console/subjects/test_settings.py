"""Tests that what Kafka writes in HTML about its settings is read as plain text."""

from __future__ import annotations

from ottla.console.subjects.settings import without_markup


def test_documentation_is_plain_text_in_lines() -> None:
    text = (
        'Either <code>a</code> or <a href="x">b</a>.<p>Then:<ul><li>one &lt;topic&gt;</li> <li>two</li></ul>'
        "if 1 < 2 and 3 > 2</p>"
    )
    assert without_markup(text) == "Either a or b.\nThen:\n– one <topic>\n– two\nif 1 < 2 and 3 > 2"
    assert without_markup("") == ""
    assert without_markup("&lt;script&gt;") == "<script>"


def test_a_broker_that_sends_a_million_spaces_keeps_nobody_waiting() -> None:
    assert without_markup(f"a{' ' * 1_000_000}b \t\n\n  c") == f"a{' ' * 1_000_000}b\nc"

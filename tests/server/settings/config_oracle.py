"""Kafka's own tables of settings, asked once a test run: names, types, defaults, and what it makes of a text.

tests/server/settings/KafkaConfigOracle.java does the asking; Kafka's jars come by Maven (compat_tests/reference/maven.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote_plus, unquote_plus

from tests.java_oracle import asked

SOURCE = Path(__file__).parent / "KafkaConfigOracle.java"


class Definition(NamedTuple):
    """A setting as Kafka defines it. `default` is text, None for none."""

    table: str
    name: str
    type: str
    default: str | None
    internal: bool


class Answers(NamedTuple):
    """`verdicts` are those of the questions, in their order: (accepted, value as text or message)."""

    definitions: list[Definition]
    modes: dict[str, str]
    synonyms: dict[tuple[str, str], str]
    verdicts: list[tuple[bool, str]]


def ask(questions: Sequence[tuple[str, str, str]] = ()) -> Answers:
    """`questions` are (table, name, text); tables are topic, broker, group and client-metrics."""
    lines = "".join(f"{table}\t{name}\t{quote_plus(text)}\n" for table, name, text in questions)
    answers = Answers([], {}, {}, [])
    for line in asked(SOURCE, lines).splitlines():
        kind, *words = line.split("\t")
        if kind == "def":
            table, name, type_, default, internal = words
            answers.definitions.append(Definition(table, name, type_, None if default == "\0" else default, internal == "true"))
        elif kind == "mode":
            answers.modes[words[0]] = words[1]
        elif kind == "synonym":
            answers.synonyms[words[0], words[1]] = words[2]
        else:
            answers.verdicts.append((kind == "ok", unquote_plus(words[0])))
    assert len(answers.verdicts) == len(questions)
    return answers

"""The sections about what differs between the two brokers: the known differences, and what the comparisons leave out."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Any

from compat_tests.forms import NEVER_WITH_KAFKA, NOT_BOUNCED, WAITED_FOR
from compat_tests.tools_diff import masks, scripts
from compat_tests.tools_diff.differences import DIFFERENCES as OF_TOOLS
from compat_tests.tools_diff.site import NOT_COMPARED, TOOLS
from compat_tests.wire_diff import differences, same
from scripts.compat_report.blocks import Block, Folded, Heading, Paragraph, Table, Text, row


def known_differences() -> list[Block]:
    """Returns the differences on purpose in answers and in what tools print, the tests that Kafka does not always pass, and those
    that wait for somebody."""
    answers = [row(name, _shown(each.kafka), _shown(each.ottla), each.why) for name, each in differences.DELIBERATE.items()]
    fails: dict[str, list[str]] = defaultdict(list)
    for name, failure in differences.KAFKA_FAILS.items():
        why = differences.DELIBERATE[failure.why].why if failure.why in differences.DELIBERATE else failure.why
        fails[why].append(name)
    tools = [row(each.name, f"`{in_words(each.ours)}`") for each in OF_TOOLS]
    return [
        Heading("Known differences"),
        Paragraph(
            "Each is checked: a test fails on a difference that is not listed, and on a listed one that no longer occurs. "
            "Numbers are error codes in most rows. `docs/kafka-behaviour.md` says what is asked in each; "
            "the rows of bad input name an API and a field."
        ),
        Table(("row", "Apache Kafka", "ottla", "why"), answers),
        Folded(
            "Bad input that makes Kafka fail with UNKNOWN_SERVER_ERROR, where ottla says what is wrong",
            [Table(("why", "requests"), [row(why, ", ".join(names)) for why, names in fails.items()])],
        ),
        Folded(
            f"{len(tools)} refusals that tools print in ottla's words; the values in angle brackets are compared",
            [Table(("what", "what ottla makes them print"), tools)],
        ),
        Paragraph("Tests that Apache Kafka does not always pass are run with ottla only:"),
        Table(("tests", "why"), [row(*each) for each in NEVER_WITH_KAFKA.items()]),
        Paragraph("Tests that kill ottla while they run, but let Apache Kafka go on:"),
        Table(("tests", "why"), [row(*each) for each in NOT_BOUNCED.items()]),
        Paragraph("Tests that wait for a client or for Apache Kafka:"),
        Table(("tests", "how, and why"), [row(*each) for each in WAITED_FOR.items()]),
    ]


def in_words(pattern: str) -> str:
    """Returns a pattern of tools_diff/differences.py as a sentence, with the names of its groups in angle brackets and an
    ellipsis for what is not compared."""
    for old, new in (
        (r"\(\?<[=!][^)]*\)", ""),  # what has to stand before it
        (r"\(\?P<(\w+)>[^()]*\)", r"<\1>"),
        (r"\(\?P=(\w+)\)", r"<\1>"),
        (r"\(([^()?]*)\)\?", r"\1"),
        (r"\\\.\?", "."),
        (r"\[[^\]<>]*\](?:\{\d+\}|[+*])|\\[wdS][+*]|(?<!\\)\.\*", "…"),
        (r"\\([^\w\s])", r"\1"),
    ):
        pattern = re.sub(old, new, pattern)
    return pattern


def what_is_masked() -> list[Block]:
    """Returns what the comparisons leave out of answers and outputs, and why: everything else must be equal."""
    of_answers = [row(each.what, each.why) for each in same.MASKS]
    of_tools = [_of_mask(mask, "every call") for mask in masks.MASKS]
    of_tools += [_of_mask(mask, f"`{calls[0]}`{_more(calls)}") for mask, calls in scripts.calls_by_mask().items()]
    unordered: dict[str, list[str]] = defaultdict(list)
    for step in scripts.calls():
        if step.unordered:
            unordered[step.unordered].append(step.line)
    any_order = [row(why, f"`{calls[0]}`{_more(calls)}") for why, calls in unordered.items()]
    return [
        Heading("What is not compared"),
        Paragraph(
            "Two brokers that behave the same still differ in what they draw by lot, in their clocks and addresses, and in their "
            "wording. That, and only that, is masked; a test holds each mask against its example."
        ),
        Table(("in answers", "why"), of_answers),
        Paragraph(f"{len(TOOLS)} of Apache Kafka's tools are compared by what they print. These are not:"),
        Table(("class of kafka-tools", "why"), [row(f"`{name}`", why) for name, why in NOT_COMPARED.items()]),
        Folded(f"{len(of_tools)} masks in what tools print", [Table(("example", "compared as", "why", "where"), of_tools)]),
        Folded("Lines of tools that may come in any order", [Table(("why", "where"), any_order)]),
    ]


def _of_mask(mask: masks.Mask, where: str) -> list[Text]:
    return row(_code(mask.example), _code(mask.masked), mask.why, where)


def _code(text: str) -> str:
    """Returns a text that may have several lines as code in a cell."""
    return f"`{text.strip()}`".replace("\n", "` ` ").replace("\t", " ") if text.strip() else "nothing"


def _more(calls: list[str]) -> str:
    return f" and {len(calls) - 1} more" if len(calls) > 1 else ""


def _shown(value: Any) -> str:
    return ", ".join(map(str, sorted(value))) if isinstance(value, set) else str(value)

"""The short form of the compat tests, which CI runs, and the long one, OTTLA_FULL=1; what a run leaves out, and why.

Left out of the short form: tests marked `kafka_in_full`, with Apache Kafka. Left out of both: tests marked
`never_with_kafka(NAME)`, with Apache Kafka, for which NEVER_WITH_KAFKA has the reason. Tests that call `bounce` kill ottla only.
Some tests have other figures in the long form: these ask FULL.

A run that writes a report of JUnit's leaves FILE.run.json beside FILE.xml: {"date", "commit", "form", "left_out": {test: why}}.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from compat_tests.provenance import stamp

if TYPE_CHECKING:
    from compat_tests.reference.kafka import BrokerProcess

FULL: Final = bool(os.environ.get("OTTLA_FULL"))
LONGER_IN_FULL: Final = pytest.mark.timeout(900 if FULL else 300)
"""For tests that ask FULL."""
IN_FULL: Final = "with Apache Kafka only in the long form, for its length"
NEVER_WITH_KAFKA: Final = {
    "copies through bounces of the broker": (
        "after kill -9 of its only broker, Apache Kafka may leave an offset of a transaction pending for ever, and the copiers "
        "wait for it until they give up; this happened in four of seven runs on two busy cores"
    ),
}
"""The tests that Apache Kafka does not always pass, by the name that the mark has. Kafka's own test of it has three brokers."""
NOT_BOUNCED: Final = {
    "word counts of Kafka Streams": (
        "when it is a cluster's only broker, Apache Kafka may leave a transaction open after kill -9, and the application waits "
        "for its end for ever; seen once in about sixty runs on two busy cores"
    ),
}
"""Tests in which ottla is killed and Apache Kafka goes on, by the name given to `bounce`."""
WAITED_FOR: Final = {
    "consumers of kafka-python, with both brokers": (
        "subscribe once they know their topics, and join a group for as long as that takes: kafka-python 3.0.12 sleeps for five "
        "minutes if it is given topics before the first answer, and is expelled if a poll ends while it joins"
    ),
    "kafka-python's own tests, with both brokers": (
        "the same, by a plugin around the library, and at least 30 s where a test gives a broker half a second or one"
    ),
    "transactions through kill -9, with Apache Kafka only": (
        "what was committed is read for up to 120 s, because Kafka answers a commit before its markers are in the partitions"
    ),
}
"""The things that tests wait for longer than a client does by itself, or than ottla needs, and why."""


def bounce(broker: BrokerProcess, name: str) -> None:
    """Ends a broker by kill -9 and starts it again, but leaves Apache Kafka alone; NOT_BOUNCED has the reason by this `name`."""
    assert name in NOT_BOUNCED, name
    if broker.kind == "ottla":
        broker.kill()
        broker.start()


RUN: Final = pytest.StashKey[dict[str, Any]]()


def begin(config: pytest.Config) -> None:
    """Returns what is recorded about this run before it begins, since the source may change while it lasts."""
    config.stash[RUN] = {**stamp(), "form": "full" if FULL else "short", "left_out": {}}


def leave_out(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Takes the tests out of `items` that this form leaves out; pytest reports them as deselected, not as passed."""
    reasons = {item: why for item in items if (why := _why_not(item))}
    if reasons:
        config.hook.pytest_deselected(items=list(reasons))
        items[:] = [item for item in items if item not in reasons]
    config.stash[RUN]["left_out"] |= {item.nodeid: why for item, why in reasons.items()}


def _why_not(item: pytest.Item) -> str:
    call = getattr(item, "callspec", None)
    if call is None or call.params.get("kind") != "kafka":
        return ""
    if never := item.get_closest_marker("never_with_kafka"):
        return NEVER_WITH_KAFKA[never.args[0]]
    return IN_FULL if not FULL and item.get_closest_marker("kafka_in_full") else ""


def end(config: pytest.Config) -> None:
    """Writes FILE.run.json; a worker hands to the first process what it left out."""
    output: dict[str, Any] | None = getattr(config, "workeroutput", None)
    if output is not None:
        output["left_out"] = config.stash[RUN]["left_out"]
    elif junit := config.getoption("xmlpath"):
        file = Path(junit).with_suffix(".run.json")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(config.stash[RUN], indent=1) + "\n")


def worker_ended(config: pytest.Config, output: dict[str, Any]) -> None:
    """In the first process."""
    config.stash[RUN]["left_out"] |= output.get("left_out", {})  # a worker that was killed reports nothing

"""Apache's drivers of transactions, 4.3.1, against ottla and against Apache Kafka: those of its system tests, and the tool.

scripts/message_copies.py says what the copiers do and what is asked of them, and runs them with the figures of Kafka's own
transactions_test, in sixteen ways; here are short forms of three of these. Bounces of the broker are left out for Apache Kafka,
which does not always get through them: forms.py says why.

The tool's words are compared as a whole, so that both kinds of broker make it say the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Producer

from compat_tests.java_client import Java, running
from compat_tests.message_copies import WAITS_FOR_MEMBERS, Copies, Figures, Way
from compat_tests.reference.kafka import BrokerProcess
from compat_tests.topics import make_topics
from compat_tests.waiting import wait_for

SHORT: Final = Figures(messages=6_000, a_transaction=150, restarts=1, transaction_timeout_ms=3_000, progress=0.15)
BROKER: Final = {"transaction_abort_timed_out_transaction_cleanup_interval_ms": "500"}
"""Whoever follows a killed copier waits until its transaction is aborted."""


@pytest.mark.parametrize(
    "way",
    [
        Way("hard bounces of the copiers"),
        pytest.param(
            Way("hard bounces of the broker, without group metadata", "broker", group_metadata=False, reader_protocol="consumer"),
            marks=pytest.mark.never_with_kafka("copies through bounces of the broker"),
        ),
        Way("hard bounces of the copiers, one group", group_mode=True),
    ],
    ids=lambda way: way.name.replace(" ", "-"),
)
def test_the_message_copiers_copy_each_once_through_kills(
    fresh_broker: Callable[..., BrokerProcess], way: Way, tmp_path: Path
) -> None:
    waits = {name.replace(".", "_"): value for name, value in WAITS_FOR_MEMBERS.items()} if way.group_mode else {}
    Copies(fresh_broker(**BROKER, **waits), way, SHORT, tmp_path, seed=5).play()


@pytest.fixture(scope="module")
def jvm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Java]:
    with running(tmp_path_factory.mktemp("tools"), "Tools", "kafka-tools") as java:
        yield java


def test_the_tool_shows_transactions_and_ends_them(fresh_broker: Callable[..., BrokerProcess], jvm: Java) -> None:
    broker = fresh_broker(offsets_topic_num_partitions="1", transaction_state_log_num_partitions="1")

    def run(*arguments: str, fails: bool = False) -> list[str]:
        where = ["--bootstrap-server", broker.bootstrap]
        main = {"class": "org.apache.kafka.tools.TransactionsCommand"}
        done = jvm.call("tool", **main, arguments=[*where, *arguments])
        assert (done["exit"] != 0) == fails, (arguments, done)
        return masked(done["output"])

    make_topics(broker.bootstrap, 1, "t")
    patient = {"bootstrap.servers": broker.bootstrap, "transaction.timeout.ms": 600_000}  # a dozen JVM calls take a while
    ended, opened = (Producer({**patient, "transactional.id": name}) for name in ("ended", "opened"))
    for producer in (ended, opened):
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce("t", b"v", partition=0)
        producer.flush(30)
    ended.commit_transaction(30)
    wait_for(lambda: run("list") == [LISTED, "ended 1 0 CompleteCommit", "opened 1 1 Ongoing"], "the commit is complete")
    assert run("list", "--transactional-id-pattern", "op.*") == [LISTED, "opened 1 1 Ongoing"]
    assert run("describe", "--transactional-id", "opened") == [DESCRIBED, "1 opened 1 0 Ongoing # # # t-0"]
    assert run("describe", "--transactional-id", "ended") == [DESCRIBED, "1 ended 0 0 CompleteCommit # # #"]
    assert "the ID could not be found" in run("describe", "--transactional-id", "nobody", fails=True)[0]
    where = ("--topic", "t", "--partition", "0")
    assert run("describe-producers", *where) == [PRODUCERS, "0 0 0 0 # None", "1 0 -1 0 # 1"]
    assert run("find-hanging", "--broker-id", "1", "--max-transaction-timeout", "0") == [HANGING], "its coordinator knows of it"
    assert run("find-hanging", "--topic", "t") == [HANGING]
    assert run("abort", *where, "--start-offset", "1") == []
    assert "not find any open transactions" in run("abort", *where, "--start-offset", "1", fails=True)[0]
    assert run("describe-producers", *where) == [PRODUCERS, "0 0 0 0 # None", "1 0 0 0 # None"]
    assert run("list") == [LISTED, "ended 1 0 CompleteCommit", "opened 1 1 Ongoing"], "the coordinator was not asked"
    assert run("forceTerminateTransaction", "--transactionalId", "opened") == []
    assert run("list") == [LISTED, "ended 1 0 CompleteCommit", "opened 1 1 Empty"]


LISTED: Final = "TransactionalId Coordinator ProducerId TransactionState"
DESCRIBED: Final = (
    "CoordinatorId TransactionalId ProducerId ProducerEpoch TransactionState TransactionTimeoutMs CurrentTransactionStartTimeMs"
    " TransactionDurationMs TopicPartitions"
)
PRODUCERS: Final = "ProducerId ProducerEpoch LatestCoordinatorEpoch LastSequence LastTimestamp CurrentTransactionStartOffset"
HANGING: Final = "Topic Partition ProducerId ProducerEpoch CoordinatorEpoch StartOffset LastTimestamp Duration(min)"


def masked(text: str) -> list[str]:
    """The lines of a table without the columns' widths, and without times and durations, which here have two digits or more."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("[")]  # nor the client's log
    return [" ".join(re.sub(r"\b\d\d+\b", "#", line).split()) for line in lines]

"""`ottla txn` as a user runs it, against ottla and Apache Kafka: what is open, what hangs, and an end to both."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import KafkaException, Producer

from compat_tests.brokers import Address
from compat_tests.commands import good, made, ottla
from compat_tests.reference.kafka import BrokerProcess
from compat_tests.waiting import wait_for
from compat_tests.wire import Wire


def open_transaction(bootstrap: str, transactional_id: str, topic: str) -> Producer:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": transactional_id, "log_level": 0})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"v", partition=0)
    assert producer.flush(30) == 0
    return producer


def test_transactions_are_listed_described_and_aborted(bootstrap: str, unique: Callable[[str], str]) -> None:
    topic, stem = made(bootstrap, 2), unique("till")
    ended, opened = (open_transaction(bootstrap, f"{stem}-{which}", topic) for which in ("ended", "opened"))
    ended.commit_transaction(30)

    def listed(*options: str) -> list[list[str]]:
        return [line.split("\t") for line in good("txn", "list", f"{stem}-*", *options, bootstrap=bootstrap).lines]

    def states() -> list[list[str]]:
        return [[row[0].removeprefix(f"{stem}-"), row[1], row[3]] for row in listed()]

    wait_for(lambda: states() == [["ended", "CompleteCommit", "1"], ["opened", "Ongoing", "1"]], "the commit is complete")
    assert [row[0] for row in listed("--state", "ongoing")] == [f"{stem}-opened"]
    ((found,),) = good("txn", "describe", f"{stem}-opened", "--json", bootstrap=bootstrap).objects
    assert 0 <= found.pop("open_ms") < 60_000
    assert found.pop("producer_id") >= 0
    assert found == {
        "transactional_id": f"{stem}-opened",
        "state": "Ongoing",
        "producer_epoch": 0,
        "timeout_ms": 60_000,
        "coordinator": 1,
        "partitions": [{"topic": topic, "partition": 0}],
    }
    assert good("txn", "find-hanging", topic, "--older-than", "0", bootstrap=bootstrap).lines == []

    done = ottla("txn", "abort", f"{stem}-*", "nobody", "--yes", "--json", bootstrap=bootstrap)
    assert (done.code, {one["name"].removeprefix(f"{stem}-"): one["result"] for one in done.objects[0]}) == (
        1,
        {"nobody": "failed", "ended": "no transaction is open", "opened": "aborted"},
    )
    assert states()[1][1] == "Empty"
    with pytest.raises(KafkaException) as fenced:
        opened.commit_transaction(30)
    assert fenced.value.args[0].fatal()


def test_one_that_hangs_is_found_and_ended(fresh_broker: Callable[..., BrokerProcess], kind: str) -> None:
    broker = fresh_broker(transaction_partition_verification_enable="false")
    assert broker.process is not None
    wire = Wire(Address(kind, broker.port, broker.process.pid, str(broker.log_file)), "hanging")
    try:
        wire.warm_up()
        _, producer_id = wire.leave_hanging()
    finally:
        wire.close()
    find = ("txn", "find-hanging", "--older-than", "0")
    (line,) = good(*find, bootstrap=broker.bootstrap).lines
    name, *numbers, _ = line.split("\t")
    assert numbers == ["0", "1", str(producer_id), "4"]
    assert good("txn", "find-hanging", "--older-than", "90000", bootstrap=broker.bootstrap).lines == [], "it is of today"
    place = f"{name}:0:1"
    done = ottla("txn", "abort", "--at", place, "--yes", bootstrap=broker.bootstrap)
    assert (done.code, done.errors) == (0, f"transaction {place}: aborted\n")
    assert good(*find, bootstrap=broker.bootstrap).lines == []
    again = ottla("txn", "abort", "--at", place, "--yes", bootstrap=broker.bootstrap)
    assert (again.code, again.errors) == (1, f"ottla: transaction {place}: no open transaction starts there\n")
    assert ottla("txn", "abort", "--at", "t:0", "--yes", bootstrap=broker.bootstrap).code == 2
    assert ottla("txn", "abort", "--yes", bootstrap=broker.bootstrap).code == 2

"""These tests cover the transaction coordinator of a broker over real partitions: its settings, its producer ids, its markers,
and a restart.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from ottla.server.metadata.names import CONSUMER_OFFSETS, TRANSACTION_STATE
from ottla.server.partitions.replica import Replica
from ottla.server.txn.coordinator import Producer, TransactionCoordinator
from ottla.server.txn.errors import TransactionError
from ottla.server.txn.producer_ids import ProducerIds
from ottla.server.txn.state import State, Transaction
from ottla.wire.errors import ErrorCode
from tests.fakes import MemoryBroker
from tests.log.support import batch

DAY_S = 24 * 3600
FIRST_ID = 4000


class Blocks:
    """A controller that gives producer ids from 4000 on."""

    async def allocate_producer_ids(self) -> range:
        return range(FIRST_ID, FIRST_ID + 1000)


class Offsets:
    """Groups whose partitions are all loaded, and which note how transactions ended."""

    def __init__(self) -> None:
        self.ended: list[tuple[int, int, bool]] = []

    def is_loaded(self, partition: int) -> bool:
        return True

    def transaction_ended(self, partition: int, producer_id: int, *, committed: bool, replicated: object = None) -> None:
        assert replicated is None
        self.ended.append((partition, producer_id, committed))


class Node:
    """A broker with the topic t and the transaction coordinator, which it opens with the first request."""

    def __init__(self, **settings: str) -> None:
        named = {name.replace("_", "."): value for name, value in settings.items()}
        self.broker = MemoryBroker({"t": 1, CONSUMER_OFFSETS: 1, TRANSACTION_STATE: 2}, named)
        self.broker.context.producer_ids = ProducerIds(Blocks())
        self.offsets = Offsets()
        self.broker.context.existing_groups = cast(Any, self.offsets)
        self.broker.image.features["transaction.version"] = 2

    @property
    def coordinator(self) -> TransactionCoordinator:
        return self.broker.context.transaction_coordinator()

    def init(self, timeout_ms: int = 60_000) -> Producer:
        return asyncio.run(self.coordinator.init_producer_id("tx", timeout_ms, None))

    def begin(self) -> Producer:
        """Runs a transaction with a record in t."""
        producer = self.init()
        self.coordinator.add_partitions("tx", *producer, (("t", 0),), client_version=2)
        self.replica.append(batch(2, producer=(*producer, 0), transactional=True))
        return producer

    @property
    def replica(self) -> Replica:
        found = self.broker.replicas.get("t", 0)
        assert found is not None
        return found

    @property
    def transaction(self) -> Transaction | None:
        return self.coordinator.find("tx")


def test_its_settings_are_the_brokers() -> None:
    node = Node(transaction_max_timeout_ms="5000", transactional_id_expiration_ms=str(7 * DAY_S * 1000))
    with pytest.raises(TransactionError) as error:
        node.init(timeout_ms=5001)
    assert error.value.code is ErrorCode.INVALID_TRANSACTION_TIMEOUT
    node.init(timeout_ms=5000)
    node.broker.clock.advance(7 * DAY_S - 1)
    node.coordinator.expire()
    assert node.transaction is not None
    node.broker.clock.advance(2)
    node.coordinator.expire()
    assert node.transaction is None


def test_producer_ids_are_the_brokers() -> None:
    assert Node().init() == (FIRST_ID, 0)


@pytest.mark.parametrize(
    ("features", "client_version"), [({}, 0), ({"transaction.version": 1}, 0), ({"transaction.version": 2}, 2)]
)
def test_a_transaction_that_is_overdue_is_ended_as_the_clusters_version_says(
    features: dict[str, int], client_version: int
) -> None:
    node = Node()
    node.broker.image.features.clear()
    node.broker.image.features.update(features)
    node.begin()
    node.broker.clock.advance(61)
    asyncio.run(node.coordinator.abort_overdue())
    ended = node.transaction
    assert ended is not None
    assert (ended.state, ended.client_version) == (State.COMPLETE_ABORT, client_version)


def test_markers_go_to_the_brokers_own_partitions() -> None:
    node = Node()
    producer = node.begin()
    log = node.replica.log
    assert (log.last_stable_offset, log.high_watermark) == (0, 2)
    assert node.coordinator.end("tx", *producer, commit=True, version=2) == (FIRST_ID, 1)
    assert (log.last_stable_offset, log.high_watermark) == (3, 3)


def test_groups_hear_what_became_of_offsets_in_a_transaction() -> None:
    node = Node()
    producer = node.init()
    node.coordinator.add_partitions("tx", *producer, ((CONSUMER_OFFSETS, 0),), client_version=2)
    node.coordinator.end("tx", *producer, commit=True, version=2)
    assert node.offsets.ended == [(0, FIRST_ID, True)]


def test_another_broker_has_the_ids_of_partitions_that_it_leads() -> None:
    node = Node()
    node.init()
    node.broker.register_broker(2, port=9093)
    partition = node.coordinator.partition_for("tx")
    node.broker.elect(TRANSACTION_STATE, 2, partition)
    node.coordinator.refresh()
    with pytest.raises(TransactionError) as error:
        node.coordinator.find("tx")
    assert error.value.code is ErrorCode.NOT_COORDINATOR


def test_what_is_written_is_there_after_a_restart() -> None:
    node = Node()
    node.init()
    before = node.transaction
    node.coordinator.close()
    node.broker.context.existing_transaction_coordinator = None
    assert node.transaction == before

"""Asking the coordinator of a transaction, here or on another broker, about its partitions."""

from __future__ import annotations

import pytest

from ottla.server.base.promise import Promise
from ottla.server.coordination.java_hash import java_hash_bucket
from ottla.server.interbroker.transaction_verification import VerificationChannel
from ottla.server.metadata.image import MetadataImage
from ottla.server.metadata.names import TRANSACTION_STATE
from ottla.server.peers.outcomes import TimedOut
from ottla.server.txn.verification import Codes
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from tests.fakes import NODE_ID, MemoryBroker
from tests.in_loop import in_loop
from tests.server.interbroker.played import PlayedBrokers
from tests.server.txn.fakes import Driver, TransactionLog

TWO = 2
PARTITIONS = [("t", 0), ("u", 0), ("t", 1)]
HERE, THERE = "here", "far"
"""Transactional ids of the two partitions of `__transaction_state`."""


class LogOfImage(TransactionLog):
    """Leads what the image says; the records are in memory."""

    def __init__(self, image: MetadataImage) -> None:
        super().__init__(2)
        self._image = image

    def partition_count(self) -> int:
        return super().partition_count() if TRANSACTION_STATE in self._image.topics else 0

    def leads(self, partition: int) -> bool:
        found = self._image.partition(TRANSACTION_STATE, partition)
        return found is not None and found.leader == NODE_ID


class Rig:
    """The coordinator of HERE is this broker, that of THERE is the `other`."""

    def __init__(self, other: int = TWO) -> None:
        self.broker = MemoryBroker({})
        self.broker.register_broker(other, 9002)
        self.broker.create_topic(TRANSACTION_STATE, 2, followers=(other,))
        self.place = java_hash_bucket(THERE, 2)
        assert java_hash_bucket(HERE, 2) != self.place
        self.broker.elect(TRANSACTION_STATE, other, self.place)
        self.others = PlayedBrokers(self.broker.image)
        self.log = LogOfImage(self.broker.image)
        self.here = Driver(self.log)
        self.verify = VerificationChannel(self.others.as_others, lambda: self.here.coordinator)

    @property
    def written_here(self) -> int:
        """Returns how many records the coordinator of this broker wrote."""
        return len(self.log.records())

    def ask(self, add: bool = False) -> Promise[Codes]:
        answer = self.verify(THERE, 7, 1, PARTITIONS, add=add)
        assert isinstance(answer, Promise)
        return answer

    def answered(self, response: AddPartitionsToTxnResponse) -> Codes:
        codes = self.ask()
        self.others.asked[-1].answer.set_result(response)
        return codes.result()


@in_loop
async def test_the_coordinator_of_this_broker_is_asked_without_a_request() -> None:
    rig = Rig()
    producer = await rig.here.init(transactional_id=HERE)
    assert rig.verify(HERE, *producer, PARTITIONS, add=False) == dict.fromkeys(PARTITIONS, ErrorCode.TRANSACTION_ABORTABLE)
    assert rig.verify(HERE, *producer, PARTITIONS[:2], add=True) == dict.fromkeys(PARTITIONS[:2], ErrorCode.NONE)
    now = rig.here.now(HERE)
    assert (now.partitions, now.client_version) == (frozenset(PARTITIONS[:2]), 2)
    assert not rig.others.asked


@pytest.mark.parametrize("add", [True, False])
def test_another_is_asked_by_the_request_for_brokers(add: bool) -> None:
    rig = Rig()
    rig.ask(add)
    (asked,) = rig.others.asked
    assert (asked.broker_id, asked.min_version) == (TWO, 4)
    topics = [AddPartitionsToTxnTopic("t", [0, 1]), AddPartitionsToTxnTopic("u", [0])]
    assert asked.request == AddPartitionsToTxnRequest([AddPartitionsToTxnTransaction(THERE, 7, 1, not add, topics)])
    assert rig.written_here == 0


def test_the_other_may_be_broker_0() -> None:
    rig = Rig(other=0)
    rig.ask()
    assert [asked.broker_id for asked in rig.others.asked] == [0]


def test_every_partition_has_its_own_code() -> None:
    rig = Rig()
    topics = [
        AddPartitionsToTxnTopicResult(
            "t",
            [
                AddPartitionsToTxnPartitionResult(0, 0),
                AddPartitionsToTxnPartitionResult(1, ErrorCode.TRANSACTION_ABORTABLE),
            ],
        ),
    ]
    response = AddPartitionsToTxnResponse(results_by_transaction=[AddPartitionsToTxnResult(THERE, topics)])
    assert rig.answered(response) == {
        ("t", 0): ErrorCode.NONE,
        ("t", 1): ErrorCode.TRANSACTION_ABORTABLE,
        ("u", 0): ErrorCode.COORDINATOR_NOT_AVAILABLE,
    }


@pytest.mark.parametrize(
    ("said", "code"),
    [
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (999, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR),
    ],
)
def test_a_code_for_the_whole_request_is_that_of_all_partitions(said: int, code: ErrorCode) -> None:
    assert Rig().answered(AddPartitionsToTxnResponse(error_code=said)) == dict.fromkeys(PARTITIONS, code)


def test_a_coordinator_that_does_not_answer() -> None:
    rig = Rig()
    codes = rig.ask()
    rig.others.asked[0].answer.set_exception(TimedOut("late"))
    assert codes.result() == dict.fromkeys(PARTITIONS, ErrorCode.NETWORK_EXCEPTION)


def test_nobody_coordinates() -> None:
    rig = Rig()
    rig.broker.elect(TRANSACTION_STATE, -1, rig.place)
    away = dict.fromkeys(PARTITIONS, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert rig.verify(THERE, 7, 1, PARTITIONS, add=True) == away
    rig.broker.delete_topic(TRANSACTION_STATE)
    assert rig.verify(HERE, 7, 1, PARTITIONS, add=True) == away
    assert rig.written_here == 0

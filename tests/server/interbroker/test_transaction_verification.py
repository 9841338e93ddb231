"""Asking the coordinator of a transaction, here or on another broker, about its partitions."""

from __future__ import annotations

from typing import Any, cast

import pytest

from ottla.server.base.promise import Promise
from ottla.server.coordination.java_hash import java_hash_bucket
from ottla.server.interbroker.transaction_verification import VerificationChannel
from ottla.server.metadata.names import TRANSACTION_STATE
from ottla.server.peers.outcomes import TimedOut
from ottla.server.txn.coordinator import TransactionCoordinator
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
from tests.fakes import MemoryBroker
from tests.server.interbroker.played import PlayedBrokers

TWO = 2
PARTITIONS = [("t", 0), ("u", 0), ("t", 1)]
HERE, THERE = "here", "far"
"""Transactional ids of the two partitions of `__transaction_state`."""


class Rig:
    """The coordinator of HERE is this broker, that of THERE is broker 2."""

    def __init__(self) -> None:
        self.broker = MemoryBroker({})
        self.broker.register_broker(TWO, 9002)
        self.broker.create_topic(TRANSACTION_STATE, 2, followers=(TWO,))
        self.place = java_hash_bucket(THERE, 2)
        assert java_hash_bucket(HERE, 2) != self.place
        self.broker.elect(TRANSACTION_STATE, TWO, self.place)
        self.others = PlayedBrokers(self.broker.image)
        self.here: list[tuple[Any, ...]] = []
        self.verify = VerificationChannel(self.others.as_others, lambda: cast(TransactionCoordinator, self))

    # As the coordinator of this broker

    @property
    def has_topic(self) -> bool:
        return TRANSACTION_STATE in self.broker.image.topics

    def partition_for(self, transactional_id: str) -> int:
        return java_hash_bucket(transactional_id, 2)

    def add_partitions(self, *asked: Any, client_version: int) -> None:
        assert client_version == 2
        self.here.append((*asked, True))

    def ask(self, add: bool = False) -> Promise[Codes]:
        answer = self.verify(THERE, 7, 1, PARTITIONS, add=add)
        assert isinstance(answer, Promise)
        return answer

    def answered(self, response: AddPartitionsToTxnResponse) -> Codes:
        codes = self.ask()
        self.others.asked[-1].answer.set_result(response)
        return codes.result()


def test_the_coordinator_of_this_broker_is_asked_without_a_request() -> None:
    rig = Rig()
    assert rig.verify(HERE, 7, 1, PARTITIONS, add=True) == dict.fromkeys(PARTITIONS, ErrorCode.NONE)
    assert rig.here == [(HERE, 7, 1, PARTITIONS, True)]
    assert not rig.others.asked


@pytest.mark.parametrize("add", [True, False])
def test_another_is_asked_by_the_request_for_brokers(add: bool) -> None:
    rig = Rig()
    rig.ask(add)
    (asked,) = rig.others.asked
    assert (asked.broker_id, asked.min_version) == (TWO, 4)
    topics = [AddPartitionsToTxnTopic("t", [0, 1]), AddPartitionsToTxnTopic("u", [0])]
    assert asked.request == AddPartitionsToTxnRequest([AddPartitionsToTxnTransaction(THERE, 7, 1, not add, topics)])
    assert not rig.here


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
    assert not rig.here

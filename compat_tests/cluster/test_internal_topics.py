"""Internal topics in need, in a cluster of one broker of ottla and one of Apache Kafka 4.4.0 with two replicas of each: fewer in
sync than min.insync.replicas, one that stands still while it is in sync, and one whose bytes are damaged.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from compat_tests.cluster.coordinators import OFFSETS, TRANSACTIONS
from compat_tests.cluster.mixed import Mixed
from compat_tests.waiting import wait_for
from ottla.wire.batch import HEADER_SIZE, iter_batches
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from ottla.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup

OTTLA, KAFKA = 1, 2
BOTH = [[OTTLA, KAFKA]]
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "offsets.topic.replication.factor": "2",
    "transaction.state.log.replication.factor": "2",
    "replica.fetch.backoff.ms": "200",
    "offsets.commit.timeout.ms": "1000",
}
_NOT_HERE = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mixed]:
    mixed = Mixed(tmp_path_factory.mktemp("internal"), ["ottla", "kafka"], SETTINGS)
    try:
        mixed.start()
        for topic in (OFFSETS, TRANSACTIONS):
            mixed.create(topic, BOTH, cleanup_policy="compact", min_insync_replicas="2")
        mixed.create("t", BOTH)
        yield mixed
    finally:
        mixed.stop()


def commit(cluster: Mixed, node: int, group: str, offset: int, topic: str = "t") -> ErrorCode:
    """Commits an offset of a group without members."""
    topics = [OffsetCommitRequestTopic(topic, partitions=[OffsetCommitRequestPartition(0, committed_offset=offset)])]
    answer = cluster.call(node, OffsetCommitRequest(group, topics=topics), 8)
    return ErrorCode(answer.topics[0].partitions[0].error_code)


def committed(cluster: Mixed, node: int, group: str) -> int | ErrorCode:
    """Returns what a broker says that a group has committed, or why it does not say that."""
    (found,) = cluster.call(node, OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=None)]), 8).groups
    if found.error_code:
        return ErrorCode(found.error_code)
    return next((each.committed_offset for topic in found.topics for each in topic.partitions), -1)


def wait_until_committed(cluster: Mixed, node: int, offsets: dict[str, int]) -> None:
    """Waits until a broker, which may be loading yet, says that groups have committed these offsets, and no others."""

    def said() -> dict[str, int | ErrorCode]:
        return {group: committed(cluster, node, group) for group in offsets}

    wait_for(lambda: not any(isinstance(each, ErrorCode) for each in said().values()), lambda: f"{said()}\n{cluster.tails()}")
    assert said() == offsets


def init(cluster: Mixed, node: int, name: str, timeout_ms: int = 60_000) -> Any:
    return cluster.call(node, InitProducerIdRequest(name, timeout_ms), 4)


class Tries:
    """Asks coordinators for something that they have to write. Each kind is answered with a code."""

    def __init__(self, cluster: Mixed) -> None:
        self.cluster = cluster
        self._round = 0
        wait_for(lambda: init(cluster, OTTLA, "known").error_code == ErrorCode.NONE, cluster.tails)
        known = init(cluster, OTTLA, "known")
        self._producer = known.producer_id, known.producer_epoch

    def all(self, node: int) -> dict[str, ErrorCode]:
        """Returns the answers of a broker that coordinates everything, once it has loaded what it needs."""
        self._round += 1
        tries = {"commit": self._commit, "join": self._join, "init": self._init, "add": self._add}
        found: dict[str, ErrorCode] = {}
        for name, ask in tries.items():

            def is_here(name: str = name, ask: Any = ask) -> bool:
                found[name] = ask(node)
                return found[name] not in _NOT_HERE

            wait_for(is_here, lambda: f"{found}\n{self.cluster.tails()}")
        return found

    def _commit(self, node: int) -> ErrorCode:
        return commit(self.cluster, node, "plain", self._round)

    def _join(self, node: int) -> ErrorCode:
        member = str(UUID(int=self._round))
        request = ConsumerGroupHeartbeatRequest(f"group-{self._round}", member, 0, None, None, 60_000, ["t"], None, None, [])
        return ErrorCode(self.cluster.call(node, request, 1).error_code)

    def _init(self, node: int) -> ErrorCode:
        return ErrorCode(init(self.cluster, node, f"new-{self._round}").error_code)

    def _add(self, node: int) -> ErrorCode:
        topics = [AddPartitionsToTxnTopic("t", [0])]
        answer = self.cluster.call(node, AddPartitionsToTxnRequest([], "known", *self._producer, topics), 3)
        return ErrorCode(answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)


def test_with_too_few_in_sync_coordinators_answer_as_kafkas_and_go_on_when_replicas_return(cluster: Mixed) -> None:
    tries = Tries(cluster)
    wait_for(lambda: commit(cluster, OTTLA, "plain", 0) is ErrorCode.NONE, cluster.tails)
    refused = {}
    for alone, other in ((OTTLA, KAFKA), (KAFKA, OTTLA)):
        cluster.stop_in_order(other)
        for topic in (OFFSETS, TRANSACTIONS):
            cluster.wait_for_isr(topic, [[alone]])
        refused[alone] = tries.all(alone)
        cluster.brokers[other].start()
        cluster.wait_until_whole()
        # ottla has not written what it refused; Apache Kafka has, and said so after a second in which nobody replicated it
        wait_until_committed(cluster, OTTLA, {"plain": 0 if alone == OTTLA else 2})
    assert refused[OTTLA] == refused[KAFKA]
    assert set(refused[OTTLA].values()) == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert set(tries.all(OTTLA).values()) == {ErrorCode.NONE}
    wait_until_committed(cluster, OTTLA, {"plain": 3})


def test_what_replicas_in_sync_do_not_have_in_time_is_answered_as_by_kafkas_and_counts_later(cluster: Mixed) -> None:
    refused = {}
    for leader, other in ((OTTLA, KAFKA), (KAFKA, OTTLA)):
        for topic in (OFFSETS, TRANSACTIONS):
            cluster.lead(topic, leader)
        wait_for(lambda: commit(cluster, leader, "slow", 0) is ErrorCode.NONE, cluster.tails)  # noqa: B023 - called at once
        wait_for(lambda: init(cluster, leader, "slow").error_code == ErrorCode.NONE, cluster.tails)  # noqa: B023
        paused = cluster.brokers[other].process
        assert paused is not None
        paused.send_signal(signal.SIGSTOP)  # it stays in sync for replica.lag.time.max.ms
        try:
            refused[leader] = [
                commit(cluster, leader, "slow", leader),
                ErrorCode(init(cluster, leader, "slow", timeout_ms=1500).error_code),
            ]
        finally:
            paused.send_signal(signal.SIGCONT)
        wait_for(lambda: committed(cluster, leader, "slow") == leader, cluster.tails)  # noqa: B023
        wait_for(lambda: init(cluster, leader, "slow").error_code == ErrorCode.NONE, cluster.tails)  # noqa: B023
        cluster.wait_for_full_isr()
    assert refused[OTTLA] == refused[KAFKA] == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2


def damaged_under(cluster: Mixed, prefix: str) -> dict[str, int]:
    """Has groups commit at ottla, damages its replica, and has the controllers ask it to lead, which it cannot. Returns what the
    groups have committed."""
    groups = {f"{prefix}-{number}": number for number in range(20)}
    cluster.lead(OFFSETS, OTTLA)
    wait_for(lambda: commit(cluster, OTTLA, "first", 1) is ErrorCode.NONE, cluster.tails)
    for group, offset in groups.items():
        assert commit(cluster, OTTLA, group, offset) is ErrorCode.NONE
    cluster.stop_in_order(OTTLA)
    _damage(cluster.brokers[OTTLA].data_dir / f"{OFFSETS}-0")
    cluster.brokers[OTTLA].start()
    cluster.wait_for_full_isr()  # a replica that follows does not look at what it has
    cluster.elect_preferred(OFFSETS, 1)
    return groups


def test_groups_of_a_damaged_replica_move_and_it_repairs_itself(cluster: Mixed) -> None:
    log = cluster.brokers[OTTLA].log_file
    before = len(log.read_text())
    groups = damaged_under(cluster, "damaged")

    def said(text: str) -> bool:
        return text in log.read_text()[before:]

    cluster.wait_for_leaders(OFFSETS, [KAFKA])
    wait_until_committed(cluster, KAFKA, groups)
    assert commit(cluster, KAFKA, "damaged-1", 100) is ErrorCode.NONE
    assert said(f"{cluster.brokers[OTTLA].data_dir / f'{OFFSETS}-0'}")
    assert said(f"The controllers are asked to have broker {KAFKA} lead it, and this replica is fetched again from there")
    wait_for(lambda: said(f"{OFFSETS}-0 is in sync again"), cluster.tails)
    cluster.wait_for_full_isr()
    cluster.lead(OFFSETS, OTTLA)
    wait_until_committed(cluster, OTTLA, groups | {"damaged-1": 100})
    assert commit(cluster, OTTLA, "damaged-2", 200) is ErrorCode.NONE
    cluster.wait_until_equal(OFFSETS, BOTH)


def test_a_repair_goes_on_when_the_new_leader_has_died_in_between(cluster: Mixed) -> None:
    """With only two replicas these are two failures: the damaged one has been cut, and the other was killed, after which the
    controllers do not rely on it. So nobody leads, until an operator has them elect what there is: the one with all records."""
    groups = damaged_under(cluster, "twice")
    cluster.wait_for_leaders(OFFSETS, [KAFKA])
    cluster.brokers[KAFKA].kill()
    assert committed(cluster, OTTLA, "twice-1") in (*_NOT_HERE, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    cluster.brokers[KAFKA].start()
    cluster.wait_for_leaders(OFFSETS, [-1])
    assert isinstance(committed(cluster, OTTLA, "twice-1"), ErrorCode)
    cluster.elect_unclean(OFFSETS, KAFKA)
    # Until its high watermark is past what it has loaded, Kafka answers that nothing is committed.
    wait_for(lambda: committed(cluster, KAFKA, "twice-1") == 1, cluster.tails)
    wait_until_committed(cluster, KAFKA, groups)
    wait_for(lambda: commit(cluster, KAFKA, "twice-1", 100) is ErrorCode.NONE, cluster.tails)
    cluster.wait_for_full_isr()
    cluster.lead(OFFSETS, OTTLA)
    wait_until_committed(cluster, OTTLA, groups | {"twice-1": 100})
    cluster.wait_until_equal(OFFSETS, BOTH)


def test_groups_of_the_only_replica_in_sync_stay_where_nothing_is_made_up(cluster: Mixed) -> None:
    """As long as nobody else is in sync. Meanwhile a topic is deleted, of which a group has an offset: Apache Kafka, which takes
    over, keeps that, and ottla removes it."""
    cluster.create("gone", BOTH)
    cluster.lead(OFFSETS, OTTLA)
    wait_for(lambda: commit(cluster, OTTLA, "alone", 1) is ErrorCode.NONE, cluster.tails)
    assert commit(cluster, OTTLA, "reader", 7, "gone") is ErrorCode.NONE
    cluster.stop_in_order(KAFKA)
    cluster.wait_for_isr(OFFSETS, [[OTTLA]])
    cluster.admin.delete_topics(["gone"])["gone"].result(30)
    cluster.stop_in_order(OTTLA)
    _damage(cluster.brokers[OTTLA].data_dir / f"{OFFSETS}-0")
    cluster.brokers[OTTLA].start()
    cluster.wait_for_leaders(OFFSETS, [OTTLA])
    wait_for(lambda: committed(cluster, OTTLA, "alone") is ErrorCode.NOT_COORDINATOR, cluster.tails)
    text = "No other replica can take over. Restore it from a copy. To do without what is damaged, run, while no broker does: "
    wait_for(lambda: text in cluster.brokers[OTTLA].log_file.read_text(), cluster.tails)
    assert cluster.state(OFFSETS) == [(OTTLA, [OTTLA])]
    cluster.brokers[KAFKA].start()  # it has all of it, and is in sync soon: then the groups move after all
    cluster.wait_for_leaders(OFFSETS, [KAFKA])
    wait_until_committed(cluster, KAFKA, {"alone": 1, "reader": 7})

    cluster.wait_until_whole()
    wait_for(lambda: committed(cluster, OTTLA, "reader") == -1, cluster.tails)
    wait_until_committed(cluster, OTTLA, {"alone": 1})
    cluster.wait_until_equal(OFFSETS, BOTH)
    cluster.lead(OFFSETS, KAFKA)
    # For a tenth of a second after its election, Kafka may answer from what it had when it led before.
    wait_for(lambda: committed(cluster, KAFKA, "reader") == -1, cluster.tails)
    wait_until_committed(cluster, KAFKA, {"alone": 1})


def _damage(place: Path) -> None:
    """Flips a bit in a record of the batch in the middle of a partition's only segment."""
    (segment,) = place.glob("*.log")
    data = bytearray(segment.read_bytes())
    sizes = [len(batch) for _, batch in iter_batches(bytes(data))]
    data[sum(sizes[: len(sizes) // 2]) + HEADER_SIZE + 4] ^= 1
    segment.write_bytes(data)

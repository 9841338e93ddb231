"""Internal topics in need, in a cluster of one broker of ottla and one of Apache Kafka 4.4.0 with two replicas of each: fewer in
sync than min.insync.replicas, and a replica whose bytes are damaged.
"""

from __future__ import annotations

import shutil
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


def commit(cluster: Mixed, node: int, group: str, offset: int) -> ErrorCode:
    """Commits an offset of a group without members."""
    topics = [OffsetCommitRequestTopic("t", partitions=[OffsetCommitRequestPartition(0, committed_offset=offset)])]
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


def init(cluster: Mixed, node: int, name: str) -> Any:
    return cluster.call(node, InitProducerIdRequest(name, 60_000), 4)


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
        # ottla has not written what it refused; Apache Kafka has, and said so after five seconds in which nobody replicated it
        wait_until_committed(cluster, OTTLA, {"plain": 0 if alone == OTTLA else 2})
    assert refused[OTTLA] == refused[KAFKA]
    assert set(refused[OTTLA].values()) == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert set(tries.all(OTTLA).values()) == {ErrorCode.NONE}
    wait_until_committed(cluster, OTTLA, {"plain": 3})


def test_groups_of_a_damaged_replica_are_where_a_sound_one_leads(cluster: Mixed) -> None:
    groups = {f"damaged-{number}": number for number in range(20)}
    cluster.lead(OFFSETS, OTTLA)
    wait_for(lambda: commit(cluster, OTTLA, "first", 1) is ErrorCode.NONE, cluster.tails)
    for group, offset in groups.items():
        assert commit(cluster, OTTLA, group, offset) is ErrorCode.NONE
    cluster.stop_in_order(OTTLA)
    place = cluster.brokers[OTTLA].data_dir / f"{OFFSETS}-0"
    _damage(place)
    cluster.brokers[OTTLA].start()
    cluster.wait_until_whole()
    for group in groups:
        wait_for(lambda: committed(cluster, OTTLA, group) is ErrorCode.NOT_COORDINATOR, cluster.tails)  # noqa: B023 - called at once
    assert commit(cluster, OTTLA, "damaged-1", 100) is ErrorCode.NOT_COORDINATOR
    assert f"{place}" in cluster.brokers[OTTLA].log_file.read_text()
    wait_for(lambda: init(cluster, OTTLA, "transactional").error_code == ErrorCode.NONE, cluster.tails)

    cluster.lead(OFFSETS, KAFKA)
    wait_until_committed(cluster, KAFKA, groups)

    cluster.stop_in_order(OTTLA)
    shutil.rmtree(place)  # the remedy: what others have is fetched anew
    cluster.brokers[OTTLA].start()
    cluster.wait_until_whole()
    cluster.lead(OFFSETS, OTTLA)
    wait_until_committed(cluster, OTTLA, groups)


def _damage(place: Path) -> None:
    """Flips a bit in a record of the batch in the middle of a partition's only segment."""
    (segment,) = place.glob("*.log")
    data = bytearray(segment.read_bytes())
    sizes = [len(batch) for _, batch in iter_batches(bytes(data))]
    data[sum(sizes[: len(sizes) // 2]) + HEADER_SIZE + 4] ^= 1
    segment.write_bytes(data)

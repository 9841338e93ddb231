"""Rows of metrics that need more than a broker at rest: groups and their states, offline logs, flushes, refusals."""

from __future__ import annotations

import errno
from typing import Any

from ottla.server.dispatch.measured import RequestMetrics
from ottla.server.metrics.sources import Sources
from ottla.server.metrics.table import METRICS
from tests.fakes import MemoryBroker
from tests.in_loop import in_loop
from tests.log.support import batch
from tests.server.group.consumer.beats import Beating
from tests.server.group.fakes import Driver


class Rig:
    """A broker in memory with a group coordinator."""

    def __init__(self, groups: Driver | None = None) -> None:
        self.memory = MemoryBroker({"t": 3, "u": 1})
        self.groups = groups or Driver()
        self.memory.context.existing_groups = self.groups.broker.groups
        for name, topic in self.groups.broker.metadata.topics.items():
            topic.topic_id = MemoryBroker.topic_id(name)
            self.groups.broker.metadata.topics_by_id[topic.topic_id] = topic
        self.sources = Sources(self.memory.context, RequestMetrics(lambda: 1), [], self.memory.logs, serving=True)

    def append(self, topic: str, partition: int, records: int) -> None:
        replica = self.memory.replicas.get(topic, partition)
        assert replica is not None
        replica.append(batch(records))

    def rows(self, name: str) -> dict[tuple[str, ...], Any]:
        (metric,) = (metric for metric in METRICS if metric.name == name)
        found = list(metric.rows(self.sources))
        assert all(len(labels) == len(metric.labels) for labels, _ in found)
        assert len(dict(found)) == len(found)
        return dict(found)


@in_loop
async def test_lag_is_what_is_not_committed_and_never_negative() -> None:
    rig = Rig()
    for partition, records in ((0, 10), (1, 5), (2, 1)):
        rig.append("t", partition, records)
    rig.append("u", 0, 7)
    rig.groups.commit({0: 4, 1: 5, 2: 99})
    rig.groups.commit({0: 1}, topic="u")
    rig.groups.commit({0: 0}, group="other")
    lag = {("g", "t", "0"): 6, ("g", "t", "1"): 0, ("g", "t", "2"): 0, ("g", "u", "0"): 6, ("other", "t", "0"): 10}
    assert rig.rows("kafka_consumergroup_lag") == lag
    assert rig.rows("kafka_consumergroup_lag_sum") == {("g", "t"): 6, ("g", "u"): 6, ("other", "t"): 10}
    assert rig.rows("kafka_consumergroup_current_offset")["g", "t", "2"] == 99
    assert rig.rows("kafka_coordinator_group_groupmetadatamanager_numoffsets") == {(): 5}
    rig.append("u", 0, 3)
    assert rig.rows("kafka_consumergroup_lag")["g", "u", "0"] == 9


@in_loop
async def test_offsets_of_a_former_topic_do_not_count_and_those_of_none_have_no_lag() -> None:
    rig = Rig()
    rig.groups.commit({0: 0})
    rig.groups.commit({0: 0}, topic="u")
    rig.memory.delete_topic("u")
    assert set(rig.rows("kafka_consumergroup_current_offset")) == {("g", "t", "0"), ("g", "u", "0")}
    assert set(rig.rows("kafka_consumergroup_lag")) == {("g", "t", "0")}
    replica = rig.memory.replicas.get("t", 0)
    assert replica is not None
    replica.topic_id = bytes(15) + b"\x09"
    assert set(rig.rows("kafka_consumergroup_current_offset")) == {("g", "u", "0")}


@in_loop
async def test_members_and_states_of_groups() -> None:
    rig = Rig()
    members, _ = rig.groups.stable(2)
    rig.groups.stable(1, group="h")
    rig.groups.enter("joining")
    rig.groups.commit({0: 0}, group="offsets only")
    assert rig.rows("kafka_consumergroup_members") == {("g",): 2, ("h",): 1, ("joining",): 1, ("offsets only",): 0}
    states = "kafka_coordinator_group_groupmetadatamanager_numgroups"
    assert rig.rows(states) == {(): 4}
    assert rig.rows(f"{states}stable") == {(): 2}
    assert rig.rows(f"{states}empty") == {(): 1}
    assert rig.rows(f"{states}preparingrebalance")[()] + rig.rows(f"{states}completingrebalance")[()] == 1
    rig.groups.leave(*members)
    assert rig.rows("kafka_consumergroup_members")[("g",)] == 0
    assert rig.rows(f"{states}empty") == {(): 2}


@in_loop
async def test_groups_by_protocol_and_state() -> None:
    groups = Beating()
    rig = Rig(groups)
    groups.stable(1, group="classic")
    groups.beat("m1", group="new")
    groups.beat("m2", group="new")
    groups.beat("m", group="other")
    groups.beat("m", -1, group="other")
    coordinator = "kafka_server_groupcoordinatormetrics_"
    assert rig.rows(f"{coordinator}group_count") == {("classic",): 1, ("consumer",): 2, ("share",): 0, ("streams",): 0}
    assert rig.rows(f"{coordinator}classic_group_count")[("Stable",)] == 1
    states = {"Empty": 1, "Assigning": 1, "Reconciling": 0, "Stable": 0, "Dead": 0}
    assert rig.rows(f"{coordinator}consumer_group_count") == {(state,): count for state, count in states.items()}


def test_a_failed_directory_takes_its_partitions_with_it() -> None:
    rig = Rig()
    assert rig.rows("kafka_server_replicamanager_offlinereplicacount") == {(): 0}
    rig.memory.disk.fail("append", errno.EIO, path="t-0")
    rig.memory.replicas.logs.directories[0].fail("appending", OSError(errno.EIO, "no"))
    assert rig.rows("kafka_server_replicamanager_offlinereplicacount") == {(): 4}
    assert rig.rows("kafka_log_logmanager_offlinelogdirectorycount") == {(): 1}
    assert rig.rows("kafka_log_logmanager_logdirectoryoffline") == {("/data",): 1}


def test_partitions_that_others_lead() -> None:
    rig = Rig()
    controller = "kafka_controller_kafkacontroller_"
    rig.memory.elect("t", -1, 2)
    assert rig.rows(f"{controller}offlinepartitionscount") == {(): 1}
    assert rig.rows("kafka_server_replicamanager_leadercount") == {(): 3}
    assert rig.rows(f"{controller}preferredreplicaimbalancecount") == {(): 1}
    assert rig.rows(f"{controller}globalpartitioncount") == {(): 4}


def test_producers_and_transactions_that_nobody_ends() -> None:
    rig = Rig()
    manager = "kafka_server_replicamanager_"
    for partition in (0, 1):
        replica = rig.memory.replicas.get("t", partition)
        assert replica is not None
        replica.append(batch(1, producer=(7, 0, 0), transactional=partition == 0, timestamp_ms=rig.memory.clock.now_ms()))
    assert rig.rows(f"{manager}produceridcount") == {(): 2}
    rig.memory.clock.advance(900 + 300)
    assert rig.rows(f"{manager}partitionswithlatetransactionscount") == {(): 0}
    rig.memory.clock.advance(1)
    assert rig.rows(f"{manager}partitionswithlatetransactionscount") == {(): 1}
    rig.memory.elect("t", 2, 0)
    assert rig.rows(f"{manager}produceridcount") == {(): 1}


def test_flushes_are_counted_with_their_time() -> None:
    rig = Rig()
    before = rig.rows("kafka_log_logflushstats_logflushrateandtimems")[()]
    rig.append("t", 0, 1)
    replica = rig.memory.replicas.get("t", 0)
    assert replica is not None
    job = replica.log.start_flush()
    assert job is not None
    job.run()
    job.took_ms = 7
    job.finish()
    after = rig.rows("kafka_log_logflushstats_logflushrateandtimems")[()]
    assert (after.total - before.total, after.sum_ns - before.sum_ns) == (1, 7_000_000)


def test_what_was_too_much_of_a_request_or_an_answer() -> None:
    rig = Rig()
    rig.memory.context.refused_requests = 3
    rig.memory.context.long_answers.refused = 2
    assert rig.rows("ottla_request_items_closed_connections_total") == {(): 3}
    assert rig.rows("ottla_response_bytes_closed_connections_total") == {(): 2}


def test_names_are_there_once() -> None:
    names = [metric.name for metric in METRICS]
    assert len(names) == len(set(names))
    assert all((metric.kind == "counter") == metric.name.endswith("_total") for metric in METRICS)


def test_the_whole_broker_s_traffic_has_that_of_deleted_topics() -> None:
    rig = Rig()
    messages = "kafka_server_brokertopicmetrics_messagesin_total"
    rig.append("t", 0, 5)
    rig.append("u", 0, 2)
    assert rig.rows(messages) == {("",): 7, ("t",): 5, ("u",): 2}
    rig.memory.delete_topic("t")
    assert rig.rows(messages) == {("",): 7, ("u",): 2}


def test_reading_the_metrics_makes_no_group_coordinator() -> None:
    rig = Rig()
    rig.memory.context.existing_groups = None
    for metric in METRICS:
        if "group" in metric.name or "coordinator" in metric.name:
            list(metric.rows(rig.sources))
    assert rig.memory.context.existing_groups is None

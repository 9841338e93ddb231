"""All scripts, in the order in which both brokers take them, and the settings of these brokers."""

from __future__ import annotations

from compat_tests.tools_diff import scripts_cluster, scripts_groups, scripts_records, scripts_topics

SETTINGS = {
    "group.consumer.heartbeat.interval.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "1000",
    "group.share.heartbeat.interval.ms": "1000",
    "group.share.min.heartbeat.interval.ms": "1000",
    "share.coordinator.state.topic.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}
"""Beyond those of every broker of the tests: quick heartbeats, small internal topics."""

ALL = scripts_topics.ALL + scripts_cluster.ALL + scripts_groups.ALL + scripts_records.ALL

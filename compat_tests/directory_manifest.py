"""The manifest of a broker's directory: all that a client can learn about what the broker holds, so that it can be compared
before and after another broker had it.

`take` asks over the wire and changes nothing. The answer is sections of lines, {section: {what: value}}:

    cluster      cluster id, node id, finalized features
    topics       id, internal or not; leader, replicas and ISR of each partition
    records      every record of each partition, with what its batch says: time, codec, producer, sequence, leader epoch, markers
    committed    the offsets that a read_committed consumer is shown
    offsets      log start, end, last stable offset, the place of the largest timestamp, and the offset for some timestamps
    epochs       the end of every leader epoch that wrote records
    producers    of each partition: id, epoch, last sequence and timestamp, start of an open transaction
    groups       protocol type and state; `commits` their offsets with metadata
    configs      of topics, brokers, client-metrics subscriptions and groups: what was set, and where
    credentials  SCRAM users with mechanism and iterations; `quotas` by entity
    places       log directory and size of each partition

Of a compacted topic only what compaction must keep is compared: the newest record of each key, ends, epochs' ends, producers.
A leader epoch that wrote nothing is forgotten by Kafka itself at the next start, and so is not asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from compat_tests.brokers import Address
from compat_tests.waiting import wait_for
from compat_tests.wire import Wire
from ottla.wire.batch import CONTROL_BIT, TRANSACTIONAL_BIT, BatchHeader, iter_batches
from ottla.wire.messages import (
    api_versions,
    describe_client_quotas,
    describe_configs,
    describe_log_dirs,
    describe_producers,
    describe_user_scram_credentials,
    list_config_resources,
    list_groups,
    list_offsets,
    metadata,
    offset_fetch,
    offset_for_leader_epoch,
)
from ottla.wire.records import Record, decode_records

Manifest = dict[str, dict[str, Any]]
Partition = tuple[str, int]

EARLIEST: Final = -2
LATEST: Final = -1
MAX_TIMESTAMP: Final = -3
TIMES_ASKED: Final = 6  # timestamps looked up in each partition
_SET: Final = {1: "topic", 2: "this broker", 3: "all brokers", 7: "client metrics", 8: "group"}  # a setting's source (KIP-226)
_TOPIC, _BROKER, _CLIENT_METRICS, _GROUP = 2, 4, 16, 32
_SECTIONS_ASKED_ONCE: Final = ("cluster", "topics", "groups", "commits", "configs", "credentials", "quotas", "places")
MOST_SHOWN: Final = 20


def take(address: Address) -> Manifest:
    """Everything of the broker at `address`, as soon as it leads its partitions and has loaded its groups."""
    wire = Wire(address, "manifest")
    try:
        wait_for(lambda: _leads_all(wire), "all partitions have leaders")
        wait_for(lambda: _coordinates_all(wire), "the groups are loaded")
        return _Taking(wire).manifest()
    finally:
        wire.close()


def differences(before: Manifest, after: Manifest) -> list[str]:
    """A line for all that is not the same, the first MOST_SHOWN of them."""
    found = []
    for section in sorted({*before, *after}):
        old, new = before.get(section, {}), after.get(section, {})
        changed = (what for what in sorted({*old, *new}) if old.get(what) != new.get(what))
        found += [f"{section} {what}: {_shown(old.get(what), new.get(what))}" for what in changed]
    return found[:MOST_SHOWN]


def _shown(old: Any, new: Any) -> str:
    if isinstance(old, dict) and isinstance(new, dict):
        changed = [name for name in {**old, **new} if old.get(name) != new.get(name)]
        old, new = ({name: part.get(name) for name in changed[:5]} for part in (old, new))
    if isinstance(old, list) and isinstance(new, list):
        at = next((n for n, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
        return f"{len(old)} -> {len(new)} lines, from {at} on: {old[at : at + 2]} -> {new[at : at + 2]}"
    return f"{old} -> {new}"


def lost(before: Manifest, after: Manifest) -> list[str]:
    """Returns the records of `before` that `after` does not have, though its log starts early enough. Topics that are gone do not
    count."""
    found = []
    for what, records in before["records"].items():
        if what.rpartition("-")[0] not in after["topics"] or isinstance(records, dict):
            continue
        start = after["offsets"][what]["start"]
        missing = [line for line in records if line[0] >= start and line not in after["records"][what]]
        if missing:
            found.append(f"{what} lost {len(missing)} records, the first of them {missing[0]}")
    return found


def _leads_all(wire: Wire) -> bool:
    """Kafka's metadata is ahead of its logs: a leader is named before it answers."""
    for topic in wire.call(metadata.MetadataRequest(None, False), 12).topics:
        ends = wire.end_offsets(topic.name, [partition.partition_index for partition in topic.partitions])
        if any(partition.error_code for partition in [*topic.partitions, *ends.topics[0].partitions]):
            return False
    return True


def _coordinates_all(wire: Wire) -> bool:
    """Kafka leaves groups that it has not begun to load out of its list. Enough names to meet all partitions of their topic."""
    asked = [offset_fetch.OffsetFetchRequestGroup(f"nobody-{n}", topics=None) for n in range(100)]
    return not any(group.error_code for group in wire.call(offset_fetch.OffsetFetchRequest(groups=asked), 9).groups)


class _Taking:
    """One manifest in the making."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._compacted: set[str] = set()

    def manifest(self) -> Manifest:
        made: Manifest = {section: getattr(self, f"_{section}")() for section in _SECTIONS_ASKED_ONCE}
        for section in ("records", "committed", "offsets", "epochs", "producers"):
            made[section] = {}
        for name, topic in made["topics"].items():
            for partition in topic["partitions"]:
                self._one_partition(made, (name, partition))
        return made

    # Once

    def _cluster(self) -> dict[str, Any]:
        found = self._wire.metadata()
        versions = self._wire.call(api_versions.ApiVersionsRequest("manifest", "1"), 4)
        features = {feature.name: feature.max_version_level for feature in versions.finalized_features}
        return {"id": found.cluster_id, "nodes": [broker.node_id for broker in found.brokers], "features": features}

    def _topics(self) -> dict[str, Any]:
        found = self._wire.call(metadata.MetadataRequest(None, False), 12)
        policies = self._settings(_TOPIC, [topic.name for topic in found.topics])
        self._compacted = {name for name, settings in policies.items() if "compact" in str(settings.get("cleanup.policy"))}
        return {
            topic.name: {
                "id": topic.topic_id,
                "internal": topic.is_internal,
                "partitions": {
                    p.partition_index: (p.error_code, p.leader_id, p.replica_nodes, p.isr_nodes) for p in topic.partitions
                },
            }
            for topic in found.topics
        }

    def _groups(self) -> dict[str, Any]:
        found = self._wire.call(list_groups.ListGroupsRequest(), 5)
        return {group.group_id: (group.protocol_type, group.group_state, group.group_type) for group in found.groups}

    def _commits(self) -> dict[str, Any]:
        """Of all groups that are listed."""
        listed = sorted(self._groups())
        asked = [offset_fetch.OffsetFetchRequestGroup(group, topics=None) for group in listed]
        found = self._wire.call(offset_fetch.OffsetFetchRequest(groups=asked), 9)
        return {
            f"{group.group_id} {topic.name}-{p.partition_index}": (p.committed_offset, p.committed_leader_epoch, p.metadata)
            for group in found.groups
            for topic in group.topics
            for p in topic.partitions
        }

    def _configs(self) -> dict[str, Any]:
        resources = self._wire.call(list_config_resources.ListConfigResourcesRequest([_TOPIC, _CLIENT_METRICS, _GROUP]), 1)
        by_type: dict[int, list[str]] = {_BROKER: ["", str(self._wire.metadata().brokers[0].node_id)]}
        for resource in resources.config_resources:
            by_type.setdefault(resource.resource_type, []).append(resource.resource_name)
        return {
            f"{kind} {name}": settings
            for kind, names in by_type.items()
            for name, settings in self._settings(kind, names).items()
        }

    def _settings(self, resource_type: int, names: Iterable[str]) -> dict[str, dict[str, Any]]:
        """Returns the settings that were set of each resource: {name: {setting: value}}, defaults and the start's own settings
        left out."""
        asked = [describe_configs.DescribeConfigsResource(resource_type, name, None) for name in names]
        found = self._wire.call(describe_configs.DescribeConfigsRequest(asked), 4)
        return {
            result.resource_name: {
                config.name: "secret" if config.is_sensitive else config.value
                for config in result.configs
                if config.config_source in _SET
            }
            for result in found.results
        }

    def _credentials(self) -> dict[str, Any]:
        found = self._wire.call(describe_user_scram_credentials.DescribeUserScramCredentialsRequest(None), 0)
        return {user.user: sorted((c.mechanism, c.iterations) for c in user.credential_infos) for user in found.results}

    def _quotas(self) -> dict[str, Any]:
        found = self._wire.call(describe_client_quotas.DescribeClientQuotasRequest([], strict=False), 1)
        return {
            str(sorted((part.entity_type, part.entity_name) for part in entry.entity)): {v.key: v.value for v in entry.values}
            for entry in found.entries
        }

    def _places(self) -> dict[str, Any]:
        found = self._wire.call(describe_log_dirs.DescribeLogDirsRequest(None), 4)
        return {
            f"{topic.name}-{p.partition_index}": (
                directory.log_dir.rpartition("/")[2],
                None if topic.name in self._compacted else p.partition_size,
            )
            for directory in found.results
            for topic in directory.topics
            for p in topic.partitions
        }

    # Each partition

    def _one_partition(self, made: Manifest, partition: Partition) -> None:
        name, number = partition
        what = f"{name}-{number}"
        batches, aborted = self._read(partition, isolation_level=0), self._aborted(partition)
        if name in self._compacted and not name.startswith("__"):
            made["records"][what] = _newest(batches, set(_visible(batches, aborted)))
        else:
            made["records"][what] = [_line(header, record) for header, records in batches for record in records]
            made["committed"][what] = list(_visible(self._read(partition, isolation_level=1), aborted))
        made["offsets"][what] = self._offsets(partition, batches)
        made["epochs"][what] = self._epochs(partition, {header.partition_leader_epoch for header, _ in batches})
        made["producers"][what] = self._producers(partition)

    def _read(self, partition: Partition, isolation_level: int) -> list[tuple[BatchHeader, list[Record]]]:
        """All batches from the log's start on that this isolation level is given."""
        batches: list[tuple[BatchHeader, list[Record]]] = []
        at = self._one_offset(partition, EARLIEST)[0]
        while True:
            found = self._fetch(partition, at, isolation_level)
            whole = [(header, decode_records(batch)) for header, batch in iter_batches(found.records or b"")]
            new = [(header, [r for r in records if r.offset >= at]) for header, records in whole if header.last_offset >= at]
            if not new:
                return batches
            batches += new
            at = new[-1][0].next_offset

    def _fetch(self, partition: Partition, at: int, isolation_level: int) -> Any:
        answer = self._wire.fetch(partition[0], at, partition=partition[1], isolation_level=isolation_level)
        (found,) = answer.responses[0].partitions
        assert found.error_code == 0, f"{partition} at {at}: {found}"
        return found

    def _aborted(self, partition: Partition) -> list[tuple[int, int]]:
        """(first offset, producer id) of the aborted transactions that a read_committed consumer has to leave out, from the log's
        start on.
        """
        aborted: set[tuple[int, int]] = set()
        at = self._one_offset(partition, EARLIEST)[0]
        while True:
            found = self._fetch(partition, at, 1)
            aborted |= {(each.first_offset, each.producer_id) for each in found.aborted_transactions or ()}
            headers = [header for header, _ in iter_batches(found.records or b"")]
            if not headers or headers[-1].next_offset <= at:
                return sorted(aborted)
            at = headers[-1].next_offset

    def _offsets(self, partition: Partition, batches: list[tuple[BatchHeader, list[Record]]]) -> dict[str, Any]:
        found = self._fetch(partition, self._one_offset(partition, LATEST)[0], 0)
        ends = {"end": self._one_offset(partition, LATEST), "stable": self._one_offset(partition, LATEST, isolation_level=1)}
        ends |= {"high watermark": found.high_watermark, "last stable": found.last_stable_offset, "start": found.log_start_offset}
        if partition[0] in self._compacted:
            return {name: end[0] if isinstance(end, tuple) else end for name, end in ends.items()}
        times = sorted({record.timestamp_ms for header, records in batches if not header.is_control for record in records})
        asked = {*times[:: max(1, len(times) // TIMES_ASKED)], *(time + 1 for time in times[-1:])}
        ends |= {f"at {time}": self._one_offset(partition, time) for time in sorted(asked)}
        return ends | {"earliest": self._one_offset(partition, EARLIEST), "largest": self._one_offset(partition, MAX_TIMESTAMP)}

    def _one_offset(self, partition: Partition, timestamp: int, isolation_level: int = 0) -> tuple[int, int]:
        """(offset, timestamp) for a timestamp or one of the constants above."""
        wanted = [list_offsets.ListOffsetsPartition(partition[1], timestamp=timestamp)]
        request = list_offsets.ListOffsetsRequest(-1, isolation_level, [list_offsets.ListOffsetsTopic(partition[0], wanted)])
        (found,) = self._wire.call(request, 7).topics[0].partitions
        assert found.error_code == 0, f"{partition}: {found}"
        return found.offset, found.timestamp

    def _epochs(self, partition: Partition, epochs: Iterable[int]) -> dict[int, Any]:
        """Epoch -> the end offset of it. An epoch whose records compaction removed may be gone."""
        ends = {}
        for epoch in sorted(epochs):
            asked = [offset_for_leader_epoch.OffsetForLeaderPartition(partition[1], leader_epoch=epoch)]
            topics = [offset_for_leader_epoch.OffsetForLeaderTopic(partition[0], asked)]
            request = offset_for_leader_epoch.OffsetForLeaderEpochRequest(topics=topics)
            (found,) = self._wire.call(request, 4).topics[0].partitions
            ends[epoch] = (found.error_code, found.leader_epoch, found.end_offset)
        return {} if partition[0] in self._compacted else ends

    def _producers(self, partition: Partition) -> dict[int, Any]:
        asked = [describe_producers.TopicRequest(partition[0], [partition[1]])]
        (found,) = self._wire.call(describe_producers.DescribeProducersRequest(asked), 0).topics[0].partitions
        assert found.error_code == 0, f"{partition}: {found}"
        return {
            state.producer_id: (
                state.producer_epoch,
                state.last_sequence,
                state.last_timestamp,
                state.coordinator_epoch,
                state.current_txn_start_offset,
            )
            for state in found.active_producers
        }


def _line(header: BatchHeader, record: Record) -> tuple[Any, ...]:
    """A record with all that its batch says of it."""
    where = record.offset, record.timestamp_ms, record.key, record.value, tuple(record.headers)
    producer = header.producer_id, header.producer_epoch, header.base_sequence, header.base_offset
    return *where, *producer, header.attributes, header.partition_leader_epoch


def _newest(batches: list[tuple[BatchHeader, list[Record]]], visible: set[int]) -> dict[bytes | None, Any]:
    """Key -> the newest visible record with it: what compaction leaves for sure (tombstones stay for delete.retention.ms)."""
    data = (record for _, records in batches for record in records if record.offset in visible)
    return {record.key: (record.offset, record.timestamp_ms, record.value, tuple(record.headers)) for record in data}


def _visible(batches: list[tuple[BatchHeader, list[Record]]], aborted: list[tuple[int, int]]) -> Iterator[int]:
    """The offsets that a read_committed consumer shows: no markers, and nothing of a transaction from its first offset up to the
    abort marker that ends it."""
    ahead, aborting = list(aborted), set()
    for header, records in batches:
        while ahead and ahead[0][0] <= header.last_offset:
            aborting.add(ahead.pop(0)[1])
        if header.attributes & CONTROL_BIT:
            aborting.discard(header.producer_id)  # a commit marker ends none of them: those are not open then
        elif not (header.attributes & TRANSACTIONAL_BIT and header.producer_id in aborting):
            yield from (record.offset for record in records)

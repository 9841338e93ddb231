"""The metadata quorum, and the features that a cluster has agreed on."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from ottla.commands.clients.brokers import check
from ottla.console.cluster.source import Source
from ottla.console.subjects.any_broker import any_broker
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.describe_quorum import DescribeQuorumRequest, RequestPartitionData, RequestTopicData

METADATA_TOPIC: Final = "__cluster_metadata"


class Replica(NamedTuple):
    """A replica of the metadata log. `lag` is in offsets behind the leader; times are in ms since 1970, None if not known."""

    number: int
    is_voter: bool
    is_leader: bool
    end_offset: int | None
    lag: int | None
    last_fetch_ms: int | None
    last_caught_up_ms: int | None
    addresses: tuple[str, ...]


class Quorum(NamedTuple):
    leader: int
    epoch: int
    high_watermark: int
    replicas: list[Replica]


def quorum(source: Source) -> Quorum:
    """Returns the quorum as its leader tells it: voters first. Raises Failure."""
    with any_broker(source) as broker:
        asked = DescribeQuorumRequest([RequestTopicData(METADATA_TOPIC, [RequestPartitionData(0)])])
        answer = broker.call(asked)
    check(answer.error_code, answer.error_message)
    one = answer.topics[0].partitions[0]
    check(one.error_code, one.error_message)
    addresses = {node.node_id: tuple(f"{each.host}:{each.port}" for each in node.listeners) for node in answer.nodes}
    ends = {each.replica_id: each.log_end_offset for each in one.current_voters}
    leaders_end = _known(ends.get(one.leader_id, -1))

    def replica(each: Any, *, is_voter: bool) -> Replica:
        end = _known(each.log_end_offset)
        return Replica(
            each.replica_id,
            is_voter,
            is_voter and each.replica_id == one.leader_id,
            end,
            None if end is None or leaders_end is None else max(0, leaders_end - end),
            _known(each.last_fetch_timestamp),
            _known(each.last_caught_up_timestamp),
            addresses.get(each.replica_id, ()),
        )

    found = [replica(each, is_voter=True) for each in one.current_voters]
    found += [replica(each, is_voter=False) for each in one.observers]
    return Quorum(one.leader_id, one.leader_epoch, one.high_watermark, found)


class Feature(NamedTuple):
    """A feature: the level that the cluster has agreed on, and the levels that the asked broker supports; None if not."""

    name: str
    level: int | None
    lowest: int | None
    highest: int | None


def features(source: Source) -> list[Feature]:
    """Returns the features that the cluster has agreed on, and those that a broker supports. Raises Failure."""
    with any_broker(source) as broker:
        answer = broker.call(ApiVersionsRequest("ottla-console", "1"))
    check(answer.error_code)
    supported = {one.name: one for one in answer.supported_features}
    agreed = {one.name: one.max_version_level for one in answer.finalized_features}
    return [
        Feature(
            name,
            agreed.get(name),
            supported[name].min_version if name in supported else None,
            supported[name].max_version if name in supported else None,
        )
        for name in sorted({*supported, *agreed})
    ]


def _known(number: int) -> int | None:
    return None if number < 0 else int(number)

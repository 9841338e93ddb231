"""Bounds what the members of classic groups bring with them: the metadata of their protocols, and their ids.

Only the leader of a group reads the metadata, but the coordinator keeps it in memory, sends all of it to the leader, and writes
that of the selected protocol in one batch. Kafka finds out only when it writes: a leader that syncs is then answered
UNKNOWN_SERVER_ERROR. So a group may bring MOST_BATCHES times what a batch of `__consumer_offsets` holds, because members may have
several protocols of which one is written, but never more than the longest answer (`ottla.response.max.bytes`). A JoinGroup beyond
that is refused with GROUP_MAX_SIZE_REACHED. Where batches are compressed (`offsets.topic.compression.codec`), nobody knows how
much one holds, and only the longest answer counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ottla.server.group.cluster import Cluster
from ottla.server.group.coordinator_config import GroupCoordinatorConfig
from ottla.server.group.requests import MemberProtocol
from ottla.server.metadata.names import CONSUMER_OFFSETS
from ottla.wire.compression import NONE

MOST_PROTOCOLS: Final = 100
"""So many protocols a member may have; clients have up to four."""
MOST_NAMES: Final = 100_000
"""So many topics may stand in the subscriptions of a group's members, together, for the coordinator to know which ones.
Subscriptions that are the same count once."""
MOST_BATCHES: Final = 4
SURELY_FITS: Final = 64 * 1024
"""So many bytes need no look at the settings."""
_TOPIC_RESOURCE: Final = 2
_USUAL_ANSWER: Final = 67_108_864


def size_of(protocols: Iterable[MemberProtocol]) -> int:
    """Returns how many bytes the names and the metadata of protocols have."""
    return sum(len(protocol.name) + len(protocol.metadata) for protocol in protocols)


def are_too_many(size: int, settings: GroupCoordinatorConfig, cluster: Cluster) -> bool:
    """Returns whether so many bytes are more than the members of a group may bring."""
    return size > SURELY_FITS and size > _most(settings, cluster)


def _most(settings: GroupCoordinatorConfig, cluster: Cluster) -> int:
    from ottla.server.group.modern.group_configs import GroupConfigs  # only where somebody brings much

    values = GroupConfigs(settings.broker, cluster)
    own = cluster.config_of(_TOPIC_RESOURCE, CONSUMER_OFFSETS).get("max.message.bytes")
    batch = int(own) if own is not None and own.isdecimal() else values.broker_number("message.max.bytes")
    answer = settings.broker.get("ottla.response.max.bytes", _USUAL_ANSWER)
    assert isinstance(answer, int)
    return answer if settings.offsets_codec != NONE else min(MOST_BATCHES * batch, answer)

"""Share groups on this broker: where their coordinator (server/group/share/) meets the share coordinator (server/share_state/).

The first knows which partitions a group reads, the second keeps how far it got there. What one decides the other has to carry
out, with a record of the first before and after: begin state in partitions, forget it. Both are on this broker while the cluster
has one, so a call is a call; only `__share_group_state` may not be there yet, or not be read to its end: then it is tried again
for a while.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final

from ottla.server.group.errors import GroupError
from ottla.server.group.share.protocol import Initialize, ShareProtocol
from ottla.server.group.share.state_partitions import NOTHING
from ottla.server.share_state.errors import ShareStateError
from ottla.wire.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.server.requests.context import BrokerContext

logger = logging.getLogger("ottla.server.share_groups")

SHARE_VERSION: Final = "share.version"
RETRY_SECONDS: Final = 0.05
ATTEMPTS: Final = 200
_NOT_YET: Final = frozenset(
    {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
)

Errors = dict[tuple[bytes, int], ShareStateError]
"""By topic id and partition, what the share coordinator refused."""


class _Begin:
    """`offsets`: topic id -> partition -> where the group begins, -1: its leader is to find out."""

    def __init__(
        self,
        broker: BrokerContext,
        group_id: str,
        state_epoch: int,
        offsets: Mapping[bytes, Mapping[int, int]],
        then: Callable[[Errors], object],
    ) -> None:
        self._broker = broker
        self._group_id = group_id
        self._state_epoch = state_epoch
        self._to_do = [(topic_id, index, offset) for topic_id, parts in offsets.items() for index, offset in parts.items()]
        self._errors = Errors()
        self._then = then
        self._left = ATTEMPTS

    def attempt(self) -> None:
        """What is begun, or refused for good, is not tried again."""
        self._left -= 1
        self._to_do = self._not_yet()
        if self._to_do and self._left > 0:
            self._broker.clock.call_later(RETRY_SECONDS, self.attempt)
            return
        for (topic_id, partition), error in self._errors.items():
            logger.warning("share group %s has no state in %s-%d: %s", self._group_id, topic_id.hex(), partition, error)
        self._then(self._errors)

    def _not_yet(self) -> list[tuple[bytes, int, int]]:
        """What is still to be done after this."""
        coordinator = self._broker.share_coordinator()
        coordinator.has_topic()
        not_yet = []
        for topic_id, partition, offset in self._to_do:
            self._errors.pop((topic_id, partition), None)
            try:
                coordinator.initialize(self._group_id, topic_id, partition, self._state_epoch, offset)
            except ShareStateError as error:
                self._errors[topic_id, partition] = error
                if error.code in _NOT_YET:
                    not_yet.append((topic_id, partition, offset))
        return not_yet


def begin(
    broker: BrokerContext,
    group_id: str,
    state_epoch: int,
    offsets: Mapping[bytes, Mapping[int, int]],
    then: Callable[[Errors], object],
) -> None:
    """Begins the group's state in partitions, and calls `then` when that is done or given up: now, if nothing is in the way."""
    _Begin(broker, group_id, state_epoch, offsets, then).attempt()


def begin_after_heartbeat(broker: BrokerContext, group_id: str, wanted: Initialize) -> None:
    """What a heartbeat asked for; the member has its answer by then."""
    offsets = {
        topic_id: dict.fromkeys(topic.partitions, wanted.start_offsets[topic_id]) for topic_id, topic in wanted.topics.items()
    }

    def done(errors: Errors) -> None:
        finish(broker, group_id, wanted, errors)

    broker.clock.call_later(0, lambda: begin(broker, group_id, wanted.state_epoch, offsets, done))


def finish(broker: BrokerContext, group_id: str, wanted: Initialize, errors: Errors) -> None:
    """The group learns what came of it: all that it wanted is initialized, or, after an error, none of it."""
    try:
        protocol = broker.groups.member_shard(group_id).protocol(ShareProtocol)
        group = protocol.group(group_id)
        step = group.state_partitions.failed if errors else group.state_partitions.done
        protocol.change_state_partitions(group, step(wanted.topics))
    except GroupError as error:
        logger.warning("share group %s does not know what became of its partitions: %s", group_id, error)


def delete_state(
    broker: BrokerContext, group_id: str, topics: Mapping[bytes, Iterable[int]]
) -> dict[bytes, ShareStateError | None]:
    """Forgets the group's state in partitions: by topic, what went wrong in one of its partitions, if anything."""
    coordinator = broker.share_coordinator()
    found: dict[bytes, ShareStateError | None] = {}
    for topic_id, partitions in topics.items():
        found[topic_id] = None
        for partition in partitions:
            try:
                coordinator.delete(group_id, topic_id, partition)
            except ShareStateError as error:
                logger.warning("share group %s keeps its state in %s-%d: %s", group_id, topic_id.hex(), partition, error)
                found[topic_id] = error
    return found


def delete_all_state(broker: BrokerContext, group_id: str) -> None:
    """Before a share group is deleted. GroupError: NON_EMPTY_GROUP, or the share coordinator's refusal; the group stays then."""
    protocol = broker.groups.shard(group_id).protocol(ShareProtocol)
    group = protocol.group(group_id)
    protocol.admit_deletion(group)
    had = group.state_partitions
    if had == NOTHING:
        return
    candidates = had.all_partitions
    for topic_id in had.deleting:
        topic = broker.metadata.topics_by_id.get(topic_id)
        if topic is not None:
            candidates[topic_id] = (topic.name, frozenset(topic.partitions))
    deleting = {topic_id: name for topic_id, (name, _) in candidates.items()}
    protocol.change_state_partitions(group, had._replace(initializing={}, initialized={}, deleting=deleting))
    outcome = delete_state(broker, group_id, {topic_id: partitions for topic_id, (_, partitions) in candidates.items()})
    for error in outcome.values():
        if error is not None:
            raise GroupError(error.code)


def is_enabled(broker: BrokerContext) -> bool:
    """Whether the cluster's share.version has share groups."""
    return broker.metadata.features.get(SHARE_VERSION, 0) >= 1

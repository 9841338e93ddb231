"""Initializes and deletes the state of share groups in partitions as the group coordinator decides.

The group coordinator (server/group/share/) knows which partitions a group reads, the share coordinator (server/share_state/) how
far the group has got there. The first decides, and the second carries out, that state is initialized in partitions or deleted; a
record of the first goes before and another one follows. If the topic `__share_group_state` does not exist yet, or is still being
loaded, the attempt is repeated for a while.

A group may read thousands of partitions, so all this is in steps (server/base/turns.py). What is begun for a group waits until
what was begun for it before has ended, and no attempt is about partitions that the group's record no longer has: if a group is
deleted while it is initialized, or before that begins, or between two attempts, nothing is initialized after that.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from ottla.server.base.answers import chain_answer, map_answer, recover_answer
from ottla.server.base.promise import Promise
from ottla.server.base.turns import Steps, all_kept, in_runs, take_steps
from ottla.server.base.waiting import in_line_of
from ottla.server.group.errors import GroupError
from ottla.server.group.share.protocol import Initialize, ShareProtocol
from ottla.server.group.share.state_partitions import NOTHING, StatePartitions
from ottla.server.metadata.feature_levels import SHARE_VERSION
from ottla.server.share_state.errors import MAY_BE_GONE, ShareStateError
from ottla.wire.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.server.base.clock import Clock
    from ottla.server.group.coordinator import GroupCoordinator
    from ottla.server.metadata.image import MetadataImage
    from ottla.server.share.persister import StateKeeper

logger = logging.getLogger("ottla.server.share_groups")

T = TypeVar("T")

RETRY_SECONDS: Final = 0.05
ATTEMPTS: Final = 200
PLACES_A_STEP: Final = 1_000
"""So many partitions are looked up in a group's record before others may come first."""

Deleted = dict[bytes, ShareStateError | None]
"""The errors of deletions by topic id; None means that the topic's state is gone."""

Errors = dict[tuple[bytes, int], ShareStateError]
"""The share coordinator's refusals by topic id and partition."""

Begun = list[ShareStateError | None]
"""The share coordinator's refusals of operations, in their order; None where there was none."""


def is_enabled(image: MetadataImage) -> bool:
    """Returns whether the cluster's share.version enables share groups."""
    return image.features.get(SHARE_VERSION, 0) >= 1


class ShareGroupState:
    """Carries out what the group coordinator decides. `coordinator` returns what reaches the share coordinator, which is opened
    with the first share group.
    """

    def __init__(
        self, groups: GroupCoordinator, coordinator: Callable[[], StateKeeper], image: MetadataImage, clock: Clock
    ) -> None:
        self._groups = groups
        self._coordinator = coordinator
        self._image = image
        self._clock = clock
        self._under_way: dict[str, deque[Promise[None]]] = {}
        """The work on each group: what is under way, and what waits for it."""

    def _in_order(self, group_id: str, steps: Steps[T]) -> T | Promise[T]:
        """Takes steps once all that were begun before for the same group are taken."""
        return take_steps(in_line_of(self._under_way, group_id, steps), self._clock)

    def initialize(
        self,
        group_id: str,
        state_epoch: int,
        offsets: Mapping[bytes, Mapping[int, int]],
        then: Callable[[Errors], object],
    ) -> None:
        """Initializes the group's state in partitions, and calls `then` when that is done or given up, which may be before this
        returns. `offsets` has, by topic id and partition, where the group begins; -1 leaves that to the partition's leader.
        """
        take: Callable[[Steps[Begun]], Begun | Promise[Begun]] = partial(self._in_order, group_id)
        known = partial(self._known, group_id)
        _Initialization(self._coordinator, self._clock, group_id, state_epoch, offsets, then, take, known).attempt()

    def _known(self, group_id: str) -> StatePartitions | None:
        """Returns the partitions of the group's record; None if another broker has it now, whose word counts."""
        try:
            return self._groups.member_shard(group_id).protocol(ShareProtocol).group(group_id).state_partitions
        except GroupError as error:
            return NOTHING if error.code is ErrorCode.GROUP_ID_NOT_FOUND else None

    def initialize_after_heartbeat(self, group_id: str, wanted: Initialize) -> None:
        """Initializes the state that a heartbeat asked for. It does so in the loop's next turn, after the member got
        its answer.
        """
        offsets = {
            topic_id: dict.fromkeys(topic.partitions, wanted.start_offsets[topic_id]) for topic_id, topic in wanted.topics.items()
        }

        def done(errors: Errors) -> None:
            self.finish(group_id, wanted, errors)

        self._clock.call_later(0, lambda: self.initialize(group_id, wanted.state_epoch, offsets, done))

    def finish(self, group_id: str, wanted: Initialize, errors: Errors) -> Promise[None] | None:
        """Records the outcome in the group: all that it wanted is initialized, or, after an error, none of it. Returns a promise
        if that takes long, which does not fail."""

        def log(error: GroupError) -> None:
            logger.warning("cannot record whether the partitions of share group %s were initialized: %s", group_id, error)

        try:
            protocol = self._groups.member_shard(group_id).protocol(ShareProtocol)
            return recover_answer(protocol.end_initialization(group_id, wanted.topics, failed=bool(errors)), GroupError, log)
        except GroupError as error:
            log(error)
            return None

    def delete(self, group_id: str, topics: Mapping[bytes, Iterable[int]]) -> Deleted | Promise[Deleted]:
        """Forgets the group's state in partitions. Returns, by topic id, the last error of its partitions, or None."""
        return self._in_order(group_id, self._delete(group_id, topics))

    def _delete(self, group_id: str, topics: Mapping[bytes, Iterable[int]]) -> Steps[Deleted]:
        coordinator = self._coordinator()
        wanted = [(topic_id, partition) for topic_id, partitions in topics.items() for partition in partitions]
        errors = yield from _begin_each(partial(coordinator.delete, group_id, *each) for each in wanted)
        found: Deleted = dict.fromkeys(topics)
        for (topic_id, partition), error in zip(wanted, errors, strict=True):
            if error is not None:
                logger.warning("share group %s keeps its state in %s-%d: %s", group_id, topic_id.hex(), partition, error)
                found[topic_id] = error
        return found

    def delete_all(self, group_id: str) -> Promise[None] | None:
        """Deletes all state of a share group that is about to be deleted. Raises GroupError with NON_EMPTY_GROUP or the share
        coordinator's error code; the group then stays.
        """
        shard = self._groups.shard(group_id)
        protocol = shard.protocol(ShareProtocol)
        group = protocol.group(group_id)
        protocol.admit_deletion(group)
        had = group.state_partitions
        if had == NOTHING:
            return None
        candidates = had.all_partitions
        for topic_id in had.deleting:
            topic = self._image.topics_by_id.get(topic_id)
            if topic is not None:
                candidates[topic_id] = (topic.name, frozenset(topic.partitions))
        deleting = {topic_id: name for topic_id, (name, _) in candidates.items()}
        protocol.change_state_partitions(group, had._replace(initializing={}, initialized={}, deleting=deleting))
        wanted = {topic_id: partitions for topic_id, (_, partitions) in candidates.items()}
        outcome = chain_answer(shard.answer(None), lambda _: self.delete(group_id, wanted))
        return map_answer(outcome, _check_deleted)


def _check_deleted(outcome: Deleted) -> None:
    for error in outcome.values():
        if error is not None:
            raise GroupError(error.code)


def _begin_each(operations: Iterable[Callable[[], Promise[None] | None]]) -> Steps[Begun]:
    """Makes steps that begin operations, one after the other, and return the refusal of each when all have ended."""
    begun = []
    for operation in operations:
        begun.append(_error_of(operation))
        yield None
    return (yield from all_kept(begun))


def _error_of(operation: Callable[[], Promise[None] | None]) -> ShareStateError | Promise[ShareStateError | None] | None:
    """Returns the share coordinator's refusal of an operation, or None; or a promise of it."""
    try:
        answer = operation()
    except ShareStateError as error:
        return error
    return recover_answer(answer, ShareStateError, lambda error: error)


class _Initialization:
    """The initialization of one group's state in partitions, attempt by attempt."""

    def __init__(
        self,
        coordinator: Callable[[], StateKeeper],
        clock: Clock,
        group_id: str,
        state_epoch: int,
        offsets: Mapping[bytes, Mapping[int, int]],
        then: Callable[[Errors], object],
        take: Callable[[Steps[Begun]], Begun | Promise[Begun]],
        known: Callable[[], StatePartitions | None],
    ) -> None:
        self._coordinator = coordinator
        self._clock = clock
        self._group_id = group_id
        self._state_epoch = state_epoch
        self._to_do = [(topic_id, index, offset) for topic_id, parts in offsets.items() for index, offset in parts.items()]
        self._errors = Errors()
        self._then = then
        self._take = take
        self._known = known
        self._left = ATTEMPTS

    def attempt(self) -> None:
        """Tries what is left; a partition that was initialized, or refused for good, is not tried again."""
        self._left -= 1
        tried = self._take(self._begin())
        if isinstance(tried, Promise):
            tried.add_done_callback(lambda done: self._attempted(done.result()))
        else:
            self._attempted(tried)

    def _begin(self) -> Steps[Begun]:
        coordinator = self._coordinator()
        coordinator.has_topic()
        known = self._known()
        if known is not None:
            kept: list[tuple[bytes, int, int]] = []
            for some in in_runs(self._to_do, PLACES_A_STEP):
                if kept:
                    yield None
                kept += [place for place in some if known.has(*place[:2])]
            self._to_do = kept
        begin, epoch = partial(coordinator.initialize, self._group_id), self._state_epoch
        return (yield from _begin_each(partial(begin, topic_id, index, epoch, offset) for topic_id, index, offset in self._to_do))

    def _attempted(self, errors: Begun) -> None:
        tried, self._to_do = self._to_do, []
        for (topic_id, partition, offset), error in zip(tried, errors, strict=True):
            self._errors.pop((topic_id, partition), None)
            if error is not None:
                self._errors[topic_id, partition] = error
                if error.code in MAY_BE_GONE:
                    self._to_do.append((topic_id, partition, offset))
        if self._to_do and self._left > 0:
            self._clock.call_later(RETRY_SECONDS, self.attempt)
            return
        for (topic_id, partition), refusal in self._errors.items():
            logger.warning("share group %s has no state in %s-%d: %s", self._group_id, topic_id.hex(), partition, refusal)
        self._then(self._errors)

"""Dead letters (KIP-1191): for each record that a share group gives up, because it was rejected or delivered too often, a record
is written to a topic of the group's choice.

A letter has no key and value, or, with `errors.deadletterqueue.copy.record.enable`, those of the record. Its headers name the
record's topic, partition and offset, the group, the number of deliveries, and the reason. It goes to the partition of the same
number, modulo the partition count of the topic, and is written before the share coordinator learns that the record is archived.
So a crash may duplicate a letter, but loses none.

Letters are written in steps (server/base/turns.py), LETTERS_A_BATCH of them and one batch at a time. What is done within a turn
is done when `send` returns. Otherwise the records stay in the state ARCHIVING until their letters are written: what waits is
offsets in flight, no letters, and it counts against the locks that the group may have in a partition. Since a copy needs its
batch unfolded, those who copy do so one after the other.

The topic's name has to begin with the broker's `errors.deadletterqueue.topic.name.prefix`, and the topic has to allow letters by
its `errors.deadletterqueue.group.enable`. A topic that does not exist is created if the broker allows it
(`errors.deadletterqueue.auto.create.topics.enable`). Problems are logged, and the record is archived all the same.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ottla.log.errors import LogError
from ottla.log.validate import QUICK_BYTES, Origin
from ottla.server.base.promise import Promise
from ottla.server.base.turns import Steps, Workers, take_steps, wait_in_steps
from ottla.server.base.waiting import in_line, wait_with_others
from ottla.server.metadata.feature_levels import SHARE_VERSION
from ottla.server.metadata.image import TOPIC
from ottla.server.partitions.replica import Replica
from ottla.server.share.letter_copies import NO_COPY, Copy, LetterCopies
from ottla.server.share.share_group_config import ShareGroupConfig
from ottla.server.share.states import GivenUp, GivingUp
from ottla.wire.batch import HEADER_SIZE
from ottla.wire.compression import CompressionError
from ottla.wire.records import Header, Record, build_batch

if TYPE_CHECKING:
    from ottla.server.base.clock import Clock
    from ottla.server.metadata.controller import Controller
    from ottla.server.metadata.image import MetadataImage
    from ottla.server.partitions.replicas import Replicas
    from ottla.server.settings.current import CurrentSettings

logger = logging.getLogger("ottla.server.share.dead_letters")

GROUP_ENABLE: Final = "errors.deadletterqueue.group.enable"
SINCE_SHARE_VERSION: Final = 2
INTERNAL_PREFIX: Final = "__"
REJECTED: Final = b"The consumer rejected the record."
TOO_OFTEN: Final = b"The record was delivered as often as the group allows."
RECORD_OVERHEAD: Final = 48
"""An upper bound for the bytes that a record's lengths and deltas take, with six headers."""
LETTERS_A_BATCH: Final = 100
"""So many letters are written in one batch and in one step, which takes about a millisecond; fewer if they are more than
QUICK_BYTES, but for one letter that is larger by itself."""


class DeadLetters:
    """Writes the letters of all share groups of this broker. `workers` returns what does long work in threads."""

    def __init__(
        self,
        settings: CurrentSettings,
        image: MetadataImage,
        replicas: Replicas,
        clock: Clock,
        controller: Controller,
        workers: Callable[[], Workers],
    ) -> None:
        self._settings = settings
        self._replicas = replicas
        self._image = image
        self._clock = clock
        self._controller = controller
        self._workers = workers
        self._line: deque[Promise[None]] = deque()
        """Those who copy: the one that does so now, and those who wait."""

    def send(self, group_id: str, settings: ShareGroupConfig, source: Replica, giving_up: GivingUp) -> Promise[None] | None:
        """Writes a letter for each of these offsets, if the group wants letters. Returns a promise if some of them are written
        later; it is kept when nothing is left to be done.
        """
        name, image = settings.dead_letter_topic, self._image
        if not name or image.features.get(SHARE_VERSION, 0) < SINCE_SHARE_VERSION:
            return None
        problem = self._problem(name)
        if problem is not None:
            logger.error("no dead letters are written for the records that share group %s gave up: %s", group_id, problem)
            return None
        copies = LetterCopies(source.log, self._workers) if settings.copies_dead_letters else None
        steps = self._write(_Letters(group_id, name, source, giving_up, copies))
        taken = take_steps(steps if copies is None else in_line(self._line, steps), self._clock)
        return taken if isinstance(taken, Promise) else None

    def _problem(self, name: str) -> str | None:
        """Returns why letters cannot be written to this topic, or None if they can."""
        values, image = self._settings.values, self._image
        prefix = values["errors.deadletterqueue.topic.name.prefix"]
        if name.startswith(INTERNAL_PREFIX):
            return f"the name {name} is reserved for internal topics"
        if not name.startswith(prefix):
            return f"{name} does not begin with {prefix} (errors.deadletterqueue.topic.name.prefix)"
        if name in image.topics:
            agrees = self._settings.of_topic(name, image.config_of(TOPIC, name)).errors_deadletterqueue_group_enable
            return None if agrees else f"{GROUP_ENABLE} is not set for {name}"
        if not values["errors.deadletterqueue.auto.create.topics.enable"]:
            return f"topic {name} does not exist, and errors.deadletterqueue.auto.create.topics.enable is false"
        return None

    def _write(self, letters: _Letters) -> Steps[None]:
        """Writes letters, batch by batch. Their topic may not exist yet, or its partitions may still have to be made."""
        name, giving_up = letters.topic, letters.giving_up
        if name not in self._image.topics and not (yield from wait_in_steps(self._create(name))):
            return
        yield from wait_with_others(self._replicas.settled())
        batch = _Batch(self._most_bytes(letters))
        for given in giving_up.runs:
            for offset in range(given.run.first, given.run.last + 1):
                if giving_up.is_over:
                    return
                letter = yield from letters.letter(given, offset, self._clock.now_ms())
                if not batch.takes(letter):
                    self._append(letters, batch)
                    yield None
                    batch = _Batch(self._most_bytes(letters))
                batch.add(letter)
        self._append(letters, batch)
        if letters.lost:
            logger.error("%d dead letters to %s are lost: %s", letters.lost, name, letters.why_lost)

    async def _create(self, name: str) -> bool:
        """Creates the topic; returns whether it exists then."""
        from ottla.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest

        topic = CreatableTopic(name, -1, -1, [], [CreatableTopicConfig(GROUP_ENABLE, "true")])
        try:
            response = await self._controller.create_topics(CreateTopicsRequest([topic]), None)
        except LogError as error:
            logger.error("cannot create topic %s for dead letters: %s", name, error)
            return False
        if name in self._image.topics:
            return True
        logger.error("cannot create topic %s for dead letters: %s", name, response.topics[0].error_message)
        return False

    def _replica(self, letters: _Letters) -> Replica | None:
        """Returns the partition that takes the letters, or None if this broker does not lead it."""
        topic = self._image.topics.get(letters.topic)
        if topic is None:
            return None
        replica = self._replicas.get(letters.topic, letters.source.partition % len(topic.partitions))
        return replica if replica is not None and replica.is_leader else None

    def _most_bytes(self, letters: _Letters) -> int:
        """Returns how many bytes a batch of these letters may have."""
        replica = self._replica(letters)
        return QUICK_BYTES if replica is None else min(QUICK_BYTES, replica.log.config.max_message_bytes)

    def _append(self, letters: _Letters, batch: _Batch) -> None:
        replica = self._replica(letters)
        if replica is None:
            gone = letters.topic not in self._image.topics
            letters.lose(batch, "the topic was deleted" if gone else "the partition for them is not on this broker")
            return
        most = replica.log.config.max_message_bytes
        if batch.least_bytes > most:  # else it would be encoded, which may take long, only to be refused
            letters.lose(batch, f"a letter has {batch.least_bytes} bytes, {most} are allowed")
            return
        try:
            info = replica.append(build_batch(batch.letters), origin=Origin.CLIENT)
            if info.waits:
                replica.flush_if_due(info.last_offset + 1)
        except LogError as error:
            letters.lose(batch, str(error))


class _Letters:
    """The letters for what is given up at one time, and how many of them were lost."""

    __slots__ = ("_copies", "_headers", "giving_up", "lost", "source", "topic", "why_lost")

    def __init__(self, group_id: str, topic: str, source: Replica, giving_up: GivingUp, copies: LetterCopies | None) -> None:
        self.topic = topic
        self.source = source
        self.giving_up = giving_up
        self.lost = 0
        self.why_lost = ""
        self._copies = copies
        before = {"topic": source.topic, "partition": source.partition}
        self._headers = [(f"__dlq.errors.{name}", str(text).encode()) for name, text in (*before.items(), ("group", group_id))]

    def letter(self, given: GivenUp, offset: int, now_ms: int) -> Steps[Record]:
        """Makes steps that return the letter for one of the offsets of a run."""
        copy = NO_COPY if self._copies is None else (yield from self._copy(self._copies, offset))
        topic, partition, group = self._headers
        headers: list[Header] = [
            topic,
            partition,
            ("__dlq.errors.offset", b"%d" % offset),
            group,
            ("__dlq.errors.delivery.count", b"%d" % given.run.delivery_count),
            ("__dlq.errors.message", REJECTED if given.rejected else TOO_OFTEN),
        ]
        return Record(0, now_ms, copy.key, copy.value, headers)

    def _copy(self, copies: LetterCopies, offset: int) -> Steps[Copy]:
        """Reads a record. Those from the first on that cannot be read are not copied."""
        try:
            return (yield from copies.read(offset))
        except (LogError, CompressionError, ValueError) as error:
            source = self.source
            logger.error("%s-%d: cannot copy records into dead letters: %s", source.topic, source.partition, error)
            self._copies = None
            return NO_COPY

    def lose(self, batch: _Batch, why: str) -> None:
        self.lost += len(batch.letters)
        self.why_lost = self.why_lost or why


class _Batch:
    """Letters that are written together, of `most_bytes` in all, unless one has more by itself."""

    __slots__ = ("_left", "least_bytes", "letters")

    def __init__(self, most_bytes: int) -> None:
        self.letters: list[Record] = []
        self.least_bytes = 0
        """The bytes of their keys and values."""
        self._left = most_bytes - HEADER_SIZE

    def takes(self, letter: Record) -> bool:
        """Returns whether there is room for a letter."""
        return not self.letters or (len(self.letters) < LETTERS_A_BATCH and _most_bytes_of(letter) <= self._left)

    def add(self, letter: Record) -> None:
        self.letters.append(letter)
        self._left -= _most_bytes_of(letter)
        self.least_bytes += len(letter.key or b"") + len(letter.value or b"")


def _most_bytes_of(letter: Record) -> int:
    """Returns an upper bound for the bytes that a letter takes in a batch."""
    parts = (letter.key or b"", letter.value or b"", *(part or b"" for header in letter.headers for part in header))
    return RECORD_OVERHEAD + sum(map(len, parts))

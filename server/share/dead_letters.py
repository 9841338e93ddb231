"""Dead letters (KIP-1191): for each record that a share group gives up, because it was rejected or delivered too often, a record
is written to a topic of the group's choice.

A letter has no key and value, or, with `errors.deadletterqueue.copy.record.enable`, those of the record. Its headers name the
record's topic, partition and offset, the group, the number of deliveries, and the reason. It goes to the partition of the same
number, modulo the partition count of the topic, and is written before the share coordinator learns that the record is archived.
So a crash may duplicate a letter, but loses none.

The topic's name has to begin with the broker's `errors.deadletterqueue.topic.name.prefix`, and the topic has to allow letters by
its `errors.deadletterqueue.group.enable`. A topic that does not exist is created if the broker allows it
(`errors.deadletterqueue.auto.create.topics.enable`); the letters that caused its creation are the only ones that a crash can
lose. Problems are logged, and the record is archived all the same.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence, Set
from typing import TYPE_CHECKING, Any, Final

from ottla.log.errors import LogError
from ottla.log.validate import Origin
from ottla.server.base.answers import wait_for
from ottla.server.metadata.feature_levels import SHARE_VERSION
from ottla.server.metadata.image import TOPIC
from ottla.server.partitions.replica import Replica
from ottla.server.share.share_group_config import ShareGroupConfig
from ottla.server.share.states import GivenUp
from ottla.wire.batch import HEADER_SIZE
from ottla.wire.compression import CompressionError
from ottla.wire.records import Record, build_batch, iter_records

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
REJECTED: Final = "The consumer rejected the record."
TOO_OFTEN: Final = "The record was delivered as often as the group allows."
RECORD_OVERHEAD: Final = 48
"""An upper bound for the bytes that a record's lengths and deltas take, with six headers."""


class DeadLetters:
    """Writes the letters of all share groups of this broker."""

    def __init__(
        self, settings: CurrentSettings, image: MetadataImage, replicas: Replicas, clock: Clock, controller: Controller
    ) -> None:
        self._settings = settings
        self._replicas = replicas
        self._image = image
        self._clock = clock
        self._controller = controller
        self._tasks: set[asyncio.Task[None]] = set()

    def send(self, group_id: str, settings: ShareGroupConfig, source: Replica, given_up: Sequence[GivenUp]) -> None:
        """Writes a letter for each of these offsets, if the group wants letters."""
        name, image = settings.dead_letter_topic, self._image
        if not name or image.features.get(SHARE_VERSION, 0) < SINCE_SHARE_VERSION:
            return
        letters = [*self._letters(group_id, settings, source, given_up)]
        problem = self._problem(name)
        if problem is not None:
            logger.error("no dead letters are written for the records that share group %s gave up: %s", group_id, problem)
        elif name in image.topics and self._replicas.settled() is None:
            self._append(name, source.partition, letters)
        else:
            task = asyncio.get_running_loop().create_task(self._append_later(name, source.partition, letters))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

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

    def _letters(
        self, group_id: str, settings: ShareGroupConfig, source: Replica, given_up: Sequence[GivenUp]
    ) -> Iterator[Record]:
        now_ms = self._clock.now_ms()
        offsets = [(offset, *records) for records in given_up for offset in range(records.run.first, records.run.last + 1)]
        copied = self._records(source, {offset for offset, _, _ in offsets}) if settings.copies_dead_letters else {}
        for offset, run, rejected in offsets:
            headers = {
                "__dlq.errors.topic": source.topic,
                "__dlq.errors.partition": source.partition,
                "__dlq.errors.offset": offset,
                "__dlq.errors.group": group_id,
                "__dlq.errors.delivery.count": run.delivery_count,
                "__dlq.errors.message": REJECTED if rejected else TOO_OFTEN,
            }
            key, value = copied.get(offset, (None, None))
            yield Record(0, now_ms, key, value, [(name, str(text).encode()) for name, text in headers.items()])

    @staticmethod
    def _records(source: Replica, offsets: Set[int]) -> dict[int, tuple[bytes | None, bytes | None]]:
        """Returns key and value by offset of the records that are still there, up to the first that cannot be read. It reads the
        log once, however far apart the offsets are.
        """
        found: dict[int, tuple[bytes | None, bytes | None]] = {}
        log, last = source.log, max(offsets)
        try:
            for batch in log.iterate_batches(max(min(offsets), log.log_start_offset)):
                for record in iter_records(batch, *log.config.decompression_bounds):
                    if record.offset in offsets:
                        found[record.offset] = record.key, record.value
                    if record.offset >= last:
                        return found
        except (LogError, CompressionError, ValueError) as error:
            logger.error("%s-%d: cannot copy records into dead letters: %s", source.topic, source.partition, error)
        return found

    async def _append_later(self, name: str, partition: int, letters: list[Record]) -> None:
        """Appends letters to a topic that does not exist yet, or whose partitions may still have to be made."""
        if name not in self._image.topics and not await self._create(name):
            return
        await wait_for(self._replicas.settled())
        if name in self._image.topics:
            self._append(name, partition, letters)
        else:
            logger.error("%d dead letters are lost: topic %s was deleted", len(letters), name)

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

    def _append(self, name: str, partition: int, letters: list[Record]) -> None:
        partitions = self._image.topics[name].partitions
        replica = self._replicas.get(name, partition % len(partitions))
        if replica is None or not replica.is_leader:
            logger.error("%d dead letters are lost: partition %d of %s is not on this broker", len(letters), partition, name)
            return
        for records in _split_into_batches(letters, replica.log.config.max_message_bytes):
            try:
                info = replica.append(build_batch(records), origin=Origin.CLIENT)
                if info.waits:
                    replica.flush_if_due(info.last_offset + 1)
            except LogError as error:
                logger.error("%d dead letters to %s are lost: %s", len(records), name, error)


def _split_into_batches(letters: list[Record], max_bytes: int) -> Iterator[list[Record]]:
    """Yields the letters in lists, each as long as the topic allows a batch to be."""
    portion: list[Record] = []
    size = HEADER_SIZE
    for letter in letters:
        parts: list[Any] = [letter.key or b"", letter.value or b"", *(part for header in letter.headers for part in header)]
        needed = RECORD_OVERHEAD + sum(map(len, parts))
        if portion and size + needed > max_bytes:
            yield portion
            portion, size = [], HEADER_SIZE
        portion.append(letter)
        size += needed
    if portion:
        yield portion

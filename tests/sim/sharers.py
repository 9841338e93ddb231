"""Members of share groups (KIP-932): they acquire records and say of each what became of it, or say nothing until the lock ends.

An answer that does not come ends the session: the member begins another and leaves what it held to its lock. It never
acknowledges twice, so a record that it accepted, and that the broker said was accepted, must not come again to anybody.
"""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any, Final

from compat_tests.anomalies.history import ACCEPT, GAP, READ_UNCOMMITTED, REJECT, RELEASE, Key, Recorded
from ottla.wire.errors import ErrorCode
from ottla.wire.messages import fetch, incremental_alter_configs, share_acknowledge, share_fetch, share_group_heartbeat
from tests.sim.client import GROUP, Client, Lost
from tests.sim.readers import decode
from tests.sim.world import DELIVERY_LIMIT, LOCK_S, SHARE_SESSION_S, World

_GROUP_RESOURCE: Final = 32
_SET: Final = 0
_NOT_JOINED: Final = 0
_NO_SESSION: Final = 0
_FORGOTTEN: Final = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND})
_NOT_DONE: Final = frozenset({
    ErrorCode.INVALID_RECORD_STATE, ErrorCode.SHARE_SESSION_NOT_FOUND, ErrorCode.INVALID_SHARE_SESSION_EPOCH,
})  # fmt: skip
"""Errors that say that an acknowledgement was not carried out."""
_QUIET_S: Final = SHARE_SESSION_S + 2 * LOCK_S
"""The time after which nothing is left if nothing was delivered for so long, with all partitions assigned: by then all members
that are gone are forgotten, and the locks of what they held are over."""

Deliveries = dict[Key, list[tuple[int, int, int]]]
"""(first offset, last offset, number of the delivery) of what was acquired, by key."""


async def begin_at_the_start(client: Client, group: str) -> None:
    """Has a group begin with the first record, however often that has to be asked for."""
    config = incremental_alter_configs.AlterableConfig("share.auto.offset.reset", _SET, "earliest")
    resource = incremental_alter_configs.AlterConfigsResource(_GROUP_RESOURCE, group, [config])
    request = incremental_alter_configs.IncrementalAlterConfigsRequest([resource])
    while True:
        try:
            answer = await client.call(incremental_alter_configs, 1, request)
        except Lost:
            answer = None
        if answer is not None and not answer.responses[0].error_code:
            return
        await asyncio.sleep(0.2)


class ShareMember:
    """See the module's docstring. `settles` says how likely it says what became of a record, and `accepts` that it takes it; one
    that is `thorough` does both always, and fetches as much as it can."""

    def __init__(self, world: World, name: str, topic: str, group: str, *, thorough: bool = False) -> None:
        self.world = world
        self.topic = topic
        self.group = group
        self.random: Random = world.random(name)
        self.client = world.client(name)
        self.process = world.process()
        self._thorough = thorough
        self._settles, self._accepts = (1.0, 1.0) if thorough else (0.85, 0.7)
        self._topic_id = b""
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._member_id = f"{self.client.name}-{self.random.getrandbits(32):08x}"
        self._epoch = _NOT_JOINED
        self.partitions: list[int] = []
        self._end_session()

    def _end_session(self) -> None:
        """Forgets the session and what is held in it."""
        self._session = _NO_SESSION
        self._named: list[int] = []
        self._held: Deliveries = {}
        self._gaps: dict[Key, set[int]] = {}

    def restart(self) -> None:
        self.world.recorder.mark(self.process, "crash")
        self.client.close()
        self.process = self.world.process()
        self._begin_anew()

    async def once(self) -> None:
        """Does one thing, or tries to."""
        await self.work()

    async def work(self) -> bool:
        """Stays a member, settles what it holds and acquires more; returns whether it was given records or may be later."""
        if not await self._heartbeat() or not self.partitions:
            return True
        if self._held and self.random.random() < 0.5:
            await self._acknowledge()
        return await self._fetch()

    # Membership

    async def _heartbeat(self) -> bool:
        joins = self._epoch == _NOT_JOINED
        request = share_group_heartbeat.ShareGroupHeartbeatRequest(
            self.group, self._member_id, self._epoch, subscribed_topic_names=[self.topic] if joins else None
        )
        try:
            answer = await self.client.call(share_group_heartbeat, 1, request)
        except Lost:
            self._end_session()  # with the connection
            return False
        if answer.error_code:
            if answer.error_code in _FORGOTTEN:
                self._epoch = _NOT_JOINED
            else:
                await self.client.find_coordinator(self.group, GROUP)
            return False
        self._epoch = answer.member_epoch
        if answer.assignment is not None:
            self._topic_id = next((each.topic_id for each in answer.assignment.topic_partitions), b"")
            self.partitions = sorted(at for each in answer.assignment.topic_partitions for at in each.partitions)
        return True

    # What became of records

    def _settlements(self) -> dict[int, tuple[list[Any], Recorded]]:
        """Chooses what became of what is held, of which nothing is held any more then; returns the batches that say so, and the
        operation, by partition. What is not said is left to the lock."""
        chosen: dict[int, tuple[list[Any], Recorded]] = {}
        for key, held in self._held.items():
            said: list[list[int]] = []
            batches: list[Any] = []
            for first, last, _ in held:
                if self.random.random() >= self._settles:
                    continue
                kinds = [self._kind(key, offset) for offset in range(first, last + 1)]
                if self._gaps.get(key, set()).isdisjoint(range(first, last + 1)) and self.random.random() < 0.5:
                    kinds = kinds[:1]
                batches.append((first, last, kinds))
                said += [[first + at, kinds[at % len(kinds)]] for at in range(last + 1 - first)]
            if batches:
                operation = self.world.recorder.invoke(self.process, "settle", group=self.group, settled={key: said})
                chosen[int(key.rpartition("-")[2])] = batches, operation
        self._held, self._gaps = {}, {}
        return chosen

    def _kind(self, key: Key, offset: int) -> int:
        """Draws accept, release or reject; an offset without a record is a gap."""
        if offset in self._gaps.get(key, ()):
            return GAP
        drawn = self.random.random()
        return ACCEPT if drawn < self._accepts else RELEASE if drawn < (1 + self._accepts) / 2 else REJECT

    async def _acknowledge(self) -> None:
        """Says what became of what is held, in a request of its own."""
        chosen = self._settlements()
        if not chosen:
            return
        partitions = [
            share_acknowledge.AcknowledgePartition(index, [share_acknowledge.AcknowledgementBatch(*batch) for batch in batches])
            for index, (batches, _) in chosen.items()
        ]
        topics = [share_acknowledge.AcknowledgeTopic(self._topic_id, partitions)]
        request = share_acknowledge.ShareAcknowledgeRequest(self.group, self._member_id, self._session, topics=topics)
        operations = {index: operation for index, (_, operation) in chosen.items()}
        try:
            answer = await self.client.call(share_acknowledge, 1, request)
        except Lost:
            self._lose(operations)
            return
        self._step(answer.error_code)
        codes = {each.partition_index: each.error_code for topic in answer.responses for each in topic.partitions}
        _settle(operations, answer.error_code, codes)

    def _lose(self, operations: dict[int, Recorded]) -> None:
        for operation in operations.values():
            operation.info()
        self._end_session()

    def _step(self, code: int) -> None:
        """Goes on in the session, or ends it after an error."""
        if code:
            self._end_session()
        else:
            self._session += 1

    # Records

    async def _fetch(self) -> bool:
        """Fetches, and says in the same request what became of what is held; returns whether there were records, or nobody
        knows."""
        if self._session == _NO_SESSION:
            self._end_session()
        chosen = self._settlements()
        acknowledged = {
            index: [share_fetch.AcknowledgementBatch(*batch) for batch in batches] for index, (batches, _) in chosen.items()
        }
        new = [index for index in self.partitions if index not in self._named]
        wanted = [share_fetch.FetchPartition(index, 0, acknowledged.get(index, [])) for index in sorted({*new, *acknowledged})]
        gone = [index for index in self._named if index not in self.partitions]
        limits = [(0, 0, 500), (200, 1 << 20), (1, 5, 100), (1, 100)]
        wait_ms, most_bytes, most_records, batch_size = [
            max(each) if self._thorough else self.random.choice(each) for each in limits
        ]
        request = share_fetch.ShareFetchRequest(
            self.group,
            self._member_id,
            self._session,
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=most_bytes,
            max_records=most_records,
            batch_size=batch_size,
            topics=[share_fetch.FetchTopic(self._topic_id, wanted)] if wanted else [],
            forgotten_topics_data=[share_fetch.ForgottenTopic(self._topic_id, gone)] if gone else [],
        )
        operations = {index: operation for index, (_, operation) in chosen.items()}
        acquiring = self.world.recorder.invoke(
            self.process, "acquire", group=self.group, limit=DELIVERY_LIMIT, isolation=READ_UNCOMMITTED
        )
        try:
            answer = await self.client.call(share_fetch, 1, request)
        except Lost:
            acquiring.info()
            self._lose(operations)
            return True
        self._step(answer.error_code)
        partitions = [each for topic in answer.responses for each in topic.partitions]
        _settle(operations, answer.error_code, {each.partition_index: each.acknowledge_error_code for each in partitions})
        if answer.error_code:
            acquiring.fail(error=answer.error_code)
            return True
        self._named = list(self.partitions)
        return self._take(acquiring, partitions)

    def _take(self, acquiring: Recorded, partitions: list[Any]) -> bool:
        """Takes down what was acquired; returns whether it was anything, or a partition could not be read."""
        read: dict[Key, list[list[int]]] = {}
        counts: dict[Key, list[list[int]]] = {}
        for data in partitions:
            key = f"{self.topic}-{data.partition_index}"
            held = [(each.first_offset, each.last_offset, each.delivery_count) for each in data.acquired_records]
            if not held:
                continue
            records = dict(decode(fetch.PartitionData(records=data.records), 0, committed=False)[0])
            offsets = [(offset, count) for first, last, count in held for offset in range(first, last + 1)]
            self._held[key] = held
            self._gaps[key] = {offset for offset, _ in offsets if offset not in records}
            read[key] = [[offset, records[offset]] for offset, _ in offsets if offset in records]
            counts[key] = [list(each) for each in offsets if each[0] in records]
        acquiring.ok(mops=[["poll", read]], counts=counts)
        return bool(read) or any(data.error_code for data in partitions)


def _settle(operations: dict[int, Recorded], code: int, codes: dict[int, int]) -> None:
    """Ends the operations of an answered request, by partition."""
    for index, operation in operations.items():
        found = code or codes.get(index, ErrorCode.UNKNOWN_SERVER_ERROR)
        if not found:
            operation.ok()
        elif found in _NOT_DONE:
            operation.fail(error=found)
        else:
            operation.info(error=found)


async def drain(world: World, topic: str, partitions: int, group: str, limit_s: float) -> None:
    """Accepts everything that a share group has left, as a fresh member, until nothing has come for long."""
    keys = [f"{topic}-{index}" for index in range(partitions)]
    member = ShareMember(world, f"the last of {group}", topic, group, thorough=True)
    operation = world.recorder.invoke(world.process(), "drain", group=group, final=True, keys=keys)
    until = world.loop.time() + limit_s
    quiet_since = world.loop.time()
    while world.loop.time() - quiet_since < _QUIET_S:
        if world.loop.time() > until:
            operation.info()
            return
        if await member.work() or len(member.partitions) < partitions:
            quiet_since = world.loop.time()
        await asyncio.sleep(0.1)
    operation.ok()

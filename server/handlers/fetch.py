"""Fetch v4-18 returns records of many partitions, from given offsets on.

- The answer comes at once if there are `min_bytes`, if something is wrong with a partition, or if `max_wait_ms` is 0. Otherwise
  the request waits for its partitions to grow, and is answered with what there is when the time is over.
- `max_bytes`, `fetch.max.bytes` and each partition's `partition_max_bytes` cut slices off at any byte, except that the first
  partition that has records gives at least one whole batch, so that every consumer gets past a large one.
- Records are regions of segment files. They never pass the high watermark; with isolation level 1 (read committed) they do not
  pass the last stable offset either, and the answer lists the aborted transactions whose records may be among them.
- A client that would go over its quota (consumer_byte_rate, request_percentage) gets no records but the time to wait, and its
  session stays as it was.
- A broker that follows a partition fetches as one of its replicas (replica id 0 or more) and reads to the end of the log. Its
  offset tells how far it has come, which is what the high watermark and the in-sync replicas go by. A broker that has no replica
  gets 75 UNKNOWN_LEADER_EPOCH if it named the current leader epoch, since it may know more than we do, and 6
  NOT_LEADER_OR_FOLLOWER if it named none or if its broker epoch is that of an earlier start (KIP-903).
  In a cluster brokers are served on the inter-broker listener only; elsewhere they get 29 TOPIC_AUTHORIZATION_FAILED, as in Kafka
  without the right CLUSTER_ACTION. Only those that are served there evict the sessions of consumers; Kafka lets anybody do so who
  gives a replica id.
- Where consumers are sent to followers, a follower is answered as soon as the high watermark moves, so that they need not wait.
- Consumers may read from a follower up to its high watermark since v11, debugging consumers (replica id -2) in any version.
- v7 adds sessions (server/partitions/fetch_sessions.py). v9 checks the leader epoch (74, 75). v11 adds the rack, by which the
  leader may name another replica to read from (server/replication/read_replicas.py). v12 adds LastFetchedEpoch: if the logs
  diverge before the offset, the answer says where (diverging epoch) and has no records. v13 names topics by id (100). v15 adds
  the replica state. v16 names the current leader beside errors (KIP-951).
- With an authorizer a client needs READ on each topic, and a replica CLUSTER_ACTION, which is then enough; else it is answered 29
  TOPIC_AUTHORIZATION_FAILED, also for unknown names. Each attempt asks anew, because sessions and waits outlive rules.
- Errors: 1 OFFSET_OUT_OF_RANGE, 3 UNKNOWN_TOPIC_OR_PARTITION, 6 NOT_LEADER_OR_FOLLOWER, 56 KAFKA_STORAGE_ERROR (6 below v6), 70
  FETCH_SESSION_ID_NOT_FOUND, 71 INVALID_FETCH_SESSION_EPOCH, 74 FENCED_LEADER_EPOCH, 75 UNKNOWN_LEADER_EPOCH, 100
  UNKNOWN_TOPIC_ID, 106 FETCH_SESSION_TOPIC_ID_ERROR. With an error all watermarks are -1.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from ottla.log.errors import CorruptRecord, LogError
from ottla.server.base.errors import code_of
from ottla.server.base.promise import Promise
from ottla.server.base.turns import Steps, call_in_thread, in_runs, take_steps
from ottla.server.partitions.fetch_answers import (
    Attempt,
    aborted_transactions,
    add_by_topic,
    add_hints,
    answer,
    by_topic,
    code_for_version,
    find_divergence,
    is_quiet,
    note_fetch,
    refusal,
    why_missing,
)
from ottla.server.partitions.fetch_sessions import (
    CachedPartition,
    FetchContext,
    Named,
    Result,
    name_partitions,
)
from ottla.server.partitions.purgatory import DelayedOperation, Watch
from ottla.server.partitions.replica import Replica
from ottla.server.partitions.roles import Follower, Leader
from ottla.server.requests.request import Request
from ottla.server.requests.traits import Throttling, Traits
from ottla.server.security.rights import Inside, Need, Operation, Resource
from ottla.wire.errors import ErrorCode
from ottla.wire.isolation import READ_COMMITTED
from ottla.wire.messages.fetch import (
    ENCODE_RESPONSE,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    NodeEndpoint,
    PartitionData,
)

if TYPE_CHECKING:
    from ottla.server.requests.context import ClientQuotas
    from ottla.server.security.authorizer import Ask

TRAITS = Traits(
    Inside(Need(Operation.READ, Resource.TOPIC), Need(Operation.CLUSTER_ACTION, Resource.CLUSTER), in_handler=True),
    throttling=Throttling.FETCH,
    broker_only=True,
    answers_with_regions=True,
    reports_failure=True,
)

PARTITIONS_AT_ONCE: Final = 1000
"""A fetch of so many partitions is carried out at once, in 1 to 2 ms, if the round of the loop has the time."""
PARTITIONS_A_STEP: Final = 100
"""So many partitions of a longer one are read before others may come first, and so many are read at once in any round."""
UNCOUNTED: Final = 10
"""A fetch of so many partitions keeps too little while it waits to be counted."""
HINTS_SINCE: Final = 16
REPLICA_STATE_SINCE: Final = 15
FROM_FOLLOWERS_SINCE: Final = 11
DEBUGGING: Final = -2
NO_REPLICA: Final = -1
_CORRELATION_ID: Final = 4  # bytes
_UNKNOWN: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})


def handle(body: FetchRequest, request: Request) -> FetchResponse | Promise[FetchResponse]:
    state = body.replica_state
    if request.api_version < REPLICA_STATE_SINCE:
        replica_id, broker_epoch = body.replica_id, -1
    elif state is None:
        replica_id, broker_epoch = -1, -1
    else:
        replica_id, broker_epoch = state.replica_id, state.replica_epoch
    named = 0
    for topic in body.topics:
        named += len(topic.partitions)
    if named > PARTITIONS_AT_ONCE:
        return take_steps(_fetch_in_turns(body, request, replica_id, broker_epoch), request.broker.clock)
    fetch = _begin(body, request, replica_id, broker_epoch)
    if isinstance(fetch, FetchResponse):
        return fetch
    if fetch.is_long:
        return take_steps(fetch.answer_in_turns(body.max_wait_ms), request.broker.clock)
    response = fetch.attempt(last=body.max_wait_ms <= 0)
    if response is not None:
        return response
    waiting = DelayedOperation(request.broker.purgatory, fetch.replicas(), body.max_wait_ms, fetch.attempt, fetch.length)
    fetch.count_wait(waiting)
    return waiting.promise


def _begin(
    body: FetchRequest, request: Request, replica_id: int, broker_epoch: int, named: Named | None = None
) -> _Fetch | FetchResponse:
    """Returns what carries out the request in its session, or the refusal of that."""
    sessions = request.broker.fetch_sessions
    privileged = replica_id >= 0 and _is_follower(request)
    fetching = sessions.begin(body, request.api_version, privileged=privileged, connection=request.session, named=named)
    if isinstance(fetching, ErrorCode):
        request.failed = True
        return FetchResponse(error_code=fetching)
    return _Fetch(body, fetching, request, replica_id, broker_epoch)


def _fetch_in_turns(body: FetchRequest, request: Request, replica_id: int, broker_epoch: int) -> Steps[FetchResponse]:
    """Answers a request that names many partitions."""
    named: Named = []
    for topic in body.topics:
        for some in in_runs(topic.partitions, PARTITIONS_A_STEP):
            name_partitions(topic, some, request.api_version, named)
            yield None
    fetch = _begin(body, request, replica_id, broker_epoch, named)
    if isinstance(fetch, FetchResponse):
        return fetch
    return (yield from fetch.answer_in_turns(body.max_wait_ms))


class _Fetch:
    """Carries out one request, in one attempt or, if it has to wait, in several."""

    __slots__ = (
        "_broker_epoch", "_fetching", "_follower", "_is_first", "_is_special", "_is_stranger", "_max_bytes", "_min_bytes",
        "_rack", "_read_committed", "_replica_id", "_request", "_tells_followers", "_unknown",
    )  # fmt: skip

    def __init__(self, body: FetchRequest, fetching: FetchContext, request: Request, replica_id: int, broker_epoch: int) -> None:
        self._fetching = fetching
        self._request = request
        self._replica_id = replica_id
        self._broker_epoch = broker_epoch
        self._follower = replica_id >= 0
        self._rack = body.rack_id
        self._is_special = replica_id >= 0 or (request.broker.read_replicas is not None and body.rack_id != "")
        """True if not even a leader treats it as a plain consumer's."""
        self._tells_followers = replica_id >= 0 and request.broker.read_replicas is not None
        """True if a follower's fetch is answered as soon as the high watermark moves, because consumers read from there."""
        self._is_stranger = replica_id >= 0 and _is_stranger(request)
        self._is_first = True
        """True if the attempt is the first: a follower's fetch says only once how far it has come."""
        self._read_committed = body.isolation_level == READ_COMMITTED
        self._max_bytes = min(body.max_bytes, request.broker.config.values["fetch.max.bytes"])
        self._min_bytes = min(body.min_bytes, self._max_bytes)
        self._unknown: int | None = None
        """The number of its partitions that did not exist, or were refused, at the previous attempt; None before the first."""

    def replicas(self) -> list[Replica]:
        """Returns the partitions that the request waits for."""
        found = map(self._find, self._fetching.partitions.values())
        return [replica for replica in found if replica is not None]

    @property
    def length(self) -> int:
        """Returns the number of partitions that it asks for."""
        return len(self._fetching.partitions)

    @property
    def is_long(self) -> bool:
        """Returns whether it asks for more partitions than are read at once in this round of the loop."""
        if self.length <= PARTITIONS_A_STEP:
            return False
        clock = self._request.broker.clock
        return self.length > PARTITIONS_AT_ONCE or clock.turns.is_spent(clock.ticks_ns())

    def count_wait(self, waiting: DelayedOperation[FetchResponse] | Watch) -> None:
        """Has the connection count what the request keeps while it waits, if that is much and no session counts it."""
        if self.length > UNCOUNTED:
            self._request.session.hold(self._fetching.own_bytes, waiting.expire_early)

    def attempt(self, last: bool) -> FetchResponse | None:
        """Returns the answer, or None if it is worth waiting; the last attempt always returns one."""
        attempt = Attempt(last)
        self._read_all(self._fetching.partitions.values(), attempt)
        self._is_first = False
        if not self._is_enough(attempt):
            return None
        self._request.failed |= attempt.add_unknown()
        results = attempt.results
        quotas = self._request.broker.quotas
        if quotas is not None and not self._follower:
            throttled = self._throttled(quotas, self._size(results))
            if throttled is not None:
                return throttled
        attempt.count_sent()
        response = answer(self._fetching, results)
        if self._request.api_version >= HINTS_SINCE:
            response.node_endpoints = list(self._add_hints(results).values())
        return response

    def _read_all(self, partitions: Iterable[CachedPartition], attempt: Attempt) -> None:
        """Reads partitions, and adds what each is answered."""
        ask = self._request.ask()
        results, found, may_be_quiet = attempt.results, attempt.found, self._follower and not self._is_stranger
        for cached in partitions:
            replica = self._find(cached)
            if ask is not None and not self._may_fetch(cached, ask):
                attempt.unknown.append((cached, refusal(cached.index, ErrorCode.TOPIC_AUTHORIZATION_FAILED, [])))
                continue
            if cached.name is None and replica is not None:
                cached.name = replica.topic
            if (
                may_be_quiet
                and replica is not None
                and is_quiet(replica, cached, self._replica_id, self._broker_epoch, is_first=self._is_first)
            ):
                attempt.quiet += 1
                continue
            if replica is None:
                why = why_missing(cached, self._request.broker.metadata, self._request.broker.replicas, self._request.api_version)
                data = refusal(cached.index, why, None if why is ErrorCode.INCONSISTENT_TOPIC_ID else [])
                if data.error_code in _UNKNOWN:
                    is_lost = data.error_code == ErrorCode.UNKNOWN_TOPIC_ID and not self._follower
                    (attempt.lost if is_lost else attempt.unknown).append((cached, data))
                    continue
            else:
                data = self._read(replica, cached.request, max(0, self._max_bytes - found), min_one_batch=not found)
            if data.records and replica is not None:
                size = len(data.records)
                found += size
                attempt.sent.append((replica.traffic, size))
            elif data.error_code or data.diverging_epoch is not None:
                attempt.ready = self._request.failed = True
            elif self._follower:
                cached.settled = cached.request
                attempt.ready |= self._tells_followers and 0 <= cached.high_watermark < data.high_watermark
            elif data.preferred_read_replica >= 0:
                attempt.ready = True
            results.append((cached, data))
        attempt.found = found

    def _is_enough(self, attempt: Attempt) -> bool:
        """Returns whether what was found is the answer."""
        unknown = len(attempt.lost) + len(attempt.unknown)
        if unknown != self._unknown:
            attempt.ready |= self._unknown is not None  # a topic was created or deleted while the request waited
            self._unknown = unknown
        return attempt.ready or not (attempt.results or attempt.quiet) or attempt.found >= self._min_bytes

    def _throttled(self, quotas: ClientQuotas, size: int) -> FetchResponse | None:
        """Returns the empty answer of a client that would go over its quota with an answer of `size` bytes, or None."""
        throttle_time_ms = quotas.charge_fetch(self._request.session, self._request.client_id, size)
        if not throttle_time_ms:
            return None
        code, session_id = self._fetching.respond_empty()
        return FetchResponse(throttle_time_ms, code, session_id)

    # In turns

    def answer_in_turns(self, max_wait_ms: int) -> Steps[FetchResponse]:
        """Answers a request for many partitions, and waits for them if that is worth it."""
        if max_wait_ms <= 0:
            attempt = yield from self._attempt_in_turns(True)
            return (yield from self._respond_in_turns(attempt))
        watch = Watch(self._request.broker.clock, max_wait_ms)
        try:
            for some in in_runs(list(self._fetching.partitions.values()), PARTITIONS_A_STEP):
                for replica in filter(None, map(self._find, some)):
                    watch.add(replica)
                yield None
            while True:
                attempt = yield from self._attempt_in_turns(watch.expired)
                if self._is_enough(attempt):
                    break
                self._request.broker.admission().leave(self._request)
                quiet = attempt if attempt.is_quiet else None
                del attempt  # it keeps segments open that may be deleted meanwhile
                change = watch.change()
                if not change.done():
                    self.count_wait(watch)
                yield change
                if watch.expired:
                    if quiet is not None and not watch.is_woken:
                        attempt = quiet
                        break
                    continue  # with the last attempt
                for watched in in_runs(watch.watched, PARTITIONS_A_STEP):
                    for each in watched:
                        watch.renew(each)
                    yield None
        finally:
            watch.stop()
        return (yield from self._respond_in_turns(attempt))

    def _attempt_in_turns(self, last: bool) -> Steps[Attempt]:
        attempt = Attempt(last)
        for some in in_runs(list(self._fetching.partitions.values()), PARTITIONS_A_STEP):
            self._read_all(some, attempt)
            yield None
        self._is_first = False
        return attempt

    def _respond_in_turns(self, attempt: Attempt) -> Steps[FetchResponse]:
        self._request.failed |= attempt.add_unknown()
        results = attempt.results
        quotas = self._request.broker.quotas
        if quotas is not None and not self._follower:
            size = yield from call_in_thread(lambda: self._size(results), self._request.broker.workers)
            throttled = self._throttled(quotas, size)
            if throttled is not None:
                return throttled
        attempt.count_sent()
        response = FetchResponse()
        response.error_code, response.session_id = self._fetching.decide(results)
        if response.error_code:
            return response
        responses: list[FetchableTopicResponse] = []
        endpoints: dict[int, NodeEndpoint] = {}
        for some in in_runs(results, PARTITIONS_A_STEP):
            if self._request.api_version >= HINTS_SINCE:
                endpoints.update(self._add_hints(some))
            add_by_topic(self._fetching.news(some), responses)
            yield None
        response.responses = responses
        response.node_endpoints = list(endpoints.values())
        return response

    # What each partition is answered

    def _may_fetch(self, cached: CachedPartition, ask: Ask) -> bool:
        """Returns whether the client may fetch a partition. One of a topic id that no topic has is only unknown to clients."""
        if self._follower:
            return ask.cluster(Operation.CLUSTER_ACTION)
        topic = cached.topic
        if isinstance(topic, bytes):
            image = self._request.broker.metadata.topics_by_id.get(topic)
            if image is None:
                return True
            topic = image.name
        return ask.topic(Operation.READ, topic)

    def _size(self, results: list[Result]) -> int:
        """Returns the bytes of the answer, with its correlation id but without the names of other leaders."""
        parts: list[Any] = []
        ENCODE_RESPONSE[self._request.api_version](FetchResponse(responses=by_topic(self._fetching.preview(results))), parts)
        return _CORRELATION_ID + sum(map(len, parts))

    def _find(self, cached: CachedPartition) -> Replica | None:
        replicas, topic = self._request.broker.replicas, cached.topic
        return replicas.get_by_id(topic, cached.index) if isinstance(topic, bytes) else replicas.get(topic, cached.index)

    def _read(self, replica: Replica, asked: FetchPartition, max_bytes: int, *, min_one_batch: bool) -> PartitionData:
        """Returns what one partition has for this request: a region of its log and the log's watermarks, or an error."""
        log = replica.log
        replica.traffic.fetches += 1
        try:
            if asked.current_leader_epoch >= 0:
                replica.check_epoch(asked.current_leader_epoch)
            if self._is_special or not replica.is_leader:
                data = self._read_specially(replica, asked, max_bytes, min_one_batch=min_one_batch)
                if data is not None:
                    return data
            high_watermark, stable = log.high_watermark, log.last_stable_offset
            if asked.last_fetched_epoch >= 0:
                parting = find_divergence(replica, asked)
                if parting is not None:
                    data = PartitionData(asked.partition, 0, high_watermark, stable, log.log_start_offset, parting)
                    data.aborted_transactions = None  # as in Kafka, although a reader of committed records otherwise gets a list
                    return data
            limit = min(max_bytes, max(0, asked.partition_max_bytes))
            upto = stable if self._read_committed else high_watermark
            records = log.read(asked.fetch_offset, limit, upto=upto, min_one_batch=min_one_batch)
            aborted = aborted_transactions(log, asked.fetch_offset, upto, limit, records) if self._read_committed else None
        except LogError as error:
            replica.traffic.failed_fetches += 1
            if isinstance(error, CorruptRecord):
                replica.log_damage(error)
            return refusal(asked.partition, code_for_version(code_of(error), self._request.api_version))
        return PartitionData(
            asked.partition,
            0,
            high_watermark,
            stable,
            log.log_start_offset,
            None,
            None,
            None,
            aborted,
            NO_REPLICA,
            b"" if records is None else records,
        )

    def _read_specially(
        self, replica: Replica, asked: FetchPartition, max_bytes: int, *, min_one_batch: bool
    ) -> PartitionData | None:
        """Returns what a partition has for anyone but a plain consumer that asks the leader; None if a plain read will do. Raises
        LogError."""
        if self._follower:
            return self._read_for_follower(replica, asked, max_bytes, min_one_batch=min_one_batch)
        if replica.is_leader:
            return self._prefer(replica, asked)
        if isinstance(replica.role, Follower) and (
            self._request.api_version >= FROM_FOLLOWERS_SINCE or self._replica_id == DEBUGGING
        ):
            return None
        return refusal(asked.partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _read_for_follower(
        self, replica: Replica, asked: FetchPartition, max_bytes: int, *, min_one_batch: bool
    ) -> PartitionData:
        """Returns what a partition has for a broker that follows it, and notes how far that has come. Raises LogError."""
        log, role = replica.log, replica.role
        if not isinstance(role, Leader) or not replica.is_leader:
            return refusal(asked.partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if self._is_stranger:
            return refusal(asked.partition, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        leading = self._request.broker.leading
        high_watermark = role.high_watermark
        if high_watermark is None or self._replica_id not in high_watermark.followers:
            is_known_epoch = asked.current_leader_epoch >= 0  # and it is ours, so that broker knows of replicas that we do not
            code = ErrorCode.UNKNOWN_LEADER_EPOCH if is_known_epoch else ErrorCode.NOT_LEADER_OR_FOLLOWER
            return refusal(asked.partition, code)
        parting = find_divergence(replica, asked) if asked.last_fetched_epoch >= 0 else None
        records = None
        if parting is None:
            if leading is not None and leading.holds_back(replica, self._replica_id):
                max_bytes, min_one_batch = 0, False
            limit = min(max_bytes, max(0, asked.partition_max_bytes))
            records = log.read(asked.fetch_offset, limit, upto=log.log_end_offset, min_one_batch=min_one_batch)
            if leading is not None and records is not None:
                leading.note_sent(replica, self._replica_id, len(records))
            if self._is_first and not note_fetch(replica, self._replica_id, asked, self._broker_epoch):
                return refusal(asked.partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        data = PartitionData(
            asked.partition, 0, log.high_watermark, log.last_stable_offset, log.log_start_offset, parting, records=records or b""
        )
        data.aborted_transactions = None
        return data

    def _prefer(self, replica: Replica, asked: FetchPartition) -> PartitionData | None:
        """Returns an answer without records that names the replica from which the consumer should read (KIP-392), None if that is
        this one."""
        log, read_replicas = replica.log, self._request.broker.read_replicas
        preferred = read_replicas.choose(replica, asked.fetch_offset, self._rack) if read_replicas is not None else None
        if preferred is None:
            return None
        data = PartitionData(asked.partition, 0, log.high_watermark, log.last_stable_offset, log.log_start_offset)
        data.preferred_read_replica = preferred
        return data

    def _add_hints(self, results: Sequence[Result]) -> dict[int, NodeEndpoint]:
        listener = self._request.session.listener
        return add_hints(results, self._request.broker.metadata, listener, addresses=not self._follower)


def _is_follower(request: Request) -> bool:
    """Returns whether a request that says it is a broker's came from one of this cluster, as far as can be known: Kafka takes
    its word for it, and so lets any client end the sessions of others."""
    if request.broker.leading is None or _is_stranger(request):
        return False
    ask = request.ask()
    return ask is None or ask.cluster(Operation.CLUSTER_ACTION, quiet=True)


def _is_stranger(request: Request) -> bool:
    """Returns whether a request that says it is a broker's came where brokers of a cluster do not come."""
    broker = request.broker
    return broker.leading is not None and request.session.listener != broker.config.inter_broker_listener

"""ShareFetch v1-2 returns records to a member of a share group, locked for it, and takes acknowledgements of earlier ones
(KIP-932).

- It belongs to a share session (server/share/sessions.py): epoch 0 opens one, without acknowledgements, and epoch -1 ends it and
  fetches nothing. 122 SHARE_SESSION_NOT_FOUND, 123 INVALID_SHARE_SESSION_EPOCH, and 133 SHARE_SESSION_LIMIT_REACHED, which is
  answered after `max_wait_ms`, also where a session would hold too much, or too many partitions that do not exist.
- It waits up to `max_wait_ms` for `min_bytes`: for new records, and for records that become available again
  (server/share/fetching.py).
- `max_records` is observed as far as the batches of the log allow, and strictly with acquire mode 1 (v2, KIP-1206). The records
  come in whole batches, of which only the acquired offsets are the member's.
- With `is_renew_ack` (v2, KIP-1222) all limits are 0 and nothing is fetched: the client only renews locks.
- With an authorizer, partitions of topics without READ are answered 29 TOPIC_AUTHORIZATION_FAILED, asked anew in each request.
- Acknowledgements are answered beside the records, with the errors of ShareAcknowledge.
- Errors of partitions: 3 UNKNOWN_TOPIC_OR_PARTITION, 6 NOT_LEADER_OR_FOLLOWER with the leader (KIP-951), 15
  COORDINATOR_NOT_AVAILABLE while the group's state cannot be read, 56 KAFKA_STORAGE_ERROR, also if that state makes no sense, 78
  OFFSET_NOT_AVAILABLE before the group has begun in the partition, 100 UNKNOWN_TOPIC_ID.

What is about many partitions or acknowledgements is carried out in turns (server/base/turns.py). In between, other
requests may change the session, and what they acquire is gone.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import Final, TypeVar

from ottla.server.base.answers import chain_answer, map_answer
from ottla.server.base.promise import Promise
from ottla.server.base.turns import Steps, at_once, take_steps
from ottla.server.partitions.leader_hints import leader_hint
from ottla.server.partitions.purgatory import Watch, Watchable
from ottla.server.requests.request import Request
from ottla.server.requests.traits import Throttling, Traits
from ottla.server.security.rights import Inside, Need, Operation, Resource
from ottla.server.share.acknowledging import AT_ONCE, Outcome, Outcomes, acknowledge_all, is_long, request_error, when_written
from ottla.server.share.acquiring import RECORD_LIMIT
from ottla.server.share.fetching import Fetched, Limits, ShareFetch
from ottla.server.share.persister import ShareError
from ottla.server.share.sessions import FINAL_EPOCH, INITIAL_EPOCH, Named, SessionKey, ShareSession, TopicIdPartition
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.share_fetch import (
    AcquiredRecords,
    FetchTopic,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)

T = TypeVar("T")

TRAITS = Traits(
    Inside(Need(Operation.READ, Resource.GROUP), Need(Operation.READ, Resource.TOPIC)),
    throttling=Throttling.ANSWER,
    answers_with_regions=True,
)

_HINTED: Final = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})


_Answer = ShareFetchResponse | Promise[ShareFetchResponse]


def handle(body: ShareFetchRequest, request: Request) -> _Answer:
    broker = request.broker
    refused = request_error(body.group_id, body.member_id, broker.metadata) or _renew_error(body)
    if refused is not None:
        return ShareFetchResponse(error_code=refused.code)
    if _is_long(body):
        return take_steps(_answer_in_turns(body, request), broker.clock)
    try:
        session = at_once(_session(body, request))
    except ShareError as error:
        return _refuse(error, body, request)
    if len(session.partitions) > AT_ONCE:
        return take_steps(_serve_in_turns(body, session, request), broker.clock)
    topics, refusals = at_once(_acknowledged_topics(body, request))
    acknowledged = when_written(at_once(_acknowledge(body, session, topics, request))) if topics else {}
    epoch = session.epoch
    return chain_answer(
        acknowledged, lambda outcome: _fetch(_Fetching(body, session, epoch, {**outcome, **refusals}, request), body, request)
    )


def _is_long(body: ShareFetchRequest) -> bool:
    """Returns whether the request names more than is dealt with at once."""
    return is_long(body.topics) or sum(len(topic.partitions) for topic in body.forgotten_topics_data) > AT_ONCE


def _refuse(error: ShareError, body: ShareFetchRequest, request: Request) -> _Answer:
    response = ShareFetchResponse(error_code=error.code)
    if error.code is not ErrorCode.SHARE_SESSION_LIMIT_REACHED:
        return response
    return request.broker.purgatory.watch((), body.max_wait_ms, lambda last: response if last else None)


def _fetch(fetching: _Fetching, body: ShareFetchRequest, request: Request) -> _Answer:
    """Fetches at once, when the acknowledgements of the same request are carried out."""
    at_once(fetching.open())
    if body.max_wait_ms <= 0 or fetching.waits_for_nothing:
        answer = at_once(fetching.attempt(True))
        assert answer is not None
        return fetching.end(answer)
    answer = at_once(fetching.attempt(False))
    if answer is not None:
        return fetching.end(answer)
    return request.broker.purgatory.watch(fetching.watched, body.max_wait_ms, lambda last: at_once(fetching.attempt(last)))


# In turns


def _answer_in_turns(body: ShareFetchRequest, request: Request) -> Steps[ShareFetchResponse]:
    """Answers a request that names much."""
    refusal: _Answer | None = None
    try:
        session = yield from _session(body, request)
    except ShareError as error:
        refusal = _refuse(error, body, request)
    if refusal is None:
        return (yield from _serve_in_turns(body, session, request))
    _forget_names(body)
    return (yield from _waited(refusal, request))


def _serve_in_turns(body: ShareFetchRequest, session: ShareSession, request: Request) -> Steps[ShareFetchResponse]:
    """Carries out a request about much, or in a session of many partitions."""
    epoch = session.epoch
    topics, refusals = yield from _acknowledged_topics(body, request)
    outcome: Outcome = {}
    if topics:
        outcomes = yield from _acknowledge(body, session, topics, request)
        outcome = yield from _waited(when_written(outcomes), request)
    fetching = _Fetching(body, session, epoch, {**outcome, **refusals}, request)
    _forget_names(body)
    yield from fetching.open()
    answer = yield from _fetch_in_turns(fetching, body, request)
    return (yield from _waited(fetching.end(answer), request))


def _forget_names(body: ShareFetchRequest) -> None:
    """Gives up what is done of a request that may wait for as long as its client likes."""
    body.topics = []
    body.forgotten_topics_data = []


def _fetch_in_turns(fetching: _Fetching, body: ShareFetchRequest, request: Request) -> Steps[ShareFetchResponse]:
    """Fetches once, or until it is enough or the time is over. What it waits for is watched before the first attempt, since it
    may change between two turns of that.
    """
    max_wait_ms = 0 if fetching.waits_for_nothing else max(0, body.max_wait_ms)
    watch = Watch(request.broker.clock, max_wait_ms)
    watch.expired = not max_wait_ms
    try:
        for watched in fetching.watched if max_wait_ms else ():
            watch.add(watched)
            yield None
        while True:
            answer = yield from fetching.attempt(watch.expired)
            if answer is not None:
                return answer
            request.broker.admission().leave(request)
            yield watch.change()
            for watched in watch.watched:
                watch.renew(watched)
                yield None
    finally:
        watch.stop()


def _waited(answer: T | Promise[T], request: Request) -> Steps[T]:
    """Makes steps that return an answer that may come later. Other long requests need not wait for it."""
    if isinstance(answer, Promise):
        request.broker.admission().leave(request)
        yield answer
        return answer.result()
    return answer


# Sessions and acknowledgements


def _acknowledge(
    body: ShareFetchRequest, session: ShareSession, topics: Sequence[FetchTopic], request: Request
) -> Steps[Outcomes]:
    broker = request.broker
    return acknowledge_all(
        broker.share_partitions(), broker.metadata, session.key, topics, request.api_version, renews=body.is_renew_ack
    )


def _acknowledged_topics(body: ShareFetchRequest, request: Request) -> Steps[tuple[Sequence[FetchTopic], Outcome]]:
    """Returns the topics whose records the client may acknowledge, none if it acknowledges nothing, and the outcome for those of
    which it may not.
    """
    if not (yield from _has_acknowledgements(body)):
        return (), {}
    if request.broker.authorizer is None:
        return body.topics, {}
    allowed: list[FetchTopic] = []
    outcome: dict[TopicIdPartition, ShareError | None] = {}
    for topic in body.topics:
        if _may_read(topic.topic_id, request):
            allowed.append(topic)
        else:
            for each in topic.partitions:
                if each.acknowledgement_batches:
                    outcome[topic.topic_id, each.partition_index] = _no_right()
                yield None
        yield None
    return allowed, outcome


def _has_acknowledgements(body: ShareFetchRequest) -> Steps[bool]:
    for topic in body.topics:
        if any(partition.acknowledgement_batches for partition in topic.partitions):
            return True
        yield None
    return False


def _may_read(topic_id: bytes, request: Request) -> bool:
    """Returns whether the client has the right to READ; nobody needs one to a topic id that no topic has."""
    ask, topic = request.ask(), request.broker.metadata.topics_by_id.get(topic_id)
    return ask is None or topic is None or ask.topic(Operation.READ, topic.name)


def _no_right() -> ShareError:
    return ShareError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, None)


def _renew_error(body: ShareFetchRequest) -> ShareError | None:
    """Returns the error of a request that renews locks and asks for records as well, or None."""
    if not body.is_renew_ack:
        return None
    limits = {
        "maxBytes": body.max_bytes,
        "minBytes": body.min_bytes,
        "maxRecords": body.max_records,
        "maxWaitMs": body.max_wait_ms,
    }
    wrong = ", ".join(name for name, value in limits.items() if value != 0)
    return ShareError(ErrorCode.INVALID_REQUEST, f"With isRenewAck these have to be 0: {wrong}.") if wrong else None


def _session(body: ShareFetchRequest, request: Request) -> Steps[ShareSession]:
    """Makes steps that return the session that the request belongs to, changed as the request asks. They raise ShareError."""
    assert body.group_id is not None
    assert body.member_id is not None
    shares = request.broker.share_partitions()
    key = SessionKey(body.group_id, body.member_id)
    epoch = body.share_session_epoch
    if epoch == FINAL_EPOCH:
        return shares.sessions.find(key)
    if epoch == INITIAL_EPOCH:
        if (yield from _has_acknowledgements(body)):
            raise ShareError(ErrorCode.INVALID_REQUEST, None)
        named, unknown = yield from _named(body, {}, request)
        return shares.open_session(key, named, request.session, unknown)
    session = shares.sessions.find(key)
    session.step(epoch)
    if body.topics or body.forgotten_topics_data:
        yield from _change(session, body, request)
    return session


def _change(session: ShareSession, body: ShareFetchRequest, request: Request) -> Steps[None]:
    """Adds to a session what the request names, and takes out what it forgets. Raises ShareError if there is no room."""
    sessions = request.broker.share_partitions().sessions
    added, unknown = yield from _named(body, session.partitions, request)
    sessions.reserve(session, len(added), unknown)
    try:
        for partition, name in added.items():
            session.add(partition, name)
            yield None
        for topic in body.forgotten_topics_data:
            for index in topic.partitions:
                session.forget((topic.topic_id, index))
                yield None
    finally:
        sessions.recount(session)


def _named(
    body: ShareFetchRequest, known: Container[TopicIdPartition], request: Request
) -> Steps[tuple[Named, list[TopicIdPartition]]]:
    """Returns the partitions that the request names and that are not known, and those of them that do not exist."""
    named: dict[TopicIdPartition, str | None] = {}
    unknown: list[TopicIdPartition] = []
    for topic in body.topics:
        image = request.broker.metadata.topics_by_id.get(topic.topic_id)
        for each in topic.partitions:
            partition = topic.topic_id, each.partition_index
            if partition not in known and partition not in named:
                named[partition] = image.name if image is not None else None
                if image is None or each.partition_index not in image.partitions:
                    unknown.append(partition)
            yield None
    return named, unknown


class _Fetching:
    """Carries out one request of a session. Its acknowledgements have been carried out when the object is made."""

    def __init__(
        self, body: ShareFetchRequest, session: ShareSession, epoch: int, acknowledged: Outcome, request: Request
    ) -> None:
        """`epoch` is that of the session after this request's step."""
        self._request = request
        self._session = session
        self._shares = request.broker.share_partitions()
        self._epoch = body.share_session_epoch
        self._next_epoch = epoch
        self._acknowledged = acknowledged
        self._wants_records = self._epoch != FINAL_EPOCH and not body.is_renew_ack
        self._missing: list[Fetched] = []
        max_bytes = min(body.max_bytes, request.broker.config.values["fetch.max.bytes"])
        limits = Limits(
            body.max_wait_ms,
            min(body.min_bytes, max_bytes),
            max_bytes,
            body.max_records,
            body.batch_size,
            body.share_acquire_mode == RECORD_LIMIT,
        )
        self._fetch = ShareFetch(request.broker.replicas, request.broker.metadata, self._shares, session.key, limits)

    def open(self) -> Steps[None]:
        """Opens the partitions from which to fetch."""
        wanted = (yield from self._existing_partitions()) if self._wants_records else []
        if wanted and self._epoch > INITIAL_EPOCH:  # every partition gets its turn to be the first
            turn = self._epoch % len(wanted)
            wanted = wanted[turn:] + wanted[:turn]
        yield from self._fetch.open(wanted)

    @property
    def waits_for_nothing(self) -> bool:
        """Returns whether there is nothing that the request could wait for."""
        return self._fetch.waits_for_nothing

    @property
    def watched(self) -> Iterable[Watchable]:
        """Returns what the request waits for."""
        return self._fetch.watched

    def _existing_partitions(self) -> Steps[list[TopicIdPartition]]:
        """Returns the session's partitions that exist. The answer names the others at its end."""
        topics = self._request.broker.metadata.topics_by_id
        asks = self._request.broker.authorizer is not None
        found: list[TopicIdPartition] = []
        for partition, name in list(self._session.partitions.items()):
            topic = topics.get(partition[0])
            if asks and not _may_read(partition[0], self._request):
                self._missing.append(Fetched(partition, _no_right()))
            elif name is None:
                self._missing.append(Fetched(partition, ShareError(ErrorCode.UNKNOWN_TOPIC_ID, None)))
            elif topic is None or partition[1] not in topic.partitions:
                self._missing.append(Fetched(partition, ShareError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)))
            else:
                found.append(partition)
            yield None
        return found

    def attempt(self, last: bool) -> Steps[ShareFetchResponse | None]:
        """Returns the answer, or None if it is worth waiting; the last attempt always returns one."""
        fetched = yield from self._fetch.attempt(last)
        return None if fetched is None else (yield from self._response(fetched + self._missing))

    def end(self, response: ShareFetchResponse) -> _Answer:
        """Ends the session if the request's epoch was the final one. Returns the answer, or a promise of it."""
        if self._epoch != FINAL_EPOCH:
            return response
        return map_answer(self._shares.release(self._session), lambda _: response)

    def _response(self, fetched: Sequence[Fetched]) -> Steps[ShareFetchResponse]:
        """Makes the answer from what was fetched and acknowledged."""
        session = self._session
        lock_ms = self._shares.settings(session.key.group_id).record_lock_duration_ms
        response = ShareFetchResponse(acquisition_lock_timeout_ms=lock_ms)
        topics: dict[bytes, dict[int, PartitionData]] = {}
        endpoints: dict[int, NodeEndpoint] = {}
        if session.epoch != self._next_epoch:  # a request on another connection overtook this one
            response.error_code = ErrorCode.INVALID_SHARE_SESSION_EPOCH
            fetched = ()
        for each in fetched:
            data = self._partition(each, endpoints)
            has_records, failed = each.records is not None, data.error_code != ErrorCode.NONE
            if self._epoch == INITIAL_EPOCH or session.report(each.partition, records=has_records, error=failed):
                topics.setdefault(each.partition[0], {})[each.partition[1]] = data
            yield None
        for (topic_id, index), error in self._acknowledged.items():
            data = topics.setdefault(topic_id, {}).setdefault(index, PartitionData(index))
            if error is not None:
                data.acknowledge_error_code, data.acknowledge_error_message = error.code, error.message
            yield None
        response.responses = [ShareFetchableTopicResponse(topic_id, list(parts.values())) for topic_id, parts in topics.items()]
        response.node_endpoints = list(endpoints.values())
        return response

    def _partition(self, each: Fetched, endpoints: dict[int, NodeEndpoint]) -> PartitionData:
        topic_id, index = each.partition
        data = PartitionData(index)
        if each.error is not None:
            data.error_code, data.error_message = each.error.code, each.error.message
            if each.error.code in _HINTED:
                image = self._request.broker.metadata
                hint = leader_hint(image, image.topics_by_id[topic_id].name, index, self._request.session.listener)
                data.current_leader = LeaderIdAndEpoch(hint.leader_id, hint.leader_epoch)
                if hint.host is not None:
                    endpoints[hint.leader_id] = NodeEndpoint(hint.leader_id, hint.host, hint.port, hint.rack)
        elif each.records is not None:
            data.records = each.records
            data.acquired_records = [AcquiredRecords(*acquired) for acquired in each.acquired]
        return data

"""ShareFetch v1-2 returns records to a member of a share group, locked for it, and takes acknowledgements of earlier ones
(KIP-932).

- It belongs to a share session (server/share/sessions.py): epoch 0 opens one, without acknowledgements, and epoch -1 ends it and
  fetches nothing. 122 SHARE_SESSION_NOT_FOUND, 123 INVALID_SHARE_SESSION_EPOCH, and 133 SHARE_SESSION_LIMIT_REACHED, which is
  answered after `max_wait_ms`.
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
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from ottla.server.base.answers import chain_answer
from ottla.server.base.promise import Promise
from ottla.server.partitions.leader_hints import leader_hint
from ottla.server.requests.request import Request
from ottla.server.requests.traits import Throttling, Traits
from ottla.server.security.rights import Inside, Need, Operation, Resource
from ottla.server.share.acknowledging import Outcome, acknowledge_all, request_error
from ottla.server.share.acquiring import RECORD_LIMIT
from ottla.server.share.fetching import Fetched, Limits, ShareFetch
from ottla.server.share.persister import ShareError
from ottla.server.share.sessions import FINAL_EPOCH, INITIAL_EPOCH, SessionKey, ShareSession, TopicIdPartition
from ottla.server.share.share_partitions import SharePartitions
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

TRAITS = Traits(
    Inside(Need(Operation.READ, Resource.GROUP), Need(Operation.READ, Resource.TOPIC)),
    throttling=Throttling.ANSWER,
    answers_with_regions=True,
)

_HINTED: Final = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})


def handle(body: ShareFetchRequest, request: Request) -> ShareFetchResponse | Promise[ShareFetchResponse]:
    broker = request.broker
    refused = request_error(body.group_id, body.member_id, broker.metadata) or _renew_error(body)
    if refused is not None:
        return _refusal(refused)
    shares = broker.share_partitions()
    try:
        session = _session(body, shares, request)
    except ShareError as error:
        response = _refusal(error)
        if error.code is not ErrorCode.SHARE_SESSION_LIMIT_REACHED:
            return response
        return broker.purgatory.watch((), body.max_wait_ms, lambda last: response if last else None)
    acknowledged: Outcome | Promise[Outcome] = {}
    refusals: Outcome = {}
    if _has_acknowledgements(body):
        topics = body.topics
        if broker.authorizer is not None:
            topics, refusals = _without_refused(body.topics, request)
        acknowledged = acknowledge_all(
            shares, broker.metadata, session.key, topics, request.api_version, renews=body.is_renew_ack
        )
    epoch = session.epoch
    return chain_answer(
        acknowledged,
        lambda outcome: _fetch(_Fetching(body, session, epoch, {**outcome, **refusals}, shares, request), body, request),
    )


def _without_refused(topics: Sequence[FetchTopic], request: Request) -> tuple[list[FetchTopic], Outcome]:
    """Returns the topics whose records the client may acknowledge, and the outcome for those of the others."""
    refused = [topic for topic in topics if not _may_read(topic.topic_id, request)]
    outcome = {
        (topic.topic_id, each.partition_index): _no_right()
        for topic in refused
        for each in topic.partitions
        if each.acknowledgement_batches
    }
    gone = set(map(id, refused))
    return [topic for topic in topics if id(topic) not in gone], outcome


def _may_read(topic_id: bytes, request: Request) -> bool:
    """Returns whether the client has the right to READ; nobody needs one to a topic id that no topic has."""
    ask, topic = request.ask(), request.broker.metadata.topics_by_id.get(topic_id)
    return ask is None or topic is None or ask.topic(Operation.READ, topic.name)


def _no_right() -> ShareError:
    return ShareError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, None)


def _fetch(fetching: _Fetching, body: ShareFetchRequest, request: Request) -> ShareFetchResponse | Promise[ShareFetchResponse]:
    """Fetches once the acknowledgements of the same request are carried out."""
    if body.max_wait_ms <= 0 or fetching.waits_for_nothing:
        return fetching.answer(last=True)
    answer = fetching.attempt(False)
    if answer is not None:
        return answer
    return request.broker.purgatory.watch(fetching.watched, body.max_wait_ms, fetching.attempt)


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


def _session(body: ShareFetchRequest, shares: SharePartitions, request: Request) -> ShareSession:
    """Returns the session that the request belongs to, already changed as the request asks. Raises ShareError."""
    assert body.group_id is not None
    assert body.member_id is not None
    key = SessionKey(body.group_id, body.member_id)
    epoch = body.share_session_epoch
    if epoch == FINAL_EPOCH:
        return shares.sessions.find(key)
    named: dict[TopicIdPartition, str | None] = {}
    for topic in body.topics:
        known = request.broker.metadata.topics_by_id.get(topic.topic_id)
        for partition in topic.partitions:
            named[topic.topic_id, partition.partition_index] = known.name if known is not None else None
    if epoch == INITIAL_EPOCH:
        if _has_acknowledgements(body):
            raise ShareError(ErrorCode.INVALID_REQUEST, None)
        return shares.open_session(key, named, request.session)
    session = shares.sessions.find(key)
    session.step(epoch)
    session.update(named, [(topic.topic_id, index) for topic in body.forgotten_topics_data for index in topic.partitions])
    return session


def _has_acknowledgements(body: ShareFetchRequest) -> bool:
    return any(partition.acknowledgement_batches for topic in body.topics for partition in topic.partitions)


def _refusal(error: ShareError) -> ShareFetchResponse:
    return ShareFetchResponse(error_code=error.code)


class _Fetching:
    """Carries out one request of a session. Its acknowledgements have been carried out when the object is made."""

    def __init__(
        self,
        body: ShareFetchRequest,
        session: ShareSession,
        epoch: int,
        acknowledged: Outcome,
        shares: SharePartitions,
        request: Request,
    ) -> None:
        """`epoch` is that of the session after this request's step."""
        self._request = request
        self._session = session
        self._shares = shares
        self._epoch = body.share_session_epoch
        self._next_epoch = epoch
        self._acknowledged = acknowledged
        image = request.broker.metadata
        self._missing: list[Fetched] = []
        wanted = [] if self._epoch == FINAL_EPOCH or body.is_renew_ack else list(self._existing_partitions())
        if wanted and self._epoch > INITIAL_EPOCH:  # every partition gets its turn to be the first
            turn = self._epoch % len(wanted)
            wanted = wanted[turn:] + wanted[:turn]
        max_bytes = min(body.max_bytes, request.broker.config.values["fetch.max.bytes"])
        limits = Limits(
            body.max_wait_ms,
            min(body.min_bytes, max_bytes),
            max_bytes,
            body.max_records,
            body.batch_size,
            body.share_acquire_mode == RECORD_LIMIT,
        )
        self._fetch = ShareFetch(request.broker.replicas, image, shares, session.key, limits, wanted)
        self.watched = self._fetch.watched
        self.waits_for_nothing = not self.watched

    def _existing_partitions(self) -> Iterator[TopicIdPartition]:
        """Yields the session's partitions that exist. The answer names the others at its end."""
        topics = self._request.broker.metadata.topics_by_id
        asks = self._request.broker.authorizer is not None
        for partition, name in self._session.partitions.items():
            topic = topics.get(partition[0])
            if asks and not _may_read(partition[0], self._request):
                self._missing.append(Fetched(partition, _no_right()))
            elif name is None:
                self._missing.append(Fetched(partition, ShareError(ErrorCode.UNKNOWN_TOPIC_ID, None)))
            elif topic is None or partition[1] not in topic.partitions:
                self._missing.append(Fetched(partition, ShareError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)))
            else:
                yield partition

    def attempt(self, last: bool) -> ShareFetchResponse | None:
        fetched = self._fetch.attempt(last)
        return None if fetched is None else self._response(fetched + self._missing)

    def answer(self, *, last: bool) -> ShareFetchResponse:
        response = self.attempt(last)
        assert response is not None
        return response

    def _response(self, fetched: Sequence[Fetched]) -> ShareFetchResponse:
        """Makes the answer from what was fetched and acknowledged, and ends the session if its epoch was the final one."""
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
        for (topic_id, index), error in self._acknowledged.items():
            data = topics.setdefault(topic_id, {}).setdefault(index, PartitionData(index))
            if error is not None:
                data.acknowledge_error_code, data.acknowledge_error_message = error.code, error.message
        response.responses = [ShareFetchableTopicResponse(topic_id, list(parts.values())) for topic_id, parts in topics.items()]
        response.node_endpoints = list(endpoints.values())
        if self._epoch == FINAL_EPOCH:
            self._shares.release(session)
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

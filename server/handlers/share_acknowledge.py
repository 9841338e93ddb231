"""ShareAcknowledge v1-2 says what became of the records that a member of a share group has acquired (KIP-932).

- It belongs to a share session (server/share/sessions.py) that a ShareFetch opened. Epoch -1 ends the session afterwards and
  releases what the member still holds. 122 SHARE_SESSION_NOT_FOUND, 123 INVALID_SHARE_SESSION_EPOCH, also for epoch 0.
- The acknowledgements of a partition are carried out and stored together, or not at all: 42 INVALID_REQUEST; 121
  INVALID_RECORD_STATE if the member does not hold the records, or no longer does; 3 UNKNOWN_TOPIC_OR_PARTITION if nobody fetches
  from the partition; 6 NOT_LEADER_OR_FOLLOWER; 15 COORDINATOR_NOT_AVAILABLE; 100 UNKNOWN_TOPIC_ID.
- v2 renews locks (KIP-1222), if the request asks for it and the group allows it.
- What is about many partitions or acknowledgements is carried out in turns (server/base/turns.py).
"""

from __future__ import annotations

from typing import Final

from ottla.server.base.answers import chain_answer, map_answer
from ottla.server.base.promise import Promise
from ottla.server.base.turns import Steps, at_once, one_kept, take_steps
from ottla.server.partitions.leader_hints import leader_hint
from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.rights import Inside, Need, Operation, Resource
from ottla.server.share.acknowledging import Outcome, Outcomes, acknowledge_all, is_long, request_error, when_written
from ottla.server.share.persister import ShareError
from ottla.server.share.sessions import FINAL_EPOCH, INITIAL_EPOCH, SessionKey, ShareSession
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.share_acknowledge import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)

TRAITS = Traits(Inside(Need(Operation.READ, Resource.GROUP), Need(Operation.READ, Resource.TOPIC)))

_HINTED: Final = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})


_Answer = ShareAcknowledgeResponse | Promise[ShareAcknowledgeResponse]


def handle(body: ShareAcknowledgeRequest, request: Request) -> _Answer:
    broker = request.broker
    refused = request_error(body.group_id, body.member_id, broker.metadata)
    if refused is not None:
        return _refusal(refused)
    shares = broker.share_partitions()
    assert body.group_id is not None
    assert body.member_id is not None
    key = SessionKey(body.group_id, body.member_id)
    epoch = body.share_session_epoch
    try:
        if epoch == INITIAL_EPOCH:
            raise ShareError(ErrorCode.INVALID_SHARE_SESSION_EPOCH, None)
        session = shares.sessions.find(key)
        if epoch != FINAL_EPOCH:
            session.step(epoch)
    except ShareError as error:
        return _refusal(error)
    if is_long(body.topics):
        return take_steps(_answer_in_turns(body, session, request), broker.clock)
    outcomes = when_written(at_once(_acknowledge(body, key, request)))
    released = shares.release(session) if epoch == FINAL_EPOCH else None
    lock_ms = shares.settings(key.group_id).record_lock_duration_ms
    answer = map_answer(outcomes, lambda found: at_once(_response(found, lock_ms, request)))
    return chain_answer(released, lambda _: answer)


def _acknowledge(body: ShareAcknowledgeRequest, key: SessionKey, request: Request) -> Steps[Outcomes]:
    broker = request.broker
    return acknowledge_all(
        broker.share_partitions(), broker.metadata, key, body.topics, request.api_version, renews=body.is_renew_ack
    )


def _answer_in_turns(body: ShareAcknowledgeRequest, session: ShareSession, request: Request) -> Steps[ShareAcknowledgeResponse]:
    """Carries out a request about much."""
    shares = request.broker.share_partitions()
    outcomes = yield from _acknowledge(body, session.key, request)
    released = shares.release(session) if body.share_session_epoch == FINAL_EPOCH else None
    lock_ms = shares.settings(session.key.group_id).record_lock_duration_ms
    found = yield from one_kept(when_written(outcomes))
    yield from one_kept(released)
    return (yield from _response(found, lock_ms, request))


def _refusal(error: ShareError) -> ShareAcknowledgeResponse:
    return ShareAcknowledgeResponse(error_code=error.code)


def _response(outcome: Outcome, lock_ms: int, request: Request) -> Steps[ShareAcknowledgeResponse]:
    topics: dict[bytes, list[PartitionData]] = {}
    endpoints: dict[int, NodeEndpoint] = {}
    for (topic_id, index), error in outcome.items():
        data = PartitionData(index)
        if error is not None:
            data.error_code, data.error_message = error.code, error.message
            if error.code in _HINTED:
                topic = request.broker.metadata.topics_by_id[topic_id].name
                hint = leader_hint(request.broker.metadata, topic, index, request.session.listener)
                data.current_leader = LeaderIdAndEpoch(hint.leader_id, hint.leader_epoch)
                if hint.host is not None:
                    endpoints[hint.leader_id] = NodeEndpoint(hint.leader_id, hint.host, hint.port, hint.rack)
        topics.setdefault(topic_id, []).append(data)
        yield None
    responses = [ShareAcknowledgeTopicResponse(topic_id, partitions) for topic_id, partitions in topics.items()]
    return ShareAcknowledgeResponse(
        responses=responses, acquisition_lock_timeout_ms=lock_ms, node_endpoints=list(endpoints.values())
    )

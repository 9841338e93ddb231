"""Refuses partitions of requests that belong to a session: Fetch and ShareFetch.

In a session a client names its partitions once, and afterwards only what changes. So a partition matches that is in the session,
although the request does not name it; and nothing may be cut out of the session for long, because the client would never name it
again. A Fetch is served as a whole, at once instead of after a wait, and its answer changed: reading has no effect. A ShareFetch
locks records, so partitions are taken out of its session for this one request.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ottla.server.guards.ask import change_answer, without
from ottla.server.share.persister import ShareError
from ottla.server.share.sessions import FINAL_EPOCH, INITIAL_EPOCH, SessionKey, ShareSession
from ottla.server.testkit.refusals.entities import Role
from ottla.server.testkit.refusals.refusals import Refusal, add_leader_hint, set_error
from ottla.wire.messages import fetch, share_fetch

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.server.requests.link import Handle
    from ottla.server.requests.request import Request
    from ottla.server.testkit.refusals.refusals import Selects

FETCH: Final = 1
SHARE_FETCH: Final = 78
IN_SESSIONS: Final = frozenset({FETCH, SHARE_FETCH})
"""The APIs whose requests belong to sessions, which are also those whose answers have records."""
_TOPIC_IDS_SINCE: Final = 13


class Partition(NamedTuple):
    """A partition by the key that the version has for its topic, a name or an id, and its number."""

    topic: Any
    number: int


def select_partitions(body: Any, request: Request, on: Selects) -> list[Partition] | None:
    """Returns the partitions of a Fetch or ShareFetch that match, its session's included; None if none does, and an empty list
    if the fault selects no partition."""
    group = on.entities.get(Role.GROUP)
    if group is not None and not group.fits(getattr(body, "group_id", None)):
        return None
    topic, partition = on.entities.get(Role.TOPIC), on.entities.get(Role.PARTITION)
    if topic is None and partition is None:
        return []
    known = _in_fetch(body, request) if request.api_key == FETCH else _in_share_fetch(body, request)
    found = []
    for each in dict.fromkeys(known):
        name = _name_of(each.topic, request)
        if (topic is None or topic.fits(name)) and (partition is None or partition.fits(each.number)):
            found.append(each)
    return found or None


def _name_of(topic: str | bytes, request: Request) -> str | None:
    if isinstance(topic, str):
        return topic
    known = request.broker.metadata.topics_by_id.get(topic)
    return None if known is None else known.name


def _in_fetch(body: fetch.FetchRequest, request: Request) -> Iterator[Partition]:
    by_id = request.api_version >= _TOPIC_IDS_SINCE
    for topic in body.topics:
        for each in topic.partitions:
            yield Partition(topic.topic_id if by_id else topic.topic, each.partition)
    if body.session_epoch > INITIAL_EPOCH:
        forgotten = {
            (each.topic_id if by_id else each.topic, index) for each in body.forgotten_topics_data for index in each.partitions
        }
        for key in request.broker.fetch_sessions.partitions_of(body.session_id):
            if key not in forgotten:
                yield Partition(*key)


def _in_share_fetch(body: share_fetch.ShareFetchRequest, request: Request) -> Iterator[Partition]:
    for topic in body.topics:
        for each in topic.partitions:
            yield Partition(topic.topic_id, each.partition_index)
    if body.share_session_epoch > INITIAL_EPOCH:
        session = _share_session(body, request)
        for key in session.partitions if session is not None else ():
            yield Partition(*key)


def _share_session(body: share_fetch.ShareFetchRequest, request: Request) -> ShareSession | None:
    try:
        return request.broker.share_partitions().sessions.find(SessionKey(str(body.group_id), str(body.member_id)))
    except ShareError:
        return None


def refuse_partitions(
    partitions: list[Partition], refusal: Refusal, handle: Handle, body: Any, request: Request, *, acts: bool
) -> Any:
    """Answers a Fetch or ShareFetch with an error for these partitions, in any form that handlers answer in."""
    request.failed = True
    if request.api_key == FETCH:
        body.max_wait_ms = 0
        return change_answer(handle(body, request), lambda answer: put_partitions(answer, partitions, refusal, request))
    if acts:
        return change_answer(handle(body, request), lambda answer: put_partitions(answer, partitions, refusal, request))
    return _refuse_in_share_session(partitions, refusal, handle, body, request)


def _refuse_in_share_session(
    partitions: list[Partition], refusal: Refusal, handle: Handle, body: share_fetch.ShareFetchRequest, request: Request
) -> Any:
    """Takes the partitions out of the request and its session, and puts them back into the session when it is answered."""
    gone = set(partitions)
    acknowledging = set()
    for topic in body.topics:
        mine = [each for each in topic.partitions if (topic.topic_id, each.partition_index) in gone]
        acknowledging |= {Partition(topic.topic_id, each.partition_index) for each in mine if each.acknowledgement_batches}
        topic.partitions = without(topic.partitions, mine)
    body.topics = [topic for topic in body.topics if topic.partitions]
    if body.share_session_epoch > INITIAL_EPOCH:
        session = _share_session(body, request)
        if session is not None:
            session.update({}, [(each.topic, each.number) for each in partitions])
    if not body.is_renew_ack:
        body.max_wait_ms = 0

    def complete(answer: share_fetch.ShareFetchResponse) -> Any:
        session = None if body.share_session_epoch == FINAL_EPOCH else _share_session(body, request)
        if session is not None:
            session.update({(each.topic, each.number): _name_of(each.topic, request) for each in partitions}, [])
        return put_partitions(answer, partitions, refusal, request, acknowledging.__contains__)

    return change_answer(handle(body, request), complete)


def put_partitions(
    answer: Any,
    partitions: list[Partition],
    refusal: Refusal,
    request: Request,
    is_acknowledging: Callable[[Partition], bool] = lambda partition: False,
) -> Any:
    """Puts partitions into an answer as errors. An answer that is an error as a whole stays as it is."""
    if answer.error_code:
        return answer
    messages: Any = fetch if request.api_key == FETCH else share_fetch
    by_id = request.api_key == SHARE_FETCH or request.api_version >= _TOPIC_IDS_SINCE
    kinds = {field: kind for field, kind, _ in type(answer).NESTED}
    answer.responses = list(answer.responses)
    for each in partitions:
        topic = next((t for t in answer.responses if (t.topic_id if by_id else t.topic) == each.topic), None)
        if topic is None:
            topic = kinds["responses"]()
            setattr(topic, "topic_id" if by_id else "topic", each.topic)
            answer.responses.append(topic)
        data = messages.PartitionData(each.number)
        set_error(data, "error_code", refusal)
        if is_acknowledging(each):
            data.acknowledge_error_code, data.acknowledge_error_message = int(refusal.code), refusal.message
        add_leader_hint(answer, data, topic, refusal.code, request)
        topic.partitions = [*(other for other in topic.partitions if other.partition_index != each.number), data]
    return answer

"""Refuses some of what a request names, and has the rest served for real.

As guards do for what a client has no right to (server/guards), the entities that a fault matches are cut out of the decoded
request, the handler serves what is left, and they are put back into its answer with the code. Where the broker is to have acted
before it answers with an error, the handler serves everything, and the entities are replaced in its answer.

What a fault matches without naming an entity is refused as a whole: by the code of the whole answer where the version has one,
and else by that of everything the request names. Where a request names nothing and means all, what the handler answers is
replaced.

Requests that have an effect beyond their entities reach the handler in any case, without the entities: a Metadata answer needs
its brokers, and a share session counts its requests. Those with sessions are refused in their own way (session_refusals.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from ottla.server.base.errors import CloseConnection
from ottla.server.guards.ask import change_answer
from ottla.server.partitions.leader_hints import leader_hint
from ottla.server.requests.kept_answers import Encoded
from ottla.server.testkit.refusals.entities import (
    CODES,
    SELECTABLE,
    Named,
    Place,
    Role,
    Shape,
    is_same,
    make_element,
    messages_of,
    named_in,
    names_of,
    partition_of,
    shape_of,
    top_names,
    topic_of,
)
from ottla.wire.api import APIS
from ottla.wire.errors import ErrorCode
from ottla.wire.header import API_VERSIONS
from ottla.wire.messages.metadata import MetadataRequestTopic
from ottla.wire.primitives import Parts, WireStruct

if TYPE_CHECKING:
    from ottla.server.requests.link import Handle
    from ottla.server.requests.request import Request

ALWAYS_SERVED: Final = frozenset({"metadata", "share_acknowledge"})
"""Requests that reach their handler even if nothing is left of them."""
HINTED: Final = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})
HINTS_SINCE: Final = {"produce": 10, "fetch": 16, "share_fetch": 1, "share_acknowledge": 1}
"""The first version of an API whose answers name the leader beside these codes (KIP-951)."""
_UNKNOWN: Final = frozenset(
    (
        *("base_offset", "log_append_time_ms", "log_start_offset", "high_watermark", "last_stable_offset", "low_watermark"),
        *("committed_offset", "committed_leader_epoch", "node_id", "port", "leader_id", "leader_epoch", "timestamp", "offset"),
        *("producer_id", "producer_epoch", "generation_id", "end_offset", "start_offset", "lag"),
    )
)
"""Fields that are -1 beside a code, as brokers have it: no offset, no node, no producer."""
_NO_TOPIC: Final = ""
"""A name that no topic has; Metadata v0 has no other way to ask for none."""


class Refusal(NamedTuple):
    """The code to answer with, and the text beside it where the answer has a place for one."""

    code: ErrorCode
    message: str


class Refused(NamedTuple):
    """Some entities of one way in which a request names them; all are the same number of levels deep."""

    way: tuple[Place, ...]
    entities: tuple[Named, ...]


class Selected(NamedTuple):
    """The part of one request that a fault matches. `parts` are the entities; without any it is the request as a whole."""

    shape: Shape
    parts: tuple[Refused, ...]


class Fits(Protocol):
    """Says which names or numbers are meant."""

    def fits(self, name: object) -> bool:
        """Returns whether this one is."""
        ...


class Selects(Protocol):
    """Says which entities are selected: those that fit for every role."""

    @property
    def entities(self) -> Mapping[Role, Fits]:
        """The entities that must fit, by role."""
        ...


def select(body: Any, request: Request, on: Selects) -> Selected | None:
    """Returns what a fault matches in a request, None if nothing."""
    shape = shape_of(request.api_key, request.api_version)
    wanted = on.entities
    if not wanted:
        return Selected(shape, ())
    top: dict[Role, bool] = {}
    for role, name in top_names(body, shape):
        if role in wanted:
            top[role] = top.get(role, False) or wanted[role].fits(name)
    if not all(top.values()):
        return None
    left = wanted.keys() - top.keys()
    if not left:
        return Selected(shape, ())
    topics_by_id = request.broker.metadata.topics_by_id
    parts = []
    for way in shape.ways:
        if not _may_fit(body, way[0], wanted.get(Role.TOPIC), topics_by_id):
            continue
        depth = max((at for at, place in enumerate(way, 1) if SELECTABLE.get(place.level.role, frozenset()) & left), default=0)
        found = [named for named in named_in(body, way[:depth]) if _fits(named, way, left, on, body, topics_by_id)]
        if found and all(place.code is None for place in way):
            return Selected(shape, ())  # this version has only the code of the whole
        if found:
            parts.append(Refused(way, _at_code(found, body, way, depth)))
    return Selected(shape, tuple(parts)) if parts else None


def _may_fit(body: Any, first: Place, topics: Fits | None, topics_by_id: Any) -> bool:
    """Returns whether any topic fits, where topics are what a request names first. Most faults do not match because of that."""
    if topics is None or first.level.role is not Role.TOPIC:
        return True
    return any(topics.fits(topic_of(each, topics_by_id)) for each in getattr(body, first.level.asked) or ())


def _fits(named: Named, way: tuple[Place, ...], left: Iterable[Role], on: Selects, body: Any, topics_by_id: Any) -> bool:
    """Returns whether an entity is all that a fault selects by."""
    missing = set(left)
    for place, element in zip(way, named.elements, strict=False):
        for role, name in names_of(element, place.level.role, body, topics_by_id):
            if role in missing and on.entities[role].fits(name):
                missing.discard(role)
    return not missing


def _at_code(found: Iterable[Named], body: Any, way: tuple[Place, ...], depth: int) -> tuple[Named, ...]:
    """Returns the entities at the first level that has a code and is as deep as these or deeper: these, or all in them."""
    at = next((at for at in range(depth, len(way) + 1) if way[at - 1].code is not None), len(way))
    if at == depth:
        return tuple(found)
    above = {named.positions for named in found}
    return tuple(named for named in named_in(body, way[:at]) if named.positions[:depth] in above)


def refuse(selected: Selected, refusal: Refusal, handle: Handle, body: Any, request: Request, *, acts: bool) -> Any:
    """Answers a request with an error for what is selected in it, in any form that handlers answer in. `acts` says whether
    the broker serves what is refused, too. Raises CloseConnection if the client wants no answer.
    """
    if not acts and getattr(body, "acks", None) == 0:
        raise CloseConnection(f"acks is 0, and the test kit answers {refusal.code.name}")
    shape, parts = selected
    request.failed = True
    if not parts:
        if shape.has_code:
            whole = refused_whole(shape, refusal)
            return change_answer(handle(body, request), lambda answer: whole) if acts else whole
        parts = tuple(_everything(shape, body))
    if not parts:
        return change_answer(handle(body, request), lambda answer: _mark_all(opened(answer, request), shape, refusal))
    completion = _Completion(parts, refusal, request, acted=acts)
    if acts:
        return change_answer(handle(body, request), completion.add)
    is_served = _cut(body, shape, parts, request) or shape.api.module in ALWAYS_SERVED
    if is_served:
        return change_answer(handle(body, request), completion.add)
    return completion.add(shape.response())


def refused_whole(shape: Shape, refusal: Refusal) -> WireStruct:
    """Returns an answer that is an error as a whole. ApiVersions has one in version 0 for a version that it does not know."""
    answer = shape.response()
    set_error(answer, CODES[0], refusal)
    if shape.api.key == API_VERSIONS and refusal.code == ErrorCode.UNSUPPORTED_VERSION:
        parts: Parts = []
        messages_of(shape.api).ENCODE_RESPONSE[0](answer, parts)
        return Encoded(*parts)
    return answer


def _everything(shape: Shape, body: Any) -> Iterator[Refused]:
    """Yields all that a request names."""
    for way in shape.ways:
        entities = _at_code(named_in(body, way[:1]), body, way, 1)
        if entities:
            yield Refused(way, entities)


def opened(answer: Any, request: Request) -> Any:
    """Returns an answer that can be changed; one that is kept as bytes is decoded. Raises CloseConnection if there is none."""
    if answer is None:
        raise CloseConnection("acks is 0, and the test kit answers an error")
    if type(answer) is not Encoded:
        return answer
    messages = messages_of(APIS[request.api_key])
    return messages.DECODE_RESPONSE[request.api_version](answer.body, 0)[0]


def set_error(element: Any, code: str, refusal: Refusal) -> None:
    """Makes an element of an answer, or an answer, an error."""
    slots = type(element).__slots__
    for name in slots:
        if name in _UNKNOWN:
            setattr(element, name, -1)
    setattr(element, code, int(refusal.code))
    if "error_message" in slots:
        element.error_message = refusal.message


# Cutting


def _cut(body: Any, shape: Shape, parts: Iterable[Refused], request: Request) -> bool:
    """Takes the entities out of a request; returns whether anything is left that it names."""
    for way, entities in parts:
        gone = {named.positions for named in entities}
        partly = {each[:depth] for each in gone for depth in range(1, len(each))}
        _cut_below(body, way, gone, partly, ())
    if request.api_key == _METADATA and request.api_version == 0 and not body.topics:
        body.topics = [MetadataRequestTopic(name=_NO_TOPIC)]
    return any(getattr(body, way[0].level.asked) for way in shape.ways)


_METADATA: Final = 3
_Positions = tuple[int, ...]


def _cut_below(container: Any, way: tuple[Place, ...], gone: set[_Positions], partly: set[_Positions], above: _Positions) -> None:
    """Takes the entities out of a list, and with them what has none left. `partly` are the positions of what has some."""
    field = way[len(above)].level.asked
    kept = []
    for at, element in enumerate(getattr(container, field)):
        positions = (*above, at)
        if positions in gone:
            continue
        if positions in partly:
            _cut_below(element, way, gone, partly, positions)
            if not getattr(element, way[len(positions)].level.asked):
                continue
        kept.append(element)
    setattr(container, field, kept)


# Putting back


class _Completion:
    """Puts entities into an answer as errors, in the place of what the handler answered for them, if it did."""

    def __init__(self, parts: Iterable[Refused], refusal: Refusal, request: Request, *, acted: bool) -> None:
        self._parts = parts
        self._refusal = refusal
        self._request = request
        self._acted = acted

    def add(self, answer: Any) -> Any:
        """Returns the answer with the entities in it. Raises CloseConnection if the client wants no answer."""
        answer = opened(answer, self._request)
        if self._request.api_key == _METADATA and self._request.api_version == 0:
            answer.topics = [topic for topic in answer.topics if topic.name != _NO_TOPIC]
        for way, entities in self._parts:
            for named in entities:
                self._put(answer, way, named)
        return answer

    def _put(self, answer: Any, way: tuple[Place, ...], named: Named) -> None:
        container: Any = answer
        last = len(named.positions) - 1
        topic: Any = None
        for at, (place, asked) in enumerate(zip(way, named.elements, strict=False)):
            level = place.level
            if level.role is Role.TOPIC:
                topic = asked
            if not level.answered:
                continue
            elements = list(getattr(container, level.answered) or ())
            setattr(container, level.answered, elements)
            if at < last:
                container = _find_or_add(elements, place, asked)
                continue
            refused = self._make(answer, place, asked, topic)
            position = named.positions[at]
            if level.by_position:
                found = position if self._acted else None
            else:
                found = next((i for i, each in enumerate(elements) if is_same(asked, each)), None)
            if found is None:
                elements.insert(position, refused)
            else:
                elements[found] = refused

    def _make(self, answer: Any, place: Place, asked: Any, topic: Any) -> Any:
        element = make_element(place.element, asked)
        if place.code is not None:
            set_error(element, place.code, self._refusal)
        add_leader_hint(answer, element, topic, self._refusal.code, self._request)
        return element


def _find_or_add(elements: list[Any], place: Place, asked: Any) -> Any:
    """Returns the element of an answer that is about the same as one of the request, which is added if there is none."""
    found = next((each for each in elements if is_same(asked, each)), None)
    if found is None:
        found = make_element(place.element, asked)
        elements.append(found)
    return found


def add_leader_hint(answer: Any, element: Any, topic: Any, code: int, request: Request) -> None:
    """Names the leader beside a code that sends the client to it, where the version has a place for that."""
    since = HINTS_SINCE.get(APIS[request.api_key].module)
    if code not in HINTED or since is None or request.api_version < since:
        return
    image = request.broker.metadata
    name = topic_of(topic, image.topics_by_id)
    if name is None:
        return
    hint = leader_hint(image, name, partition_of(element), request.session.listener)
    kinds: dict[str, Any] = {field: kind for field, kind, _ in (*type(element).NESTED, *type(answer).NESTED)}
    element.current_leader = kinds["current_leader"](hint.leader_id, hint.leader_epoch)
    if hint.host is not None and all(each.node_id != hint.leader_id for each in answer.node_endpoints):
        endpoint = kinds["node_endpoints"](hint.leader_id, hint.host, hint.port, hint.rack)
        answer.node_endpoints = [*answer.node_endpoints, endpoint]


def _mark_all(answer: Any, shape: Shape, refusal: Refusal) -> Any:
    """Replaces everything in an answer that has a code of its own; for requests that name nothing and mean all."""
    for way in shape.ways[:1]:
        depth = next((at for at, place in enumerate(way) if place.code is not None), 0)
        _mark_below(answer, way[: depth + 1], refusal)
    return answer


def _mark_below(container: Any, way: tuple[Place, ...], refusal: Refusal) -> None:
    place = way[0]
    elements = getattr(container, place.level.answered)
    if len(way) > 1:
        for element in elements:
            _mark_below(element, way[1:], refusal)
        return
    marked = []
    for each in elements:
        element = make_element(place.element, each)
        if place.code is not None:
            set_error(element, place.code, refusal)
        marked.append(element)
    setattr(container, place.level.answered, marked)

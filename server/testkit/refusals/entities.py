"""The entities that the requests of each API name, and where the answer has a place for the error of each of them.

An entity is something that a request names and that is answered by itself: a partition, a group, a transactional id. Most APIs
list them two or three deep, and answer with the same levels under other names of fields. So one table says for each API which
list of the request is answered by which list of the answer (LEVELS); the names of the fields by which two elements belong
together are few (SAME). APIs that are not in the table have no error but that of the whole answer.

Not every version has every field, so a `Shape` is of one version. Which codes that version can carry is tried out with the codec.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import StrEnum
from functools import cache
from importlib import import_module
from typing import Any, Final, NamedTuple

from ottla.wire.api import APIS, Api
from ottla.wire.primitives import ZERO_UUID, Parts, WireStruct


class Role(StrEnum):
    """The role of an entity. The first five are what a fault can select by."""

    TOPIC = "topic"
    PARTITION = "partition"
    GROUP = "group"
    TRANSACTION = "transactional_id"
    RESOURCE = "resource"
    COORDINATOR = "coordinator"
    """The key of FindCoordinator, which is a group or a transactional id."""
    PRODUCER = "producer"
    DIRECTORY = "directory"


class Level(NamedTuple):
    """A list of a request and the list of the answer that answers it; each is a field of the element one level up."""

    asked: str
    """Empty for a list of the answer that answers no list of the request."""
    answered: str
    """Empty where the answer has no such level: then it goes on in the element one level up."""
    role: Role
    by_position: bool = False
    """True if the answer has an element for each of the request's, told apart only by their order, which is the same."""


_TOPICS: Final = Level("topics", "topics", Role.TOPIC)
_PARTITIONS: Final = Level("partitions", "partitions", Role.PARTITION)
_INDEXES: Final = Level("partition_indexes", "partitions", Role.PARTITION)
_SHARE_STATE: Final = ((Level("topics", "results", Role.TOPIC), _PARTITIONS),)
_GROUP_IDS: Final = ((Level("group_ids", "groups", Role.GROUP),),)

LEVELS: Final[dict[str, tuple[tuple[Level, ...], ...]]] = {
    "produce": ((Level("topic_data", "responses", Role.TOPIC), Level("partition_data", "partition_responses", Role.PARTITION)),),
    "fetch": ((Level("topics", "responses", Role.TOPIC), _PARTITIONS),),
    "list_offsets": ((_TOPICS, _PARTITIONS),),
    "metadata": ((_TOPICS,),),
    "offset_commit": ((_TOPICS, _PARTITIONS),),
    "offset_fetch": ((Level("groups", "groups", Role.GROUP), _TOPICS, _INDEXES), (_TOPICS, _INDEXES)),
    "find_coordinator": ((Level("coordinator_keys", "coordinators", Role.COORDINATOR),),),
    "describe_groups": ((Level("groups", "groups", Role.GROUP),),),
    "create_topics": ((_TOPICS,),),
    "delete_topics": ((Level("topics", "responses", Role.TOPIC),), (Level("topic_names", "responses", Role.TOPIC),)),
    "delete_records": ((_TOPICS, _PARTITIONS),),
    "offset_for_leader_epoch": ((_TOPICS, _PARTITIONS),),
    "add_partitions_to_txn": (
        (
            Level("transactions", "results_by_transaction", Role.TRANSACTION),
            Level("topics", "topic_results", Role.TOPIC),
            Level("partitions", "results_by_partition", Role.PARTITION),
        ),
        (
            Level("v3_and_below_topics", "results_by_topic_v3_and_below", Role.TOPIC),
            Level("partitions", "results_by_partition", Role.PARTITION),
        ),
    ),
    "write_txn_markers": ((Level("markers", "markers", Role.PRODUCER), _TOPICS, _INDEXES),),
    "txn_offset_commit": ((_TOPICS, _PARTITIONS),),
    "create_acls": ((Level("creations", "results", Role.RESOURCE, by_position=True),),),
    "delete_acls": ((Level("filters", "filter_results", Role.RESOURCE, by_position=True),),),
    "describe_configs": ((Level("resources", "results", Role.RESOURCE),),),
    "alter_configs": ((Level("resources", "responses", Role.RESOURCE),),),
    "incremental_alter_configs": ((Level("resources", "responses", Role.RESOURCE),),),
    "alter_replica_log_dirs": ((Level("dirs", "", Role.DIRECTORY), Level("topics", "results", Role.TOPIC), _PARTITIONS),),
    "describe_log_dirs": ((Level("", "results", Role.DIRECTORY),),),
    "create_partitions": ((Level("topics", "results", Role.TOPIC),),),
    "delete_groups": ((Level("groups_names", "results", Role.GROUP),),),
    "elect_leaders": (
        (
            Level("topic_partitions", "replica_election_results", Role.TOPIC),
            Level("partitions", "partition_result", Role.PARTITION),
        ),
    ),
    "alter_partition_reassignments": ((Level("topics", "responses", Role.TOPIC), _PARTITIONS),),
    "offset_delete": ((_TOPICS, _PARTITIONS),),
    "alter_client_quotas": ((Level("entries", "entries", Role.RESOURCE),),),
    "describe_user_scram_credentials": ((Level("users", "results", Role.RESOURCE),),),
    "alter_user_scram_credentials": (
        (Level("deletions", "results", Role.RESOURCE),),
        (Level("upsertions", "results", Role.RESOURCE),),
    ),
    "describe_quorum": ((_TOPICS, _PARTITIONS),),
    "update_features": ((Level("feature_updates", "results", Role.RESOURCE),),),
    "describe_producers": ((_TOPICS, _INDEXES),),
    "describe_transactions": ((Level("transactional_ids", "transaction_states", Role.TRANSACTION),),),
    "consumer_group_describe": _GROUP_IDS,
    "share_group_describe": _GROUP_IDS,
    "streams_group_describe": _GROUP_IDS,
    "describe_topic_partitions": ((_TOPICS,),),
    "share_fetch": ((Level("topics", "responses", Role.TOPIC), _PARTITIONS),),
    "share_acknowledge": ((Level("topics", "responses", Role.TOPIC), _PARTITIONS),),
    "initialize_share_group_state": _SHARE_STATE,
    "read_share_group_state": _SHARE_STATE,
    "write_share_group_state": _SHARE_STATE,
    "delete_share_group_state": _SHARE_STATE,
    "read_share_group_state_summary": _SHARE_STATE,
    "describe_share_group_offsets": ((Level("groups", "groups", Role.GROUP), _TOPICS, _PARTITIONS),),
    "alter_share_group_offsets": ((Level("topics", "responses", Role.TOPIC), _PARTITIONS),),
    "delete_share_group_offsets": ((Level("topics", "responses", Role.TOPIC),),),
}
"""By the module of an API, the ways in which its requests name entities; a request uses one of them, or several."""

SAME: Final = (
    ("topic_id",),
    ("name", "topic", "topic_name", "user"),
    ("index", "partition", "partition_index", "partition_id"),
    ("group_id",),
    ("transactional_id",),
    ("key",),
    ("producer_id",),
    ("resource_type",),
    ("resource_name",),
    ("feature",),
    ("entity",),
    ("log_dir",),
)
"""Names of fields that mean the same in requests and answers. A plain number or text in a list has no name: it is the first of
these that an element of the answer has."""
_CLASS_OF: Final = {name: at for at, names in enumerate(SAME) for name in names}
_NAME: Final = _CLASS_OF["name"]
CODES: Final = ("error_code", "partition_error_code")
_TRIED: Final = 77
"""A code that no default is."""

TOP_ROLES: Final = {
    "group_id": Role.GROUP,
    "transactional_id": Role.TRANSACTION,
    "v3_and_below_transactional_id": Role.TRANSACTION,
}
"""Fields of whole requests by which they are about a group or a transaction."""
_CONFIGS_OF: Final = {2: Role.TOPIC, 32: Role.GROUP}
"""Types of resources whose names are also those of topics and groups."""
_KEY_TYPES: Final = {0: Role.GROUP, 1: Role.TRANSACTION, 2: Role.GROUP}
"""The roles of the keys of FindCoordinator, by their type; one of a share coordinator begins with its group."""


SELECTABLE: Final = {
    Role.TOPIC: frozenset({Role.TOPIC}),
    Role.PARTITION: frozenset({Role.PARTITION}),
    Role.GROUP: frozenset({Role.GROUP}),
    Role.TRANSACTION: frozenset({Role.TRANSACTION}),
    Role.RESOURCE: frozenset({Role.RESOURCE, Role.TOPIC, Role.GROUP}),
    Role.COORDINATOR: frozenset({Role.GROUP, Role.TRANSACTION}),
}
"""By what a fault may select an element of each role."""


class Place(NamedTuple):
    """A level in one version of the answer."""

    level: Level
    element: type[WireStruct]
    """The class of the answer's elements."""
    code: str | None
    """The field with the code of an element, None if this version's elements have none."""


class Shape(NamedTuple):
    """The entities that the requests of one API name, and those that its answers at one version have places for."""

    api: Api
    version: int
    top: tuple[tuple[str, Role], ...]
    """The fields by which a request as a whole is about something."""
    response: type[WireStruct]
    has_code: bool
    """True if the whole answer has a code."""
    ways: tuple[tuple[Place, ...], ...]


@cache
def shape_of(key: int, version: int) -> Shape:
    """Returns the shape of an API at a version."""
    api = APIS[key]
    response = messages_of(api).__dict__[f"{api.name}Response"]
    ways = []
    for levels in LEVELS.get(api.module, ()):
        places: list[Place] = []
        for level in levels:
            parent = _parent_class(response, places)
            if not level.answered:
                places.append(Place(level, parent, None))
                continue
            element = next(kind for field, kind, _ in parent.NESTED if field == level.answered)
            path = [*places, Place(level, element, None)]
            code = next(
                (name for name in CODES if name in element.__slots__ and _carries(api, version, response, path, name)), None
            )
            places.append(Place(level, element, code))
        ways.append(tuple(places))
    request = messages_of(api).__dict__[f"{api.name}Request"]
    top = tuple((field, role) for field, role in (*TOP_ROLES.items(), ("key", Role.COORDINATOR)) if field in request.__slots__)
    has_code = CODES[0] in response.__slots__ and _carries(api, version, response, [], CODES[0])
    return Shape(api, version, top, response, has_code, tuple(ways))


def messages_of(api: Api) -> Any:
    """Returns the module of an API's messages."""
    return import_module(f"ottla.wire.messages.{api.module}")


def _parent_class(response: type[WireStruct], places: list[Place]) -> type[WireStruct]:
    return next((place.element for place in reversed(places) if place.level.answered), response)


def _carries(api: Api, version: int, response: type[WireStruct], path: list[Place], code: str) -> bool:
    """Returns whether the code of the elements at the end of a path is in the bytes of a version."""
    messages = messages_of(api)
    answer = element = response()
    for place in path:
        if place.level.answered:
            inner = place.element()
            setattr(element, place.level.answered, [inner])
            element = inner
    setattr(element, code, _TRIED)
    parts: Parts = []
    messages.ENCODE_RESPONSE[version](answer, parts)
    found, _ = messages.DECODE_RESPONSE[version](b"".join(parts), 0)
    for place in path:
        if place.level.answered:
            inside = getattr(found, place.level.answered)
            if not inside:
                return False
            found = inside[0]
    return bool(getattr(found, code) == _TRIED)


# Elements of requests


class Named(NamedTuple):
    """An entity of a request: its place in each list on the way to it, and the elements there."""

    positions: tuple[int, ...]
    elements: tuple[Any, ...]


def named_in(body: Any, way: tuple[Place, ...]) -> Iterator[Named]:
    """Yields the entities that a request names in one way, or down to some level of it, in their order."""
    if way:
        yield from _named_below(body, way, Named((), ()))


def _named_below(container: Any, way: tuple[Place, ...], above: Named) -> Iterator[Named]:
    depth = len(above.positions)
    asked = way[depth].level.asked
    for at, element in enumerate(getattr(container, asked) or () if asked else ()):
        named = Named((*above.positions, at), (*above.elements, element))
        if depth + 1 == len(way):
            yield named
        else:
            yield from _named_below(element, way, named)


def names_of(element: Any, role: Role, body: Any, topics_by_id: Any) -> Iterator[tuple[Role, str | int]]:
    """Yields what a fault can select an element by: what it is, and its name or number."""
    match role:
        case Role.TOPIC:
            name = topic_of(element, topics_by_id)
            if name is not None:
                yield role, name
        case Role.RESOURCE:
            yield from _names_of_resource(element)
        case Role.COORDINATOR:
            yield from _names_of_key(element, body.key_type)
        case Role.PARTITION | Role.GROUP | Role.TRANSACTION:
            own = {Role.PARTITION: "index", Role.GROUP: "group_id", Role.TRANSACTION: "transactional_id"}[role]
            yield role, _field(element, _CLASS_OF[own])
        case Role.PRODUCER | Role.DIRECTORY:
            return


def topic_of(element: Any, topics_by_id: Any) -> str | None:
    """Returns the topic that an element names by name or id; None for an id that no topic has."""
    topic_id = getattr(element, "topic_id", ZERO_UUID)
    if topic_id == ZERO_UUID:
        name: str | None = _field(element, _NAME)
        return name
    topic = topics_by_id.get(topic_id)
    return None if topic is None else topic.name


def partition_of(element: Any) -> int:
    """Returns the number of the partition that an element names."""
    return int(_field(element, _CLASS_OF["index"]))


def _names_of_key(key: str, key_type: int) -> Iterator[tuple[Role, str]]:
    role = _KEY_TYPES.get(key_type)
    if role is not None:
        yield role, key.partition(":")[0] if key_type == 2 else key


def _names_of_resource(element: Any) -> Iterator[tuple[Role, str]]:
    entity = getattr(element, "entity", None)
    if entity is not None:
        yield Role.RESOURCE, ",".join(f"{each.entity_type}={each.entity_name or '<default>'}" for each in entity)
        return
    names = ("resource_name", "resource_name_filter", "feature", "name")
    name = next((getattr(element, field) for field in names if hasattr(element, field)), None)
    if name is None:
        return
    yield Role.RESOURCE, name
    of_configs = _CONFIGS_OF.get(getattr(element, "resource_type", 0))
    if of_configs is not None and (hasattr(element, "configs") or hasattr(element, "configuration_keys")):
        yield of_configs, name


def _field(element: Any, class_: int) -> Any:
    """Returns the field of an element that means this, whatever it is called; a plain value is itself."""
    if not isinstance(element, WireStruct):
        return element
    return next((getattr(element, name) for name in SAME[class_] if name in element.__slots__), None)


def top_names(body: Any, shape: Shape) -> Iterator[tuple[Role, str]]:
    """Yields what a request as a whole is about: its group, its transactional id, or the key of its coordinator."""
    for field, role in shape.top:
        name = getattr(body, field)
        if name and role is Role.COORDINATOR:
            yield from _names_of_key(name, body.key_type)
        elif name:
            yield role, name


def roles_of(api: Api) -> set[Role]:
    """Returns the roles that requests of an API may name, of those that a fault can select by."""
    request = messages_of(api).__dict__[f"{api.name}Request"]
    roles = {role for field, role in TOP_ROLES.items() if field in request.__slots__}
    for levels in LEVELS.get(api.module, ()):
        roles |= {level.role for level in levels if level.asked}
    if Role.COORDINATOR in roles:
        roles |= {Role.GROUP, Role.TRANSACTION}
    if api.module.endswith("_configs"):
        roles |= {Role.TOPIC, Role.GROUP}
    return roles - {Role.COORDINATOR, Role.PRODUCER, Role.DIRECTORY}


# Elements of answers


def make_element(kind: type[WireStruct], asked: Any) -> Any:
    """Returns an element of an answer that names what an element of a request, or of another answer, names."""
    element = kind()
    if not isinstance(asked, WireStruct):
        setattr(element, _field_of_plain(kind), asked)
        return element
    for mine, other in _shared(type(asked), kind):
        value = getattr(asked, mine)
        if value is not None:
            setattr(element, other, _copy_entity(kind, value) if other == "entity" else value)
    return element


def _find_shared(asked: type[WireStruct], answered: type[WireStruct]) -> tuple[tuple[str, str], ...]:
    """Returns the fields that mean the same in an element of a request and in one of an answer."""
    pairs = []
    for names in SAME:
        mine, other = (next((name for name in names if name in kind.__slots__), None) for kind in (asked, answered))
        if mine is not None and other is not None:
            pairs.append((mine, other))
    return tuple(pairs)


def _find_field_of_plain(kind: type[WireStruct]) -> str:
    """Returns the field in which an element of an answer has what is a plain value in the request."""
    return next(name for names in SAME for name in names if name in kind.__slots__ and name != "topic_id")


_shared: Callable[[Any, Any], tuple[tuple[str, str], ...]] = cache(_find_shared)
_field_of_plain: Callable[[Any], str] = cache(_find_field_of_plain)


def _copy_entity(kind: type[WireStruct], entity: list[Any]) -> list[Any]:
    """Returns the parts of a quota's entity as the answer has them."""
    part: Any = next(inner for field, inner, _ in kind.NESTED if field == "entity")
    return [part(each.entity_type, each.entity_name) for each in entity]


def is_same(asked: Any, answered: Any) -> bool:
    """Returns whether an element of an answer is about what an element of the request names."""
    if not isinstance(asked, WireStruct):
        return bool(asked == getattr(answered, _field_of_plain(type(answered))))
    topic_id = getattr(asked, "topic_id", ZERO_UUID)
    if topic_id != ZERO_UUID and hasattr(answered, "topic_id"):
        return bool(topic_id == answered.topic_id)
    for mine, other in _shared(type(asked), type(answered)):
        one, two = getattr(asked, mine), getattr(answered, other)
        if other == "topic_id" or one is None or two is None:
            continue
        if other == "entity":
            if _parts_of(one) != _parts_of(two):
                return False
        elif one != two:
            return False
    return True


def _parts_of(entity: list[Any]) -> list[tuple[str, str | None]]:
    return sorted((each.entity_type, each.entity_name or "") for each in entity)

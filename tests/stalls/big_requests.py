"""Requests with as many items as a broker takes: for each list that an API's request has, one in which that list is long.

What the items name decides what they cost, so each list comes in three ways: the same thing again and again, things that are all
different and not there, and things that are there.
"""

from __future__ import annotations

import copy
import struct
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, Final, NamedTuple

from ottla.wire.api import Api
from ottla.wire.items import count_items, layout_of
from ottla.wire.primitives import ZERO_UUID, WireStruct
from tests.odd_requests import Maker, Way

TOPICS: Final = 30
"""The number of topics besides the one with PARTITIONS."""
PARTITIONS: Final = 30
NUMBERED: Final = frozenset({"partition_index", "partition", "index", "partition_id", "partitions", "partition_indexes"})
"""Whole numbers that say which one is meant; all others say something about it."""
KINDS: Final = frozenset({"entity_type", "key"})
"""Texts that say what the item is about; only few can be there, and all others are refused."""
USUAL_HERE: Final[dict[str, dict[str, Any]]] = {
    "DeleteTopicState": {"topic_id": ZERO_UUID},
    "AlterConfigsResource": {"resource_type": 16},
    "AlterableConfig": {"name": "interval.ms", "value": "1000", "config_operation": 0},
    "CreatePartitionsTopic": {"assignments": None},
    "ComponentData": {"match_type": 2},
}
"""Fields of items that would get each of them refused otherwise, by the item's class: a topic is deleted by its name or its id,
for instance, and the settings of other resources than subscriptions of metrics need these to exist."""
WAYS: Final = ("the same", "unknown", "existing")


class BigRequest(NamedTuple):
    """A request with a list of so many `items`; `path` is the list's, and `way` how its items differ."""

    path: str
    way: str
    items: int
    with_items: Callable[[int], bytes]
    """Returns the body with so many items in the list."""


def topic_name(number: int) -> str:
    return f"many-{number}"


def big_requests(
    api: Api,
    version: int,
    most: int,
    topic: str,
    topic_ids: list[bytes],
    change: Callable[[Any], Any] = lambda request: request,
) -> Iterator[BigRequest]:
    """Yields, for each list, the requests in which it is so long that the request has about `most` items. `topic_ids` begins with
    the id of `topic`. `change` returns what is sent in place of a request."""
    maker = Maker(api.module, topic, topic_ids[0], 1)
    encode = import_module(f"ottla.wire.messages.{api.module}").ENCODE_REQUEST[version]
    layout = layout_of(api.key, version)
    assert layout is not None
    for path, field in maker.paths(f"{api.name}Request"):
        if field.is_array:
            for way in WAYS:

                def body(count: int, path: Way = path, name: str = field.name, way: str = way) -> bytes:
                    parts: list[Any] = []
                    request = maker.request(api, path, _lengthened(way, count, name, topic_ids))
                    encode(change(copy.deepcopy(request)), parts)
                    return b"".join(parts)

                try:
                    (one, _), (two, _) = (count_items(layout, body(count), 0, most) for count in (1, 2))
                    if one == two:
                        continue  # this version does not have it
                    count = (most - one) // (two - one)
                    body(count)
                    yield BigRequest(".".join(path), way, count, body)
                except (struct.error, TypeError, ValueError, AttributeError, OverflowError, IndexError, AssertionError):
                    continue  # no client can say this in this version


def _lengthened(way: str, count: int, name: str, topic_ids: list[bytes]) -> Callable[[list[Any]], list[Any]]:
    def lengthen(usual: list[Any]) -> list[Any]:
        (element,) = usual
        if way == "the same":
            return [_usual_here(copy.copy(element))] * count
        return [_usual_here(_other(element, name, at, way == "existing", topic_ids)) for at in range(count)]

    return lengthen


def _usual_here(item: Any) -> Any:
    """Gives an item, and those within it, what they need to be accepted."""
    if isinstance(item, WireStruct):
        for field in item.__slots__:
            value = getattr(item, field)
            if isinstance(value, list):
                setattr(item, field, [_usual_here(copy.copy(each)) for each in value])
        for field, value in USUAL_HERE.get(type(item).__name__, {}).items():
            setattr(item, field, value)
    return item


def _other(value: Any, name: str, at: int, existing: bool, topic_ids: list[bytes]) -> Any:
    """Returns what the item with number `at` has in place of `value`."""
    if isinstance(value, WireStruct):
        changed = copy.copy(value)
        for field in value.__slots__:
            setattr(changed, field, _other(getattr(value, field), field, at, existing, topic_ids))
        return changed
    if isinstance(value, list):
        return [_other(each, name, at, existing, topic_ids) for each in value]
    if isinstance(value, str) and name not in KINDS:
        return topic_name(at % TOPICS) if existing else f"{value}-{at}"
    if isinstance(value, bytes) and name.endswith(("_id", "_ids")):
        return topic_ids[at % len(topic_ids)] if existing else (at + 1).to_bytes(16, "big")
    if isinstance(value, int) and name in NUMBERED:
        return at % PARTITIONS if existing else at
    return value

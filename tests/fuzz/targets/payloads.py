"""Payloads that clients and operators put inside requests and files in a form of its own: an input is a kind and its bytes.

- Metrics (OTLP), subscriptions and assignments of consumers are read, or refused with the error that their reader names. No more
  numbers come out than bytes went in.
- A regular expression of a subscription is refused with a GroupError, or matches like any other.
- The value of a setting is refused with a ConfigError, or is written as a text that means the same; so are a broker's listeners.
  A properties file is read or refused with a ConfigError.
- Uuids and the keys of share partitions are read, or refused, and what was read is written as it was or in its plain form.
"""

from __future__ import annotations

import contextlib
import functools
import math
import struct
from collections.abc import Callable, Iterator
from typing import Any, Final

from ottla.log.config import TOPIC_SETTINGS
from ottla.log.config_def import ConfigError, Setting
from ottla.log.disk import checkpoint
from ottla.log.properties import parse_properties
from ottla.server.base.turns import at_once
from ottla.server.group.classic.group import subscription_topics
from ottla.server.group.consumer.embedded import read_assignment, read_subscription, version_of
from ottla.server.group.consumer.regexes import check_regex, match
from ottla.server.group.errors import GroupError
from ottla.server.settings.listeners import PROTOCOLS, parse_addresses, parse_protocol_map
from ottla.server.share_state.state import key_of, parse_key
from ottla.server.telemetry.otlp import Malformed, points
from ottla.wire.frame import MALFORMED
from ottla.wire.messages.internal import consumer_protocol_assignment, consumer_protocol_subscription
from ottla.wire.primitives import uuid_from_text, uuid_to_text
from tests import otlp
from tests.fuzz.draw import Draw
from tests.fuzz.round_trip import encoded, round_trip

_TOPICS: Final = ("t", "topic", "a.b_c", "ärger", "", "t" * 249)


def _metrics(data: bytes) -> None:
    count = 0
    with contextlib.suppress(Malformed):
        for point in points(data):
            count += 1
            assert list(point.attributes) == sorted(point.attributes)
            assert isinstance(point.value, float)
    assert count <= len(data)


def _subscription(data: bytes) -> None:
    topics: list[str] | None = None
    with contextlib.suppress(struct.error, ValueError):
        topics = subscription_topics(data)
    try:
        found = read_subscription(data)
    except MALFORMED:
        return
    if topics is not None:
        assert [topic.encode() for topic in topics] == [topic.encode() for topic in found.topics]
    schema = consumer_protocol_subscription
    version = version_of(data)
    round_trip(schema.DECODE[version], schema.ENCODE[version], data, 2)


def _assignment(data: bytes) -> None:
    try:
        read_assignment(data)
    except MALFORMED:
        return
    schema = consumer_protocol_assignment
    version = version_of(data)
    round_trip(schema.DECODE[version], schema.ENCODE[version], data, 2)


def _regex(data: bytes) -> None:
    expression = data.decode(errors="replace")  # as every string of a request
    try:
        check_regex(expression)
    except GroupError:
        return
    found = at_once(match([expression, "t"], _TOPICS))
    assert found["t"] == frozenset("t") or expression == "t"
    assert (found[expression] or frozenset()) <= set(_TOPICS)


@functools.cache
def _settings() -> list[Setting]:
    return [TOPIC_SETTINGS[name] for name in sorted(TOPIC_SETTINGS)]


def _setting(data: bytes) -> None:
    draw = Draw(data)
    setting = draw.one_of(_settings())
    try:
        value = setting.parse(draw.rest().decode(errors="replace"))
    except ConfigError:
        return
    text = setting.format(value)
    assert text is not None
    again = setting.parse(text)
    assert again == value or (isinstance(value, float) and math.isnan(value)) or _is_list_with_blanks(value)


def _is_list_with_blanks(value: object) -> bool:
    """Returns whether an element begins or ends with something that is not ASCII's white space, and yet is stripped."""
    return isinstance(value, tuple) and any(word != word.strip() for word in value)


def _listeners(data: bytes) -> None:
    text = data.decode(errors="replace")
    with contextlib.suppress(ConfigError):
        parse_protocol_map(text)
    try:
        found = parse_addresses("listeners", text.split(","), {name: name for name in PROTOCOLS})
    except ConfigError:
        return
    assert parse_addresses("listeners", map(str, found), {name: name for name in PROTOCOLS}) == found


def _properties(data: bytes) -> None:
    try:
        entries = list(parse_properties(data))
    except ConfigError:
        return
    lines = [number for _, _, number in entries]
    assert lines == sorted(set(lines))
    for key, value, _ in entries:
        (key + value).encode()  # it is text


def _meta(data: bytes) -> None:
    text = data.decode(errors="replace")
    for key, value in checkpoint.parse_properties(text).items():
        assert key == key.strip()
        assert "\n" not in value


def _uuid(data: bytes) -> None:
    text = data.decode(errors="replace")
    try:
        uuid = uuid_from_text(text)
    except ValueError:
        return
    assert uuid_from_text(uuid_to_text(uuid)) == uuid


def _share_key(data: bytes) -> None:
    name = parse_key(data.decode(errors="replace"))
    if name is not None:
        assert parse_key(key_of(name)) == name


_READERS: Final[tuple[Callable[[bytes], None], ...]] = (
    _metrics,
    _subscription,
    _assignment,
    _regex,
    _setting,
    _listeners,
    _properties,
    _meta,
    _uuid,
    _share_key,
)


def check(data: bytes) -> None:
    draw = Draw(data)
    draw.one_of(_READERS)(draw.rest())


def seeds() -> Iterator[bytes]:
    metrics = otlp.metrics_data(
        otlp.gauge("g", otlp.point(1.5), otlp.point(-7, {"t": otlp.text("x")})), otlp.total("d", otlp.point(3))
    )
    samples: dict[Callable[[bytes], None], list[bytes]] = {
        _metrics: [metrics],
        _subscription: [
            _embedded(consumer_protocol_subscription, "ConsumerProtocolSubscription", version) for version in range(4)
        ],
        _assignment: [_embedded(consumer_protocol_assignment, "ConsumerProtocolAssignment", version) for version in range(4)],
        _regex: [b"t.*", b"(?i)[a-z]+\\.b_c|(x{2,3})", b"(?P<n>t)"],
        _setting: [
            bytes([number]) + (_settings()[number].format(_settings()[number].default) or "1").encode()
            for number in range(len(_settings()))
        ],
        _listeners: [b"PLAINTEXT://127.0.0.1:9092,SSL://[::1]:0", b"A:PLAINTEXT,B:SSL"],
        _properties: [b"# c\na = b\\\n  c\nd\\u0041:\\t e\n", b"\xff=\xfe"],
        _meta: [b"#\nnode.id=1\ncluster.id=a\\:b\n"],
        _uuid: [uuid_to_text(bytes(range(16))).encode()],
        _share_key: [b"group:with:colons:" + uuid_to_text(bytes(range(16))).encode() + b":7"],
    }
    for read, contents in samples.items():
        for content in contents:
            yield bytes([_READERS.index(read)]) + content


def _embedded(schema: Any, name: str, version: int) -> bytes:
    message = getattr(schema, name)()
    if name.endswith("Subscription"):
        message.topics = ["t", "u"]
    else:
        message.assigned_partitions = [schema.TopicPartition("t", [0, 3])]
    return version.to_bytes(2, "big") + encoded(schema.ENCODE[version], message)

"""Metrics that clients push (KIP-714): matching clients with subscriptions, checking pushes, and keeping the numbers.

Kafka's broker hands pushed metrics to those of its reporters that accept them. By default it has none; then it advertises neither
API and still answers both: subscriptions are matched, pushes are checked, and what passes is dropped. ottla does the same, unless
`ottla.client.metrics` is true: then both APIs are advertised, and the numbers that clients push are kept (`Instance.numbers`) for
/metrics, as long as the client is known; deltas are summed. There is room for 1,000 numbers of each client, and 100,000 in all.

A subscription is a resource of type client-metrics: metric prefixes, an interval, and patterns, each of which must match the
whole of the client attribute that it names. A client gets the metrics of all subscriptions that match it, at the shortest of
their intervals; its subscription id changes whenever any of that does.

A *client instance* is identified by an id that the broker gives the client with its first request. It is forgotten when the
connection on which it first came is closed, after three intervals of silence (at least a minute), or when 16,384 others came
after it. Requests must not come too early:

- A Get before the interval is over since the last Get or Push is answered 89 THROTTLING_QUOTA_EXCEEDED, unless the last Push was
  refused with 117 or 76, which a client resolves with another Get.
- A Push before the interval is over since the last one is answered 89, unless it is the client's last one (`terminating`). A Push
  after the last one is answered 42 INVALID_REQUEST.

A change of subscriptions resets all of this.

Those who may write subscriptions choose the patterns, and any client chooses the texts against which they are matched. So they
are RE2's, with its bounds (server/base/expressions.py); a pattern with Java syntax that RE2 does not have (back references,
lookahead, possessive quantifiers) matches no client, and is logged. Subscriptions are matched one a step. What a client pushes is
unfolded and read in a thread if it is kept, and otherwise only unfolded, in steps. A client may be forgotten meanwhile, and
subscriptions may change: a client then gets what it was matched with, and its next request finds that there is another version.
"""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from ottla.log.config_def import ConfigError
from ottla.server.base.closing import Closes
from ottla.server.base.expressions import Expression, ExpressionError, compile_expression, matching
from ottla.server.base.randomness import random_uuid
from ottla.server.base.turns import call_in_thread
from ottla.server.metadata.image import CLIENT_METRICS, ConfigChanged
from ottla.server.settings.group_settings import CLIENT_METRICS_SETTINGS
from ottla.server.telemetry.otlp import Malformed, Point, points
from ottla.wire.compression import CompressionError, decompress, decompressed_pieces
from ottla.wire.crc import crc32c
from ottla.wire.errors import ErrorCode
from ottla.wire.primitives import uuid_to_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from random import Random

    from ottla.server.base.clock import Clock
    from ottla.server.base.turns import Steps, Workers
    from ottla.server.metadata.image import MetadataImage

logger = logging.getLogger("ottla.server.telemetry")

MAX_INSTANCES: Final = 16_384
MIN_EXPIRY_MS: Final = 60_000
EVERYTHING: Final = "*"
CODECS: Final = (4, 3, 1, 2)
"""The codecs that are accepted, the best first: zstd, lz4, gzip, snappy."""
NEVER_MS: Final = -1
_DEFAULT_INTERVAL_MS: Final = 300_000
MAX_NUMBERS: Final = 100_000
MAX_NUMBERS_OF_ONE: Final = 1000
MAX_COMPILED_BYTES: Final = 16 << 20
"""The memory of patterns that are kept compiled: about 60. Others are compiled for each new client."""
_RESOLVED_BY_GET: Final = (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
_RESERVED: Final = (bytes(16), bytes(15) + b"\x01")


Key = tuple[str, tuple[tuple[str, str], ...]]
"""The name of a metric, and its attributes as (name, value), sorted."""


class Subscription(NamedTuple):
    """The subscription of one client: the metrics in order, how often, and the id that identifies both."""

    metrics: tuple[str, ...]
    interval_ms: int
    id: int


class Instance:
    """One client instance. Patterns are matched against `attributes`; one that is None matches no pattern."""

    __slots__ = (
        "attributes",
        "last_error",
        "last_get_ms",
        "last_push_ms",
        "numbers",
        "seen_ms",
        "subscription",
        "terminating",
        "version",
    )

    def __init__(
        self, attributes: dict[str, str | None], numbers: dict[Key, float], subscription: Subscription, version: int
    ) -> None:
        self.attributes = attributes
        self.numbers = numbers
        """The numbers that it pushed last, by metric and attributes, if they are kept."""
        self.subscription = subscription
        self.version = version
        self.last_get_ms = NEVER_MS
        self.last_push_ms = NEVER_MS
        self.seen_ms = NEVER_MS
        self.last_error = ErrorCode.NONE
        self.terminating = False


class _Wish(NamedTuple):
    """A subscription as it was written: the last pattern of each attribute, the metrics, and how often."""

    patterns: dict[str, str]
    metrics: tuple[str, ...]
    interval_ms: int


class Client(Closes, Protocol):
    """The session of a client (server/requests/session.py)."""

    client_host: str
    client_port: int
    client_software: tuple[str, str]


class ClientTelemetry:
    """Answers the requests of clients about metrics, as the module's docstring says. It follows the image's subscriptions by
    itself."""

    def __init__(
        self,
        image: MetadataImage,
        clock: Clock,
        random: Random,
        max_bytes: int,
        workers: Callable[[], Workers],
        *,
        keeps: bool = False,
    ) -> None:
        self.max_bytes = max_bytes
        """The most bytes of one push, compressed and decompressed: telemetry.max.bytes."""
        self._keeps = keeps
        self._kept = 0
        self._image = image
        self._clock = clock
        self._random = random
        self._instances: dict[bytes, Instance] = {}  # in the order of their last requests
        self._by_client: dict[Client, bytes] = {}
        self._workers = workers
        self._version = 0  # changes whenever any subscription does
        self._names = {name: None for kind, name in image.configs if kind == CLIENT_METRICS}  # of subscriptions, in their order
        self._wishes: dict[str, _Wish] = {}  # those that were read since they changed, by name
        self._compiled: dict[str, Expression | None] = {}  # None for what RE2 does not accept
        self._compiled_bytes = 0
        image.subscribe(self._follow)

    def __len__(self) -> int:
        return len(self._instances)

    def _follow(self, event: object) -> None:
        if isinstance(event, ConfigChanged) and event.resource_type == CLIENT_METRICS:
            self._version += 1
            self._wishes.pop(event.name, None)
            if (CLIENT_METRICS, event.name) in self._image.configs:
                self._names[event.name] = None
            else:
                self._names.pop(event.name, None)
            self._compiled.clear()
            self._compiled_bytes = 0

    def _forget_client(self, client: Client) -> None:
        """Forgets the client instance that first came on a connection that is now closed."""
        instance_id = self._by_client.pop(client, None)
        if instance_id in self._instances:
            self._forget(instance_id)

    def numbers(self) -> Iterator[tuple[Instance, Key, float]]:
        """Yields the numbers of all clients that are kept. The numbers of each client are read when its turn comes."""
        for instance in list(self._instances.values()):
            for key, number in list(instance.numbers.items()):
                yield instance, key, number

    # The two requests

    def get(self, instance_id: bytes, client_id: str | None, client: Client) -> Steps[tuple[bytes, Subscription] | ErrorCode]:
        """Makes steps that answer a GetTelemetrySubscriptions with the id of the client instance, a new one for all zeros, and
        what it is to push, or with an error code if the request comes too early.
        """
        if instance_id == bytes(16):
            instance_id = self._new_id()
        instance = yield from self._instance(instance_id, client_id, client)
        now_ms = self._clock.now_ms()
        if _is_due(now_ms, max(instance.last_get_ms, instance.last_push_ms), instance):
            instance.last_get_ms = now_ms
        elif instance.last_error not in _RESOLVED_BY_GET:
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
        instance.last_error = ErrorCode.NONE
        return instance_id, instance.subscription

    def push(
        self,
        instance_id: bytes,
        client_id: str | None,
        client: Client,
        *,
        subscription_id: int,
        codec: int,
        metrics: bytes,
        terminating: bool,
    ) -> Steps[ErrorCode]:
        """Makes steps that take the metrics of a PushTelemetry, which are compressed by `codec`, and return the error code of the
        answer."""
        if instance_id in _RESERVED:
            return ErrorCode.INVALID_REQUEST
        instance = yield from self._instance(instance_id, client_id, client)
        error = self._check_push(instance, subscription_id, codec, metrics, terminating)
        instance.terminating = terminating
        instance.last_error = error
        if error is ErrorCode.NONE and metrics:
            try:
                if self._keeps:
                    known = frozenset(instance.numbers)
                    read = yield from call_in_thread(lambda: self._read(codec, metrics, known), self._workers)
                    self._keep(instance_id, instance, read)
                elif codec:
                    for _ in decompressed_pieces(codec, metrics, self.max_bytes):  # only to know whether it can be unfolded
                        yield None
            except (CompressionError, Malformed):
                instance.last_error = error = ErrorCode.INVALID_RECORD
        return error

    def _check_push(self, instance: Instance, subscription_id: int, codec: int, metrics: bytes, terminating: bool) -> ErrorCode:
        if instance.terminating:
            return ErrorCode.INVALID_REQUEST
        now_ms = self._clock.now_ms()
        if _is_due(now_ms, instance.last_push_ms, instance):
            instance.last_push_ms = now_ms
        elif not terminating:
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
        if subscription_id != instance.subscription.id:
            return ErrorCode.UNKNOWN_SUBSCRIPTION_ID
        if codec != 0 and codec not in CODECS:
            return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        if len(metrics) > self.max_bytes:
            return ErrorCode.TELEMETRY_TOO_LARGE
        return ErrorCode.NONE

    def _read(self, codec: int, metrics: bytes, known: frozenset[Key]) -> list[Point]:
        """Unfolds a push of a client with these numbers, and returns what may be kept of it, with its deltas summed: so little
        that the event loop can keep it at once. Raises CompressionError and Malformed.
        """
        unpacked = decompress(codec, metrics, self.max_bytes)
        numbers: dict[Key, Point] = {}
        most = len(known) + MAX_NUMBERS_OF_ONE
        for point in points(unpacked):
            key = point.name, point.attributes
            before = numbers.get(key)
            if before is not None and point.is_delta:
                numbers[key] = before._replace(value=before.value + point.value)
            elif before is not None or key in known or len(numbers) < most:
                numbers[key] = point
        return list(numbers.values())

    def _keep(self, instance_id: bytes, instance: Instance, read: list[Point]) -> None:
        """Keeps the numbers of a push, unless the client was forgotten meanwhile."""
        numbers = instance.numbers
        known = self._instances.get(instance_id)
        if known is None or known.numbers is not numbers:
            return
        for name, attributes, value, is_delta in read:
            key = name, attributes
            if key in numbers:
                numbers[key] = numbers[key] + value if is_delta else value
            elif len(numbers) < MAX_NUMBERS_OF_ONE and self._kept < MAX_NUMBERS:
                numbers[key] = value
                self._kept += 1

    # Instances

    def _new_id(self) -> bytes:
        while True:
            made = random_uuid(self._random)
            if made not in self._instances:
                return made

    def _instance(self, instance_id: bytes, client_id: str | None, client: Client) -> Steps[Instance]:
        """Makes steps that return the client instance of this id, a new one if there is none or it was forgotten."""
        now_ms = self._clock.now_ms()
        is_new_client = False
        instance = self._known(instance_id, now_ms)
        version = self._version
        if instance is None or instance.version != version:
            attributes = instance.attributes if instance else _attributes(instance_id, client_id, client)
            subscription = yield from self._subscription(instance_id, attributes)
            now_ms = self._clock.now_ms()
            instance = self._known(instance_id, now_ms)  # another request may have made it meanwhile, or it was forgotten
        if instance is None or instance.version < version:
            numbers = instance.numbers if instance else {}
            instance = Instance(attributes, numbers, subscription, version)
            is_new_client = client not in self._by_client
            self._by_client[client] = instance_id
        instance.seen_ms = now_ms
        self._instances.pop(instance_id, None)
        self._instances[instance_id] = instance
        self._forget_old(now_ms)
        if is_new_client:
            client.on_close(self._forget_client)  # last, for a client that has gone already is forgotten at once
        return instance

    def _known(self, instance_id: bytes, now_ms: int) -> Instance | None:
        """Returns the client instance of this id, which is forgotten now if it was silent for too long."""
        instance = self._instances.get(instance_id)
        if instance is not None and now_ms - instance.seen_ms >= _expiry_ms(instance):
            self._forget(instance_id)
            return None
        return instance

    def _forget(self, instance_id: bytes) -> None:
        instance = self._instances.pop(instance_id)
        self._kept -= len(instance.numbers)

    def _forget_old(self, now_ms: int) -> None:
        while True:
            oldest_id, oldest = next(iter(self._instances.items()))
            if len(self._instances) <= MAX_INSTANCES and now_ms - oldest.seen_ms < _expiry_ms(oldest):
                return
            self._forget(oldest_id)

    # Subscriptions

    def _subscription(self, instance_id: bytes, attributes: Mapping[str, str | None]) -> Steps[Subscription]:
        metrics: set[str] = set()
        interval_ms = _DEFAULT_INTERVAL_MS
        for name in list(self._names):
            yield None
            wish = self._wish(name)
            if wish is not None and (yield from self._matches(wish.patterns, attributes)):
                metrics.update(wish.metrics)
                interval_ms = min(interval_ms, wish.interval_ms)
        wanted = (EVERYTHING,) if EVERYTHING in metrics else tuple(sorted(metrics))
        return Subscription(wanted, interval_ms, _subscription_id(instance_id, wanted, interval_ms))

    def _wish(self, name: str) -> _Wish | None:
        """Returns the subscription of this name, None if it was deleted meanwhile."""
        wish = self._wishes.get(name)
        texts = self._image.configs.get((CLIENT_METRICS, name))
        if wish is None and texts is not None:
            wish = self._wishes[name] = _parsed(texts)
        return wish

    def _matches(self, patterns: Mapping[str, str], attributes: Mapping[str, str | None]) -> Steps[bool]:
        """Makes steps that return whether a client matches all patterns."""
        for key, pattern in patterns.items():
            compiled, value = self._compile(pattern), attributes.get(key)
            if value is None or compiled is None or not (yield from matching(compiled, [value], self._workers)):
                return False
        return True

    def _compile(self, pattern: str) -> Expression | None:
        """Returns the compiled pattern, None if RE2 does not accept it."""
        if pattern in self._compiled:
            return self._compiled[pattern]
        compiled = None
        try:
            compiled = compile_expression(pattern)
        except ExpressionError as error:
            logger.warning("the pattern %r of a client-metrics subscription matches no client: %s", pattern, error)
        memory = compiled.memory if compiled is not None else len(pattern)
        if self._compiled_bytes + memory <= MAX_COMPILED_BYTES:
            self._compiled[pattern] = compiled
            self._compiled_bytes += memory
        return compiled


def _is_due(now_ms: int, last_ms: int, instance: Instance) -> bool:
    return last_ms == NEVER_MS or now_ms - last_ms >= instance.subscription.interval_ms


def _expiry_ms(instance: Instance) -> int:
    return max(MIN_EXPIRY_MS, 3 * instance.subscription.interval_ms)


def _attributes(instance_id: bytes, client_id: str | None, client: Client) -> dict[str, str | None]:
    """Returns the attributes of a client against which patterns are matched, by the names of KIP-714."""
    name, version = client.client_software
    return {
        "client_instance_id": uuid_to_text(instance_id),
        "client_id": client_id,
        "client_software_name": name,
        "client_software_version": version,
        "client_source_address": client.client_host,
        "client_source_port": str(client.client_port),
    }


def _parsed(texts: Mapping[str, str]) -> _Wish:
    """Returns a subscription, with those of its settings that can be parsed. A data directory of Kafka may have others. Each
    element of `match` is `key=regular expression`; the last one of a key counts. They are not checked again: one that is not
    valid here matches no client.
    """
    values: dict[str, Any] = {}
    for name, text in texts.items():
        with contextlib.suppress(ConfigError, KeyError):
            setting = CLIENT_METRICS_SETTINGS[name]
            values[name] = (setting._replace(check=None) if name == "match" else setting).parse(text)
    split = (pair.partition("=") for pair in values.get("match", ()))
    patterns = {key.strip(): pattern.strip() for key, _, pattern in split}
    return _Wish(patterns, tuple(values.get("metrics", ())), values.get("interval.ms", _DEFAULT_INTERVAL_MS))


def _subscription_id(instance_id: bytes, metrics: tuple[str, ...], interval_ms: int) -> int:
    """Returns the subscription id as Kafka computes it: CRC-32C of the terms as Java prints a list, xor Java's hash of the
    client's id."""
    high, low = int.from_bytes(instance_id[:8], "big"), int.from_bytes(instance_id[8:], "big")
    folded = high ^ low
    value = crc32c(f"[{', '.join(metrics)}]{interval_ms}".encode()) ^ (folded >> 32) ^ (folded & 0xFFFFFFFF)
    return value - (1 << 32) if value >> 31 else value

"""A connection of our own, for requests that librdkafka cannot send: bytes on disk, broker defaults, broker loggers.

It talks to one broker, one request at a time, blocking, with the codecs of ottla.wire. It follows the same properties as
librdkafka:

| security.protocol | |
|---|---|
| plaintext (the default), ssl | ssl.ca.location, ssl.certificate.location, ssl.key.location, ssl.key.password, or PEM in ssl.ca.pem, ssl.certificate.pem, ssl.key.pem; ssl.cipher.suites, enable.ssl.certificate.verification, ssl.endpoint.identification.algorithm |
| sasl_plaintext, sasl_ssl | sasl.mechanism PLAIN, SCRAM-SHA-256 or -512 with sasl.username and sasl.password; OAUTHBEARER with a token that nobody signs; with another, Failure |

Any other `ssl.` property is a Failure, too, since whoever set it relies on it. Each request has the highest version that both
sides know, by ApiVersions. Everything that goes wrong is a Failure in words: no connection, no answer within the cluster's
timeout, a request that the broker does not know, or an error code, which is explained in the same words as librdkafka's errors.
"""  # noqa: E501 - a row of the table

from __future__ import annotations

import secrets
import socket
import ssl
import struct
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, partial
from typing import Any, Final, NamedTuple

from ottla.commands.clients.client import Cluster, explain
from ottla.commands.clients.login import MECHANISMS, OAUTHBEARER, log_in, send_token
from ottla.commands.clients.partition import Partition
from ottla.commands.output import Failure
from ottla.security.pem import load_pem
from ottla.wire.api import APIS
from ottla.wire.header import decode_response_header, encode_request_header
from ottla.wire.messages import api_versions, describe_configs, describe_log_dirs, incremental_alter_configs, list_offsets

API_VERSIONS_VERSION: Final = 0  # the one that every broker answers in the same way
MAX_ANSWER_BYTES: Final = 256 << 20
CLIENT_ID: Final = "ottla"
KNOWN_TLS: Final = frozenset(
    {
        "ssl.ca.location",
        "ssl.certificate.location",
        "ssl.key.location",
        "ssl.key.password",
        "ssl.ca.pem",
        "ssl.cipher.suites",
        "ssl.certificate.pem",
        "ssl.key.pem",
        "ssl.endpoint.identification.algorithm",
    }
)
DEBUGGING: Final = -2
"""The replica id of a client that asks a broker about its own replica, whoever leads the partition."""
CONSUMER: Final = -1
"""The replica id of a client that asks as consumers do: the leader answers, up to the high watermark."""
LATEST: Final = -1
EARLIEST: Final = -2
NEWEST: Final = -3
"""The record with the greatest timestamp, since version 7 of ListOffsets."""
READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1
"""As this isolation level sees it, a log ends at its last stable offset."""
BROKER: Final = 4
BROKER_LOGGER: Final = 8


class PlaceInLog(NamedTuple):
    """An offset in a partition, and the timestamp of the record there, -1 if the broker tells none."""

    offset: int
    timestamp_ms: int


class Unsupported(Failure):
    """Raised for a request that the broker does not know."""


class Refused(Failure):
    """Raised for an answer that is an error; `code` is the protocol's."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class Connection:
    """A connection to one broker, ready for `call`."""

    def __init__(self, stream: socket.socket, who: str) -> None:
        self.stream = stream
        self.who = who
        self.correlation_id = 0
        self.versions: dict[int, tuple[int, int]] = {}

    def call(self, request: Any, version: int | None = None) -> Any:
        """Returns the answer to a request of ottla.wire.messages. The default version is the highest that both sides know."""
        module = sys.modules[type(request).__module__]
        if version is None:
            version = self._version(module)
        self.correlation_id += 1
        parts: list[Any] = [encode_request_header(module.API_KEY, version, self.correlation_id, CLIENT_ID)]
        module.ENCODE_REQUEST[version](request, parts)
        self.send(b"".join(parts))
        answer = self.receive()
        try:
            correlation_id, at = decode_response_header(module.API_KEY, version, answer, 0)
            if correlation_id != self.correlation_id:
                raise Failure(f"{self.who}: the answer belongs to another request")
            return module.DECODE_RESPONSE[version](answer, at)[0]
        except (IndexError, ValueError, struct.error):
            raise Failure(f"{self.who}: the answer cannot be decoded; this is not a Kafka broker") from None

    def send(self, frame: bytes) -> None:
        """Sends the frame of a request, which comes without its size."""
        with self._in_words():
            self.stream.sendall(struct.pack(">i", len(frame)) + frame)

    def receive(self) -> bytes:
        """Returns the next frame, without its size."""
        with self._in_words():
            (size,) = struct.unpack(">i", self._exactly(4))
            if not 0 <= size <= MAX_ANSWER_BYTES:
                raise Failure(f"{self.who}: not a Kafka broker")
            return self._exactly(size)

    @contextmanager
    def _in_words(self) -> Iterator[None]:
        try:
            yield
        except TimeoutError:
            raise Failure(f"{self.who}: no answer in time") from None
        except OSError as error:
            raise Failure(f"{self.who}: {error.strerror or error}") from None

    def _version(self, module: Any) -> int:
        low, high = self.versions.get(module.API_KEY, (0, -1))
        best = min(high, int(module.MAX_VERSION))
        if best < max(low, int(module.MIN_VERSION)):
            raise Unsupported(f"{self.who}: the broker does not support {APIS[module.API_KEY].name}")
        return best

    def _exactly(self, count: int) -> bytes:
        got = bytearray()
        while len(got) < count:
            data = self.stream.recv(min(count - len(got), 1 << 20))
            if not data:
                raise Failure(f"{self.who}: the broker closed the connection")
            got += data
        return bytes(got)


@contextmanager
def connect(cluster: Cluster, host: str, port: int) -> Iterator[Connection]:
    """Connects to a broker as the cluster's properties say. Raises Failure if that is not possible."""
    who = f"{host}:{port}"
    merged = {**cluster.file, **cluster.properties}
    encrypted, mechanism = _protocol(merged)
    try:
        plain = socket.create_connection((host, port), timeout=cluster.timeout_s)
    except OSError as error:
        raise Failure(f"{who}: {error.strerror or error}") from None
    with plain:
        try:
            stream = _context(merged).wrap_socket(plain, server_hostname=host) if encrypted else plain
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            raise Failure(f"{who}: TLS failed: {error}") from None
        with stream:
            connection = Connection(stream, who)
            answer = connection.call(api_versions.ApiVersionsRequest(), API_VERSIONS_VERSION)
            _check(who, answer.error_code)
            connection.versions = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
            if mechanism is not None:
                _log_in(connection, mechanism, merged)
            yield connection


def _protocol(properties: Mapping[str, str]) -> tuple[bool, str | None]:
    """Returns whether to encrypt, and the SASL mechanism, if any. Raises Failure for a mechanism that only librdkafka knows."""
    protocol = properties.get("security.protocol", "plaintext").lower()
    login = protocol.startswith("sasl_")
    mechanism = properties.get("sasl.mechanism") or properties.get("sasl.mechanisms", "GSSAPI")
    if login and mechanism not in MECHANISMS:
        known = ", ".join(MECHANISMS)
        raise Failure(f"this needs a connection of ottla's own, which can log in with {known} but not with {mechanism}")
    return protocol.endswith("ssl"), mechanism if login else None


def _context(properties: Mapping[str, str]) -> ssl.SSLContext:
    """Returns TLS as the properties say. Raises OSError for unusable files, and Failure for what only librdkafka can do."""
    if unknown := sorted(name for name in properties if name.startswith("ssl.") and name not in KNOWN_TLS):
        raise Failure(f"this needs a connection of ottla's own, which does not support {', '.join(unknown)}")
    authorities, inline = properties.get("ssl.ca.location"), properties.get("ssl.ca.pem")
    context = ssl.create_default_context(cafile=None if authorities in {None, "probe"} else authorities, cadata=inline)
    if properties.get("ssl.endpoint.identification.algorithm", "https") == "none":
        context.check_hostname = False
    if properties.get("enable.ssl.certificate.verification", "true").lower() in {"false", "f", "0"}:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE

    if suites := properties.get("ssl.cipher.suites"):
        context.set_ciphers(suites)

    def password() -> str:  # called only for an encrypted key; without it OpenSSL would ask on the terminal
        if (given := properties.get("ssl.key.password")) is None:
            raise Failure("the key in ssl.key.location is encrypted: put its password into ssl.key.password")
        return given

    if certificate := properties.get("ssl.certificate.location"):
        context.load_cert_chain(certificate, properties.get("ssl.key.location"), password)
    elif pem := properties.get("ssl.certificate.pem"):
        load_pem(context, (properties.get("ssl.key.pem", "") + "\n" + pem).encode(), password)
    return context


def _log_in(connection: Connection, mechanism: str, properties: Mapping[str, str]) -> None:
    from ottla.wire.messages import sasl_authenticate, sasl_handshake

    def exchange(message: bytes) -> bytes:
        answer = connection.call(sasl_authenticate.SaslAuthenticateRequest(message))
        _check(connection.who, answer.error_code, answer.error_message)
        return bytes(answer.auth_bytes)

    handshake = connection.call(sasl_handshake.SaslHandshakeRequest(mechanism), 1)
    _check(connection.who, handshake.error_code)
    if mechanism == OAUTHBEARER:
        send_token(properties, exchange, time.time())
        return
    name, password = properties.get("sasl.username", ""), properties.get("sasl.password", "")
    log_in(mechanism, name, password, exchange, secrets.token_urlsafe(24))


def _check(who: str, code: int, message: str | None = None) -> None:
    if code != 0:
        raise Failure(f"{who}: {words(code, message)}")


def words(code: int, message: str | None = None) -> str:
    """Explains an error code of the protocol in words, with the broker's own message if there is one."""
    from confluent_kafka import KafkaError

    return explain(KafkaError(code, message) if message else KafkaError(code))


# The questions


def log_sizes(connection: Connection, wanted: Mapping[str, Iterable[int]]) -> dict[Partition, int]:
    """Returns the bytes of the broker's log of each of these partitions. Partitions that it does not have are left out."""
    topics = [describe_log_dirs.DescribableLogDirTopic(topic, list(numbers)) for topic, numbers in wanted.items()]
    answer = connection.call(describe_log_dirs.DescribeLogDirsRequest(topics))
    _check(connection.who, answer.error_code)
    return {
        Partition(topic.name, one.partition_index): one.partition_size
        for directory in answer.results
        for topic in directory.topics
        for one in topic.partitions
        if not one.is_future_key
    }


def offsets(
    connection: Connection,
    wanted: Mapping[str, Iterable[int]],
    place: int,
    *,
    replica_id: int = CONSUMER,
    isolation_level: int = READ_UNCOMMITTED,
) -> dict[Partition, PlaceInLog]:
    """Returns where a place (EARLIEST, LATEST, NEWEST, or a time in ms since 1970) is in each of these partitions. Those for
    which the broker answers with an error are left out."""
    return {
        Partition(topic.name, one.partition_index): PlaceInLog(one.offset, one.timestamp)
        for topic in _ask_offsets(connection, wanted, place, replica_id, isolation_level)
        for one in topic.partitions
        if one.error_code == 0
    }


def ends(
    connection: Connection, wanted: Mapping[str, Iterable[int]], isolation_level: int = READ_UNCOMMITTED
) -> dict[str, dict[int, int]]:
    """Returns the end offset of each of these partitions as this isolation level sees it, by topic and number: the cheapest form
    for very many. Those for which the broker answers with an error are left out."""
    return _by_topic(_ask_offsets(connection, wanted, LATEST, CONSUMER, isolation_level))


def begins(connection: Connection, wanted: Mapping[str, Iterable[int]]) -> dict[str, dict[int, int]]:
    """Returns the first offset of each of these partitions, as `ends` does."""
    return _by_topic(_ask_offsets(connection, wanted, EARLIEST, CONSUMER, READ_UNCOMMITTED))


def _by_topic(topics: Iterable[list_offsets.ListOffsetsTopicResponse]) -> dict[str, dict[int, int]]:
    return {topic.name: {one.partition_index: one.offset for one in topic.partitions if one.error_code == 0} for topic in topics}


def _ask_offsets(
    connection: Connection, wanted: Mapping[str, Iterable[int]], place: int, replica_id: int, isolation_level: int
) -> list[list_offsets.ListOffsetsTopicResponse]:
    asked = cache(partial(list_offsets.ListOffsetsPartition, timestamp=place))  # the same for each topic
    topics = [list_offsets.ListOffsetsTopic(topic, [asked(one) for one in dict.fromkeys(of)]) for topic, of in wanted.items()]
    answer = connection.call(list_offsets.ListOffsetsRequest(replica_id, isolation_level, topics))
    return list(answer.topics)


def log_ends(connection: Connection, wanted: Mapping[str, Iterable[int]]) -> dict[Partition, int]:
    """Returns the end offset of the broker's own log of each of these partitions. Those that it cannot tell are left out."""
    return {where: end.offset for where, end in offsets(connection, wanted, LATEST, replica_id=DEBUGGING).items()}


def configs(connection: Connection, resource_type: int, name: str) -> list[Any]:
    """Returns the DescribeConfigsResourceResult of every setting of a resource."""
    resource = describe_configs.DescribeConfigsResource(resource_type, name, None)
    answer = connection.call(describe_configs.DescribeConfigsRequest([resource]))
    (result,) = answer.results
    if result.error_code != 0:
        raise Failure(words(result.error_code, result.error_message))
    return list(result.configs)


def alter_configs(
    connection: Connection, resource_type: int, name: str, operations: Iterable[tuple[str, int, str | None]], *, dry_run: bool
) -> None:
    """Changes settings of a resource, given as (setting, operation, value). Raises Failure with the broker's reason."""
    make: Callable[..., Any] = incremental_alter_configs.AlterableConfig
    entries = [make(key, operation, value) for key, operation, value in operations]
    resource = incremental_alter_configs.AlterConfigsResource(resource_type, name, entries)
    answer = connection.call(incremental_alter_configs.IncrementalAlterConfigsRequest([resource], validate_only=dry_run))
    (result,) = answer.responses
    if result.error_code != 0:
        raise Failure(words(result.error_code, result.error_message))

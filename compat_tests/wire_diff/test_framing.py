"""Frames, headers, ApiVersions: what a broker does with bytes before it knows what they mean (docs/kafka-behaviour.md)."""

from __future__ import annotations

import struct
import time
from typing import Any

import pytest

from compat_tests.wire import TIME_MS, Connection, Wire, batch, encode
from compat_tests.wire_diff.same import check, same_answer
from ottla.wire.messages import api_versions, fetch, init_producer_id, metadata, produce

HEARTBEAT, VOTE, LEADER_AND_ISR = 12, 52, 4
HALF_FRAME_SILENCE_S = 1.0


def request_header(key: int, version: int, correlation_id: int = 7) -> bytes:
    return struct.pack(">hhih", key, version, correlation_id, -1)


def after(connection: Connection, frame: bytes) -> Any:
    """Returns whether a frame is answered: CLOSED, SILENT or "answered"."""
    connection.send_frame(frame)
    answer = connection.receive()
    return answer if isinstance(answer, str) else "answered"


@pytest.mark.parametrize("version", range(6))
def test_api_versions(wires: dict[str, Wire], version: int) -> None:
    """Checks that what ottla advertises, Apache Kafka advertises with the same range; features and keys may be fewer, never
    more."""
    request = api_versions.ApiVersionsRequest("compat", "1.0")
    ottla, kafka = (wires[kind].call(request, version) for kind in ("ottla", "kafka"))
    assert (ottla.error_code, kafka.error_code) == (0, 0)
    theirs = {key.api_key: (key.min_version, key.max_version) for key in kafka.api_keys}
    ours = {key.api_key: (key.min_version, key.max_version) for key in ottla.api_keys}
    assert ours == {key: theirs.get(key) for key in ours}
    assert {0, 1, 2, 3, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 19, 20, 21, 22, 32, 37, 42, 44} <= ours.keys()
    levels = {feature.name: feature.max_version_level for feature in kafka.finalized_features}
    assert {f.name for f in ottla.finalized_features} <= levels.keys()
    assert all(f.max_version_level <= levels[f.name] for f in ottla.finalized_features)


@same_answer("AVmax")
def test_a_too_new_api_versions_gets_a_version_0_body(wire: Wire) -> Any:
    connection = wire.connect()
    connection.send_frame(request_header(18, 99) + b"\0")
    frame = connection.receive()
    assert isinstance(frame, bytes), frame
    answer, end = api_versions.DECODE_RESPONSE[0](frame, 4)
    rest = len(frame) - end
    own = [key for key in answer.api_keys if key.api_key == 18]
    connection.correlation_id = 7
    return frame[:4], answer.error_code, own, rest, connection.call(api_versions.ApiVersionsRequest(), 0).error_code


@pytest.mark.parametrize(
    ("name", "version"), [("", "1.0"), ("bad name!", "1.0"), ("-x", "1"), ("ok", ""), ("ok", "a b"), ("a.b-c", "1.0-rc.1")]
)
def test_client_software_name(wires: dict[str, Wire], name: str, version: str) -> None:
    def scenario(wire: Wire) -> Any:
        answer = wire.call(api_versions.ApiVersionsRequest(name, version), 3)
        return answer.error_code, bool(answer.api_keys)

    check(wires, "AVname", scenario)


@same_answer("AVcl2")
def test_api_versions_checks_cluster_and_node(wire: Wire) -> Any:
    cluster = wire.metadata().cluster_id
    asked = [
        (cluster, 1),
        (cluster, 5),
        ("AAAAAAAAAAAAAAAAAAAAAA", -1),
        ("AAAAAAAAAAAAAAAAAAAAAA", 1),
        (cluster, -1),
        (None, 1),
        (None, 5),
    ]
    answers = [wire.call(api_versions.ApiVersionsRequest("compat", "1", *who), 5) for who in asked]
    return [(answer.error_code, bool(answer.api_keys)) for answer in answers]


UNKNOWN = {
    "UNKKEY2 removed key": request_header(LEADER_AND_ISR, 0),
    "unknown key": request_header(12345, 0),
    "negative key": request_header(-1, 0),
    "BADVER unknown version": request_header(3, 99) + b"\0\0",
    "negative version": request_header(3, -1),
    "BADVER2 below the oldest": request_header(1, 3) + bytes(40),
    "IPID6 unstable version": request_header(22, 6) + b"\0\0" + bytes(20),
    "CTRL controller's own": request_header(VOTE, 0) + b"\0\0\1\0",
    "not a header": b"\0\3\0",
    "TRUNC half a body": encode(metadata.MetadataRequest([metadata.MetadataRequestTopic(name="t")]), 1, 1)[:-2],
    "no body": request_header(HEARTBEAT, 0),
    "array longer than the frame": request_header(3, 1) + struct.pack(">i", 1_000_000_000),
    "string longer than the frame": request_header(3, 1) + struct.pack(">ih", 1, 30_000),
    "null array in version 0": request_header(3, 0) + struct.pack(">i", -1),
    "negative array length": request_header(3, 1) + struct.pack(">i", -7),
    "overlong varint": request_header(3, 9) + b"\0" + b"\xff" * 11,
    "client id longer than the frame": struct.pack(">hhih", 3, 1, 1, 500),
    "SIZE0 empty frame": b"",
}


@pytest.mark.parametrize("what", UNKNOWN)
def test_what_cannot_be_read(wires: dict[str, Wire], what: str) -> None:
    check(wires, what, lambda wire: after(wire.connect(), UNKNOWN[what]))


@pytest.mark.parametrize("extra", [b"\0", bytes(100)])
def test_bytes_behind_the_body(wires: dict[str, Wire], extra: bytes) -> None:
    """A longer body than the version has. Kafka reads what it knows."""
    frame = encode(metadata.MetadataRequest([]), 1, 7) + extra
    check(wires, "bytes behind the body", lambda wire: after(wire.connect(), frame))


RAW = {
    "SIZENEG negative size": struct.pack(">i", -1) + b"abc",
    "SIZEBIG 200 MiB": struct.pack(">i", 200 << 20),
    "just over socket.request.max.bytes": struct.pack(">i", (100 << 20) + 1),
    "http": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "tls hello": bytes.fromhex("16030100a5010000a10303") + bytes(160),
    "garbage": bytes(range(255, 127, -1)) * 8,
}


@pytest.mark.parametrize("what", RAW)
def test_what_is_not_a_frame(wires: dict[str, Wire], what: str) -> None:
    def send(wire: Wire) -> Any:
        connection = wire.connect()
        connection.send_raw(RAW[what])
        return connection.receive()

    check(wires, what, send)


@same_answer("UTF")
def test_invalid_utf8_in_a_topic_name(wire: Wire) -> Any:
    connection = wire.connect()
    connection.send_frame(request_header(3, 1, 1) + struct.pack(">ih", 1, 2) + b"\xff\xfe")
    connection.correlation_id = 1
    return [(t.error_code, t.name) for t in connection.answer(metadata, 1).topics]


@same_answer("TAGS")
def test_unknown_tagged_fields_are_skipped(wire: Wire) -> Any:
    header = struct.pack(">hhih", 3, 9, 1, -1) + b"\2" + b"\x64\3abc" + b"\x65\0"
    body = b"\1" + b"\0\0\0" + b"\1" + b"\x63\4wxyz"
    connection = wire.connect()
    connection.send_frame(header + body)
    connection.correlation_id = 1
    return connection.answer(metadata, 9)


def correlation_id(answer: bytes | str) -> Any:
    assert isinstance(answer, bytes), answer
    return struct.unpack_from(">i", answer)[0]


@same_answer("PIPE")
def test_pipelined_requests_are_answered_in_order(wire: Wire) -> Any:
    connection = wire.connect()
    frames = [encode(metadata.MetadataRequest([]), 1, n) for n in range(1, 21)]
    connection.send_raw(b"".join(struct.pack(">i", len(frame)) + frame for frame in frames))
    return [correlation_id(connection.receive()) for _ in frames]


@same_answer("a frame in single bytes")
def test_a_frame_in_single_bytes(wire: Wire) -> Any:
    connection = wire.connect()
    frame = encode(metadata.MetadataRequest([]), 1, 1)
    for byte in struct.pack(">i", len(frame)) + frame:
        connection.send_raw(bytes([byte]))
    connection.correlation_id = 1
    return connection.answer(metadata, 1)


@same_answer("ORD")
def test_a_long_poll_holds_back_the_requests_behind_it(wire: Wire) -> Any:
    """One connection, in order: Metadata sent behind a waiting Fetch is answered after it; other connections go on."""
    topic = wire.create("t")
    connection, other = wire.connect(), wire.connect()
    connection.send(wire.fetch_request(topic, max_wait_ms=700), 12)
    fetched_id = connection.correlation_id
    connection.send(metadata.MetadataRequest([]), 1)
    assert other.call(metadata.MetadataRequest([]), 1).brokers
    connection.correlation_id = fetched_id
    first = connection.answer(fetch, 12)
    connection.correlation_id += 1
    return first, connection.answer(metadata, 1).brokers


@same_answer("half a frame and silence")
def test_half_a_frame_and_silence_disturbs_nobody(wire: Wire) -> Any:
    topic = wire.create("t")
    stuck = wire.connect()
    whole = encode(wire.produce_request(topic, batch(b"never acknowledged")), 9, 1)
    stuck.send_raw(struct.pack(">i", len(whole)) + whole[:-10])
    other = wire.connect()
    answers = [other.call(wire.produce_request(topic, batch(b"x")), 9) for _ in range(3)]
    nothing = stuck.receive(HALF_FRAME_SILENCE_S)
    stuck.send_raw(whole[-10:])  # the rest comes after all
    stuck.correlation_id = 1
    return nothing, answers, stuck.answer(produce, 9), other.call(wire.fetch_request(topic), 12)


@same_answer("sockets closed in the middle")
def test_a_closed_socket_in_the_middle_disturbs_nobody(wire: Wire) -> Any:
    """Left in the middle of a frame, while a long poll waits, and with an answer unread: the others go on, nothing is lost."""
    topic = wire.create("t")
    whole = encode(wire.produce_request(topic, batch(b"x" * 5000)), 9, 1)
    for cut in (2, 4, 30, len(whole) - 1):
        leaving = wire.connect()
        leaving.send_raw((struct.pack(">i", len(whole)) + whole)[:cut])
        leaving.close()
    waiting = wire.connect()
    waiting.send(wire.fetch_request(topic, max_wait_ms=20_000), 12)
    waiting.close()
    unread = wire.connect()
    for _ in range(20):
        unread.send(metadata.MetadataRequest(None), 1)
    unread.close()
    other = wire.connect()
    return other.call(wire.produce_request(topic, batch(b"after")), 9), other.call(wire.fetch_request(topic), 12)


@same_answer("NOAV")
def test_requests_before_any_api_versions(wire: Wire) -> Any:
    return wire.connect().call(metadata.MetadataRequest([]), 1)


@same_answer("different requests in their order")
def test_different_requests_on_one_connection_keep_their_order(wire: Wire) -> Any:
    topic = wire.create("t")
    connection = wire.connect()
    requests = [
        (wire.produce_request(topic, batch(b"a", first_ms=TIME_MS)), 9),
        (wire.fetch_request(topic, 0, max_wait_ms=100, min_bytes=1 << 20), 12),
        (init_producer_id.InitProducerIdRequest(None, 1000), 4),
        (wire.produce_request(topic, batch(b"b")), 9),
        (wire.fetch_request(topic, 1), 12),
    ]
    for request, version in requests:
        connection.send(request, version)
    return [correlation_id(connection.receive()) for _ in requests]


def test_an_idle_long_poll_ends_when_its_time_is_over(wires: dict[str, Wire]) -> None:
    """Not before its time: an early empty answer would make clients spin."""
    for wire in wires.values():
        topic = wire.create("t")
        wire.produce(topic, batch(b"x"))  # Kafka ends waiting fetches once while a partition is new
        started = time.monotonic()
        answer = wire.fetch(topic, 1, max_wait_ms=600)
        assert time.monotonic() - started >= 0.55, (wire.kind, answer)
        assert not answer.responses[0].partitions[0].records

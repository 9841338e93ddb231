"""The attack list: what strangers and users without rights try at a broker that is open to them, by counts and bounds.

docs/security.md lists every attack with the test that tries it; what Kafka answers as well is in test_sasl_wire.py and wire_diff.
Here is what only ottla promises: bounds of memory, and that a neighbour is served meanwhile. The neighbour comes from an address
of its own, as the crowd does.
"""

from __future__ import annotations

import gzip
import socket
import ssl
import struct
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import cramjam
import pytest
import zstandard
from crc32c import crc32c

from compat_tests.certificates import authority, client_context, issue
from compat_tests.logging_in import PasswordBroker
from compat_tests.reference.kafka import HOST, free_port
from compat_tests.test_sasl_wire import ALICE, BOB, PLAIN, S256, S512, Talk
from compat_tests.topics import make_topics
from compat_tests.waiting import wait_for
from compat_tests.wire import CLOSED, Connection, batch, encode
from ottla.wire.batch import HEADER_SIZE
from ottla.wire.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD
from ottla.wire.errors import ErrorCode
from ottla.wire.messages import api_versions, fetch, list_offsets, metadata, produce, sasl_authenticate, sasl_handshake

CROWD: Final = "127.0.0.2"
HALF_OPEN: Final = 10_000
MOST_GROWTH: Final = 50 << 20
ANNOUNCED: Final = 100_000_000
TOPIC: Final = "attacked"
ROOT: Final = authority()
_LENGTH, _CRC = slice(8, 12), slice(17, 21)
_ATTRIBUTES: Final = 21  # two bytes of a batch's header


class OpenHouse(PasswordBroker):
    """A broker with a listener for logins and one for TLS, and access rules: alice may do everything, bob nothing."""

    def __init__(self, directory: Path) -> None:
        super().__init__("ottla", directory)
        self.tls_port, self.metrics_port = free_port(), free_port()
        store = directory / "broker.pem"
        store.write_text(issue("broker", ROOT).pem())
        settings = self.broker.settings
        for name in ("listeners", "advertised.listeners"):
            settings[name] = f"TLS://{HOST}:{self.tls_port},{settings[name]}"
        settings["listener.security.protocol.map"] += ",TLS:SSL"
        settings |= {
            "listener.name.tls.ssl.keystore.type": "PEM",
            "listener.name.tls.ssl.keystore.location": str(store),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS;User:alice",
            "ottla.login.timeout.ms": "120000",
            "ottla.metrics.port": str(self.metrics_port),
            "socket.listen.backlog.size": "4096",
        }

    def number(self, name: str, listener: str) -> float:
        """A metric of a listener."""
        with urllib.request.urlopen(f"http://{HOST}:{self.metrics_port}/metrics", timeout=60) as answer:
            lines: Iterator[str] = iter(answer.read().decode().splitlines())
        (found,) = (line.rpartition(" ")[2] for line in lines if line.startswith(f'{name}{{listener="{listener}"}} '))
        return float(found)

    @contextmanager
    def grows_at_most(self, most: int) -> Iterator[None]:
        """Fails if the broker's memory has ever been larger meanwhile, by more than this."""
        assert self.broker.process is not None
        place = Path(f"/proc/{self.broker.process.pid}")
        (place / "clear_refs").write_text("5")  # the peak begins anew
        before = _kib(place, "VmRSS")
        yield
        grown = (_kib(place, "VmHWM") - before) * 1024
        assert grown <= most, f"{grown:,} bytes more"

    def greet_the_neighbour(self) -> None:
        """Serves a client with TLS and one that logs in, from an address that is not the crowd's."""
        frame = encode(api_versions.ApiVersionsRequest("lib", "1"), 3, 1)
        sock = socket.create_connection((HOST, self.tls_port), 60)
        with client_context(ROOT).wrap_socket(sock, server_hostname="localhost") as encrypted:
            encrypted.sendall(struct.pack(">i", len(frame)) + frame)
            assert struct.unpack(">i", encrypted.recv(4))[0] > 100
        talk = Talk(self, self.login_port)
        assert talk.handshake()[0] == 0
        assert talk.token()[0] == 0
        assert talk.metadata() == "metadata"
        talk.connection.close()


def _kib(place: Path, name: str) -> int:
    (line,) = (line for line in (place / "status").read_text().splitlines() if line.startswith(f"{name}:"))
    return int(line.split()[1])


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenHouse]:
    house = OpenHouse(tmp_path_factory.mktemp("attacked"))
    try:
        house.start()
        make_topics(house.broker.bootstrap, 1, TOPIC)
        house.greet_the_neighbour()
        yield house
    finally:
        house.stop()


def crowd(port: int, count: int, data: bytes) -> list[socket.socket]:
    """So many connections from the crowd's address, which have sent some bytes and say nothing more."""
    made = []
    for _ in range(count):
        made.append(socket.create_connection((HOST, port), 60, source_address=(CROWD, 0)))
        made[-1].sendall(data)
    return made


def frames(*requests: tuple[Any, int]) -> bytes:
    whole = [encode(request, version, 1) for request, version in requests]
    return b"".join(struct.pack(">i", len(frame)) + frame for frame in whole)


def hello() -> bytes:
    """Returns the bytes with which a client begins a TLS handshake."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context(ROOT).wrap_bio(incoming, outgoing, server_hostname="localhost")
    with suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


# Crowds


def test_half_open_handshakes(house: OpenHouse) -> None:
    with house.grows_at_most(MOST_GROWTH):
        clients = crowd(house.tls_port, HALF_OPEN, hello())
        wait_for(lambda: house.number("ottla_tls_waiting_handshakes", "TLS") > HALF_OPEN / 4, "they wait for their handshakes")
        for _ in range(3):
            house.greet_the_neighbour()
    for each in clients:
        each.close()


@pytest.mark.parametrize("far", ["silent", "handshake", "half a SCRAM"])
def test_half_open_logins(house: OpenHouse, far: str) -> None:
    handshake = (sasl_handshake.SaslHandshakeRequest(S256), 1)
    first = (sasl_authenticate.SaslAuthenticateRequest(b"n,,n=carol,r=" + b"x" * 200), 2)
    said = {"silent": b"", "handshake": frames(handshake), "half a SCRAM": frames(handshake, first)}[far]
    count = HALF_OPEN if far == "half a SCRAM" else HALF_OPEN // 10
    with house.grows_at_most(MOST_GROWTH):
        clients = crowd(house.login_port, count, said)
        wait_for(lambda: house.number("kafka_server_socketservermetrics_connection_count", "LOGIN") >= count, "all are there")
        for _ in range(3):
            house.greet_the_neighbour()
    for each in clients:
        each.close()
    wait_for(lambda: house.number("kafka_server_socketservermetrics_connection_count", "LOGIN") == 0, "all have gone", 120)


def test_announced_frames(house: OpenHouse) -> None:
    with house.grows_at_most(MOST_GROWTH // 5):
        clients = crowd(house.login_port, 200, struct.pack(">i", ANNOUNCED) + bytes(1000))
        house.greet_the_neighbour()
        for each in clients:
            with each, suppress(ConnectionResetError):
                assert each.recv(1) == b"", "it is closed"


def test_long_words_before_a_login(house: OpenHouse) -> None:
    """Names and versions of software with 30 kB each are answered and not kept."""
    request = frames((api_versions.ApiVersionsRequest("x" * 30_000, "1" * 30_000), 3))
    with house.grows_at_most(MOST_GROWTH // 2):
        clients = crowd(house.login_port, 1000, request)
        for each in clients:
            assert each.recv(4, socket.MSG_WAITALL)
        house.greet_the_neighbour()
    for each in clients:
        each.close()


# Forged and misplaced logins

NO: Final = (ErrorCode.SASL_AUTHENTICATION_FAILED, True, b"", 0)


def begun(house: OpenHouse, mechanism: str = S256, message: str = "n,,n=carol,r=abc") -> Talk:
    talk = Talk(house, house.login_port)
    assert talk.handshake(mechanism)[0] == 0
    assert talk.scram_first(message) == "challenge"
    return talk


@pytest.mark.parametrize("nonce", ["abc", "", "abcabc", "{whole}x", "x{whole}", "{half}"])
def test_forged_nonces(house: OpenHouse, nonce: str) -> None:
    talk = begun(house)
    whole = talk.challenge.decode().partition(",")[0][2:]
    forged = nonce.format(whole=whole, half=whole[:-1]) or "-"
    assert (talk.scram_final(nonce=forged), talk.end()) == (NO, CLOSED)


def test_a_login_that_was_overheard_cannot_be_played_again(house: OpenHouse) -> None:
    talk = begun(house)
    assert talk.scram_final()[0] == 0
    again = begun(house)
    again.challenge = talk.challenge  # what the client said to the first one
    assert (again.scram_final(), again.end()) == (NO, CLOSED)


@pytest.mark.parametrize(
    ("chosen", "played", "options"),
    [
        (S512, S256, {"password": "carol-512"}),  # the other hash
        (S512, S512, {"password": "carol-secret"}),  # the other mechanism's password
        (S256, S256, {"binding": b"y,,"}),  # the client would have bound the channel, and somebody said that it cannot
        (S256, S256, {"binding": b"p=tls-unique,,"}),
        (S256, S256, {"proof": bytes(32)}),
        (S256, S256, {"proof": b""}),
    ],
)
def test_downgrades(house: OpenHouse, chosen: str, played: str, options: dict[str, Any]) -> None:
    talk = begun(house, chosen)
    assert (talk.scram_final(mechanism=played, **options), talk.end()) == (NO, CLOSED)


@pytest.mark.parametrize(
    ("mechanism", "token"),
    [
        (PLAIN, b"alice\0bob\0bob-secret"),
        (PLAIN, b"alice\0bob\0alice-secret"),
        (PLAIN, b"\0alice\0bob-secret"),
        (PLAIN, b"\0bob\0bob-secret\0\0alice"),
        (PLAIN, b"bob\0alice\0"),
        (S256, b"n,a=alice,n=carol,r=abc"),
        (S256, b"n,,a=alice,n=carol,r=abc"),
        (S256, b"n,,n=carol,n=alice,r=abc"),
        (S256, b"y,,n=carol,r=abc"),
        (S256, b"p=tls-unique,,n=carol,r=abc"),
        (S256, BOB),
        (S512, b"n,,n=" + b"c" * 3000 + b",r=abc"),
    ],
)
def test_who_wants_to_be_somebody_else(house: OpenHouse, mechanism: str, token: bytes) -> None:
    talk = Talk(house, house.login_port)
    assert talk.handshake(mechanism)[0] == 0
    assert (talk.token(token), talk.end()) == (NO, CLOSED)


@pytest.mark.parametrize("request_between", ["metadata", "produce", "versions"])
def test_requests_between_the_steps_of_a_login(house: OpenHouse, request_between: str) -> None:
    talk = begun(house)
    assert getattr(talk, request_between)() == CLOSED


def test_a_second_handshake_ends_the_login(house: OpenHouse) -> None:
    talk = begun(house, S512)
    assert (talk.handshake(PLAIN), talk.end()) == ((ErrorCode.ILLEGAL_SASL_STATE, []), CLOSED)


# Users without rights


def user(house: OpenHouse, token: bytes) -> Connection:
    talk = Talk(house, house.login_port)
    assert talk.handshake()[0] == 0
    assert talk.token(token)[0] == 0
    return talk.connection


def test_replica_ids_of_strangers(house: OpenHouse) -> None:
    bob = user(house, BOB)
    partition = fetch.FetchPartition(0, fetch_offset=0, partition_max_bytes=1000)
    for version in (12, 15):
        wanted = fetch.FetchRequest(max_wait_ms=0, min_bytes=0, topics=[fetch.FetchTopic(TOPIC, partitions=[partition])])
        if version < 15:
            wanted.replica_id = 1
            code = bob.call(wanted, version).responses[0].partitions[0].error_code
        else:
            wanted.replica_state = fetch.ReplicaState(1, -1)
            wanted.topics[0].topic_id = topic_id(house)
            code = bob.call(wanted, version).responses[0].partitions[0].error_code
        assert code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    asked = list_offsets.ListOffsetsTopic(TOPIC, [list_offsets.ListOffsetsPartition(0, timestamp=-1)])
    answer = bob.call(list_offsets.ListOffsetsRequest(1, topics=[asked]), 7)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    bob.close()


def topic_id(house: OpenHouse) -> bytes:
    alice = user(house, ALICE)
    topics: Sequence[Any] = alice.call(metadata.MetadataRequest([metadata.MetadataRequestTopic(name=TOPIC)]), 12).topics
    alice.close()
    return bytes(topics[0].topic_id)


BOMBS: Final = {GZIP: "gzip", SNAPPY: "snappy", LZ4: "lz4", ZSTD: "zstd"}


def bomb(codec: int) -> bytes:
    """A batch below 1 MB that says it has one record, and unfolds to a hundred megabytes of it, snappy to fifteen."""
    count = 15 if codec == SNAPPY else 100
    zeros = bytes(1 << 20)
    if codec == GZIP:
        section = gzip.compress(zeros * count)
    elif codec == SNAPPY:
        block = bytes(cramjam.snappy.compress_raw(zeros))
        section = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1) + (struct.pack(">i", len(block)) + block) * count
    elif codec == LZ4:
        section = bytes(cramjam.lz4.compress(zeros * count))
    else:
        section = zstandard.ZstdCompressor().compress(zeros * count)
    made = bytearray(batch(b"v", codec=NONE)[:HEADER_SIZE] + section)
    struct.pack_into(">h", made, _ATTRIBUTES, codec)
    made[_LENGTH] = struct.pack(">i", len(made) - 12)
    made[_CRC] = struct.pack(">I", crc32c(bytes(made[_CRC.stop :])))
    return bytes(made)


@pytest.mark.parametrize("codec", BOMBS, ids=BOMBS.get)
def test_bombs(house: OpenHouse, codec: int) -> None:
    """Checks that who has no right is refused before anything unfolds; who has one, at the bound, and a piece at a time."""
    data = bomb(codec)
    assert len(data) < 1_000_000
    refusals = {ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD}
    for token, codes in ((BOB, {ErrorCode.TOPIC_AUTHORIZATION_FAILED}), (ALICE, refusals)):
        client = user(house, token)
        topics = [produce.TopicProduceData(TOPIC, partition_data=[produce.PartitionProduceData(0, data)])]
        with house.grows_at_most(24 << 20):
            answer = client.call(produce.ProduceRequest(None, -1, 30_000, topics), 9)
            house.greet_the_neighbour()
        assert answer.responses[0].partition_responses[0].error_code in codes
        client.close()

"""Logging in, message by message, at ottla and at Apache Kafka: the same codes, the same silence, the same closed
connections.

A sequence is a list of steps at one connection; `said` is what comes back for each step, until the connection is closed. Texts
are compared by whether there is one.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from socket import MSG_WAITALL
from typing import Any, Final

import pytest

from compat_tests.logging_in import REAUTH_MS, PasswordBroker
from compat_tests.waiting import wait_for
from compat_tests.wire import ANSWER_TIMEOUT_S, CLOSED, Connection, encode
from ottla.wire.messages import (
    api_versions,
    create_delegation_token,
    describe_delegation_token,
    metadata,
    produce,
    sasl_authenticate,
    sasl_handshake,
)
from ottla.wire.scram import DIGESTS, client_proof, salt_password

PLAIN, S256, S512 = "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"
ALL: Final = [PLAIN, S256, S512]
ALICE, BOB = b"\0alice\0alice-secret", b"\0bob\0bob-secret"
UNCHANGED: Final = {"sasl_handshake": 1, "sasl_authenticate": 2, "api_versions": 3}


@pytest.fixture(scope="module")
def door(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PasswordBroker]:
    broker = PasswordBroker(kind, tmp_path_factory.mktemp(f"sasl-{kind}"))
    try:
        broker.start()
        yield broker
    finally:
        broker.stop()


class Talk:
    """A connection at a listener with logins, with steps that say what came back in short."""

    def __init__(self, door: PasswordBroker, port: int) -> None:
        self.door = door
        self.connection = Connection(door.address(port))
        self.challenge = b""
        self.first = b""

    def ask(self, module: Any, request: Any, version: int) -> Any:
        self.connection.send(request, version)
        return self.connection.answer(module, version)

    def versions(self, version: int = 3, name: str = "lib") -> Any:
        answer = self.ask(api_versions, api_versions.ApiVersionsRequest(name, "1"), version)
        return answer if isinstance(answer, str) else answer.error_code

    def future_versions(self) -> Any:
        frame = encode(api_versions.ApiVersionsRequest("lib", "1"), 3, 1)
        self.connection.send_frame(frame[:2] + struct.pack(">h", 99) + frame[4:])
        answer = self.connection.receive()
        return answer if isinstance(answer, str) else struct.unpack_from(">h", answer, 4)[0]

    def handshake(self, mechanism: str = PLAIN, version: int = 1) -> Any:
        answer = self.ask(sasl_handshake, sasl_handshake.SaslHandshakeRequest(mechanism), version)
        return answer if isinstance(answer, str) else (answer.error_code, sorted(answer.mechanisms))

    def late_handshake(self) -> Any:
        frame = encode(sasl_handshake.SaslHandshakeRequest(PLAIN), 1, 1)
        self.connection.send_frame(frame[:2] + struct.pack(">h", 2) + frame[4:])
        return self.connection.receive()

    def token(self, token: bytes = ALICE, version: int = 2) -> Any:
        answer = self.ask(sasl_authenticate, sasl_authenticate.SaslAuthenticateRequest(token), version)
        if isinstance(answer, str):
            return answer
        return answer.error_code, bool(answer.error_message), answer.auth_bytes, answer.session_lifetime_ms

    def raw(self, token: bytes = ALICE) -> Any:
        """A bare token; unlike an answer, one that comes back may be empty."""
        self.connection.send_frame(token)
        self.connection.socket.settimeout(ANSWER_TIMEOUT_S)
        with suppress(ConnectionResetError):
            if size := self.connection.socket.recv(4, MSG_WAITALL):
                return self.connection.socket.recv(struct.unpack(">i", size)[0], MSG_WAITALL)
        return CLOSED

    def metadata(self) -> Any:
        answer = self.ask(metadata, metadata.MetadataRequest([]), 9)
        return answer if isinstance(answer, str) else "metadata"

    def produce(self) -> Any:
        return self.ask(produce, produce.ProduceRequest(None, -1, 1000, []), 9)

    def stray(self, data: bytes) -> Any:
        self.connection.send_raw(data)
        return self.connection.receive()

    def end(self) -> Any:
        return self.connection.receive()

    # SCRAM, step by step

    def scram_first(self, message: str, raw: bool = False) -> Any:
        self.first = message.encode()
        if raw:
            answer = self.raw(self.first)
            if isinstance(answer, str):
                return answer
            self.challenge = answer
            return "challenge"
        said = self.token(self.first)
        if isinstance(said, str) or said[0] != 0:
            return said
        self.challenge = said[2]
        return "challenge"

    def scram_final(
        self,
        password: str = "carol-secret",
        mechanism: str = S256,
        binding: bytes | None = None,
        nonce: str | None = None,
        more: str = "",
        proof: bytes | None = None,
        raw: bool = False,
    ) -> Any:
        header, _, bare = self.first.decode().rpartition("n=")
        full, salt, iterations = (part[2:] for part in self.challenge.decode().split(","))
        salted = salt_password(DIGESTS[mechanism], password, base64.b64decode(salt), int(iterations))
        bound = header.encode() if binding is None else binding
        unproved = f"c={base64.b64encode(bound).decode()},r={full if nonce is None else nonce}{more}".encode()
        signed = b",".join((b"n=" + bare.encode(), self.challenge, unproved))
        proof = client_proof(DIGESTS[mechanism], salted, signed) if proof is None else proof
        message = unproved + b",p=" + base64.b64encode(proof)
        said = self.raw(message) if raw else self.token(message)
        if isinstance(said, str):
            return said
        if raw:
            return said[:2]
        return said if said[0] else (0, said[1], said[2][:2], said[3])


OK = (0, ALL)
IN: Final = (0, False, b"", 0)
SCRAM_IN: Final = (0, False, b"v=", 0)
NO: Final = (58, True, b"", 0)
LATE: Final = (34, True, b"", 0)
V = ("versions",)
H = ("handshake",)
T = ("token",)
M = ("metadata",)
END = ("end",)


def first(message: str = "n,,n=carol,r=abc", **options: Any) -> tuple[Any, ...]:
    return ("scram_first", message, options)


def final(**options: Any) -> tuple[Any, ...]:
    return ("scram_final", options)


CAROL = ("handshake", S256)
SEQUENCES: Final[dict[str, list[tuple[tuple[Any, ...], Any]]]] = {
    # What comes before a login
    "versions, handshake, token": [(V, 0), (H, OK), (T, IN), (M, "metadata")],
    "no versions": [(H, OK), (T, IN), (M, "metadata")],
    "versions v0": [(("versions", 0), 0), (H, OK), (T, IN)],
    "versions v4": [(("versions", 4), 0), (H, OK), (T, IN)],
    "versions twice": [(V, 0), (V, CLOSED)],
    "versions of the future, then usual ones": [(("future_versions",), 35), (V, 0), (H, OK), (T, IN)],
    "versions of the future twice": [(("future_versions",), 35), (("future_versions",), 35), (V, 0)],
    "versions of the future after usual ones": [(V, 0), (("future_versions",), CLOSED)],
    "versions with a bad name": [(("versions", 3, " "), 42), (V, 0), (H, OK)],
    "metadata first": [(M, CLOSED)],
    "metadata after versions": [(V, 0), (M, CLOSED)],
    "produce first": [(("produce",), CLOSED)],
    "token first": [(T, CLOSED)],
    "token after versions": [(V, 0), (T, CLOSED)],
    "http": [(("stray", b"GET / HTTP/1.1\r\n\r\n"), CLOSED)],
    "an empty frame": [(("raw", b""), CLOSED)],
    "a frame of a byte": [(("raw", b"\0"), CLOSED)],
    "a long frame": [(("stray", struct.pack(">i", 524289)), CLOSED)],
    "a negative frame": [(("stray", struct.pack(">i", -1)), CLOSED)],
    "a raw token first": [(("raw", ALICE), CLOSED)],
    # The handshake
    "a mechanism that is not enabled": [(("handshake", "GSSAPI"), (33, ALL)), (END, CLOSED)],
    "small letters": [(("handshake", "plain"), (33, ALL)), (END, CLOSED)],
    "no name": [(("handshake", ""), (33, ALL)), (END, CLOSED)],
    "v0 of a mechanism that is not enabled": [(("handshake", "OAUTHBEARER", 0), (33, ALL)), (END, CLOSED)],
    "after versions": [(V, 0), (("handshake", "NONE"), (33, ALL)), (END, CLOSED)],
    "handshake v2": [(("late_handshake",), CLOSED)],
    "handshake twice": [(H, OK), (H, (34, [])), (END, CLOSED)],
    "handshake of another": [(H, OK), (CAROL, (34, [])), (END, CLOSED)],
    "handshake v0 after v1": [(H, OK), (("handshake", PLAIN, 0), (34, [])), (END, CLOSED)],
    "handshake between tokens": [(CAROL, OK), (first(), "challenge"), (CAROL, (34, [])), (END, CLOSED)],
    # PLAIN
    "token v0": [(H, OK), (("token", ALICE, 0), IN), (M, "metadata")],
    "token v1": [(H, OK), (("token", ALICE, 1), IN), (M, "metadata")],
    "another user": [(H, OK), (("token", BOB), IN), (M, "metadata")],
    "the same authorization id": [(H, OK), (("token", b"alice" + ALICE), IN)],
    "another authorization id": [(H, OK), (("token", b"bob" + ALICE), NO), (END, CLOSED)],
    "another authorization id and a wrong password": [(H, OK), (("token", b"bob\0alice\0x"), NO), (END, CLOSED)],
    "a wrong password": [(H, OK), (("token", ALICE + b"x"), NO), (END, CLOSED)],
    "a wrong password v0": [(H, OK), (("token", ALICE + b"x", 0), NO), (END, CLOSED)],
    "a part of the password": [(H, OK), (("token", ALICE[:-1]), NO), (END, CLOSED)],
    "another's password": [(H, OK), (("token", b"\0alice\0bob-secret"), NO), (END, CLOSED)],
    "an unknown user": [(H, OK), (("token", b"\0eve\0alice-secret"), NO), (END, CLOSED)],
    "no user": [(H, OK), (("token", b"\0\0alice-secret"), NO), (END, CLOSED)],
    "no password": [(H, OK), (("token", b"\0alice\0"), NO), (END, CLOSED)],
    "no token": [(H, OK), (("token", b""), NO), (END, CLOSED)],
    "one part": [(H, OK), (("token", b"alice"), NO), (END, CLOSED)],
    "two parts": [(H, OK), (("token", b"alice\0alice-secret"), NO), (END, CLOSED)],
    "four parts": [(H, OK), (("token", ALICE + b"\0"), NO), (END, CLOSED)],
    "no UTF-8": [(H, OK), (("token", b"\0alice\0\xff"), NO), (END, CLOSED)],
    "a user of SCRAM": [(H, OK), (("token", b"\0carol\0carol-secret"), NO), (END, CLOSED)],
    "after a login": [(H, OK), (T, IN), (T, LATE), (M, "metadata")],
    "after a login v0": [(H, OK), (T, IN), (("token", ALICE, 0), LATE), (M, "metadata")],
    "a handshake after a login": [(H, OK), (T, IN), (H, (34, [])), (M, "metadata")],
    "a handshake v0 after a login": [(H, OK), (T, IN), (("handshake", PLAIN, 0), (34, [])), (M, "metadata")],
    "versions after a login": [(V, 0), (H, OK), (T, IN), (V, 0), (V, 0), (M, "metadata")],
    "a wrong version after a login": [(H, OK), (T, IN), (("late_handshake",), CLOSED)],
    "raw bytes for a token": [(H, OK), (("raw", ALICE), CLOSED)],
    # Bare tokens
    "bare": [(("handshake", PLAIN, 0), OK), (("raw",), b""), (M, "metadata")],
    "bare after versions": [(V, 0), (("handshake", PLAIN, 0), OK), (("raw",), b""), (M, "metadata")],
    "bare and wrong": [(("handshake", PLAIN, 0), OK), (("raw", ALICE + b"x"), CLOSED)],
    "bare and unknown": [(("handshake", PLAIN, 0), OK), (("raw", b"\0eve\0x"), CLOSED)],
    "bare and odd": [(("handshake", PLAIN, 0), OK), (("raw", b"x"), CLOSED)],
    "a request for a bare token": [(("handshake", PLAIN, 0), OK), (T, CLOSED)],
    "metadata for a bare token": [(("handshake", PLAIN, 0), OK), (M, CLOSED)],
    "bare, then a handshake": [(("handshake", PLAIN, 0), OK), (("raw",), b""), (H, (34, [])), (M, "metadata")],
    "bare SCRAM": [
        (("handshake", S256, 0), OK),
        (first(raw=True), "challenge"),
        (final(raw=True), b"v="),
        (M, "metadata"),
    ],
    "bare SCRAM and wrong": [
        (("handshake", S256, 0), OK),
        (first(raw=True), "challenge"),
        (final(password="x", raw=True), CLOSED),
    ],
    "bare SCRAM of nobody": [(("handshake", S256, 0), OK), (first("n,,n=eve,r=abc", raw=True), CLOSED)],
    # SCRAM
    "SCRAM-SHA-256": [(CAROL, OK), (first(), "challenge"), (final(), SCRAM_IN), (M, "metadata")],
    "SCRAM-SHA-512": [(("handshake", S512), OK), (first(), "challenge"), (final(mechanism=S512, password="carol-512"), SCRAM_IN)],
    "the other's password": [(("handshake", S512), OK), (first(), "challenge"), (final(mechanism=S512), NO), (END, CLOSED)],
    "SCRAM with a wrong password": [(CAROL, OK), (first(), "challenge"), (final(password="x"), NO), (END, CLOSED)],
    "SCRAM of nobody": [(CAROL, OK), (first("n,,n=eve,r=abc"), NO), (END, CLOSED)],
    "SCRAM of who has the other": [(CAROL, OK), (first("n,,n=dave,r=abc"), NO), (END, CLOSED)],
    "SCRAM of who has PLAIN": [(CAROL, OK), (first("n,,n=alice,r=abc"), NO), (END, CLOSED)],
    "a name with commas": [(CAROL, OK), (first("n,,n=e=3Dv=2Ce,r=abc"), "challenge"), (final(password="odd"), SCRAM_IN)],
    "a name with small hex": [(CAROL, OK), (first("n,,n=e=3dv=2ce,r=abc"), NO), (END, CLOSED)],
    "the same id": [(CAROL, OK), (first("n,a=carol,n=carol,r=abc"), "challenge"), (final(), SCRAM_IN)],
    "another id": [(CAROL, OK), (first("n,a=alice,n=carol,r=abc"), NO), (END, CLOSED)],
    "channel binding offered": [(CAROL, OK), (first("y,,n=carol,r=abc"), NO), (END, CLOSED)],
    "channel binding wanted": [(CAROL, OK), (first("p=tls-unique,,n=carol,r=abc"), NO), (END, CLOSED)],
    "no nonce": [(CAROL, OK), (first("n,,n=carol"), NO), (END, CLOSED)],
    "an empty nonce": [(CAROL, OK), (first("n,,n=carol,r="), NO), (END, CLOSED)],
    "an odd nonce": [(CAROL, OK), (first("n,,n=carol,r=a b"), NO), (END, CLOSED)],
    "no name in SCRAM": [(CAROL, OK), (first("n,,r=abc"), NO), (END, CLOSED)],
    "an empty name": [(CAROL, OK), (first("n,,n=,r=abc"), NO), (END, CLOSED)],
    "an unknown extension": [(CAROL, OK), (first("n,,n=carol,r=abc,trace=on"), "challenge"), (final(), SCRAM_IN)],
    "no token in SCRAM": [(CAROL, OK), (("token", b""), NO), (END, CLOSED)],
    "a token of PLAIN in SCRAM": [(CAROL, OK), (T, NO), (END, CLOSED)],
    "another nonce at the end": [(CAROL, OK), (first(), "challenge"), (final(nonce="abcdef"), NO), (END, CLOSED)],
    "the client's nonce alone": [(CAROL, OK), (first(), "challenge"), (final(nonce="abc"), NO), (END, CLOSED)],
    "a proof of zeros": [(CAROL, OK), (first(), "challenge"), (final(proof=bytes(32)), NO), (END, CLOSED)],
    "the first message again": [(CAROL, OK), (first(), "challenge"), (first(), NO), (END, CLOSED)],
    "a token that is none": [(CAROL, OK), (first("n,,n=carol,r=abc,tokenauth=true"), NO), (END, CLOSED)],
    "no token after all": [(CAROL, OK), (first("n,,n=carol,r=abc,tokenauth=false"), "challenge"), (final(), SCRAM_IN)],
}


def play(talk: Talk, steps: list[tuple[tuple[Any, ...], Any]]) -> list[Any]:
    said = []
    for (name, *arguments), _ in steps:
        options = arguments.pop() if arguments and isinstance(arguments[-1], dict) else {}
        said.append(getattr(talk, name)(*arguments, **options))
    return said


@pytest.mark.parametrize("name", SEQUENCES)
def test_a_sequence(door: PasswordBroker, name: str) -> None:
    steps = SEQUENCES[name]
    assert play(Talk(door, door.login_port), steps) == [expected for _, expected in steps]


MISPLACED: Final = {"versions": (V, 34), "metadata": (M, "metadata"), "produce": (("produce",), None)}


@pytest.mark.parametrize("name", MISPLACED)
def test_what_stands_in_the_place_of_a_token(door: PasswordBroker, name: str) -> None:
    """Kafka answers an error in the form of the request, then closes. Here it closes."""
    step, answer = MISPLACED[name]
    talk = Talk(door, door.login_port)
    said = play(talk, [(H, None), (step, None)])
    if door.kind == "kafka" and answer is not None:
        assert said[1] == answer
        assert talk.end() == CLOSED
    elif door.kind == "ottla":
        assert said[1] == CLOSED


def test_a_short_proof(door: PasswordBroker) -> None:
    """Kafka closes without an answer, because its own code fails."""
    talk = Talk(door, door.login_port)
    said = play(talk, [(CAROL, None), (first(), None), (final(proof=b"x"), None)])
    assert said[2] == (CLOSED if door.kind == "kafka" else NO)


def test_an_extension_of_the_last_message(door: PasswordBroker) -> None:
    """It is signed, too (RFC 5802). Kafka leaves it out of what it checks, so the proof is wrong there."""
    talk = Talk(door, door.login_port)
    said = play(talk, [(CAROL, None), (first(), None), (final(more=",trace=on"), None)])
    assert said[2] == (NO if door.kind == "kafka" else SCRAM_IN)


def test_channel_binding_that_is_none(door: PasswordBroker) -> None:
    """RFC 5802 has the server check it. Kafka does not."""
    talk = Talk(door, door.login_port)
    said = play(talk, [(CAROL, None), (first(), None), (final(binding=b"\0\0\0"), None)])
    assert said[2] == (SCRAM_IN if door.kind == "kafka" else NO)


# Logins that end


def logged_in(door: PasswordBroker, version: int = 2) -> Talk:
    talk = Talk(door, door.reauth_port)
    assert talk.handshake() == OK
    assert talk.token(ALICE, version) == (0, False, b"", REAUTH_MS if version else 0)
    return talk


def until_closed(talk: Talk) -> None:
    wait_for(lambda: talk.metadata() == CLOSED, "the login has ended")


def test_it_ends_with_a_request(door: PasswordBroker) -> None:
    for version in (0, 1, 2):
        talk = logged_in(door, version)
        assert talk.metadata() == "metadata"
        until_closed(talk)


def test_a_bare_login_ends(door: PasswordBroker) -> None:
    talk = Talk(door, door.reauth_port)
    assert play(talk, [(("handshake", PLAIN, 0), None), (("raw",), None)]) == [OK, b""]
    until_closed(talk)


RENEWALS: Final[dict[str, list[tuple[tuple[Any, ...], Any]]]] = {
    "in time": [(H, OK), (T, (0, False, b"", REAUTH_MS)), (M, "metadata")],
    "by another user": [(H, OK), (("token", BOB), NO), (END, CLOSED)],
    "with a wrong password": [(H, OK), (("token", ALICE + b"x"), NO), (END, CLOSED)],
    "by another mechanism": [(CAROL, OK), (("token", b"n,,n=carol,r=abc"), CLOSED)],
    "by one that is not enabled": [(("handshake", "NONE"), CLOSED)],
    "twice within a second": [(H, OK), (T, (0, False, b"", REAUTH_MS)), (H, (34, [])), (M, "metadata")],
    "without a handshake": [(T, LATE), (M, "metadata")],
    "with two handshakes": [(H, OK), (H, (34, [])), (END, CLOSED)],
    "bare": [(("handshake", PLAIN, 0), OK), (("raw",), b""), (M, "metadata")],
}


@pytest.mark.parametrize("name", RENEWALS)
def test_a_renewal(door: PasswordBroker, name: str) -> None:
    steps = RENEWALS[name]
    assert play(logged_in(door), steps) == [expected for _, expected in steps]


# Delegation tokens


def made_token(door: PasswordBroker) -> Any:
    talk = Talk(door, door.login_port)
    assert play(talk, [(H, None), (T, None)]) == [OK, IN]
    made = talk.ask(create_delegation_token, create_delegation_token.CreateDelegationTokenRequest(), 2)
    assert made.error_code == 0
    return made


@pytest.mark.parametrize("mechanism", [S256, S512])
def test_a_token_logs_in(door: PasswordBroker, mechanism: str) -> None:
    made = made_token(door)
    password = base64.b64encode(made.hmac).decode()
    start = f"n,,n={made.token_id},r=abc"

    def outcome(message: str, used: str = password) -> Any:
        talk = Talk(door, door.login_port)
        said = play(talk, [(("handshake", mechanism), None), (first(message), None)])
        return talk, said[1] if said[1] != "challenge" else talk.scram_final(used, mechanism)

    wait_for(lambda: outcome(start + ",tokenauth=true")[1][0] == 0, "the token is known")
    talk, said = outcome(start + ",tokenauth=true")
    assert said[:3] == (0, False, b"v=")
    assert 0 < said[3] <= 24 * 3600 * 1000  # as long as the token
    assert talk.metadata() == "metadata"
    asked = describe_delegation_token.DescribeDelegationTokenRequest(None)
    assert talk.ask(describe_delegation_token, asked, 2).error_code == 64
    assert outcome(start)[1] == NO
    assert outcome(start + ",tokenauth=false")[1] == NO
    assert outcome(start + ",tokenauth=true", "x")[1] == NO
    assert outcome(f"n,a=alice,n={made.token_id},r=abc,tokenauth=true")[1] == NO
    assert outcome(f"n,a={made.token_id},n={made.token_id},r=abc,tokenauth=true")[1][0] == 0


def test_pipelined(door: PasswordBroker) -> None:
    """Checks that what lies behind the last token is served."""
    talk = Talk(door, door.login_port)
    requests = [
        (sasl_handshake.SaslHandshakeRequest(PLAIN), 1),
        (sasl_authenticate.SaslAuthenticateRequest(ALICE), 2),
        (metadata.MetadataRequest([]), 9),
        (metadata.MetadataRequest([]), 9),
    ]
    frames = [encode(request, version, number) for number, (request, version) in enumerate(requests)]
    talk.connection.send_raw(b"".join(struct.pack(">i", len(frame)) + frame for frame in frames))
    answers = [talk.connection.receive() for _ in frames]
    assert [isinstance(answer, bytes) and answer[:4] for answer in answers] == [struct.pack(">i", n) for n in range(4)]


def test_no_secret_is_in_the_log(door: PasswordBroker, tmp_path: Path) -> None:
    Talk(door, door.login_port).metadata()
    text = door.log_file.read_text(errors="replace")
    assert text
    if door.kind == "ottla":
        assert "-secret" not in text

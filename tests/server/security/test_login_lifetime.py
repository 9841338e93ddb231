"""Logins that end: renewed in time or late, by the same user and mechanism, and what happens without."""

from __future__ import annotations

import pytest

from ottla.server.security.mechanism import Done
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.metadata import MetadataRequest
from tests.fakes import NOW_MS
from tests.server.security.logging_in import ALICE, BOB, DELAY, Client, Door, Scripted

METADATA = ("metadata", MetadataRequest(None), 12)


def logged_in(door: Door, version: int = 1) -> Client:
    client = door.connect()
    client.choose()
    assert client.prove(version=version).error_code == 0
    return client


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_login_ends_with_the_next_request(version: int) -> None:
    door = Door(max_reauth_ms=60_000)
    client = door.connect()
    client.choose()
    assert client.prove(version=version).session_lifetime_ms == (60_000 if version else 0)
    door.clock.advance(59.999)
    assert client.ask(*METADATA).topics
    door.clock.advance(0.001)
    assert not client.closed
    assert (client.ask(*METADATA), client.closed) == (None, True)
    assert door.logins.expired == 1


@pytest.mark.parametrize("seconds", [0, 30, 60, 500])
def test_it_can_be_renewed_at_any_time(seconds: int) -> None:
    door = Door(max_reauth_ms=60_000)
    client = logged_in(door)
    door.clock.advance(seconds)
    assert client.choose().error_code == 0
    assert client.prove().session_lifetime_ms == 60_000
    assert (door.logins.successful, door.logins.renewed) == (1, 1)
    door.clock.advance(59)
    assert client.ask(*METADATA).topics
    door.clock.advance(1)
    assert (client.ask(*METADATA), client.closed) == (None, True)


def test_nothing_else_is_served_while_it_is_renewed() -> None:
    door = Door(max_reauth_ms=60_000)
    client = logged_in(door)
    client.choose()
    assert (client.ask(*METADATA), client.closed) == (None, True)
    door = Door(max_reauth_ms=60_000)
    client = logged_in(door)
    assert client.prove().error_code == ErrorCode.ILLEGAL_SASL_STATE  # without a handshake it is no renewal
    assert client.ask(*METADATA).topics


def test_another_user_is_refused() -> None:
    door = Door(max_reauth_ms=60_000)
    client = logged_in(door)
    client.choose()
    assert client.prove(BOB) is None
    door.clock.advance(DELAY)
    answer = client.answer("sasl_authenticate", 2)
    assert answer.error_code == 58
    assert answer.error_message == "A login cannot be renewed by another user: it is User:alice's, not User:bob's."
    assert client.closed
    assert client.session.principal == "User:alice"


def test_a_wrong_password_is_refused() -> None:
    door = Door(max_reauth_ms=60_000)
    client = logged_in(door)
    client.choose()
    client.prove(ALICE + b"x")
    door.clock.advance(DELAY)
    assert client.answer("sasl_authenticate", 2).error_code == 58
    assert client.closed


def test_another_mechanism_closes_with_its_first_token() -> None:
    door = Door(max_reauth_ms=60_000)
    client = logged_in(door)
    assert (client.choose("SCRIPTED").error_code, client.closed) == (0, False)
    assert (client.prove(b"alice"), client.closed) == (None, True)
    client = logged_in(door)
    assert (client.choose("NONE"), client.closed) == (None, True)


def test_two_renewals_within_a_second_are_one_too_many() -> None:
    door = Door(max_reauth_ms=60_000)
    client = logged_in(door)
    client.choose()
    client.prove()
    door.clock.advance(0.9)
    assert client.choose().error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert not client.closed
    door.clock.advance(0.1)
    assert client.choose().error_code == 0
    assert client.prove().error_code == 0


def test_a_renewal_has_the_time_of_a_login() -> None:
    door = Door(max_reauth_ms=60_000)
    client = logged_in(door)
    door.clock.advance(30)
    client.choose()
    door.clock.advance(10)
    assert client.closed


@pytest.mark.parametrize(
    ("setting", "left", "told"), [(0, 5000, 5000), (3000, 5000, 3000), (8000, 5000, 5000), (3000, -1, 0), (0, -1, 0)]
)
def test_a_login_lasts_no_longer_than_its_credentials(setting: int, left: int, told: int) -> None:
    mechanism = Scripted(x=Done("User:x", expires_ms=NOW_MS + left))
    door = Door(max_reauth_ms=setting, mechanisms={"SCRIPTED": mechanism})
    client = door.connect()
    client.choose("SCRIPTED")
    assert client.prove(b"x").session_lifetime_ms == told
    if told:
        door.clock.advance((told - 1) / 1000)
        assert client.ask(*METADATA).topics
    door.clock.advance(0.001)
    assert (client.ask(*METADATA), client.closed) == (None, True)


def test_raw_logins_end_too() -> None:
    door = Door(max_reauth_ms=60_000)
    client = door.connect()
    client.choose(version=0)
    client.send(ALICE)
    assert client.frames() == [b""]
    assert client.ask(*METADATA).topics
    door.clock.advance(61)
    assert (client.ask(*METADATA), client.closed) == (None, True)

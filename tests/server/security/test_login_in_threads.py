"""Logins by a mechanism whose steps may block: each is taken in a thread, and what the client sends meanwhile waits."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from ottla.server.base.turns import MAX_THREADS, Workers
from ottla.server.security.mechanism import Challenge, Done, Failed, Outcome
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from tests.server.security.logging_in import DELAY, Client, Door, Scripted


class Blocking(Scripted):
    """A mechanism that may block."""

    longest_blocking = 10


class Threads:
    """Runs what is to run in a thread when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Callable[[], Any], Callable[[Any], object]]] = []

    def run(self, job: Callable[[], Any], done: Callable[[Any], object]) -> None:
        self.waiting.append((job, done))

    def go_on(self) -> None:
        job, done = self.waiting.pop(0)
        future: Future[Any] = Future()
        try:
            future.set_result(job())
        except KeyError as error:
            future.set_exception(error)
        done(future)


class World:
    """A client that has chosen a blocking mechanism with these outcomes."""

    def __init__(self, version: int = 1, **outcomes: Outcome) -> None:
        self.door, self.threads = Door(mechanisms={"SCRIPTED": Blocking(**outcomes)}), Threads()
        self.door.logins.workers = Workers(self.threads.run)
        self.client: Client = self.door.connect()
        self.client.choose("SCRIPTED", version)

    def token(self, token: bytes) -> bytes:
        return self.client.request("sasl_authenticate", SaslAuthenticateRequest(token), 2)


def test_one_after_the_other() -> None:
    world = World(more=Challenge(b"go on"), alice=Done("User:alice", b"welcome"))
    metadata = world.client.request("metadata", MetadataRequest([]), 12)
    world.client.send(world.token(b"more"), world.token(b"alice"), metadata)
    assert (world.client.frames(), len(world.threads.waiting)) == ([], 1)
    world.threads.go_on()
    assert (len(world.client.frames()), len(world.threads.waiting)) == (1, 1)
    world.threads.go_on()
    assert len(world.client.frames()) == 2  # that of the login, and that of what came behind it
    assert (world.client.session.principal, world.door.logins.successful) == ("User:alice", 1)


def test_a_refusal_is_held_back_and_closes() -> None:
    world = World(x=Failed(None, "no"))
    world.client.send(world.token(b"x"))
    world.threads.go_on()
    assert (world.client.frames(), world.client.closed) == ([], False)
    world.door.clock.advance(DELAY)
    assert (len(world.client.frames()), world.client.closed) == (1, True)
    assert world.door.logins.failed == 1


def test_a_token_that_is_too_long_waits_for_no_thread() -> None:
    world = World(xxxxxxxxxx=Challenge(b"go on"), xxxxxxxxxxx=Failed(None, "it is too long"))
    world.client.send(world.token(b"x" * 10))
    assert len(world.threads.waiting) == 1
    world.threads.go_on()
    world.client.send(world.token(b"x" * 11))
    assert world.threads.waiting == []
    assert world.door.logins.failed == 1


def test_a_client_that_goes_before_the_thread_is_done() -> None:
    world = World(alice=Done("User:alice"), x=Failed(None, "no"))
    world.client.send(world.token(b"alice"))
    world.client.leave()
    world.threads.go_on()
    assert world.door.logins.successful == 0


def test_a_client_that_goes_before_it_is_told_that_it_is_refused() -> None:
    world = World(x=Failed(None, "no"))
    world.client.send(world.token(b"x"))
    world.threads.go_on()
    world.client.leave()
    world.door.clock.advance(DELAY)
    assert not world.client.frames()


def test_a_bug_closes_the_connection() -> None:
    world = World()
    world.client.send(world.token(b"x"))
    world.threads.go_on()
    assert world.client.closed


def test_bare_tokens_are_not_taken(caplog: pytest.LogCaptureFixture) -> None:
    """They would be on the loop."""
    caplog.set_level(logging.INFO)
    world = World(0, alice=Done("User:alice"))
    assert world.client.closed
    assert not world.client.frames()
    assert "it wants to log in by SCRIPTED with bare tokens (SaslHandshake v0), but" in caplog.text


def test_what_waits_for_a_thread_is_not_done_for_a_client_that_has_gone() -> None:
    world = World(alice=Done("User:alice"))
    others = [world.door.connect() for _ in range(MAX_THREADS)]
    for other in others:
        other.choose("SCRIPTED")
        other.send(world.token(b"alice"))
    world.client.send(world.token(b"alice"))
    assert len(world.threads.waiting) == MAX_THREADS
    world.client.leave()
    for _ in others:
        world.threads.go_on()
    assert not world.threads.waiting
    assert world.door.logins.successful == MAX_THREADS


def test_it_is_turned_off_meanwhile() -> None:
    world = World(alice=Done("User:alice"))
    world.door.logins.mechanisms = {}
    world.client.send(world.token(b"alice"))
    world.door.clock.advance(DELAY)
    assert (world.client.closed, world.threads.waiting) == (True, [])

"""Sessions: what a connection's end means to those who subscribed, and how the network is asked to wait."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ottla.server.requests.session import Session


class Network:
    """A connection that notes how long it was muted for, and what it was asked to count, each time,
    with what has the request answered early."""

    def __init__(self) -> None:
        self.muted: list[int] = []
        self.held: list[int] = []
        self.expire_early: list[Callable[[], object] | None] = []

    def hold(self, size: int, expire_early: Callable[[], object] | None = None) -> None:
        self.held.append(size)
        self.expire_early.append(expire_early)

    def mute(self, throttle_time_ms: int) -> None:
        self.muted.append(throttle_time_ms)


def test_all_who_subscribed_hear_once_and_in_order_that_it_is_closed() -> None:
    session, heard = Session("PLAINTEXT", "127.0.0.1"), list[tuple[str, Session]]()

    def hear(name: str, closed: Session) -> None:
        heard.append((name, closed))

    for name in ("first", "second"):
        session.on_close(partial(hear, name))
    assert not session.is_closed
    session.close()
    session.close()
    assert heard == [("first", session), ("second", session)]
    assert session.is_closed


def test_one_who_subscribes_too_late_hears_at_once() -> None:
    session, heard = Session("PLAINTEXT", "127.0.0.1"), list[Session]()
    session.close()
    session.on_close(heard.append)
    assert heard == [session]


def test_a_client_is_muted_while_it_is_connected() -> None:
    network = Network()
    session = Session("PLAINTEXT", "127.0.0.1", connection=network)
    session.mute(20)
    session.close()
    session.mute(30)
    assert network.muted == [20]


def test_what_a_request_holds_counts_while_its_client_is_connected() -> None:
    network = Network()
    session = Session("PLAINTEXT", "127.0.0.1", connection=network)
    session.hold(20, print)
    session.close()
    session.hold(30, print)
    assert (network.held, network.expire_early) == ([20], [print])


def test_without_authentication_everybody_is_anonymous_and_of_unknown_software() -> None:
    session = Session("PLAINTEXT", "127.0.0.1")
    assert (session.principal, session.client_software, session.client_id) == ("User:ANONYMOUS", ("unknown", "unknown"), None)


def test_two_sessions_are_never_equal() -> None:
    assert Session("PLAINTEXT", "127.0.0.1") != Session("PLAINTEXT", "127.0.0.1")

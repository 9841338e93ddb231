"""Whose handshake begins, and whose has to give its place up."""

from __future__ import annotations

from ottla.server.network.handshake_turns import HANDSHAKES, OF_ONE_SOURCE, PATIENCE_S, HandshakeTurns


def begin_all(turns: HandshakeTurns[str], now_s: float = 0.0) -> list[str]:
    begun = []
    while (client := turns.begin(now_s)) is not None:
        begun.append(client)
    return begun


def crowd(turns: HandshakeTurns[str], source: str, count: int) -> list[str]:
    clients = [f"{source}{number}" for number in range(count)]
    for client in clients:
        turns.line_up(source, client)
    return clients


def test_one_source_never_has_all_places() -> None:
    turns: HandshakeTurns[str] = HandshakeTurns()
    clients = crowd(turns, "a", 1000)
    assert begin_all(turns) == clients[:OF_ONE_SOURCE]
    others = crowd(turns, "b", 1000)
    assert begin_all(turns) == others[: HANDSHAKES - OF_ONE_SOURCE]
    assert (turns.under_way, turns.waiting) == (HANDSHAKES, 2000 - HANDSHAKES)


def test_sources_come_in_turn() -> None:
    turns: HandshakeTurns[str] = HandshakeTurns()
    crowd(turns, "a", 3)
    crowd(turns, "b", 2)
    crowd(turns, "c", 1)
    assert begin_all(turns) == ["a0", "b0", "c0", "a1", "b1", "a2"]


def test_who_comes_later_is_behind_all_other_sources() -> None:
    turns: HandshakeTurns[str] = HandshakeTurns()
    for source in "ab":
        crowd(turns, source, HANDSHAKES)
    assert begin_all(turns)[-2:] == ["a31", "b31"]
    crowd(turns, "c", 2)
    for client in ("a0", "b0", "a1", "b1"):
        turns.end(client)
    assert begin_all(turns) == ["a32", "b32", "c0", "a33"]


def test_a_place_that_is_given_back_goes_on() -> None:
    turns: HandshakeTurns[str] = HandshakeTurns()
    clients = crowd(turns, "a", OF_ONE_SOURCE + 1)
    begin_all(turns)
    assert turns.begin(0.0) is None
    turns.end("a7")
    assert turns.begin(0.0) == clients[-1]
    for client in clients:
        if client != "a7":
            turns.end(client)
    assert (turns.under_way, turns.waiting, dict(turns._places), dict(turns._line)) == (0, 0, {}, {})


def test_who_leaves_the_line() -> None:
    turns: HandshakeTurns[str] = HandshakeTurns()
    crowd(turns, "a", OF_ONE_SOURCE + 2)
    begin_all(turns)
    assert turns.leave("a", "a0") is False  # it is under way
    assert turns.leave("b", "b0") is False
    assert turns.leave("a", f"a{OF_ONE_SOURCE}")
    assert turns.waiting == 1
    turns.clear_line()
    assert (turns.waiting, turns.begin(0.0)) == (0, None)


def test_without_a_line_nobody_is_late() -> None:
    turns: HandshakeTurns[str] = HandshakeTurns()
    crowd(turns, "a", OF_ONE_SOURCE)
    begin_all(turns)
    assert (turns.find_late(1000.0), turns.look_again_in_s(1000.0)) == ([], None)


def test_who_is_late_gives_way_as_many_as_wait() -> None:
    turns: HandshakeTurns[str] = HandshakeTurns()
    clients = crowd(turns, "a", OF_ONE_SOURCE)
    begin_all(turns)
    turns.line_up("a", "x")
    turns.line_up("a", "y")
    assert turns.look_again_in_s(0.25) == PATIENCE_S - 0.25
    assert turns.find_late(PATIENCE_S - 0.01) == []
    assert turns.find_late(PATIENCE_S) == clients[:1]  # of one source no more than brings it below its share
    assert turns.look_again_in_s(PATIENCE_S) == 0.0
    turns.end(clients[0])
    assert begin_all(turns, PATIENCE_S) == ["x"]
    assert turns.find_late(PATIENCE_S) == clients[1:2]


def test_a_slow_client_is_not_driven_out_by_a_crowd() -> None:
    turns: HandshakeTurns[str] = HandshakeTurns()
    turns.line_up("slow", "slow")
    begin_all(turns)
    for source in "ab":
        crowd(turns, source, 1000)
    assert len(begin_all(turns, 0.5)) == HANDSHAKES - 1
    assert turns.look_again_in_s(1.25) == 0.25  # the slow one is late already, and stays
    left = HANDSHAKES // 3 - 1  # of each crowd, which has then less than its share, and still somebody in line
    assert turns.find_late(1.5) == [f"{'ab'[number % 2]}{number // 2}" for number in range(HANDSHAKES - 1 - 2 * left)]


def test_among_many_sources_everybody_gives_way() -> None:
    turns: HandshakeTurns[str] = HandshakeTurns()
    for number in range(2 * HANDSHAKES):
        turns.line_up(str(number), str(number))
    begun = begin_all(turns)
    assert turns.find_late(PATIENCE_S) == begun == [str(number) for number in range(HANDSHAKES)]

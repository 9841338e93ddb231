"""Following: the states of a partition, and when there is something new to ask for."""

from __future__ import annotations

import pytest

from ottla.server.replication.following import TRANSITIONS, Following, State
from tests.fakes import MemoryBroker
from tests.log.support import batch


def following(records: int = 0) -> Following:
    broker = MemoryBroker({})
    broker.create_topic("t", leader=2, followers=(2,))
    replica = broker.replica()
    for _ in range(records):
        replica.log.append_as_leader(batch(), leader_epoch=0)
    return Following(replica, 2)


def test_a_log_that_knows_an_epoch_is_fetched_at_once_and_another_is_cut_first() -> None:
    assert following(1).state is State.FETCHING
    assert following(0).state is State.TRUNCATING


def test_a_delay_ends_where_it_began_but_for_a_look_up() -> None:
    for begin, after in ((0, State.TRUNCATING), (1, State.FETCHING)):
        it = following(begin)
        it.delay(3.5)
        assert (it.state, it.due) == (State.DELAYED, 3.5)
        it.resume()
        assert it.state is after
    it = following(1)
    it.look_up()
    it.delay(1.0)
    it.resume()
    assert it.state is State.FETCHING


def test_stopped_is_the_end() -> None:
    it = following(1)
    it.stop()
    it.stop()
    assert TRANSITIONS[it.state] == frozenset()
    with pytest.raises(AssertionError, match=r"State\.STOPPED to State\.FETCHING"):
        it.fetch()


def test_what_to_ask_for_is_new_when_the_log_has_moved() -> None:
    it = following(2)
    asked = it.ask(100)
    assert asked is not None
    assert asked is it.asked
    assert (asked.partition, asked.fetch_offset, asked.last_fetched_epoch, asked.log_start_offset) == (0, 2, 0, 0)
    assert (asked.current_leader_epoch, asked.partition_max_bytes) == (0, 100)
    assert it.ask(100) is None
    it.log.append_as_leader(batch(), leader_epoch=0)
    assert it.ask(100) is not None
    it.log.begin_epoch(4)
    again = it.ask(100)
    assert again is not None
    assert again.last_fetched_epoch == 4
    it.log.high_watermark = 1
    it.log.raise_log_start_offset(1)
    again = it.ask(100)
    assert again is not None
    assert again.log_start_offset == 1


def test_an_answer_is_for_the_log_only_from_its_end_and_while_it_is_fetched() -> None:
    it = following(2)
    assert it.expects(2)
    assert not it.expects(1)
    it.delay(0.0)
    assert not it.expects(2)

"""These tests cover the high watermark of a partition with followers: it is the least log end in sync, and does not move below
min.insync.replicas.
"""

from __future__ import annotations

from functools import partial

from ottla.server.base.errors import NotEnoughReplicasAfterAppend, NotLeaderOrFollower, RequestTimedOut
from ottla.wire.messages.internal.config_record import ConfigRecord
from ottla.wire.messages.internal.partition_change_record import PartitionChangeRecord
from tests.fakes import NODE_ID
from tests.followers import THREE, TWO, Keeper, Led
from tests.log.support import batch

TOPIC_CONFIG = 2


def test_it_is_where_the_last_of_the_in_sync_replicas_is() -> None:
    led = Led()
    assert led.replica.append(batch(3)).waits
    assert led.offset == 0
    led.fetched(two=3)
    assert led.offset == 0, "nothing is known of broker 3"
    led.fetched(three=2)
    assert led.offset == 2
    led.fetched(three=3)
    assert led.offset == 3


def test_a_replica_that_is_not_in_sync_holds_nothing_back() -> None:
    led = Led()
    led.change_isr(TWO)
    led.append(3)
    led.fetched(two=3, three=1)
    assert led.offset == 3


def test_who_falls_out_of_the_in_sync_replicas_lets_it_go() -> None:
    led = Led()
    woken: list[int] = []
    led.append(3)
    led.fetched(two=3)
    led.replica.watchers["reader"] = lambda: woken.append(led.offset)
    led.change_isr(TWO)
    assert (led.offset, woken) == (3, [3])


def test_a_broker_that_has_no_replica_does_not_count() -> None:
    led = Led()
    led.append(3)
    led.fetched(two=3)
    led.high_watermark.on_fetch(4, 0)
    led.fetched(three=3)
    assert led.offset == 3


def test_it_never_moves_back() -> None:
    led = Led()
    led.append(3)
    led.fetched(two=3, three=3)
    led.fetched(two=1)
    led.append()
    assert led.offset == 3


def test_below_min_insync_replicas_it_stays() -> None:
    led = Led(min_insync_replicas=2)
    led.change_isr()
    led.append(3)
    assert led.offset == 0, "nobody else has it"
    led.fetched(two=3)
    led.change_isr(TWO)
    assert led.offset == 3


def test_min_insync_replicas_counts_as_it_is_now() -> None:
    led = Led(min_insync_replicas=2)
    led.change_isr()
    led.append(3)
    led.broker.image.apply_all([ConfigRecord(TOPIC_CONFIG, "t", "min.insync.replicas", "1")])
    assert led.offset == 3


def test_no_more_replicas_are_asked_for_than_there_are() -> None:
    led = Led(min_insync_replicas=9)
    led.append(3)
    led.fetched(two=3, three=3)
    assert led.offset == 3


def test_a_leader_alone_in_sync_moves_it_with_the_append_where_that_is_enough() -> None:
    led = Led()
    led.change_isr()
    assert not led.replica.append(batch(3)).waits
    assert led.offset == 3


def test_readers_are_woken_when_it_moves_and_only_then() -> None:
    led = Led()
    led.append(3)
    woken: list[int] = []
    led.replica.watchers["reader"] = lambda: woken.append(led.offset)
    led.fetched(two=3)
    assert woken == []
    led.fetched(three=2)
    assert woken == [2]


def test_what_waits_is_called_in_order_as_far_as_it_moved() -> None:
    led = Led()
    called: list[int] = []

    def note(end_offset: int, error: object) -> None:
        called.append(end_offset)

    for end_offset in (led.append(), led.append(), led.append()):
        led.high_watermark.when_passed(end_offset, partial(note, end_offset))
    led.fetched(two=3, three=2)
    assert called == [1, 2]
    led.fetched(three=3)
    assert called == [1, 2, 3]


def test_what_it_has_passed_is_called_at_once() -> None:
    led = Led()
    called: list[Exception | None] = []
    end_offset = led.append()
    led.fetched(two=1, three=1)
    led.high_watermark.when_passed(end_offset, called.append)
    assert called == [None]


def test_a_duplicate_waits_for_its_own_offset() -> None:
    led = Led()
    called: list[str] = []
    led.append(5)
    led.high_watermark.when_passed(5, lambda error: called.append("new"))
    led.high_watermark.when_passed(2, lambda error: called.append("duplicate"))
    led.fetched(two=2, three=2)
    assert called == ["duplicate"]


def test_a_new_leader_epoch_forgets_where_followers_were() -> None:
    led = Led()
    led.append(3)
    led.fetched(two=3)
    called: list[Exception | None] = []
    led.high_watermark.when_passed(3, called.append)
    led.broker.elect("t", NODE_ID)
    led.fetched(three=3)
    assert (led.offset, called) == (0, []), "broker 2 may have cut its log"
    led.fetched(two=3)
    assert (led.offset, called) == (3, [None]), "the leadership went on, and so did the wait"


def test_an_isr_change_keeps_where_followers_were() -> None:
    led = Led()
    led.append(3)
    led.fetched(two=3)
    led.change_isr(TWO, THREE)
    led.fetched(three=3)
    assert led.offset == 3


def test_the_end_of_the_leadership_ends_every_wait() -> None:
    led = Led()
    called: list[Exception | None] = []
    led.high_watermark.when_passed(led.append(), called.append)
    led.high_watermark.when_passed(led.append(), called.append)
    led.broker.elect("t", TWO)
    assert [type(error) for error in called] == [NotLeaderOrFollower] * 2


def test_what_is_not_flushed_as_asked_is_not_passed() -> None:
    led = Led(flush_messages=1)
    led.append(3)
    led.fetched(two=3, three=3)
    assert led.offset == 0
    led.replica.log.flush()
    assert led.offset == 3


def test_a_flush_that_releases_earlier_appends_does_not_move_the_leaders_own_end_back() -> None:
    led = Led()
    led.append(5)
    assert led.high_watermark.on_append(3)
    led.fetched(two=5, three=5)
    assert led.offset == 5


def test_a_replica_that_is_added_holds_it_back_once_it_is_in_sync() -> None:
    led = Led()
    led.append(3)
    topic_id = led.broker.topic_id("t")
    led.broker.image.apply(PartitionChangeRecord(0, topic_id, replicas=[1, 2, 3, 4], isr=[1, 2, 3, 4]))
    led.fetched(two=3, three=3)
    assert led.offset == 0
    led.high_watermark.on_fetch(4, 2)
    assert led.offset == 2


# Who proposes changes of the in-sync replicas


def kept() -> tuple[Led, Keeper]:
    """A leader whose only follower in sync is 2, and the keeper of its in-sync replicas."""
    led, keeper = Led(), Keeper()
    led.change_isr(TWO)
    led.high_watermark.keeper = keeper
    led.append(3)
    return led, keeper


def test_a_follower_that_may_join_holds_it_back() -> None:
    led, keeper = kept()
    keeper.eligible.add(THREE)
    led.fetched(two=3, three=1)
    assert led.offset == 1
    keeper.eligible.clear()
    led.append()
    led.fetched(two=4)
    assert led.offset == 4


def test_a_proposed_follower_holds_it_back_until_the_proposal_ends() -> None:
    led, _ = kept()
    led.high_watermark.count({NODE_ID, TWO, THREE})
    led.fetched(two=3, three=2)
    assert led.offset == 2
    led.high_watermark.count()
    assert led.offset == 3


def test_while_a_shrink_is_proposed_the_larger_set_counts() -> None:
    led, _ = kept()
    led.high_watermark.count({NODE_ID})
    led.fetched(two=1)
    assert led.offset == 1


def test_each_fetch_is_considered_once_and_one_from_an_earlier_life_not_at_all() -> None:
    led, keeper = kept()
    keeper.fenced_out.add(THREE)
    assert led.high_watermark.on_fetch(TWO, 3)
    assert not led.high_watermark.on_fetch(THREE, 3)
    assert keeper.considered == [TWO]
    assert led.high_watermark.followers[THREE].end_offset == -1


def test_a_broker_that_is_no_replica_is_told_so() -> None:
    led, keeper = kept()
    assert not led.high_watermark.on_fetch(9, 3)
    assert keeper.considered == []


def test_what_the_controllers_answered_counts_and_older_metadata_do_not() -> None:
    led, keeper = kept()
    now = led.high_watermark.partition_epoch
    led.high_watermark.commit({NODE_ID, TWO, THREE}, now + 2)
    led.change_isr(TWO)  # of the epoch now + 1
    assert led.high_watermark.in_sync == {NODE_ID, TWO, THREE}
    led.change_isr(TWO)
    assert led.high_watermark.in_sync == {NODE_ID, TWO}
    assert keeper.times_replaced == 2


def test_a_new_leader_epoch_counts_whatever_was_answered_before() -> None:
    led, _ = kept()
    led.high_watermark.commit({NODE_ID}, led.high_watermark.partition_epoch + 9)
    led.broker.elect("t", NODE_ID)
    assert led.high_watermark.in_sync == {NODE_ID, TWO}


# min.insync.replicas


def test_the_replica_says_when_too_few_are_in_sync() -> None:
    led = Led(min_insync_replicas=2)
    led.change_isr(TWO)
    assert not led.replica.under_min_isr
    led.change_isr()
    assert led.replica.under_min_isr
    led.broker.image.apply_all([ConfigRecord(TOPIC_CONFIG, "t", "min.insync.replicas", "1")])
    assert not led.replica.under_min_isr
    led.broker.image.apply_all([ConfigRecord(TOPIC_CONFIG, "t", "min.insync.replicas", "2")])
    led.broker.elect("t", TWO)
    assert not led.replica.under_min_isr, "it is the leader's to say"


def test_too_few_in_sync_by_the_time_that_all_have_it() -> None:
    led = Led(min_insync_replicas=2)
    outcomes: list[Exception | None] = []
    led.append(3)
    led.fetched(two=3, three=3)
    led.change_isr()
    led.high_watermark.when_passed(3, outcomes.append)
    assert [type(outcome) for outcome in outcomes] == [NotEnoughReplicasAfterAppend]


# Deadlines


def test_a_wait_ends_at_its_deadline_and_not_before() -> None:
    led = Led()
    outcomes: list[Exception | None] = []
    led.high_watermark.when_passed(led.append(), outcomes.append, timeout_ms=1000)
    led.broker.clock.advance(0.999)
    assert outcomes == []
    led.broker.clock.advance(0.001)
    assert [type(outcome) for outcome in outcomes] == [RequestTimedOut]
    led.fetched(two=1, three=1)
    assert len(outcomes) == 1
    assert led.broker.clock.waiting == 0


def test_each_wait_has_its_own_deadline_by_one_timer() -> None:
    led = Led()
    ended: list[str] = []

    def note(name: str, error: Exception | None) -> None:
        ended.append(name)

    for name, timeout_ms in (("c", 3000), ("a", 1000), ("b", 2000)):
        led.high_watermark.when_passed(led.append(), partial(note, name), timeout_ms)
    led.high_watermark.when_passed(led.append(), lambda error: ended.append("never"))
    assert led.broker.clock.waiting == 1
    led.broker.clock.advance(1.0)
    assert ended == ["a"]
    led.broker.clock.advance(1.0)
    assert ended == ["a", "b"]
    led.broker.clock.advance(1.0)
    assert ended == ["a", "b", "c"]
    assert led.broker.clock.waiting == 0


def test_what_came_in_time_leaves_the_timer_to_the_next() -> None:
    led = Led()
    outcomes: list[Exception | None] = []
    led.high_watermark.when_passed(led.append(), outcomes.append, timeout_ms=1000)
    led.fetched(two=1, three=1)
    led.broker.clock.advance(0.5)
    led.high_watermark.when_passed(led.append(), outcomes.append, timeout_ms=1000)
    led.broker.clock.advance(0.75)
    assert outcomes == [None]
    led.broker.clock.advance(0.25)
    assert [type(outcome) for outcome in outcomes] == [type(None), RequestTimedOut]


def test_the_end_of_the_leadership_stops_the_timer() -> None:
    led = Led()
    led.high_watermark.when_passed(led.append(), lambda error: None, timeout_ms=1000)
    led.broker.elect("t", TWO)
    assert led.broker.clock.waiting == 0


def test_the_low_watermark_is_the_least_start_of_those_that_are_alive() -> None:
    led = Led()
    led.append(5)
    led.fetched(two=5, three=5)
    both = {TWO, THREE}
    assert led.high_watermark.low_watermark(both) == -1
    led.high_watermark.on_fetch(TWO, 5, 4)
    assert led.high_watermark.low_watermark(both) == -1
    led.high_watermark.on_fetch(THREE, 5, 3)
    assert led.high_watermark.low_watermark(both) == 0, "the leader's own"
    led.replica.delete_records_before(5)
    assert led.high_watermark.low_watermark(both) == 3
    assert led.high_watermark.low_watermark({TWO}) == 4
    assert led.high_watermark.low_watermark(()) == 5


def test_a_start_that_moved_wakes_who_waits_for_it() -> None:
    led = Led()
    woken: list[int] = []
    led.high_watermark.on_fetch(TWO, 0, 0)
    led.replica.watchers["deletion"] = lambda: woken.append(1)
    led.high_watermark.on_fetch(TWO, 0, 0)
    assert woken == []
    led.high_watermark.on_fetch(TWO, 0, 1)
    assert woken == [1]

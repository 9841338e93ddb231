"""These tests cover the high watermark of a partition with followers: it is the least log end in sync, and does not move below
min.insync.replicas.
"""

from __future__ import annotations

from functools import partial

from ottla.server.base.errors import NotLeaderOrFollower
from ottla.wire.messages.internal.config_record import ConfigRecord
from ottla.wire.messages.internal.partition_change_record import PartitionChangeRecord
from tests.fakes import NODE_ID
from tests.log.support import batch
from tests.server.partitions.followers import THREE, TWO, Led

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

"""The soak's promises: what retention and compaction may take away, and that nothing else may be missing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.testing import Broker
from scripts.soak.client import Found, read
from scripts.soak.load import EVERY, KEYED, SMALL, TRANSACTED, Load
from scripts.soak.promises import Committed, Kept, Keys, Log, Topics, Transactions

NOW = 1_000_000


def found(*records: tuple[int, bytes]) -> list[Found]:
    return [Found(offset, None, value) for offset, value in records]


def aged(*ages: int) -> Log:
    """A log with retention.ms=100 and a record of each age."""
    return Log("t", retention_ms=100, records={at: Kept(b"%d" % at, NOW - age) for at, age in enumerate(ages)})


def test_old_records_may_be_gone_and_are_forgotten() -> None:
    log = aged(101, 50, 0)
    log.check(1, 3, found((1, b"1"), (2, b"2")), NOW)
    assert sorted(log.records) == [1, 2]
    assert log.gone == 1


@pytest.mark.parametrize(
    ("start", "end", "there", "said"),
    [
        (1, 3, [(1, b"1"), (2, b"2")], "0 is gone after 100 ms of 100"),
        (0, 3, [(0, b"0"), (2, b"2")], "nothing at 1, not b'1'"),
        (0, 3, [(0, b"0"), (1, b"x"), (2, b"2")], "b'x' at 1, not b'1'"),
        (0, 2, [(0, b"0"), (1, b"1")], "2 was acknowledged, and the log ends at 2"),
    ],
)
def test_young_records_may_not(start: int, end: int, there: list[tuple[int, bytes]], said: str) -> None:
    with pytest.raises(AssertionError, match=said):
        aged(100, 50, 0).check(start, end, found(*there), NOW)


def test_by_size_so_many_bytes_have_to_be_left() -> None:
    def log() -> Log:
        return Log("t", retention_bytes=200, records={at: Kept(b"x" * 100, NOW) for at in range(4)})

    there = found(*((at, b"x" * 100) for at in range(4)))
    log().check(0, 4, there, NOW)
    log().check(2, 4, there[2:], NOW)
    with pytest.raises(AssertionError, match="100 bytes are left of 200"):
        log().check(3, 4, there[3:], NOW)


def test_the_last_value_of_a_key_or_one_that_was_asked_for_later() -> None:
    keys = Keys("t")
    keys.acknowledged(b"k", b"1")
    keys.check([Found(5, b"k", b"1")])
    keys.asked[b"k"].add(b"2")
    keys.check([Found(5, b"k", b"1"), Found(6, b"k", b"2")])
    keys.acknowledged(b"k", b"2")
    with pytest.raises(AssertionError, match="b'1' for b'k', not b'2'"):
        keys.check([Found(5, b"k", b"1")])
    with pytest.raises(AssertionError, match="nothing for b'k', not b'2'"):
        keys.check([])


def test_a_tombstone_may_be_there_or_not() -> None:
    keys = Keys("t")
    keys.acknowledged(b"k", None)
    keys.check([])
    keys.check([Found(5, b"k", None)])
    with pytest.raises(AssertionError, match="b'1' for b'k', not nothing"):
        keys.check([Found(4, b"k", b"1")])


def test_transactions_are_whole_or_not_there() -> None:
    def check(committed: bool | None, age: int, *parts: bytes) -> Transactions:
        of = Transactions("t", retention_ms=100, parts=2, ended={"a": (committed, NOW - age)})
        of.check(found(*enumerate(parts)), NOW)
        return of

    check(True, 0, b"a 0", b"a 1")
    check(None, 0, b"a 0", b"a 1")
    check(None, 0)
    check(False, 0)
    assert not check(True, 101).ended
    assert check(True, 101, b"a 1").ended  # its first part is in a segment that is gone already
    for wrong in ((True, b"a 0"), (True,), (None, b"a 1"), (False, b"a 0"), (True, b"a 0", b"a 0", b"a 1")):
        with pytest.raises(AssertionError, match="t: a "):
            check(wrong[0], 0, *wrong[1:])


def test_topics_are_there_until_they_are_deleted() -> None:
    topics = Topics(there=["a", "b"], gone={"c"}, unknown={"b", "d"})
    topics.check({"a", "d"})
    with pytest.raises(AssertionError, match=r"topics are gone: \['a'\]"):
        topics.check({"b"})
    with pytest.raises(AssertionError, match=r"deleted topics are there: \['c'\]"):
        topics.check({"a", "b", "c"})


def test_a_committed_offset_is_the_last_or_a_later_one() -> None:
    Committed(acknowledged=3, asked=4).check(3)
    Committed(acknowledged=3, asked=4).check(4)
    for wrong in (2, 5):
        with pytest.raises(AssertionError, match="committed 3 to 4"):
            Committed(acknowledged=3, asked=4).check(wrong)


# The load, on a broker


@pytest.fixture
def load() -> Iterator[Load]:
    with Broker(
        group_initial_rebalance_delay_ms=0, group_share_assignment_interval_ms=0, transaction_state_log_num_partitions=1
    ) as broker:
        load = Load(broker.port, lambda: 0.0)
        load.prepare()
        yield load
        load.disconnect()


def test_the_load_does_all_that_it_can_and_finds_it_again(load: Load) -> None:
    for _ in range(EVERY * 7 * 3):  # each of the larger things three times: the third transaction is aborted
        load.round()
    assert load.check() > 500
    assert len(load.waits) == len(load.rulers) == 3 * load.rounds
    ended = [committed for committed, _ in load.transacting.promises.ended.values()]
    assert sorted(map(str, ended)) == ["False", "True", "True"]
    assert len(read(load.client, TRANSACTED)[2]) == 6
    assert len(read(load.client, TRANSACTED, committed=True)[2]) == 4
    assert load.topics.there == ["made-1", "made-2", "made-3"]
    assert load.churn.taken > 0
    load.disconnect()
    load.connect()
    load.round()  # as after a start


def test_what_is_missing_is_missed(load: Load) -> None:
    load.round()
    offset = max(load.logs[SMALL].records)
    load.logs[SMALL].records[offset] = Kept(b"another", NOW)
    with pytest.raises(AssertionError, match=f"small: .* at {offset}, not b'another'"):
        load.check()
    del load.logs[SMALL].records[offset]
    load.check()
    load.keys.last[b"never"] = b"written"
    with pytest.raises(AssertionError, match=f"{KEYED}: nothing for b'never'"):
        load.check()

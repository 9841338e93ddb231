"""These tests cover expressions: which are refused, which topics match, and that many expressions do not hold up other work."""

from __future__ import annotations

import pytest

from ottla.server.base import expressions
from ottla.server.base.turns import Steps, at_once
from ottla.server.group.consumer.group import ConsumerGroup
from ottla.server.group.consumer.regexes import check_regex, match
from ottla.server.group.errors import GroupError
from ottla.wire.errors import ErrorCode
from tests.in_loop import in_loop
from tests.server.coordination.memory import slow
from tests.server.group.consumer.beats import Beating


def test_an_expression_matches_whole_names() -> None:
    found = at_once(match(["t", "t.*", "("], ["t", "tt", "at"]))
    assert found == {"t": {"t"}, "t.*": {"t", "tt"}, "(": None}


def pauses(steps: Steps[object]) -> int:
    return sum(1 for _ in steps)


def test_there_is_a_pause_after_each_expression_and_each_topic() -> None:
    """One topic may take some milliseconds, and so may compiling an expression."""
    names = [f"t{number}" for number in range(7)]
    assert pauses(match(["t.*", "x"], names)) == 2 * (1 + len(names))
    assert pauses(match(["("] * 5, names)) == 5


def test_whether_a_topic_may_be_seen_is_asked_a_topic_a_step() -> None:
    asked: list[str] = []

    def may_see(name: str) -> bool:
        asked.append(name)
        return name != "t2"

    steps = match(["t.*"], ["t1", "t2", "t3"], may_see)
    for _ in range(2):
        next(steps)
    assert asked == ["t1", "t2"]
    assert at_once(steps) == {"t.*": frozenset({"t1", "t3"})}


def test_without_topics_there_is_nothing_to_match() -> None:
    assert at_once(match(["t"], [])) == {"t": frozenset()}


def test_what_is_no_expression_is_refused() -> None:
    check_regex("t.*")
    with pytest.raises(GroupError) as refused:
        check_regex("(")
    assert refused.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    with pytest.raises(GroupError, match=r"`aaa.*aaa\.\.\.` is not accepted: it is too long") as refused:
        check_regex("a" * 10_000)
    assert refused.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert len(refused.value.message or "") < 500


@in_loop
async def test_a_lookup_that_takes_several_turns_ends() -> None:
    driver = Beating()
    driver.beat("m", subscribed_topic_names=None, subscribed_topic_regex="t|u")
    armed = driver.clock.armed
    with slow(driver.clock):
        driver.clock.advance(0)
    assert driver.clock.armed > armed + 2, "pauses on the way"
    group = driver.broker.groups.find("g")
    assert isinstance(group, ConsumerGroup)
    assert group.regexes["t|u"].topics == {"t", "u"}
    assert group.epoch == 2


@in_loop
async def test_an_expression_that_is_no_longer_accepted_keeps_its_topics(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It may be of before an update that brought a bound; its client does not send it again."""
    driver = Beating()
    driver.beat("m", subscribed_topic_names=None, subscribed_topic_regex="t|u")
    driver.later(11)
    group = driver.broker.groups.find("g")
    assert isinstance(group, ConsumerGroup)
    epoch = group.epoch
    monkeypatch.setattr(expressions, "MAX_WEIGHT", 2)
    driver.topic("v", 9, 1)
    driver.beat("m", group.members["m"].epoch)
    driver.later(11)
    assert (group.regexes["t|u"].topics, group.epoch) == (frozenset("tu"), epoch)
    assert "does not accept keeps its 2 topics" in caplog.text


@in_loop
async def test_a_topic_is_read_as_long_as_an_expression_matches_it() -> None:
    driver = Beating()
    for member, expression in (("m1", "t"), ("m2", "[tu]")):
        driver.beat(member, subscribed_topic_names=None, subscribed_topic_regex=expression)
        driver.later(11)
    group = driver.broker.groups.find("g")
    assert isinstance(group, ConsumerGroup)
    driver.beat("m1", group.members["m1"].epoch)
    driver.later(11)
    assert group.subscribed_topics() == {"t", "u"}
    assert group.subscribed_topics(gone_regexes=["t"]) == {"t", "u"}
    assert group.subscribed_topics(gone_regexes=["[tu]", "never heard of"]) == {"t"}
    assert (group.is_subscribed("u"), group.reads_any({"u", "x"}), group.reads_any({"x"})) == (True, True, False)
    driver.beat("m2", -1)
    assert group.subscribed_topics() == {"t"}
    assert not group.is_subscribed("u")

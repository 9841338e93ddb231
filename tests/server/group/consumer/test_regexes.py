"""These tests cover expressions: which are refused, which topics match, and that many expressions do not hold up other work."""

from __future__ import annotations

import pytest

from ottla.server.group.consumer.group import ConsumerGroup
from ottla.server.group.consumer.regexes import STEP, check_regex, match
from ottla.server.group.errors import GroupError
from ottla.wire.errors import ErrorCode
from tests.in_loop import in_loop
from tests.server.group.consumer.beats import Beating


def test_an_expression_matches_whole_names() -> None:
    *pauses, found = match(["t", "t.*", "("], ["t", "tt", "at"])
    assert found == {"t": {"t"}, "t.*": {"t", "tt"}, "(": frozenset()}
    assert pauses == [None, None]


def test_there_is_a_pause_after_so_many_topics() -> None:
    names = [f"t{number}" for number in range(2 * STEP + 1)]
    *pauses, found = match(["t.*", "x"], names)
    assert found == {"t.*": set(names), "x": frozenset()}
    assert pauses == [None] * 6


NAMED = "".join(f"(?P<a{number}>" for number in range(2_500))


@pytest.mark.parametrize("groups", ["(" * 10_000 + ")" * 10_000, NAMED + ")" * 2_500])
def test_groups_are_not_captured(groups: str) -> None:
    """With captures this would take minutes, on the event loop."""
    names = frozenset(f"topic{number}" for number in range(5 * STEP))
    *_, found = match([groups + "topic.*"], [*names, "atopic1"])
    assert found is not None
    assert list(found.values()) == [names]


def test_without_topics_there_is_nothing_to_match() -> None:
    assert list(match(["t"], [])) == [{"t": frozenset()}]


def test_what_is_no_expression_is_refused() -> None:
    check_regex("t.*")
    with pytest.raises(GroupError) as refused:
        check_regex("(")
    assert refused.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION


@in_loop
async def test_a_lookup_that_takes_several_turns_ends() -> None:
    driver = Beating()
    for number in range(10, 10 + 3 * STEP // 2):
        driver.broker.metadata.topics[f"x{number}"] = driver.broker.metadata.topics["t"]
    driver.beat("m", subscribed_topic_names=None, subscribed_topic_regex="t|u")
    armed = driver.clock.armed
    driver.clock.advance(0)
    assert driver.clock.armed == armed + 2, "two pauses on the way"
    group = driver.broker.groups.find("g")
    assert isinstance(group, ConsumerGroup)
    assert group.regexes["t|u"].topics == {"t", "u"}
    assert group.epoch == 2


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

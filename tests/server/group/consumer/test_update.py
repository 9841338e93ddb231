"""A request becomes records, step by step: the member, its expression, the group's epoch, its target, and the way there."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ottla.log.errors import StorageError
from ottla.server.base.turns import Steps, at_once
from ottla.server.group.classic.group import ClassicGroup
from ottla.server.group.consumer import records
from ottla.server.group.consumer.group import ConsumerGroup
from ottla.server.group.consumer.member import ConsumerMember, MemberState
from ottla.server.group.consumer.regexes import LEAST_INTERVAL_MS
from ottla.server.group.consumer.update import GroupUpdate, RegexChange, Target
from ottla.server.group.errors import GroupError
from ottla.server.group.modern.assignor import Assignment, AssignorError, GroupAssignment, GroupSpec
from ottla.server.group.modern.epochs import LOOK_AGAIN_MS
from ottla.server.group.result import Result
from ottla.wire.errors import ErrorCode
from tests.server.group.consumer.rig import EPOCH, Rig, T, U, classic_member, member, refusal

REFRESH_MS = 600_000
"""The default of group.consumer.regex.refresh.interval.ms."""
M, N = member("m", "t"), member("n", "u")
ALL_OF_T: Assignment = {T: frozenset({0, 1, 2})}


def run(update: GroupUpdate) -> None:
    """Writes the update's records; what is to follow them follows."""
    update.services.run(update.result(None))


class Spy:
    """An assignor that notes what it is shown, and gives what it is told to."""

    def __init__(self, **given: Assignment) -> None:
        self.given: GroupAssignment = dict(given)
        self.shown: list[GroupSpec] = []

    def __call__(self, spec: GroupSpec) -> Steps[GroupAssignment]:
        self.shown.append(spec)
        yield None
        return self.given

    @property
    def spec(self) -> GroupSpec:
        (only,) = self.shown
        return only


# The answer


def test_what_follows_a_write_waits_for_it() -> None:
    rig, done = Rig(), list[str]()
    update = rig.update(M)
    update.records.append(records.epoch("g", 9, 0))
    update.after += [lambda: done.append("first"), lambda: done.append("second")]

    def then() -> Result[None]:
        done.append("then")
        return Result([records.epoch("g", 10, 0)], None)

    rig.broker.log.fail = StorageError("gone")
    with pytest.raises(GroupError):
        rig.services.run(update.result("answer", then))
    assert done == []
    rig.broker.log.fail = None
    assert rig.services.run(update.result("answer", then)) == "answer"
    assert done == ["first", "second", "then"]
    assert update.group.epoch == 10, "the step behind it is written as well"


# The member


def test_a_member_is_written_if_it_has_changed() -> None:
    update = Rig().update(M)
    assert not update.put_member(M, M)
    assert update.records == []
    with_rack = replace(M, rack_id="r")
    assert not update.put_member(M, with_rack)
    other_topics = replace(M, topics=frozenset({"u"}))
    assert update.put_member(M, other_topics)
    assert update.records == [records.member("g", with_rack), records.member("g", other_topics)]


# Expressions


X, Y = member("x", regex="t.*"), member("y", regex="t.*")
MATCHED = {"t.*": ["t"]}


def test_an_expression_that_nobody_had_is_looked_up() -> None:
    rig = Rig()
    update = rig.update(M)
    assert update.subscribe_regex(M, replace(M, regex="t.*")) is RegexChange.UNKNOWN_YET
    assert update.records == []
    assert not rig.services.lookups.is_running("g")
    run(update)
    assert rig.services.lookups.is_running("g")
    rig.clock.advance(0)
    assert rig.found == [("g", {"t.*": frozenset({"t"})}, rig.broker.metadata.highest_offset)]


def test_an_expression_that_is_none_is_refused() -> None:
    update = Rig().update(M)
    with pytest.raises(GroupError) as error:
        update.subscribe_regex(M, replace(M, regex="("))
    assert refusal(error) is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert (update.records, update.after) == ([], [])


def test_an_expression_that_another_has_is_known_once_it_was_looked_up() -> None:
    assert Rig().update(M, X, regexes=MATCHED).subscribe_regex(M, replace(M, regex="t.*")) is RegexChange.KNOWN
    assert Rig().update(M, X).subscribe_regex(M, replace(M, regex="t.*")) is RegexChange.UNKNOWN_YET


def test_an_expression_that_stays_changes_nothing() -> None:
    update = Rig().update(M, X, regexes=MATCHED)
    assert update.subscribe_regex(X, replace(X, rack_id="r")) is RegexChange.NONE
    assert update.subscribe_regex(M, replace(M, rack_id="r")) is RegexChange.NONE
    assert (update.records, update.after) == ([], [])


def test_an_expression_goes_with_the_last_who_had_it() -> None:
    update = Rig().update(X, Y, regexes=MATCHED)
    assert update.subscribe_regex(X, replace(X, regex="")) is RegexChange.KNOWN
    assert update.records == [], "the other still has it"
    update = Rig().update(X, regexes=MATCHED)
    assert update.subscribe_regex(X, replace(X, regex="")) is RegexChange.KNOWN
    assert update.records == [records.regex_tombstone("g", "t.*")]
    update = Rig().update(X, regexes=MATCHED)
    assert update.subscribe_regex(X, replace(X, regex="u.*")) is RegexChange.UNKNOWN_YET
    assert update.records == [records.regex_tombstone("g", "t.*")]


def lookups_of(rig: Rig, group: ConsumerGroup, old: ConsumerMember, new: ConsumerMember) -> list[set[str]]:
    """The expressions that a heartbeat of this member has looked up, if it has any."""
    update = GroupUpdate(rig.services, group)
    update.subscribe_regex(old, new)
    for effect in update.after:
        effect()
    rig.clock.advance(0)
    return [set(matches) for _, matches, _ in rig.found]


@pytest.mark.parametrize(
    ("after_ms", "new_topic", "due"),
    [
        (LEAST_INTERVAL_MS, True, False),
        (LEAST_INTERVAL_MS + 1, True, True),
        (LEAST_INTERVAL_MS + 1, False, False),
        (REFRESH_MS, False, False),
        (REFRESH_MS + 1, False, True),
    ],
)
def test_lookups_are_repeated_for_new_topics_and_after_a_while(after_ms: int, new_topic: bool, due: bool) -> None:
    rig = Rig()
    group = rig.make(X, regexes=MATCHED)
    rig.broker.metadata.highest_offset += 1
    rig.services.topic_changed("t", is_new=new_topic)
    rig.clock.advance(after_ms / 1000)
    assert lookups_of(rig, group, X, X) == ([{"t.*"}] if due else [])


def test_how_often_lookups_are_repeated_is_a_setting_of_the_brokers() -> None:
    rig = Rig(group_consumer_regex_refresh_interval_ms=20_000)
    group = rig.make(X, regexes=MATCHED)
    rig.clock.advance(20)
    assert lookups_of(rig, group, X, X) == []
    rig.clock.advance(0.001)
    assert lookups_of(rig, group, X, X) == [{"t.*"}]


def test_all_expressions_are_looked_up_together_and_a_new_one_not_too_soon() -> None:
    rig = Rig()
    group = rig.make(M, X, regexes=MATCHED)
    subscribing = replace(M, regex="u.*")
    rig.clock.advance(LEAST_INTERVAL_MS / 1000)
    assert lookups_of(rig, group, M, subscribing) == []
    rig.clock.advance(0.001)
    assert lookups_of(rig, group, M, subscribing) == [{"t.*", "u.*"}]


def test_an_expression_that_was_put_off_is_looked_up_by_a_later_heartbeat() -> None:
    rig = Rig()
    group = rig.make(replace(M, regex="u.*"), X, regexes=MATCHED)
    rig.clock.advance(LEAST_INTERVAL_MS / 1000 + 1)
    assert lookups_of(rig, group, X, X) == [{"t.*", "u.*"}]


def test_one_lookup_runs_at_a_time_and_none_where_nothing_is_left_to_look_up() -> None:
    rig = Rig()
    group = rig.make(X, regexes=MATCHED)
    rig.clock.advance(REFRESH_MS / 1000 + 1)
    assert lookups_of(rig, group, X, replace(X, regex="")) == []
    rig.services.lookups.start("g", ["t.*"])
    assert lookups_of(rig, group, X, X) == [{"t.*"}], "that one alone"


# The group's epoch


def test_the_epoch_stays_while_nothing_has_changed() -> None:
    rig = Rig()
    group = rig.make(M)
    rig.clock.advance(1)
    update = GroupUpdate(rig.services, group)
    group.refresh_at_ms = update.now_ms + 1
    assert at_once(update.next_epoch(M, M, changed=False)) == EPOCH
    assert update.after == [], "its topics are not looked at"
    group.refresh_at_ms = update.now_ms
    assert at_once(update.next_epoch(M, M, changed=False)) == EPOCH
    assert update.records == []
    run(update)
    assert group.refresh_at_ms == update.now_ms + LOOK_AGAIN_MS


def test_the_next_epoch_is_of_what_is_read_now() -> None:
    rig = Rig()
    update = rig.update(M, N)
    assert at_once(update.next_epoch(M, replace(M, topics=frozenset({"u"})), changed=True)) == EPOCH + 1
    assert update.records == [records.epoch("g", EPOCH + 1, rig.hash_of("u"))]
    update = rig.update(M, N)
    assert at_once(update.next_epoch(M, M, changed=True)) == EPOCH + 1
    assert update.records == [records.epoch("g", EPOCH + 1, rig.hash_of("t", "u"))]


def test_another_hash_is_another_epoch_when_topics_are_looked_at() -> None:
    rig = Rig()
    group = rig.make(M)
    rig.broker.metadata.topics["t"].partitions.pop(2)
    rig.services.topic_changed("t", is_new=False)
    update = GroupUpdate(rig.services, group)
    assert at_once(update.next_epoch(M, M, changed=False)) == EPOCH
    rig.services.look_for_changes(group)
    assert at_once(update.next_epoch(M, M, changed=False)) == EPOCH + 1
    assert update.records == [records.epoch("g", EPOCH + 1, rig.hash_of("t"))]
    assert group.metadata_hash != rig.hash_of("t")


@pytest.mark.parametrize(
    ("others", "new", "read"),
    [
        ((N,), replace(X, regex="u.*"), ["u"]),
        ((N,), X, ["t", "u"]),
        ((N, Y), replace(X, regex=""), ["t", "u"]),
    ],
    ids=["another", "the same", "somebody else's, too"],
)
def test_topics_of_an_expression_that_goes_do_not_count(
    others: tuple[ConsumerMember, ...], new: ConsumerMember, read: list[str]
) -> None:
    rig = Rig()
    update = rig.update(X, *others, regexes=MATCHED)
    at_once(update.next_epoch(X, new, changed=True))
    assert update.records == [records.epoch("g", EPOCH + 1, rig.hash_of(*read))]


def test_what_an_older_kafka_kept_goes_with_the_next_look_at_topics() -> None:
    update = Rig().update(M)
    update.group.has_partition_metadata = True
    at_once(update.next_epoch(M, M, changed=False))
    assert update.records == []
    at_once(update.next_epoch(M, M, changed=True))
    assert update.records[1:] == [records.partition_metadata_tombstone("g")]


def test_a_group_that_is_gone_by_then_is_not_noted_as_looked_at() -> None:
    rig = Rig()
    update = rig.update(M)
    before = update.group.refresh_at_ms
    rig.shard.groups["g"] = ClassicGroup("g", 0)
    update.refreshed()
    again = rig.shard.groups["g"] = ConsumerGroup("g")
    update.refreshed()
    assert (update.group.refresh_at_ms, again.refresh_at_ms) == (before, update.now_ms + LOOK_AGAIN_MS)


# The target


def test_a_target_is_made_for_the_next_epoch_and_written_where_it_changes() -> None:
    rig = Rig()
    update = rig.update(M, N, targets={"m": ALL_OF_T})
    made = update.target(M, M, EPOCH + 1)
    assert made == Target(EPOCH + 1, ALL_OF_T)
    assert update.records == [
        records.target("g", "n", {U: frozenset({0})}),
        records.target_epoch("g", EPOCH + 1, update.now_ms),
    ]


def test_a_member_that_the_assignor_leaves_out_gets_nothing() -> None:
    rig = Rig()
    rig.services.assignors["uniform"] = Spy(n={U: frozenset({0})})
    assert rig.update(M, N).target(M, M, EPOCH + 1) == Target(EPOCH + 1, {})


@pytest.mark.parametrize(("age_ms", "epoch", "due"), [(999, 1, False), (1000, 1, True), (1000, 0, False), (1000, -1, False)])
def test_a_target_is_due_in_another_epoch_and_not_too_soon(age_ms: int, epoch: int, due: bool) -> None:
    rig = Rig()
    group = rig.make(M, targets={"m": {T: frozenset({0})}}, assigned_ms=rig.clock.now_ms())
    rig.clock.advance(age_ms / 1000)
    update = GroupUpdate(rig.services, group)
    expected = Target(EPOCH + 1, ALL_OF_T) if due else Target(EPOCH, {T: frozenset({0})})
    assert update.target(M, M, EPOCH + epoch) == expected
    assert bool(update.records) == due


def test_how_soon_another_target_may_be_made_is_a_setting_of_the_group() -> None:
    rig = Rig()
    rig.broker.configs[32, "g"] = {"consumer.assignment.interval.ms": "5000"}
    group = rig.make(M, assigned_ms=rig.clock.now_ms())
    rig.clock.advance(4.999)
    assert GroupUpdate(rig.services, group).target(M, M, EPOCH + 1).epoch == EPOCH
    rig.clock.advance(0.001)
    assert GroupUpdate(rig.services, group).target(M, M, EPOCH + 1).epoch == EPOCH + 1


def test_what_an_assignor_is_shown() -> None:
    rig, spy = Rig(), Spy()
    rig.services.assignors["uniform"] = spy
    new = member("new", "u", "nowhere", instance_id="i", rack_id="r")
    update = rig.update(M, targets={"m": {T: frozenset({1})}, "gone": {U: frozenset({0})}})
    update.target(ConsumerMember("new"), new, EPOCH + 1)
    spec = spy.spec
    assert spec.members.keys() == {"m", "new"}
    assert (list(spec.members["m"].topics), spec.members["m"].assignment) == ([T], {T: frozenset({1})})
    shown = spec.members["new"]
    assert (list(shown.topics), dict(shown.assignment), shown.instance_id, shown.rack_id) == ([U], {}, "i", "r")
    assert spec.partition_counts == {T: 3, U: 1}
    assert [spec.is_assigned(T, 1), spec.is_assigned(T, 0), spec.is_assigned(U, 0)] == [True, False, True]


@pytest.mark.parametrize(
    ("members", "alike"),
    [
        ((M, member("n", "t")), True),
        ((M, N), False),
        ((M, member("n", "t", "nowhere")), False),
        ((X, Y), True),
        ((X, member("y", regex="tt*")), False),
        ((X, M), False),
        ((X, member("n", "t", regex="t.*")), False),
        ((X, member("n", regex="")), False),
    ],
)
def test_whether_all_subscribe_to_the_same(members: tuple[ConsumerMember, ...], alike: bool) -> None:
    rig, spy = Rig(), Spy()
    rig.services.assignors["uniform"] = spy
    first = members[0]
    rig.update(*members, regexes={"t.*": ["t"], "tt*": ["t"]}).target(first, first, EPOCH + 1)
    assert spy.spec.homogeneous == alike


def test_a_static_member_inherits_the_target_of_the_one_whose_place_it_takes() -> None:
    rig, spy = Rig(), Spy()
    rig.services.assignors["uniform"] = spy
    there, here = member("s", "u", instance_id="i"), member("new", "u", instance_id="i")
    meant: Assignment = {U: frozenset({0})}
    update = rig.update(M, there, targets={"s": meant})
    assert update.target(there, here, EPOCH) == Target(EPOCH, meant), "as long as no other is made"
    update.target(there, here, EPOCH + 1)
    assert spy.spec.members.keys() == {"m", "new"}
    assert spy.spec.members["new"].assignment == meant
    update = rig.update(M, there)
    update.target(there, there, EPOCH + 1)
    assert spy.shown[1].members.keys() == {"m", "s"}


def test_the_assignor_is_the_one_that_most_ask_for_or_the_brokers_first() -> None:
    rig, uniform, spy = Rig(), Spy(), Spy()
    rig.services.assignors["uniform"], rig.services.assignors["range"] = uniform, spy
    asking = replace(M, assignor="range")
    rig.update(M).target(M, asking, EPOCH + 1)
    assert (len(uniform.shown), len(spy.shown)) == (0, 1)
    rig.update(asking).target(asking, M, EPOCH + 1)
    assert (len(uniform.shown), len(spy.shown)) == (1, 1)
    gone = replace(M, assignor="gone")
    rig.update(gone).target(gone, gone, EPOCH + 1)
    assert (len(uniform.shown), len(spy.shown)) == (2, 1)


def test_a_target_that_cannot_be_written_is_not_tried_again_before_the_interval_is_over() -> None:
    rig, spy = Rig(), Spy()
    rig.services.assignors["uniform"] = spy
    update = rig.update(M)
    update.target(M, M, EPOCH + 1)
    rig.broker.log.fail = StorageError("gone")
    with pytest.raises(GroupError):
        run(update)
    rig.broker.log.fail = None
    for seconds, made in ((0, 1), (0.999, 1), (0.001, 2)):
        rig.clock.advance(seconds)
        GroupUpdate(rig.services, update.group).target(M, M, EPOCH + 1)
        assert len(spy.shown) == made


def test_an_assignor_that_fails_is_named_with_its_reason() -> None:
    rig = Rig()

    def fails(spec: GroupSpec) -> Steps[GroupAssignment]:
        yield None
        raise AssignorError("there are too many")

    rig.services.assignors["uniform"] = fails
    update = rig.update(M)
    with pytest.raises(GroupError, match="there are too many") as error:
        update.target(M, M, EPOCH + 1)
    assert refusal(error) is ErrorCode.UNSUPPORTED_ASSIGNOR
    assert update.records == []


# On the way


def test_a_member_that_is_where_it_is_to_be_is_left_alone() -> None:
    update = Rig().update(M)
    assert at_once(update.lead(M, Target(EPOCH, {T: frozenset({0})}), changed=False, owned=None)) is M
    assert update.records == []


def test_a_member_is_led_to_a_new_target() -> None:
    rig = Rig()
    update = rig.update(M, member("n", "t", assigned={T: {2: EPOCH}}))
    led = at_once(update.lead(M, Target(EPOCH + 1, ALL_OF_T), changed=False, owned=None))
    assert (led.epoch, led.assigned) == (EPOCH + 1, {T: {0: EPOCH + 1, 1: EPOCH + 1}})
    assert led.state is MemberState.UNRELEASED_PARTITIONS
    assert update.records == [records.current("g", led)]


def test_a_changed_subscription_takes_away_what_is_read_no_more_at_once() -> None:
    rig = Rig()
    had = member("m", "t", "u", assigned={T: {0: 3}, U: {0: 3}})
    update = rig.update(had)
    new = replace(had, topics=frozenset({"u"}))
    led = at_once(update.lead(new, Target(EPOCH, {T: frozenset({0}), U: frozenset({0})}), changed=True, owned=None))
    assert (led.assigned, led.revoking, led.epoch) == ({U: {0: 3}}, {T: {0: 3}}, EPOCH)


def test_who_has_to_give_up_something_has_a_deadline_until_it_has_done_so() -> None:
    rig = Rig()
    had = member("m", rebalance_timeout_ms=2_000, assigned={T: {0: 3, 1: 3}})
    update = rig.update(had)
    target = Target(EPOCH + 1, {T: frozenset({0})})
    led = at_once(update.lead(had, target, changed=False, owned={T: [0, 1]}))
    assert led.state is MemberState.UNREVOKED_PARTITIONS
    assert rig.clock.waiting == 0
    run(update)
    assert rig.clock.waiting == 1
    update = GroupUpdate(rig.services, update.group)
    done = at_once(update.lead(led, target, changed=False, owned={T: [0]}))
    assert (done.state, done.epoch) == (MemberState.STABLE, EPOCH + 1)
    run(update)
    assert rig.clock.waiting == 0
    rig.clock.advance(60)
    assert rig.fenced == []


def test_who_still_has_what_it_is_to_give_up_is_where_it_was() -> None:
    had = member("m", state=MemberState.UNREVOKED_PARTITIONS, assigned={T: {0: 3}}, revoking={T: {1: 3}})
    update = Rig().update(had)
    assert at_once(update.lead(had, Target(EPOCH + 1, {T: frozenset({0})}), changed=False, owned=None)) is had
    assert (update.records, update.after) == ([], [])


def test_who_does_not_give_up_in_time_is_fenced() -> None:
    rig = Rig()
    had = member("m", rebalance_timeout_ms=2_000, assigned={T: {0: 3}})
    update = rig.update(had)
    at_once(update.lead(had, Target(EPOCH + 1, {}), changed=False, owned={T: [0]}))
    run(update)
    rig.clock.advance(2)
    assert [each[:2] for each in rig.fenced] == [("g", "m")]


def test_classic_members_have_deadlines_of_their_own() -> None:
    rig = Rig()
    had = classic_member("m", assigned={T: {0: 3}})
    update = rig.update(had)
    assert at_once(update.lead(had, Target(EPOCH + 1, {}), changed=False, owned={T: [0]})) != had
    assert update.after == []

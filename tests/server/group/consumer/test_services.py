"""Tests of what the requests of consumer groups share on one shard: settings, groups by id, room, deadlines, and topics that
change."""

from __future__ import annotations

import pytest

from ottla.log.errors import StorageError
from ottla.server.group.classic.group import ClassicGroup
from ottla.server.group.consumer import records
from ottla.server.group.consumer.assignors import ASSIGNORS
from ottla.server.group.consumer.migration import Policy
from ottla.server.group.errors import GroupError
from ottla.server.group.modern.epochs import DUE_NOW
from ottla.server.group.result import Result
from ottla.wire.errors import ErrorCode
from tests.server.group.consumer.rig import EPOCH, Rig, member, refusal


def test_settings_are_the_brokers() -> None:
    plain = Rig().services
    assert (plain.policy, plain.default_assignor, plain.assignors) == (Policy.BIDIRECTIONAL, "uniform", ASSIGNORS)
    other = Rig(group_consumer_migration_policy="Upgrade", group_consumer_assignors=["range"]).services
    assert (other.policy, other.default_assignor, other.assignors) == (Policy.UPGRADE, "range", {"range": ASSIGNORS["range"]})
    turned = Rig(group_consumer_assignors=["range", "uniform"]).services
    assert (turned.default_assignor, list(turned.assignors)) == ("range", ["range", "uniform"])


def test_what_is_run_is_written_replayed_and_answered() -> None:
    rig = Rig()
    rig.make(member("m"))
    assert rig.services.run(Result([records.epoch("g", 9, 0)], "answer")) == "answer"
    assert rig.services.existing("g").epoch == 9
    rig.broker.log.fail = StorageError("gone")
    with pytest.raises(GroupError):
        rig.services.run(Result([records.epoch("g", 10, 0)], "answer"))
    assert rig.services.existing("g").epoch == 9


def test_groups_are_found_by_id_if_they_are_consumer_groups() -> None:
    rig = Rig()
    group = rig.make(member("m"))
    rig.shard.groups["old"] = ClassicGroup("old", 0)
    services = rig.services
    assert services.find("g") is services.existing("g") is group
    for other, why in (("old", "is a classic group; this request is for consumer groups"), ("nowhere", "not found")):
        assert services.find(other) is None
        with pytest.raises(GroupError, match=f"{other} {why}") as error:
            services.existing(other)
        assert refusal(error) is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_full_group_has_room_for_its_own_members_and_for_those_who_come_in_their_place() -> None:
    rig = Rig(group_consumer_max_size=2)
    group = rig.make(member("m"), member("s", instance_id="i"))
    for member_id, instance_id in (("m", None), ("m", "new"), ("new", "i"), ("s", "i")):
        rig.services.check_room(group, member_id, instance_id)
    for instance_id in (None, "new"):
        with pytest.raises(GroupError, match="2") as error:
            rig.services.check_room(group, "new", instance_id)
        assert refusal(error) is ErrorCode.GROUP_MAX_SIZE_REACHED
    rig.broker.configs[4, ""] = {"group.consumer.max.size": "3"}
    rig.services.check_room(group, "new", None)


def test_all_deadlines_of_a_groups_members_are_forgotten_and_no_others() -> None:
    rig = Rig()
    group = rig.make(member("m"), member("n"))
    for group_id, member_id in (("g", "m"), ("g", "n"), ("g", "gone"), ("h", "m")):
        rig.services.timeouts.session(group_id, member_id, 1_000)
    rig.services.timeouts.rebalance("g", member("n"))
    rig.services.forget_members("g", group.members)
    rig.clock.advance(60)
    assert [each[:2] for each in rig.fenced] == [("g", "gone"), ("h", "m")]


def test_the_groups_that_read_a_changed_topic_look_at_their_topics_anew() -> None:
    rig = Rig()
    reading = [
        rig.make(member("m", "t"), group="by name"),
        rig.make(member("m", regex="t.*"), regexes={"t.*": ["t"]}, group="by expression"),
    ]
    other = rig.make(member("m", "u"), group="other")
    later = other.refresh_at_ms
    rig.shard.groups["old"] = ClassicGroup("old", 0)
    rig.services.topic_changed("t", is_new=False)
    assert [group.refresh_at_ms for group in reading] == [later, later], "not before a heartbeat"
    for group in (*reading, other):
        rig.services.look_for_changes(group)
    assert [group.refresh_at_ms for group in reading] == [DUE_NOW, DUE_NOW]
    assert other.refresh_at_ms == later
    assert all(group.epoch == EPOCH for group in reading)


def test_a_new_topic_makes_lookups_out_of_date_and_a_changed_one_does_not() -> None:
    rig = Rig()
    metadata = rig.broker.metadata
    assert rig.services.topics_version == metadata.highest_offset
    for is_new in (False, True):
        before, metadata.highest_offset = rig.services.topics_version, metadata.highest_offset + 1
        rig.services.topic_changed("t", is_new=is_new)
        assert rig.services.topics_version == (metadata.highest_offset if is_new else before)

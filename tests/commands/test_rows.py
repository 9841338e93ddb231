"""Rows and JSON of topics, groups and settings, from plain values."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import typer

from ottla.commands import config, config_rows, topic_rows
from ottla.commands.admin import Change, Operation
from ottla.commands.clients.partition import Partition
from ottla.commands.config import TargetOptions
from ottla.commands.config_rows import Entry, Kind, Target
from ottla.commands.groups import reset, rows
from ottla.commands.groups.rows import GroupState, MemberState, OffsetState
from ottla.commands.output import Failure
from ottla.commands.positions import Span
from ottla.commands.topic_rows import PartitionState, TopicState

# Topics

WHOLE = PartitionState(0, 1, (1, 2), (1, 2), 3, 10, 2048)
HURT = PartitionState(1, None, (1, 2), (2,))


def test_a_topic() -> None:
    topic = TopicState("t", "id", False, (WHOLE, HURT), (topic_rows.Setting("a", "1", "topic"),))
    assert topic_rows.partition_rows(topic) == [
        ("t", 0, 1, "1,2", "1,2", 3, 10, 2048),
        ("t", 1, None, "1,2", "2", None, None, None),
    ]
    assert (topic.size_bytes, topic.offsets_held, topic.replication_factor) == (None, None, 2)
    assert topic_rows.summary(topic) == "t: 2 partitions, replication factor 2; id id"
    assert [WHOLE.is_under_replicated, HURT.is_under_replicated] == [False, True]
    assert topic_rows.as_object(topic)["settings"] == {"a": "1"}


def test_how_far_followers_are_behind() -> None:
    lagging = PartitionState(2, 1, (1, 2, 3), (1, 2), lags={2: 0, 3: 15})
    unknown = PartitionState(3, 1, (1, 2), (1, 2), lags={2: None})
    topic = TopicState("t", "id", False, (WHOLE, lagging, unknown))
    assert topic_rows.has_followers([topic])
    assert not topic_rows.has_followers([TopicState("t", "id", False, (WHOLE, HURT))])
    assert topic_rows.lag_cells(topic) == [None, "2:0,3:15", "2:?"]
    told = topic_rows.as_object(topic)["partitions"]
    assert "lag" not in told[0]
    assert [told[1]["lag"], told[2]["lag"]] == [{"2": 0, "3": 15}, {"2": None}]


def test_the_line_above_a_topic() -> None:
    topic = TopicState("t", "id", True, (WHOLE,))
    assert topic_rows.summary(topic) == "t: 1 partition, replication factor 2, 7 records, 2.0 KiB, internal; id id"


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (5 << 30, "5.0 GiB"), (3 << 50, "3072.0 TiB")]
)
def test_bytes_for_people(count: int, text: str) -> None:
    assert topic_rows.human_bytes(count) == text


# Groups


def described(**changed: Any) -> Any:
    fields: dict[str, Any] = {
        "group_id": "g",
        "state": SimpleNamespace(name="STABLE"),
        "type": SimpleNamespace(name="CLASSIC"),
        "partition_assignor": "range",
        "coordinator": SimpleNamespace(id=1, host="h", port=9092),
        "members": [
            SimpleNamespace(
                member_id="m",
                group_instance_id="",
                client_id="c",
                host="/h",
                assignment=SimpleNamespace(topic_partitions=[SimpleNamespace(topic="t", partition=1)]),
            ),
            SimpleNamespace(member_id="idle", group_instance_id="i", client_id="d", host="/h", assignment=None),
        ],
    }
    return SimpleNamespace(**fields | changed)


def test_a_group() -> None:
    committed = {Partition("t", 0): 5, Partition("u", 0): 1}
    ends = {Partition("t", 0): 8, Partition("t", 1): 2}
    group = rows.with_offsets(rows.group_state(described()), committed, ends)
    assert rows.offset_rows(group) == [
        ("g", "t", 0, 5, 8, 3, None, None, None),
        ("g", "t", 1, None, 2, None, "c", "/h", "m"),
        ("g", "u", 0, 1, None, None, None, None, None),
    ]
    assert rows.member_rows(group) == [
        ("g", "m", None, "c", "/h", 1, "t:1", None, None),
        ("g", "idle", "i", "d", "/h", 0, None, None, None),
    ]
    assert rows.summary(group) == "g: Stable, type classic, 2 members, lag 3, assignor range, coordinator h:9092 (1)"
    told = rows.as_object(group)
    assert (told["lag"], told["coordinator"]) == (3, {"broker": 1, "host": "h", "port": 9092})
    assert [offset["member_id"] for offset in told["offsets"]] == [None, "m", None]


def test_a_group_without_much() -> None:
    group = rows.group_state(described(members=[], coordinator=None, partition_assignor="", state=None))
    assert group == GroupState("g", "Unknown", "classic", "", None, (), ())
    assert rows.summary(group) == "g: Unknown, type classic, 0 members, lag 0"
    assert rows.as_object(group)["assignor"] is None


def test_a_lag_below_zero_is_shown() -> None:
    """The topic was deleted and recreated, so the group waits beyond its end."""
    assert OffsetState(Partition("t", 0), 9, 2).lag == -7


def test_what_a_member_has() -> None:
    partitions = (Partition("t", 0), Partition("t", 2), Partition("u", 1))
    assert rows.assigned(partitions) == "t:0,2 u:1"
    member = MemberState("m", None, "c", "h", ())
    assert rows.assigned(member.partitions) is None


@pytest.mark.parametrize(("text", "meant"), [("t", ("t", None)), ("t:0", ("t", [0])), ("t:2,0,2", ("t", [2, 0]))])
def test_topics_to_reset(text: str, meant: tuple[str, list[int] | None]) -> None:
    assert reset.parse_topic(text) == meant


@pytest.mark.parametrize("text", [":1", "t:", "t:x", "t:1,,2", "t:-1"])
def test_topics_to_reset_that_are_none(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        reset.parse_topic(text)


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("90s", 90_000),
        ("1h30m", 5_400_000),
        ("PT1H30M", 5_400_000),
        ("P1DT12H", 129_600_000),
        ("7d", 604_800_000),
        ("1w", 604_800_000),
        ("250ms", 250),
        ("1m1ms", 60_001),
    ],
)
def test_durations(text: str, ms: int) -> None:
    assert reset.duration_ms(text) == ms


@pytest.mark.parametrize("text", ["", "5", "P", "PT", "1y", "1m1h", "-1h", "1.5h", "one", "P1M", "P1H", "T1H", "P1DT"])
def test_durations_that_are_none(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        reset.duration_ms(text)


def test_partitions_to_reset() -> None:
    known = {"t": SimpleNamespace(partitions={0: None, 1: None}), "u": SimpleNamespace(partitions={0: None})}
    meant = reset.partitions_of([("t", None), ("u", [0]), ("t", [1])], known)
    assert meant == [Partition("t", 0), Partition("t", 1), Partition("u", 0)]
    for wanted, why in (([("x", None)], "no such topic"), ([("t", [2])], "has no partition 2: it has 2")):
        with pytest.raises(Failure, match=why):
            reset.partitions_of(wanted, known)


def test_shifting_stays_within_the_partition(capsys: pytest.CaptureFixture[str]) -> None:
    a, b = Partition("t", 0), Partition("t", 1)
    have = {a: Span(3, 10), b: Span(0, 4)}
    assert reset.shifted({a: 5, b: 1}, have, 2) == {a: 7, b: 3}
    assert capsys.readouterr().err == ""
    assert reset.shifted({a: 5, b: 1}, have, -5) == {a: 3, b: 0}
    assert capsys.readouterr().err == "t [0]: has 3 to 10, not 0; using 3\nt [1]: has 0 to 4, not -4; using 0\n"
    with pytest.raises(Failure, match=r"t \[1\]: no offset is committed"):
        reset.shifted({a: 5}, have, 1)


def test_the_table_of_a_reset() -> None:
    a, b = Partition("t", 0), Partition("t", 1)
    assert rows.reset_rows({a: 5}, {b: 0, a: 7}, {a: 9, b: 4}) == [("t", 0, 5, 7, 2), ("t", 1, None, 0, 4)]


# Settings


def entry(name: str, source: str, value: str | None = "1", *, is_sensitive: bool = False) -> Entry:
    return Entry(name, value, source, is_read_only=False, is_sensitive=is_sensitive)


def test_which_settings_are_somebodys() -> None:
    entries = [entry(source, source) for source in config_rows.SOURCES.values()]
    own = {kind: [each.name for each in config_rows.own(kind, entries)] for kind in Kind}
    assert own == {
        Kind.TOPIC: ["topic"],
        Kind.BROKER: ["broker", "broker-defaults", "file"],
        Kind.BROKER_DEFAULTS: ["broker-defaults"],
        Kind.BROKER_LOGGER: ["broker-logger"],
        Kind.GROUP: ["group"],
    }


def test_rows_of_settings() -> None:
    secret = entry("password", "file", value=None, is_sensitive=True)
    target = Target(Kind.BROKER, "1")
    assert config_rows.list_rows(target, [secret]) == [("broker", "1", "password", "(secret)", "file")]
    assert config_rows.describe_rows(Target(Kind.BROKER_DEFAULTS), [entry("a", "broker-defaults")]) == [
        ("broker-defaults", None, "a", "1", "broker-defaults", False)
    ]
    assert config_rows.list_rows(target, [entry("empty", "file", value=None)])[0][3] is None
    assert config_rows.as_object(target, [secret])["settings"][0]["value"] is None
    assert [str(Target(Kind.BROKER_DEFAULTS)), str(Target(Kind.BROKER_LOGGER, "1"))] == ["broker defaults", "broker logger 1"]


def test_where_a_value_comes_from() -> None:
    assert config_rows.source_of(5) == config_rows.source_of(SimpleNamespace(value=5)) == "default"
    assert config_rows.source_of(99) == "unknown"


def test_changes() -> None:
    assert config.parse_changes(["a=1", "b+=x=y", "c-=z", "d="]) == [
        Change("a", Operation.SET, "1"),
        Change("b", Operation.APPEND, "x=y"),
        Change("c", Operation.SUBTRACT, "z"),
        Change("d", Operation.SET, ""),
    ]
    for words in (["a"], ["=1"], ["a=1", "a+=2"], ["a+=\udcff"]):
        with pytest.raises(typer.BadParameter):
            config.parse_changes(words)


def test_whose_settings() -> None:
    found = config.targets_of(TargetOptions(["t", "t"], ["g"], [1], broker_defaults=True, broker_loggers=[2]))
    assert list(map(str, found)) == ["topic t", "group g", "broker 1", "broker defaults", "broker logger 2"]
    with pytest.raises(typer.BadParameter):
        config.targets_of(TargetOptions([], None, []))

"""`ottla group` on groups whose broker assigns: consumer, share and streams, against ottla and Apache Kafka."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Consumer

from compat_tests.brokers import Address
from compat_tests.commands import errors, good, ottla, ten_records
from compat_tests.tools_diff.streams_member import StreamsMember
from compat_tests.waiting import wait_for
from compat_tests.wire import Connection
from ottla.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

Unique = Callable[[str], str]
SHARER = "AAAAAAAAAAAAAAAAAAAAAQ"


def described(bootstrap: str, group: str) -> dict[str, Any]:
    ((found,),) = good("group", "describe", group, "--json", bootstrap=bootstrap).objects
    return dict(found)


def state_of(bootstrap: str, group: str) -> list[str]:
    return good("group", "list", group, bootstrap=bootstrap).lines


class Sharer:
    """A member of a share group that only sends heartbeats."""

    def __init__(self, address: Address, group: str, topic: str) -> None:
        self.connection, self.group, self.epoch = Connection(address), group, 0
        wait_for(lambda: self.beat([topic]), "the share group's coordinator")
        wait_for(lambda: self.beat(None) and self.has_something, "the member has its partition")

    def beat(self, topics: list[str] | None) -> bool:
        answer = self.connection.call(ShareGroupHeartbeatRequest(self.group, SHARER, self.epoch, None, topics), 1)
        assert answer.error_code in (0, 14, 15, 16), answer  # a coordinator that is loading, or being made
        self.epoch = answer.member_epoch if answer.error_code == 0 else self.epoch
        self.has_something = answer.assignment is not None and bool(answer.assignment.topic_partitions)
        return bool(answer.error_code == 0)

    def leave(self) -> None:
        self.epoch = -1
        self.beat(None)
        self.connection.close()


@contextmanager
def consumer(bootstrap: str, group: str, topic: str) -> Iterator[None]:
    """A member with the consumer protocol that has read ten records and committed."""
    settings: dict[str, Any] = {"bootstrap.servers": bootstrap, "group.id": group, "group.protocol": "consumer"}
    member = Consumer(settings | {"client.id": "the-client", "auto.offset.reset": "earliest", "enable.auto.commit": False})
    member.subscribe([topic])
    read = 0

    def ten_read() -> bool:
        nonlocal read
        message = member.poll(1)
        read += message is not None and message.error() is None
        return read == 10

    try:
        wait_for(ten_read, "ten records")
        member.commit(asynchronous=False)
        yield
    finally:
        member.close()


def test_a_group_of_the_consumer_protocol(bootstrap: str, unique: Unique) -> None:
    name, topic = unique("group"), ten_records(bootstrap)
    with consumer(bootstrap, name, topic):
        assert state_of(bootstrap, name) == [f"{name}\tStable\tconsumer"]
        assert good("group", "list", name, "--type", "classic", bootstrap=bootstrap).lines == []
        state = described(bootstrap, name)
        (member,) = state["members"]
        assert (state["type"], state["assignor"], state["lag"]) == ("consumer", "uniform", 0)
        assert state["epoch"] == state["target_epoch"] == member["epoch"] > 0
        assert member["partitions"] == member["target"] == [{"topic": topic, "partition": 0}]
        (line,) = good("group", "describe", name, "-m", bootstrap=bootstrap).lines
        assert line.split("\t")[5:] == ["1", f"{topic}:0", str(member["epoch"]), f"{topic}:0"]
        (refused,) = errors("group", "reset", name, "--all-topics", "--to-earliest", bootstrap=bootstrap)
        assert "has 1 member (state Stable)" in refused
    wait_for(lambda: state_of(bootstrap, name) == [f"{name}\tEmpty\tconsumer"], "the member has left")
    done = good("group", "reset", name, "--all-topics", "--to-earliest", bootstrap=bootstrap)
    assert done.lines == [f"{topic}\t0\t10\t0\t10"]
    assert ottla("group", "delete", name, "-y", bootstrap=bootstrap).errors == f"group {name}: deleted\n"


def test_a_share_group(broker: Address, bootstrap: str, unique: Unique) -> None:
    name, topic = unique("group"), ten_records(bootstrap)
    member = Sharer(broker, name, topic)
    assert state_of(bootstrap, name) == [f"{name}\tStable\tshare"]
    state = described(bootstrap, name)
    (told,) = state["members"]
    assert (told["member_id"], told["partitions"], told["target"]) == (SHARER, [{"topic": topic, "partition": 0}], None)
    assert state["epoch"] == state["target_epoch"] == told["epoch"] == member.epoch
    (refused,) = errors("group", "reset", name, "-t", topic, "--to-earliest", bootstrap=bootstrap)
    assert "has 1 member (state Stable)" in refused
    member.leave()
    wait_for(lambda: state_of(bootstrap, name) == [f"{name}\tEmpty\tshare"], "the member has left")
    dry = good("group", "reset", name, "-t", topic, "--to-earliest", "--dry-run", bootstrap=bootstrap)
    assert dry.lines == [f"{topic}\t0\t-\t0\t10"]
    assert described(bootstrap, name)["offsets"] == []
    good("group", "reset", name, "-t", topic, "--to-earliest", bootstrap=bootstrap)
    done = good("group", "reset", name, "--all-topics", "--shift-by", "4", bootstrap=bootstrap)
    assert done.lines == [f"{topic}\t0\t0\t4\t6"]
    (offset,) = described(bootstrap, name)["offsets"]
    assert (offset["committed"], offset["end_offset"], offset["lag"]) == (4, 10, 6)
    assert ottla("group", "delete", name, "-y", bootstrap=bootstrap).errors == f"group {name}: deleted\n"
    wait_for(lambda: state_of(bootstrap, f"{name}*") == [], "the group is gone")


def test_a_streams_group(broker: Address, bootstrap: str, unique: Unique) -> None:
    name, topic = unique("group"), ten_records(bootstrap)
    member = StreamsMember(broker, name, SHARER, (topic,))
    assert state_of(bootstrap, name) == [f"{name}\tStable\tstreams"]
    state = described(bootstrap, name)
    (told,) = state["members"]
    assert told["partitions"] == told["target"] == [{"topic": topic, "partition": 0}]
    assert told["tasks"] == {"active": [{"subtopology": "0", "partition": 0}], "standby": [], "warmup": []}
    assert state["epoch"] == state["target_epoch"] == told["epoch"] == member.epoch
    assert [(each["committed"], each["member_id"]) for each in state["offsets"]] == [(None, SHARER)]
    member.leave()
    wait_for(lambda: state_of(bootstrap, name) == [f"{name}\tEmpty\tstreams"], "the member has left")
    done = good("group", "reset", name, "-t", topic, "--to-latest", bootstrap=bootstrap)
    assert done.lines == [f"{topic}\t0\t-\t10\t0"]
    assert described(bootstrap, name)["lag"] == 0
    assert ottla("group", "delete", name, "-y", bootstrap=bootstrap).errors == f"group {name}: deleted\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["list", "--type", "odd"], "'odd' is not a type"),
        (["list", "--state", "odd"], "'odd' is not a state"),
        (["reset", "g", "-t", "t", "--to-earliest", "--to-latest"], "give one of --to"),
        (["reset", "g", "-t", "t", "--to-datetime", "5"], "is not a time"),
    ],
)
def test_wrong_usage(bootstrap: str, arguments: list[str], words: str) -> None:
    ran = ottla("group", *arguments, bootstrap=bootstrap)
    assert ran.code == 2
    assert words in ran.errors

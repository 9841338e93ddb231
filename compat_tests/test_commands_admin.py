"""`ottla topic` and `ottla group` as a user runs them, against ottla and Apache Kafka.

Brokers phrase the rest of an error in their own words; ours, in front of it, are what is compared here.
"""

from __future__ import annotations

import os
import pty
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient

from compat_tests.commands import (
    OTTLA,
    TIMEOUT_S,
    committed,
    environment,
    errors,
    good,
    made,
    ottla,
    read_until,
    ten_records,
    wait_for_leaders,
)
from compat_tests.times import TODAY_MS
from compat_tests.waiting import wait_for

Unique = Callable[[str], str]


def created(bootstrap: str, names: list[str], *options: str) -> None:
    """Creates topics by the command, and waits until their first partitions answer."""
    assert ottla("topic", "create", *names, *options, bootstrap=bootstrap).code == 0
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for name in names:
        wait_for_leaders(admin, name, 1)


def described(bootstrap: str, topic: str) -> dict[str, Any]:
    ((found,),) = good("topic", "describe", topic, "--json", bootstrap=bootstrap).objects
    return dict(found)


@contextmanager
def member(bootstrap: str, group: str, topic: str) -> Iterator[Consumer]:
    """A consumer that has read ten records of the topic, and committed, and stays in the group."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "client.id": "the-client",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    read = 0
    while read < 10:
        message = consumer.poll(TIMEOUT_S)
        assert message is not None
        assert message.error() is None, message.error()
        read += 1
    consumer.commit(asynchronous=False)
    try:
        yield consumer
    finally:
        consumer.close()


@pytest.fixture
def group(bootstrap: str, unique: Unique) -> tuple[str, str]:
    """A group without members that has read a topic's ten records, and the topic."""
    name, topic = unique("group"), ten_records(bootstrap)
    with member(bootstrap, name, topic):
        pass
    admin = AdminClient({"bootstrap.servers": bootstrap})
    is_empty = lambda: admin.describe_consumer_groups([name])[name].result(30).state.name == "EMPTY"  # noqa: E731
    wait_for(is_empty, "the member has left")
    return name, topic


def described_group(bootstrap: str, group: str) -> dict[str, Any]:
    ((found,),) = good("group", "describe", group, "--json", bootstrap=bootstrap).objects
    return dict(found)


# ottla topic


def test_a_topic_from_create_to_delete(bootstrap: str, unique: Unique) -> None:
    topic = unique("topic")
    created(bootstrap, [topic], "-p", "2", "-r", "1", "-c", "retention.ms=1000", "-c", "cleanup.policy=compact,delete")
    assert good("topic", "list", topic, bootstrap=bootstrap).lines == [f"{topic}\t2\t1"]
    state = described(bootstrap, topic)
    assert state["settings"] == {"cleanup.policy": "compact,delete", "retention.ms": "1000"}
    altering = ("topic", "alter", topic, "-p", "3", "-c", "retention.bytes=7", "-u", "retention.ms")
    assert ottla(*altering, "--dry-run", bootstrap=bootstrap).errors == f"topic {topic}: would be altered\n"
    assert described(bootstrap, topic) == state
    assert ottla(*altering, bootstrap=bootstrap).errors == f"topic {topic}: altered\n"
    wait_for_leaders(AdminClient({"bootstrap.servers": bootstrap}), topic, 3)
    assert len(described(bootstrap, topic)["partitions"]) == 3
    assert described(bootstrap, topic)["settings"] == {"cleanup.policy": "compact,delete", "retention.bytes": "7"}
    ran = ottla("topic", "delete", topic, "--yes", bootstrap=bootstrap)
    assert (ran.code, ran.errors) == (0, f"topic {topic}: deleted\n")
    wait_for(
        lambda: errors("topic", "describe", topic, bootstrap=bootstrap) == [f"ottla: topic {topic}: there is no such topic"],
        "gone",
    )


def test_describe_shows_offsets_and_bytes(bootstrap: str) -> None:
    topic = ten_records(bootstrap)
    state = described(bootstrap, topic)
    partition = state["partitions"][0]
    assert 70 < partition["size_bytes"] == state["size_bytes"] < 2000
    assert partition == {
        "partition": 0,
        "leader": 1,
        "replicas": [1],
        "in_sync": [1],
        "first_offset": 0,
        "end_offset": 10,
        "size_bytes": state["size_bytes"],
    }
    assert (state["topic"], state["replication_factor"], state["is_internal"]) == (topic, 1, False)
    assert len(state["topic_id"]) == 22
    row = [topic, "0", "1", "1", "1", "0", "10", str(state["size_bytes"])]
    assert good("topic", "describe", topic, bootstrap=bootstrap).lines == ["\t".join(row)]
    assert good("topic", "describe", topic, "--under-replicated", bootstrap=bootstrap).out == b""


def test_patterns(bootstrap: str, unique: Unique) -> None:
    stem = unique("many")
    created(bootstrap, [f"{stem}-a1", f"{stem}-a2", f"{stem}-b1"])
    assert good("topic", "list", f"{stem}-a*", "-q", bootstrap=bootstrap).lines == [f"{stem}-a1", f"{stem}-a2"]
    assert good("topic", "list", "-e", f"{stem}-.1", "-q", bootstrap=bootstrap).lines == [f"{stem}-a1", f"{stem}-b1"]
    assert good("topic", "list", f"{stem}-c*", "-q", bootstrap=bootstrap).lines == []
    ran = ottla("topic", "delete", f"{stem}-?1", f"{stem}-none", "-y", "--json", bootstrap=bootstrap)
    assert ran.code == 1
    assert ran.objects == [
        [
            {"name": f"{stem}-none", "result": "failed", "error": "there is no such topic"},
            {"name": f"{stem}-a1", "result": "deleted", "error": None},
            {"name": f"{stem}-b1", "result": "deleted", "error": None},
        ]
    ]
    assert ran.errors == f"ottla: topic {stem}-none: there is no such topic\n"
    wait_for(lambda: good("topic", "list", f"{stem}*", "-q", bootstrap=bootstrap).lines == [f"{stem}-a2"], "two are gone")


def test_kafkas_own_topics_are_shown_when_asked_for(bootstrap: str, group: tuple[str, str]) -> None:
    own = "__consumer_offsets"
    assert own not in good("topic", "list", "-q", bootstrap=bootstrap).lines
    assert own in good("topic", "list", "-q", "--internal", bootstrap=bootstrap).lines
    assert good("topic", "list", "-q", own, bootstrap=bootstrap).lines == [own]
    assert described(bootstrap, own)["is_internal"]


def test_topics_that_cannot_be_made(bootstrap: str, unique: Unique) -> None:
    there, name = made(bootstrap, 1), unique("not-made")
    assert errors("topic", "create", there, bootstrap=bootstrap)[0].startswith(f"ottla: topic {there}: the topic exists already")
    ran = ottla("topic", "create", there, "--if-not-exists", bootstrap=bootstrap)
    assert (ran.code, ran.errors) == (0, f"topic {there}: exists already\n")
    for arguments, words in (
        (["a b"], "the topic's name is not allowed"),
        ([name, "-r", "3"], "that replication factor is not possible with these brokers"),
        ([name, "-c", "no.such=1"], "the setting is not allowed"),
        ([name, "-c", "retention.ms=long"], "the setting is not allowed"),
    ):
        (line,) = errors("topic", "create", *arguments, bootstrap=bootstrap)
        assert line.startswith(f"ottla: topic {arguments[0]}: {words}"), line
    ran = ottla("topic", "create", name, "--dry-run", bootstrap=bootstrap)
    assert (ran.code, ran.errors) == (0, f"topic {name}: would be created\n")
    assert name not in good("topic", "list", "-q", bootstrap=bootstrap).lines


def test_topics_that_cannot_be_altered(bootstrap: str) -> None:
    topic = made(bootstrap, 2)
    (line,) = errors("topic", "alter", topic, "-p", "1", bootstrap=bootstrap)
    assert line.startswith(f"ottla: topic {topic}: that number of partitions is not possible")
    assert errors("topic", "alter", topic, "-u", "no.such", bootstrap=bootstrap) == [
        f"ottla: topic {topic}: there is no such setting: no.such"
    ]
    assert errors("topic", "alter", "none", "-p", "9", bootstrap=bootstrap) == ["ottla: topic none: there is no such topic"]
    assert "nothing to alter" in " ".join(errors("topic", "alter", topic, bootstrap=bootstrap, code=2))


# Asking


def on_terminal(*arguments: str, bootstrap: str, answer: bytes | None = None) -> tuple[int, str]:
    """Runs a command whose three streams are one terminal. `answer` is typed when it asks."""
    ours, theirs = pty.openpty()
    settings = environment(bootstrap, TERM="dumb", COLUMNS="160")
    process = subprocess.Popen([*OTTLA, *arguments], stdin=theirs, stdout=theirs, stderr=theirs, env=settings)
    os.close(theirs)
    text = b""
    if answer is not None:
        text = read_until(ours, b"[y/N] ")
        os.write(ours, answer)
    while True:
        try:
            more = os.read(ours, 65536)
        except OSError:  # a pty's way to say that the other side is closed
            break
        if not more:
            break
        text += more
    os.close(ours)
    return process.wait(TIMEOUT_S), text.decode().replace("\r\n", "\n")


def test_deleting_asks(bootstrap: str) -> None:
    topic = made(bootstrap, 1)
    code, text = on_terminal("topic", "delete", topic, bootstrap=bootstrap, answer=b"\n")
    assert code == 1
    assert text.startswith(f"Delete topic {topic}, with all records? [y/N] ")
    assert text.endswith("ottla: not confirmed; nothing was changed\n")
    (line, *_) = errors("topic", "delete", topic, bootstrap=bootstrap, code=2)
    assert line.startswith("Usage: ottla topic delete")
    assert good("topic", "list", "-q", topic, bootstrap=bootstrap).lines == [topic]
    code, text = on_terminal("topic", "delete", topic, bootstrap=bootstrap, answer=b"y\n")
    assert code == 0
    assert f"topic {topic}: deleted\n" in text


def test_a_terminal_gets_tables(bootstrap: str, group: tuple[str, str]) -> None:
    name, topic = group
    code, text = on_terminal("topic", "describe", topic, bootstrap=bootstrap)
    assert code == 0
    assert f"{topic}: 1 partition, replication factor 1, 10 records, " in text
    assert "Partition" in text
    assert "End offset" in text
    code, text = on_terminal("group", "describe", name, bootstrap=bootstrap)
    assert code == 0
    assert f"{name}: Empty, type classic, 0 members, lag 0" in text
    assert "Committed" in text


# ottla group


def test_a_group_with_a_member(bootstrap: str, unique: Unique) -> None:
    name, topic = unique("group"), ten_records(bootstrap)
    with member(bootstrap, name, topic):
        assert good("group", "list", name, bootstrap=bootstrap).lines == [f"{name}\tStable\tclassic"]
        state = described_group(bootstrap, name)
        (one,) = state.pop("members")
        member_id, host = one.pop("member_id"), one.pop("host")
        newer = {"epoch": None, "target": None, "tasks": None}
        assert one == {"instance_id": None, "client_id": "the-client", "partitions": [{"topic": topic, "partition": 0}], **newer}
        assert host.strip("/") == "127.0.0.1"
        coordinator = {"broker": 1, "host": "127.0.0.1", "port": int(bootstrap.rpartition(":")[2])}
        offset = {"topic": topic, "partition": 0, "committed": 10, "end_offset": 10, "lag": 0, "member_id": member_id}
        assert state == {
            "group": name,
            "state": "Stable",
            "type": "classic",
            "assignor": "range",
            "coordinator": coordinator,
            "epoch": None,
            "target_epoch": None,
            "lag": 0,
            "offsets": [offset],
        }
        row = [name, member_id, "-", "the-client", host, "1", f"{topic}:0", "-", "-"]
        assert good("group", "describe", name, "-m", bootstrap=bootstrap).lines == ["\t".join(row)]
        resetting = ("group", "reset", name, "--all-topics", "--to", "earliest")
        reason = f"group {name} has 1 member (state Stable), which would commit over the new offsets; stop the members first"
        assert errors(*resetting, bootstrap=bootstrap) == [f"ottla: {reason}"]
        ran = ottla(*resetting, "--dry-run", bootstrap=bootstrap)
        assert (ran.code, ran.errors, ran.lines) == (0, f"would be refused: {reason}\n", [f"{topic}\t0\t10\t0\t10"])
        assert errors("group", "delete", name, "-y", bootstrap=bootstrap) == [
            f"ottla: group {name}: the group has members; stop them first"
        ]
        assert described_group(bootstrap, name)["offsets"] == [offset]


RESETS = [
    (["--to", "earliest"], 0),
    (["--to", "latest"], 10),
    (["--to-earliest"], 0),
    (["--to-latest"], 10),
    (["--to-datetime", f"@{TODAY_MS + 2500}"], 3),
    (["--to", "4"], 4),
    (["--to=-3"], 7),
    (["--to", f"@{TODAY_MS + 2500}"], 3),
    (["--shift-by", "5"], 8),
    (["--shift-by", "-6"], 2),
    (["--to", "@4102444800000"], 10),
    (["--to", "2000-01-01T00:00:00Z"], 0),
    (["--by-duration", "1ms"], 10),
    (["--by-duration", "520w"], 0),
]


def test_reset(bootstrap: str, group: tuple[str, str]) -> None:
    name, topic = group
    dry = good("group", "reset", name, "--all-topics", "--to", "earliest", "--dry-run", bootstrap=bootstrap)
    assert dry.lines == [f"{topic}\t0\t10\t0\t10"]
    before = committed(bootstrap, name, topic)
    assert before == 10
    for arguments, after in RESETS:
        done = good("group", "reset", name, "-t", topic, *arguments, bootstrap=bootstrap)
        assert done.lines == [f"{topic}\t0\t{before}\t{after}\t{10 - after}"], arguments
        before = after
    assert committed(bootstrap, name, topic) == before


def test_reset_of_some_partitions(bootstrap: str, group: tuple[str, str]) -> None:
    name, first = group
    second = made(bootstrap, 3)
    ran = ottla("group", "reset", name, "-t", f"{second}:0,2", "-t", first, "--to", "7", "--json", bootstrap=bootstrap)
    assert ran.code == 0
    assert sorted(ran.errors.splitlines()) == [
        f"{second} [0]: has 0 to 0, not 7; using 0",
        f"{second} [2]: has 0 to 0, not 7; using 0",
    ]
    rows = [
        {"topic": second, "partition": 0, "before": None, "after": 0, "lag_after": 0},
        {"topic": second, "partition": 2, "before": None, "after": 0, "lag_after": 0},
        {"topic": first, "partition": 0, "before": 10, "after": 7, "lag_after": 3},
    ]
    assert ran.objects == [sorted(rows, key=lambda row: (row["topic"], row["partition"]))]
    (line,) = errors("group", "reset", name, "-t", second, "--shift-by", "1", bootstrap=bootstrap)
    assert line.startswith(f"ottla: {second} [1]: no offset is committed, so there is none to shift")
    have = {(each["topic"], each["partition"]) for each in described_group(bootstrap, name)["offsets"]}
    assert have == {(first, 0), (second, 0), (second, 2)}


def test_resets_that_cannot_be(bootstrap: str, group: tuple[str, str]) -> None:
    name, topic = group
    for arguments, words in (
        ([name, "-t", "none"], "topic none: there is no such topic"),
        ([name, "-t", f"{topic}:5"], f"topic {topic} has no partition 5: it has 1, counted from 0"),
        (["no-group", "-t", topic], "group no-group: there is no such group; --create creates it"),
    ):
        assert errors("group", "reset", *arguments, "--to", "1", bootstrap=bootstrap) == [f"ottla: {words}"]
    for arguments in (["--to", "1"], ["-t", topic], ["-t", topic, "--to", "1", "--shift-by", "1"], ["-t", topic, "--to", "soon"]):
        errors("group", "reset", name, *arguments, bootstrap=bootstrap, code=2)
    assert committed(bootstrap, name, topic) == 10


def test_a_new_group_begins_where_it_is_told(bootstrap: str, unique: Unique) -> None:
    name, topic = unique("new"), ten_records(bootstrap)
    good("group", "reset", name, "-t", topic, "--to", "8", "--create", bootstrap=bootstrap)
    assert good("consume", topic, "--group", name, "--exit", bootstrap=bootstrap).lines == ["8", "9"]


def test_groups_are_deleted(bootstrap: str, group: tuple[str, str], unique: Unique) -> None:
    name, none = group[0], unique("none")
    ran = ottla("group", "delete", name, none, "--yes", bootstrap=bootstrap)
    assert ran.code == 1
    assert ran.errors.splitlines() == [f"ottla: group {none}: there is no such group", f"group {name}: deleted"]
    assert errors("group", "describe", name, bootstrap=bootstrap) == [f"ottla: group {name}: there is no such group"]
    assert good("group", "list", f"{name}*", bootstrap=bootstrap).lines == []
    ran = ottla("group", "delete", name, "--yes", "--if-exists", bootstrap=bootstrap)
    assert (ran.code, ran.errors) == (0, f"group {name}: not there\n")


def test_a_cluster_that_is_not_there() -> None:
    for arguments in (["topic", "list"], ["group", "list"], ["config", "list"], ["topic", "create", "t"]):
        assert errors(*arguments, bootstrap="127.0.0.1:1") == ["ottla: cannot reach 127.0.0.1:1: connection refused"]

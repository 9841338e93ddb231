"""Tests of how the commands end: Ctrl-C, closed pipes, a full disk, clusters and topics that are not there; and `ottla log
dump`."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.commands import OTTLA, TIMEOUT_S, environment, good, made, ottla, read_until, running, ten_records

Unique = Callable[[str], str]


@pytest.fixture
def topic(bootstrap: str) -> str:
    """An empty topic of one partition."""
    return made(bootstrap, 1)


@pytest.fixture(scope="module")
def ten(bootstrap: str) -> str:
    return ten_records(bootstrap)


# Streams and exit codes


def test_ctrl_c(bootstrap: str, ten: str) -> None:
    with running("consume", ten, bootstrap=bootstrap) as reader:
        assert reader.stdout is not None
        read_until(reader.stdout.fileno(), b"9\n")
        reader.send_signal(signal.SIGINT)
        assert reader.communicate(timeout=TIMEOUT_S) == (b"", b"")
        assert reader.returncode == 130


def test_ctrl_c_while_producing(bootstrap: str, topic: str) -> None:
    """The lines that were typed are sent, however the command ends."""
    with running("produce", topic, bootstrap=bootstrap, stdin=subprocess.PIPE) as writer:
        assert writer.stdin is not None
        writer.stdin.write(b"typed\n")
        writer.stdin.flush()
        assert good("consume", topic, "-c", "1", bootstrap=bootstrap).lines == ["typed"]
        writer.send_signal(signal.SIGINT)
        _, errors = writer.communicate(timeout=TIMEOUT_S)
    assert writer.returncode == 130
    assert errors == b"ottla: interrupted: 1 record delivered, 0 not\n"


def test_a_closed_pipe_ends_it_quietly(bootstrap: str, ten: str) -> None:
    """The reader goes away while there is nothing to write, as `| head -1` does."""
    with running("consume", ten, bootstrap=bootstrap) as reader:
        assert reader.stdout is not None
        read_until(reader.stdout.fileno(), b"9\n")
        reader.stdout.close()
        assert reader.stderr is not None
        assert reader.wait(TIMEOUT_S) == 0
        assert reader.stderr.read() == b""


def test_head(bootstrap: str, topic: str) -> None:
    """The reader goes away while there is much to write."""
    good("produce", topic, bootstrap=bootstrap, stdin=b"%s\n" % (b"x" * 1000) * 5000)
    line = f'{" ".join(OTTLA)} consume {topic} | head -1; echo "${{PIPESTATUS[0]}}"'
    done = subprocess.run(["bash", "-c", line], capture_output=True, check=False, timeout=TIMEOUT_S, env=environment(bootstrap))
    assert (done.stdout, done.stderr) == (b"x" * 1000 + b"\n0\n", b"")


def test_a_full_disk(bootstrap: str, ten: str) -> None:
    with open("/dev/full", "wb") as full, running("consume", ten, "-e", bootstrap=bootstrap, stdout=full) as reader:
        _, errors = reader.communicate(timeout=TIMEOUT_S)
    assert (reader.returncode, errors) == (1, b"ottla: output: No space left on device\n")


def test_a_terminal_gets_each_record_at_once(bootstrap: str, topic: str) -> None:
    """Bytes that are not text are escaped."""
    good("produce", topic, "--json", bootstrap=bootstrap, stdin=b'{"value": {"hex": "61ff62"}}')
    master, slave = pty.openpty()
    try:
        with running("consume", topic, bootstrap=bootstrap, stdout=slave) as reader:
            assert read_until(master, b"\n") == b"a\\xffb\r\n"
            good("produce", topic, "--value", "next", bootstrap=bootstrap)
            assert read_until(master, b"\n") == b"next\r\n"
            reader.send_signal(signal.SIGINT)
            assert reader.wait(TIMEOUT_S) == 130
    finally:
        os.close(master)
        os.close(slave)


def test_progress_is_shown_on_a_terminal_only(bootstrap: str, topic: str, tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("line\n" * 1000)
    master, slave = pty.openpty()
    try:
        with running("produce", topic, str(tmp_path / "lines"), bootstrap=bootstrap, stderr=slave) as writer:
            text = read_until(master, b"1,000 records delivered")
            assert writer.wait(TIMEOUT_S) == 0
    finally:
        os.close(master)
        os.close(slave)
    assert b"sending" in text


# What goes wrong


def test_a_topic_that_is_not_there(bootstrap: str, unique: Unique) -> None:
    missing = unique("missing")
    for arguments in (["consume", missing, "-e"], ["consume", missing, "-g", missing]):
        ran = ottla(*arguments, bootstrap=bootstrap)
        assert (ran.code, ran.out, ran.errors) == (1, b"", f"ottla: topic {missing}: there is no such topic or partition\n")
    assert missing not in AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=30).topics, "asking made it"


def test_a_topic_made_on_demand(bootstrap: str, unique: Unique) -> None:
    topic = unique("demand")
    good("produce", topic, "--value", "first", bootstrap=bootstrap)
    assert good("consume", topic, "-e", bootstrap=bootstrap).lines == ["first"]


def test_names_and_partitions_that_cannot_be(bootstrap: str, ten: str) -> None:
    ran = ottla("produce", "no/name", "--value", "x", bootstrap=bootstrap)
    assert (ran.code, ran.errors) == (1, "ottla: topic no/name: the topic's name is not allowed\n")
    ran = ottla("consume", ten, "-p", "1", bootstrap=bootstrap)
    assert (ran.code, ran.errors) == (1, f"ottla: topic {ten} has no partition 1: it has 1, counted from 0\n")


def test_what_is_not_delivered_is_counted(bootstrap: str, unique: Unique) -> None:
    """In a topic for small messages the large ones fail, and the others arrive."""
    topic = unique("small")
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1, config={"max.message.bytes": "1000"})])[topic].result(30)
    stdin = b"a\n%s\nb\n%s\nc\n" % (b"x" * 2000, b"y" * 2000)
    ran = ottla("produce", topic, "--batch", "1", bootstrap=bootstrap, stdin=stdin)
    assert ran.code == 1
    reason = "2 × larger than the topic allows (max.message.bytes)"
    assert ran.errors == f"ottla: 2 of 5 records were not delivered: {reason}\n"
    assert good("consume", topic, "-e", bootstrap=bootstrap).lines == ["a", "b", "c"]


def test_a_line_that_is_no_record(bootstrap: str, topic: str) -> None:
    stdin = b'{"value": "good"}\n{"value": 7}\n{"value": "never read"}\n'
    ran = ottla("produce", topic, "--json", bootstrap=bootstrap, stdin=stdin)
    assert ran.code == 1
    assert ran.errors == (
        'ottla: standard input, line 2: value must be a string, null, {"base64": "..."} or {"hex": "..."}; '
        "records delivered before it: 1\n"
    )
    assert good("consume", topic, "-e", bootstrap=bootstrap).lines == ["good"]


def test_a_line_without_end(bootstrap: str, topic: str) -> None:
    """Memory stays bounded: reading stops at a line that no record could hold."""
    with open("/dev/zero", "rb") as zeros, running("produce", topic, bootstrap=bootstrap, stdin=zeros) as writer:
        _, errors = writer.communicate(timeout=TIMEOUT_S)
    assert writer.returncode == 1
    assert errors.startswith(b"ottla: standard input, line 1 is longer than 1000000 bytes; -X message.max.bytes=... allows more")


def test_a_cluster_behind_properties(bootstrap: str, topic: str, tmp_path: Path) -> None:
    """A file of properties names the cluster; the command line overrides it."""
    (tmp_path / "client.properties").write_text(f"# mine\nbootstrap.servers = {bootstrap}\nclient.id=file\n")
    config = ("--client-config", str(tmp_path / "client.properties"))
    good("produce", topic, "--value", "x", *config)
    good("produce", topic, "--value", "y", "-b", "127.0.0.1:1", "-X", f"bootstrap.servers={bootstrap}")
    assert good("consume", topic, "-e", *config).lines == ["x", "y"]
    assert good("consume", topic, "-e", env={"KAFKA_BOOTSTRAP_SERVERS": bootstrap}).lines == ["x", "y"]
    assert ottla("consume", topic, "-e", *config, "-b", "127.0.0.1:1").code == 1


# A broker that goes away


def test_a_broker_that_comes_back(fresh_broker: Callable[..., Any]) -> None:
    """Both commands wait and go on: the reader shows every record once. The writer is idempotent, because a record that was read
    may not be acknowledged yet when the broker dies, and then it is sent again."""
    broker = fresh_broker()
    bootstrap = f"127.0.0.1:{broker.port}"
    topic = made(bootstrap, 1)
    with (
        running("produce", topic, "-X", "enable.idempotence=true", bootstrap=bootstrap, stdin=subprocess.PIPE) as writer,
        running("consume", topic, "--count", "2", "--timeout", "60", bootstrap=bootstrap) as reader,
    ):
        assert writer.stdin is not None
        assert reader.stdout is not None
        writer.stdin.write(b"before\n")
        writer.stdin.flush()
        read_until(reader.stdout.fileno(), b"before\n")
        broker.kill()
        writer.stdin.write(b"after\n")
        writer.stdin.flush()
        broker.start()
        read_until(reader.stdout.fileno(), b"after\n")
        assert reader.wait(TIMEOUT_S) == 0
        assert writer.communicate(timeout=TIMEOUT_S)[0] == b""
        assert writer.returncode == 0


def test_a_broker_that_stays_away(fresh_broker: Callable[..., Any]) -> None:
    """A reader gives up after ten seconds; a writer says that it waits, and at Ctrl-C how much it could not send."""
    broker = fresh_broker()
    bootstrap = f"127.0.0.1:{broker.port}"
    topic = made(bootstrap, 1)
    with (
        running("produce", topic, bootstrap=bootstrap, stdin=subprocess.PIPE) as writer,
        running("consume", topic, bootstrap=bootstrap) as reader,
    ):
        assert writer.stdin is not None
        assert writer.stderr is not None
        assert reader.stdout is not None
        writer.stdin.write(b"before\n")
        writer.stdin.flush()
        read_until(reader.stdout.fileno(), b"before\n")
        broker.kill()
        _, errors = reader.communicate(timeout=TIMEOUT_S)
        assert reader.returncode == 1
        assert errors.startswith(f"ottla: cannot reach {bootstrap}: ".encode())
        writer.stdin.write(b"after\n")
        writer.stdin.close()
        writer.stdin = None
        assert b"still trying, Ctrl-C stops" in read_until(writer.stderr.fileno(), b"\n")
        writer.send_signal(signal.SIGINT)
        last = read_until(writer.stderr.fileno(), b"\n")
        counts = re.search(rb"interrupted: (\d+) records? delivered, (\d+) not", last)
        assert counts is not None, last
        delivered, left = map(int, counts.groups())
        # A reader has "before" as soon as it is stored; its acknowledgement may die with the broker on the way to the writer.
        assert delivered + left == 2
        assert left >= 1
        assert writer.wait(TIMEOUT_S) == 130


# Files


def test_the_files_of_a_broker(fresh_broker: Callable[..., Any], kind: str, tmp_path: Path) -> None:
    """`ottla log dump` understands every file that either broker leaves on disk, and finds nothing wrong."""
    broker = fresh_broker(offsets_topic_num_partitions="1", offsets_topic_replication_factor="1")
    bootstrap = f"127.0.0.1:{broker.port}"
    topic = made(bootstrap, 1, "dumped")
    good(
        "produce",
        topic,
        "-K",
        ":",
        "-z",
        "zstd",
        "-X",
        "enable.idempotence=true",
        "--linger-ms",
        "10000",  # both are in one batch, however busy the machine; the end of the input sends it at once
        bootstrap=bootstrap,
        stdin=b"k:%s\nk:w\n" % (b"v" * 500),
    )
    good("consume", topic, "--group", "g", "--exit", bootstrap=bootstrap)
    broker.stop()
    directory = next(path.parent for path in Path(broker.directory).rglob("dumped-0") if path.is_dir())

    items = good("log", "dump", str(directory / "dumped-0"), "--records", "--json").objects
    (batch,) = [item for item in items if item["type"] == "batch"]
    assert (batch["base_offset"], batch["last_offset"], batch["codec"], batch["crc"]) == (0, 1, "zstd", "ok")
    assert [(item["offset"], item["key"], item["value"]) for item in items if item["type"] == "record"] == [
        (0, "k", "v" * 500),
        (1, "k", "w"),
    ]
    producers = [item for item in items if item["type"] == "producer"]
    assert [(item["producer_epoch"], item["last_sequence"], item["last_offset"]) for item in producers] == [(0, 1, 1)]

    items = dumped_records(directory / "__consumer_offsets-0")
    commits = [item["value"]["OffsetCommitValue"] for item in items if "OffsetCommitKey" in item["key"]]
    assert commits[-1]["offset"] == 2
    groups = [item["value"]["GroupMetadataValue"] for item in items if "GroupMetadataKey" in item["key"]]
    members = [member for group in groups for member in group["members"]]
    assert members[0]["subscription"]["topics"] == [topic]
    assert members[0]["assignment"]["assigned_partitions"] == [{"topic": topic, "partitions": [0]}]

    items = dumped_records(directory / "__cluster_metadata-0")
    assert topic in [item["value"]["TopicRecord"]["name"] for item in items if "TopicRecord" in item["value"]]
    assert "LEADER_CHANGE" in [item.get("control") for item in items]
    checkpoints = good("log", "dump", str(directory), "--json").objects
    assert {"type": "checkpoint", "topic": topic, "partition": 0, "offset": 2}.items() <= next(
        item.items()
        for item in checkpoints
        if item.get("topic") == topic and item["file"].endswith("/replication-offset-checkpoint")
    )


def dumped_records(directory: Path) -> list[Any]:
    return [item for item in good("log", "dump", str(directory), "--records", "--json").objects if item["type"] == "record"]

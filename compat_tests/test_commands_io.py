"""`ottla produce`, `ottla consume` and `ottla log dump` as a user runs them, against ottla and Apache Kafka."""

from __future__ import annotations

import base64
import json
import os
import pty
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.commands import OTTLA, TIMEOUT_S, environment, good, ottla
from compat_tests.times import TODAY_MS
from compat_tests.waiting import wait_for

Unique = Callable[[str], str]


@pytest.fixture
def topic(bootstrap: str, unique: Unique) -> str:
    """An empty topic of one partition."""
    return made(bootstrap, unique("commands"), 1)


def made(bootstrap: str, name: str, partitions: int) -> str:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, partitions, 1)])[name].result(30)
    wait_for(lambda: len(admin.list_topics(name, timeout=30).topics[name].partitions) == partitions, f"{name} in the metadata")
    return name


def committed(bootstrap: str, group: str, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    (found,) = consumer.committed([TopicPartition(topic, 0)], timeout=30)
    consumer.close()
    return int(found.offset)


def fields(line: str | bytes) -> dict[str, Any]:
    """A JSON record without what the broker gave it."""
    return {name: value for name, value in json.loads(line).items() if name in {"key", "value", "headers", "timestamp"}}


@contextmanager
def running(*arguments: str, bootstrap: str, **streams: Any) -> Iterator[subprocess.Popen[bytes]]:
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | streams
    process = subprocess.Popen([*OTTLA, *arguments], env=environment(bootstrap), **pipes)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def read_until(stream: int, wanted: bytes) -> bytes:
    """What comes from a descriptor, until it holds `wanted`."""
    text = b""
    while wanted not in text:
        assert select.select([stream], [], [], TIMEOUT_S)[0], f"no {wanted!r} within {TIMEOUT_S} s after {text!r}"
        more = os.read(stream, 65536)
        assert more, f"it ended after {text!r}"
        text += more
    return text


# There and back


def test_lines(bootstrap: str, topic: str) -> None:
    good("produce", topic, bootstrap=bootstrap, stdin="one\n\nzwölf \r\nlast".encode())
    assert good("consume", topic, "--exit", bootstrap=bootstrap).out == "one\n\nzwölf \r\nlast\n".encode()


def test_keys_headers_and_tombstones(bootstrap: str, topic: str) -> None:
    good(
        *("produce", topic, "-K", ":", "--null-value", "NULL", "-H", "a=1", "-H", "a=x=y"),
        bootstrap=bootstrap,
        stdin=b"k:v:w\nno key\nk:NULL\n:empty\n",
    )
    good("produce", topic, "--key", "k", "--tombstone", bootstrap=bootstrap)
    headers = [["a", "1"], ["a", "x=y"]]
    records = good("consume", topic, "--json", "-e", bootstrap=bootstrap).objects
    assert [(record["key"], record["value"], record["headers"]) for record in records] == [
        ("k", "v:w", headers),
        (None, "no key", headers),
        ("k", None, headers),
        ("", "empty", headers),
        ("k", None, []),
    ]
    assert [record["offset"] for record in records] == [0, 1, 2, 3, 4]
    shown = good("consume", topic, "-e", "-K", "=", "--null-value", "~", bootstrap=bootstrap)
    assert shown.lines == ["k=v:w", "~=no key", "k=~", "=empty", "k=~"]


BINARY = bytes(range(256))
BINARY_JSON = {"base64": base64.b64encode(BINARY).decode()}
RECORDS: list[dict[str, Any]] = [
    {"key": "k", "value": "v", "headers": [], "timestamp": TODAY_MS + 1},
    {"key": None, "value": None, "headers": [["h", None], ["h", "2"], ["", ""]], "timestamp": TODAY_MS + 2},
    {"key": BINARY_JSON, "value": BINARY_JSON, "headers": [["b", BINARY_JSON]], "timestamp": TODAY_MS + 3},
    {"key": "", "value": "two\nlines\t\u2028 \U0001f600 \u0000", "headers": [], "timestamp": TODAY_MS + 4},
]


def test_json_loses_nothing(bootstrap: str, unique: Unique) -> None:
    first, second = made(bootstrap, unique("json"), 2), made(bootstrap, unique("json"), 2)
    sent = [record | {"partition": number % 2} for number, record in enumerate(RECORDS)]
    good("produce", first, "--json", bootstrap=bootstrap, stdin="".join(json.dumps(one) + "\n" for one in sent).encode())
    read = good("consume", first, "--json", "--exit", bootstrap=bootstrap)
    assert sorted(map(fields, read.lines), key=lambda one: int(one["timestamp"])) == RECORDS
    good("produce", second, "--json", bootstrap=bootstrap, stdin=read.out)
    again = good("consume", second, "--json", "--exit", bootstrap=bootstrap).objects
    assert sorted((one | {"topic": first} for one in again), key=lambda one: int(one["timestamp"])) == sorted(
        read.objects, key=lambda one: int(one["timestamp"])
    )
    assert {one["partition"] for one in again} == {0, 1}


def test_json_takes_other_forms_and_defaults(bootstrap: str, topic: str) -> None:
    line = {
        "value": {"hex": "00ff"},
        "headers": {"a": "1", "b": None},
        "timestamp": datetime.fromtimestamp(TODAY_MS / 1000, UTC).isoformat(),
    }
    good("produce", topic, "--json", "-k", "default", "-H", "x=y", bootstrap=bootstrap, stdin=json.dumps(line).encode())
    (record,) = good("consume", topic, "--json", "-e", "--value-encoding", "hex", bootstrap=bootstrap).objects
    assert record["key"] == "default"
    assert record["value"] == {"hex": "00ff"}
    assert record["headers"] == [["x", "y"], ["a", "1"], ["b", None]]
    assert record["timestamp"] == TODAY_MS


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_codecs_and_batches(bootstrap: str, topic: str, codec: str, tmp_path: Path) -> None:
    lines = [f"{codec} {number}" for number in range(500)]
    (tmp_path / "a").write_text("\n".join(lines[:250]) + "\n")
    (tmp_path / "b").write_text("\n".join(lines[250:]))
    limits = ("--acks", "all", "--batch", "100", "--batch-bytes", "20000", "--linger-ms", "20")
    good("produce", topic, str(tmp_path / "a"), str(tmp_path / "b"), "-z", codec, *limits, bootstrap=bootstrap)
    assert good("consume", topic, "-e", bootstrap=bootstrap).lines == lines


def test_partition_timestamp_and_value(bootstrap: str, unique: Unique) -> None:
    topic = made(bootstrap, unique("placed"), 3)
    good("produce", topic, "-p", "2", "--timestamp", str(TODAY_MS), "--value", "a", "--value", "b", bootstrap=bootstrap)
    shown = good("consume", topic, "-e", "-f", "%p %o %T %s\n", bootstrap=bootstrap)
    assert shown.lines == [f"2 0 {TODAY_MS} a", f"2 1 {TODAY_MS} b"]
    failed = ottla("produce", topic, "-p", "3", "--value", "c", bootstrap=bootstrap)
    assert (failed.code, failed.errors) == (1, f"ottla: topic {topic} has no partition 3: it has 3, counted from 0\n")


def test_keys_go_where_java_puts_them(bootstrap: str, unique: Unique) -> None:
    """murmur2 of these keys, as Java's DefaultPartitioner has it for 10 partitions."""
    topic = made(bootstrap, unique("murmur"), 10)
    good("produce", topic, "-K", ":", bootstrap=bootstrap, stdin=b"".join(b"key-%d:\n" % number for number in range(8)))
    records = good("consume", topic, "-e", "-f", "%k %p\n", bootstrap=bootstrap).lines
    assert {key: int(partition) for key, partition in (line.split() for line in records)} == {
        f"key-{number}": murmur2(b"key-%d" % number) % 10 for number in range(8)
    }


def murmur2(data: bytes) -> int:
    """Kafka's partitioner hash, positive: the reference for the test above."""
    mask = 0xFFFFFFFF
    value = 0x9747B28C ^ len(data)
    whole = len(data) // 4 * 4
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little") * 0x5BD1E995 & mask
        word = (word ^ (word >> 24)) * 0x5BD1E995 & mask
        value = (value * 0x5BD1E995 & mask) ^ word
    if rest := data[whole:]:
        value = (value ^ int.from_bytes(rest, "little")) * 0x5BD1E995 & mask
    value = (value ^ (value >> 13)) * 0x5BD1E995 & mask
    return (value ^ (value >> 15)) & 0x7FFFFFFF


# What is shown


def test_the_tokens_of_a_format(bootstrap: str, topic: str) -> None:
    good("produce", topic, "--json", bootstrap=bootstrap, stdin="".join(json.dumps(one) + "\n" for one in RECORDS[:2]).encode())
    shown = good("consume", topic, "-e", "-f", r"%t|%p|%o|%k|%K|%s|%S|%T|%h|%%\x41\t\r\\;\n", bootstrap=bootstrap)
    assert shown.text == (
        f"{topic}|0|0|k|1|v|1|{TODAY_MS + 1}||%A\t\r\\;\n{topic}|0|1||-1||-1|{TODAY_MS + 2}|h=,h=2,=|%A\t\r\\;\n"
    )


def test_bytes_come_as_they_are_or_encoded(bootstrap: str, topic: str) -> None:
    good("produce", topic, "--json", bootstrap=bootstrap, stdin=json.dumps(RECORDS[2]).encode())
    assert good("consume", topic, "-e", "-f", "%k%s", bootstrap=bootstrap).out == BINARY + BINARY
    encoded = good("consume", topic, "-e", "-K", " ", "--key-encoding", "hex", "--value-encoding", "base64", bootstrap=bootstrap)
    assert encoded.text == f"{BINARY.hex()} {BINARY_JSON['base64']}\n"


# Where to begin and to end


@pytest.fixture
def ten(bootstrap: str, topic: str) -> str:
    """Ten records, 0 to 9, a second apart from TODAY_MS on."""
    lines = "".join(json.dumps({"value": str(number), "timestamp": TODAY_MS + 1000 * number}) + "\n" for number in range(10))
    good("produce", topic, "--json", bootstrap=bootstrap, stdin=lines.encode())
    return topic


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ("--exit", "0123456789"),
        ("--from beginning --exit", "0123456789"),
        ("--from end --exit", ""),
        ("--from 7 --exit", "789"),
        ("--from -2 --exit", "89"),
        ("--from -200 --exit", "0123456789"),
        ("--from @{ms} --exit", "6789"),
        ("--from {iso} --exit", "6789"),
        ("--until 3", "012"),
        ("--until -8", "01"),
        ("--until end", "0123456789"),
        ("--until beginning", ""),
        ("--until @{ms}", "012345"),
        ("--from 2 --until {iso}", "2345"),
        ("--from 5 --until 5", ""),
        ("--until 100 --exit", "0123456789"),
        ("--count 4", "0123"),
        ("--from -5 --count 2 --exit", "56"),
        ("--count 0", ""),
        ("--count 100 --exit", "0123456789"),
        ("--partition 0 --until 1", "0"),
        ("--isolation uncommitted -e --from 9", "9"),
    ],
)
def test_places(bootstrap: str, ten: str, arguments: str, shown: str) -> None:
    moment = datetime.fromtimestamp((TODAY_MS + 5500) / 1000, UTC)
    words = arguments.format(ms=TODAY_MS + 5500, iso=moment.isoformat().replace("+00:00", "Z")).split()
    assert "".join(good("consume", ten, *words, bootstrap=bootstrap).lines) == shown


def test_an_offset_that_is_not_there_is_said(bootstrap: str, ten: str) -> None:
    ran = ottla("consume", ten, "--from", "100", "-e", bootstrap=bootstrap)
    assert (ran.code, ran.out) == (0, b"")
    assert ran.errors == f"{ten} [0]: has 0 to 10, not 100; starting at 10\n"


def test_several_topics_and_partitions(bootstrap: str, unique: Unique) -> None:
    one, two = made(bootstrap, unique("many"), 3), made(bootstrap, unique("many"), 1)
    for number in range(3):
        good("produce", one, "-p", str(number), "--value", f"a{number}", bootstrap=bootstrap)
    good("produce", two, "--value", "b", bootstrap=bootstrap)
    assert sorted(good("consume", one, two, one, "-e", bootstrap=bootstrap).lines) == ["a0", "a1", "a2", "b"]
    assert sorted(good("consume", one, "-p", "0", "-p", "2", "-e", bootstrap=bootstrap).lines) == ["a0", "a2"]


def test_records_that_come_later_and_a_time_to_come(bootstrap: str, ten: str) -> None:
    """A reader that waits shows what is written, and ends when the time of --until has come though nobody writes any more."""
    until = f"@{int(time.time() * 1000) + 3000}"
    with running("consume", ten, "--from", "end", "--until", until, bootstrap=bootstrap) as reader:
        assert reader.stdout is not None
        late = running("consume", ten, "--from", "9", "-c", "2", "-f", "%s;", bootstrap=bootstrap)
        with late as counting:
            assert counting.stdout is not None
            read_until(counting.stdout.fileno(), b"9;")
            good("produce", ten, "--value", "new", bootstrap=bootstrap)
            read_until(counting.stdout.fileno(), b"new;")
            assert counting.wait(TIMEOUT_S) == 0
        out, errors = reader.communicate(timeout=TIMEOUT_S)
    assert (reader.returncode, errors) == (0, b"")
    assert out in {b"new\n", b""}  # empty if the three seconds were over before


def test_an_open_transaction_is_not_shown(bootstrap: str, kind: str, topic: str, unique: Unique) -> None:
    if kind == "ottla":
        return  # no transactions yet
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": unique("txn")})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, value="aborted")
    producer.flush(30)
    producer.abort_transaction(30)
    good("produce", topic, "--value", "plain", bootstrap=bootstrap)
    assert good("consume", topic, "-e", bootstrap=bootstrap).lines == ["plain"]
    assert good("consume", topic, "--until", "end", bootstrap=bootstrap).lines == ["plain"]
    assert good("consume", topic, "-e", "--isolation", "uncommitted", bootstrap=bootstrap).lines == ["aborted", "plain"]


# Groups


def test_a_group_goes_on_where_it_stopped(bootstrap: str, ten: str, unique: Unique) -> None:
    group = unique("readers")
    assert "".join(good("consume", ten, "--group", group, "--count", "3", bootstrap=bootstrap).lines) == "012"
    assert committed(bootstrap, group, ten) == 3
    assert "".join(good("consume", ten, "--group", group, "--until", "5", bootstrap=bootstrap).lines) == "34"
    assert "".join(good("consume", ten, "--group", group, "--exit", bootstrap=bootstrap).lines) == "56789"
    assert committed(bootstrap, group, ten) == 10
    assert good("consume", ten, "--group", group, "--exit", bootstrap=bootstrap).out == b""


def test_a_new_group_from_the_end(bootstrap: str, ten: str, unique: Unique) -> None:
    group = unique("late")
    assert good("consume", ten, "-g", group, "--from", "end", "-e", bootstrap=bootstrap).out == b""


def test_an_interrupted_member_has_committed_what_it_showed(bootstrap: str, ten: str, unique: Unique) -> None:
    group = unique("interrupted")
    with running("consume", ten, "--group", group, bootstrap=bootstrap) as reader:
        assert reader.stdout is not None
        read_until(reader.stdout.fileno(), b"9\n")
        reader.send_signal(signal.SIGINT)
        assert reader.wait(TIMEOUT_S) == 130
    assert committed(bootstrap, group, ten) == 10


# Streams and exit codes


def test_ctrl_c(bootstrap: str, ten: str) -> None:
    with running("consume", ten, bootstrap=bootstrap) as reader:
        assert reader.stdout is not None
        read_until(reader.stdout.fileno(), b"9\n")
        reader.send_signal(signal.SIGINT)
        assert reader.communicate(timeout=TIMEOUT_S) == (b"", b"")
        assert reader.returncode == 130


def test_ctrl_c_while_producing(bootstrap: str, topic: str) -> None:
    """What was typed is sent, however it ends."""
    with running("produce", topic, bootstrap=bootstrap, stdin=subprocess.PIPE) as writer:
        assert writer.stdin is not None
        writer.stdin.write(b"typed\n")
        writer.stdin.flush()
        assert good("consume", topic, "-c", "1", bootstrap=bootstrap).lines == ["typed"]
        writer.send_signal(signal.SIGINT)
        _, errors = writer.communicate(timeout=TIMEOUT_S)
    assert writer.returncode == 130
    assert errors == b"ottla: interrupted: 1 records delivered, 0 not\n"


def test_a_closed_pipe_ends_it_quietly(bootstrap: str, ten: str) -> None:
    """The reader leaves while there is nothing to write; as `| head -1` does."""
    with running("consume", ten, bootstrap=bootstrap) as reader:
        assert reader.stdout is not None
        read_until(reader.stdout.fileno(), b"9\n")
        reader.stdout.close()
        assert reader.stderr is not None
        assert reader.wait(TIMEOUT_S) == 0
        assert reader.stderr.read() == b""


def test_head(bootstrap: str, topic: str) -> None:
    """The reader leaves while there is much to write."""
    good("produce", topic, bootstrap=bootstrap, stdin=b"%s\n" % (b"x" * 1000) * 5000)
    line = f'{" ".join(OTTLA)} consume {topic} | head -1; echo "${{PIPESTATUS[0]}}"'
    done = subprocess.run(["bash", "-c", line], capture_output=True, check=False, timeout=TIMEOUT_S, env=environment(bootstrap))
    assert (done.stdout, done.stderr) == (b"x" * 1000 + b"\n0\n", b"")


def test_a_full_disk(bootstrap: str, ten: str) -> None:
    with open("/dev/full", "wb") as full, running("consume", ten, "-e", bootstrap=bootstrap, stdout=full) as reader:
        _, errors = reader.communicate(timeout=TIMEOUT_S)
    assert (reader.returncode, errors) == (1, b"ottla: output: No space left on device\n")


def test_a_terminal_gets_each_record_at_once(bootstrap: str, topic: str) -> None:
    """And no bytes that would be no text."""
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
            text = read_until(master, b"1000 records delivered")
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
    """A topic of small messages: the large ones fail, the others arrive."""
    topic = unique("small")
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1, config={"max.message.bytes": "1000"})])[topic].result(30)
    stdin = b"a\n%s\nb\n%s\nc\n" % (b"x" * 2000, b"y" * 2000)
    ran = ottla("produce", topic, "--batch", "1", bootstrap=bootstrap, stdin=stdin)
    assert ran.code == 1
    reason = "2 × larger than the topic allows (max.message.bytes)"
    assert ran.errors == f"ottla: 2 of 5 records not delivered: {reason}\n"
    assert good("consume", topic, "-e", bootstrap=bootstrap).lines == ["a", "b", "c"]


def test_a_line_that_is_no_record(bootstrap: str, topic: str) -> None:
    stdin = b'{"value": "good"}\n{"value": 7}\n{"value": "never read"}\n'
    ran = ottla("produce", topic, "--json", bootstrap=bootstrap, stdin=stdin)
    assert ran.code == 1
    assert ran.errors == (
        'ottla: standard input, line 2: value must be a string, null, {"base64": "..."} or {"hex": "..."}; '
        "of the records before it 1 were delivered\n"
    )
    assert good("consume", topic, "-e", bootstrap=bootstrap).lines == ["good"]


def test_a_line_without_end(bootstrap: str, topic: str) -> None:
    """Memory stays bounded: the reading stops at what no record can hold."""
    with open("/dev/zero", "rb") as zeros, running("produce", topic, bootstrap=bootstrap, stdin=zeros) as writer:
        _, errors = writer.communicate(timeout=TIMEOUT_S)
    assert writer.returncode == 1
    assert errors.startswith(b"ottla: standard input, line 1 is longer than 1000000 bytes; -X message.max.bytes=... allows more")


def test_a_cluster_behind_properties(bootstrap: str, topic: str, tmp_path: Path) -> None:
    """A file of properties names the cluster; what is nearer to the user counts more."""
    (tmp_path / "client.properties").write_text(f"# mine\nbootstrap.servers = {bootstrap}\nclient.id=file\n")
    config = ("--client-config", str(tmp_path / "client.properties"))
    good("produce", topic, "--value", "x", *config)
    good("produce", topic, "--value", "y", "-b", "127.0.0.1:1", "-X", f"bootstrap.servers={bootstrap}")
    assert good("consume", topic, "-e", *config).lines == ["x", "y"]
    assert good("consume", topic, "-e", env={"KAFKA_BOOTSTRAP_SERVERS": bootstrap}).lines == ["x", "y"]
    assert ottla("consume", topic, "-e", *config, "-b", "127.0.0.1:1").code == 1


# Files


def test_the_files_of_a_broker(fresh_broker: Callable[..., Any], kind: str, tmp_path: Path) -> None:
    """What either broker leaves on disk: every file is understood, and nothing is wrong with it."""
    broker = fresh_broker(offsets_topic_num_partitions="1", offsets_topic_replication_factor="1")
    bootstrap = f"127.0.0.1:{broker.port}"
    topic = made(bootstrap, "dumped", 1)
    good(
        "produce",
        topic,
        "-K",
        ":",
        "-z",
        "zstd",
        "-X",
        "enable.idempotence=true",
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

"""`ottla produce`, `ottla consume` and `ottla log dump` as a user runs them, against ottla and Apache Kafka."""

from __future__ import annotations

import base64
import itertools
import json
import os
import select
import signal
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from compat_tests.commands import TIMEOUT_S, committed, good, made, ottla, read_until, running, ten_records
from compat_tests.times import TODAY_MS
from compat_tests.waiting import wait_for

Unique = Callable[[str], str]


@pytest.fixture
def topic(bootstrap: str) -> str:
    """An empty topic of one partition."""
    return made(bootstrap, 1)


def fields(line: str | bytes) -> dict[str, Any]:
    """Returns a JSON record without the fields that the broker set."""
    return {name: value for name, value in json.loads(line).items() if name in {"key", "value", "headers", "timestamp"}}


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


def test_json_loses_nothing(bootstrap: str) -> None:
    first, second = made(bootstrap, 2), made(bootstrap, 2)
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


def test_partition_timestamp_and_value(bootstrap: str) -> None:
    topic = made(bootstrap, 3)
    good("produce", topic, "-p", "2", "--timestamp", str(TODAY_MS), "--value", "a", "--value", "b", bootstrap=bootstrap)
    shown = good("consume", topic, "-e", "-f", "%p %o %T %s\n", bootstrap=bootstrap)
    assert shown.lines == [f"2 0 {TODAY_MS} a", f"2 1 {TODAY_MS} b"]
    failed = ottla("produce", topic, "-p", "3", "--value", "c", bootstrap=bootstrap)
    assert (failed.code, failed.errors) == (1, f"ottla: topic {topic} has no partition 3: it has 3, counted from 0\n")


def test_keys_go_where_java_puts_them(bootstrap: str) -> None:
    """The expected partitions are murmur2 of the keys, as in Java's DefaultPartitioner, for 10 partitions."""
    topic = made(bootstrap, 10)
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


@pytest.fixture(scope="module")
def ten(bootstrap: str) -> str:
    return ten_records(bootstrap)


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


def test_several_topics_and_partitions(bootstrap: str) -> None:
    one, two = made(bootstrap, 3), made(bootstrap, 1)
    for number in range(3):
        good("produce", one, "-p", str(number), "--value", f"a{number}", bootstrap=bootstrap)
    good("produce", two, "--value", "b", bootstrap=bootstrap)
    assert sorted(good("consume", one, two, one, "-e", bootstrap=bootstrap).lines) == ["a0", "a1", "a2", "b"]
    assert sorted(good("consume", one, "-p", "0", "-p", "2", "-e", bootstrap=bootstrap).lines) == ["a0", "a2"]


def test_records_that_come_later_and_a_time_to_come(bootstrap: str) -> None:
    """A reader that waits shows what is written, and ends when the time of --until has come, even if nothing more is written."""
    ten = ten_records(bootstrap)
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


def test_an_aborted_transaction_is_not_shown(bootstrap: str, unique: Unique) -> None:
    topic = made(bootstrap, 1)
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


def test_two_members_share_and_take_over(bootstrap: str, unique: Unique) -> None:
    """Every record is shown once, by the member with its partition; when one member leaves, the other gets all."""
    topic, group = made(bootstrap, 2), unique("shared")
    arguments = ("consume", topic, "--group", group, "--format", "%p:%s\n")
    with running(*arguments, bootstrap=bootstrap) as first, running(*arguments, bootstrap=bootstrap) as second:
        outputs = {process: process.stdout.fileno() for process in (first, second) if process.stdout is not None}
        shown: dict[Any, bytes] = {first: b"", second: b""}

        def send_until(done: Callable[[], bool], what: str) -> None:
            """A record for each partition, again and again, until the members have shown what they should."""

            def step() -> bool:
                for partition in ("0", "1"):
                    good("produce", topic, "-p", partition, "--value", str(next(numbers)), bootstrap=bootstrap)
                for process in shown:
                    while select.select([outputs[process]], [], [], 0)[0] and (more := os.read(outputs[process], 65536)):
                        shown[process] += more
                return done()

            wait_for(step, what)

        numbers = itertools.count()
        send_until(lambda: all(shown.values()), "both show records")
        first.send_signal(signal.SIGINT)
        assert first.wait(TIMEOUT_S) == 130
        shown[first] += os.read(outputs[first], 65536)
        before = len(shown[second])
        send_until(lambda: {line[:1] for line in shown[second][before:].splitlines()} == {b"0", b"1"}, "the second has both")
    lines = (shown[first] + shown[second]).splitlines()
    assert len(lines) == len(set(lines)), "a record was shown twice"

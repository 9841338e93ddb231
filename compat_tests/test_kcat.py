"""kcat, Debian's (librdkafka 2.0.2 inside, the oldest here), against ottla and against Apache Kafka.

Each call is a process; group members are processes that print records as JSON lines and say what they are assigned on stderr.
"""

from __future__ import annotations

import json
import re
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from compat_tests.brokers import Address
from compat_tests.client_jobs import raw
from compat_tests.times import TODAY_MS
from compat_tests.waiting import wait_for
from compat_tests.wire import Wire

__all__ = ["raw"]  # a fixture

Unique = Callable[[str], str]
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
RUN_TIMEOUT_S = 60


class Kcat:
    """kcat pointed at one broker."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def command(self, *arguments: str) -> list[str]:
        return ["kcat", "-b", self.bootstrap, *arguments]

    def run(self, *arguments: str, stdin: str = "") -> str:
        """Runs it and returns what it prints; its exit code must be 0."""
        done = subprocess.run(
            self.command(*arguments), input=stdin, capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False
        )
        assert done.returncode == 0, f"kcat {arguments}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def produce(self, topic: str, *arguments: str, stdin: str) -> None:
        self.run("-P", "-t", topic, *arguments, stdin=stdin)

    def consume(self, topic: str, *arguments: str) -> list[dict[str, Any]]:
        """Up to the end of the partitions."""
        return [json.loads(line) for line in self.run("-C", "-t", topic, "-J", "-e", "-q", *arguments).splitlines()]

    @contextmanager
    def member(self, group: str, topic: str, *arguments: str) -> Iterator[Member]:
        """A member of a group; leaves it at the end."""
        settings = ["heartbeat.interval.ms=300", "auto.offset.reset=earliest", "auto.commit.interval.ms=200"]
        given = [word for setting in settings for word in ("-X", setting)]
        command = self.command("-G", group, "-J", "-u", *given, *arguments, topic)
        member = Member(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        try:
            yield member
        finally:
            member.leave()


class Member:
    """A running kcat in a group: what it is assigned and what it has read so far."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.assigned: set[int] = set()
        self.at_end: set[int] = set()
        """Those of the assigned partitions that were read to their end once."""
        self.rebalances = 0
        self.values: list[str] = []
        self.said: list[str] = []
        self.readers = [threading.Thread(target=read, daemon=True) for read in (self._read_records, self._read_messages)]
        for reader in self.readers:
            reader.start()

    def _read_records(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.values.append(json.loads(line)["payload"])

    def _read_messages(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said.append(line)
            partitions = {int(number) for number in re.findall(r" \[(\d+)\]", line)}
            if "Reached end of topic" in line:
                self.at_end = self.at_end | partitions
            elif " rebalanced" not in line:
                continue
            elif "assign" in line:
                self.at_end = self.at_end - partitions
                self.assigned = self.assigned | partitions
                self.rebalances += 1
            else:
                self.assigned = self.assigned - partitions

    def __repr__(self) -> str:
        return f"{self.values} from {self.assigned} after {self.rebalances} assignments, which said {self.said}"

    def leave(self) -> None:
        self.process.terminate()
        try:
            status = self.process.wait(RUN_TIMEOUT_S)
        finally:
            self.process.kill()
            for reader in self.readers:
                reader.join()
            for pipe in (self.process.stdout, self.process.stderr):
                assert pipe is not None
                pipe.close()
        assert status == 0, f"kcat in its group: exit {status}\n{''.join(self.said)}"


@pytest.fixture
def kcat(broker: Address) -> Kcat:
    return Kcat(broker.bootstrap)


HOW = {
    "acks-0": ["-X", "acks=0"],
    "acks-1": ["-X", "acks=1"],
    "acks-all": ["-X", "acks=all"],
    "idempotent": ["-X", "enable.idempotence=true"],
}


@pytest.mark.parametrize("how", HOW)
def test_records_come_back_as_they_were_sent_in_every_codec(kcat: Kcat, raw: Wire, how: str, tmp_path: Path) -> None:
    topic = raw.create("kcat", 2)
    small = [("key", "value"), ("key", None), ("schlüssel", "значение"), ("key", "again " * 50)]
    lines = "".join(f"{key}:{value or ''}\n" for key, value in small)
    large = tmp_path / "large"
    large.write_text("0123456789abcdef" * 56_250)
    headers = ["-H", "origin=test", "-H", "empty=", "-H", "origin=again"]
    wanted: list[tuple[Any, ...]] = []

    def arrived() -> bool:  # acks=0 tells nobody when, and two producers' records may overtake each other
        return bool(raw.end_offsets(topic, [1]).topics[0].partitions[0].offset == len(wanted))

    for codec in CODECS:
        kcat.produce(topic, "-p", "1", "-z", codec, "-K:", "-Z", *headers, *HOW[how], stdin=lines)
        wanted += [(key, value, ["origin", "test", "empty", "", "origin", "again"]) for key, value in small]
        wait_for(arrived, f"{len(wanted)} records")
        kcat.produce(topic, "-p", "1", "-z", codec, "-k", "large", *HOW[how], str(large), stdin="")
        wanted.append(("large", large.read_text(), []))
        wait_for(arrived, f"{len(wanted)} records")
    got = kcat.consume(topic, "-o", "beginning")
    assert [(r["key"], r["payload"], r.get("headers") or []) for r in got] == wanted
    assert [(r["partition"], r["offset"], r["tstype"]) for r in got] == [(1, n, "create") for n in range(len(wanted))]
    assert all(r["ts"] >= TODAY_MS for r in got)


def fill(kcat: Kcat, topic: str, per_partition: int, partitions: int) -> None:
    for p in range(partitions):
        kcat.produce(topic, "-p", str(p), stdin="".join(f"p{p}-{n}\n" for n in range(per_partition)))


def test_consuming_from_offsets_and_times_and_queries(kcat: Kcat, raw: Wire) -> None:
    topic = raw.create("kcat", 1)
    kcat.produce(topic, stdin="".join(f"{n}\n" for n in range(10)))
    everything = kcat.consume(topic, "-o", "beginning")
    assert [r["payload"] for r in everything] == [str(n) for n in range(10)]
    after_ms = everything[-1]["ts"] + 1
    wait_for(lambda: kcat.run("-Q", "-t", f"{topic}:0:-1") == f"{topic} [0] offset 10\n", "the end is 10")
    kcat.produce(topic, stdin="10\n11\n")
    later = kcat.consume(topic, "-o", f"s@{after_ms}")
    assert [r["payload"] for r in later] == ["10", "11"]
    assert [r["payload"] for r in kcat.consume(topic, "-p", "0", "-o", "7", "-c", "2")] == ["7", "8"]
    assert [r["payload"] for r in kcat.consume(topic, "-p", "0", "-o", "-3")] == ["9", "10", "11"]
    assert [r["payload"] for r in kcat.consume(topic, "-o", f"s@{TODAY_MS}", "-o", f"e@{after_ms}")][:10] == [
        str(n) for n in range(10)
    ]
    assert kcat.consume(topic, "-o", "end") == []
    for asked, offset in ((-2, 0), (-1, 12), (TODAY_MS, 0), (later[0]["ts"], 10)):
        assert kcat.run("-Q", "-t", f"{topic}:0:{asked}") == f"{topic} [0] offset {offset}\n"
    assert kcat.run("-C", "-t", topic, "-e", "-q", "-c", "1", "-o", "3", "-f", "%t %p %o %S %s\\n") == f"{topic} 0 3 1 3\n"


def test_metadata(kcat: Kcat, raw: Wire, broker: Address) -> None:
    topic = raw.create("kcat", 3)
    found = json.loads(kcat.run("-L", "-J", "-t", topic))
    assert (found["controllerid"], found["brokers"]) == (1, [{"id": 1, "name": broker.bootstrap}])
    one = [{"id": 1}]
    partitions = [{"partition": p, "leader": 1, "replicas": one, "isrs": one} for p in range(3)]
    assert found["topics"] == [{"topic": topic, "partitions": partitions}]
    assert topic in {t["topic"] for t in json.loads(kcat.run("-L", "-J"))["topics"]}


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
def test_a_group_rebalances_and_loses_nothing(kcat: Kcat, raw: Wire, unique: Unique, strategy: str) -> None:
    """Nothing changes before all have read to the end: librdkafka asks for a partition's first offset and, if that is answered
    after the partition was revoked, asks again half a second later, even if the partition was assigned anew meanwhile with an
    offset that was committed. Then it reads everything once more.
    """
    topic, group, everything = raw.create("kcat", 4), unique("kcat-group"), {0, 1, 2, 3}
    how = ["-X", f"partition.assignment.strategy={strategy}"]
    with kcat.member(group, topic, *how) as first:
        wait_for(lambda: first.at_end == first.assigned == everything, "one member reads all partitions")
        with kcat.member(group, topic, *how) as second:
            wait_for(
                lambda: len(first.assigned) == len(second.assigned) == 2 and first.assigned | second.assigned == everything,
                "the partitions are split",
            )
            wait_for(lambda: first.assigned <= first.at_end and second.assigned <= second.at_end, "the two read theirs")
            fill(kcat, topic, 10, 4)
            sent = {f"p{p}-{n}" for p in range(4) for n in range(10)}
            wait_for(lambda: {*first.values, *second.values} == sent, "the two have read everything")
        wait_for(lambda: first.assigned == everything <= first.at_end, "who stays reads all partitions")
        before = len(first.values)
        kcat.produce(topic, stdin="later\n")
        wait_for(lambda: first.values[before:] == ["later"], lambda: f"it reads on where the other was: {first}, {second}")
    with kcat.member(group, topic, *how) as third:  # everything was committed
        wait_for(lambda: third.at_end == third.assigned == everything, "a later member reads all partitions")
        kcat.produce(topic, stdin="last\n")
        wait_for(lambda: third.values == ["last"], "the later member goes on")


def test_a_static_member_returns_without_a_rebalance(kcat: Kcat, raw: Wire, unique: Unique) -> None:
    topic, group = raw.create("kcat", 3), unique("kcat-static")

    def named(name: str) -> list[str]:
        return ["-X", f"group.instance.id={name}"]

    with kcat.member(group, topic, *named("one")) as one:
        wait_for(lambda: one.assigned == {0, 1, 2}, "one member has all partitions")
        with kcat.member(group, topic, *named("two")) as two:
            wait_for(lambda: sorted([len(one.assigned), len(two.assigned)]) == [1, 2], "they share the partitions")
            before, kept, rebalances = set(two.assigned), set(one.assigned), one.rebalances
        with kcat.member(group, topic, *named("two")) as back:
            wait_for(lambda: back.assigned == before, "the returned member has its partitions back")
            assert (one.assigned, one.rebalances) == (kept, rebalances)


def test_producing_to_an_unknown_topic_creates_it(kcat: Kcat, unique: Unique) -> None:
    name = unique("kcat-auto")
    kcat.produce(name, stdin="first\n")
    assert [r["payload"] for r in kcat.consume(name, "-o", "beginning")] == ["first"]

"""The `ottla` command as a user runs it: a process of its own, its streams, its exit code."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from compat_tests.times import TODAY_MS
from compat_tests.topics import make_topics
from compat_tests.waiting import wait_for

OTTLA: Final = [sys.executable, "-m", "ottla"]
TIMEOUT_S: Final = 60
_STRAY: Final = ("KAFKA_", "OTTLA_", "_OTTLA", "GITHUB_ACTIONS", "FORCE_COLOR", "PY_COLORS", "NO_COLOR", "TTY_")
_LOOKS: Final = {"COLUMNS": "200", "TERM": "xterm"}  # of a terminal, whatever CI runs in
ENVIRONMENT: Final = {name: value for name, value in os.environ.items() if not name.startswith(_STRAY)} | _LOOKS


class Ran(NamedTuple):
    """The result of a command: its exit code and what it wrote."""

    code: int
    out: bytes
    errors: str

    @property
    def text(self) -> str:
        return self.out.decode()

    @property
    def lines(self) -> list[str]:
        return self.text.removesuffix("\n").split("\n") if self.out else []

    @property
    def objects(self) -> list[Any]:
        """Returns standard output, parsed as JSON lines."""
        return [json.loads(line) for line in self.lines]


def environment(bootstrap: str | None = None, **more: str) -> dict[str, str]:
    return ENVIRONMENT | ({} if bootstrap is None else {"OTTLA_BOOTSTRAP": bootstrap}) | more


def ottla(*arguments: str | bytes, bootstrap: str | None = None, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> Ran:
    """Runs a command that ends by itself, within a minute."""
    done = subprocess.run(
        [*OTTLA, *arguments],
        input=stdin,
        capture_output=True,
        check=False,
        timeout=TIMEOUT_S,
        env=environment(bootstrap, **(env or {})),
    )
    return Ran(done.returncode, done.stdout, done.stderr.decode())


def good(*arguments: str | bytes, bootstrap: str | None = None, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> Ran:
    """Runs a command that must succeed and write nothing to standard error."""
    ran = ottla(*arguments, bootstrap=bootstrap, stdin=stdin, env=env)
    assert (ran.code, ran.errors) == (0, ""), ran
    return ran


def errors(*arguments: str, bootstrap: str, code: int = 1) -> list[str]:
    """Runs a command that must fail, and returns its lines on standard error."""
    ran = ottla(*arguments, bootstrap=bootstrap)
    assert ran.code == code, ran
    return ran.errors.splitlines()


def made(bootstrap: str, partitions: int, name: str | None = None) -> str:
    """Creates a topic and returns its name."""
    name = name or f"commands-{uuid.uuid4().hex[:10]}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    make_topics(bootstrap, partitions, name)
    wait_for_leaders(admin, name, partitions)
    return name


def wait_for_leaders(admin: AdminClient, name: str, partitions: int) -> None:
    """Waits until the leaders answer: Kafka's metadata name a leader before it does."""
    asked = {TopicPartition(name, number): OffsetSpec.latest() for number in range(partitions)}

    def all_answer() -> bool:
        if len(admin.list_topics(name, timeout=30).topics[name].partitions) < partitions:
            return False
        try:
            for answer in admin.list_offsets(asked).values():
                answer.result(30)
        except KafkaException:
            return False
        return True

    wait_for(all_answer, f"{name} has leaders")


def ten_records(bootstrap: str) -> str:
    """Creates a topic of ten records, 0 to 9, a second apart from TODAY_MS on, and returns its name."""
    topic = made(bootstrap, 1)
    lines = "".join(json.dumps({"value": str(number), "timestamp": TODAY_MS + 1000 * number}) + "\n" for number in range(10))
    good("produce", topic, "--json", bootstrap=bootstrap, stdin=lines.encode())
    return topic


def committed(bootstrap: str, group: str, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    (found,) = consumer.committed([TopicPartition(topic, 0)], timeout=30)
    consumer.close()
    return int(found.offset)


@contextmanager
def running(*arguments: str, bootstrap: str, **streams: Any) -> Iterator[subprocess.Popen[bytes]]:
    pipes: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | streams
    process = subprocess.Popen([*OTTLA, *arguments], env=environment(bootstrap), **pipes)
    try:
        yield process
    finally:
        ended = process.poll()
        process.kill()
        if errors := process.communicate()[1]:  # what nobody has read: it says why a command ended that should not have
            print(f"ottla {arguments[0]} (exit code {ended}): {errors.decode()}", file=sys.stderr)


def read_until(stream: int, wanted: bytes) -> bytes:
    """Reads from a descriptor until the text contains `wanted`, and returns it."""
    text = b""
    while wanted not in text:
        assert select.select([stream], [], [], TIMEOUT_S)[0], f"no {wanted!r} within {TIMEOUT_S} s after {text!r}"
        more = os.read(stream, 65536)
        assert more, f"it ended after {text!r}"
        text += more
    return text

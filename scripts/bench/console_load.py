"""Measures what the console of a broker takes: its pages with many topics, partitions and groups, and a live tail for minutes.

    python -m scripts.bench.console_load [--topics 1000] [--partitions 10] [--groups 200] [--minutes 20] [--rate 5000]

It starts a broker with a console, makes the topics and groups, asks for each page several times and prints the median and the
slowest. Then it produces so many records a second, follows them in a live tail, and prints each minute what memory the console's
process and the broker hold.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from compat_tests.console.running import Visitor, broker
from compat_tests.console.test_process import children
from scripts.soak.samples import kib

_TIMES: Final = 13
_AT_ONCE: Final = 100
_STEP_S: Final = 0.05
_VALUE: Final = b'{"order": {"id": 4711, "state": "paid", "total": 12.5, "items": ["a", "b"]}, "note": "a small record"}'


def fill(bootstrap: str, topics: int, partitions: int, groups: int) -> None:
    """Makes topics named t-0000 on, and groups g-000 on that have committed in some of them."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    names = [f"t-{number:04}" for number in range(topics)]
    for at in range(0, topics, _AT_ONCE):
        made = admin.create_topics([NewTopic(name, partitions, 1) for name in names[at : at + _AT_ONCE]])
        for future in made.values():
            future.result(60)
    producer = Producer({"bootstrap.servers": bootstrap})
    for name in names[:100]:
        for _ in range(100):
            producer.produce(name, _VALUE)
    producer.flush(60)
    for number in range(groups):
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": f"g-{number:03}"})
        name = names[number % topics]
        consumer.commit(offsets=[TopicPartition(name, at, 1) for at in range(partitions)], asynchronous=False)
        consumer.close()


def paths() -> Iterator[str]:
    """Yields the pages that are asked for."""
    yield from ("/", "/topics", "/topics?page=3", "/topics?q=t-09", "/groups", "/groups?page=2", "/group?id=g-007", "/brokers")
    yield from ("/topics/t-0007", "/topics/t-0007/messages", "/topics/t-0007/groups", "/topics/t-0007/settings")
    yield from ("/topics/t-0007/0/0", "/inside", "/transactions", "/access", "/broker/directories", "/broker/quorum", "/files")


def time_pages(visitor: Visitor) -> None:
    """Prints for each page its median and longest time, and how large it is."""
    for path in paths():
        took = []
        for _ in range(_TIMES):
            began = time.perf_counter()
            page = visitor.get(path)
            took.append(1000 * (time.perf_counter() - began))
        size = len(page.text.encode()) / 1000
        print(f"{path:28} {page.status} median {statistics.median(took):6.1f} ms, slowest {max(took):6.1f} ms, {size:5.1f} kB")


def tail(visitor: Visitor, bootstrap: str, pids: tuple[int, int], minutes: int, rate: int) -> None:
    """Produces and follows, and prints each minute how many records were sent, and what memory the processes hold."""
    came = [0]
    events_at = re.search('data-tail="([^"]*)"', visitor.get("/topics/t-0000/tail").text)
    assert events_at is not None

    def follow() -> None:
        with visitor.stream(events_at[1]) as lines:
            for line in lines:
                if line.startswith("data:"):
                    came[0] = json.loads(line.removeprefix("data:")).get("came", came[0])

    threading.Thread(target=follow, daemon=True).start()
    producer = Producer({"bootstrap.servers": bootstrap, "queue.buffering.max.messages": 1_000_000})
    began, sent = time.monotonic(), 0
    for minute in range(minutes + 1):
        while time.monotonic() < began + 60 * minute:
            due = int((time.monotonic() - began) * rate)
            for number in range(sent, due):
                producer.produce("t-0000", _VALUE, str(number))
            sent = max(sent, due)
            producer.poll(_STEP_S)
        broker_mib, console_mib = (kib(Path(f"/proc/{pid}/status").read_text(), "VmRSS") / 1024 for pid in pids)
        print(
            f"minute {minute:3}: {sent:9,} records, {came[0]:9,} came by the tail; console {console_mib:5.1f} MiB, "
            f"broker {broker_mib:6.1f} MiB",
            flush=True,
        )


def main() -> None:
    """Measures, as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("topics", 1000), ("partitions", 10), ("groups", 200), ("minutes", 20), ("rate", 5000)):
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="console-load-") as place, broker(Path(place) / "data") as (process, bootstrap, url):
        began = time.monotonic()
        fill(bootstrap, given.topics, given.partitions, given.groups)
        print(f"filled in {time.monotonic() - began:.0f} s", flush=True)
        visitor = Visitor(url)
        (child,) = children(process)
        time_pages(visitor)
        tail(visitor, bootstrap, (process.pid, child), given.minutes, given.rate)


if __name__ == "__main__":
    main()

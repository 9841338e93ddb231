"""The masks of what no two brokers can have in common, and so is not compared: each mask with its reason and an example that it
covers.

A mask replaces by something that names what was there; columns stay as wide where the masked values are all of one width. A
moment is masked only if it is one of the run. The elements of a set, which each JVM prints in an order of its own, are not hidden
but put in order (`in_order`). A mask never takes all of a call's output: test_tools.py holds each against its example, those of
single calls in the scripts as well.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Final, NamedTuple


class Mask(NamedTuple):
    """`shown` takes the place of what matches `pattern`, as in re.sub; `masked` is what becomes of `example`. With `moment`, the
    seconds since 1970 that a match stands for, only a match within the run is taken."""

    pattern: str
    shown: str | Callable[[re.Match[str]], str]
    why: str
    example: str
    masked: str
    moment: Callable[[str], float] | None = None

    def apply(self, text: str, run: tuple[float, float]) -> str:
        """Returns the text with what the mask takes of it, in a run from one moment to another."""
        if self.moment is None:
            return re.sub(self.pattern, self.shown, text)
        moment, (begin, end) = self.moment, run

        def shown(found: re.Match[str]) -> str:
            return found.expand(str(self.shown)) if begin <= moment(found[0]) <= end else found[0]

        return re.sub(self.pattern, shown, text)


def in_words(text: str) -> float:
    """Returns the seconds since 1970 of a moment as tools print it, in this machine's time zone where they name none."""
    day, time_of_day, fraction, zone = text[:10], text[11:19], text[20:23], text[23:]
    return datetime.fromisoformat(f"{day} {time_of_day}.{fraction}{zone}").timestamp()


def in_order(found: re.Match[str]) -> str:
    """Returns the elements of a set that a tool prints, in order: words between commas, blanks and brackets."""
    return " ".join(sorted(re.findall(r"[^\s,\[\]()]+", found[0])))


A_SET: Final = "the tool prints a set, whose order each JVM draws"


MASKS = (
    Mask(
        r"(127\.0\.0\.1[: ]+)\d{5}",
        r"\1PORT",
        "each broker has ports of its own",
        "(id: 1) 127.0.0.1:23456 x",
        "(id: 1) 127.0.0.1:PORT x",
    ),
    Mask(
        r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b",
        "UUID",
        "member ids of classic groups, which the coordinator draws",
        "worker-0f3f1f6e-19c0-4f9f-9e1c-1a2b3c4d5e6f",
        "worker-UUID",
    ),
    Mask(
        r"[\w-]{22}(?=\s+/127\.0\.0\.1)",
        "MEMBER-ID             ",
        "member ids of the newer groups, which the client draws; the host stands behind them",
        "readers  k3Jx0a-8Qb2c_d4e5f6g7h /127.0.0.1",
        "readers  MEMBER-ID              /127.0.0.1",
    ),
    Mask(
        r"(?<=TopicId: )[\w-]{22}",
        "TOPIC-ID",
        "topic ids are drawn, as kafka-topics shows them",
        "Topic: a\tTopicId: k3Jx0a-8Qb2c_d4e5f6g7h\tPart",
        "Topic: a\tTopicId: TOPIC-ID\tPart",
    ),
    Mask(
        r'(?<="topicId":")[\w-]{22}',
        "TOPIC-ID",
        "topic ids are drawn, as JSON shows them",
        '{"topicId":"k3Jx0a-8Qb2c_d4e5f6g7h"}',
        '{"topicId":"TOPIC-ID"}',
    ),
    Mask(
        r'((?m:^1 +\t)|"directoryId": "|directoryId=|directory\.id=)(?!A{21}Q)[\w-]{22}',
        r"\1DIRECTORY-ID",
        "ids of log directories are drawn",
        '{"id": 1, "directoryId": "k3Jx0a-8Qb2c_d4e5f6g7h"}',
        '{"id": 1, "directoryId": "DIRECTORY-ID"}',
    ),
    Mask(
        r"\b1[5-9]\d{11}\b",
        "TIME-MS",
        "moments of the run in milliseconds",
        "lastCaughtUpTimestamp: 1795287262123, 1700000000000",
        "lastCaughtUpTimestamp: TIME-MS, 1700000000000",
        lambda text: int(text) / 1000,
    ),
    Mask(
        r"\b20\d\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d[:.,]\d{3}(?:Z|\+\d{4})?",
        "MOMENT",
        "moments of the run in words",
        "from 2026-11-21 18:54:22,123+0000 to 2026-11-21T18:54:22.123Z, not 2100-11-21T18:54:22.123Z",
        "from MOMENT to MOMENT, not 2100-11-21T18:54:22.123Z",
        in_words,
    ),
    Mask(
        r"(?m)^\s+(?:at .*|\.\.\. \d+ more)\n",
        "",
        "where in the client an answer became an exception hangs on which thread saw it first",
        "x\n\tat org.apache.kafka.Foo.bar(Foo.java:12)\n\t... 3 more\ny\n",
        "x\ny\n",
    ),
    Mask(
        r"(?m)^\[[^\]]*\] (?=ERROR )",
        "",
        "names of threads hold numbers that count the calls before",
        "[kafka-admin-client-thread | adminclient-7] ERROR x",
        "ERROR x",
    ),
    Mask(
        r"((?:console|perf)-consumer-)\d{1,5}\b",
        r"\1N",
        "names of groups that these tools draw",
        "groupId=console-consumer-73855",
        "groupId=console-consumer-N",
    ),
    Mask(
        r"Timed out waiting for a node assignment\. Call: [\w()=]+|Call\(callName=[^\n]*? attempt\(s\)",
        "TIMED-OUT",
        "where in its call a client's time was up",
        "Timed out waiting for a node assignment. Call: describeProducers(api=METADATA). Enable",
        "TIMED-OUT. Enable",
    ),
    Mask(
        r"\btries=\d+|\d+ attempt\(s\)",
        "TRIES",
        "how often a client asks in its time",
        "tries=12 after 12 attempt(s)",
        "TRIES after TRIES",
    ),
    Mask(
        r"adminclient-\d+",
        "adminclient-N",
        "clients of one process are counted",
        "(client.id=adminclient-17)",
        "(client.id=adminclient-N)",
    ),
)
"""The masks of every call."""

FIGURES: Final = (
    Mask(r"\b(?:\d+\.\d+|NaN|∞)\b", "X", "how fast it went", "5 records sent, 12.34 MB/sec", "5 records sent, X MB/sec"),
    Mask(
        r"\b\d+(?= ms (?:50th|95th|99th|99\.9th))",
        "N",
        "how fast it went, by percentile",
        "5 sent, 3 ms 50th",
        "5 sent, N ms 50th",
    ),
    Mask(r"(?<=th = )\d+", "N", "how fast it went, by percentile", "50th = 4, 99th = 5", "50th = N, 99th = N"),
    Mask(
        r"(?m)\d+, \d+(?=, X, X$)|(?<=X, 20, )\d+$",
        "N",
        "how long it took",
        "1500, X, 15, 32, X, X\nX, 20, 7",
        "1500, X, N, X, X\nX, 20, N",
    ),
)
"""The masks of calls that measure; what and how much they measured is compared."""


_BEGIN_S: Final = time.time()
"""The run begins when its tests are read."""


def masked(text: str, more: Iterable[Mask] = ()) -> str:
    run = _BEGIN_S, time.time()
    for mask in (*more, *MASKS):
        text = mask.apply(text, run)
    return text

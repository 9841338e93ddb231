"""What no two brokers can have in common, and so is not compared: each mask with its reason and an example that it covers.

A mask replaces by something that names what was there; columns stay as wide where the masked values are all of one width.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple


class Mask(NamedTuple):
    pattern: str
    shown: str
    why: str
    example: str


MASKS = (
    Mask(r"(127\.0\.0\.1[: ]+)\d{5}", r"\1PORT", "each broker has ports of its own", "(id: 1) 127.0.0.1:23456"),
    Mask(
        r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b",
        "UUID",
        "member ids of classic groups, which the coordinator draws",
        "worker-0f3f1f6e-19c0-4f9f-9e1c-1a2b3c4d5e6f",
    ),
    Mask(
        r"[\w-]{22}(?=\s+/127\.0\.0\.1)",
        "MEMBER-ID             ",
        "member ids of the newer groups, which the client draws; the host stands behind them",
        "readers  k3Jx0a-8Qb2c_d4e5f6g7h /127.0.0.1",
    ),
    Mask(r"(?<=TopicId: )[\w-]{22}", "TOPIC-ID", "topic ids are drawn", "Topic: a\tTopicId: k3Jx0a-8Qb2c_d4e5f6g7h\tPart"),
    Mask(r'(?<="topicId":")[\w-]{22}', "TOPIC-ID", "likewise", '"topicId":"k3Jx0a-8Qb2c_d4e5f6g7h"'),
    Mask(
        r'((?m:^1 +\t)|"directoryId": "|directoryId=|directory\.id=)(?!A{21}Q)[\w-]{22}',
        r"\1DIRECTORY-ID",
        "ids of log directories are drawn",
        '{"id": 1, "directoryId": "k3Jx0a-8Qb2c_d4e5f6g7h"}',
    ),
    Mask(r"\b1[5-9]\d{11}\b", "TIME-MS", "moments in milliseconds", "lastCaughtUpTimestamp: 1795251600000"),
    Mask(
        r"\b20\d\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d[:.,]\d{3}(?:Z|\+\d{4})?",
        "MOMENT",
        "moments in words",
        "2026-11-21 18:54:22:123, 2026-11-21T18:54:22.123Z",
    ),
    Mask(
        r"(?m)^\s+(?:at .*|\.\.\. \d+ more)\n",
        "",
        "where in the client an answer became an exception hangs on which thread saw it first",
        "x\n\tat org.apache.kafka.Foo.bar(Foo.java:12)\n",
    ),
    Mask(
        r"(?m)^\[[^\]]*\] (?=ERROR )",
        "",
        "names of threads hold numbers that count the calls before",
        "[kafka-admin-client-thread | adminclient-7] ERROR x",
    ),
    Mask(r"((?:console|perf)-consumer-)\d{1,5}\b", r"\1N", "such groups' names are drawn", "groupId=console-consumer-73855"),
    Mask(
        r"Timed out waiting for a node assignment\. Call: [\w()=]+|Call\(callName=[^\n]*? attempt\(s\)",
        "TIMED-OUT",
        "where in its call a client's time was up",
        "Timed out waiting for a node assignment. Call: describeProducers(api=METADATA). Enable",
    ),
    Mask(r"\btries=\d+|\d+ attempt\(s\)", "TRIES", "how often a client asks in its time", "tries=12 after 12 attempt(s)"),
    Mask(r"adminclient-\d+", "adminclient-N", "likewise", "(client.id=adminclient-17)"),
)


def masked(text: str, more: Iterable[Mask] = ()) -> str:
    for mask in (*more, *MASKS):
        text = re.sub(mask.pattern, mask.shown, text)
    return text

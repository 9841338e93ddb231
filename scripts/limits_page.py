"""Writes docs/limits.md: what a broker bounds, by what the bound protects, with the defaults from the tables of settings.

`python -m scripts.settings_page` writes it along with docs/settings.md, and tests/server/settings/test_settings_page.py fails
when it is out of date. A setting of ottla's own that is new and in no section here is listed in the last one.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final, NamedTuple

from ottla.log.config import MAX_BATCH_BYTES
from ottla.log.config_def import Setting, text_of
from ottla.log.stored_index import LOADED_ENTRIES
from ottla.server.base.expressions import MAX_MEMORY, MAX_NAMED, MAX_WEIGHT
from ottla.server.group.classic.member_limits import MOST_BATCHES, MOST_NAMES, MOST_PROTOCOLS
from ottla.server.group.modern.names import MOST_NAMES as MOST_NAMED
from ottla.server.group.pending_ids import MOST_BYTES, MOST_OF_A_GROUP
from ottla.server.group.streams.group import MOST_OFFSETS
from ottla.server.group.streams.topology import MOST_NAMED as MOST_IN_TOPOLOGY
from ottla.server.group.streams.topology import MOST_TASKS
from ottla.server.http.responder import MAX_BODY_BYTES, MAX_CONNECTIONS, MAX_HEAD_BYTES, MAX_UNTAKEN_BYTES
from ottla.server.metadata.access import MAX_COMPARISONS
from ottla.server.metadata.names import MAX_LENGTH
from ottla.server.metadata.operation import MAX_RECORDS
from ottla.server.metadata.standalone import LARGEST_CHANGE
from ottla.server.network.answer_queue import MAX_ANSWERS
from ottla.server.partitions.fetch_sessions import UNKNOWN_KEPT
from ottla.server.quorum.forwarding import MOST_WAITING_BYTES
from ottla.server.security.failures import MAX_ADDRESSES
from ottla.server.security.login import MAX_FRAMES
from ottla.server.settings.broker_settings import BROKER_SETTINGS, OWN_SETTINGS, documentation
from ottla.server.share.dead_letters import LETTERS_A_BATCH
from ottla.server.telemetry.otlp import MOST_FIELDS
from ottla.server.telemetry.subscriptions import MAX_COMPILED_BYTES, MAX_INSTANCES, MAX_NUMBERS, MAX_NUMBERS_OF_ONE
from ottla.server.testkit.port import MAX_CONNECTIONS as TEST_CONNECTIONS
from ottla.wire.primitives import LONGEST_STRING
from scripts.written_pages import main

PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "limits.md"


class Fixed(NamedTuple):
    """A bound without a setting: what is bounded, by how much, and what happens beyond it."""

    what: str
    most: int
    beyond: str


REFUSED_EXPRESSION: Final = (
    "128 INVALID_REGULAR_EXPRESSION, or 40 INVALID_CONFIG in a client-metrics subscription; Kafka has no limit"
)
_FORGOTTEN_ID: Final = "the oldest is forgotten: 25 UNKNOWN_MEMBER_ID, and its client joins without one; Kafka has no limit"
_NO_CONNECTION: Final = (
    "the oldest whose request is not complete gives way (408 Request Timeout); if there is none, the new one is answered 503 "
    "Service Unavailable; both are closed then"
)
_CUT_OFF: Final = "the oldest of those connections are cut off"
_REFUSED_TOPOLOGY: Final = "130 STREAMS_INVALID_TOPOLOGY; Kafka has no limit"
Section = tuple[tuple[str, ...], tuple[Fixed, ...]]
SECTIONS: Final[dict[str, Section]] = {
    "Connections": (
        (
            "max.connections", "max.connections.per.ip", "max.connections.per.ip.overrides", "max.connection.creation.rate",
            "connections.max.idle.ms", "socket.listen.backlog.size",
        ),
        (),
    ),
    "Logins": (
        (
            "ottla.login.timeout.ms", "sasl.server.max.receive.size", "connection.failed.authentication.delay.ms",
            "ottla.login.failures.per.minute",
        ),
        (
            Fixed("frames of a login", MAX_FRAMES, "the connection is closed"),
            Fixed("addresses whose failed logins are remembered", MAX_ADDRESSES, "the one that failed first is forgotten"),
        ),
    ),
    "Memory for clients": (
        ("ottla.client.memory.bytes",),
        (),
    ),
    "Requests and answers": (
        (
            "socket.request.max.bytes", "ottla.request.max.items", "queued.max.request.bytes", "queued.max.requests",
            "ottla.response.max.bytes", "fetch.max.bytes", "max.request.partition.size.limit",
            "max.incremental.fetch.session.cache.slots",
        ),
        (
            Fixed("Produce requests of one connection that wait for an fsync", MAX_ANSWERS, "further ones wait to be read"),
            Fixed("partitions of a fetch session that do not exist", UNKNOWN_KEPT, "no session is made; Kafka has no limit"),
            Fixed(
                "bytes of requests that wait for the controllers of a cluster",
                MOST_WAITING_BYTES,
                "further ones fail as if no controller had answered; one alone may be larger",
            ),
            Fixed(
                "partitions of a share session that do not exist",
                UNKNOWN_KEPT,
                "133 SHARE_SESSION_LIMIT_REACHED; Kafka has no limit",
            ),
        ),
    ),
    "Records": (
        (
            "message.max.bytes", "max.decompressed.message.bytes", MAX_BATCH_BYTES, "ottla.producer.ids.per.partition",
            "producer.id.expiration.ms", "transaction.max.timeout.ms", "ottla.damaged.files.max.bytes",
        ),
        (),
    ),
    "Indexes in memory": (
        ("log.index.size.max.bytes",),
        (Fixed("entries of an index that a read loads", LOADED_ENTRIES, "the read searches its file; an append loads it"),),
    ),
    "Topics and settings": (
        ("ottla.max.partitions",),
        (
            Fixed("partitions and settings that one request changes", MAX_RECORDS, "44 POLICY_VIOLATION, as in Kafka"),
            Fixed("characters of a topic's name", MAX_LENGTH, "17 INVALID_TOPIC_EXCEPTION, as in Kafka"),
            Fixed("bytes of a setting's name, and of its value", LONGEST_STRING, "40 INVALID_CONFIG; Kafka has no limit"),
        ),
    ),
    "Access rules, quotas and credentials": (
        (),
        (
            Fixed("rules, quotas or users that one request changes", MAX_RECORDS, "44 POLICY_VIOLATION, as in Kafka"),
            Fixed("bytes of records that one request makes of them", LARGEST_CHANGE, "44 POLICY_VIOLATION; nothing is changed"),
            Fixed("comparisons of a filter with a rule by one DeleteAcls", MAX_COMPARISONS, "44 POLICY_VIOLATION"),
        ),
    ),
    "Groups": (
        (
            "group.max.size", "group.consumer.max.size", "group.share.max.size", "group.streams.max.size",
            "group.share.max.share.sessions", "group.share.partition.max.record.locks", "group.share.delivery.count.limit",
            "group.max.session.timeout.ms", "group.consumer.max.session.timeout.ms", "group.share.max.session.timeout.ms",
            "group.streams.max.session.timeout.ms", "offset.metadata.max.bytes", "offsets.retention.minutes",
        ),
        (
            Fixed(
                "dead letters of a share group in one batch",
                LETTERS_A_BATCH,
                "further ones are in the next; records that wait for theirs stay in flight",
            ),
            Fixed("protocols of a member of a classic group", MOST_PROTOCOLS, "42 INVALID_REQUEST; Kafka has no limit"),
            Fixed(
                "batches of `__consumer_offsets` that would hold what the members of a classic group bring: ids, and names and "
                "metadata of their protocols (not where `offsets.topic.compression.codec` compresses them); in no case more "
                "than `ottla.response.max.bytes`",
                MOST_BATCHES,
                "81 GROUP_MAX_SIZE_REACHED; Kafka finds out once the group's leader syncs, and answers -1",
            ),
            Fixed(
                "topics in the subscriptions of a classic group's members",
                MOST_NAMES,
                "the group counts as reading all topics: none of its offsets expires or is deleted; Kafka has no limit",
            ),
            Fixed(
                "topics that the members of a consumer group, or of a share group, name together",
                MOST_NAMED,
                "81 GROUP_MAX_SIZE_REACHED; a classic group that names more cannot become a consumer group; Kafka has no limit",
            ),
            Fixed("member ids of a classic group that nobody has joined with yet", MOST_OF_A_GROUP, _FORGOTTEN_ID),
            Fixed("bytes of such ids in all groups", MOST_BYTES, _FORGOTTEN_ID),
            Fixed("tasks of a streams group", MOST_TASKS, _REFUSED_TOPOLOGY),
            Fixed(
                "subtopologies, topics, settings of internal topics, and copartition groups with their members, that the "
                "topology of a streams group names",
                MOST_IN_TOPOLOGY,
                _REFUSED_TOPOLOGY,
            ),
            Fixed("characters of a subtopology's id", MAX_LENGTH, _REFUSED_TOPOLOGY),
            Fixed(
                "offsets of tasks that the members of a streams group report",
                MOST_OFFSETS,
                "those of a further member are not kept, and count for no assignment; Kafka has no limit",
            ),
        ),
    ),
    "Regular expressions": (
        (),
        (
            Fixed(
                "bytes of an expression, of which a repetition in braces counts 81 and a class of Unicode 201",
                MAX_WEIGHT,
                REFUSED_EXPRESSION,
            ),
            Fixed("bytes of the program that it is compiled to, and of its states", MAX_MEMORY, REFUSED_EXPRESSION),
            Fixed("named groups of an expression", MAX_NAMED, REFUSED_EXPRESSION),
        ),
    ),
    "Clients' metrics": (
        ("telemetry.max.bytes",),
        (
            Fixed("clients that are remembered", MAX_INSTANCES, "the one that has been silent the longest is forgotten"),
            Fixed("bytes of patterns that are kept compiled", MAX_COMPILED_BYTES, "others are compiled for each new client"),
            Fixed("fields of one push", MOST_FIELDS, "87 INVALID_RECORD"),
            Fixed("numbers that are kept of one client", MAX_NUMBERS_OF_ONE, "further ones are not kept"),
            Fixed("numbers that are kept of all clients", MAX_NUMBERS, "further ones are not kept"),
        ),
    ),
    "The port of /metrics": (
        (),
        (
            Fixed("connections", MAX_CONNECTIONS, _NO_CONNECTION),
            Fixed("bytes of the head of a request", MAX_HEAD_BYTES, "431 Request Header Fields Too Large"),
            Fixed("bytes of answers that clients do not take", MAX_UNTAKEN_BYTES, _CUT_OFF),
        ),
    ),
    "The test port": (
        (),
        (
            Fixed("connections", TEST_CONNECTIONS, _NO_CONNECTION),
            Fixed("bytes of answers that clients do not take", MAX_UNTAKEN_BYTES, _CUT_OFF),
            Fixed("bytes of the body of a request", MAX_BODY_BYTES, "413 Request Entity Too Large"),
        ),
    ),
    "Compaction": (
        (
            "log.cleaner.threads", "log.cleaner.dedupe.buffer.size", "log.cleaner.io.buffer.size",
            "log.cleaner.io.max.bytes.per.second",
        ),
        (),
    ),
}  # fmt: skip
NOTES: Final = {
    "Memory for clients": (
        "A fetch session outlives its connection on purpose, as in Kafka: a client whose connection was closed while it waited "
        "for no answer goes on with its session on the next one. Without a connection it is the first to be evicted, however "
        "young it is. A share session ends with its connection. A ShareFetch that finds no room for its session is answered 133 "
        "SHARE_SESSION_LIMIT_REACHED: a new session is not opened, and one that would have grown stays as it is. In Kafka only "
        "the number of share sessions is limited, by `group.share.max.share.sessions`, with the same error."
    ),
}
"""The notes below the tables of a section."""
NO_LIMITS: Final = frozenset((
    "java.security.auth.login.config", "java.security.krb5.conf", "org.apache.kafka.sasl.oauthbearer.allowed.urls",
    "ottla.client.metrics", "ottla.console.command.config", "ottla.console.host", "ottla.console.no.token", "ottla.console.port",
    "ottla.console.read.only", "ottla.console.token", "ottla.console.users", "ottla.metrics.host", "ottla.metrics.port",
    "ottla.test.disk", "ottla.test.host", "ottla.test.nodes", "ottla.test.port", "ottla.test.seed", "ottla.test.token",
))  # fmt: skip
"""Settings of ottla's own that bound nothing."""
_AS_GOOD_AS_NONE: Final = frozenset(("2147483647", "2147483639", "-1", "1.7976931348623157E308"))
"""Defaults that bound nothing: the largest numbers, and what means no limit."""
REST: Final = "Of ottla's own"
HEAD: Final = """# Limits

What a broker accepts, keeps and does at once is bounded as follows. Where Kafka has the setting, the default is Kafka's; many of
these bound nothing, because Kafka leaves the choice to you. [Settings](settings.md) lists all settings, with the values that are
accepted, and says which can change while the broker runs. [Stalls](stalls.md) shows what the most expensive requests cost within
these limits, and [When not to use ottla](when-not.md) says what no limit protects you from. Client quotas, which slow clients
down instead of refusing them, are described in [Everyday commands](commands.md#ottla-quota).

This page is written by `scripts/limits_page.py`.
"""


def rows_of(setting: Setting) -> str:
    """Returns the table's row of a setting."""
    text = text_of(setting.default)
    shown = "none" if not text or text in _AS_GOOD_AS_NONE else f"`{text}`"
    return f"| `{setting.name}` | {shown} | {documentation(setting)} |"


def sections() -> dict[str, Section]:
    """Returns all sections, with a last one for settings of ottla's own that are in no other."""
    listed = {name for names, _ in SECTIONS.values() for name in names}
    rest = tuple(sorted(OWN_SETTINGS.keys() - listed - NO_LIMITS))
    return {**SECTIONS, REST: (rest, ())} if rest else SECTIONS


def page() -> str:
    """Returns the page's text."""
    lines = [HEAD]
    for title, (names, fixed) in sections().items():
        lines += [f"## {title}", ""]
        if names:
            lines += ["| setting | default | |", "|---|---|---|"]
            lines += [rows_of(BROKER_SETTINGS.get(name) or OWN_SETTINGS[name]) for name in names]
            lines.append("")
        if fixed:
            lines += ["| fixed | | beyond it |", "|---|---|---|"]
            lines += [f"| {each.what} | {each.most:,} | {each.beyond} |" for each in fixed]
            lines.append("")
        if title in NOTES:
            lines += [NOTES[title], ""]
    return "\n".join(lines)


def pages() -> dict[Path, str]:
    """Returns the file with its text."""
    return {PAGE: page()}


if __name__ == "__main__":
    sys.exit(main(__doc__, pages))

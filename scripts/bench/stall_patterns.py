"""Attacks of the stall bench by regular expressions: those that take the most of what ottla accepts, and some that it refuses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from compat_tests.wire import Connection
from ottla.wire.messages import (
    consumer_group_heartbeat,
    create_topics,
    get_telemetry_subscriptions,
    incremental_alter_configs,
    init_producer_id,
    list_transactions,
)
from scripts.bench.stall_attacks import (
    GROUP,
    LOT,
    SETTLE_S,
    TRANSACTION,
    Attack,
    Frames,
    answered,
    coordinated,
    framed,
    pipelined,
)

CLIENT_METRICS: Final = 16
IDS: Final = 20
TOPICS: Final = 100
SUBSCRIPTIONS: Final = 10_000
WORST: Final = "a?b?" * 1_990
"""Every position of a text keeps the whole program busy."""
CAPTURES: Final = "()" * 10_000 + ".*"
WIDE: Final = "|".join(f".*[a{letter}].{{100}}[b{letter}]" for letter in "cdefghij")
LONG_NAME: Final = "ab" * 120


def _ids(count: int, length: int) -> Callable[[Connection], None]:
    """Returns what makes so many transactional ids, with so many characters before their number."""

    def make(connection: Connection) -> None:
        coordinated(connection, TRANSACTION, "t")
        name = ("ab" * length)[:length]
        for number in range(count):
            request = init_producer_id.InitProducerIdRequest(f"{name}{number}", 60_000)
            while connection.call(request, 4, SETTLE_S).error_code:
                """The coordinator is loading."""

    return make


def _topics(connection: Connection) -> None:
    """Makes topics with names as long as can be, and the topic of groups."""
    topics = [create_topics.CreatableTopic(f"{LONG_NAME}{number:05}", 1, 1, [], []) for number in range(TOPICS)]
    answer = connection.call(create_topics.CreateTopicsRequest(topics, 60_000), 7, SETTLE_S)
    assert not any(topic.error_code for topic in answer.topics)
    coordinated(connection, GROUP, "g")
    (first, *_) = _looked_up("t", "first")(connection)
    answered(connection, [first])  # what a broker loads with its first group and its first expression is loaded now


def _subscriptions(connection: Connection) -> None:
    for start in range(0, SUBSCRIPTIONS, LOT):
        resources = [
            incremental_alter_configs.AlterConfigsResource(
                CLIENT_METRICS,
                f"s{number}",
                [
                    incremental_alter_configs.AlterableConfig("metrics", 0, "a"),
                    incremental_alter_configs.AlterableConfig("match", 0, f"client_id=x{number}.*"),
                ],
            )
            for number in range(start, start + LOT)
        ]
        answer = connection.call(incremental_alter_configs.IncrementalAlterConfigsRequest(resources), 1, SETTLE_S)
        assert not any(each.error_code for each in answer.responses)


def _listing(pattern: str) -> Callable[[], Any]:
    return lambda: list_transactions.ListTransactionsRequest([], [], -1, pattern)


def _looked_up(expression: str, group: str = "g") -> Frames:
    """Returns a member's first heartbeat with an expression, and so many others of it that its topics are looked up meanwhile."""

    def frames(_: Connection) -> Iterator[bytes]:
        for number in range(1 + 2_000):
            epoch = 0 if number == 0 else 1
            regex = expression if number == 0 else None
            owned: list[Any] | None = [] if number == 0 else None
            beat = consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
                group, "m", epoch, None, None, 60_000, None, regex, None, owned
            )
            yield framed(beat, 1, number)

    return frames


def pattern_attacks() -> list[Attack]:
    """Returns the attacks."""
    ids, topics, wanted = f"{IDS} transactional ids", f"{TOPICS} topics with long names", f"{SUBSCRIPTIONS:,} subscriptions"
    few = _ids(IDS, 200)
    asked = get_telemetry_subscriptions.GetTelemetrySubscriptionsRequest
    return [
        Attack("ListTransactions of 20 ids with a pattern of 20 kB", pipelined(_listing(CAPTURES), 2), few, held=ids),
        Attack("ListTransactions of 20 ids, 20 times, with the worst pattern", pipelined(_listing(WORST), 2, 20), few, held=ids),
        Attack("ListTransactions, an answer of 60 MB", pipelined(_listing(""), 2), _ids(3_000, 20_000), held="3,000 long ids"),
        Attack("A group's regular expression of 135 bytes, and 100 topics", _looked_up(WIDE), _topics, held=topics, uses_up=True),
        Attack("A group's worst regular expression, and 100 topics", _looked_up(WORST), _topics, held=topics, uses_up=True),
        Attack("GetTelemetrySubscriptions, 3 times, of 10,000 patterns", pipelined(asked, 0, 3), _subscriptions, held=wanted),
    ]

"""Settings against each other: random combinations, judged by Kafka's own KafkaConfig and by ours."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from random import Random

import pytest

from ottla.log.config_def import ConfigError
from ottla.server.settings.broker_config import BrokerConfig
from ottla.server.settings.broker_settings import BROKER_SETTINGS
from ottla.server.settings.rules import AT_MOST, BELOW, check_group
from tests.server.settings.config_oracle import ask

NODE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
    "controller.quorum.voters": "1@127.0.0.1:9093",
}
ALONE = {
    "log.retention.ms": ("0", "-5", "1"),
    "log.retention.minutes": ("0", "-1"),
    "log.retention.hours": ("0", "-7", "1"),
    "log.roll.ms": ("0", "-1", "1"),
    "log.roll.jitter.ms": ("-1", "0"),
    "offsets.topic.compression.codec": ("-1", "0", "4", "5"),
    "share.coordinator.state.topic.compression.codec": ("-1", "4", "5"),
    "max.connections.per.ip": ("0", "1"),
    "max.connections.per.ip.overrides": (
        "x",
        "a:1",
        "a:1,b:2",
        "a:1,b",
        " 127.0.0.1 : 5 ",
        "a:-1",
        "::1:7",
        ":",
        "a:",
        "a:b",
        "a:2147483647",
        "a:2147483648",
    ),
    "queued.max.request.bytes": ("1", "0", "-1", "104857599", "104857600"),
    "connections.max.idle.ms": ("-1", "0", "100", "101"),
    "connection.failed.authentication.delay.ms": ("600000", "599999"),
    "log.cleaner.threads": ("0", "127", "128"),
    "log.cleaner.dedupe.buffer.size": ("1048576", "1048577", "0", "-1"),
    "group.consumer.assignors": (
        "uniform",
        "range,uniform",
        "best",
        "uniform,com.example.Best",
        "org.apache.kafka.coordinator.group.assignor.RangeAssignor",
        "org.apache.kafka.coordinator.group.assignor.SimpleAssignor",
    ),
    "group.coordinator.rebalance.protocols": ("consumer", "classic", "share,classic"),
    "broker.id": ("-1", "1", "2"),
    "cordoned.log.dirs": ("x", "/tmp/kafka-logs", "*", ""),
    "early.start.listeners": ("x", "PLAINTEXT", "CONTROLLER", "PLAINTEXT,x"),
    "security.inter.broker.protocol": ("SSL", "PLAINTEXT"),
}
TOGETHER = (
    {"max.connections.per.ip": "0", "max.connections.per.ip.overrides": "a:1"},
    {"log.retention.ms": "5", "log.retention.hours": "0"},
    {"log.roll.ms": "5", "log.roll.jitter.hours": "0"},
    {"connections.max.idle.ms": "100", "connection.failed.authentication.delay.ms": "99"},
)


def random_pairs(random: Random) -> Iterator[dict[str, str]]:
    """Values of settings that bound each other, near to each other, of one family at a time."""
    families: dict[str, list[str]] = {}
    for pair in (*AT_MOST, *BELOW):
        for name in pair:
            family = families.setdefault(name.removeprefix("group.").partition(".")[0], [])
            if name not in family:
                family.append(name)
    for names in families.values():
        for _ in range(150):
            chosen = random.sample(names, random.randint(1, min(4, len(names))))
            yield {name: near(name, random) for name in chosen}


def near(name: str, random: Random) -> str:
    """The default of the setting, or of one that bounds it, or one more or less; within its own bounds."""
    bounding = [other for pair in (*AT_MOST, *BELOW) if name in pair for other in pair]
    value = BROKER_SETTINGS[random.choice(bounding)].default
    assert isinstance(value, int)
    setting = BROKER_SETTINGS[name]
    value += random.choice((-1, 0, 0, 1))
    return str(int(min(max(value, setting.low or 0), setting.high or 2**31 - 1)))


@cache
def judged() -> list[tuple[dict[str, str], bool, str]]:
    """(texts, whether Kafka's broker would start with them, what it says otherwise)."""
    cases = [{name: text} for name, texts in ALONE.items() for text in texts]
    cases += [*TOGETHER, *random_pairs(Random(44))]
    questions = [("start", "-", "\n".join(f"{name}={text}" for name, text in (NODE | case).items())) for case in cases]
    return [(case, *verdict) for case, verdict in zip(cases, ask(questions).verdicts, strict=True)]


def refusal(texts: dict[str, str]) -> str | None:
    try:
        BrokerConfig.from_mapping(NODE | {"log.dirs": "/tmp/kafka-logs"} | texts)
    except ConfigError as error:
        return str(error)
    return None


@pytest.mark.oracle
def test_kafka_and_we_start_with_the_same() -> None:
    wrong = [(texts, says, refusal(texts)) for texts, starts, says in judged() if starts != (refusal(texts) is None)]
    assert not wrong, f"{len(wrong)} of {len(judged())}: {wrong[:5]}"


@pytest.mark.oracle
def test_both_verdicts_are_common() -> None:
    starts = [started for _, started, _ in judged()]
    assert min(starts.count(True), starts.count(False)) > len(starts) // 4


@pytest.mark.oracle
def test_a_refusal_begins_with_a_setting_that_was_written() -> None:
    for texts, starts, _ in judged():
        says = refusal(texts)
        assert starts or (says is not None and says.partition(":")[0] in {*texts, "log.cleaner.dedupe.buffer.size"}), (
            texts,
            says,
        )


@pytest.mark.parametrize(
    ("own", "says"),
    [
        ({"consumer.session.timeout.ms": 45_000, "share.auto.offset.reset": "latest"}, None),
        ({"consumer.session.timeout.ms": 44_999},
         "consumer.session.timeout.ms: 44999 is below group.consumer.min.session.timeout.ms, 45000; "
         "raise the first or lower the second"),
        ({"share.delivery.count.limit": 11},
         "share.delivery.count.limit: 11 is above group.share.max.delivery.count.limit, 10; lower the first or raise the second"),
        ({"streams.num.standby.replicas": 3},
         "streams.num.standby.replicas: 3 is above group.streams.max.standby.replicas, 2; "
         "lower the first or raise the second"),
        ({"streams.heartbeat.interval.ms": 15_000, "streams.session.timeout.ms": 60_000}, None),
        ({"streams.assignor.name": "nobody"}, "streams.assignor.name: 'nobody' is not one of sticky (group.streams.assignors)"),
    ],
)  # fmt: skip
def test_a_group_keeps_to_the_broker_s_bounds(own: dict[str, int | str], says: str | None) -> None:
    broker = {name: setting.default for name, setting in BROKER_SETTINGS.items()}
    if says is None:
        check_group(own, broker)
        return
    with pytest.raises(ConfigError) as refused:
        check_group(own, broker)
    assert str(refused.value) == says


def test_what_is_wrong_with_the_broker_is_not_the_group_s_fault() -> None:
    broker = {name: setting.default for name, setting in BROKER_SETTINGS.items()} | {"group.share.max.size": 9_999}
    check_group({"share.session.timeout.ms": 50_000}, broker)


def test_a_group_s_heartbeats_fit_its_own_session() -> None:
    broker = {name: setting.default for name, setting in BROKER_SETTINGS.items()} | {"group.consumer.min.session.timeout.ms": 1}
    with pytest.raises(
        ConfigError, match=r"^consumer.heartbeat.interval.ms: 6000 must be below consumer.session.timeout.ms, 6000"
    ):
        check_group({"consumer.heartbeat.interval.ms": 6_000, "consumer.session.timeout.ms": 6_000}, broker)

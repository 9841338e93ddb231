"""DescribeConfigs and CreateTopics name every setting there is: each of every kind of resource, compared entry by entry.

The two brokers here are this file's own. They start with every setting that can be written down written down (`statically`), and
are then changed for all brokers, for the broker, for a topic, a group and a subscription, again with every setting. Texts are
those of the defaults in an odd spelling ("+5", "TRUE"): nothing changes but the source, no bound and no other setting is in the
way, and it shows which of text and value an answer carries.

What differs by design is taken away, and a test fails when it is not there: defaults of ours where Kafka has to be told (node.id,
the roles, the addresses), texts of ours for two settings that have none, and what a new Kafka writes down for its cluster.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final

import pytest

from compat_tests.brokers import CLASSES, KINDS, Address
from compat_tests.reference.kafka import SETTINGS, BrokerProcess
from compat_tests.waiting import wait_for
from compat_tests.wire import Wire
from compat_tests.wire_diff.same import check, compare, normalise
from compat_tests.wire_diff.test_configs import BROKER, CLIENT_METRICS, DELETE, GROUP, LOGGER, SET, TOPIC, Change, alter, describe
from ottla.log.config import TOPIC_SETTINGS
from ottla.log.config_def import ConfigType, Setting, Update, text_of
from ottla.server.settings.broker_settings import BROKER_SETTINGS, OWN_DEFAULTS
from ottla.server.settings.group_settings import GROUP_SETTINGS
from ottla.wire.messages import create_topics, describe_configs

DEFAULT: Final = 5
CLUSTER_WIDE: Final = "min.insync.replicas"
WITHOUT_TEXT: Final = ("unstable.api.versions.enable", "unstable.feature.versions.enable")  # in Kafka; ours have one
WAYS: Final = [(f"v{version}", version, True) for version in range(1, 5)] + [("nothing more", 4, False)]
MADE: Final = ("a new topic", "a new topic with all settings", "a topic", "a topic with all settings")
RESOURCES: Final = {
    "the broker": (BROKER, "1"),
    "all brokers": (BROKER, ""),
    "a group": (GROUP, "g"),
    "a group without settings": (GROUP, "nobody"),
    "a subscription": (CLIENT_METRICS, "m"),
    "a subscription that nobody made": (CLIENT_METRICS, "nobody"),
}
SUBSCRIPTION: Final = {"interval.ms": "60000", "match": "client_id=a , client_software_name=b", "metrics": "*"}
NOT_STATIC: Final = {
    *SETTINGS,  # stand in every server.properties of these tests, with values of their own
    CLUSTER_WIDE,  # a new cluster has it written down for all brokers
    "listeners", "advertised.listeners", "controller.quorum.bootstrap.servers", "log.dirs", "log.dir",  # likewise
    "broker.id",  # the same as node.id, which is set
    "security.inter.broker.protocol",  # not together with inter.broker.listener.name
    "inter.broker.listener.name",
}  # fmt: skip
NOT_DYNAMIC: Final = {
    "listeners", "listener.security.protocol.map",  # we change them at a start only, and say so
    *(name for name in BROKER_SETTINGS if name.startswith(("ssl.key", "ssl.truststore"))),  # with a listener's name only
}  # fmt: skip
WRITTEN: Final = {
    # the same in several units: the finest that is set counts
    "log.retention.hours": "100",
    "log.retention.minutes": "9000",
    "log.roll.hours": "24",
    "log.roll.jitter.hours": "2",
    "log.roll.jitter.ms": "60000",
    "log.flush.scheduler.interval.ms": "2000",
    # without a default, or with one that hides whether it was read
    "broker.rack": "rack-7",
    "compression.type": "zstd",
    "log.cleanup.policy": "delete , compact",
    "max.connections.per.ip.overrides": "127.0.0.9:7,10.0.0.1:3",
    "message.max.bytes": "+2000000",
    "ssl.endpoint.identification.algorithm": "",
    "group.consumer.heartbeat.interval.ms": "6000",
    "group.consumer.assignors": "range , uniform",
    # what nobody knows, and a listener's own
    "my.plugin.key": "x",
    "listener.name.plaintext.max.connections": "500",
    "listener.name.plaintext.ssl.keystore.type": "PKCS12",
}
FOR_ALL: Final = {"log.retention.ms": "7200000", "log.segment.bytes": "2000000", "num.io.threads": "9", "my.other.plugin": "y"}
FOR_ONE: Final = {
    "log.segment.bytes": "3000000",
    "log.flush.interval.ms": "77",
    "log.roll.ms": "3600000",
    "background.threads": "11",
    "max.connections": "900",
    "leader.replication.throttled.rate": "1000000",
    "my.third.plugin": "z",
    "listener.name.plaintext.max.connections": "600",
    "listener.name.plaintext.max.connection.creation.rate": "+700",
    "listener.name.nobody.ssl.truststore.type": "PEM",
}


def odd(setting: Setting) -> str | None:
    """The default in a spelling that nobody would choose; None where there is none."""
    text = text_of(setting.default)
    if setting.name == CLUSTER_WIDE:
        return text  # another spelling is taken by Kafka's controller, which then fails at every look at it
    if text is None:
        return "secret" if setting.sensitive else None
    match setting.type:
        case ConfigType.INT | ConfigType.LONG | ConfigType.SHORT:
            return text if text.startswith("-") else f"+{text}"
        case ConfigType.DOUBLE:
            return text + "d"
        case ConfigType.BOOLEAN:
            return text.upper()
        case ConfigType.LIST:
            return text.replace(",", " , ")
        case _:
            return text


def spelled(settings: Mapping[str, Setting]) -> dict[str, str]:
    return {name: text for name, setting in settings.items() if (text := odd(setting)) is not None}


def statically() -> dict[str, str]:
    return {name: text for name, text in spelled(BROKER_SETTINGS).items() if name not in NOT_STATIC} | WRITTEN


def dynamically(update: Update) -> dict[str, str]:
    of_update = {name: setting for name, setting in BROKER_SETTINGS.items() if setting.update is update}
    return {name: text for name, text in spelled(of_update).items() if name not in NOT_DYNAMIC}


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Wire]]:
    """Both brokers, started with all that `statically` says."""
    brokers = {kind: CLASSES[kind](tmp_path_factory.mktemp("settings") / kind, statically()) for kind in KINDS}
    wires: dict[str, Wire] = {}
    try:
        for kind, broker in brokers.items():
            broker.start()
            wires[kind] = wire_of(broker)
        yield wires
    finally:
        for wire in wires.values():
            wire.close()
        for broker in brokers.values():
            broker.stop()
            shutil.rmtree(broker.directory, ignore_errors=True)


def wire_of(broker: BrokerProcess) -> Wire:
    assert broker.process is not None
    wire = Wire(Address(broker.kind, broker.port, broker.process.pid, str(broker.log_file)), "settings")
    wire.warm_up()
    for name in broker.place():
        wire.label(broker.settings[name], name)
    return wire


Entries = dict[str, dict[str, Any]]
"""By kind of broker: a list of structures that have names, by name."""
Survey = dict[str, list[tuple[str, Entries]]]
"""By what was asked: how, and what came."""


def survey(wires: dict[str, Wire], state: str) -> Survey:
    """Everything that both brokers say of settings, at every version, with all that can be asked for and without."""
    bare, full = f"bare-{state}", f"full-{state}"
    every_one = spelled({name: setting for name, setting in TOPIC_SETTINGS.items() if not setting.internal})
    made = {
        "a new topic": [("", entries(wires, lambda wire: create(wire, bare, {})))],
        "a new topic with all settings": [("", entries(wires, lambda wire: create(wire, full, every_one)))],
    }
    return made | {
        what: [(how, entries(wires, asked(resource, name, version, more))) for how, version, more in WAYS]
        for what, (resource, name) in (RESOURCES | {"a topic": (TOPIC, bare), "a topic with all settings": (TOPIC, full)}).items()
    }


def asked(resource: int, name: str, version: int, more: bool) -> Callable[[Wire], Any]:
    """DescribeConfigs; `more`: with synonyms and documentation."""

    def ask(wire: Wire) -> Any:
        of = wire.name(name) if resource == TOPIC else name
        result = describe(wire, resource, of, version=version, synonyms=more, docs=more and version >= 3).results[0]
        assert result.error_code == 0, result
        return result.configs

    return ask


def create(wire: Wire, stem: str, texts: Mapping[str, str]) -> Any:
    """The settings that CreateTopics names in its answer."""
    configs = [create_topics.CreatableTopicConfig(name, text) for name, text in texts.items()]
    topic = create_topics.CreatableTopic(wire.name(stem), 1, 1, [], configs)
    answer = wire.call(create_topics.CreateTopicsRequest([topic], 30_000), 7).topics[0]
    assert answer.error_code == 0, answer
    wire.wait_for_topic(wire.name(stem))
    return answer.configs


def entries(wires: dict[str, Wire], ask: Callable[[Wire], Any]) -> Entries:
    return {kind: {entry.name: plain(entry, wire) for entry in ask(wire)} for kind, wire in wires.items()}


def plain(entry: Any, wire: Wire) -> dict[str, Any]:
    """Synonyms stay in their order."""
    fields: dict[str, Any] = normalise(entry, wire.labels)
    if hasattr(entry, "synonyms"):
        fields["synonyms"] = [normalise(synonym, wire.labels) for synonym in entry.synonyms]
    return fields


def without_differences_by_design(found: Entries) -> Entries:
    """Of the broker's own settings. Each of them must be there."""
    kafka, ottla = found["kafka"], found["ottla"]
    for name in OWN_DEFAULTS:
        if ottla[name]["synonyms"]:
            theirs, ours = ([each for each in side[name]["synonyms"] if each["source"] == DEFAULT] for side in (kafka, ottla))
            assert ours, f"{name} has no default of ours"
            assert theirs != ours, f"{name} has Kafka's default"
        for side in (kafka, ottla):
            side[name]["synonyms"] = [each for each in side[name]["synonyms"] if each["source"] != DEFAULT]
            if side[name]["config_source"] == DEFAULT:
                side[name]["value"] = "<own default>"
    for name in WITHOUT_TEXT:
        texts = [side[name].pop("documentation") for side in (kafka, ottla)]
        assert texts in (["", "<text>"], [texts[0]] * 2), f"{name}: documentation {texts}"
    return found


@pytest.fixture(scope="module")
def started(pair: dict[str, Wire]) -> Survey:
    return survey(pair, "started")


@pytest.fixture(scope="module")
def changed(pair: dict[str, Wire], started: Survey) -> Survey:  # after `started`: nothing is changed back
    """With every dynamic setting set, for all brokers and for one, and every setting of a group and a subscription."""
    for wire in pair.values():
        change(wire, BROKER, "", dynamically(Update.CLUSTER_WIDE) | FOR_ALL)
        change(wire, BROKER, "1", dynamically(Update.PER_BROKER) | FOR_ONE)
        change(wire, GROUP, "g", spelled(GROUP_SETTINGS))
        change(wire, CLIENT_METRICS, "m", SUBSCRIPTION)
        described = asked(CLIENT_METRICS, "m", 4, False)
        wait_for(partial(has_all, wire, described), "the last of the changes has come to the broker")
    return survey(pair, "changed")


def has_all(wire: Wire, described: Callable[[Wire], Any]) -> bool:
    return {entry.name for entry in described(wire) if entry.value} == set(SUBSCRIPTION)


def change(wire: Wire, resource: int, name: str, texts: Mapping[str, str]) -> None:
    """In one request."""
    answer = alter(wire, resource, name, *(Change(key, SET, text) for key, text in texts.items())).responses[0]
    assert answer.error_code == 0, answer


@pytest.mark.parametrize("state", ["started", "changed"])
@pytest.mark.parametrize("what", [*MADE, *RESOURCES])
def test_every_setting(what: str, state: str, request: pytest.FixtureRequest) -> None:
    found: Survey = request.getfixturevalue(state)
    for how, answers in found[what]:
        if what == "the broker":
            without_differences_by_design(answers)
        compare(f"{what}, {state}, {how}", answers["kafka"], answers["ottla"])


def test_loggers(pair: dict[str, Wire]) -> None:
    """Their form: which loggers there are, and at which level, is each program's own."""
    for how, version, more in WAYS:
        forms = {}
        for kind, found in entries(pair, asked(LOGGER, "1", version, more)).items():
            assert "root" in found
            forms[kind] = {repr({**fields, "name": "", "value": ""}) for fields in found.values()}
        compare(how, sorted(forms["kafka"]), sorted(forms["ottla"]))


def test_what_is_set_can_be_found_again_and_deleted(pair: dict[str, Wire], changed: Survey) -> None:
    """The last test: afterwards the changes are gone."""
    for wire in pair.values():
        for resource, name, texts in ((BROKER, "", FOR_ALL), (BROKER, "1", FOR_ONE), (GROUP, "g", {"share.isolation.level": ""})):
            answer = alter(wire, resource, name, *(Change(key, DELETE, None) for key in texts)).responses[0]
            assert answer.error_code == 0, answer
        described = asked(BROKER, "1", 4, True)
        wait_for(partial(lacks, wire, described, "my.third.plugin"), "the deletions have come to the broker")
    for what in ("all brokers", "the broker", "a group"):
        for how, version, more in WAYS:
            found = entries(pair, asked(*RESOURCES[what], version, more))
            if what == "the broker":
                without_differences_by_design(found)
            compare(f"{what}, {how}", found["kafka"], found["ottla"])


def lacks(wire: Wire, described: Callable[[Wire], Any], name: str) -> bool:
    return all(entry.name != name for entry in described(wire))


AGAINST_EACH_OTHER: Final = [
    (GROUP, "g", {"consumer.session.timeout.ms": "44999"}),
    (GROUP, "g", {"consumer.session.timeout.ms": "45000"}),
    (GROUP, "g", {"consumer.session.timeout.ms": "60001"}),
    (GROUP, "g", {"consumer.heartbeat.interval.ms": "4999"}),
    (GROUP, "g", {"consumer.heartbeat.interval.ms": "15001"}),
    (GROUP, "g", {"consumer.assignment.interval.ms": "15001"}),
    (GROUP, "g", {"share.session.timeout.ms": "60001", "share.heartbeat.interval.ms": "7000"}),
    (GROUP, "g", {"share.heartbeat.interval.ms": "16000"}),
    (GROUP, "g", {"share.record.lock.duration.ms": "14999"}),
    (GROUP, "g", {"share.record.lock.duration.ms": "60000"}),
    (GROUP, "g", {"share.record.lock.duration.ms": "60001"}),
    (GROUP, "g", {"share.delivery.count.limit": "11"}),
    (GROUP, "g", {"share.partition.max.record.locks": "4001"}),
    (GROUP, "g", {"streams.num.standby.replicas": "3"}),
    (GROUP, "g", {"streams.num.warmup.replicas": "21"}),
    (GROUP, "g", {"streams.task.offset.interval.ms": "14999"}),
    (GROUP, "g", {"streams.session.timeout.ms": "44999"}),
    (GROUP, "g", {"streams.initial.rebalance.delay.ms": "99999999"}),
    (GROUP, "g", {"streams.assignor.name": "nobody"}),
    (GROUP, "g", {"share.auto.offset.reset": "by_duration:PT5M"}),
    (BROKER, "", {"group.consumer.assignment.interval.ms": "15001"}),
    (BROKER, "", {"group.share.assignment.interval.ms": "15000"}),
    (BROKER, "1", {"group.streams.assignment.interval.ms": "15001"}),
    (BROKER, "", {"log.retention.ms": "0"}),
    (BROKER, "", {"log.retention.ms": "-2"}),
    (BROKER, "1", {"log.roll.ms": "0"}),
    (BROKER, "1", {"log.roll.jitter.ms": "-1"}),
    (BROKER, "", {"log.cleaner.threads": "0"}),
    (BROKER, "", {"log.cleaner.threads": "2", "log.cleaner.dedupe.buffer.size": "2097152"}),
    (BROKER, "", {"max.connections.per.ip": "0"}),
    (BROKER, "", {"max.connections.per.ip": "0", "max.connections.per.ip.overrides": "127.0.0.1:5"}),
    (BROKER, "", {"max.connections.per.ip.overrides": "nobody"}),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(AGAINST_EACH_OTHER)))
def test_settings_against_each_other(wires: dict[str, Wire], case: int) -> None:
    """Only asked, not changed: the shared brokers have Kafka's defaults."""
    resource, name, texts = AGAINST_EACH_OTHER[case]
    changes = [Change(key, SET, text) for key, text in texts.items()]
    check(wires, f"{resource} {texts}", lambda wire: alter(wire, resource, name, *changes, validate_only=True))


@pytest.mark.parametrize("version", range(1, 5))
def test_many_resources_at_once(wires: dict[str, Wire], version: int) -> None:
    """Good ones and bad ones, some twice, each with keys of its own; and one whose type spoils the request."""

    def scenario(wire: Wire) -> Any:
        topic = wire.create("t", flush_ms="7")
        keys = ["flush.ms", "retention.ms", "log.retention.hours", "share.isolation.level", "nosuch"]
        resources = [
            describe_configs.DescribeConfigsResource(kind, name, keys)
            for kind, name in (
                (TOPIC, topic), (TOPIC, wire.name("nosuch")), (TOPIC, "a b"), (TOPIC, topic),
                *((BROKER, name) for name in ("1", "01", "+1", " 1", "0" * 50 + "1", "2", "x", "", "2147483648")),
                *((LOGGER, name) for name in ("x", "", "7", "-1")),
                (GROUP, "g"), (GROUP, ""), (CLIENT_METRICS, ""), (CLIENT_METRICS, "m"),
            )
        ]  # fmt: skip
        spoilt = [*resources[:2], describe_configs.DescribeConfigsResource(1, "x", None)]
        return [wire.call(describe_configs.DescribeConfigsRequest(each, True, True), version) for each in (resources, spoilt, [])]

    check(wires, "many resources at once", scenario)

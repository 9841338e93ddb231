"""The tables of settings against Kafka's own, and against our source: what is marked effective is used, and nothing else is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

from ottla.log.config import TOPIC_SETTINGS
from ottla.log.config_def import ConfigError, ConfigType, Setting, Update, text_of
from ottla.server.settings.broker_settings import BROKER_SETTINGS, OWN_DEFAULTS, REMOVED, documentation
from ottla.server.settings.group_settings import CLIENT_METRICS_SETTINGS, GROUP_SETTINGS
from tests.server.settings.config_oracle import Answers, ask

ROOT = Path(__file__).resolve().parents[3]
TABLES: dict[str, Mapping[str, Setting]] = {
    "topic": TOPIC_SETTINGS,
    "broker": BROKER_SETTINGS,
    "group": GROUP_SETTINGS,
    "client-metrics": CLIENT_METRICS_SETTINGS,
}
ONLY_DYNAMIC = {  # quotas: Kafka keeps them in another table, which is not in its configuration
    "follower.replication.throttled.rate",
    "leader.replication.throttled.rate",
    "replica.alter.log.dirs.io.max.bytes.per.second",
}
TEXTS = ["", "x", " true ", "1", "-1", "0", "1_0", "9223372036854775808", "a,b", "a,a", "a,,b", "a,", " a , b ", "none", "NaN"]
OURS = {
    "controller.quorum.bootstrap.servers": "Kafka resolves the names",
    "match": "Kafka checks it later, with the same outcome",
    "interval.ms": "likewise",
}
KNOWN_BUT_IDLE = {
    "unclean.leader.election.enable": "an internal topic's own; one replica needs no election",
}


def questions() -> list[tuple[str, str, str]]:
    """Returns what Kafka and we are asked about every setting: odd texts, and both sides of each bound and choice."""
    asked = []
    for table, settings in TABLES.items():
        for name, setting in settings.items():
            if name in ONLY_DYNAMIC or setting.type is ConfigType.CLASS:  # Kafka would load the class
                continue
            edges = [bound + step for bound in (setting.low, setting.high) if bound is not None for step in (-1, 0, 1)]
            texts = [*TEXTS, *map(str, edges), *setting.choices, *(word.upper() for word in setting.choices)]
            asked += [(table, name, text) for text in texts]
    return asked


@cache
def kafka() -> Answers:
    return ask(questions())


@pytest.mark.oracle
def test_the_tables_have_what_kafka_s_have() -> None:
    theirs = {(each.table, each.name): (each.type, each.internal) for each in kafka().definitions}
    ours = {
        (table, name): (setting.type.name, setting.internal)
        for table, settings in TABLES.items()
        for name, setting in settings.items()
        if name not in ONLY_DYNAMIC
    }
    assert ours == theirs


@pytest.mark.oracle
def test_defaults_are_kafka_s_but_for_our_own() -> None:
    different = {
        each.name: (each.default, text_of(TABLES[each.table][each.name].default))
        for each in kafka().definitions
        if each.default != text_of(TABLES[each.table][each.name].default)
    }
    map_ = different.pop("listener.security.protocol.map", None)  # a map: its order is that of Java's hashes
    assert map_ is None or sorted((map_[0] or "").split(",")) == sorted((map_[1] or "").split(","))
    assert set(different) == OWN_DEFAULTS


@pytest.mark.oracle
def test_what_can_change_while_the_broker_runs() -> None:
    words = {Update.CLUSTER_WIDE: "cluster-wide", Update.PER_BROKER: "per-broker"}
    assert {name: words[setting.update] for name, setting in BROKER_SETTINGS.items() if setting.dynamic} == kafka().modes


@pytest.mark.oracle
@pytest.mark.parametrize("table", ["topic", "group"])
def test_synonyms(table: str) -> None:
    theirs = {name: broker for (of, name), broker in kafka().synonyms.items() if of == table}
    assert {name: setting.synonyms[0] for name, setting in TABLES[table].items() if setting.synonyms} == theirs


@pytest.mark.oracle
def test_kafka_and_we_judge_every_text_alike() -> None:
    """Taken or refused, and what a taken one becomes. What is said of a refused one is ours, and names the setting."""
    wrong = []
    for (table, name, text), (accepted, becomes) in zip(questions(), kafka().verdicts, strict=True):
        setting = TABLES[table][name]
        if name in OURS or (accepted and setting.sensitive):
            continue
        try:
            ours = True, str(text_of(setting.parse(text)))
        except ConfigError as error:
            ours = not str(error).startswith(f"{name}: "), becomes  # a refusal that does not name its setting counts as none
        if ours != (accepted, becomes):
            wrong.append((table, name, text, becomes, ours))
    assert not wrong, f"{len(wrong)} texts, such as {wrong[:5]}"


def test_effective_is_what_the_source_uses() -> None:
    """A broker setting has effect if its name stands in the source, or if it is behind a topic's or a group's setting that has
    one, or bounds it.
    """
    files = [path for part in ("server", "security", "log") for path in (ROOT / part).rglob("*.py")]
    tables = {"broker_settings.py", "group_settings.py", "rules.py"}
    files = [
        path for path in files if path.name != "broker_changes.py" and path.parent.name != "table" and path.name not in tables
    ]
    source = "".join(path.read_text() for path in files if path != ROOT / "log" / "config.py")
    named = {name for name in BROKER_SETTINGS if f'"{name}"' in source} - set(KNOWN_BUT_IDLE)
    inherited = {synonym for setting in TOPIC_SETTINGS.values() if setting.effective for synonym in setting.synonyms}
    for name in (name for name, setting in GROUP_SETTINGS.items() if setting.effective):
        kind, _, what = name.partition(".")
        inherited |= {f"group.{name}", f"group.{kind}.min.{what}", f"group.{kind}.max.{what}"} & BROKER_SETTINGS.keys()
    marked = {name for name, setting in BROKER_SETTINGS.items() if setting.effective}
    assert marked == named | inherited


def test_effective_topic_settings_are_used() -> None:
    source = "".join(path.read_text() for part in ("server", "security", "log") for path in (ROOT / part).rglob("*.py"))
    read = set(re.findall(r"(?:config|of_topic\(.*\))\.([a-z_0-9]+)\b", source))
    read |= set(re.findall(r"\bself\.([a-z_0-9]+)\b", (ROOT / "log" / "config.py").read_text()))  # by LogConfig's own methods
    effective = {name.replace(".", "_") for name, setting in TOPIC_SETTINGS.items() if setting.effective and not setting.internal}
    assert effective <= read


def test_every_setting_has_one_text() -> None:
    for settings in TABLES.values():
        for setting in settings.values():
            assert documentation(setting).endswith("."), setting.name


def test_what_was_removed_is_not_known() -> None:
    assert not [name for name in BROKER_SETTINGS for old in REMOVED if name == old or name.startswith(f"{old}.")]

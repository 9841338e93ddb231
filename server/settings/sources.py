"""The sources of a setting's value, for DescribeConfigs: each candidate with its source, the strongest first.

A broker setting may be written at four levels: for this broker while it ran (DYNAMIC_BROKER), for all brokers while they ran
(DYNAMIC_DEFAULT), at the start (STATIC), and in the table (DEFAULT). Settings with the same meaning in other units
(log.retention.ms, .minutes, .hours) are candidates for each other. The own settings of topics and groups come before all of
these.

The peculiarities of Kafka's answers are kept, because tools show what they get. Candidates before the one with the requested name
are left out, so that `retention.ms` with only `log.retention.hours` behind it has none, and counts as a default; only the answer
to CreateTopics names the true source, and has the value as it was written. The value of an unknown setting is hidden, because it
may be a plug-in's password. Once a setting is written in one unit while the broker runs, what the start said in other units no
longer counts (`overlaid`), though it stays a candidate.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from itertools import dropwhile
from operator import attrgetter
from typing import Any, NamedTuple

from ottla.log.config import in_topic_unit, inherited
from ottla.log.config_def import ConfigError, ConfigType, Setting, Value
from ottla.server.settings.broker_settings import BROKER_SETTINGS, OWN_SETTINGS, base_name, is_hidden
from ottla.server.settings.current import CurrentSettings


class Source(IntEnum):
    """The sources of values, with the numbers of DescribeConfigs."""

    UNKNOWN = 0
    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT = 3
    STATIC = 4
    DEFAULT = 5
    LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class Candidate(NamedTuple):
    """A value that a setting could have; None if it may not be shown."""

    name: str
    value: str | None
    source: Source


class Described(NamedTuple):
    """A setting with its candidates, each of which counts if those before it are removed. `setting` is None if it is unknown."""

    name: str
    value: str | None
    source: Source
    read_only: bool
    setting: Setting | None
    candidates: Sequence[Candidate]

    @property
    def documented(self) -> bool:
        """Returns whether Kafka has a text for the setting: it has one for each name in its table, but not for listeners' own
        settings and quotas."""
        return self.setting is not None and self.setting.name == self.name and not _only_dynamic(self.name)

    @property
    def sensitive(self) -> bool:
        return self.setting is None or self.setting.sensitive


class Sources:
    """The levels of one broker's settings at one moment. `own` and `common` are the dynamic ones of this broker and of all
    brokers."""

    def __init__(self, current: CurrentSettings) -> None:
        self.own = current.own
        self.common = current.common
        self.static = current.config.texts
        self.values: Mapping[str, Any] = current.values
        """The values that count now, parsed."""
        self._plain_topic: dict[str, Described] = {}
        """The settings of a topic without any of its own, by name; empty until they are needed."""

    # One method for each kind of resource

    def of_broker(self) -> Iterator[Described]:
        """Yields all settings of the broker itself."""
        names = [name for name, setting in BROKER_SETTINGS.items() if not _only_where_written(setting)]
        for name in _with(names, self.static, self.common, self.own):
            if name in OWN_SETTINGS:
                continue
            yield self._broker_setting(name, self._candidates(name))

    def of_all_brokers(self) -> Iterator[Described]:
        """Yields only the settings that were written for all brokers while they ran."""
        for name, text in sorted(self.common.items()):
            candidates = [each for each in self._candidates(name) if each.source is Source.DYNAMIC_DEFAULT]
            yield self._broker_setting(name, candidates)._replace(value=None if is_hidden(name) else text)

    def of_topic(self, settings: Mapping[str, Setting], overrides: Mapping[str, str]) -> Iterator[Described]:
        """Yields the settings of a topic. `settings` is log.config.TOPIC_SETTINGS. Those that a topic does not override are
        worked out once for all topics."""
        if not self._plain_topic:
            plain = (setting for setting in settings.values() if not setting.internal)
            self._plain_topic = {
                setting.name: self._resource_setting(setting.name, setting, {}, Source.TOPIC, self._inherited(setting))
                for setting in sorted(plain, key=attrgetter("name"))
            }
        for name in _with(self._plain_topic, overrides) if overrides else self._plain_topic:
            if name not in overrides:
                yield self._plain_topic[name]
                continue
            setting = settings.get(name)
            inherits = self._inherited(setting) if setting is not None else []
            yield self._resource_setting(name, setting, overrides, Source.TOPIC, inherits)

    def of_new_topic(self, settings: Mapping[str, Setting], overrides: Mapping[str, str]) -> Iterator[Described]:
        """Yields the settings with which a topic with these overrides begins, for the answer to CreateTopics: each value as it
        was written, internal settings only if they were given."""
        for name, setting in sorted(settings.items()):
            if setting.internal and name not in overrides:
                continue
            written = next((each for each in self._written(setting.synonyms) if _parses(each)), None)
            value, source = setting.format(setting.default), Source.DEFAULT
            if name in overrides:
                value, source = overrides[name], Source.TOPIC
            elif written is not None:
                value, source = _in_unit(setting, written), written.source
            yield Described(name, None if setting.sensitive else value, source, False, setting, ())

    def of_group(self, settings: Mapping[str, Setting], overrides: Mapping[str, str]) -> Iterator[Described]:
        """Yields the settings of a group. `settings` is GROUP_SETTINGS. One without a synonym at the broker has its own
        default."""
        for name, setting in sorted(settings.items()):
            if setting.internal and name not in overrides and not any(self._written(setting.synonyms)):
                continue
            inherits = self._inherited(setting)
            if not setting.synonyms:
                inherits = [Candidate(name, setting.format(setting.default), Source.DEFAULT)]
            yield self._resource_setting(name, setting, overrides, Source.GROUP, inherits)

    def of_client_metrics(self, settings: Mapping[str, Setting], overrides: Mapping[str, str]) -> Iterator[Described]:
        """Yields the settings of a client-metrics subscription. `settings` is CLIENT_METRICS_SETTINGS."""
        for name, setting in sorted(settings.items()):
            yield self._resource_setting(name, setting, overrides, Source.CLIENT_METRICS, [])

    # Parts

    def _written(self, names: Sequence[str]) -> Iterator[Candidate]:
        """Yields what was written for these names, which have the same meaning, the strongest level first. This defines the
        precedence."""
        levels = ((self.own, Source.DYNAMIC_BROKER), (self.common, Source.DYNAMIC_DEFAULT), (self.static, Source.STATIC))
        for texts, source in levels:
            yield from (Candidate(name, texts[name], source) for name in names if name in texts)

    def _candidates(self, name: str) -> list[Candidate]:
        """Returns the candidates of a broker setting, level by level, and at each level all settings of the same meaning."""
        base = base_name(name)
        setting = BROKER_SETTINGS.get(base)
        names: Sequence[str] = (name,) if setting is None else setting.synonyms if base == name else (name, base)
        found = list(self._written(names))
        for each in names:
            known = BROKER_SETTINGS.get(each)
            if known is not None and known.default is not None and not _only_dynamic(each):
                found.append(Candidate(each, known.format(known.default), Source.DEFAULT))
        if is_hidden(name):
            found = [candidate._replace(value=None) for candidate in found]
        return list(dropwhile(lambda candidate: candidate.name != name, found))

    def _broker_setting(self, name: str, candidates: list[Candidate]) -> Described:
        setting = BROKER_SETTINGS.get(base_name(name))
        known = BROKER_SETTINGS.get(name)
        value = candidates[0].value if candidates else None
        if known is not None and not _only_where_written(known):
            value = known.format(self.values[name])
        source = candidates[0].source if candidates else Source.DEFAULT
        return Described(name, value, source, known is None or not known.dynamic, setting, candidates)

    def _inherited(self, setting: Setting) -> list[Candidate]:
        """Returns the candidates that a topic's or a group's setting inherits from the broker."""
        return self._candidates(setting.synonyms[0]) if setting.synonyms else []

    def _resource_setting(
        self, name: str, setting: Setting | None, overrides: Mapping[str, str], source: Source, inherits: list[Candidate]
    ) -> Described:
        override = overrides.get(name)
        if setting is None:
            return Described(name, None, source, False, None, [Candidate(name, None, source)])
        value = setting.format(_first_of_list(setting, inherited(setting, self.values)))
        if override is not None:
            written = override if setting.internal else _formatted(setting, override)
            value = value if written is None else written  # a text that does not parse is shown but does not count
            inherits = [Candidate(name, override if written is None else written, source), *inherits]
        return Described(name, value, inherits[0].source if inherits else Source.DEFAULT, False, setting, inherits)


def _with(names: Iterable[str], *more: Mapping[str, str]) -> list[str]:
    return sorted({*names, *(name for texts in more for name in texts)})


def _only_where_written(setting: Setting) -> bool:
    """Returns whether a broker's setting is shown only if it was written, and then as it was written."""
    return setting.internal or _only_dynamic(setting.name)


def _only_dynamic(name: str) -> bool:
    """Returns whether the name is that of a replication quota, which exists only while it is set."""
    return name.endswith(".throttled.rate") or name == "replica.alter.log.dirs.io.max.bytes.per.second"


def _parses(written: Candidate) -> bool:
    """Returns whether the text of a broker setting parses. If not, it is ignored, as in `overlaid`."""
    try:
        BROKER_SETTINGS[written.name].parse(written.value or "")
    except ConfigError:
        return False
    return True


def _formatted(setting: Setting, text: str) -> str | None:
    """Returns the text in Kafka's form, None if it does not parse."""
    try:
        return setting.format(setting.parse(text))
    except ConfigError:
        return None


def _in_unit(setting: Setting, written: Candidate) -> str | None:
    """Returns the text of a broker setting in the unit of the topic's: unchanged if the units are the same, None if it does not
    parse."""
    value = BROKER_SETTINGS[written.name].parse(written.value or "")
    converted = in_topic_unit(written.name, value)
    return written.value if converted == value else setting.format(converted)


def _first_of_list(setting: Setting, value: Value) -> Value:
    """Returns the first of the broker's assignors for the setting of a group, which has only one; other values unchanged."""
    if isinstance(value, tuple) and setting.type is not ConfigType.LIST:
        return value[0] if value else None
    return value

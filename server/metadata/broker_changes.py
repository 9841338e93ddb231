"""The rules for changing a broker's settings while it runs. What breaks them is refused with 42 INVALID_REQUEST, as by Kafka.

There are three kinds of rules. The first look at a setting by itself: whether it can change at all, its text, and whether it
belongs to one broker or to a listener. The second look at all settings together: they are those of a start
(server/settings/rules.py), on the values as they would be. The third looks at the step: the size of a pool of threads may at most
be halved or doubled. ottla has no such pools, but it shows what was set, and tools that manage clusters should get the same
answers from it as from Kafka.

Settings of unknown name are accepted as they are, because they may be a plug-in's. A setting that is already in the metadata and
could not be written today is ignored, so that it does not keep anybody from changing the others.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from typing import Any, Final

from ottla.log.config import in_topic_unit
from ottla.log.config_def import ConfigError, ConfigType, Setting, Update
from ottla.server.metadata.controller_settings import ControllerSettings
from ottla.server.metadata.image import MetadataImage
from ottla.server.metadata.operation import Refused
from ottla.server.settings.broker_settings import BROKER_SETTINGS, FIXED_HERE, SAME_IN_OTHER_UNITS, base_name
from ottla.wire.errors import ErrorCode

POOLS: Final = frozenset((
    "background.threads",
    "log.cleaner.threads",
    "num.io.threads",
    "num.network.threads",
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
    "remote.log.manager.copier.thread.pool.size",
    "remote.log.manager.expiration.thread.pool.size",
    "remote.log.manager.follower.thread.pool.size",
    "remote.log.reader.threads",
))  # fmt: skip
"""The settings that are sizes of pools of threads."""
_OF_ALL_LISTENERS: Final = frozenset(("max.connections", "max.connection.creation.rate", "num.network.threads"))
"""The settings of a single listener that may be set for all brokers at once; its others may be set only for one broker."""
_NOT_ZERO: Final = frozenset(("max.connections", "max.connection.creation.rate"))
_OF_LISTENERS_ONLY: Final = ("ssl.key.", "ssl.keystore.", "ssl.truststore.")
"""The beginnings of setting names that are refused without a listener's name in front."""
_LOADED: Final = frozenset(("metric.reporters", "principal.builder.class", "ssl.engine.factory.class"))
_MAY_REPEAT: Final = frozenset(("config.providers", "metric.reporters"))
"""Lists in which an element may occur twice. At a start this is accepted in every list, and repetitions are dropped."""
_LISTENER: Final = "listener.name."
_AS_RETENTION: Final = -2
_UNLIMITED: Final = -1


def check(
    settings: ControllerSettings, image: MetadataImage, name: str, after: Mapping[str, str], written: Collection[str]
) -> None:
    """Raises ConfigError if a change of settings may not be made. `after` are all settings that broker `name` would have, or with
    "" those of all brokers; `written` are the names of those that the request sets."""
    listeners = frozenset(f"{_LISTENER}{each.lower()}." for each in settings.listener_names)
    legal: dict[str, str] = {}
    for key, text in after.items():
        try:
            _check_one(key, text, listeners, for_all=not name)
        except ConfigError as error:
            if key in written:
                raise Refused(ErrorCode.INVALID_REQUEST, str(error)) from error
            continue
        legal[key] = text
    now = settings.sources(image)
    try:
        values = settings.validate_broker(image, name, legal, written)
        _check_tiers(values)
        _check_cordoned(values["cordoned.log.dirs"], settings.log_dirs)
        _check_pools(now.values, {**now.common, **now.own}, values, legal, listeners)
    except ConfigError as error:
        raise Refused(ErrorCode.INVALID_REQUEST, str(error)) from error


def _check_one(key: str, text: str, listeners: Collection[str], *, for_all: bool) -> None:
    """Checks one setting by itself. `listeners` are the prefixes of the settings of this broker's listeners. Raises
    ConfigError."""
    base = base_name(key)
    setting = BROKER_SETTINGS.get(base)
    plain = key == base
    if setting is not None:
        if plain and (not setting.dynamic or key in FIXED_HERE):
            fixed = f"Cannot update these configs dynamically: [{key}]"  # Kafka's ConfigCommandIntegrationTest looks for this
            raise ConfigError(f"{fixed}; set it in server.properties and restart the broker")
        if plain and key.startswith(_OF_LISTENERS_ONLY):
            raise ConfigError(f"{key}: it can only change for one listener at a time; put listener.name.<name>. before it")
        ours = plain or key.startswith(tuple(listeners))
        if ours or setting.dynamic:
            _check_text(key, setting, text)
        if ours and base in _NOT_ZERO and setting.parse(text) == 0:
            raise ConfigError(f"{key}: 0 would allow no connection; the least is 1")
    per_broker = base not in _OF_ALL_LISTENERS if not plain else setting is not None and setting.update is Update.PER_BROKER
    if for_all and per_broker:
        raise ConfigError(f"{key}: it cannot be set for all brokers at once; name one broker")


def _check_text(key: str, setting: Setting, text: str) -> None:
    """Checks the text of a setting. Raises ConfigError, which begins with the whole name."""
    value = setting._replace(name=key).parse(text)
    elements = [element.strip() for element in text.split(",")] if setting.type is ConfigType.LIST else []
    if len(set(elements)) < len(elements) and setting.name not in _MAY_REPEAT:
        raise ConfigError(f"{key}: '{text}' names an element twice; name each only once")
    if setting.name in _LOADED and value not in (setting.default, ()):
        kind = "classes" if setting.type is ConfigType.LIST else "class"
        raise ConfigError(f"{key}: there is no JVM to load the {kind} '{text}' in; leave it as it is")


def _check_tiers(values: Mapping[str, Any]) -> None:
    """Raises ConfigError if records would stay on local disk, with tiered storage, for longer than they are kept at all."""
    for unit, retention in (("ms", _retention_ms(values)), ("bytes", values["log.retention.bytes"])):
        local = values[f"log.local.retention.{unit}"]
        if retention >= 0 and local != _AS_RETENTION and not 0 <= local <= retention:
            raise ConfigError(f"log.local.retention.{unit}: {local} is more than log.retention.{unit}, {retention}; lower it")
        here = retention if local == _AS_RETENTION else local
        lag = values[f"log.remote.copy.lag.{unit}"]
        if here >= 0 and lag != _UNLIMITED and lag > here:
            raise ConfigError(f"log.remote.copy.lag.{unit}: {lag} is more than log.local.retention.{unit}, {here}; lower it")


def _retention_ms(values: Mapping[str, Any]) -> int:
    family = next(family for family in SAME_IN_OTHER_UNITS if "log.retention.ms" in family)
    name = next(each for each in family if values[each] is not None)
    return int(in_topic_unit(name, values[name]))  # type: ignore[arg-type]  # a number, as the table says


def _check_cordoned(cordoned: Collection[str], log_dirs: Collection[str]) -> None:
    """Raises ConfigError if a directory in `cordoned` is not one of `log_dirs`."""
    unknown = {os.path.abspath(path) for path in cordoned if path != "*"} - set(log_dirs)
    if unknown:
        raise ConfigError(f"cordoned.log.dirs: {min(unknown)} is not in log.dirs; name directories that are")


def _check_pools(
    before: Mapping[str, Any],
    texts: Mapping[str, str],
    values: Mapping[str, Any],
    legal: Mapping[str, str],
    listeners: Collection[str],
) -> None:
    """Checks the steps by which sizes of thread pools change. `before` and `values` are the broker's values without and with
    `legal`; `texts` are those that are set now. Raises ConfigError."""
    for name in POOLS:
        _check_step(name, before[name], values[name])
    for key, text in legal.items():
        base = base_name(key)
        if key != base and base in POOLS and key.startswith(tuple(listeners)):
            setting = BROKER_SETTINGS[base]
            _check_step(key, setting.parse(texts[key]) if key in texts else before[base], setting.parse(text))


def _check_step(name: str, before: Any, after: Any) -> None:
    if not before // 2 <= after <= before * 2:
        raise ConfigError(f"{name}: {after} is too far from the present {before}; at most halve or double it")

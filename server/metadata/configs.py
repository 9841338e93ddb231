"""Changing settings while the cluster runs: IncrementalAlterConfigs, and the checks that a new topic's settings share with it.

Resources: a topic; the broker's own id, or "" for all brokers; a group; a client-metrics subscription. Operations: 0 SET, 1
DELETE, 2 APPEND and 3 SUBTRACT of elements of a list. A resource's changes hold together or not at all; the resources of a
request do not depend on each other.

A broker's settings of unknown name are taken as they are, as Kafka does (they may be a plug-in's); a topic's and a group's are
not. Broker settings that only count at a start are refused with 42, which is Kafka's choice of code.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from ottla.log.config import TOPIC_SETTINGS
from ottla.log.settings import ConfigError, ConfigType, Setting, Value, text_of
from ottla.server.config import BROKER_SETTINGS, CLIENT_METRICS_SETTINGS, GROUP_SETTINGS
from ottla.server.metadata.image import BROKER, CLIENT_METRICS, GROUP, TOPIC, MetadataImage
from ottla.server.metadata.operation import Outcome, Refused, check_name, check_size
from ottla.server.metadata.settings import BrokerSettings
from ottla.server.settings_table import FIXED_HERE
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.wire.messages.internal.config_record import ConfigRecord

SET: Final = 0
DELETE: Final = 1
APPEND: Final = 2
SUBTRACT: Final = 3
LONGEST_TEXT: Final = 32_767
"""In bytes, of a setting's name or value: the most that DescribeConfigs below v4 can carry. Kafka sets no limit here; we would
close the connection of everyone who asks for the resource in such a version."""
_OPERATION_NAMES: Final = {SET: "SET", DELETE: "DELETE", APPEND: "APPEND", SUBTRACT: "SUBTRACT"}

_TABLES: Final[dict[int, Mapping[str, Setting]]] = {
    TOPIC: TOPIC_SETTINGS,
    BROKER: BROKER_SETTINGS,
    CLIENT_METRICS: CLIENT_METRICS_SETTINGS,
    GROUP: GROUP_SETTINGS,
}
_KINDS: Final = {CLIENT_METRICS: "client-metrics subscription", GROUP: "group"}


def alter(
    image: MetadataImage, settings: BrokerSettings, request: IncrementalAlterConfigsRequest
) -> Outcome[IncrementalAlterConfigsResponse]:
    """IncrementalAlterConfigs; no records where `validate_only`."""
    times = Counter((resource.resource_type, resource.resource_name) for resource in request.resources)
    made: list[ConfigRecord] = []
    answers = []
    for resource in request.resources:
        answer = AlterConfigsResourceResponse(0, None, resource.resource_type, resource.resource_name)
        answers.append(answer)
        try:
            if times[resource.resource_type, resource.resource_name] > 1:
                raise Refused(ErrorCode.INVALID_REQUEST, "A request may name each resource only once.")
            changes = _alter(image, settings, resource)
            check_size(len(made) + len(changes))
        except Refused as refused:
            answer.error_code, answer.error_message = refused.code, refused.message
            continue
        made += changes
    return Outcome([] if request.validate_only else made, IncrementalAlterConfigsResponse(responses=answers))


def records(resource_type: int, name: str, changes: Mapping[str, str | None] | Mapping[str, str]) -> list[ConfigRecord]:
    """One record a setting; None removes it."""
    return [ConfigRecord(resource_type, name, key, value) for key, value in changes.items()]


def _alter(image: MetadataImage, settings: BrokerSettings, resource: AlterConfigsResource) -> list[ConfigRecord]:
    """One resource. Refused: 42 INVALID_REQUEST, 40 INVALID_CONFIG, 17, 3."""
    kind, name = resource.resource_type, resource.resource_name
    _check_request(resource)
    if kind not in _TABLES:
        raise Refused(ErrorCode.INVALID_REQUEST, f"Resources of type {kind} have no settings that can be changed.")
    current = image.config_of(kind, name)
    changes = {config.name: _changed(_TABLES[kind], current.get(config.name), config) for config in resource.configs}
    after = {key: value for key, value in {**current, **changes}.items() if value is not None}
    check_lengths(after)
    if kind == TOPIC:
        _check_topic_name(name)
        check_topic(settings, after)
        if name not in image.topics:
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic '{name}'.")
    elif kind == BROKER:
        _check_broker(image, settings, name, after)
    else:
        _check_other(image, settings, kind, name, after)
    # A broker's unchanged settings are written again: it is how an operator has one read anew, as from a changed key store.
    return [record for record in records(kind, name, changes) if kind == BROKER or record.value != current.get(record.name)]


def _check_request(resource: AlterConfigsResource) -> None:
    """What is wrong whatever the resource is. Refused: 42."""
    times = Counter(config.name for config in resource.configs)
    if any(count > 1 for count in times.values()):
        raise Refused(ErrorCode.INVALID_REQUEST, "A request may name each setting of a resource only once.")
    nulls = [config.name for config in resource.configs if config.value is None and config.config_operation != DELETE]
    if nulls:
        raise Refused(ErrorCode.INVALID_REQUEST, f"Only DELETE goes without a value: {', '.join(nulls)}.")
    for config in resource.configs:
        if config.config_operation not in _OPERATION_NAMES:
            raise Refused(ErrorCode.INVALID_REQUEST, f"{config.config_operation} is no operation on settings.")


def _changed(table: Mapping[str, Setting], current: str | None, config: AlterableConfig) -> str | None:
    """The setting's new text, None to remove it. Refused: 40, where a list operation meets something else."""
    if config.config_operation == DELETE:
        return None
    value = config.value or ""
    if config.config_operation == SET:
        return value
    setting = table.get(config.name)
    if setting is None or setting.type is not ConfigType.LIST:
        operation = _OPERATION_NAMES[config.config_operation]
        raise Refused(ErrorCode.INVALID_CONFIG, f"{operation} needs a list, which {config.name} is not.")
    text = current if current is not None else text_of(setting.default) or ""
    elements = [element for element in text.split(",") if element]
    named = value.split(",")
    if config.config_operation == APPEND:
        elements += [element for element in dict.fromkeys(named) if element not in elements]
    else:
        elements = [element for element in elements if element not in named]
    return ",".join(elements)


def check_lengths(texts: Mapping[str, str]) -> None:
    """Refused: 40 INVALID_CONFIG."""
    for name, text in texts.items():
        if max(len(name.encode()), len(text.encode())) > LONGEST_TEXT:
            raise Refused(ErrorCode.INVALID_CONFIG, f"{name[:100]}: name and value may have {LONGEST_TEXT} bytes each, no more.")


def check_topic(settings: BrokerSettings, overrides: Mapping[str, str]) -> None:
    """All settings of one topic, alone and against each other. Refused: 40 INVALID_CONFIG."""
    try:
        settings.validate_topic(overrides)
    except ConfigError as error:
        raise Refused(ErrorCode.INVALID_CONFIG, str(error)) from error


def _check_topic_name(name: str) -> None:
    if not name:
        raise Refused(ErrorCode.INVALID_REQUEST, "There are no settings for all topics at once.")
    check_name(name)


def _check_broker(image: MetadataImage, settings: BrokerSettings, name: str, after: Mapping[str, str]) -> None:
    if name and name != str(settings.node_id):
        raise Refused(ErrorCode.INVALID_REQUEST, f"This is broker {settings.node_id}; its settings are not those of '{name}'.")
    known = {key: BROKER_SETTINGS[key] for key in after if key in BROKER_SETTINGS}
    fixed = sorted(key for key, setting in known.items() if not setting.dynamic or key in FIXED_HERE)
    if fixed:
        raise Refused(ErrorCode.INVALID_REQUEST, f"These settings cannot change while the broker runs: {', '.join(fixed)}.")
    _parse_all(known, after, ErrorCode.INVALID_REQUEST)
    try:
        settings.validate_broker(image, name, after)
    except ConfigError as error:
        raise Refused(ErrorCode.INVALID_REQUEST, str(error)) from error


def _check_other(image: MetadataImage, settings: BrokerSettings, kind: int, name: str, after: Mapping[str, str]) -> None:
    """Groups and subscriptions: only settings that are in the table."""
    if not name:
        raise Refused(ErrorCode.INVALID_REQUEST, f"The settings of a {_KINDS[kind]} need its name.")
    unknown = next((key for key in after if key not in _TABLES[kind]), None)
    if unknown is not None:
        raise Refused(ErrorCode.INVALID_CONFIG, f"{unknown}: a {_KINDS[kind]} has no such setting; check the spelling")
    values = _parse_all({key: _TABLES[kind][key] for key in after}, after, ErrorCode.INVALID_CONFIG)
    if kind == GROUP:
        try:
            settings.validate_group(image, values)
        except ConfigError as error:
            raise Refused(ErrorCode.INVALID_CONFIG, str(error)) from error


def _parse_all(settings: Mapping[str, Setting], texts: Mapping[str, str], code: ErrorCode) -> dict[str, Value]:
    try:
        return {name: setting.parse(texts[name]) for name, setting in settings.items()}
    except ConfigError as error:
        raise Refused(code, str(error)) from error

"""Changing settings while the cluster runs: IncrementalAlterConfigs, and what AlterConfigs and new topics share with it.

A resource is a topic; the broker's own id, or "" for all brokers; a group; or a client-metrics subscription. The operations are 0
SET, 1 DELETE, and 2 APPEND and 3 SUBTRACT for elements of a topic's or a broker's list. The changes of a resource take effect
together or not at all; the resources of a request do not depend on each other.

As in Kafka, broker settings of unknown name are accepted (they may be a plug-in's), but those of topics and groups are not.
Broker settings that only count at a start are refused with 42 INVALID_REQUEST, which is Kafka's choice of code.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from ottla.log.config import TOPIC_SETTINGS
from ottla.log.config_def import ConfigError, ConfigType, Setting, text_of
from ottla.server.metadata import broker_changes, eligible
from ottla.server.metadata.controller_settings import ControllerSettings
from ottla.server.metadata.image import BROKER, CLIENT_METRICS, GROUP, TOPIC, MetadataImage
from ottla.server.metadata.operation import NO_LIMIT, InParts, Refused, check_name, check_size
from ottla.server.settings.broker_settings import BROKER_SETTINGS
from ottla.server.settings.group_settings import CLIENT_METRICS_SETTINGS, GROUP_SETTINGS, wrong_element
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.wire.messages.internal.config_record import ConfigRecord
from ottla.wire.primitives import LONGEST_STRING, WireStruct

SET: Final = 0
DELETE: Final = 1
APPEND: Final = 2
SUBTRACT: Final = 3
TAGS: Final = "streams.rack.aware.assignment.tags"
LONGEST_TEXT: Final = LONGEST_STRING
"""The most bytes that the name or the value of a setting may have: DescribeConfigs below v4 cannot carry more. Kafka has no
limit; without it ottla would close the connection of every client that asks for the resource in such a version."""
_OPERATION_NAMES: Final = {SET: "SET", DELETE: "DELETE", APPEND: "APPEND", SUBTRACT: "SUBTRACT"}

_KNOWN: Final = frozenset((TOPIC, BROKER, CLIENT_METRICS, GROUP))
_LISTS: Final[dict[int, Mapping[str, Setting]]] = {TOPIC: TOPIC_SETTINGS, BROKER: BROKER_SETTINGS}
"""The tables in which APPEND and SUBTRACT look up lists. As in Kafka's controller, groups and subscriptions have none."""
_KINDS: Final = {CLIENT_METRICS: "client-metrics subscription", GROUP: "group"}


class _Named(Protocol):
    """A resource in an IncrementalAlterConfigs or AlterConfigs request."""

    resource_type: int
    resource_name: str


_Resource = TypeVar("_Resource", bound=_Named)


class Refusal(NamedTuple):
    """The error code and message of a resource; the code is NONE if it is not refused."""

    code: int = ErrorCode.NONE
    message: str | None = None


class AlterationInParts(InParts[_Resource, Refusal]):
    """Changes to the settings of many resources, each on its own. A resource that is named twice is refused."""

    def __init__(self, image: MetadataImage, resources: Sequence[_Resource], *, validate_only: bool) -> None:
        super().__init__(resources, NO_LIMIT)
        self._image = image
        self._validate_only = validate_only
        self._times = Counter((resource.resource_type, resource.resource_name) for resource in resources)
        self._made = self._made_before = 0
        """The number of records that the operation has by now, and that it had before the present part."""

    @abstractmethod
    def alter(self, resource: _Resource) -> list[ConfigRecord]:
        """Returns the records of one resource. Raises Refused."""

    def plan(self) -> list[WireStruct]:
        self._made_before = self._made
        return super().plan()

    def undo(self) -> None:
        self._made = self._made_before
        super().undo()

    def plan_topic(self, topic: _Resource) -> tuple[Sequence[WireStruct], Refusal]:
        """Returns the records of one resource, or none if they are only validated. Raises Refused."""
        if self._times[topic.resource_type, topic.resource_name] > 1:
            raise Refused(ErrorCode.INVALID_REQUEST, "A request may name each resource only once.")
        changes = self.alter(topic)
        check_size(self._made + len(changes))
        self._made += len(changes)
        return () if self._validate_only else [*changes, *eligible.clearing_records(self._image, changes)], Refusal()

    def refuse(self, topic: _Resource, code: ErrorCode, message: str | None) -> Refusal:
        return Refusal(code, message)


class Alteration(AlterationInParts[AlterConfigsResource]):
    """IncrementalAlterConfigs."""

    def __init__(self, image: MetadataImage, settings: ControllerSettings, request: IncrementalAlterConfigsRequest) -> None:
        super().__init__(image, request.resources, validate_only=request.validate_only)
        self._settings = settings
        self._request = request

    def alter(self, resource: AlterConfigsResource) -> list[ConfigRecord]:
        return _alter(self._image, self._settings, resource)

    def answer(self) -> IncrementalAlterConfigsResponse:
        """Returns the answer once the operation is over."""
        return IncrementalAlterConfigsResponse(
            responses=[
                AlterConfigsResourceResponse(*refusal, resource.resource_type, resource.resource_name)
                for resource, refusal in zip(self._request.resources, self.results, strict=True)
            ]
        )


def records(resource_type: int, name: str, changes: Mapping[str, str | None] | Mapping[str, str]) -> list[ConfigRecord]:
    """Returns one record for each setting; the value None removes it."""
    return [ConfigRecord(resource_type, name, key, value) for key, value in changes.items()]


def change(
    image: MetadataImage, settings: ControllerSettings, kind: int, name: str, changes: Mapping[str, str | None]
) -> list[ConfigRecord]:
    """Returns the records that change settings of one resource, where None removes one. The caller has called `check_resource`.
    Raises Refused with 40 INVALID_CONFIG, 42 INVALID_REQUEST, 17 INVALID_TOPIC_EXCEPTION or 3 UNKNOWN_TOPIC_OR_PARTITION."""
    current = image.config_of(kind, name)
    after = {key: value for key, value in {**current, **changes}.items() if value is not None}
    check_lengths(after)
    if kind == TOPIC:
        _check_topic_name(name)
        check_topic(settings, after)
        if name not in image.topics:
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic '{name}'.")
    elif kind == BROKER:
        broker_changes.check(settings, image, name, after, changes)
        eligible.check(image, kind, name, changes)
    elif not name:
        raise Refused(ErrorCode.INVALID_REQUEST, f"The settings of a {_KINDS[kind]} need its name.")
    elif kind == GROUP:
        _check_group(image, settings, after)
    else:
        _check_client_metrics(after)
    # A broker's unchanged settings are written again: that is how an operator has one read again, such as a changed key store.
    return [record for record in records(kind, name, changes) if kind == BROKER or record.value != current.get(record.name)]


def check_resource(settings: ControllerSettings, kind: int, name: str) -> None:
    """Raises Refused with 42 INVALID_REQUEST if the resource has no settings, or is another broker."""
    if kind not in _KNOWN:
        raise Refused(ErrorCode.INVALID_REQUEST, f"Resources of type {kind} have no settings that can be changed.")
    if kind == BROKER and name and name != str(settings.node_id):
        raise Refused(ErrorCode.INVALID_REQUEST, f"This is broker {settings.node_id}; its settings are not those of '{name}'.")


def check_names(names: Sequence[str]) -> None:
    """Raises Refused with 44 POLICY_VIOLATION if there are more settings than one request may change, and with 42 INVALID_REQUEST
    if a name occurs twice."""
    check_size(len(names))
    if any(count > 1 for count in Counter(names).values()):
        raise Refused(ErrorCode.INVALID_REQUEST, "A request may name each setting of a resource only once.")


def _alter(image: MetadataImage, settings: ControllerSettings, resource: AlterConfigsResource) -> list[ConfigRecord]:
    """Returns the records of one resource. Raises Refused with 42 INVALID_REQUEST, 40 INVALID_CONFIG, 17 INVALID_TOPIC_EXCEPTION
    or 3 UNKNOWN_TOPIC_OR_PARTITION."""
    kind, name = resource.resource_type, resource.resource_name
    _check_request(resource)
    check_resource(settings, kind, name)
    current = image.config_of(kind, name)
    lists = _LISTS.get(kind, {})
    changes = {config.name: _changed(lists, current.get(config.name), config, kind == BROKER) for config in resource.configs}
    return change(image, settings, kind, name, changes)


def _check_request(resource: AlterConfigsResource) -> None:
    """Raises Refused with 42 INVALID_REQUEST for what is wrong with any kind of resource."""
    check_names([config.name for config in resource.configs])
    nulls = [config.name for config in resource.configs if config.value is None and config.config_operation != DELETE]
    if nulls:
        raise Refused(ErrorCode.INVALID_REQUEST, f"Only DELETE may have no value: {', '.join(nulls)}.")
    for config in resource.configs:
        if config.config_operation not in _OPERATION_NAMES:
            raise Refused(ErrorCode.INVALID_REQUEST, f"{config.config_operation} is not an operation on settings.")


def _changed(table: Mapping[str, Setting], current: str | None, config: AlterableConfig, repeats: bool) -> str | None:
    """Returns the setting's new text, None to remove it. Raises Refused with 40 INVALID_CONFIG for APPEND or SUBTRACT of a
    setting that is not a list in `table`.

    With `repeats`, an element that is named twice is appended twice, and the later checks decide about it.
    """
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
    named = _split(value)
    if config.config_operation == APPEND:
        elements += [element for element in (named if repeats else dict.fromkeys(named)) if element not in elements]
    else:
        elements = [element for element in elements if element not in named]
    return ",".join(elements)


def _split(text: str) -> list[str]:
    """Splits a list as Java does: empty elements at the end are dropped, but an empty text is one element."""
    elements = text.split(",")
    while text and elements and not elements[-1]:
        elements.pop()
    return elements


def check_lengths(texts: Mapping[str, str]) -> None:
    """Raises Refused with 40 INVALID_CONFIG if a name or a value is longer than LONGEST_TEXT."""
    for name, text in texts.items():
        if max(len(name.encode()), len(text.encode())) > LONGEST_TEXT:
            raise Refused(ErrorCode.INVALID_CONFIG, f"{name[:100]}: name and value may have at most {LONGEST_TEXT} bytes each.")


def check_topic(settings: ControllerSettings, overrides: Mapping[str, str]) -> None:
    """Checks all settings of one topic, alone and against each other. Raises Refused with 40 INVALID_CONFIG."""
    try:
        settings.validate_topic(overrides)
    except ConfigError as error:
        raise Refused(ErrorCode.INVALID_CONFIG, str(error)) from error


def _check_topic_name(name: str) -> None:
    if not name:
        raise Refused(ErrorCode.INVALID_REQUEST, "There are no settings for all topics at once.")
    check_name(name)


def _check_group(image: MetadataImage, settings: ControllerSettings, after: Mapping[str, str]) -> None:
    """Checks that a group's settings are in the table and within the broker's bounds. Raises Refused with 40 INVALID_CONFIG."""
    unknown = next((key for key in after if key not in GROUP_SETTINGS), None)
    if unknown is not None:
        raise Refused(ErrorCode.INVALID_CONFIG, f"{unknown}: groups do not have this setting; check the spelling")
    tags = [tag.strip() for tag in after.get(TAGS, "").split(",")]
    if len(set(tags)) < len(tags):
        raise Refused(ErrorCode.INVALID_CONFIG, f"{TAGS}: '{after[TAGS]}' names a tag twice; name each only once")
    try:
        settings.validate_group(image, {key: GROUP_SETTINGS[key].parse(text) for key, text in after.items()})
    except ConfigError as error:
        raise Refused(ErrorCode.INVALID_CONFIG, str(error)) from error


def _check_client_metrics(after: Mapping[str, str]) -> None:
    """Checks the settings of a client-metrics subscription. Raises Refused, as Kafka does, with 42 INVALID_REQUEST for an unknown
    name or an interval out of bounds, and with 40 INVALID_CONFIG for a text that is not of the setting's type.
    """
    unknown = next((key for key in after if key not in CLIENT_METRICS_SETTINGS), None)
    if unknown is not None:
        raise Refused(
            ErrorCode.INVALID_REQUEST, f"{unknown}: client-metrics subscriptions do not have this setting; check the spelling"
        )
    values: dict[str, Any] = {}
    try:
        for key, text in after.items():
            values[key] = CLIENT_METRICS_SETTINGS[key]._replace(low=None, high=None, check=None).parse(text)
    except ConfigError as error:
        raise Refused(ErrorCode.INVALID_CONFIG, str(error)) from error
    if (wrong := wrong_element(values.get("match", ()))) is not None:
        raise Refused(ErrorCode.INVALID_CONFIG, f"match: it has the element '{wrong[0]}', {wrong[1]}")
    interval, bounds = values.get("interval.ms"), CLIENT_METRICS_SETTINGS["interval.ms"]
    if interval is not None and not bounds.low <= interval <= bounds.high:
        bound = f"small; the least is {bounds.low}" if interval < bounds.low else f"large; the most is {bounds.high}"
        raise Refused(ErrorCode.INVALID_REQUEST, f"interval.ms: {interval} is too {bound}")

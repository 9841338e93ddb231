"""DescribeConfigs v1-4 lists settings of topics (2), brokers (4), the broker's loggers (8), client metrics (16) and groups (32).

- v1 answers sources and synonyms; v3 adds documentation and types.
- The answer has all settings of a resource, or those of `configuration_keys` that the resource has; unknown keys are silently
  left out.
- Synonyms are all the places that could give the value, the strongest first (server/settings/sources.py).
- Broker "" stands for what was set for all brokers while they were running. A broker answers for itself only.
- The values of sensitive settings, and of settings that nobody knows, are null.
- Errors: 3 UNKNOWN_TOPIC_OR_PARTITION, 17 INVALID_TOPIC_EXCEPTION, 42 INVALID_REQUEST. A resource type that does not exist makes
  every resource of the request 42.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final

from ottla.log.config import TOPIC_SETTINGS
from ottla.server.metadata.image import BROKER, BROKER_LOGGER, GROUP, TOPIC
from ottla.server.metadata.names import invalid_reason
from ottla.server.metadata.operation import Refused
from ottla.server.requests.context import BrokerContext
from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.rights import Inside, Need, Operation, Resource
from ottla.server.settings import loggers
from ottla.server.settings.broker_settings import documentation
from ottla.server.settings.group_settings import CLIENT_METRICS_SETTINGS, GROUP_SETTINGS
from ottla.server.settings.sources import Described, Source, Sources
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

TRAITS = Traits(
    Inside(
        Need(Operation.DESCRIBE_CONFIGS, Resource.TOPIC),
        Need(Operation.DESCRIBE_CONFIGS, Resource.GROUP),
        Need(Operation.DESCRIBE_CONFIGS, Resource.CLUSTER),
    )
)

CLIENT_METRICS: Final = 16
_NUMBER: Final = re.compile(r"([+-]?)(\d+)")
_LONGEST_ID: Final = len(str(2**31))


def handle(body: DescribeConfigsRequest, request: Request) -> DescribeConfigsResponse:
    unknown = next((each.resource_type for each in body.resources if each.resource_type not in _KINDS), None)
    if unknown is not None:
        text = f"There are no resources of type {unknown}."
        return DescribeConfigsResponse(
            results=[
                DescribeConfigsResult(ErrorCode.INVALID_REQUEST, text, each.resource_type, each.resource_name)
                for each in body.resources
            ]
        )
    describer = _Describer(body, request.broker)
    return DescribeConfigsResponse(results=[describer.describe(each) for each in body.resources])


class _Describer:
    """Answers one request. Its resources share the levels of settings, and the entries for values that are not their own."""

    def __init__(self, body: DescribeConfigsRequest, broker: BrokerContext) -> None:
        self._body = body
        self._broker = broker
        self._sources = Sources(broker.settings)
        self._entries: dict[int, tuple[Described, DescribeConfigsResourceResult]] = {}
        """Entries by the identity of the value described, which is kept beside its entry so that no other can get the same id."""

    def describe(self, resource: DescribeConfigsResource) -> DescribeConfigsResult:
        kind, name, keys = resource.resource_type, resource.resource_name, frozenset(resource.configuration_keys or ())
        result = DescribeConfigsResult(0, "", kind, name)
        try:
            found = _KINDS[kind](name, self._broker, self._sources)
            result.configs = [self._entry(described, kind) for described in found if not keys or described.name in keys]
        except Refused as refused:
            result.error_code, result.error_message = refused.code, refused.message or ""
        return result

    def _entry(self, described: Described, kind: int) -> DescribeConfigsResourceResult:
        known = self._entries.get(id(described))
        if known is None:
            known = self._entries[id(described)] = described, _entry(described, kind, self._body)
        return known[1]


def _entry(described: Described, kind: int, body: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    setting = described.setting
    doc = None
    if kind == BROKER_LOGGER:
        doc = ""
    elif body.include_documentation and setting is not None and described.documented:
        doc = documentation(setting)
    return DescribeConfigsResourceResult(
        name=described.name,
        value=described.value,
        read_only=described.read_only,
        config_source=described.source,
        is_sensitive=described.sensitive and kind != BROKER_LOGGER,
        synonyms=[DescribeConfigsSynonym(*each) for each in described.candidates] if body.include_synonyms else [],
        config_type=0 if setting is None else setting.type,
        documentation=doc,
    )


# Kinds of resources


def _topic(name: str, broker: BrokerContext, sources: Sources) -> Iterable[Described]:
    reason = invalid_reason(name)
    if reason is not None:
        raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, reason)
    if name not in broker.metadata.topics:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return sources.of_topic(TOPIC_SETTINGS, broker.metadata.config_of(TOPIC, name))


def _broker(name: str, broker: BrokerContext, sources: Sources) -> Iterable[Described]:
    if not name:
        return sources.of_all_brokers()
    _check_own_id(name, broker)
    return sources.of_broker()


def _logger(name: str, broker: BrokerContext, sources: Sources) -> Iterable[Described]:
    _check_own_id(name, broker)
    return [Described(logger, level, Source.LOGGER, False, None, []) for logger, level in loggers.levels().items()]


def _client_metrics(name: str, broker: BrokerContext, sources: Sources) -> Iterable[Described]:
    if not name:
        raise Refused(ErrorCode.INVALID_REQUEST, "A subscription to client metrics needs a name.")
    return sources.of_client_metrics(CLIENT_METRICS_SETTINGS, broker.metadata.config_of(CLIENT_METRICS, name))


def _group(name: str, broker: BrokerContext, sources: Sources) -> Iterable[Described]:
    if not name:
        raise Refused(ErrorCode.INVALID_REQUEST, "A group needs a name.")
    return sources.of_group(GROUP_SETTINGS, broker.metadata.config_of(GROUP, name))


_KINDS: Final[dict[int, Callable[[str, BrokerContext, Sources], Iterable[Described]]]] = {
    TOPIC: _topic,
    BROKER: _broker,
    BROKER_LOGGER: _logger,
    CLIENT_METRICS: _client_metrics,
    GROUP: _group,
}


def _check_own_id(name: str, broker: BrokerContext) -> None:
    """Checks that the name is this broker's id. Numbers are read as Java reads them: "+1" and "01" are 1. Raises Refused."""
    node_id = broker.config.node_id
    number = _NUMBER.fullmatch(name)
    if number is None:
        raise Refused(ErrorCode.INVALID_REQUEST, f"A broker is named by its number, and '{name}' is not a number.")
    sign, digits = number[1], number[2].lstrip("0") or "0"
    if len(digits) > _LONGEST_ID or int(sign + digits) != node_id:
        raise Refused(ErrorCode.INVALID_REQUEST, f"This is broker {node_id} and cannot answer for broker {name}.")

"""DescribeConfigs v1-4 lists settings of topics (2), brokers (4), the broker's loggers (8), client metrics (16) and groups (32).

- v1 answers sources and synonyms; v3 adds documentation and types.
- The answer has all settings of a resource, or those of `configuration_keys` that the resource has; unknown keys are silently
  left out.
- Synonyms are all the places that could give the value, the strongest first (server/settings/sources.py).
- Broker "" stands for what was set for all brokers while they were running. A broker answers for itself only.
- A resource that is named again is answered again, but described once.
- The values of sensitive settings, and of settings that nobody knows, are null.
- Errors: 3 UNKNOWN_TOPIC_OR_PARTITION, 17 INVALID_TOPIC_EXCEPTION, 42 INVALID_REQUEST. A resource type that does not exist makes
  every resource of the request 42.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import partial
from typing import Final, NamedTuple

from ottla.log.config import TOPIC_SETTINGS
from ottla.server.base.promise import Promise
from ottla.server.base.turns import Steps, take_steps
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
    ),
    long_answer=True,
)

CLIENT_METRICS: Final = 16
_NUMBER: Final = re.compile(r"([+-]?)(\d+)")
_LONGEST_ID: Final = len(str(2**31))


def handle(body: DescribeConfigsRequest, request: Request) -> DescribeConfigsResponse | Promise[DescribeConfigsResponse]:
    return take_steps(_describe(body, request), request.broker.clock)


def _describe(body: DescribeConfigsRequest, request: Request) -> Steps[DescribeConfigsResponse]:
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
    results = []
    for each in body.resources:
        results.append(describer.describe(each))
        yield None
    return DescribeConfigsResponse(results=request.broker.long_answers.bounded(results))


class _Settings(NamedTuple):
    """Holds the settings of a resource. Those with the same `key`, in one request, are the same."""

    key: Hashable
    describe: Callable[[], Iterable[Described]]


class _Describer:
    """Answers one request. What many of its resources have in common is described once: the levels of settings, the settings of
    resources that have none of their own, and the entries for values."""

    def __init__(self, body: DescribeConfigsRequest, broker: BrokerContext) -> None:
        self._body = body
        self._broker = broker
        self._sources = Sources(broker.settings)
        self._described: dict[Hashable, dict[str, Described]] = {}
        self._configs: dict[Hashable, list[DescribeConfigsResourceResult]] = {}
        self._entries: dict[int, DescribeConfigsResourceResult] = {}
        """Entries by the identity of the value described, which `_described` keeps, so that no other can get the same id."""

    def describe(self, resource: DescribeConfigsResource) -> DescribeConfigsResult:
        kind, name, keys = resource.resource_type, resource.resource_name, frozenset(resource.configuration_keys or ())
        result = DescribeConfigsResult(0, "", kind, name)
        try:
            found = _KINDS[kind](name, self._broker, self._sources)
        except Refused as refused:
            result.error_code, result.error_message = refused.code, refused.message or ""
        else:
            result.configs = self._configs_of(kind, found, keys)
        return result

    def _configs_of(self, kind: int, found: _Settings, keys: frozenset[str]) -> list[DescribeConfigsResourceResult]:
        """Returns the entries for the settings, or for those of the names `keys` if there are any."""
        of = kind, found.key
        if (of, keys) in self._configs:
            return self._configs[of, keys]
        described = self._described.get(of)
        if described is None:
            described = self._described[of] = {each.name: each for each in found.describe()}
        wanted: Iterable[Described] = described.values()
        if keys:
            wanted = [described[name] for name in described if name in keys] if keys & described.keys() else []
        configs = self._broker.long_answers.shared([self._entry(each, kind) for each in wanted])
        self._configs[of, keys] = configs
        return configs

    def _entry(self, described: Described, kind: int) -> DescribeConfigsResourceResult:
        known = self._entries.get(id(described))
        if known is None:
            known = self._entries[id(described)] = _entry(described, kind, self._body)
        return known


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


def _topic(name: str, broker: BrokerContext, sources: Sources) -> _Settings:
    reason = invalid_reason(name)
    if reason is not None:
        raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, reason)
    if name not in broker.metadata.topics:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return _own(broker.metadata.config_of(TOPIC, name), partial(sources.of_topic, TOPIC_SETTINGS))


def _broker(name: str, broker: BrokerContext, sources: Sources) -> _Settings:
    if not name:
        return _Settings("of all brokers", sources.of_all_brokers)
    _check_own_id(name, broker)
    return _Settings("of this broker", sources.of_broker)


def _logger(name: str, broker: BrokerContext, sources: Sources) -> _Settings:
    _check_own_id(name, broker)
    return _Settings("of this broker", _describe_loggers)


def _describe_loggers() -> Iterable[Described]:
    return [Described(logger, level, Source.LOGGER, False, None, []) for logger, level in loggers.levels().items()]


def _client_metrics(name: str, broker: BrokerContext, sources: Sources) -> _Settings:
    if not name:
        raise Refused(ErrorCode.INVALID_REQUEST, "A subscription to client metrics needs a name.")
    return _own(broker.metadata.config_of(CLIENT_METRICS, name), partial(sources.of_client_metrics, CLIENT_METRICS_SETTINGS))


def _group(name: str, broker: BrokerContext, sources: Sources) -> _Settings:
    if not name:
        raise Refused(ErrorCode.INVALID_REQUEST, "A group needs a name.")
    return _own(broker.metadata.config_of(GROUP, name), partial(sources.of_group, GROUP_SETTINGS))


def _own(overrides: Mapping[str, str], describe: Callable[[Mapping[str, str]], Iterable[Described]]) -> _Settings:
    """Returns the settings of a resource that overrides these."""
    return _Settings(frozenset(overrides.items()), partial(describe, overrides))


_KINDS: Final[dict[int, Callable[[str, BrokerContext, Sources], _Settings]]] = {
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

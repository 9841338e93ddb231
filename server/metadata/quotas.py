"""Client quotas (KIP-546, KIP-599, KIP-612): how the image keeps them, and AlterClientQuotas, as functions of the image.

An entity is who a quota is for: a user, a client id, both, or an address (`ip`), as a dictionary from the kind of name to the
name; a name of None is the default for all that have none of their own. A quota is a double by its key. What may be set, and for
whom, is in `KEYS`; all of them are positive, and bytes and connections are whole.

One ClientQuotaRecord is one key of one entity, set or removed. A request names each entity once: the second time it is refused,
and what was asked the first time is done, as in Kafka.
"""

from __future__ import annotations

import asyncio
import math
import socket
from collections.abc import Container, Iterable, Mapping
from ipaddress import ip_address
from typing import Final, NamedTuple

from ottla.server.metadata.image import MetadataImage
from ottla.server.metadata.operation import Outcome, Refused, check_size
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    OpData,
    ResponseEntityData,
    ResponseEntryData,
)
from ottla.wire.messages.internal.client_quota_record import ClientQuotaRecord, EntityData

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
CONNECTION_CREATION_RATE: Final = "connection_creation_rate"

Entity = tuple[tuple[str, str | None], ...]
"""(kind of name, name), sorted by kind: equal for the same entity however a client orders it."""


class _Key(NamedTuple):
    """What values a quota may have: up to `most`, and no fractions where it is `whole`."""

    most: float
    whole: bool


_BYTES: Final = _Key(2.0**63, True)
_KEYS_OF_CLIENTS: Final = {
    PRODUCER_BYTE_RATE: _BYTES,
    CONSUMER_BYTE_RATE: _BYTES,
    REQUEST_PERCENTAGE: _Key(math.inf, False),
    CONTROLLER_MUTATION_RATE: _Key(math.inf, False),
}
KEYS: Final[Mapping[str, Mapping[str, _Key]]] = {
    USER: _KEYS_OF_CLIENTS,
    CLIENT_ID: _KEYS_OF_CLIENTS,
    IP: {CONNECTION_CREATION_RATE: _Key(2.0**31 - 1, True)},
}
"""Kind of name -> the quotas of entities that have such a name."""
_WHOLE_ENOUGH: Final = 1e-6


def entity_of(parts: Iterable[tuple[str, str | None]]) -> Entity:
    """Returns the entity with these names; of two of one kind the later counts."""
    return tuple(sorted(dict(parts).items(), key=lambda part: part[0]))


def quotas_of(image: MetadataImage) -> dict[Entity, dict[str, float]]:
    """Returns all quotas that are set."""
    found: dict[Entity, dict[str, float]] = {}
    for record in image.kept.values():
        if isinstance(record, ClientQuotaRecord):
            entity = entity_of((part.entity_type, part.entity_name) for part in record.entity)
            found.setdefault(entity, {})[record.key] = record.value
    return found


def has_quotas(image: MetadataImage) -> bool:
    return any(key[0] == "quota" for key in image.kept)


async def unknown_hosts(request: AlterClientQuotasRequest) -> set[str]:
    """Returns the names of kind `ip` in the request that are neither addresses nor resolve to one. Asks the resolver only about
    hosts."""
    names = {part.entity_name for entry in request.entries for part in entry.entity if part.entity_type == IP}
    unknown = set()
    for name in names:
        if name and not is_address(name):
            try:
                await asyncio.get_running_loop().getaddrinfo(name, None, type=socket.SOCK_STREAM)
            except (OSError, UnicodeError):  # no such host; or a name that no host can have
                unknown.add(name)
    return unknown


def is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def alter(
    image: MetadataImage, request: AlterClientQuotasRequest, unknown: Container[str] = ()
) -> Outcome[AlterClientQuotasResponse]:
    """Each entity on its own. `unknown` are the hosts that do not resolve."""
    present = quotas_of(image)
    results: dict[Entity, Refused | None] = {}
    records: list[ClientQuotaRecord] = []
    for entry in request.entries:
        entity = entity_of((part.entity_type, part.entity_name) for part in entry.entity)
        if entity in results:
            results[entity] = _invalid("The request names this entity more than once.")
            continue
        try:
            records += _alter_entity(entity, entry.ops, present.get(entity, {}), unknown)
            results[entity] = None
        except Refused as refused:
            results[entity] = refused
    try:
        check_size(len(records))
    except Refused as refused:
        return Outcome([], refused_whole(request, refused.code, refused.message))
    response = AlterClientQuotasResponse(entries=[_entry(entity, refused) for entity, refused in results.items()])
    return Outcome([] if request.validate_only else records, response)


def refused_whole(request: AlterClientQuotasRequest, code: ErrorCode, message: str | None) -> AlterClientQuotasResponse:
    """Returns the same for all that was asked for."""
    refused = Refused(code, message)
    entities = ([(part.entity_type, part.entity_name) for part in entry.entity] for entry in request.entries)
    return AlterClientQuotasResponse(entries=[_entry(entity, refused) for entity in entities])


def _entry(entity: Iterable[tuple[str, str | None]], refused: Refused | None) -> ResponseEntryData:
    code, message = (ErrorCode.NONE, None) if refused is None else (refused.code, refused.message)
    return ResponseEntryData(code, message, [ResponseEntityData(*part) for part in entity])


def _invalid(reason: str) -> Refused:
    return Refused(ErrorCode.INVALID_REQUEST, reason)


def _alter_entity(
    entity: Entity, ops: Iterable[OpData], present: Mapping[str, float], unknown: Container[str]
) -> list[ClientQuotaRecord]:
    """Returns what changes, if anything does. Raises Refused: 42."""
    wanted: dict[str, float | None] = {}
    for op in ops:
        if op.key in wanted:
            raise _invalid(f"The request names the quota {op.key} of this entity more than once.")
        wanted[op.key] = None if op.remove else op.value
    keys = _keys_of(entity, unknown)
    records = []
    for key, value in wanted.items():
        if value is not None:
            _check(keys, key, value)
        if present.get(key) != value:
            parts = [EntityData(*part) for part in entity]
            records.append(ClientQuotaRecord(parts, key, 0.0 if value is None else value, value is None))
    return records


def _keys_of(entity: Entity, unknown: Container[str]) -> Mapping[str, _Key]:
    """Returns the quotas that it may have. Raises Refused: 42."""
    if not entity:
        raise _invalid("An entity needs a user, a client id, or an ip.")
    for kind, name in entity:
        if kind not in KEYS:
            raise _invalid(f"There are no entities of type '{kind}'.")
        if name == "":
            raise _invalid(f"An empty name of type '{kind}' is nobody's; a null one is the default.")
    names = dict(entity)
    if IP in names:
        if len(names) > 1:
            raise _invalid("No entity has an ip together with a user or a client id.")
        if names[IP] in unknown:
            raise _invalid(f"'{names[IP]}' is neither an address nor a host that resolves to one.")
    return KEYS[entity[0][0]]


def _check(keys: Mapping[str, _Key], key: str, value: float) -> None:
    """Raises Refused: 42."""
    rule = keys.get(key)
    if rule is None:
        raise _invalid(f"This entity has no quota '{key}', but {', '.join(sorted(keys))}.")
    if not math.isfinite(value):
        raise _invalid(f"The quota {key} has to be a finite number.")
    if value <= 0:
        raise _invalid(f"The quota {key} has to be more than 0.")
    if value > rule.most:
        raise _invalid(f"The quota {key} is at most {rule.most:.0f}.")
    if rule.whole and value % 1 > _WHOLE_ENOUGH:
        raise _invalid(f"The quota {key} has to be a whole number.")

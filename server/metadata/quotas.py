"""Client quotas (KIP-546, KIP-599, KIP-612): how the image keeps them, and AlterClientQuotas, as functions of the image.

An entity is what a quota applies to: a user, a client id, both, or an address (`ip`), as a dictionary from the kind of name to
the name; the name None stands for the default of all that have no quota of their own. A quota is a double with a key. `KEYS` says
which may be set for which entities; all of them are positive, and numbers of bytes and connections are whole.

One ClientQuotaRecord sets or removes one key of one entity. A request may name each entity once. As in Kafka, the second time is
refused, and what was asked the first time is done.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Container, Iterable, Mapping, Sequence
from ipaddress import ip_address
from typing import Final, NamedTuple

from ottla.server.base.network import Network
from ottla.server.base.turns import in_runs
from ottla.server.metadata.image import MetadataImage
from ottla.server.metadata.operation import Outcome, Planning, Refused, check_size
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
"""(kind of name, name), sorted by kind, so that the same entity is equal in whatever order a client names it."""


class _Key(NamedTuple):
    """The values that a quota may have: up to `most`, and without fractions if it is `whole`."""

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
"""The quotas that an entity may have, by the kind of its name."""
_WHOLE_ENOUGH: Final = 1e-6

ENTITIES_A_STEP: Final = 50
"""So many entities are changed before others may come first, which takes about 0.5 ms."""


def entity_of(parts: Sequence[tuple[str, str | None]]) -> Entity:
    """Returns the entity with these names; of two names of the same kind the later counts."""
    if len(parts) == 1:
        return tuple(parts)
    return tuple(sorted(dict(parts).items(), key=lambda part: part[0]))


def quotas_of(image: MetadataImage) -> dict[Entity, dict[str, float]]:
    """Returns all quotas that are set."""
    found: dict[Entity, dict[str, float]] = {}
    for record in image.kept.values():
        if isinstance(record, ClientQuotaRecord):
            entity = entity_of([(part.entity_type, part.entity_name) for part in record.entity])
            found.setdefault(entity, {})[record.key] = record.value
    return found


async def unknown_hosts(request: AlterClientQuotasRequest, network: Network) -> set[str]:
    """Returns the names of kind `ip` in the request that neither are addresses nor resolve to one. It asks the resolver only
    about host names, and lets others come first now and then."""
    unknown = set()
    hosts: dict[str, None] = {}
    for number, run in enumerate(in_runs(request.entries, ENTITIES_A_STEP)):
        if number:
            await asyncio.sleep(0)
        names = {part.entity_name: None for entry in run for part in entry.entity if part.entity_type == IP}
        hosts.update((name, None) for name in names if name and not is_address(name))
    for name in hosts:
        try:
            await network.address_of(name)
        except (OSError, UnicodeError):  # the host does not exist, or no host can have such a name
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
) -> Planning[AlterClientQuotasResponse]:
    """Plans AlterClientQuotas, each entity on its own. `unknown` are the hosts that do not resolve.

    Raises Refused, for the request as a whole, with 44 POLICY_VIOLATION for too many changes.
    """
    results: dict[Entity, Refused | None] = {}
    records: list[ClientQuotaRecord] = []
    for number, entry in enumerate(request.entries, 1):
        if number % ENTITIES_A_STEP == 0:
            yield None
        entity = entity_of([(part.entity_type, part.entity_name) for part in entry.entity])
        if entity in results:
            results[entity] = _invalid("The request names this entity more than once.")
            continue
        try:
            records += _alter_entity(image, entity, entry.ops, unknown)
            results[entity] = None
        except Refused as refused:
            results[entity] = refused
    check_size(len(records))
    entries: list[ResponseEntryData] = []
    for run in in_runs(list(results.items()), ENTITIES_A_STEP):
        entries += [_entry(entity, refused) for entity, refused in run]
        yield None
    return Outcome([] if request.validate_only else records, AlterClientQuotasResponse(entries=entries))


def refused_whole(request: AlterClientQuotasRequest, code: ErrorCode, message: str | None) -> AlterClientQuotasResponse:
    """Returns an answer with the same error for every entity of the request."""
    refused = Refused(code, message)
    entities = ([(part.entity_type, part.entity_name) for part in entry.entity] for entry in request.entries)
    return AlterClientQuotasResponse(entries=[_entry(entity, refused) for entity in entities])


def _entry(entity: Iterable[tuple[str, str | None]], refused: Refused | None) -> ResponseEntryData:
    code, message = (ErrorCode.NONE, None) if refused is None else (refused.code, refused.message)
    return ResponseEntryData(code, message, [ResponseEntityData(*part) for part in entity])


def _invalid(reason: str) -> Refused:
    return Refused(ErrorCode.INVALID_REQUEST, reason)


def _alter_entity(
    image: MetadataImage, entity: Entity, ops: Iterable[OpData], unknown: Container[str]
) -> list[ClientQuotaRecord]:
    """Returns the records that change the quotas of one entity. Raises Refused with 42 INVALID_REQUEST."""
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
        if image.quota(entity, key) != value:
            parts = [EntityData(*part) for part in entity]
            records.append(ClientQuotaRecord(parts, key, 0.0 if value is None else value, value is None))
    return records


def _keys_of(entity: Entity, unknown: Container[str]) -> Mapping[str, _Key]:
    """Returns the quotas that the entity may have, by key. Raises Refused with 42 INVALID_REQUEST."""
    if not entity:
        raise _invalid("An entity needs a user, a client id, or an ip.")
    for kind, name in entity:
        if kind not in KEYS:
            raise _invalid(f"There are no entities of type '{kind}'.")
        if name == "":
            raise _invalid(f"A name of type '{kind}' cannot be empty; null stands for the default.")
    names = dict(entity)
    if IP in names:
        if len(names) > 1:
            raise _invalid("No entity has an ip together with a user or a client id.")
        if names[IP] in unknown:
            raise _invalid(f"'{names[IP]}' is neither an address nor a host that resolves to one.")
    return KEYS[entity[0][0]]


def _check(keys: Mapping[str, _Key], key: str, value: float) -> None:
    """Raises Refused with 42 INVALID_REQUEST if the entity cannot have this quota or this value."""
    rule = keys.get(key)
    if rule is None:
        raise _invalid(f"This entity has no quota '{key}'; it can have {', '.join(sorted(keys))}.")
    if not math.isfinite(value):
        raise _invalid(f"The quota {key} cannot be infinite or NaN.")
    if value <= 0:
        raise _invalid(f"The quota {key} has to be more than 0.")
    if value > rule.most:
        raise _invalid(f"The quota {key} is at most {rule.most:.0f}.")
    if rule.whole and value % 1 > _WHOLE_ENOUGH:
        raise _invalid(f"The quota {key} has to be a whole number.")

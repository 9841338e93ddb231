"""DescribeClientQuotas v0-1 lists the quotas of the client entities that a filter matches (KIP-546).

- An entity is a user, a client id, both, or an ip; a null name stands for the default of its kind. Quotas are doubles by key.
- The filter has at most one component for each kind of name. Match type 0 EXACT needs a name and matches it; 1 DEFAULT matches
  the default only; 2 SPECIFIED matches every name and the default. The latter two come without a name. `strict` leaves out
  entities that have other kinds of names as well. A filter without components matches everything, or nothing if it is `strict`.
- Errors, with null entries: 35 UNSUPPORTED_VERSION (an unknown kind of name), 42 INVALID_REQUEST (any other fault of the filter).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from ottla.server.base.promise import Promise
from ottla.server.base.turns import Steps, take_steps
from ottla.server.metadata.operation import Refused
from ottla.server.metadata.quotas import CLIENT_ID, IP, USER, quotas_of
from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.rights import Need, Operation, Resource, Whole
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)

TRAITS = Traits(Whole(Need(Operation.DESCRIBE_CONFIGS, Resource.CLUSTER)))

EXACT: Final = 0
DEFAULT: Final = 1
ANY: Final = 2


class Anything:
    """Stands for a name that every name matches."""


ANYTHING: Final = Anything()


ENTITIES_A_STEP: Final = 100
"""So many entities are looked at before others may come first."""


def handle(
    body: DescribeClientQuotasRequest, request: Request
) -> DescribeClientQuotasResponse | Promise[DescribeClientQuotasResponse]:
    return take_steps(_describe(body, request), request.broker.clock)


def _describe(body: DescribeClientQuotasRequest, request: Request) -> Steps[DescribeClientQuotasResponse]:
    try:
        wanted = _filter(body.components)
    except Refused as refused:
        return DescribeClientQuotasResponse(error_code=refused.code, error_message=refused.message, entries=None)
    entries = []
    for at, (entity, values) in enumerate(quotas_of(request.broker.metadata).items()):
        if at and at % ENTITIES_A_STEP == 0:
            yield None
        if _matches(dict(entity), wanted, body.strict):
            entries.append(EntryData([EntityData(*part) for part in entity], [ValueData(*value) for value in values.items()]))
    return DescribeClientQuotasResponse(entries=entries)


def _filter(components: Iterable[ComponentData]) -> dict[str, str | Anything | None]:
    """Returns, for each kind of name, the name that an entity must have; None is the default.

    Raises Refused with 35 or 42 for the first fault of the filter.
    """
    wanted: dict[str, str | Anything | None] = {}
    for component in components:
        kind = component.entity_type
        if not kind:
            raise Refused(ErrorCode.INVALID_REQUEST, "A component of the filter has no entity type.")
        if kind in wanted:
            raise Refused(ErrorCode.INVALID_REQUEST, f"The filter has more than one component of type '{kind}'.")
        if kind not in (USER, CLIENT_ID, IP):
            raise Refused(ErrorCode.UNSUPPORTED_VERSION, f"There is no entity type '{kind}'.")
        wanted[kind] = _name(component)
    if IP in wanted and len(wanted) > 1:
        raise Refused(ErrorCode.INVALID_REQUEST, "An entity with an ip can have neither a user nor a client id.")
    return wanted


def _name(component: ComponentData) -> str | Anything | None:
    """Returns the name that a component asks for; None is the default. Raises Refused with 42."""
    if component.match_type not in (EXACT, DEFAULT, ANY):
        raise Refused(ErrorCode.INVALID_REQUEST, f"{component.match_type} is not a match type.")
    if (component.match is None) == (component.match_type == EXACT):
        raise Refused(ErrorCode.INVALID_REQUEST, "A component has a name if it matches exactly, and only then.")
    return ANYTHING if component.match_type == ANY else component.match


def _matches(entity: Mapping[str, str | None], wanted: Mapping[str, str | Anything | None], strict: bool) -> bool:
    if strict and len(entity) != len(wanted):
        return False
    return all(kind in entity and (name is ANYTHING or entity[kind] == name) for kind, name in wanted.items())

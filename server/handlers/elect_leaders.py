"""ElectLeaders v0-2 holds elections that an administrator asks for (KIP-183, KIP-460); metadata/elect_leaders.py has the rules.

- v0 knows only preferred elections. v1 adds a type (0 preferred, 1 unclean) and an error for the whole request.
- Null topics ask for all partitions; those that need no election are then left out. A partition that is named twice is answered
  twice.
- Errors of a partition: 3 UNKNOWN_TOPIC_OR_PARTITION, 80 PREFERRED_LEADER_NOT_AVAILABLE, 83 ELIGIBLE_LEADERS_NOT_AVAILABLE, 84
  ELECTION_NOT_NEEDED.
- Errors of the request, which each of its partitions gets as well: 7 REQUEST_TIMED_OUT (`timeout_ms` is 0 or less), 42
  INVALID_REQUEST (there is no such type), 44 POLICY_VIOLATION (more than 10,000 elections), 56 KAFKA_STORAGE_ERROR.
"""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.log.errors import StorageError
from ottla.server.base.turns import FEW, promise_if_long
from ottla.server.metadata.elect_leaders import refused_whole
from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.rights import Need, Operation, Resource, Whole
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse

TRAITS = Traits(Whole(Need(Operation.ALTER, Resource.CLUSTER)))


def handle(body: ElectLeadersRequest, request: Request) -> Awaitable[ElectLeadersResponse] | ElectLeadersResponse:
    topics = body.topic_partitions
    length = FEW + 1 if topics is None else sum(len(topic.partitions) for topic in topics)
    return promise_if_long(_elect(body, request), length, request.broker.clock)


async def _elect(body: ElectLeadersRequest, request: Request) -> ElectLeadersResponse:
    try:
        return await request.broker.controller.elect_leaders(body, request.caller())
    except StorageError as error:
        return refused_whole(body, ErrorCode.KAFKA_STORAGE_ERROR, str(error))

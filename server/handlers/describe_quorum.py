"""DescribeQuorum v0-2 lists the voters of the metadata log, their leader, and how far each has come (KIP-595, KIP-836, KIP-853).

- Only `__cluster_metadata-0` has a quorum, and the request must name no other partition.
- v1 adds when a replica last fetched and when it had last caught up: for the leader itself both are now. v2 adds directory ids,
  messages, and the addresses of the voters.
- Error of a partition: 3 UNKNOWN_TOPIC_OR_PARTITION.
"""

from __future__ import annotations

from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.rights import Need, Operation, Resource, Whole
from ottla.wire.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse

TRAITS = Traits(Whole(Need(Operation.DESCRIBE, Resource.CLUSTER)))


async def handle(body: DescribeQuorumRequest, request: Request) -> DescribeQuorumResponse:
    return await request.broker.controller.describe_quorum(body, request.caller())

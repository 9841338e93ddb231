"""DescribeQuorum v0-2: the voters of the metadata log, who leads them, and how far each has come (KIP-595, KIP-836, KIP-853).

- The only partition with a quorum is `__cluster_metadata-0`, and it has to be asked for alone.
- v1 adds when a replica last fetched and last was caught up: for the leader itself, now. v2 adds directory ids, messages and
  where the voters listen.
- Errors, of a partition: 3 UNKNOWN_TOPIC_OR_PARTITION.
"""

from __future__ import annotations

from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.rights import Need, Operation, Resource, Whole
from ottla.wire.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse

TRAITS = Traits(Whole(Need(Operation.DESCRIBE, Resource.CLUSTER)))


async def handle(body: DescribeQuorumRequest, request: Request) -> DescribeQuorumResponse:
    return await request.broker.controller.describe_quorum(body)

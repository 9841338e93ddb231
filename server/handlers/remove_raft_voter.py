"""RemoveRaftVoter v0 asks that a controller leave the voters of the metadata log (KIP-853); metadata/quorum.py has the rules.

This node is the only voter of its quorum and stays one, so no such request can succeed.

Errors: 35 UNSUPPORTED_VERSION (the configuration names the voters), 42 INVALID_REQUEST (an id or a directory is missing), 104
INCONSISTENT_CLUSTER_ID, 127 VOTER_NOT_FOUND (also for the last voter, as in Kafka).
"""

from __future__ import annotations

from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.rights import Need, Operation, Resource, Whole
from ottla.wire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse

TRAITS = Traits(Whole(Need(Operation.ALTER, Resource.CLUSTER)))


async def handle(body: RemoveRaftVoterRequest, request: Request) -> RemoveRaftVoterResponse:
    return await request.broker.controller.remove_raft_voter(body, request.caller())

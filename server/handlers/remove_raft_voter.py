"""RemoveRaftVoter v0: a controller is to vote on the metadata no more (KIP-853); the rules: metadata/quorum.py.

This node's quorum is itself alone, and stays: no request passes.

Errors: 35 UNSUPPORTED_VERSION (the configuration names the voters), 42 INVALID_REQUEST (no id, no directory), 104
INCONSISTENT_CLUSTER_ID, 127 VOTER_NOT_FOUND (also for the last one, as in Kafka).
"""

from __future__ import annotations

from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.rights import Need, Operation, Resource, Whole
from ottla.wire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse

TRAITS = Traits(Whole(Need(Operation.ALTER, Resource.CLUSTER)))


async def handle(body: RemoveRaftVoterRequest, request: Request) -> RemoveRaftVoterResponse:
    return await request.broker.controller.remove_raft_voter(body)

"""AddRaftVoter v0-1: another controller is to vote on the metadata (KIP-853); the rules: metadata/quorum.py.

This node's quorum is itself alone: no request passes. v1's choice of when to be answered has no effect.

Errors: 7 REQUEST_TIMED_OUT (all else is right, and the voter not to be had), 35 UNSUPPORTED_VERSION (the configuration names the
voters), 42 INVALID_REQUEST (no id, no directory, no address for controllers), 104 INCONSISTENT_CLUSTER_ID, 126 DUPLICATE_VOTER.
"""

from __future__ import annotations

from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.rights import Need, Operation, Resource, Whole
from ottla.wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse

TRAITS = Traits(Whole(Need(Operation.ALTER, Resource.CLUSTER)))


async def handle(body: AddRaftVoterRequest, request: Request) -> AddRaftVoterResponse:
    return await request.broker.controller.add_raft_voter(body)

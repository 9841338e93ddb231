"""AddRaftVoter v0-1 asks that another controller join the voters of the metadata log (KIP-853); metadata/quorum.py has the rules.

This node is the only voter of its quorum, so no such request can succeed. The choice in v1 of when the answer is due has no
effect.

Errors: 7 REQUEST_TIMED_OUT (the request is valid, but the new voter cannot be reached), 35 UNSUPPORTED_VERSION (the configuration
names the voters), 42 INVALID_REQUEST (an id, a directory, or an address for controllers is missing), 104 INCONSISTENT_CLUSTER_ID,
126 DUPLICATE_VOTER.
"""

from __future__ import annotations

from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.rights import Need, Operation, Resource, Whole
from ottla.wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse

TRAITS = Traits(Whole(Need(Operation.ALTER, Resource.CLUSTER)))


async def handle(body: AddRaftVoterRequest, request: Request) -> AddRaftVoterResponse:
    return await request.broker.controller.add_raft_voter(body, request.caller())

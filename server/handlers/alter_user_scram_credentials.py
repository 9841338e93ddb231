"""AlterUserScramCredentials v0 sets and deletes the SCRAM credentials of users (KIP-554); metadata/scram.py has the rules.

- Credentials are kept in the metadata, and DescribeUserScramCredentials lists them. They count for the next login
  (security/credentials.py).
- The mechanisms are 1 SCRAM-SHA-256 and 2 SCRAM-SHA-512, with 4,096 to 16,384 iterations.
- Errors of a user: 33 UNSUPPORTED_SASL_MECHANISM, 35 UNSUPPORTED_VERSION (metadata.version is below 3.5), 91 RESOURCE_NOT_FOUND
  (there is nothing to delete), 92 DUPLICATE_RESOURCE (the user is named more than once; then nothing is done for it), 93
  UNACCEPTABLE_CREDENTIAL (no name, no salted password, or iterations out of bounds), 44 POLICY_VIOLATION (more than 10,000
  users, or more than 8 MiB of credentials), 56 KAFKA_STORAGE_ERROR.
"""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.log.errors import StorageError
from ottla.server.base.turns import promise_if_long
from ottla.server.metadata.operation import Refused
from ottla.server.metadata.scram import refused_whole
from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.rights import Need, Operation, Resource, Whole
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)

TRAITS = Traits(Whole(Need(Operation.ALTER, Resource.CLUSTER)))


def handle(
    body: AlterUserScramCredentialsRequest, request: Request
) -> Awaitable[AlterUserScramCredentialsResponse] | AlterUserScramCredentialsResponse:
    return promise_if_long(_alter(body, request), len(body.deletions) + len(body.upsertions), request.broker.clock)


async def _alter(body: AlterUserScramCredentialsRequest, request: Request) -> AlterUserScramCredentialsResponse:
    try:
        return await request.broker.controller.alter_user_scram_credentials(body, request.caller())
    except Refused as refused:
        return refused_whole(body, refused.code, refused.message)
    except StorageError as error:
        return refused_whole(body, ErrorCode.KAFKA_STORAGE_ERROR, str(error))

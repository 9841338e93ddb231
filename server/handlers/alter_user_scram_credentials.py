"""AlterUserScramCredentials v0: give users SCRAM credentials and take them away (KIP-554); the rules: metadata/scram.py.

- Credentials are kept in the metadata and described by DescribeUserScramCredentials. Nobody logs in with them yet: there are no
  SASL listeners.
- Mechanisms: 1 SCRAM-SHA-256, 2 SCRAM-SHA-512. Iterations: 4,096 to 16,384.
- Errors of a user: 33 UNSUPPORTED_SASL_MECHANISM, 35 UNSUPPORTED_VERSION (metadata.version before 3.5), 91 RESOURCE_NOT_FOUND
  (nothing to delete), 92 DUPLICATE_RESOURCE (named more than once; then nothing of it is done), 93 UNACCEPTABLE_CREDENTIAL (no
  name, iterations out of bounds), -1 UNKNOWN_SERVER_ERROR (an empty salted password, as in Kafka), 44 POLICY_VIOLATION (over
  10,000 users), 56 KAFKA_STORAGE_ERROR.
"""

from __future__ import annotations

from ottla.log.errors import StorageError
from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.rights import Need, Operation, Resource, Whole
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)

TRAITS = Traits(Whole(Need(Operation.ALTER, Resource.CLUSTER)))


async def handle(body: AlterUserScramCredentialsRequest, request: Request) -> AlterUserScramCredentialsResponse:
    try:
        return await request.broker.controller.alter_user_scram_credentials(body)
    except StorageError as error:
        users = dict.fromkeys([each.name for each in body.deletions] + [each.name for each in body.upsertions])
        code, text = ErrorCode.KAFKA_STORAGE_ERROR, str(error)
        return AlterUserScramCredentialsResponse(results=[AlterUserScramCredentialsResult(user, code, text) for user in users])

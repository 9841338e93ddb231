"""SCRAM credentials of users (KIP-554): changing them, and looking them up in the metadata.

A client never sends a password. It sends the salted one (PBKDF2 of password, salt and iterations), of which the two keys of RFC
5802 are kept. With these a broker checks a login, and proves itself, without being able to log in. The image keeps the records,
by user and mechanism.

Each user of a request succeeds or fails as a whole, and may be named once, whatever the mechanism. The changes that succeed take
effect together.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ottla.server.metadata.image import MetadataImage
from ottla.server.metadata.operation import MAX_RECORDS, Outcome, Planning, Refused
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from ottla.wire.messages.internal.remove_user_scram_credential_record import RemoveUserScramCredentialRecord
from ottla.wire.messages.internal.user_scram_credential_record import UserScramCredentialRecord
from ottla.wire.primitives import WireStruct
from ottla.wire.scram import DIGESTS, make_keys

MECHANISMS: Final = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
"""The mechanisms by Kafka's numbers."""
MIN_ITERATIONS: Final = 4096
MAX_ITERATIONS: Final = 16384
USERS_A_STEP: Final = 20
"""The keys of so many users are made before others may come first, which takes about 0.3 ms."""
SINCE: Final = 11
"""metadata.version 3.5-IV2, the first that can hold credentials."""


def credential(image: MetadataImage, user: str, mechanism: int) -> UserScramCredentialRecord | None:
    """Returns the credential against which a login of this user is checked, None if there is none."""
    found = image.kept.get(("scram", user, mechanism))
    assert found is None or isinstance(found, UserScramCredentialRecord)
    return found


def credentials(image: MetadataImage) -> Iterator[UserScramCredentialRecord]:
    """Yields the credentials of all users."""
    return (record for record in image.kept.values() if isinstance(record, UserScramCredentialRecord))


def alter(image: MetadataImage, request: AlterUserScramCredentialsRequest) -> Planning[AlterUserScramCredentialsResponse]:
    """Plans AlterUserScramCredentials. A user that one request both deletes and writes counts as named twice.

    Raises Refused, for the request as a whole, with 44 POLICY_VIOLATION for too many users.
    """
    wishes: list[ScramCredentialDeletion | ScramCredentialUpsertion] = [*request.deletions, *request.upsertions]
    changes: dict[str, WireStruct] = {}
    refused: dict[str, Refused] = {}
    for number, wish in enumerate(wishes, 1):
        if number % USERS_A_STEP == 0:
            yield None
        user = wish.name
        if user in refused:
            continue
        if changes.pop(user, None) is not None:
            refused[user] = Refused(ErrorCode.DUPLICATE_RESOURCE, f"User '{user}' is named more than once.")
            continue
        if len(changes) + len(refused) == MAX_RECORDS:
            raise Refused(ErrorCode.POLICY_VIOLATION, f"One request may change the credentials of at most {MAX_RECORDS} users.")
        try:
            changes[user] = _change(image, wish)
        except Refused as refusal:
            refused[user] = refusal
    yield None
    results = [AlterUserScramCredentialsResult(user, ErrorCode.NONE, None) for user in changes]
    results += [AlterUserScramCredentialsResult(user, each.code, each.message) for user, each in refused.items()]
    return Outcome(list(changes.values()), AlterUserScramCredentialsResponse(results=results))


def refused_whole(
    request: AlterUserScramCredentialsRequest, code: ErrorCode, message: str | None
) -> AlterUserScramCredentialsResponse:
    """Returns an answer with the same error for every user of the request."""
    users = dict.fromkeys([each.name for each in request.deletions] + [each.name for each in request.upsertions])
    return AlterUserScramCredentialsResponse(results=[AlterUserScramCredentialsResult(user, code, message) for user in users])


def _change(image: MetadataImage, wish: ScramCredentialDeletion | ScramCredentialUpsertion) -> WireStruct:
    """Returns the record of one change. Raises Refused with 33 UNSUPPORTED_SASL_MECHANISM, 35 UNSUPPORTED_VERSION, 91
    RESOURCE_NOT_FOUND or 93 UNACCEPTABLE_CREDENTIAL."""
    if image.metadata_version < SINCE:
        raise Refused(ErrorCode.UNSUPPORTED_VERSION, "SCRAM credentials need a newer metadata.version.")
    if not wish.name:
        raise Refused(ErrorCode.UNACCEPTABLE_CREDENTIAL, "A user needs a name.")
    if wish.mechanism not in MECHANISMS:
        raise Refused(ErrorCode.UNSUPPORTED_SASL_MECHANISM, f"{wish.mechanism} is not a SCRAM mechanism.")
    if isinstance(wish, ScramCredentialDeletion):
        if credential(image, wish.name, wish.mechanism) is None:
            raise Refused(ErrorCode.RESOURCE_NOT_FOUND, f"User '{wish.name}' has no credential of this mechanism.")
        return RemoveUserScramCredentialRecord(wish.name, wish.mechanism)
    if not MIN_ITERATIONS <= wish.iterations <= MAX_ITERATIONS:
        text = f"{wish.iterations} iterations are not between {MIN_ITERATIONS} and {MAX_ITERATIONS}."
        raise Refused(ErrorCode.UNACCEPTABLE_CREDENTIAL, text)
    if not wish.salted_password:
        raise Refused(ErrorCode.UNACCEPTABLE_CREDENTIAL, "A user needs a salted password.")
    keys = make_keys(DIGESTS[MECHANISMS[wish.mechanism]], wish.salted_password)
    return UserScramCredentialRecord(wish.name, wish.mechanism, wish.salt, keys.stored, keys.server, wish.iterations)

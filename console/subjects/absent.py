"""Sentences about what a cluster does not have, or does not show this client: an older Kafka, no authorizer, no right."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from ottla.commands.clients.direct import Refused, Unsupported
from ottla.commands.output import Failure
from ottla.wire.errors import ErrorCode

T = TypeVar("T")

SENTENCES: Final[Mapping[int, str]] = {
    ErrorCode.SECURITY_DISABLED: (
        "The cluster has no authorizer: whoever reaches it may do everything. The brokers' setting "
        "authorizer.class.name brings one."
    ),
    ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED: (
        "The cluster has no delegation tokens. The brokers' setting delegation.token.secret.key brings them."
    ),
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: (
        "The cluster shows delegation tokens only to whoever has logged in by SASL or TLS, and not with a token."
    ),
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: (
        "The principal of this console may make no token for that owner; it needs the operation create-tokens on the user."
    ),
    ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH: (
        "The principal of this console is neither the owner of the token nor one of its renewers."
    ),
    ErrorCode.INVALID_PRINCIPAL_TYPE: "The cluster takes only principals of the type User here, such as User:alice.",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "The cluster does not show this to the principal of this console.",
    ErrorCode.UNSUPPORTED_VERSION: "This cluster is too old for this, or it is set up without it.",
}


def or_why(ask: Callable[[], T]) -> tuple[T | None, str | None]:
    """Returns what `ask` returns; if the cluster does not have it or does not show it, None and a sentence that says so. Raises
    Failure for everything else."""
    try:
        return ask(), None
    except Unsupported as failure:
        return None, f"This cluster has no such thing: {failure}."
    except Refused as refused:
        if refused.code not in SENTENCES:
            raise
        return None, SENTENCES[refused.code]


def in_a_sentence(do: Callable[[], T]) -> T:
    """Returns what `do` returns. Raises Failure, with the sentence of a refusal if there is one here."""
    try:
        return do()
    except Refused as refused:
        raise Failure(SENTENCES.get(refused.code, str(refused))) from refused

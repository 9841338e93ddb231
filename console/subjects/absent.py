"""What a cluster does not have, or does not tell this client, as a sentence: an older Kafka, no authorizer, no right."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from ottla.commands.direct import Refused, Unsupported
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
        "The cluster shows delegation tokens only to who has logged in by SASL or TLS, and not with a token."
    ),
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

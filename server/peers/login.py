"""Logs in to another node by SASL (KIP-43, KIP-152): which requests go out, and what must come back.

`login_calls` is a generator of calls, which is sent their answers: connections of the event loop and those of threads drive it
alike. Nothing else may be asked before it has ended; a node that answers with an error closes the connection.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Final

from ottla.security.sasl_client import NotTrusted
from ottla.server.peers.call import Call
from ottla.server.peers.outcomes import Disconnected
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest

if TYPE_CHECKING:
    from ottla.server.security.client import SaslLogin

_FRAMED: Final = 1
"""The first version of SaslHandshake after which the messages come in requests of their own."""
_LONGEST_SHOWN: Final = 200
"""So many characters of what the other side says are in a text: it has not proved that it is a node of the cluster."""
RENEWED_AT: Final = 0.85
"""After which share of its life a login is renewed."""


def login_calls(login: SaslLogin, name: str) -> Generator[Call, Any, float]:
    """Yields the calls of a login to the node `name` and takes their answers; returns after how many seconds it has to be done
    again, 0 for never. Raises Disconnected if the node refuses the login, or does not know the password itself."""
    answer = yield Call(SaslHandshakeRequest(login.mechanism), _FRAMED)
    if answer.error_code != ErrorCode.NONE:
        others = _shown(", ".join(answer.mechanisms)) if answer.mechanisms else "nothing else, either"
        raise Disconnected(f"{name} does not take logins by {login.mechanism}, but by {others}")
    messages = login.begin()
    message: bytes | None = next(messages)
    while message is not None:
        answer = yield Call(SaslAuthenticateRequest(message))
        if answer.error_code != ErrorCode.NONE:
            raise Disconnected(f"{name} refuses the login of {login.name} by {login.mechanism}: {_shown(answer.error_message)}")
        try:
            message = messages.send(answer.auth_bytes)
        except StopIteration:
            message = None
        except NotTrusted as error:
            raise Disconnected(
                f"logging in to {name} as {login.name} by {login.mechanism}: {str(error)[:_LONGEST_SHOWN]}"
            ) from error
    return RENEWED_AT * answer.session_lifetime_ms / 1000 if answer.session_lifetime_ms > 0 else 0.0


def _shown(text: str | None) -> str:
    """Returns what the other side says as it may stand in a log line."""
    return repr((text or "")[:_LONGEST_SHOWN])

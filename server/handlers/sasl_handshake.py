"""SaslHandshake v0-1 says which SASL mechanism a client wants to log in with.

Every Kafka advertises this API on every listener, but it belongs before a login only, and on our listeners (PLAINTEXT) clients
start where a login would have ended. So the answer is 34 ILLEGAL_SASL_STATE, without mechanisms, and the connection goes on.
"""

from __future__ import annotations

from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.rights import Open
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

TRAITS = Traits(Open("clients log in with it"), before_authentication=True)


def handle(body: SaslHandshakeRequest, request: Request) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(ErrorCode.ILLEGAL_SASL_STATE)

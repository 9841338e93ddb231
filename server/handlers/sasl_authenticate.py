"""SaslAuthenticate v0-2: bytes of a login.

As SaslHandshake, it has its place before a login only, and is answered with 34 ILLEGAL_SASL_STATE on a listener without one; the
connection goes on.
"""

from __future__ import annotations

from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.rights import Open
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse

TRAITS = Traits(Open("it is how a client says who it is"), before_authentication=True)


def handle(body: SaslAuthenticateRequest, request: Request) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(ErrorCode.ILLEGAL_SASL_STATE, "Nobody logs in on this listener: it takes everybody.")

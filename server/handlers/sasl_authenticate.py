"""SaslAuthenticate v0-2 carries the bytes of a SASL login.

Like SaslHandshake it belongs before a login only. On a listener without logins it is answered 34 ILLEGAL_SASL_STATE, and the
connection goes on.
"""

from __future__ import annotations

from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.rights import Open
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse

TRAITS = Traits(Open("clients log in with it"), before_authentication=True)


def handle(body: SaslAuthenticateRequest, request: Request) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(ErrorCode.ILLEGAL_SASL_STATE, "Clients do not log in on this listener.")

"""SaslAuthenticate v0-2 carries the tokens of a SASL login.

The login answers it (server/security/login.py): with the broker's token, and 58 SASL_AUTHENTICATION_FAILED when it has failed. v1
tells the client how many ms the login lasts, 0 for as long as the connection (KIP-368). Where there is no login, or it is done
already, the answer is 34 ILLEGAL_SASL_STATE, and the connection goes on.
"""

from __future__ import annotations

from typing import Any

from ottla.server.base.promise import Promise
from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.rights import Open
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse

TRAITS = Traits(Open("clients log in with it"), before_authentication=True)


def handle(body: SaslAuthenticateRequest, request: Request) -> SaslAuthenticateResponse | Promise[Any]:
    login = request.session.login
    if login is None:
        return SaslAuthenticateResponse(ErrorCode.ILLEGAL_SASL_STATE, "There is no login to go on with.")
    return login.authenticate(body.auth_bytes)

"""SaslHandshake v0-1 says which SASL mechanism a client wants to log in with.

It belongs before a login, or to its renewal, and is answered by the login (server/security/login.py): with the mechanisms that
the listener offers, and 33 UNSUPPORTED_SASL_MECHANISM if the wanted one is not among them. After v0 the tokens come bare, after
v1 in SaslAuthenticate. Every Kafka advertises this API on every listener; where there is no login, the answer is 34
ILLEGAL_SASL_STATE, without mechanisms, and the connection goes on.
"""

from __future__ import annotations

from typing import Any

from ottla.server.base.promise import Promise
from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.rights import Open
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

TRAITS = Traits(Open("clients log in with it"), before_authentication=True)


def handle(body: SaslHandshakeRequest, request: Request) -> SaslHandshakeResponse | Promise[Any]:
    login = request.session.login
    if login is None:
        return SaslHandshakeResponse(ErrorCode.ILLEGAL_SASL_STATE)
    return login.choose(body.mechanism, request.api_version)

"""A client's request inside an Envelope, as a broker passes it on to the active controller (KIP-590), and the answer inside its.

The envelope holds the whole request with its header, the principal of the client (KIP-590's DefaultPrincipalData, behind its
version) and its address, in bytes. The answer inside begins with its own header, with the same correlation id.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any, Final

from ottla.server.peers.call import Call
from ottla.server.peers.handshake import Versions, common_version
from ottla.server.peers.outcomes import Disconnected
from ottla.wire.frame import MALFORMED
from ottla.wire.header import decode_response_header, encode_request_header
from ottla.wire.messages.envelope import EnvelopeRequest
from ottla.wire.messages.internal import default_principal_data
from ottla.wire.messages.internal.default_principal_data import DefaultPrincipalData

if TYPE_CHECKING:
    from ottla.server.metadata.operation import Caller
    from ottla.wire.primitives import Parts, WireStruct

_PRINCIPAL_VERSION: Final = 0
_CORRELATION_ID: Final = 0


class Enveloped:
    """One request for the controller, on behalf of a client."""

    def __init__(self, request: WireStruct, caller: Caller) -> None:
        self._call = Call(request)
        self._caller = caller
        self._version = -1

    @property
    def name(self) -> str:
        """The name of the request's API."""
        return self._call.name

    def seal(self, versions: Versions, name: str) -> EnvelopeRequest:
        """Returns the envelope, with the request in the newest version that the controller `name` has, too. Raises
        UnsupportedVersion."""
        self._version = common_version(self._call, versions, name)
        api = self._call.codecs.api
        parts: Parts = [encode_request_header(api.key, self._version, _CORRELATION_ID, self._caller.client_id or "")]
        self._call.codecs.encode_request[self._version](self._call.request, parts)
        return EnvelopeRequest(b"".join(parts), encode_principal(self._caller), encode_host(self._caller.client_host))

    def open(self, data: bytes) -> Any:
        """Returns the answer inside an envelope's. Raises Disconnected if it is none."""
        try:
            correlation_id, pos = decode_response_header(self._call.codecs.api.key, self._version, data, 0)
            if correlation_id != _CORRELATION_ID:
                raise ValueError(f"it has the correlation id {correlation_id}")
            return self._call.codecs.decode_response[self._version](data, pos)[0]
        except MALFORMED as error:
            raise Disconnected(f"the envelope does not hold an answer to {self.name}: {error}") from error


def encode_principal(caller: Caller) -> bytes:
    """Returns a client's principal, such as `User:alice`, as Kafka's principal serde writes it."""
    kind, _, name = caller.principal.partition(":")
    parts: Parts = [_PRINCIPAL_VERSION.to_bytes(2, "big")]
    default_principal_data.ENCODE[_PRINCIPAL_VERSION](DefaultPrincipalData(kind, name, caller.by_delegation_token), parts)
    return b"".join(parts)


def encode_host(host: str) -> bytes:
    """Returns the 4 or 16 bytes of an address in text."""
    return ipaddress.ip_address(host.partition("%")[0]).packed

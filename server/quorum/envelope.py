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
from ottla.wire.items import count_items, layout_of
from ottla.wire.messages.envelope import EnvelopeRequest
from ottla.wire.messages.internal import default_principal_data
from ottla.wire.messages.internal.default_principal_data import DefaultPrincipalData

if TYPE_CHECKING:
    from ottla.server.metadata.operation import Caller
    from ottla.wire.primitives import Parts, WireStruct

_PRINCIPAL_VERSION: Final = 0
_CORRELATION_ID: Final = 0
ITEM_BYTES: Final = 400
"""About as many bytes as an element of a request's lists takes as an object."""


class Enveloped:
    """One request for the controller, on behalf of a client. `encode` comes first, then `seal`."""

    def __init__(self, request: WireStruct, caller: Caller) -> None:
        self._call = Call(request)
        self._caller = caller
        self.version = self._call.codecs.api.max_version
        """The version in which it is encoded, or is to be: the newest, until the controller has another."""
        self._data = b""

    @property
    def name(self) -> str:
        """The name of the request's API."""
        return self._call.name

    def version_for(self, versions: Versions, name: str) -> int:
        """Returns the newest version that the controller `name` has, too. Raises UnsupportedVersion."""
        return common_version(self._call, versions, name)

    def encode(self, version: int) -> int:
        """Encodes the request in a version. Any thread may call this; nobody else uses it meanwhile. Returns about how many bytes
        the request takes here while it waits, also as objects."""
        api = self._call.codecs.api
        parts: Parts = [encode_request_header(api.key, version, _CORRELATION_ID, self._caller.client_id or "")]
        self._call.codecs.encode_request[version](self._call.request, parts)
        self.version, self._data = version, b"".join(parts)
        layout = layout_of(api.key, version)
        items = 0 if layout is None else count_items(layout, self._data, len(parts[0]), len(self._data))[0]
        return len(self._data) + ITEM_BYTES * items

    def seal(self) -> EnvelopeRequest:
        """Returns the envelope, with the request as it is encoded."""
        return EnvelopeRequest(self._data, encode_principal(self._caller), encode_host(self._caller.client_host))

    def open(self, data: bytes) -> Any:
        """Returns the answer inside an envelope's. Any thread may call this. Raises Disconnected if it is none."""
        try:
            correlation_id, pos = decode_response_header(self._call.codecs.api.key, self.version, data, 0)
            if correlation_id != _CORRELATION_ID:
                raise ValueError(f"it has the correlation id {correlation_id}")
            return self._call.codecs.decode_response[self.version](data, pos)[0]
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

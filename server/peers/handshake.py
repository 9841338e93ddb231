"""The first exchange on a connection: which versions of which APIs does the other node have (ApiVersions, KIP-35, KIP-511)?

It is asked in the newest version that this node speaks. An older node refuses that with UNSUPPORTED_VERSION, in version 0, and
says which versions of ApiVersions it has, so the second question is one that it answers.

In version 5 the question could name the cluster and the node that are expected here. It does not: controllers of 4.4.0 accept a
wrong cluster id in it, and what follows (Fetch, BrokerRegistration) checks it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ottla import __version__
from ottla.server.peers.call import Call
from ottla.server.peers.outcomes import Disconnected, UnsupportedVersion
from ottla.wire.errors import ErrorCode
from ottla.wire.messages import api_versions
from ottla.wire.primitives import Buffer

if TYPE_CHECKING:
    from ottla.server.peers.connection import Connection

Versions = dict[int, tuple[int, int]]
"""The lowest and the highest version that a node has, by API key."""

SOFTWARE: Final = ("ottla", __version__)
"""The name and version by which ottla introduces itself, as clients do."""
_REFUSED_IN: Final = 0
"""The version of the answer UNSUPPORTED_VERSION, whatever version was asked in."""


async def negotiate(connection: Connection) -> Versions:
    """Returns the versions that the other node has. Raises Disconnected, also if it answers with an error, and UnsupportedVersion
    if it has no version of ApiVersions that this node speaks.
    """
    call = _question()
    connection.send(call, api_versions.MAX_VERSION)
    answer: api_versions.ApiVersionsResponse = await call.answer
    if answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
        call = _question()
        theirs = {api_versions.API_KEY: (_REFUSED_IN, _REFUSED_IN)} | _versions(answer)  # nodes before Kafka 2.4 list nothing
        connection.send(call, common_version(call, theirs, connection.name))
        answer = await call.answer
    return read_versions(answer, connection.name)


def read_versions(answer: api_versions.ApiVersionsResponse, name: str) -> Versions:
    """Returns the versions in an answer to ApiVersions. Raises Disconnected if it is an error; `name` is the other node's."""
    if answer.error_code != ErrorCode.NONE:
        raise Disconnected(f"{name} answers ApiVersions with the error {_name(answer.error_code)}")
    return _versions(answer)


def common_version(call: Call, theirs: Versions, name: str) -> int:
    """Returns the newest version of the call that both sides have. Raises UnsupportedVersion; `name` is the other node's."""
    api = call.codecs.api
    lowest, highest = theirs.get(api.key, (0, -1))
    version = min(highest, api.max_version)
    if version < max(lowest, call.min_version):
        has = f"has versions {lowest} to {highest} of {api.name}" if highest >= 0 else f"does not know {api.name}"
        raise UnsupportedVersion(f"{name} {has}, and ottla needs one of {call.min_version} to {api.max_version}")
    return version


def _question() -> Call:
    call = Call(api_versions.ApiVersionsRequest(*SOFTWARE))
    call.decode = lambda buf, pos: _decode(buf, pos, call.version)
    return call


def _decode(buf: Buffer, pos: int, version: int) -> tuple[Any, int]:
    """Decodes the answer, of which the first field is the error code in every version."""
    if int.from_bytes(buf[pos : pos + 2], "big", signed=True) == ErrorCode.UNSUPPORTED_VERSION:
        version = _REFUSED_IN
    return api_versions.DECODE_RESPONSE[version](buf, pos)


def _versions(answer: api_versions.ApiVersionsResponse) -> Versions:
    return {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}


def _name(code: int) -> str:
    known = ErrorCode._value2member_map_.get(code)
    return known.name if known is not None else str(code)

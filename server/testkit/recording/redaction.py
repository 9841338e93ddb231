"""Blanks the credentials in frames that are recorded: what proves who somebody is, never the names beside it.

| API | what is blank |
|---|---|
| SaslAuthenticate | the tokens of both sides |
| AlterUserScramCredentials | the salt and the salted password |
| CreateDelegationToken, DescribeDelegationToken, RenewDelegationToken, ExpireDelegationToken | the HMAC of a token |
| AlterConfigs, IncrementalAlterConfigs | the values of a broker's settings that are passwords, or unknown |

Brokers never send a password in the answer to DescribeConfigs. Such frames are rare, so they are decoded and encoded anew.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ottla.server.dispatch.route import SIZE_BYTES
from ottla.server.settings.broker_settings import is_hidden
from ottla.wire.api import APIS
from ottla.wire.frame import MALFORMED
from ottla.wire.header import decode_request_header, decode_response_header

_BROKER: Final = 4
"""The resource type whose settings hold passwords."""


def _blank_sasl(message: Any) -> None:
    message.auth_bytes = b""


def _blank_scram(message: Any) -> None:
    for each in message.upsertions:
        each.salt = each.salted_password = b""


def _blank_hmac(message: Any) -> None:
    message.hmac = b""


def _blank_hmacs(message: Any) -> None:
    for token in message.tokens:
        token.hmac = b""


def _blank_settings(message: Any) -> None:
    for resource in message.resources:
        for setting in resource.configs if resource.resource_type == _BROKER else ():
            if setting.value is not None and is_hidden(setting.name):
                setting.value = ""


_IN_REQUESTS: Final[dict[int, Callable[[Any], None]]] = {
    33: _blank_settings,
    36: _blank_sasl,
    39: _blank_hmac,
    40: _blank_hmac,
    44: _blank_settings,
    51: _blank_scram,
}
_IN_ANSWERS: Final[dict[int, Callable[[Any], None]]] = {36: _blank_sasl, 38: _blank_hmac, 41: _blank_hmacs}
"""By the key of the API."""


def _as_bytes(keys: dict[int, Callable[[Any], None]]) -> frozenset[bytes]:
    return frozenset(key.to_bytes(2, "big") for key in keys)


REQUESTS_WITH_SECRETS: Final = _as_bytes(_IN_REQUESTS)
ANSWERS_WITH_SECRETS: Final = _as_bytes(_IN_ANSWERS)
"""The first two bytes of requests, which are the key of the API."""


def redact_request(frame: bytes) -> bytes:
    """Returns the frame of a request without its credentials, and nothing but its fixed header if it does not decode."""
    from ottla.server.testkit.refusals.entities import messages_of  # not loaded by recordings without such requests

    try:
        header, start = decode_request_header(frame, 0)
        module = messages_of(APIS[header.api_key])
        message, _ = module.DECODE_REQUEST[header.api_version](frame, start)
        _IN_REQUESTS[header.api_key](message)
        parts: list[Any] = [frame[:start]]
        module.ENCODE_REQUEST[header.api_version](message, parts)
    except (*MALFORMED, KeyError):
        return frame[:8] + b"\xff\xff"  # no client id
    return b"".join(parts)


def redact_answer(api_key: int, api_version: int, parts: tuple[bytes | int, ...]) -> tuple[bytes, ...]:
    """Returns the frame of an answer, with its size in front, without its credentials."""
    from ottla.server.testkit.refusals.entities import messages_of

    frame = b"".join(part for part in parts if isinstance(part, bytes))
    _, start = decode_response_header(api_key, api_version, frame, SIZE_BYTES)
    module = messages_of(APIS[api_key])
    message, _ = module.DECODE_RESPONSE[api_version](frame, start)
    _IN_ANSWERS[api_key](message)
    body: list[Any] = []
    module.ENCODE_RESPONSE[api_version](message, body)
    rest = frame[SIZE_BYTES:start] + b"".join(body)
    return (len(rest).to_bytes(SIZE_BYTES, "big") + rest,)

"""Logging in with SASL on a connection of our own (direct.py): what is sent and what must come back, without the network.

PLAIN and SCRAM are in security/sasl_client.py. OAUTHBEARER follows RFC 7628; nobody signs the token, as in librdkafka. `exchange`
sends a message to the broker and returns its answer; `nonce` is random printable text without a comma.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from typing import Final

from ottla.commands.output import Failure
from ottla.security import sasl_client
from ottla.security.sasl_client import NotTrusted

Exchange = Callable[[bytes], bytes]

OAUTHBEARER: Final = "OAUTHBEARER"
MECHANISMS: Final = (*sasl_client.MECHANISMS, OAUTHBEARER)
"""The mechanisms that are known here. For OAUTHBEARER there is a function of its own."""


def log_in(mechanism: str, name: str, password: str, exchange: Exchange, nonce: str) -> None:
    """Logs in. Raises Failure if the broker refuses, or does not prove that it knows the password."""
    messages = sasl_client.log_in(mechanism, name, password, nonce)
    message: bytes | None = next(messages)
    while message is not None:
        answer = exchange(message)
        try:
            message = messages.send(answer)
        except StopIteration:
            message = None
        except NotTrusted as error:
            raise Failure(str(error)) from None


def send_token(properties: Mapping[str, str], exchange: Exchange, now_s: float) -> None:
    """Logs in with a token of our own, as librdkafka's property sasl.oauthbearer.config describes it; `now_s` is the wall time.
    Raises Failure if the broker refuses it, or if the token would come from elsewhere."""
    if properties.get("enable.sasl.oauthbearer.unsecure.jwt", "false").lower() != "true":
        raise Failure(
            "this needs a connection of ottla's own, which gets no tokens of OAUTHBEARER from a server; use PLAIN or SCRAM for it"
        )
    words = dict(word.split("=", 1) for word in properties.get("sasl.oauthbearer.config", "").split() if "=" in word)
    claims: dict[str, object] = {
        words.get("principalClaimName", "sub"): words.get("principal", ""),
        "iat": int(now_s),  # with a fraction, a broker that rounds to ms may find it issued in the future
        "exp": now_s + float(words.get("lifeSeconds", "3600")),
    }
    if scope := words.get("scope"):
        claims[words.get("scopeClaimName", "scope")] = scope.split(",")
    token = b".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in ({"alg": "none"}, claims))
    extensions = b"".join(
        f"{name.removeprefix('extension_')}={value}\1".encode() for name, value in words.items() if name.startswith("extension_")
    )
    answer = exchange(b"n,,\1auth=Bearer " + token + b".\1" + extensions + b"\1")
    if answer:
        exchange(b"\1")  # the broker then says why not
        raise Failure("the broker refused the token")

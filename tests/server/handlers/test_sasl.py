"""SaslHandshake and SaslAuthenticate where nobody logs in."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.wire.errors import ErrorCode
from ottla.wire.messages import sasl_authenticate, sasl_handshake
from tests.server.handlers.admin_calls import call
from tests.server.metadata.support import Node


@pytest.fixture
def node() -> Node:
    made = Node()
    made.start()
    return made


@pytest.mark.parametrize("version", range(sasl_handshake.MAX_VERSION + 1))
def test_handshake(node: Node, version: int) -> None:
    answer: Any = call(node, "sasl_handshake", sasl_handshake.SaslHandshakeRequest("PLAIN"), version)
    assert (answer.error_code, answer.mechanisms) == (ErrorCode.ILLEGAL_SASL_STATE, [])


@pytest.mark.parametrize("version", range(sasl_authenticate.MAX_VERSION + 1))
def test_authenticate(node: Node, version: int) -> None:
    answer: Any = call(node, "sasl_authenticate", sasl_authenticate.SaslAuthenticateRequest(b"\0u\0p"), version)
    assert (answer.error_code, answer.auth_bytes, answer.session_lifetime_ms) == (ErrorCode.ILLEGAL_SASL_STATE, b"", 0)
    assert answer.error_message

"""AlterUserScramCredentials: through the log, across a restart, and a disk that fails.

The rules: tests/server/metadata/test_scram.py.
"""

from __future__ import annotations

from typing import Any

from ottla.server.metadata import scram
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from tests.server.handlers.admin_calls import call
from tests.server.metadata.support import Node

WRITE = AlterUserScramCredentialsRequest([], [ScramCredentialUpsertion(name, 1, 4096, b"salt", b"salted") for name in "uv"])


def ask(node: Node, request: AlterUserScramCredentialsRequest) -> dict[str, int]:
    answer: Any = call(node, "alter_user_scram_credentials", request, 0)
    return {result.user: result.error_code for result in answer.results}


def who(node: Node) -> list[str]:
    return [record.name for record in scram.credentials(node.image)]


def test_credentials_outlive_a_restart() -> None:
    node = Node()
    node.start()
    assert ask(node, WRITE) == {"u": 0, "v": 0}
    assert ask(node, AlterUserScramCredentialsRequest([ScramCredentialDeletion("u", 1)])) == {"u": 0}
    node.kill()
    node.start()
    assert who(node) == ["v"]
    assert ask(node, AlterUserScramCredentialsRequest()) == {}


def test_a_disk_that_fails() -> None:
    node = Node()
    node.start()
    node.disk.fail("append", path="__cluster_metadata-0")
    both = AlterUserScramCredentialsRequest([ScramCredentialDeletion("u", 1)], WRITE.upsertions)
    assert ask(node, both) == dict.fromkeys("uv", ErrorCode.KAFKA_STORAGE_ERROR)
    assert who(node) == []

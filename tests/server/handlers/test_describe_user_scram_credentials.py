"""DescribeUserScramCredentials: users without credentials, and those that a data directory brought along."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.wire.errors import ErrorCode
from ottla.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from ottla.wire.messages.internal.remove_user_scram_credential_record import RemoveUserScramCredentialRecord
from ottla.wire.messages.internal.user_scram_credential_record import UserScramCredentialRecord
from tests.fakes import MemoryBroker
from tests.server.handlers.data_calls import call

SHA_256, SHA_512 = 1, 2
NONE = ErrorCode.RESOURCE_NOT_FOUND
TWICE = ErrorCode.DUPLICATE_RESOURCE


@pytest.fixture
def broker() -> MemoryBroker:
    made = MemoryBroker({})
    for name, mechanism, iterations in (("u", SHA_512, 8192), ("v", SHA_256, 5000), ("u", SHA_256, 4096)):
        made.image.apply(UserScramCredentialRecord(name, mechanism, b"salt", b"stored", b"server", iterations))
    return made


def ask(broker: MemoryBroker, names: list[str] | None) -> dict[str, tuple[int, list[tuple[int, int]]]]:
    users = None if names is None else [UserName(name) for name in names]
    answer: Any = call(broker, "describe_user_scram_credentials", 0, DescribeUserScramCredentialsRequest(users))
    assert (answer.error_code, answer.error_message) == (0, "")
    assert all(bool(each.error_message) == bool(each.error_code) for each in answer.results)
    found = {
        each.user: (each.error_code, [(info.mechanism, info.iterations) for info in each.credential_infos])
        for each in answer.results
    }
    assert len(found) == len(answer.results)
    return found


U, V = (0, [(SHA_256, 4096), (SHA_512, 8192)]), (0, [(SHA_256, 5000)])


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (None, {"u": U, "v": V}),
        ([], {"u": U, "v": V}),
        (["v"], {"v": V}),
        (["x", "u", ""], {"x": (NONE, []), "u": U, "": (NONE, [])}),
        (["u", "v", "u"], {"u": (TWICE, []), "v": V}),
        (["x", "x", "x"], {"x": (TWICE, [])}),
    ],
)
def test_credentials(broker: MemoryBroker, names: list[str] | None, found: dict[str, Any]) -> None:
    assert ask(broker, names) == found


@pytest.mark.parametrize("names", [None, []])
def test_nobody_has_any(names: list[str] | None) -> None:
    assert ask(MemoryBroker({}), names) == {}


def test_removed_credentials(broker: MemoryBroker) -> None:
    broker.image.apply(RemoveUserScramCredentialRecord("v", SHA_256))
    assert ask(broker, ["v"]) == {"v": (NONE, [])}
    assert ask(broker, None) == {"u": U}

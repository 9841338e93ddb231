"""The console's port before the broker starts: its address, and what is said of one that cannot be had."""

from __future__ import annotations

import socket
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.log.config_def import ConfigError
from ottla.server.base.network import OsNetwork
from ottla.server.base.randomness import from_seed
from ottla.server.console.opening import OpenedConsole
from tests.in_loop import in_loop
from tests.server.console.test_settings import config


@pytest.mark.parametrize(
    ("settings", "end"),
    [
        ({}, f"?token={from_seed(1).randbytes(24).hex()}"),
        ({"ottla_console_token": "0123456789abcdef"}, ""),
        ({"ottla_console_no_token": "true"}, ""),
    ],
)
def test_the_address_has_a_new_token_in_it_and_no_other(settings: dict[str, str], end: str) -> None:
    opened = OpenedConsole(config(**settings), OsNetwork(), from_seed(1))
    port = opened._socket.getsockname()[1]
    assert opened.url == f"http://127.0.0.1:{port}/{end}"
    opened.end()
    assert opened._socket.fileno() == -1


@pytest.mark.parametrize("needs_token", [True, False])
@in_loop
async def test_with_an_authorizer_and_no_token_the_broker_s_own_end_answers_nothing_of_its_inside(needs_token: bool) -> None:
    authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    without = str(not needs_token).lower()
    settings = config(authorizer_class_name=authorizer, ottla_console_no_token=without)
    opened = OpenedConsole(settings, OsNetwork(), from_seed(1))
    broker: Any = SimpleNamespace(listeners=[SimpleNamespace(port=9)], endpoints=[SimpleNamespace(host="h", port=9)])
    opened.watch(lambda: broker)
    assert opened._port is not None
    assert opened._port._subject.shows_inside == needs_token
    await opened.close()


def test_a_port_that_is_taken_is_named_with_the_remedy() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(ConfigError, match=r"^ottla\.console\.port: 127\.0\.0\.1:\d+: .*; choose another \(--console-port N"):
            OpenedConsole(config(ottla_console_port=str(taken.getsockname()[1])), OsNetwork(), from_seed(1))

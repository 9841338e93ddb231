"""The console's port before the broker starts: its address, and what is said of one that is not available."""

from __future__ import annotations

import re
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from compat_tests.certificates import NOW_MS, Holder, issue
from compat_tests.password_files import line, write
from compat_tests.security.tls_files import ROOT
from ottla.log.config_def import ConfigError
from ottla.log.disk.files import OsDisk
from ottla.server.base.network import OsNetwork
from ottla.server.base.randomness import from_seed
from ottla.server.console.opening import OpenedConsole
from ottla.server.settings.broker_config import BrokerConfig
from tests.in_loop import in_loop
from tests.server.console.test_settings import config


def opening(settings: BrokerConfig) -> OpenedConsole:
    return OpenedConsole(settings, OsNetwork(), from_seed(1), OsDisk().read_bytes, lambda: NOW_MS)


@pytest.mark.parametrize(
    ("settings", "end"),
    [
        ({}, f"?token={from_seed(1).randbytes(24).hex()}"),
        ({"ottla_console_token": "0123456789abcdef"}, ""),
        ({"ottla_console_no_token": "true"}, ""),
    ],
)
def test_the_address_has_a_new_token_in_it_and_no_other(settings: dict[str, str], end: str) -> None:
    opened = opening(config(**settings))
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
    opened = opening(settings)
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
            OpenedConsole(
                config(ottla_console_port=str(taken.getsockname()[1])),
                OsNetwork(),
                from_seed(1),
                OsDisk().read_bytes,
                lambda: NOW_MS,
            )


def encrypted(directory: Path, holder: Holder, **more: str) -> OpenedConsole:
    """Opens the console of a broker for other machines, at a free port."""
    users, keys = directory / "users", directory / "console.pem"
    write(users, line("alice"))
    keys.write_text(holder.pem())
    given = {"listener_name_console_ssl_keystore_location": str(keys), "listener_name_console_ssl_keystore_type": "PEM"}
    settings = config(ottla_console_host="0.0.0.0", ottla_console_users=str(users), **given, **more)
    return opening(settings)


@in_loop
async def test_for_other_machines_its_address_is_of_the_certificate_which_may_be_renewed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    opened = encrypted(tmp_path, issue("console", ROOT, hosts=("*.pods.test", "kafka.test")))
    assert re.fullmatch(r"https://kafka\.test:\d+/", opened.url)
    broker: Any = SimpleNamespace(listeners=[SimpleNamespace(port=9)], endpoints=[SimpleNamespace(host="h", port=9)])
    opened.watch(lambda: broker)
    assert opened._port is not None
    orders = opened._port._orders()
    assert (orders["token"], orders["names"], orders["users"]) == (None, ("*.pods.test", "kafka.test"), str(tmp_path / "users"))
    renewed = issue("console", ROOT, hosts=("kafka.test",))
    (tmp_path / "console.pem").write_text(renewed.pem())
    assert renewed.chain_pem() in opened._port._orders()["tls"]
    (tmp_path / "console.pem").write_text("nonsense")
    assert renewed.chain_pem() in opened._port._orders()["tls"]
    assert len(caplog.messages) == 1
    await opened.close()


def test_a_certificate_that_no_browser_takes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^listener\.name\.console\.ssl\.keystore\.location: the certificate names no host"):
        encrypted(tmp_path, issue("console", ROOT, hosts=()))

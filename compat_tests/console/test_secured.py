"""The console of a broker that lets nobody in without a certificate or a login, and one beside such a broker: by the properties
file that Apache's tools take."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from compat_tests.commands import environment
from compat_tests.console.running import Visitor, broker, console
from compat_tests.security.tls_files import ALICE, BROKER, ROOT

PLAIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule required"
WITH_CERTIFICATE, WITH_LOGIN = "SSL", "SASL_PLAINTEXT"
COMMAND_CONFIG: Final = "ottla.console.command.config"


def broker_words(protocol: str, directory: Path) -> list[str]:
    """Returns the settings of a broker whose only listener has this protocol."""
    found = {
        "listeners": f"{protocol}://127.0.0.1:0",
        "security.inter.broker.protocol": protocol,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:CN=alice,O=Ottla;User:alice",
    }
    if protocol == WITH_CERTIFICATE:
        (directory / "broker.pem").write_text(BROKER.pem())
        (directory / "ca.pem").write_text(ROOT.chain_pem())
        found |= {
            "ssl.client.auth": "required",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(directory / "broker.pem"),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(directory / "ca.pem"),
        }
    else:
        found |= {
            "sasl.enabled.mechanisms": "PLAIN",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{PLAIN} user_alice="secret";',
        }
    return [word for name, value in found.items() for word in ("--override", f"{name}={value}")]


def client_properties(protocol: str, directory: Path, password: str = "secret") -> str:
    """Returns the path of a file by which a client logs in, as alice."""
    lines = {"security.protocol": protocol}
    if protocol == WITH_CERTIFICATE:
        (directory / "alice.pem").write_text(ALICE.pem())
        lines |= {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(directory / "alice.pem"),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(directory / "ca.pem"),
        }
    else:
        lines |= {"sasl.mechanism": "PLAIN", "sasl.jaas.config": f'{PLAIN} username="alice" password="{password}";'}
    path = directory / "client.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    return str(path)


@pytest.mark.parametrize("protocol", [WITH_CERTIFICATE, WITH_LOGIN])
def test_both_consoles_log_in_as_the_file_says(tmp_path: Path, protocol: str) -> None:
    config = broker_words(protocol, tmp_path)
    file = client_properties(protocol, tmp_path)
    words = (*config, "--override", f"{COMMAND_CONFIG}={file}")
    with broker(tmp_path / "data", *words) as (_, bootstrap, url), console(bootstrap, "--command-config", file) as beside:
        for visitor in (Visitor(url), Visitor(beside)):
            made = visitor.post("/new-topic", visitor.get("/new-topic"), name=f"of-{visitor.port}", partitions="2")
            assert (made.status, made.location) == (303, f"/topics/of-{visitor.port}")
            for path in ("/", "/topics", "/groups", "/brokers/1", f"/topics/of-{visitor.port}", "/access", "/broker/quorum"):
                page = visitor.get(path)
                assert page.status == 200, page.text
            sent = visitor.get(f"/topics/of-{visitor.port}/produce")
            assert visitor.post(f"/topics/of-{visitor.port}/produce", sent, value="hello").status in {200, 303}
            assert "hello" in visitor.get(f"/topics/of-{visitor.port}/messages").text
        assert "Inside broker 1" in Visitor(url).get("/inside").text


def test_a_wrong_password_is_a_page_that_says_so(tmp_path: Path) -> None:
    words = [
        *broker_words(WITH_LOGIN, tmp_path),
        "--override",
        f"{COMMAND_CONFIG}={client_properties(WITH_LOGIN, tmp_path, 'x')}",
    ]
    with broker(tmp_path / "data", *words) as (_, _, url):
        page = Visitor(url).get("/")
        assert page.status == 502
        assert "uthentication" in page.text


@pytest.mark.parametrize("protocol", [WITH_CERTIFICATE, WITH_LOGIN])
def test_without_a_file_a_line_says_what_it_needs(tmp_path: Path, protocol: str) -> None:
    words = ["--port", "0", "--data-dir", str(tmp_path / "data"), "--console-port", "0", *broker_words(protocol, tmp_path)]
    ended = subprocess.run(
        [sys.executable, "-m", "ottla", *words], capture_output=True, text=True, env=environment(), timeout=60, check=False
    )
    assert (ended.returncode, ended.stderr.count("\n")) == (1, 1)
    assert ended.stderr.startswith("ottla: ottla.console.port: the console is a client, and no listener lets it in without TLS")
    assert COMMAND_CONFIG in ended.stderr

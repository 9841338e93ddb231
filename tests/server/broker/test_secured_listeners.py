"""Whole brokers with listeners for TLS: a start that is refused, clients over TLS, and certificates that are exchanged."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import uvloop

from compat_tests.certificates import PASSWORD, Holder, authority, client_context, issue
from ottla.log.config_def import ConfigError
from ottla.server.broker.broker import Broker
from ottla.server.metadata.image import BROKER as BROKER_RESOURCE
from ottla.server.network.tls_listener import TlsListener
from ottla.server.settings.broker_config import BrokerConfig
from ottla.wire.errors import ErrorCode
from ottla.wire.messages import describe_configs, incremental_alter_configs, metadata
from ottla.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.asking import ask

ROOT = authority()
BROKER = issue("broker", ROOT)
OWN = "listener.name.secure."


class Rig:
    """A broker with a listener for TLS, one in plain text for its administration, and its files in a directory."""

    def __init__(self, directory: Path, settings: dict[str, str], own: Holder = BROKER) -> None:
        self.store = directory / "broker.p12"
        self.store.write_bytes(own.pkcs12())
        self.data = directory / "data"
        texts = {
            "listeners": "SECURE://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
            "listener.security.protocol.map": "SECURE:SSL,PLAINTEXT:PLAINTEXT",
            "log.dirs": str(self.data),
            OWN + "ssl.keystore.location": str(self.store),
            OWN + "ssl.keystore.password": PASSWORD,
            OWN + "ssl.keystore.type": "PKCS12",
        }
        self.config, unknown = BrokerConfig.from_mapping(texts | settings)
        assert not unknown
        self.broker = Broker(self.config)

    @property
    def secure(self) -> TlsListener:
        listener = self.broker.listeners[0]
        assert isinstance(listener, TlsListener)
        return listener

    async def serial(self, listener: int = 0) -> int:
        """The number of the certificate that a client is shown now."""
        port = self.broker.listeners[listener].port
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client_context(ROOT))
        shown = writer.get_extra_info("ssl_object").getpeercert()["serialNumber"]
        writer.close()
        return int(shown, 16)

    async def set(self, **settings: str) -> tuple[int, str | None]:
        """Sets settings of the secured listener, with `_` for `.`; returns the error's code and text."""
        configs = [AlterableConfig(OWN + name.replace("_", "."), 0, value) for name, value in settings.items()]
        request = IncrementalAlterConfigsRequest([AlterConfigsResource(BROKER_RESOURCE, "1", configs)])
        answer = await ask(self.broker.listeners[1].port, incremental_alter_configs, 1, request)
        return answer.responses[0].error_code, answer.responses[0].error_message


def run(directory: Path, scenario: Callable[[Rig], Awaitable[None]], own: Holder = BROKER, **settings: str) -> None:
    async def main() -> None:
        rig = Rig(directory, {name.replace("_", "."): value for name, value in settings.items()}, own)
        await rig.broker.start()
        try:
            await asyncio.wait_for(scenario(rig), 60)
        finally:
            await rig.broker.stop()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())


def lines(caplog: pytest.LogCaptureFixture, level: int = logging.INFO) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.name == "ottla.server.listener" and each.levelno >= level]


async def ask_secured(port: int, context: ssl.SSLContext) -> metadata.MetadataResponse:
    """Asks for the metadata over TLS."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    body: list[bytes] = []
    metadata.ENCODE_REQUEST[5](metadata.MetadataRequest(topics=None), body)
    frame = b"\0\3\0\5\0\0\0\7\xff\xff" + b"".join(body)
    writer.write(len(frame).to_bytes(4, "big") + frame)
    answer = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
    writer.close()
    found: metadata.MetadataResponse = metadata.DECODE_RESPONSE[5](answer, 4)[0]
    return found


def test_clients_over_tls_see_the_address_of_their_listener(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(rig: Rig) -> None:
        found = await ask_secured(rig.secure.port, client_context(ROOT))
        assert [each.port for each in found.brokers] == [rig.secure.port]
        plain = await ask(rig.broker.listeners[1].port, metadata, 5, metadata.MetadataRequest(topics=None))
        assert [each.port for each in plain.brokers] == [rig.broker.listeners[1].port]

    with caplog.at_level(logging.INFO):
        run(tmp_path, scenario)
    day = BROKER.certificate.not_valid_after_utc.date()
    assert f"listener SECURE is CN=broker,O=Ottla, which ends on {day}" in lines(caplog)


def test_passwords_are_described_as_null(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        request = DescribeConfigsRequest([DescribeConfigsResource(BROKER_RESOURCE, "1", None)], include_synonyms=True)
        answer = await ask(rig.broker.listeners[1].port, describe_configs, 4, request)
        found = {each.name: each for each in answer.results[0].configs}
        password = found[OWN + "ssl.keystore.password"]
        assert password.value is None
        assert password.is_sensitive
        assert [each.value for each in password.synonyms] == [None]
        assert found[OWN + "ssl.keystore.location"].value == str(rig.store)
        assert PASSWORD not in str(answer)

    run(tmp_path, scenario)


def test_a_store_that_is_wrong_keeps_the_broker_from_starting_and_leaves_nothing_behind(tmp_path: Path) -> None:
    async def main(rig: Rig) -> None:
        with pytest.raises(ConfigError) as error:
            await rig.broker.start()
        assert str(error.value).startswith(OWN + "ssl.keystore.password: it does not open")

    wrong = Rig(tmp_path, {OWN + "ssl.keystore.password": "another"})
    asyncio.run(main(wrong))
    assert not wrong.data.exists()


def test_the_same_with_a_directory_that_is_in_use(tmp_path: Path) -> None:
    async def nothing(_: Rig) -> None:
        pass

    async def main(rig: Rig) -> None:
        with pytest.raises(ConfigError, match="the certificate expired on"):
            await rig.broker.start()

    run(tmp_path, nothing)
    asyncio.run(main(Rig(tmp_path, {}, issue("broker", ROOT, days=-1))))
    run(tmp_path, nothing)


def test_a_changed_file_is_seen(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(rig: Rig) -> None:
        assert rig.broker.secured is not None
        assert await rig.serial() == BROKER.certificate.serial_number
        renewed = issue("broker", ROOT)
        rig.store.write_bytes(renewed.pkcs12())
        rig.broker.secured.reload()
        assert await rig.serial() == renewed.certificate.serial_number
        rig.store.write_bytes(issue("other", ROOT).pkcs12())
        rig.broker.secured.reload()
        rig.broker.secured.reload()
        assert await rig.serial() == renewed.certificate.serial_number

    with caplog.at_level(logging.INFO):
        run(tmp_path, scenario)
    assert (
        len([line for line in lines(caplog) if line.startswith("listener SECURE has a new certificate, CN=broker,O=Ottla")]) == 1
    )
    (refused,) = lines(caplog, logging.ERROR)
    assert refused.startswith(
        f"listener SECURE keeps its certificate, because the new one cannot be used: {OWN}ssl.keystore.location"
    )


def test_a_listener_that_keeps_its_certificate_keeps_no_other_from_a_new_one(tmp_path: Path) -> None:
    beside = tmp_path / "beside.p12"
    beside.write_bytes(BROKER.pkcs12())
    settings = {
        "listeners": "SECURE://127.0.0.1:0,PLAINTEXT://127.0.0.1:0,BESIDE://127.0.0.1:0",
        "listener.security.protocol.map": "SECURE:SSL,PLAINTEXT:PLAINTEXT,BESIDE:SSL",
        "listener.name.beside.ssl.keystore.location": str(beside),
        "listener.name.beside.ssl.keystore.password": PASSWORD,
        "listener.name.beside.ssl.keystore.type": "PKCS12",
    }

    async def scenario(rig: Rig) -> None:
        assert rig.broker.secured is not None
        renewed = issue("broker", ROOT)
        rig.store.write_bytes(b"no keystore")
        beside.write_bytes(renewed.pkcs12())
        rig.broker.secured.reload()
        assert await rig.serial() == BROKER.certificate.serial_number
        assert await rig.serial(listener=2) == renewed.certificate.serial_number

    run(tmp_path, scenario, BROKER, **{name.replace(".", "_"): value for name, value in settings.items()})


def test_clients_have_it_read_again_and_hear_what_is_wrong(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        renewed = issue("broker", ROOT)
        rig.store.write_bytes(renewed.pkcs12())
        assert await rig.set(ssl_keystore_location=str(rig.store)) == (0, None), "the same text again"
        assert await rig.serial() == renewed.certificate.serial_number

        code, text = await rig.set(ssl_keystore_password="another")
        assert (code, (text or "").partition(" it does")[0]) == (ErrorCode.INVALID_REQUEST, f"{OWN}ssl.keystore.password:")

        beside = rig.store.with_name("next.p12")
        beside.write_bytes(issue("other", ROOT).pkcs12("other"))
        code, text = await rig.set(ssl_keystore_location=str(beside), ssl_keystore_password="other")
        assert (code, "is for CN=other,O=Ottla, not CN=broker" in (text or "")) == (ErrorCode.INVALID_REQUEST, True)

        third = issue("broker", ROOT)
        beside.write_bytes(third.pkcs12("other"))
        assert await rig.set(ssl_keystore_location=str(beside), ssl_keystore_password="other") == (0, None)
        assert await rig.serial() == third.certificate.serial_number

    run(tmp_path, scenario)


@pytest.mark.parametrize("where", ["../broker.p12", "/etc/passwd", "${file:/etc/passwd:x}", "http://other.test/store"])
def test_clients_may_not_have_other_files_read(where: str, tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        path = where if not where.startswith("..") else str(rig.store.parent / where)
        code, text = await rig.set(ssl_keystore_location=path)
        assert code == ErrorCode.INVALID_REQUEST
        assert (text or "").startswith(f"{OWN}ssl.keystore.location: a client may only name a store in {tmp_path}, where")
        code, text = await rig.set(ssl_truststore_location=str(rig.store))
        assert code == ErrorCode.INVALID_REQUEST
        assert "a client may only name a store in the file of settings, where there is none" in (text or "")

    run(tmp_path, scenario)


def test_other_settings_can_change_while_a_file_is_missing(tmp_path: Path) -> None:
    async def scenario(rig: Rig) -> None:
        rig.store.unlink()
        assert await rig.set(max_connections="7") == (0, None)
        assert rig.secure.max_own_connections == 7
        assert rig.broker.listeners[1].max_own_connections > 7

    run(tmp_path, scenario)


def test_who_may_come_in_can_change(tmp_path: Path) -> None:
    trust = tmp_path / "trust.pem"
    trust.write_text(ROOT.chain_pem())

    async def scenario(rig: Rig) -> None:
        anonymous = client_context(ROOT)
        anonymous.maximum_version = ssl.TLSVersion.TLSv1_2
        assert (await ask_secured(rig.secure.port, anonymous)).brokers
        assert await rig.set(ssl_client_auth="required") == (0, None)
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await ask_secured(rig.secure.port, anonymous)
        assert (await ask_secured(rig.secure.port, client_context(ROOT, issue("alice", ROOT), tmp_path))).brokers

    run(tmp_path, scenario, ssl_truststore_type="PEM", ssl_truststore_location=str(trust))


def test_the_controllers_listener_is_secured_as_well(tmp_path: Path) -> None:
    rig = Rig(
        tmp_path,
        {
            "controller.listener.names": "CONTROLLER",
            "listeners": "SECURE://127.0.0.1:0,PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
            "listener.security.protocol.map": "SECURE:SSL,PLAINTEXT:PLAINTEXT,CONTROLLER:SSL",
        },
    )
    with pytest.raises(ConfigError, match=r"ssl\.keystore\.location: listener CONTROLLER uses SSL"):
        asyncio.run(rig.broker.start())
    assert not rig.data.exists()

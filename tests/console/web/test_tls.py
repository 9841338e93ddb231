"""The key and the certificate of the console, of each kind of file, and the names in it."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from compat_tests.certificates import PASSWORD, Holder, issue
from compat_tests.security.tls_files import BROKER, ROOT
from ottla.commands.output import Failure
from ottla.console.web.tls import RenewedKeystore, context_of, load_keystore

VARIABLE = "KEYSTORE_PASSWORD"


def written(directory: Path, name: str, holder: Holder = BROKER) -> Path:
    path = directory / name
    data = {".p12": holder.pkcs12, ".jks": holder.jks, ".pem": lambda: holder.pem().encode()}[path.suffix]()
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("name", ["a.pem", "a.p12", "a.jks"])
def test_each_kind_of_file(tmp_path: Path, name: str) -> None:
    password = None if name == "a.pem" else PASSWORD
    pem, names = load_keystore(written(tmp_path, name), password, VARIABLE)
    assert names == ("localhost", "127.0.0.1")
    context = context_of(pem)
    assert context.minimum_version.name == "TLSv1_2"


def test_a_key_that_is_encrypted(tmp_path: Path) -> None:
    path = tmp_path / "a.pem"
    path.write_text(BROKER.pem("secret"))
    assert load_keystore(path, "secret", VARIABLE)[1] == ("localhost", "127.0.0.1")
    for wrong in ("wrong", None):
        with pytest.raises(Failure, match=f"^{VARIABLE}: "):
            load_keystore(path, wrong, VARIABLE)


def test_an_authority_names_no_host(tmp_path: Path) -> None:
    assert load_keystore(written(tmp_path, "a.pem", ROOT), None, VARIABLE)[1] == ()


def test_a_renewed_certificate_is_read_and_nonsense_changes_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "ottla.console")
    path = written(tmp_path, "a.p12")
    keys = RenewedKeystore(path, PASSWORD, VARIABLE)
    first = keys.context()
    assert keys.context() is first
    path.write_bytes(b"half of it")
    assert [keys.context() for _ in range(3)] == [first] * 3
    path.unlink()
    assert keys.context() is first
    goes_on = "the console goes on with the certificate that it has"
    assert [message.partition(": ")[0] for message in caplog.messages] == [goes_on] * 2
    written(tmp_path, "a.p12", issue("broker", ROOT))
    second = keys.context()
    assert second is not first
    assert keys.context() is second
    written(tmp_path, "a.p12", issue("broker", ROOT, hosts=("localhost", "b.test", "a.test")))
    assert keys.context() is not second
    assert caplog.messages[-1] == "the console answers to the names of its start only; start it again for a.test, b.test"
    assert keys.names == ("localhost", "127.0.0.1")


def test_a_key_of_another_certificate_cannot_be_used() -> None:
    with pytest.raises(Failure, match="cannot be used"):
        context_of((BROKER.key_pem() + ROOT.chain_pem()).encode())

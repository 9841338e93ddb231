"""JKS keystores: what keytool writes is read, and every other byte is refused."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_der_private_key

from compat_tests.certificates import PASSWORD, authority, issue, jks
from ottla.security.jks import Jks, NotJks, WrongPassword, read, unprotect


def keytool(*arguments: str) -> None:
    done = subprocess.run(["keytool", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.oracle
def test_what_keytool_writes_is_read(tmp_path: Path) -> None:
    path = str(tmp_path / "store.jks")
    store = ("-keystore", path, "-storetype", "JKS", "-storepass", PASSWORD)
    keytool("-genkeypair", "-alias", "own", "-keyalg", "EC", "-dname", "CN=broker", "-keypass", "key-secret", *store)
    (tmp_path / "ca.pem").write_text(authority().chain_pem())
    keytool("-importcert", "-noprompt", "-alias", "ca", "-file", str(tmp_path / "ca.pem"), *store)
    data = Path(path).read_bytes()
    found = read(data, PASSWORD)
    ((alias, protected, chain),) = found.keys
    assert alias == "own"
    assert x509.load_der_x509_certificate(chain[0]).subject.rfc4514_string() == "CN=broker"
    assert found.trusted == [authority().certificate.public_bytes(Encoding.DER)]
    key = load_der_private_key(unprotect(protected, "key-secret"), None)
    assert key.public_key() == x509.load_der_x509_certificate(chain[0]).public_key()
    with pytest.raises(WrongPassword):
        unprotect(protected, PASSWORD)
    with pytest.raises(WrongPassword):
        read(data, "another")
    assert read(data, None) == found


def test_keys_and_certificates_in_their_order() -> None:
    holder = issue("broker", authority())
    der = holder.key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    store = read(jks("pässword", keys=[(der, "one", [b"a", b"b"]), (der, "two", [])], trusted=[b"c", b"d"]), "pässword")
    assert [(each.alias, each.chain) for each in store.keys] == [("key0", [b"a", b"b"]), ("key1", [])]
    assert store.trusted == [b"c", b"d"]
    assert [unprotect(each.protected, password) for each, password in zip(store.keys, ("one", "two"), strict=True)] == [der, der]


def test_the_first_version_has_no_kinds_of_certificates() -> None:
    data = bytearray(jks("p", trusted=[b"cert"]))
    kind = data.index(b"\0\5X.509")
    first = bytes(data[:4]) + b"\0\0\0\1" + bytes(data[8:kind]) + bytes(data[kind + 7 :])
    assert read(first, None) == Jks([], [b"cert"])


def test_every_cut_and_every_changed_byte_is_noticed() -> None:
    data = jks(PASSWORD, keys=[(b"key", "p", [b"one"])], trusted=[b"two"])
    for end in range(len(data)):
        with pytest.raises((NotJks, WrongPassword)):
            read(data[:end], PASSWORD)
    for at in range(len(data)):
        with pytest.raises((NotJks, WrongPassword)):
            read(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :], PASSWORD)
    with pytest.raises(NotJks, match="more follows"):
        read(data + b"\0", PASSWORD)


@pytest.mark.parametrize(
    "protected", [b"", b"\x30\x00", b"\x04\x01a", b"\x30\x04\x30\x00\x04\x00", b"\x30\x07\x30\x03\x06\x01\x2a\x04\x00"]
)
def test_a_key_that_is_protected_in_another_way(protected: bytes) -> None:
    with pytest.raises(NotJks):
        unprotect(protected, "p")

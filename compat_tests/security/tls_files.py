"""The files of a secured broker and its clients: stores of every kind, written by keytool and as PEM, and client certificates.

The same files serve ottla and Apache Kafka.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from compat_tests.certificates import PASSWORD, Holder, authority, issue

ROOT = authority()
FOREIGN = authority("foreign")
BROKER = issue("broker", ROOT)
ALICE = issue("alice", ROOT)
STRANGER = issue("alice", FOREIGN)
LATE = issue("alice", ROOT, days=-1)


class Files:
    """Writes what tests need into one directory, each file once."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)

    def _write(self, name: str, data: bytes | str) -> str:
        path = self.directory / name
        if not path.exists():
            path.write_bytes(data.encode() if isinstance(data, str) else data)
        return str(path)

    def replace(self, name: str, text: str) -> None:
        """Replaces a file in one step, as who renews a certificate should."""
        beside = self.directory / f"{name}.new"
        beside.write_text(text)
        beside.rename(self.directory / name)

    def authority(self, of: Holder = ROOT) -> str:
        """The certificate of an authority, as PEM."""
        return self._write(f"{of.certificate.serial_number}.ca.pem", of.chain_pem())

    def certificate(self, of: Holder) -> str:
        """A certificate with those above it, as PEM."""
        return self._write(f"{of.certificate.serial_number}.crt", of.chain_pem())

    def key(self, of: Holder) -> str:
        """A private key, as PEM."""
        return self._write(f"{of.certificate.serial_number}.key", of.key_pem())

    def pkcs12(self, of: Holder) -> str:
        """A PKCS12 keystore with PASSWORD."""
        return self._write(f"{of.certificate.serial_number}.p12", of.pkcs12())

    def jks(self, of: Holder) -> str:
        """A JKS keystore with PASSWORD, which keytool has made of the PKCS12 one."""
        path = self.directory / f"{of.certificate.serial_number}.jks"
        if not path.exists():
            source = ("-srckeystore", self.pkcs12(of), "-srcstoretype", "PKCS12", "-srcstorepass", PASSWORD)
            keytool("-importkeystore", *source, "-destkeystore", str(path), "-deststoretype", "JKS", "-deststorepass", PASSWORD)
        return str(path)

    def trust_jks(self, of: Holder = ROOT, kind: str = "JKS") -> str:
        """A truststore with PASSWORD that has one authority."""
        path = self.directory / f"{of.certificate.serial_number}.trust.{kind.lower()}"
        if not path.exists():
            where = ("-keystore", str(path), "-storetype", kind, "-storepass", PASSWORD)
            keytool("-importcert", "-noprompt", "-alias", "ca", "-file", self.authority(of), *where)
        return str(path)


def keytool(*arguments: str) -> None:
    """Runs Java's keytool, which has to succeed."""
    done = subprocess.run(["keytool", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def inline(pem: str) -> str:
    """PEM as the value of a setting in a .properties file: one line."""
    return pem.replace("\n", "\\n")

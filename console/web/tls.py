"""The parts that the console needs to speak TLS: a key with its certificate, from a file, and what OpenSSL makes of them.

Its names are those of the certificate: browsers would take no other, and the console answers to no other (security.py). They are
read once; key and certificate are read again when the file is another one, since a certificate has to be renewed every few weeks.
"""

from __future__ import annotations

import logging
import ssl
import time
from pathlib import Path
from typing import Any, Final

from ottla.commands.output import Failure
from ottla.console.web.file_state import state_of
from ottla.log.config_def import ConfigError, Secret
from ottla.security.pem import load_pem

_KINDS: Final = {".p12": "PKCS12", ".pfx": "PKCS12", ".jks": "JKS"}
"""By the end of the name; every other file is PEM."""
_log: Final = logging.getLogger("ottla.console")


class _Keystore:
    """The file of `--keystore`, as security/keystores.py asks for its settings."""

    name = "console"
    protocol = "SSL"

    def __init__(self, path: Path, password: str | None, variable: str) -> None:
        self._variable = variable
        kind = _KINDS.get(path.suffix.lower(), "PEM")
        secret = Secret(password) if password else None
        which = "ssl.key.password" if kind == "PEM" else "ssl.keystore.password"  # of a PEM file only the key is encrypted
        self._values: dict[str, Any] = {"ssl.keystore.type": kind, "ssl.keystore.location": str(path), which: secret}

    def __getitem__(self, setting: str) -> Any:
        return self._values.get(setting)

    def written_name(self, setting: str, /) -> str:
        return self._variable if setting.endswith("password") else "--keystore"


def load_keystore(path: Path, password: str | None, variable: str) -> tuple[bytes, tuple[str, ...]]:
    """Returns the key and the certificates in a PEM, PKCS12 or JKS file, as PEM, and the names in the certificate. Raises
    Failure, which calls the password by its `variable`."""
    from ottla.security.keystores import load_identity  # a console without TLS has no use for cryptography

    try:
        identity = load_identity(
            _Keystore(path, password, variable), lambda name: Path(name).read_bytes(), int(time.time() * 1000)
        )
    except ConfigError as error:
        text = str(error).replace("ssl.keystore.password", variable).replace("ssl.key.password", variable)
        raise Failure(text) from None
    return identity.pem(), identity.host_names


def context_of(pem: bytes) -> ssl.SSLContext:
    """Returns how a server with this key and these certificates speaks TLS: 1.2 and 1.3, without client certificates. Raises
    Failure."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    try:
        load_pem(context, pem)
    except ssl.SSLError as error:
        raise Failure(f"the console's key and certificate cannot be used: {error.reason or error}") from None
    return context


class RenewedKeystore:
    """A keystore's file, as it is now: `names` are those of the start, and `context` has the key and the certificate of
    now. Raises Failure if it cannot be used at the start."""

    def __init__(self, path: Path, password: str | None, variable: str) -> None:
        self._path, self._password, self._variable = path, password, variable
        self._seen = state_of(path)
        pem, self.names = load_keystore(path, password, variable)
        self._context = context_of(pem)

    def context(self) -> ssl.SSLContext:
        """Returns how to speak TLS with who connects now. While the file cannot be used, as it may be in the middle of being
        written, what was there before counts on, and the log says so once."""
        seen = state_of(self._path)
        if seen != self._seen:
            self._seen = seen
            try:
                pem, names = load_keystore(self._path, self._password, self._variable)
                self._context = context_of(pem)
            except Failure as error:
                _log.error("the console goes on with the certificate that it has: %s", error)
                return self._context
            _log.info("the console has another certificate, as %s is another file", self._path)
            if more := sorted(set(names) - set(self.names)):
                _log.warning("the console answers to the names of its start only; start it again for %s", ", ".join(more))
        return self._context

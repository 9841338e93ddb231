"""TlsContexts: the `ssl.SSLContext` of one listener, made of its settings, and made anew when they or its files change.

A context is never changed: connections keep the one with which they came, and later ones get the new one. A file or setting that
cannot be used leaves the old context in place. Neither does a new certificate with another name replace the old one, since
clients know the broker by that, unless `ssl.allow.dn.changes` lets the subject change, or `ssl.allow.san.changes` lets
alternative names go.

What is asked of TLS here and is not available is refused by name: a provider, engine or algorithm of Java's, a cipher suite that
OpenSSL does not have, some of the cipher suites of TLS 1.3 without the others (Python cannot choose among them).
"""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from cryptography.hazmat.primitives.serialization import Encoding

from ottla.log.config_def import ConfigError
from ottla.security.cipher_suites import TLS13_SUITES, openssl_name
from ottla.security.keystores import Identity, ReadFile, load_authorities, load_identity
from ottla.security.pem import load_pem
from ottla.server.security.certificate_names import RULES, PrincipalRules, distinguished_name
from ottla.server.security.settings import look_at_stores

if TYPE_CHECKING:
    from ottla.server.security.settings import ListenerSecurity

VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_OLD_VERSIONS: Final = frozenset(("TLSv1", "TLSv1.1"))
"""The versions that may be named and that neither Java nor OpenSSL speaks any more unless forced to."""
_PROTOCOLS: Final = frozenset((*VERSIONS, "TLS"))
_VERIFY: Final = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
_ONLY: Final = {
    "ssl.keymanager.algorithm": ("SunX509", "NewSunX509", "PKIX"),
    "ssl.trustmanager.algorithm": ("PKIX", "SunX509"),
    "ssl.provider": (None, ""),
    "ssl.engine.factory.class": (None, "", "org.apache.kafka.common.security.ssl.DefaultSslEngineFactory"),
    "principal.builder.class": (
        None,
        "",
        "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
    ),
}
"""Settings that name something of Java's, with the values that mean what OpenSSL and ottla do anyway."""
_OWN_KEY: Final = ("ssl.keystore.location", "ssl.keystore.key", "ssl.keystore.certificate.chain")
"""The settings of which one is there if there is a keystore."""


class NameChanged(ConfigError):
    """A new certificate has another name than the one in use, and that is not allowed."""


class TlsContexts:
    """Makes the contexts of one listener. `context` is for new connections, `rules` turn the names in certificates into users.

    Raises ConfigError, which begins with a setting, if the settings or files cannot be used.
    """

    def __init__(self, security: ListenerSecurity, read: ReadFile, now_ms: int) -> None:
        self._read = read
        self._security = security
        self._seen = look_at_stores(security, read)
        self._identity = load_identity(security, read, now_ms)
        self.context = make_context(security, self._identity, read)
        self.rules = PrincipalRules(security[RULES], security.written_name(RULES))

    def reload(self, security: ListenerSecurity, now_ms: int) -> bool:
        """Makes a new context if anything has changed since the last one was made or refused; returns whether there is a new
        one. Raises ConfigError, and keeps the old context, if what is there now cannot be used.
        """
        seen = look_at_stores(security, self._read)
        if seen == self._seen:
            return False
        self._seen = seen
        identity = load_identity(security, self._read, now_ms)
        check_names(security, self._identity, identity)
        context = make_context(security, identity, self._read)
        rules = PrincipalRules(security[RULES], security.written_name(RULES))
        self._security, self._identity, self.context, self.rules = security, identity, context, rules
        return True

    def check(self, security: ListenerSecurity, now_ms: int) -> None:
        """Raises ConfigError if `reload` with these settings would."""
        identity = load_identity(security, self._read, now_ms)
        check_names(security, self._identity, identity)
        make_context(security, identity, self._read)

    @property
    def subject(self) -> str:
        """The distinguished name of the certificate in use."""
        return distinguished_name(self._identity.subject)

    @property
    def expires_ms(self) -> int:
        """Returns when the certificate in use expires, in ms since 1970."""
        return int(self._identity.chain[0].not_valid_after_utc.timestamp() * 1000)


class HandshakeFailed(Exception):
    """Holds the alert by which OpenSSL would tell a client why its handshake failed; an ssl.SSLError has it as its cause."""

    def __init__(self, alert: bytes) -> None:
        super().__init__("the handshake failed")
        self.alert = alert


class _SSLObject(ssl.SSLObject):
    """Keeps the last words of a handshake that fails. Event loops close the connection without sending them, and the client would
    not learn that it is its certificate that is wrong, but try again and again."""

    outgoing: ssl.MemoryBIO

    def do_handshake(self) -> None:
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError as error:
            raise error from HandshakeFailed(self.outgoing.read())


class _SSLContext(ssl.SSLContext):
    """Makes connections that keep their last words."""

    sslobject_class = _SSLObject

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        made = super().wrap_bio(incoming, outgoing, server_side, server_hostname, session)
        assert isinstance(made, _SSLObject)
        made.outgoing = outgoing
        return made


def alert_of(error: BaseException) -> bytes:
    """Returns the bytes that tell a client why its handshake failed with this error; none if OpenSSL has nothing to say."""
    return error.__cause__.alert if isinstance(error.__cause__, HandshakeFailed) else b""


def check_names(security: ListenerSecurity, old: Identity, new: Identity) -> None:
    """Raises NameChanged if the new certificate may not take the place of the old one."""
    place = security.written_name("ssl.keystore.location")
    if old.subject != new.subject and not security["ssl.allow.dn.changes"]:
        raise NameChanged(
            f"{place}: the new certificate is for {distinguished_name(new.subject)}, not {distinguished_name(old.subject)}; keep "
            "the name, or set ssl.allow.dn.changes=true and restart"
        )
    lost = sorted(old.alternative_names - new.alternative_names)
    if lost and not security["ssl.allow.san.changes"]:
        names = ", ".join(each.partition(":")[2] for each in lost)
        raise NameChanged(
            f"{place}: the new certificate lacks alternative names of the old one ({names}); add them, or set "
            "ssl.allow.san.changes=true and restart"
        )


def make_context(security: ListenerSecurity, identity: Identity, read: ReadFile) -> ssl.SSLContext:
    """Returns a context for a listener that is this identity. Raises ConfigError."""
    context = _SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _set_up(context, security)
    _load_chain(context, identity, security.written_name("ssl.keystore.location"))
    context.verify_mode = _VERIFY[security["ssl.client.auth"]]
    if not trust(context, security, read) and context.verify_mode is not ssl.CERT_NONE:
        raise ConfigError(
            f"{security.written_name('ssl.truststore.location')}: ssl.client.auth={security['ssl.client.auth']} needs a "
            "truststore with the authorities that sign the certificates of clients; name one"
        )
    return context


def make_client_context(security: ListenerSecurity, read: ReadFile, now_ms: int) -> ssl.SSLContext:
    """Returns a context for connections to such a listener of other nodes. Without a keystore this node has no certificate to
    show, and without a truststore the system's authorities are trusted, as those of Java are by Kafka. Raises ConfigError."""
    name = "ssl.endpoint.identification.algorithm"
    algorithm: str = security[name] or ""
    if algorithm.lower() not in ("https", ""):
        raise ConfigError(f"{security.written_name(name)}: '{algorithm}' is not checked here; use https, or nothing for no check")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = bool(algorithm)
    _set_up(context, security)
    if any(security[each] for each in _OWN_KEY):
        _load_chain(context, load_identity(security, read, now_ms), security.written_name("ssl.keystore.location"))
    if not trust(context, security, read):
        context.load_default_certs()
    return context


def _set_up(context: ssl.SSLContext, security: ListenerSecurity) -> None:
    """Sets what is the same at both ends. Raises ConfigError."""
    for setting, values in _ONLY.items():
        if security[setting] not in values:
            raise ConfigError(
                f"{security.written_name(setting)}: '{security[setting]}' needs Java, and ottla uses OpenSSL; remove it"
            )
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    _set_versions(context, security)


def trust(context: ssl.SSLContext, security: ListenerSecurity, read: ReadFile) -> bool:
    """Has a context trust what is in the truststore; returns whether there is one. Raises ConfigError."""
    authorities = load_authorities(security, read)
    if authorities is None:
        return False
    # As in Java, whatever is in the truststore is trusted, be it an authority that another one signed, or a client itself.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_verify_locations(cadata=b"".join(each.public_bytes(Encoding.DER) for each in authorities))
    return True


def _set_versions(context: ssl.SSLContext, security: ListenerSecurity) -> None:
    """Sets the versions of TLS and the cipher suites. Raises ConfigError."""
    name = security.written_name("ssl.protocol")
    if security["ssl.protocol"] not in _PROTOCOLS:
        raise ConfigError(f"{name}: '{security['ssl.protocol']}' is not supported; use {' or '.join(VERSIONS)}")
    named: Sequence[str] = security["ssl.enabled.protocols"]
    name = security.written_name("ssl.enabled.protocols")
    if unknown := [each for each in named if each not in VERSIONS and each not in _OLD_VERSIONS]:
        raise ConfigError(f"{name}: '{unknown[0]}' is not a version of TLS; use {' and '.join(VERSIONS)}")
    enabled = {each for each in named if each in VERSIONS}
    if suites := security["ssl.cipher.suites"]:
        enabled = _set_suites(context, suites, enabled, security.written_name("ssl.cipher.suites"))
    if not enabled:
        raise ConfigError(f"{name}: none of '{','.join(named)}' is supported; use {' and '.join(VERSIONS)}")
    context.minimum_version = min(VERSIONS[each] for each in enabled)
    context.maximum_version = max(VERSIONS[each] for each in enabled)


def _set_suites(context: ssl.SSLContext, suites: Sequence[str], versions: set[str], name: str) -> set[str]:
    """Lets a context use only these cipher suites; returns which of the versions have any of them. Raises ConfigError."""
    newer = [each for each in suites if each in TLS13_SUITES]
    older = [each for each in suites if each not in TLS13_SUITES]
    left = set(versions)
    if not newer:
        left.discard("TLSv1.3")
    elif "TLSv1.3" in left and (missing := [each for each in TLS13_SUITES if each not in newer]):
        raise ConfigError(
            f"{name}: the cipher suites of TLS 1.3 go together here, and {missing[0]} is missing; name all of them "
            f"({', '.join(TLS13_SUITES)}) or none, or leave TLSv1.3 out of ssl.enabled.protocols"
        )
    if not older:
        left.discard("TLSv1.2")
    else:
        for suite in older:
            if not _has(context, suite):
                raise ConfigError(f"{name}: '{suite}' is not a cipher suite that OpenSSL has; remove it")
        context.set_ciphers(":".join(map(openssl_name, older)))
    if not left:
        raise ConfigError(f"{name}: no enabled version of TLS has any of these; name suites of {' or '.join(sorted(versions))}")
    return left


def _has(context: ssl.SSLContext, suite: str) -> bool:
    """Returns whether OpenSSL has a suite of TLS 1.2. It says so of one at a time, and the context then uses only that."""
    try:
        context.set_ciphers(openssl_name(suite))
    except (KeyError, ssl.SSLError):
        return False
    return True


def _load_chain(context: ssl.SSLContext, identity: Identity, place: str) -> None:
    """Gives a context its key and certificates. Raises ConfigError."""
    try:
        load_pem(context, identity.pem())
    except ssl.SSLError as error:
        raise ConfigError(f"{place}: OpenSSL does not take this key ({error.reason or error}); make a stronger one") from error

"""The Kerberos of a listener: from its settings and its keytab to what accepts tickets, by the package gssapi (the system's MIT
Kerberos).

The login module is Java's, and its options mean what they mean there:

    com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true keyTab="/etc/kafka.keytab"
    principal="kafka/broker.example.com@EXAMPLE.COM";

Accepting takes the keytab alone. The KDC is never asked, so a broker starts without one, unlike Kafka's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ottla.log.config_def import ConfigError
from ottla.server.security.gssapi import Gssapi, NotAccepted
from ottla.server.security.kerberos_names import RULES, LocalNames

if TYPE_CHECKING:
    from ottla.security.jaas import Module
    from ottla.server.security.kerberos_config import KerberosConfig
    from ottla.server.security.settings import ListenerSecurity

SERVICE: Final = "sasl.kerberos.service.name"
_MODULE_SERVICE: Final = "serviceName"
_LONGEST_NAME: Final = 1000


def load_gssapi(module: Module, module_setting: str, security: ListenerSecurity, config: KerberosConfig) -> Gssapi:
    """Returns the mechanism for a listener with this login module, which `module_setting` names. From now on the library goes by
    `config`, until that is closed. Raises ConfigError."""
    config.use()
    library = _library(security)
    keytab, principal = (module.option(name) for name in ("keyTab", "principal"))
    if (module.option("useKeyTab") or "").lower() != "true" or not keytab or not principal:
        raise ConfigError(
            f'{module_setting}: the broker needs a keytab; write useKeyTab=true keyTab="/path" principal="service/host@REALM"'
        )
    _check_service(module, module_setting, security)
    names = LocalNames(security[RULES], _default_realm(library), security.written_name(RULES))
    try:
        name = library.Name(principal, library.NameType.kerberos_principal)
        credentials = library.Credentials(
            name=name, usage="accept", mechs=[library.MechType.kerberos], store={"keytab": f"FILE:{keytab}"}
        )
    except library.exceptions.GSSError as error:
        why = _reason(error)
        remedy = "name a keytab that the broker can read and that has the key of this principal"
        raise ConfigError(f"{module_setting}: {keytab} does not serve as the keytab of {principal} ({why}); {remedy}") from None
    return Gssapi(lambda: _Context(library, credentials), names)


def _library(security: ListenerSecurity) -> Any:
    try:
        import gssapi
    except (ImportError, OSError):
        raise ConfigError(
            f"{security.written_name('sasl.enabled.mechanisms')}: GSSAPI needs the package gssapi; pip install '.[gssapi]', "
            "for which Debian has libkrb5-dev, or use another mechanism"
        ) from None
    return gssapi


def _check_service(module: Module, module_setting: str, security: ListenerSecurity) -> None:
    """Raises ConfigError unless the name of the service is given, and the same wherever it is given."""
    here, there = security[SERVICE] or "", module.option(_MODULE_SERVICE) or ""
    name = security.written_name(SERVICE)
    if not here and not there:
        raise ConfigError(f"{name}: it is not set; give the first part of the broker's principal, such as kafka")
    if here and there and here != there:
        raise ConfigError(f"{name}: it is {here}, but {module_setting} has {_MODULE_SERVICE}={there}; make them the same")


def _default_realm(library: Any) -> str:
    """Returns the realm that Kerberos's configuration gives to principals without one; empty if it gives none."""
    try:
        whole = library.Name("x", library.NameType.kerberos_principal).canonicalize(library.MechType.kerberos)
    except library.exceptions.GSSError:
        return ""
    return str(whole).rpartition("@")[2]


def _reason(error: Any) -> str:
    """Returns what the library says of an error, in one line."""
    return " ".join(str(error).split())


class _Context:
    """A context of the library."""

    def __init__(self, library: Any, credentials: Any) -> None:
        self._failure = library.exceptions.GSSError
        self._context = library.SecurityContext(creds=credentials, usage="accept")
        self._context.__DEFER_STEP_ERRORS__ = False  # or an error would come up with whatever is asked next

    @property
    def established(self) -> bool:
        return bool(self._context.complete)

    def accept(self, token: bytes) -> bytes:
        try:
            return self._context.step(token) or b""
        except self._failure as error:
            raise NotAccepted(_reason(error)) from None

    def client(self) -> str:
        try:
            name = str(self._context.initiator_name)
        except self._failure as error:
            raise NotAccepted(_reason(error)) from None
        except UnicodeDecodeError:
            raise NotAccepted("its principal is not UTF-8") from None
        if len(name) > _LONGEST_NAME:
            raise NotAccepted(f"its principal is longer than {_LONGEST_NAME} characters")
        return name

    def wrap(self, message: bytes) -> bytes:
        try:
            wrapped: bytes = self._context.wrap(message, False).message
        except self._failure as error:
            raise NotAccepted(_reason(error)) from None
        return wrapped

    def unwrap(self, token: bytes) -> bytes:
        try:
            message: bytes = self._context.unwrap(token).message
        except self._failure as error:
            raise NotAccepted(_reason(error)) from None
        return message

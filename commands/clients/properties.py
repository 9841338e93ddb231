"""The client.properties of Apache Kafka's tools, for librdkafka: what a file says in the words of the Java client.

    security.protocol=SASL_SSL
    sasl.mechanism=SCRAM-SHA-512
    sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username="me" password="secret";
    ssl.truststore.location=trust.jks
    ssl.truststore.password=secret

Stores are read here, whatever their kind, and become PEM in librdkafka's properties. So whoever is handed these properties, an
executor of Spark on another machine for example, needs none of the files. Names that both clients have keep their meaning, and
librdkafka's own names may stand in the same file.

| Java | librdkafka |
|---|---|
| ssl.truststore.* | ssl.ca.pem |
| ssl.keystore.*, ssl.key.password | ssl.certificate.pem, ssl.key.pem |
| sasl.jaas.config of PLAIN and SCRAM | sasl.username, sasl.password |
| sasl.jaas.config of OAUTHBEARER, sasl.oauthbearer.* | sasl.oauthbearer.* (oauth.py) |
| sasl.jaas.config of GSSAPI | sasl.kerberos.principal, sasl.kerberos.keytab |
| ssl.endpoint.identification.algorithm, empty | none |
| ssl.cipher.suites, by IANA's names | the same, by OpenSSL's names |

What has no counterpart is refused by a ConfigError, one line that begins with the property and holds no value that is secret.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from ottla.log.config_def import ConfigError, Secret

if TYPE_CHECKING:
    from ottla.security.jaas import Module
    from ottla.security.keystores import ReadFile

JAAS: Final = "sasl.jaas.config"
MECHANISM: Final = "sasl.mechanism"
_KEYSTORE: Final = (
    "ssl.keystore.type",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.key",
    "ssl.keystore.certificate.chain",
)
_TRUSTSTORE: Final = ("ssl.truststore.type", "ssl.truststore.location", "ssl.truststore.password", "ssl.truststore.certificates")
_SECRET: Final = frozenset(
    {
        "ssl.keystore.password",
        "ssl.keystore.key",
        "ssl.keystore.certificate.chain",
        "ssl.key.password",
        "ssl.truststore.password",
        "ssl.truststore.certificates",
    }
)
_BOTH_VERSIONS: Final = frozenset({"TLSv1.2,TLSv1.3", "TLSv1.3,TLSv1.2", "TLSv1.2, TLSv1.3", "TLSv1.3, TLSv1.2"})
_OF_JAVA: Final[Mapping[str, tuple[frozenset[str], str]]] = {
    "ssl.enabled.protocols": (_BOTH_VERSIONS, "librdkafka always offers TLSv1.2 and TLSv1.3"),
    "ssl.protocol": (frozenset({"TLSv1.3", "TLS"}), "librdkafka always offers TLSv1.2 and TLSv1.3"),
    "ssl.keymanager.algorithm": (frozenset({"SunX509", "PKIX"}), "there is no Java here"),
    "ssl.trustmanager.algorithm": (frozenset({"SunX509", "PKIX"}), "there is no Java here"),
    "ssl.provider": (frozenset(), "there is no Java here"),
    "ssl.secure.random.implementation": (frozenset(), "there is no Java here"),
    "ssl.engine.factory.class": (frozenset(), "there is no Java here"),
    "security.providers": (frozenset(), "there is no Java here"),
    "sasl.client.callback.handler.class": (frozenset(), "there is no Java here"),
    "sasl.login.class": (frozenset(), "there is no Java here"),
    "config.providers": (frozenset(), "references to other places are not looked up; write the values themselves"),
    "bootstrap.controllers": (frozenset(), "the commands talk to brokers; give bootstrap.servers"),
}
"""Properties of Java's client without a counterpart: the values with which they change nothing, and why others are refused."""
_WITHOUT_EFFECT: Final = frozenset(
    {
        "default.api.timeout.ms",
        "retries",
        "sasl.kerberos.ticket.renew.jitter",
        "sasl.kerberos.ticket.renew.window.factor",
        "sasl.login.connect.timeout.ms",
        "sasl.login.read.timeout.ms",
        "sasl.login.retry.backoff.ms",
        "sasl.login.retry.backoff.max.ms",
        "sasl.login.refresh.buffer.seconds",
        "sasl.login.refresh.min.period.seconds",
        "sasl.login.refresh.window.factor",
        "sasl.login.refresh.window.jitter",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "auto.include.jmx.reporter",
        "key.serializer",
        "value.serializer",
        "key.deserializer",
        "value.deserializer",
    }
)
"""Properties about when Java's client tries something again, renews a login, or counts: they decide nothing here."""
_RENAMED: Final = {"send.buffer.bytes": "socket.send.buffer.bytes", "receive.buffer.bytes": "socket.receive.buffer.bytes"}


def translate(given: Mapping[str, str], read: ReadFile, now_ms: int) -> dict[str, str]:
    """Returns librdkafka's properties. `given` are those of a file; `now_ms` is the time, against which certificates are checked.
    Raises ConfigError."""
    found = {_RENAMED.get(name, name): text for name, text in given.items() if name not in _WITHOUT_EFFECT}
    for name, (harmless, why) in _OF_JAVA.items():
        text = found.pop(name, "").strip()
        if text and text not in harmless:
            raise ConfigError(f"{name}: '{text}' cannot be translated for librdkafka: {why}; remove it")
    protocol = found.get("security.protocol", "PLAINTEXT").strip().upper()
    if found.get("ssl.endpoint.identification.algorithm") == "":
        found["ssl.endpoint.identification.algorithm"] = "none"
    _translate_stores(found, protocol, read, now_ms)
    if "ssl.cipher.suites" in found:
        _translate_suites(found)
    if protocol.startswith("SASL_"):
        _translate_login(found)
    else:
        found.pop(JAAS, None)
    return found


# TLS


class _Stores:
    """The stores of a client, as ottla.security.keystores asks for them."""

    name = "of the client"

    def __init__(self, properties: Mapping[str, str], protocol: str) -> None:
        self.protocol = protocol
        self._properties = properties

    def __getitem__(self, setting: str) -> Any:
        text = self._properties.get(setting)
        if setting.endswith(".type"):
            return (text or "JKS").strip()
        if text is None or setting not in _SECRET:
            return text
        return Secret(text)

    def written_name(self, setting: str, /) -> str:
        return setting


def _translate_stores(properties: dict[str, str], protocol: str, read: ReadFile, now_ms: int) -> None:
    """Replaces the properties of stores by what is in them; without TLS they are taken away. Raises ConfigError."""
    stores = _Stores(
        {name: properties[name] for name in (*_KEYSTORE, *_TRUSTSTORE, "ssl.key.password") if name in properties}, protocol
    )
    given = {name for name in (*_KEYSTORE, *_TRUSTSTORE) if properties.pop(name, None)}
    if not protocol.endswith("SSL") or not given:
        return
    from ottla.security.keystores import load_authorities, load_identity, pem_of

    if given & {"ssl.keystore.location", "ssl.keystore.password", "ssl.keystore.key", "ssl.keystore.certificate.chain"}:
        identity = load_identity(stores, read, now_ms)
        properties.pop("ssl.key.password", None)
        properties["ssl.key.pem"] = identity.key_pem().decode()
        properties["ssl.certificate.pem"] = identity.chain_pem().decode()
    authorities = load_authorities(stores, read)
    if authorities is not None:
        properties["ssl.ca.pem"] = pem_of(authorities).decode()


def _translate_suites(properties: dict[str, str]) -> None:
    """Replaces IANA's names of cipher suites by OpenSSL's. Raises ConfigError."""
    from ottla.security.cipher_suites import TLS13_SUITES, openssl_name

    suites = [each.strip() for each in properties["ssl.cipher.suites"].split(",")]
    if not any(each.startswith("TLS_") for each in suites):
        return  # OpenSSL's names already
    newer = [each for each in suites if each in TLS13_SUITES]
    if len(newer) != len(TLS13_SUITES):
        raise ConfigError(
            "ssl.cipher.suites: librdkafka offers all suites of TLS 1.3; name all of them beside those of TLS 1.2 "
            f"({', '.join(TLS13_SUITES)}), or remove it"
        )
    try:
        older = [openssl_name(each) for each in suites if each not in TLS13_SUITES]
    except KeyError as error:
        raise ConfigError(f"ssl.cipher.suites: {error} is not a cipher suite that OpenSSL has; remove it") from None
    if older:
        properties["ssl.cipher.suites"] = ":".join(older)
    else:
        raise ConfigError("ssl.cipher.suites: librdkafka cannot leave out TLS 1.2; name suites of TLS 1.2 as well, or remove it")


# SASL


def _translate_login(properties: dict[str, str]) -> None:
    """Replaces the login module by librdkafka's properties. Raises ConfigError."""
    mechanism = properties.get(MECHANISM, "GSSAPI").strip()
    text = properties.pop(JAAS, "")
    module = _module(text, mechanism) if text else None
    if mechanism == "OAUTHBEARER":
        from ottla.commands.clients.oauth import translate_oauth

        translate_oauth(properties, module)
        return
    handler = properties.pop("sasl.login.callback.handler.class", "")
    if handler:
        raise ConfigError(
            f"sasl.login.callback.handler.class: '{handler}' is a class of Java, and there is no Java here; remove it"
        )
    if module is None:
        return  # librdkafka's own names are in the file, or it says what it lacks
    if mechanism == "GSSAPI":
        for option, name in (("principal", "sasl.kerberos.principal"), ("keyTab", "sasl.kerberos.keytab")):
            if value := module.option(option):
                properties[name] = value
        return
    if (module.option("tokenauth") or "").lower() == "true":
        raise ConfigError(f"{JAAS}: librdkafka cannot log in with a delegation token (tokenauth); give a user of {mechanism}")
    for option in ("username", "password"):
        value = module.option(option)
        if value is None:
            raise ConfigError(f'{JAAS}: the login module has no {option}; write {option}="..." into it')
        properties[f"sasl.{option}"] = value


def _module(text: str, mechanism: str) -> Module:
    """Returns the login module for this mechanism. Raises ConfigError."""
    from ottla.security.jaas import LOGIN_MODULES, parse_modules

    if mechanism not in LOGIN_MODULES:
        raise ConfigError(f"{MECHANISM}: '{mechanism}' is not known to ottla; use one of {', '.join(LOGIN_MODULES)}")
    try:
        modules = parse_modules(Secret(text))
    except ConfigError as error:
        raise ConfigError(f"{JAAS}: {error}") from None
    if len(modules) != 1:
        raise ConfigError(f"{JAAS}: there are {len(modules)} login modules in it; give one")
    if modules[0].name != LOGIN_MODULES[mechanism]:
        raise ConfigError(
            f"{JAAS}: {modules[0].name} does not log in with {mechanism}; the module for it is {LOGIN_MODULES[mechanism]}"
        )
    return modules[0]

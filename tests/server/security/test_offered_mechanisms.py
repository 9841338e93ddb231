"""Tests of which login module counts, and that whatever is wrong names the setting and what to do."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla.log.config_def import ConfigError, Secret
from ottla.security.jaas import LOGIN_MODULES
from ottla.server.base.randomness import from_seed
from ottla.server.security.credentials import Credentials
from ottla.server.security.jwks import NoKeys
from ottla.server.security.kerberos_config import KerberosConfig
from ottla.server.security.mechanism import Challenge, Done, Mechanism
from ottla.server.security.offered_mechanisms import Parts, load_mechanisms, read_jaas_file
from ottla.server.security.scram import Scram
from ottla.server.security.settings import ListenerSecurity
from ottla.server.settings.broker_config import BrokerConfig
from tests.fakes import ManualClock

OWN = "listener.name.door."
PLAIN, SCRAM = (f"org.apache.kafka.common.security.{each}LoginModule" for each in ("plain.Plain", "scram.Scram"))
USERS = f'{PLAIN} required user_alice="hunter2";'


def loaded(texts: dict[str, str], file: str = "") -> dict[str, Mechanism]:
    door = {"listeners": "DOOR://:0", "listener.security.protocol.map": "DOOR:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT"}
    config, _ = BrokerConfig.from_mapping(door | texts)
    security = ListenerSecurity("DOOR", "SASL_PLAINTEXT", config.texts, config.values)
    sections = read_jaas_file("jaas.conf" if file else "", lambda path: file.encode())
    opened = lambda source: NoKeys()  # noqa: E731
    credentials = Credentials(Secret("key"), ManualClock(), from_seed(1))
    parts = Parts(credentials, sections, from_seed(1), lambda: 0, ("file:///jwks.json",), opened, KerberosConfig(""))
    return load_mechanisms(security, parts)


def alice(found: dict[str, Mechanism], password: str = "hunter2") -> bool:
    return found["PLAIN"].begin().step(f"\0alice\0{password}".encode()) == Done("User:alice")


def test_mechanisms_in_the_order_of_the_setting() -> None:
    modules = {f"{OWN}{name.lower()}.sasl.jaas.config": f"{LOGIN_MODULES[name]} required;" for name in LOGIN_MODULES}
    wanted = ["SCRAM-SHA-512", "PLAIN", "SCRAM-SHA-256"]
    found = loaded({"sasl.enabled.mechanisms": ",".join(wanted), **modules})
    assert list(found) == wanted
    scram = found["SCRAM-SHA-512"]
    assert isinstance(scram, Scram)
    assert scram.digest == "sha512"
    nonces = {scram.make_nonce() for _ in range(100)}
    assert len(nonces) == 100
    assert {len(nonce) for nonce in nonces} == {32}
    assert not isinstance(scram.begin().step(b"n,,n=alice,r=x"), Challenge)


def test_the_setting_of_the_listener_and_mechanism_counts() -> None:
    on = {"sasl.enabled.mechanisms": "PLAIN"}
    assert alice(loaded({**on, f"{OWN}plain.sasl.jaas.config": USERS}))
    assert not alice(loaded({**on, f"{OWN}plain.sasl.jaas.config": USERS}), "other")
    own = {**on, f"{OWN}plain.sasl.jaas.config": USERS, f"{OWN}sasl.enabled.mechanisms": "PLAIN"}
    assert alice(loaded({**own, "sasl.enabled.mechanisms": "GSSAPI"}))
    assert alice(loaded(own, f"KafkaServer {{ {PLAIN} required user_alice=other; }};"))


@pytest.mark.parametrize("key", ["sasl.jaas.config", "plain.sasl.jaas.config", f"{OWN}sasl.jaas.config"])
def test_shorter_names_do_not_count(key: str) -> None:
    with pytest.raises(ConfigError, match=f"^{OWN}plain.sasl.jaas.config: PLAIN has no login module; set it to `{PLAIN}"):
        loaded({"sasl.enabled.mechanisms": "PLAIN", key: USERS})


def test_sections_of_the_file() -> None:
    on = {"sasl.enabled.mechanisms": "PLAIN"}
    everybody = f"KafkaServer {{ {SCRAM} required; {USERS} }};"
    assert alice(loaded(on, everybody))
    assert alice(loaded(on, f'{everybody} door.KafkaServer {{ {PLAIN} required user_alice="own"; }};'), "own")
    assert alice(loaded(on, f'{everybody} other.KafkaServer {{ {PLAIN} required user_alice="own"; }};'))


REFUSED: dict[str, tuple[dict[str, str], str, str]] = {
    "no mechanism": (
        {"sasl.enabled.mechanisms": ""},
        "",
        "sasl.enabled.mechanisms: no mechanism is enabled, but clients of DOOR have to log in; enable PLAIN or another",
    ),
    "unknown mechanism": (
        {f"{OWN}sasl.enabled.mechanisms": "PLAIN,plain", f"{OWN}plain.sasl.jaas.config": USERS},
        "",
        f"{OWN}sasl.enabled.mechanisms: plain is not a mechanism",
    ),
    "no module": ({"sasl.enabled.mechanisms": "PLAIN"}, "", f"{OWN}plain.sasl.jaas.config: PLAIN has no login module"),
    "no section": ({"sasl.enabled.mechanisms": "PLAIN"}, f"Other {{ {USERS} }};", f"{OWN}plain.sasl.jaas.config: PLAIN has no"),
    "does not parse": (
        {"sasl.enabled.mechanisms": "PLAIN", f"{OWN}plain.sasl.jaas.config": f"{PLAIN} required user_alice=hunter2"},
        "",
        f"{OWN}plain.sasl.jaas.config: a semicolon is missing",
    ),
    "two modules": (
        {"sasl.enabled.mechanisms": "PLAIN", f"{OWN}plain.sasl.jaas.config": USERS + USERS},
        "",
        f"{OWN}plain.sasl.jaas.config: it has 2 login modules; write one",
    ),
    "empty": (
        {"sasl.enabled.mechanisms": "PLAIN", f"{OWN}plain.sasl.jaas.config": ""},
        "",
        f"{OWN}plain.sasl.jaas.config: it has 0 login modules; write one",
    ),
    "another module": (
        {"sasl.enabled.mechanisms": "SCRAM-SHA-256", f"{OWN}scram-sha-256.sasl.jaas.config": USERS},
        "",
        f"{OWN}scram-sha-256.sasl.jaas.config: {PLAIN} is not the login module of SCRAM-SHA-256; use {SCRAM}",
    ),
    "another module in the file": (
        {"sasl.enabled.mechanisms": "SCRAM-SHA-256"},
        f"KafkaServer {{ {USERS} }};",
        f"java.security.auth.login.config: section KafkaServer: {PLAIN} is not the login module of SCRAM-SHA-256",
    ),
    "a class of somebody's": (
        {
            "sasl.enabled.mechanisms": "PLAIN",
            f"{OWN}plain.sasl.jaas.config": USERS,
            f"{OWN}plain.sasl.server.callback.handler.class": "com.example.Ldap",
        },
        "",
        f"{OWN}plain.sasl.server.callback.handler.class: com.example.Ldap is not available, because there is no JVM",
    ),
    "signed tokens": (
        {
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            f"{OWN}oauthbearer.sasl.jaas.config": f"{LOGIN_MODULES['OAUTHBEARER']} required;",
            f"{OWN}oauthbearer.sasl.server.callback.handler.class": "org.apache.kafka.x.OAuthBearerValidatorCallbackHandler",
        },
        "",
        f"{OWN}oauthbearer.sasl.server.callback.handler.class: org.apache.kafka.x.OAuthBearerValidatorCallbackHandler is not "
        "available, because there is no JVM to load it in",
    ),
    "a wrong option": (
        {
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            f"{OWN}oauthbearer.sasl.jaas.config": (
                f'{LOGIN_MODULES["OAUTHBEARER"]} required unsecuredValidatorAllowableClockSkewMs="x";'
            ),
        },
        "",
        f"{OWN}oauthbearer.sasl.jaas.config: unsecuredValidatorAllowableClockSkewMs is not a number",
    ),
    "a file that does not parse": (
        {"sasl.enabled.mechanisms": "PLAIN"},
        f"KafkaServer {{ {USERS} }}",
        "java.security.auth.login.config: jaas.conf does not parse: a semicolon is missing behind section 1",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case: str) -> None:
    texts, file, text = REFUSED[case]
    with pytest.raises(ConfigError) as refusal:
        loaded(texts, file)
    assert str(refusal.value).startswith(text)
    assert "\n" not in str(refusal.value)
    assert "hunter" not in str(refusal.value)


def test_kafka_s_own_handler_may_be_named() -> None:
    handler = "org.apache.kafka.common.security.plain.internals.PlainServerCallbackHandler"
    key = f"{OWN}plain.sasl.server.callback.handler.class"
    assert alice(loaded({"sasl.enabled.mechanisms": "PLAIN", f"{OWN}plain.sasl.jaas.config": USERS, key: handler}))


@pytest.mark.parametrize("short", ["", OWN])
def test_a_handler_under_a_shorter_name_is_refused(short: str) -> None:
    name = f"{short}sasl.server.callback.handler.class"
    texts = {
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{OWN}oauthbearer.sasl.jaas.config": f"{LOGIN_MODULES['OAUTHBEARER']} required;",
        name: "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler",
    }
    with pytest.raises(ConfigError) as refusal:
        loaded(texts)
    assert str(refusal.value) == (
        f"{name}: it does not count under this name, so nothing would check by it; "
        f"write {OWN}oauthbearer.sasl.server.callback.handler.class"
    )


@pytest.mark.parametrize("place", ["", "secured."])
def test_the_handler_of_signed_tokens(place: str) -> None:
    own = f"{OWN}oauthbearer."
    texts = {
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{own}sasl.jaas.config": f"{LOGIN_MODULES['OAUTHBEARER']} required;",
        f"{own}sasl.server.callback.handler.class": (
            f"org.apache.kafka.common.security.oauthbearer.{place}OAuthBearerValidatorCallbackHandler"
        ),
        "sasl.oauthbearer.jwks.endpoint.url": "file:///jwks.json",
        "sasl.oauthbearer.expected.issuer": "me",
        "sasl.oauthbearer.expected.audience": "kafka",
    }
    unsigned = b"n,,\x01auth=Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJhIiwiZXhwIjo5OTk5OTk5OTk5fQ.\x01\x01"
    assert loaded(texts)["OAUTHBEARER"].begin().step(unsigned) == Challenge(b'{"status":"invalid_token"}')


def raises(error: Exception) -> Callable[[str], bytes]:
    def read(path: str) -> bytes:
        raise error

    return read


@pytest.mark.parametrize(
    ("read", "why"),
    [
        (raises(FileNotFoundError(2, "No such file or directory")), "No such file or directory"),
        (lambda path: b"\xff", "it is not UTF-8"),
    ],
)
def test_a_file_that_cannot_be_read(read: Callable[[str], bytes], why: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        read_jaas_file("/etc/jaas.conf", read)
    text = f"java.security.auth.login.config: /etc/jaas.conf cannot be read ({why}); name a JAAS file"
    assert str(refusal.value) == text


def test_no_file_has_no_sections() -> None:
    assert read_jaas_file("", raises(OSError())) == {}

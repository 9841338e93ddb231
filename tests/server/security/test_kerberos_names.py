"""Kerberos principals and the rules that make users of them."""

from __future__ import annotations

import pytest

from ottla.log.config_def import ConfigError
from ottla.server.security.kerberos_names import LocalNames


def name(principal: str, *rules: str) -> str | None:
    return LocalNames(rules or ("DEFAULT",), "EXAMPLE.COM").name_of(principal)


@pytest.mark.parametrize(
    ("principal", "rules", "user"),
    [
        ("alice@EXAMPLE.COM", (), "alice"),
        ("kafka/broker@EXAMPLE.COM", (), "kafka"),
        ("alice@OTHER.COM", (), None),
        ("alice", (), "alice"),
        ("alice/admin", (), None),
        ("a@b@EXAMPLE.COM", (), None),
        ("a/b/c@EXAMPLE.COM", (), None),
        ("@EXAMPLE.COM", (), None),
        ("alice@OTHER.COM", ("RULE:[1:$1]",), "alice"),
        ("alice@OTHER.COM", ("RULE:[1:$0-$1]",), "OTHER.COM-alice"),
        ("alice@OTHER.COM", ("RULE:[2:$1]",), None),
        ("alice/admin@OTHER.COM", ("RULE:[1:$1]", "RULE:[2:$2.$1]"), "admin.alice"),
        ("alice@OTHER.COM", ("RULE:[1:$1$2]",), "alice"),
        ("alice@OTHER.COM", ("RULE:[1:$1@$0](.*@OTHER.COM)s/@.*//",), "alice"),
        ("alice@OTHER.COM", ("RULE:[1:$1@$0](OTHER.COM)s/@.*//",), None),
        ("alice@OTHER.COM", ("RULE:[1:$1@$0]",), None),
        ("alice@OTHER.COM", ("RULE:[1:$1@$0]", "RULE:[1:$1]"), None),
        ("banana@X", ("RULE:[1:$1]s/a/o/",), "bonana"),
        ("banana@X", ("RULE:[1:$1]s/a/o/g",), "bonono"),
        ("banana@X", ("RULE:[1:$1]s/(b)(a)/$2$1/",), "abnana"),
        ("Alice@X", ("RULE:[1:$1]/L",), "alice"),
        ("Alice@X", ("RULE:[1:$1]s/A/b//U",), "BLICE"),
        ("alice@EXAMPLE.COM", (" DEFAULT ", "RULE:[1:x]"), "alice"),
    ],
)
def test_rules(principal: str, rules: tuple[str, ...], user: str | None) -> None:
    assert name(principal, *rules) == user


@pytest.mark.parametrize(
    "rule", ["", "default", "RULE", "RULE:[x:$1]", "RULE:[1:$1", "RULE:[1:$1]s/a/", "RULE:[1:$1]/X", f"RULE:[{'1' * 5000}:$1]"]
)
def test_what_is_no_rule(rule: str) -> None:
    with pytest.raises(ConfigError, match=r"^listener.x: '.*' is no rule; write DEFAULT"):
        LocalNames((rule,), "X", "listener.x")


def test_what_is_no_pattern() -> None:
    with pytest.raises(ConfigError, match=r"^sasl.kerberos.principal.to.local.rules: '\*' is not a pattern"):
        LocalNames(("RULE:[1:$1](*)",), "X")

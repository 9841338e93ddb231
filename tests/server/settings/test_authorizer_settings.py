"""The settings of the authorizer, and which class may be named."""

from __future__ import annotations

import re

import pytest

from ottla.log.config_def import ConfigError
from ottla.server.settings.authorizer_settings import STANDARD_AUTHORIZER, AuthorizerSettings
from ottla.server.settings.broker_config import BrokerConfig


def test_super_users_are_separated_by_semicolons() -> None:
    settings = AuthorizerSettings.from_texts({"super.users": "User:admin; User:CN=a,O=b ;;Group:g"})
    assert settings.super_users == {"User:admin", "User:CN=a,O=b", "Group:g"}
    assert AuthorizerSettings.from_texts({}) == (frozenset(), False)


@pytest.mark.parametrize(("text", "everybody"), [("true", True), (" TRUE ", True), ("false", False), ("yes", False), ("", False)])
def test_everybody(text: str, everybody: bool) -> None:
    assert AuthorizerSettings.from_texts({"allow.everyone.if.no.acl.found": text}).allow_without_rules is everybody


def broker(**settings: str) -> BrokerConfig:
    texts = {"log.dirs": "/data", "listeners": "PLAINTEXT://:0"} | {key.replace("_", "."): text for key, text in settings.items()}
    return BrokerConfig.from_mapping(texts)[0]


def test_a_broker_names_what_is_wrong() -> None:
    with pytest.raises(ConfigError, match="'admin' is not a principal; write for example User:admin"):
        broker(authorizer_class_name=STANDARD_AUTHORIZER, super_users="admin")
    with pytest.raises(ConfigError, match=re.escape(f"there is no JVM to load a.B in; use {STANDARD_AUTHORIZER}")):
        broker(authorizer_class_name="a.B")


def test_without_an_authorizer_its_settings_are_unknown() -> None:
    assert broker(super_users="User:a").unknown == ("super.users",)
    assert broker(super_users="User:a", authorizer_class_name=STANDARD_AUTHORIZER).unknown == ()

"""The authorizer's own settings: `super.users` and `allow.everyone.if.no.acl.found`.

They are in no table of settings, here as in Kafka, where a plug-in reads them: DescribeConfigs shows them as settings that nobody
knows. Without `authorizer.class.name` they mean nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from ottla.log.config_def import ConfigError

STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
"""The only value of `authorizer.class.name` that is accepted; nothing is loaded by this name."""
SUPER_USERS: Final = "super.users"
EVERYBODY: Final = "allow.everyone.if.no.acl.found"
AUTHORIZER_SETTINGS: Final = frozenset((SUPER_USERS, EVERYBODY))


class AuthorizerSettings(NamedTuple):
    """The parsed values. `super_users` are principals such as `User:admin`."""

    super_users: frozenset[str]
    allow_without_rules: bool

    @classmethod
    def from_texts(cls, texts: Mapping[str, str]) -> AuthorizerSettings:
        """Parses the texts of a broker's settings. Raises ConfigError.

        Super users are separated by `;`, because the names in certificates have commas. Any text but "true" is
        false, as in Kafka.
        """
        users = [user for part in texts.get(SUPER_USERS, "").split(";") if (user := part.strip())]
        for user in users:
            if ":" not in user:
                raise ConfigError(f"{SUPER_USERS}: '{user}' is not a principal; write for example User:{user}, with ; in between")
        return cls(frozenset(users), texts.get(EVERYBODY, "").strip().lower() == "true")


def check_authorizer(name: str, texts: Mapping[str, str]) -> None:
    """Checks the settings of an authorizer of this class. Raises ConfigError."""
    if name != STANDARD_AUTHORIZER:
        raise ConfigError(
            f"authorizer.class.name: there is no JVM to load {name} in; use {STANDARD_AUTHORIZER}, or remove the setting"
        )
    AuthorizerSettings.from_texts(texts)

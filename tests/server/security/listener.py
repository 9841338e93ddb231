"""The settings of one listener for the tests of this folder, with files in memory."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.server.security.settings import ListenerSecurity
from ottla.server.settings.broker_config import BrokerConfig

OWN = "listener.name.secure."


def security(settings: Mapping[str, str], protocol: str = "SSL") -> ListenerSecurity:
    """The security of listener SECURE in a broker with these settings."""
    place = {"listeners": "SECURE://127.0.0.1:0", "listener.security.protocol.map": "SECURE:PLAINTEXT"}
    config, unknown = BrokerConfig.from_mapping({**place, **settings})
    assert not unknown
    return ListenerSecurity("SECURE", protocol, config.texts, config.values)


class Files(dict[str, bytes]):
    """Files by their paths."""

    def read(self, path: str) -> bytes:
        if path not in self:
            raise FileNotFoundError(2, "No such file or directory", path)
        return self[path]

"""Reads settings as text from a Java `.properties` file, from the `KAFKA_*` environment, and from `key=value` on the command
line.

log/properties.py has the grammar of the file.

The environment is that of the apache/kafka container image: `KAFKA_LOG_RETENTION_MS` is `log.retention.ms`, `_` stands for a dot,
`__` for an underscore, `___` for a dash; variables for the JVM and its logging (RESERVED) are not settings. As in the image, a
broker with `KAFKA_ADVERTISED_LISTENERS` and no listeners listens on all interfaces, and an empty directory gets `CLUSTER_ID`. A
variable overrides the file.

Each text remembers where it came from, so that an error message about it can say so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from ottla.log.config_def import ConfigError
from ottla.log.properties import parse_properties

RESERVED: Final = frozenset(
    f"KAFKA_{name}"
    for name in (
        "VERSION",
        "HEAP_OPTS",
        "LOG4J_OPTS",
        "OPTS",
        "JMX_OPTS",
        "JMX_PORT",
        "JMX_HOSTNAME",
        "JVM_PERFORMANCE_OPTS",
        "GC_LOG_OPTS",
        "LOG4J_ROOT_LOGLEVEL",
        "LOG4J_LOGGERS",
        "TOOLS_LOG4J_LOGLEVEL",
    )
)
"""The variables that the image does not treat as settings, and KAFKA_JMX_PORT, which its start script consumes."""

SYSTEM_PROPERTIES: Final = (
    "java.security.auth.login.config",
    "java.security.krb5.conf",
    "org.apache.kafka.sasl.oauthbearer.allowed.urls",
)
"""The names of what Kafka gets by `-D` options in KAFKA_OPTS and what is a setting here."""

LOG_LEVEL: Final = "KAFKA_LOG4J_ROOT_LOGLEVEL"

_HOST: Final = re.compile(r"://[^:]*:")


class Given(NamedTuple):
    """The text of a setting, and, for messages, where it was given."""

    text: str
    origin: str


def read_file(path: str, read_bytes: Callable[[str], bytes]) -> dict[str, Given]:
    """Returns the settings of the `.properties` file at `path`, which `read_bytes` reads. Raises ConfigError if that raises
    OSError, or if the content does not follow the grammar.
    """
    try:
        raw = read_bytes(path)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}; name a server.properties that can be read") from error
    try:
        return {key: Given(value, f"{path}, line {line}") for key, value, line in parse_properties(raw)}
    except ConfigError as error:
        raise ConfigError(f"{path}, {error}") from None


def read_environment(environment: Mapping[str, str]) -> dict[str, Given]:
    """Returns the settings among the environment variables, by the rules of Kafka's image."""
    result = _system_properties(environment.get("KAFKA_OPTS", "")) | {
        _setting_name(variable): Given(text, variable)
        for variable, text in environment.items()
        if variable.startswith("KAFKA_") and variable not in RESERVED
    }
    advertised = result.get("advertised.listeners")
    if advertised is not None and advertised.text and not result.get("listeners", advertised._replace(text="")).text:
        result["listeners"] = Given(_HOST.sub("://0.0.0.0:", advertised.text), advertised.origin)
    return result


def _system_properties(options: str) -> dict[str, Given]:
    """Returns the settings among the options of a Java command line."""
    words = (word[2:].partition("=") for word in options.split() if word.startswith("-D"))
    return {name: Given(text, "KAFKA_OPTS") for name, _, text in words if name in SYSTEM_PROPERTIES}


def read_overrides(pairs: Iterable[str]) -> dict[str, Given]:
    """Returns the settings of the arguments `key=value` of --override. Raises ConfigError if one has no `=`."""
    result = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f"--override: '{pair}' is not key=value")
        result[key.strip()] = Given(text, "--override")
    return result


def _setting_name(variable: str) -> str:
    dotted = variable.removeprefix("KAFKA_").lower().replace("_", ".")
    return dotted.replace("...", "-").replace("..", "_")

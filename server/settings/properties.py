"""Where settings come from as text: a Java `.properties` file, the `KAFKA_*` environment, `key=value` on the command line.

The file's grammar is in log/properties.py.

The environment is that of the apache/kafka container image: `KAFKA_LOG_RETENTION_MS` is `log.retention.ms`, `_` is a dot, `__` an
underscore, `___` a dash; variables for the JVM and its logging (RESERVED) are no settings. The image also lets a broker listen on
all interfaces where only `KAFKA_ADVERTISED_LISTENERS` says, and gives `CLUSTER_ID` to an empty directory. A variable that is set
beats the file.

Each text remembers where it came from, so that a complaint about it can say so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
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
"""Variables that the image does not take for settings, and KAFKA_JMX_PORT, which its start script uses up."""

LOG_LEVEL: Final = "KAFKA_LOG4J_ROOT_LOGLEVEL"

_HOST: Final = re.compile(r"://[^:]*:")


class Given(NamedTuple):
    """A setting's text, and where it was given, for people."""

    text: str
    origin: str


def read_file(path: Path) -> dict[str, Given]:
    """Returns the settings of a `.properties` file. Raises ConfigError where it cannot be read."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}; name a server.properties that can be read") from error
    try:
        return {key: Given(value, f"{path}, line {line}") for key, value, line in parse_properties(raw)}
    except ConfigError as error:
        raise ConfigError(f"{path}, {error}") from None


def read_environment(environment: Mapping[str, str]) -> dict[str, Given]:
    """Returns the settings among the variables, by the rules of Kafka's image."""
    result = {
        _setting_name(variable): Given(text, variable)
        for variable, text in environment.items()
        if variable.startswith("KAFKA_") and variable not in RESERVED
    }
    advertised = result.get("advertised.listeners")
    if advertised is not None and advertised.text and not result.get("listeners", advertised._replace(text="")).text:
        result["listeners"] = Given(_HOST.sub("://0.0.0.0:", advertised.text), advertised.origin)
    return result


def read_overrides(pairs: Iterable[str]) -> dict[str, Given]:
    """`key=value` as given to --override. Raises ConfigError where there is no `=`."""
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

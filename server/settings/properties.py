"""Where settings come from as text: a Java `.properties` file, the `KAFKA_*` environment, `key=value` on the command line.

The file's grammar is that of java.util.Properties: `#` and `!` begin comments, a backslash at the end of a line continues it, the
key ends at the first `=`, `:` or white space, `\\t`, `\\n`, `\\uXXXX` and so on mean what they do in Java. Of two lines with one
key the last counts. Kafka reads the file as Latin-1; we take UTF-8 where it is valid, which is what people write.

The environment is that of the apache/kafka container image: `KAFKA_LOG_RETENTION_MS` is `log.retention.ms`, `_` is a dot, `__` an
underscore, `___` a dash; variables for the JVM and its logging (RESERVED) are no settings. The image also lets a broker listen on
all interfaces where only `KAFKA_ADVERTISED_LISTENERS` says, and gives `CLUSTER_ID` to an empty directory. A variable that is set
beats the file.

Each text remembers where it came from, so that a complaint about it can say so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from ottla.log.settings import ConfigError

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

_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_SPACE: Final = " \t\f"
_LINE_END: Final = re.compile(r"\r\n|\r|\n")
_HOST: Final = re.compile(r"://[^:]*:")


class Given(NamedTuple):
    """A setting's text, and where it was given, for people."""

    text: str
    origin: str


def read_file(path: Path) -> dict[str, Given]:
    """The settings of a `.properties` file. ConfigError where it cannot be read."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}; name a server.properties that can be read") from error
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        text = raw.decode("latin-1")
    try:
        return {key: Given(value, f"{path}, line {line}") for key, value, line in parse_properties(text)}
    except ConfigError as error:
        raise ConfigError(f"{path}, {error}") from None


def read_environment(environment: Mapping[str, str]) -> dict[str, Given]:
    """The settings among the variables, by the rules of Kafka's image."""
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
    """`key=value` as given to --override. ConfigError where there is no `=`."""
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


# The .properties grammar


def parse_properties(text: str) -> Iterator[tuple[str, str, int]]:
    """(key, value, number of the first line) of each entry, in the file's order. ConfigError for a broken `\\u`."""
    for line, number in _logical_lines(text):
        end, value_at = _key_end(line)
        yield _unescaped(line[:end], number), _unescaped(line[value_at:], number), number


def _logical_lines(text: str) -> Iterator[tuple[str, int]]:
    """Lines with their continuations, without comments and blank ones."""
    whole, begun = "", 0
    for number, natural in enumerate(_LINE_END.split(text), 1):
        line = natural.lstrip(_SPACE)
        if not begun:
            if not line or line[0] in "#!":
                continue
            begun = number
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            whole += line[:-1]
            continue
        yield whole + line, begun
        whole, begun = "", 0
    if begun:  # the last line promised another
        yield whole, begun


def _key_end(line: str) -> tuple[int, int]:
    """Where the key ends and where the value begins: between them white space, and at most one `=` or `:`."""
    at = 0
    while at < len(line) and line[at] not in "=:" and line[at] not in _SPACE:
        at += 2 if line[at] == "\\" else 1
    end = min(at, len(line))
    rest = line[end:].lstrip(_SPACE)
    if rest and rest[0] in "=:":
        rest = rest[1:].lstrip(_SPACE)
    return end, len(line) - len(rest)


def _unescaped(text: str, line: int) -> str:
    if "\\" not in text:
        return text
    parts, at = [], 0
    while at < len(text):
        char = text[at]
        if char != "\\" or at + 1 == len(text):
            parts.append(char)
            at += 1
        elif text[at + 1] == "u":
            digits = text[at + 2 : at + 6]
            if not re.fullmatch("[0-9a-fA-F]{4}", digits):
                raise ConfigError(
                    f"line {line}: '\\u{digits}' is no character; \\u needs four hexadecimal digits, or write \\\\u"
                )
            parts.append(chr(int(digits, 16)))
            at += 6
        else:
            parts.append(_ESCAPES.get(text[at + 1], text[at + 1]))
            at += 2
    # Java's characters are UTF-16: two halves of a pair are one.
    return "".join(parts).encode("utf-16", "surrogatepass").decode("utf-16", "replace")

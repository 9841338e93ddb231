"""JAAS: how Kafka writes down logins, in the setting `sasl.jaas.config` and in the file of `java.security.auth.login.config`.

The setting holds one login module, the file sections of modules:

    org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret";

    KafkaServer {
        org.apache.kafka.common.security.scram.ScramLoginModule required;
    };

The text is cut into words as Java's StreamTokenizer does it for Kafka, since that decides what a stock file means: a word begins
with a letter, `_` or `$`, and digits, `.` and `-` may follow; a value with anything else in it stands between quotes, and so does
a number; `//` and a lone `/` begin comments up to the end of the line. `user=a,b` is therefore an error in Kafka as well.

Nothing of a text is ever shown in a message: values are passwords, and where a quote is missing, one of them is taken for
something else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from ottla.log.config_def import ConfigError, Secret

_PACKAGE: Final = "org.apache.kafka.common.security"
LOGIN_MODULES: Final[Mapping[str, str]] = {
    "PLAIN": f"{_PACKAGE}.plain.PlainLoginModule",
    "SCRAM-SHA-256": f"{_PACKAGE}.scram.ScramLoginModule",
    "SCRAM-SHA-512": f"{_PACKAGE}.scram.ScramLoginModule",
    "OAUTHBEARER": f"{_PACKAGE}.oauthbearer.OAuthBearerLoginModule",
    "GSSAPI": "com.sun.security.auth.module.Krb5LoginModule",
}
"""The class of the login module of each SASL mechanism, in Kafka and in Java."""

UNSECURED_OPTIONS: Final[Mapping[str, str]] = {
    "principal": "unsecuredLoginStringClaim_sub",
    "principalClaimName": "unsecuredLoginPrincipalClaimName",
    "lifeSeconds": "unsecuredLoginLifetimeSeconds",
    "scopeClaimName": "unsecuredLoginScopeClaimName",
}
"""The words of librdkafka's `sasl.oauthbearer.config`, and the options of Java's login module for the same."""
FLAGS: Final = frozenset({"REQUIRED", "REQUISITE", "SUFFICIENT", "OPTIONAL"})
"""The flags behind a module's class. They say how several modules of one login work together, which none of Kafka's need."""

_BLANK: Final = re.compile(r"[\x00- ]+|/\*.*?(?:\*/|\Z)|/[^\r\n]*", re.DOTALL)
_NUMBER: Final = re.compile(r"-?(?:[0-9]+\.?[0-9]*|\.[0-9]*)|-?\.[0-9]+", re.ASCII)
_WORD: Final = re.compile(r"[A-Za-z_$\u00a0-\U0010ffff][A-Za-z0-9_$.\-\u00a0-\U0010ffff]*")
_QUOTED: Final = re.compile(r"""(["'])((?:\\[^\r\n]|(?!\1)[^\\\r\n])*)(?:\1|(?=[\r\n])|\\?\Z)""")
_ESCAPE: Final = re.compile(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|.)")
_CONTROL: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class Module(NamedTuple):
    """One login module: the name of its Java class, and its options."""

    name: str
    options: Mapping[str, Secret]

    def option(self, name: str) -> str | None:
        """Returns the value of an option, None if it is not given."""
        found = self.options.get(name)
        return None if found is None else found.reveal()


def login_module(mechanism: str, options: Iterable[tuple[str, str]]) -> str:
    """Returns the text of `sasl.jaas.config` for one login module with these options."""
    words = [f'{name}="{_escaped(value)}"' for name, value in options]
    return " ".join([LOGIN_MODULES[mechanism], "required", *words]) + ";"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")


class _Token(NamedTuple):
    """A word or a quoted text has a `text`; a number has none, because a value that is one is not accepted. `sign` is the
    character of anything else."""

    text: str | None
    sign: str = ""


def parse_modules(text: Secret) -> tuple[Module, ...]:
    """Returns the modules of a setting `sasl.jaas.config`. Raises ConfigError, without the name of the setting."""
    tokens = _tokens(text.reveal())
    return tuple(_module(token, number, tokens) for number, token in enumerate(tokens, 1))


def parse_file(text: str) -> dict[str, tuple[Module, ...]]:
    """Returns the modules of each section of a JAAS file, by the section's name. Raises ConfigError."""
    tokens = _tokens(text)
    sections: dict[str, tuple[Module, ...]] = {}
    for token in tokens:
        name = token.text
        if name is None or next(tokens, None) != _Token(None, "{"):
            raise ConfigError(f"section {len(sections) + 1} does not begin with a name and {{")
        if name in sections:
            raise ConfigError(f"section {len(sections) + 1} has the name of an earlier one; leave one of them")
        modules: list[Module] = []
        while (first := next(tokens, None)) != _Token(None, "}"):
            if first is None:
                raise ConfigError(f"section {len(sections) + 1} is not closed; end it with }};")
            modules.append(_module(first, len(modules) + 1, tokens))
        if next(tokens, None) != _Token(None, ";"):
            raise ConfigError(f"a semicolon is missing behind section {len(sections) + 1}")
        sections[name] = tuple(modules)
    return sections


def _module(first: _Token, number: int, tokens: Iterator[_Token]) -> Module:
    """Reads one module up to its semicolon, of which `first` is the class. `number` is its place among others, for messages."""
    if first.text is None:
        raise ConfigError(f"login module {number} does not begin with the name of a class")
    flag = next(tokens, None)
    if flag is None or flag.text is None or flag.text.upper() not in FLAGS:
        raise ConfigError(f"required, requisite, sufficient or optional is missing behind the class of login module {number}")
    options: dict[str, Secret] = {}
    while (key := next(tokens, None)) != _Token(None, ";"):
        if key is None:
            raise ConfigError(f"a semicolon is missing behind login module {number} and its options")
        if key.text is None:
            raise ConfigError(f"an option of login module {number} is not name=value; put values between double quotes")
        equals, value = next(tokens, None), next(tokens, None)
        if equals != _Token(None, "=") or value is None or value.text is None:
            raise ConfigError(f'an option of login module {number} has no value; write it as name="value"')
        options[key.text] = Secret(value.text)
    return Module(first.text, options)


def _tokens(text: str) -> Iterator[_Token]:
    """Yields the tokens as StreamTokenizer does, blanks and comments left out."""
    at = 0
    while at < len(text):
        if blank := _BLANK.match(text, at):
            at = blank.end()
        elif word := _WORD.match(text, at):
            at = word.end()
            yield _Token(word[0])
        elif number := _NUMBER.match(text, at):
            at = number.end()
            yield _Token(None)
        elif quoted := _QUOTED.match(text, at):
            at = quoted.end()
            yield _Token(_ESCAPE.sub(_unescape, quoted[2]))
        else:
            yield _Token(None, text[at])
            at += 1


def _unescape(escape: re.Match[str]) -> str:
    body = escape[1]
    return chr(int(body, 8)) if body[0] in "01234567" else _CONTROL.get(body, body)

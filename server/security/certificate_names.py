"""Principals from certificates: the name in a client's certificate as Java writes it, and the rules that turn it into a user.

`distinguished_name` is the text of Java's X500Principal.getName(), RFC 2253 with Java's habits, for this is what the ACLs and
quotas of a Kafka are written with. The most specific part comes first; CN, C, L, ST, O, OU, STREET, DC and UID have names, any
other attribute is its number and the hexadecimal DER of its value. Java 17 escapes `=` and `#` wherever they stand, blanks and
carriage returns only at the ends, and reads the bytes of a string as UTF-8 whatever its type.

`ssl.principal.mapping.rules` is a list of `RULE:pattern/replacement/` with `L` or `U` behind it for lower and upper case, and
`DEFAULT`, the name as it is. The first rule whose pattern matches the whole name counts; `$1` in a replacement is a group. If no
rule matches there is no principal, and the connection ends before any answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from ottla.log.config_def import ConfigError
from ottla.security.der import OBJECT_IDENTIFIER, SEQUENCE, SET, Element, NotDer, dotted, elements, only

_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
_TEXTS: Final = frozenset((0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E))
"""The tags of the kinds of strings that are written as text: those of UTF-8, Printable, Teletex, IA, General and BMP."""
_ESCAPED: Final = frozenset(',=+<>#;"\\')
_AT_ENDS: Final = " \r"

_VERSION: Final = 0xA0
"""The tag of a certificate's version, which the first version does not have."""

RULES: Final = "ssl.principal.mapping.rules"


def distinguished_name(subject: bytes) -> str:
    """Returns the text of a Name (RFC 5280), given as DER. Raises NotDer."""
    relative = elements(only(subject, SEQUENCE).content)
    return ",".join("+".join(map(_attribute, elements(_content_of(SET, each)))) for each in reversed(relative))


def subject_of(certificate: bytes) -> bytes:
    """Returns the name of whom a certificate (RFC 5280, as DER) is for, as DER. Raises NotDer."""
    signed = elements(only(certificate, SEQUENCE).content)
    fields = elements(_content_of(SEQUENCE, signed[0])) if signed else []
    place = 5 if fields and fields[0].tag == _VERSION else 4  # after the version, if any: number, algorithm, issuer, validity
    if len(fields) <= place:
        raise NotDer("a certificate has no subject")
    return fields[place].whole


def _content_of(tag: int, element: Element) -> bytes:
    if element.tag != tag:
        raise NotDer(f"a name has an element of tag {element.tag:#04x} where {tag:#04x} belongs")
    return element.content


def _attribute(element: Element) -> str:
    parts = elements(_content_of(SEQUENCE, element))
    if len(parts) != 2:
        raise NotDer("an attribute of a name is not a type and a value")
    number = dotted(_content_of(OBJECT_IDENTIFIER, parts[0]))
    value = parts[1]
    keyword = _KEYWORDS.get(number)
    if keyword is None or value.tag not in _TEXTS:
        return f"{keyword or number}=#{value.whole.hex()}"
    return f"{keyword}={_escape(value.content.decode('utf-8', 'replace'))}"


def _escape(text: str) -> str:
    start = len(text) - len(text.lstrip(_AT_ENDS))
    end = max(len(text.rstrip(_AT_ENDS)), start)
    middle = "".join("\\" + c if c in _ESCAPED else "\\00" if c == "\0" else c for c in text[start:end])
    return "".join("\\" + c for c in text[:start]) + middle + "".join("\\" + c for c in text[end:])


class _Rule(NamedTuple):
    """One rule. `pattern` is None for DEFAULT; `change_case` is str.lower, str.upper, or None."""

    pattern: Any
    replacement: str
    change_case: Callable[[str], str] | None


class PrincipalRules:
    """The rules of one `ssl.principal.mapping.rules`. Raises ConfigError, which begins with `name`, for other texts."""

    def __init__(self, text: str, name: str = RULES) -> None:
        self._rules: Sequence[_Rule] = tuple(_parse(text, name))

    def user_of(self, name: str) -> str | None:
        """Returns the user's name for a distinguished name; None if no rule matches."""
        for rule in self._rules:
            if rule.pattern is None:
                return name
            if rule.pattern.fullmatch(name) is None:
                continue
            user: str = rule.pattern.sub(lambda found, rule=rule: fill_replacement(rule.replacement, found), name)
            return rule.change_case(user) if rule.change_case is not None else user
        return None


_RULE: Final = re.compile(
    r"DEFAULT(?P<default>)|RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<replacement>(?:\\.|[^\\/])*)/(?P<case>[LU]?)", re.DOTALL
)
_BETWEEN: Final = re.compile(r"\s*(?:,\s*|\n\s*|\Z)")
_REFERENCE: Final = re.compile(r"\\(.)|\$(\d)(\d*)", re.DOTALL)


def _parse(text: str, name: str) -> list[_Rule]:
    rules: list[_Rule] = []
    text = text.strip()
    at = 0
    while at < len(text):
        found = _RULE.match(text, at)
        between = _BETWEEN.match(text, found.end()) if found is not None else None
        if found is None or between is None:
            raise ConfigError(
                f"{name}: '{text[at:]}' does not begin with a rule; write RULE:pattern/replacement/, with L or U behind it for "
                "lower or upper case, or DEFAULT, and a comma between two of them"
            )
        at = between.end()
        if found["default"] is not None:
            rules.append(_Rule(None, "", None))
            continue
        pattern = compile_pattern(found["pattern"].replace("\\/", "/"), name)
        case = {"L": str.lower, "U": str.upper}.get(found["case"])
        rules.append(_Rule(pattern, found["replacement"].replace("\\/", "/"), case))
    return rules


def compile_pattern(pattern: str, name: str) -> Any:
    """Compiles a pattern: by RE2, which takes linear time whatever a certificate says, or by `re` if it has what RE2 lacks, such
    as looking ahead, since the operator wrote it. Raises ConfigError."""
    import re2  # a broker with no such rules does not load it

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error:
        try:
            return re.compile(pattern)
        except (re.error, OverflowError, RecursionError) as error:
            raise ConfigError(f"{name}: '{pattern}' is not a pattern: {error}") from error


def fill_replacement(replacement: str, found: Any) -> str:
    """Returns a replacement with its references filled in. As in Java, `$12` is group 1 and a `2` if there are not that many
    groups, and a reference to no group is text."""
    groups = found.re.groups

    def fill(reference: re.Match[str]) -> str:
        if reference[1] is not None:
            return str(reference[1])
        number, rest = int(reference[2]), reference[3]
        if number > groups:
            return reference[0]
        while rest and number * 10 + int(rest[0]) <= groups:
            number, rest = number * 10 + int(rest[0]), rest[1:]
        return (found[number] or "") + rest

    return _REFERENCE.sub(fill, replacement)

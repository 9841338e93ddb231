"""Kerberos principals, and the rules that turn them into names of users (`sasl.kerberos.principal.to.local.rules`).

    alice@EXAMPLE.COM    kafka/broker.example.com@EXAMPLE.COM

| rule | what it makes |
|---|---|
| `DEFAULT` | the first part of a principal of the default realm |
| `RULE:[n:format](match)s/from/to/g` and `L` or `U` behind it | for principals of n parts |

In a format, `$0` is the realm, `$1` the first part and `$2` the second. What it makes has to match `match` as a whole; then the
pattern `from` is replaced, everywhere with `g`; `/L` and `/U` are lower and upper case. The first rule that makes something
counts, and what it makes may have neither `/` nor `@` in it. Only the format is needed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from ottla.log.config_def import ConfigError
from ottla.server.security.certificate_names import compile_pattern, fill_replacement

RULES: Final = "sasl.kerberos.principal.to.local.rules"
_NAME: Final = re.compile(r"(?P<first>[^/@]*)(?:/(?P<second>[^/@]*))?@(?P<realm>[^/@]*)")
_RULE: Final = re.compile(
    r"DEFAULT|RULE:\[(?P<parts>\d{1,9}):(?P<format>[^\]]*)\](?:\((?P<match>[^)]*)\))?"
    r"(?:s/(?P<pattern>[^/]*)/(?P<replacement>[^/]*)/(?P<all>g)?)?/?(?P<case>[LU])?"
)
_PART: Final = re.compile(r"\$(\d)")
_NOT_SIMPLE: Final = re.compile("[/@]")


class _Rule(NamedTuple):
    """One rule; `format` is None for DEFAULT."""

    parts: int
    format: str | None
    match: Any
    pattern: Any
    replacement: str
    all: bool
    case: str


class LocalNames:
    """The rules of one listener. Raises ConfigError, which begins with `setting`, if one does not parse."""

    def __init__(self, rules: Iterable[str], default_realm: str, setting: str = RULES) -> None:
        self._default_realm = default_realm
        self._rules = tuple(_parse(each, setting) for each in rules)

    def name_of(self, principal: str) -> str | None:
        """Returns the user's name for a principal; None if no rule makes one."""
        found = _NAME.fullmatch(principal)
        if found is None:
            return None if "@" in principal or "/" in principal else principal
        parts = [found["realm"], found["first"], *([] if found["second"] is None else [found["second"]])]
        for rule in self._rules:
            name = self._apply(rule, parts)
            if name is not None:
                return name if name and _NOT_SIMPLE.search(name) is None else None
        return None

    def _apply(self, rule: _Rule, parts: list[str]) -> str | None:
        if rule.format is None:
            return parts[1] if parts[0] == self._default_realm else None
        if rule.parts != len(parts) - 1:
            return None
        text = _PART.sub(lambda part: parts[int(part[1])] if int(part[1]) < len(parts) else "", rule.format)
        if rule.match is not None and rule.match.fullmatch(text) is None:
            return None
        if rule.pattern is not None:
            text = rule.pattern.sub(lambda hit: fill_replacement(rule.replacement, hit), text, 0 if rule.all else 1)
        return {"L": str.lower, "U": str.upper}[rule.case](text) if rule.case else text


def _parse(text: str, setting: str) -> _Rule:
    found = _RULE.fullmatch(text.strip())
    if found is None:
        raise ConfigError(
            f"{setting}: '{text}' is no rule; write DEFAULT, or RULE:[n:format](match)s/from/to/ such as RULE:[1:$1]"
        )
    if found["format"] is None:
        return _Rule(0, None, None, None, "", False, "")
    match = None if found["match"] is None else compile_pattern(found["match"], setting)
    pattern = None if found["pattern"] is None else compile_pattern(found["pattern"], setting)
    replacement = found["replacement"] or ""
    return _Rule(int(found["parts"]), found["format"], match, pattern, replacement, bool(found["all"]), found["case"] or "")

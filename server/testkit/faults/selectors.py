"""The selection of the requests that a fault is for: the field `on` of what a test sends, read, checked and matched.

All that is given must hold; what is not given is any. Texts are patterns (`app-*`). What can never match is refused, because a
test with such a fault passes for the wrong reason: an API without topics, a version that no request has, a field that none has.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Iterable
from fnmatch import fnmatchcase, translate
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ottla.server.handlers import BROKER, CONTROLLER, served
from ottla.server.testkit.fields import Fields, Refused, nearest
from ottla.server.testkit.refusals.entities import Role, messages_of, roles_of
from ottla.wire.api import Api
from ottla.wire.primitives import WireStruct, uuid_to_text

if TYPE_CHECKING:
    from ottla.server.requests.request import Request

_VERSION: Final = re.compile(r"(>=|<=|>|<|==|=)?\s*(\d{1,9})")
_UUID_BYTES: Final = 16
_COMPARE: Final[dict[str, Callable[[int, int], bool]]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "=": operator.eq,
    "==": operator.eq,
}


MOST_CHARACTERS: Final = 10_000
"""The longest patterns that are compiled; a topic's name has at most 249 characters."""


class Pattern:
    """Matches names against one or several patterns."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self._names = frozenset(patterns)
        patterned = [translate(each) for each in self._names if any(sign in each for sign in "*?[")]
        self._matches = re.compile("|".join(patterned)).match if patterned else None

    def fits(self, name: object) -> bool:
        """Returns whether a name fits one of the patterns."""
        if name in self._names:
            return True
        return self._matches is not None and isinstance(name, str) and self._matches(name) is not None


class Numbers(NamedTuple):
    """Matches numbers."""

    numbers: frozenset[int]

    def fits(self, number: object) -> bool:
        """Returns whether a number is one of these."""
        return number in self.numbers


class Condition(NamedTuple):
    """A field of the request, as a path, and the values that it may have."""

    path: tuple[str, ...]
    values: tuple[Any, ...]


class On:
    """Says which requests a fault is for."""

    def __init__(self, fields: Fields, nodes: Collection[int]) -> None:
        """`nodes` are the ids that there are. Raises Refused."""
        self.apis = _read_apis(fields)
        self.entities: dict[Role, Pattern | Numbers] = {}
        for role in (Role.TOPIC, Role.GROUP, Role.TRANSACTION, Role.RESOURCE):
            pattern = _read_pattern(fields, role)
            if pattern is not None:
                self.entities[role] = pattern
        partitions = _read_numbers(fields, Role.PARTITION)
        if partitions is not None:
            self.entities[Role.PARTITION] = partitions
        self._client_id = _read_pattern(fields, "client_id")
        self._client_host = _read_pattern(fields, "client_host")
        self._nodes = _read_numbers(fields, "node")
        if self._nodes is not None and not any(map(self._nodes.fits, nodes)):
            there = "nodes are" if len(nodes) > 1 else "node is"
            raise Refused(
                f"{fields.path('node')}: this can never match, because the only {there} {', '.join(map(str, sorted(nodes)))}"
            )
        self._versions = _read_versions(fields)
        self._where = tuple(_read_conditions(fields))
        fields.done()
        self._check_that_it_can_match(fields)

    def _check_that_it_can_match(self, fields: Fields) -> None:
        """Raises Refused if no request of these APIs can have what is selected by."""
        apis = self.apis or _all_apis()
        names = ", ".join(api.name for api in apis) if self.apis else "any API"
        of_version = [api for api in apis if any(map(self._has_version, range(api.min_version, api.max_version + 1)))]
        if not of_version:
            versions = ", ".join(f"{api.name} is served in v{api.min_version} to v{api.max_version}" for api in apis[:3])
            raise Refused(f"{fields.path('version')}: this can never match, because {versions}")
        for role in self.entities:
            if not any(role in roles_of(api) for api in of_version):
                raise Refused(
                    f"{fields.path(role)}: this can never match, because requests of {names} cannot be selected by {role}"
                )
        if not any(self.entities.keys() <= roles_of(api) for api in of_version):
            roles, where = " and ".join(self.entities), f"{fields.where}: " if fields.where else ""
            raise Refused(f"{where}this can never match, because no request of {names} can be selected by {roles}")
        for condition in self._where:
            first = {name for api in of_version for name in messages_of(api).__dict__[f"{api.name}Request"].__slots__}
            inner = {name for api in of_version for name in _fields_of(api)}
            for name, known in zip(condition.path, (first, *[inner] * len(condition.path)), strict=False):
                if name not in known:
                    path = fields.path(".".join(("where", *condition.path)))
                    raise Refused(f"{path}: no request of {names} has {name}{nearest(name, known)}")

    @property
    def looks_into_fields(self) -> bool:
        """Returns whether `matches` needs the body of a request."""
        return bool(self._where)

    def may_concern(self, api: Api) -> bool:
        """Returns whether requests of an API may match at all."""
        return (not self.apis or api in self.apis) and self.entities.keys() <= roles_of(api)

    def matches(self, body: Any, request: Request, node: int | None = None) -> bool:
        """Returns whether a request of one of these APIs matches in all but its entities. `node` is the one that was asked, if
        that is not the request's."""
        return (
            self._has_version(request.api_version)
            and (self._client_id is None or self._client_id.fits(request.client_id))
            and (self._nodes is None or self._nodes.fits(request.broker.config.node_id if node is None else node))
            and (self._client_host is None or self._client_host.fits(request.session.client_host))
            and all(any(_is(value, each.values) for value in _values_at(body, each.path)) for each in self._where)
        )

    def _has_version(self, version: int) -> bool:
        return all(compare(version, bound) for compare, bound in self._versions)


def _all_apis() -> list[Api]:
    return list({**served(BROKER), **served(CONTROLLER)}.values())


def _several(fields: Fields, name: str) -> list[Any] | None:
    """Takes out one value or a list of them. Raises Refused if the list is empty."""
    value = fields.take_any(name)
    if value is None:
        return None
    if value == []:
        raise Refused(f"{fields.path(name)}: this can never match, because the list is empty")
    return value if isinstance(value, list) else [value]


def _read_apis(fields: Fields) -> tuple[Api, ...]:
    by_name = {api.name: api for api in _all_apis()}
    by_key = {api.key: api for api in by_name.values()}
    apis = []
    for value in _several(fields, "api") or ():
        api = by_key.get(value) if type(value) is int else by_name.get(value) if isinstance(value, str) else None
        if api is None:
            raise Refused(f"{fields.path('api')}: {value!r:.50} is no API that is served{nearest(value, by_name)}")
        apis.append(api)
    return tuple(apis)


def _read_pattern(fields: Fields, name: str) -> Pattern | None:
    values = _several(fields, name)
    if values is None:
        return None
    for value in values:
        if not isinstance(value, str):
            raise Refused(f"{fields.path(name)} must be a text or a list of texts, not {value!r:.50}")
    if sum(map(len, values)) > MOST_CHARACTERS:
        raise Refused(f"{fields.path(name)} must have at most {MOST_CHARACTERS} characters in all")
    return Pattern(values)


def _read_numbers(fields: Fields, name: str) -> Numbers | None:
    values = _several(fields, name)
    if values is None:
        return None
    for value in values:
        if type(value) is not int:
            raise Refused(f"{fields.path(name)} must be a whole number or a list of them, not {value!r:.50}")
    return Numbers(frozenset(values))


def _read_versions(fields: Fields) -> list[tuple[Callable[[int, int], bool], int]]:
    value = fields.take_any("version")
    if value is None:
        return []
    versions = []
    for part in str(value).split(","):
        found = _VERSION.fullmatch(part.strip())
        if found is None or isinstance(value, bool):
            raise Refused(f'{fields.path("version")} must be like 9, ">=12" or ">=3,<9", not {value!r:.50}')
        versions.append((_COMPARE[found[1] or "="], int(found[2])))
    return versions


def _read_conditions(fields: Fields) -> Iterable[Condition]:
    for path, value in fields.take("where", dict, {}).items():
        values = value if isinstance(value, list) else [value]
        if any(isinstance(each, (dict, list)) for each in values):
            raise Refused(f"{fields.path(f'where.{path}')} must be a value or a list of values, not {value!r:.50}")
        yield Condition(tuple(str(path).split(".")), tuple(values))


def _fields_of(api: Api) -> set[str]:
    """Returns the names of the fields in an API's requests, those of nested structs included."""
    names = vars(messages_of(api))
    answers = {names[f"{api.name}Response"]}
    left = list(answers)
    while left:
        for _, kind, _ in left.pop().NESTED:
            if kind not in answers:
                answers.add(kind)
                left.append(kind)
    found: set[str] = set()
    for value in names.values():
        if isinstance(value, type) and issubclass(value, WireStruct) and value not in answers:
            found.update(value.__slots__)
    return found


def _values_at(value: Any, path: tuple[str, ...]) -> Iterable[Any]:
    """Yields the values of a field, of each element if there are lists on the way."""
    if isinstance(value, list):
        for each in value:
            yield from _values_at(each, path)
    elif not path:
        yield value
    elif isinstance(value, WireStruct) and path[0] in value.__slots__:
        yield from _values_at(getattr(value, path[0]), path[1:])


def _is(value: Any, wanted: tuple[Any, ...]) -> bool:
    """Returns whether a decoded value is one of those that were given in JSON."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        data = bytes(value)
        texts = [uuid_to_text(data)] if len(data) == _UUID_BYTES else []
        texts.append(data.decode("utf-8", "replace"))
        return any(text in wanted for text in texts)
    if isinstance(value, str):
        return any(isinstance(each, str) and (value == each or fnmatchcase(value, each)) for each in wanted)
    is_number = type(value) in (int, float)
    return any((type(each) in (int, float) if is_number else type(each) is type(value)) and each == value for each in wanted)

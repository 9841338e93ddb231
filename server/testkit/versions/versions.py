"""The versions that a broker pretends to serve: those of an older release of Apache Kafka, or fewer of its own.

What ApiVersions says is narrowed, and a request outside is treated as by a broker that never knew it: the connection closes, but
ApiVersions itself is answered in version 0 with UNSUPPORTED_VERSION and the versions of ApiVersions, so that a client can step
down (KIP-511). All else is served as always: an older release is pretended, not played.

Features go with the versions. A client goes by the level of `transaction.version` when it decides how to add partitions to a
transaction (KIP-890), and no broker ever had a level whose requests it does not serve.

It can only be narrowed, because what is not there cannot be served.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

from ottla.server.base.errors import CloseConnection
from ottla.server.dispatch.routes import unsupported_api_versions
from ottla.server.guards.ask import change_answer
from ottla.server.testkit.faults.frames import Serve
from ottla.server.testkit.fields import Refused, nearest
from ottla.server.testkit.versions.kafka_releases import RELEASES, Release
from ottla.wire.api import APIS
from ottla.wire.header import API_VERSIONS
from ottla.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

if TYPE_CHECKING:
    from ottla.server.requests.link import Handle, Steps
    from ottla.server.requests.request import Request
    from ottla.server.requests.session import Session
    from ottla.server.requests.traits import Traits
    from ottla.wire.api import Api
    from ottla.wire.primitives import Buffer

AS: Final = "as"
Range = tuple[int, int]
"""The lowest and the highest version."""

_KEY_VERSION_ID: Final = Struct(">hhi")
"""The beginning of every request's header: API key, version, correlation id."""
_BY_NAME: Final = {api.name: api for api in APIS.values()}
_TRANSACTION_VERSION: Final = "transaction.version"
_PRODUCE, _END_TXN = 0, 26
_SECOND_PROTOCOL: Final = {_PRODUCE: 12, _END_TXN: 5}
"""The first versions of the requests that clients send from level 2 of `transaction.version` on."""
_FIRST_PROTOCOL: Final = 1


class Versions:
    """The versions that are pretended: `ranges` by API key, of which those that are not served have none, and the highest
    `levels` of features, None if these are not limited."""

    def __init__(self, sent: Mapping[str, Any]) -> None:
        """Reads what a test sent. Raises Refused."""
        self.sent = dict(sent)
        release = _read_release(self.sent.get(AS))
        self.ranges: dict[int, Range] = {api.key: (api.min_version, api.max_version) for api in APIS.values()}
        if release is not None:
            served = ((key, _common(own, release.ranges.get(key))) for key, own in self.ranges.items())
            self.ranges = {key: both for key, both in served if both is not None}
        for name, value in self.sent.items():
            if name != AS:
                self._narrow(name, value)
        if self.ranges.get(API_VERSIONS, (1, 1))[0] > 0:
            raise Refused("ApiVersions: every broker serves it, in version 0 at least; give it a range that begins with 0")
        self.levels = None if release is None else release.levels

    def _narrow(self, name: str, value: object) -> None:
        """Reads the range of one API. Raises Refused."""
        api = _BY_NAME.get(name)
        if api is None:
            raise Refused(f"there is no API {name!r:.50}{nearest(name, _BY_NAME)}")
        if value is None:
            self.ranges.pop(api.key, None)
            return
        if not isinstance(value, list) or [type(each) for each in value] != [int, int] or value[0] > value[1]:
            raise Refused(f"{name} must be null, or the lowest and the highest version, such as [3, 9], not {value!r:.50}")
        if not api.min_version <= value[0] or not value[1] <= api.max_version:
            raise Refused(f"{name}: v{api.min_version} to v{api.max_version} are served, and that can only be narrowed")
        self.ranges[api.key] = value[0], value[1]

    def describe(self) -> dict[str, Any]:
        """Returns what is pretended, as JSON has it: the range of each API by name, null for one that is not served."""
        ranges = {name: self.ranges.get(api.key) for name, api in _BY_NAME.items()}
        return {AS: self.sent.get(AS), "versions": {name: found and list(found) for name, found in ranges.items()}}

    # What stands around requests

    def around_serve(self, serve: Serve) -> Serve:
        """Returns what serves a frame in place of `serve`."""
        return partial(self._serve, serve)

    def _serve(self, serve: Serve, frame: Buffer, session: Session) -> Any:
        if len(frame) < _KEY_VERSION_ID.size:
            return serve(frame, session)
        key, version, correlation_id = _KEY_VERSION_ID.unpack_from(frame)
        found = self.ranges.get(key)
        if found is not None and found[0] <= version <= found[1]:
            return serve(frame, session)
        if key == API_VERSIONS:
            assert found is not None
            return unsupported_api_versions(correlation_id, found)
        api = APIS.get(key)
        name = f"API key {key}" if api is None else api.name
        raise CloseConnection(f"it sent {name} v{version}, and a test pretends that this is not served")

    def around(self, api: Api, traits: Traits, steps: Steps) -> Steps:
        """See Link."""
        return steps._replace(handle=partial(self._narrow_answer, steps.handle)) if api.key == API_VERSIONS else steps

    def _narrow_answer(self, handle: Handle, body: Any, request: Request) -> Any:
        return change_answer(handle(body, request), self._narrowed)

    def _narrowed(self, answer: ApiVersionsResponse) -> ApiVersionsResponse:
        found = [(each, self.ranges.get(each.api_key)) for each in answer.api_keys]  # which others have as well, so it is copied
        answer.api_keys = [_advertised(each, served) for each, served in found if served is not None]
        answer.supported_features = [
            SupportedFeatureKey(each.name, each.min_version, level)
            for each in answer.supported_features
            if (level := self._level(each.name, each.max_version)) >= max(each.min_version, 1)
        ]
        answer.finalized_features = [
            FinalizedFeatureKey(each.name, level, min(each.min_version_level, level))
            for each in answer.finalized_features
            if (level := self._level(each.name, each.max_version_level)) > 0
        ]
        return answer

    def _level(self, name: str, own: int) -> int:
        """Returns the level of a feature that goes with the versions, at most our own."""
        level = own if self.levels is None else min(own, self.levels.get(name, 0))
        if name == _TRANSACTION_VERSION and any(
            self.ranges.get(key, (0, -1))[1] < first for key, first in _SECOND_PROTOCOL.items()
        ):
            return min(level, _FIRST_PROTOCOL)
        return level


def _read_release(name: object) -> Release | None:
    if name is None:
        return None
    if not isinstance(name, str) or name not in RELEASES:
        raise Refused(f"as: there are the releases {', '.join(RELEASES)}, not {name!r:.50}")
    return RELEASES[name]


def _common(own: Range, other: Range | None) -> Range | None:
    """Returns the versions in both ranges, None if there are none."""
    if other is None:
        return None
    low, high = max(own[0], other[0]), min(own[1], other[1])
    return (low, high) if low <= high else None


def _advertised(own: ApiVersion, found: Range) -> ApiVersion:
    """Returns what clients learn about an API. A lowest version that is not narrowed stays as the broker has it, though it
    may not be served."""
    low = own.min_version if found[0] == APIS[own.api_key].min_version else found[0]
    return ApiVersion(own.api_key, low, found[1])

"""The registration of a broker with the controllers: what it says of itself, and what each of their answers means
(BrokerRegistration, KIP-631, KIP-858, KIP-966).

The features are a promise: the controllers refuse to finalize a level that a registered broker does not claim, and refuse a
broker that does not claim a level which is finalized. So the same table is registered by a broker that is its own quorum.

| answer | meaning | what follows |
|---|---|---|
| NONE | registered; the broker epoch is in the answer | heartbeats |
| NOT_CONTROLLER | another controller is active | the leader is looked for again |
| DUPLICATE_BROKER_REGISTRATION | the session of an earlier start, or of another node, goes on | another attempt |
| REQUEST_TIMED_OUT and the like | the controllers are busy | another attempt |
| anything else | this broker cannot join this cluster as it is | the start ends, and says which setting to change |

A broker that was killed waits for the end of its own session, up to `broker.session.timeout.ms`, in the third row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Final

from ottla.server.metadata.feature_levels import SUPPORTED_FEATURES
from ottla.server.metadata.image import Endpoint
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener

UNKNOWN_EPOCH: Final = -1
"""The previous broker epoch of a broker whose last stop was not clean, or that never ran: its replicas may have lost records, so
the controllers take it out of the eligible leader replicas (KIP-966)."""


class Verdict(Enum):
    """The verdict that follows from an answer."""

    REGISTERED = "registered"
    ANOTHER_CONTROLLER = "another controller is active"
    TRY_AGAIN = "try again"
    REFUSED = "refused"


_VERDICTS: Final[Mapping[int, Verdict]] = {
    ErrorCode.NONE: Verdict.REGISTERED,
    ErrorCode.NOT_CONTROLLER: Verdict.ANOTHER_CONTROLLER,
    ErrorCode.DUPLICATE_BROKER_REGISTRATION: Verdict.TRY_AGAIN,
    ErrorCode.REQUEST_TIMED_OUT: Verdict.TRY_AGAIN,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: Verdict.ANOTHER_CONTROLLER,
}

_REFUSALS: Final[Mapping[int, str]] = {
    ErrorCode.INCONSISTENT_CLUSTER_ID: (
        "the controllers belong to another cluster than {cluster_id}, for which log.dirs is formatted: check "
        "controller.quorum.bootstrap.servers, or name other log.dirs"
    ),
    ErrorCode.UNSUPPORTED_VERSION: (
        "a feature of the cluster is finalized at a level that this broker does not have; it has {features}. "
        "`kafka-features.sh describe` lists the levels, and `kafka-features.sh downgrade` lowers one"
    ),
    ErrorCode.INVALID_REGISTRATION: "the ids of log.dirs are missing, doubled or reserved: check their meta.properties",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "the controllers do not let this node's principal act as a broker (super.users)",
}


def registration(
    node_id: int,
    cluster_id: str,
    incarnation: bytes,
    endpoints: Sequence[Endpoint],
    directory_ids: Sequence[bytes],
    *,
    rack: str | None = None,
    previous_epoch: int = UNKNOWN_EPOCH,
) -> BrokerRegistrationRequest:
    """Returns what a broker says of itself. `incarnation` is a uuid of this start: the same one again gets the same epoch.

    `previous_epoch` is the one of `.kafka_cleanshutdown`, only if the last stop was clean.
    """
    return BrokerRegistrationRequest(
        broker_id=node_id,
        cluster_id=cluster_id,
        incarnation_id=incarnation,
        listeners=[Listener(*endpoint) for endpoint in endpoints],
        features=[Feature(name, *levels) for name, levels in SUPPORTED_FEATURES.items()],
        rack=rack,
        log_dirs=list(directory_ids),
        previous_broker_epoch=previous_epoch,
    )


def verdict(error_code: int) -> Verdict:
    """Returns what follows from the error code of an answer."""
    return _VERDICTS.get(error_code, Verdict.REFUSED)


def describe_refusal(error_code: int, request: BrokerRegistrationRequest) -> str:
    """Returns, for whoever starts the broker, why the controllers refuse it and what to do."""
    features = ", ".join(f"{each.name} {each.min_supported_version} to {each.max_supported_version}" for each in request.features)
    known = ErrorCode._value2member_map_.get(error_code)
    name = known.name if known is not None else f"error {error_code}"
    reason = _REFUSALS.get(error_code, "this broker cannot register as it is").format(
        cluster_id=request.cluster_id, features=features
    )
    return f"the controllers refuse node.id {request.broker_id} with {name}: {reason}"

"""What administrators change now and then: credentials, tokens, feature levels, who belongs to the cluster.

The half of StandaloneController (standalone.py) that no broker needs to serve clients; each operation works as described there,
and its rules are imported with the first one.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Final, TypeVar

from ottla.server.metadata.controller import Controller
from ottla.server.metadata.records import METADATA_VERSION, MIN_METADATA_VERSION

if TYPE_CHECKING:
    from random import Random

    from ottla.server.base.clock import Clock
    from ottla.server.metadata.image import MetadataImage
    from ottla.server.metadata.metadata_log import MetadataLog
    from ottla.server.metadata.operation import Outcome
    from ottla.server.metadata.quorum import Voter
    from ottla.server.metadata.settings import BrokerSettings
    from ottla.wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
    from ottla.wire.messages.alter_user_scram_credentials import (
        AlterUserScramCredentialsRequest,
        AlterUserScramCredentialsResponse,
    )
    from ottla.wire.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse
    from ottla.wire.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
    from ottla.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
    from ottla.wire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
    from ottla.wire.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse
    from ottla.wire.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse

SUPPORTED_FEATURES: Final = {
    "metadata.version": (MIN_METADATA_VERSION, METADATA_VERSION),
    "kraft.version": (0, 1),
    "transaction.version": (0, 2),
    "group.version": (0, 1),
    "share.version": (0, 2),
    "streams.version": (0, 1),
    "eligible.leader.replicas.version": (0, 1),
}
"""What this broker registers as able to do: (lowest, highest) level. Clients are told of these and no others: a feature is
here once its promises are kept."""

_Answer = TypeVar("_Answer")


class Administration(Controller):
    """Its attributes are those of StandaloneController."""

    image: MetadataImage
    _log: MetadataLog
    _settings: BrokerSettings
    _clock: Clock
    _random: Random

    @abstractmethod
    def _carry_out(self, outcome: Outcome[_Answer]) -> _Answer:
        """Makes the records durable and true; then the answer may be given. StorageError."""

    async def alter_user_scram_credentials(self, request: AlterUserScramCredentialsRequest) -> AlterUserScramCredentialsResponse:
        from ottla.server.metadata import scram

        return self._carry_out(scram.alter(self.image, request))

    async def create_delegation_token(
        self, request: CreateDelegationTokenRequest, requester: str
    ) -> CreateDelegationTokenResponse:
        from ottla.server.metadata import tokens

        settings, now_ms = tokens.settings_of(self._settings.broker_values), self._clock.now_ms()
        principal = tokens.principal_of(requester)
        return self._carry_out(tokens.create(self.image, settings, self._random, now_ms, principal, request))

    async def renew_delegation_token(self, request: RenewDelegationTokenRequest, requester: str) -> RenewDelegationTokenResponse:
        from ottla.server.metadata import tokens

        settings, now_ms = tokens.settings_of(self._settings.broker_values), self._clock.now_ms()
        return self._carry_out(tokens.renew(self.image, settings, now_ms, tokens.principal_of(requester), request))

    async def expire_delegation_token(
        self, request: ExpireDelegationTokenRequest, requester: str
    ) -> ExpireDelegationTokenResponse:
        from ottla.server.metadata import tokens

        settings, now_ms = tokens.settings_of(self._settings.broker_values), self._clock.now_ms()
        return self._carry_out(tokens.expire(self.image, settings, now_ms, tokens.principal_of(requester), request))

    def expire_tokens(self) -> None:
        """Removes the delegation tokens whose time is over. StorageError."""
        from ottla.server.metadata import tokens
        from ottla.server.metadata.operation import Outcome

        self._carry_out(Outcome(tokens.expired(self.image, self._clock.now_ms()), None))

    # The cluster

    async def update_features(self, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
        from ottla.server.metadata import features
        from ottla.server.metadata.operation import Outcome

        node_id, min_isr = self._settings.node_id, self._settings.broker_values["min.insync.replicas"]
        records, raises_kraft, answer = features.update(self.image, node_id, SUPPORTED_FEATURES, min_isr, request)
        if raises_kraft:
            self._log.raise_kraft_version(self.image, self._settings.controller_endpoints)
        return self._carry_out(Outcome(records, answer))

    async def unregister_broker(self, broker_id: int) -> None:
        from ottla.server.metadata import membership

        self._carry_out(membership.unregister_broker(self.image, self._settings.node_id, broker_id))

    async def unregister_controller(self, controller_id: int) -> None:
        from ottla.server.metadata import membership

        self._carry_out(membership.unregister_controller(self.image, self._settings.node_id, controller_id))

    # The quorum

    async def describe_quorum(self, request: DescribeQuorumRequest) -> DescribeQuorumResponse:
        from ottla.server.metadata import quorum

        return quorum.describe(self._voter(), self._log.epoch, self._log.end_offset, self._clock.now_ms(), request)

    async def add_raft_voter(self, request: AddRaftVoterRequest) -> AddRaftVoterResponse:
        from ottla.server.metadata import quorum

        return quorum.add(self._voter(), self.image.cluster_id, self._settings.controller_listener, request)

    async def remove_raft_voter(self, request: RemoveRaftVoterRequest) -> RemoveRaftVoterResponse:
        from ottla.server.metadata import quorum

        return quorum.remove(self._voter(), self.image.cluster_id, request)

    def _voter(self) -> Voter:
        from ottla.server.metadata.quorum import Voter

        return Voter(self._settings.node_id, self._log.directory_id, self._settings.controller_endpoints)

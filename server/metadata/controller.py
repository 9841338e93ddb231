"""Controller: who changes the cluster's metadata, as handlers and coordinators see it.

The operations take and return the messages of Kafka's own APIs: in a quorum a twin of this class sends them on to the active
controller in an Envelope, as they are, and the answer comes back the same way. A handler adds what belongs to its connection
and nothing else; `caller` is the client that asks, or None if the broker itself does. Answers are complete in the newest version;
the encoder leaves out what an older one does not have.

When an operation returns, its records are durable and the local image has them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ottla.server.metadata.operation import NO_LIMIT, Permits

if TYPE_CHECKING:
    from ottla.server.metadata.operation import Caller
    from ottla.wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
    from ottla.wire.messages.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
    from ottla.wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
    from ottla.wire.messages.alter_user_scram_credentials import (
        AlterUserScramCredentialsRequest,
        AlterUserScramCredentialsResponse,
    )
    from ottla.wire.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse
    from ottla.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
    from ottla.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
    from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
    from ottla.wire.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
    from ottla.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
    from ottla.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
    from ottla.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse
    from ottla.wire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
    from ottla.wire.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse
    from ottla.wire.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse


class Controller(ABC):
    """See the module's docstring. Everything here may raise StorageError where the metadata log cannot be written."""

    @abstractmethod
    async def create_topics(
        self, request: CreateTopicsRequest, caller: Caller | None, permits: Permits = NO_LIMIT
    ) -> CreateTopicsResponse:
        """Each topic succeeds or fails on its own; those that succeed become true together."""

    @abstractmethod
    async def delete_topics(
        self, request: DeleteTopicsRequest, caller: Caller, permits: Permits = NO_LIMIT
    ) -> DeleteTopicsResponse:
        """Takes topics by name or id from `request.topics`; the handler puts the names of versions 1-5 there too."""

    @abstractmethod
    async def create_partitions(
        self, request: CreatePartitionsRequest, caller: Caller, permits: Permits = NO_LIMIT
    ) -> CreatePartitionsResponse:
        """Adds partitions to topics, each on its own."""

    @abstractmethod
    async def incremental_alter_configs(
        self, request: IncrementalAlterConfigsRequest, caller: Caller
    ) -> IncrementalAlterConfigsResponse:
        """Settings of topics, brokers and groups; resources that the broker has dealt with itself are not in the request."""

    @abstractmethod
    async def alter_configs(self, request: AlterConfigsRequest, caller: Caller) -> AlterConfigsResponse:
        """Sets all settings of a resource at once: what is not in the request goes back to its default."""

    @abstractmethod
    async def alter_client_quotas(self, request: AlterClientQuotasRequest, caller: Caller) -> AlterClientQuotasResponse:
        """Quotas of users, client ids and addresses, each entity on its own."""

    @abstractmethod
    async def elect_leaders(self, request: ElectLeadersRequest, caller: Caller) -> ElectLeadersResponse:
        """Elections that an administrator asks for, each partition on its own."""

    @abstractmethod
    async def alter_user_scram_credentials(
        self, request: AlterUserScramCredentialsRequest, caller: Caller
    ) -> AlterUserScramCredentialsResponse:
        """Gives users SCRAM credentials and takes them away; those users that succeed do so together."""

    @abstractmethod
    async def create_delegation_token(
        self, request: CreateDelegationTokenRequest, caller: Caller
    ) -> CreateDelegationTokenResponse:
        """A new token, which the caller's principal owns unless the request names another owner."""

    @abstractmethod
    async def renew_delegation_token(self, request: RenewDelegationTokenRequest, caller: Caller) -> RenewDelegationTokenResponse:
        """A token lasts longer."""

    @abstractmethod
    async def expire_delegation_token(
        self, request: ExpireDelegationTokenRequest, caller: Caller
    ) -> ExpireDelegationTokenResponse:
        """A token ends earlier."""

    @abstractmethod
    async def update_features(self, request: UpdateFeaturesRequest, caller: Caller) -> UpdateFeaturesResponse:
        """Raises and lowers the levels of features, all or none."""

    @abstractmethod
    async def unregister_broker(self, broker_id: int, caller: Caller) -> None:
        """A broker is gone for good. Raises Refused."""

    @abstractmethod
    async def unregister_controller(self, controller_id: int, caller: Caller) -> None:
        """A controller is gone for good. Raises Refused."""

    @abstractmethod
    async def add_raft_voter(self, request: AddRaftVoterRequest, caller: Caller) -> AddRaftVoterResponse:
        """Another node is to vote on the metadata."""

    @abstractmethod
    async def remove_raft_voter(self, request: RemoveRaftVoterRequest, caller: Caller) -> RemoveRaftVoterResponse:
        """A node is to vote no more."""

    @abstractmethod
    async def describe_quorum(self, request: DescribeQuorumRequest, caller: Caller) -> DescribeQuorumResponse:
        """Who votes on the metadata, who leads, and how far each has come."""

    @abstractmethod
    async def allocate_producer_ids(self) -> range:
        """A block of producer ids that nobody else gets, ever."""

    @abstractmethod
    def create_in_background(self, names: Iterable[str], caller: Caller | None, permits: Permits = NO_LIMIT) -> None:
        """Creates topics with the broker's defaults, internal ones with theirs, some time after this call returns.

        For auto-creation: callers answer "unknown, ask again" meanwhile. Failures are logged; a name that exists or is already
        on its way counts as done.
        """

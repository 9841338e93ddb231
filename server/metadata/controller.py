"""`Controller`, the interface through which handlers and coordinators change the cluster's metadata.

The operations take and return the messages of Kafka's own APIs: in a quorum another implementation forwards them unchanged to the
active controller in an Envelope, and the answer comes back the same way. A handler adds only what belongs to its connection;
`caller` is the client that asks, or None if the broker itself does. Answers are complete in the newest version; the encoder
leaves out what an older one does not have.

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
    from ottla.wire.messages.alter_partition_reassignments import (
        AlterPartitionReassignmentsRequest,
        AlterPartitionReassignmentsResponse,
    )
    from ottla.wire.messages.alter_user_scram_credentials import (
        AlterUserScramCredentialsRequest,
        AlterUserScramCredentialsResponse,
    )
    from ottla.wire.messages.create_acls import CreateAclsRequest, CreateAclsResponse
    from ottla.wire.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse
    from ottla.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
    from ottla.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
    from ottla.wire.messages.delete_acls import DeleteAclsRequest, DeleteAclsResponse
    from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
    from ottla.wire.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
    from ottla.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
    from ottla.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
    from ottla.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse
    from ottla.wire.messages.list_partition_reassignments import (
        ListPartitionReassignmentsRequest,
        ListPartitionReassignmentsResponse,
    )
    from ottla.wire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
    from ottla.wire.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse
    from ottla.wire.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse


class Controller(ABC):
    """The operations that change the metadata. All of them may raise StorageError if the metadata log cannot be written."""

    @abstractmethod
    async def create_topics(
        self, request: CreateTopicsRequest, caller: Caller | None, permits: Permits = NO_LIMIT
    ) -> CreateTopicsResponse:
        """Creates topics. Each succeeds or fails on its own; those that succeed take effect together."""

    @abstractmethod
    async def delete_topics(
        self, request: DeleteTopicsRequest, caller: Caller, permits: Permits = NO_LIMIT
    ) -> DeleteTopicsResponse:
        """Deletes the topics named by name or id in `request.topics`; the handler puts the names of versions 1-5 there, too."""

    @abstractmethod
    async def create_partitions(
        self, request: CreatePartitionsRequest, caller: Caller, permits: Permits = NO_LIMIT
    ) -> CreatePartitionsResponse:
        """Adds partitions to topics, each on its own."""

    @abstractmethod
    async def incremental_alter_configs(
        self, request: IncrementalAlterConfigsRequest, caller: Caller
    ) -> IncrementalAlterConfigsResponse:
        """Changes settings of topics, brokers and groups. The broker leaves out the resources with which it deals itself."""

    @abstractmethod
    async def alter_configs(self, request: AlterConfigsRequest, caller: Caller) -> AlterConfigsResponse:
        """Replaces all settings of a resource: a setting that is not in the request goes back to its default."""

    @abstractmethod
    async def alter_client_quotas(self, request: AlterClientQuotasRequest, caller: Caller) -> AlterClientQuotasResponse:
        """Changes quotas of users, client ids and addresses, each entity on its own; those that succeed take effect together.
        Raises Refused."""

    @abstractmethod
    async def elect_leaders(self, request: ElectLeadersRequest, caller: Caller) -> ElectLeadersResponse:
        """Holds the elections that an administrator asks for, each partition on its own."""

    @abstractmethod
    async def alter_partition_reassignments(
        self, request: AlterPartitionReassignmentsRequest, caller: Caller
    ) -> AlterPartitionReassignmentsResponse:
        """Begins and cancels moves of partitions to other brokers, each partition on its own. Raises Refused."""

    @abstractmethod
    async def list_partition_reassignments(
        self, request: ListPartitionReassignmentsRequest, caller: Caller
    ) -> ListPartitionReassignmentsResponse:
        """Lists the partitions that are moving to other brokers."""

    @abstractmethod
    async def alter_user_scram_credentials(
        self, request: AlterUserScramCredentialsRequest, caller: Caller
    ) -> AlterUserScramCredentialsResponse:
        """Sets and deletes SCRAM credentials of users; the changes of those users that succeed take effect together.
        Raises Refused."""

    @abstractmethod
    async def create_acls(self, request: CreateAclsRequest, caller: Caller) -> CreateAclsResponse:
        """Adds access rules, each on its own; those that are added take effect together. Raises Refused, among other reasons if
        the controller has no authorizer."""

    @abstractmethod
    async def delete_acls(self, request: DeleteAclsRequest, caller: Caller) -> DeleteAclsResponse:
        """Removes the access rules that match any of the filters, all together; equal filters share one result. Raises
        Refused, among other reasons if the controller has no authorizer."""

    @abstractmethod
    async def create_delegation_token(
        self, request: CreateDelegationTokenRequest, caller: Caller
    ) -> CreateDelegationTokenResponse:
        """Makes a delegation token, which the caller's principal owns unless the request names another owner."""

    @abstractmethod
    async def renew_delegation_token(self, request: RenewDelegationTokenRequest, caller: Caller) -> RenewDelegationTokenResponse:
        """Extends the life of a delegation token."""

    @abstractmethod
    async def expire_delegation_token(
        self, request: ExpireDelegationTokenRequest, caller: Caller
    ) -> ExpireDelegationTokenResponse:
        """Ends the life of a delegation token earlier, or at once."""

    @abstractmethod
    async def update_features(self, request: UpdateFeaturesRequest, caller: Caller) -> UpdateFeaturesResponse:
        """Raises and lowers the levels of features, all or none."""

    @abstractmethod
    async def unregister_broker(self, broker_id: int, caller: Caller) -> None:
        """Removes the registration of a broker that is gone for good. Raises Refused."""

    @abstractmethod
    async def unregister_controller(self, controller_id: int, caller: Caller) -> None:
        """Removes the registration of a controller that is gone for good. Raises Refused."""

    @abstractmethod
    async def add_raft_voter(self, request: AddRaftVoterRequest, caller: Caller) -> AddRaftVoterResponse:
        """Makes another node a voter of the metadata quorum."""

    @abstractmethod
    async def remove_raft_voter(self, request: RemoveRaftVoterRequest, caller: Caller) -> RemoveRaftVoterResponse:
        """Removes a node from the voters of the metadata quorum."""

    @abstractmethod
    async def describe_quorum(self, request: DescribeQuorumRequest, caller: Caller) -> DescribeQuorumResponse:
        """Answers which nodes vote on the metadata, which one leads, and how far each has replicated."""

    @abstractmethod
    async def allocate_producer_ids(self) -> range:
        """Returns a block of producer ids that is never given out again."""

    @abstractmethod
    def create_in_background(self, names: Iterable[str], caller: Caller | None, permits: Permits = NO_LIMIT) -> None:
        """Creates topics with the broker's defaults, internal ones with theirs, some time after this call returns.

        This is for auto-creation: until then callers answer UNKNOWN_TOPIC_OR_PARTITION, which clients retry. Failures are logged;
        a topic that exists or is already being created is not a failure.
        """

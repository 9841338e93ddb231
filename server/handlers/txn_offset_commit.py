"""TxnOffsetCommit v0-6 stores, as part of a transaction, how far the producer's group has read (KIP-98, KIP-447).

- The offsets take effect when the transaction is committed; until then OffsetFetch with require_stable is told to wait for them.
- v3 adds the group's member, static or not, and its generation. They are checked as in OffsetCommit, except for 27
  REBALANCE_IN_PROGRESS. Without them anybody may commit.
- The group's partition of `__consumer_offsets` has to be in the transaction (AddOffsetsToTxn); v5 adds it (KIP-890). v6 names
  topics by id, and answers 69 GROUP_ID_NOT_FOUND and 113 STALE_MEMBER_EPOCH where older versions get 22 ILLEGAL_GENERATION.
- Errors of each partition: 3 UNKNOWN_TOPIC_OR_PARTITION, 100 UNKNOWN_TOPIC_ID, 12 OFFSET_METADATA_TOO_LARGE.
- Errors of all partitions: 14 COORDINATOR_LOAD_IN_PROGRESS (15 below v2), 15 COORDINATOR_NOT_AVAILABLE or 16 NOT_COORDINATOR of a
  coordinator, 22 ILLEGAL_GENERATION, 25 UNKNOWN_MEMBER_ID, 28 INVALID_COMMIT_OFFSET_SIZE (they do not fit into a batch of
  `__consumer_offsets`), 47 INVALID_PRODUCER_EPOCH, 48 INVALID_TXN_STATE (v4: 120 TRANSACTION_ABORTABLE), 49
  INVALID_PRODUCER_ID_MAPPING, 51 CONCURRENT_TRANSACTIONS, 82 FENCED_INSTANCE_ID.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from ottla.server.base.answers import chain_answer, map_answer
from ottla.server.base.promise import Promise
from ottla.server.base.turns import Steps, call_in_thread, take_steps
from ottla.server.group.commits import AT_ONCE, PARTITIONS_A_STEP, PreparedCommit
from ottla.server.group.errors import GroupError
from ottla.server.group.records import InTransaction
from ottla.server.group.requests import Commit, Committer
from ottla.server.metadata.names import CONSUMER_OFFSETS
from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.rights import Inside, Need, Operation, Resource
from ottla.server.txn.verification import Codes, Entry, refused_entries
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

TRAITS = Traits(
    Inside(
        Need(Operation.WRITE, Resource.TRANSACTIONAL_ID),
        Need(Operation.READ, Resource.GROUP),
        Need(Operation.READ, Resource.TOPIC),
    )
)

LOADING_SINCE = 2
ABORTABLE_SINCE = 4
ADDS_SINCE = 5
TOPIC_IDS_SINCE = 6
NEW_ERRORS_SINCE = 6


def handle(body: TxnOffsetCommitRequest, request: Request) -> TxnOffsetCommitResponse | Promise[TxnOffsetCommitResponse]:
    return chain_answer(take_steps(_prepare(body, request), request.broker.clock), lambda commit: _store(commit, body, request))


class _Commit(NamedTuple):
    """The offsets that a request wants to store, as in offset_commit.py."""

    response: TxnOffsetCommitResponse
    accepted: list[TxnOffsetCommitResponsePartition]
    commits: list[Commit]
    prepared: PreparedCommit | None = None


def _prepare(body: TxnOffsetCommitRequest, request: Request) -> Steps[_Commit]:
    commits: list[Commit] = []
    accepted: list[TxnOffsetCommitResponsePartition] = []
    topics = []
    for topic in body.topics:
        if not topic.partitions:
            continue
        answer = yield from _read_topic(topic, request, commits, accepted)
        topics.append(answer)
    response = TxnOffsetCommitResponse(topics=topics)
    if len(commits) <= AT_ONCE:
        return _Commit(response, accepted, commits)
    broker = request.broker
    transaction = InTransaction(body.producer_id, body.producer_epoch)
    try:
        shard = broker.groups.member_shard(body.group_id)
    except GroupError:
        return _Commit(response, accepted, commits)  # `_store` is refused as well
    encode = partial(shard.prepare_commit, body.group_id, commits, transaction=transaction)
    return _Commit(response, accepted, commits, (yield from call_in_thread(encode, broker.workers)))


def _store(
    commit: _Commit, body: TxnOffsetCommitRequest, request: Request
) -> TxnOffsetCommitResponse | Promise[TxnOffsetCommitResponse]:
    response, accepted = commit.response, commit.accepted
    if not accepted:
        return response

    def answer(code: ErrorCode) -> TxnOffsetCommitResponse:
        if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and request.api_version < LOADING_SINCE:
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        for partition in accepted:
            partition.error_code = partition.error_code if code is ErrorCode.NONE else code
        return response

    return map_answer(_commit(body, commit, request), answer)


def _commit(body: TxnOffsetCommitRequest, commit: _Commit, request: Request) -> ErrorCode | Promise[ErrorCode]:
    """Has the group store the offsets as part of the transaction; returns the error code for all of them."""
    broker, version, commits = request.broker, request.api_version, commit.commits
    transaction = InTransaction(body.producer_id, body.producer_epoch)
    refused: Codes | Promise[Codes] = {}
    try:
        shard = broker.groups.member_shard(body.group_id)
        if commits and (version >= ADDS_SINCE or broker.settings["transaction.partition.verification.enable"]):
            refused = refused_entries(
                broker.replicas,
                broker.transaction_verifier(),
                body.transactional_id,
                [Entry((CONSUMER_OFFSETS, shard.partition), *transaction)],
                add=version >= ADDS_SINCE,
                generic_error=version >= ABORTABLE_SINCE,
            )
    except GroupError as error:
        return error.code
    return chain_answer(refused, lambda codes: _commit_verified(codes, body, commit, request))


def _commit_verified(
    refused: Codes, body: TxnOffsetCommitRequest, commit: _Commit, request: Request
) -> ErrorCode | Promise[ErrorCode]:
    """Stores the offsets, unless the transaction's coordinator has refused that."""
    code = next(iter(refused.values()), ErrorCode.NONE)
    if code is ErrorCode.NETWORK_EXCEPTION:  # for which a producer would look for the coordinator of the group, which is here
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    if code is not ErrorCode.NONE:
        return code
    version = request.api_version
    try:
        shard = request.broker.groups.member_shard(body.group_id)
        shard.commit(
            body.group_id,
            Committer(body.member_id, body.group_instance_id, body.generation_id_or_member_epoch, version),
            commit.commits,
            missing_group=ErrorCode.GROUP_ID_NOT_FOUND if version >= NEW_ERRORS_SINCE else ErrorCode.ILLEGAL_GENERATION,
            transaction=InTransaction(body.producer_id, body.producer_epoch),
            prepared=commit.prepared,
        )
    except GroupError as error:
        stale = error.code is ErrorCode.STALE_MEMBER_EPOCH and version < NEW_ERRORS_SINCE
        return ErrorCode.ILLEGAL_GENERATION if stale else error.code
    return shard.outcome()


def _read_topic(
    topic: TxnOffsetCommitRequestTopic,
    request: Request,
    commits: list[Commit],
    accepted: list[TxnOffsetCommitResponsePartition],
) -> Steps[TxnOffsetCommitResponseTopic]:
    """Makes steps that return the answer for one topic. Adds offsets to store to `commits`, and answers of partitions that exist
    to `accepted`."""
    by_id, metadata = request.api_version >= TOPIC_IDS_SINCE, request.broker.metadata
    image = metadata.topics_by_id.get(topic.topic_id) if by_id else metadata.topics.get(topic.name)
    missing = ErrorCode.UNKNOWN_TOPIC_ID if image is None and by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    max_bytes = request.broker.groups.settings.offset_metadata_max_bytes
    answers = []
    for at, partition in enumerate(topic.partitions):
        if at % PARTITIONS_A_STEP == 0:
            yield None
        index = partition.partition_index
        answer = TxnOffsetCommitResponsePartition(index)
        answers.append(answer)
        if image is None or index not in image.partitions:
            answer.error_code = missing
            continue
        accepted.append(answer)
        text = partition.committed_metadata or ""
        if len(text) > max_bytes:
            answer.error_code = ErrorCode.OFFSET_METADATA_TOO_LARGE
            continue
        commits.append(
            Commit(image.name, image.topic_id, index, partition.committed_offset, partition.committed_leader_epoch, text)
        )
    return TxnOffsetCommitResponseTopic(topic.name, topic.topic_id, answers)

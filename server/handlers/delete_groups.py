"""DeleteGroups v0-3 deletes groups without members, with their offsets; of share groups also the state in their partitions.

- A group that is named twice is answered once. v3 has a field for a message; Kafka leaves it null for the errors below, and so do
  we.
- Errors of each group: 69 GROUP_ID_NOT_FOUND, 68 NON_EMPTY_GROUP, and the coordinator's 14 COORDINATOR_LOAD_IN_PROGRESS, 15
  COORDINATOR_NOT_AVAILABLE and 16 NOT_COORDINATOR.
"""

from __future__ import annotations

from functools import partial

from ottla.server.base.answers import chain_answer, recover_answer
from ottla.server.base.promise import Promise
from ottla.server.base.turns import Steps, answer_once, call_in_thread, take_steps
from ottla.server.group.commits import AT_ONCE
from ottla.server.group.deletions import PreparedDeletion, prepare
from ottla.server.group.errors import GroupError
from ottla.server.group.kind import Kind
from ottla.server.group.shard import GroupShard
from ottla.server.requests.request import Request
from ottla.server.requests.traits import Traits
from ottla.server.security.rights import Inside, Need, Operation, Resource
from ottla.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse

TRAITS = Traits(Inside(Need(Operation.DELETE, Resource.GROUP)))


def handle(body: DeleteGroupsRequest, request: Request) -> DeleteGroupsResponse | Promise[DeleteGroupsResponse]:
    def steps() -> Steps[DeleteGroupsResponse]:
        results = yield from answer_once(dict.fromkeys(body.groups_names), lambda group_id: _delete(group_id, request))
        return DeleteGroupsResponse(results=results)

    return take_steps(steps(), request.broker.clock)


def _delete(group_id: str, request: Request) -> DeletableGroupResult | Promise[DeletableGroupResult]:
    try:
        shard = request.broker.groups.shard(group_id)
        group = shard.groups.get(group_id)
        emptied = request.broker.share_group_state().delete_all(group_id) if group and group.kind is Kind.SHARE else None
        answer = chain_answer(emptied, lambda _: _delete_from(shard, group_id, request))
    except GroupError as error:
        return _refusal(group_id, error)
    return recover_answer(answer, GroupError, partial(_refusal, group_id))


def _delete_from(shard: GroupShard, group_id: str, request: Request) -> DeletableGroupResult | Promise[DeletableGroupResult]:
    """Deletes the group; encodes that in a thread if it has many offsets. Raises GroupError."""
    if shard.offsets.count(group_id) <= AT_ONCE:
        return _write(shard, group_id)
    encode = partial(prepare, shard.deletion(group_id), request.broker.clock.now_ms(), shard.settings.offsets_codec)
    prepared = take_steps(call_in_thread(encode, request.broker.workers), request.broker.clock)
    return chain_answer(prepared, partial(_write, shard, group_id))


def _write(
    shard: GroupShard, group_id: str, prepared: PreparedDeletion | None = None
) -> DeletableGroupResult | Promise[DeletableGroupResult]:
    shard.delete_group(group_id, prepared)
    return shard.answer_or(DeletableGroupResult(group_id), lambda code: DeletableGroupResult(group_id, code))


def _refusal(group_id: str, error: GroupError) -> DeletableGroupResult:
    return DeletableGroupResult(group_id, error.code)

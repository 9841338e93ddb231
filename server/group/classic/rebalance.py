"""`Rebalance` runs the two phases of a rebalance, and all timers of classic groups.

Join phase: a group that was EMPTY waits `group.initial.rebalance.delay.ms` for more members, again after each new one, but no
longer than the members' rebalance timeout. So a deployment that starts ten consumers rebalances once, not ten times. Any other
rebalance ends as soon as all known members have joined again, or when the rebalance timeout is over: dynamic members that did not
come are removed, static ones stay. Sync phase: members that do not sync within the rebalance timeout are removed, and the next
rebalance begins. In both, a member stays as long as its session: heartbeats, commits and parked requests keep it alive.

Steps return the records to write (see result.py). Timers have no caller to return them to, so they pass theirs to the shard's
`run_timer`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from ottla.server.group.classic.group import ClassicGroup, State
from ottla.server.group.classic.member_limits import are_too_many
from ottla.server.group.classic.members import Member
from ottla.server.group.protocol import ShardContext
from ottla.server.group.result import NOTHING, Result
from ottla.server.group.timers import Timer
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.join_group import JoinGroupResponse
from ottla.wire.messages.sync_group import SyncGroupResponse

logger = logging.getLogger("ottla.server.group")


class Rebalance:
    """The rebalances and timers of one shard's classic groups."""

    def __init__(self, shard: ShardContext) -> None:
        self.clock = shard.clock
        self.settings = shard.settings
        self.random = shard.random
        self._cluster = shard.cluster
        self._pending_ids = shard.pending_ids
        self._run = shard.run_timer

    def exceeds_limits(self, size: int) -> bool:
        """Returns whether so many bytes are more than the members of a group may bring, or their assignments have."""
        return are_too_many(size, self.settings, self._cluster)

    # The join phase

    def prepare(self, group: ClassicGroup, reason: str) -> Result[None]:
        """Begins a rebalance. Members that wait for an assignment are answered that they have to join again."""
        if group.state is State.COMPLETING_REBALANCE:
            self.refuse_syncs(group, ErrorCode.REBALANCE_IN_PROGRESS)
        self._forget_syncs(group)
        initial = group.state is State.EMPTY
        logger.info("group %s: rebalance after generation %d (%s)", group.group_id, group.generation, reason)
        group.move(State.PREPARING_REBALANCE, self.clock.now_ms())
        if initial:
            group.new_member_added = False
            delay_ms = self.settings.initial_rebalance_delay_ms
            self._wait_for_first_members(group, delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0))
            return NOTHING
        if group.all_joined:
            return self.complete_join(group)
        self._set_join_timer(group, group.rebalance_timeout_ms, lambda: self.complete_join(group))
        return NOTHING

    def prepare_or_complete(self, group: ClassicGroup, reason: str) -> Result[None]:
        if group.state in (State.EMPTY, State.STABLE, State.COMPLETING_REBALANCE):
            return self.prepare(group, reason)
        return self.maybe_complete_join(group)

    def maybe_complete_join(self, group: ClassicGroup) -> Result[None]:
        """Ends the join phase if all members have joined, except the initial one, which waits for its timer."""
        if group.state is State.PREPARING_REBALANCE and group.previous_state is not State.EMPTY and group.all_joined:
            return self.complete_join(group)
        return NOTHING

    def _wait_for_first_members(self, group: ClassicGroup, delay_ms: int, remaining_ms: int) -> None:
        def over() -> Result[None]:
            if not group.new_member_added or remaining_ms == 0:
                return self.complete_join(group)
            group.new_member_added = False
            next_delay_ms = min(self.settings.initial_rebalance_delay_ms, remaining_ms)
            self._wait_for_first_members(group, next_delay_ms, max(remaining_ms - delay_ms, 0))
            return NOTHING

        self._set_join_timer(group, delay_ms, over)

    def complete_join(self, group: ClassicGroup) -> Result[None]:
        """Ends the join phase: the members that joined form the next generation, or the group is empty if there are none."""
        assert group.state is State.PREPARING_REBALANCE
        if group.join_timer is not None:
            group.join_timer.cancel()
        for member in [member for member in group.members.values() if member.awaiting_join is None and not member.is_static]:
            logger.info("group %s: removed %s, which did not join in time", group.group_id, member.member_id)
            group.remove(member.member_id)
        if not group.members:
            return self._become_empty(group)
        if not self._elect_joined_leader(group):
            # Only static members are left, and none of them has joined: wait until one joins or their sessions expire.
            self._set_join_timer(group, group.rebalance_timeout_ms, lambda: self.complete_join(group))
            return NOTHING
        group.start_generation(self.clock.now_ms())
        logger.info("group %s: generation %d has %d members", group.group_id, group.generation, len(group.members))
        for member in group.members.values():
            group.answer_join(member, group.joined_response(member))
            member.is_new = False
            self.reset_session(group, member)
            group.pending_syncs.add(member.member_id)
        self._wait_for_syncs(group)
        return NOTHING

    def _become_empty(self, group: ClassicGroup) -> Result[None]:
        record = group.empty_record(self.clock.now_ms())

        def written(error: ErrorCode) -> None:
            if error is not ErrorCode.NONE:
                # No member waits for this, and nothing is lost: after a restart the members of the last record are there again
                # and expire.
                logger.warning("group %s: cannot record that it is empty: %s", group.group_id, error.name)
                assert record.value is not None
                group.replay(record.value)

        return Result((record,), None, written)

    @staticmethod
    def _elect_joined_leader(group: ClassicGroup) -> bool:
        """Makes sure that the leader is a member that has joined. Returns False if no member has."""
        assert group.leader is not None
        if group.members[group.leader].awaiting_join is None:
            joined = next((member for member in group.members.values() if member.awaiting_join is not None), None)
            if joined is None:
                return False
            group.leader = joined.member_id
        return True

    # The sync phase

    def _wait_for_syncs(self, group: ClassicGroup) -> None:
        def over() -> Result[None]:
            late = list(group.pending_syncs)
            assert late, "the last member's sync stops the timer, and so does the next rebalance"
            for member_id in late:
                group.remove(member_id)
            return self.prepare(group, f"{len(late)} members did not sync in time")

        if group.sync_timer is not None:
            group.sync_timer.cancel()
        group.sync_timer = Timer(self.clock, lambda: self._run(over()))
        group.sync_timer.reset(group.rebalance_timeout_ms)

    def synced(self, group: ClassicGroup, member: Member) -> None:
        group.pending_syncs.discard(member.member_id)
        if not group.pending_syncs and group.sync_timer is not None:
            group.sync_timer.cancel()

    def _forget_syncs(self, group: ClassicGroup) -> None:
        group.pending_syncs.clear()
        if group.sync_timer is not None:
            group.sync_timer.cancel()

    def hand_out(self, group: ClassicGroup) -> None:
        """Answers all parked SyncGroups with the assignments that were just written."""
        for member in group.members.values():
            response = SyncGroupResponse(
                protocol_type=group.protocol_type, protocol_name=group.protocol, assignment=member.assignment
            )
            if group.answer_sync(member, response):
                self.reset_session(group, member)

    def refuse_syncs(self, group: ClassicGroup, error: ErrorCode) -> None:
        """Answers all parked SyncGroups with `error`, and drops the assignments of the last generation."""
        for member in group.members.values():
            member.assignment = b""
            if group.answer_sync(member, SyncGroupResponse(error_code=error)):
                self.reset_session(group, member)

    # Sessions

    def reset_session(self, group: ClassicGroup, member: Member, timeout_ms: int | None = None) -> None:
        """Extends the session of a member that gave a sign of life: it ends after `timeout_ms`, or after its session timeout."""
        if member.session is None:
            member.session = Timer(self.clock, lambda: self._run(self._session_over(group, member)))
        member.session.reset(member.session_timeout_ms if timeout_ms is None else timeout_ms)

    def _session_over(self, group: ClassicGroup, member: Member) -> Result[None]:
        if member.keeps_session:
            return NOTHING  # a parked request waits for the coordinator; the session starts anew with the answer
        logger.info("group %s: the session of %s has expired", group.group_id, member.member_id)
        self.drop(group, member)
        return self.after_removal(group, f"the session of {member.member_id} has expired")

    def hold_pending(self, group: ClassicGroup, member_id: str, timeout_ms: int) -> None:
        """Keeps a member id that was handed out until a client joins with it or the time is over, or until there are too many."""

        def over() -> Result[None]:
            group.remove(member_id)
            return self._complete_if_all_joined(group)

        pending = self._pending_ids.hold(self.clock, member_id, timeout_ms, lambda: self._run(over()))
        group.pending_joins[member_id] = pending
        self._pending_ids.make_room(group.pending_joins)

    def drop(self, group: ClassicGroup, member: Member) -> None:
        """Removes a member. Its parked requests are answered so that a client that is still alive joins again."""
        group.answer_join(member, JoinGroupResponse(member_id="", error_code=ErrorCode.UNKNOWN_MEMBER_ID))
        group.answer_sync(member, SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
        group.remove(member.member_id)

    def fence(self, group: ClassicGroup, member: Member) -> None:
        """Answers the parked requests of a static member's former self with FENCED_INSTANCE_ID."""
        group.answer_join(member, JoinGroupResponse(member_id=member.member_id, error_code=ErrorCode.FENCED_INSTANCE_ID))
        group.answer_sync(member, SyncGroupResponse(error_code=ErrorCode.FENCED_INSTANCE_ID))

    def after_removal(self, group: ClassicGroup, reason: str) -> Result[None]:
        """Goes on without the members that were just removed."""
        if group.state in (State.STABLE, State.COMPLETING_REBALANCE):
            return self.prepare(group, reason)
        return self._complete_if_all_joined(group)

    def _complete_if_all_joined(self, group: ClassicGroup) -> Result[None]:
        if group.state is State.PREPARING_REBALANCE and group.all_joined:
            return self.complete_join(group)
        return NOTHING

    # The group as a whole

    def loaded(self, group: ClassicGroup) -> Result[None]:
        """Starts the sessions of a group's members after it was loaded."""
        for member in group.members.values():
            self.reset_session(group, member)
        if len(group.members) > self.settings.max_size:
            return self.prepare(group, f"its {len(group.members)} members exceed group.max.size")
        return NOTHING

    def discard(self, group: ClassicGroup, error: ErrorCode) -> None:
        """Stops the timers of a group that was deleted or moved to another broker, and answers waiting requests with `error`."""
        group.move(State.DEAD, self.clock.now_ms())
        for timer in (group.join_timer, group.sync_timer, *group.pending_joins.values()):
            if timer is not None:
                timer.cancel()
        for member in group.members.values():
            if member.session is not None:
                member.session.cancel()
            group.answer_join(member, JoinGroupResponse(member_id=member.member_id, error_code=error))
            group.answer_sync(member, SyncGroupResponse(error_code=error))

    def _set_join_timer(self, group: ClassicGroup, delay_ms: int, step: Callable[[], Result[None]]) -> None:
        if group.join_timer is not None:
            group.join_timer.cancel()
        group.join_timer = Timer(self.clock, lambda: self._run(step()))
        group.join_timer.reset(delay_ms)

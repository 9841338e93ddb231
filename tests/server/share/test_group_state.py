"""These tests cover how the group coordinator's decisions about share groups' state are carried out: initialized, tried again,
recorded and deleted.
"""

from __future__ import annotations

import itertools

import pytest

from ottla.log.errors import StorageError
from ottla.server.base.promise import Promise
from ottla.server.group.errors import GroupError
from ottla.server.group.modern import operations
from ottla.server.group.result import Result
from ottla.server.group.share.protocol import Initialize, ShareProtocol
from ottla.server.group.share.state_partitions import StatePartitions, TopicPartitions
from ottla.server.share.group_state import ATTEMPTS, RETRY_SECONDS, Errors, ShareGroupState, is_enabled
from ottla.server.share_state.errors import ShareStateError
from ottla.server.share_state.state import SharePartition
from ottla.wire.errors import ErrorCode
from tests.fakes import MemoryBroker
from tests.server.coordination.memory import TOPICS
from tests.server.group.fakes import at_once
from tests.server.group.share.driver import Driver, ShareBroker

T, U = TOPICS["t"][0], TOPICS["u"][0]
NOBODY = b"\7" * 16


class Node(ShareBroker):
    """A broker whose share groups have no state yet. `outcomes` has the outcomes of initializations, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.outcomes: list[dict[tuple[bytes, int], ErrorCode]] = []

    @property
    def of_groups(self) -> ShareGroupState:
        return self.share_group_state()

    def initialize(self, offsets: dict[bytes, dict[int, int]], state_epoch: int = 1) -> None:
        self.found(StatePartitions({topic_id: TopicPartitions("", frozenset(parts)) for topic_id, parts in offsets.items()}))
        self.of_groups.initialize("g", state_epoch, offsets, self.done)

    def done(self, errors: Errors) -> None:
        self.outcomes.append({place: error.code for place, error in errors.items()})

    def start_of(self, topic_id: bytes, partition: int) -> int | None:
        """Returns where the group begins in a partition, or None if it has no state there."""
        found = self.state.coordinator.find(SharePartition("g", topic_id, partition))
        return None if found is None else found.start_offset

    @property
    def partitions(self) -> StatePartitions:
        """Returns what the group coordinator knows of the group's state."""
        return self.groups.shard("g").protocol(ShareProtocol).group("g").state_partitions

    def found(self, partitions: StatePartitions) -> None:
        """Makes the group, with these partitions in its record."""
        protocol = self.groups.member_shard("g").protocol(ShareProtocol)
        protocol.change_state_partitions(protocol.group_or_new("g"), partitions)


def wanted(*partitions: int) -> Initialize:
    """Returns a request to initialize partitions of t from offset 7 on."""
    return Initialize(1, {T: TopicPartitions("t", frozenset(partitions), 5)}, {T: 7})


@pytest.mark.parametrize(("level", "enabled"), [(None, False), (0, False), (1, True), (2, True)])
def test_there_are_share_groups_from_the_feature_s_first_level_on(level: int | None, enabled: bool) -> None:
    image = MemoryBroker({}).image
    image.features.clear()
    if level is not None:
        image.features["share.version"] = level
    assert is_enabled(image) == enabled


# Begun


def test_what_nothing_is_in_the_way_of_is_begun_at_once() -> None:
    node = Node()
    node.initialize({T: {0: 5, 2: -1}, U: {0: 9}}, state_epoch=4)
    assert node.outcomes == [{}]
    assert [node.start_of(T, index) for index in range(3)] == [5, None, -1]
    assert node.start_of(U, 0) == 9
    assert node.state.now().state_epoch == 4
    assert node.clock.waiting == 0


def test_what_is_refused_for_good_is_not_tried_again_and_the_rest_is_done() -> None:
    node = Node()
    node.state.begin(SharePartition("g", T, 0), state_epoch=9, start_offset=1)
    node.initialize({T: {0: 5, 1: 6}, NOBODY: {0: 7}})
    assert node.outcomes == [
        {(T, 0): ErrorCode.FENCED_STATE_EPOCH, (NOBODY, 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION},
    ]
    assert (node.start_of(T, 0), node.start_of(T, 1)) == (1, 6)
    assert node.clock.waiting == 0


def test_only_what_is_not_there_yet_is_tried_again() -> None:
    node = Node()
    log = node.state.log
    places = [node.state.coordinator.partition_for(SharePartition("g", T, index)) for index in range(3)]
    missing = places[0]
    log.leaders[missing] = None
    node.initialize({T: {0: 5, 1: 6, 2: 7}, NOBODY: {0: 8}})
    assert node.outcomes == []
    begun = {index for index in range(3) if places[index] != missing}
    assert begun
    assert [node.start_of(T, index) for index in sorted(begun)] == [5 + index for index in sorted(begun)]
    written = len(log.records())
    log.leaders[missing] = 1
    node.clock.advance(RETRY_SECONDS)
    assert node.outcomes == [{(NOBODY, 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}]
    assert [node.start_of(T, index) for index in range(3)] == [5, 6, 7]
    assert len(log.records()) == written + 3 - len(begun), "the others' state is not written again"


def test_a_topic_that_keeps_state_is_made_and_waited_for() -> None:
    node = Node()
    log = node.state.log
    log.batches, batches = [], log.batches
    node.initialize({T: {0: 5}})
    assert (node.state.created, node.outcomes) == (1, [])
    node.clock.advance(RETRY_SECONDS * 0.9)
    assert node.state.created == 1
    log.batches = batches
    node.clock.advance(RETRY_SECONDS * 0.1)
    assert node.outcomes == [{}]


def test_it_is_given_up_after_a_while() -> None:
    node = Node()
    node.state.log.fail = StorageError("gone")
    node.initialize({T: {0: 5}})
    node.clock.advance(RETRY_SECONDS * (ATTEMPTS - 1.5))
    assert node.outcomes == []
    node.clock.advance(RETRY_SECONDS)
    assert node.outcomes == [{(T, 0): ErrorCode.NOT_COORDINATOR}]
    assert node.clock.waiting == 0


def test_a_partition_that_is_begun_at_last_is_no_error() -> None:
    node = Node()
    node.state.log.fail = StorageError("gone")
    node.initialize({T: {0: 5}})
    node.clock.advance(1)
    node.state.log.fail = None
    node.clock.advance(1)
    assert node.outcomes == [{}]


@pytest.mark.parametrize("seconds", [0, RETRY_SECONDS / 2])
def test_what_is_deleted_before_an_attempt_is_not_initialized_by_it(seconds: float) -> None:
    """Else state would stay of a group that nobody knows. A deletion may come before the first attempt, or between two."""
    node = Node()
    node.found(StatePartitions().begun(wanted(0, 1).topics))
    leaders, node.state.log.leaders = node.state.log.leaders, [None] * len(node.state.log.leaders)
    node.of_groups.initialize_after_heartbeat("g", wanted(0, 1))
    if seconds:
        node.clock.advance(seconds)
    node.state.log.leaders = leaders
    node.of_groups.delete_all("g")
    node.groups.shard("g").run(Result(node.groups.shard("g").groups["g"].tombstones(), None))
    node.clock.advance(RETRY_SECONDS)
    assert [node.start_of(T, index) for index in range(3)] == [None, None, None]
    assert node.clock.waiting == 0


def test_of_a_group_that_another_broker_has_now_nothing_is_known() -> None:
    node = Node()
    missing, node.state.log.leaders = node.state.log.leaders, [None] * len(node.state.log.leaders)
    node.initialize({T: {0: 5}})
    node.state.log.leaders = missing
    node.log.leaders = [None] * len(node.log.leaders)
    node.groups.refresh()
    node.clock.advance(RETRY_SECONDS)
    assert node.start_of(T, 0) == 5, "what its record wanted is done"


# Recorded


def test_after_a_heartbeat_it_is_begun_in_the_next_turn_and_recorded() -> None:
    node = Node()
    node.found(StatePartitions().begun(wanted(0, 1).topics))
    node.of_groups.initialize_after_heartbeat("g", wanted(0, 1))
    assert node.start_of(T, 0) is None, "the member has no answer yet"
    node.clock.advance(0)
    assert [node.start_of(T, index) for index in range(3)] == [7, 7, None]
    assert node.state.now().state_epoch == 1
    assert (node.partitions.initializing, node.partitions.initialized[T].partitions) == ({}, frozenset({0, 1}))


def test_after_an_error_all_of_it_is_as_if_never_begun() -> None:
    node = Node()
    node.found(StatePartitions().begun(wanted(0, 1).topics))
    node.state.topics[T] = 1
    node.of_groups.initialize_after_heartbeat("g", wanted(0, 1))
    node.clock.advance(0)
    assert node.start_of(T, 0) == 7
    assert (node.partitions.initializing, node.partitions.initialized) == ({}, {})


def test_an_outcome_that_cannot_be_recorded_is_told_to_the_log_alone(caplog: pytest.LogCaptureFixture) -> None:
    node = Node()
    node.of_groups.finish("g", wanted(0), {})
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    node.found(StatePartitions().begun(wanted(0).topics))
    node.log.fail = StorageError("gone")
    node.of_groups.finish("g", wanted(0), {})
    assert node.partitions.initializing[T].partitions == {0}


# Forgotten


def test_what_is_deleted_is_told_by_topic() -> None:
    node = Node()
    node.initialize({T: {0: 5, 1: 5}, U: {0: 5}})
    outcome = at_once(node.of_groups.delete("g", {T: [0, 1], NOBODY: [0, 1]}))
    assert outcome.pop(T) is None
    (error,) = outcome.values()
    assert isinstance(error, ShareStateError)
    assert error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert outcome.keys() == {NOBODY}
    assert [node.start_of(T, 0), node.start_of(T, 1), node.start_of(U, 0)] == [None, None, 5]


def test_one_refused_partition_does_not_keep_the_others_of_its_topic() -> None:
    node = Node()
    node.initialize({T: {0: 5, 1: 5}})
    outcome = at_once(node.of_groups.delete("g", {T: [0, 9, 1]}))
    error = outcome[T]
    assert error is not None
    assert error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (node.start_of(T, 0), node.start_of(T, 1)) == (None, None)


def test_a_group_s_state_goes_with_it_wherever_it_is() -> None:
    node = Node()
    node.initialize({T: {0: 5, 1: 5, 2: 5}, U: {0: 5}})
    node.found(
        StatePartitions(
            initializing={T: TopicPartitions("t", frozenset({1}))},
            initialized={T: TopicPartitions("t", frozenset({0}))},
            deleting={U: "u", NOBODY: "gone"},
        )
    )
    node.of_groups.delete_all("g")
    assert [node.start_of(T, 0), node.start_of(T, 1), node.start_of(U, 0)] == [None, None, None]
    assert node.start_of(T, 2) == 5, "the group has nothing to do with that"
    assert node.partitions == StatePartitions(deleting={T: "t", U: "u"})


def test_what_could_not_be_forgotten_keeps_the_group() -> None:
    node = Node()
    node.initialize({T: {0: 5}})
    node.found(StatePartitions(initialized={T: TopicPartitions("t", frozenset({0, 9}))}))
    with pytest.raises(GroupError) as error:
        node.of_groups.delete_all("g")
    assert error.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert node.partitions == StatePartitions(deleting={T: "t"}), "the next who deletes it tries again"


def test_a_group_that_began_nowhere_has_nothing_to_forget() -> None:
    driver = Driver()
    driver.join("m", "nowhere")
    with pytest.raises(GroupError) as error:
        driver.broker.share_group_state().delete_all("g")
    assert error.value.code is ErrorCode.NON_EMPTY_GROUP
    driver.beat("m", -1)
    written = len(driver.broker.log.records())
    driver.broker.share_group_state().delete_all("g")
    assert len(driver.broker.log.records()) == written


# In turns


class SlowNode(Node):
    """Every step takes a turn on it."""

    def __init__(self) -> None:
        super().__init__()
        self.groups.member_shard("g")  # loads it
        looked = itertools.count(1)
        self.clock.ticks_ns = lambda: 6_000_000 * next(looked)  # type: ignore[method-assign]  # of this clock only

    def starts(self) -> list[int | None]:
        return [self.start_of(T, index) for index in range(3)]


def test_partitions_are_initialized_in_turns() -> None:
    node = begun()
    assert node.outcomes == []
    node.clock.advance(0)
    assert (node.outcomes, node.starts()) == ([{}], [5, 6, 7])
    assert node.clock.waiting == 0


def begun() -> SlowNode:
    """Returns a node on which one of three partitions is initialized."""
    node = SlowNode()
    node.state.coordinator.refresh()
    node.clock.advance(0)
    node.initialize({T: {0: 5, 1: 6, 2: 7}})
    assert node.starts() == [5, None, None]
    return node


def test_a_deletion_waits_for_what_is_being_initialized() -> None:
    """Else state would come to be after it, of a group that nobody knows."""
    node = begun()
    deleted = node.of_groups.delete("g", {T: [0, 1, 2]})
    assert isinstance(deleted, Promise)
    node.clock.advance(0)
    assert deleted.result() == {T: None}
    assert (node.outcomes, node.starts()) == ([{}], [None, None, None])


def test_who_no_longer_waits_lets_nobody_pass() -> None:
    node = begun()
    given_up = node.of_groups.delete("g", {T: [0, 1, 2]})
    assert isinstance(given_up, Promise)
    given_up.cancel()
    deleted = node.of_groups.delete("g", {T: [1]})
    assert isinstance(deleted, Promise)
    node.clock.advance(0)
    assert deleted.result() == {T: None}
    assert (node.outcomes, node.starts()) == ([{}], [5, None, 7])


def test_the_partitions_of_another_group_do_not_wait() -> None:
    node = begun()
    deleted = node.of_groups.delete("other", {T: [0]})
    node.clock.advance(0)
    assert node.outcomes == [{}]
    assert deleted.result() == {T: None} if isinstance(deleted, Promise) else deleted == {T: None}
    assert node.of_groups._under_way == {}


@pytest.mark.parametrize("rounds", range(3))
def test_the_end_of_an_initialization_is_recorded_in_turns_and_not_after_a_deletion(
    monkeypatch: pytest.MonkeyPatch, rounds: int
) -> None:
    """Else the group's record would say that there is state where it was deleted."""
    monkeypatch.setattr(operations, "LARGE", 0)
    node = SlowNode()
    node.found(StatePartitions().begun(wanted(0, 1).topics))
    recorded = node.of_groups.finish("g", wanted(0, 1), {})
    for _ in range(rounds):
        node.clock.next_round()
    assert isinstance(recorded, Promise)
    ends_first = recorded.done()
    node.of_groups.delete_all("g")
    node.clock.advance(0)
    assert recorded.done()
    assert (node.partitions.initializing, node.partitions.initialized) == ({}, {})
    assert ends_first == (rounds == 2)


def test_an_outcome_that_cannot_be_recorded_in_turns_is_told_to_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(operations, "LARGE", 0)
    node = SlowNode()
    node.found(StatePartitions().begun(wanted(0).topics))
    recorded = node.of_groups.finish("g", wanted(0), {})
    node.log.fail = StorageError("gone")
    node.clock.advance(0)
    assert isinstance(recorded, Promise)
    assert recorded.result() is None
    assert "cannot record" in caplog.text
    assert node.partitions.initializing[T].partitions == {0}

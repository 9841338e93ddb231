"""These tests cover coordination/shard.py: records are replayed when they are appended, and answered when they are replicated."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ottla.log.errors import CorruptLog, RecordTooLarge, StorageError
from ottla.log.markers import build_marker
from ottla.server.base.errors import NotEnoughReplicas
from ottla.server.base.promise import Promise
from ottla.server.coordination.shard import BYTES_A_STEP
from ottla.wire.batch import HEADER_SIZE, wrap
from ottla.wire.errors import ErrorCode
from tests.server.coordination.fakes import WRITE_TIMEOUT_MS, LaggingLog, Letters, Refused, batch_of
from tests.server.coordination.memory import CoordinatorClock


def shard_over(log: LaggingLog, partition: int = 0) -> Letters:
    return Letters(partition, log.epoch, lambda batch: log.append(partition, batch))


def waiting(answer: object) -> Promise[Any]:
    assert isinstance(answer, Promise)
    assert not answer.done()
    return answer


def is_loading(shard: Letters) -> bool:
    return shard.loading


def refused(answer: Promise[Any]) -> ErrorCode:
    with pytest.raises(Refused) as error:
        answer.result()
    return error.value.code


def test_where_one_replica_counts_an_answer_is_itself() -> None:
    shard = shard_over(LaggingLog(lag=False))
    shard.put("a")
    value = object()
    assert shard.answer(value) is value
    codes: list[ErrorCode] = []
    shard.when_replicated(codes.append)
    assert codes == [ErrorCode.NONE]


def test_records_are_true_at_once_and_answered_when_the_high_watermark_has_passed_them() -> None:
    log = LaggingLog()
    shard = shard_over(log)
    shard.put("a")
    answer = waiting(shard.answer("said"))
    assert shard.seen == [("a", "w", 0, -1)]
    log.replicate()
    assert answer.result() == "said"
    assert shard.answer("next") == "next"


def test_records_of_one_batch_have_offsets_one_after_the_other() -> None:
    log = LaggingLog(lag=False)
    shard = shard_over(log)
    shard.put("a")
    records = [("b", "1"), ("c", "2")]
    shard.write(batch_of(*records), records, 7)
    assert shard.seen == [("a", "w", 0, -1), ("b", "1", 1, 7), ("c", "2", 2, 7)]


def test_who_only_reads_waits_for_the_last_append() -> None:
    log = LaggingLog()
    shard = shard_over(log)
    shard.put("a")
    first = waiting(shard.answer(1))
    shard.put("b")
    read = waiting(shard.answer([letter for letter, *_ in shard.seen]))
    log.replicate()
    assert first.result() == 1
    waiting(read)
    log.replicate()
    assert read.result() == ["a", "b"]


def test_answers_keep_the_order_of_their_operations() -> None:
    log = LaggingLog()
    shard = shard_over(log)
    order: list[int] = []
    for number in range(6):
        if number % 2 == 0:
            shard.put(str(number))
        waiting(shard.answer(number)).add_done_callback(lambda answer: order.append(answer.result()))
    log.waiting[1].set_result(None)
    assert order == [], "the first append is not replicated"
    log.waiting[0].set_result(None)
    assert order == [0, 1, 2, 3]
    log.waiting[2].set_result(None)
    assert order == [0, 1, 2, 3, 4, 5]
    assert shard.unreplicated is None


def test_an_answer_may_append_again() -> None:
    log = LaggingLog()
    shard = shard_over(log)
    shard.put("a")
    shard.when_replicated(lambda code: shard.put("b"))
    after = waiting(shard.answer("after"))
    log.replicate()
    assert after.result() == "after", "it does not wait for what was appended behind it"
    waiting(shard.answer("next"))
    log.replicate()
    assert shard.answer("next") == "next"


def test_what_waits_when_the_partition_is_unloaded_is_not_the_coordinators_any_more() -> None:
    log = LaggingLog()
    shard = shard_over(log)
    shard.put("a")
    codes: list[ErrorCode] = []
    answer = waiting(shard.answer("said"))
    shard.when_replicated(codes.append)
    shard.unload()
    assert refused(answer) is ErrorCode.NOT_COORDINATOR
    assert codes == [ErrorCode.NOT_COORDINATOR]
    log.replicate()
    assert codes == [ErrorCode.NOT_COORDINATOR], "it is answered once"


def test_an_answer_may_end_the_shard_and_those_behind_it_are_answered_once() -> None:
    log = LaggingLog()
    shard = shard_over(log)
    shard.put("a")
    codes: list[ErrorCode] = []
    shard.when_replicated(lambda code: shard.unload())
    shard.when_replicated(codes.append)
    shard.put("b")
    shard.when_replicated(codes.append)
    log.replicate_all()
    assert codes == [ErrorCode.NOT_COORDINATOR] * 2


def test_a_lost_leadership_is_one_line_however_many_appends_it_takes_back(caplog: pytest.LogCaptureFixture) -> None:
    log = LaggingLog()
    shard = shard_over(log)
    for letter in "abc":
        shard.put(letter)
    log.lose()
    assert caplog.messages == ["partition 0 of __letters was not replicated: led by another broker"]
    shard.unload()
    assert len(caplog.messages) == 1


def test_a_shard_that_was_unloaded_says_nothing_of_appends_that_fail_later(caplog: pytest.LogCaptureFixture) -> None:
    log = LaggingLog()
    shard = shard_over(log)
    shard.put("a")
    shard.unload()
    log.lose()
    assert caplog.messages == []


def test_an_unloaded_shard_neither_writes_nor_answers() -> None:
    log = LaggingLog(lag=False)
    shard = shard_over(log)
    shard.unload()
    with pytest.raises(Refused) as error:
        shard.put("a")
    assert error.value.code is ErrorCode.NOT_COORDINATOR
    assert (shard.seen, log.batches) == ([], [[]])
    late = shard.answer("said")
    assert isinstance(late, Promise)
    assert refused(late) is ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize("error", [None, StorageError("the disk"), OSError("the disk")])
def test_an_append_that_is_not_replicated_is_refused_and_so_is_all_that_saw_it(error: Exception | None) -> None:
    log = LaggingLog()
    shard = shard_over(log)
    shard.put("a")
    first = waiting(shard.answer(1))
    shard.put("b")
    second = waiting(shard.answer(2))
    log.lose(error)
    assert [refused(first), refused(second)] == [ErrorCode.NOT_COORDINATOR] * 2
    with pytest.raises(Refused):
        shard.put("c")
    third = shard.answer(3)
    assert isinstance(third, Promise)
    assert refused(third) is ErrorCode.NOT_COORDINATOR


def test_who_is_gone_is_not_answered() -> None:
    log = LaggingLog()
    shard = shard_over(log)
    shard.put("a")
    gone, there = waiting(shard.answer(1)), waiting(shard.answer(2))
    gone.cancel()
    log.replicate()
    assert gone.cancelled()
    assert there.result() == 2


def test_an_answer_can_be_awaited() -> None:
    async def ask() -> object:
        log = LaggingLog()
        shard = shard_over(log)
        shard.put("a")
        answer = waiting(shard.answer("said"))
        asyncio.get_running_loop().call_soon(log.replicate)
        return await answer

    assert asyncio.run(ask()) == "said"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (StorageError("offline"), ErrorCode.NOT_COORDINATOR),
        (OSError("no room"), ErrorCode.NOT_COORDINATOR),
        (RecordTooLarge("large"), ErrorCode.MESSAGE_TOO_LARGE),
        (NotEnoughReplicas("alone"), ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
)
def test_an_append_that_fails_changes_nothing(error: Any, code: ErrorCode, caplog: pytest.LogCaptureFixture) -> None:
    log = LaggingLog(2)
    log.fail = error
    shard = shard_over(log, 1)
    with pytest.raises(Refused) as refusal:
        shard.put("a")
    assert refusal.value.code is code
    assert shard.seen == []
    assert shard.answer("said") == "said"
    quiet = isinstance(error, NotEnoughReplicas)  # every request would say so
    assert caplog.messages == [f"partition 1 of __letters: {error} ({code.name})"] * (not quiet)
    log.fail = None
    shard.put("a")
    assert shard.seen == [("a", "w", 0, -1)]


# How long an answer waits


def limited(log: LaggingLog) -> tuple[Letters, CoordinatorClock]:
    clock = CoordinatorClock()
    return Letters(0, log.epoch, lambda batch: log.append(0, batch), clock), clock


def test_an_answer_waits_for_replicas_no_longer_than_the_coordinator_allows(caplog: pytest.LogCaptureFixture) -> None:
    log = LaggingLog()
    shard, clock = limited(log)
    shard.put("a")
    written, codes = waiting(shard.answer("written")), waiting(shard.answer_or("read", lambda code: code.name))
    parked: list[ErrorCode] = []
    shard.when_answerable(parked.append)
    clock.advance(WRITE_TIMEOUT_MS / 1000 - 0.01)
    waiting(written)
    clock.advance(0.01)
    assert refused(written) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert (codes.result(), parked) == ("COORDINATOR_NOT_AVAILABLE", [ErrorCode.COORDINATOR_NOT_AVAILABLE])
    assert caplog.messages == [], "every request would say so"


def test_what_was_written_stays_and_counts_when_it_is_replicated_after_all() -> None:
    log = LaggingLog()
    shard, clock = limited(log)
    shard.put("a")
    late = waiting(shard.answer("late"))
    then: list[ErrorCode] = []
    shard.when_replicated(then.append)
    clock.advance(WRITE_TIMEOUT_MS / 1000)
    assert refused(late) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert shard.seen == [("a", "w", 0, -1)]
    assert then == [], "what has to follow a write waits as long as it takes"
    read = waiting(shard.answer("read"))
    log.replicate()
    assert (read.result(), then) == ("read", [ErrorCode.NONE])
    assert shard.answer("next") == "next"
    clock.advance(WRITE_TIMEOUT_MS / 1000)
    assert read.result() == "read"


def test_each_answer_has_its_own_limit_and_one_timer_rings_for_all() -> None:
    log = LaggingLog()
    shard, clock = limited(log)
    shard.put("a")
    first, longer = waiting(shard.answer(1)), waiting(shard.answer(2, 10_000))
    clock.advance(1)
    shorter, last = waiting(shard.answer(3, 500)), waiting(shard.answer(4))
    assert clock.waiting == 1
    clock.advance(0.5)
    assert refused(shorter) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    waiting(first)
    clock.advance(0.5)
    assert refused(first) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    waiting(last)
    clock.advance(1)
    assert refused(last) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    waiting(longer)
    shard.put("b")
    log.replicate_all()
    assert longer.result() == 2
    clock.advance(10)
    assert clock.waiting == 0


def test_an_answer_that_goes_out_in_time_is_forgotten() -> None:
    log = LaggingLog()
    shard, clock = limited(log)
    for letter in "abc":
        shard.put(letter)
        waiting(shard.answer(letter))
        log.replicate()
    assert shard._deadlines is not None
    assert len(shard._deadlines) == 1
    assert clock.armed == 1


def test_an_answer_that_ends_the_shard_takes_those_with_it_that_are_late_as_well() -> None:
    log = LaggingLog()
    shard, clock = limited(log)
    shard.put("a")
    codes: list[ErrorCode] = []
    shard.when_answerable(lambda code: shard.unload())
    shard.when_answerable(codes.append)
    clock.advance(WRITE_TIMEOUT_MS / 1000)
    assert codes == [ErrorCode.NOT_COORDINATOR]


def test_a_shard_that_is_unloaded_leaves_no_timer() -> None:
    log = LaggingLog()
    shard, clock = limited(log)
    shard.put("a")
    answer = waiting(shard.answer("said", 900_000))
    shard.unload()
    assert refused(answer) is ErrorCode.NOT_COORDINATOR
    assert clock.waiting == 0


def test_where_one_replica_counts_there_is_no_limit_to_keep() -> None:
    clock = CoordinatorClock()
    log = LaggingLog(lag=False)
    shard = Letters(0, log.epoch, lambda batch: log.append(0, batch), clock)
    shard.put("a")
    codes: list[ErrorCode] = []
    shard.when_answerable(codes.append)
    assert (shard.answer("said", 1), codes) == ("said", [ErrorCode.NONE])
    assert (shard._deadlines, clock.armed) == (None, 0)


# Loading


def test_loading_is_the_same_replay() -> None:
    log = LaggingLog(lag=False)
    before = shard_over(log)
    before.put("a")
    records = [("b", "1"), ("c", "2")]
    before.write(batch_of(*records, producer_id=7, producer_epoch=0, base_sequence=0, transactional=True), records, 7)
    log.append(0, batch_of(("unknown", "x"), ("d", "3")))
    log.append(0, build_marker(7, 0, commit=True, coordinator_epoch=0, timestamp_ms=0))
    log.append(0, build_marker(8, 0, commit=False, coordinator_epoch=0, timestamp_ms=0))
    after = shard_over(log)
    assert is_loading(after)
    steps = list(after.load(lambda: log.read(0), lambda: log.replicated(0)))
    assert not is_loading(after)
    assert len(steps) == 5, "a batch a step"
    assert after.seen == [*before.seen, ("d", "3", 4, -1), (7, True), (8, False)]


def test_large_records_are_replayed_one_a_step() -> None:
    log = LaggingLog(lag=False)
    log.append(0, batch_of(*[(str(number), "v" * (BYTES_A_STEP + 1)) for number in range(5)]))
    shard = shard_over(log)
    loading = shard.load(lambda: log.read(0), lambda: log.replicated(0))
    assert [len(shard.seen) for _ in zip(range(5), loading, strict=False)] == [0, 1, 2, 3, 4]


def test_a_record_that_does_not_follow_its_schema_is_left_out_and_no_other_one(caplog: pytest.LogCaptureFixture) -> None:
    log = LaggingLog(lag=False)
    log.append(0, batch_of(("a", "1"), ("bad", "2"), ("c", "3")))
    log.append(0, batch_of(("b", "4")))
    shard = shard_over(log)
    assert len(list(shard.load(lambda: log.read(0), lambda: log.replicated(0)))) == 2
    assert shard.seen == [("a", "1", 0, -1), ("c", "3", 2, -1), ("b", "4", 3, -1)]
    assert caplog.messages == ["partition 0 of __letters: skipped a malformed record at offset 1: ValueError('a bad letter')"]


@pytest.mark.parametrize(("malformed", "lines"), [(10, 10), (11, 11), (12, 11)])
def test_many_malformed_records_get_a_few_lines_and_their_number(
    caplog: pytest.LogCaptureFixture, malformed: int, lines: int
) -> None:
    log = LaggingLog(lag=False)
    log.append(0, batch_of(*[("bad", "x")] * malformed, ("a", "1")))
    shard = shard_over(log)
    list(shard.load(lambda: log.read(0), lambda: log.replicated(0)))
    assert shard.seen == [("a", "1", malformed, -1)]
    assert len(caplog.messages) == lines
    summary = f"partition 0 of __letters: skipped {malformed} in all"
    assert (caplog.messages[-1] == summary) == (malformed > 10)


def test_records_that_cannot_be_told_apart_are_one_line(caplog: pytest.LogCaptureFixture) -> None:
    log = LaggingLog(lag=False)
    whole = batch_of(("a", "1"), ("b", "2"))
    log.append(0, wrap(whole[HEADER_SIZE:-1], 2, 0, 0))
    log.append(0, batch_of(("c", "3")))
    shard = shard_over(log)
    list(shard.load(lambda: log.read(0), lambda: log.replicated(0)))
    assert shard.seen == [("c", "3", 2, -1)]
    (line,) = caplog.messages
    assert line.startswith("partition 0 of __letters: skipped a malformed batch at offset 0: ")


def test_what_is_loaded_is_answered_when_all_of_it_is_replicated() -> None:
    log = LaggingLog()
    shard_over(log).put("a")
    shard = shard_over(log)
    list(shard.load(lambda: log.read(0), lambda: log.replicated(0)))
    assert not is_loading(shard)
    read = waiting(shard.answer(list(shard.seen)))
    shard.put("b")
    written = waiting(shard.answer("written"))
    log.replicate(2)
    assert read.result() == [("a", "w", 0, -1)]
    waiting(written)
    log.replicate()
    assert written.result() == "written"


def test_what_is_loaded_and_never_replicated_is_not_answered() -> None:
    log = LaggingLog()
    shard_over(log).put("a")
    shard = shard_over(log)
    list(shard.load(lambda: log.read(0), lambda: log.replicated(0)))
    answer = waiting(shard.answer("said"))
    log.lose()
    assert refused(answer) is ErrorCode.NOT_COORDINATOR


def test_a_shard_that_has_ended_waits_for_nothing_more() -> None:
    shard = shard_over(LaggingLog())
    shard.unload()
    shard.await_replication(Promise())
    late = shard.answer("said")
    assert isinstance(late, Promise)
    assert refused(late) is ErrorCode.NOT_COORDINATOR


def test_what_follows_the_replay_is_done_in_steps_of_its_own() -> None:
    shard = shard_over(LaggingLog())
    shard.steps = 2
    loading = shard.load(lambda: iter(()), lambda: None)
    next(loading)
    assert not shard.loading
    assert len(list(loading)) == 1


def test_what_reading_raises_comes_through() -> None:
    def broken() -> Any:
        raise CorruptLog("bad segment")

    shard = shard_over(LaggingLog())
    with pytest.raises(CorruptLog):
        list(shard.load(broken, lambda: None))
    assert shard.loading

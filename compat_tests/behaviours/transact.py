"""A transaction under faults: what its application is told, and what readers of committed records see."""

from __future__ import annotations

from dataclasses import dataclass, field

from compat_tests.behaviours.cell import SECONDS, Cell, after, counted, outcome
from compat_tests.behaviours.clients import KAFKAJS, SARAMA
from compat_tests.behaviours.driver import Answer
from compat_tests.behaviours.produce import Given, told

NAME = "transaction"
ENDS_AT_THE_SEND = (SARAMA, KAFKAJS)
"""Clients whose sends wait for the answer, and end with an error then. With the others, applications may go on to the commit."""
SEND_SECONDS = 2.0
"""The time that a record under faults has before the commit: after some errors, librdkafka leaves that open until an abort."""
IN_SPITE = "but the commit succeeds"


def step(cell: Cell, value: str, of: str = "p", end: str = "commit", seconds: float = SECONDS) -> tuple[str, Answer]:
    """Does a transaction with a record, which has so many seconds before its end: returns what was told by which step, and that
    step's answer. No words if all went well."""
    answer = cell.end("begin", of)
    if words := outcome(answer, ""):
        return f"{words} at the begin", answer
    sent = cell.send(value, of=of, seconds=seconds)
    if not sent.hangs and (words := told(sent)) != "delivered" and cell.client in ENDS_AT_THE_SEND:
        return f"{words} at the send", sent
    answer = cell.end(end, of)
    if words := outcome(answer, ""):
        return f"{words} at the {end}", answer
    if not sent.hangs and (words := told(sent)) != "delivered":
        return f"{words} for the record, {IN_SPITE}", answer
    return "", answer


@dataclass(frozen=True)
class Transacts:
    """Does a transaction without faults, one with them, and one after them; the second is aborted if it failed."""

    faults: tuple[Given, ...]
    settings: Given = field(default_factory=dict)

    def __call__(self, cell: Cell) -> str:
        ready = cell.producer(transactional_id=NAME, **self.settings)
        if words := outcome(ready, ""):
            return words
        words, _ = step(cell, "zero")
        if words:
            return f"without a fault: {words}"
        faults = [cell.fault(**given) for given in self.faults]
        words, answer = step(cell, "one", seconds=SEND_SECONDS)
        if not any(fault.hits for fault in faults):
            return "does not ask"
        cell.remove_faults()
        then = "" if answer.hangs else f"; {self._next(cell, failed=bool(words) and IN_SPITE not in words)}"
        cell.close()
        seen = cell.log(committed=True).count("one")
        words = words or "committed"
        return f"{words}{'' if answer.hangs else after(answer.seconds)}, {counted(seen, 'record')}{then}"

    @staticmethod
    def _next(cell: Cell, *, failed: bool) -> str:
        """Says whether the producer can go on."""
        if failed:
            aborted = cell.end("abort")
            if words := outcome(aborted, ""):
                return f"abort: {words}"
        words, _ = step(cell, "two")
        aborts = "after an abort it goes on" if failed else "goes on"
        return f"the next: {words}" if words else aborts


def fenced(cell: Cell) -> str:
    """Has a second producer take over the transactional id in the middle of a transaction of the first."""
    cell.producer("p", transactional_id=NAME)
    cell.end("begin", "p")
    cell.send("one", of="p")
    second = cell.producer("q", transactional_id=NAME)
    words, _ = step(cell, "two", of="q")
    answer = cell.end("commit", "p")
    cell.close()
    seen = cell.log(committed=True)
    fate = "the first's record is gone" if "one" not in seen else "the first's record is there"
    return f"{outcome(answer, 'commits')}; {fate}" + (f"; the second: {outcome(second, '') or words}" if words else "")


def timed_out(cell: Cell) -> str:
    """Has the broker abort a transaction that took too long, before it is committed."""
    cell.producer(transactional_id=NAME)
    cell.end("begin")
    cell.send("one")
    aborted = cell.broker.clock.advance(minutes=20)["aborted_transactions"]
    assert aborted, "the broker has not aborted it"
    answer = cell.end("commit")
    words = outcome(answer, "commits")
    then = ""
    if answer.error is not None:
        then = f"; {Transacts._next(cell, failed=True)}"
    cell.close()
    return f"{words}, {counted(cell.log(committed=True).count('one'), 'record')}{then}"


def reads_aborted(cell: Cell) -> str:
    """Says whether a consumer as it is by itself shows records of an aborted transaction."""
    with_id = cell.producer(transactional_id=NAME)
    if with_id.error is not None:
        return outcome(with_id, "")
    step(cell, "aborted", end="abort")
    step(cell, "committed")
    cell.consumer()
    cell.wait(lambda: "committed" in cell.records())
    return "shows it" if "aborted" in cell.records() else "leaves it out" if "committed" in cell.records() else "shows nothing"
